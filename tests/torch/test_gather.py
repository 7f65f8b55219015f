"""The estimate of ∇L − ∇L̂ from step to step, for corrections that compare two points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyProx, Storm
from proxyprox.torch.step import anchor_estimate, gather, join_points, update_correction


@dataclass(frozen=True)
class Own:
    """Two points, all three coefficients different, another one first."""

    two_points: ClassVar[bool] = True

    def __call__(self, difference, before, estimate, k):
        if estimate is None:
            return 0.7 * difference
        return 0.5 * difference - 0.2 * before + (0.3 + 0.1 * k) * estimate


def draws(seed: int):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((3,), (2, 2))
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


@pytest.mark.parametrize("weight", [1.0, 0.6], ids=["as written", "paired, weighted"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("correction", [Storm(0.3), Storm(1.0), Own()], ids=repr)
def test_the_core_formula_step_by_step(correction, decay, weight):
    params = [torch.nn.Parameter(w) for w in draws(0)]
    group = {"params": params, "lr": 1.0, "weight_decay": decay, "decoupled_weight_decay": False}
    state = {p: {} for p in params}
    expected = before_anchor = previous = None
    for k in range(4):
        g, g_before, anchor = draws(10 + k), draws(20 + k), draws(30 + k)
        for p, grad in zip(params, g, strict=True):
            p.grad = grad.clone()
        given = {} if k == 0 else dict(zip(params, [x.clone() for x in g_before], strict=True))
        (part,) = gather([group], state, given)
        join_points(part, correction, k)
        for p, a in zip(params, anchor, strict=True):
            p.grad = a.clone()
        with torch.no_grad():
            update_correction(part, correction, k, anchor=True, keep=True)
        at = [p.detach().clone() for p in params]
        expected = [
            correction(
                g[i] + decay * at[i] - anchor[i],
                None if k == 0 else g_before[i] + decay * previous[i] - before_anchor[i],
                None if k == 0 else expected[i],
                k,
            )
            for i in range(2)
        ]
        torch.testing.assert_close(list(part.correction), expected, rtol=0, atol=1e-13)
        if weight != 1.0:  # what a paired anchor leaves
            part.target = [a + weight * m for a, m in zip(anchor, expected, strict=True)]
            part.shares = (weight, 1.0)
        x, y = part.shares
        mixture = [x * m + y * a for m, a in zip(expected, anchor, strict=True)]
        torch.testing.assert_close(list(part.target), mixture, rtol=0, atol=1e-13)
        anchor_estimate(part, correction, k)
        before_anchor, previous = anchor, at
        with torch.no_grad():
            for p, step in zip(params, draws(40 + k), strict=True):
                p += step


def test_a_correction_that_ignores_the_newest_difference_is_refused():
    @dataclass(frozen=True)
    class Deaf:
        two_points: ClassVar[bool] = True

        def __call__(self, difference, before, estimate, k):
            return 0 * difference if estimate is None else estimate - before

    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    group = {"params": [p], "lr": 1.0, "weight_decay": 0.0, "decoupled_weight_decay": False}
    (part,) = gather([group], {p: {}}, {})
    with pytest.raises(TypeError, match=r"must use the newest difference, got .*Deaf"):
        join_points(part, Deaf(), 0)


@pytest.mark.parametrize(
    ("correction", "anchor", "kept"),
    [
        (Plain(), "full", True),
        (EMA(0.2), "full", True),
        (Plain(), "paired", True),
        (EMA(0.2), "paired", False),
        (Storm(0.2), "full", False),
        (Storm(0.2), "paired", False),
    ],
    ids=str,
)
def test_what_is_in_grad_after_a_step(correction, anchor, kept):
    """g_k itself, or what stands for ∇L(w_k) in the subproblem; never written over in place."""
    w = torch.nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    rows = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)
    proxy = Proxy([rows[:1], rows[1:]], lambda x: (x @ w).square().mean())
    optimizer = ProxyProx(
        [w],
        0.1,
        proxy=proxy,
        correction=correction,
        anchor=anchor,
        inner=ImplicitStep(0.01),
        stop=3,
    )
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
