"""A small logistic table, public and private, and a budget's worth of helpers."""

import numpy as np
import pytest

from proxyprox.private import PrivacyBudget, Private, PrivateRows
from proxyprox.problems.families import Logistic

W = np.array([1.0, -2.0, 0.5])


@pytest.fixture(scope="session")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2400, 3))
    y = (X @ W + rng.logistic(size=2400) > 0).astype(int)
    return X, y


@pytest.fixture
def make(rows):
    """Return a function that makes a private objective of the first rows."""
    X, y = rows

    def make_target(X=X[:500], y=y[:500], **options):
        settings = {"epsilon": 1.0, "delta": 1e-5, "releases": 3, "n_nominal": 500, "clip": 1.0}
        return Private(PrivateRows(X, y, Logistic((0, 1))), **{**settings, **options})

    return make_target


@pytest.fixture
def repeated(monkeypatch):
    """Return a function after whose call the noise is that of its last call."""

    def begin():
        noise = np.random.default_rng(0)
        monkeypatch.setattr("proxyprox.private.mechanism.draw_noise", noise.standard_normal)

    return begin


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.sqlite"


@pytest.fixture
def purse(path):
    """Return a function that opens a budget on a file."""
    return lambda epsilon=1.0, place=path: PrivacyBudget(place, epsilon=epsilon, delta=1e-5)
