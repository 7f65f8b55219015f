"""Targets and proxies, from perfect to adversarial, on which the audit's verdicts are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import datasets as toy
from sklearn.preprocessing import StandardScaler

from experiments import datasets
from proxyprox import (
    GLM,
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)
from proxyprox.problems import MixedProxy

ROWS = 600
"""Targets are cut to this many rows: the truth takes thousands of runs."""

TUNED_ON = ("mushrooms", "breast_cancer", "synthetic_logistic")
"""The rule was mended while looking at these."""

TESTED_ON = ("a9a", "digits", "wine", "diabetes", "synthetic_poisson", "heavy_tail")
"""And tried on these afterwards."""

HELD_OUT = ("iris", "two_pictures", "next_pixel", "redundant", "friedman")
"""And on these once, at the very end."""


class Negative:
    """The proxy of the wrong sign."""

    def __init__(self, proxy: GLM) -> None:
        self.proxy, self.dim, self.zeros = proxy, proxy.dim, proxy.zeros

    def value(self, w: Any) -> float:
        return -self.proxy.value(w)

    def gradient(self, w: Any) -> Any:
        return -self.proxy.gradient(w)

    def hvp(self, w: Any, v: Any) -> Any:
        return -self.proxy.hvp(w, v)

    def hessian(self, w: Any) -> Any:
        return -self.proxy.hessian(w)


@dataclass(frozen=True)
class Case:
    """One proxy for one target."""

    dataset: str
    proxy: str

    @property
    def name(self) -> str:
        return f"{self.dataset}: {self.proxy}"


def _cut(X: Any, y: Any, seed: int = 0) -> tuple[Any, Any]:
    rows = np.random.default_rng(seed).permutation(X.shape[0])[:ROWS]
    return X[rows], y[rows]


def _patches(picture: str, seed: int) -> Any:
    """Return grey 5 × 5 patches of a picture that comes with scikit-learn, one a row."""
    grey = toy.load_sample_image(picture).mean(axis=2) / 255
    windows = np.lib.stride_tricks.sliding_window_view(grey, (5, 5)).reshape(-1, 25)
    return windows[np.random.default_rng(seed).choice(len(windows), ROWS, replace=False)]


def _held_out(name: str) -> GLM:
    if name == "iris":
        X, y = toy.load_iris(return_X_y=True)
        return softmax_regression(StandardScaler().fit_transform(X), y, l2=1e-3, batch_size=16)
    if name == "two_pictures":
        halves = [_patches(p, seed=s) for s, p in enumerate(("china.jpg", "flower.jpg"))]
        X, y = _cut(np.concatenate(halves), np.repeat([0, 1], ROWS))
        return logistic_regression(StandardScaler().fit_transform(X), y, l2=1e-3, batch_size=64)
    if name == "next_pixel":
        X = StandardScaler().fit_transform(_patches("china.jpg", seed=2))
        return linear_regression(X[:, :24], X[:, 24], l2=1e-3, batch_size=32)
    if name == "redundant":
        X, y = toy.make_classification(
            ROWS, 30, n_informative=6, n_redundant=18, flip_y=0.1, random_state=3
        )
        return logistic_regression(X / 2, y, l2=1e-3, batch_size=32)
    X, y = toy.make_friedman1(ROWS, 10, noise=1.0, random_state=4)
    X = StandardScaler().fit_transform(np.concatenate([X, X**2, X[:, :5] ** 3], axis=1))
    return linear_regression(X, (y - y.mean()) / y.std(), l2=1e-3, batch_size=64)


def target(name: str) -> GLM:
    """Return the target of that name."""
    rng = np.random.default_rng(7)
    if name in HELD_OUT:
        return _held_out(name)
    if name in ("mushrooms", "a9a"):
        data = datasets.load(name)
        X, y = _cut(data.X, data.y)
        return logistic_regression(X.toarray(), y, l2=1e-4, batch_size=64)
    if name in ("breast_cancer", "wine", "digits", "diabetes"):
        X, y = getattr(toy, f"load_{name}")(return_X_y=True)
        X, y = _cut(StandardScaler().fit_transform(X), y)
        if name == "diabetes":
            return linear_regression(X, (y - y.mean()) / y.std(), l2=1e-3, batch_size=32)
        if name == "wine":
            return softmax_regression(X, y, l2=1e-3, batch_size=32)
        if name == "digits":
            return logistic_regression(X, y % 2, l2=1e-3, batch_size=256)
        return logistic_regression(X, y, l2=1e-3, batch_size=64)
    d = {"synthetic_logistic": 40, "synthetic_poisson": 20}.get(name, 30)
    scales = np.geomspace(1, 0.05, d)
    X = rng.standard_normal((ROWS, d)) * scales
    if name == "heavy_tail":
        X = rng.standard_t(4, size=(ROWS, d)) * scales
    z = X @ (rng.standard_normal(d) / scales / np.sqrt(d))
    if name == "synthetic_poisson":
        X = np.clip(X, -2, 2) / 2
        return poisson_regression(X, rng.poisson(np.exp(np.clip(z, -2, 2))), l2=1e-3, batch_size=64)
    y = (z + rng.logistic(size=ROWS) > 0).astype(int)
    return logistic_regression(X, y, l2=1e-4, batch_size=128)


def _like(goal: GLM, X: Any) -> GLM:
    return goal.label_free(np.asarray(X))


def _inputs(goal: GLM) -> Any:
    X = goal.design.X
    return X.toarray() if scipy.sparse.issparse(X) else X


def _subsample(share: float) -> Callable[[GLM], Any]:
    return lambda t: t.subsample(max(2, round(share * t.design.rows)), rng=3)


def _unrelated(goal: GLM) -> Any:
    X = _inputs(goal)
    noise = np.random.default_rng(11).standard_normal(X.shape)
    return _like(goal, noise * np.sqrt(np.mean(X * X)))


def _permuted(goal: GLM) -> Any:
    X = _inputs(goal)
    return _like(goal, X[:, np.random.default_rng(5).permutation(X.shape[1])])


def _shifted(goal: GLM) -> Any:
    X, rng = _inputs(goal), np.random.default_rng(9)
    moved = X + 0.3 * X.std(axis=0) * rng.standard_normal(X.shape[1])
    return _like(goal, moved[: max(50, len(X) // 5)])


def _stretched(goal: GLM) -> Any:
    X, rng = _inputs(goal), np.random.default_rng(13)
    return _like(goal, X * np.exp(0.3 * rng.standard_normal(X.shape[1])))


def _noisy(goal: GLM) -> Any:
    X, rng = _inputs(goal), np.random.default_rng(17)
    return _like(goal, X + X.std() * rng.standard_normal(X.shape))


PROXIES: dict[str, Callable[[GLM], Any]] = {
    "label-free": lambda t: t.label_free(),
    "1 % of the rows": _subsample(0.01),
    "3 % of the rows": _subsample(0.03),
    "10 % of the rows": _subsample(0.1),
    "50 % of the rows": _subsample(0.5),
    "shifted data": _shifted,
    "stretched columns": _stretched,
    "noisy copies": _noisy,
    "sign-flipped": lambda t: Negative(t.label_free()),
    "unrelated data": _unrelated,
    "unrelated × 100": lambda t: MixedProxy([_unrelated(t)], [100.0]),
    "permuted columns": _permuted,
    **{
        f"label-free × {scale:g}": (lambda t, s=scale: MixedProxy([t.label_free()], [s]))
        for scale in (1e-3, 1e-2, 1e-1, 10.0, 1e2, 1e3)
    },
    "10 % × 100": lambda t: MixedProxy([_subsample(0.1)(t)], [100.0]),
}


def cases() -> list[Case]:
    """Return all cases, those the rule was tuned on first."""
    return [Case(d, p) for d in (*TUNED_ON, *TESTED_ON, *HELD_OUT) for p in PROXIES]
