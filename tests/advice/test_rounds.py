"""Audits of exact targets: few rounds, and as good a prediction as such a model gives."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox.advice.audit import audit
from proxyprox.advice.plan import plan
from proxyprox.advice.report import RoundAudit, Verdict
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import ScaledProxy
from proxyprox_app.report.page import audit_values, write_audit_page

EPSILON = 1e-6


def table(seed: int = 0, rows: int = 4000, size: int = 30) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, size)) * np.geomspace(1, 0.02, size)
    return X, X @ (4 * rng.standard_normal(size)) + rng.logistic(size=rows) > 0


@pytest.fixture(scope="module")
def target() -> pp.GLM:
    return pp.logistic_regression(*table(), l2=1e-4)


@pytest.fixture(scope="module")
def found(target: pp.GLM) -> RoundAudit:
    audited = audit(pp.Problem(target, target.subsample(200, rng=1)), epsilon=EPSILON)
    assert isinstance(audited, RoundAudit)
    return audited


def goal(loss: pp.GLM) -> float:
    return loss.value(minimise_exactly(loss, loss.zeros())) + EPSILON


def bfgs_rounds(problem: pp.Problem) -> int:
    least = goal(problem.objective)
    result = pp.minimize(
        problem, method=pp.ProxyBFGS(), steps=300, callback=lambda step: step.value <= least
    )
    return result.ledger.target_gradients


def lbfgs_rounds(loss: pp.GLM) -> int:
    least, count = goal(loss), 0

    def both(w: Any) -> tuple[float, Any]:
        nonlocal count
        count += 1
        value, gradient = loss.value_and_gradient(w)
        if value <= least:
            raise StopIteration
        return value, gradient

    options = {"maxcor": 10, "maxfun": 10**4, "maxiter": 10**4, "ftol": 0, "gtol": 0}
    with pytest.raises(StopIteration):
        scipy.optimize.minimize(both, loss.zeros(), jac=True, method="L-BFGS-B", options=options)
    return count


def test_rounds_are_predicted_within_a_factor(target: pp.GLM, found: RoundAudit) -> None:
    assert found.verdict is Verdict.USE
    assert 1 / 2.5 < found.rounds / bfgs_rounds(found.problem) < 2.5
    assert 1 / 2.5 < found.rounds_lbfgs / lbfgs_rounds(target) < 2.5
    without = bfgs_rounds(pp.Problem(target, pp.problems.Zero()))
    assert 1 / 2.5 < found.rounds_without / without < 2.5


def test_better_proxies_are_told_from_worse_ones(target: pp.GLM) -> None:
    counts = [
        audit(pp.Problem(target, target.subsample(rows, rng=1)), epsilon=EPSILON).rounds
        for rows in (2000, 400, 100)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_few_gradients_are_asked_for_and_counted(target: pp.GLM) -> None:
    asked = []

    def gradient(w: Any) -> Any:
        asked.append(w)
        return target.gradient(w)

    proxy = target.subsample(200, rng=1)
    problem = pp.Problem(pp.FunctionObjective(gradient, value=target.value), proxy)
    for budget, used in ((400, 3), (2, 2)):
        asked.clear()
        found = audit(problem, target.zeros(), budget=budget)
        assert len(asked) == found.ledger.target_gradients == used
        assert found.epsilon_source == "estimated"
    with pytest.raises(ValueError, match="budget must be 2 or more"):
        audit(problem, target.zeros(), budget=1)


def test_size_and_similarity_are_lower_limits(found: RoundAudit, target: pp.GLM) -> None:
    # Curvature of a logistic loss is nowhere larger than at zero.
    assert 0 < found.H.low <= np.linalg.eigvalsh(target.hessian(target.zeros()))[-1]
    assert 0 < found.delta.low < found.H.low


def test_one_round_is_known_before_any_is_taken(target: pp.GLM) -> None:
    found = audit(pp.Problem(target, target.label_free()))
    assert found.verdict is Verdict.ONE_ROUND
    assert found.ledger.target_gradients == 0
    assert "one full gradient solves it" in str(found)
    planned = plan(found)
    result = pp.minimize(planned.problem, **planned.arguments)
    assert result.ledger.target_gradients == planned.bill.target_gradients == 1
    assert target.value(result.w) < goal(target)


def test_a_proxy_of_other_columns_will_not_pay(target: pp.GLM) -> None:
    X, y = table()
    order = np.random.default_rng(3).permutation(30)
    other = pp.logistic_regression(X[:400, order], y[:400], l2=1e-4)
    found = audit(pp.Problem(target, other), epsilon=EPSILON)
    assert found.verdict is Verdict.DO_NOT_USE
    assert found.sentence.startswith("Do not use it")
    planned = plan(found)
    assert isinstance(planned.problem.proxy, pp.problems.Zero)
    assert planned.steps == found.rounds_without
    assert planned.notes[0] == found.sentence


def test_a_proxy_in_other_units_will_not_pay(target: pp.GLM) -> None:
    X, y = table()
    other = pp.logistic_regression(30 * X[:400], y[:400], l2=1e-4)
    found = audit(pp.Problem(target, other), epsilon=1e-2)
    assert found.verdict is Verdict.DO_NOT_USE
    assert any("δ exceeds H" in reason for reason in found.reasons)
    # A factor of the whole loss is no harm: it is fitted.
    large = ScaledProxy(target.subsample(400, rng=0), 1000.0)
    assert "δ exceeds H" not in str(audit(pp.Problem(target, large), epsilon=1e-2))


def units(X: Any, factor: Any) -> pp.GLM:
    return pp.logistic_regression(factor * X[:300], table()[1][:300], l2=1e-4)


PROXIES = {
    "sample": lambda X, y: units(X, 1.0),
    "columns × 100": lambda X, y: units(X, 100.0),
    "columns × 0.01": lambda X, y: units(X, 0.01),
    "one column × 100": lambda X, y: units(X, np.where(np.arange(X.shape[1]) == 0, 100.0, 1.0)),
    "half of the columns × 100": lambda X, y: units(X, np.tile([1.0, 100.0], X.shape[1] // 2)),
    "sorted by label": lambda X, y: pp.logistic_regression(
        X[y == 1][:300], y[y == 1][:300], l2=1e-4
    ),
    "sorted by a column": lambda X, y: units(X[np.argsort(X[:, 0])], 1.0),
    "labels flipped": lambda X, y: pp.logistic_regression(X[:300], 1 - y[:300], l2=1e-4),
    "loss × 1000": lambda X, y: ScaledProxy(units(X, 1.0), 1000.0),
    "noise": lambda X, y: units(np.random.default_rng(0).standard_normal(X.shape), 1.0),
    "identity": lambda X, y: pp.Quadratic(np.eye(X.shape[1])),
    "no labels": lambda X, y: units(X, 1.0).label_free(),
}


@pytest.mark.parametrize("epsilon", [None, 1e-2])
@pytest.mark.parametrize("name", PROXIES)
def test_the_verdict_follows_from_the_numbers(name: str, epsilon: float | None) -> None:
    X, y = table()
    X, y = X[:1500], y[:1500].astype(float)
    target = pp.logistic_regression(X, y, l2=1e-4)
    found = audit(pp.Problem(target, PROXIES[name](X, y)), epsilon=epsilon)
    assert found.verdict in (Verdict.USE, Verdict.DO_NOT_USE)
    fewest = min(found.rounds_without, found.rounds_lbfgs)
    assert (found.verdict is Verdict.USE) == (found.rounds <= fewest)
    assert found.sentence.startswith("Use it" if found.rounds <= fewest else "Do not use it")
    shown = [int(count.replace(",", "")) for count in re.findall(r"about ([\d,]+)", str(found))]
    assert shown[0] == found.rounds
    other = plan(found, epsilon=10 * found.epsilon)
    assert other.steps >= 1


def test_a_proxy_without_labels_is_lowest_at_the_start(target: pp.GLM) -> None:
    part = target.label_free(table()[0][:1000])
    found = audit(pp.Problem(target, part), epsilon=EPSILON)
    assert found.verdict is Verdict.USE
    assert "no minimum away from w0" in str(found)


def test_the_planned_run_reaches_its_accuracy(target: pp.GLM, found: RoundAudit) -> None:
    planned = plan(found)
    result = pp.minimize(planned.problem, **planned.arguments)
    assert result.status is pp.Status.CONVERGED
    assert target.value(result.w) <= goal(target)
    assert planned.rough
    assert planned.bill.target_samples == 4000 * planned.steps
    assert "rounds (rough" in str(planned)


def test_another_accuracy_and_a_budget_cost_no_round(found: RoundAudit) -> None:
    before = found.ledger.target_gradients
    assert plan(found, epsilon=1e-2).steps < plan(found).steps < plan(found, epsilon=1e-9).steps
    short = plan(found, budget=4)
    assert (short.steps, short.reaches, short.arguments["steps"]) == (4, False, 4)
    assert "budget" in short.notes[-1]
    assert found.ledger.target_gradients == before
    with pytest.raises(ValueError, match="guaranteed"):
        plan(found, guaranteed=True)


def test_many_parameters_are_compressed() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((1500, 600)) < 0.03) * rng.gamma(2.0, 0.5, 600)
    y = X @ rng.standard_normal(600) + rng.logistic(size=1500) > 0
    loss = pp.logistic_regression(X, y, l2=1e-3)
    found = audit(pp.Problem(loss, loss.subsample(500, rng=0)), epsilon=EPSILON)
    assert "of 600 dimensions" in str(found)
    assert 1 / 3 < found.rounds / bfgs_rounds(found.problem) < 3


def test_a_proxy_without_a_minimum_and_one_without_products(target: pp.GLM) -> None:
    proxy = target.subsample(200, rng=1)
    downwards = (lambda w: -proxy.value(w), lambda w: -proxy.gradient(w))
    for given in (downwards, (proxy.value, proxy.gradient)):
        found = audit(pp.Problem(target, given), epsilon=EPSILON)
        assert 3 < found.rounds < 200
        assert math.isfinite(found.rounds_lbfgs)


def test_a_start_at_the_minimum_takes_one_round() -> None:
    loss = pp.Quadratic(np.diag([1.0, 9.0]), b=np.ones(2))
    same = (loss.value, loss.gradient)
    found = audit(pp.Problem(loss, same), epsilon=EPSILON)
    assert found.rounds == found.ledger.target_gradients == 1


def test_bounds_are_said_to_be_unknown(target: pp.GLM) -> None:
    problem = pp.Problem(target, target.subsample(200, rng=1), bounds=(-1.0, 1.0))
    assert "without the bounds" in str(audit(problem))


def test_a_target_that_curves_downwards_gets_no_numbers() -> None:
    wrong = pp.FunctionObjective(lambda w: 1 - w)
    found = audit(pp.Problem(wrong, pp.Quadratic(np.eye(2))), np.zeros(2))
    assert found.verdict is Verdict.UNSURE
    assert "check_grad" in str(found)
    with pytest.raises(ValueError, match="verdict"):
        plan(found)


def test_tensors_are_audited() -> None:
    torch = pytest.importorskip("torch")
    A, b = torch.diag(torch.tensor([1.0, 10.0, 100.0])), torch.ones(3)
    target = pp.Quadratic(A.double(), b=b.double())
    found = audit(pp.Problem(target, pp.Quadratic((1.1 * A + 0.5).double())), epsilon=EPSILON)
    assert found.verdict is Verdict.USE
    assert found.rounds <= 6


def test_values_are_json_and_there_is_a_page(found: RoundAudit, tmp_path: Any) -> None:
    values = json.loads(json.dumps(audit_values(found, plan(found)), allow_nan=False))
    assert values["rounds"] == found.rounds
    pytest.importorskip("jinja2")
    page = write_audit_page(tmp_path, found, plan(found), title="T", command="c", config={})
    text = page.read_text(encoding="utf-8")
    assert "L-BFGS, memory 10" in text
    assert "What the audit cost" in text
