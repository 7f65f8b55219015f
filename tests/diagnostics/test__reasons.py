from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics import audit


@pytest.fixture(scope="module")
def target() -> pp.GLM:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) * np.geomspace(1, 0.05, 12)
    y = X @ (rng.standard_normal(12) * 3) + rng.logistic(size=400) > 0
    return pp.logistic_regression(X, y, l2=1e-3, batch_size=64)


def test_words_say_where_each_number_is_from(target: pp.GLM) -> None:
    found = audit(pp.Problem(target, target.subsample(80, rng=1)), rng=0)
    words = str(found)
    assert words.splitlines()[0] == found.sentence
    assert "of H at the end of the path" in found.reasons[0]
    assert "the largest over the points visited" in words
    assert "the target's weakest curvature" in words
    assert "counts all its rows" in words
    assert any("(ERM)" in reason for reason in found.reasons)
    hidden = pp.FunctionObjective(target.gradient, sample=target.sample)
    alone = audit(pp.Problem(hidden, target.label_free()), target.zeros(), rng=0)
    assert not any("(ERM)" in reason for reason in alone.reasons)


def test_a_target_that_is_not_convex_is_said_to_be() -> None:
    saddle = pp.Quadratic(np.diag([-1.0, 1.0, 2.0]), b=np.ones(3), noise=0.1)
    found = audit(pp.Problem(saddle, pp.Quadratic(np.diag([-1.0, 1.0, 2.1]))), rng=0)
    assert found.mu.high < 0
    assert any("not convex" in reason for reason in found.reasons)


def test_a_penalty_is_said_to_be_left_out(target: pp.GLM) -> None:
    found = audit(pp.Problem(target, target.label_free(), pp.L1(0.01)), rng=0)
    assert any("penalty" in reason for reason in found.reasons)


def test_the_share_at_the_start_is_told_where_it_differs() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 6))
    loss = pp.logistic_regression(X, X[:, 0] > 0, l2=1e-3, batch_size=64)
    other = np.where(np.arange(6) == 0, 1.3, 1.0) * X
    found = audit(pp.Problem(loss, loss.label_free(other)), rng=0)
    start, *_, end = (f"{p.delta.estimate / p.H.estimate:.2g}" for p in found.points)
    assert f"{end} of H at the end of the path ({start} at the start)" in found.reasons[0]
