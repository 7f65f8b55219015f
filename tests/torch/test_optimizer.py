"""The optimiser against SGD and closed forms; parameter groups, decay, clipping."""

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
    optimizer = toy.optimizer(proxy=toy.loss, stop=150, inner=ImplicitStep(0.1))
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
    toy, made = make_toy(), []

    def factory(groups):
        made.append(inner(groups))
        return made[-1]

    optimizer = toy.optimizer(lr=1.0, inner=factory, stop=20)
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
    assert [g["lr"] for g in made[-1].param_groups] == [inner.keywords["lr"]]


def test_a_weight_of_zero_leaves_the_target_out(make_toy):
    """The bias that the documentation warns of, at its extreme."""
    toy = make_toy()
    toy.y[8:] += 5  # the proxy's rows know nothing of this
    toy.train(toy.optimizer(correction_weight=0, stop=50, lr=math.inf, inner=ImplicitStep(0.3)), 12)
    assert toy.proxy().item() < 1e-4 < toy.loss().item()


def test_a_weight_below_one_ends_between_the_two_losses(make_toy):
    ends = []
    for weight in (1.0, 0.5):
        toy = make_toy()
        toy.y[8:] += 5
        optimizer = toy.optimizer(
            correction_weight=weight, stop=10, lr=0.6, inner=ImplicitStep(0.2)
        )
        for _ in range(60):
            optimizer.zero_grad()
            toy.loss().backward()
            optimizer.step()
        toy.model.zero_grad()
        (toy.loss() * weight + toy.proxy() * (1 - weight)).backward()
        ends.append(max(float(p.grad.abs().max()) for p in toy.params))
    assert max(ends) < 1e-6


SGD = functools.partial(torch.optim.SGD, lr=0.05)


def test_groups_have_their_own_step_size_and_decay(make_toy):
    """Two groups with one setting each equal the separable subproblem solved by hand."""
    toy = make_toy()
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


def test_decoupled_decay_shrinks_after_the_solve(make_toy):
    a, b = make_toy(), make_toy()
    start = a.flat()
    x = a.train(a.optimizer(weight_decay=0.2, decoupled_weight_decay=True), 1)
    y = b.train(b.optimizer(), 1)
    torch.testing.assert_close(x, y - 0.3 * 0.2 * start)


def test_a_group_with_lr_zero_stays_where_it_is(make_toy):
    for inner in (ImplicitStep(0.05), SGD):
        toy = make_toy()
        weight, bias = toy.params
        held = bias.detach().clone()
        groups = [{"params": [weight]}, {"params": [bias], "lr": 0.0}]
        optimizer = ProxyProx(groups, 0.3, proxy=toy.proxy, inner=inner, correction=EMA(0.5))
        before = weight.detach().clone()
        toy.train(optimizer, 3)
        assert torch.equal(bias, held)
        assert not torch.equal(weight, before)


def test_all_groups_at_lr_zero(make_toy):
    toy = make_toy()
    start = toy.flat()
    assert torch.equal(toy.train(toy.optimizer(lr=0.0, measure_residual=True), 2), start)


def test_clipping_clips_the_target_gradient(make_toy):
    a, b = make_toy(), make_toy()
    for toy, clip in ((a, True), (b, False)):
        optimizer = toy.optimizer(probe=False)
        toy.loss().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(toy.params, 0.1)
        else:
            scale = 0.1 / torch.cat([p.grad.reshape(-1) for p in toy.params]).norm()
            for p in toy.params:
                p.grad.mul_(scale)
        optimizer.step()
    torch.testing.assert_close(a.flat(), b.flat(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inner", [ImplicitStep(0.05), SGD], ids=["implicit", "sgd"])
def test_parameters_without_a_gradient_are_left_alone(make_toy, inner):
    toy = make_toy()
    weight, bias = toy.params
    held = bias.detach().clone()
    optimizer = toy.optimizer(inner=inner)
    toy.loss().backward()
    bias.grad = None
    optimizer.step()
    assert torch.equal(bias, held)
    assert bias.grad is None
    assert weight.grad is not None


def test_a_step_without_any_gradient_does_nothing(toy):
    start, optimizer = toy.flat(), toy.optimizer()
    optimizer.step()
    assert torch.equal(toy.flat(), start)
    assert optimizer.ledger.target_gradients == 0
    assert optimizer.record is None


def test_parameters_that_the_proxy_does_not_see(make_toy):
    """Their proxy gradient is zero: the implicit steps approach the SGD step −η g."""
    toy = make_toy()
    extra = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = ProxyProx(
        [*toy.params, extra], 0.1, proxy=toy.proxy, stop=80, inner=ImplicitStep(0.1)
    )
    (toy.loss() + (extra**2).sum()).backward()
    optimizer.step()
    torch.testing.assert_close(extra.detach(), torch.full((2,), 0.8, dtype=torch.float64))


def test_sparse_gradients_are_refused_with_the_remedy():
    table = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = ProxyProx(table.parameters(), 0.1, proxy=lambda: (table.weight**2).sum())
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse=False"):
        optimizer.step()


def test_gradients_are_left_as_they_were(toy):
    optimizer = toy.optimizer(inner=SGD, measure_residual=True)
    toy.loss().backward()
    held = [(p.grad, p.grad.clone()) for p in toy.params]
    optimizer.step()
    for p, (gradient, value) in zip(toy.params, held, strict=True):
        assert p.grad is gradient
        assert torch.equal(p.grad, value)


def test_parameters_outside_the_optimiser_get_no_gradient(make_toy):
    toy = make_toy()
    weight, bias = toy.params
    optimizer = ProxyProx([weight], 0.1, proxy=toy.proxy)
    toy.loss().backward()
    bias.grad = None
    optimizer.step()
    assert bias.grad is None


def test_add_param_group_in_the_middle(make_toy):
    for inner in (ImplicitStep(0.05), functools.partial(torch.optim.Adam, lr=0.02)):
        toy = make_toy()
        weight, bias = toy.params
        optimizer = ProxyProx(
            [weight], 0.3, proxy=toy.proxy, correction=EMA(0.2), inner=inner, stop=5
        )
        toy.train(optimizer, 5)
        optimizer.add_param_group({"params": [bias], "lr": 0.2})
        before = bias.detach().clone()
        toy.train(optimizer, 5)
        assert not torch.equal(bias, before)
