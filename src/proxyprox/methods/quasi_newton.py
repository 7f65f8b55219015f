r"""A quasi-Newton method in the proxy's geometry, for targets that answer slowly and exactly.

Every outer step is one round: the target's gradient (and value, if there is one) at a trial
point. BFGS usually starts from a multiple of the identity and learns all of the curvature from
rounds. Here it starts from the proxy's, and learns only what the proxy lacks:

.. math:: B_k = \mathrm{BFGS}\bigl(c\,\nabla^2\hat L(w_k) + \lambda D;\; (s_i, y_i)\bigr), \qquad
          s_i = w_{i+1} - w_i, \quad y_i = \nabla L(w_{i+1}) - \nabla L(w_i)

- *The first point* is the proxy's minimum. The target's value there is compared with the proxy's
  promise: if it is above the proxy's value at w0, the target is asked at w0 as well, and the lower
  point is where the run starts. A w0 that the caller gave is always asked about, first; along a
  parabola the two gradients make the first pair. Without values, the run leaves w0 only if the
  slopes at both ends of the way, and the proxy's values, say that the loss falls. If the target is
  not finite at one of the two points, the run starts at the other.
- *λ and c* are fitted during the run. The curvature that the target shows along a step, ``s·y``, is
  compared with the metric's, ``s·(cA + λD)s``; c and λ minimise the sum of ``r − log r`` over the
  ratios r of the last steps, with a price on ``|log c|``. λ falls at most tenfold in a step, and c
  has its price, unless the target looks quadratic. The first λ keeps the predicted decrease below
  half of ``L(ŵ) − L̂(ŵ)``, which is what a proxy of sampled rows leaves to gain, and below
  ``L(ŵ)`` for other proxies of losses that are positive.
- *A useless proxy is dropped.* ``log((s·Ms)(y·M⁻¹y)/(s·y)²)`` is zero for a metric M with
  ``Ms ∥ y``, and larger the worse it is. Where the proxy's metric scores no better than the
  identity, BFGS starts from that.
- *Pairs of one quadratic are made conjugate.* As long as the newest pairs agree with a single
  quadratic, older ones are projected so that all of them hold at once. On a quadratic this is
  conjugate gradients preconditioned with the proxy, without a line search.
- *The first trial has length one.* It costs no extra round if it is accepted. If it is not, a
  quadratic line gives a pair and a new direction, any other line a shorter step.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from proxyprox._util.arrays import (
    Matrix,
    Vector,
    all_finite,
    dot,
    from_numpy,
    namespace,
    norm,
    rounding,
    same_point,
    to_numpy,
)
from proxyprox._util.validation import flag, nonnegative, whole
from proxyprox.inner.base import NonFiniteError, SolverPolicy
from proxyprox.inner.exact import absolute, box_minimum, factored, find_minimum, minimise_exactly
from proxyprox.inner.newton import NewtonCG, Pair, conjugate_gradients, inverse_product
from proxyprox.methods.base import Answers, Method, OuterStep, Request, State
from proxyprox.penalties import Box
from proxyprox.problems.problem import FunctionProxy, facts_of
from proxyprox.problems.protocols import Facts
from proxyprox.problems.quadratic import Zero
from proxyprox.result import Status

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QuasiNewtonPolicy:
    """What ProxyBFGS judges its trials, its metric and its proxy by.

    benchmarks/rounds.py measures all of them (docs/results/rounds/report.md), and
    benchmarks/rounds_variants.py the rules that they belong to (variants.md).

    Attributes
    ----------
    shortest, longest : float
        A rejected trial is followed by one at a share of its length between these.
    agreement : float
        Pairs agree with one quadratic if their products differ by a smaller share. A line that is
        as close to a parabola as the square of it shows that the target is one.
    window : int
        Pairs that the fit of c and λ looks at.
    fade : float
        What a step counts of the next one, in that fit and in the score of the proxy.
    price : float
        The price of ``|log c|`` in that fit.
    slowest : float
        λ falls at most by this factor in a step.
    decisive : float
        What one step adds to the score or takes from it at most, and what the proxy begins with, in
        its favour.
    tolerance : float
        Of linear systems with a Hessian that is applied.
    grid : tuple
        Decimal logarithms of the smallest and the largest λ and c, and how many are tried.
    stay : float
        c and λ of a Hessian that is kept change if that lowers their misfit by more. This one and
        the others below: benchmarks/glm_seconds.py.
    near : float
        The share of the first gradient at which the minimum of a sample is near enough.
    watched : int
        Rounds by which the pace of a run is judged.
    doubt : float
        By this factor more is taken to be left than the model says, until losses confirm it.
    close : float
        The share of the first gap at which such a run is expected to end.
    """

    shortest: float = 0.1
    longest: float = 0.5
    agreement: float = 0.1
    window: int = 12
    fade: float = 0.8
    price: float = 20.0
    slowest: float = 10.0
    decisive: float = 2.0
    tolerance: float = 1e-5
    grid: tuple[float, float, int] = (-12.0, 4.0, 161)
    stay: float = 0.5
    near: float = 1e-2
    watched: int = 6
    doubt: float = 100.0
    close: float = 1e-9


class Curvature:
    """The proxy's Hessian A at a point, in the units of the parameters: applied and solved with.

    Directions of negative curvature count by their absolute value. Bounds that are active take
    their coordinates out: ``free`` are the others. ``known`` is a matrix to use in its place.
    """

    def __init__(
        self, proxy: Any, w: Vector, units: Array, free: Array, known: Matrix | None = None,
        *, form: bool = False,
    ) -> None:  # fmt: skip
        self.proxy, self.w, self.units, self.free = proxy, w, units, free
        self.size = len(units)
        self.matrix: Array | None = None
        self._bends: dict[bytes, float] = {}
        self._solver: tuple[float, float, Callable[[Array], Array]] | None = None
        if form or forms_matrix(proxy, self.size, known):
            if known is None and proxy.hessian is not None:
                known = proxy.hessian(w)
            if known is None:
                known = np.stack([self._product(row) for row in np.eye(self.size)])
            full = to_numpy(known).astype(np.float64, copy=False)
            self._require_finite(full)
            if (units != 1).any():
                full = units[:, None] * full * units
            # The Hessian of a sample of a convex loss is not checked: that takes a factor.
            convex = form and facts_of(proxy).convex
            self.matrix = full if convex else absolute((full + full.T) / 2)
            self.unit = float(np.linalg.norm(self.matrix))
        else:
            # The product with random signs is about as long as the Frobenius norm.
            signs = np.random.default_rng(0).choice([-1.0, 1.0], size=self.size)
            self.unit = norm(self.apply(signs[free]))
        if not 0 < self.unit < math.inf:
            raise NonFiniteError("the proxy's Hessian is zero or overflows at a trial point")

    @staticmethod
    def _require_finite(numbers: Array) -> None:
        if not np.isfinite(numbers).all():
            raise NonFiniteError("the proxy's Hessian is not finite at a trial point")

    def _product(self, v: Array) -> Array:
        """Return the Hessian times v, by differences of gradients where that is all there is."""
        direction = from_numpy(v, like=self.w)
        if self.proxy.hvp is not None:
            return to_numpy(self.proxy.hvp(self.w, direction)).astype(np.float64)
        size = float(np.linalg.norm(v / self.units)) or 1.0
        far = max(1.0, float(np.linalg.norm(to_numpy(self.w) / self.units)))
        away = rounding(self.w, 1 / 3) * far / size
        up, down = (self.proxy.gradient(self.w + sign * away * direction) for sign in (1, -1))
        return to_numpy((up - down) / (2 * away)).astype(np.float64)

    def apply(self, v: Array) -> Array:
        """Return A v."""
        if self.matrix is not None:
            return self.matrix @ v
        full = np.zeros(self.size)
        full[self.free] = v
        product = (self.units * self._product(self.units * full))[self.free]
        self._require_finite(product)
        return product

    def bends(self, steps: list[Array]) -> Array:
        """Return ``|sᵀ A s|`` of steps; the matrix is read once, for those that are new."""
        keys = [s.tobytes() for s in steps]
        new = {key: s for key, s in zip(keys, steps, strict=True) if key not in self._bends}
        if self.matrix is None:
            self._bends |= {key: abs(float(s @ self.apply(s))) for key, s in new.items()}
        elif new:
            S = np.array([*new.values()])
            found = np.abs(((S @ self.matrix) * S).sum(axis=1))
            self._bends |= dict(zip(new, found.tolist(), strict=True))
        return np.array([self._bends[key] for key in keys])

    def alone(self, scale: float, gradient: Array) -> float:
        """Return the most that one parameter gains by itself, ``g_j² / (2 scale A_jj)``.

        It does not depend on units: if A's large entries drown the small ones, steps do not see
        those, and this does. Zero if A is no matrix.
        """
        if self.matrix is None:
            return 0.0
        bend, squares = scale * np.diag(self.matrix), gradient**2
        return float(np.divide(squares, 2 * bend, out=0 * squares, where=bend > 0).max(initial=0.0))

    def shifted(self, scale: float, shift: float) -> Array:
        """Return ``scale · A + shift · unit · I``, a matrix."""
        shift = max(shift * self.unit, 1e-300)
        assert self.matrix is not None
        return np.asarray(scale * self.matrix + shift * np.eye(len(self.matrix)))

    def solver(self, scale: float, shift: float) -> Callable[[Array], Array]:
        """Return what solves with ``scale · A + shift · unit · I``."""
        shift = max(shift * self.unit, 1e-300)
        if self.matrix is not None:
            if self._solver is None or self._solver[:2] != (scale, shift):
                self._solver = scale, shift, factored(scale * self.matrix, shift)
            return self._solver[2]

        def solve(q: Array) -> Array:
            tolerance = QuasiNewtonPolicy.tolerance * norm(q)
            most = NewtonCG.max_products
            x = conjugate_gradients(lambda v: scale * self.apply(v) + shift * v, q, tolerance, most)
            # Of negative curvature along q itself only its size is used.
            return x if x.any() else q / (scale * self.unit + shift)

        return solve


def late_sample(draw: Callable[[int], Any], rows: int) -> FunctionProxy:
    """Return a sample of a loss's rows that is drawn when it is asked, and not kept."""
    sample = FunctionProxy(
        lambda w: draw(rows).value(w),
        lambda w: draw(rows).gradient(w),
        hessian=lambda w: draw(rows).hessian(w),
    )
    sample.facts = Facts(empirical=True)  # type: ignore[attr-defined]
    # Which rows these are follows from the target.
    sample.fingerprint = lambda: f"{rows} rows"  # type: ignore[attr-defined]
    return sample


def forms_matrix(proxy: Any, size: int, known: Matrix | None) -> bool:
    """Tell whether the Hessian is to be a matrix, rather than applied."""
    # By columns it takes as many products as there are parameters.
    limit = SolverPolicy.dense // (10 if proxy.hessian is None else 1)
    return known is not None or size <= limit


def usable(s: Array, y: Array) -> Pair | None:
    """Return a pair with its product, or None if it shows no curvature."""
    sy = float(s @ y)
    return (s, y, sy) if sy > 1e-12 * math.sqrt(float(s @ s) * float(y @ y)) else None


def conjugate(pairs: list[Pair]) -> tuple[list[Pair], int]:
    """Return pairs that hold at once, oldest first, and how many of the newest were made so.

    From the newest backwards each pair loses its components along the newer ones, until one does
    not agree with a single quadratic; that one and older ones stay as they are.
    """
    done: list[Pair] = []
    S, Y = np.empty((2, len(pairs), len(pairs[0][0]) if pairs else 0))
    products = np.empty(len(pairs))
    for index in range(len(pairs) - 1, -1, -1):
        s, y, own = pairs[index]
        n = len(done)
        for _ in range(2 if n else 0):
            share = (Y[:n] @ s) / products[:n]
            s, y = s - share @ S[:n], y - share @ Y[:n]
        pair = usable(s, y)
        if pair is None or not pair[2] > 1e-12 * own:
            return [*pairs[: index + 1], *done[::-1]], n
        most = QuasiNewtonPolicy.agreement * np.sqrt(products[:n] * pair[2])
        if not (np.abs(S[:n] @ y) <= most).all():
            return [*pairs[: index + 1], *done[::-1]], n
        done.append(pair)
        S[n], Y[n], products[n] = pair
    return done[::-1], len(done)


def updated(base: Array, pairs: list[Pair]) -> Array:
    """Return the matrix B of BFGS with these pairs on a base."""
    for s, y, sy in pairs:
        Bs = base @ s
        base = base + np.outer(y, y) / sy - np.outer(Bs, Bs) / float(s @ Bs)
    return base


@dataclass(frozen=True)
class Metric:
    """``c A + λ · unit · I``, and the evidence for it: a score above zero is against the proxy."""

    scale: float = 1.0
    shift: float = 1e-3
    score: float = -QuasiNewtonPolicy.decisive

    @property
    def useless(self) -> bool:
        """Whether the identity has been a better metric, or no c is small enough."""
        return self.score > 0 or self.scale <= 10 ** QuasiNewtonPolicy.grid[0]

    def scored(self, curvature: Curvature, pair: Pair) -> Metric:
        """Return the metric with the evidence of one more pair."""
        s, y, _ = pair
        own = self.scale * float(curvature.bends([s])[0])
        own += self.shift * curvature.unit * float(s @ s)
        dual = abs(float(y @ curvature.solver(self.scale, self.shift)(y))) or math.inf
        lengths = float(s @ s), float(y @ y)
        if not min(own, *lengths) > 0:
            # So short that its squares are lost.
            return self
        gap = math.log(own) + math.log(dual) - math.log(lengths[0]) - math.log(lengths[1])
        # One step along which either is far off does not decide alone.
        gap = float(np.clip(gap, -QuasiNewtonPolicy.decisive, QuasiNewtonPolicy.decisive))
        return replace(self, score=QuasiNewtonPolicy.fade * self.score + gap)

    def fitted(
        self, curvature: Curvature, pairs: list[Pair], *, quadratic: bool, stay: float = 0.0
    ) -> Metric:
        """Return the metric with c and λ that suit the curvature along the last steps.

        If ``stay`` is not zero, only a misfit that is lower by more than that changes them.
        """
        policy, pairs = QuasiNewtonPolicy, pairs[-QuasiNewtonPolicy.window :]
        if not pairs:
            return self
        along = curvature.bends([s for s, _, _ in pairs]) / np.array([sy for _, _, sy in pairs])
        length = np.array([curvature.unit * float(s @ s) / sy for s, _, sy in pairs])
        weight = policy.fade ** np.arange(len(pairs))[::-1]
        scales, shifts = np.logspace(*policy.grid)[::2], np.logspace(*policy.grid)
        # None makes the proxy flatter than the target along every step. One step along which the
        # proxy is far too steep does not make it too steep everywhere.
        scales = scales[scales * along.min() >= min(along.min(), 1.0) * 0.99]
        ratio = scales[:, None, None] * along + shifts[:, None] * length
        misfit = (ratio - np.log(ratio)) @ weight
        if not quadratic:
            misfit += policy.price * np.abs(np.log(scales))[:, None]
        elif len(pairs) > 1:
            # c and λ explain one step equally well, but λ hides the flat directions from the next
            # one. What the grid cannot tell apart, its step squared, goes to the smaller λ.
            low, high, count = policy.grid
            misfit += ((high - low) / (count - 1)) ** 2 * np.log10(shifts / shifts[0])
        row, column = np.unravel_index(np.argmin(misfit), misfit.shape)
        if stay:
            now = self.scale * along + self.shift * length
            own = float((now - np.log(now)) @ weight) + policy.price * abs(math.log(self.scale))
            if own <= float(misfit[row, column]) + stay:
                return self
        lowest = 0.0 if quadratic else self.shift / policy.slowest
        return replace(self, scale=float(scales[row]), shift=max(float(shifts[column]), lowest))

    def promised(self, curvature: Curvature, gradient: Array, decrease: float) -> Metric:
        """Return the metric with the smallest λ whose step promises no more than a decrease."""
        shifts = np.logspace(*QuasiNewtonPolicy.grid)

        def modest(shift: float) -> bool:
            step = curvature.solver(self.scale, float(shift))(gradient)
            return float(gradient @ step) / 2 <= decrease

        # The smallest first: a good proxy needs no other.
        index = 0 if modest(shifts[0]) else bisect_left(shifts[:-1], True, 1, key=modest)
        return replace(self, shift=float(shifts[index]))


@dataclass(frozen=True)
class QuasiNewtonState(State):
    """The best point so far, the trial that is asked about, and what was learnt of the target.

    ``other`` is w0 if the run begins at the proxy's minimum, or the other way round if w0 is
    ``given`` by the caller. ``lowest`` is the proxy's lowest value, ``curvature`` the
    target's own where it tells one. ``length`` is the step's, as a share of ``direction``,
    ``rejected`` counts the last trials that were, on a quadratic line. ``units``, ``lower`` and
    ``upper`` are the problem's.
    ``modelled`` tells if the units come from the target itself.
    ``anchor`` is where, and ``formed`` when the Hessian was formed that is kept, ``losses`` are the
    first one and the last ones, ``fall`` is what is known of the way from w0 to the first of them,
    ``alone`` what one parameter would gain by itself, ``sizes`` are those of the first gradient.
    """

    trial: Vector = None
    other: Vector | None = None
    given: bool = False
    lowest: float | None = None
    value: float | None = None
    gradient: Vector | None = None
    curvature: Matrix | None = None
    direction: Vector | None = None
    length: float = 1.0
    units: Vector | None = None
    lower: Vector | None = None
    upper: Vector | None = None
    steps: list[Vector] = field(default_factory=list)
    changes: list[Vector] = field(default_factory=list)
    metric: Metric = Metric()
    modelled: bool = False
    anchor: Vector | None = None
    formed: int = 0
    losses: list[float] = field(default_factory=list)
    fall: float = 0.0
    alone: float = 0.0
    sizes: Vector | None = None
    note: str = ""
    leap: int = 0


@dataclass(frozen=True)
class ProxyBFGS(Method):
    """BFGS from the proxy's minimum, in the proxy's metric: few rounds with an exact target.

    It takes bounds (:class:`~proxyprox.penalties.Box`) and scales of the problem into account;
    without a proxy it is BFGS. Values of the target are used where it offers them; slopes
    decide where they are not.

    Parameters
    ----------
    memory : int
        Pairs of steps and gradient changes to keep.
    start_at_proxy : bool
        Whether the run begins at the proxy's minimum, searched from w0, if it has one. A w0 that is
        given is asked about first, and kept if it is lower.
    sample : int
        Rows of the target that take the place of a proxy if the problem has none, one from each
        of as many stretches of the table; 0 for none. Seconds count there, not rounds: its Hessian
        is kept.
    worth : float
        Rounds that such a Hessian takes as long as. It is formed if more than these seem to be left
        (at once, if the run begins at the proxy's minimum), and anew if as many were taken, too.

    Notes
    -----
    :mod:`proxyprox.methods.quasi_newton` says how it works. Rounds are outer steps: one gradient of
    everything each. Up to 1000 parameters the proxy's Hessian is formed; beyond that it is applied,
    by ``hvp`` or by differences of gradients, in conjugate gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyBFGS, logistic_regression, minimize
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-X @ np.arange(5)))
    >>> target = logistic_regression(X, y, l2=1e-3)
    >>> proxy = target.subsample(200, rng=0)
    >>> result = minimize(Problem(target, proxy), method=ProxyBFGS(), tol=1e-6)
    >>> result.ledger.target_gradients <= 8
    True
    """

    memory: int = 200
    start_at_proxy: bool = True
    sample: int = 0
    worth: float = 0.0

    exact: ClassVar[bool] = True
    backtracks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the settings."""
        whole("memory", self.memory)
        flag("start_at_proxy", self.start_at_proxy)
        whole("sample", self.sample, 0)
        nonnegative("worth", self.worth)

    def defaults(self) -> None:
        """Return None: no subproblem is solved."""

    def prepare(self, problem: Any) -> Any:
        """Return the problem, with a sample of the target if it has no proxy."""
        draw = facts_of(problem.objective).subsample
        if self.sample and draw is not None and isinstance(problem.proxy, Zero):
            # A run that is L-BFGS's at first may never look at its sample.
            rows = draw(self.sample) if self.start_at_proxy else late_sample(draw, self.sample)
            return problem.with_proxy(rows)
        return problem

    def init(self, w0: Vector, problem: Any) -> QuasiNewtonState:
        """Find the proxy's minimum, where the first round will be."""
        kept: dict[str, Any] = {}
        known = facts_of(problem.objective).units
        if problem.scales is not None:
            kept["units"] = from_numpy(problem.scales, like=w0)
        elif known is not None and (self.sample or isinstance(problem.proxy, Zero)):
            # L-BFGS does not see the columns that are small beside others.
            kept["units"], kept["modelled"] = known(), True
        if isinstance(problem.penalty, Box):
            kept["lower"], kept["upper"] = problem.penalty.limits(w0)
        if self.sample:
            kept["metric"] = Metric(shift=10.0 ** QuasiNewtonPolicy.grid[0])
        found = None
        if self.start_at_proxy and not isinstance(problem.proxy, Zero):
            found = self._find_start(problem, w0)
            if found is None:
                kept["note"] = "No minimum of the proxy was found: the run began at w0."
        if found is None or bool((found == w0).all()):
            return QuasiNewtonState(w0, trial=w0, **kept)
        lowest = float(problem.proxy.value(found))
        if facts_of(problem.proxy).empirical:
            kept["fall"] = float(problem.proxy.value(w0)) - lowest
        state = QuasiNewtonState(found, trial=found, other=w0, lowest=lowest, **kept)
        # Proxies whose weights are not known yet are asked first whether they have its gradient.
        return self.keep_start(state) if facts_of(problem.proxy).learns else state

    def _find_start(self, problem: Any, w0: Vector) -> Vector | None:
        """Return the proxy's minimum; of a sample, which is off by chance, about it."""
        if not self.sample or problem.penalty is not None:
            return find_minimum(problem.proxy, w0, penalty=problem.penalty)
        try:
            found = minimise_exactly(problem.proxy, w0, relative=QuasiNewtonPolicy.near)
        except (NonFiniteError, np.linalg.LinAlgError):
            return None
        return found if all_finite(found) else None

    def keep_start(self, state: QuasiNewtonState) -> QuasiNewtonState:
        """Ask about w0 first, and then about the proxy's minimum."""
        if state.other is None or state.given:
            return state
        return replace(state, w=state.other, trial=state.other, other=state.w, given=True)

    def ask(self, state: QuasiNewtonState) -> Request:
        """Ask for the gradient, and the value, at the trial point."""
        starts = state.other is not None and state.direction is None
        return Request((state.trial,), everything=True, value=True, start=starts)

    def promise(self, state: QuasiNewtonState) -> float:
        """Return by how much the loss would fall along the step, or one parameter, if linear."""
        if state.gradient is None or state.direction is None:
            return math.nan
        return max(-dot(state.gradient, state.direction), 2 * state.alone)

    def gaps(self, state: QuasiNewtonState) -> tuple[float, float]:
        """Return what is left by the model, or by the last losses if that is more."""
        losses, policy = state.losses, QuasiNewtonPolicy
        left = self.promise(state) / 2
        if not left >= 0 or len(losses) < 2:
            return math.nan, math.nan
        falls = -np.diff(losses[-policy.watched :])
        if len(falls) < 2 or not (falls > 0).all():
            left = policy.doubt * max(left, 0.0 if falls[-1] > 0 else abs(float(falls[-1])))
        else:
            ratio = min(float(falls[-1] / falls[0]) ** (1 / (len(falls) - 1)), 0.99)
            left = max(left, float(falls[-1]) * ratio / (1 - ratio))
        return left, state.fall + losses[0] - losses[-1] + left

    def tell(self, state: QuasiNewtonState, answers: Answers, step: OuterStep) -> QuasiNewtonState:
        """Judge the trial and find the next one."""
        value, gradient = answers.value, answers.gradients[0]
        known = {"value": value, "gradient": gradient, "curvature": answers.curvature}
        dropped = state.leap < 0
        state = replace(state, k=state.k + 1, leap=max(state.leap, 0))
        if state.gradient is None:
            if state.other is not None and not _finite(value, gradient):
                here, there = "the proxy's minimum", "w0"
                here, there = (there, here) if state.given else (here, there)
                note = f"The target is not finite at {here}: the run began at {there}."
                lowest = state.lowest if state.given else None
                return replace(
                    state, trial=state.other, other=None, given=False, lowest=lowest, note=note
                )
            if not all_finite(gradient):
                text = "the target's gradient is NaN or infinite"
                raise NonFiniteError(text, Status.TARGET_NOT_FINITE)
            known["value"] = value = _finite_or_none(value)
            state = replace(state, w=state.trial, sizes=abs(gradient), **known)
            if state.leap or dropped:
                return self._start(replace(state, other=None), step)
            if state.given or (
                state.other is not None
                and value is not None
                and (not value <= step.proxy.value(state.other))
            ):
                return replace(state, trial=state.other)
            return self._start(state, step)
        if state.direction is None:
            return self._start(self._choose_start(state, known, step), step)
        return self._judge(state, known, step, dropped)

    def adapt(
        self, state: QuasiNewtonState, before: Any, after: Any, *, leap: bool
    ) -> QuasiNewtonState:
        """Keep the pairs, which are the target's alone; judge the new metric from the start.

        Without a useful proxy, what the useless ones led to is forgotten.
        """
        if isinstance(after, Zero):
            return replace(state, given=False, other=None, steps=[], changes=[], leap=-1)
        metric = Metric(shift=state.metric.shift) if leap else replace(state.metric, scale=1.0)
        return replace(state, metric=metric, leap=2 if leap else state.leap)

    def _choose_start(
        self, state: QuasiNewtonState, known: dict[str, Any], step: OuterStep
    ) -> QuasiNewtonState:
        """Return the state at the better one of w0 and the proxy's minimum, both known now."""
        value, gradient = known["value"], known["gradient"]
        if not _finite(value, gradient):
            return state
        way = state.trial - state.w
        slope, end = dot(state.gradient, way), dot(gradient, way)
        if value is not None and state.value is not None:
            rise = value - state.value
            moves = rise < 0
            if state.given and _bend(rise, slope, end) < QuasiNewtonPolicy.agreement**2:
                # Elsewhere the mean curvature on a long way is not that at its end.
                state = replace(state, steps=[way], changes=[gradient - state.gradient])
        else:
            # The proxy's change, and by the trapezoidal rule that of L − L̂; a step that begins
            # uphill is no descent, whatever follows.
            moves = not state.given
            if state.given and slope < 0:
                fall = step.proxy.value(state.w) - step.proxy.value(state.trial)
                ends = step.proxy.gradient(state.w) + step.proxy.gradient(state.trial)
                moves = (slope + end - dot(ends, way)) / 2 < fall
            if state.given and moves:
                note = "It began at the proxy's minimum: by the slopes there and at w0 the loss is "
                state = replace(state, note=f"{note}lower there.")
        if value is not None and state.value is not None and moves == state.given:
            # The way from w0 to the lower point is known now.
            state = replace(state, fall=abs(rise))
        return replace(state, w=state.trial, **known) if moves else state

    def _start(self, state: QuasiNewtonState, step: OuterStep) -> QuasiNewtonState:
        """Take the first step, with the λ that fits what the proxy leaves to gain."""
        local = Local(state, step.proxy)
        if state.value is not None and state.lowest is not None and not state.losses:
            # The minimum of a proxy in other units is not below the target. Squared, since a proxy
            # that fits its few rows closely hides a part of the ratio. A sample is as high as the
            # target at w0.
            share = state.value / state.lowest if state.lowest > 0 else 0.0
            fall = min(max(share, 0.0), 1.0) ** 2 * state.fall
            if self.sample:
                fall = max(state.fall + state.lowest - state.value, 0.0)
            state = replace(state, fall=fall)
        state = self._watch(state)

        def fit(metric: Metric, curvature: Curvature) -> Metric:
            # Values of a sample differ by chance, too: the first trial tests its metric.
            if self.sample or state.lowest is None or state.value is None:
                return metric
            gradient = np.where(local.held, 0.0, local.gradient) if local.whole else local.gradient
            gain = state.value if min(state.value, state.lowest) > 0 else math.inf
            if facts_of(step.proxy).empirical and state.value > state.lowest:
                gain = (state.value - state.lowest) / 2
            return metric.promised(curvature, gradient, gain)

        return self._search(state, local, step.proxy, fit)

    def _judge(
        self, state: QuasiNewtonState, known: dict[str, Any], step: OuterStep, dropped: bool
    ) -> QuasiNewtonState:
        """Accept the trial or not, learn from it, and find the next one."""
        value, gradient = known["value"], known["gradient"]
        if state.value is None:
            known["value"] = value = _finite_or_none(value)
        if not _finite(value, gradient):
            return self._shorten(state, 0.0, step)
        move = state.trial - state.w
        slope, end = dot(state.gradient, move), dot(gradient, move)
        if not slope < 0:
            # Bounds have turned the step; a short one keeps its direction.
            return self._shorten(state, 1.0, step)
        # What the slopes at both ends say of the change; exact for a quadratic.
        agreement = QuasiNewtonPolicy.agreement
        change, bend = (slope + end) / 2, agreement / 2
        rise = math.nan
        if value is not None and state.value is not None:
            rise = value - state.value
            if abs(rise) > rounding(state.w) * abs(state.value):
                change, bend = rise, _bend(rise, slope, end)
        accepted = change <= SolverPolicy.sufficient * slope
        if state.leap == 1:
            # Elsewhere the mean curvature on a long way is not that at its end.
            kept = self._paired(state, gradient) if bend < agreement**2 else state
            if change < 0:
                lowest = float(step.proxy.value(state.trial))
                kept = replace(kept, w=state.trial, lowest=lowest, **known)
            return self._start(replace(kept, leap=0), step)
        if not accepted and bend >= agreement:
            if dropped:
                # The trial was a useless proxy's: begin here anew.
                return self._start(state, step)
            return self._shorten(state, _shorter(rise, slope, end), step)
        state, policy = self._paired(state, gradient), QuasiNewtonPolicy
        # A metric that is too flat overshoots again and again, in one direction after the other.
        reach = policy.longest
        if accepted:
            reach = math.inf if state.length == 1 else 1 / policy.shortest
            state = self._watch(replace(state, w=state.trial, **known))
        local = Local(state, step.proxy)
        reach *= float(np.linalg.norm(local.steps[-1]))
        quadratic = bend < agreement**2 and local.agrees

        def fit(metric: Metric, curvature: Curvature) -> Metric:
            if self.sample:
                stay = QuasiNewtonPolicy.stay
                return metric.fitted(curvature, local.pairs, quadratic=False, stay=stay)
            newest = usable(local.steps[-1], local.changes[-1])
            if newest is not None:
                metric = metric.scored(curvature, newest)
            return metric.fitted(curvature, local.pairs, quadratic=quadratic)

        return self._search(state, local, step.proxy, fit, reach)

    def _paired(self, state: QuasiNewtonState, gradient: Vector) -> QuasiNewtonState:
        """Return the state with the pair from w to the trial."""
        steps = [*state.steps, state.trial - state.w][-self.memory :]
        changes = [*state.changes, gradient - state.gradient][-self.memory :]
        return replace(state, steps=steps, changes=changes)

    def _watch(self, state: QuasiNewtonState) -> QuasiNewtonState:
        """Return the state with its loss noted, and with an anchor once that is worth its time."""
        if state.value is not None:
            losses = [*state.losses, state.value]
            losses = [losses[0], *losses[1:][-2 * QuasiNewtonPolicy.watched :]]
            state = replace(state, losses=losses)
        if not self.sample:
            return state
        # Formed anew, a Hessian has to be paid off first.
        paid = state.anchor is None or state.k - state.formed >= self.worth
        if state.anchor is None and self.start_at_proxy:
            return replace(state, anchor=state.w, formed=state.k)
        if paid and self._rounds_left(state.losses) > self.worth:
            losses = [state.losses[0], *state.losses[-1:]]
            return replace(state, anchor=state.w, formed=state.k, losses=losses)
        return state

    def _rounds_left(self, losses: list[float]) -> float:
        """Return how many more rounds a run needs whose gap shrinks as the last losses say."""
        half = QuasiNewtonPolicy.watched // 2
        if len(losses) < 2 * half + 2:
            return 0.0
        middle, last = losses[-1 - half], losses[-1]
        before, after = losses[-1 - 2 * half] - middle, middle - last
        if not 0 < after < before:
            return math.inf if after > 0 else 0.0
        ratio = after / before
        gap = after * ratio / (1 - ratio)
        left = math.log(gap / (QuasiNewtonPolicy.close * (losses[0] - last + gap)))
        return max(left, 0.0) / -math.log(ratio) * half

    def _search(
        self,
        state: QuasiNewtonState,
        local: Local,
        proxy: Any,
        fit: Callable[[Metric, Curvature], Metric],
        reach: float = math.inf,
    ) -> QuasiNewtonState:
        """Return the state with a new direction and the trial of length one, or within reach."""
        try:
            curvature = self._curvature(state, local, proxy)
            if curvature is not None:
                state = replace(state, metric=fit(state.metric, curvature))
            return self._leap(self._advance(state, local, curvature, reach), proxy)
        except NonFiniteError:
            # Without the proxy's Hessian the step is plain BFGS.
            return self._advance(state, local, None, reach)

    def _curvature(self, state: QuasiNewtonState, local: Local, proxy: Any) -> Curvature | None:
        """Return the proxy's Hessian: here, or the one that is kept."""
        if not self.sample or state.lower is not None:
            return local.curvature(proxy)
        if state.anchor is None:
            return None
        known = proxy.derived.get("curvature")
        if known is None or not same_point(known.w, state.anchor):
            known = Curvature(proxy, state.anchor, local.units, local.free, form=True)
            proxy.derived["curvature"] = known
        return known  # type: ignore[no-any-return]

    def _advance(
        self, state: QuasiNewtonState, local: Local, curvature: Curvature | None, reach: float
    ) -> QuasiNewtonState:
        """Return the state with the step of BFGS from the proxy's metric, or from the identity."""
        metric, size, alone, pairs = state.metric, len(local.gradient), 0.0, local.joint
        curvature = None if metric.useless else curvature
        length = float(np.linalg.norm(local.gradient))
        steep = max(1.0, length)
        if pairs:
            _, y, sy = local.pairs[-1]
            steep = float(y @ y) / sy
        if local.whole:
            base = steep * np.eye(size)
            if curvature is not None:
                base = curvature.shifted(metric.scale, metric.shift)
            move = box_minimum(updated(base, pairs), local.gradient, local.low, local.high)
        else:
            solve: Callable[[Array], Array] = lambda q: q / steep  # noqa: E731
            if curvature is not None:
                solve = curvature.solver(metric.scale, metric.shift)
                alone = curvature.alone(metric.scale, local.gradient)
            elif state.modelled:
                # In the target's own units each parameter has about the curvature 1.
                alone = float((local.gradient**2).max(initial=0.0)) / 2
            elif state.units is None and state.losses:
                alone = _kept_alone(state)
                note = (
                    "Gradients of single parameters differ by orders of magnitude: scales= helps."
                )
                state = replace(state, note=note) if alone else state
            # The least that is left, if the target is nowhere steeper than along the steps so far.
            steepest = max((float(y @ y) / sy for _, y, sy in local.pairs), default=math.inf)
            alone = max(alone, length**2 / (2 * steepest))
            if pairs:
                S, Y = (np.array(rows) for rows in list(zip(*pairs, strict=True))[:2])
                move = -inverse_product(solve, S, Y, local.gradient)
            else:
                move = -solve(local.gradient)
            if not float(local.gradient @ move) < 0:
                move = -solve(local.gradient)
                move = move if np.isfinite(move).all() else -local.gradient
                state = replace(state, steps=[], changes=[])
        direction, far = local.vector(move), float(np.linalg.norm(move))
        length = reach / far if far > reach else 1.0
        trial = _inside(state, state.w + length * direction)
        return replace(state, direction=direction, length=length, alone=alone, trial=trial)

    def _leap(self, state: QuasiNewtonState, proxy: Any) -> QuasiNewtonState:
        """Return the state with the minimum of a proxy that has changed for the better as trial."""
        if state.leap != 2:
            return state
        box = None if state.lower is None else Box(state.lower, state.upper)
        found = find_minimum(proxy, state.w, penalty=box)
        if found is not None:
            # The change that the proxy predicts, with the target's slope in place of its own.
            way = found - state.w
            fall = proxy.value(found) - proxy.value(state.w)
            fall += dot(state.gradient - proxy.gradient(state.w), way)
            if dot(state.gradient, way) < 0 and fall < 0:
                return replace(state, leap=1, direction=way, trial=found, length=1.0)
        return replace(state, leap=0)

    def _shorten(self, state: QuasiNewtonState, share: float, step: OuterStep) -> QuasiNewtonState:
        """Return the state with a trial nearer to w, at about a share of the length."""
        share = min(max(share, QuasiNewtonPolicy.shortest), QuasiNewtonPolicy.longest)
        length = share * state.length
        assert state.direction is not None
        trial = _inside(state, state.w + length * state.direction)
        if state.steps and same_point(trial, state.w):
            # What was learnt leads nowhere: begin here anew.
            empty = QuasiNewtonState(state.w)
            names = ("steps", "changes", "metric")
            state = replace(state, **{name: getattr(empty, name) for name in names})
            return self._start(state, step)
        return replace(state, length=length, trial=trial)


class Local:
    """A state in the units of the parameters; NumPy arrays.

    ``held`` are the parameters that rest at a bound. If B is a matrix all of them are kept, and
    steps stay between ``low`` and ``high``; elsewhere only those that are ``free``. ``joint`` are
    the pairs that hold at once; ``agrees`` tells whether they are all of one quadratic.
    """

    def __init__(self, state: QuasiNewtonState, proxy: Any) -> None:
        self.w, self.known = state.w, state.curvature
        w, gradient = _numbers(state.w), _numbers(state.gradient)
        self.units = np.ones(len(w)) if state.units is None else _numbers(state.units)
        self.held, self.whole = np.zeros(len(w), dtype=bool), False
        if state.lower is not None:
            lower, upper = _numbers(state.lower), _numbers(state.upper)
            self.held = (w <= lower) & (gradient > 0) | (w >= upper) & (gradient < 0)
            self.low, self.high = (lower - w) / self.units, (upper - w) / self.units
            self.whole = forms_matrix(proxy, len(w), self.known)
        self.free = ~self.held | self.whole
        self.gradient = (self.units * gradient)[self.free]
        # One operation for all of them.
        both = (np.array([*map(_numbers, rows)]) for rows in (state.steps, state.changes))
        steps, changes = (rows.reshape(-1, len(w)) for rows in both)
        steps, changes = steps / self.units, changes * self.units
        if not self.free.all():
            steps, changes = steps[:, self.free], changes[:, self.free]
        self.steps, self.changes = [*steps], [*changes]
        found = map(usable, self.steps, self.changes)
        self.pairs = [pair for pair in found if pair is not None]
        self.joint, agreeing = conjugate(self.pairs)
        self.agrees = agreeing == len(self.pairs)

    def curvature(self, proxy: Any) -> Curvature | None:
        """Return the proxy's Hessian here; None if there is no proxy."""
        if not self.free.any() or (isinstance(proxy, Zero) and self.known is None):
            return None
        return Curvature(proxy, self.w, self.units, self.free, self.known)

    def vector(self, move: Array) -> Vector:
        """Return a move as a vector like w."""
        full = np.zeros(len(self.units))
        full[self.free] = move
        return from_numpy(self.units * full, like=self.w)


def _kept_alone(state: QuasiNewtonState) -> float:
    """Return what one parameter may have kept of the fall so far, if their units differ widely.

    One that gained all of it by itself would have the curvature ``g²/2`` over the fall, and keeps
    the square of the share that is left of its gradient. Steps do not see it beside larger ones.
    """
    sizes, now = _numbers(state.sizes), np.abs(_numbers(state.gradient))
    low, high = np.quantile(sizes, (0.1, 0.9))
    if not 0 < low < rounding(power=1 / 4) * high:
        return 0.0
    share = float((now / np.where(sizes > 0, sizes, math.inf)).max())
    return min(share, 1.0) ** 2 * (state.losses[0] - state.losses[-1])


def _numbers(x: Vector) -> Array:
    return to_numpy(x).astype(np.float64, copy=False)


def _inside(state: QuasiNewtonState, w: Vector) -> Vector:
    """Return the nearest point within the bounds; rounding does not keep it off them."""
    if state.lower is None:
        return w
    xp, near = namespace(w), 4 * float(namespace(w).finfo(w.dtype).eps)
    w = Box(state.lower, state.upper).prox(w, 1.0)
    for bound in (state.lower, state.upper):
        w = xp.where(xp.abs(w - bound) < near * (xp.abs(state.w) + xp.abs(bound)), bound, w)
    return w


def _finite(value: float | None, gradient: Vector) -> bool:
    return all_finite(gradient) and (value is None or math.isfinite(value))


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _bend(rise: float, slope: float, end: float) -> float:
    """Return how far a line is from a parabola, by the rise and the slopes at its ends."""
    return abs(rise - (slope + end) / 2) / max(abs(slope), abs(end), math.ulp(0.0))


def _shorter(rise: float, slope: float, end: float) -> float:
    """Return the share of a rejected step at which a model of the line has its minimum.

    With slopes alone the model is a parabola, with the rise a cubic.
    """
    if math.isnan(rise):
        share = slope / (slope - end)
    else:
        # The units do not matter, and squares must not overflow.
        slope, end, rise = (x / max(abs(rise), abs(end), -slope) for x in (slope, end, rise))
        z = slope + end - 3 * rise
        root = math.sqrt(max(z * z - slope * end, 0.0))
        share = 1 - (end + root - z) / (end - slope + 2 * root or math.inf)
    return share if math.isfinite(share) else 1.0
