"""Where a fit begins: the intercept-only model, smoothed so that it exists for any labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyprox.problems.families import Linear, Poisson
from proxyprox.problems.glm import GLM
from proxyprox.problems.labels import as_targets
from proxyprox.sklearn._moment import Moment
from proxyprox.sklearn._proxy import LabelFree, family_link

Array = Any


def base_rate(loss: GLM, unit: float = 1.0) -> Array:
    """Return the labels' mean: class frequencies with half a label added to each, or the mean.

    Parameters
    ----------
    loss : GLM
        The labelled rows.
    unit : float
        Mean weight of the rows: a row of weight two counts as two labels.
    """
    family, weights = loss.family, unit * loss.sample_weight
    labels: Array = loss.targets
    targets = np.asarray(as_targets(loss.design, family, labels), dtype=np.float64)
    if family.outputs > 1:
        counts: Array = weights @ targets + 0.5
        return counts / counts.sum()
    total = float(weights @ targets)
    if hasattr(family, "classes"):
        return np.array([(total + 0.5) / (weights.sum() + 1)])
    mean = total / weights.sum()
    # Without a single event the log-mean would be minus infinity.
    counts_only = isinstance(family, Poisson)
    return np.array([max(mean, 0.5 / weights.sum()) if counts_only else mean])


def intercept_only(loss: GLM, base: Array) -> Array:
    """Return the parameters of the constant model; zeros where there is no intercept."""
    w = np.zeros((loss.design.width, loss.family.outputs))
    if loss.design.intercept:
        w[-1] = family_link(loss.family, base)
    return w.ravel()


def label_free(loss: GLM, moment: Moment, unit: float = 1.0) -> LabelFree:
    """Return the proxy for a labelled loss: its curvature from the labels' mean, M from inputs."""
    base = base_rate(loss, unit)
    w0 = intercept_only(loss, base)
    if not loss.design.intercept and not isinstance(loss.family, Linear):
        # The constant model is w = 0 then; of counts the larger curvature is the safe one.
        base = np.maximum(base, 1.0) if isinstance(loss.family, Poisson) else _neutral(loss)
    return LabelFree(moment, loss.family, w0, base)


def _neutral(loss: GLM) -> Array:
    return np.full(loss.family.outputs, loss.family.neutral)
