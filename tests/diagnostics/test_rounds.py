"""Audits of exact targets: few rounds, and as good a prediction as such a model gives."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics.audit import audit, plan
from proxyprox.diagnostics.report import RoundAudit, Verdict
from proxyprox.problems import ScaledProxy
from proxyprox_app.cli.audit import audit_values

EPSILON = 1e-6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((4000, 30)) * np.geomspace(1, 0.02, 30)
Y = X @ (4 * RNG.standard_normal(30)) + RNG.logistic(size=4000) > 0


@pytest.fixture(scope="module")
def target():
    return pp.logistic_regression(X, Y, l2=1e-4)


@pytest.fixture(scope="module")
def found(target):
    return audit(pp.Problem(target, target.subsample(200, rng=1)), epsilon=EPSILON)


def bfgs_rounds(problem, least):
    result = pp.minimize(
        problem, method=pp.ProxyBFGS(), steps=300, callback=lambda step: step.value <= least
    )
    return result.ledger.target_gradients


def test_rounds_are_predicted_within_a_factor(target, found, best_value):
    assert isinstance(found, RoundAudit)
    assert found.verdict is Verdict.USE
    took = bfgs_rounds(found.problem, best_value(target) + EPSILON)
    assert 1 / 2.5 < found.rounds / took < 2.5
    # Curvature of a logistic loss is nowhere larger than at zero.
    assert 0 < found.delta.low < found.H.low <= np.linalg.eigvalsh(target.hessian(np.zeros(30)))[-1]
    worse, better = (
        audit(pp.Problem(target, target.subsample(rows, rng=1)), epsilon=EPSILON).rounds
        for rows in (100, 2000)
    )
    assert worse >= found.rounds >= better < worse


def test_few_gradients_are_asked_for_and_counted(target):
    asked = []

    def gradient(w):
        asked.append(w)
        return target.gradient(w)

    proxy = target.subsample(200, rng=1)
    problem = pp.Problem(pp.FunctionObjective(gradient, value=target.value), proxy)
    for budget, used in ((400, 3), (2, 2)):
        asked.clear()
        found = audit(problem, target.zeros(), budget=budget)
        assert len(asked) == found.ledger.target_gradients == used
    with pytest.raises(ValueError, match="budget"):
        audit(problem, target.zeros(), budget=1)


def test_one_round_is_known_before_any_is_taken(target, best_value):
    found = audit(pp.Problem(target, target.label_free()))
    assert found.verdict is Verdict.ONE_ROUND
    assert found.ledger.target_gradients == 0
    assert "one full gradient solves it" in str(found)
    planned = plan(found)
    result = pp.minimize(planned.problem, **planned.arguments)
    assert result.ledger.target_gradients == planned.bill.target_gradients == 1
    assert target.value(result.w) < best_value(target) + EPSILON


def part(rows=X[:300], labels=Y[:300]):
    return pp.logistic_regression(rows, labels, l2=1e-4)


PROXIES = {
    "no labels": (lambda: part(X[:1000], Y[:1000]).label_free(), EPSILON, Verdict.USE),
    "loss × 1000": (lambda: ScaledProxy(part(), 1000.0), 1e-2, Verdict.USE),
    "columns × 30": (lambda: part(30 * X[:300]), 1e-2, Verdict.DO_NOT_USE),
    "other columns": (lambda: part(X[:300, ::-1]), EPSILON, Verdict.DO_NOT_USE),
    "identity": (lambda: pp.Quadratic(np.eye(30)), None, Verdict.USE),
}  # fmt: skip


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_is_used_unless_it_is_too_steep(target, name):
    make, epsilon, verdict = PROXIES[name]
    found = audit(pp.Problem(target, make()), epsilon=epsilon)
    refused = verdict is Verdict.DO_NOT_USE
    assert found.verdict is verdict
    assert found.sentence.startswith("Do not use it" if refused else "Use it")
    count = re.search(r"takes about ([\d,]+) rounds", str(found)).group(1)
    assert int(count.replace(",", "")) == found.rounds
    # A factor of the whole loss is no harm: it is fitted.
    assert ("δ exceeds H" in str(found)) == refused
    planned = plan(found)
    assert isinstance(planned.problem.proxy, pp.problems.Zero) == refused
    assert (planned.notes[0] == found.sentence) == refused


def test_the_planned_run_reaches_its_accuracy(target, found, best_value):
    planned = plan(found)
    result = pp.minimize(planned.problem, **planned.arguments)
    assert result.status is pp.Status.CONVERGED
    assert target.value(result.w) <= best_value(target) + EPSILON
    assert planned.rough
    assert planned.bill.target_samples == 4000 * planned.steps
    assert "rounds (rough" in str(planned)
    # Another accuracy and a budget cost no round.
    before = found.ledger.target_gradients
    assert plan(found, epsilon=1e-2).steps < planned.steps < plan(found, epsilon=1e-9).steps
    short = plan(found, budget=4)
    assert (short.steps, short.reaches, short.arguments["steps"]) == (4, False, 4)
    assert "budget" in short.notes[-1]
    assert found.ledger.target_gradients == before


def test_many_parameters_are_compressed(best_value):
    rng = np.random.default_rng(0)
    X = (rng.random((1500, 600)) < 0.03) * rng.gamma(2.0, 0.5, 600)
    y = X @ rng.standard_normal(600) + rng.logistic(size=1500) > 0
    loss = pp.logistic_regression(X, y, l2=1e-3)
    found = audit(pp.Problem(loss, loss.subsample(500, rng=0)), epsilon=EPSILON)
    assert "of 600 dimensions" in str(found)
    assert 1 / 3 < found.rounds / bfgs_rounds(found.problem, best_value(loss) + EPSILON) < 3


def test_starts_at_the_minimum_and_targets_that_curve_downwards():
    loss = pp.Quadratic(np.diag([1.0, 9.0]), b=np.ones(2))
    found = audit(pp.Problem(loss, (loss.value, loss.gradient)), epsilon=EPSILON)
    assert found.rounds == found.ledger.target_gradients == 1
    wrong = pp.FunctionObjective(lambda w: 1 - w)
    found = audit(pp.Problem(wrong, pp.Quadratic(np.eye(2))), np.zeros(2))
    assert found.verdict is Verdict.UNSURE
    assert "check_grad" in str(found)
    with pytest.raises(ValueError, match="verdict"):
        plan(found)


def test_tensors_are_audited_and_values_are_json(found):
    values = json.loads(json.dumps(audit_values(found, plan(found)), allow_nan=False))
    assert values["rounds"] == found.rounds
    torch = pytest.importorskip("torch")
    A, b = torch.diag(torch.tensor([1.0, 10.0, 100.0])), torch.ones(3)
    target = pp.Quadratic(A.double(), b=b.double())
    found = audit(pp.Problem(target, pp.Quadratic((1.1 * A + 0.5).double())), epsilon=EPSILON)
    assert found.verdict is Verdict.USE
    assert found.rounds <= 6
