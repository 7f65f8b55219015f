"""The walk of an audit: gradients and curvature at the start and along a short path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._checks import has
from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._alarm import proxy_alarm, target_alarm
from proxyprox.diagnostics._budget import Shares
from proxyprox.diagnostics._curvature import Source
from proxyprox.diagnostics._path import Segment, segment, step_along
from proxyprox.diagnostics._samples import Sampler, Samples
from proxyprox.diagnostics._stride import stride
from proxyprox.diagnostics._survey import Survey, survey
from proxyprox.diagnostics.rehearsal import QuadraticModel
from proxyprox.problems import Problem


@dataclass(frozen=True)
class Stop:
    """One point of the walk and what was seen there.

    Attributes
    ----------
    w : array
        The point.
    samples : Samples
        Gradients of the audit's batches.
    gradient : array
        The target's gradient, as good as it is known.
    averaged : int
        Batches in that gradient; 0 when it is exact.
    survey : Survey
        The curvature.
    """

    w: Vector
    samples: Samples
    gradient: np.ndarray[Any, Any]
    averaged: int
    survey: Survey


@dataclass(frozen=True)
class Evidence:
    """All that was measured: the start and the path, and the secants between neighbours."""

    stops: tuple[Stop, ...]
    segments: tuple[Segment, ...]
    asked: int
    """Points that were to be visited; there are fewer stops where the path ended early."""
    alarm: str = ""
    """Why the walk ended early, where that leaves nothing to predict."""

    def model(self) -> QuadraticModel:
        """Return the target's quadratic model around the end of the path, as the start sees it.

        Near the minimum is where a run spends most of its steps, and there the noise is not what
        it is at the start. The start's error is the path walked and what is left to walk.
        """
        end = self.stops[-1]
        walked = to_numpy(self.stops[0].w - end.w).astype(np.float64)
        back, left = end.survey.project(np.stack([walked, end.gradient]))
        H = [max(float(stop.survey.target.values[-1]), 0.0) for stop in (self.stops[0], end)]
        return QuadraticModel(
            A=end.survey.A,
            walked=back,
            gradient=left,
            residuals=end.survey.project(end.samples.residuals),
            averaged=end.averaged,
            growth=self._growth(back),
            bend=(max(H) - min(H)) / max(*H, 1e-300),
        )

    def _growth(self, back: np.ndarray[Any, Any]) -> float:
        """Return κ of ``E‖(A_b − A)e‖² ≈ κ eᵀAe tr A``, from the batches seen at both ends."""
        start, end = self.stops[0], self.stops[-1]
        A = end.survey.A
        walked = float(back @ A @ back) * float(np.trace(A))
        if len(start.samples.gradients) < 2 or walked <= 0:
            return 0.0
        apart = end.survey.project(start.samples.residuals - end.samples.residuals)
        return float(np.sum(apart**2)) / (len(apart) - 1) / walked


def gather(
    problem: Problem,
    sampler: Sampler,
    source: Source,
    proxies: Sequence[MeteredProxy],
    start: Vector,
    shares: Shares,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> Evidence:
    """Visit the points and measure at each."""
    failure = (1 - confidence) / 2

    def visit(w: Vector, share: int) -> Stop:
        samples = sampler.at(w)
        gradient, averaged = _gradient(sampler, samples, w)
        # What a run has to undo: the gradient here, and the way back to the start.
        back = to_numpy(start - w).astype(np.float64)
        pull = from_numpy(_unit(gradient) + _unit(back), like=w)
        found = survey(
            source, proxies, w, share=share, failure=failure, looks=len(shares.points), rng=rng,
            direction=pull,
        )  # fmt: skip
        return Stop(w, samples, gradient, averaged, found)

    proxy_alarm(proxies, start, start)
    stops, segments = [visit(start, shares.points[0])], []
    alarm = target_alarm(stops[0].survey, problem, start, start)
    for share in shares.points[1:]:
        here = stops[-1]
        if alarm:
            break
        # The start's curvature serves the whole path: its points only have to lie nearby.
        wanted = step_along(stops[0].survey, here.gradient, here.w)
        trial = stride(
            sampler, here.samples, here.gradient, here.w, wanted,
            probes=shares.probes, exact=source.exact_products,
        )  # fmt: skip
        if trial is None or not np.any(to_numpy(trial - here.w)):
            break
        alarm = proxy_alarm(proxies, trial, start)
        if alarm:
            break
        there = visit(trial, share)
        alarm = target_alarm(there.survey, problem, trial, start)
        segments.append(segment(proxies[0], here.w, here.samples, trial, there.samples, confidence))
        stops.append(there)
    return Evidence(tuple(stops), tuple(segments), len(shares.points), alarm)


def _unit(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    length = norm(vector)
    return vector / length if length > 0 else vector


def _gradient(sampler: Sampler, samples: Samples, w: Vector) -> tuple[np.ndarray[Any, Any], int]:
    """Return the gradient at a point: exact for one more access, where that is on offer."""
    objective = sampler.target.objective
    if samples.exact:
        return samples.mean, 0
    if has(objective, "everything") and not has(objective, "epsilon"):
        full = sampler.target.gradient(w, objective.everything(), whole=True)
        return to_numpy(full).astype(np.float64), 0
    return samples.mean, len(samples.gradients)
