"""A proxy with a few free numbers, fitted to the target's answers that a run pays for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Vector, to_numpy
from proxyprox._util.validation import message
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Facts, Secant

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ParametricPolicy:
    """What the parameters of a proxy are fitted by; benchmarks/several_proxies.py set it.

    Attributes
    ----------
    answers : int
        The target's last answers that are fitted to.
    moved, leap : float
        The relative changes of a parameter for which the proxy is made anew, and for which its new
        minimum is worth a look.
    singular, blind : float
        A direction of relative singular value below the first was not seen; a parameter of which
        more than the second lies in such directions is undetermined.
    broken : float
        The misfit of a model that is not finite.
    """

    answers: int = 6
    moved: float = 1e-3
    leap: float = 0.03
    singular: float = 1e-6
    blind: float = 1e-3
    broken: float = 1e6


@dataclass(frozen=True)
class Identified:
    """Parameters fitted to observations, with 95 % intervals.

    ``undetermined`` are the positions of those that the observations do not tell apart; their
    intervals are infinite.
    """

    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    undetermined: tuple[int, ...] = ()


def identify(
    misfit: Callable[[Array], Array],
    theta0: Sequence[float] | Array,
    bounds: tuple[Any, Any],
    *,
    blocks: Array | None = None,
    confidence: float = 0.95,
    diff_step: float | None = None,
) -> Identified:
    """Return the parameters of the least squared misfit.

    The intervals are those of nonlinear least squares: right if the misfit at the true parameters
    is independent noise of one size, and nearly linear in between. With ``blocks`` they are
    sandwich intervals: the noise may depend on itself within a block, and have any size.

    Parameters
    ----------
    misfit : callable
        ``misfit(theta)`` returns a vector: predictions minus observations.
    theta0 : sequence of float
        Where to begin.
    bounds : pair
        Lower and upper limits, numbers or sequences.
    blocks : array of int, optional
        The number of each observation's block, from 0 on.
    confidence : float
        Of the intervals.
    diff_step : float, optional
        Relative steps of differences; SciPy's by default.

    Examples
    --------
    >>> t = np.linspace(0, 1, 20)
    >>> seen = 2 * np.exp(-3 * t)
    >>> found = identify(lambda p: p[0] * np.exp(-p[1] * t) - seen, [1.0, 1.0], (0, 10))
    >>> np.round(found.values, 4)
    array([2., 3.])
    """
    # Here, because both take long to import.
    from scipy.optimize import least_squares
    from scipy.special import stdtrit

    start = np.clip(np.asarray(theta0, dtype=np.float64), *bounds)
    size = np.where(start != 0, np.abs(start), 1.0)

    def finite(theta: Array) -> Array:
        # Where a model breaks down it fits worse than anything.
        values = np.asarray(misfit(theta), dtype=np.float64)
        return np.where(np.isfinite(values), values, ParametricPolicy.broken)

    found = least_squares(
        finite, start, bounds=bounds, x_scale=size, xtol=1e-10, ftol=1e-10, diff_step=diff_step
    )
    J = found.jac * size
    _, singular, V = np.linalg.svd(J, full_matrices=False)
    seen = singular > ParametricPolicy.singular * (singular[0] or 1.0)
    # What lies in directions that nothing was seen of.
    blind = 1 - np.einsum("ij,ij->j", V[seen], V[seen]) > ParametricPolicy.blind
    inverse = (V[seen].T / singular[seen] ** 2) @ V[seen]
    count = len(found.fun) if blocks is None else int(blocks[-1]) + 1
    freedom = max(count - len(start), 0)
    half = np.full(len(start), math.inf)
    if freedom:
        if blocks is None:
            spread = np.diag(inverse) * 2 * found.cost / freedom
        else:
            scores = np.zeros((count, len(start)))
            np.add.at(scores, blocks, J * found.fun[:, None])
            spread = np.square(scores @ inverse).sum(axis=0) * count / freedom
        half = size * np.sqrt(spread) * stdtrit(freedom, (1 + confidence) / 2)
    half = np.where(blind, math.inf, half)
    values, low, high = (tuple(map(float, x)) for x in (found.x, found.x - half, found.x + half))
    return Identified(values, low, high, tuple(map(int, np.flatnonzero(blind))))


@dataclass(frozen=True)
class Fitted:
    """The parameters in use, and the target's answers that they are fitted to.

    ``answers`` are gradients, or the model's outputs; a loss that is not known is NaN. ``base``
    are the parameters whose proxy's minimum was looked at last, ``unit`` is the norm of the first
    answer.
    """

    numbers: tuple[float, ...]
    points: tuple[Vector, ...] = ()
    answers: tuple[Vector, ...] = ()
    losses: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    undetermined: tuple[int, ...] = ()
    base: tuple[float, ...] = ()
    unit: float = 0.0
    leap: bool = False


class Parametric:
    """A proxy with a few free numbers, such as a friction constant, that a run fits on the way.

    The target's gradients and losses, or the outputs of its model, which the run pays for anyway,
    are what the proxy's are fitted to. The result's message names the parameters with 95 %
    intervals, and those that cannot be told apart. :func:`~proxyprox.problems.parametric.identify`
    is the same fit for observations of your own.

    Parameters
    ----------
    build : callable
        ``build(theta)`` returns the proxy: a loss with ``value`` and ``gradient``.
    theta0 : sequence of float
        The parameters to begin with.
    bounds : pair of sequences of float, optional
        Their limits.

    Examples
    --------
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> target = Quadratic(np.diag([3.0, 6.0]), b=np.array([-3.0, 6.0]))
    >>> def build(theta):
    ...     return Quadratic(theta[0] * np.diag([1.0, 2.0]), b=np.array([-3.0, 6.0]))
    >>> proxy = Parametric(build, [2.0], ([0.1], [10.0]))
    >>> result = minimize(Problem(target, proxy))
    >>> result.w.round(6), "theta[0] = 3 " in result.message
    (array([ 1., -1.]), True)
    """

    def __init__(
        self, build: Callable[[Array], Any], theta0: Sequence[float], bounds: Any = None
    ) -> None:
        check.require_takes("build", build, ("theta",))
        self.build, self.theta0 = build, np.atleast_1d(np.asarray(theta0, dtype=np.float64))
        low, high = (-math.inf, math.inf) if bounds is None else bounds
        limits = [np.broadcast_to(np.asarray(x, float), self.theta0.shape) for x in (low, high)]
        self.bounds = (limits[0], limits[1])
        inside = (limits[0] <= self.theta0) & (self.theta0 <= limits[1])
        if (
            self.theta0.ndim != 1
            or not self.theta0.size
            or not (inside & (limits[0] < limits[1])).all()
        ):
            raise ValueError(message("theta0", theta0, f"a vector inside the bounds {bounds}"))
        self.first = build(self.theta0.copy())
        check.require("Parametric", "build(theta0)", self.first, ("value", "gradient"), "")
        names = ("dim", "value", "gradient", "hvp", "hessian", "cost", "smoothness", "outputs")
        for name in (*names, "loss_of", "terms", "slopes", "hessian_of"):
            if getattr(self.first, name, None) is not None:
                setattr(self, name, getattr(self.first, name))

    @property
    def facts(self) -> Facts:
        """What is known of the proxy at the first parameters."""
        return replace(facts_of(self.first), learns=True, hessian_terms=None)

    def begin(self, w: Vector, meter: Callable[..., Any]) -> Fitted:
        """Return the first parameters."""
        numbers = tuple(map(float, self.theta0))
        return Fitted(numbers, base=numbers)

    def using(self, state: Fitted, meter: Callable[..., Any]) -> Any:
        """Return the proxy with the parameters in use."""
        first = state.numbers == tuple(self.theta0)
        return meter(self.first if first else self.build(np.array(state.numbers)), "")

    def learn(
        self, state: Fitted, secants: Sequence[Secant], k: int, meter: Callable[..., Any]
    ) -> Fitted:
        """Return the parameters after the target has answered."""
        policy = ParametricPolicy
        points, answers, losses = list(state.points), list(state.answers), list(state.losses)
        for secant in secants:
            points.append(secant.points[0])
            answers.append(secant.gradients[0] if secant.outputs is None else secant.outputs)
            losses.append(secant.loss)
        points, answers, losses = (part[-policy.answers :] for part in (points, answers, losses))
        wanted = [to_numpy(answer).astype(np.float64) for answer in answers]
        outputs = secants[0].outputs is not None
        norms = [float(np.linalg.norm(answer)) for answer in wanted]
        unit = state.unit or norms[0] or 1.0
        # A point far away, where answers are huge, must not decide alone. Near the minimum the two
        # losses differ in slope however small that is: only changes count there in full.
        sizes = [max(norm, unit) for norm in norms]
        changes = [] if outputs else [*np.diff(wanted, axis=0)]
        lengths = [float(np.linalg.norm(change)) or 1.0 for change in changes]
        best = int(np.nanargmin(losses)) if np.isfinite(losses).any() else 0
        falls = [(i, loss - losses[best]) for i, loss in enumerate(losses) if loss > losses[best]]

        def misfit(theta: Array) -> Array:
            proxy = meter(self.build(theta), "")
            gradients = (to_numpy(proxy.gradient(w)) for w in points)
            found = proxy.outputs(points) if outputs else [*gradients]
            parts = [(a - b) / size for a, b, size in zip(found, wanted, sizes, strict=True)]
            if changes:
                own = np.diff(found, axis=0)
                parts += [(a - b) / size for a, b, size in zip(own, changes, lengths, strict=True)]
            for i, fall in falls:
                way = float(np.linalg.norm(to_numpy(points[i] - points[best])))
                gap = proxy.value(points[i]) - proxy.value(points[best]) - fall
                parts.append(np.array([gap / max(fall, unit * way)]))
            return np.concatenate(parts)

        found = identify(misfit, state.numbers, self.bounds)
        moved, far = (
            _change(found.values, old) > limit
            for old, limit in ((state.numbers, policy.moved), (state.base, policy.leap))
        )
        return Fitted(
            found.values if moved else state.numbers, tuple(points), tuple(answers), tuple(losses),
            found.low, found.high, found.undetermined, found.values if far else state.base, unit,
            far,
        )  # fmt: skip

    def words(self, state: Fitted) -> str:
        """Say what was fitted, how surely, and what could not be told apart."""
        numbers, ends = np.array(state.numbers), [""] * len(state.numbers)
        if state.low:
            # The parameters in use may be a little older.
            known = np.isfinite(state.high)
            numbers[known] = np.array([state.low, state.high])[:, known].mean(axis=0)
            pairs = zip(state.low, state.high, strict=True)
            ends = [f" ({low:.4g} to {high:.4g})" for low, high in pairs]
        found = zip(numbers, ends, strict=True)
        parts = [f"theta[{i}] = {x:.4g}{end}" for i, (x, end) in enumerate(found)]
        text = f"Of the proxy's parameters: {', '.join(parts)}."
        if state.undetermined:
            names = ", ".join(f"theta[{i}]" for i in state.undetermined)
            text += f" The target's answers do not tell {names} apart: give them tighter bounds."
        return text


def _change(new: Sequence[float], old: Sequence[float]) -> float:
    """Return the largest relative change of a number."""
    sizes = np.maximum(np.abs(old), np.abs(new)).clip(1e-300)
    return float((np.abs(np.subtract(new, old)) / sizes).max(initial=0.0))
