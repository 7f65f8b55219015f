"""Which rows are worth a label: scores that become probabilities of being drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from proxyprox._checks import message, require_takes
from proxyprox.problems.design import Design
from proxyprox.sklearn._bought import last_step
from proxyprox.sklearn._moment import moment_of

Array = Any
Criterion = Callable[[Any, Any], Array]
"""A function of the fitted estimator and the inputs that returns a score ≥ 0 for each row."""


def uncertainty(estimator: Any, X: Any) -> Array:
    """Return the standard deviation of each row's label under the fitted classifier."""
    if not hasattr(estimator, "predict_proba"):
        remedy = 'Use "leverage" for a regressor.'
        raise TypeError(message("criterion", "uncertainty", "for a classifier", remedy))
    p = estimator.predict_proba(X)
    return np.sqrt(np.maximum(1 - np.sum(p * p, axis=1), 0.0))


def leverage(estimator: Any, X: Any) -> Array:
    """Return ``√(xᵀM⁻¹x)``: how much a row moves the fit, whatever its label."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        X = estimator[:-1].transform(X)
    X = np.asarray(X) if hasattr(X, "iloc") else X
    design = Design(X, intercept=last_step(estimator).fit_intercept)
    moment = moment_of(design)
    # A little of the top: directions hardly present must not swallow the budget.
    scaled = moment.vectors / np.sqrt(moment.values + 1e-3 * moment.top)
    return np.linalg.norm(np.asarray(design.predict(scaled)), axis=1)


NAMED: dict[str, Criterion | None] = {
    "uniform": None,
    "uncertainty": uncertainty,
    "leverage": leverage,
}


def criterion_of(given: Any) -> Criterion | None:
    """Return the criterion of a name, or a user's own function."""
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if callable(given) and not isinstance(given, type):
        require_takes("criterion", given, ("estimator", "X"))
        return given  # type: ignore[no-any-return]
    allowed = f"one of {', '.join(NAMED)}, or a function (estimator, X) -> scores"
    raise ValueError(message("criterion", given, allowed))


def probabilities(scores: Array, rows: int, floor: float) -> Array:
    """Return the chance of each row to be drawn: the scores' share, and a floor for all."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (rows,) or not np.isfinite(scores).all() or (scores < 0).any():
        got = f"scores of shape {scores.shape} from {scores.min():g}"
        raise ValueError(message("criterion", got, f"{rows} finite scores, zero or more"))
    total = float(scores.sum())
    uniform = np.full(rows, 1 / rows)
    return uniform if total == 0 else (1 - floor) * scores / total + floor * uniform
