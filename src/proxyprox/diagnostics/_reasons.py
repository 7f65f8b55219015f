"""Why an audit says what it says, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proxyprox.diagnostics._gather import Stop
from proxyprox.diagnostics._report import CostRatio, PointAudit, Suggestion
from proxyprox.diagnostics.prediction import Prediction, counted
from proxyprox.diagnostics.scaling import best_weights
from proxyprox.diagnostics.verdict import Verdict

UNITS = 4.0
"""Factor in curvature, two in the columns, beyond which other units are suspected."""

PENALIZED = "The penalty cancels in δ; the rehearsal is of the smooth part alone."
IN_HAND = (
    "All rows of the target are in hand here: they can also be fitted directly (ERM). The audit "
    "is about gradients that are still to be paid."
)
_NOT_CONVEX = (
    "The target is not convex at a point visited: the rehearsal leaves out the directions that "
    "curve downwards."
)
_SLOW_PROXY = (
    "A target gradient takes less time than a proxy gradient here: the proxy pays only if target "
    "gradients cost something besides time."
)


def reasons(
    verdict: Verdict,
    told: Prediction,
    points: Sequence[PointAudit],
    stops: Sequence[Stop],
    scale: Suggestion,
    mixture: Suggestion | None,
    cost: CostRatio,
    *,
    sure: bool = True,
) -> tuple[str, ...]:
    """Return the sentences that go with a verdict; no guess at the units where it is unsure."""
    # Scale and mixture are measured at the end of the path: so is what they are compared with.
    delta, H = points[-1].delta.estimate, max(points[-1].H.estimate, 1e-300)
    said = [_similar(points)]
    at_end = "" if len(points) == 1 else "at the end of the path "
    if verdict is Verdict.USE_SCALED:
        said.append(
            "The proxy has the right shape but the wrong size. "
            f"The scale is {scale.weights[0]:.4g}; {at_end}it brings δ from {delta:.3g} to "
            f"{scale.delta.estimate:.3g}, {scale.delta.estimate / H:.2g} of H."
        )
    if verdict is Verdict.USE_MIXED and mixture is not None:
        shown = ", ".join(f"{weight:.3g}" for weight in mixture.weights)
        said.append(
            f"The weights are {shown}; {at_end}they bring δ from {delta:.3g} to "
            f"{mixture.delta.estimate:.3g}. This proxy alone would take "
            f"{counted(told.rehearsed_proxyprox.steps)} target gradients."
        )
    if verdict is Verdict.DO_NOT_USE and scale.weights[0] == 0.0:
        end = stops[-1].survey
        turned, least = best_weights(end.A, [-end.P[0]])
        if turned[0] > 0 and least < 0.8 * H:
            said.append(
                f"Its negative would be closer (δ = {least:.3g} at scale {turned[0]:.3g}): check "
                "the proxy's sign."
            )
    if verdict is Verdict.DO_NOT_USE and sure:
        said.extend(_units(points, stops))
    if sure and min(point.mu.high for point in points) < 0:
        said.append(_NOT_CONVEX)  # where it is more than a trace, the doubts say so
    if cost.unit == "seconds" and cost.ratio < 1:
        said.append(_SLOW_PROXY)
    return tuple(said)


def _similar(points: Sequence[PointAudit]) -> str:
    """Say how large δ is: at the end of the path, and where it was largest, or at the start."""
    shares = _shares(points)
    last, worst = shares[-1], int(np.argmax(shares))
    where = f" {_place(len(points) - 1, len(points))}"
    other = worst if worst < len(points) - 1 else 0
    also = f"{_times(shares[other])} {_place(other, len(points))}"
    if last <= 1 < shares[worst]:
        return (
            f"δ is {_times(last)} of H{where}, but {also}: there the proxy's curvature is "
            "further from the target's than no curvature at all."
        )
    # What differs by less than a tenth reads the same.
    alike = max(last, shares[other]) <= max(1.1 * min(last, shares[other]), 1e-6)
    where += "" if alike else f" ({also})"
    if last > 1:
        return (
            f"δ is {_times(last)} of H{where}: as it is, the proxy's curvature is "
            "further from the target's than no curvature at all."
        )
    rest = "next to nothing" if last < 1e-6 else "that share"
    return (
        f"δ is {_times(last)} of H{where}: the proxy leaves {rest} of the target's "
        "curvature to the target's gradients."
    )


def _shares(points: Sequence[PointAudit]) -> list[float]:
    return [point.delta.estimate / max(point.H.estimate, 1e-300) for point in points]


def _times(value: float) -> str:
    """Return two digits to read: no powers of ten where a number will do."""
    return f"{float(f'{value:.2g}'):,.0f}" if 100 <= value < 1e7 else f"{value:.2g}"


def _place(j: int, count: int) -> str:
    if j == 0:
        return "at the start"
    return "at the end of the path" if j == count - 1 else "on the way"


def _units(points: Sequence[PointAudit], stops: Sequence[Stop]) -> list[str]:
    """Say so when the sizes of the proxy's curvature look like other units, column by column."""
    shares = _shares(points)
    worst = int(np.argmax(shares))
    found = stops[worst].survey
    own, other = np.diag(found.A), np.diag(found.P[0])
    if found.basis is not None:
        own, other = (np.linalg.eigvalsh(M)[-1:] for M in (found.A, found.P[0]))
    known = own > 1e-12 * max(float(own.max()), 1e-300)
    if not known.any() or np.any(other <= 0):
        return []
    ratios = np.where(known, other / np.where(known, own, 1.0), 1.0)
    large, median = int(np.argmax(ratios)), float(np.median(ratios[known]))
    if shares[worst] > 1 and ratios[large] > UNITS:
        along = f" along parameter {large} (counted from 0)" if found.basis is None else ""
        much = f"{_times(ratios[large])} times as much as the target{along}"
    elif median < 1 / UNITS:
        much = f"{_times(median)} times as much as the target along the median parameter"
    else:
        return []
    return [
        f"{_place(worst, len(points)).capitalize()} the proxy curves {much}: its columns, or the "
        "loss as a whole, seem to be in other units. Scale and centre them as the target's, and "
        "audit again."
    ]
