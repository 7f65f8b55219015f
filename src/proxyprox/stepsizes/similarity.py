"""The local similarity δ, from secants of ``h = L − L̂``."""

from __future__ import annotations

from proxyprox.stepsizes.base import Memory

FORGET = 0.8
"""Weight of the past in the running mean of curvatures."""

FADE = 0.9
"""How fast the largest curvature seen is forgotten."""


def with_curvature(memory: Memory, curvature: float) -> Memory:
    r"""Update δ with the curvature of h along the last step.

    .. math:: q = \frac{\langle \nabla h(w_k) - \nabla h(w_{k-1}), w_k - w_{k-1}\rangle}
                       {\|w_k - w_{k-1}\|^2},\qquad
              \delta = \max\{0, \bar q, \text{peak}\}

    Both gradients are of the newest batch, which is independent of the step: q is unbiased for
    the curvature of h between the two points. (On the batch that made the step it would not be.)
    Only its positive part can make a step overshoot, since h lies below its tangent plane plus
    ``q/2 ‖s‖²``; a proxy that is too curved only makes it short. The mean alone is too slow where
    the path turns into a direction in which the proxy is flat: the fading peak is kept too.

    How fast ∇h changes along the path, the ``rate``, counts both signs.
    """
    mean = FORGET * memory["mean"] + curvature
    weight = FORGET * memory["weight"] + 1
    peak = max(curvature, FADE * memory["peak"])
    trough = min(curvature, FADE * memory["trough"])
    return {
        **memory,
        "mean": mean,
        "weight": weight,
        "peak": peak,
        "trough": trough,
        "delta": max(0.0, mean / weight, peak),
        "rate": max(abs(mean) / weight, peak / 2, -trough / 2),
    }
