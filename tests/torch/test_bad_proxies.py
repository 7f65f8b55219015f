"""Proxies that are no proxies of these parameters, and states of other optimisers."""

from __future__ import annotations

import functools
import math
import pickle

import pytest
import torch

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Mean, Plain, Proxy, ProxyProx, Storm


def refused_step(toy, error, words, proxy, **options):
    optimizer = ProxyProx(toy.params, 0.1, proxy=proxy, **options)
    toy.loss().backward()
    before, held = toy.flat(), [p.grad for p in toy.params]
    with pytest.raises(error, match=words):
        optimizer.step()
    assert torch.equal(toy.flat(), before)
    assert all(p.grad is g for p, g in zip(toy.params, held, strict=True))
    assert not any("estimate" in state for state in optimizer.state.values())


@pytest.mark.parametrize("probe", [True, False])
def test_a_proxy_of_another_network(make_toy, probe):
    toy, other = make_toy(), make_toy(1)
    words = "depends on none of the 2 tensors"
    refused_step(toy, ValueError, words, other.proxy, probe=probe, correction=EMA(0.1))
    batches = Proxy(toy.batches(), other.batch_loss)
    refused_step(toy, ValueError, words, batches, probe=probe, correction=EMA(0.1))
    refused_step(toy, ValueError, words, batches, probe=probe, anchor="paired")


@pytest.mark.parametrize("anchor", ["full", "paired"])
def test_a_proxy_of_some_of_the_parameters_is_fine(toy, anchor):
    toy.loss().backward()
    proxy = Proxy(toy.batches(), lambda batch: (batch[0] @ toy.model.weight.T).square().mean())
    optimizer = ProxyProx(toy.params, 0.1, proxy=proxy, anchor=anchor)
    optimizer.step()
    assert torch.isfinite(toy.flat()).all()


def test_a_proxy_of_resting_parameters_is_fine(toy):
    weight, bias = toy.params
    groups = [{"params": [weight], "lr": 0.0}, {"params": [bias]}]
    optimizer = ProxyProx(groups, 0.1, proxy=lambda: weight.square().sum())
    toy.loss().backward()
    optimizer.step()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_proxy_that_is_not_finite(toy, value):
    words = f"the proxy's loss must be finite, got {value}.*not changed"
    for proxy in (
        lambda: toy.proxy() * value,
        Proxy(toy.batches(), lambda batch: toy.batch_loss(batch) * value),
    ):
        refused_step(toy, pp.NonFiniteError, words, proxy, correction=EMA(0.1))
    refused_step(toy, pp.NonFiniteError, words, proxy, anchor="paired")


def test_vectors_are_refused_by_the_probe_in_the_same_words(toy):
    def vector(batch):
        return (toy.model(batch[0]) - batch[1]).square()

    words = r"scalar tensor, got .*shape \(4, 1\).*Take its mean"
    refused_step(toy, TypeError, words, lambda: vector(toy.batches()[0]))
    refused_step(toy, TypeError, words, Proxy(toy.batches(), vector))
    refused_step(toy, TypeError, words, Proxy(toy.batches(), vector, sampled=False))


def test_functions_of_too_many_arguments(toy):
    with pytest.raises(TypeError, match=r"one argument, the whole batch.*batch\[0\]"):
        Proxy(toy.batches(), lambda x, y: ((toy.model(x) - y) ** 2).mean())
    with pytest.raises(TypeError, match=r"without arguments.*Proxy\(loader, loss\)"):
        ProxyProx(toy.params, 0.1, proxy=toy.batch_loss)
    Proxy(toy.batches(), functools.partial(lambda y, x: x, 1))
    Proxy(toy.batches(), torch.nn.Linear(3, 1))


def saved(toy, **options):
    optimizer = ProxyProx(toy.params, 0.1, proxy=toy.proxy, **options)
    toy.train(optimizer, 2)
    return optimizer.state_dict()


@pytest.mark.parametrize(
    ("one", "other"), [(Plain(), EMA(0.1)), (EMA(0.1), Plain()), (EMA(0.1), Mean())]
)
def test_a_state_of_another_correction_is_refused(make_toy, one, other):
    state, toy = saved(make_toy(), correction=one), make_toy()
    optimizer = ProxyProx(toy.params, 0.7, proxy=toy.proxy, correction=other)
    name = type(one).__name__
    with pytest.raises(ValueError, match=rf"correction=.*\(saved with {name}.*without the state"):
        optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.7
    assert optimizer.ledger.target_gradients == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inner": ImplicitStep(0.5)}, r"inner=.*0\.5\) \(saved with .*0\.01\)"),
        ({"inner": functools.partial(torch.optim.SGD, lr=0.1)}, r"inner=.*SGD.*ImplicitStep"),
        ({"inner": lambda p: torch.optim.SGD(p, lr=0.1)}, r"inner=SGD \("),
        ({"stop": 5}, r"stop=Steps\(steps=5\)"),
        ({"stop": lambda k: 20}, r"stop=a function"),
        ({"correction_weight": 0.5}, r"correction_weight=0\.5"),
        ({"correction": EMA(0.2)}, r"correction=EMA\(a=0\.2\) \(saved with EMA\(a=0\.1\)\)"),
    ],
)
def test_other_settings_are_warned_of(make_toy, options, words):
    state, toy = saved(make_toy(), correction=EMA(0.1)), make_toy()
    optimizer = ProxyProx(toy.params, 0.1, proxy=toy.proxy, **{"correction": EMA(0.1), **options})
    with pytest.warns(UserWarning, match=words):
        optimizer.load_state_dict(state)
    assert optimizer.ledger.target_gradients == 2


def test_equal_settings_and_states_that_do_not_tell_pass_in_silence(make_toy):
    functions = {"inner": lambda p: torch.optim.SGD(p, lr=0.1), "stop": lambda k: 3}
    state, toy = saved(make_toy(), **functions), make_toy()
    functions = {"inner": lambda p: torch.optim.SGD(p, lr=0.1), "stop": lambda k: 3}
    optimizer = ProxyProx(toy.params, 0.1, proxy=toy.proxy, **functions)
    optimizer.load_state_dict(pickle.loads(pickle.dumps(state)))
    twenty = ProxyProx(toy.params, 0.1, proxy=toy.proxy, stop=20)
    twenty.load_state_dict(saved(make_toy()))
    del state["proxyprox"]["settings"]
    ProxyProx(toy.params, 0.1, proxy=toy.proxy, stop=7).load_state_dict(state)


@pytest.mark.parametrize("correction", [Plain(), EMA(0.3), Storm(0.3)])
@pytest.mark.parametrize("culprit", ["proxy", "target"])
def test_nan_on_the_way_costs_one_step(toy, correction, culprit):
    broken = {"proxy": False, "target": False}
    optimizer = ProxyProx(
        toy.params, 0.3, correction=correction, inner=ImplicitStep(0.05), stop=5,
        proxy=lambda: toy.proxy() * (math.nan if broken["proxy"] else 1),
    )  # fmt: skip

    def closure():
        optimizer.zero_grad()
        loss = toy.loss() * (math.nan if broken["target"] else 1)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    before = toy.flat()
    broken[culprit] = True
    with pytest.raises(pp.NonFiniteError, match=f"outer step 3.*of the {culprit}'s"):
        optimizer.step(closure)
    assert torch.equal(toy.flat(), before)
    broken[culprit] = False
    start = toy.loss().item()
    for _ in range(20):
        optimizer.step(closure)
    assert toy.loss().item() < 0.5 * start


def test_a_proxy_that_calls_backward_itself(toy):
    def proxy():
        loss = toy.proxy()
        loss.backward()
        return loss

    refused_step(toy, RuntimeError, "must return its loss and not call backward", proxy)


def test_a_negative_lr_on_the_way(toy):
    optimizer = toy.optimizer()
    toy.train(optimizer, 2)
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match=r"lr must be 0 or a positive number, got -1\.0"):
        toy.train(optimizer, 1)
