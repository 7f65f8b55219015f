"""What becomes of inputs and labels: number types, layouts, copies, memory, codings."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from proxyprox import linear_regression, logistic_regression, softmax_regression


@pytest.mark.parametrize("intercept", [False, True])
def test_float32_data_stays_float32(family, kind, intercept, regression, stored, labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 3)).astype(np.float32)
    loss = regression(
        stored(X, kind), labels(family, rng), l2=0.1, intercept=intercept,
        sample_weight=rng.random(14),
    )  # fmt: skip
    w = loss.zeros()
    wanted = pytest.importorskip("torch").float32 if kind == "torch" else np.float32
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
    assert loss.rows([0]).design.X.dtype == wanted


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("sparse", [False, True])
def test_whole_number_inputs_become_float64(dtype, sparse, textbook):
    X = np.array([[1, 0], [1, 1], [0, 1]], dtype=dtype)
    loss = linear_regression(scipy.sparse.csr_array(X) if sparse else X, [1.0, 2.0, 3.0])
    w = np.array([0.5, 2.0])
    assert loss.gradient(w).dtype == np.float64
    want = textbook("linear", X.astype(float), [1.0, 2.0, 3.0], w)
    assert loss.value(w) == pytest.approx(want, rel=1e-14)


@pytest.mark.parametrize("layout", [scipy.sparse.csc_array, scipy.sparse.coo_array])
def test_other_sparse_layouts_are_converted(layout, textbook):
    X = np.random.default_rng(0).normal(size=(5, 2))
    got = linear_regression(layout(X), np.ones(5)).value(np.ones(2))
    assert got == pytest.approx(textbook("linear", X, np.ones(5), np.ones(2)), rel=1e-14)


def test_data_in_the_right_form_is_not_copied():
    dense = np.ones((4, 2))
    sparse = scipy.sparse.csr_array(dense)
    assert linear_regression(dense, np.ones(4)).design.X is dense
    assert linear_regression(sparse, np.ones(4)).design.X.data is sparse.data


def test_memory_stays_within_half_again_of_the_data():
    rng = np.random.default_rng(0)
    rows, columns, filled = 200_000, 50, 20
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


@pytest.mark.parametrize(
    "coding",
    [(0, 1), (-1, 1), (1, 2), (0.0, 1.0), ("no", "yes"), (False, True), (-7, 300)],
    ids=str,
)
def test_label_codings_are_one_loss(coding, textbook):
    rng = np.random.default_rng(0)
    X, positive = rng.normal(size=(14, 3)), rng.random(14) < 0.5
    y = np.where(positive, coding[1], coding[0])
    w = rng.normal(size=3)
    want = textbook("logistic", X, positive.astype(int), w)
    assert logistic_regression(X, y).value(w) == pytest.approx(want, rel=1e-12)
    assert logistic_regression(X, y.tolist()).value(w) == pytest.approx(want, rel=1e-12)
    assert logistic_regression(X, y, classes=coding).value(w) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("classes", [("yes", "no"), ("no", "yes")])
def test_the_second_of_given_classes_is_positive(classes):
    X = np.array([[1.0], [2.0]])
    loss = logistic_regression(X, [classes[1], classes[0]], classes=classes)
    # At w = 1 the positive row pulls up, the negative one down.
    want = (np.log1p(np.exp(-1.0)) + np.log1p(np.exp(2.0))) / 2
    assert loss.value(np.ones(1)) == pytest.approx(want, rel=1e-12)


def test_softmax_columns_follow_given_classes():
    X = np.eye(3)
    shuffled = softmax_regression(X, ["b", "c", "a"], classes=("b", "c", "a"))
    want = softmax_regression(X, [0, 1, 2])
    w = np.random.default_rng(0).normal(size=9)
    assert shuffled.value(w) == pytest.approx(want.value(w), rel=1e-12)


def test_string_classes_of_softmax_are_sorted(textbook):
    X = np.random.default_rng(0).normal(size=(4, 2))
    w = np.random.default_rng(1).normal(size=6)
    loss = softmax_regression(X, ["b", "a", "c", "a"])
    assert loss.value(w) == pytest.approx(textbook("softmax", X, [1, 0, 2, 0], w), rel=1e-12)
