"""What becomes of inputs and labels: number types, layouts, copies, memory, codings."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from proxyprox import gamma_regression, linear_regression, logistic_regression, softmax_regression
from proxyprox.problems import glm


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("density", [0.02, 0.6])
def test_sparse_gram_is_the_dense_one(monkeypatch, density, intercept):
    monkeypatch.setattr(glm, "BLOCK", 125)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 60)) * (rng.random((400, 60)) < density)
    weights = rng.random(400)
    sparse = glm.Design(scipy.sparse.csr_array(X), intercept=intercept)
    by_blocks, by_products = sparse.gram_work
    # Few non-zeros are multiplied with each other, many are cheaper as dense blocks.
    assert (by_products < by_blocks) == (density < 0.1)
    A = np.hstack([X, np.ones((400, 1))]) if intercept else X
    np.testing.assert_allclose(sparse.gram(weights), A.T @ (weights[:, None] * A), atol=1e-12)


@pytest.mark.parametrize("family", ["logistic", "softmax", "gamma"])
def test_a_long_table_is_read_in_blocks(monkeypatch, family):
    rng = np.random.default_rng(2)
    X, w = rng.normal(size=(200, 4)), rng.normal(size=15 if family == "softmax" else 5)
    y = rng.integers(3, size=200) if family == "softmax" else rng.integers(2, size=200)
    make = {"logistic": logistic_regression, "softmax": softmax_regression}
    loss = make.get(family, gamma_regression)(
        X, y + (family == "gamma"), l2=0.1, intercept=True, sample_weight=rng.random(200)
    )
    whole = loss.gradient(w), loss.hvp(w, w), loss.value(w)
    monkeypatch.setattr(glm, "BLOCK", 60)
    np.testing.assert_allclose(loss.gradient(w), whole[0], rtol=1e-12)
    np.testing.assert_allclose(loss.hvp(w, w), whole[1], rtol=1e-12)
    value, gradient = loss.value_and_gradient(w)
    assert value == pytest.approx(whole[2], rel=1e-12)
    np.testing.assert_allclose(gradient, whole[0], rtol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
def test_float32_data_stay_and_vectors_of_numpy_are_float64(
    family, kind, intercept, regression, stored, labels
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 3)).astype(np.float32)
    loss = regression(
        stored(X, kind), labels(family, rng), l2=0.1, intercept=intercept,
        sample_weight=rng.random(14),
    )  # fmt: skip
    w = loss.zeros()
    kept = pytest.importorskip("torch").float32 if kind == "torch" else np.float32
    wanted = kept if kind == "torch" else np.float64
    batch = np.array([0, 2])
    for made in (
        w,
        loss.gradient(w),
        loss.gradient(w, batch),
        loss.gradient_from(w, batch, labels(family, rng)[batch]),
        loss.hvp(w, w + 1),
        loss.hessian(w),
        loss.label_free().gradient(w),
        loss.rows(batch).gradient(w),
    ):
        assert made.dtype == wanted
    assert loss.rows([0]).design.X.dtype == kept
    if kind != "torch":
        exact = regression(
            stored(X.astype(np.float64), kind), labels(family, np.random.default_rng(0)),
            intercept=intercept,
        )  # fmt: skip
        same = regression(
            stored(X, kind), labels(family, np.random.default_rng(0)), intercept=intercept
        )
        np.testing.assert_allclose(same.gradient(w + 1), exact.gradient(w + 1), rtol=1e-12)


def test_data_in_the_right_form_is_not_copied():
    dense = np.ones((4, 2))
    sparse = scipy.sparse.csr_array(dense)
    assert linear_regression(dense, np.ones(4)).design.X is dense
    assert linear_regression(sparse, np.ones(4)).design.X.data is sparse.data


def test_memory_stays_within_half_again_of_the_data():
    rng = np.random.default_rng(0)
    rows, columns, filled = 120_000, 50, 20
    indices = rng.integers(columns, size=rows * filled).astype(np.int32)
    data = rng.normal(size=rows * filled)
    X = scipy.sparse.csr_array(
        (data, indices, np.arange(0, rows * filled + 1, filled, dtype=np.int32)),
        shape=(rows, columns),
    )
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    y = rng.integers(2, size=rows)
    tracemalloc.start()
    try:
        loss = logistic_regression(X, y, l2=1e-3, intercept=True, batch_size=64)
        w = loss.zeros() + 0.1
        loss.value(w), loss.gradient(w), loss.hvp(w, w), loss.hessian(w), loss.smoothness
        loss.gradient(w, loss.sample(rng))
        proxy = loss.label_free()
        proxy.value(w), proxy.gradient(w), proxy.hessian(w)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The data itself was there before the clock started.
    assert size + peak < 1.5 * size
