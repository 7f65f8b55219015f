"""Why an audit says what it says, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from proxyprox.diagnostics._report import CostRatio, PointAudit, Suggestion
from proxyprox.diagnostics._survey import Survey
from proxyprox.diagnostics.prediction import Prediction, counted
from proxyprox.diagnostics.scaling import best_weights
from proxyprox.diagnostics.verdict import Verdict

PENALIZED = "The penalty cancels in δ; the rehearsal is of the smooth part alone."
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
    end: Survey,
    scale: Suggestion,
    mixture: Suggestion | None,
    cost: CostRatio,
) -> tuple[str, ...]:
    """Return the sentences that go with a verdict."""
    # Scale and mixture are measured at the end of the path: so is what they are compared with.
    delta, H = points[-1].delta.estimate, max(points[-1].H.estimate, 1e-300)
    share = "next to nothing" if delta < 1e-6 * H else "that share"
    said = [
        f"δ is {delta / H:.2g} of H: the proxy leaves {share} of the target's curvature to the "
        "target's gradients."
        if delta <= H
        else f"δ is {delta / H:.2g} of H: as it is, the proxy's curvature is further from the "
        "target's than no curvature at all.",
        f"Rehearsed to ε = {told.epsilon:.2g}: tuned SGD {counted(told.rehearsed_sgd.steps)} "
        f"target gradients, tuned ProxyProx {counted(told.rehearsed_best.steps)}.",
    ]
    if verdict is Verdict.USE_SCALED:
        said.append(
            f"The scale is {scale.weights[0]:.4g}; it brings δ from {delta:.3g} to "
            f"{scale.delta.estimate:.3g}."
        )
    if verdict is Verdict.USE_MIXED and mixture is not None:
        shown = ", ".join(f"{weight:.3g}" for weight in mixture.weights)
        said.append(
            f"The weights are {shown}; they bring δ from {delta:.3g} to "
            f"{mixture.delta.estimate:.3g}. This proxy alone would take "
            f"{counted(told.rehearsed_proxyprox.steps)} target gradients."
        )
    if verdict is Verdict.DO_NOT_USE and scale.weights[0] == 0.0:
        turned, least = best_weights(end.A, [-end.P[0]])
        if turned[0] > 0 and least < 0.8 * H:
            said.append(
                f"Its negative would be closer (δ = {least:.3g} at scale {turned[0]:.3g}): check "
                "the proxy's sign."
            )
    if min(point.mu.high for point in points) < 0:
        said.append(_NOT_CONVEX)
    if cost.unit == "seconds" and cost.ratio < 1:
        said.append(_SLOW_PROXY)
    return tuple(said)
