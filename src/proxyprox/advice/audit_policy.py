"""The thresholds of audits and plans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AuditPolicy:
    """Thresholds of audits and plans.

    The record is ``docs/results/audit``. ``benchmarks/audit_verdicts.py`` set the numbers of the
    verdict, ``benchmarks/audit_functions.py`` those of the doubts and of the path, and
    ``benchmarks/plan_cases.py`` those of the model and of rough plans.

    Attributes
    ----------
    learning : int
        Steps that find the numbers of a proxy that is fitted before it is judged.
    gain : float
        How many times fewer target gradients a proxy must need to be worth its trouble.
    similar : float
        δ/H up to which a proxy must only not be worse: the theorems speak for it at every ε.
    closer : float
        Share of δ at which a scale is preferred as soon as it saves anything. Without this rule
        scales that the runs need, such as that of mushrooms without labels × 10, are not offered.
    few : float
        Added to every number of steps: two steps instead of three are no gain of a half.
    unexplained : float
        Share of a gradient's change along the path beyond which curvature has not explained it.
        Smooth losses whose curvature halves on the way stay below 0.3, kinked ones do not.
    downwards : float
        Share of H by which a target may curve downwards and still be rehearsed as a convex one.
    other_units : float
        Factor in curvature beyond which other units are suspected.
    accuracy : float
        The default ε, as a share of the start's suboptimality.
    damping : float
        Share of H added to the curvature of a step, so that flat and noisy directions stay short.
    steep : float
        Share of the first slope that is still steep after a step.
    certain : float
        Standard errors by which the first slope must differ from zero on the batches of a probe.
    least_points : int
        Points that the search for a step's length can probe at least.
    farther : float
        Most times that a step is lengthened at once.
    tries, more : int
        Target gradients kept for the length of each step, and further ones if the budget allows.
    least_steps : int
        Lanczos steps below which the upper limit says next to nothing.
    bend : float
        Factor of the suboptimality that a bent loss adds to the mean of scattered iterates.
    bent : float
        Share by which H may change between start and end before a plan is rough.
    heavy : float
        How many times as much as Gaussian noise that of batches may vary before a plan is rough.
    """

    learning: int = 3
    gain: float = 1.3
    similar: float = 0.25
    closer: float = 0.5
    few: float = 2.0
    unexplained: float = 0.5
    downwards: float = 0.05
    other_units: float = 10.0
    accuracy: float = 1e-2
    damping: float = 1e-2
    steep: float = 0.5
    certain: float = 3.0
    least_points: int = 5
    farther: float = 4.0
    tries: int = 3
    more: int = 21
    least_steps: int = 6
    bend: float = 4.0
    bent: float = 0.4
    heavy: float = 2.5


@dataclass(frozen=True)
class RoundPolicy:
    """Thresholds of audits of exact gradients.

    The record is ``docs/is_my_proxy_any_good.md``, made by ``benchmarks/audit_rounds.py``.

    Attributes
    ----------
    rounds : int
        Rounds that the audit takes.
    margin : float
        A metric's misfit must be below that of the identity by more than this.
    dimensions : int
        Parameters up to which the proxy's Hessian is formed; beyond, Krylov vectors.
    most : int
        Rounds after which a rehearsal is given up.
    accuracy : float
        The default ε, as a share of the start's suboptimality.
    """

    rounds: int = 3
    margin: float = 0.05
    dimensions: int = 200
    most: int = 1000
    accuracy: float = 1e-6
