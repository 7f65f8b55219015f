"""Estimators fit Dask collections as they fit the same rows in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import proxyprox.dask.fitting
from proxyprox.dask.engine import ClusterPolicy
from proxyprox.sklearn import ProxyLogisticRegression, ProxyPoissonRegressor, ProxyRidge


@pytest.mark.parametrize("frames", [False, True])
def test_few_labels_are_fetched_and_the_other_rows_are_not(data, frames):
    X, y, weights = data
    y = np.where(np.arange(600) < 90, y, -1)
    model = ProxyLogisticRegression(unlabelled=-1, cv=3)
    expected = model.fit(X, y, weights)
    coef, proba = expected.coef_, expected.predict_proba(X)
    if frames:
        table = pd.DataFrame(X, columns=list("abcd")).assign(y=y, s=weights)
        table = dd.from_pandas(table, npartitions=4)
        found = model.fit(table[list("abcd")], table["y"], table["s"])
        X = pd.DataFrame(X, columns=list("abcd"))
    else:
        found = model.fit(da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=90), weights)
    assert found.n_labels_ == 90
    np.testing.assert_allclose(found.coef_, coef, rtol=1e-9)
    np.testing.assert_allclose(found.predict_proba(X), proba, rtol=1e-9)


def test_unlabelled_rows_may_come_apart(data):
    X, y, _ = data
    rows = X[:80], np.exp(y[:80])
    arrays = [da.from_array(part, chunks=30) for part in rows]
    expected = ProxyRidge(cv=3).fit(*rows, X_proxy=X[80:]).coef_
    found = ProxyRidge(cv=3).fit(*arrays, X_proxy=da.from_array(X[80:], chunks=(200, 4)))
    np.testing.assert_allclose(found.coef_, expected, rtol=1e-3)
    classes = ProxyLogisticRegression(cv=3).fit(arrays[0], y[:80], X_proxy=arrays[0])
    assert classes.n_labels_ == 80  # and no warning: no row of y is without a label
    frame = dd.from_pandas(pd.DataFrame(X[80:]), npartitions=2)
    found = ProxyRidge(cv=3).fit(*arrays, X_proxy=frame)
    np.testing.assert_allclose(found.coef_, expected, rtol=1e-3)


def test_many_labels_are_fitted_where_they_are(data, monkeypatch):
    X, y, _ = data
    y = np.where(np.arange(600) % 7 == 0, -1, y)
    monkeypatch.setattr(proxyprox.dask.fitting, "CLUSTER", ClusterPolicy(rows=200))
    expected = ProxyLogisticRegression(alpha=0.0, n_steps="converged", unlabelled=-1, cv=3)
    expected.fit(X, y)
    model = ProxyLogisticRegression(alpha=0.0, unlabelled=-1, cv=3)
    model.fit(da.from_array(X, chunks=(150, 4)), da.from_array(y, chunks=150))
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-5)
    np.testing.assert_allclose(model.coef_std_, expected.coef_std_, rtol=0.3)
    assert model.n_labels_ == expected.n_labels_
    counts = ProxyPoissonRegressor(alpha=0.05, l1_ratio=1.0, cv=3)
    counts.fit(da.from_array(X, chunks=(150, 4)), da.from_array(y + 1, chunks=150))
    assert counts.alpha_ == 0.05
    same = ProxyPoissonRegressor(alpha=0.05, l1_ratio=1.0, n_steps="converged", cv=3).fit(X, y + 1)
    np.testing.assert_allclose(counts.coef_, same.coef_, atol=1e-4)


def test_marks_that_may_be_a_class_are_asked_about(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="unlabelled"):
        ProxyLogisticRegression().fit(da.from_array(X), da.from_array(2 * y - 1))
    with pytest.raises(TypeError, match="y_proxy"):
        ProxyRidge().fit(da.from_array(X), da.from_array(y), y_proxy=y)
    broken = X.copy()
    broken[300, 1] = np.nan
    with pytest.raises(ValueError, match="'1'"):
        ProxyRidge().fit(da.from_array(X), da.from_array(y), X_proxy=da.from_array(broken))
