"""How many target gradients each method needs: what the theorems say, and the rehearsal."""

from __future__ import annotations

import math
from dataclasses import dataclass

from proxyprox import theory
from proxyprox.diagnostics.rehearsal import Rehearsal


@dataclass(frozen=True)
class Prediction:
    """Target gradients to the accuracy ε.

    Attributes
    ----------
    epsilon : float
        Wanted suboptimality.
    regime : str
        ``"strongly convex"`` or ``"convex"``: which of the paper's statements was used.
    sgd, accelerated, proxyprox : float
        The paper's orders of magnitude, constants left out: for comparison with one another.
    rehearsed_sgd, rehearsed_proxyprox : Rehearsal
        Tuned SGD and tuned ProxyProx on the quadratic model of this very target.
    rehearsed_best : Rehearsal
        ProxyProx with the proxy that is offered (scaled or mixed); the same as
        ``rehearsed_proxyprox`` when nothing is.
    """

    epsilon: float
    regime: str
    sgd: float
    accelerated: float
    proxyprox: float
    rehearsed_sgd: Rehearsal
    rehearsed_proxyprox: Rehearsal
    rehearsed_best: Rehearsal

    @property
    def saved(self) -> float:
        """SGD's steps over ProxyProx's, as rehearsed with the proxy that is offered."""
        return ratio(self.rehearsed_sgd, self.rehearsed_best)


def ratio(one: Rehearsal, other: Rehearsal) -> float:
    """Return how many times as many steps ``one`` takes as ``other``; 1 if neither arrives."""
    if math.isinf(one.steps) and math.isinf(other.steps):
        return 1.0
    return one.steps / other.steps


def counted(steps: float) -> str:
    """Return a number of steps to read.

    Examples
    --------
    >>> counted(12345.0), counted(math.inf)
    ('12,345', 'more than ten million')
    """
    return f"{steps:,.0f}" if math.isfinite(steps) else "more than ten million"


def theory_counts(
    *, epsilon: float, H: float, mu: float, delta: float, sigma: float, B: float
) -> tuple[str, float, float, float]:
    """Return the regime and the paper's counts for SGD, accelerated SGD and ProxyProx.

    Parameters
    ----------
    epsilon : float
        Wanted accuracy.
    H, mu, delta, sigma, B : float
        Constants of the problem; ``mu`` of zero or less selects the convex statements.

    Examples
    --------
    >>> theory_counts(epsilon=0.5, H=8.0, mu=0.0, delta=2.0, sigma=1.0, B=1.0)
    ('convex', 20.0, 8.0, 8.0)
    """
    common = {"epsilon": epsilon, "B": B, "sigma": sigma}
    if mu > 0:
        H = max(H, mu)
        return (
            "strongly convex",
            theory.sgd_steps_strongly_convex(H=H, mu=mu, **common),
            theory.lower_bound_strongly_convex(H=H, mu=mu, **common),
            theory.proxyprox_steps_strongly_convex(delta=delta, mu=mu, **common),
        )
    return (
        "convex",
        theory.sgd_steps_convex(H=H, **common),
        theory.lower_bound_convex(H=H, **common),
        theory.proxyprox_steps_convex(delta=delta, **common),
    )
