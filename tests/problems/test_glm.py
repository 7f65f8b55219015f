"""The regressions against textbook, finite differences, spectra and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from proxyprox import linear_regression, logistic_regression, poisson_regression, softmax_regression


def test_value_is_the_textbook_sum(case):
    for w in case.points:
        got = case.loss.value(case.native(w))
        assert isinstance(got, float)
        assert got == pytest.approx(case.reference(w), rel=1e-12)


def test_gradient_is_the_complex_step_derivative(case, array):
    for w in case.points:
        want = case.reference_gradient(w)
        np.testing.assert_allclose(array(case.loss.gradient(case.native(w))), want, atol=1e-12)


def test_single_rows_average_to_the_full_gradient(case, array):
    w = case.points[0]
    singles = [
        array(case.loss.gradient(case.native(w), np.array([row])))
        for row in range(case.loss.design.rows)
    ]
    want = case.reference_gradient(w)
    np.testing.assert_allclose(np.mean(singles, axis=0), want, atol=1e-12)
    # The rows differ, so the average is not trivially right.
    assert np.ptp(singles, axis=0).max() > 0.1


def test_batch_with_repeated_rows_is_the_mean_of_its_rows(case, array):
    w = case.native(case.points[0])
    batch = np.array([3, 3, 0, 7])
    singles = [array(case.loss.gradient(w, np.array([row]))) for row in batch]
    got = array(case.loss.gradient(w, batch))
    np.testing.assert_allclose(got, np.mean(singles, axis=0), atol=1e-13)


def test_minibatch_gradient_is_unbiased_in_its_draws(make_case):
    case = make_case("logistic", "dense", intercept=True, weighted=True)
    loss, w = case.loss.with_batch_size(5), case.points[0]
    rng = np.random.default_rng(0)
    draws = np.array([loss.gradient(w, loss.sample(rng)) for _ in range(4000)])
    error = (draws.mean(axis=0) - loss.gradient(w)) / (draws.std(axis=0) / np.sqrt(4000))
    assert np.abs(error).max() < 4.5


def test_hessian_and_its_products_are_the_differences_of_the_gradient(case, array):
    for w in case.points:
        want = case.reference_hessian(w)
        got = array(case.loss.hessian(case.native(w)))
        np.testing.assert_allclose(got, want, atol=1e-8)
        np.testing.assert_allclose(got, got.T, atol=1e-15)
        for v in np.random.default_rng(1).normal(size=(2, len(w))):
            product = array(case.loss.hvp(case.native(w), case.native(v)))
            np.testing.assert_allclose(product, got @ v, atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "csr", "torch"])
def test_hessian_is_the_same_whatever_the_blocks_of_rows(monkeypatch, kind, make_case, array):
    case = make_case("logistic", kind, intercept=True, weighted=True)
    w = case.points[0]
    # Three rows at a time, the last block incomplete.
    monkeypatch.setattr("proxyprox.problems.glm.BLOCK", 3 * (case.X.shape[1] + 1))
    want = case.reference_hessian(w)
    np.testing.assert_allclose(array(case.loss.hessian(case.native(w))), want, atol=1e-8)


def test_curvature_follows_an_array_changed_in_place(make_case):
    case = make_case("logistic", "dense", intercept=False, weighted=False)
    w, v = case.points[0].copy(), case.points[1]
    case.loss.hvp(w, v)
    case.loss.hessian(w)
    w += 1.0
    want = case.reference_hessian(w)
    np.testing.assert_allclose(case.loss.hessian(w), want, atol=1e-8)
    np.testing.assert_allclose(case.loss.hvp(w, v), want @ v, atol=1e-7)


def test_curvature_of_a_point_is_evaluated_once(make_case):
    case = make_case("logistic", "dense", intercept=False, weighted=False)
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


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("size", [1e3, 1e4])
def test_logistic_survives_extreme_predictions(library, size, array, stored):
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    loss = logistic_regression(stored(X, library), [1, 0, 1, 0])
    w = np.array([size])
    native = pytest.importorskip("torch").tensor(w) if library == "torch" else w
    # Rows cost 0, z, z, 0; the two wrong ones have residuals +1 and −1 on inputs +1 and −1.
    assert loss.value(native) == size / 2
    assert array(loss.gradient(native)) == [0.5]
    assert array(loss.hvp(native, native)) == [0.0]
    assert array(loss.hessian(native)) == [[0.0]]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("size", [1e3, 1e4])
def test_softmax_survives_extreme_predictions(library, size, array, stored):
    loss = softmax_regression(stored(np.ones((3, 1)), library), [0, 1, 2])
    w = np.array([size, 0.0, -size])
    native = pytest.importorskip("torch").tensor(w) if library == "torch" else w
    # log Σ exp = size; the three labels cost 0, size and 2·size.
    assert loss.value(native) == pytest.approx(size, rel=1e-15)
    np.testing.assert_allclose(array(loss.gradient(native)), [2 / 3, -1 / 3, -1 / 3], atol=1e-15)
    assert not array(loss.hessian(native)).any()


def test_constants_bound_the_spectrum_everywhere(case, family, array):
    rng = np.random.default_rng(2)
    for scale in (0.0, 0.1, 1.0, 3.0):
        w = scale * rng.normal(size=case.loss.dim)
        eigenvalues = np.linalg.eigvalsh(array(case.loss.hessian(case.native(w))))
        assert case.loss.smoothness >= eigenvalues[-1]
        assert 0 <= case.loss.strong_convexity <= eigenvalues[0] + 1e-13 * eigenvalues[-1]
    if family in ("poisson", "gamma"):
        assert case.loss.smoothness == np.inf


@pytest.mark.parametrize("kind", ["dense", "csr", "torch"])
@pytest.mark.parametrize("weighted", [False, True])
def test_constants_of_least_squares_are_its_eigenvalues(kind, weighted, make_case, stored):
    case = make_case("linear", kind, intercept=True, weighted=weighted)
    rows, columns = case.X.shape
    weights = np.ones(rows) if case.weights is None else case.weights
    A = np.column_stack([case.X, np.ones(rows)])
    gram = A.T @ (weights[:, None] * A) / weights.sum() + np.diag([0.3] * columns + [0.0])
    eigenvalues = np.linalg.eigvalsh(gram)
    assert case.loss.strong_convexity == pytest.approx(eigenvalues[0], rel=1e-10)
    # The ridge is added to the top eigenvalue though the intercept is spared: a bound, no more.
    assert eigenvalues[-1] <= case.loss.smoothness <= eigenvalues[-1] + 0.3 + 1e-8
    bare = linear_regression(stored(case.X, kind), case.y, l2=0.3)
    top = np.linalg.eigvalsh(case.X.T @ case.X / rows + 0.3 * np.eye(columns))[-1]
    assert bare.smoothness == pytest.approx(top, rel=1e-8)


@pytest.mark.parametrize(("family", "share"), [("logistic", 0.25), ("softmax", 0.5)])
def test_smoothness_is_attained_where_the_classes_are_even(family, share, regression):
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.arange(30) % 2
    loss = regression(X, y, **({"classes": (0, 1)} if family == "softmax" else {}))
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


@pytest.mark.parametrize("family", ["linear", "logistic", "softmax", "poisson"])
def test_the_difference_to_the_target_is_linear(case, array):
    neutral = case.loss.label_free()
    random = case.loss.label_free(rng=np.random.default_rng(5))
    v, w = (case.native(point) for point in case.points[:2])
    for proxy in (neutral, random):
        np.testing.assert_allclose(
            array(proxy.hessian(w)), case.reference_hessian(case.points[1]),
            atol=1e-8,
        )  # fmt: skip
        np.testing.assert_allclose(
            array(proxy.gradient(w) - proxy.gradient(v)),
            array(case.loss.gradient(w) - case.loss.gradient(v)),
            atol=1e-13,
        )
    # The labels do differ: the gradients themselves are not the same.
    assert np.abs(array(neutral.gradient(w) - random.gradient(w))).max() > 1e-3


def test_zero_is_stationary_for_neutral_labels(case, array):
    proxy = case.loss.label_free()
    np.testing.assert_allclose(array(proxy.gradient(proxy.zeros())), 0.0, atol=1e-15)


def test_rows_without_labels_average_to_the_full_gradient(case, array):
    proxy = case.loss.label_free()
    w = case.native(case.points[0])
    singles = [array(proxy.gradient(w, np.array([row]))) for row in range(len(case.y))]
    np.testing.assert_allclose(np.mean(singles, axis=0), array(proxy.gradient(w)), atol=1e-13)


def test_observed_labels_make_the_target_gradient(case, array):
    proxy, batch = case.loss.label_free(), np.array([1, 5, 5, 2])
    w = case.native(case.points[0])
    got = proxy.gradient_from(w, batch, case.y[batch])
    np.testing.assert_allclose(array(got), array(case.loss.gradient(w, batch)), atol=1e-14)
    everything = proxy.gradient_from(w, None, case.y)
    np.testing.assert_allclose(
        array(everything), case.reference_gradient(case.points[0]), atol=1e-12
    )


def test_other_inputs_take_the_model_along(textbook):
    rng = np.random.default_rng(0)
    target = logistic_regression(rng.normal(size=(6, 2)), np.arange(6) % 2, intercept=True)
    X = rng.normal(size=(9, 2))
    proxy, w = target.label_free(X), rng.normal(size=3)
    half = [textbook("logistic", X, np.full(9, c), w, intercept=True) for c in (0, 1)]
    assert proxy.value(w) == pytest.approx(np.mean(half), rel=1e-12)
    with pytest.raises(ValueError, match="2 columns"):
        target.label_free(rng.normal(size=(9, 3)))


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
