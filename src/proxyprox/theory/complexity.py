"""How many exact gradients and inner steps are enough, and when a proxy pays.

To set up a run use :func:`proxyprox.theory.plan_run`. A strong convexity ``mu`` of zero, the
default, selects the statement for convex losses.
"""

from __future__ import annotations

import math

from proxyprox._util.validation import message, nonnegative, positive


def constants(**given: float) -> list[float]:
    """Return constants of the theory: finite, and above zero or zero or more as their name says."""
    above_zero = ("epsilon", "eta", "B", "H")
    return [
        (positive if name in above_zero else nonnegative)(name, value)
        for name, value in given.items()
    ]


def exact_rounds(*, epsilon: float, H: float, B: float, delta: float, mu: float = 0.0) -> int:
    r"""Return the rounds of exact gradients that are enough on a quadratic, constants included.

    Conjugate gradients in the metric :math:`\nabla^2\hat L + \delta I`, which
    :class:`~proxyprox.ProxyBFGS` takes on quadratics if it finds δ at once, meet the condition
    number :math:`\kappa = 1 + 2\delta/\mu`, hence

    .. math:: K = \Bigl\lceil\tfrac14\sqrt\kappa\,\ln\frac{2HB^2}{\varepsilon}\Bigr\rceil.

    With :math:`\mu B^2 < \varepsilon` the loss plus :math:`\frac{\varepsilon}{2B^2}\|w - w_0\|^2`
    is minimised to ε/2 instead, where that is shorter. One gradient is enough for δ = 0. Without a
    proxy put ``delta=H/2``: as many rounds are enough for conjugate gradients, which L-BFGS
    resembles as long as its memory holds the whole run.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy ε > 0.
    H : float
        Smoothness H ≥ μ of the loss L.
    B : float
        Distance of the start to a minimiser.
    delta : float
        Similarity constant δ of loss and proxy.
    mu : float, default 0.0
        Strong convexity μ of the loss L; 0 for the convex case.

    Returns
    -------
    int
        The rounds, at least 1.

    Raises
    ------
    ValueError
        If an argument is out of its range, or ``H`` is below ``mu``.

    Examples
    --------
    >>> exact_rounds(epsilon=0.01, H=10.0, B=1.0, delta=1.0)
    30
    >>> exact_rounds(epsilon=0.01, H=10.0, B=1.0, delta=0.0)
    1
    """
    epsilon, B, delta = constants(epsilon=epsilon, B=B, delta=delta)
    if delta == 0:
        return 1
    log = math.log(2) + math.log(_smoothness(H, mu)) + 2 * math.log(B) - math.log(epsilon)
    counts = [math.sqrt(1 + 2 * delta * B * (B / epsilon)) * (log + math.log(2))]
    if mu > 0:
        counts.append(math.sqrt(1 + 2 * delta / mu) * log)
    if not math.isfinite(min(counts)):
        allowed = "such that the number of rounds is finite"
        raise ValueError(message("H, B, delta and epsilon", min(counts), allowed, "Rescale L."))
    return max(1, math.ceil(min(counts) / 4))


def _smoothness(H: float, mu: float) -> float:
    H, mu = constants(H=H, mu=mu)
    if mu > H:
        raise ValueError(message("H", H, f"at least mu, {mu!r}", "No loss curves less than mu."))
    return H


def similarity_threshold(
    *, H: float, mu: float = 0.0, epsilon: float | None = None, B: float | None = None
) -> float:
    r"""Return the δ below which ProxyProx passes the proxy-free lower bound.

    Logarithms and constants aside, ProxyProx needs

    .. math::

        \frac{\delta B^2}{\varepsilon} + \frac{\sigma^2B^2}{\varepsilon^2}
        \quad\text{or}\quad \frac\delta\mu + \frac{\sigma^2}{\mu\varepsilon}

    gradients for convex and for μ-strongly convex losses, SGD as many with H for δ, and no method
    without a proxy fewer than

    .. math::

        \sqrt{\frac{HB^2}{\varepsilon}} + \frac{\sigma^2B^2}{\varepsilon^2}
        \quad\text{or}\quad \sqrt{\frac H\mu} + \frac{\sigma^2}{\mu\varepsilon}.

    Comparing the first terms,

    .. math::

        \delta \le \frac{\sqrt{H\varepsilon}}{B} \quad\text{if } L \text{ is convex}, \qquad
        \delta \le \sqrt{H\mu} \quad\text{if it is } \mu\text{-strongly convex}.

    The paper prints :math:`HB^2/\sqrt\varepsilon` for the bound's first term, which would change
    with the unit of the loss; the root over the whole quotient is the classical bound.
    For the convex case it prints :math:`\delta \le H/\sqrt\varepsilon`, which follows
    neither from the correct lower bound nor from the misprinted one, and grows as ε shrinks
    although a finer accuracy needs a better proxy. The noise terms of both counts are equal:
    where they dominate, no δ helps.

    Parameters
    ----------
    H : float
        Smoothness H ≥ μ of the loss L.
    mu : float, default 0.0
        Strong convexity μ of the loss L; 0 for the convex case.
    epsilon : float, optional
        Wanted accuracy ε > 0; needed for the convex case alone.
    B : float, optional
        Distance of the start to a minimiser; needed for the convex case alone.

    Returns
    -------
    float
        The largest such δ, up to constants and logarithms.

    Raises
    ------
    TypeError
        If ``epsilon`` or ``B`` is missing in the convex case.
    ValueError
        If an argument is out of its range, or ``H`` is below ``mu``.

    Examples
    --------
    >>> similarity_threshold(H=4.0, epsilon=0.25, B=2.0)
    0.5
    >>> similarity_threshold(H=16.0, mu=0.25)
    2.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the section
    comparing with direct optimisation. Nemirovsky, Yudin, "Problem Complexity and Method
    Efficiency in Optimization", 1983.
    """
    root = math.sqrt(_smoothness(H, mu))
    for name, value in {"epsilon": epsilon, "B": B}.items():
        if value is not None or mu == 0:
            positive(name, value)
    if epsilon is None or B is None or mu > 0:
        return root * math.sqrt(mu)
    return root * math.sqrt(epsilon) / B
