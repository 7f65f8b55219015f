from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification

import proxyprox as pp
from proxyprox.diagnostics import Audit, Verdict, audit
from proxyprox.problems import ScaledProxy


def rows(seed: int = 0) -> tuple[Any, Any]:
    X, y = make_classification(3000, n_features=10, random_state=seed)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def audited(change: Any, seed: int = 0) -> Audit:
    X, y = rows(seed)
    target = pp.logistic_regression(X[:600], y[:600], l2=1e-3, intercept=True, batch_size=32)
    return audit(pp.Problem(target, target.label_free(change(X[600:]))), epsilon=1e-3, rng=0)


def one_column(X: Any) -> Any:
    return X * np.where(np.arange(10) == 3, 100.0, 1.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("factor", [10, 100])
def test_rows_in_other_units_are_refused_and_the_units_named(factor: float, seed: int) -> None:
    found = audited(lambda X: factor * X, seed)
    assert found.verdict is Verdict.DO_NOT_USE
    assert any("other units" in reason for reason in found.reasons)


def test_random_rows_that_saturate_are_refused() -> None:
    draw = np.random.default_rng(0)
    assert audited(lambda X: draw.uniform(0, 100, X.shape)).verdict is Verdict.DO_NOT_USE


def test_the_column_in_other_units_is_named() -> None:
    found = audited(one_column)
    assert found.verdict is Verdict.DO_NOT_USE
    assert any("along parameter 3" in reason for reason in found.reasons)
    assert "but" in found.reasons[0]
    assert "at the start" in found.reasons[0]


def test_good_rows_are_rehearsed_at_the_end_alone() -> None:
    found = audited(lambda X: X)
    assert found.verdict is Verdict.USE
    assert len(found.proxy_matrices) == 1
    assert not any("other units" in reason for reason in found.reasons)


def test_a_constant_size_is_still_scaled_away() -> None:
    X, y = rows()
    target = pp.logistic_regression(X[:600], y[:600], l2=1e-3, batch_size=256)
    large = ScaledProxy(target.label_free(), 1e3)
    found = audit(pp.Problem(target, large), epsilon=1e-3, rng=0)
    assert found.verdict is Verdict.USE_SCALED
    assert len(found.proxy_matrices) == 1


def test_lanczos_sees_the_start_from_the_end() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 60))
    y = X @ rng.standard_normal(60) + rng.logistic(size=500) > 0
    target = pp.logistic_regression(X, y, l2=1e-3, batch_size=64)
    found = audit(pp.Problem(target, target.label_free(30 * X)), budget=135, rng=0)
    assert not any(point.in_full for point in found.points)
    assert len(found.proxy_matrices) > 1
    assert len({matrix.shape for matrix in found.proxy_matrices}) == 1
    assert found.verdict is Verdict.DO_NOT_USE
    assert found.ledger.target_gradients <= 135
    assert any("other units" in reason for reason in found.reasons)
