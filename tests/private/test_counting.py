"""Every access to private rows has its charge, and one without is caught."""

from collections import Counter

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.private import PrivacyBudget, PrivacyBudgetError, Private, PrivateRows
from proxyprox.problems.families import Logistic


class CountedRows:
    """Rows between the table and the mechanism: each access needs a charge in the journal."""

    def __init__(self, rows, budget):
        self.rows, self.budget, self.accesses = rows, budget, Counter()
        self.dim, self.zeros = rows.dim, rows.zeros

    def __getattr__(self, name):
        def read(*args, **kwargs):
            self.accesses[name] += 1
            assert self.accesses.total() <= self.budget.spent.releases, f"{name} is not charged"
            return getattr(self.rows, name)(*args, **kwargs)

        return read


class Peeking(Private):
    """A mechanism that reads the rows twice for one charge."""

    def gradient(self, w, batch=None):
        released = super().gradient(w, batch)
        self._rows.clipped_sum(w, clip=self.clip)
        return released


@pytest.fixture
def counted(rows):
    """Return a function that makes rows that are counted, and an objective on them."""

    def make(cls=Private, **options):
        budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
        table = CountedRows(PrivateRows(*(part[:60] for part in rows), Logistic((0, 1))), budget)
        given = {"epsilon": 1.0, "delta": 1e-5, "n_nominal": 60, "clip": 1.0, "budget": budget}
        return table, cls(table, releases=4, **given, **options)

    return make


def test_rows_are_accessed_once_for_each_charge(rows, counted):
    table, target = counted()
    public = pp.logistic_regression(rows[0][:20], rows[1][:20], l2=0.1)
    result = pp.minimize(pp.Problem(target, public), "proxy", method=pp.ProxyProx(eta=1.0), steps=4)
    assert table.accesses == {"clipped_sum": 4}
    assert target.budget.spent.releases == 4
    assert result.values is None
    assert result.ledger.epsilon == pytest.approx(1.0)
    with pytest.raises(PrivacyBudgetError, match="planned"):
        target.gradient(np.zeros(3))
    table, target = counted(moments=0.1)
    target.second_moments(clip=1.0)
    target.gradient(np.zeros(3))
    assert table.accesses == {"clipped_moments": 1, "clipped_sum": 1}


def test_accesses_without_a_charge_are_refused(counted):
    with pytest.raises(AssertionError, match="not charged"):
        counted(Peeking)[1].gradient(np.zeros(3))
