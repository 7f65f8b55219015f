"""Proxies: functions and batches, and what is no proxy of these parameters."""

from __future__ import annotations

import functools
import math

import pytest
import torch

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyProx, Storm
from proxyprox.torch.proxy import rows


def test_a_full_pass_is_the_mean_over_rows_of_unequal_batches(toy):
    uneven = [(toy.x[:5], toy.y[:5]), (toy.x[5:8], toy.y[5:8])]
    proxy = Proxy(uneven, toy.batch_loss)
    value = proxy.full(toy.params)
    expected = torch.autograd.grad(toy.proxy(), toy.params)
    torch.testing.assert_close([p.grad for p in toy.params], list(expected))
    torch.testing.assert_close(value, toy.proxy().detach())
    torch.testing.assert_close(proxy.loss(None), toy.proxy().detach())


def test_a_weight_of_ones_own_for_batches(toy):
    proxy = Proxy(toy.batches(), toy.batch_loss, size=lambda batch: 1.0)
    torch.testing.assert_close(proxy.full(toy.params), toy.proxy().detach())


def test_a_full_pass_may_use_larger_batches_of_its_own(toy):
    proxy = Proxy(toy.batches(2), toy.batch_loss, full=toy.batches(8))
    torch.testing.assert_close(proxy.full(toy.params), toy.proxy().detach())
    assert len(proxy.sample()[0]) == 2


def test_inner_steps_on_full_passes_on_request(make_toy):
    a, b = make_toy(), make_toy()
    x = a.train(ProxyProx(a.params, 0.3, proxy=a.proxy, inner=ImplicitStep(0.05)), 3)
    proxy = Proxy(b.batches(), b.batch_loss, sampled=False)
    y = b.train(ProxyProx(b.params, 0.3, proxy=proxy, inner=ImplicitStep(0.05)), 3)
    torch.testing.assert_close(x, y)


def test_batches_come_in_order_and_over_again(toy):
    proxy = Proxy(toy.batches(2), toy.batch_loss)
    seen = [proxy.sample()[0][0, 0].item() for _ in range(6)]
    assert seen[:2] == seen[4:]
    assert seen[:4] == [toy.x[i, 0].item() for i in (0, 2, 4, 6)]


def test_rows_of_what_loaders_return():
    x = torch.zeros(5, 2)
    assert rows(x) == rows((x, 1)) == rows([[x]]) == rows({"input": x}) == 5
    assert rows(torch.tensor(1.0)) == 1
    with pytest.raises(TypeError, match=r"batch must be a tensor.*size="):
        rows("text")


def test_refusals(toy):
    with pytest.raises(TypeError, match="batches must be iterable"):
        Proxy(iter(toy.batches()), toy.batch_loss)
    with pytest.raises(TypeError, match="full must be iterable again"):
        Proxy(toy.batches(), toy.batch_loss, full=(b for b in toy.batches()))
    with pytest.raises(TypeError, match="batches must be iterable"):
        Proxy(3, toy.batch_loss)
    with pytest.raises(TypeError, match="loss must be a function"):
        Proxy(toy.batches(), None)
    with pytest.raises(ValueError, match="at least one batch"):
        Proxy([], toy.batch_loss).full(toy.params)
    with pytest.raises(ValueError, match="at least one batch"):
        Proxy([], toy.batch_loss).sample()


@pytest.mark.parametrize(
    ("proxy", "kind", "words"),
    [
        (lambda toy: 1.0, TypeError, "a scalar tensor"),
        (lambda toy: (toy.model(toy.x) - toy.y) ** 2, TypeError, "a scalar tensor.*mean"),
        (lambda toy: toy.proxy().detach(), ValueError, "Do not detach"),
    ],
)
def test_losses_that_are_not_losses(toy, proxy, kind, words):
    optimizer = ProxyProx(toy.params, 0.1, proxy=lambda: proxy(toy), probe=False)
    toy.loss().backward()
    with pytest.raises(kind, match=words):
        optimizer.step()


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
        refused_step(toy, pp.inner.NonFiniteError, words, proxy, correction=EMA(0.1))
    refused_step(toy, pp.inner.NonFiniteError, words, proxy, anchor="paired")


def test_vectors_are_refused_by_the_probe_in_the_same_words(toy):
    def vector(batch):
        return (toy.model(batch[0]) - batch[1]).square()

    words = "scalar tensor.*mean"
    refused_step(toy, TypeError, words, lambda: vector(toy.batches()[0]))
    refused_step(toy, TypeError, words, Proxy(toy.batches(), vector))
    refused_step(toy, TypeError, words, Proxy(toy.batches(), vector, sampled=False))


def test_functions_of_too_many_arguments(toy):
    with pytest.raises(TypeError, match="loss must be a function of one argument"):
        Proxy(toy.batches(), lambda x, y: ((toy.model(x) - y) ** 2).mean())
    with pytest.raises(TypeError, match="proxy must be a function without arguments"):
        ProxyProx(toy.params, 0.1, proxy=toy.batch_loss)
    Proxy(toy.batches(), functools.partial(lambda y, x: x, 1))
    Proxy(toy.batches(), torch.nn.Linear(3, 1))


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
    with pytest.raises(pp.inner.NonFiniteError, match=f"outer step 3.*of the {culprit}'s"):
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

    refused_step(toy, RuntimeError, "does not require grad", proxy)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda loss: loss.item(), r"without \.item\(\)"),
        (lambda loss: None, "scalar tensor, got None"),
        (lambda loss: loss.expand(3), "scalar tensor.*mean"),
    ],
    ids=["number", "nothing", "vector"],
)
def test_what_a_proxy_must_return(toy, returned, words):
    optimizer = toy.optimizer(proxy=lambda: returned(toy.proxy()))
    toy.loss().backward()
    with pytest.raises(TypeError, match=words):
        optimizer.step()


def test_inputs_and_labels_are_not_batches(toy):
    with pytest.raises(TypeError, match=r"batches.*TensorDataset"):
        Proxy((toy.x, toy.y[:, 0]), toy.batch_loss)
    Proxy((toy.x[:4], toy.x[4:8]), lambda batch: toy.model(batch).mean())
    with pytest.raises(TypeError, match=r"inner.*ImplicitStep\(0\.01\)"):
        toy.optimizer(inner=0.3)
