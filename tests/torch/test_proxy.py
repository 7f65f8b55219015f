"""Proxies: functions and batches, and what is no proxy of these parameters."""

import math

import pytest
import torch

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyProx


def test_a_full_pass_is_the_mean_over_rows_of_unequal_batches(toy):
    uneven = [(toy.x[:5], toy.y[:5]), (toy.x[5:8], toy.y[5:8])]
    own = toy.batches(8)
    expected = torch.autograd.grad(toy.proxy(), toy.params)
    for proxy in (
        Proxy(uneven, toy.batch_loss),
        Proxy(toy.batches(), toy.batch_loss, size=lambda batch: 1.0),
        Proxy(toy.batches(2), toy.batch_loss, full=own),
        Proxy([{"rows": [x, y]} for x, y in uneven], lambda b: toy.batch_loss(b["rows"])),
    ):
        torch.testing.assert_close(proxy.full(toy.params), toy.proxy().detach())
        torch.testing.assert_close([p.grad for p in toy.params], list(expected))
        torch.testing.assert_close(proxy.loss(None), toy.proxy().detach())


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda toy, loss: Proxy(iter(toy.batches()), loss), "batches"),
        (lambda toy, loss: Proxy(toy.batches(), loss, full=(b for b in toy.batches())), "full"),
        (lambda toy, loss: Proxy(3, loss), "batches"),
        (lambda toy, loss: Proxy((toy.x, toy.y[:, 0]), loss), "TensorDataset"),
        (lambda toy, loss: Proxy(toy.batches(), None), "loss"),
        (lambda toy, loss: Proxy(toy.batches(), lambda x, y: x), "loss"),
        (lambda toy, loss: Proxy([], loss).full(toy.params), "batches"),
        (lambda toy, loss: Proxy([], loss).sample(), "batches"),
        (lambda toy, loss: Proxy(["text"], len).full(toy.params), "size="),
        (lambda toy, loss: Proxy(toy.batches(), loss, across_ranks="some"), "across_ranks"),
        (lambda toy, loss: ProxyProx(toy.params, 0.1, proxy=loss), "proxy"),
    ],
)
def test_refusals(toy, make, word):
    with pytest.raises((TypeError, ValueError), match=word):
        make(toy, toy.batch_loss)


def refused_step(toy, error, words, proxy, **options):
    optimizer = ProxyProx(toy.params, 0.1, proxy=proxy, **options)
    toy.loss().backward()
    before, held = toy.flat(), [p.grad for p in toy.params]
    with pytest.raises(error, match=words):
        optimizer.step()
    assert torch.equal(toy.flat(), before)
    assert all(p.grad is g for p, g in zip(toy.params, held, strict=True))
    assert not any("estimate" in state for state in optimizer.state.values())


def test_losses_that_are_not_losses(toy, make_toy):
    for change, error, words in (
        (lambda loss: loss.item(), TypeError, r"without \.item"),
        (lambda loss: loss.expand(3), TypeError, "scalar tensor.*mean"),
        (lambda loss: loss.detach(), ValueError, "detach"),
        (lambda loss: loss.backward() or loss, RuntimeError, "grad"),
        (lambda loss: make_toy(1).proxy(), ValueError, "depends on none of the 2"),
    ):
        for probe in (True, False):
            refused_step(toy, error, words, lambda c=change: c(toy.proxy()), probe=probe)
            batches = Proxy(toy.batches(), lambda batch, c=change: c(toy.batch_loss(batch)))
            refused_step(toy, error, words, batches, probe=probe)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_proxy_that_is_not_finite(toy, value):
    error, words = pp.inner.NonFiniteError, "the proxy's loss must be finite"
    batches = Proxy(toy.batches(), lambda batch: toy.batch_loss(batch) * value)
    refused_step(toy, error, words, lambda: toy.proxy() * value, correction=EMA(0.1))
    refused_step(toy, error, words, batches, correction=EMA(0.1))
    looked = {"probe": False, "measure_residual": True}
    refused_step(toy, error, "trial point", lambda: toy.proxy() * value, **looked)


@pytest.mark.parametrize("correction", [Plain(), EMA(0.3)])
@pytest.mark.parametrize("culprit", ["proxy", "target"])
def test_nan_on_the_way_costs_one_step(toy, correction, culprit):
    broken = {"proxy": 1.0, "target": 1.0}
    optimizer = ProxyProx(
        toy.params, 0.3, correction=correction, inner=ImplicitStep(0.05), stop=5,
        proxy=lambda: toy.proxy() * broken["proxy"],
    )  # fmt: skip

    def closure():
        optimizer.zero_grad()
        loss = toy.loss() * broken["target"]
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    before, start = toy.flat(), toy.loss().item()
    broken[culprit] = math.nan
    with pytest.raises(pp.inner.NonFiniteError, match=f"outer step 3.*of the {culprit}'s"):
        optimizer.step(closure)
    assert torch.equal(toy.flat(), before)
    broken[culprit] = 1.0
    for _ in range(20):
        optimizer.step(closure)
    assert toy.loss().item() < 0.5 * start
