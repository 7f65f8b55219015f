"""The estimators' parameters, checked when ``fit`` is called, as scikit-learn asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from proxyprox._checks import flag, message, nonnegative, whole


class Settings(NamedTuple):
    """Parameters of a fit, in the form the fitting code wants them.

    Attributes
    ----------
    alphas : tuple of float or None
        Strengths to try; None for a grid made from the data.
    l1_ratio : float
        Share of the L1 norm.
    steps : int, "cv" or "converged"
        How far to walk.
    max_steps : int
        Longest walk that cross-validation tries.
    power : float or None
        λ of the paired correction; None tunes it, and cross-validation decides whether to use it.
    cv, seed
        How the labelled rows are split.
    intercept : bool
        Whether a constant is fitted.
    average : bool
        Whether points of the walk are averaged by their held-out likelihood.
    """

    alphas: tuple[float, ...] | None
    l1_ratio: float
    steps: int | str
    max_steps: int
    power: float | None
    cv: Any
    seed: Any
    intercept: bool
    average: bool


def settings_of(estimator: Any) -> Settings:
    """Check an estimator's parameters.

    Parameters
    ----------
    estimator : ProxyGLM
        The estimator.
    """
    ratio = nonnegative("l1_ratio", estimator.l1_ratio)
    if ratio > 1:
        raise ValueError(message("l1_ratio", ratio, "a number in [0, 1]"))
    steps = estimator.n_steps
    if isinstance(steps, str):
        if steps not in ("cv", "converged"):
            raise ValueError(message("n_steps", steps, 'a whole number, "cv" or "converged"'))
    else:
        steps = whole("n_steps", steps, 0)
    flag("warm_start", estimator.warm_start)
    power = estimator.power
    if isinstance(power, str):
        if power != "tuned":
            raise ValueError(message("power", power, 'a number in [0, 1] or "tuned"'))
        power = None
    elif nonnegative("power", power) > 1:
        raise ValueError(message("power", power, 'a number in [0, 1] or "tuned"'))
    return Settings(
        _alphas(estimator.alpha),
        ratio,
        steps,
        whole("max_steps", estimator.max_steps),
        power,
        estimator.cv,
        estimator.random_state,
        flag("fit_intercept", estimator.fit_intercept),
        flag("average", estimator.average),
    )


def _alphas(alpha: Any) -> tuple[float, ...] | None:
    if isinstance(alpha, str):
        if alpha != "auto":
            allowed = 'zero or more, a sequence of such numbers, or "auto"'
            raise ValueError(message("alpha", alpha, allowed))
        return None
    if isinstance(alpha, Sequence) or np.ndim(alpha) > 0:
        if len(alpha) == 0:
            raise ValueError(message("alpha", alpha, "one strength at least"))
        return tuple(nonnegative("alpha", each) for each in alpha)
    return (nonnegative("alpha", alpha),)
