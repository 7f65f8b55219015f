"""X."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, changed, dot, norm, same_point, square
from proxyprox.inner.base import NonFiniteError
from proxyprox.stepsizes.averages import Averages, share
from proxyprox.stepsizes.base import TRIES, Observation, Restart, Solve, StepSize


@dataclass(frozen=True)
class DistanceStepPolicy:
    grow: float = 2.0
    reach: float = 1.2
    trust: float = 6.0
    lagging: float = 2.0
    clip: float = 4.0
    exploded: float = 2.5
    retreat: float = 0.125
    probe: float = 1e-4
    blind_probe: float = 0.03
    jump: float = 1024.0
    growth: float = 0.8
    caution: float = 0.25
    rounding: float = 1e-7


@dataclass(frozen=True)
class Travelled:
    """The averages, ``Σ‖w_{i+1} − w_i‖²``, the lower bound, and lengths of the path."""

    averages: Averages
    squares: float = 0.0
    proven: float = 0.0
    moved: float = 0.0
    farthest: float = 0.0

    def with_step(self, k: int, start: Vector, centre: Vector, w: Vector) -> Travelled:
        """Enter step k, from ``centre`` to ``w``."""
        away, moved = norm(w - start), norm(w - centre)
        squares = self.squares + square(moved)
        proven = max(self.proven, (away - squares / away) / 2 if away > 0 else 0.0)
        averages = self.averages.with_iterate(k, w)
        return Travelled(averages, squares, proven, moved, max(self.farthest, away))


@dataclass(frozen=True)
class DistanceState:
    """What has been measured, and the step in progress."""

    start: Vector
    repeatable: bool
    path: Travelled
    before: Travelled | None = None
    eta: float = 0.0
    square: float = 0.0
    longest: float = 0.0
    reach: float = 0.0
    noise: float = 0.0
    previous: Vector | None = None
    last: Vector | None = None
    linear: Vector | None = None
    asked: Vector | None = None
    centre: Vector | None = None
    undo: Restart | None = None


@dataclass(frozen=True)
class DistanceStep(StepSize):
    """The distance travelled over the gradients, for noisy gradients without a proxy."""

    policy: DistanceStepPolicy = field(default_factory=DistanceStepPolicy)

    measures: ClassVar[bool] = True

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool = False) -> DistanceState:
        """Return what is known before the first step."""
        objective = None if problem is None else problem.objective
        repeatable = bool(getattr(objective, "repeatable", True))
        return DistanceState(w0, repeatable, Travelled(Averages(w0, w0)))

    def eta(self, state: DistanceState, k: int) -> float:
        """Return η of the step in progress; NaN before anything was observed."""
        return state.eta if state.eta > 0 else math.nan

    def comparison_point(self, state: DistanceState, k: int) -> Vector | None:
        """Return the start at the second step, for the scale of the steps."""
        return state.previous if k == 1 and state.repeatable else None

    def observe(self, state: DistanceState, seen: Observation) -> DistanceState:
        """Measure with a batch's gradient; ``eta`` is for this step."""
        policy, k, size, path, old = self.policy, seen.k, norm(seen.gradient), state.path, state
        noise = self._noise(state, seen)
        believed = max(policy.clip * math.sqrt(state.square), state.longest)
        if k < 3 or not state.square > 0:
            believed = size
        longest = max(state.longest, min(size, believed))
        excess = max(1.0, size / believed) if believed > 0 else 1.0
        mean = state.square + share(k) * (square(size / excess) - state.square)
        if state.previous is not None and state.linear is not None:
            # With a penalty, the step to w has shown a subgradient of it; else this is rounding.
            step = seen.w - state.previous
            gradient = seen.gradient - state.linear - step / state.eta
            path = changed(path, averages=path.averages.with_gradient(k, gradient, seen.w))
        state = changed(
            state, path=path, noise=noise, square=mean, longest=longest, asked=seen.w,
            last=seen.gradient if seen.noise is None else None,
        )  # fmt: skip
        if k == 0:
            eta = self._first(state, seen)
        elif k == 1:
            eta = self._second(state, seen)
            state = changed(state, reach=eta * max(size, math.sqrt(noise)) if eta != policy.grow * state.eta else 0.0)
        else:
            eta = policy.grow * state.eta / excess
        eta = min(eta, self.limit(state, k), 2.0**40)
        if excess > policy.exploded and state.previous is not None:
            # What was measured at a point too far says nothing about the way there.
            undo = Restart(state.previous, seen.anchor, state.linear)
            eta = policy.retreat * old.eta
            state = changed(old, path=old.before, undo=undo, asked=seen.w)
        return changed(state, eta=eta if eta > 0 else old.eta)

    def _noise(self, state, seen):
        if seen.noise is not None:
            return state.noise + share(seen.k) * (seen.noise - state.noise)
        if seen.k == 1 and state.repeatable and state.last is not None:
            again = next(g for point, g, _ in seen.elsewhere if same_point(point, state.previous))
            gap = again - state.last
            return dot(gap, gap) / 2
        return 0.0 if seen.k == 0 else 1.0

    def _first(self, state: DistanceState, seen: Observation) -> float:
        probe = self.policy.probe if state.repeatable else self.policy.blind_probe
        length, steepness = probe * max(1.0, norm(seen.w)), norm(seen.gradient)
        return length / steepness if steepness > 0 else length

    def _second(self, state: DistanceState, seen: Observation) -> float:
        policy = self.policy
        found = (rest for point, *rest in seen.elsewhere if same_point(point, state.previous))
        again, gap = next(found, (None, None))
        if again is None:
            return policy.grow * state.eta
        step, change = seen.w - state.previous, seen.gradient - again
        slope = dot(change, step)
        if not slope > 0:
            return policy.grow * state.eta
        eta = dot(step, step) / slope
        if norm(change) > policy.rounding * norm(seen.gradient):
            noise = change if gap is None or seen.half_gap is None else seen.half_gap - gap
            growth, whole = dot(noise, noise) / slope, square(norm(change)) / slope
            if growth > 0:
                eta = min(eta, policy.caution * policy.growth / growth, policy.growth / whole)
        return min(eta, policy.jump * state.eta)

    def limit(self, state: DistanceState, k: int) -> float:
        """Return the largest η that the distance and the gradients allow."""
        policy, path = self.policy, state.path
        if state.repeatable:
            travelled = max(norm(path.averages.long - state.start), state.reach)
            distance = min(travelled, max(policy.trust * path.proven, state.reach))
            reach = policy.reach * (policy.lagging if path.averages.lag > 0 else 1.0)
        else:
            distance, reach = path.farthest, 1.0
        if state.square == 0 or distance == 0:
            return math.inf
        return reach * distance / math.sqrt((k + 1) * state.square)

    def restart(self, state: DistanceState) -> Restart | None:
        """Return the centre before if the last step led to a gradient that is far too long."""
        return state.undo

    def solve(
        self, state: DistanceState, k: int, linear: Vector, centre: Vector, solve: Solve
    ) -> tuple[Vector, DistanceState]:
        """Take the step, which is at most twice as long as the way so far."""
        seen = max(norm(centre - state.start), state.path.moved, state.reach)
        farthest, eta = self.policy.grow * seen if seen > 0 else math.inf, state.eta
        for _ in range(TRIES):
            try:
                w = solve(linear, centre, eta)
                if not norm(w - centre) > farthest:
                    break
                eta = eta / 2
            except NonFiniteError:
                eta = eta / 4
        else:
            w = solve(linear, centre, eta)
        return w, changed(state, eta=eta, linear=linear, centre=centre)

    def end_step(self, state: DistanceState, k: int, w: Vector) -> DistanceState:
        """Enter the step to w."""
        # A method that does not know of restarts has stepped from the point it asked about.
        centre = state.asked if state.centre is None else state.centre
        back = state.undo is not None and same_point(centre, state.undo.centre)
        return changed(
            state, path=state.path.with_step(k, state.start, centre, w), before=state.path,
            previous=centre if back else state.asked, asked=None, centre=None, undo=None,
        )  # fmt: skip

    def answer(self, state: DistanceState, w: Vector) -> Vector:
        """Return the average, or a shorter one if it lags."""
        return state.path.averages.answer if state.noise > 0 else w
