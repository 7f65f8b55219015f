"""Settings and parameters that the optimiser takes, and those it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import Parameter

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep

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
