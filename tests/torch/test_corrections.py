"""The estimate of ∇L − ∇L̂ from step to step, against the core's formula applied to tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from proxyprox.torch import EMA, ImplicitStep, Mean, Plain, Proxy, ProxyProx

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


def expected_path(correction, *, decay, weight, paired, steps=5):
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
            if paired:
                slope += full(centre) - gradient(lambda w, rows=rows: losses.proxy(rows, w), centre)
            w = (w / GAMMA + centre / ETA - slope) / (1 / GAMMA + 1 / ETA)
        path.append(w)
    return torch.stack(path)


def found_path(correction, *, decay, weight, paired, steps=5):
    losses = Losses()
    w = torch.nn.Parameter(losses.w.detach().clone())
    optimizer = ProxyProx(
        [w], ETA, proxy=Proxy(losses.rows, lambda rows: losses.proxy(rows, w)), stop=INNER,
        correction=correction, correction_weight=weight, anchor="paired" if paired else "full",
        inner=ImplicitStep(GAMMA), weight_decay=decay, measure_residual=paired, probe=False,
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


@pytest.mark.parametrize("options", [
    {"decay": 0.0, "weight": 1.0, "paired": False},
    {"decay": 0.1, "weight": 0.6, "paired": False},
    {"decay": 0.1, "weight": 0.6, "paired": True},
], ids=["as written", "decay, weighted", "decay, weighted, paired"])  # fmt: skip
@pytest.mark.parametrize("correction", CORRECTIONS, ids=repr)
def test_steps_follow_the_core_formula(correction, options):
    found, expected = found_path(correction, **options), expected_path(correction, **options)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("correction", "kept"),
    [(Plain(), set()), (EMA(0.5), {"estimate"}), (Mean(), {"estimate"})],
)
def test_what_is_remembered(toy, correction, kept):
    optimizer = toy.optimizer(correction=correction)
    toy.train(optimizer, 2, closure=True)
    assert all(set(optimizer.state[p]) == kept for p in toy.params)


def correction_of(two_points, function):
    @dataclass(frozen=True)
    class Made:
        def __call__(self, difference, before, estimate, k):
            return function(difference, before, estimate)

    Made.two_points = two_points
    return Made()


@pytest.mark.parametrize(
    ("two_points", "function"),
    [
        # Those that are not linear, then those of two points.
        (False, lambda new, before, kept: new.clip(-1, 1)),
        (False, lambda new, before, kept: new.sum()),
        (False, lambda new, before, kept: new if kept is None else new * (new @ kept)),
        (False, lambda new, before, kept: new.unknown()),
        (True, lambda new, before, kept: new),
    ],
)
def test_corrections_that_are_refused(toy, two_points, function):
    with pytest.raises(TypeError, match="correction must be"):
        toy.optimizer(correction=correction_of(two_points, function))


@pytest.mark.parametrize(
    ("correction", "anchor", "kept"),
    [
        (Plain(), "paired", True),
        (EMA(0.2), "full", True),
        (EMA(0.2), "paired", False),
    ],
    ids=str,
)
def test_what_is_in_grad_after_a_step(correction, anchor, kept):
    """g_k itself, or what stands for ∇L(w_k) in the subproblem; never written over in place."""
    w = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    rows = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)
    proxy = Proxy([rows[:1], rows[1:]], lambda x: (x @ w).square().mean())
    settings = {"correction": correction, "anchor": anchor, "inner": ImplicitStep(0.01)}
    optimizer = ProxyProx([w], 0.1, proxy=proxy, stop=3, **settings)
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = (w - 1).square().sum()
        loss.backward()
        seen.append((w.grad, w.grad.clone()))
        return loss

    for _ in range(3):
        expected = 2 * (w.detach() - 1)  # exact, so that every estimate of it is
        del seen[:]
        optimizer.step(closure)
        (tensor, value), *_ = seen
        assert torch.equal(tensor, value)
        assert (w.grad is tensor) == kept
        if correction != EMA(0.2):
            torch.testing.assert_close(w.grad, expected, rtol=1e-12, atol=0)
