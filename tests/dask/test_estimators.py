"""Estimators fit Dask collections as they fit the same rows in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import proxyprox.dask.fitting
from proxyprox.dask.tables import ClusterPolicy
from proxyprox.sklearn import ProxyLogisticRegression, ProxyRidge


def test_few_labels_are_fetched_and_the_other_rows_are_not(data):
    X, y, weights = data
    y = np.where(np.arange(600) < 90, y, -1)
    model = ProxyLogisticRegression(unlabelled=-1, cv=3)
    expected = model.fit(X, y, weights).coef_
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y, s=weights)
    table = dd.from_pandas(table, npartitions=4)
    for given in (
        (table[list("abcd")], table["y"], table["s"]),
        (da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=90), weights),
    ):
        found = model.fit(*given)
        assert found.n_labels_ == 90
        assert hasattr(found, "feature_names_in_") == hasattr(given[0], "columns")
        np.testing.assert_allclose(found.coef_, expected, rtol=1e-9)


def test_unlabelled_rows_may_come_apart(data):
    X, y, _ = data
    rows = X[:80], np.exp(y[:80])
    arrays = [da.from_array(part, chunks=30) for part in rows]
    model = ProxyRidge(cv=3)
    expected = model.fit(*rows, X_proxy=X[80:]).coef_
    frame = dd.from_pandas(pd.DataFrame(X[80:]), npartitions=2)
    for proxy in (da.from_array(X[80:], chunks=(200, 4)), frame):
        np.testing.assert_allclose(model.fit(*arrays, X_proxy=proxy).coef_, expected, rtol=1e-3)
    classes = ProxyLogisticRegression(cv=3)
    # No warning: no row of y is without a label.
    assert classes.fit(arrays[0], y[:80], X_proxy=arrays[0]).n_labels_ == 80


def test_what_is_refused(data, monkeypatch):
    X, y, _ = data
    broken = X.copy()
    broken[300, 1] = np.nan
    X, y, broken = map(da.from_array, (X, y, broken))
    marks = ProxyLogisticRegression(unlabelled=-1)
    for kind, word, model, labels, options in (
        (ValueError, "unlabelled", ProxyLogisticRegression(), 2 * y - 1, {}),
        (TypeError, "y_proxy", ProxyRidge(), y, {"y_proxy": y}),
        (ValueError, "'1'", ProxyRidge(), y, {"X_proxy": broken}),
        (ValueError, "X_proxy", ProxyRidge(), y, {"X_proxy": X[:, :2]}),
        (ValueError, "y must be of 1 to", marks, -da.ones(600), {}),
    ):
        with pytest.raises(kind, match=word):
            model.fit(X, labels, **options)
    monkeypatch.setattr(proxyprox.dask.fitting, "CLUSTER", ClusterPolicy(rows=200))
    with pytest.raises(ValueError, match="600 labels"):
        ProxyRidge().fit(X, y)
