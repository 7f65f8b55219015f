"""The problems on which ``eta="auto"`` is compared with a grid of constant step sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
)
from sklearn.preprocessing import StandardScaler

import proxyprox as pp
from experiments import datasets
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems.combination import ScaledProxy

RELATIVE_L2 = 1e-6
BATCHES = (32, 256, 1024)


@dataclass(frozen=True)
class Cell:
    """One problem: a target with its batch size, and a proxy for each seed."""

    name: str
    target: Callable[[], Any]
    proxy: Callable[[Any, int], Any]

    def problem(self, seed: int) -> pp.Problem:
        """Return the problem whose proxy was drawn with a seed."""
        target = self.target()
        return pp.Problem(target, self.proxy(target, seed))

    def optimum(self) -> float:
        """Return the least loss."""
        return _optimum(self.target)


@cache
def _optimum(target: Callable[[], Any]) -> float:
    loss = target()
    if isinstance(loss, pp.Quadratic):
        return loss.value(loss.minimise_exactly())
    return float(loss.value(minimise_exactly(loss, loss.zeros(), tol=1e-11)))


def label_free(target: Any, seed: int) -> Any:
    """Return the proxy of all inputs, without labels."""
    return target.label_free()


def subsampled(share: float) -> Callable[[Any, int], Any]:
    """Return the maker of a proxy on a share of the rows."""

    def make(target: Any, seed: int) -> Any:
        rows = max(1, round(share * target.design.rows))
        return target.subsample(rows, rng=np.random.default_rng([seed, 2]))

    return make


def scaled(factor: float, make: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """Return the maker of a wrongly scaled proxy."""
    return lambda target, seed: ScaledProxy(make(target, seed), factor)


PROXIES = {"label-free": label_free, "1%": subsampled(0.01), "10%": subsampled(0.1)}


@cache
def libsvm(name: str) -> Any:
    """Return logistic regression on a LIBSVM set, with l2 = 1e-6 H."""
    data = datasets.load(name)
    H = pp.logistic_regression(data.X, data.y).smoothness
    return pp.logistic_regression(data.X, data.y, l2=RELATIVE_L2 * H)


@cache
def with_batch(make: Callable[[], Any], batch: int) -> Callable[[], Any]:
    """Return the maker of the same loss with another batch size."""
    return cache(lambda: make().with_batch_size(batch))


@cache
def _libsvm_maker(name: str) -> Callable[[], Any]:
    return lambda: libsvm(name)


@cache
def least_squares() -> Any:
    """Return least squares with correlated inputs and noisy answers."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(3000, 80)) * np.linspace(1, 0.03, 80) @ _rotation(80, rng)
    y = X @ rng.normal(size=80) + rng.normal(size=3000)
    return pp.linear_regression(X, y, l2=1e-5)


@cache
def poisson() -> Any:
    """Return Poisson regression with small rates: no smoothness constant."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(4000, 30)) / np.sqrt(30)
    y = rng.poisson(np.exp(X @ rng.normal(size=30) + 0.3))
    return pp.poisson_regression(X, y, intercept=True, l2=1e-5)


@cache
def sparse_rare() -> Any:
    """Return sparse binary inputs with 3 % positives, in the manner of w8a."""
    rng = np.random.default_rng(13)
    rates = 0.3 / (1 + np.arange(300)) ** 0.7
    X = scipy.sparse.csr_matrix((rng.random((8000, 300)) < rates).astype(float))
    score = X @ (2 * rng.normal(size=300))
    y = score + rng.logistic(size=8000) > np.quantile(score, 0.97)
    H = pp.logistic_regression(X, y).smoothness
    return pp.logistic_regression(X, y, l2=RELATIVE_L2 * H)


@cache
def breast_cancer() -> Any:
    """Return logistic regression on a small table that is nearly separable."""
    X, y = load_breast_cancer(return_X_y=True)
    return pp.logistic_regression(StandardScaler().fit_transform(X), y, l2=1e-4)


@cache
def digits() -> Any:
    """Return logistic regression of odd against even digits, from their pixels."""
    X, y = load_digits(return_X_y=True)
    return pp.logistic_regression(X / 16, y % 2, l2=1e-5, intercept=True)


@cache
def diabetes() -> Any:
    """Return least squares on a small table with much noise."""
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    return pp.linear_regression(X, y, l2=1e-5)


@cache
def wine() -> Any:
    """Return logistic regression of one of three wines; looked at only after the rule was fixed."""
    X, y = load_wine(return_X_y=True)
    return pp.logistic_regression(StandardScaler().fit_transform(X), y == 1, l2=1e-4)


@cache
def clusters() -> Any:
    """Return clusters with a tenth of the labels wrong; looked at only after the rule was fixed."""
    X, y = make_classification(
        5000, 40, n_informative=10, n_redundant=10, flip_y=0.1, random_state=3
    )
    return pp.logistic_regression(X, y, l2=1e-5)


@cache
def quadratic() -> Any:
    """Return a noisy quadratic with eigenvalues from 1e-3 to 1."""
    rng = np.random.default_rng(14)
    U = _rotation(50, rng)
    P = (U * np.logspace(-3, 0, 50)) @ U.T
    return pp.Quadratic((P + P.T) / 2, b=P @ rng.normal(size=50), noise=0.3)


def shifted_quadratic(delta: float) -> Callable[[Any, int], Any]:
    """Return the maker of a quadratic proxy whose Hessian is off by at most δ."""

    def make(target: Any, seed: int) -> Any:
        rng = np.random.default_rng([seed, 3])
        U = _rotation(50, rng)
        off = (U * rng.uniform(-delta, delta, 50)) @ U.T
        return pp.Quadratic(target.P + (off + off.T) / 2, b=rng.normal(size=50))

    return make


def _rotation(d: int, rng: np.random.Generator) -> Any:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def cells() -> Iterator[Cell]:
    """Yield every cell of the table."""
    for name in ("mushrooms", "a9a"):
        for batch in BATCHES:
            for kind, proxy in PROXIES.items():
                yield Cell(f"{name} b{batch} {kind}", with_batch(_libsvm_maker(name), batch), proxy)
    for maker, batch, kinds in (
        (least_squares, 64, ("label-free", "10%")),
        (poisson, 64, ("label-free", "10%")),
        (sparse_rare, 128, ("label-free", "10%")),
        (breast_cancer, 32, ("label-free", "10%")),
        (digits, 64, ("label-free", "10%")),
        (diabetes, 32, ("label-free", "10%")),
        (wine, 16, ("label-free", "10%")),
        (clusters, 64, ("label-free", "10%")),
    ):
        for kind in kinds:
            yield Cell(f"{maker.__name__} b{batch} {kind}", with_batch(maker, batch), PROXIES[kind])
    for delta in (0.0, 0.003, 0.1):
        yield Cell(f"quadratic noise=.3 delta={delta}", quadratic, shifted_quadratic(delta))
    mushrooms = with_batch(_libsvm_maker("mushrooms"), 256)
    for factor in (0.1, 10.0):
        for kind in ("label-free", "10%"):
            name = f"mushrooms b256 {kind} x{factor:g}"
            yield Cell(name, mushrooms, scaled(factor, PROXIES[kind]))
