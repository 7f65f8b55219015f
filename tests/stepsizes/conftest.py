"""A noisy logistic regression for the step size to be measured on."""

import numpy as np
import pytest

import proxyprox as pp


@pytest.fixture(scope="module")
def target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8)) * np.linspace(1, 0.1, 8)
    y = X @ rng.normal(size=8) * 3 + rng.logistic(size=600) > 0
    return pp.logistic_regression(X, y, l2=1e-4, batch_size=32)
