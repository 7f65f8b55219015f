import numpy as np
import pytest

from proxyprox import Budget, Ledger
from proxyprox.result import as_budget


@pytest.mark.parametrize(
    ("used", "ahead", "spent"),
    [(8, 2, False), (9, 2, True), (10, 1, True), (9, 1, False), (9, 0, False), (10, 0, True)],
)
def test_limit_may_be_reached_and_not_passed(used, ahead, spent):
    budget = Budget(target_gradients=10)
    got = budget.exceeded(Ledger(target_gradients=used), {"target_gradients": ahead})
    assert got == ("target_gradients" if spent else None)


@pytest.mark.parametrize("name", ["target_samples", "proxy_gradients", "cost", "epsilon"])
def test_every_limit_is_named_when_it_is_the_one(name):
    budget = Budget(**{"target_gradients": 1000, name: 5})
    assert budget.exceeded(Ledger(target_gradients=10), {name: 5}) is None
    assert budget.exceeded(Ledger(target_gradients=10), {name: 5.5}) == name


def test_numbers_limit_the_target_gradients():
    assert as_budget(None) is None
    given = Budget(cost=3.0)
    assert as_budget(given) is given
    for number in (7, 7.0, np.int64(7)):
        assert as_budget(number) == Budget(target_gradients=7)
