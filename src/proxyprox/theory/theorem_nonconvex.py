"""Guarantee of ProxyProx on a smooth loss that need not be convex."""

from __future__ import annotations

from proxyprox._checks import nonnegative
from proxyprox.theory._checks import step_count, step_size

PRINTED_NOISE_FACTOR = 8.0
"""The factor of σ² that the theorem prints; its proof does not give it."""


def nonconvex_noise_factor(*, eta: float, delta: float) -> float:
    r"""Return the factor of σ² that the proof of the non-convex theorem gives.

    The decrease lemma reads, with its noise term before the bound
    :math:`1-2\eta\delta \ge 1/2`,

    .. math::

        \mathbb{E}[L(w_{k+1}) - L(w_k)] \le -\frac{1}{4\eta}\mathbb{E}\|w_{k+1}-w_k\|^2
        + \frac{\eta\sigma^2}{1-2\eta\delta},

    and the distance lemma

    .. math::

        -\frac{1}{4\eta}\mathbb{E}\|w_{k+1}-w_k\|^2 \le
        -\frac{\eta}{48}\mathbb{E}\|\nabla L(w_{k+1})\|^2 + \frac{\eta\sigma^2}{6}.

    Chained, the two noise terms **add**; averaging and multiplying by :math:`48/\eta` gives

    .. math:: c(\eta\delta) = \frac{48}{1-2\eta\delta} + 8 \in [56, 104].

    The printed proof keeps only the second term, whence its 8. That one-step inequality is
    false: for :math:`L = \frac{3}{8\eta}w^2`, :math:`\hat L = \frac{1}{4\eta}w^2`, an exact step
    from :math:`w_k = 0` raises L by :math:`\frac{1}{6}\eta\sigma^2`, which leaves nothing for the
    gradient. Whether the theorem holds with 8 by another argument is open; this function
    returns what is proved.

    Parameters
    ----------
    eta : float
        Step size η, at most 1/(4δ).
    delta : float
        Similarity constant δ: the smoothness of ``L − L̂``.

    Returns
    -------
    float
        The factor, 56 for δ = 0 and 104 for η = 1/(4δ).

    Raises
    ------
    ValueError
        If ``eta`` exceeds 1/(4δ), or an argument is out of its range.

    Examples
    --------
    >>> nonconvex_noise_factor(eta=1.0, delta=0.0)
    56.0
    >>> nonconvex_noise_factor(eta=0.25, delta=1.0)
    104.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the two lemmas
    in the appendix on the non-convex theorem.
    """
    delta = nonnegative("delta", delta)
    eta = step_size(eta, delta)
    return 48 / (1 - 2 * eta * delta) + 8


def nonconvex_guarantee(
    *, eta: float, steps: int, initial_gap: float, sigma: float, delta: float
) -> float:
    r"""Bound the mean squared gradient norm, with the noise constant that is proved.

    With :math:`\eta \le 1/(4\delta)`, :math:`\mathbb{E}\varphi_k(w_{k+1}) \le
    \mathbb{E}\varphi_k(w_k)` and :math:`\mathbb{E}\|\nabla\varphi_k(w_{k+1})\|^2 \le
    \frac{7}{16\eta^2}\mathbb{E}\|w_{k+1}-w_k\|^2 +
    \frac18\mathbb{E}\|\nabla L(w_{k+1})\|^2`,

    .. math::

        \frac1K\sum_{k=1}^K\mathbb{E}\|\nabla L(w_k)\|^2 \le
        \frac{48\,(L(w_0)-L^*)}{\eta K} + \Bigl(\frac{48}{1-2\eta\delta}+8\Bigr)\sigma^2.

    Two corrections to the printed theorem: its accuracy condition prints
    :math:`\|\varphi_k\|` for :math:`\|\nabla\varphi_k\|`, and its :math:`8\sigma^2` loses the
    noise of one of the two lemmas (see :func:`nonconvex_noise_factor`).

    Parameters
    ----------
    eta : float
        Step size η, at most 1/(4δ).
    steps : int
        Number K of outer iterations, one stochastic gradient of L each.
    initial_gap : float
        ``L(w_0) − L*``, or an upper bound on it.
    sigma : float
        Noise level: the stochastic gradients have variance at most σ².
    delta : float
        Similarity constant δ: the smoothness of ``L − L̂``.

    Returns
    -------
    float
        Upper bound on the mean over the iterates of ``E‖∇L(w_k)‖²``. Its noise part does
        not vanish with η or K.

    Raises
    ------
    ValueError
        If ``eta`` exceeds 1/(4δ), or an argument is out of its range.

    Examples
    --------
    >>> nonconvex_guarantee(eta=0.25, steps=96, initial_gap=1.0, sigma=0.5, delta=1.0)
    28.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the theorem on
    non-convex losses, with its noise constant as the lemmas give it.
    """
    factor = nonconvex_noise_factor(eta=eta, delta=delta)
    return _bound(eta, steps, initial_gap, sigma, factor)


def nonconvex_guarantee_as_printed(
    *, eta: float, steps: int, initial_gap: float, sigma: float, delta: float
) -> float:
    r"""Evaluate the non-convex bound as the paper prints it, noise constant 8.

    .. math::

        \frac{48\,(L(w_0)-L^*)}{\eta K} + 8\sigma^2.

    Not implied by the paper's proof unless σ = 0: use :func:`nonconvex_guarantee` where a
    bound must hold, and this one to compare with the paper.

    Parameters
    ----------
    eta : float
        Step size η, at most 1/(4δ).
    steps : int
        Number K of outer iterations.
    initial_gap : float
        ``L(w_0) − L*``, or an upper bound on it.
    sigma : float
        Noise level: the stochastic gradients have variance at most σ².
    delta : float
        Similarity constant δ, used only to check η.

    Returns
    -------
    float
        The printed right-hand side.

    Raises
    ------
    ValueError
        If ``eta`` exceeds 1/(4δ), or an argument is out of its range.

    Examples
    --------
    >>> nonconvex_guarantee_as_printed(
    ...     eta=0.25, steps=96, initial_gap=1.0, sigma=0.5, delta=1.0
    ... )
    4.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the theorem on
    non-convex losses.
    """
    eta = step_size(eta, nonnegative("delta", delta))
    return _bound(eta, steps, initial_gap, sigma, PRINTED_NOISE_FACTOR)


def _bound(eta: float, steps: int, initial_gap: float, sigma: float, factor: float) -> float:
    steps = step_count("steps", steps)
    initial_gap = nonnegative("initial_gap", initial_gap)
    sigma = nonnegative("sigma", sigma)
    return 48 * initial_gap / eta / steps + factor * sigma * sigma
