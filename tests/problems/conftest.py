"""The regressions' losses as the textbooks print them, and models to compare with them."""

import numpy as np
import pytest
import scipy.sparse

from proxyprox import (
    gamma_regression,
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
    "gamma": gamma_regression,
}
CLASSES = 3
ROWS, COLUMNS = 14, 3


def textbook_loss(family, X, y, w, *, l2=0.0, intercept=False, weights=None):
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
        elif family == "gamma":
            row = label * np.exp(-z[0]) + z[0] - np.log(label) - 1
        else:
            row = np.exp(z[0]) - label * z[0]
        total = total + weight * row
    ridge = sum(v * v for v in np.ravel(W[: X.shape[1]]))
    return total / np.sum(weights) + l2 / 2 * ridge


def drawn_labels(family, rng, rows=ROWS):
    if family == "linear":
        return rng.normal(size=rows)
    if family == "poisson":
        return rng.poisson(2.0, size=rows)
    if family == "gamma":
        return rng.gamma(2.0, size=rows)
    if family == "logistic":
        return np.arange(rows) % 2
    return np.arange(rows) % CLASSES


def stored_as(X, kind):
    if kind == "csr":
        return scipy.sparse.csr_array(X)
    return pytest.importorskip("torch").tensor(X) if kind == "torch" else X


def numpy_of(x):
    return x.numpy() if hasattr(x, "numpy") else np.asarray(x)


class Case:
    """One model, its textbook loss and random points."""

    def __init__(self, family, kind, intercept, weighted, l2=0.3, seed=0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.7)
        y = drawn_labels(family, rng)
        weights = rng.uniform(0.0, 3.0, ROWS) if weighted else None
        self.X, self.y, self.weights = X, y, weights
        self.loss = FAMILIES[family](
            stored_as(X, kind), y, l2=l2, intercept=intercept, sample_weight=weights
        )
        self.reference = lambda w: textbook_loss(
            family, X, y, w, l2=l2, intercept=intercept, weights=weights
        )
        self.points = rng.normal(size=(3, self.loss.dim))
        self.native = lambda w: stored_as(w, "torch") if kind == "torch" else w

    def reference_gradient(self, w, h=1e-30):
        """The complex-step gradient: no difference is taken, so nothing cancels."""
        return np.array([self.reference(w + 1j * h * e).imag / h for e in np.eye(len(w))])

    def reference_hessian(self, w, h=1e-5):
        """Central differences of the complex-step gradient."""
        slope = self.reference_gradient
        return np.array([(slope(w + h * e) - slope(w - h * e)) / (2 * h) for e in np.eye(len(w))])


@pytest.fixture(params=["plain", "intercept and weights"])
def case(request, family, kind):
    return Case(family, kind, intercept=request.param != "plain", weighted=request.param != "plain")


@pytest.fixture(params=["dense", "csr", "torch"])
def kind(request):
    return request.param


@pytest.fixture(params=list(FAMILIES))
def family(request):
    return request.param


@pytest.fixture
def regression(family):
    return FAMILIES[family]


@pytest.fixture
def make_case():
    return Case


@pytest.fixture
def textbook():
    return textbook_loss


@pytest.fixture
def labels():
    return drawn_labels


@pytest.fixture
def stored():
    return stored_as


@pytest.fixture
def array():
    return numpy_of
