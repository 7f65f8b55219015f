"""Which parameters are taken: named, from a generator, of several dtypes; and which are not."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter

from proxyprox.torch import EMA, ImplicitStep, ProxyProx


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
    with pytest.raises(TypeError, match="dense tensors of a floating-point dtype"):
        optimizer.add_param_group({"params": [torch.zeros(2, dtype=torch.int64)]})
    with pytest.raises(ValueError, match="lr must be 0 or a positive number"):
        optimizer.add_param_group({"params": [Parameter(torch.zeros(2))], "lr": -1.0})
    assert len(optimizer.param_groups) == 1
