"""The estimate of ∇L − ∇L̂ from step to step, against the core's formula applied to tensors."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyProx

ETA, GAMMA, INNER = 0.3, 0.05, 3


@dataclass(frozen=True)
class Halved:
    two_points: ClassVar[bool] = False

    def __call__(self, difference, before, estimate, k):
        return -(difference / 2) if estimate is None else -(0.5 * difference) - estimate / 4


CORRECTIONS = [Plain(), EMA(0.3), Halved()]


class Losses:
    """Batches of a quartic target loss and a quadratic proxy, of one vector."""

    def __init__(self):
        draw = torch.Generator().manual_seed(0)
        self.w = torch.randn(4, generator=draw, dtype=torch.float64).requires_grad_(True)
        self.x = torch.randn(24, 4, generator=draw, dtype=torch.float64)
        self.rows = [self.x[16:20], self.x[20:]]

    def target(self, k, w):
        return ((self.x[4 * (k % 4) : 4 * (k % 4) + 4] @ w - 1) ** 4).mean() / 10

    def proxy(self, rows, w):
        return (rows @ w - 0.5).square().mean()


def gradient(function, w):
    w = w.detach().clone().requires_grad_(True)
    return torch.autograd.grad(function(w), w)[0]


def expected_path(correction, *, decay, weight, steps=5):
    """Keep every gradient apart and take the inner steps one by one."""
    losses = Losses()
    w, estimate = losses.w.detach().clone(), None
    path, batch = [], 0

    def full(w):
        return gradient(lambda w: sum(losses.proxy(r, w) for r in losses.rows) / 2, w)

    def difference(k, w):
        return gradient(lambda w: losses.target(k, w), w) + decay * w - full(w)

    for k in range(steps):
        estimate, centre = correction(difference(k, w), None, estimate, k), w
        for _ in range(INNER):
            rows = losses.rows[batch % 2]
            batch += 1
            slope = gradient(lambda w, rows=rows: losses.proxy(rows, w), w) + weight * estimate
            w = (w / GAMMA + centre / ETA - slope) / (1 / GAMMA + 1 / ETA)
        path.append(w)
    return torch.stack(path)


def found_path(correction, *, decay, weight, steps=5):
    losses = Losses()
    w = torch.nn.Parameter(losses.w.detach().clone())
    optimizer = ProxyProx(
        [w], ETA, proxy=Proxy(losses.rows, lambda rows: losses.proxy(rows, w)), stop=INNER,
        correction=correction, correction_weight=weight, inner=ImplicitStep(GAMMA),
        weight_decay=decay, probe=False,
    )  # fmt: skip
    path = []
    for k in range(steps):

        def closure(k=k):
            optimizer.zero_grad()
            loss = losses.target(k, w)
            loss.backward()
            return loss

        optimizer.step(closure)
        path.append(w.detach().clone())
    return torch.stack(path)


@pytest.mark.parametrize(("decay", "weight"), [(0.0, 1.0), (0.1, 0.6)])
@pytest.mark.parametrize("correction", CORRECTIONS, ids=repr)
def test_steps_follow_the_core_formula(correction, decay, weight):
    options = {"decay": decay, "weight": weight}
    found, expected = found_path(correction, **options), expected_path(correction, **options)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_corrections_that_are_refused(toy):
    for two_points, function in (
        (False, lambda new, kept: new.clip(-1, 1)),
        (False, lambda new, kept: new if kept is None else new * (new @ kept)),
        (True, lambda new, kept: new),
    ):

        @dataclass(frozen=True)
        class Made:
            def __call__(self, difference, before, estimate, k, function=function):
                return function(difference, estimate)

        Made.two_points = two_points
        with pytest.raises(TypeError, match="correction"):
            toy.optimizer(correction=Made())
