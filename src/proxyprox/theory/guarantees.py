"""The theorems of the paper as functions: what a run is promised, and which run to make.

A strong convexity ``mu`` of zero, the default, selects the statement for convex losses.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from proxyprox._util.arrays import rounding
from proxyprox._util.validation import Words, flag, fraction, message, nonnegative, positive, whole
from proxyprox.theory.complexity import constants

MOST_STEPS = 10**300


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


def guarantee(
    *, eta: float, steps: int, B: float, sigma: float, delta: float, mu: float = 0.0,
    G: float = 0.0, solved: bool = False, share: float = 1.0,
) -> float:  # fmt: skip
    r"""Bound the expected suboptimality after ``steps`` iterations.

    If L is μ-strongly convex, :math:`\eta \le 1/(4\delta)` and every subproblem is solved to
    :math:`\mathbb{E}\|\nabla\varphi_k(w_{k+1})\|^2 \le
    \frac{\mu}{4\eta}\mathbb{E}\|w_{k+1}-w_k\|^2 + G^2`, the average of
    :math:`w_1, \dots, w_K` with weights :math:`(1+2\eta\mu/5)^{k-1}` satisfies

    .. math::

        \mathbb{E}L(\bar w_K) - L^* \le \frac{5B^2}{8\eta A_K} + 2\eta\sigma^2
        + \frac{G^2}{\mu}, \qquad A_K = \sum_{k=1}^K\Bigl(1 + \frac{2\eta\mu}{5}\Bigr)^{k-1}.

    This is the proof's own line; the theorem prints the last weight in place of their sum
    :math:`A_K`. Every constant follows from the proof. In one displayed step of it, Young's
    inequality prints :math:`\|\nabla\varphi_k\|` without its square; the line after has it right.

    If L is convex only, both losses are regularised with :math:`\mu = 1/(\eta K)`, every
    subproblem is solved to the same rule with that μ, and

    .. math::

        \mathbb{E}L\Bigl(\frac1K\sum_{k=1}^K w_k\Bigr) - L^* \le
        \frac{9B^2}{8\eta K} + 2\eta\sigma^2 + \eta K G^2.

    The 9/8 is 5/8 from the strongly convex recurrence plus 1/2 from the regulariser. The bound
    is on the loss L without the regulariser.

    **Subproblems solved exactly** (``solved=True``), nothing regularised, L and the proxy convex,
    :math:`\eta \le 1/\delta`:

    .. math::

        \mathbb{E}L(\bar w_K) - L^* \le \frac{(1+\eta\delta)B^2}{2\eta A_K} + \eta r\sigma^2,
        \qquad A_K = \sum_{k=1}^K\Bigl(1 + \frac{\eta\mu}{1+\eta\delta}\Bigr)^{k-1},

    for the average with the weights summed in :math:`A_K`; for μ = 0 the uniform mean, and
    :math:`A_K = K`. The share r of the noise is at most 1 and at most
    :math:`1/(2-2\eta\delta)`; where all Hessians of the proxy are at least P and the noise has
    the covariance Σ, at most :math:`\mathrm{tr}((I+\eta P)^{-1}\Sigma)/\mathrm{tr}\,\Sigma`.
    The proof is in ``docs/proofs.md``.

    Parameters
    ----------
    eta : float
        Step size η, at most 1/(4δ), or 1/δ if ``solved``.
    steps : int
        Number K of outer iterations, one stochastic gradient of L each.
    B : float
        Root mean squared distance of the start to a minimiser, ``B² = E‖w_0 − w*‖²``.
    sigma : float
        Noise level: the stochastic gradients have variance at most σ².
    delta : float
        Similarity constant δ: the smoothness of ``L − L̂``.
    mu : float, default 0.0
        Strong convexity μ of the loss L; 0 for the convex case.
    G : float, default 0.0
        Absolute part of the inner accuracy; 0 if ``solved``.
    solved : bool, default False
        Whether every subproblem is solved exactly.
    share : float, default 1.0
        Used if ``solved``: what is known of r, the share of the noise that the proxy lets through.
        A proxy that is m-strongly convex has :math:`r \le 1/(1+\eta m)`.

    Returns
    -------
    float
        Upper bound on the expected suboptimality of the averaged iterate.

    Raises
    ------
    ValueError
        If ``eta`` exceeds its limit, or an argument is out of its range.

    Examples
    --------
    >>> guarantee(eta=0.25, steps=18, B=2.0, sigma=1.0, delta=1.0)
    1.5
    >>> guarantee(eta=0.25, steps=1, B=2.0, sigma=1.0, delta=1.0, mu=1.0, G=0.5)
    10.75
    >>> guarantee(eta=1.0, steps=16, B=2.0, sigma=0.5, delta=1.0, solved=True)
    0.5

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the theorems on
    convex and on strongly convex losses. The last bound is derived here.
    """
    eta, delta = _step_size(eta, delta, 1.0 if flag("solved", solved) else 4.0)
    steps = whole("steps", steps, most=MOST_STEPS)
    B, share = nonnegative("B", B), fraction("share", share)
    sigma, mu, G = constants(sigma=sigma, mu=mu, G=G)
    if solved:
        if G > 0:
            raise ValueError(message("G", G, "0 for solved=True", "Or leave solved out."))
        front, noise, rate = _solved(eta, delta, mu)
        noise = min(noise, share)
    else:
        front, noise, rate = 5 / 8, 2.0, 2 * eta * mu / 5
        if mu == 0:
            front, G = 9 / 8, G * math.sqrt(eta) * math.sqrt(steps)
        else:
            G /= math.sqrt(mu)
    # Divided in turn: eta * steps, and B * B, may overflow where the quotient does not.
    start = front * B / eta * (B / geometric_sum(rate, steps))
    return start + noise * eta * sigma * sigma + G * G


def _solved(eta: float, delta: float, mu: float) -> tuple[float, float, float]:
    """Return the factors of B²/η and ησ², and the growth of the weights, for exact solves."""
    gain = eta * delta
    return (1 + gain) / 2, 1 / (2 - 2 * gain) if gain < 0.5 else 1.0, eta * mu / (1 + gain)


def geometric_sum(rate: float, steps: int) -> float:
    """Return ``Σ_{k<K} (1 + rate)^k``, infinite if it overflows."""
    exponent = steps * math.log1p(rate)
    if exponent == 0:
        return float(steps)
    # Where it cannot overflow: all digits. For tiny rates expm1 keeps them.
    return math.expm1(exponent) / rate if exponent < 700 else math.inf


def nonconvex_guarantee(
    *, eta: float, steps: int, initial_gap: float, sigma: float, delta: float, printed: bool = False
) -> float:
    r"""Bound the mean squared gradient norm of a run on a loss that need not be convex.

    With :math:`\eta \le 1/(4\delta)`, :math:`\mathbb{E}\varphi_k(w_{k+1}) \le
    \mathbb{E}\varphi_k(w_k)` and :math:`\mathbb{E}\|\nabla\varphi_k(w_{k+1})\|^2 \le
    \frac{7}{16\eta^2}\mathbb{E}\|w_{k+1}-w_k\|^2 +
    \frac18\mathbb{E}\|\nabla L(w_{k+1})\|^2`,

    .. math::

        \frac1K\sum_{k=1}^K\mathbb{E}\|\nabla L(w_k)\|^2 \le
        \frac{48\,(L(w_0)-L^*)}{\eta K} + \Bigl(\frac{48}{1-2\eta\delta}+8\Bigr)\sigma^2.

    Two corrections to the printed theorem. Its accuracy condition prints
    :math:`\|\varphi_k\|` for :math:`\|\nabla\varphi_k\|`. Its noise term is
    :math:`8\sigma^2`: the proof chains the decrease lemma, whose noise term is
    :math:`\eta\sigma^2/(1-2\eta\delta)` before it bounds :math:`1-2\eta\delta \ge 1/2`, with the
    distance lemma, whose noise term is :math:`\eta\sigma^2/6`. The two **add**, and the printed
    proof keeps only the second. That one-step inequality is false: for
    :math:`L = \frac{3}{8\eta}w^2`, :math:`\hat L = \frac{1}{4\eta}w^2`, an exact step from
    :math:`w_k = 0` raises L by :math:`\frac{1}{6}\eta\sigma^2`, which leaves nothing for the
    gradient. Whether the theorem holds with 8 by another argument is open.

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
    printed : bool, default False
        Take the noise constant 8 that the paper prints. The proof does not imply it unless
        σ = 0: use it to compare with the paper, and not where a bound must hold.

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
    >>> nonconvex_guarantee(
    ...     eta=0.25, steps=96, initial_gap=1.0, sigma=0.5, delta=1.0, printed=True
    ... )
    4.0

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the theorem on
    non-convex losses, with its noise constant as the lemmas give it.
    """
    eta, delta = _step_size(eta, delta)
    steps = whole("steps", steps, most=MOST_STEPS)
    initial_gap, sigma = constants(initial_gap=initial_gap, sigma=sigma)
    factor = 8.0 if flag("printed", printed) else 48 / (1 - 2 * eta * delta) + 8
    return 48 * initial_gap / eta / steps + factor * sigma * sigma


def _step_size(eta: float, delta: float, times: float = 4.0) -> tuple[float, float]:
    """Return η and δ when they meet η ≤ 1/(4δ), the condition of the paper's theorems."""
    eta, delta = constants(eta=eta, delta=delta)
    # The caller computed the limit in floating point, too.
    if delta > 0 and eta > (1 + rounding()) / (times * delta):
        allowed = f"at most 1/({times:g}*delta) = {1 / (times * delta):.6g}"
        remedy = "Or use a proxy with a smaller delta."
        raise ValueError(message("eta", eta, allowed, remedy))
    return eta, delta


@dataclass(frozen=True)
class Plan:
    r"""Settings of a run, with the accuracy the theorems promise for them.

    Unless it has to be solved exactly, each subproblem is solved until

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
    regularized : bool
        Whether it is the convex case, with ``mu`` to add.
    solved : bool
        Whether subproblems have to be solved exactly; nothing is added then.
    average : float
        The bound is for the answer of ``Geometric(average)``, 0 for the uniform mean.
    tol : float
        If ``solved``: a norm of ∇φ that passes for exact, ε/(1000 B). It adds at most ε/1000 to
        the bound while the points are no further from a minimiser than B.

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
    regularized: bool = False
    solved: bool = False
    average: float = 0.0
    tol: float = 0.0


def plan_run(
    *, epsilon: float, B: float, sigma: float, delta: float, mu: float = 0.0, solved: bool = False
) -> Plan:
    r"""Plan a run that reaches accuracy ε.

    **Convex losses.**

    .. math::

        \eta = \min\Bigl\{\frac{1}{4\delta}, \frac{B}{\sigma\sqrt K}\Bigr\}, \qquad
        G^2 = \frac{\sigma^2}{K} + \frac{\delta^2B^2}{K^2},

    and K is the smallest integer at which :func:`guarantee` is at most ε. Put into
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

    **Strongly convex losses.** :math:`G^2 = \mu\varepsilon/3`, which spends ε/3, and of forty
    step sizes, :math:`2\eta\sigma^2 = \frac{j}{40}\frac{2\varepsilon}{3}` or the largest allowed
    where that is less, the one with the smallest K at which :func:`guarantee` is at most ε. The
    corollary's closed form, which bounds the sum of the weights by its last term, needs four to
    five times as many steps.

    **Subproblems solved exactly** (``solved=True``), the proxy convex: the same search with
    :math:`\eta \le 1/\delta` and the bound for exact solves. For σ = 0 and μ = 0 it is
    :math:`\eta = 1/\delta`, :math:`K = \lceil\delta B^2/\varepsilon\rceil`. The answer is the
    mean with weights :math:`(1+\eta\mu/(1+\eta\delta))^{k-1}`:
    ``Geometric(2.5 * mu / (1 + eta * delta))``, and ``Uniform()`` for μ = 0. ``Residual(plan.tol)``
    is the inner rule that passes for exact.

    A strongly convex loss is a convex one, too: the shorter of both plans is returned, so that
    knowing μ never costs steps. ``Plan.regularized`` tells which it is.

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
    mu : float, default 0.0
        Strong convexity μ of the loss L; 0 for the convex case.
    solved : bool, default False
        Whether subproblems are solved exactly, and the proxy is convex.

    Returns
    -------
    Plan
        Step size, steps, inner accuracy, in the convex case the weight ``mu`` of the
        regulariser, and the guarantee they give, at most ε.

    Raises
    ------
    ValueError
        If an argument is out of its range, or K would exceed 10**300.

    Notes
    -----
    Where σ = 0 the theorem's steps are many more than needed: :func:`exact_rounds`.

    Examples
    --------
    >>> known = {"epsilon": 0.01, "B": 1.0, "sigma": 0.0, "delta": 1.0}
    >>> plan = plan_run(**known)
    >>> plan.steps, plan.eta, plan.guarantee <= 0.01
    (475, 0.25, True)
    >>> plan_run(**known, solved=True).steps, plan_run(**known, mu=0.1, solved=True).steps
    (100, 37)

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the corollary on
    optimised guarantees.
    """
    epsilon, B, sigma, delta, mu = constants(epsilon=epsilon, B=B, sigma=sigma, delta=delta, mu=mu)
    if flag("solved", solved):
        return _searched_plan(epsilon, B, sigma, delta, mu, solved=True)
    plans: list[Plan] = []
    for case in dict.fromkeys((mu, 0.0)):
        # Either alone may need more steps than can be counted.
        with contextlib.suppress(ValueError):
            plans.append(_plan(epsilon, B, sigma, delta, case))
    return min(plans, key=lambda plan: plan.steps) if plans else _plan(epsilon, B, sigma, delta, mu)


def corollary_plan(*, epsilon: float, B: float, sigma: float, delta: float, mu: float) -> Plan:
    r"""Return the paper's own settings for strongly convex losses: the corollary, as it is proved.

    With a third of ε for each term of the theorem, :math:`\varepsilon' = \varepsilon/3`,

    .. math::

        \eta = \frac{5}{\mu(K-1)}\Bigl(1 + \ln_+\frac{5B^2\mu(K-1)}{4\varepsilon'}\Bigr),
        \qquad G^2 = \mu\varepsilon',

    and K is the smallest number of steps with :math:`\eta \le \min\{\frac1{4\delta},
    \frac5{2\mu}, \frac{\varepsilon'}{2\sigma^2}\}`. :func:`plan_run` searches η and needs far
    fewer steps; this function is for comparisons with the paper.

    Parameters
    ----------
    epsilon, B, sigma, delta : float
        As for :func:`plan_run`.
    mu : float
        Strong convexity μ > 0 of the loss L.

    Returns
    -------
    Plan
        The settings; ``Plan.guarantee`` is the theorem's bound for them, at most ε.

    Raises
    ------
    ValueError
        If an argument is out of its range, or K would exceed 10**300.

    Notes
    -----
    The statement prints :math:`G^2 \le \frac12\mu\varepsilon`; three terms of equal size, which is
    what is proved, leave :math:`\frac13\mu\varepsilon`. It prints no 4 in the logarithm, where the
    proof has one. The logarithm is cut at 0: below it, η as printed can be negative.

    Examples
    --------
    >>> known = {"epsilon": 0.01, "B": 1.0, "sigma": 0.0, "delta": 1.0, "mu": 0.1}
    >>> corollary_plan(**known).steps, plan_run(**known).steps
    (2490, 157)

    References
    ----------
    Woodworth, Mishchenko, Bach, "Two Losses Are Better Than One", ICML 2023: the corollary on
    optimised guarantees.
    """
    epsilon, B, sigma, delta = constants(epsilon=epsilon, B=B, sigma=sigma, delta=delta)
    mu, third = positive("mu", mu), epsilon / 3
    limits = [2.5 / mu, *([0.25 / delta] if delta > 0 else [])]
    limits += [third / sigma / sigma / 2] if sigma > 0 else []

    def eta(steps: int) -> float:
        ratio = 1.25 * B * (B / third) * mu * (steps - 1)
        return 5 / mu / (steps - 1) * (1 + math.log(max(ratio, 1.0)))

    # η falls with K: the inequality x ≥ 1 + ln(ax) holds from x = 2(1 + ln(1 + a)) on.
    scale = 5 / mu / min(limits)
    enough = 2 + 2 * scale * (1 + math.log1p(1.25 * B * (B / third) * mu * scale))
    steps = _smallest_integer(lambda n: n > 1 and eta(n) <= min(limits), enough)
    step, G = eta(steps), math.sqrt(mu) * math.sqrt(third)
    sure = guarantee(eta=step, steps=steps, B=B, sigma=sigma, delta=delta, mu=mu, G=G)
    return Plan(eta=step, steps=steps, guarantee=sure, mu=mu, G=G, average=mu)


def _plan(epsilon: float, B: float, sigma: float, delta: float, mu: float) -> Plan:
    if mu == 0:
        return _convex_plan(epsilon, B, sigma, delta)
    return _searched_plan(epsilon, B, sigma, delta, mu, solved=False)


def _searched_plan(
    epsilon: float, B: float, sigma: float, delta: float, mu: float, solved: bool
) -> Plan:
    """Return the plan with the best of forty step sizes; none depends on μ."""
    room = epsilon if solved else 2 * epsilon / 3
    # A step size at which one step is enough, unless for noise.
    largest = 2 * B * (B / room)
    if delta > 0:
        largest = min(largest, (1.0 if solved else 0.25) / delta)
    eta, enough = largest, math.inf
    for j in range(1, 41):
        # Of the noise at least half of σ² counts if solved, twice of it if not.
        trial = j / 40 * room / (0.5 if solved else 2.0) / sigma / sigma if sigma > 0 else math.inf
        trial = min(trial, largest)
        front, noise, rate = 5 / 8, 2.0, 2 * trial * mu / 5
        if solved:
            front, noise, rate = _solved(trial, delta, mu)
        left = room - noise * trial * sigma * sigma
        if left <= 1e-9 * room:
            continue
        # The sum of the weights that is needed, as a logarithm: B² may overflow.
        log_need = math.log(front) + 2 * math.log(B) - math.log(trial) - math.log(left)
        steps = math.exp(min(log_need, 700.0))
        if math.log1p(rate) > 0:
            log_gain = log_need + math.log(rate)
            grown = max(log_gain, 0.0) + math.log1p(math.exp(-abs(log_gain)))
            steps = min(steps, grown / math.log1p(rate))
        if steps < enough:
            eta, enough = trial, steps
        if trial == largest:
            break
    G = 0.0 if solved else math.sqrt(mu) * math.sqrt(epsilon / 3)
    known = {"eta": eta, "mu": mu, "B": B, "sigma": sigma, "delta": delta, "G": G}

    def bound(steps: int) -> float:
        return guarantee(steps=steps, solved=solved, **known)

    steps = _smallest_integer(lambda n: bound(n) <= epsilon, enough)
    average, tol = (2.5 * mu / (1 + eta * delta), epsilon / B / 1000) if solved else (mu, 0.0)
    sure = bound(steps)
    return Plan(eta, steps, G, mu, sure, solved=solved, average=average, tol=tol)


def _convex_plan(epsilon: float, B: float, sigma: float, delta: float) -> Plan:
    def settings(steps: int) -> Plan:
        if sigma == 0 and delta == 0:
            eta = 9 * B / 4 * (B / epsilon)
            G = math.sqrt(epsilon / 4 / eta)
        else:
            by_noise = B / sigma / math.sqrt(steps) if sigma > 0 else math.inf
            eta = min(largest_step_size(delta), by_noise)
            G = math.hypot(sigma / math.sqrt(steps), delta * B / steps)
        bound = guarantee(eta=eta, steps=steps, B=B, sigma=sigma, delta=delta, G=G)
        return Plan(eta, steps, G, 1 / (eta * steps), bound, regularized=True)

    noise = sigma * B / epsilon
    enough = 19 / 2 * delta * B * (B / epsilon) + 1089 / 16 * noise * noise
    # The guarantee decreases in K: for either value of the minimum every term does.
    return settings(_smallest_integer(lambda n: settings(n).guarantee <= epsilon, enough))


def _smallest_integer(holds: Callable[[int], bool], high: float) -> int:
    """Return the smallest n ≥ 1 for which a condition holds; from ``high`` on it does."""
    if not high <= MOST_STEPS:
        got, allowed = Words(f"a need of {high:g}"), "large enough for at most 10**300 steps"
        raise ValueError(message("epsilon", got, allowed, "Check the scale of B and delta, too."))
    top = max(1, math.ceil(high))
    while not holds(top):
        top *= 2
    low = 1
    while low < top:
        middle = (low + top) // 2
        low, top = (low, middle) if holds(middle) else (middle + 1, top)
    return top
