"""The regressions against textbook, finite differences, spectra and scikit-learn."""

import numpy as np
import pytest

from proxyprox import linear_regression, logistic_regression, softmax_regression


def test_value_and_gradients_are_the_textbooks(case, array):
    for w in case.points:
        value, want = case.loss.value(case.native(w)), case.reference_gradient(w)
        assert isinstance(value, float)
        assert value == pytest.approx(case.reference(w), rel=1e-12)
        np.testing.assert_allclose(array(case.loss.gradient(case.native(w))), want, atol=1e-12)
        both = case.loss.value_and_gradient(case.native(w))
        assert both[0] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(array(both[1]), want, atol=1e-12)
    rows, native = [np.array([row]) for row in range(case.loss.design.rows)], case.native(w)
    singles = [array(case.loss.gradient(native, row)) for row in rows]
    np.testing.assert_allclose(np.mean(singles, axis=0), want, atol=1e-12)
    # The rows differ, so the average is not trivially right.
    assert np.ptp(singles, axis=0).max() > 0.1
    batch = np.array([3, 3, 0, 7])
    value, gradient = case.loss.value_and_gradient(native, batch)
    wanted = np.mean([singles[row] for row in batch], axis=0)
    np.testing.assert_allclose(array(gradient), wanted, atol=1e-13)
    np.testing.assert_allclose(array(case.loss.gradient(native, batch)), wanted, atol=1e-13)
    values = [case.loss.value_and_gradient(native, rows[row])[0] for row in batch]
    assert value == pytest.approx(np.mean(values))


def test_hessian_and_its_products_are_the_differences_of_the_gradient(case, array):
    for w in case.points:
        want = case.reference_hessian(w)
        got = array(case.loss.hessian(case.native(w)))
        np.testing.assert_allclose(got, want, atol=1e-8)
        np.testing.assert_allclose(got, got.T, atol=1e-15)
        for v in np.random.default_rng(1).normal(size=(2, len(w))):
            product = array(case.loss.hvp(case.native(w), case.native(v)))
            np.testing.assert_allclose(product, got @ v, atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "torch"])
def test_classifiers_survive_extreme_predictions(kind, array, stored):
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    for size in (1e3, 1e4):
        loss, w = logistic_regression(stored(X, kind), [1, 0, 1, 0]), stored(np.array([size]), kind)
        # Rows cost 0, z, z, 0; the two wrong ones have residuals +1 and −1 on inputs +1 and −1.
        assert loss.value(w) == size / 2
        assert array(loss.gradient(w)) == [0.5]
        assert array(loss.hvp(w, w)) == [0.0]
        assert array(loss.hessian(w)) == [[0.0]]
        loss = softmax_regression(stored(np.ones((3, 1)), kind), [0, 1, 2])
        w = stored(np.array([size, 0.0, -size]), kind)
        # log Σ exp = size; the three labels cost 0, size and 2·size.
        assert loss.value(w) == pytest.approx(size, rel=1e-15)
        np.testing.assert_allclose(array(loss.gradient(w)), [2 / 3, -1 / 3, -1 / 3], atol=1e-15)
        assert not array(loss.hessian(w)).any()


def test_constants_bound_the_spectrum_everywhere(case, family, array):
    rng = np.random.default_rng(2)
    for scale in (0.0, 0.1, 1.0, 3.0):
        w = scale * rng.normal(size=case.loss.dim)
        eigenvalues = np.linalg.eigvalsh(array(case.loss.hessian(case.native(w))))
        assert case.loss.smoothness >= eigenvalues[-1]
        assert 0 <= case.loss.strong_convexity <= eigenvalues[0] + 1e-13 * eigenvalues[-1]
    if family in ("poisson", "gamma"):
        assert case.loss.smoothness == np.inf


@pytest.mark.parametrize("family", ["linear", "logistic", "softmax", "poisson"])
def test_the_difference_to_the_target_is_linear(case, array):
    proxy = case.loss.label_free()
    v, w = (case.native(point) for point in case.points[:2])
    np.testing.assert_allclose(
        array(proxy.hessian(w)), case.reference_hessian(case.points[1]), atol=1e-8
    )
    np.testing.assert_allclose(
        array(proxy.gradient(w) - proxy.gradient(v)),
        array(case.loss.gradient(w) - case.loss.gradient(v)),
        atol=1e-13,
    )


def test_observed_labels_make_the_target_gradient(case, array):
    proxy, batch = case.loss.label_free(), np.array([1, 5, 5, 2])
    w = case.native(case.points[0])
    got = proxy.gradient_from(w, batch, case.y[batch])
    np.testing.assert_allclose(array(got), array(case.loss.gradient(w, batch)), atol=1e-14)
    everything = proxy.gradient_from(w, None, case.y)
    np.testing.assert_allclose(
        array(everything), case.reference_gradient(case.points[0]), atol=1e-12
    )


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
