"""The audit as its user reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector
from proxyprox.diagnostics.evidence import Segment
from proxyprox.diagnostics.rehearsal import Prediction, QuadraticModel, counted
from proxyprox.diagnostics.sampling import Interval
from proxyprox.diagnostics.verdict import Verdict, headline
from proxyprox.problems import MixedProxy, Problem, ScaledProxy, Zero
from proxyprox.result import Ledger

MEANINGS = {
    "delta": ("similarity δ", "how differently proxy and target curve: 0 is best, H no help"),
    "H": ("smoothness H", "the target's strongest curvature"),
    "mu": ("strong convexity μ", "the target's weakest curvature"),
    "sigma2": ("noise σ²", "how far one batch's gradient is off, squared"),
    "rho2": ("proxy noise ρ²", "the same for a proxy that is sampled"),
}
"""Name and meaning, in plain words, of each number estimated."""


@dataclass(frozen=True)
class PointAudit:
    """What was measured at one point.

    Attributes
    ----------
    w : array
        The point.
    delta, H, mu, sigma2 : Interval
        Similarity, smoothness, strong convexity and noise there.
    target_spectrum, difference_spectrum : array
        Eigenvalues, or Ritz values, of ``∇²L`` and of ``∇²L − ∇²L̂``.
    in_full : bool
        Whether the Hessian was seen in full, so that nothing but rounding is uncertain.
    """

    w: Vector
    delta: Interval
    H: Interval
    mu: Interval
    sigma2: Interval
    target_spectrum: np.ndarray[Any, Any]
    difference_spectrum: np.ndarray[Any, Any]
    in_full: bool


@dataclass(frozen=True)
class Suggestion:
    """A better use of the proxies at hand.

    Attributes
    ----------
    weights : tuple of float
        One for each proxy audited: the scale of a single one, or a mixture.
    delta : Interval
        δ at these weights, at the end of the path.
    helps : bool
        Whether it is offered: a mixture or scale that changes nothing is not.
    """

    weights: tuple[float, ...]
    delta: Interval
    helps: bool


@dataclass(frozen=True)
class CostRatio:
    """What a target gradient costs against a proxy gradient, in one unit.

    Attributes
    ----------
    target, proxy : float
        Cost of one gradient of each.
    unit : str
        ``"seconds"``, measured, or ``"given"``.
    """

    target: float
    proxy: float
    unit: str

    @property
    def ratio(self) -> float:
        """Target over proxy."""
        return self.target / self.proxy if self.proxy > 0 else float("inf")


@dataclass(frozen=True)
class BatchPrice:
    """What one stochastic gradient of the target costs.

    Attributes
    ----------
    samples : float
        Samples in a batch.
    cost : float or None
        In the objective's own unit, where it names one.
    seconds : float
        As measured.
    """

    samples: float
    cost: float | None
    seconds: float


@dataclass(frozen=True)
class Audit:
    """Everything an audit found, and what it says to do.

    Attributes
    ----------
    verdict : Verdict
        Use it, use it with this scale, use the mixture, do not use it, or unsure.
    leaning : Verdict
        What the rehearsal alone says: the verdict itself, unless that is unsure.
    reasons : tuple of str
        Why, in sentences.
    delta, H, sigma2 : Interval
        The largest over the points visited.
    mu : Interval
        The smallest over the points visited.
    rho2 : Interval
        Noise of the proxy's sampled gradients at the start (0 where it samples nothing).
    points : tuple of PointAudit
        The start first, then the points of the path.
    path : tuple of Segment
        Secants between them.
    scale : Suggestion
        The best scale of the proxy.
    mixture : Suggestion or None
        The best non-negative mixture, when several proxies were given.
    prediction : Prediction
        Target gradients that each method needs.
    cost : CostRatio
        A target gradient against a proxy gradient.
    epsilon, B : float
        Accuracy and distance to the minimiser that the prediction is for.
    epsilon_source, B_source : str
        ``"given"`` or ``"estimated"``.
    confidence : float
        Confidence of the intervals.
    batch : BatchPrice
        What one stochastic gradient of the target costs.
    ledger : Ledger
        What the audit itself cost.
    problem, others, model, proxy_matrices, start_gradient
        What a plan builds on: the problem, the further proxies, the quadratic model with the
        Hessians of the proxy offered (at the end of the path, and wherever before it δ exceeds
        H), and the target's gradient at the start.
    alarm : str
        Why the audit ended early, as one sentence, with nothing to predict: the proxy is NaN on
        the path, or the target curves downwards or runs away. Mostly empty.
    doubts : tuple of str
        Why the rehearsal is not to be trusted, as among the reasons; mostly empty. The verdict is
        then unsure, unless the proxy curves downwards wherever it was looked at.
    """

    verdict: Verdict
    leaning: Verdict
    reasons: tuple[str, ...]
    delta: Interval
    H: Interval
    mu: Interval
    sigma2: Interval
    rho2: Interval
    points: tuple[PointAudit, ...]
    path: tuple[Segment, ...]
    scale: Suggestion
    mixture: Suggestion | None
    prediction: Prediction
    cost: CostRatio
    epsilon: float
    epsilon_source: str
    B: float
    B_source: str
    confidence: float
    batch: BatchPrice
    ledger: Ledger
    problem: Problem = field(repr=False)
    others: tuple[Any, ...] = field(repr=False)
    model: QuadraticModel = field(repr=False)
    proxy_matrices: tuple[np.ndarray[Any, Any], ...] = field(repr=False)
    start_gradient: Vector = field(repr=False)
    alarm: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with the gain that was rehearsed; or the alarm."""
        return self.alarm or headline(self.verdict, self.prediction, self.leaning)

    @property
    def recommended(self) -> Problem:
        """The problem with the proxy that the verdict, or its leaning, is for; or with none."""
        return Problem(self.problem.objective, self._proxy(), self.problem.penalty)

    def _proxy(self) -> Any:
        if self.leaning is Verdict.USE_MIXED and self.mixture is not None:
            return MixedProxy((self.problem.proxy, *self.others), self.mixture.weights)
        if self.leaning is Verdict.USE_SCALED:
            return ScaledProxy(self.problem.proxy, self.scale.weights[0])
        return self.problem.proxy if self.leaning is Verdict.USE else Zero()

    def _where(self) -> str:
        if len(self.points) == 1:
            return "at the only point visited, the start"
        return f"the largest over the points visited, {len(self.points)} in all (of μ the smallest)"

    def __str__(self) -> str:
        told = self.prediction
        steps = told.rehearsed_sgd.steps, told.rehearsed_best.steps
        used = (
            f"  the audit used {self.ledger.target_gradients} target gradients on "
            f"{self.ledger.target_samples} samples (a pass over all of the data counts all its "
            "rows)"
        )
        if self.alarm:
            return f"{self.sentence}\n{used}"
        lines = [
            self.sentence,
            *(f"  {reason}" for reason in self.reasons),
            f"  {self._where()}, {self.confidence:.0%} limits:",
            *(
                f"    {name:<18} {getattr(self, field)} – {meaning}"
                for field, (name, meaning) in MEANINGS.items()
            ),
            f"  to ε = {self.epsilon:.3g} ({self.epsilon_source}), target gradients:",
            "    rehearsed: SGD {}, ProxyProx {}".format(*map(counted, steps)),
            f"    theory ({told.regime}, constants left out): SGD {told.sgd:.3g}, "
            f"accelerated {told.accelerated:.3g}, ProxyProx {told.proxyprox:.3g}",
            f"  a target gradient costs {self.cost.ratio:.3g} proxy gradients ({self.cost.unit})",
            used,
        ]
        return "\n".join(lines)
