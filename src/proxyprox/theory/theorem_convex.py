"""Guarantee of ProxyProx on a convex loss, by regularising towards the start."""

from __future__ import annotations

from proxyprox._checks import nonnegative, positive
from proxyprox.theory._checks import step_count, step_size


def convex_regularization(*, eta: float, steps: int) -> float:
    r"""Return the weight of the regulariser that the convex theorem adds to both losses.

    .. math:: \mu = \frac{1}{\eta K},

    and both losses become :math:`L + \frac{\mu}{2}\|w - w_0\|^2` and
    :math:`\hat L + \frac{\mu}{2}\|w - w_0\|^2`. Their difference is unchanged, hence δ is too.

    Parameters
    ----------
    eta : float
        Step size η.
    steps : int
        Number K of outer iterations.

    Returns
    -------
    float
        The weight μ.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> convex_regularization(eta=0.5, steps=20)
    0.1

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the theorem on
    convex losses.
    """
    return 1 / (positive("eta", eta) * step_count("steps", steps))


def convex_guarantee(
    *, eta: float, steps: int, B: float, sigma: float, delta: float, G: float = 0.0
) -> float:
    r"""Bound the expected suboptimality after ``steps`` iterations, L convex.

    With :math:`\eta \le 1/(4\delta)`, both losses regularised with
    :math:`\mu = 1/(\eta K)` and every subproblem solved to
    :math:`\mathbb{E}\|\nabla\varphi_k(w_{k+1})\|^2 \le
    \frac{1}{4\eta^2K}\mathbb{E}\|w_{k+1}-w_k\|^2 + G^2`,

    .. math::

        \mathbb{E}L\Bigl(\frac1K\sum_{k=1}^K w_k\Bigr) - L^* \le
        \frac{9B^2}{8\eta K} + 2\eta\sigma^2 + \eta K G^2.

    The 9/8 is 5/8 from the strongly convex recurrence plus 1/2 from the regulariser.

    Parameters
    ----------
    eta : float
        Step size η, at most 1/(4δ).
    steps : int
        Number K of outer iterations, one stochastic gradient of L each.
    B : float
        Root mean squared distance of the start to a minimiser, ``B² = E‖w_0 − w*‖²``.
    sigma : float
        Noise level: the stochastic gradients have variance at most σ².
    delta : float
        Similarity constant δ: the smoothness of ``L − L̂``.
    G : float, default 0.0
        Absolute part of the inner accuracy.

    Returns
    -------
    float
        Upper bound on the expected suboptimality of the mean iterate, for the loss L
        without the regulariser.

    Raises
    ------
    ValueError
        If ``eta`` exceeds 1/(4δ), or an argument is out of its range.

    Examples
    --------
    >>> convex_guarantee(eta=0.25, steps=18, B=2.0, sigma=1.0, delta=1.0)
    1.5

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the theorem on
    convex losses.
    """
    delta = nonnegative("delta", delta)
    eta = step_size(eta, delta)
    steps = step_count("steps", steps)
    B = nonnegative("B", B)
    sigma = nonnegative("sigma", sigma)
    G = nonnegative("G", G)
    # Divided in turn: eta * steps may overflow where the quotient does not.
    return 9 * B * B / 8 / eta / steps + 2 * eta * sigma * sigma + eta * G * G * steps
