"""The problems on which automatic step sizes are compared with a grid of constant ones.

Every table belongs to one of two halves: the constants of the rule were fixed with sight of the
first, the second was only reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_friedman1,
)
from sklearn.preprocessing import StandardScaler

import proxyprox as pp
from experiments import datasets
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems.combination import MixedProxy

FIXED, REPORTED = "fixed", "reported"


@dataclass(frozen=True)
class Table:
    """Inputs, answers and the loss that is fitted to them.

    ``eta_scale`` and ``sgd_scale`` multiply the step sizes, in units of 1/H, that a grid tries with
    and without a proxy: they are small where H at the start says little about H elsewhere.
    """

    X: Any
    y: Any
    fit: Callable[..., Any]
    options: dict[str, Any]
    eta_scale: float = 1.0
    sgd_scale: float = 1.0

    def loss(self, batch: int) -> Any:
        """Return the loss of all rows, with a batch size."""
        return self.fit(self.X, self.y, batch_size=batch, **self.options)


@dataclass(frozen=True)
class Cell:
    """One problem: a table, a batch size, a kind of proxy or none, how the target may be asked."""

    half: str
    make: Callable[[], Table]
    batch: int
    kind: str | None
    asked: str = "rows"

    @property
    def name(self) -> str:
        """The cell in words."""
        kind = "" if self.kind is None else f" {self.kind}"
        asked = "" if self.asked == "rows" else f", {self.asked}"
        return f"{self.make.__name__.replace('_', ' ')} b{self.batch}{kind}{asked}"

    def loss(self) -> Any:
        """Return the target with all that is known about it."""
        return target(self.make, self.batch)

    def proxy(self, seed: int) -> Any:
        """Return the proxy that is drawn with a seed; None if there is none."""
        if self.kind is None:
            return None
        return PROXIES[self.kind](self.make(), self.loss(), np.random.default_rng([seed, 2]))

    def problem(self, seed: int) -> pp.Problem:
        """Return the problem as a method sees it, its proxy drawn with a seed."""
        loss, proxy = self.loss(), self.proxy(seed)
        if self.asked != "rows":
            repeatable = self.asked == "functions"
            loss = pp.FunctionObjective(
                loss.gradient, sample=loss.sample, samples=loss.samples, repeatable=repeatable
            )
        if proxy is None:
            return pp.Problem(loss)
        if self.asked != "rows":
            proxy = pp.FunctionProxy(proxy.value, proxy.gradient, hvp=proxy.hvp)
        return pp.Problem(loss, proxy)

    def smoothness(self) -> float:
        """Return H; the largest curvature at the start if there is no global one."""
        return smoothness(self.make)

    def optimum(self) -> float:
        """Return the least loss."""
        return optimum(self.make)


@cache
def target(make: Callable[[], Table], batch: int) -> Any:
    """Return a table's loss, made once."""
    return make().loss(batch)


@cache
def smoothness(make: Callable[[], Table]) -> float:
    """Return a table's H; the largest curvature at the start if there is no global one."""
    loss = target(make, 1)
    if np.isfinite(loss.smoothness):
        return float(loss.smoothness)
    return float(np.linalg.eigvalsh(loss.hessian(loss.zeros()))[-1])


@cache
def optimum(make: Callable[[], Table]) -> float:
    """Return a table's least loss."""
    loss = target(make, 1)
    return float(loss.value(minimise_exactly(loss, loss.zeros(), tol=1e-10)))


# -- proxies ------------------------------------------------------------------------------------


def label_free(table: Table, loss: Any, rng: np.random.Generator) -> Any:
    """Return the proxy of all inputs, without labels."""
    return loss.label_free()


def subsampled(share: float) -> Callable[..., Any]:
    """Return the maker of a proxy on a share of the rows."""

    def make(table: Table, loss: Any, rng: np.random.Generator) -> Any:
        return loss.subsample(max(2, round(share * loss.design.rows)), rng=rng)

    return make


def drifted(table: Table, loss: Any, rng: np.random.Generator) -> Any:
    """Return the loss on a third of the rows: other units, a fifth of the answers shuffled."""
    rows = rng.choice(table.X.shape[0], table.X.shape[0] // 3, replace=False)
    units = np.exp(0.3 * rng.normal(size=table.X.shape[1]))
    X, y = table.X[rows], np.array(table.y)[rows]
    X = X @ scipy.sparse.diags(units) if scipy.sparse.issparse(X) else X * units
    wrong = np.flatnonzero(rng.random(len(rows)) < 0.2)
    y[wrong] = y[rng.permutation(wrong)]
    options = dict(table.options)
    if table.fit is pp.logistic_regression:
        options["classes"] = tuple(np.unique(table.y))
    return table.fit(X, y, **options)


def scaled(factor: float, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return the maker of a wrongly scaled proxy."""
    return lambda table, loss, rng: MixedProxy([make(table, loss, rng)], [factor])


PROXIES = {
    "label-free": label_free,
    "1%": subsampled(0.01),
    "10%": subsampled(0.1),
    "drifted": drifted,
    "label-free x0.1": scaled(0.1, label_free),
    "label-free x10": scaled(10.0, label_free),
    "10% x0.1": scaled(0.1, subsampled(0.1)),
    "10% x10": scaled(10.0, subsampled(0.1)),
}


# -- tables whose cells fixed the constants -------------------------------------------------------


@cache
def isotropic_squares() -> Table:
    """Return least squares with independent inputs, 50 of them."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(3000, 50))
    return Table(X, X @ rng.normal(size=50) + rng.normal(size=3000), pp.linear_regression, {})


@cache
def correlated_squares() -> Table:
    """Return least squares with correlated inputs and noisy answers."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(3000, 80)) * np.linspace(1, 0.03, 80) @ _rotation(80, rng)
    y = X @ rng.normal(size=80) + rng.normal(size=3000)
    return Table(X, y, pp.linear_regression, {"l2": 1e-5})


@cache
def breast_cancer() -> Table:
    """Return logistic regression on a small table that is nearly separable."""
    X, y = load_breast_cancer(return_X_y=True)
    return Table(StandardScaler().fit_transform(X), y, pp.logistic_regression, {"l2": 1e-4})


@cache
def breast_cancer_raw() -> Table:
    """Return the same in the units of its file, which differ by a factor of 10,000."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X / np.sqrt((X**2).sum(1).mean())
    return Table(X, y, pp.logistic_regression, {"l2": 1e-6, "intercept": True})


@cache
def digits() -> Table:
    """Return softmax regression of ten digits, from their pixels."""
    X, y = load_digits(return_X_y=True)
    return Table(X / 16, y, pp.softmax_regression, {"l2": 1e-4, "classes": range(10)})


@cache
def poisson() -> Table:
    """Return Poisson regression with small rates."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(4000, 30)) / np.sqrt(30)
    y = rng.poisson(np.exp(X @ rng.normal(size=30) + 0.3))
    return Table(X, y, pp.poisson_regression, {"intercept": True, "l2": 1e-5})


@cache
def heavy_logistic() -> Table:
    """Return logistic regression whose inputs have few moments."""
    rng = np.random.default_rng(22)
    X = rng.standard_t(3, size=(4000, 25))
    y = X @ (0.5 * rng.normal(size=25)) + rng.logistic(size=4000) > 0
    return Table(X, y, pp.logistic_regression, {"l2": 1e-4})


def _words(seed: int, rows: int, columns: int, length: int, strength: float) -> Table:
    """Return documents of words whose frequencies fall like 1/rank, in unit length."""
    rng = np.random.default_rng(seed)
    rates = 1 / (3 + np.arange(columns))
    words = rng.choice(columns, p=rates / rates.sum(), size=(rows, length))
    where = np.repeat(np.arange(rows), length), words.ravel()
    X = scipy.sparse.csr_matrix((np.ones(rows * length), where), shape=(rows, columns))
    X.data = 1 + np.log(X.data)
    X = (scipy.sparse.diags(1 / scipy.sparse.linalg.norm(X, axis=1)) @ X).tocsr()
    y = X @ (strength * rng.normal(size=columns)) + rng.logistic(size=rows) > 0
    return Table(X, y, pp.logistic_regression, {"l2": 1e-5})


@cache
def text() -> Table:
    """Return logistic regression on documents with 10,000 words."""
    return _words(23, 4000, 10_000, 60, 10.0)


@cache
def mushrooms() -> Table:
    """Return the paper's first table."""
    data = datasets.load("mushrooms")
    H = pp.logistic_regression(data.X, data.y).smoothness
    return Table(data.X, data.y, pp.logistic_regression, {"l2": 1e-6 * H})


@cache
def clusters() -> Table:
    """Return logistic regression on clusters with a tenth of the labels wrong."""
    X, y = make_classification(
        5000, 40, n_informative=10, n_redundant=10, flip_y=0.1, random_state=3
    )
    return Table(X, y, pp.logistic_regression, {"l2": 1e-5})


# -- tables that were only reported ---------------------------------------------------------------


@cache
def a9a() -> Table:
    """Return the paper's second table."""
    data = datasets.load("a9a")
    H = pp.logistic_regression(data.X, data.y).smoothness
    return Table(data.X, data.y, pp.logistic_regression, {"l2": 1e-6 * H})


@cache
def plain_logistic() -> Table:
    """Return logistic regression with independent inputs, 30 of them."""
    rng = np.random.default_rng(31)
    X = rng.normal(size=(3000, 30))
    y = X @ (0.4 * rng.normal(size=30)) + rng.logistic(size=3000) > 0
    return Table(X, y, pp.logistic_regression, {"l2": 1e-5})


@cache
def diabetes() -> Table:
    """Return least squares on a small table with much noise."""
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
    return Table(X, y, pp.linear_regression, {"l2": 1e-5})


@cache
def heavy_squares() -> Table:
    """Return least squares whose inputs and answers both have few moments."""
    rng = np.random.default_rng(32)
    X = rng.standard_t(4, size=(4000, 20))
    y = X @ rng.normal(size=20) + rng.standard_t(3, size=4000)
    return Table(X, y, pp.linear_regression, {})


@cache
def wine() -> Table:
    """Return softmax regression of three wines."""
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return Table(X, y, pp.softmax_regression, {"l2": 1e-3, "classes": range(3)})


@cache
def iris_raw() -> Table:
    """Return logistic regression of one of three irises, in centimetres."""
    X, y = load_iris(return_X_y=True)
    return Table(X, y == 1, pp.logistic_regression, {"l2": 1e-4, "intercept": True})


@cache
def steep_poisson() -> Table:
    """Return Poisson regression with large rates and inputs that have few moments."""
    rng = np.random.default_rng(33)
    X = 0.3 * rng.standard_t(4, size=(3000, 15))
    y = rng.poisson(np.exp(np.clip(X @ rng.normal(size=15), -5, 4)))
    scales = {"eta_scale": 4.0**-6, "sgd_scale": 1 / 30}
    return Table(X, y, pp.poisson_regression, {"l2": 1e-4}, **scales)


@cache
def gamma() -> Table:
    """Return Gamma regression with log link."""
    rng = np.random.default_rng(34)
    X = rng.normal(size=(3000, 20)) / np.sqrt(20)
    y = rng.gamma(2.0, np.exp(X @ rng.normal(size=20)) / 2.0)
    return Table(X, y + 1e-3, pp.gamma_regression, {"intercept": True, "l2": 1e-4})


@cache
def news() -> Table:
    """Return logistic regression on short documents with 20,000 words."""
    return _words(35, 5000, 20_000, 25, 6.0)


@cache
def friedman() -> Table:
    """Return least squares with products of the inputs, badly scaled."""
    X, y = make_friedman1(3000, n_features=10, noise=1.0, random_state=0)
    X = np.c_[X, X[:, :5] * X[:, 1:6], 10 * (X[:, :3] - 0.5) ** 2]
    return Table(X, (y - y.mean()) / y.std(), pp.linear_regression, {"l2": 1e-5, "intercept": True})


def _rotation(d: int, rng: np.random.Generator) -> Any:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


CELLS: dict[Callable[[], Table], tuple[str, list[tuple[Any, ...]]]] = {
    isotropic_squares: (FIXED, [
        (1, "label-free"), (2, "10%"), (4, "label-free"), (8, "drifted"), (32, "label-free x10"),
        (1, "10%"), (1, "label-free", "functions"), (2, "10%", "once"),
    ]),
    correlated_squares: (FIXED, [
        (1, "label-free"), (4, "1%"), (32, "label-free"), (256, "10%"), (8, "10% x0.1"),
    ]),
    breast_cancer: (FIXED, [
        (1, "label-free"), (1, "10%"), (2, "drifted"), (8, "label-free"), (32, "10%"),
        (4, "10%", "once"),
    ]),
    breast_cancer_raw: (FIXED, [(1, "label-free"), (4, "10%"), (32, "drifted")]),
    digits: (FIXED, [(1, "label-free"), (8, "10%"), (32, "label-free"), (2, "1%")]),
    poisson: (FIXED, [
        (1, "label-free"), (1, "10%"), (4, "drifted"), (32, "label-free"), (8, "10%", "functions"),
    ]),
    heavy_logistic: (FIXED, [
        (1, "label-free"), (2, "10%"), (8, "drifted"), (256, "1%"), (4, "label-free x0.1"),
    ]),
    text: (FIXED, [(1, "label-free"), (8, "10%"), (32, "10%"), (256, "1%")]),
    mushrooms: (FIXED, [
        (1, "label-free"), (1, "10%"), (4, "1%"), (32, "label-free"), (256, "label-free"),
        (256, "10%"), (256, "label-free x10"), (256, "label-free x0.1"),
    ]),
    clusters: (FIXED, [(1, "label-free"), (8, "10%"), (32, "label-free"), (256, "10%")]),
    a9a: (REPORTED, [
        (1, "label-free"), (1, "1%"), (4, "label-free"), (8, "10%"), (32, "drifted"),
        (256, "label-free"), (256, "10%"),
    ]),
    plain_logistic: (REPORTED, [
        (1, "label-free"), (2, "label-free"), (1, "10%"), (4, "1%"), (8, "label-free x10"),
        (32, "10% x10"), (1, "10%", "functions"), (8, "label-free", "once"),
    ]),
    diabetes: (REPORTED, [(1, "label-free"), (2, "10%"), (8, "label-free"), (32, "drifted")]),
    heavy_squares: (REPORTED, [
        (1, "label-free"), (1, "10%"), (4, "drifted"), (32, "label-free"), (8, "10%", "functions"),
    ]),
    wine: (REPORTED, [(1, "label-free"), (2, "10%"), (8, "label-free"), (32, "drifted")]),
    iris_raw: (REPORTED, [(1, "label-free"), (4, "10%"), (32, "label-free x0.1")]),
    steep_poisson: (REPORTED, [
        (1, "label-free"), (2, "10%"), (8, "drifted"), (32, "label-free"), (256, "10%"),
    ]),
    gamma: (REPORTED, [(1, "label-free"), (2, "10%"), (8, "drifted"), (32, "label-free x10")]),
    news: (REPORTED, [(1, "label-free"), (4, "10%"), (32, "drifted"), (256, "10%")]),
    friedman: (REPORTED, [(1, "label-free"), (4, "10%"), (32, "1%"), (2, "10%", "once")]),
}  # fmt: skip


def cells() -> list[Cell]:
    """Return every cell with a proxy."""
    return [Cell(half, make, *rest) for make, (half, kinds) in CELLS.items() for rest in kinds]


def cells_without_proxy() -> list[Cell]:
    """Return every target of the cells once, for methods that use no proxy."""
    return list(dict.fromkeys(replace(cell, kind=None) for cell in cells()))
