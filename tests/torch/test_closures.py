"""Closures, hooks, copies, failures, and another proxy on the way."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from proxyprox.torch import EMA, ImplicitStep, Proxy, ProxyProx, Storm


def test_storm_refuses_a_bare_step_and_gradients_in_one_place(toy):
    optimizer = toy.optimizer(correction=Storm(0.2))
    toy.loss().backward()
    start = toy.flat()
    with pytest.raises(TypeError, match="closure"):
        optimizer.step()
    assert torch.equal(toy.flat(), start)
    static = [torch.zeros_like(p) for p in toy.params]

    def closure():
        found = torch.autograd.grad(toy.loss(), toy.params)
        for p, place, g in zip(toy.params, static, found, strict=True):
            p.grad = place.copy_(g)

    optimizer.step(closure)
    here = toy.flat()
    with pytest.raises(RuntimeError, match="same memory"):
        optimizer.step(closure)
    assert torch.equal(toy.flat(), here)


def test_storm_replays_the_randomness_of_the_batch(toy):
    """Both evaluations of a batch must see one dropout mask, or there is nothing to compare."""
    masks, optimizer = [], toy.optimizer(correction=Storm(0.2))

    def closure():
        optimizer.zero_grad()
        masks.append(torch.rand(1).item())
        toy.loss().backward()

    for _ in range(3):
        optimizer.step(closure)
    first, second, again, third, once_more = masks
    assert (second, third) == (again, once_more)
    assert len({first, second, third}) == 3


def test_hooks_are_called(toy):
    calls, optimizer = [], toy.optimizer()
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda *_: calls.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: calls.append("loading"))
    toy.train(optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "after", "saved", "loading"]


def test_deepcopy_and_pickle(toy):
    optimizer = ProxyProx(toy.params, 0.1, proxy=None, correction=EMA(0.3))
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


def test_swapping_the_proxy_carries_the_estimate(toy):
    optimizer = toy.optimizer(correction=EMA(0.3))
    toy.train(optimizer, 3)
    before = [optimizer.state[p]["estimate"].clone() for p in toy.params]
    old = torch.autograd.grad(toy.proxy(), toy.params)
    new = torch.autograd.grad(toy.loss(slice(8, 20)), toy.params)
    held = [p.grad for p in toy.params]
    optimizer.swap_proxy(lambda: toy.loss(slice(8, 20)))
    for p, m, a, b, g in zip(toy.params, before, old, new, held, strict=True):
        torch.testing.assert_close(optimizer.state[p]["estimate"], m + a - b)
        assert p.grad is g
    for other in (Proxy(toy.batches(), toy.batch_loss), None):
        with pytest.raises(TypeError, match="proxy"):
            optimizer.swap_proxy(other)


def test_what_storm_remembers_outlives_the_proxy(toy):
    """Without noise the estimate is exact, after a swap with respect to the new proxy."""
    optimizer = toy.optimizer(correction=Storm(0.3), inner=ImplicitStep(0.01), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = toy.loss()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    optimizer.swap_proxy(lambda: toy.loss(slice(8, 20)))
    expected = torch.autograd.grad(toy.loss(), toy.params)
    optimizer.step(closure)
    for p, g in zip(toy.params, expected, strict=True):
        torch.testing.assert_close(optimizer.state[p]["estimate"], g)


@pytest.mark.parametrize("to_none", [True, False])
def test_storm_refuses_gradients_from_outside_its_closure(toy, to_none):
    """Accumulated ones cannot be computed again at the previous point."""
    optimizer = toy.optimizer(correction=Storm(0.3))

    def add():
        loss = toy.loss()
        loss.backward()
        return loss

    def whole():
        optimizer.zero_grad(set_to_none=to_none)
        add()
        return add()

    def add_and_clip():
        add()
        torch.nn.utils.clip_grad_norm_(toy.params, 0.1)

    optimizer.step(whole)
    optimizer.step(whole)
    for closure in (add, add_and_clip):
        with pytest.raises(RuntimeError, match="the whole gradient"):
            optimizer.step(closure)


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
