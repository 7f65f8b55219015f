"""The step-size condition that all three theorems share."""

from __future__ import annotations

import math

from proxyprox._checks import nonnegative


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
