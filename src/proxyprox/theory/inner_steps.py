"""How many steps of an inner solver meet the accuracy the theorems ask for."""

from __future__ import annotations

import math

import numpy as np

from proxyprox._checks import message, nonnegative, positive
from proxyprox.theory._checks import at_least


def inner_steps_sgd(
    *,
    eta: float,
    mu: float,
    H: float,
    rho: float,
    G: float,
    c: float = 64.0,
    c_prime: float = 4.0,
) -> int:
    r"""Return the SGD steps on φ_k that meet the theorems' accuracy in expectation.

    The subproblem is :math:`(H+1/\eta)`-smooth and :math:`1/\eta`-strongly convex. If T steps
    of SGD from :math:`w_k` bring its expected suboptimality below
    :math:`c(H+\frac1\eta)\|w_k-w_\varphi^*\|^2 e^{-T/(c'(1+H\eta))} + c\eta\rho^2/T`, then

    .. math::

        T \ge \max\Bigl\{c'(1+H\eta)\ln\frac{32c(1+H\eta)^2}{\mu\eta},\;
        c'(1+H\eta)\ln\bigl(8c(1+H\eta)\bigr),\; \frac{4c(1+H\eta)\rho^2}{G^2}\Bigr\}

    gives :math:`\mathbb{E}\|\nabla\varphi_k(\hat w)\|^2 \le
    \frac{\mu}{4\eta}\mathbb{E}\|\hat w-w_k\|^2 + G^2`. The middle term is the proof's side
    condition; it is implied by the first when η ≤ 1/(4δ). In the statement of the
    proposition c multiplies both terms and c' stands in the logarithm; the constants here
    are those of the proof.

    Parameters
    ----------
    eta : float
        Step size η of the outer method.
    mu : float
        Strong convexity μ of the loss; in the convex case 1/(ηK).
    H : float
        Smoothness H of the proxy; in the convex case include the regulariser, ``H + mu``.
    rho : float
        Noise level of the proxy's stochastic gradients; 0 for exact ones.
    G : float
        Absolute part of the inner accuracy; must be positive unless ``rho`` is 0.
    c : float, default 64.0
        Front factor of the SGD rate, at least 1. The paper leaves it unspecified; the
        default is a cautious one for tuned step sizes and weighted averages, as in Stich.
    c_prime : float, default 4.0
        Slow-down of the exponential, at least 1; the default is Stich's exponent.

    Returns
    -------
    int
        Number T of inner steps, at least 1.

    Raises
    ------
    ValueError
        If an argument is out of its range, or ``G`` is 0 while ``rho`` is not.

    Examples
    --------
    >>> inner_steps_sgd(eta=1.0, mu=1.0, H=1.0, rho=1.0, G=0.1, c=1.0, c_prime=1.0)
    800
    >>> inner_steps_sgd(eta=1.0, mu=1.0, H=1.0, rho=0.0, G=0.0, c=1.0, c_prime=1.0)
    10

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the proposition
    on making the subproblem's gradient small. Stich, "Unified Optimal Analysis of the
    (Stochastic) Gradient Method", arXiv:1907.04232.
    """
    log_gain, excess = _prepare(eta, mu, H)
    kappa = 1 + excess
    rho = nonnegative("rho", rho)
    G = nonnegative("G", G)
    c = positive("c", c)
    c_prime = positive("c_prime", c_prime)
    for name, constant in (("c", c), ("c_prime", c_prime)):
        at_least(name, constant, 1.0, "the proof takes SGD's rate with constants of at least 1")
    if rho > 0 and G == 0:
        raise ValueError(
            f"G must be > 0 when rho={rho!r}, got {G!r}: noisy steps never reach a purely "
            "relative accuracy; pass a positive G, or rho=0 for exact gradients."
        )
    log_kappa = math.log(kappa)
    bias = c_prime * kappa * (math.log(32 * c) + 2 * log_kappa - log_gain)
    start = c_prime * kappa * (math.log(8 * c) + log_kappa)
    noise = 4 * c * kappa * (rho / G) * (rho / G) if rho > 0 else 0.0
    return _ceil(max(bias, start, noise))


def inner_steps_gradient_descent(*, eta: float, mu: float, H: float) -> int:
    r"""Return the gradient descent steps on φ_k that meet the theorems' accuracy with G = 0.

    Let :math:`\kappa = 1 + H\eta`. Steps of size :math:`1/(H+1/\eta)` contract the distance
    to the minimiser by :math:`q = 1 - 1/\kappa`. With :math:`R = \|w_k - w_\varphi^*\|`,
    smoothness gives :math:`\|\nabla\varphi_k(\hat w)\| \le \frac{\kappa}{\eta}q^TR` and the
    triangle inequality :math:`R \le \|\hat w-w_k\|/(1-q^T)`. Hence

    .. math::

        T \ge \frac{\ln(1 + 1/s)}{-\ln(1-1/\kappa)}, \qquad s = \frac{\sqrt{\mu\eta}}{2\kappa},

    gives :math:`\|\nabla\varphi_k(\hat w)\|^2 \le \frac{\mu}{4\eta}\|\hat w-w_k\|^2`, surely
    and not only in expectation.

    Parameters
    ----------
    eta : float
        Step size η of the outer method.
    mu : float
        Strong convexity μ of the loss; in the convex case 1/(ηK).
    H : float
        Smoothness H of the convex proxy; in the convex case include the regulariser.

    Returns
    -------
    int
        Number T of inner steps, at least 1; exactly 1 when H = 0.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> inner_steps_gradient_descent(eta=1.0, mu=1.0, H=1.0)
    3

    References
    ----------
    Derived here, after the proposition on making the subproblem's gradient small in
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023, for exact
    gradients of the proxy.
    """
    log_gain, excess = _prepare(eta, mu, H)
    if excess == 0:
        return 1
    log_inverse_s = math.log(2) + math.log1p(excess) - log_gain / 2
    rate = math.log1p(1 / excess)  # -ln(1 - 1/κ), exact for κ near 1 and for large κ
    return _ceil(float(np.logaddexp(0.0, log_inverse_s)) / rate)


def inner_steps_nesterov(*, eta: float, mu: float, H: float) -> int:
    r"""Return the accelerated gradient steps on φ_k that meet the accuracy with G = 0.

    Let :math:`\kappa = 1 + H\eta` and take the scheme with constant momentum
    :math:`(\sqrt\kappa-1)/(\sqrt\kappa+1)`. Its suboptimality after T steps is at most
    :math:`\frac{\kappa+1}{2\eta}q^TR^2` with :math:`q = 1-1/\sqrt\kappa` and
    :math:`R = \|w_k-w_\varphi^*\|`. With :math:`p^2 = (\kappa+1)q^T`, strong convexity gives
    :math:`R \le \|\hat w-w_k\|/(1-p)` and smoothness
    :math:`\|\nabla\varphi_k(\hat w)\|^2 \le \frac{\kappa}{\eta^2}p^2R^2`. Hence

    .. math::

        T \ge \frac{2\ln(1 + 1/s) + \ln(\kappa+1)}{-\ln(1-1/\sqrt\kappa)}, \qquad
        s = \frac12\sqrt{\frac{\mu\eta}{\kappa}},

    gives :math:`\|\nabla\varphi_k(\hat w)\|^2 \le \frac{\mu}{4\eta}\|\hat w-w_k\|^2`.

    Parameters
    ----------
    eta : float
        Step size η of the outer method.
    mu : float
        Strong convexity μ of the loss; in the convex case 1/(ηK).
    H : float
        Smoothness H of the convex proxy; in the convex case include the regulariser.

    Returns
    -------
    int
        Number T of inner steps, at least 1; exactly 1 when H = 0.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> inner_steps_nesterov(eta=1.0, mu=0.01, H=9999.0)
    2430

    References
    ----------
    Derived here, after the proposition on making the subproblem's gradient small in
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023. The rate is in
    Nesterov, "Lectures on Convex Optimization", 2018, section 2.2.
    """
    log_gain, excess = _prepare(eta, mu, H)
    if excess == 0:
        return 1
    kappa = 1 + excess
    log_inverse_s = math.log(2) + (math.log(kappa) - log_gain) / 2
    need = 2 * float(np.logaddexp(0.0, log_inverse_s)) + math.log(kappa + 1)
    rate = math.log1p((math.sqrt(kappa) + 1) / excess)  # -ln(1 - 1/√κ), without cancellation
    return _ceil(need / rate)


def _prepare(eta: float, mu: float, H: float) -> tuple[float, float]:
    """Check the shared arguments; return ln(μη), which cannot underflow, and κ − 1 = Hη."""
    eta = positive("eta", eta)
    mu = positive("mu", mu)
    H = nonnegative("H", H)
    return math.log(mu) + math.log(eta), nonnegative("H * eta", H * eta)


def _ceil(steps: float) -> int:
    if not math.isfinite(steps):
        allowed = "constants for which the number of steps is finite"
        raise ValueError(message("H, rho, c and c_prime", steps, allowed, "Rescale the loss."))
    return max(1, math.ceil(steps))
