"""Proxies with numbers that a run fits, or with a proxy of their own: how a run asks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proxyprox._util.arrays import Matrix, Vector, all_finite, copy_tree, same_point
from proxyprox.inner.base import SolverPolicy
from proxyprox.methods.ladder import LadderPolicy, Nested, corrected_hessian
from proxyprox.oracle import FreeProxy, MeteredProxy, Remembered
from proxyprox.problems import Zero
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Facts, Secant
from proxyprox.result import Ledger
from proxyprox.stepsizes.auto import is_due


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

    @property
    def remembered(self) -> Remembered:
        """The last gradients; those of the levels below do not outlive a step."""
        return self._remembered

    @remembered.setter
    def remembered(self, anchors: Remembered) -> None:
        self._remembered = anchors


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
    (point, *others), (gradient, *rest) = query.points, answers.gradients
    exact = query.exact or query.batch is None
    if path.gradient is None:
        return [Secant((point,), (gradient,), exact)]
    if exact:
        if same_point(path.point, point):
            return []
        return [Secant((point, path.point), (gradient, path.gradient), True)]
    pairs = zip(others, rest, strict=True)
    return [Secant((point, w), (gradient, g), False) for w, g in pairs if not same_point(w, point)]


def learn(parts: Any, state: Any, answers: Any, before: Any, first: int) -> tuple[Any, ...]:
    """Return what the proxy has learnt, and the states of the method and of the step size.

    From exact answers it learns in the first steps, and then twice while the steps double.
    """
    proxy, k, learnt = parts.proxy, state.method.k, state.step_size
    proxy.adopt(state.learning)
    secants = secants_of(state, answers) if all(map(all_finite, answers.gradients)) else []
    exact = bool(secants) and secants[0].exact
    if not secants or (exact and k > first and not is_due(k, 2)):
        return state.learning, before, learnt
    old, learning = proxy.now, proxy.learn(state.learning, secants, k)
    if learning.numbers != state.learning.numbers:
        proxy.adopt(learning)
        before = parts.method.adapt(before, old, proxy.now, leap=learning.leap)
        learnt = parts.step_size.adapt(copy_tree(learnt), old, proxy.now, learning.leap)
    return learning, before, learnt
