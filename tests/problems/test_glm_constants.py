"""Smoothness and strong convexity of the regressions against the spectrum they bound."""

import numpy as np
import pytest
import scipy.sparse

from proxyprox import linear_regression


def test_constants_bound_the_spectrum_everywhere(case, family, array):
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
