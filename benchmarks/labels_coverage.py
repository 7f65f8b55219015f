"""Coverage of the estimators' 95 % intervals over simulations.

    python benchmarks/labels_coverage.py --simulations 500

For each estimator, with and without a teacher: the share of simulations in which the interval of a
coefficient holds the true one, worst and best over the coefficients and on average, and the same
for the mean prediction where the model is wrong. The binomial spread of a share of 0.95 over 500
simulations is 0.01.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from proxyprox.sklearn import ProxyLogisticRegression, ProxyPoissonRegressor, ProxyRidge

THREE = np.array([[0.6, -0.4, 0.2], [-0.4, 0.6, 0.0], [-0.2, -0.2, -0.2]])
W, SHIFT = np.array([0.8, -0.5, 0.3]), 0.2
KINDS = {
    "ProxyRidge": ProxyRidge,
    "ProxyLogisticRegression": ProxyLogisticRegression,
    "ProxyLogisticRegression, three classes": ProxyLogisticRegression,
    "ProxyPoissonRegressor": ProxyPoissonRegressor,
}


def drawn(name: str, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, ...]:
    """Return inputs, labels, a teacher's answers and the true coefficients."""
    X = rng.normal(size=(rows, 3))
    z = X @ W + SHIFT
    if name == "ProxyRidge":
        y = z + rng.normal(size=rows)
        return X, y, y + 0.5 * rng.normal(size=rows), W
    if name == "ProxyPoissonRegressor":
        y = rng.poisson(np.exp(z / 2))
        return X, y, y + rng.integers(2, size=rows), W / 2
    if name.endswith("three classes"):
        # Coefficients are fixed up to a shift of all classes: those that sum to zero are meant.
        z = X @ THREE.T
        y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        f = np.where(rng.random(rows) < 0.1, rng.integers(3, size=rows), y)
        return X, y, f, THREE.ravel()
    y = (rng.random(rows) < expit(z)).astype(int)
    return X, y, np.where(rng.random(rows) < 0.1, 1 - y, y), W


def coefficients(
    name: str, runs: int, n: int, *, teacher: bool, cross_validated: bool
) -> np.ndarray:
    """Return, for each simulation and coefficient, whether the interval holds the truth."""
    settings = {} if cross_validated else {"alpha": 0.0}
    hits = []
    for seed in range(runs):
        X, y, f, truth = drawn(name, np.random.default_rng(10_000 + seed), n + 5 * n)
        proxy = {"X_proxy": X[n:]} | ({"y_proxy": f} if teacher else {})
        found = KINDS[name](**settings).fit(X[:n], y[:n], **proxy).confidence_interval(0.95)
        hits.append((found.low.ravel() <= truth) & (truth <= found.high.ravel()))
    return np.array(hits)


def mean_predictions(name: str, runs: int, n: int) -> np.ndarray:
    """Return whether the interval holds the true mean, for a model without the square it needs."""
    hits = []
    for seed in range(runs):
        rng = np.random.default_rng(20_000 + seed)
        X = rng.normal(size=(11 * n, 2))
        z = X[:, 0] ** 2 - 0.5
        if name == "ProxyRidge":
            y, truth = z + rng.normal(size=len(z)), 0.5
        elif name == "ProxyPoissonRegressor":
            y, truth = rng.poisson(np.abs(X[:, 0])), np.sqrt(2 / np.pi)
        else:
            y, truth = (rng.random(len(z)) < (X[:, 0] > 1)).astype(int), 0.15865525393145707
        model = KINDS[name](cv=5).fit(X[:n], y[:n], X_proxy=X[n:])
        found = model.mean_prediction(X[n:])
        hits.append([found.low <= truth <= found.high])
    return np.array(hits)


def show(title: str, hits: np.ndarray) -> None:
    each = hits.mean(axis=0)
    print(f"{title:58} {each.mean():.3f}   ({each.min():.3f} to {each.max():.3f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--labels", type=int, default=150)
    parser.add_argument(
        "--cross-validated", action="store_true", help="intervals of the default fit; slower"
    )
    arguments = parser.parse_args()
    runs, n = arguments.simulations, arguments.labels
    print(f"{runs} simulations, {n} labels, {5 * n} rows without: share of intervals that cover")
    with threadpool_limits(1):
        for name in KINDS:
            for teacher in (False, True):
                title = f"{name}{', teacher' if teacher else ''}"
                settings = {"teacher": teacher, "cross_validated": arguments.cross_validated}
                show(title, coefficients(name, runs, n, **settings))
            if not name.endswith("three classes"):
                show(f"{name}, mean prediction, wrong model", mean_predictions(name, runs, n))


if __name__ == "__main__":
    main()
