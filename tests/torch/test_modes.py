"""The first step's warnings; BatchNorm and Dropout during proxy passes."""

import pytest
import torch
from torch import nn

from proxyprox import torch as pt

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


def network(dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(dropout), nn.ReLU(), nn.Linear(4, 1)
    )


def loss_of(model, rows=slice(None)):
    return (model(X[rows]) - 1).square().mean()


def proxy_of(model, **options):
    halves = [slice(0, 3), slice(3, 6)]
    return pt.Proxy(halves, lambda rows: loss_of(model, rows), size=lambda rows: 3, **options)


def steps(model, /, count=1, **options):
    given = {"proxy": lambda: loss_of(model, slice(0, 6)), "model": model, "stop": 3, **options}
    optimizer = pt.ProxyProx(model.parameters(), 0.1, inner=pt.ImplicitStep(0.01), **given)
    for _ in range(count):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def test_running_statistics_see_the_target_only():
    # In "train" the target's passes, the probe's two, and three an outer step.
    for options, tracked in (({}, 2), ({"proxy_mode": "no_dropout"}, 2),
                             ({"proxy_mode": "train"}, 10)):  # fmt: skip
        model, reference = network(), network()
        steps(model, 2, **options)
        assert int(model[1].num_batches_tracked) == tracked
        assert model[1].track_running_stats
        # The first pass, at the same weights, is the same function.
        loss_of(reference)
        fresh = network()
        steps(fresh, 1, **options)
        same = torch.equal(fresh[1].running_mean, reference[1].running_mean)
        assert same == (tracked == 2)


def test_modes_of_modules_are_switched_and_come_back():
    model, seen = network(), []

    def proxy():
        seen.append([m.training for m in model])
        if len(seen) == 5:
            raise KeyError("no")
        return loss_of(model, slice(0, 6))

    model[2].eval()
    with pytest.raises(KeyError):
        steps(model, 3, proxy=proxy, proxy_mode="eval")
    assert not any(any(flags) for flags in seen)
    assert [m.training for m in model] == [True, True, False, True, True]
    norm = nn.InstanceNorm1d(2, track_running_stats=True)
    model = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 1), norm, nn.Flatten())
    model(X)
    before = norm.running_mean.clone()
    optimizer = pt.ProxyProx(
        model.parameters(), 0.1, proxy=lambda: (model(X) * X[:, :1]).mean(), model=model
    )
    model[1].weight.grad = torch.ones_like(model[1].weight)
    optimizer.step()
    assert torch.equal(norm.running_mean, before)
    assert norm.momentum == 0.1


def test_the_probe_warns_of_dropout_and_is_silent_on_request():
    model = network(dropout=0.5)
    with pytest.warns(pt.RandomProxyWarning, match="proxy_mode"):
        steps(model, proxy=proxy_of(model))
    for options in ({"proxy_mode": "eval"}, {"proxy_mode": "no_dropout"}, {"probe": False}):
        steps(model, proxy=proxy_of(model), **options)


def test_other_batches_in_full_passes_are_warned_of_where_batchnorm_sees_them():
    model = network()
    mixed = proxy_of(model, full=[slice(0, 6)])
    with pytest.warns(pt.BatchStatisticsWarning, match="full="):
        steps(model, proxy=mixed)
    steps(model, proxy=mixed, proxy_mode="eval")
    steps(model, proxy=mixed, probe=False)


def test_batchnorm_of_a_network_that_is_not_given():
    model = network()
    with pytest.warns(pt.BatchStatisticsWarning, match="model=") as caught:
        steps(model, 2, proxy=proxy_of(model), model=None)
    assert [one.filename for one in caught] == [__file__]
    model.eval()  # nothing follows anything
    steps(model, proxy=proxy_of(model), model=None)


def test_refreshed_statistics_are_those_of_the_batches_and_go_away():
    model = network()
    model(X)
    held = {k: v.clone() for k, v in model.state_dict().items()}
    model.eval()
    model[2].train()
    with pt.refreshed_batchnorm(model, [X[:4], X[4:8]], model):
        assert [m.training for m in model] == [False, False, True, False, False]
        expected = model[0](X[:8]).mean(dim=0).detach()
        torch.testing.assert_close(model[1].running_mean, expected)
    assert all(torch.equal(v, held[k]) for k, v in model.state_dict().items())
    assert model[1].momentum == 0.1
