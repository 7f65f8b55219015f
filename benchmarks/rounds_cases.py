"""The problems of :mod:`rounds`: losses with exact gradients, and good, bad and useless proxies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

import proxyprox as pp
from experiments import datasets
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems.combination import MixedProxy

L2 = 1e-5


@dataclass(frozen=True)
class Target:
    """A loss, its least value, and the suboptimalities to which rounds are counted."""

    name: str
    loss: Any
    optimum: float
    levels: tuple[float, ...] = (1e-2, 1e-4, 1e-6, 1e-8)

    @property
    def start(self) -> Any:
        return np.zeros(self.loss.dim)


@dataclass(frozen=True)
class Case:
    """A target and a kind of proxy, one for each seed; useless ones have no rivals of their own."""

    target: Callable[[], Target]
    proxy: str
    make: Callable[[Any, int], Any]
    useless: bool = False

    @property
    def table(self) -> str:
        return self.target().name + (", useless proxies" if self.useless else "")


def _with_optimum(name: str, loss: Any) -> Target:
    least = minimise_exactly(loss, np.zeros(loss.dim), tol=1e-12)
    return Target(name, loss, float(loss.value(least)))


@cache
def mushrooms() -> Target:
    data = datasets.load("mushrooms")
    return _with_optimum("mushrooms", pp.logistic_regression(data.X, data.y, l2=L2))


@cache
def a9a() -> Target:
    data = datasets.load("a9a")
    return _with_optimum("a9a", pp.logistic_regression(data.X, data.y, l2=L2))


@cache
def sparse_table() -> Target:
    """Return a table of 20,000 × 300 with a few frequent columns and many rare ones."""
    rng = np.random.default_rng(0)
    rates = 0.5 / (1 + np.arange(300)) ** 0.8
    X = scipy.sparse.csr_matrix((rng.random((20_000, 300)) < rates) * rng.gamma(2.0, 0.5, 300))
    score = X @ rng.normal(size=300)
    y = score + rng.logistic(size=20_000) > np.median(score)
    return _with_optimum("sparse, d = 300", pp.logistic_regression(X, y, l2=L2))


@cache
def text() -> Target:
    """Return documents, 16,000 × 20,000: logarithms of the counts of Zipf's words, two topics."""
    rng = np.random.default_rng(0)
    rows, words, length = 16_000, 20_000, 60
    usual = 1 / (10 + np.arange(words))
    tilt = np.exp(0.5 * rng.normal(size=words))
    y = rng.random(rows) < 0.5
    indices = np.empty((rows, length), dtype=np.int64)
    for topic, weights in ((False, usual), (True, usual * tilt)):
        size = (int((y == topic).sum()), length)
        indices[y == topic] = rng.choice(words, size, p=weights / weights.sum())
    pointers = np.arange(0, rows * length + 1, length)
    X = scipy.sparse.csr_matrix((np.ones(rows * length), indices.ravel(), pointers), (rows, words))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    wrong = rng.random(rows) < 0.05
    return _with_optimum("text, d = 20,000", pp.logistic_regression(normalize(X), y ^ wrong, l2=L2))


@cache
def quadratic() -> Target:
    """Return a convex quadratic, d = 200, κ = 10⁶; levels are relative to the start."""
    rng = np.random.default_rng(0)
    A, least = spectrum(rng, 200, 1e6), rng.normal(size=200)
    loss = pp.Quadratic(A, b=-A @ least)
    gap = 0.5 * float(least @ A @ least)
    levels = tuple(level * gap for level in (1e-2, 1e-4, 1e-6, 1e-8))
    return Target("quadratic", loss, -gap, levels)


def spectrum(rng: np.random.Generator, d: int, condition: float) -> Any:
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (basis * np.geomspace(1 / condition, 1, d)) @ basis.T


def share(part: float) -> Callable[[Any, int], Any]:
    """Return the maker of a proxy on a share of the rows."""

    def make(loss: Any, seed: int) -> Any:
        rows = max(1, round(part * loss.design.rows))
        return loss.subsample(rows, rng=np.random.default_rng([seed, 14]))

    return make


def scaled(factor: float) -> Callable[[Any, int], Any]:
    return lambda loss, seed: MixedProxy([share(0.05)(loss, seed)], [factor])


def permuted(loss: Any, seed: int) -> Any:
    """Return the proxy of 5 % of the rows with the columns in a random order."""
    proxy = share(0.05)(loss, seed)
    order = np.random.default_rng([seed, 15]).permutation(loss.dim)
    return pp.logistic_regression(proxy.design.X[:, order], proxy.targets, l2=L2)


def flipped(loss: Any, seed: int) -> Any:
    """Return the proxy of 5 % of the rows with every label wrong."""
    proxy = share(0.05)(loss, seed)
    return pp.logistic_regression(proxy.design.X, 1 - proxy.targets, l2=L2)


def negated(loss: Any, seed: int) -> Any:
    """Return minus the proxy of 5 % of the rows: concave, without a minimum."""
    proxy = share(0.05)(loss, seed)
    return pp.FunctionProxy(
        lambda w: -proxy.value(w),
        lambda w: -proxy.gradient(w),
        hvp=lambda w, v: -proxy.hvp(w, v),
        hessian=lambda w: -proxy.hessian(w),
    )


def wrong_by(delta: float, *, positive: bool) -> Callable[[Any, int], Any]:
    """Return the maker of a positive definite proxy whose Hessian is off by δ in norm.

    The error is positive semidefinite, or symmetric and then no eigenvalue is below δ/10.
    """

    def make(loss: Any, seed: int) -> Any:
        A = loss.hessian(np.zeros(loss.dim))
        root = np.random.default_rng([seed, 16]).normal(size=A.shape)
        error = root @ root.T if positive else root + root.T
        error /= np.linalg.norm(error, 2)

        def proxy(size: float) -> Any:
            values, vectors = np.linalg.eigh(A + size * error)
            return (vectors * np.maximum(values, delta / 10)) @ vectors.T

        # Clipping makes the error smaller.
        size = delta
        for _ in range(20):
            size *= delta / float(np.linalg.norm(proxy(size) - A, 2))
        return pp.Quadratic(proxy(size))

    return make


SHARES = {"1 %": 0.01, "5 %": 0.05, "20 %": 0.2}
USELESS = {
    "columns permuted": permuted,
    "labels flipped": flipped,
    "negated": negated,
    "× 1000": scaled(1e3),
    "× 0.001": scaled(1e-3),
}
TABLES = (mushrooms, a9a, sparse_table, text)


def cases() -> list[Case]:
    """Return all cases in the order of the tables."""
    found = [Case(target, name, share(part)) for target in TABLES for name, part in SHARES.items()]
    for target in (mushrooms, a9a):
        found += [Case(target, name, make, useless=True) for name, make in USELESS.items()]
    for delta in (0.01, 0.1):
        for kind in (True, False):
            sign = "≥ 0" if kind else "of both signs"
            found.append(
                Case(quadratic, f"δ/H = {delta:g}, error {sign}", wrong_by(delta, positive=kind))
            )
    return found
