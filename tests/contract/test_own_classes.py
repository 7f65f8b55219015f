"""A user's own classes: they run, save and load, and ``proxyprox.testing`` names what is broken."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from fedred import FedRed
from own_methods import HeavyBall, HeavyBallState, SagaProxyProx, SvrgProxyProx, WindowMean
from proxyprox.problems.protocols import Facts
from proxyprox.testing import (
    ContractError,
    check_inner_solver,
    check_method,
    check_objective,
    check_proxy,
)
from spam import SPAM
from stabilized_dane import StabilizedDANE


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    y = X @ rng.normal(size=3) + 0.3 * rng.normal(size=12) > 0
    target = pp.logistic_regression(X, y, l2=0.1, batch_size=1)
    return pp.Problem(target, target.label_free())


def test_own_methods_and_corrections_pass_their_check():
    for own in (HeavyBall, SvrgProxyProx, SPAM, FedRed, StabilizedDANE):
        check_method(own(0.5))
    for eta in (0.5, "auto"):
        check_method(SagaProxyProx(eta=eta), problem=rows())
    check_method(pp.ProxyProx(eta=0.5, correction=WindowMean()))


@dataclasses.dataclass(frozen=True)
class Mine(pp.Method):
    """A plain ProxyProx to be broken in one way at a time."""

    eta: Any = 0.5

    def init(self, w0, problem):
        return HeavyBallState(w0, w0)

    def tell(self, state, answers, step):
        difference = answers.gradients[0] - self.anchor(state, step)
        return HeavyBallState(step.solve(difference, state.w), state.w, state.k + 1)

    def anchor(self, state, step):
        return step.proxy.gradient(state.w)


class AnchorBefore(Mine):
    def anchor(self, state, step):
        return step.proxy.gradient(state.move)


class NoAnchor(Mine):
    def anchor(self, state, step):
        return 0 * state.w


class EmaAnchorBefore(Mine):
    """A moving average of differences whose anchors are those of the iterate before."""

    def init(self, w0, problem):
        return HeavyBallState(w0, {"before": w0, "mean": None})

    def tell(self, state, answers, step):
        difference = answers.gradients[0] - step.proxy.gradient(state.move["before"])
        mean = state.move["mean"]
        mean = difference if mean is None else 0.5 * (mean + difference)
        w = step.solve(mean, state.w)
        return HeavyBallState(w, {"before": state.w, "mean": mean}, state.k + 1)


class AnchorBeforeAtTimes(Mine):
    def anchor(self, state, step):
        return step.proxy.gradient(state.move if state.k % 5 == 4 else state.w)


@dataclasses.dataclass(frozen=True)
class Nothing:
    """A correction that ignores what the target says."""

    two_points = False

    def __call__(self, difference, before, memory, k):
        return 0 * difference


class Remembers(Mine):
    """Keeps something outside of its state."""

    def anchor(self, state, step):
        last = vars(self).get("last", 0.0) if state.k else 0.0
        object.__setattr__(self, "last", 1e-3 * float(state.w[0]))
        return step.proxy.gradient(state.w) + last


class Forgets(Mine):
    def tell(self, state, answers, step):
        return dataclasses.replace(super().tell(state, answers, step), k=state.k)


class Uphill(Mine):
    def tell(self, state, answers, step):
        w = state.w + 2 * answers.gradients[0]
        return HeavyBallState(w, state.w, state.k + 1)


class Unsavable(Mine):
    def tell(self, state, answers, step):
        return dataclasses.replace(super().tell(state, answers, step), move=lambda: None)


class NotFrozen(pp.Method):
    eta = 1.0


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (AnchorBefore(), "anchor"),
        (NoAnchor(), "anchor"),
        (EmaAnchorBefore(), "anchor"),
        (AnchorBeforeAtTimes(), "anchor"),
        (pp.ProxyProx(eta=0.5, correction=Nothing()), "ignores the target"),
        (Mine, "is a class"),
        (Remembers(), "resume bit for bit|deterministic"),
        (Forgets(), "k in the state"),
        (Uphill(), "diverges"),
        (Unsavable(), "saved"),
        (NotFrozen(), "frozen dataclass"),
        (object(), "subclass of proxyprox.Method"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_a_broken_method_is_named(broken, words):
    with pytest.raises(ContractError, match=f"(?s){words}"):
        check_method(broken)


class Loss:
    """Half the mean squared error of ten rows, to be broken in one way at a time."""

    X = np.random.default_rng(1).normal(size=(10, 3))

    def value(self, w):
        return 0.5 * float(np.mean((self.X @ w - 1) ** 2)) + 0.05 * float(w @ w)

    def gradient(self, w, batch=None):
        X = self.X if batch is None else self.X[batch]
        return X.T @ (X @ w - 1) / len(X) + 0.1 * w

    def hessian(self, w):
        return self.X.T @ self.X / 10 + 0.1 * np.eye(3)

    def hvp(self, w, v):
        return self.X.T @ (self.X @ v) / 10 + 0.1 * v

    def sample(self, rng):
        return rng.integers(10, size=2)

    def everything(self):
        return np.arange(10)


def with_methods(**replaced):
    return type("Broken", (Loss,), replaced)()


BROKEN_LOSSES = {
    "gradient is not that of value": {"value": lambda self, w: 2 * Loss.value(self, w)},
    "hvp is not the derivative": {"hvp": lambda self, w, v: 2 * Loss.hvp(self, w, v)},
    "hessian is not the derivative": {"hessian": lambda self, w: np.eye(3)},
    "smoothness": {"smoothness": 0.01},
    "strong_convexity": {"strong_convexity": 99.0},
    "shape": {"gradient": lambda self, w, batch=None: Loss.gradient(self, w, batch)[:, None]},
}


@pytest.mark.parametrize("words", BROKEN_LOSSES)
def test_a_broken_loss_is_named(words):
    broken = with_methods(**BROKEN_LOSSES[words])
    for check in (check_objective, check_proxy):
        with pytest.raises(ContractError, match=words):
            check(broken, np.ones(3))


BROKEN_OBJECTIVES = {
    "biased": {"sample": lambda self, rng: rng.integers(3, size=2)},
    "two answers": {"gradient": lambda self, w, b=None: w + np.random.default_rng().random()},
    "divisible": {
        "facts": Facts(divisible=True),
        "gradient": lambda self, w, b=None: Loss.gradient(self, w, b) * np.size(b),
    },
    "samples": {"samples": lambda self, batch: "two"},
    "exact is True": {"exact": True},
    "its gradient is not": {"value_and_gradient": lambda self, w, b: (0.0, w)},
    "its value is": {"value_and_gradient": lambda self, w, b: (0.0, Loss.gradient(self, w, b))},
}


@pytest.mark.parametrize("words", BROKEN_OBJECTIVES)
def test_a_broken_objective_is_named(words):
    with pytest.raises(ContractError, match=words):
        check_objective(with_methods(**BROKEN_OBJECTIVES[words]), np.ones(3))


def test_a_right_loss_passes():
    check_objective(Loss(), np.ones(3))
    check_proxy(Loss(), np.ones(3))


class Solver:
    """Gradient descent, to be broken in one way at a time."""

    needs = ()
    handles_penalty = False

    def solve(self, phi, start, stop, memory, rng):
        w, first = start, None
        for t in range(20000):
            gradient = phi.gradient(w)
            progress = phi.progress(w, gradient, t, first)
            first = progress.start_residual
            if stop(progress):
                break
            w = w - 0.1 * gradient
        return pp.inner.InnerResult(w, progress)


class Reports(Solver):
    def solve(self, phi, start, stop, memory, rng):
        solved = super().solve(phi, start, stop, memory, rng)
        return solved._replace(progress=solved.progress._replace(residual=0.5))


class Stops(Solver):
    def solve(self, phi, start, stop, memory, rng):
        return super().solve(phi, start, pp.stopping.Steps(2), memory, rng)


class Ignores(Solver):
    def solve(self, phi, start, stop, memory, rng):
        return super().solve(phi, start, pp.stopping.Relative(1e-9), memory, rng)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (Reports(), "residual it reports"),
        (Stops(), "ends at a residual"),
        (Ignores(), "ask the criterion"),
        (object(), "has no needs"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_a_broken_solver_is_named(broken, words):
    check_inner_solver(Solver())
    with pytest.raises(ContractError, match=words):
        check_inner_solver(broken)
