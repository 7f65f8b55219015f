"""Passes, inner optimisers and the residual."""

from __future__ import annotations

import functools

import pytest
import torch

from proxyprox.torch import EMA, Proxy


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
