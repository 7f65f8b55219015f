"""A proxy with numbers that a run fits: how it is asked, and what it learns from the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proxyprox._util.arrays import Vector, all_finite, copy_tree, same_point
from proxyprox.oracle import MeteredProxy, Remembered
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Facts, Secant
from proxyprox.result import Ledger
from proxyprox.stepsizes.auto import is_due


class LearntProxy:
    """A proxy with numbers that a run fits, weights for example, as the run asks it.

    ``now`` is the proxy with the numbers in use; whatever is asked is asked of that.
    """

    learns = True

    def __init__(self, proxy: Any, ledger: Ledger, start: Vector) -> None:
        self.proxy, self.ledger = proxy, ledger
        self._parts: dict[int, MeteredProxy] = {}
        self.first = proxy.begin(start, self._metered)
        self.adopt(self.first)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "now" not in vars(self):
            raise AttributeError(name)
        return getattr(self.now, name)

    def _metered(self, part: Any, name: str) -> MeteredProxy:
        # What a run learns from may be a proxy of the moment: its id must not be another's.
        known = self._parts.get(id(part))
        if known is None or known.proxy is not part:
            known = self._parts[id(part)] = MeteredProxy(part, self.ledger, name)
        return known

    def adopt(self, state: Any) -> None:
        """Ask the proxy with these numbers from now on."""
        self.now = self.proxy.using(state, self._metered)

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
        return next((p.fault for p in self._parts.values() if p.fault is not None), None)

    @fault.setter
    def fault(self, fault: None) -> None:
        for part in self._parts.values():
            part.fault = fault

    @property
    def remembered(self) -> Remembered:
        """Nothing that outlives a step."""
        return ()

    @remembered.setter
    def remembered(self, anchors: Remembered) -> None:
        for part in self._parts.values():
            part.remembered = anchors


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
