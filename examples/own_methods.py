"""Methods, a correction and a step size of one's own: heavy ball, SVRG, SAGA, a window mean.

Each is a class that the package does not know. All run with ``eta="auto"``, save and resume.
``proxyprox.testing.check_method`` checks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import proxyprox as pp


@dataclass(frozen=True)
class HeavyBallState:
    """The iterate and the step that led to it."""

    w: Any
    move: Any
    k: int = 0


@dataclass(frozen=True)
class HeavyBall(pp.Method):
    """ProxyProx whose centre is carried on by the last step: ``c_k = w_k + β (w_k − w_{k−1})``."""

    eta: Any
    beta: float = 0.3

    def init(self, w0, problem):
        return HeavyBallState(w0, 0 * w0)

    def tell(self, state, answers, step):
        difference = answers.gradients[0] - step.proxy.gradient(state.w)
        w = step.solve(linear=difference, centre=state.w + self.beta * state.move)
        return HeavyBallState(w, w - state.w, state.k + 1)


@dataclass(frozen=True)
class SvrgState:
    """The iterate, the reference point and the full gradient there."""

    w: Any
    reference: Any = None
    full: Any = None
    k: int = 0


@dataclass(frozen=True)
class SvrgProxyProx(pp.Method):
    """ProxyProx with SVRG's estimate: a full gradient now and then, differences in between."""

    eta: Any
    period: int = 10

    needs = ("everything",)
    two_points = True

    def init(self, w0, problem):
        return SvrgState(w0)

    def ask(self, state):
        if state.k % self.period == 0:
            return pp.Request((state.w,), everything=True)
        return pp.Request((state.w, state.reference))

    def tell(self, state, answers, step):
        reference, full = state.reference, state.full
        if state.k % self.period == 0:
            reference, full = state.w, answers.gradients[0]
            estimate = full
        else:
            here, there = answers.gradients
            estimate = here - there + full
        w = step.solve(linear=estimate - step.proxy.gradient(state.w), centre=state.w)
        return SvrgState(w, reference, full, state.k + 1)


@dataclass(frozen=True)
class SagaState:
    """The iterate, the last gradient of every row, and their mean."""

    w: Any
    table: Any
    mean: Any
    k: int = 0


@dataclass(frozen=True)
class SagaProxyProx(pp.Method):
    """ProxyProx with SAGA's estimate, for batches of one row: ``g_i − t_i + mean(t)``."""

    eta: Any

    needs = ("everything", "samples")

    def init(self, w0, problem):
        rows = problem.objective.samples(problem.objective.everything())
        return SagaState(w0, [0 * w0] * rows, 0 * w0)

    def tell(self, state, answers, step):
        (row,), (gradient,) = answers.batch, answers.gradients
        change = gradient - state.table[row]
        w = step.solve(linear=change + state.mean - step.proxy.gradient(state.w), centre=state.w)
        table = [gradient if i == row else known for i, known in enumerate(state.table)]
        return SagaState(w, table, state.mean + change / len(table), state.k + 1)


@dataclass(frozen=True)
class WindowMean:
    """A correction: the mean of the newest few differences."""

    length: int = 4
    two_points = False

    def __call__(self, difference, before, memory, k):
        return [*(memory or []), difference][-self.length :]

    def estimate(self, memory):
        return sum(memory) / len(memory)


@dataclass(frozen=True)
class HalvingStep(pp.StepSize):
    """A step size that is halved when the gradient has grown."""

    first: float
    measures = True

    def init(self, w0, problem, *, uses_proxy):
        return {"eta": self.first, "size": float("inf")}

    def eta(self, state, k):
        return state["eta"]

    def observe(self, state, seen):
        size = float(seen.gradient @ seen.gradient)
        return {"eta": state["eta"] / (2 if size > state["size"] else 1), "size": size}
