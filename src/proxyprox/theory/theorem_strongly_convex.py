"""Guarantee of ProxyProx on a strongly convex loss."""

from __future__ import annotations

import math

from proxyprox._checks import nonnegative, positive
from proxyprox.theory._checks import step_count, step_size


def strongly_convex_guarantee(
    *,
    eta: float,
    steps: int,
    mu: float,
    B: float,
    sigma: float,
    delta: float,
    G: float = 0.0,
) -> float:
    r"""Bound the expected suboptimality after ``steps`` iterations, L strongly convex.

    With :math:`\eta \le 1/(4\delta)` and every subproblem solved to
    :math:`\mathbb{E}\|\nabla\varphi_k(w_{k+1})\|^2 \le
    \frac{\mu}{4\eta}\mathbb{E}\|w_{k+1}-w_k\|^2 + G^2`, the average of
    :math:`w_1, \dots, w_K` with weights :math:`(1+2\eta\mu/5)^{k-1}` satisfies

    .. math::

        \mathbb{E}L(\bar w_K) - L^* \le \frac{5B^2}{8\eta}
        \Bigl(1 + \frac{2\eta\mu}{5}\Bigr)^{1-K} + 2\eta\sigma^2 + \frac{G^2}{\mu}.

    Every constant follows from the proof. In one displayed step of it, Young's inequality
    prints :math:`\|\nabla\varphi_k\|` without its square; the line after has it right.

    Parameters
    ----------
    eta : float
        Step size η, at most 1/(4δ).
    steps : int
        Number K of outer iterations, one stochastic gradient of L each.
    mu : float
        Strong convexity μ > 0 of the loss L.
    B : float
        Root mean squared distance of the start to the minimiser, ``B² = E‖w_0 − w*‖²``.
    sigma : float
        Noise level: the stochastic gradients have variance at most σ².
    delta : float
        Similarity constant δ: the smoothness of ``L − L̂``.
    G : float, default 0.0
        Absolute part of the inner accuracy.

    Returns
    -------
    float
        Upper bound on ``E L(w̄_K) − L*``.

    Raises
    ------
    ValueError
        If ``eta`` exceeds 1/(4δ), or an argument is out of its range.

    Examples
    --------
    >>> strongly_convex_guarantee(eta=0.25, steps=1, mu=1.0, B=2.0, sigma=1.0, delta=1.0, G=0.5)
    10.75

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the theorem on
    strongly convex losses.
    """
    delta = nonnegative("delta", delta)
    eta = step_size(eta, delta)
    steps = step_count("steps", steps)
    mu = positive("mu", mu)
    B = nonnegative("B", B)
    sigma = nonnegative("sigma", sigma)
    G = nonnegative("G", G)
    # The power is taken through exp and log1p: it cannot overflow, and keeps its digits for
    # tiny eta * mu. A decay of zero is returned as such, so that inf * 0 cannot arise.
    decay = math.exp(-(steps - 1) * math.log1p(2 * eta * mu / 5))
    start = 5 * B * B / (8 * eta) * decay if decay > 0 else 0.0
    return start + 2 * eta * sigma * sigma + G * G / mu
