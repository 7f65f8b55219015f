"""What is proven for the relatives of ProxyProx with variance reduction.

The published theorems are about other settings (a proximal step on a sampled loss, exact gradients,
a server and clients). The statements here are for the methods as this package has them, one proxy
and sampled target gradients; docs/proofs.md has the proofs. Throughout ``h = L − L̂`` is
δ-smooth and δ_B the *expected similarity* of a batch: ``E‖∇h_B(u) − ∇h_B(v)‖² ≤ δ_B²‖u − v‖²``,
``h_B = L_B − L̂``; for all but SAGA the variance of ``∇h_B(u) − ∇h_B(v)`` alone may stand in its
place.
"""

from __future__ import annotations

import math

from proxyprox._util.validation import fraction, positive, whole
from proxyprox.theory.complexity import constants
from proxyprox.theory.guarantees import limit_step_size


def _quotient(a: float, b: float) -> float:
    return a / b if b > 0 else math.inf


def svrp_guarantee(
    *, eta: float, steps: int, B: float, initial_gap: float, delta: float, delta_B: float,
    p: float, mu: float = 0.0,
) -> float:  # fmt: skip
    r"""Bound the expected suboptimality of SVRP; no σ² is in it.

    Let L be μ-strongly convex, subproblems solved exactly, renewals independent with probability p,
    and :math:`\eta \le \min\{1/(2\delta), \sqrt p/(4\delta_B)\}`. With
    :math:`V = \frac{3B^2}{4\eta} + \frac{2(1-p)}{p}(L(w_0) - L^*)` the mean iterate
    of a convex loss satisfies

    .. math:: \mathbb{E}L\Bigl(\frac1K\sum_{k=1}^K w_k\Bigr) - L^* \le \frac{2V}{K},

    and the last iterate of a strongly convex one, with
    :math:`\tau = \min\{\frac{2\eta\mu}{3 + 2\eta\mu}, \frac p4\}`,

    .. math:: \mathbb{E}L(w_K) - L^* \le 2(1-\tau)^K\Bigl(V + \frac{\mu B^2}{2}\Bigr).

    With p the batch's share b/n, ``√(n/b) δ_B/μ`` steps gain a constant factor: the order of SVRS.
    (Khaled and Jin's rate for SVRP needs ``η ≤ μ/(2δ²)``.)

    Parameters
    ----------
    eta : float
        Step size η.
    steps : int
        Number K of outer steps.
    B : float
        Distance of the start to a minimiser.
    initial_gap : float
        ``L(w_0) − L*``, or an upper bound on it.
    delta : float
        Smoothness δ of ``L − L̂``.
    delta_B : float
        Expected similarity δ_B of a batch; of b rows drawn independently, that of one row over √b.
    p : float
        Probability of a full gradient.
    mu : float, default 0.0
        Strong convexity μ of L; 0 for the mean iterate of a convex loss.

    Returns
    -------
    float
        Upper bound on the expected suboptimality.

    Raises
    ------
    ValueError
        If ``eta`` is too large, or an argument is out of its range.

    Examples
    --------
    >>> svrp_guarantee(eta=0.5, steps=100, B=1.0, initial_gap=0.5, delta=1.0, delta_B=0.25, p=0.25)
    0.09
    >>> bound = svrp_guarantee(
    ...     eta=0.5, steps=400, B=1.0, initial_gap=0.5, delta=1.0, delta_B=0.25, p=0.25, mu=1.0
    ... )
    >>> bound < 1e-9
    True
    """
    eta, B, initial_gap, delta, delta_B, mu = constants(
        eta=eta, B=B, initial_gap=initial_gap, delta=delta, delta_B=delta_B, mu=mu
    )
    steps, p = whole("steps", steps), fraction("p", p)
    limit_step_size(
        eta,
        {
            "1/(2*delta)": _quotient(0.5, delta),
            "sqrt(p)/(4*delta_B)": _quotient(math.sqrt(p) / 4, delta_B),
        },
    )
    start = 3 * B * B / (4 * eta) + 2 * (1 - p) / p * initial_gap
    if mu == 0:
        return 2 * start / steps
    tau = min(2 * eta * mu / (3 + 2 * eta * mu), p / 4)
    return 2 * math.exp(steps * math.log1p(-tau)) * (start + mu * B * B / 2)


def saga_guarantee(
    *, eta: float, steps: int, B: float, samples: int, table: float, delta: float,
    delta_B: float, mu: float,
) -> float:  # fmt: skip
    r"""Bound the expected suboptimality of SAGA's last iterate; no σ² is in it.

    Let L be μ-strongly convex, subproblems solved exactly and
    :math:`\eta \le \min\{1/(2\delta), \mu/(16\delta_B^2)\}`. With
    :math:`\tau = \min\{\frac{\eta\mu}{2 + 2\eta\mu}, \frac1{2n}\}` and
    :math:`Q = \frac1n\sum_i\|t_i - \nabla h_i(w^*)\|^2` of the first table,

    .. math:: \mathbb{E}L(w_K) - L^* \le 2(1-\tau)^K\Bigl(\frac{3B^2}{4\eta} + \frac{3\mu B^2}{4}
              + \frac{\mu n Q}{4\delta_B^2}\Bigr).

    Parameters
    ----------
    eta : float
        Step size η.
    steps : int
        Number K of outer steps, one row each.
    B : float
        Distance of the start to the minimiser.
    samples : int
        Number n of rows.
    table : float
        Q, or an upper bound; with the table of zeros that a run starts with, the mean of
        ``‖∇f_i(w*) − ∇L̂(w*)‖²``.
    delta : float
        Smoothness δ of ``L − L̂``.
    delta_B : float
        Expected similarity of a row, ``E‖∇h_i(u) − ∇h_i(v)‖² ≤ δ_B²‖u − v‖²``; positive.
    mu : float
        Strong convexity μ > 0 of L.

    Returns
    -------
    float
        Upper bound on the expected suboptimality.

    Raises
    ------
    ValueError
        If ``eta`` is too large, or an argument is out of its range.

    Examples
    --------
    >>> bound = saga_guarantee(
    ...     eta=0.05, steps=3000, B=1.0, samples=10, table=1.0, delta=1.0, delta_B=1.0, mu=1.0
    ... )
    >>> bound < 1e-9
    True
    """
    eta, B, table, delta = constants(eta=eta, B=B, table=table, delta=delta)
    steps, n = whole("steps", steps), whole("samples", samples)
    mu, delta_B = positive("mu", mu), positive("delta_B", delta_B)
    limits = {"1/(2*delta)": _quotient(0.5, delta), "mu/(16*delta_B**2)": mu / 16 / delta_B**2}
    limit_step_size(eta, limits)
    tau = min(eta * mu / (2 + 2 * eta * mu), 1 / (2 * n))
    start = 3 * B * B * (1 / eta + mu) / 4 + mu * n * table / (4 * delta_B**2)
    return 2 * math.exp(steps * math.log1p(-tau)) * start


def page_guarantee(
    *, eta: float, steps: int, initial_gap: float, delta: float, delta_B: float, p: float,
    mu: float = 0.0,
) -> float:  # fmt: skip
    r"""Bound PAGE's mean squared gradient norm, or its suboptimality; no σ² is in it.

    With :math:`\eta \le \min\{\frac{1}{4\delta}, \frac{1}{\delta_B}\sqrt{\frac{p}{24(1-p)}}\}` and
    inner solves that meet ``NonConvex()``, for any differentiable L,

    .. math:: \frac1K\sum_{k=1}^K\mathbb{E}\|\nabla L(w_k)\|^2 \le \frac{48\,(L(w_0)-L^*)}{\eta K},

    the non-convex theorem of the paper without its noise. If also
    :math:`\|\nabla L(w)\|^2 \ge 2\mu(L(w) - L^*)`, as of every μ-strongly convex L,

    .. math:: \mathbb{E}L(w_K) - L^* \le (1-\tau)^K(L(w_0)-L^*), \qquad
              \tau = \min\Bigl\{\frac{\eta\mu}{24+\eta\mu}, \frac{11p}{36}\Bigr\}.

    Parameters
    ----------
    eta : float
        Step size η.
    steps : int
        Number K of outer steps.
    initial_gap : float
        ``L(w_0) − L*``, or an upper bound on it.
    delta : float
        Smoothness δ of ``L − L̂``.
    delta_B : float
        Expected similarity δ_B of a batch.
    p : float
        Probability of a full gradient.
    mu : float, default 0.0
        The constant μ; 0 asks for the bound on gradients.

    Returns
    -------
    float
        Upper bound on the mean over the iterates of ``E‖∇L(w_k)‖²`` if ``mu`` is 0, else on the
        expected suboptimality of the last one.

    Raises
    ------
    ValueError
        If ``eta`` is too large, or an argument is out of its range.

    Examples
    --------
    >>> page_guarantee(eta=0.25, steps=96, initial_gap=1.0, delta=1.0, delta_B=0.1, p=0.5)
    2.0
    """
    eta, initial_gap, delta, delta_B, mu = constants(
        eta=eta, initial_gap=initial_gap, delta=delta, delta_B=delta_B, mu=mu
    )
    steps, p = whole("steps", steps), fraction("p", p)
    limit_step_size(
        eta,
        {
            "1/(4*delta)": _quotient(0.25, delta),
            "sqrt(p/(24*(1-p)))/delta_B": _quotient(math.sqrt(_quotient(p / 24, 1 - p)), delta_B),
        },
    )
    if mu == 0:
        return 48 * initial_gap / eta / steps
    tau = min(eta * mu / (24 + eta * mu), 11 * p / 36)
    return initial_gap * math.exp(steps * math.log1p(-tau))
