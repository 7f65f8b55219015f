"""Stochastic gradients of L that each method needs, up to constant factors.

All counts are orders of magnitude, without constants, for comparing methods; to set up a run
use :func:`proxyprox.theory.plan_convex` and :func:`proxyprox.theory.plan_strongly_convex`.
Logarithms are floored at zero: below it the start is already good enough.
"""

from __future__ import annotations

import math

from proxyprox._checks import nonnegative, positive
from proxyprox.theory._checks import smoothness_and_convexity


def sgd_steps_convex(*, epsilon: float, H: float, B: float, sigma: float) -> float:
    r"""Return the order of the steps SGD needs on a smooth convex loss.

    .. math:: K = \frac{HB^2}{\varepsilon} + \frac{\sigma^2B^2}{\varepsilon^2}.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    H : float
        Smoothness H of the loss L.
    B : float
        Distance of the start to a minimiser.
    sigma : float
        Noise level of the stochastic gradients.

    Returns
    -------
    float
        The count, without constants.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> sgd_steps_convex(epsilon=0.5, H=8.0, B=1.0, sigma=1.0)
    20.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation.
    """
    return _convex(positive("H", H), epsilon, B, sigma)


def proxyprox_steps_convex(*, epsilon: float, delta: float, B: float, sigma: float) -> float:
    r"""Return the order of the steps ProxyProx needs on a convex loss.

    .. math:: K = \frac{\delta B^2}{\varepsilon} + \frac{\sigma^2B^2}{\varepsilon^2}:

    SGD's count with δ for H. At δ = σ = 0 it is 0, to be read as a constant.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    delta : float
        Similarity constant δ of loss and proxy.
    B : float
        Distance of the start to a minimiser.
    sigma : float
        Noise level of the stochastic gradients.

    Returns
    -------
    float
        The count, without constants.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> proxyprox_steps_convex(epsilon=0.5, delta=2.0, B=1.0, sigma=1.0)
    8.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation.
    """
    return _convex(nonnegative("delta", delta), epsilon, B, sigma)


def lower_bound_convex(*, epsilon: float, H: float, B: float, sigma: float) -> float:
    r"""Return the order of the steps that any method needs without a proxy, L convex.

    .. math:: K = \sqrt{\frac{HB^2}{\varepsilon}} + \frac{\sigma^2B^2}{\varepsilon^2},

    which accelerated SGD attains. The paper prints :math:`HB^2/\sqrt\varepsilon` for the first
    term. That cannot be a count: :math:`HB^2` has the unit of ε, so it would change with the
    unit of the loss. The root over the whole quotient is the classical bound.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    H : float
        Smoothness H of the loss L.
    B : float
        Distance of the start to a minimiser.
    sigma : float
        Noise level of the stochastic gradients.

    Returns
    -------
    float
        The count, without constants.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> lower_bound_convex(epsilon=0.5, H=8.0, B=1.0, sigma=1.0)
    8.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation. Nemirovsky, Yudin, "Problem Complexity and Method
    Efficiency in Optimization", 1983.
    """
    H = positive("H", H)
    noise = _convex(0.0, epsilon, B, sigma)
    return B * math.sqrt(H / epsilon) + noise


def sgd_steps_strongly_convex(
    *, epsilon: float, H: float, mu: float, B: float, sigma: float
) -> float:
    r"""Return the order of the steps SGD needs on a smooth strongly convex loss.

    .. math:: K = \frac H\mu\ln\frac{HB^2}{\varepsilon} + \frac{\sigma^2}{\mu\varepsilon}.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    H : float
        Smoothness H ≥ μ of the loss L.
    mu : float
        Strong convexity μ > 0 of the loss L.
    B : float
        Distance of the start to the minimiser.
    sigma : float
        Noise level of the stochastic gradients.

    Returns
    -------
    float
        The count, without constants.

    Raises
    ------
    ValueError
        If an argument is out of its range, or ``H`` is below ``mu``.

    Examples
    --------
    >>> sgd_steps_strongly_convex(epsilon=0.5, H=8.0, mu=1.0, B=0.25, sigma=1.0)
    2.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation.
    """
    H, mu = smoothness_and_convexity(H, mu)
    return H / mu * _log(H, B, epsilon) + _noise(sigma, mu, epsilon)


def proxyprox_steps_strongly_convex(
    *, epsilon: float, delta: float, mu: float, B: float, sigma: float
) -> float:
    r"""Return the order of the steps ProxyProx needs on a strongly convex loss.

    .. math::

        K = \frac\delta\mu\ln\frac{\delta B^2}{\varepsilon} + \frac{\sigma^2}{\mu\varepsilon}:

    SGD's count with δ for H. A logarithm on the second term and a constant number of steps,
    both present in the corollary, are left out as in the paper.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    delta : float
        Similarity constant δ of loss and proxy.
    mu : float
        Strong convexity μ > 0 of the loss L.
    B : float
        Distance of the start to the minimiser.
    sigma : float
        Noise level of the stochastic gradients.

    Returns
    -------
    float
        The count, without constants.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> proxyprox_steps_strongly_convex(epsilon=0.5, delta=0.0, mu=1.0, B=1.0, sigma=1.0)
    2.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation.
    """
    mu = positive("mu", mu)
    delta = nonnegative("delta", delta)
    return delta / mu * _log(delta, B, epsilon) + _noise(sigma, mu, epsilon)


def lower_bound_strongly_convex(
    *, epsilon: float, H: float, mu: float, B: float, sigma: float
) -> float:
    r"""Return the order of the steps that any method needs without a proxy, L strongly convex.

    .. math::

        K = \sqrt{\frac H\mu}\ln\frac{HB^2}{\varepsilon} + \frac{\sigma^2}{\mu\varepsilon},

    which accelerated SGD attains.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    H : float
        Smoothness H ≥ μ of the loss L.
    mu : float
        Strong convexity μ > 0 of the loss L.
    B : float
        Distance of the start to the minimiser.
    sigma : float
        Noise level of the stochastic gradients.

    Returns
    -------
    float
        The count, without constants.

    Raises
    ------
    ValueError
        If an argument is out of its range, or ``H`` is below ``mu``.

    Examples
    --------
    >>> lower_bound_strongly_convex(epsilon=0.5, H=8.0, mu=1.0, B=0.25, sigma=1.0)
    2.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation. Nemirovsky, Yudin, "Problem Complexity and Method
    Efficiency in Optimization", 1983.
    """
    H, mu = smoothness_and_convexity(H, mu)
    return math.sqrt(H / mu) * _log(H, B, epsilon) + _noise(sigma, mu, epsilon)


def _convex(smoothness: float, epsilon: float, B: float, sigma: float) -> float:
    epsilon, B = positive("epsilon", epsilon), positive("B", B)
    root = nonnegative("sigma", sigma) * B / epsilon
    return smoothness * B * (B / epsilon) + root * root


def _noise(sigma: float, mu: float, epsilon: float) -> float:
    sigma = nonnegative("sigma", sigma)
    return sigma * sigma / mu / epsilon


def _log(smoothness: float, B: float, epsilon: float) -> float:
    epsilon, B = positive("epsilon", epsilon), positive("B", B)
    if smoothness == 0:
        return 0.0
    return max(0.0, math.log(smoothness) + 2 * math.log(B) - math.log(epsilon))
