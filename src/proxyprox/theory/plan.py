"""What the corollary hands to a user: how to set up a run."""

from __future__ import annotations

from dataclasses import dataclass


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
