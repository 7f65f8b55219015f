r"""Manifold mapping: a coarse model's outputs are mapped to a fine one's, one fine call a step.

With the outputs f of the fine model and c of the coarse one, the model around the best point w is

.. math:: m(x) = f(w) + c(x) - c(w) + (\Delta F - \Delta C)\,
          \tilde{\Delta C}^{+}\,(\tilde c(x) - \tilde c(w)),

where the columns of ΔF and ΔC are the changes of both in the last d steps (Echeverría and Hemker,
2005), and c̃ is c with the parameters themselves appended, at a small weight: so a parameter that
the coarse model does not see is learnt, too. The model agrees with f at w and at the points before.
Its loss is minimised within a box around w, the fine model is called there, and the box grows or
shrinks by how well the loss was predicted. No derivative of f is taken.

If steps have failed several times in a row, one has misled, or nothing more is promised, one more
call near the best point shows whether f is noisy. Then the coarse model is left alone: differences
of f give its Jacobian B at the best point, and steps minimise the loss of ``f(w) + B (x − w)`` in a
box (Gauss, Newton, Levenberg, Marquardt). Each answer corrects B along its step (Broyden).
Differences are taken anew if several steps in a row fail, or one gains less than the calls since
the last differences gained on average. The run ends if B is fresh and promises nothing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from proxyprox._util import validation as check
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
        Steps in a row that fail, after which differences are taken; √d if that is more.
    much : float
        A step that promised more than this share of the loss, and raised the loss by more than it
        promised to lower it, has misled: differences take over.
    followed : float
        A step that gains less than this share of what it promised fails.
    done : float
        A step that promises a smaller share of the loss is not tried.
    grown, shrunk : float
        How much the box of the mapping grows after a gain, and shrinks after a loss. The growth
        keeps steps along flat valleys short while the mapping is young.
    appended : float
        The weight of the parameters beside the coarse outputs, which a unit changes by 1.
    searches : int
        Iterations for the loss of a model.
    small : float
        Parameters that start at less than this, and not at zero, are in units of their start.
    noisy : float
        The fine outputs are noisy if, over a distance that only rounding and noise show, they
        change by more than this share of their size, or of what the coarse ones change in a unit.
    longest : float
        The longest difference that noise leads to, in units of the parameters.
    """

    failures: int = 3
    much: float = 0.01
    followed: float = 0.1
    done: float = 1e-8
    grown: float = 1.5
    shrunk: float = 3.0
    appended: float = 0.03
    searches: int = 12
    small: float = 1e-3
    noisy: float = 1e-6
    longest: float = 0.3


@dataclass(frozen=True)
class MappingState:
    """The best point with the fine outputs, what both models showed so far, and the open points.

    ``stage`` is "start", "map", "noise", "differences", "step" or "end". ``changes`` are those of
    the fine outputs, ``cheap_changes`` those of the coarse ones, ``moves`` those of the parameters
    in their units. ``jacobian`` is of the fine outputs: ``fresh`` from differences, then corrected.
    ``cycle`` is the loss when differences were last taken, ``spent`` the calls since.
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
    radius: float = 1.0
    promise: float = 0.0
    start_value: float = math.inf
    failed: int = 0
    changes: list[Array] = field(default_factory=list)
    cheap_changes: list[Array] = field(default_factory=list)
    moves: list[Array] = field(default_factory=list)
    weight: float = 0.0
    steps: Any = None
    blur: float = 0.0
    jacobian: Any = None
    fresh: bool = False
    mirrored: bool = False
    slopes: Any = None
    cycle: float = math.inf
    spent: int = 0
    first: float = math.nan
    gradient: Any = None
    left: float = math.nan
    note: str = ""


@dataclass(frozen=True)
class ManifoldMapping(Method):
    """Map the coarse model's outputs to the fine one's: one call of the fine model a step.

    The default if objective and proxy are :class:`~proxyprox.Outputs` with one loss. It begins at
    the better one of the coarse model's minimum and a w0 that the caller gave; bounds and scales
    are the problem's. The trust region is a box in units of the parameters: their scales, or what
    ``max(|w0|, 1)`` says. ``Result.details`` has standard errors once differences were taken.

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

    points: int = 1

    exact: ClassVar[bool] = True
    backtracks: ClassVar[bool] = True
    asks_outputs: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("outputs",)
    begins: ClassVar[type[MappingState]] = MappingState

    def __post_init__(self) -> None:
        """Check the number."""
        check.whole("points", self.points)

    def defaults(self) -> None:
        """Return None: no subproblem of the usual kind is solved."""

    def init(self, w0: Vector, problem: Any) -> MappingState:
        """Find the coarse model's minimum, where the first call will be."""
        start = _float64(w0)
        box = problem.penalty if isinstance(problem.penalty, Box) else Box(-math.inf, math.inf)
        low, high = map(_float64, box.limits(w0))
        scales = problem.scales
        size = np.abs(start)
        usual = np.where((size > 0) & (size < MappingPolicy.small), size, np.maximum(size, 1.0))
        units = usual if scales is None else _float64(scales) * np.ones_like(start)
        state = self.begins(w0, units, low, high, [start])
        noise = facts_of(problem.objective).noise
        if noise is not None:
            state = replace(state, steps=math.sqrt(noise) * np.maximum(np.abs(start), units))
        try:
            cheap = coarse_model(problem.proxy)
            found, _ = lowest(problem.proxy, cheap, start, low, high, 5 * MappingPolicy.searches)
        except (ValueError, np.linalg.LinAlgError):
            note = "No minimum of the coarse model was found: the run began at w0."
            return replace(state, note=note)
        return replace(state, points=[found])

    def keep_start(self, state: MappingState) -> MappingState:
        """Ask about w0 as well as about the coarse model's minimum: at once, if there are two."""
        start = _float64(state.w)
        others = [point for point in state.points if not np.array_equal(point, start)]
        return replace(state, points=[start, *others])

    def ask(self, state: MappingState) -> Request:
        """Ask for the fine model's outputs at the open points."""
        points = tuple(from_numpy(point, like=state.w) for point in state.points)
        return Request(points, everything=True, outputs=True, start=state.stage == "start")

    def tell(self, state: MappingState, answers: Answers, step: OuterStep) -> MappingState:
        """Take the outputs at the open points, and find the next ones."""
        proxy, outputs = step.proxy, list(answers.outputs)
        # As they were asked, in the precision of w.
        asked = [_float64(from_numpy(point, like=state.w)) for point in state.points]
        state = replace(state, k=state.k + 1, points=asked)
        if state.stage == "start":
            return self._begun(state, outputs, proxy)
        if state.stage == "map":
            return self._mapped(self._learnt(state, outputs, proxy), proxy)
        if state.stage == "noise":
            return self._differences(self._measured(state, outputs[0], proxy))
        if state.stage == "differences":
            return self._stepped(self._differentiated(state, outputs, proxy), proxy)
        return self._stepped(self._corrected(state, outputs, proxy), proxy)

    def adapt(self, state: MappingState, before: Any, after: Any, *, leap: bool) -> MappingState:
        """Return the state without the changes that another coarse model has shown."""
        return replace(state, changes=[], cheap_changes=[], moves=[])

    def _begun(self, state: MappingState, outputs: list[Array], proxy: Any) -> MappingState:
        """Return the state at the better start, with the size of the coarse model's changes."""
        start = _float64(state.w)
        state = _improved(state, outputs, proxy)
        if not math.isfinite(state.value):
            if len(state.points) == 1 and not np.array_equal(state.points[0], start):
                note = "The fine model has no finite loss at the coarse minimum: it began at w0."
                return replace(state, points=[start], note=note)
            text = "the fine model's loss is NaN or infinite at every start"
            raise NonFiniteError(text, Status.TARGET_NOT_FINITE)
        w, cheap = _float64(state.w), coarse_model(proxy)
        coarse = cheap(w)
        if coarse.shape != state.fine.shape:
            raise ValueError(
                f"The coarse model returned {coarse.size} outputs, the fine one {state.fine.size}: "
                "outputs are mapped one to one. Let both return the same quantities."
            )
        size = float(np.sqrt(np.mean(_sensitivity(cheap, w, state.units) ** 2)))
        size = size if math.isfinite(size) else 0.0
        weight = MappingPolicy.appended * size * math.sqrt(coarse.size)
        state = replace(state, stage="map", weight=weight, start_value=state.value)
        return self._mapped(state, proxy)

    # -- the mapping --------------------------------------------------------------------------

    def _learnt(self, state: MappingState, outputs: list[Array], proxy: Any) -> MappingState:
        """Return the state with the changes that a step showed, and another box."""
        policy, cheap = MappingPolicy, coarse_model(proxy)
        before, state = state, _improved(state, outputs, proxy)
        w, here = _float64(state.w), cheap(_float64(state.w))
        changes, cheap_changes, moves = state.changes, state.cheap_changes, state.moves
        # The others first: what the step itself showed is remembered longest.
        pairs = [*zip(before.points, outputs, strict=True), (_float64(before.w), before.fine)]
        for point, fine in reversed(pairs):
            coarse = cheap(point)
            if np.isfinite(fine).all() and np.isfinite(coarse).all() and (point != w).any():
                changes, cheap_changes = (
                    [*changes, fine - state.fine],
                    [*cheap_changes, coarse - here],
                )
                moves = [*moves, (point - w) / state.units]
        gain, kept = before.value - state.value, len(w)
        value = proxy.loss_of(outputs[0])
        rise = value - before.value if math.isfinite(value) else math.inf
        good = gain > policy.followed * before.promise
        failed = 0 if good else before.failed + 1
        much = before.promise > policy.much * abs(before.value)
        misled = failed > 0 and much and rise > before.promise
        return replace(
            state, changes=changes[-kept:], cheap_changes=cheap_changes[-kept:],
            moves=moves[-kept:], failed=failed,
            radius=before.radius * (policy.grown if gain > 0 else 1 / policy.shrunk),
            # Differences take d calls: with many parameters a few more tries are cheap.
            stage="noise" if misled or failed >= max(policy.failures, len(w) ** 0.5) else "map",
        )  # fmt: skip

    def _mapped(self, state: MappingState, proxy: Any) -> MappingState:
        """Return the state with the minimum of the mapped model's loss as the next point."""
        w, cheap = _float64(state.w), coarse_model(proxy)
        coarse, size = cheap(w), state.fine.size
        inverse, gap = np.zeros((len(w), size + len(w))), np.zeros((size, len(w)))
        if state.changes:
            F, C = np.array(state.changes).T, np.array(state.cheap_changes).T
            seen = np.vstack([C, state.weight * np.array(state.moves).T])
            inverse, gap = np.linalg.pinv(seen, rcond=rounding(power=1 / 2)), F - C

        def model(x: Array) -> Array:
            change = cheap(x) - coarse
            seen = np.append(change, state.weight * (x - w) / state.units)
            return np.asarray(state.fine + change + gap @ (inverse @ seen))

        if state.stage == "map" and np.isfinite(coarse).all():
            # Without a finite loss beside w, differences take over.
            with contextlib.suppress(ValueError, np.linalg.LinAlgError):
                found, promise = self._lowest_nearby(state, model, proxy)
                if promise > MappingPolicy.done * abs(state.value):
                    return replace(state, points=found, promise=promise)
        near = rounding(state.w, 1 / 2) * np.maximum(np.abs(w), state.units)
        side = np.where(w + near <= state.upper, 1.0, -1.0)
        point = np.clip(w + side * near, state.lower, state.upper)
        return replace(state, stage="noise", points=[point])

    def _lowest_nearby(
        self, state: MappingState, model: Model, proxy: Any
    ) -> tuple[list[Array], float]:
        """Return the minima of a model's loss in the box and in others, and the first's promise."""
        w, found, promise = _float64(state.w), list[Array](), 0.0
        for k in range(self.points):
            # The box itself, a quarter of it, four times it, a sixteenth …
            reach = state.radius * 4.0 ** ((k + 1) // 2 * (-1) ** k) * state.units
            low, high = np.maximum(state.lower, w - reach), np.minimum(state.upper, w + reach)
            x, value = lowest(proxy, model, w, low, high, MappingPolicy.searches)
            promise = state.value - value if k == 0 else promise
            if not any(np.allclose(x, other, rtol=1e-3, atol=0) for other in found):
                found.append(x)
        return found, promise

    # -- noise and differences ----------------------------------------------------------------

    def _measured(self, state: MappingState, fine: Array, proxy: Any) -> MappingState:
        """Return the state with the noise, and the length of differences that it asks for."""
        policy, w, cheap = MappingPolicy, _float64(state.w), coarse_model(proxy)
        # Slopes alone say nothing at the coarse minimum of a loss.
        smooth = _rms(cheap(np.clip(w + state.units, state.lower, state.upper)) - cheap(w))
        size = max(_rms(state.fine), smooth if math.isfinite(smooth) else 0.0)
        noise = _rms(fine - state.fine) / math.sqrt(2)
        if not noise > max(policy.noisy, rounding(state.w, 1 / 2)) * size:
            return _improved(state, [fine], proxy)
        # A difference over h has the errors σ/h and |f''| h/2; f'' is of the size of f' in a unit.
        slope = np.sqrt(np.mean(_sensitivity(cheap, w, state.units) ** 2, axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.sqrt(noise / slope)
        share = np.where(np.isfinite(share), share, policy.longest)
        steps = state.units * np.clip(share, rounding(power=1 / 3), policy.longest)
        note = f"The fine model's outputs vary by {noise / size:.1g} of their size from one point "
        note += "to the next: noise. Differences were lengthened accordingly."
        terms, others = proxy.terms(state.fine), proxy.terms(fine)
        # What the loss varies by: promises of less are noise.
        blur = (
            abs(others - terms) if np.ndim(terms) == 0 else np.linalg.norm(terms * (others - terms))
        )
        state = replace(state, steps=steps, blur=float(blur) / math.sqrt(2))
        return _improved(replace(state, note=f"{state.note} {note}".lstrip()), [fine], proxy)

    def _differences(self, state: MappingState) -> MappingState:
        """Return the state with the points that differences at the best one take."""
        w, steps = _float64(state.w), state.steps
        if steps is None:
            steps = rounding(state.w, 1 / 2) * np.maximum(np.abs(w), state.units)
        up, down = state.upper - w, w - state.lower
        moves = np.where(
            (steps <= up) | (up >= down), np.minimum(steps, up), -np.minimum(steps, down)
        )
        points = [w + move * e for move, e in zip(moves, np.eye(len(w)), strict=True) if move]
        return replace(state, stage="differences", points=points)

    def _differentiated(
        self, state: MappingState, outputs: list[Array], proxy: Any
    ) -> MappingState:
        """Return the state with the Jacobian that differences gave, and the gradient there."""
        w, size, again = _float64(state.w), state.fine.size, state.mirrored
        jacobian = state.jacobian.copy() if again else np.zeros((size, len(state.units)))
        for point, fine in zip(state.points, outputs, strict=True):
            j = int(np.argmax(point != w))
            jacobian[:, j] = (fine - state.fine) / (point[j] - w[j])
        failed = np.array([not np.isfinite(column).all() for column in jacobian.T])
        others = [2 * w - point for point in state.points if failed[np.argmax(point != w)]]
        others = [x for x in others if (x >= state.lower).all() and (x <= state.upper).all()]
        if others and not again:
            # A model that fails on one side may not on the other.
            return replace(state, points=others, jacobian=jacobian, mirrored=True)
        jacobian[:, failed] = 0.0
        terms, slopes = proxy.slopes(state.fine, jacobian)
        gradient, near = pulled(terms, slopes), rounding(power=1 / 3) * state.units
        held = (w <= state.lower + near) & (gradient > 0)
        held |= (w >= state.upper - near) & (gradient < 0)
        gradient = np.where(held, 0.0, gradient)
        # What a step of Newton's promises: gᵀH⁺g/2, with parameters in comparable units.
        H = self._curvature(state, jacobian, proxy)[np.ix_(~held, ~held)]
        size = np.sqrt(np.maximum(np.diag(H), math.ulp(0.0)))
        scaled = gradient[~held] / size
        left = float(scaled @ np.linalg.pinv(H / np.outer(size, size)) @ scaled) / 2
        young = math.isnan(state.first)
        return replace(
            state, stage="step", jacobian=jacobian, slopes=slopes, fresh=True, cycle=state.value,
            spent=len(w), gradient=gradient, left=left, mirrored=False, failed=0,
            first=float(np.linalg.norm(gradient)) if young else state.first,
            radius=1.0 if young else state.radius,
        )  # fmt: skip

    def _curvature(self, state: MappingState, jacobian: Array, proxy: Any) -> Array:
        """Return the Hessian of the loss where the Jacobian was taken."""
        return np.asarray(proxy.hessian_of(state.fine, jacobian))

    def _taught(self, state: MappingState, outputs: list[Array], proxy: Any) -> MappingState:
        """Return the state with Broyden's correction of the Jacobian by the answers."""
        w, jacobian = _float64(state.w), state.jacobian
        for point, fine in zip(state.points, outputs, strict=True):
            move = point - w
            if np.isfinite(fine).all() and move.any():
                missed, along = fine - state.fine - jacobian @ move, move / state.units**2
                jacobian = jacobian + np.outer(missed, along) / (along @ move)
        return replace(state, jacobian=jacobian)

    def _corrected(self, state: MappingState, outputs: list[Array], proxy: Any) -> MappingState:
        """Return the state that the answers taught, with a box by Nocedal and Wright's rule."""
        w, before = _float64(state.w), state
        state = _improved(self._taught(state, outputs, proxy), outputs, proxy)
        gain, spent = before.value - state.value, before.spent + len(outputs)
        away = float(np.abs((before.points[0] - w) / state.units).max())
        ratio, failed = gain / before.promise, 0 if gain > 0 else before.failed + 1
        radius = max(state.radius, 2 * away) if ratio > 3 / 4 else state.radius
        radius = away / 2 if ratio < 1 / 4 else radius
        again = failed >= max(MappingPolicy.failures, len(w) ** 0.5) and not before.fresh
        if gain > 0:
            # Calls should gain as much, each, as those since the last differences did.
            mean = _progress(before.cycle, before.value) / before.spent
            again = _progress(before.value, state.value) / len(outputs) < mean
        return replace(
            state, radius=radius, spent=spent, failed=failed,
            stage="differences" if again else "step", fresh=before.fresh and gain <= 0,
        )  # fmt: skip

    def _model(self, state: MappingState, proxy: Any) -> Model:
        """Return the model of the outputs that a step minimises the loss of."""
        w = _float64(state.w)
        return lambda x: state.fine + state.jacobian @ (x - w)

    def _stepped(self, state: MappingState, proxy: Any) -> MappingState:
        """Return the state with the minimum of the model's loss as the next point."""
        if state.mirrored:
            return state
        if state.stage == "differences":
            return self._differences(state)
        found, promise = self._lowest_nearby(state, self._model(state, proxy), proxy)
        # Within the length of differences they tell nothing.
        steps, least = state.steps, max(MappingPolicy.done * abs(state.value), state.blur)
        near = rounding(state.w, 1 / 2) if steps is None else float((steps / state.units).min())
        if promise > least and state.radius > near:
            return replace(state, points=found, promise=promise)
        return replace(state, stage="end") if state.fresh else self._differences(state)

    def ends(self, state: MappingState, tol: float, atol: float) -> Status | None:
        """Return how the run ends, judged by differences at the answer; None if it goes on."""
        if state.stage != "end":
            return None
        small = float(np.linalg.norm(state.gradient)) <= max(tol * state.first, atol)
        small = small or state.left <= MappingPolicy.done * abs(state.value)
        # A fit without any residual has no scale of its own.
        small = small or abs(state.value) <= rounding() * abs(state.start_value)
        return Status.CONVERGED if small and not state.blur else Status.STALLED

    def note(self, state: MappingState) -> str:
        """Say what was met on the way, and which parameters nothing holds where they are."""
        found, far = self.details(state), state.units / rounding(power=1 / 4)
        if found is None:
            return state.note
        # What the data do not determine at all is named with the errors.
        loose = np.isfinite(found.errors) & (found.errors > far)
        if not loose.any():
            return state.note
        names = ", ".join(f"w[{j}]" for j in np.flatnonzero(loose))
        text = f"Nothing holds {names} there: a plateau. Bounds, or another w0, may lead lower."
        return f"{state.note} {text}".lstrip()

    def details(self, state: MappingState) -> Uncertainty | None:
        """Return standard errors and correlations, if the run has taken differences at its end."""
        if state.stage != "end" or np.ndim(state.slopes) != 2:
            return None
        return uncertainty(state.slopes, state.value, state.upper <= state.lower)


def _float64(w: Any) -> Array:
    return to_numpy(w).astype(np.float64)


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _progress(before: float, after: float) -> float:
    """Return the logarithm of the ratio of two losses; what is like it if they are negative."""
    return math.log1p((before - after) / max(abs(after), math.ulp(0.0)))


def _improved(state: MappingState, outputs: list[Array], proxy: Any) -> MappingState:
    """Return the state at the lowest one of the points so far."""
    for point, fine in zip(state.points, outputs, strict=True):
        value = proxy.loss_of(fine)
        if value < state.value:
            state = replace(state, w=from_numpy(point, like=state.w), value=value, fine=fine)
    return state


def _sensitivity(cheap: Model, w: Array, units: Array) -> Array:
    """Return the changes of the coarse outputs by the parameters, in their units."""
    near, here = rounding(power=1 / 3), cheap(w)
    moved = [cheap(w + near * move) for move in np.diag(units)]
    return np.stack([(other - here) / near for other in moved], axis=-1)


def coarse_model(proxy: Any) -> Model:
    """Return the coarse model's outputs as a function of one point."""
    return lambda x: np.asarray(proxy.outputs([x])[0])


def lowest(
    loss: Any, model: Model, w: Array, low: Array, high: Array, steps: int
) -> tuple[Array, float]:
    """Minimise the loss of a cheap model's outputs within bounds: SciPy's solver, from w."""

    def terms(x: Array) -> Any:
        with np.errstate(all="ignore"):
            return loss.terms(model(x))

    # SciPy's optimisers take long to import, and most runs need none.
    from scipy.optimize import Bounds, least_squares, minimize

    fixed, start = high - low <= 0, np.clip(w, low, high)
    # SciPy wants room between bounds.
    low, high = np.where(fixed, low - 1e-12, low), np.where(fixed, high + 1e-12, high)
    if np.ndim(terms(start)):
        solved = least_squares(terms, start, bounds=(low, high), max_nfev=steps)
        found, value = solved.x, size_of(solved.fun)
    else:
        solved = minimize(
            terms,
            start,
            method="L-BFGS-B",
            bounds=Bounds(low, high),
            jac="3-point",
            options={"maxiter": 5 * steps, "ftol": rounding(), "gtol": 0.0},
        )
        found, value = solved.x, float(solved.fun)
    return np.where(fixed, start, found), value


def maps_outputs(problem: Any, *, values: bool = False) -> bool:
    """Tell whether a problem's coarse outputs, or values, are to be mapped to the fine ones."""
    parts = (problem.objective, problem.proxy)
    both = all(has(part, "outputs") and facts_of(part).values_alone is values for part in parts)
    box = problem.penalty is None or isinstance(problem.penalty, Box)
    return both and box and not facts_of(problem.objective).cheap_derivatives
