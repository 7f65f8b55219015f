from __future__ import annotations

import tomllib
from dataclasses import replace

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics import RunPlan, audit, plan
from proxyprox.experiments.study import plan_toml
from proxyprox.problems import ScaledProxy


@pytest.fixture(scope="module")
def planned() -> RunPlan:
    target = pp.Quadratic(np.diag([1.0, 10.0, 100.0]), b=np.ones(3), noise=0.01)
    return plan(audit(pp.Problem(target, pp.Quadratic(np.diag([1.1, 10.5, 99.0]))), rng=0))


def test_the_lines_hold_the_plan(planned: RunPlan) -> None:
    read = tomllib.loads(plan_toml(planned, 64) or "")
    assert read["method"]["eta"] == planned.method.eta
    assert read["method"]["correction"] == "plain"
    assert read["method"]["batch_size"] == 64
    assert read["run"]["target_gradients"] == planned.steps


def test_sgd_on_all_rows_averaged(planned: RunPlan) -> None:
    other = replace(planned, method=pp.SGD(0.5), averaging=pp.Uniform(), stop=None)
    assert tomllib.loads(plan_toml(other, None) or "")["method"] == {
        "name": "sgd", "eta": 0.5, "batch_size": "all", "averaging": "uniform",
    }  # fmt: skip


def test_a_scale_has_no_key(planned: RunPlan) -> None:
    proxy = ScaledProxy(planned.problem.proxy, 2.0)
    scaled = replace(planned, problem=pp.Problem(planned.problem.objective, proxy))
    assert plan_toml(scaled, 64) is None
