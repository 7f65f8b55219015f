"""Step size and number of steps for a wanted accuracy, strongly convex loss."""

from __future__ import annotations

import math

from proxyprox._checks import nonnegative, positive
from proxyprox.theory._search import smallest_integer
from proxyprox.theory.plan import Plan
from proxyprox.theory.step_size import largest_step_size
from proxyprox.theory.theorem_strongly_convex import strongly_convex_guarantee


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
