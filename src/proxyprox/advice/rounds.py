r"""Will this proxy save rounds? The audit of targets whose every gradient is exact.

A round is one full gradient, and the rival is L-BFGS. The audit takes the first rounds of
:class:`~proxyprox.ProxyBFGS` and looks at the gradient's change y along each step s. With the
proxy's Hessian P at the best of these points, c and λ are fitted as in the run, and

.. math:: \log\frac{(s^\top Ms)(y^\top M^{-1}y)}{(s^\top y)^2}, \qquad M = cP + \lambda I,

tells how far the metric M is off: it is zero where :math:`Ms \parallel y`. Everything else is a
rehearsal that costs the target nothing:

- *ProxyBFGS* minimises a quadratic with the target's gradient at that point and the Hessian
  :math:`M^{1/2}e^{\tau G}M^{1/2}`, G a random symmetric matrix, τ as large as makes the misfit of
  random directions that of the steps. The median of a few draws counts. In many dimensions all of
  it happens in a Krylov space of P.
- *L-BFGS* (SciPy's, ten pairs), and ProxyBFGS without a proxy, minimise the proxy, which curves as
  the target does if it is any good. A proxy without a minimum away from w0, such as one without
  labels, leaves them such a quadratic, and so does one that is many times steeper than the target
  can be.

ProxyBFGS drops a useless metric: it takes no more rounds than those without a proxy and the audit's
own together, and just as many if the proxy is that steep or its metric is no better than the
identity.

The verdict compares the counts and nothing else: the proxy is to be used if ProxyBFGS takes no more
rounds with it than either rival. All are rough: ``docs/is_my_proxy_any_good.md`` has the figures.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy  # not scipy.optimize, which is slow: SciPy imports it when it is used

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._util.validation import message
from proxyprox.advice.curvature import lanczos, proxy_hessian, proxy_product
from proxyprox.advice.report import NO_VERDICT, Verdict
from proxyprox.advice.sampling import Matrix, stack_rows
from proxyprox.inner.base import NonFiniteError
from proxyprox.inner.exact import find_minimum
from proxyprox.inner.newton import Pair
from proxyprox.intervals import Interval
from proxyprox.methods import DANE, ProxyBFGS
from proxyprox.methods.quasi_newton import usable
from proxyprox.minimization import minimize
from proxyprox.oracle import MeteredProxy, answer_query
from proxyprox.problems import FunctionObjective, Problem, Quadratic, Zero
from proxyprox.result import Ledger, count_words
from proxyprox.run import Run

# Rounds that are taken, and the fewest that show any curvature.
ROUNDS, FEWEST = 3, 2

# Quadratics that are drawn, and directions that τ is measured along.
DRAWS, DIRECTIONS = 3, 64

# Parameters up to which the proxy's Hessian is formed, and Krylov vectors beyond.
DENSE, KRYLOV = 400, 150

# The largest τ: curvature is off by factors of up to e⁴, squared.
WORST = 4.0

# A rehearsal is given up after so many rounds.
MOST = 1000

# A misfit must be below that of the identity by more than this.
MARGIN = 0.05

# Times the target's smoothness that a proxy, scaled as the steps say, may be steep: that scale is
# off by factors of 5 even for good proxies.
STEEP = 10.0

# The accuracy of those who name none, as a share of the start's suboptimality.
SHARE = 1e-6

# A gradient of this share of the first, or of the proxy's at w0, is as good as zero.
NEXT_TO_NOTHING = 1e-10

# What is said where no step showed any curvature.
FLAT = (
    f"{NO_VERDICT} the target curved upwards along no step that was taken. Check the sign of its "
    "gradient, with scipy.optimize.check_grad."
)


@dataclass(frozen=True)
class RoundAudit:
    """What an audit of exact gradients found, and what it says to do.

    Attributes
    ----------
    delta, H : Interval
        Similarity and smoothness, the largest along the steps: lower limits.
    ledger : Ledger
        What the audit itself cost.
    problem, w0, model, least
        What was audited and from where, the model of the target, and the proxy's minimum if it is
        far from w0.
    verdict : Verdict
        ``USE`` if ``rounds`` is finite and neither ``rounds_without`` nor ``rounds_lbfgs`` is below
        it, otherwise ``DO_NOT_USE``; ``ONE_ROUND``; or ``UNSURE`` if no curvature was seen.
    rounds : float
        Rounds of ProxyBFGS with this proxy to ε, the audit's own included, as rehearsed; infinite
        if more than a thousand. 1 if one full gradient solves the problem.
    rounds_without : float
        Rounds of ProxyBFGS without a proxy; NaN where nothing was rehearsed.
    rounds_lbfgs : float
        Rounds of SciPy's L-BFGS with a memory of ten; NaN likewise.
    epsilon : float
        The suboptimality that rounds are counted to.
    epsilon_source : str
        ``"given"`` or ``"estimated"``.
    """

    delta: Interval
    H: Interval
    ledger: Ledger
    problem: Problem = field(repr=False)
    w0: Vector = field(repr=False)
    model: StandIn | None = field(repr=False)
    least: Vector | None = field(default=None, repr=False)
    verdict: Verdict = Verdict.USE
    rounds: float = math.nan
    rounds_without: float = math.nan
    rounds_lbfgs: float = math.nan
    epsilon: float = math.nan
    epsilon_source: str = "given"

    @property
    def misfits(self) -> list[float]:
        """How far the proxy's metric was off along each step; 0 is best."""
        return [] if self.model is None else self.model.misfits

    @property
    def unlike(self) -> bool:
        """Whether δ exceeds H many times, at the scale that suits the steps best.

        Along the steps a proxy can seem right and be far too steep elsewhere.
        """
        most = getattr(self.problem.objective, "smoothness", math.inf)
        return self.model is not None and self.model.steepest > STEEP * most

    @property
    def stands_for_target(self) -> bool:
        """Whether methods without a proxy are rehearsed on it."""
        return self.least is not None and not self.unlike

    @property
    def reasons(self) -> list[str]:
        """What to know of the numbers, in sentences."""
        if self.model is None or self.verdict is Verdict.UNSURE:
            return []
        found = [
            "All were rehearsed on models made of the proxy: most counts are right within a factor "
            "of 2, a few are off by more than 3. Those without a proxy are as good as the proxy."
        ]
        if not self.stands_for_target:
            why = "no minimum away from w0" if self.least is None else "not the target's curvature"
            found.append(
                f"The proxy has {why}: the methods without it were rehearsed on a quadratic, which "
                "can be off by a factor of 5."
            )
        if self.model.basis is not None:
            size, dimensions = self.model.basis.shape
            found.append(f"The rehearsal was made in {dimensions} of {size:,} dimensions: rougher.")
        if self.problem.penalty is not None:
            found.append("ProxyBFGS with the proxy was rehearsed without the bounds.")
        return found

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with the rounds that were rehearsed."""
        if self.verdict is Verdict.ONE_ROUND:
            return str(self.verdict)
        if self.verdict is Verdict.UNSURE:
            return FLAT
        if self.unlike and self.model is not None:
            most = self.problem.objective.smoothness
            return (
                "It will not pay: δ exceeds H. At the scale that suits the steps the proxy curves "
                f"by up to {self.model.steepest:.3g}, the target by {most:.3g} at most. Other "
                "units or other columns than the target's are the likely cause."
            )
        counts = (self.rounds, self.rounds_without, self.rounds_lbfgs)
        own, without, lbfgs = map(round_words, counts)
        lead = "Use it" if self.verdict is Verdict.USE else "It will not pay"
        return (
            f"{lead}: to ε = {self.epsilon:.2g} ProxyBFGS takes {own} rounds with it and {without} "
            f"without a proxy, L-BFGS {lbfgs} (rehearsed, rough)."
        )

    @property
    def recommended(self) -> Problem:
        """The problem with this proxy, or without one where it will not pay."""
        refused = self.verdict is Verdict.DO_NOT_USE
        return replace(self.problem, proxy=Zero()) if refused else self.problem

    @property
    def method(self) -> DANE | ProxyBFGS:
        """The method that the verdict is for."""
        return DANE(eta=math.inf) if self.verdict is Verdict.ONE_ROUND else ProxyBFGS()

    def __str__(self) -> str:
        used = f"the audit used {count_words(self.ledger.target_gradients, 'round')}"
        lines = [self.sentence, *self.reasons]
        if self.misfits:
            misfits = ", ".join(f"{misfit:.2g}" for misfit in self.misfits)
            lines.append(
                f"along the steps: δ ≥ {self.delta.low:.3g}, H ≥ {self.H.low:.3g}, misfit of the "
                f"proxy's metric {misfits} (0 is best)"
            )
        return "\n  ".join([*lines, f"{used}, each one full gradient"])


def round_words(rounds: float) -> str:
    """Return a number of rounds to read.

    Examples
    --------
    >>> round_words(12.0), round_words(math.inf)
    ('about 12', 'more than 1,000')
    """
    return f"more than {MOST:,}" if math.isinf(rounds) else f"about {rounds:,.0f}"


def audit_rounds(problem: Problem, w0: Vector, epsilon: float | None, budget: int) -> RoundAudit:
    """Audit a proxy of an exact target with at most three rounds, none where δ = 0 is known."""
    begun = time.perf_counter()
    if problem.same_curvature:
        delta, H = Interval(0.0, 0.0, 0.0), Interval(math.nan, 0.0, math.inf)
        found = RoundAudit(delta, H, Ledger(), problem, w0, None, verdict=Verdict.ONE_ROUND)
        return replace(found, rounds=1.0, epsilon=epsilon or math.nan)
    if budget < FEWEST:
        raise ValueError(message("budget", budget, f"{FEWEST} or more, of exact gradients"))
    seen, ledger = first_rounds(problem, w0, min(ROUNDS, budget))
    proxy = MeteredProxy(problem.proxy, ledger)
    delta, H = (Interval(size, size, math.inf) for size in sizes_along(proxy, seen))
    model = StandIn.of(proxy, seen)
    least = find_minimum(problem.proxy, w0, penalty=problem.penalty)
    gap = 0.0 if least is None else model.scale * (proxy.value(w0) - proxy.value(least))
    # A proxy without labels, say, is lowest at w0: there is nothing to rehearse on the way down.
    kept = least if gap > model.excess else None
    found = RoundAudit(delta, H, ledger, problem, w0, model, kept)
    source = "estimated" if epsilon is None else "given"
    if epsilon is None:
        values = [each.value for each in seen if math.isfinite(each.value)] or [0.0]
        epsilon = SHARE * max(gap, max(values) - min(values), model.excess, 1e-300)
    found = replace(rehearse_rounds(found, epsilon), epsilon_source=source)
    ledger.seconds = time.perf_counter() - begun
    return found


def rehearse_rounds(found: RoundAudit, epsilon: float) -> RoundAudit:
    """Return the audit with rounds and verdict for an accuracy; no target gradient is needed."""
    model, least, w0 = found.model, found.least, found.w0
    if model is None:
        return replace(found, epsilon=epsilon)
    taken = found.ledger.target_gradients
    own = taken - 1 + model.rounds(epsilon)
    if least is not None and found.stands_for_target:
        box = found.problem.penalty
        rivals = rival_rounds(found.problem.proxy, w0, least, epsilon / model.scale, box)
    else:
        loss = model.draw(np.random.default_rng(0))
        rivals = rival_rounds(loss, model.project(w0), loss.minimiser(), epsilon)
    # Useless curvature is dropped, and all of the target's has to be learnt from there.
    dropped = taken + rivals[0]
    own = dropped if found.unlike or model.gain < MARGIN else min(own, dropped)
    verdict = Verdict.USE if own < math.inf and own <= min(rivals) else Verdict.DO_NOT_USE
    if not model.misfits and model.excess > epsilon:
        verdict = Verdict.UNSURE
    without, lbfgs = rivals
    return replace(
        found,
        verdict=verdict,
        epsilon=epsilon,
        rounds=own,
        rounds_without=without,
        rounds_lbfgs=lbfgs,
    )


@dataclass(frozen=True)
class Seen:
    """A point, and what the target answered there."""

    w: Vector
    value: float
    gradient: Matrix


@dataclass(frozen=True)
class _FromProxy(ProxyBFGS):
    """ProxyBFGS as it begins without a w0: at the proxy's minimum."""

    def keep_start(self, state: Any) -> Any:
        return state


def first_rounds(problem: Problem, w0: Vector, rounds: int) -> tuple[list[Seen], Ledger]:
    """Return the answers to the first rounds of ProxyBFGS, fewer where one is at the minimum."""
    run = Run(problem, w0, method=_FromProxy(), rng=0)
    seen: list[Seen] = []
    enough = NEXT_TO_NOTHING * norm(problem.proxy.gradient(w0))
    while len(seen) < rounds:
        query, begun = run.ask(), time.perf_counter()
        told = answer_query(problem.objective, query)
        run.ledger.add({"target_seconds": time.perf_counter() - begun, **told.extra})
        gradient = to_numpy(told.gradients[0]).astype(np.float64)
        if not np.isfinite(gradient).all() and not seen:
            raise NonFiniteError("the target's gradient is not finite at the first point")
        value = math.nan if told.value is None else told.value
        seen.append(Seen(query.points[0], value, gradient))
        run.tell(told.gradients, value=told.value)
        enough = max(enough, NEXT_TO_NOTHING * norm(seen[0].gradient))
        if norm(gradient) <= enough:
            break
    return seen, run.ledger


def sizes_along(proxy: MeteredProxy, seen: list[Seen]) -> tuple[float, float]:
    """Return the largest ‖change of the gradient‖/‖step‖, of target minus proxy and of target."""
    sizes = [(0.0, 0.0)]
    for a, b in pairwise(seen):
        step, change = norm(b.w - a.w), b.gradient - a.gradient
        proxied = to_numpy(proxy.gradient(b.w) - proxy.gradient(a.w)).astype(np.float64)
        if step > 0 and np.isfinite(change).all():
            sizes.append((norm(change - proxied) / step, norm(change) / step))
    delta, H = (max(size) for size in zip(*sizes, strict=True))
    return delta, H


@dataclass(frozen=True)
class StandIn:
    """The proxy's Hessian where the target was best, in a basis, and how it suits the target.

    ``gain`` is by how much its misfit is below that of the identity.
    """

    centre: Matrix
    basis: Matrix | None
    P: Matrix
    gradient: Matrix
    scale: float
    M: Matrix
    misfits: list[float]
    gain: float

    @classmethod
    def of(cls, proxy: MeteredProxy, seen: list[Seen]) -> StandIn:
        """Fit the metric to the steps that were taken."""
        finite = [each for each in seen if np.isfinite(each.gradient).all()]
        valued = all(math.isfinite(each.value) for each in finite)
        best = min(finite, key=lambda each: each.value if valued else norm(each.gradient))
        points = stack_rows(each.w for each in finite)
        steps, changes = (np.diff(rows, axis=0) for rows in (points, [s.gradient for s in finite]))
        basis, product = None, proxy_product(proxy, best.w)
        if points.shape[1] > DENSE:
            space = lanczos(product, from_numpy(best.gradient, like=best.w), KRYLOV)
            basis = np.linalg.qr(np.vstack([steps, changes, stack_rows(space.basis)]).T)[0]
        P = proxy_hessian(proxy, best.w, basis)
        if not (np.isfinite(P).all() and P.any()):
            P = np.eye(len(P))
        if basis is not None:
            steps, changes = steps @ basis, changes @ basis
        pairs = [pair for pair in map(usable, steps, changes) if pair is not None]
        scale, M, misfits = fit_metric(P, pairs)
        gradient = best.gradient if basis is None else best.gradient @ basis
        flat = [math.log((s @ s) * (y @ y) / sy**2) for s, y, sy in pairs]
        gain = statistics.mean(flat) - statistics.mean(misfits) if pairs else math.inf
        return cls(to_numpy(best.w).astype(np.float64), basis, P, gradient, scale, M, misfits, gain)

    @property
    def steepest(self) -> float:
        """The proxy's strongest curvature, scaled."""
        return self.scale * float(np.abs(np.linalg.eigvalsh(self.P)).max()) if self.misfits else 0.0

    @property
    def excess(self) -> float:
        """The suboptimality that the metric makes of the gradient."""
        return float(self.gradient @ np.linalg.solve(self.M, self.gradient)) / 2

    def draw(self, rng: np.random.Generator) -> Quadratic:
        """Return a quadratic around the centre that the metric is as far off of as it was."""
        size = len(self.P)
        G = rng.standard_normal((size, size))
        values, vectors = np.linalg.eigh((G + G.T) / math.sqrt(2 * size))
        u = rng.standard_normal((size, DIRECTIONS)) if self.misfits else np.zeros((size, 0))

        def excess_misfit(tau: float) -> float:
            # exp(τG) is diagonal in the coordinates of its eigenvectors, where u is as random.
            image = np.exp(tau * values)[:, None] * u
            off = np.sum(u**2, 0) * np.sum(image**2, 0) / np.sum(u * image, 0) ** 2
            return float(np.log(off).mean()) - statistics.mean(self.misfits)

        tau = 0.0
        if self.misfits and excess_misfit(WORST) > 0 > excess_misfit(0.0):
            tau = scipy.optimize.brentq(excess_misfit, 0.0, WORST, xtol=1e-3)
        elif self.misfits and excess_misfit(0.0) < 0:
            tau = WORST
        lengths, axes = np.linalg.eigh(self.M)
        root = (axes * np.sqrt(np.maximum(lengths, 1e-300))) @ axes.T @ vectors
        A = (root * np.exp(tau * values)) @ root.T
        return Quadratic((A + A.T) / 2, b=self.gradient)

    def rounds(self, epsilon: float) -> float:
        """Return the rounds of ProxyBFGS from the centre, the median of a few quadratics."""
        counts, rng = [], np.random.default_rng(0)
        for _ in range(DRAWS):
            loss = self.draw(rng)
            goal = loss.value(loss.minimiser()) + epsilon
            counts.append(count_bfgs(loss, Quadratic(self.P), np.zeros(len(self.P)), goal))
        return statistics.median(counts)

    def project(self, w: Vector) -> Matrix:
        """Return a point in the coordinates of the model."""
        away = to_numpy(w).astype(np.float64) - self.centre
        return np.asarray(away if self.basis is None else away @ self.basis)


def fit_metric(P: Matrix, pairs: list[Pair]) -> tuple[float, Matrix, list[float]]:
    """Return the scale of P, ``c(|P| + λI)`` with the λ of least misfit, and each step's misfit."""
    values, vectors = np.linalg.eigh(P)
    values = np.abs(values)
    shifts = np.logspace(-9, 3, 61) * values.max()
    if not pairs:
        return 1.0, (vectors * (values + shifts[0])) @ vectors.T, []
    steps, changes = (np.stack([pair[i] for pair in pairs]) @ vectors for i in (0, 1))
    products = np.array([pair[2] for pair in pairs])
    lengths = shifts[:, None] + values
    along = steps**2 @ lengths.T
    misfits = np.log(along * (changes**2 @ (1 / lengths).T)) - 2 * np.log(products)[:, None]
    best = int(np.argmin(misfits.mean(axis=0)))
    # Where λ is large, the scale of P + λI says nothing of P's.
    scale, own = (geometric_mean(products / size) for size in (along[:, best], along[:, 0]))
    return own, (vectors * (scale * lengths[best])) @ vectors.T, misfits[:, best].tolist()


def geometric_mean(ratios: Matrix) -> float:
    """Return the geometric mean of positive numbers."""
    return float(np.exp(np.log(ratios).mean()))


def rival_rounds(
    loss: Any, w0: Vector, least: Vector, epsilon: float, box: Any = None
) -> tuple[float, float]:
    """Return the rounds of ProxyBFGS without a proxy, and of L-BFGS, from w0 to ε."""
    goal = float(loss.value(least)) + epsilon
    return count_bfgs(loss, Zero(), w0, goal, box), count_lbfgs(loss, w0, goal, box)


def count_bfgs(loss: Any, proxy: Any, w0: Vector, goal: float, box: Any = None) -> float:
    """Return the rounds of ProxyBFGS from w0 until a loss is down to a goal."""
    reached: list[bool] = []

    def watch(step: Any) -> bool:
        reached.append(bool(step.value <= goal))
        return reached[-1]

    problem = Problem(FunctionObjective(loss.gradient, value=loss.value), proxy, box)
    method = ProxyBFGS(start_at_proxy=False)
    minimize(problem, w0, method=method, steps=MOST, callback=watch)
    return float(len(reached)) if reached[-1] else math.inf


def count_lbfgs(loss: Any, w0: Vector, goal: float, box: Any = None) -> float:
    """Return the gradients of SciPy's L-BFGS from w0 until a loss is down to a goal."""
    values: list[float] = []

    def both(x: Matrix) -> tuple[float, Matrix]:
        w = from_numpy(x, like=w0)
        values.append(float(loss.value(w)))
        # L-BFGS-B counts a value with its gradient, as rounds do; the goal ends it by an error.
        if values[-1] <= goal:
            raise StopIteration
        return values[-1], to_numpy(loss.gradient(w)).astype(np.float64)

    options = {"maxcor": 10, "maxfun": MOST, "maxiter": MOST, "ftol": 0.0, "gtol": 0.0}
    try:
        start = to_numpy(w0).astype(np.float64)
        limits = None if box is None else [to_numpy(limit) for limit in box.limits(w0)]
        bounds = None if limits is None else scipy.optimize.Bounds(*limits)
        scipy.optimize.minimize(
            both, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
    except StopIteration:
        return float(len(values))
    return math.inf
