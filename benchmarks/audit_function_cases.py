"""Losses given as plain functions, smooth and kinked, and proxies for them, for the audit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import proxyprox as pp

ROWS, L2 = 2000, 1e-3
BATCHES = (8, 32, 256)

# Value, slope and curvature of one row's loss, as functions of its prediction and its label.
Shape = Callable[[Any, Any], tuple[Any, Any, Any]]


def hinge(width: float) -> Shape:
    """Return the hinge loss, its corner a parabola over this width."""

    def shape(z: Any, y: Any) -> tuple[Any, Any, Any]:
        short = 1 - y * z
        bent = np.where(short < width, np.maximum(short, 0) ** 2 / (2 * width), short - width / 2)
        inside = (short > 0) & (short < width)
        return bent, -y * np.clip(short / width, 0, 1), inside / width

    return shape


def soft_hinge(width: float) -> Shape:
    """Return the hinge loss, its corner a softplus of this width."""

    def shape(z: Any, y: Any) -> tuple[Any, Any, Any]:
        short = np.clip((1 - y * z) / width, -500, 500)
        p = 1 / (1 + np.exp(-short))
        return width * np.logaddexp(0, short), -y * p, p * (1 - p) / width

    return shape


def huber(width: float) -> Shape:
    """Return Huber's loss: a parabola up to this width, linear beyond."""

    def shape(z: Any, y: Any) -> tuple[Any, Any, Any]:
        r = z - y
        size = np.abs(r)
        value = np.where(size <= width, r * r / 2, width * (size - width / 2))
        return value, np.clip(r, -width, width), (size <= width) * 1.0

    return shape


def deviation(width: float) -> Shape:
    """Return the absolute deviation, its corner a hyperbola of this width."""

    def shape(z: Any, y: Any) -> tuple[Any, Any, Any]:
        r = z - y
        size = np.sqrt(width**2 + r * r)
        return size - width, r / size, width**2 / size**3

    return shape


def logistic(z: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the logistic loss."""
    p = 1 / (1 + np.exp(np.clip(y * z, -500, 500)))
    return np.logaddexp(0, -y * z), -y * p, p * (1 - p)


# Shape, size of the labels (0: two classes), parameters, seed of the rows.
MADE_ON: dict[str, tuple[Shape, float, int, int]] = {
    "hinge, 0.5": (hinge(0.5), 0, 10, 3),
    "hinge, 0.1": (hinge(0.1), 0, 10, 3),
    "huber, 1": (huber(1.0), 1, 10, 3),
    "huber, 0.2": (huber(0.2), 1, 10, 3),
    "huber, 0.2, far": (huber(0.2), 5, 10, 3),
    "deviation, 0.1": (deviation(0.1), 1, 10, 3),
    "deviation, 0.5, far": (deviation(0.5), 5, 10, 3),
    "logistic": (logistic, 0, 10, 3),
}
"""The rule for doubt was made on these."""

NOT_USED = {
    "hinge, 0.3, 6 parameters": (hinge(0.3), 0, 6, 11),
    "soft hinge, 0.1": (soft_hinge(0.1), 0, 8, 12),
    "soft hinge, 0.5": (soft_hinge(0.5), 0, 8, 12),
    "huber, 0.5, 14 parameters": (huber(0.5), 1, 14, 13),
    "deviation, 0.3": (deviation(0.3), 2, 8, 14),
    "deviation, 2": (deviation(2.0), 2, 8, 14),
    "logistic, 14 parameters": (logistic, 0, 14, 15),
}
"""And tried on these, twice: what was mended in between is said in the documentation."""


class Rows:
    """The mean of a shape over rows, with a little l2; columns are as many points at once."""

    def __init__(self, shape: Shape, X: Any, y: Any, scale: float = 1.0) -> None:
        self.shape, self.X, self.y, self.scale = shape, X, y, scale
        self._outer = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)

    def value(self, W: Any) -> Any:
        y = self.y if W.ndim == 1 else self.y[:, None]
        fit = self.shape(self.X @ W, y)[0].mean(axis=0)
        return self.scale * (fit + L2 / 2 * (W * W).sum(axis=0))

    def gradient(self, W: Any, rows: Any = slice(None)) -> Any:
        X, y = self.X[rows], self.y[rows] if W.ndim == 1 else self.y[rows][:, None]
        return self.scale * (X.T @ self.shape(X @ W, y)[1] / len(X) + L2 * W)

    def hessians(self, W: Any) -> Any:
        """Return the Hessian at every column."""
        d = self.X.shape[1]
        bent = self.shape(self.X @ W, self.y[:, None])[2].T @ self._outer / len(self.X)
        return self.scale * (bent.reshape(-1, d, d) + L2 * np.eye(d))

    def scaled(self, scale: float) -> Rows:
        return Rows(self.shape, self.X, self.y, scale)

    def objective(self, batch: int) -> pp.FunctionObjective:
        """Return the loss as a user would give it: functions of w and of rows drawn."""
        return pp.FunctionObjective(
            self.gradient,
            value=lambda w: float(self.value(w)),
            sample=lambda rng: rng.integers(len(self.X), size=batch),
        )

    def proxy(self) -> pp.FunctionProxy:
        return pp.FunctionProxy(
            lambda w: float(self.value(w)),
            lambda w: self.gradient(w),
            hessian=lambda w: self.hessians(w[:, None])[0],
        )


def target(name: str) -> Rows:
    """Return the target of that name."""
    shape, size, d, seed = (MADE_ON | NOT_USED)[name]
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1, 0.1, d)
    X = rng.standard_normal((ROWS, d)) * scales
    z = X @ (rng.standard_normal(d) / scales)
    classes = np.where(z + rng.logistic(size=ROWS) > 0, 1.0, -1.0)
    return Rows(shape, X, classes if size == 0 else size * (z + rng.standard_t(2.5, ROWS) / 2))


def proxies(goal: Rows) -> dict[str, Rows]:
    """Return proxies from good to hostile."""
    rng = np.random.default_rng(5)
    tenth, few = rng.permutation(ROWS)[:200], rng.permutation(ROWS)[:40]
    part = Rows(goal.shape, goal.X[tenth], goal.y[tenth])
    noise = goal.X.std() * rng.standard_normal(part.X.shape)
    return {
        "10 % of the rows": part,
        "2 % of the rows": Rows(goal.shape, goal.X[few], goal.y[few]),
        "noisy copies": Rows(goal.shape, part.X + noise, part.y),
        "10 % × 100": part.scaled(100.0),
        "sign-flipped": part.scaled(-1.0),
    }
