"""Step size and number of steps for a wanted accuracy, convex loss."""

from __future__ import annotations

import math

from proxyprox._checks import nonnegative, positive
from proxyprox.theory._search import smallest_integer
from proxyprox.theory.plan import Plan
from proxyprox.theory.step_size import largest_step_size
from proxyprox.theory.theorem_convex import convex_guarantee, convex_regularization


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
