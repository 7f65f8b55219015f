"""torch's own table of optimiser inputs and errors, adapted: what every optimiser must pass.

The checks follow the names of those in torch's test suite; the list of inputs that every optimiser
must refuse is torch's.
"""

from __future__ import annotations

import copy
import functools
import math
import sys
import types
import unittest
from importlib.util import find_spec

import pytest
import torch
from torch.nn import Parameter

if find_spec("expecttest") is None:
    # torch's testing package imports it for a base class that nothing here uses.
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]

from torch.testing._internal.common_optimizers import get_error_inputs_for_all_optims

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Mean, ProxyProx

ADAM = functools.partial(torch.optim.Adam, lr=1e-2)
CASES = {
    "default": {},
    "tensor lr": {"lr": torch.tensor(0.01)},
    "infinite lr": {"lr": math.inf},
    "weight decay": {"weight_decay": 0.1},
    "decoupled": {"weight_decay": 0.1, "decoupled_weight_decay": True, "correction": EMA(0.3)},
    "mean": {"correction": Mean(), "correction_weight": 0.5},
    "proxy alone": {"correction_weight": 0},
    "torch inner": {"inner": ADAM},
    "random steps": {"stop": pp.stopping.RandomSteps(0.4)},
    "criterion": {"stop": pp.stopping.SDane(), "measure_residual": True},
}
EACH = pytest.mark.parametrize("name", CASES)


class Case:
    """The linear least-squares problem of torch's tests, with a proxy beside it."""

    def __init__(self, contiguous: bool = True) -> None:
        generator = torch.Generator().manual_seed(1)
        weight = torch.randn(10, 5, generator=generator)
        if not contiguous:
            weight = torch.randn(5, 10, generator=generator).t()
        self.weight, self.bias = Parameter(weight), Parameter(torch.randn(10, generator=generator))
        self.input = torch.randn(5, generator=generator)
        self.params = [self.weight, self.bias]

    def loss(self):
        return (self.weight.mv(self.input) + self.bias).pow(2).sum()

    def proxy(self):
        return (0.9 * self.weight.mv(self.input) + self.bias).pow(2).sum()

    def make(self, params=None, name="default", **kwargs):
        given = {"lr": 0.05, "proxy": self.proxy, "inner": ImplicitStep(0.02), "stop": 3}
        given |= copy.deepcopy(CASES[name])
        return ProxyProx(self.params if params is None else params, **given | kwargs)

    def train(self, optimizer, steps):
        def closure():
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        return self.loss().item()


@EACH
def test_forloop_goes_right_direction(name):
    for contiguous in (True, False):
        problem = Case(contiguous)
        assert problem.train(problem.make(name=name), 20) < Case(contiguous).loss().item()


def test_errors():
    for error in get_error_inputs_for_all_optims("cpu", torch.float32):
        given = error.optimizer_error_input
        kind = pytest.warns if issubclass(error.error_type, Warning) else pytest.raises
        with kind(error.error_type, match=error.error_regex):
            Case().make(given.params, **given.kwargs)
    whole = Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    with pytest.raises(TypeError, match="params"):
        Case().make([whole])


@EACH
def test_complex_parameters_are_pairs_of_real_ones(name):
    goal = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
    pairs = Parameter(torch.ones(2, 2, dtype=torch.float64))
    numbers = Parameter(torch.view_as_complex(torch.ones(2, 2, dtype=torch.float64)))
    runs = []
    for p, view in ((pairs, lambda: pairs), (numbers, lambda: torch.view_as_real(numbers))):
        problem = Case()
        problem.proxy = lambda view=view: 1.1 * (view() - goal).pow(2).sum()
        problem.loss = lambda view=view: (view() - 0.9 * goal).pow(4).sum()
        optimizer = problem.make([p], name)
        problem.train(optimizer, 5)
        runs.append((view().detach(), optimizer.record))
    torch.testing.assert_close(runs[0][0], runs[1][0], rtol=1e-12, atol=1e-14)
    assert runs[1][1].residual == pytest.approx(runs[0][1].residual, rel=1e-9, nan_ok=True)


@EACH
def test_step_is_noop_when_params_have_no_grad(name):
    problem = Case()
    before = [p.detach().clone() for p in problem.params]
    optimizer = problem.make(name=name)
    optimizer.step(lambda: None)
    assert all(torch.equal(p, q) for p, q in zip(problem.params, before, strict=True))
    assert (optimizer.ledger.target_gradients, optimizer.record) == (0, None)


@EACH
def test_empty_tensors_and_scalars(name):
    empty, problem = Parameter(torch.empty(0)), Case()
    number = Parameter(torch.tensor(2.0))
    problem.proxy = problem.loss = lambda: number**2 + empty.sum()
    problem.train(problem.make([empty, number], name), 3)
    assert abs(number.item()) < 2
