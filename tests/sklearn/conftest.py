"""Small data with few labels, and the slow exact answers to compare with."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController


@pytest.fixture(scope="session")
def thread_pools():
    """Return the thread pools of the loaded libraries; to find them for each test takes long."""
    return ThreadpoolController()


@pytest.fixture(autouse=True)
def one_thread(thread_pools):
    """Small matrices: more threads only wait for each other."""
    with thread_pools.limit(limits=1):
        yield


@pytest.fixture
def binary():
    """Return inputs, labels of two classes and the true coefficients."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(700, 6)) * [1, 1, 2, 0.5, 1, 1]
    w = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.3])
    y = (rng.random(700) < 1 / (1 + np.exp(-(X @ w + 0.4)))).astype(int)
    return X, y, w


@pytest.fixture
def three():
    """Return inputs and labels of three classes."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(600, 5))
    z = X @ rng.normal(size=(5, 3))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = np.array([rng.choice(3, p=row) for row in p])
    return X, y
