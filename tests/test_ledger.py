import math

import numpy as np
import pytest

from proxyprox import Budget, Ledger, Problem, ProxyProx, Quadratic, minimize
from proxyprox.result import as_budget


def test_a_fresh_ledger_is_empty():
    counts = Ledger().as_dict()
    assert set(counts.values()) == {0}
    assert {"target_gradients", "target_samples", "cost", "epsilon", "seconds"} <= set(counts)


def test_dictionary_is_a_copy():
    ledger = Ledger(target_gradients=3)
    ledger.as_dict()["target_gradients"] = 9
    assert ledger.target_gradients == 3


@pytest.mark.parametrize(
    ("used", "ahead", "spent"),
    [(8, 2, False), (9, 2, True), (10, 1, True), (9, 1, False), (9, 0, False), (10, 0, True)],
)
def test_limit_may_be_reached_and_not_passed(used, ahead, spent):
    budget = Budget(target_gradients=10)
    got = budget.exceeded(Ledger(target_gradients=used), {"target_gradients": ahead})
    assert got == ("target_gradients" if spent else None)


def test_what_is_not_known_ahead_stops_at_the_limit():
    budget = Budget(seconds=2.0)
    assert budget.exceeded(Ledger(seconds=1.999), {}) is None
    assert budget.exceeded(Ledger(seconds=2.0), {}) == "seconds"


@pytest.mark.parametrize("name", ["target_samples", "proxy_gradients", "cost", "epsilon"])
def test_every_limit_is_named_when_it_is_the_one(name):
    budget = Budget(**{"target_gradients": 1000, name: 5})
    assert budget.exceeded(Ledger(target_gradients=10), {name: 5}) is None
    assert budget.exceeded(Ledger(target_gradients=10), {name: 5.5}) == name


def test_budget_without_limit_is_refused():
    with pytest.raises(ValueError, match="Budget must limit something"):
        Budget()


@pytest.mark.parametrize("limit", [0, -1, math.nan])
@pytest.mark.parametrize("name", ["target_gradients", "seconds", "cost"])
def test_limits_must_be_positive(name, limit):
    with pytest.raises(ValueError, match=f"Budget.{name} must be a positive number"):
        Budget(**{name: limit})


def test_numbers_limit_the_target_gradients():
    assert as_budget(None) is None
    given = Budget(cost=3.0)
    assert as_budget(given) is given
    for number in (7, 7.0, np.int64(7)):
        assert as_budget(number) == Budget(target_gradients=7)


@pytest.mark.parametrize("budget", [True, "10", [5], 0.5])
def test_other_budgets_are_refused(budget):
    with pytest.raises(TypeError, match="budget must be"):
        as_budget(budget)


def test_run_spends_its_budget_exactly():
    problem = Problem(Quadratic(np.eye(2), noise=1.0))
    result = minimize(problem, method=ProxyProx(eta=0.1), budget=7, rng=0)
    assert result.ledger.target_gradients == result.ledger.target_samples == result.steps == 7
