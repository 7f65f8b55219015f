r"""Will this proxy save rounds? The audit of targets whose every gradient is exact.

A round is one full gradient, and the rival is ProxyBFGS without a proxy, which is an L-BFGS. The
audit takes the first rounds of :class:`~proxyprox.ProxyBFGS` and looks at the gradient's change y
along each step s. With the proxy's Hessian P at the best of these points, c and λ are fitted as in
the run, and

.. math:: \log\frac{(s^\top Ms)(y^\top M^{-1}y)}{(s^\top y)^2}, \qquad M = cP + \lambda I,

tells how far the metric M is off: it is zero if :math:`Ms \parallel y`. Everything else is a
rehearsal that costs the target nothing:

- With the proxy, ProxyBFGS minimises a quadratic with the target's gradient at that point and the
  Hessian :math:`M^{1/2}e^{\tau G}M^{1/2}`, G a random symmetric matrix, τ as large as makes the
  misfit of random directions that of the steps. In many dimensions all of it happens in a Krylov
  space of P.
- Without a proxy it minimises the proxy, which curves as the target does if it is any good. A proxy
  without a minimum away from w0, such as one without labels, leaves it such a quadratic, and so
  does one that is many times steeper than the target can be.

ProxyBFGS drops a useless metric: it takes no more rounds than those without a proxy and the audit's
own together, and just as many if the proxy is that steep or its metric is no better than the
identity.

The verdict compares the two counts and nothing else. Both are rough: ``docs/results/audit`` has the
figures.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy  # not scipy.optimize, which is slow: SciPy imports it when it is used

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._util.validation import message
from proxyprox.advice.defaults import POLICY as DEFAULTS
from proxyprox.diagnostics.curvature import lanczos, proxy_hessian, proxy_product, stack_rows
from proxyprox.diagnostics.rehearsal import POLICY, Matrix
from proxyprox.diagnostics.report import RoundAudit, Verdict, decide
from proxyprox.inner.base import NonFiniteError
from proxyprox.inner.exact import find_minimum
from proxyprox.inner.newton import Pair
from proxyprox.methods import ProxyBFGS
from proxyprox.methods.quasi_newton import usable
from proxyprox.minimization import minimize
from proxyprox.oracle import MeteredProxy, answer_query, charge
from proxyprox.problems import FunctionObjective, Problem, Quadratic, Zero
from proxyprox.problems.problem import facts_of
from proxyprox.result import Interval, Ledger
from proxyprox.run import Run


def audit_rounds(problem: Problem, w0: Vector, epsilon: float | None, budget: int) -> RoundAudit:
    """Audit a proxy of an exact target with at most three rounds, none if δ = 0 is known."""
    begun = time.perf_counter()
    if problem.same_curvature:
        none, H = Interval(0.0, 0.0, 0.0), Interval(math.nan, 0.0, math.inf)
        return RoundAudit(
            verdict=Verdict.ONE_ROUND, leaning=Verdict.ONE_ROUND, problem=problem, w0=w0,
            delta=none, H=H, ledger=Ledger(), epsilon=epsilon or math.nan,
        )  # fmt: skip
    if budget < 2:
        raise ValueError(message("budget", budget, "2 or more, of exact gradients"))
    seen, ledger = first_rounds(problem, w0, min(POLICY.rounds, budget))
    proxy = MeteredProxy(problem.proxy, ledger)
    delta, H = (Interval(size, size, math.inf) for size in sizes_along(proxy, seen))
    model = StandIn.of(proxy, seen)
    least = find_minimum(problem.proxy, w0, penalty=problem.penalty)
    gap = 0.0 if least is None else model.scale * (proxy.value(w0) - proxy.value(least))
    if epsilon is None:
        values = [each.value for each in seen if math.isfinite(each.value)] or [0.0]
        excess = max(gap, max(values) - min(values), model.excess, 1e-300)
        epsilon = POLICY.rounds_accuracy * excess
    found = RoundAudit(
        verdict=Verdict.USE, leaning=Verdict.USE, problem=problem, w0=w0, delta=delta, H=H,
        ledger=ledger, epsilon=epsilon, model=model,
        # A proxy without labels, say, is lowest at w0: there is nothing to rehearse on the way.
        least=least if gap > model.excess else None,
    )  # fmt: skip
    found = rehearse_rounds(found, epsilon)
    ledger.seconds = time.perf_counter() - begun
    return found


def rehearse_rounds(found: RoundAudit, epsilon: float) -> RoundAudit:
    """Return the audit with rounds and verdict for an accuracy; no target gradient is needed."""
    model, least, w0, problem = found.model, found.least, found.w0, found.problem
    most = getattr(problem.objective, "smoothness", math.inf)
    # Along the steps a proxy can seem right and be far too steep elsewhere.
    unlike, taken = model.steepest > POLICY.other_units * most, found.ledger.target_gradients
    if least is not None and not unlike:
        goal = float(problem.proxy.value(least)) + epsilon / model.scale
        without = count_rounds(problem.proxy, Zero(), w0, goal, problem.penalty)
    else:
        loss = model.draw(np.random.default_rng(0))
        goal = loss.value(loss.minimiser()) + epsilon
        without = count_rounds(loss, Zero(), model.project(w0), goal)
    # Useless curvature is dropped, and all of the target's has to be learnt from there.
    own = taken + without
    if not unlike and model.gain >= POLICY.little:
        own = min(taken - 1 + model.rounds(epsilon), own)
    flat = not model.misfits and model.excess > epsilon
    leaning = Verdict.DO_NOT_USE if flat else decide(without, own)
    notes = {
        "Both were rehearsed on models made of the proxy: most counts are right within a factor of "
        "2, a few are off by more than 3. That without a proxy is as good as the proxy.": True,
        f"δ exceeds H: at the scale that suits the steps the proxy curves by {model.steepest:.3g}, "
        f"the target by {most:.3g} at most. Other units or other columns than the target's are the "
        "likely cause.": unlike,
        "The proxy has no minimum away from w0 or not the target's curvature: the method without "
        "it was rehearsed on a quadratic, which can be off by a factor of 5.": least is None
        or unlike,
        f"The rehearsal was made in {len(model.P)} of {len(model.centre):,} dimensions: rougher.": (
            model.basis is not None
        ),
        "ProxyBFGS with the proxy was rehearsed without the bounds.": problem.penalty is not None,
    }
    alarm = (
        "No verdict: the target curved upwards along no step that was taken. Check the sign of its "
        "gradient, with scipy.optimize.check_grad."
    )
    return replace(
        found,
        verdict=Verdict.UNSURE if flat else leaning,
        leaning=leaning,
        alarm=alarm if flat else "",
        reasons=() if flat else tuple(note for note, holds in notes.items() if holds),
        epsilon=epsilon,
        rounds=own,
        rounds_without=without,
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
    # A gradient this small against the first, or the proxy's, holds rounding alone.
    nothing = math.sqrt(np.finfo(np.float64).eps)
    enough = nothing * norm(problem.proxy.gradient(w0))
    while len(seen) < rounds:
        query, begun = run.ask(), time.perf_counter()
        told = answer_query(problem.objective, query)
        charge(run.ledger, {"target_seconds": time.perf_counter() - begun, **told.extra})
        gradient = to_numpy(told.gradients[0]).astype(np.float64)
        if not np.isfinite(gradient).all() and not seen:
            raise NonFiniteError("the target's gradient is not finite at the first point")
        value = math.nan if told.value is None else told.value
        seen.append(Seen(query.points[0], value, gradient))
        run.tell(told.gradients, value=told.value)
        enough = max(enough, nothing * norm(seen[0].gradient))
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
        if points.shape[1] > POLICY.dimensions:
            space = lanczos(product, from_numpy(best.gradient, like=best.w), POLICY.dimensions)
            basis = np.linalg.qr(np.vstack([steps, changes, space.basis]).T)[0]
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
        u, tau = rng.standard_normal((size, size)), 0.0

        def excess_misfit(tau: float) -> float:
            # exp(τG) is diagonal in the coordinates of its eigenvectors, where u is as random.
            image = np.exp(tau * values)[:, None] * u
            off = np.sum(u**2, 0) * np.sum(image**2, 0) / np.sum(u * image, 0) ** 2
            return float(np.log(off).mean()) - statistics.mean(self.misfits)

        if self.misfits and excess_misfit(0.0) < 0:
            high = 1.0
            while excess_misfit(high) < 0:
                high *= 2
            tau = scipy.optimize.brentq(excess_misfit, 0.0, high, xtol=1e-3)
        lengths, axes = np.linalg.eigh(self.M)
        root = (axes * np.sqrt(np.maximum(lengths, 1e-300))) @ axes.T @ vectors
        A = (root * np.exp(tau * values)) @ root.T
        return Quadratic((A + A.T) / 2, b=self.gradient)

    def rounds(self, epsilon: float) -> float:
        """Return the rounds of ProxyBFGS from the centre on such a quadratic."""
        loss = self.draw(np.random.default_rng(0))
        goal = loss.value(loss.minimiser()) + epsilon
        return count_rounds(loss, Quadratic(self.P), np.zeros(len(self.P)), goal)

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
    scale, own = np.exp(np.log(products[:, None] / along[:, [best, 0]]).mean(axis=0)).tolist()
    return own, (vectors * (scale * lengths[best])) @ vectors.T, misfits[:, best].tolist()


def count_rounds(loss: Any, proxy: Any, w0: Vector, goal: float, box: Any = None) -> float:
    """Return the rounds of ProxyBFGS from w0 until a loss is down to a goal."""
    reached: list[bool] = []

    def watch(step: Any) -> bool:
        reached.append(bool(step.value <= goal))
        return reached[-1]

    objective = FunctionObjective(loss.gradient, value=loss.value)
    objective.facts = replace(objective.facts, units=facts_of(loss).units)
    problem = Problem(objective, proxy, box)
    method = ProxyBFGS(start_at_proxy=False)
    minimize(problem, w0, method=method, steps=DEFAULTS.most_steps, callback=watch)
    return float(len(reached)) if reached[-1] else math.inf
