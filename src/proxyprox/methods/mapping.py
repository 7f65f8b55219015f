r"""Manifold mapping: a coarse model's outputs are mapped to a fine one's, one fine call a step.

With the outputs f of the fine model and c of the coarse one, the model around the best point w is

.. math:: m(x) = f(w) + S\,(c(x) - c(w)), \qquad S = I + (\Delta F - \Delta C)\,\Delta C^+,

where the columns of ΔF and ΔC are the changes of both in the last d steps (Echeverría and Hemker,
2005). It agrees with f at w and, as far as the coarse model's changes are independent, at the
points before. The loss of m is minimised within a box around w, the fine model is called there, and
the box grows or shrinks by how well the loss was predicted. No derivative of f is taken.

If steps have failed several times in a row or misled twice, or nothing more is promised, one more
call near the best point shows whether f is noisy. Then SciPy's least squares (L-BFGS-B for other
losses) goes on from there with differences of f alone, and its end is judged by them. That solver
is run anew after each answer, on the answers that are known: what it asks for next, and no more, is
asked of f. So nothing of it needs to be saved but the answers.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from proxyprox._util.arrays import Vector, from_numpy, rounding, to_numpy
from proxyprox._util.validation import has
from proxyprox.inner.base import NonFiniteError
from proxyprox.methods.base import Answers, Method, OuterStep, Request
from proxyprox.penalties import Box
from proxyprox.problems.least_squares import Uncertainty, pulled, size_of, uncertainty
from proxyprox.problems.problem import facts_of
from proxyprox.result import Status

Array = np.ndarray[Any, Any]
Model = Callable[[Array], Array]


@dataclass(frozen=True)
class MappingPolicy:
    """When a mapping is trusted, and how it is used.

    docs/results/simulators/calls.md is the record; the constants were chosen on the simulators of
    experiments/simulators.py and of tuning() in experiments/calibration.py, which it does not show.

    Attributes
    ----------
    failures : int
        Steps in a row that gain next to nothing, after which differences take over.
    misled : int
        Steps in all after which the loss rose by more than it was to fall: differences take over.
    much : float
        Promises of a smaller share of the loss cannot mislead.
    gain : float
        The share of the loss that is next to nothing.
    smallest : float
        A box smaller than this, in units of the parameters, says that the mapping misleads.
    promised : float
        A step that promises a smaller share of the loss is not tried.
    followed : float
        A step that gains less than this share of what it promised is a failure, too.
    grown, shrunk : float
        How much the box grows after a gain, and shrinks after a loss. The growth keeps steps along
        flat valleys short while the mapping is young.
    dependent : float
        Changes of the coarse outputs are dependent below this share of the largest.
    searches, first_search : int
        Iterations for the loss of the mapped model; for the coarse model's own minimum.
    nearby : float
        The distance, in units of the parameters, at which outputs differ by noise alone.
    noisy : float
        Differences over that distance are noise above this share of the outputs, or of what the
        coarse ones change in a unit.
    longest : float
        The longest difference that noise leads to, in units of the parameters.
    bound : float
        Parameters that are nearer to a bound, in their units, rest there.
    done : float
        A share of the loss that is not worth another step at the end.
    """

    failures: int = 6
    misled: int = 2
    much: float = 0.01
    gain: float = 1e-5
    smallest: float = 0.03
    promised: float = 1e-8
    followed: float = 0.1
    grown: float = 1.5
    shrunk: float = 3.0
    dependent: float = 1e-6
    searches: int = 12
    first_search: int = 60
    nearby: float = 1e-9
    noisy: float = 1e-6
    longest: float = 0.3
    bound: float = 1e-6
    done: float = 1e-8


@dataclass(frozen=True)
class MappingState:
    """The best point with both models' outputs, the changes so far, and the open points.

    ``stage`` is "start", "map", "noise", "polish" or "end". ``answers`` are points and fine outputs
    since the differences began, one after the other.
    """

    w: Vector
    units: Array
    lower: Array
    upper: Array
    points: list[Array]
    k: int = 0
    stage: str = "start"
    value: float = math.inf
    fine: Any = None
    coarse: Any = None
    radius: float = 1.0
    promise: float = 0.0
    failed: int = 0
    misled: int = 0
    changes: list[Array] = field(default_factory=list)
    coarse_changes: list[Array] = field(default_factory=list)
    noise: float = 0.0
    answers: list[Array] = field(default_factory=list)
    steps: Any = None
    slopes: Any = None
    gradient: Any = None
    first: float = math.nan
    left: float = math.nan
    note: str = ""


class Unanswered(Exception):  # noqa: N818 - a question, not a mistake
    """A solver asks for the fine model's outputs at points where they are not known."""

    def __init__(self, points: list[Array]) -> None:
        super().__init__()
        self.points = points


@dataclass(frozen=True)
class ManifoldMapping(Method):
    """Map the coarse model's outputs to the fine one's: one call of the fine model a step.

    The default if objective and proxy are :class:`~proxyprox.Outputs` with one loss. It begins at
    the better one of the coarse model's minimum and a w0 that the caller gave; bounds and scales
    are the problem's. The trust region is a box in units of the parameters: their scales, or what
    ``max(|w|, 1)`` says. ``Result.details`` has standard errors once differences were taken.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import LeastSquares, Problem, minimize
    >>> from proxyprox.methods import ManifoldMapping
    >>> t = np.linspace(0, 2, 21)
    >>> data = 3 * np.exp(-0.7 * t) + 0.1 * np.cos(9 * t)
    >>> fine = LeastSquares(lambda w: w[0] * np.exp(-w[1] * t) - data)
    >>> coarse = LeastSquares(lambda w: w[0] * (1 - 0.1 * w[1]) ** np.arange(21) - data)
    >>> result = minimize(Problem(fine, coarse), np.ones(2), method=ManifoldMapping())
    >>> result.w.round(3), result.status.name
    (array([3.025, 0.711]), 'CONVERGED')
    >>> print(result.details)
    standard errors 0.0407, 0.0183.
    """

    exact: ClassVar[bool] = True
    backtracks: ClassVar[bool] = True
    asks_outputs: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("outputs",)

    def defaults(self) -> None:
        """Return None: no subproblem of the usual kind is solved."""

    def init(self, w0: Vector, problem: Any) -> MappingState:
        """Find the coarse model's minimum, where the first call will be."""
        start = to_numpy(w0).astype(np.float64)
        box = problem.penalty if isinstance(problem.penalty, Box) else Box(-math.inf, math.inf)
        low, high = (to_numpy(limit).astype(np.float64) for limit in box.limits(w0))
        units = np.maximum(np.abs(start), 1.0)
        if problem.scales is not None:
            units = to_numpy(problem.scales).astype(np.float64)
        state = MappingState(w0, units, low, high, [start])
        proxy, steps = problem.proxy, MappingPolicy.first_search
        try:
            found = lowest(proxy, coarse_model(proxy), start, low, high, steps)
        except (ValueError, np.linalg.LinAlgError):
            note = "No minimum of the coarse model was found: the run began at w0."
            return replace(state, note=note)
        return replace(state, points=[found.x])

    def keep_start(self, state: MappingState) -> MappingState:
        """Ask about w0 as well as about the coarse model's minimum: at once, if there are two."""
        start = to_numpy(state.w).astype(np.float64)
        others = [point for point in state.points if not np.array_equal(point, start)]
        return replace(state, points=[start, *others])

    def ask(self, state: MappingState) -> Request:
        """Ask for the fine model's outputs at the open points."""
        points = tuple(from_numpy(point, like=state.w) for point in state.points)
        return Request(points, everything=True, outputs=True, start=state.stage == "start")

    def tell(self, state: MappingState, answers: Answers, step: OuterStep) -> MappingState:
        """Take the outputs at the open points, and find the next ones."""
        proxy, outputs = step.proxy, list(answers.outputs)
        before = state
        state = replace(state, k=state.k + 1)
        state = self._improved(state, outputs, proxy)
        if not math.isfinite(state.value):
            if len(state.points) == 1 and not np.array_equal(state.points[0], to_numpy(state.w)):
                note = "The fine model has no finite loss at the coarse minimum: it began at w0."
                return replace(state, points=[to_numpy(state.w).astype(np.float64)], note=note)
            text = "the fine model's loss is NaN or infinite at every start"
            raise NonFiniteError(text, Status.TARGET_NOT_FINITE)
        if state.stage == "start":
            return self._mapped(replace(state, stage="map"), proxy)
        if state.stage == "map":
            return self._mapped(self._learnt(before, state, outputs[0], proxy), proxy)
        if state.stage == "noise":
            return self._polished(self._measured(state, outputs[0], proxy), proxy)
        if state.stage == "polish":
            pairs = zip(before.points, outputs, strict=True)
            added = [part for pair in pairs for part in pair]
            return self._polished(replace(state, answers=[*state.answers, *added]), proxy)
        return state

    def _improved(self, state: MappingState, outputs: list[Array], proxy: Any) -> MappingState:
        """Return the state at the lowest one of the points so far."""
        for point, fine in zip(state.points, outputs, strict=True):
            value = proxy.loss_of(fine)
            if value < state.value:
                w = from_numpy(point, like=state.w)
                state = replace(state, w=w, value=value, fine=fine, coarse=None)
        return state

    def _learnt(
        self, before: MappingState, state: MappingState, fine: Array, proxy: Any
    ) -> MappingState:
        """Return the state with the change that the last step showed, and another box."""
        policy, point = MappingPolicy, before.points[0]
        coarse = coarse_model(proxy)(point)
        if state.value < before.value:
            state = replace(state, coarse=coarse)
        F, C = before.changes, before.coarse_changes
        if np.isfinite(fine).all() and np.isfinite(coarse).all():
            F, C = [*F, fine - before.fine], [*C, coarse - before.coarse]
        value = proxy.loss_of(fine)
        gain = before.value - value if math.isfinite(value) else -math.inf
        radius = before.radius * (policy.grown if gain > 0 else 1 / policy.shrunk)
        good = gain > max(policy.followed * before.promise, policy.gain * before.value)
        failed = 0 if good else before.failed + 1
        much = before.promise > policy.much * before.value
        misled = before.misled + (much and gain < -before.promise)
        kept = len(point)
        return replace(
            state, changes=F[-kept:], coarse_changes=C[-kept:], radius=radius, failed=failed,
            misled=misled,
        )  # fmt: skip

    def _mapped(self, state: MappingState, proxy: Any) -> MappingState:
        """Return the state with the minimum of the mapped model's loss as the next point."""
        policy, w = MappingPolicy, to_numpy(state.w).astype(np.float64)
        cheap = coarse_model(proxy)
        coarse = cheap(w) if state.coarse is None else state.coarse
        if coarse.shape != state.fine.shape:
            raise ValueError(
                f"The coarse model returned {coarse.size} outputs, the fine one {state.fine.size}: "
                "outputs are mapped one to one. Let both return the same quantities."
            )
        state = replace(state, coarse=coarse)
        inverse, gap = np.zeros((len(w), coarse.size)), np.zeros((coarse.size, len(w)))
        if state.changes:
            F, C = np.array(state.changes).T, np.array(state.coarse_changes).T
            inverse, gap = np.linalg.pinv(C, rcond=policy.dependent), F - C
        low = np.maximum(state.lower, w - state.radius * state.units)
        high = np.minimum(state.upper, w + state.radius * state.units)

        def model(x: Array) -> Array:
            change = cheap(x) - coarse
            return np.asarray(state.fine + change + gap @ (inverse @ change))

        found = None
        trusted = state.failed < policy.failures and state.misled < policy.misled
        trusted = trusted and state.radius >= policy.smallest
        if trusted and np.isfinite(coarse).all():
            # Without a finite loss beside w, differences take over.
            with contextlib.suppress(ValueError, np.linalg.LinAlgError):
                found = lowest(proxy, model, w, low, high, policy.searches)
        promise = state.value - size_of(found.terms) if found is not None else 0.0
        if found is None or not promise > policy.promised * abs(state.value):
            return self._nearby(state)
        return replace(state, points=[found.x], promise=promise)

    def _nearby(self, state: MappingState) -> MappingState:
        """Ask beside the best point, where outputs differ by noise alone."""
        w = to_numpy(state.w).astype(np.float64)
        side = np.where(w + MappingPolicy.nearby * state.units <= state.upper, 1.0, -1.0)
        point = np.clip(w + MappingPolicy.nearby * side * state.units, state.lower, state.upper)
        return replace(state, stage="noise", points=[point])

    def _measured(self, state: MappingState, fine: Array, proxy: Any) -> MappingState:
        """Return the state with the noise, and the length of differences that it asks for."""
        policy, w = MappingPolicy, to_numpy(state.w).astype(np.float64)
        cheap = coarse_model(proxy)
        here = cheap(w)
        smooth = _rms(cheap(state.points[0]) - here) / policy.nearby
        size = max(_rms(state.fine), smooth if math.isfinite(smooth) else 0.0)
        noise = _rms(fine - state.fine) / math.sqrt(2)
        start = [w, state.fine]
        if not noise > policy.noisy * size:
            steps = rounding(power=1 / 2) * np.maximum(np.abs(w), state.units)
            return replace(state, stage="polish", answers=start, steps=steps)
        # A difference over h has the errors σ/h and |f''| h/2; f'' is of the size of f' in a unit.
        near = rounding(power=1 / 3)
        change = [
            cheap(w + near * u * e) - here for u, e in zip(state.units, np.eye(len(w)), strict=True)
        ]
        slope = np.sqrt(np.mean(np.square(change), axis=1)) / near
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.sqrt(noise / slope)
        share = np.where(np.isfinite(share), share, policy.longest)
        steps = state.units * np.clip(share, rounding(power=1 / 3), policy.longest)
        note = f"The fine model's outputs vary by {noise / size:.1g} of their size from one point "
        note += "to the next: noise. Differences were lengthened accordingly."
        text = f"{state.note} {note}".lstrip()
        return replace(state, stage="polish", answers=start, steps=steps, noise=noise, note=text)

    def _polished(self, state: MappingState, proxy: Any) -> MappingState:
        """Return the state with what the solver with differences asks next, or at its end."""
        parts = state.answers
        known = {w.tobytes(): z for w, z in zip(parts[::2], parts[1::2], strict=True)}

        def fine(x: Array) -> Array:
            if x.tobytes() not in known:
                raise Unanswered([x.copy()])
            return known[x.tobytes()]

        def slopes(x: Array) -> Array:
            sides = np.where(x + state.steps <= state.upper, 1.0, -1.0)
            moved = [
                x + side * h * e
                for side, h, e in zip(sides, state.steps, np.eye(len(x)), strict=True)
            ]
            missing = [point for point in moved if point.tobytes() not in known]
            if missing:
                raise Unanswered(missing)
            here = fine(x)
            columns = [
                (known[point.tobytes()] - here) / (point[j] - x[j]) for j, point in enumerate(moved)
            ]
            # If the model fails beside x, nothing is known of that parameter.
            return np.asarray(np.nan_to_num(np.stack(columns, axis=-1), posinf=0.0, neginf=0.0))

        begin = parts[0]
        try:
            found = lowest(proxy, fine, begin, state.lower, state.upper, None, slopes)
        except Unanswered as question:
            return replace(state, points=question.points)
        gradient, near = pulled(found.terms, found.slopes), MappingPolicy.bound * state.units
        held = (found.x <= state.lower + near) & (gradient > 0)
        held |= (found.x >= state.upper - near) & (gradient < 0)
        free = np.where(held, 0.0, gradient)
        # What a step of Newton's promises: gᵀH⁺g/2, with parameters in comparable units.
        H = proxy.hessian_of(fine(found.x), slopes(found.x))[np.ix_(~held, ~held)]
        size = np.sqrt(np.maximum(np.diag(H), math.ulp(0.0)))
        scaled = free[~held] / size
        left = float(scaled @ np.linalg.pinv(H / np.outer(size, size)) @ scaled) / 2
        best = proxy.loss_of(fine(found.x))
        if best <= state.value:
            state = replace(state, w=from_numpy(found.x, like=state.w), value=best)
        try:
            first = float(np.linalg.norm(pulled(*proxy.slopes(fine(begin), slopes(begin)))))
        except Unanswered:
            # SciPy begins a little inside the bounds.
            first = 0.0
        return replace(
            state, stage="end", slopes=found.slopes, gradient=free, left=left, first=first,
            points=[found.x],
        )  # fmt: skip

    def ends(self, state: MappingState, tol: float, atol: float) -> Status | None:
        """Return how the run ends, judged by differences at the answer; None if it goes on."""
        if state.stage != "end":
            return None
        small = float(np.linalg.norm(state.gradient)) <= max(tol * state.first, atol)
        small = small or state.left <= MappingPolicy.done * abs(state.value)
        return Status.CONVERGED if small and not state.noise else Status.STALLED

    def note(self, state: MappingState) -> str:
        """Say what was met on the way."""
        return state.note

    def details(self, state: MappingState) -> Uncertainty | None:
        """Return standard errors and correlations, if the run has taken differences at its end."""
        if state.slopes is None or np.ndim(state.slopes) != 2:
            return None
        return uncertainty(state.slopes, state.value)


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


@dataclass(frozen=True)
class Found:
    """A minimum: the point, the loss's terms and their derivative there."""

    x: Array
    terms: Any
    slopes: Array


def coarse_model(proxy: Any) -> Model:
    """Return the coarse model's outputs as a function of one point."""
    return lambda x: np.asarray(proxy.outputs([x])[0])


def lowest(
    loss: Any, model: Model, w: Array, low: Array, high: Array, steps: int | None,
    slopes: Callable[[Array], Array] | None = None,
) -> Found:  # fmt: skip
    """Minimise the loss of a model's outputs within bounds: SciPy's solver, from w.

    Without ``slopes`` the model is cheap, and SciPy takes its differences.
    """

    def terms(x: Array) -> Any:
        with np.errstate(all="ignore"):
            return loss.terms(model(x))

    def derivative(x: Array) -> Array:
        assert slopes is not None
        return np.asarray(loss.slopes(model(x), slopes(x))[1])

    # SciPy's optimisers take long to import, and most runs need none.
    from scipy.optimize import Bounds, least_squares, minimize

    fixed = high - low <= 0
    start = np.clip(w, low, high)
    # SciPy wants room between bounds.
    low, high = np.where(fixed, low - 1e-12, low), np.where(fixed, high + 1e-12, high)
    if np.ndim(terms(start)):
        solved = least_squares(
            terms, start, "2-point" if slopes is None else derivative, (low, high),
            x_scale=1.0, max_nfev=steps,
        )  # fmt: skip
        return Found(solved.x, solved.fun, solved.jac)
    solved = minimize(
        terms, start, jac=None if slopes is None else derivative, method="L-BFGS-B",
        bounds=Bounds(low, high),
        options={} if steps is None else {"maxiter": 3 * steps},
    )  # fmt: skip
    return Found(solved.x, float(solved.fun), np.asarray(solved.jac))


def maps_outputs(problem: Any) -> bool:
    """Tell whether a problem's coarse outputs are to be mapped to the fine ones."""
    parts = (problem.objective, problem.proxy)
    both = all(has(part, "outputs") for part in parts)
    box = problem.penalty is None or isinstance(problem.penalty, Box)
    return both and box and not facts_of(problem.objective).cheap_derivatives
