"""An ``X_proxy`` that was not transformed is warned of, and no other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

from proxyprox.sklearn.inputs import ProxyWarning, warn_if_suspicious


@pytest.mark.parametrize(("rows", "columns"), [(10, 4), (10, 30), (40, 1), (40, 30)])
@pytest.mark.parametrize(
    "change",
    [
        lambda Z: 100 * Z,
        lambda Z: 10 * Z,
        lambda Z: Z / 10,
        lambda Z: 5 + 3 * Z,
        lambda Z: 3 * (Z + 5),
        lambda Z: Z + 20,
    ],
)
def test_another_scale_or_place_is_warned_of(change, rows, columns):
    Z = np.random.default_rng(1).normal(size=(800, columns))
    with pytest.warns(ProxyWarning, match=r"does not look like X.*enable_metadata_routing=True"):
        warn_if_suspicious(Z[:rows], change(Z[rows:]))


DRAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "lognormal": lambda rng, shape: np.exp(rng.normal(size=shape)),
    "student": lambda rng, shape: rng.standard_t(3, size=shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "counts": lambda rng, shape: rng.poisson(1.0, shape).astype(float),
    "coin": lambda rng, shape: (rng.random(shape) < 0.5).astype(float),
    "rare": lambda rng, shape: (rng.random(shape) < 0.02).astype(float),
    "scaled": lambda rng, shape: ((rng.random(shape) < 0.1) - 0.1) / 0.3,
    "same": lambda rng, shape: np.outer(rng.normal(size=shape[0]), np.ones(shape[1])),
}


@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize("rows", [10, 20, 40])
@pytest.mark.parametrize("kind", DRAWS)
def test_random_splits_are_alike(kind, rows, columns):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(100):
            Z = DRAWS[kind](np.random.default_rng(seed), (400, columns))
            warn_if_suspicious(Z[:rows], Z[rows:])


def words(seed):
    """Return sparse counts of words, some common and most rare."""
    rng = np.random.default_rng(seed)
    chance = np.minimum(0.5, 5 / np.arange(1, 801))
    counts = rng.poisson(chance, size=(300, 800)) * rng.uniform(0.5, 2.0, size=(300, 1))
    return scipy.sparse.csr_array(counts)


@pytest.mark.parametrize("rows", [10, 40])
def test_sparse_text_is_alike_unless_it_was_scaled(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(20):
            Z = words(seed)
            warn_if_suspicious(Z[:rows], Z[rows:])
            warn_if_suspicious(Z[:rows].toarray(), Z[rows:].toarray())
    with pytest.warns(ProxyWarning, match="spread is"):
        warn_if_suspicious(Z[:rows], 10 * Z[rows:])


def test_constant_columns_tell_nothing():
    warn_if_suspicious(np.zeros((20, 3)), np.zeros((30, 3)))
    warn_if_suspicious(scipy.sparse.csr_array((20, 3)), scipy.sparse.csr_array((30, 3)))
