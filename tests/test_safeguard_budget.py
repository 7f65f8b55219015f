"""A budget holds for the safeguard's comparisons too, and they take a sensible share of it."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import logistic


@pytest.fixture(scope="module")
def target():
    return logistic(400, 6, l2=1e-2, batch_size=64)


def by_functions(target, **more):
    return pp.FunctionObjective(
        lambda w, batch: target.gradient(w, batch), sample=target.sample, **more
    )


class Private:
    """Privacy grows with the root of the number of gradients."""

    repeatable = True

    def __init__(self, target):
        self.sample, self.gradient = target.sample, target.gradient

    def epsilon(self, count):
        return 0.1 * count**0.5


def objectives(target):
    growing = iter(range(10**6))

    def larger(rng):
        return rng.integers(400, size=20 + 3 * next(growing))

    sizes = pp.FunctionObjective(lambda w, batch: target.gradient(w, batch), sample=larger)
    return {
        "rows": target,
        "functions": by_functions(target),
        "priced": by_functions(target, cost=lambda batch: 0.5),
        "growing batches": sizes,
        "exact": target.with_batch_size(None),
        "private": Private(target),
    }


CASES = [
    *((name, "target_gradients", limit)
      for name in ("rows", "functions", "priced", "exact", "private", "growing batches")
      for limit in (16, 50, 131)),
    *((name, "target_samples", limit)
      for name in ("rows", "functions", "priced", "growing batches")
      for limit in (400, 700, 3001)),
    *(("priced", "cost", limit) for limit in (5, 31)),
    *(("private", "epsilon", limit) for limit in (0.5, 1.3)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "limited", "limit"), CASES)
def test_no_budget_is_exceeded_and_little_of_it_is_left(target, name, limited, limit):
    problem = pp.Problem(objectives(target)[name], target.subsample(80, rng=0))
    budget = pp.Budget(**{limited: limit})
    result = pp.minimize(problem, np.zeros(6), budget=budget, safeguard=True, rng=0)
    spent = getattr(result.ledger, limited)
    assert spent <= limit
    if name != "growing batches":
        assert spent >= 0.7 * limit
        assert result.steps >= 2
        # Two held-out batches are at most 15 % of the samples from 14 steps on.
        assert bool(result.safeguard.checks) == (name == "exact" or result.steps >= 14)


def test_a_budget_too_small_for_a_comparison_is_spent_on_steps(target):
    problem = pp.Problem(target, target.subsample(80, rng=0))
    result = pp.minimize(problem, budget=pp.Budget(target_samples=13 * 64), safeguard=True, rng=0)
    assert result.steps == 13
    assert result.safeguard.checks == ()
    assert result.safeguard.chosen == "proxy"
    assert "nothing was compared" in result.message
