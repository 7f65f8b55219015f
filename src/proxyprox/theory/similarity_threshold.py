"""How similar a proxy must be for ProxyProx to beat every method without one."""

from __future__ import annotations

import math

from proxyprox._checks import positive
from proxyprox.theory._checks import smoothness_and_convexity


def similarity_threshold_convex(*, epsilon: float, H: float, B: float) -> float:
    r"""Return the δ below which ProxyProx passes the proxy-free lower bound, L convex.

    Comparing the first terms of the two counts, :math:`\delta B^2/\varepsilon` and
    :math:`\sqrt{HB^2/\varepsilon}`,

    .. math:: \delta \le \frac{\sqrt{H\varepsilon}}{B},

    up to constants. The paper prints :math:`\delta \le H/\sqrt\varepsilon`, which follows
    neither from the correct lower bound nor from the misprinted one, and grows as ε shrinks
    although a finer accuracy needs a better proxy. The noise terms of both counts are equal:
    where they dominate, no δ helps.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    H : float
        Smoothness H of the loss L.
    B : float
        Distance of the start to a minimiser.

    Returns
    -------
    float
        The largest such δ, up to constants.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> similarity_threshold_convex(epsilon=0.25, H=4.0, B=2.0)
    0.5

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation.
    """
    epsilon = positive("epsilon", epsilon)
    return math.sqrt(positive("H", H)) * math.sqrt(epsilon) / positive("B", B)


def similarity_threshold_strongly_convex(*, H: float, mu: float) -> float:
    r"""Return the δ below which ProxyProx passes the lower bound, L strongly convex.

    Comparing :math:`\delta/\mu` with :math:`\sqrt{H/\mu}`, logarithms and constants aside,

    .. math:: \delta \le \sqrt{H\mu}.

    Parameters
    ----------
    H : float
        Smoothness H ≥ μ of the loss L.
    mu : float
        Strong convexity μ > 0 of the loss L.

    Returns
    -------
    float
        The largest such δ, up to constants and logarithms.

    Raises
    ------
    ValueError
        If an argument is out of its range, or ``H`` is below ``mu``.

    Examples
    --------
    >>> similarity_threshold_strongly_convex(H=16.0, mu=0.25)
    2.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation.
    """
    H, mu = smoothness_and_convexity(H, mu)
    return math.sqrt(H) * math.sqrt(mu)
