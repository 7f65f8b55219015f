"""The corollaries as plans: step size, steps and accuracy of the inner solves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from proxyprox._util.validation import nonnegative, positive
from proxyprox.theory.guarantees import (
    convex_guarantee,
    convex_regularization,
    largest_step_size,
    strongly_convex_guarantee,
)


def smallest_integer(holds: Callable[[int], bool], high: float) -> int:
    """Return the smallest ``n >= 1`` with ``holds(n)``.

    Parameters
    ----------
    holds : callable
        Condition that is false below some integer and true from it on.
    high : float
        A value from which the condition is known to hold, up to rounding.

    Returns
    -------
    int
        The smallest integer that meets the condition.

    Raises
    ------
    ValueError
        If ``high`` is not finite: no float can hold the number of steps.

    Examples
    --------
    >>> smallest_integer(lambda n: n * n >= 50, 50.0)
    8
    """
    if not high <= 1e300:
        raise ValueError(
            f"epsilon must be large enough for at most 10**300 steps, got a need of {high}: "
            "raise epsilon, or check the scale of B, sigma and delta."
        )
    low, top = 1, max(1, math.ceil(high))
    while not holds(top):
        top *= 2
    while low < top:
        middle = (low + top) // 2
        if holds(middle):
            top = middle
        else:
            low = middle + 1
    return top


@dataclass(frozen=True)
class Plan:
    r"""Settings of a run, with the accuracy the theorems promise for them.

    In either case each subproblem has to be solved until

    .. math::

        \|\nabla\varphi_k(w_{k+1})\|^2 \le \frac{\mu}{4\eta}\|w_{k+1}-w_k\|^2 + G^2.

    Parameters
    ----------
    eta : float
        Step size η.
    steps : int
        Number K of outer iterations, hence of stochastic gradients of L.
    G : float
        Absolute part of the inner accuracy.
    mu : float
        Strongly convex case: the loss's own μ. Convex case: the weight 1/(ηK) of the
        regulariser to add to both losses.
    guarantee : float
        The theorem's bound on the expected suboptimality at these settings.

    Examples
    --------
    >>> Plan(eta=0.5, steps=10, G=0.0, mu=0.2, guarantee=0.01).steps
    10

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the corollary on
    optimised guarantees.
    """

    eta: float
    steps: int
    G: float
    mu: float
    guarantee: float


def plan_convex(*, epsilon: float, B: float, sigma: float, delta: float) -> Plan:
    r"""Plan a run that reaches accuracy ε on a convex loss.

    .. math::

        \eta = \min\Bigl\{\frac{1}{4\delta}, \frac{B}{\sigma\sqrt K}\Bigr\}, \qquad
        G^2 = \frac{\sigma^2}{K} + \frac{\delta^2B^2}{K^2},

    and K is the smallest integer at which :func:`convex_guarantee` is at most ε. Put into
    the theorem, with :math:`1/\eta \le 4\delta + \sigma\sqrt K/B`, these settings give

    .. math::

        \mathbb{E}L - L^* \le \frac{19}{4}\frac{\delta B^2}{K}
        + \frac{33}{8}\frac{\sigma B}{\sqrt K},

    so the corollary's constant is explicit: the K returned is at most
    :math:`1 + \frac{19}{2}\frac{\delta B^2}{\varepsilon} +
    \frac{1089}{16}\frac{\sigma^2B^2}{\varepsilon^2}`.

    When δ = σ = 0 the formulas leave η free and ask for G = 0. One step is then enough; the
    plan takes :math:`\eta = 9B^2/(4\varepsilon)`, which spends ε/2, and
    :math:`G^2 = \varepsilon/(4\eta)`, which spends ε/4.

    Parameters
    ----------
    epsilon : float
        Wanted bound ε > 0 on the expected suboptimality.
    B : float
        Root mean squared distance of the start to a minimiser.
    sigma : float
        Noise level of the stochastic gradients; 0 for exact ones.
    delta : float
        Similarity constant δ of loss and proxy; 0 when the Hessians agree.

    Returns
    -------
    Plan
        Step size, steps, inner accuracy, the weight ``mu`` of the regulariser, and the
        guarantee they give, at most ε.

    Raises
    ------
    ValueError
        If an argument is out of its range, or K would exceed 10**300.

    Examples
    --------
    >>> plan = plan_convex(epsilon=0.01, B=1.0, sigma=0.0, delta=1.0)
    >>> plan.steps, plan.eta
    (475, 0.25)
    >>> plan.guarantee <= 0.01
    True

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the corollary on
    optimised guarantees, convex case.
    """
    epsilon = positive("epsilon", epsilon)
    B = positive("B", B)
    sigma = nonnegative("sigma", sigma)
    delta = nonnegative("delta", delta)

    def settings(steps: int) -> Plan:
        if sigma == 0 and delta == 0:
            eta = 9 * B / 4 * (B / epsilon)
            G = math.sqrt(epsilon / 4 / eta)
        else:
            by_noise = B / sigma / math.sqrt(steps) if sigma > 0 else math.inf
            eta = min(largest_step_size(delta), by_noise)
            G = math.hypot(sigma / math.sqrt(steps), delta * B / steps)
        guarantee = convex_guarantee(eta=eta, steps=steps, B=B, sigma=sigma, delta=delta, G=G)
        mu = convex_regularization(eta=eta, steps=steps)
        return Plan(eta=eta, steps=steps, G=G, mu=mu, guarantee=guarantee)

    noise = sigma * B / epsilon
    enough = 19 / 2 * delta * B * (B / epsilon) + 1089 / 16 * noise * noise
    # The guarantee decreases in K: for either value of the minimum every term does.
    return settings(smallest_integer(lambda n: settings(n).guarantee <= epsilon, enough))


def plan_strongly_convex(
    *, epsilon: float, mu: float, B: float, sigma: float, delta: float
) -> Plan:
    r"""Plan a run that reaches accuracy ε on a strongly convex loss.

    Each of the three terms of :func:`strongly_convex_guarantee` gets ε/3. The step size is

    .. math::

        \eta = \frac{5}{\mu(K-1)}\Bigl(1 + \ln\max\Bigl\{1,
        \frac{15B^2\mu(K-1)}{4\varepsilon}\Bigr\}\Bigr), \qquad G^2 = \frac{\mu\varepsilon}{3},

    and K is the smallest integer for which :math:`\eta \le 1/(4\delta)`,
    :math:`\eta \le 5/(2\mu)` (also when δ = 0) and :math:`2\eta\sigma^2 \le \varepsilon/3`,
    that is

    .. math::

        K - 1 \ge A\Bigl(1 + \ln\max\Bigl\{1, \frac{15B^2\mu(K-1)}{4\varepsilon}\Bigr\}\Bigr),
        \qquad A = \max\Bigl\{2, \frac{20\delta}{\mu}, \frac{30\sigma^2}{\mu\varepsilon}\Bigr\}.

    Where the printed text was changed:

    * The maximum with 1 is new. Without it η is too small, even negative, when ε is large
      against μB²K, although the proof claims that the printed η always satisfies
      η ≥ 1/(2μ(K−1)).
    * The proof ends with ``10 max{1, δ/μ, …}``; its own conditions need ``20 δ/μ``.
    * The statement prints ``G² ≤ με/2`` and no 4 under the logarithm, the proof (at ε/3)
      ``G² ≤ με/3`` and 15/4. Both can be completed; this is the proof's version.

    Parameters
    ----------
    epsilon : float
        Wanted bound ε > 0 on the expected suboptimality.
    mu : float
        Strong convexity μ > 0 of the loss L.
    B : float
        Root mean squared distance of the start to the minimiser.
    sigma : float
        Noise level of the stochastic gradients; 0 for exact ones.
    delta : float
        Similarity constant δ of loss and proxy; 0 when the Hessians agree.

    Returns
    -------
    Plan
        Step size, steps, inner accuracy, and the guarantee they give, at most ε.

    Raises
    ------
    ValueError
        If an argument is out of its range, or K would exceed 10**300.

    Examples
    --------
    >>> plan = plan_strongly_convex(epsilon=0.01, mu=1.0, B=1.0, sigma=0.0, delta=0.0)
    >>> plan.steps
    21
    >>> plan.guarantee <= 0.01
    True

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the corollary on
    optimised guarantees, strongly convex case.
    """
    epsilon = positive("epsilon", epsilon)
    mu = positive("mu", mu)
    B = positive("B", B)
    sigma = nonnegative("sigma", sigma)
    delta = nonnegative("delta", delta)

    A = max(2.0, 20 * delta / mu, 30 * sigma * sigma / mu / epsilon)
    # Logarithm of C = 15 B² μ / (4 ε), summed so that B² cannot overflow.
    log_C = math.log(15 / 4) + 2 * math.log(B) + math.log(mu) - math.log(epsilon)

    def factor(x: float) -> float:
        return 1 + max(0.0, log_C + math.log(x))

    # X >= A (1 + 4 ln(e + A C)) implies X >= A (1 + ln(C X)); ln(e + z) <= 1 + max(1, ln z)
    # bounds it without forming A C.
    enough = A * (1 + 4 * (1 + max(1.0, log_C + math.log(A))))
    x = smallest_integer(lambda n: n >= A * factor(n), enough)

    eta = min(5 / mu / x * factor(x), largest_step_size(delta))
    G = math.sqrt(mu) * math.sqrt(epsilon / 3)
    guarantee = strongly_convex_guarantee(
        eta=eta, steps=x + 1, mu=mu, B=B, sigma=sigma, delta=delta, G=G
    )
    return Plan(eta=eta, steps=x + 1, G=G, mu=mu, guarantee=guarantee)
