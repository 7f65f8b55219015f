"""A short path from the start towards the minimum, and the secants of ``L − L̂`` along it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._samples import Samples
from proxyprox.diagnostics._survey import Survey
from proxyprox.diagnostics.interval import Interval
from proxyprox.diagnostics.noise import noise_level

DAMPING = 1e-2
"""Share of H added to the model's curvature: a step that flat, noisy directions cannot run off."""


@dataclass(frozen=True)
class Segment:
    """One step of the path.

    Attributes
    ----------
    length : float
        ``‖w_{j+1} − w_j‖``.
    delta : Interval
        ``‖∇h(w_{j+1}) − ∇h(w_j)‖ / length``: how much the losses' difference curves this way.
    H : Interval
        The same secant of the target alone.
    """

    length: float
    delta: Interval
    H: Interval


def step_along(survey: Survey, gradient: np.ndarray[Any, Any], w: Vector) -> Vector:
    """Return a damped Newton step on the model, negative curvature left out."""
    values, vectors = np.linalg.eigh(survey.A)
    # Curvature that was seen through noise may be larger by the error than it looks.
    damping = DAMPING * max(float(values[-1]), 1e-300) + survey.target.error
    damped = np.maximum(values, 0.0) + damping
    pull = survey.project(gradient[None, :])[0]
    step = survey.lift(vectors @ ((vectors.T @ pull) / damped))
    return w - from_numpy(step, like=w)


def segment(
    proxy: MeteredProxy, w: Vector, here: Samples, onward: Vector, there: Samples, confidence: float
) -> Segment:
    """Measure the secants between two points whose gradients are known."""
    step = to_numpy(onward - w).astype(np.float64)
    length = norm(step)
    each = there.gradients - here.gradients
    mean = each.mean(axis=0)
    proxied = to_numpy(proxy.gradient(onward) - proxy.gradient(w)).astype(np.float64)
    blur = 0.0
    if not here.exact:
        # ‖error of the mean‖ is about its root mean square; twice that is seldom exceeded.
        blur = 2 * math.sqrt(noise_level(each, confidence).high / len(each))
    return Segment(length, _norm(mean - proxied, blur, length), _norm(mean, blur, length))


def _norm(vector: np.ndarray[Any, Any], blur: float, length: float) -> Interval:
    met = norm(vector)
    return Interval(met / length, max(met - blur, 0.0) / length, (met + blur) / length)
