"""The first step's warnings; BatchNorm and Dropout during proxy passes."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

from proxyprox.torch import (
    EMA,
    BatchStatisticsWarning,
    ImplicitStep,
    Plain,
    Proxy,
    ProxyProx,
    ProxyScaleWarning,
    RandomProxyWarning,
    Storm,
    refreshed_batchnorm,
)
from proxyprox.torch.proxy import proxy_mode


def network(dropout: float = 0.0):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(dropout), nn.ReLU(), nn.Linear(4, 1)
    )


X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


def loss_of(model, rows=slice(None)):
    return (model(X[rows]) - 1).square().mean()


def one_step(network, **options):
    options = {"proxy": lambda: loss_of(network, slice(0, 6)), **options}
    optimizer = ProxyProx(network.parameters(), 0.1, inner=ImplicitStep(0.01), stop=3, **options)
    optimizer.zero_grad()
    loss_of(network).backward()
    optimizer.step()
    return optimizer


def test_running_statistics_see_the_target_only():
    model, reference = network(), network()
    one_step(model, model=model)
    loss_of(reference)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(getattr(model[1], name), getattr(reference[1], name)), name
    assert model[1].track_running_stats


def test_frozen_passes_use_the_statistics_of_the_batch():
    model = network()
    loss_of(model)
    expected = loss_of(copy.deepcopy(model))
    with proxy_mode(model, "frozen"):
        assert torch.equal(loss_of(model), expected)


def test_train_mode_touches_them_and_eval_mode_uses_them():
    model = network()
    one_step(model, model=model, proxy_mode="train")
    # The target's pass, the probe's two, the anchor's (also the first inner step's), two more.
    assert int(model[1].num_batches_tracked) == 6
    model, seen = network(), []

    def proxy():
        seen.append([m.training for m in model])
        return loss_of(model, slice(0, 6))

    model[2].eval()
    one_step(model, model=model, proxy=proxy, proxy_mode="eval")
    assert not any(any(flags) for flags in seen)
    assert [m.training for m in model] == [True, True, False, True, True]
    assert int(model[1].num_batches_tracked) == 1


def test_instance_norm_is_frozen_too():
    model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.InstanceNorm1d(2, track_running_stats=True))
    before = model[1].running_mean.clone()
    with proxy_mode(model, "frozen"):
        model(torch.randn(2, 1, 5))
    assert torch.equal(model[1].running_mean, before)
    assert model[1].momentum == 0.1


def test_modes_come_back_after_an_error():
    model = network()
    with pytest.raises(RuntimeError, match="no"), proxy_mode(model, "frozen"):
        raise RuntimeError("no")
    assert model[1].track_running_stats


def test_storm_counts_a_batch_once_in_the_running_statistics():
    model = network()
    optimizer = ProxyProx(
        model.parameters(), 0.1, proxy=lambda: loss_of(model, slice(0, 6)), model=model,
        correction=Storm(0.3), inner=ImplicitStep(0.01), stop=2,
    )  # fmt: skip

    def closure():
        optimizer.zero_grad()
        loss_of(model).backward()

    for _ in range(3):
        optimizer.step(closure)
    assert int(model[1].num_batches_tracked) == 3


@pytest.mark.parametrize("loader", [False, True], ids=["function", "loader"])
def test_the_probe_warns_of_dropout(loader):
    model = network(dropout=0.5)
    given = (
        {"proxy": Proxy([X[:6], X[6:]], lambda b: (model(b) - 1).square().mean())} if loader else {}
    )
    with pytest.warns(RandomProxyWarning, match="proxy_mode=.no_dropout"):
        one_step(model, model=model, **given)


@pytest.mark.parametrize("loader", [False, True], ids=["function", "loader"])
def test_the_probe_is_silent_for_a_deterministic_proxy_and_on_request(loader):
    model = network(dropout=0.5)
    given = (
        {"proxy": Proxy([X[:6], X[6:]], lambda b: (model(b) - 1).square().mean())} if loader else {}
    )
    one_step(model, model=model, proxy_mode="eval", **given)
    one_step(model, model=model, probe=False, **given)


def test_probing_does_not_change_the_run():
    ends = []
    for probe in (True, False):
        model = network()
        torch.manual_seed(3)
        one_step(model, model=model, probe=probe, correction=EMA(0.1))
        ends.append((torch.rand(1), model[0].weight.detach().clone()))
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({}, True),
        ({"correction": EMA(0.2)}, True),
        ({"anchor": "paired"}, False),
        ({"proxy_mode": "eval"}, False),
        ({"probe": False}, False),
    ],
    ids=["plain", "ema", "paired", "eval", "unprobed"],
)
def test_other_batches_in_full_passes_are_warned_of_where_batchnorm_sees_them(options, warned):
    model = network()

    def step(**given):
        proxy = Proxy([slice(0, 3), slice(3, 6)], lambda rows: loss_of(model, rows),
                      size=lambda rows: 3, **given)  # fmt: skip
        one_step(model, model=model, proxy=proxy, **options)

    step()
    if warned:
        with pytest.warns(BatchStatisticsWarning, match="full="):
            step(full=[slice(0, 6)])
        step(full=[slice(0, 6)], sampled=False)
    else:
        step(full=[slice(0, 6)])


def test_without_dropout_the_proxy_is_fixed_and_normalises_by_the_batch():
    model = network(dropout=0.5)
    one_step(model, model=model, proxy_mode="no_dropout")  # no warning
    assert int(model[1].num_batches_tracked) == 1
    assert all(module.training for module in model)
    reference = network()
    with proxy_mode(model, "no_dropout"):
        reference.load_state_dict(model.state_dict())
        assert torch.equal(loss_of(model), loss_of(reference))


@pytest.mark.parametrize("anchor", ["full", "paired"])
@pytest.mark.parametrize("correction", [Plain(), Storm(0.3)])
def test_a_step_inside_autocast_sees_its_own_weights(anchor, correction):
    """Autocast keeps casts of the weights until it ends; inner steps move them meanwhile."""
    ends = []
    for cached in (True, False):
        model = network()
        proxy = Proxy([slice(0, 3), slice(3, 6)], lambda rows, m=model: loss_of(m, rows),
                      size=lambda rows: 3)  # fmt: skip
        optimizer = ProxyProx(
            model.parameters(), 0.5, proxy=proxy, inner=ImplicitStep(0.1), stop=4, model=model,
            correction=correction, anchor=anchor,
        )  # fmt: skip

        def closure(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16, cache_enabled=cached):
                optimizer.step(closure)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


@pytest.mark.parametrize("loader", [False, True], ids=["function", "loader"])
def test_a_proxy_in_other_units_is_named(toy, loader):
    def sum_of(batch):
        return 200 * toy.batch_loss(batch)

    proxy = Proxy(toy.batches(), sum_of) if loader else lambda: 200 * toy.proxy()
    with pytest.warns(ProxyScaleWarning, match="times as long"):
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


def test_a_function_that_draws_minibatches_is_warned_of(toy):
    draw = torch.Generator().manual_seed(0)

    def proxy():
        rows = torch.randint(24, (4,), generator=draw)
        return ((toy.model(toy.x[rows]) - toy.y[rows]) ** 2).mean()

    with pytest.warns(RandomProxyWarning, match="draws a minibatch"):
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
            with pytest.warns(BatchStatisticsWarning, match="Pass model=") as caught:
                optimizer.step()
            assert caught[0].filename == __file__
    model.eval()  # nothing follows anything
    once = ProxyProx(
        model.parameters(), 0.1, proxy=lambda: loss(x), inner=ImplicitStep(0.01), stop=2
    )
    loss(x).backward()
    once.step()


def test_refreshed_statistics_are_those_of_the_batches_and_go_away():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
    )
    x = torch.randn(8, 3, 8, 8)
    model(x)
    held = {k: v.clone() for k, v in model.state_dict().items()}
    model.eval()
    model[2].train()
    with refreshed_batchnorm(model, [x[:4], x[4:]], model):
        assert [m.training for m in model] == [False, False, True, False, False]
        means = [model[0](part).mean(dim=(0, 2, 3)) for part in (x[:4], x[4:])]
        torch.testing.assert_close(model[1].running_mean, (means[0] + means[1]).detach() / 2)
    assert all(torch.equal(v, held[k]) for k, v in model.state_dict().items())
    assert model[1].momentum == 0.1
