"""How much of the newest difference to believe: a scalar Kalman filter for ∇h."""

from __future__ import annotations

from proxyprox._arrays import square
from proxyprox.stepsizes.base import Memory

LEAST = 3
"""The newest of k differences weighs at least 3/(k + 3)."""


def with_gain(memory: Memory, k: int) -> Memory:
    r"""Update the weight a of the newest difference and the error N of the weighted mean.

    .. math:: m \leftarrow m + a\,(d_k - m),\qquad
              N^- = (\sqrt N + \delta\|w_k - w_{k-1}\|)^2,\qquad
              a = \frac{N^-}{N^- + v},\qquad N = (1-a)^2 N^- + a^2 v

    ``d_k = g_k − ∇L̂(w_k)`` has the mean ∇h(w_k) and the noise v; since the last step ∇h has moved
    by at most δ times its length. With these a is the weight of least mean squared error: 1 while
    the iterate runs (``N⁻ ≫ v``: the paper's plain correction), 1/k where ∇h stands still (δ = 0:
    the mean of all differences). In between it decays whenever ``η < 1/δ``: noise moves the iterate
    by at most ``η a √v``, hence ∇h by ``c a √v`` with ``c = δη < 1``, and
    ``a = N⁻/(N⁻ + v)`` with ``N⁻ = c²a v/(1 − …)`` has no positive fixed point.
    The floor forgets a start that was noisier, or an N that was too hopeful.
    """
    if k == 0:
        return {**memory, "gain": 1.0, "error": memory["noise"]}
    noise, drift = memory["noise"], memory["rate"] * memory["moved"]
    before = square(memory["error"] ** 0.5 + drift)
    gain = max(before / (before + noise) if before > 0 else 0.0, LEAST / (k + LEAST))
    if noise == 0:
        gain = 1.0
    return {**memory, "gain": gain, "error": (1 - gain) ** 2 * before + gain**2 * noise}
