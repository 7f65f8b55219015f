"""Subproblems of a proxy that has a proxy of its own: the library's method, one level down."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from proxyprox._util.arrays import Matrix, Vector, all_finite, from_numpy, norm, rounding, to_numpy
from proxyprox.inner.base import InnerResult, Memory, NonFiniteError, Patience, Solver, Subproblem
from proxyprox.inner.box import absolute
from proxyprox.methods.base import Answers, OuterStep
from proxyprox.methods.quasi_newton import Curvature, Metric, ProxyBFGS, conjugate, updated, usable
from proxyprox.problems.combination import Combination
from proxyprox.problems.functions import FunctionObjective
from proxyprox.problems.problem import Problem, facts_of
from proxyprox.stepsizes.base import Constant
from proxyprox.stopping import Criterion


@dataclass(frozen=True)
class LadderPolicy:
    """What is asked of a medium model, fixed by benchmarks/several_proxies.py.

    docs/results/several_proxies has the record.

    Attributes
    ----------
    kept : int
        Gradients of the medium model that are remembered; their changes correct the Hessian.
    probes : float
        Gradients that a Hessian takes, as a share of the parameters.
    """

    kept: int = 400
    probes: float = 0.3


@dataclass(frozen=True)
class Nested(Solver):
    """ProxyBFGS on φ of the medium model, in the metric of φ of the coarse one.

    Secants of the medium model are kept from one subproblem to the next.

    Parameters
    ----------
    max_steps : int
        Medium gradients at most for each subproblem.
    """

    max_steps: int = 200

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient")

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory,
        rng: np.random.Generator,
    ) -> InnerResult:  # fmt: skip
        """Ask for φ's gradients until the criterion is met."""
        helper = facts_of(phi.proxy).helper
        model = Combination(
            [helper], [1.0], tilt=phi.linear, mu=phi.pull, centre=phi.centre if phi.pull else None
        )
        objective = FunctionObjective(phi.gradient, value=phi.value)
        method = ProxyBFGS(start_at_proxy=not memory)
        state = method.init(start, Problem(objective, model))
        if memory:
            steps, changes = memory["steps"], memory["changes"]
            own = [y + phi.pull * s for s, y in zip(steps, changes, strict=True)]
            state = replace(state, steps=list(steps), changes=own)
        best: InnerResult | None = None
        patience = Patience(self.max_steps // 10)
        for t in range(self.max_steps + 1):
            w = method.ask(state).points[0]
            gradient = phi.gradient(w)
            if all_finite(gradient):
                first = None if best is None else best.progress.start_residual
                reached = InnerResult(w, phi.progress(w, gradient, t, first))
                if best is None or reached.progress.residual < best.progress.residual:
                    best = reached
                if stop(reached.progress) or patience.is_exhausted(reached.progress.residual):
                    break
            answers = Answers((gradient,), value=phi.value(w))
            step = OuterStep(model, rng, Constant(1.0), None, t, _no_subproblem)
            state = method.tell(state, answers, step)
        memory["steps"] = state.steps
        own = [y - phi.pull * s for s, y in zip(state.steps, state.changes, strict=True)]
        memory["changes"] = own
        if best is None:
            raise NonFiniteError("the proxy's gradient is not finite at a trial point")
        return best


def _no_subproblem(*arguments: Any, **options: Any) -> Any:
    raise TypeError("this method solves no subproblems")


def corrected_hessian(proxy: Any, helper: Any, w: Vector) -> Matrix:
    """Return a helper's Hessian with the secants of the gradients that a proxy remembers.

    A few probes add secants at w, along directions in which the two Hessians differ most: they
    come from the power iteration of ``B⁻¹ ∇²L̂``.
    """
    size, gradient = int(w.shape[0]), to_numpy(proxy.gradient(w)).astype(np.float64)
    curvature = Curvature(helper, w, np.ones(size), np.ones(size, dtype=bool), form=True)
    assert curvature.matrix is not None
    curvature.matrix = absolute((curvature.matrix + curvature.matrix.T) / 2)
    away = rounding(w, 1 / 3) * max(1.0, norm(w))
    probes = math.ceil(LadderPolicy.probes * size)
    v = np.random.default_rng(len(proxy.remembered)).choice([-1.0, 1.0], size)
    for probe in range(probes + 1):
        known = zip(*proxy.remembered, strict=True)
        points, gradients = ([to_numpy(x).astype(np.float64) for x in xs] for xs in known)
        moves = zip(np.diff(points, axis=0), np.diff(gradients, axis=0), strict=True)
        pairs = [pair for s, y in moves if (pair := usable(s, y)) is not None]
        metric = Metric().fitted(curvature, pairs, quadratic=False)
        B = updated(curvature.shifted(metric.scale, metric.shift), conjugate(pairs)[0])
        if probe < probes:
            v = v / np.linalg.norm(v)
            there = proxy.gradient(from_numpy(to_numpy(w) + away * v, like=w))
            change = (to_numpy(there).astype(np.float64) - gradient) / away
            v = np.linalg.solve(B, change) - v
    return from_numpy(B, like=w)
