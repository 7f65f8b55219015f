"""Proxies with numbers that a run fits, or with a proxy of their own: how a run asks them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from proxyprox._util.arrays import (
    Matrix,
    Vector,
    all_finite,
    copy_tree,
    from_numpy,
    norm,
    rounding,
    same_point,
    to_numpy,
)
from proxyprox.inner.base import (
    InnerResult,
    Memory,
    NonFiniteError,
    Patience,
    Solver,
    SolverPolicy,
    Subproblem,
)
from proxyprox.inner.exact import absolute
from proxyprox.methods.base import Answers, OuterStep
from proxyprox.methods.quasi_newton import Curvature, Metric, ProxyBFGS, conjugate, updated, usable
from proxyprox.oracle import FreeProxy, MeteredProxy, Remembered
from proxyprox.problems import FunctionObjective, Problem, Zero
from proxyprox.problems.combination import Combination
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Facts, Secant
from proxyprox.result import Ledger
from proxyprox.stepsizes.auto import is_due
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
        # The first point is the coarse minimum: its gradient is no measure.
        first = phi.residual(start, phi.gradient(start))
        best: InnerResult | None = None
        patience = Patience(self.max_steps // 10)
        for t in range(self.max_steps + 1):
            w = method.ask(state).points[0]
            gradient = phi.gradient(w)
            if all_finite(gradient):
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


class MeteredLadder(MeteredProxy):
    """A proxy with a proxy of its own, as a run asks it: each level is counted.

    The gradients that it remembers correct the helper's Hessian; they are part of the run's state.
    """

    kept = LadderPolicy.kept

    def __init__(self, proxy: Any, ledger: Ledger, start: Vector, level: int) -> None:
        super().__init__(proxy, ledger, f"level {level}", total=level == 2)
        helper = self.helper = proxy_for(proxy.coarse, ledger, start, level + 1)
        self.facts = replace(self.facts, helper=helper, solver=Nested())
        if self.hessian is None and len(start) <= SolverPolicy.dense:
            self.hessian: Any = self._corrected
            self.facts = replace(self.facts, exact_curvature=False)

    def _corrected(self, w: Vector) -> Matrix:
        return corrected_hessian(self, self.helper, w)


class LearntProxy:
    """A proxy with numbers that a run fits, weights for example, as the run asks it.

    ``now`` is the proxy with the numbers in use; whatever is asked is asked of that.
    """

    learns = True

    def __init__(self, proxy: Any, ledger: Ledger, start: Vector) -> None:
        self.proxy, self.ledger = proxy, ledger
        self._parts: dict[str, MeteredProxy] = {}
        self._numbers: Any = None
        self.first = proxy.begin(start, self._metered)
        self.adopt(self.first)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "now" not in vars(self):
            raise AttributeError(name)
        return getattr(self.now, name)

    def _metered(self, part: Any, name: str) -> MeteredProxy:
        # One without a name is a trial: nothing of it is kept.
        if name and name in self._parts:
            return self._parts[name]
        made = MeteredProxy(part, self.ledger, name)
        return self._parts.setdefault(name, made) if name else made

    def adopt(self, state: Any) -> None:
        """Ask the proxy with these numbers from now on."""
        if state.numbers != self._numbers:
            self.now, self._numbers = self.proxy.using(state, self._metered), state.numbers

    @property
    def _asked(self) -> list[MeteredProxy]:
        return [p for p in (*self._parts.values(), self.now) if isinstance(p, MeteredProxy)]

    def learn(self, state: Any, secants: Sequence[Secant], k: int) -> Any:
        """Return the state after the target has answered."""
        return self.proxy.learn(state, secants, k, self._metered)

    @property
    def facts(self) -> Facts:
        """What is known of the proxy with the numbers in use."""
        return replace(facts_of(self.now), learns=True)

    @property
    def fault(self) -> tuple[str, Vector] | None:
        """What was not finite first, of any part."""
        return next((p.fault for p in self._asked if p.fault is not None), None)

    @fault.setter
    def fault(self, fault: None) -> None:
        for part in self._asked:
            part.fault = fault

    @property
    def remembered(self) -> Remembered:
        """Nothing that outlives a step."""
        return ()

    @remembered.setter
    def remembered(self, anchors: Remembered) -> None:
        for part in self._asked:
            part.remembered = anchors


def proxy_for(proxy: Any, ledger: Ledger, start: Vector, level: int = 2) -> Any:
    """Return a proxy as a run from some start asks it; the zero proxy is free."""
    if isinstance(proxy, Zero):
        return FreeProxy()
    facts = facts_of(proxy)
    if facts.learns:
        return LearntProxy(proxy, ledger, start)
    if facts.helper is not None:
        return MeteredLadder(proxy, ledger, start, level)
    deep = level > 2
    return MeteredProxy(proxy, ledger, f"level {level}" if deep else "", total=not deep)


def secants_of(state: Any, answers: Any) -> list[Secant]:
    """Return the pairs of points at which the target has answered for one batch, or exactly."""
    query, path = state.question, state.path
    if answers.outputs:
        pairs = zip(query.points, answers.outputs, strict=True)
        return [Secant((point,), (), True, outputs=outputs) for point, outputs in pairs]
    (point, *others), (gradient, *rest) = query.points, answers.gradients
    exact = query.exact or query.batch is None
    value = math.nan if answers.value is None else float(answers.value)
    if path.gradient is None:
        return [Secant((point,), (gradient,), exact, value)]
    if exact:
        if same_point(path.point, point):
            return []
        return [Secant((point, path.point), (gradient, path.gradient), True, value)]
    pairs = zip(others, rest, strict=True)
    return [Secant((point, w), (gradient, g), False) for w, g in pairs if not same_point(w, point)]


def learn(parts: Any, state: Any, answers: Any, before: Any, first: int) -> tuple[Any, ...]:
    """Return what the proxy has learnt, and the states of the method and of the step size.

    From exact answers it learns in the first steps, and then twice while the steps double.
    """
    proxy, k, learnt = parts.proxy, state.method.k, state.step_size
    proxy.adopt(state.learning)
    known = answers.outputs or answers.gradients
    secants = secants_of(state, answers) if all(map(all_finite, known)) else []
    exact = bool(secants) and secants[0].exact
    if not secants or (exact and k > first and not is_due(k, 2)):
        return state.learning, before, learnt
    old, learning = proxy.now, proxy.learn(state.learning, secants, k)
    if learning.numbers != state.learning.numbers:
        proxy.adopt(learning)
        before = parts.method.adapt(before, old, proxy.now, leap=learning.leap)
        learnt = parts.step_size.adapt(copy_tree(learnt), old, proxy.now, learning.leap)
    return learning, before, learnt
