"""A regression without its labels: the target up to a linear term."""

import numpy as np
import pytest

from proxyprox import logistic_regression


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
