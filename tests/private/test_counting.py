"""Every access to private rows has its charge, and one without is caught."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.private import (
    CountedRows,
    PrivacyBudget,
    PrivacyBudgetError,
    Private,
    PrivateRows,
)
from proxyprox.problems.families import Logistic

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


def make(releases=4, **options):
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    rows = CountedRows(PrivateRows(X, Y, Logistic((0, 1))), budget)
    given = {"epsilon": 1.0, "delta": 1e-5, "n_nominal": 60, "clip": 1.0, "budget": budget}
    return rows, Private(rows, releases=releases, **given, **options)


def test_a_run_accesses_the_rows_once_for_each_charge():
    rows, target = make()
    public = pp.logistic_regression(X[:20], Y[:20], l2=0.1)
    pp.minimize(pp.Problem(target, public), method=pp.ProxyProx(eta=1.0), steps=4)
    assert rows.accesses == {"clipped_sum": 4}
    assert target.budget.spent.releases == 4


def test_second_moments_are_an_access_too():
    rows, target = make(moments=0.1)
    target.second_moments(clip=1.0)
    target.gradient(target.zeros())
    assert rows.accesses == {"clipped_moments": 1, "clipped_sum": 1}


def test_accesses_without_a_charge_are_refused():
    rows, target = make()
    with pytest.raises(PrivacyBudgetError, match="access 1"):
        rows.clipped_sum(target.zeros(), clip=1.0)
    with pytest.raises(PrivacyBudgetError, match="access 2"):
        rows.family  # noqa: B018


class Peeking(Private):
    """A mechanism that reads the rows twice for one charge."""

    def gradient(self, w, batch=None):
        released = super().gradient(w, batch)
        self._rows.clipped_sum(w, clip=self.clip)
        return released


def test_a_mechanism_that_peeks_is_caught():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    rows = CountedRows(PrivateRows(X, Y, Logistic((0, 1))), budget)
    target = Peeking(
        rows, epsilon=1.0, delta=1e-5, releases=3, n_nominal=60, clip=1.0, budget=budget
    )
    with pytest.raises(PrivacyBudgetError, match="access 2"):
        target.gradient(target.zeros())


def test_what_is_no_budget_and_what_has_no_rows_is_named():
    rows = PrivateRows(X, Y, Logistic((0, 1)))
    with pytest.raises(TypeError, match="budget"):
        CountedRows(rows, None)
    with pytest.raises(TypeError, match="rows"):
        CountedRows(5, PrivacyBudget(epsilon=1.0, delta=1e-5))
