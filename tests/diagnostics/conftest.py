"""A small logistic table and the audits that several tests look at."""

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from tests.runs import logistic


@pytest.fixture(scope="session")
def target():
    return logistic(400, 12, np.geomspace(1, 0.05, 12), 3, l2=1e-3, batch_size=64)


@pytest.fixture(scope="session")
def subsampled(target):
    """Return the audit of a fifth of the rows as proxy."""
    return pp.audit(pp.Problem(target, target.subsample(80, rng=1)), rng=0)


@pytest.fixture(scope="session")
def tiny():
    """Return the audit of a good proxy of a quadratic in two dimensions."""
    loss = pp.Quadratic(np.diag([1.0, 9.0]), b=np.ones(2), noise=0.1)
    return pp.audit(pp.Problem(loss, pp.Quadratic(np.diag([1.0, 8.0]))), rng=0)


@pytest.fixture(scope="session")
def best_value():
    """Return a function that returns the least value of a loss."""
    return lambda loss: loss.value(minimise_exactly(loss, loss.zeros(), tol=1e-10))
