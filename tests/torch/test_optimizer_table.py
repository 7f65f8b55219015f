"""torch's own table of optimiser inputs and errors, adapted: what every optimiser must pass.

The checks follow the names of those in torch's test suite; the table's classes and its list of
inputs that every optimiser must refuse are torch's.
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

from torch.testing._internal.common_optimizers import (
    ErrorOptimizerInput,
    OptimizerErrorEnum,
    OptimizerInfo,
    OptimizerInput,
    get_error_inputs_for_all_optims,
)

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Mean, ProxyProx, Storm


def inputs(device, dtype=None):
    return [
        OptimizerInput(params=None, kwargs={}, desc="default"),
        OptimizerInput(params=None, kwargs={"lr": 1e-2}, desc="non-default lr"),
        OptimizerInput(params=None, kwargs={"lr": torch.tensor(0.01)}, desc="tensor lr"),
        OptimizerInput(params=None, kwargs={"lr": math.inf}, desc="infinite lr"),
        OptimizerInput(params=None, kwargs={"weight_decay": 0.1}, desc="weight_decay"),
        OptimizerInput(
            params=None,
            kwargs={"weight_decay": 0.1, "decoupled_weight_decay": True},
            desc="decoupled weight_decay",
        ),
        OptimizerInput(params=None, kwargs={"correction": EMA(0.3)}, desc="EMA"),
        OptimizerInput(params=None, kwargs={"correction": Mean()}, desc="mean"),
        OptimizerInput(params=None, kwargs={"correction": Storm(0.3)}, desc="STORM"),
        OptimizerInput(params=None, kwargs={"correction_weight": 0.5}, desc="weight"),
        OptimizerInput(
            params=None,
            kwargs={"inner": functools.partial(torch.optim.SGD, lr=1e-2, momentum=0.5)},
            desc="torch inner",
        ),
        OptimizerInput(
            params=None,
            kwargs={
                "inner": functools.partial(torch.optim.Adam, lr=1e-2),
                "keep_inner_state": True,
            },
            desc="kept torch inner",
        ),
        OptimizerInput(
            params=None, kwargs={"stop": pp.stopping.RandomSteps(0.4)}, desc="random steps"
        ),
        OptimizerInput(
            params=None,
            kwargs={"stop": pp.stopping.SDane(), "measure_residual": True},
            desc="criterion",
        ),
    ]


def error_inputs(device, dtype):
    return [
        *get_error_inputs_for_all_optims(device, dtype),
        ErrorOptimizerInput(
            OptimizerInput(
                params=[Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)],
                kwargs={},
                desc="whole numbers",
            ),
            error_type=TypeError,
            error_regex="params must be dense tensors of a floating-point dtype",
        ),
    ]  # fmt: skip


INFO = OptimizerInfo(
    ProxyProx,
    optim_inputs_func=inputs,
    optim_error_inputs_func=error_inputs,
    supported_impls=("foreach",),
    supports_complex=True,
)


class Case:
    """The linear least-squares problem of torch's tests, with a proxy beside it."""

    def __init__(self, contiguous: bool = True) -> None:
        generator = torch.Generator().manual_seed(1)
        weight = torch.randn(10, 5, generator=generator)
        if not contiguous:
            weight = torch.randn(5, 10, generator=generator).t()
        self.weight, self.bias = Parameter(weight), Parameter(torch.randn(10, generator=generator))
        self.input = torch.randn(5, generator=generator)

    @property
    def params(self):
        return [self.weight, self.bias]

    def loss(self):
        return (self.weight.mv(self.input) + self.bias).pow(2).sum()

    def proxy(self):
        return (0.9 * self.weight.mv(self.input) + self.bias).pow(2).sum()

    def make(self, params=None, **kwargs):
        given = {"lr": 0.05, "proxy": self.proxy, "inner": ImplicitStep(0.02), "stop": 3, **kwargs}
        return ProxyProx(self.params if params is None else params, **given)

    def closure(self, optimizer):
        def evaluate():
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        return evaluate


CASES = pytest.mark.parametrize("case", inputs("cpu"), ids=lambda case: case.desc)


@CASES
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("with_lrsched", [True, False])
def test_forloop_goes_right_direction(case, contiguous, with_lrsched):
    for make_scheduler in INFO.scheduler_inputs[0] if with_lrsched else [None]:
        problem = Case(contiguous)
        optimizer = problem.make(**copy.deepcopy(case.kwargs))
        scheduler = make_scheduler(optimizer) if make_scheduler else None
        start = problem.loss().item()
        for _ in range(20):
            loss = optimizer.step(problem.closure(optimizer))
            if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                scheduler.step(loss.item())
            elif scheduler:
                scheduler.step()
        assert problem.loss().item() < start


@pytest.mark.parametrize("index", range(len(error_inputs("cpu", torch.float32))))
def test_errors(index):
    error = error_inputs("cpu", torch.float32)[index]
    given, problem = error.optimizer_error_input, Case()
    assert error.error_on == OptimizerErrorEnum.CONSTRUCTION_ERROR
    kind = pytest.warns if issubclass(error.error_type, Warning) else pytest.raises
    with kind(error.error_type, match=error.error_regex):
        problem.make(given.params, **given.kwargs)


@CASES
def test_param_groups_lr_and_weight_decay(case):
    kwargs = {k: v for k, v in case.kwargs.items() if k not in ("lr", "weight_decay")}
    problem = Case()
    groups = [
        {"params": [problem.weight], "lr": 0.05, "weight_decay": 0.0},
        {"params": [problem.bias], "lr": 1e-3, "weight_decay": 0.5},
    ]
    optimizer = problem.make(groups, **kwargs)
    start = problem.loss().item()
    for _ in range(20):
        optimizer.step(problem.closure(optimizer))
    assert problem.loss().item() < start


@CASES
def test_state_dict_deterministic(case):
    """Loading into a fresh optimiser resumes as if nothing had happened."""
    one, two = Case(), Case()
    first = one.make(**copy.deepcopy(case.kwargs))
    for _ in range(3):
        first.step(one.closure(first))
    second = two.make(**copy.deepcopy(case.kwargs))
    with torch.no_grad():
        for p, q in zip(two.params, one.params, strict=True):
            p.copy_(q)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(3):
        first.step(one.closure(first))
        second.step(two.closure(second))
        assert all(torch.equal(p, q) for p, q in zip(one.params, two.params, strict=True))


@CASES
def test_complex_parameters_are_pairs_of_real_ones(case):
    goal = torch.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=torch.float64)
    pairs = Parameter(torch.ones(2, 2, dtype=torch.float64))
    numbers = Parameter(torch.view_as_complex(torch.ones(2, 2, dtype=torch.float64)))
    runs = []
    for p, view in ((pairs, lambda: pairs), (numbers, lambda: torch.view_as_real(numbers))):
        problem = Case()
        problem.proxy = lambda view=view: 1.1 * (view() - goal).pow(2).sum()
        problem.loss = lambda view=view: (view() - 0.9 * goal).pow(4).sum()
        optimizer = problem.make([p], **copy.deepcopy(case.kwargs))
        for _ in range(5):
            optimizer.step(problem.closure(optimizer))
        runs.append((view().detach(), optimizer.record))
    torch.testing.assert_close(runs[0][0], runs[1][0], rtol=1e-12, atol=1e-14)
    assert runs[1][1].residual == pytest.approx(runs[0][1].residual, rel=1e-9, nan_ok=True)


@CASES
def test_gradients_are_never_written_over(case):
    problem, seen = Case(), []
    optimizer = problem.make(**copy.deepcopy(case.kwargs))
    evaluate = problem.closure(optimizer)

    def closure():
        loss = evaluate()
        seen.append([(p.grad, p.grad.clone()) for p in problem.params])
        return loss

    for _ in range(2):
        del seen[:]
        optimizer.step(closure)
        assert all(torch.equal(gradient, copied) for gradient, copied in seen[0])


@CASES
def test_step_is_noop_when_params_have_no_grad(case):
    problem = Case()
    before = [p.detach().clone() for p in problem.params]
    optimizer = problem.make(**copy.deepcopy(case.kwargs))
    optimizer.step(lambda: None)
    assert all(torch.equal(p, q) for p, q in zip(problem.params, before, strict=True))


@pytest.mark.parametrize("kwargs", [{}, {"correction": EMA(0.3)}])
def test_step_is_noop_for_zero_grads_without_a_proxy(kwargs):
    p = Parameter(torch.randn(3))
    before = p.detach().clone()
    optimizer = ProxyProx([p], 0.1, proxy=None, **kwargs)
    p.grad = torch.zeros_like(p)
    optimizer.step()
    assert torch.equal(p, before)


@CASES
def test_empty_tensors_and_scalars(case):
    empty, scalar = Parameter(torch.empty(0)), Parameter(torch.tensor(2.0))
    optimizer = ProxyProx(
        [empty, scalar],
        **{"lr": 0.05, **copy.deepcopy(case.kwargs)},
        proxy=lambda: scalar**2 + empty.sum(),
    )

    def closure():
        optimizer.zero_grad()
        (scalar**2 + empty.sum()).backward()

    for _ in range(3):
        optimizer.step(closure)
    assert abs(scalar.item()) < 2


def test_state_dict_survives_torch_save_with_weights_only(tmp_path):
    problem = Case()
    optimizer = problem.make(correction=EMA(0.3), stop=pp.stopping.RandomSteps(0.4))
    for _ in range(3):
        optimizer.step(problem.closure(optimizer))
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    again = problem.make(correction=EMA(0.3), stop=pp.stopping.RandomSteps(0.4))
    again.load_state_dict(loaded)
    assert again.ledger == optimizer.ledger


def test_another_optimisers_state_is_refused():
    problem = Case()
    other = torch.optim.SGD(problem.params, lr=0.1)
    with pytest.raises(ValueError, match="saved by another optimiser"):
        problem.make().load_state_dict(other.state_dict())
