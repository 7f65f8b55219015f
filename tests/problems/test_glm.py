"""The four regressions against the textbook formula, row by row, and its complex-step gradient."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from proxyprox import (
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)

FAMILIES = {
    "linear": linear_regression,
    "logistic": logistic_regression,
    "softmax": softmax_regression,
    "poisson": poisson_regression,
}
CLASSES = 3
ROWS, COLUMNS = 14, 3


def textbook(family, X, y, w, *, l2=0.0, intercept=False, weights=None):
    """The loss as the textbooks print it, one row after the other; complex w is allowed."""
    outputs = CLASSES if family == "softmax" else 1
    W = np.reshape(w, (-1, outputs))
    weights = np.ones(len(X)) if weights is None else weights
    total = 0.0
    for x, label, weight in zip(X, y, weights, strict=True):
        z = x @ W[: len(x)] + (W[-1] if intercept else 0.0)
        if family == "linear":
            row = (z[0] - label) ** 2 / 2
        elif family == "logistic":
            p = 1 / (1 + np.exp(-z[0]))
            row = -np.log(p) if label == 1 else -np.log(1 - p)
        elif family == "softmax":
            row = -np.log(np.exp(z[label]) / np.sum(np.exp(z)))
        else:
            row = np.exp(z[0]) - label * z[0]
        total = total + weight * row
    ridge = sum(v * v for v in np.ravel(W[: X.shape[1]]))
    return total / np.sum(weights) + l2 / 2 * ridge


def complex_step_gradient(function, w, h=1e-30):
    """The gradient to machine precision: no difference is taken, so nothing cancels."""
    return np.array([function(w + 1j * h * e).imag / h for e in np.eye(len(w))])


def difference_hessian(function, w, h=1e-5):
    """Central differences of the complex-step gradient."""

    def slope(v):
        return complex_step_gradient(function, v)

    return np.array([(slope(w + h * e) - slope(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def labels(family, rng, rows=ROWS):
    if family == "linear":
        return rng.normal(size=rows)
    if family == "poisson":
        return rng.poisson(2.0, size=rows)
    if family == "logistic":
        return np.arange(rows) % 2
    return np.arange(rows) % CLASSES


def stored(X, kind):
    if kind == "csr":
        return scipy.sparse.csr_array(X)
    return torch.tensor(X) if kind == "torch" else X


def array(x):
    return x.numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


class Case:
    """One model, its textbook loss and random points."""

    def __init__(self, family, kind, intercept, weighted, l2=0.3, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.7)
        y = labels(family, rng)
        weights = rng.uniform(0.0, 3.0, ROWS) if weighted else None
        self.X, self.y, self.weights = X, y, weights
        self.loss = FAMILIES[family](
            stored(X, kind), y, l2=l2, intercept=intercept, sample_weight=weights
        )
        self.reference = lambda w: textbook(
            family, X, y, w, l2=l2, intercept=intercept, weights=weights
        )
        self.points = rng.normal(size=(3, self.loss.dim))
        self.native = lambda w: torch.tensor(w) if kind == "torch" else w


@pytest.fixture(params=["plain", "intercept", "weighted", "both"])
def case(request, family, kind):
    return Case(
        family,
        kind,
        intercept=request.param in ("intercept", "both"),
        weighted=request.param in ("weighted", "both"),
    )


@pytest.fixture(params=["dense", "csr", "torch"])
def kind(request):
    return request.param


@pytest.fixture(params=list(FAMILIES))
def family(request):
    return request.param


def test_value_is_the_textbook_sum(case):
    for w in case.points:
        got = case.loss.value(case.native(w))
        assert isinstance(got, float)
        assert got == pytest.approx(case.reference(w), rel=1e-12)


def test_gradient_is_the_complex_step_derivative(case):
    for w in case.points:
        want = complex_step_gradient(case.reference, w)
        np.testing.assert_allclose(array(case.loss.gradient(case.native(w))), want, atol=1e-12)


def test_single_rows_average_to_the_full_gradient(case):
    w = case.points[0]
    singles = [
        array(case.loss.gradient(case.native(w), np.array([row])))
        for row in range(case.loss.design.rows)
    ]
    want = complex_step_gradient(case.reference, w)
    np.testing.assert_allclose(np.mean(singles, axis=0), want, atol=1e-12)
    # The rows differ, so the average is not trivially right.
    assert np.ptp(singles, axis=0).max() > 0.1


def test_batch_with_repeated_rows_is_the_mean_of_its_rows(case):
    w = case.native(case.points[0])
    batch = np.array([3, 3, 0, 7])
    singles = [array(case.loss.gradient(w, np.array([row]))) for row in batch]
    got = array(case.loss.gradient(w, batch))
    np.testing.assert_allclose(got, np.mean(singles, axis=0), atol=1e-13)


def test_hessian_and_its_products_are_the_differences_of_the_gradient(case):
    for w in case.points:
        want = difference_hessian(case.reference, w)
        got = array(case.loss.hessian(case.native(w)))
        np.testing.assert_allclose(got, want, atol=1e-8)
        np.testing.assert_allclose(got, got.T, atol=1e-15)
        for v in np.random.default_rng(1).normal(size=(2, len(w))):
            product = array(case.loss.hvp(case.native(w), case.native(v)))
            np.testing.assert_allclose(product, got @ v, atol=1e-13)


def test_constants_bound_the_spectrum_everywhere(case, family):
    rng = np.random.default_rng(2)
    for scale in (0.0, 0.1, 1.0, 3.0):
        w = scale * rng.normal(size=case.loss.dim)
        eigenvalues = np.linalg.eigvalsh(array(case.loss.hessian(case.native(w))))
        assert case.loss.smoothness >= eigenvalues[-1]
        assert 0 <= case.loss.strong_convexity <= eigenvalues[0] + 1e-13 * eigenvalues[-1]
    if family == "poisson":
        assert case.loss.smoothness == np.inf


@pytest.mark.parametrize("kind", ["dense", "csr", "torch"])
@pytest.mark.parametrize("weighted", [False, True])
def test_constants_of_least_squares_are_its_eigenvalues(kind, weighted):
    case = Case("linear", kind, intercept=True, weighted=weighted)
    weights = np.ones(ROWS) if case.weights is None else case.weights
    A = np.column_stack([case.X, np.ones(ROWS)])
    gram = A.T @ (weights[:, None] * A) / weights.sum() + np.diag([0.3] * COLUMNS + [0.0])
    eigenvalues = np.linalg.eigvalsh(gram)
    assert case.loss.strong_convexity == pytest.approx(eigenvalues[0], rel=1e-10)
    # The ridge is added to the top eigenvalue though the intercept is spared: a bound, no more.
    assert eigenvalues[-1] <= case.loss.smoothness <= eigenvalues[-1] + 0.3 + 1e-8
    bare = linear_regression(stored(case.X, kind), case.y, l2=0.3)
    top = np.linalg.eigvalsh(case.X.T @ case.X / ROWS + 0.3 * np.eye(COLUMNS))[-1]
    assert bare.smoothness == pytest.approx(top, rel=1e-8)


@pytest.mark.parametrize(("family", "share"), [("logistic", 0.25), ("softmax", 0.5)])
def test_smoothness_is_attained_where_the_classes_are_even(family, share):
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.arange(30) % 2
    loss = FAMILIES[family](X, y, **({"classes": (0, 1)} if family == "softmax" else {}))
    top = np.linalg.eigvalsh(loss.hessian(np.zeros(loss.dim)))[-1]
    assert loss.smoothness == pytest.approx(top, rel=1e-8)
    assert loss.smoothness == pytest.approx(share * np.linalg.norm(X, 2) ** 2 / 30, rel=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
def test_smoothness_of_a_wide_design_comes_from_products(sparse):
    X = np.random.default_rng(0).normal(size=(40, 700))
    loss = linear_regression(scipy.sparse.csr_array(X) if sparse else X, np.zeros(40))
    assert loss.smoothness == pytest.approx(np.linalg.norm(X, 2) ** 2 / 40, rel=1e-7)


def test_float32_smoothness_is_not_below_the_top_eigenvalue():
    rng = np.random.default_rng(0)
    for columns in (5, 600):
        for _ in range(5):
            X = rng.normal(size=(50, columns)).astype(np.float32)
            exact = np.linalg.norm(X.astype(np.float64), 2) ** 2 / 50
            bound = linear_regression(X, np.zeros(50)).smoothness
            assert exact <= bound <= exact * (1 + 1e-4)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("size", [1e3, 1e4])
def test_logistic_survives_extreme_predictions(library, size):
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    loss = logistic_regression(stored(X, library), [1, 0, 1, 0])
    w = np.array([size])
    native = torch.tensor(w) if library == "torch" else w
    # Rows cost 0, z, z, 0; the two wrong ones have residuals +1 and −1 on inputs +1 and −1.
    assert loss.value(native) == size / 2
    assert array(loss.gradient(native)) == [0.5]
    assert array(loss.hvp(native, native)) == [0.0]
    assert array(loss.hessian(native)) == [[0.0]]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("size", [1e3, 1e4])
def test_softmax_survives_extreme_predictions(library, size):
    loss = softmax_regression(stored(np.ones((3, 1)), library), [0, 1, 2])
    w = np.array([size, 0.0, -size])
    native = torch.tensor(w) if library == "torch" else w
    # log Σ exp = size; the three labels cost 0, size and 2·size.
    assert loss.value(native) == pytest.approx(size, rel=1e-15)
    np.testing.assert_allclose(array(loss.gradient(native)), [2 / 3, -1 / 3, -1 / 3], atol=1e-15)
    assert not array(loss.hessian(native)).any()


@pytest.mark.parametrize(
    "coding",
    [(0, 1), (-1, 1), (1, 2), (0.0, 1.0), ("no", "yes"), (False, True), (-7, 300)],
    ids=str,
)
def test_label_codings_are_one_loss(coding):
    rng = np.random.default_rng(0)
    X, positive = rng.normal(size=(ROWS, COLUMNS)), rng.random(ROWS) < 0.5
    y = np.where(positive, coding[1], coding[0])
    w = rng.normal(size=COLUMNS)
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


def test_string_classes_of_softmax_are_sorted():
    X = np.random.default_rng(0).normal(size=(4, 2))
    w = np.random.default_rng(1).normal(size=6)
    loss = softmax_regression(X, ["b", "a", "c", "a"])
    assert loss.value(w) == pytest.approx(textbook("softmax", X, [1, 0, 2, 0], w), rel=1e-12)


class TestLabelFree:
    def test_the_difference_to_the_target_is_linear(self, case):
        neutral = case.loss.label_free()
        random = case.loss.label_free(rng=np.random.default_rng(5))
        v, w = (case.native(point) for point in case.points[:2])
        for proxy in (neutral, random):
            np.testing.assert_allclose(
                array(proxy.hessian(w)), difference_hessian(case.reference, case.points[1]),
                atol=1e-8,
            )  # fmt: skip
            np.testing.assert_allclose(
                array(proxy.gradient(w) - proxy.gradient(v)),
                array(case.loss.gradient(w) - case.loss.gradient(v)),
                atol=1e-13,
            )
        # The labels do differ: the gradients themselves are not the same.
        assert np.abs(array(neutral.gradient(w) - random.gradient(w))).max() > 1e-3

    def test_zero_is_stationary_for_neutral_labels(self, case):
        proxy = case.loss.label_free()
        np.testing.assert_allclose(array(proxy.gradient(proxy.zeros())), 0.0, atol=1e-15)

    def test_rows_without_labels_average_to_the_full_gradient(self, case):
        proxy = case.loss.label_free()
        w = case.native(case.points[0])
        singles = [array(proxy.gradient(w, np.array([row]))) for row in range(ROWS)]
        np.testing.assert_allclose(np.mean(singles, axis=0), array(proxy.gradient(w)), atol=1e-13)

    def test_observed_labels_make_the_target_gradient(self, case):
        proxy, batch = case.loss.label_free(), np.array([1, 5, 5, 2])
        w = case.native(case.points[0])
        got = proxy.gradient_from(w, batch, case.y[batch])
        np.testing.assert_allclose(array(got), array(case.loss.gradient(w, batch)), atol=1e-14)
        everything = proxy.gradient_from(w, None, case.y)
        np.testing.assert_allclose(
            array(everything), complex_step_gradient(case.reference, case.points[0]), atol=1e-12
        )

    def test_other_inputs_take_the_model_along(self):
        rng = np.random.default_rng(0)
        target = logistic_regression(rng.normal(size=(6, 2)), np.arange(6) % 2, intercept=True)
        X = rng.normal(size=(9, 2))
        proxy, w = target.label_free(X), rng.normal(size=3)
        half = [textbook("logistic", X, np.full(9, c), w, intercept=True) for c in (0, 1)]
        assert proxy.value(w) == pytest.approx(np.mean(half), rel=1e-12)
        with pytest.raises(ValueError, match="2 columns"):
            target.label_free(rng.normal(size=(9, 3)))


class TestRelatives:
    def test_rows_are_the_loss_of_those_rows(self, case, family, kind):
        chosen = np.array([0, 4, 5, 11])
        weights = None if case.weights is None else case.weights[chosen]
        part, w = case.loss.rows(chosen), case.points[0]
        want = textbook(
            family, case.X[chosen], case.y[chosen], w,
            l2=0.3, intercept=case.loss.design.intercept, weights=weights,
        )  # fmt: skip
        assert part.value(case.native(w)) == pytest.approx(want, rel=1e-12)
        mask = np.isin(np.arange(ROWS), chosen)
        assert case.loss.rows(mask).value(case.native(w)) == pytest.approx(want, rel=1e-12)

    def test_subsample_draws_distinct_rows(self):
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

    def test_batch_size_changes_the_batches_only(self):
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

    def test_batches_are_uniform_with_replacement(self):
        loss = linear_regression(np.ones((4, 1)), np.zeros(4), batch_size=4)
        rng = np.random.default_rng(0)
        draws = np.array([loss.sample(rng) for _ in range(5000)])
        counts = np.bincount(draws.ravel(), minlength=4)
        assert np.abs(counts / 5000 - 1).max() < 0.05
        distinct = np.mean([len(set(draw)) == 4 for draw in draws])
        assert distinct == pytest.approx(24 / 256, abs=0.02)


def test_minibatch_gradient_is_unbiased_in_its_draws():
    case = Case("logistic", "dense", intercept=True, weighted=True)
    loss, w = case.loss.with_batch_size(5), case.points[0]
    rng = np.random.default_rng(0)
    draws = np.array([loss.gradient(w, loss.sample(rng)) for _ in range(4000)])
    error = (draws.mean(axis=0) - loss.gradient(w)) / (draws.std(axis=0) / np.sqrt(4000))
    assert np.abs(error).max() < 4.5


def minimiser(loss):
    """Newton's method from zero, with the least-norm step where the Hessian is singular."""
    w = np.zeros(loss.dim)
    for _ in range(50):
        w = w - np.linalg.lstsq(loss.hessian(w), loss.gradient(w), rcond=1e-12)[0]
    assert np.linalg.norm(loss.gradient(w)) < 1e-11
    return w


class TestScikitLearn:
    """The same minimiser as scikit-learn's models, whose intercept is not regularised either."""

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) + 0.5
    eta = X @ rng.normal(size=4) / 2 + 1.0
    weights = rng.uniform(0.2, 2.0, 80)

    def fitted(self, loss):
        w = minimiser(loss)
        return w[:-1], w[-1]

    @pytest.mark.parametrize("weighted", [False, True])
    def test_ridge(self, weighted):
        y = self.eta + np.random.default_rng(1).normal(size=80)
        weights = self.weights if weighted else np.ones(80)
        model = Ridge(alpha=0.05 * weights.sum(), tol=1e-12).fit(self.X, y, sample_weight=weights)
        loss = linear_regression(self.X, y, l2=0.05, intercept=True, sample_weight=weights)
        coefficients, intercept = self.fitted(loss)
        np.testing.assert_allclose(coefficients, model.coef_, atol=1e-9)
        assert intercept == pytest.approx(model.intercept_, abs=1e-9)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_logistic(self, weighted):
        y = np.random.default_rng(1).random(80) < 1 / (1 + np.exp(-self.eta))
        weights = self.weights if weighted else np.ones(80)
        C = 1 / (0.05 * weights.sum())
        model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12)
        model.fit(self.X, y, sample_weight=weights)
        loss = logistic_regression(self.X, y, l2=0.05, intercept=True, sample_weight=weights)
        coefficients, intercept = self.fitted(loss)
        np.testing.assert_allclose(coefficients, model.coef_[0], atol=1e-8)
        assert intercept == pytest.approx(model.intercept_[0], abs=1e-8)

    def test_softmax(self):
        y = np.digitize(self.eta + np.random.default_rng(1).normal(size=80), [0.5, 1.5])
        model = LogisticRegression(C=1 / (0.05 * 80), solver="lbfgs", tol=1e-12, max_iter=5000)
        model.fit(self.X, y)
        W = minimiser(softmax_regression(self.X, y, l2=0.05, intercept=True)).reshape(5, 3)
        np.testing.assert_allclose(W[:-1].T, model.coef_, atol=1e-6)
        # The intercepts are defined up to a common constant.
        np.testing.assert_allclose(
            W[-1] - W[-1].mean(), model.intercept_ - model.intercept_.mean(), atol=1e-6
        )

    @pytest.mark.parametrize("weighted", [False, True])
    def test_poisson(self, weighted):
        y = np.random.default_rng(1).poisson(np.exp(self.eta))
        weights = self.weights if weighted else np.ones(80)
        model = PoissonRegressor(alpha=0.05, solver="newton-cholesky", tol=1e-12)
        model.fit(self.X, y, sample_weight=weights)
        loss = poisson_regression(self.X, y, l2=0.05, intercept=True, sample_weight=weights)
        coefficients, intercept = self.fitted(loss)
        np.testing.assert_allclose(coefficients, model.coef_, atol=1e-8)
        assert intercept == pytest.approx(model.intercept_, abs=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_float32_data_stays_float32(family, kind, intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    loss = FAMILIES[family](
        stored(X, kind), labels(family, rng), l2=0.1, intercept=intercept,
        sample_weight=rng.random(ROWS),
    )  # fmt: skip
    w = loss.zeros()
    wanted = torch.float32 if kind == "torch" else np.float32
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
def test_whole_number_inputs_become_float64(dtype, sparse):
    X = np.array([[1, 0], [1, 1], [0, 1]], dtype=dtype)
    loss = linear_regression(scipy.sparse.csr_array(X) if sparse else X, [1.0, 2.0, 3.0])
    w = np.array([0.5, 2.0])
    assert loss.gradient(w).dtype == np.float64
    want = textbook("linear", X.astype(float), [1.0, 2.0, 3.0], w)
    assert loss.value(w) == pytest.approx(want, rel=1e-14)


@pytest.mark.parametrize("layout", [scipy.sparse.csc_array, scipy.sparse.coo_array])
def test_other_sparse_layouts_are_converted(layout):
    X = np.random.default_rng(0).normal(size=(5, 2))
    got = linear_regression(layout(X), np.ones(5)).value(np.ones(2))
    assert got == pytest.approx(textbook("linear", X, np.ones(5), np.ones(2)), rel=1e-14)


def test_data_in_the_right_form_is_not_copied():
    dense = np.ones((4, 2))
    sparse = scipy.sparse.csr_array(dense)
    assert linear_regression(dense, np.ones(4)).design.X is dense
    assert linear_regression(sparse, np.ones(4)).design.X.data is sparse.data


def test_curvature_follows_an_array_changed_in_place():
    case = Case("logistic", "dense", intercept=False, weighted=False)
    w, v = case.points[0].copy(), case.points[1]
    case.loss.hvp(w, v)
    case.loss.hessian(w)
    w += 1.0
    want = difference_hessian(case.reference, w)
    np.testing.assert_allclose(case.loss.hessian(w), want, atol=1e-8)
    np.testing.assert_allclose(case.loss.hvp(w, v), want @ v, atol=1e-7)


def test_curvature_of_a_point_is_evaluated_once():
    case = Case("logistic", "dense", intercept=False, weighted=False)
    w = case.points[0]
    calls = []
    variance = type(case.loss.family).variance
    case.loss.family = type(
        "Counted", (type(case.loss.family),),
        {"variance": lambda self, z: calls.append(1) or variance(self, z)},
    )()  # fmt: skip
    for v in case.points:
        case.loss.hvp(w, v)
    assert len(calls) == 1


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


@pytest.mark.parametrize("kind", ["dense", "csr", "torch"])
def test_hessian_is_the_same_whatever_the_blocks_of_rows(monkeypatch, kind):
    case = Case("logistic", kind, intercept=True, weighted=True)
    w = case.points[0]
    # Three rows at a time, the last block incomplete.
    monkeypatch.setattr("proxyprox.problems.design.BLOCK_ELEMENTS", 3 * (COLUMNS + 1))
    want = difference_hessian(case.reference, w)
    np.testing.assert_allclose(array(case.loss.hessian(case.native(w))), want, atol=1e-8)
