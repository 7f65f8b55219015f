"""The four regressions against the textbook formula, row by row, and its derivatives."""

import numpy as np
import pytest

from proxyprox import logistic_regression, softmax_regression


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
    monkeypatch.setattr("proxyprox.problems.glm.BLOCK_ELEMENTS", 3 * (case.X.shape[1] + 1))
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
