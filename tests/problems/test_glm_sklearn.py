"""The regressions' minimisers are those of scikit-learn's models."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from proxyprox import linear_regression, logistic_regression, poisson_regression, softmax_regression


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
