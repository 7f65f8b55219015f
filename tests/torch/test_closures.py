"""Hooks, copies and failures."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from proxyprox.torch import EMA, Proxy, ProxyProx


def test_deepcopy_and_pickle(toy):
    optimizer = ProxyProx(
        toy.params, 0.1, proxy=Proxy(toy.batches(), toy.batch_loss), correction=EMA(0.3)
    )
    toy.train(optimizer, 3)
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert again.ledger == optimizer.ledger
        for p in again.param_groups[0]["params"]:
            p.grad = torch.ones_like(p)
        again.step()
        assert again.ledger.target_gradients == 4
    assert "lr: 0.1" in repr(optimizer)


def test_a_failing_proxy_leaves_parameters_and_gradients(toy):
    calls = []

    def proxy():
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return toy.proxy()

    optimizer = toy.optimizer(proxy=proxy, probe=False)
    toy.loss().backward()
    held = [p.grad for p in toy.params]
    optimizer.step()  # takes five of the proxy's gradients
    start = toy.flat()
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    assert torch.equal(toy.flat(), start)
    assert all(p.grad is g for p, g in zip(toy.params, held, strict=True))


def test_a_copy_in_the_middle_of_a_pass_goes_on_alike(toy):
    rows = list(zip(toy.x[:8], toy.y[:8], strict=True))
    drawn = torch.Generator().manual_seed(4)
    loader = torch.utils.data.DataLoader(rows, 2, shuffle=True, generator=drawn)
    proxy = Proxy(loader, toy.batch_loss)
    for _ in range(3):
        proxy.sample()
    twin = copy.deepcopy(proxy)
    for batch in [proxy.sample()[0] for _ in range(6)]:
        assert torch.equal(twin.sample()[0], batch)
