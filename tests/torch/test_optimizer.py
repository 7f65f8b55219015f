"""The optimiser against closed forms; parameter groups and decay; settings that are refused."""

import functools
import math

import pytest
import torch
from torch.nn import Parameter

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, ProxyProx

SGD = functools.partial(torch.optim.SGD, lr=0.05)


def test_decoupled_decay_shrinks_the_weights_by_their_old_values(make_toy):
    a, b = make_toy(), make_toy()
    start = a.flat()
    x = a.train(a.optimizer(weight_decay=0.2, decoupled_weight_decay=True), 1)
    y = b.train(b.optimizer(), 1)
    torch.testing.assert_close(x, y - 0.3 * 0.2 * start)


@pytest.mark.parametrize("lr", [1e-12, 1e12, math.inf])
def test_the_implicit_step_is_stable_for_every_lr(make_toy, lr):
    toy = make_toy(dtype=torch.float32)
    found = toy.train(toy.optimizer(lr=lr, correction=EMA(0.2)), 40)
    assert torch.isfinite(found).all()
    assert lr < 1 or toy.loss().item() < 0.1


def test_groups_have_their_own_step_size_and_decay_and_the_residual_is_of_all(make_toy):
    for stop, solved in ((2, False), (250, True)):
        toy = make_toy()
        weight, bias = toy.params
        start = [p.detach().clone() for p in toy.params]
        groups = [{"params": [weight], "lr": 0.1, "weight_decay": 0.5}, {"params": [bias]}]
        given = {"inner": ImplicitStep(0.1), "measure_residual": True}
        optimizer = ProxyProx(groups, 0.7, proxy=toy.proxy, stop=stop, **given)
        toy.loss(slice(0, 4)).backward()
        anchor = torch.autograd.grad(toy.proxy(), toy.params)
        optimizer.step()
        there, parts, moved = torch.autograd.grad(toy.proxy(), toy.params), [], []
        for i, (eta, decay) in enumerate([(0.1, 0.5), (0.7, 0.0)]):
            m = toy.params[i].grad + decay * start[i] - anchor[i]
            moved.append((toy.params[i] - start[i]).reshape(-1))
            parts.append((there[i] + m).reshape(-1) + moved[i] / eta)
        residual, displacement = (float(torch.cat(one).detach().norm()) for one in (parts, moved))
        assert optimizer.record.residual == pytest.approx(residual, rel=1e-8, abs=1e-12)
        assert optimizer.record.displacement == pytest.approx(displacement)
        assert (residual < 1e-8) == solved


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


# -- settings that are refused ------------------------------------------------------------

REFUSED = {
    "lr": [-0.5, math.nan, "0.1"],
    "weight_decay": [-1.0],
    "decoupled_weight_decay": ["yes"],
    "correction": [EMA, "ema"],
    "correction_weight": [1.5],
    "proxy_mode": ["off", "eval", "no_dropout"],
    "model": [torch.nn.Linear(1, 1), 3],
    "stop": [0, "20", pp.stopping.Steps(3), lambda k: 2.5],
    "inner": [
        0.01, ImplicitStep, lambda params: 3, lambda g: torch.optim.LBFGS(g[0]["params"]),
        torch.optim.SGD([Parameter(torch.zeros(1))], lr=0.1),
    ],
    "proxy": [None, 3.0, torch.nn.Linear(1, 1)],
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(toy, name):
    for value in REFUSED[name]:
        with pytest.raises((TypeError, ValueError), match=name):
            toy.optimizer(**{name: value})


def test_a_failed_add_param_group_changes_nothing(toy):
    optimizer = toy.optimizer()
    with pytest.raises(ValueError, match="lr"):
        optimizer.add_param_group({"params": [Parameter(torch.zeros(2))], "lr": -1.0})
    assert len(optimizer.param_groups) == 1
    toy.train(optimizer, 2)
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr"):
        toy.train(optimizer, 1)
