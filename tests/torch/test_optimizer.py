"""The optimiser against SGD and closed forms."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from proxyprox.torch import EMA, ImplicitStep, ProxyProx


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_without_a_proxy_it_is_sgd_bit_for_bit(make_toy, dtype, weight_decay):
    ours, theirs = make_toy(dtype=dtype), make_toy(dtype=dtype)
    a = ours.train(ProxyProx(ours.params, 0.1, proxy=None, weight_decay=weight_decay), 7)
    b = theirs.train(torch.optim.SGD(theirs.params, lr=0.1, weight_decay=weight_decay), 7)
    assert torch.equal(a, b)


def test_decoupled_decay_without_a_proxy_is_that_of_adamw_style(make_toy):
    a, b = make_toy(), make_toy()
    found = a.train(
        ProxyProx(a.params, 0.1, proxy=None, weight_decay=0.2, decoupled_weight_decay=True), 1
    )
    b.loss(slice(0, 4)).backward()
    expected = [p * (1 - 0.1 * 0.2) - 0.1 * p.grad for p in b.params]
    torch.testing.assert_close(found, torch.cat([e.detach().reshape(-1) for e in expected]))


def test_the_target_as_proxy_solves_the_proximal_point_step(toy):
    start = toy.flat()
    optimizer = toy.optimizer(proxy=toy.loss, stop=4000, inner=ImplicitStep(0.1))
    optimizer.zero_grad()
    toy.loss().backward()
    optimizer.step()
    # At the proximal point, ∇L(w) + (w − w_k)/η = 0.
    toy.model.zero_grad()
    toy.loss().backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in toy.params])
    torch.testing.assert_close(gradient, (start - toy.flat()) / 0.3, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("lr", [1e-12, 1e-3, 1e3, 1e12, math.inf])
def test_the_implicit_step_is_stable_for_every_lr(make_toy, lr):
    toy = make_toy(dtype=torch.float32)
    found = toy.train(toy.optimizer(lr=lr, correction=EMA(0.2)), 40)
    assert torch.isfinite(found).all()
    assert lr < 1 or toy.loss().item() < 0.1


def test_explicit_and_implicit_agree_where_both_are_stable(make_toy):
    a, b = make_toy(), make_toy()
    gamma, eta = 0.05, 0.3
    equal = 1 / (1 / gamma + 1 / eta)
    x = a.train(a.optimizer(inner=ImplicitStep(gamma), correction=EMA(0.2)), 6)
    y = b.train(
        b.optimizer(inner=functools.partial(torch.optim.SGD, lr=equal), correction=EMA(0.2)), 6
    )
    torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "inner",
    [
        functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9),
        functools.partial(torch.optim.Adam, lr=0.05),
        functools.partial(torch.optim.AdamW, lr=torch.tensor(0.05)),
    ],
    ids=["momentum", "Adam", "AdamW, tensor lr"],
)
def test_every_inner_optimiser_bears_a_step_size_that_goes_to_zero(make_toy, inner):
    toy = make_toy()
    optimizer = toy.optimizer(lr=1.0, inner=inner, stop=20)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30, eta_min=1e-9)
    for _ in range(30):
        before = toy.flat()
        optimizer.zero_grad()
        toy.loss().backward()
        optimizer.step()
        scheduler.step()
    assert toy.loss().item() < 2e-5  # with the whole learning rate 2e-4, and 1e50 with momentum
    moved = (toy.flat() - before).norm().item()
    assert moved < 5e-3, "the last step is of η = 0.003"
    assert [g["lr"] for g in optimizer._stepper.optimizer.param_groups] == [inner.keywords["lr"]]


def test_a_weight_of_zero_leaves_the_target_out(make_toy):
    """The bias that the documentation warns of, at its extreme."""
    toy = make_toy()
    toy.y[8:] += 5  # the proxy's rows know nothing of this
    toy.train(toy.optimizer(correction_weight=0, stop=50, lr=math.inf, inner=ImplicitStep(0.3)), 60)
    assert toy.proxy().item() < 1e-4 < toy.loss().item()


def test_a_weight_below_one_ends_between_the_two_losses(make_toy):
    ends = []
    for weight in (1.0, 0.5):
        toy = make_toy()
        toy.y[8:] += 5
        optimizer = toy.optimizer(
            correction_weight=weight, stop=30, lr=0.3, inner=ImplicitStep(0.1)
        )
        for _ in range(150):
            optimizer.zero_grad()
            toy.loss().backward()
            optimizer.step()
        toy.model.zero_grad()
        (toy.loss() * weight + toy.proxy() * (1 - weight)).backward()
        ends.append(max(float(p.grad.abs().max()) for p in toy.params))
    assert max(ends) < 1e-6
