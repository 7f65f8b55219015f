"""Anchors, inner optimisers and rules that end an inner solve."""

from __future__ import annotations

import functools

import pytest
import torch

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Proxy


def test_passes_are_counted(toy):
    optimizer = toy.optimizer(proxy=Proxy(toy.batches(), toy.batch_loss))
    toy.train(optimizer, 3)
    ledger = optimizer.ledger
    found = ledger.target_gradients, ledger.proxy_gradients, ledger.proxy_sampled_gradients
    assert found == (3, 3, 15)
    assert ledger.seconds > 0


@pytest.mark.parametrize(
    "factory",
    [
        functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True),
        functools.partial(torch.optim.AdamW, lr=0.05, foreach=False),
    ],
)
def test_any_torch_optimiser_takes_the_inner_steps(toy, factory):
    before = toy.loss().item()
    toy.train(toy.optimizer(inner=factory, correction=EMA(0.2), stop=8), 20)
    assert toy.loss().item() < before / 3


@pytest.mark.parametrize(
    ("rule", "sampled"),
    [
        (pp.stopping.StronglyConvex(mu=0.1, G=1e-3), False),
        (pp.stopping.Convex(steps=50), True),
        (pp.stopping.NonConvex(), True),
        (pp.stopping.SDane(), False),
    ],
)
def test_the_papers_rules_hold_when_they_end_a_solve(make_toy, rule, sampled):
    toy = make_toy()
    proxy = Proxy(toy.batches(), toy.batch_loss) if sampled else toy.proxy
    optimizer = toy.optimizer(proxy=proxy, stop=rule, inner=ImplicitStep(0.02))
    toy.train(optimizer, 5)
    record = optimizer.record
    assert record.held
    assert record.residual <= record.threshold
    assert record.inner_steps > 0


def test_a_rule_that_never_holds_gives_up_and_says_so(toy):
    optimizer = toy.optimizer(stop=pp.stopping.Residual(1e-300), max_inner_steps=7)
    toy.train(optimizer, 1)
    assert optimizer.record.inner_steps == 7
    assert not optimizer.record.held


def test_the_residual_is_truly_measured(make_toy):
    toy = make_toy()
    proxy = Proxy(toy.batches(), toy.batch_loss)
    optimizer = toy.optimizer(proxy=proxy, measure_residual=True, lr=0.3)
    start = toy.flat()
    toy.loss(slice(0, 4)).backward()
    g = torch.cat([p.grad.reshape(-1) for p in toy.params])
    optimizer.step()

    def proxy_gradient(w):
        torch.nn.utils.vector_to_parameters(w, toy.params)
        toy.model.zero_grad()
        toy.proxy().backward()
        return torch.cat([p.grad.reshape(-1) for p in toy.params])

    end = toy.flat()
    expected = proxy_gradient(end) + g - proxy_gradient(start) + (end - start) / 0.3
    assert optimizer.record.residual == pytest.approx(float(expected.norm()), rel=1e-10)
    assert optimizer.record.displacement == pytest.approx(float((end - start).norm()))
