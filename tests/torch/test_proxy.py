"""Proxies made of batches: means over passes, order of batches, refusals."""

from __future__ import annotations

import pytest
import torch

from proxyprox.torch import ImplicitStep, Proxy, ProxyProx
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
    with pytest.raises(TypeError, match=r"batches must be iterable again.*list\(\)"):
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
        (lambda toy: (toy.model(toy.x) - toy.y) ** 2, TypeError, r"shape \(24, 1\).*mean"),
        (lambda toy: toy.proxy().detach(), ValueError, "Do not detach"),
    ],
)
def test_losses_that_are_not_losses(toy, proxy, kind, words):
    optimizer = ProxyProx(toy.params, 0.1, proxy=lambda: proxy(toy), probe=False)
    toy.loss().backward()
    with pytest.raises(kind, match=words):
        optimizer.step()
