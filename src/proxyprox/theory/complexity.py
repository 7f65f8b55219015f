"""How many exact gradients and inner steps are enough, and when a proxy pays.

To set up a run use :func:`proxyprox.theory.plan_run`. A strong convexity ``mu`` of zero, the
default, selects the statement for convex losses.
"""

from __future__ import annotations

import math

from proxyprox._util.validation import message, nonnegative, positive


def constants(**given: float) -> list[float]:
    """Return constants of the theory: finite, and above zero or zero or more as their name says."""
    above_zero = ("epsilon", "eta", "B", "H", "c", "c_prime")
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
    return max(1, _ceil(min(counts) / 4))


def _smoothness(H: float, mu: float) -> float:
    H, mu = constants(H=H, mu=mu)
    _at_least("H", H, mu, "a loss's smoothness H is never below its strong convexity mu")
    return H


def _at_least(name: str, value: float, least: float, why: str) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least!r}, got {value!r}: {why}; raise {name}.")


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


def inner_steps_sgd(
    *, eta: float, mu: float, H: float, rho: float, G: float, c: float = 64.0, c_prime: float = 4.0
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
    eta, mu, H = positive("eta", eta), positive("mu", mu), nonnegative("H", H)
    # The logarithm of μη: the product may underflow.
    log_gain, kappa = math.log(mu) + math.log(eta), 1 + nonnegative("H * eta", H * eta)
    rho, G, c, c_prime = constants(rho=rho, G=G, c=c, c_prime=c_prime)
    for name, constant in (("c", c), ("c_prime", c_prime)):
        _at_least(name, constant, 1.0, "the proof takes SGD's rate with constants of at least 1")
    if rho > 0 and G == 0:
        remedy = "Noisy steps never reach a purely relative accuracy; exact ones have rho=0."
        raise ValueError(message("G", G, f"above zero for rho={rho!r}", remedy))
    log_kappa = math.log(kappa)
    bias = c_prime * kappa * (math.log(32 * c) + 2 * log_kappa - log_gain)
    start = c_prime * kappa * (math.log(8 * c) + log_kappa)
    noise = 4 * c * kappa * (rho / G) * (rho / G) if rho > 0 else 0.0
    return _ceil(max(bias, start, noise))


def _ceil(steps: float) -> int:
    if not math.isfinite(steps):
        allowed = "constants for which the number of steps is finite"
        raise ValueError(message("H, rho, c and c_prime", steps, allowed, "Rescale the loss."))
    return max(1, math.ceil(steps))
