"""What the first step looks at: units, running statistics, minibatches in a function."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from proxyprox.torch import (
    BatchStatisticsWarning,
    ImplicitStep,
    Proxy,
    ProxyProx,
    ProxyScaleWarning,
    RandomProxyWarning,
)


@pytest.mark.parametrize("loader", [False, True], ids=["function", "loader"])
def test_a_proxy_in_other_units_is_named(toy, loader):
    def sum_of(batch):
        return 200 * toy.batch_loss(batch)

    proxy = Proxy(toy.batches(), sum_of) if loader else lambda: 200 * toy.proxy()
    with pytest.warns(ProxyScaleWarning, match=r"times as long as the target.*a sum and .* mean"):
        toy.train(toy.optimizer(proxy=proxy, inner=ImplicitStep(1e-3)), 1)


def test_units_are_looked_at_once_and_only_if_the_proxy_is_the_longer_one(toy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        toy.train(toy.optimizer(proxy=lambda: 1e-3 * toy.proxy()), 2)
        toy.train(toy.optimizer(proxy=lambda: 200 * toy.proxy(), probe=False, stop=1), 1)


def test_the_warning_points_at_the_line_that_called_step(toy):
    optimizer = toy.optimizer(proxy=lambda: 200 * toy.proxy(), inner=ImplicitStep(1e-3))
    toy.loss().backward()
    with pytest.warns(ProxyScaleWarning) as caught:
        optimizer.step()
    assert caught[0].filename == __file__


def test_a_function_that_draws_minibatches_is_told_what_to_use(toy):
    draw = torch.Generator().manual_seed(0)

    def proxy():
        rows = torch.randint(24, (4,), generator=draw)
        return ((toy.model(toy.x[rows]) - toy.y[rows]) ** 2).mean()

    with pytest.warns(RandomProxyWarning, match=r"draws a minibatch.*Proxy\(loader, loss\)"):
        toy.train(toy.optimizer(proxy=proxy), 1)


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("loader", [False, True], ids=["function", "loader"])
def test_batchnorm_of_a_network_that_is_not_given(known, loader):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.randn(12, 3)

    def loss(batch):
        return (model(batch) - 1).square().mean()

    optimizer = ProxyProx(
        model.parameters(), 0.1, proxy=Proxy(x.split(6), loss) if loader else lambda: loss(x[:6]),
        inner=ImplicitStep(0.01), stop=2, model=model if known else None,
    )  # fmt: skip
    for k in range(2):
        optimizer.zero_grad()
        loss(x).backward()
        if known or k:
            optimizer.step()
        else:
            with pytest.warns(BatchStatisticsWarning, match=r"follow the.*Pass model=") as caught:
                optimizer.step()
            assert caught[0].filename == __file__
    model.eval()  # nothing follows anything
    once = ProxyProx(
        model.parameters(), 0.1, proxy=lambda: loss(x), inner=ImplicitStep(0.01), stop=2
    )
    loss(x).backward()
    once.step()


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda loss: loss.item(), r"without \.item\(\)"),
        (lambda loss: None, r"got nothing\. Return it"),
        (lambda loss: loss.expand(3), r"shape \(3,\)\. Take its mean"),
    ],
    ids=["number", "nothing", "vector"],
)
def test_what_a_proxy_must_return(toy, returned, words):
    optimizer = toy.optimizer(proxy=lambda: returned(toy.proxy()))
    toy.loss().backward()
    with pytest.raises(TypeError, match=words):
        optimizer.step()


def test_inputs_and_labels_are_not_batches(toy):
    with pytest.raises(TypeError, match=r"tuple of tensors.*TensorDataset\(X, y\)"):
        Proxy((toy.x, toy.y[:, 0]), toy.batch_loss)
    Proxy((toy.x[:4], toy.x[4:8]), lambda batch: toy.model(batch).mean())
    with pytest.raises(TypeError, match=r"got 0\.3\. Write ImplicitStep\(0\.3\)"):
        toy.optimizer(inner=0.3)
