"""The loss over partitions is the core's on all rows, whatever the rows come in."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

import proxyprox as pp
import proxyprox.dask as ppd
from proxyprox.problems.families import FAMILIES
from proxyprox.testing import check_objective

W = np.array([0.3, -0.2, 0.1, 0.4, 0.2])


def collections(data, kind):
    X, y, weights = data
    if kind == "frames":
        frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, s=weights)
        frame = dd.from_pandas(frame, npartitions=4)
        return frame[list("abcd")], frame["y"], frame["s"]
    blocks = da.from_array(X, chunks=(170, 3))
    if kind == "csr":
        blocks = blocks.rechunk({1: -1}).map_blocks(scipy.sparse.csr_array)
    return blocks, da.from_array(y, chunks=200), da.from_array(weights, chunks=170)


@pytest.mark.parametrize("kind", ["arrays", "csr", "frames"])
def test_the_loss_is_that_of_all_rows(data, kind):
    X, y, weights = collections(data, kind)
    loss = ppd.logistic_regression(X, y, l2=0.1, intercept=True, sample_weight=weights)
    same = pp.logistic_regression(*data[:2], l2=0.1, intercept=True, sample_weight=data[2])
    assert (loss.dim, loss.design.rows, loss.samples(None)) == (5, 600, 600)
    assert loss.value(W) == pytest.approx(same.value(W), rel=1e-12)
    np.testing.assert_allclose(loss.gradient(W), same.gradient(W), atol=1e-12)
    np.testing.assert_allclose(loss.hessian(W), same.hessian(W), atol=1e-12)


def test_every_family_is_summed(data):
    X, y, weights = data
    labels = {"softmax": np.array(["a", "b", "c"])[np.arange(len(y)) % 3], "gamma": y + 0.5}
    for name in FAMILIES:
        given = labels.get(name, y)
        options = {"l2": 0.1, "intercept": True, "sample_weight": weights}
        same = getattr(pp, f"{name}_regression")(X, given, **options)
        blocks = da.from_array(X, chunks=(250, 4))
        loss = getattr(ppd, f"{name}_regression")(blocks, given, **options)
        w = np.linspace(-0.3, 0.3, loss.dim)
        value, gradient = loss.value_and_gradient(w)
        assert value == pytest.approx(same.value(w), rel=1e-12)
        np.testing.assert_allclose(gradient, same.gradient(w), atol=1e-12)
        np.testing.assert_allclose(loss.hessian(w), same.hessian(w), atol=1e-12)
        np.testing.assert_allclose(loss.hvp(w, w**2), same.hvp(w, w**2), atol=1e-12)


def test_it_keeps_the_contract_of_objectives(data):
    X, y, weights = collections(data, "arrays")
    check_objective(ppd.logistic_regression(X, y, sample_weight=weights), W[:4])


def test_parquet_is_read_by_row_group(folder, data):
    X, y, weights = data
    table = ppd.read_parquet(folder, label="clicked", weight="weight")
    assert len(table.parts) >= 5
    assert table.rows == 600
    loss = ppd.logistic_regression(table, l2=0.1)
    same = pp.logistic_regression(
        X.astype(np.float32).astype(float), y, l2=0.1, sample_weight=weights
    )
    assert loss.family.classes == ("no", "yes")
    assert loss.value(W[:4]) == pytest.approx(same.value(W[:4]), rel=1e-12)
    np.testing.assert_allclose(loss.gradient(W[:4]), same.gradient(W[:4]), atol=1e-13)


def test_strings_and_gaps_go_through_a_transformer_that_is_fitted_once(tmp_path, data, client):
    X, y, _ = data
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["city"] = np.array(["Rome", "Oslo", None], dtype=object)[np.arange(len(y)) % 3]
    frame.loc[::5, "a"] = np.nan
    frame["y"] = y
    frame.to_parquet(tmp_path / "0.parquet", row_group_size=200)
    transformer = make_column_transformer(
        (OneHotEncoder(), ["city"]), (SimpleImputer(), ["a", "b"]), sparse_threshold=1.0
    )
    table = ppd.read_parquet(tmp_path, label="y", transformer=clone(transformer))
    loss = ppd.logistic_regression(table)
    inputs = transformer.fit(frame).transform(frame)
    same = pp.logistic_regression(inputs, y)
    w = np.linspace(-1, 1, 5)
    np.testing.assert_allclose(loss.gradient(w), same.gradient(w), atol=1e-12)
    loss = ppd.logistic_regression(
        ppd.read_parquet(tmp_path, label="y", transformer=clone(transformer)), client=client
    )
    np.testing.assert_allclose(loss.gradient(w), same.gradient(w), atol=1e-12)
    frames = dd.from_pandas(frame, npartitions=3)
    loss = ppd.logistic_regression(frames[["a", "b", "city"]], frames["y"], transformer=transformer)
    np.testing.assert_allclose(loss.gradient(w), same.gradient(w), atol=1e-12)
    assert loss.sample_rows(50).design.X.shape == (50, 5)


def test_the_sample_is_uniform_and_the_same_whoever_draws(folder, data, client):
    def draw(seed, client=None):
        table = ppd.read_parquet(folder, label="clicked", weight="weight")
        loss = ppd.logistic_regression(table, client=client)
        return loss, loss.sample_rows(100, seed=seed)

    (loss, proxy), (_, again) = draw(7, client), draw(7, client)
    with dask.config.set(scheduler="synchronous"):
        _, alone = draw(7)
    for other in (again, alone):
        np.testing.assert_array_equal(proxy.design.X, other.design.X)
        np.testing.assert_array_equal(proxy.targets, other.targets)
        np.testing.assert_array_equal(proxy.sample_weight, other.sample_weight)
    assert [each.purpose for each in loss.passes] == ["sample"]
    # Rows of the table, each once; a second sample, of known rows, is another.
    inputs = data[0].astype(np.float32)
    places = [int(np.flatnonzero((inputs == row).all(axis=1))[0]) for row in proxy.design.X]
    assert len(set(places)) == 100
    assert places == sorted(places)
    assert not np.array_equal(loss.sample_rows(100, seed=8).design.X, proxy.design.X)
    np.testing.assert_array_equal(loss.sample_rows(100, seed=7).design.X, proxy.design.X)
    drawn = np.zeros(600)
    loss.design.engine.client = None
    for seed in range(16):
        rows = loss.sample_rows(150, seed=seed).design.X
        drawn += np.isin(inputs[:, 0], rows[:, 0].astype(np.float32))
    assert drawn.mean() == 4
    assert drawn[:250].mean() == pytest.approx(4, abs=0.4)
    assert drawn.var() == pytest.approx(16 * 0.25 * 0.75, rel=0.25)


def test_a_pass_for_each_gradient_and_nothing_else(folder, client):
    loss = ppd.logistic_regression(ppd.read_parquet(folder, label="clicked"), l2=1e-6)
    result = pp.minimize(pp.Problem(loss, loss.sample_rows(200)))
    assert result.success
    assert np.linalg.norm(loss.gradient(result.w)) < 1e-5
    assert len(loss.passes) == 1 + result.ledger.target_gradients
    assert "passes (" in str(result)


def test_a_loss_alone_draws_its_own_sample(folder, client):
    loss = ppd.logistic_regression(ppd.read_parquet(folder, label="clicked"), l2=1e-6)
    result = pp.minimize(loss)
    assert result.success
    assert "of its rows are the proxy" in result.method
    assert np.linalg.norm(loss.gradient(result.w)) < 1e-5
