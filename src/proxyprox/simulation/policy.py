"""What tuning on a robot judges by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TuningPolicy:
    """When a policy is trusted, how steps are sized, and what is kept back for checks.

    Attributes
    ----------
    confidence : float
        Confidence, at least, that a policy does not exceed the first one's cost by the margin. Set
        by docs/results/guard/table.md.
    checks : int
        Rollouts, at least, that check a policy: two that it was chosen by may both have been lucky.
        Set by docs/results/guard/table.md.
    tails : int
        Degrees of freedom that are taken off: costs have heavier tails than a normal distribution,
        and few rollouts do not show them. Set by docs/results/guard/table.md.
    kept : int
        Of this many rollouts two are kept back, to check the answer. Set by
        docs/results/guard/table.md.
    eta, eta_fitted : float
        The step size times the simulator's largest curvature. A fitted simulator starts near its
        optimum, and what is left of the gap is what its parameters cannot explain: shorter steps.
        Set by docs/results/arm/table.md and docs/results/arm/table_other_eta.md.
    retraining : int
        Inner solves, one after another, that lead to the proxy's own minimum. Set by
        docs/results/arm/table.md.
    resets : int
        First states, the latest, whose mean cost stands for that of the robot's resets. No record:
        a judgement of time.
    nearer : float
        A trial after one that was turned back is at most this share of its distance away. Set by
        docs/results/guard/plants.md, as are the next three.
    multiple : float
        Trials above this many times the start's cost are turned back whatever ``tolerance`` says.
    halfway : float
        A step along the gradient alone aims at this share of the cost.
    promise : float
        A step of the simulator's that promises less than this share of the cost gives way to one
        along the gradient alone.
    block : int
        Steps in a row whose errors are taken as one when intervals are computed. No record: a
        judgement.
    """

    confidence: float = 0.95
    checks: int = 2
    tails: int = 2
    kept: int = 5
    eta: float = 30.0
    eta_fitted: float = 10.0
    retraining: int = 4
    resets: int = 64
    block: int = 5
    nearer: float = 0.25
    multiple: float = 3.0
    halfway: float = 0.5
    promise: float = 1e-3

    @property
    def least(self) -> int:
        """Degrees of freedom, and pairs, that make a spread known: one is left beside the tails."""
        return self.tails + 1


TUNING = TuningPolicy()
