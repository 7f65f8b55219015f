"""The optimiser against closed forms; parameter groups and decay."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from proxyprox.torch import EMA, ImplicitStep, ProxyProx

SGD = functools.partial(torch.optim.SGD, lr=0.05)


def test_decoupled_decay_shrinks_the_weights_by_their_old_values(make_toy):
    a, b = make_toy(), make_toy()
    start = a.flat()
    x = a.train(a.optimizer(weight_decay=0.2, decoupled_weight_decay=True), 1)
    y = b.train(b.optimizer(), 1)
    torch.testing.assert_close(x, y - 0.3 * 0.2 * start)


def test_the_target_as_proxy_solves_the_proximal_point_step(toy):
    start = toy.flat()
    optimizer = toy.optimizer(proxy=toy.loss, stop=150, inner=ImplicitStep(0.1))
    toy.loss().backward()
    optimizer.step()
    # At the proximal point, ∇L(w) + (w − w_k)/η = 0.
    toy.model.zero_grad()
    toy.loss().backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in toy.params])
    torch.testing.assert_close(gradient, (start - toy.flat()) / 0.3, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("lr", [1e-12, 1e12, math.inf])
def test_the_implicit_step_is_stable_for_every_lr(make_toy, lr):
    toy = make_toy(dtype=torch.float32)
    found = toy.train(toy.optimizer(lr=lr, correction=EMA(0.2)), 40)
    assert torch.isfinite(found).all()
    assert lr < 1 or toy.loss().item() < 0.1


def test_groups_have_their_own_step_size_and_decay(toy):
    """Two groups with one setting each equal the separable subproblem solved by hand."""
    weight, bias = toy.params
    start = [p.detach().clone() for p in toy.params]
    groups = [{"params": [weight], "lr": 0.1, "weight_decay": 0.5}, {"params": [bias]}]
    optimizer = ProxyProx(groups, 0.7, proxy=toy.proxy, stop=250, inner=ImplicitStep(0.1))
    toy.loss(slice(0, 4)).backward()
    g = [p.grad.clone() for p in toy.params]
    anchor = torch.autograd.grad(toy.proxy(), toy.params)
    optimizer.step()
    there = torch.autograd.grad(toy.proxy(), toy.params)
    for i, (eta, decay) in enumerate([(0.1, 0.5), (0.7, 0.0)]):
        m = g[i] + decay * start[i] - anchor[i]
        residual = there[i] + m + (toy.params[i] - start[i]) / eta
        assert residual.abs().max().item() < 1e-8


@pytest.mark.parametrize("inner", [ImplicitStep(0.05), SGD], ids=["implicit", "sgd"])
def test_a_group_with_lr_zero_stays_where_it_is(toy, inner):
    weight, bias = toy.params
    held, before = bias.detach().clone(), weight.detach().clone()
    groups = [{"params": [weight]}, {"params": [bias], "lr": 0.0}]
    optimizer = ProxyProx(groups, 0.3, proxy=toy.proxy, inner=inner, correction=EMA(0.5))
    toy.train(optimizer, 3)
    assert torch.equal(bias, held)
    assert not torch.equal(weight, before)
    optimizer.param_groups[0]["lr"] = 0.0
    start = toy.flat()
    assert torch.equal(toy.train(optimizer, 1), start)
    # The proxy may depend on what rests only.
    resting = ProxyProx(groups, 0.1, proxy=lambda: bias.square().sum(), inner=inner)
    toy.train(resting, 1)


@pytest.mark.parametrize("inner", [ImplicitStep(0.05), SGD], ids=["implicit", "sgd"])
def test_parameters_without_a_gradient_are_left_alone(toy, inner):
    weight, bias = toy.params
    held = bias.detach().clone()
    for params in (toy.params, [weight]):  # in the optimiser, and outside of it
        optimizer = ProxyProx(params, 0.3, proxy=toy.proxy, inner=inner)
        toy.loss().backward()
        bias.grad = None
        optimizer.step()
        assert torch.equal(bias, held)
        assert bias.grad is None
        assert weight.grad is not None
