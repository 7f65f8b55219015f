"""What a regression makes of itself: some of its rows, a random sample, other batches."""

import numpy as np
import pytest

from proxyprox import linear_regression


def test_rows_are_the_loss_of_those_rows(case, family, kind, textbook):
    chosen = np.array([0, 4, 5, 11])
    weights = None if case.weights is None else case.weights[chosen]
    part, w = case.loss.rows(chosen), case.points[0]
    want = textbook(
        family, case.X[chosen], case.y[chosen], w,
        l2=0.3, intercept=case.loss.design.intercept, weights=weights,
    )  # fmt: skip
    assert part.value(case.native(w)) == pytest.approx(want, rel=1e-12)
    mask = np.isin(np.arange(len(case.y)), chosen)
    assert case.loss.rows(mask).value(case.native(w)) == pytest.approx(want, rel=1e-12)


def test_subsample_draws_distinct_rows():
    X = np.arange(10.0)[:, None]
    loss = linear_regression(X, np.zeros(10))
    seen = set()
    for seed in range(30):
        rows = loss.subsample(4, rng=seed).design.X[:, 0]
        assert len(set(rows)) == 4
        seen |= set(rows)
    assert seen == set(range(10))
    first, second = (loss.subsample(4, rng=3).design.X for _ in range(2))
    np.testing.assert_array_equal(first, second)
    whole = loss.subsample(10)
    assert whole.value(np.ones(1)) == loss.value(np.ones(1))
    with pytest.raises(ValueError, match="at most the number of rows, 10"):
        loss.subsample(11)


def test_batch_size_changes_the_batches_only():
    rng = np.random.default_rng(0)
    loss = linear_regression(rng.normal(size=(6, 2)), rng.normal(size=6))
    assert loss.sample(rng) is None
    assert loss.samples(None) == 6
    twin = loss.with_batch_size(4)
    batch = twin.sample(rng)
    assert batch.shape == (4,)
    assert twin.samples(batch) == 4
    assert loss.batch_size is None
    assert twin.design is loss.design
    assert twin.everything() is None
    assert twin.with_batch_size(None).sample(rng) is None


def test_batches_are_uniform_with_replacement():
    loss = linear_regression(np.ones((4, 1)), np.zeros(4), batch_size=4)
    rng = np.random.default_rng(0)
    draws = np.array([loss.sample(rng) for _ in range(5000)])
    counts = np.bincount(draws.ravel(), minlength=4)
    assert np.abs(counts / 5000 - 1).max() < 0.05
    distinct = np.mean([len(set(draw)) == 4 for draw in draws])
    assert distinct == pytest.approx(24 / 256, abs=0.02)
