"""What speaks against a rehearsal: a path too short, or curvature that does not explain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from proxyprox._arrays import from_numpy, norm, to_numpy
from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._along import TOO_LARGE
from proxyprox.diagnostics._curvature import Source, proxy_product
from proxyprox.diagnostics._gather import Evidence, Stop
from proxyprox.diagnostics._report import PointAudit
from proxyprox.diagnostics.verdict import Verdict

Matrix = np.ndarray[Any, Any]

UNEXPLAINED = 0.5
"""Share of a gradient's change along the path beyond which curvature has not explained it.

The mean of the Hessians at both ends explains it to third order: smooth losses whose curvature
halves on the way stay below 0.3. It is a half and more where curvature sits in kinks between.
"""

DOWNWARDS = 0.05
"""Share of H by which a target may curve downwards and still be rehearsed as a convex one."""

_REMEDY = (
    "Take larger batches and a larger budget, or a start nearer to the minimum, and audit again; "
    "or run with minimize(..., safeguard=True), which has SGD run along on the same samples."
)


def doubts(
    leaning: Verdict,
    evidence: Evidence,
    source: Source,
    proxies: Sequence[MeteredProxy],
    shares: Sequence[float],
) -> tuple[str, ...]:
    """Return why the rehearsal is not to be trusted; nothing where it is.

    Parameters
    ----------
    leaning : Verdict
        What the rehearsal says.
    evidence : Evidence
        The points visited.
    source : Source
        Where the target's curvature came from.
    proxies : sequence
        The proxy in question first.
    shares : sequence of float
        δ/H at every point, for the proxy as it is.
    """
    if len(evidence.stops) == 1:
        if evidence.asked == 1 or not np.any(evidence.stops[0].gradient):
            return ()
        return (
            "Only one point could be visited, the start: along the step from there no lower one "
            f"was found that the batches tell from noise. {_REMEDY}",
        )
    said = []
    pairs = list(pairwise(evidence.stops))
    target = max(_of_target(a, b, source) for a, b in pairs)
    if target > UNEXPLAINED:
        said.append(_words("target's", target))
    # A proxy further from the target than none, in other units mostly, need not be understood.
    refused = leaning is Verdict.DO_NOT_USE and max(shares) > TOO_LARGE
    proxied = max(_of_proxy(a, b, proxies[0]) for a, b in pairs)
    if proxied > UNEXPLAINED and not refused:
        said.append(_words("proxy's", proxied))
    return (*said, f"The rehearsal takes both for quadratic. {_REMEDY}") if said else ()


def not_convex(points: Sequence[PointAudit]) -> tuple[str, ...]:
    """Return the doubt that goes with a target that clearly curves downwards, as networks do."""
    worst = min(points, key=lambda point: point.mu.high / max(point.H.estimate, 1e-300))
    if worst.mu.high >= -DOWNWARDS * worst.H.estimate:
        return ()
    return (
        "The target is not convex, as those of networks are not: it curves downwards at a point "
        f"visited, by {-worst.mu.high:.3g} where H = {worst.H.estimate:.3g}. The rehearsal leaves "
        "such directions out. Compare short runs with and without the proxy instead.",
    )


def beyond_doubt(leaning: Verdict, evidence: Evidence) -> bool:
    """Tell whether a proxy is refused because it curves downwards at every point visited.

    However wrong the rehearsal, no such proxy is better than none.
    """
    return leaning is Verdict.DO_NOT_USE and all(
        bool(np.linalg.eigvalsh(stop.survey.P[0])[-1] <= 0) for stop in evidence.stops
    )


def _words(whose: str, share: float) -> str:
    return (
        f"The curvature measured does not explain the path: {min(share, 1.0):.0%} of the change of "
        f"the {whose} gradient between two points is not what the Hessians there make of it. They "
        "change in between, as those of losses with kinks do, or hang on a few rows of a batch."
    )


def _of_target(a: Stop, b: Stop, source: Source) -> float:
    """Return the share of the target's change that the Hessians at both ends do not explain."""
    if a.survey.basis is not None or b.survey.basis is not None:
        return 0.0
    step = to_numpy(b.w - a.w).astype(np.float64)
    each, blur = b.samples.gradients - a.samples.gradients, 0.0
    if not source.exact_products:
        # Secants and gradients of the same batches: no noise between them.
        change = each[: source.count].mean(axis=0)
    elif a.averaged == 0 and b.averaged == 0:
        change = b.gradient - a.gradient
    else:
        change = each.mean(axis=0)
        blur = 2 * math.sqrt(float(each.var(axis=0, ddof=1).sum()) / len(each))
    sizes = [norm(stop.gradient) for stop in (a, b)]
    return _unexplained(change, (a.survey.A + b.survey.A) / 2 @ step, max(sizes), blur)


def _of_proxy(a: Stop, b: Stop, proxy: MeteredProxy) -> float:
    """Return the same share of the proxy's change; its products cost the target nothing."""
    step = b.w - a.w
    ends = [to_numpy(proxy.gradient(stop.w)).astype(np.float64) for stop in (a, b)]
    images = [_image(proxy, stop, step) for stop in (a, b)]
    size = max(norm(gradient) for gradient in ends)
    return _unexplained(ends[1] - ends[0], (images[0] + images[1]) / 2, size, 0.0)


def _image(proxy: MeteredProxy, stop: Stop, step: Any) -> Matrix:
    if stop.survey.basis is None:
        return np.asarray(stop.survey.P[0] @ to_numpy(step).astype(np.float64))
    length = norm(to_numpy(step))
    unit = from_numpy(to_numpy(step).astype(np.float64) / length, like=stop.w)
    return np.asarray(length * to_numpy(proxy_product(proxy, stop.w)(unit)).astype(np.float64))


def _unexplained(change: Matrix, told: Matrix, gradients: float, blur: float) -> float:
    size = max(norm(change), norm(told))
    # A change lost in the rounding of the gradients tells nothing.
    if size <= 1e-4 * gradients:
        return 0.0
    return max(norm(change - told) - blur, 0.0) / size
