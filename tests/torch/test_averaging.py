"""Averages of weights, and BatchNorm statistics that belong to them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from proxyprox.torch import WeightAverage, refreshed_batchnorm


def test_an_average_of_weights():
    w = nn.Parameter(torch.zeros(3))
    average = WeightAverage([w], decay=0.75)
    with torch.no_grad():
        w.fill_(4.0)
    average.update()
    again = WeightAverage([nn.Parameter(torch.ones(3))], decay=0.75)
    again.load_state_dict(average.state_dict())
    assert again.values[0].tolist() == [1.0] * 3


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


@pytest.mark.parametrize("params", [[], [3.0], None])
def test_an_average_of_nothing_is_refused(params):
    with pytest.raises(TypeError, match="params must be"):
        WeightAverage(params, decay=0.5)
