"""Settings and parameters that the optimiser takes, and those it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import Parameter

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, ProxyProx


def refused(name, error, words, **settings):
    return pytest.param(error, words, settings, id=name)


SETTINGS = [
    refused("lr < 0", ValueError, "lr must be a positive number", lr=-0.5),
    refused("lr NaN", ValueError, "lr must be a positive number", lr=math.nan),
    refused("lr text", TypeError, "lr must be a positive number", lr="0.1"),
    refused("decay < 0", ValueError, "weight_decay must be a finite number", weight_decay=-1.0),
    refused("flag", TypeError, "decoupled_weight_decay", decoupled_weight_decay="yes"),
    refused(
        "decoupled at infinity", ValueError, "lr and decoupled weight_decay.*got .inf",
        lr=math.inf, weight_decay=0.1, decoupled_weight_decay=True,
    ),
    refused(
        "decay of all", ValueError, "lr and decoupled weight_decay.*got .300",
        lr=300, weight_decay=0.01, decoupled_weight_decay=True,
    ),
    refused("class", TypeError, "correction must be.*EMA", correction=EMA),
    refused("not a correction", TypeError, "correction must be", correction="ema"),
    refused("weight > 1", ValueError, "correction_weight must be", correction_weight=1.5),
    refused("anchor", ValueError, "anchor must be one of", anchor="half"),
    refused("paired", ValueError, 'anchor must be "full".*Use Proxy', anchor="paired"),
    refused("mode", ValueError, "proxy_mode must be one of", proxy_mode="off"),
    refused("eval", ValueError, "proxy_mode.*Pass model", proxy_mode="eval"),
    refused("no_dropout", ValueError, "proxy_mode.*Pass model", proxy_mode="no_dropout"),
    refused("other model", ValueError, "model must be", model=torch.nn.Linear(1, 1)),
    refused("model", ValueError, "model must be.*torch.nn.Module", model=3),
    refused("stop 0", ValueError, "stop must be a whole number", stop=0),
    refused("stop text", TypeError, "stop must be a whole number.*Criterion", stop="20"),
    refused("stop class", TypeError, r"stop must be.*Steps\(20\)", stop=pp.stopping.SDane),
    refused("stop(k)", TypeError, r"stop\(0\) must be", stop=lambda k: 2.5),
    refused("max", ValueError, "max_inner_steps", max_inner_steps=0),
    refused("every", ValueError, "check_every", check_every=0),
    refused("inner", TypeError, "inner must be", inner=0.01),
    refused("inner result", TypeError, "inner must be", inner=lambda params: 3),
    refused("inner class", TypeError, r"inner must be.*ImplicitStep\(0.01\)", inner=ImplicitStep),
    refused(
        "inner optimiser", TypeError, "inner must be.*functools.partial",
        inner=torch.optim.SGD([Parameter(torch.zeros(1))], lr=0.1),
    ),
    refused("lbfgs", TypeError, "inner must be.*needs a closure", inner=lambda g: torch.optim.LBFGS(
        g[0]["params"]
    )),
    refused("proxy", TypeError, "proxy must be a function", proxy=3.0),
    refused("proxy model", TypeError, "proxy=lambda", proxy=torch.nn.Linear(1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "settings"), SETTINGS)
def test_refused(toy, error, words, settings):
    with pytest.raises(error, match=words):
        toy.optimizer(**settings)


def test_named_parameters(toy):
    named = [("weight", toy.params[0]), ("bias", toy.params[1])]
    optimizer = ProxyProx(named, 0.3, proxy=toy.proxy)
    toy.train(optimizer, 1)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_a_generator_of_parameters_and_mixed_dtypes():
    low = Parameter(torch.ones(4, dtype=torch.bfloat16))
    high = Parameter(torch.ones(4, dtype=torch.float64))

    def loss():
        return (low.double() ** 2).sum() + (high**2).sum()

    optimizer = ProxyProx(
        (p for p in (low, high)), 0.1, proxy=loss, correction=EMA(0.5), inner=ImplicitStep(0.1)
    )
    for _ in range(4):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert low.dtype == torch.bfloat16
    assert high.dtype == torch.float64
    assert float(high.detach().abs().max()) < 0.5


def test_a_failed_add_param_group_changes_nothing(toy):
    optimizer = toy.optimizer()
    with pytest.raises(TypeError, match="params must be dense"):
        optimizer.add_param_group({"params": [torch.zeros(2, dtype=torch.int64)]})
    with pytest.raises(ValueError, match="lr must be a positive number"):
        optimizer.add_param_group({"params": [Parameter(torch.zeros(2))], "lr": -1.0})
    assert len(optimizer.param_groups) == 1


def test_a_negative_lr_on_the_way(toy):
    optimizer = toy.optimizer()
    toy.train(optimizer, 2)
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr must be 0 or a positive number"):
        toy.train(optimizer, 1)
