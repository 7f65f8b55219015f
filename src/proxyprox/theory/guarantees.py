"""The theorems of the paper as functions: what a run is promised."""

from __future__ import annotations

import math
import operator

from proxyprox._util.validation import nonnegative, positive

# 1/(4δ) is computed in floating point by the caller and again here.
_ROUNDING = 1e-12
_MOST_STEPS = 10**300


def step_count(name: str, value: int) -> int:
    """Return ``value`` as an int of at least one that a float can hold.

    Parameters
    ----------
    name : str
        Name of the argument, used in the message.
    value : int
        Number of steps.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    ValueError
        If the value is not an integer in ``1, …, 10**300``.

    Examples
    --------
    >>> step_count("steps", 10)
    10
    """
    try:
        steps = operator.index(value)
    except TypeError:
        steps = 0
    if not 1 <= steps <= _MOST_STEPS:
        raise ValueError(
            f"{name} must be an integer from 1 to 10**300, got {value!r}: "
            f"pass the number of outer iterations as an int."
        )
    return steps


def step_size(eta: float, delta: float) -> float:
    """Return ``eta`` when it meets η ≤ 1/(4δ), the condition of every theorem.

    Parameters
    ----------
    eta : float
        Step size η.
    delta : float
        Similarity constant δ, already checked to be non-negative.

    Returns
    -------
    float
        The step size.

    Raises
    ------
    ValueError
        If ``eta`` is not positive or exceeds 1/(4δ) by more than rounding.

    Examples
    --------
    >>> step_size(0.25, 1.0)
    0.25
    """
    number = positive("eta", eta)
    if delta > 0 and number > (1 + _ROUNDING) / (4 * delta):
        raise ValueError(
            f"eta must be at most 1/(4*delta) = {1 / (4 * delta):.6g} for delta={delta!r}, "
            f"got {eta!r}: lower eta, or use a proxy with a smaller delta."
        )
    return number


def at_least(name: str, value: float, least: float, why: str) -> None:
    """Refuse ``value < least``.

    Parameters
    ----------
    name : str
        Name of the argument, used in the message.
    value : float
        Its value.
    least : float
        The smallest value allowed.
    why : str
        Where the limit comes from, as the end of a sentence.

    Raises
    ------
    ValueError
        If ``value`` is below ``least``.

    Examples
    --------
    >>> at_least("H", 2.0, 1.0, "no loss is less smooth than it is strongly convex")
    """
    if value < least:
        raise ValueError(f"{name} must be at least {least!r}, got {value!r}: {why}; raise {name}.")


def smoothness_and_convexity(H: float, mu: float) -> tuple[float, float]:
    """Return ``H`` and ``mu`` when they can belong to one loss, H ≥ μ > 0.

    Parameters
    ----------
    H : float
        Smoothness of the loss.
    mu : float
        Strong convexity of the same loss.

    Returns
    -------
    tuple of float
        The two constants.

    Raises
    ------
    ValueError
        If either is not positive, or ``H`` is below ``mu``.

    Examples
    --------
    >>> smoothness_and_convexity(2, 1)
    (2.0, 1.0)
    """
    H, mu = positive("H", H), positive("mu", mu)
    at_least("H", H, mu, "a loss's smoothness H is never below its strong convexity mu")
    return H, mu


def largest_step_size(delta: float) -> float:
    r"""Return the largest step size the theorems allow.

    .. math:: \eta_{\max} = \frac{1}{4\delta}, \qquad \eta_{\max} = \infty \text{ when } \delta = 0.

    Parameters
    ----------
    delta : float
        Similarity constant δ ≥ 0: the smoothness of the difference ``L − L̂``.

    Returns
    -------
    float
        1/(4δ), or ``inf`` when δ is zero.

    Raises
    ------
    ValueError
        If ``delta`` is negative or not finite.

    Examples
    --------
    >>> largest_step_size(0.5)
    0.5
    >>> largest_step_size(0.0)
    inf

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the condition
    on η in the strongly convex, the convex and the non-convex theorem.
    """
    delta = nonnegative("delta", delta)
    return math.inf if delta == 0 else 1 / (4 * delta)


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
