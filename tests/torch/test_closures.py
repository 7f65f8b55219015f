"""Closures, hooks, copies, failures, and another proxy on the way."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyProx, Storm


@pytest.mark.parametrize("correction", [Plain(), EMA(0.3)])
def test_closure_and_bare_step_agree(make_toy, correction):
    a, b = make_toy(), make_toy()
    x = a.train(a.optimizer(correction=correction), 4)
    y = b.train(b.optimizer(correction=correction), 4, closure=True)
    assert torch.equal(x, y)


def test_storm_refuses_a_bare_step(toy):
    optimizer = toy.optimizer(correction=Storm(0.2))
    toy.loss().backward()
    start = toy.flat()
    with pytest.raises(TypeError, match="needs a closure"):
        optimizer.step()
    assert torch.equal(toy.flat(), start)


def test_storm_needs_the_two_gradients_in_two_places(toy):
    optimizer = toy.optimizer(correction=Storm(0.2))
    static = [torch.zeros_like(p) for p in toy.params]

    def closure():
        for p, place, g in zip(
            toy.params, static, torch.autograd.grad(toy.loss(), toy.params), strict=True
        ):
            p.grad = place.copy_(g)

    optimizer.step(closure)
    here = toy.flat()
    with pytest.raises(RuntimeError, match="same memory"):
        optimizer.step(closure)
    assert torch.equal(toy.flat(), here)


def test_storm_replays_the_randomness_of_the_batch(make_toy):
    """Both evaluations of a batch must see one dropout mask, or there is nothing to compare."""
    toy, masks = make_toy(), []
    optimizer = toy.optimizer(correction=Storm(0.2))

    def closure():
        optimizer.zero_grad()
        masks.append(torch.rand(3))
        toy.loss().backward()

    for _ in range(3):
        optimizer.step(closure)
    assert len(masks) == 5
    assert torch.equal(masks[1], masks[2])
    assert torch.equal(masks[3], masks[4])
    assert not torch.equal(masks[1], masks[3])


def test_hooks_are_called(toy):
    calls = []
    optimizer = toy.optimizer()
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda *_: calls.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: calls.append("loading"))
    toy.train(optimizer, 1)
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", "after", "saved", "loading"]


def test_deepcopy_and_pickle(make_toy):
    toy = make_toy()
    optimizer = ProxyProx(toy.params, 0.1, proxy=None, correction=EMA(0.3))
    toy.train(optimizer, 3)
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert again.ledger == optimizer.ledger
        for p in again.param_groups[0]["params"]:
            p.grad = torch.ones_like(p)
        again.step()
        assert again.ledger.target_gradients == 4
    assert "lr: 0.1" in repr(optimizer)


def test_a_failing_proxy_leaves_parameters_and_gradients(make_toy):
    toy, calls = make_toy(), []

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


def test_nan_is_reported_where_it_is_looked_for(toy):
    optimizer = toy.optimizer(
        proxy=lambda: toy.proxy() * math.nan, measure_residual=True, probe=False
    )
    toy.loss().backward()
    with pytest.raises(pp.inner.NonFiniteError, match="not finite"):
        optimizer.step()


def test_swapping_the_proxy_carries_the_estimate(make_toy):
    toy = make_toy()
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
    toy.train(optimizer, 2)


def test_what_storm_remembers_outlives_the_proxy(make_toy):
    """Without noise the estimate is exact, after a swap with respect to the new proxy."""
    toy = make_toy()
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
    assert all("previous_anchor" not in state for state in optimizer.state.values())


def test_swapping_for_another_kind_is_refused(toy):
    optimizer = toy.optimizer()
    with pytest.raises(TypeError, match="same kind"):
        optimizer.swap_proxy(Proxy(toy.batches(), toy.batch_loss))
    with pytest.raises(TypeError, match="same kind"):
        optimizer.swap_proxy(None)


@pytest.mark.parametrize("to_none", [True, False])
def test_storm_refuses_gradients_from_outside_its_closure(make_toy, to_none):
    """Accumulated ones cannot be computed again at the previous point."""
    toy = make_toy()
    optimizer = toy.optimizer(correction=Storm(0.3))

    def add():
        loss = toy.loss()
        loss.backward()
        return loss

    def whole():
        optimizer.zero_grad(set_to_none=to_none)
        add()
        return add()

    for _ in range(2):
        optimizer.step(whole)

    def add_and_clip():
        loss = add()
        torch.nn.utils.clip_grad_norm_(toy.params, 0.1)
        return loss

    for closure in (add, add_and_clip):
        with pytest.raises(RuntimeError, match="the whole gradient"):
            optimizer.step(closure)


def test_a_copy_in_the_middle_of_a_pass_goes_on_alike(make_toy):
    toy = make_toy()
    loader = torch.utils.data.DataLoader(
        list(zip(toy.x[:8], toy.y[:8], strict=True)), 2, shuffle=True,
        generator=torch.Generator().manual_seed(4),
    )  # fmt: skip
    proxy = Proxy(loader, toy.batch_loss)
    for _ in range(3):
        proxy.sample()
    twin = copy.deepcopy(proxy)
    expected = [proxy.sample()[0] for _ in range(6)]
    for batch in expected:
        assert torch.equal(twin.sample()[0], batch)
