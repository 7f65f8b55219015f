r"""How many rounds does this proxy take? The audit of targets whose every gradient is exact.

A round is one full gradient. The audit takes the first rounds of :class:`~proxyprox.ProxyBFGS` and
looks at the gradient's change y along each step s. With the proxy's Hessian P at the best of these
points, c and λ are fitted as in the run, and

.. math:: \log\frac{(s^\top Ms)(y^\top M^{-1}y)}{(s^\top y)^2}, \qquad M = cP + \lambda I,

tells how far the metric M is off: it is zero if :math:`Ms \parallel y`. The rest is a rehearsal
that costs the target nothing: ProxyBFGS minimises a quadratic with the target's gradient at that
point and the Hessian :math:`M^{1/2}e^{\tau G}M^{1/2}`, G a random symmetric matrix, τ as large as
makes the misfit of random directions that of the steps. In many dimensions all of it happens in a
Krylov space of P.

ProxyBFGS drops a useless metric by itself, so that using the proxy is the verdict unless the proxy
is many times steeper than the target can be. ``docs/results/audit`` has the figures.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy  # not scipy.optimize, which is slow: SciPy imports it when it is used

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._util.validation import message
from proxyprox.advice.defaults import POLICY as DEFAULTS
from proxyprox.diagnostics.curvature import lanczos, proxy_hessian, proxy_product, stack_rows
from proxyprox.diagnostics.rehearsal import POLICY, Matrix
from proxyprox.diagnostics.report import RoundAudit, Verdict
from proxyprox.inner.base import NonFiniteError
from proxyprox.inner.newton import Pair
from proxyprox.methods import ProxyBFGS
from proxyprox.methods.quasi_newton import usable
from proxyprox.minimization import minimize
from proxyprox.oracle import MeteredProxy, answer_query, charge
from proxyprox.problems import FunctionObjective, Problem, Quadratic
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
    if epsilon is None:
        values = [each.value for each in seen if math.isfinite(each.value)] or [0.0]
        epsilon = POLICY.rounds_accuracy * max(max(values) - min(values), model.excess, 1e-300)
    # Along the steps a proxy can seem right and be far too steep elsewhere.
    most = getattr(problem.objective, "smoothness", math.inf)
    verdict, alarm, notes = Verdict.USE, "", []
    if not model.misfits and model.excess > epsilon:
        verdict = Verdict.UNSURE
        alarm = (
            "No verdict: the target curved upwards along no step that was taken. Check the sign of "
            "its gradient, with scipy.optimize.check_grad."
        )
    elif model.steepest > POLICY.other_units * most:
        verdict = Verdict.DO_NOT_USE
        notes.append(
            f"δ exceeds H: at the scale that suits the steps the proxy curves by "
            f"{model.steepest:.3g}, the target by {most:.3g} at most. Other units or other columns "
            "than the target's are the likely cause."
        )
    if model.basis is not None:
        size = f"{len(model.P)} of {len(model.centre):,}"
        notes.append(f"The rehearsal was made in {size} dimensions: rougher.")
    if problem.penalty is not None:
        notes.append("ProxyBFGS was rehearsed without the bounds.")
    found = RoundAudit(
        verdict=verdict, leaning=Verdict.DO_NOT_USE if alarm else verdict, problem=problem, w0=w0,
        delta=delta, H=H, ledger=ledger, epsilon=epsilon, model=model, alarm=alarm,
        reasons=() if alarm else tuple(notes),
        rounds=ledger.target_gradients - 1 + model.rounds(epsilon),
    )  # fmt: skip
    ledger.seconds = time.perf_counter() - begun
    return found


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
    """The proxy's Hessian where the target was best, in a basis, and how it suits the target."""

    centre: Matrix
    basis: Matrix | None
    P: Matrix
    gradient: Matrix
    scale: float
    M: Matrix
    misfits: list[float]

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
        return cls(to_numpy(best.w).astype(np.float64), basis, P, gradient, scale, M, misfits)

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
        loss, reached = self.draw(np.random.default_rng(0)), list[bool]()
        goal = loss.value(loss.minimiser()) + epsilon

        def watch(step: Any) -> bool:
            reached.append(bool(step.value <= goal))
            return reached[-1]

        problem = Problem(FunctionObjective(loss.gradient, value=loss.value), Quadratic(self.P))
        method, most = ProxyBFGS(start_at_proxy=False), DEFAULTS.most_steps
        minimize(problem, np.zeros(len(self.P)), method=method, steps=most, callback=watch)
        return float(len(reached)) if reached[-1] else math.inf


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
