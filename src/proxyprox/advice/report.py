"""The audit as its user reads it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from proxyprox._util.arrays import Vector
from proxyprox.advice.curvature import Segment
from proxyprox.advice.rehearsal import Prediction, QuadraticModel, step_words
from proxyprox.advice.sampling import BatchPrice, Matrix
from proxyprox.intervals import Interval
from proxyprox.problems import MixedProxy, Problem, ScaledProxy, Zero
from proxyprox.result import Ledger

__all__ = ["Audit", "CostRatio", "PointAudit", "Suggestion", "Verdict"]

# Name and meaning, in plain words, of each number estimated.
MEANINGS = {
    "delta": ("similarity δ", "how differently proxy and target curve: 0 is best, H no help"),
    "H": ("smoothness H", "the target's strongest curvature"),
    "mu": ("strong convexity μ", "the target's weakest curvature"),
    "sigma2": ("noise σ²", "how far one batch's gradient is off, squared"),
    "rho2": ("proxy noise ρ²", "the same for a proxy that is sampled"),
}

# How an alarm begins that is about the target: there is nothing to plan then.
NO_VERDICT = "No verdict:"

# Share by which two numbers of steps must differ to be prediction apart.
_ALIKE = 0.05


class Verdict(Enum):
    """What to do with a proxy; the value is the sentence to read."""

    USE = "Use it: with this proxy no more target gradients are needed than without."
    USE_SCALED = "Use it with the scale below: the proxy has the right shape but the wrong size."
    USE_MIXED = "Use the mixture below: it saves target gradients that this proxy alone does not."
    DO_NOT_USE = "Do not use it: it saves too few target gradients, or none."
    ONE_ROUND = "Use it: the proxy has the target's curvature, so that one full gradient solves it."
    UNSURE = "Unsure: what was measured does not describe the way to the minimum."

    def __str__(self) -> str:
        return self.value


def headline(verdict: Verdict, prediction: Prediction, leaning: Verdict | None = None) -> str:
    """Return the verdict as one sentence with the gain that was rehearsed.

    Parameters
    ----------
    verdict : Verdict
        What to do.
    prediction : Prediction
        The target gradients rehearsed.
    leaning : Verdict, optional
        What the rehearsal alone says, where the verdict is unsure.

    Examples
    --------
    >>> from proxyprox.advice.rehearsal import Rehearsal
    >>> one, two = Rehearsal(1.0, 203.0, 0.0), Rehearsal(1.0, 48.0, 0.0)
    >>> headline(Verdict.USE, Prediction(0.1, "convex", 1.0, 1.0, 1.0, one, two, two))
    'Use it: to ε = 0.1 SGD needs 203 target gradients, ProxyProx 48 (rehearsed): 4.2 times fewer.'
    """
    advice = leaning or verdict
    opening = advice.value.partition(":")[0]
    if verdict is Verdict.UNSURE:
        opening = f"Unsure, see below; the rehearsal alone says “{opening[0].lower()}{opening[1:]}”"
    gain, sgd, best = prediction.saved, prediction.rehearsed_sgd, prediction.rehearsed_best
    if advice is Verdict.DO_NOT_USE:
        outcome = "no gain" if gain <= 1 else f"only {gain:.2g} times fewer, too few to rely on"
    elif sgd.steps <= best.steps * (1 + _ALIKE):
        outcome = "no gain at this ε, where noise alone decides, and no loss"
    else:
        outcome = f"{gain:.2g} times fewer" if gain < math.inf else "only the second arrives"
    return (
        f"{opening}: to ε = {prediction.epsilon:.2g} SGD needs {step_words(sgd.steps)} target "
        f"gradients, ProxyProx {step_words(best.steps)} (rehearsed): {outcome}."
    )


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
    target_spectrum: Matrix
    difference_spectrum: Matrix
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
        return self.target / self.proxy if self.proxy > 0 else math.inf


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
    proxy_matrices: tuple[Matrix, ...] = field(repr=False)
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
        proxy: Any = Zero() if self.leaning is Verdict.DO_NOT_USE else self.problem.proxy
        if self.leaning is Verdict.USE_SCALED:
            proxy = ScaledProxy(proxy, self.scale.weights[0])
        elif self.mixture is not None and self.leaning is Verdict.USE_MIXED:
            proxy = MixedProxy((proxy, *self.others), self.mixture.weights)
        return replace(self.problem, proxy=proxy)

    def __str__(self) -> str:
        ledger, prediction, count = self.ledger, self.prediction, len(self.points)
        spent = f"{ledger.target_gradients} target gradients on {ledger.target_samples} samples"
        used = f"  the audit used {spent} (a pass over all of the data counts all its rows)"
        if self.alarm:
            return f"{self.sentence}\n{used}"
        where = f"the largest over the points visited, {count} in all (of μ the smallest)"
        where = "at the only point visited, the start" if count == 1 else where
        lines = [self.sentence, *(f"  {reason}" for reason in self.reasons)]
        lines.append(f"  {where}, {self.confidence:.0%} limits:")
        for field_name, (name, meaning) in MEANINGS.items():
            lines.append(f"    {name:<18} {getattr(self, field_name)} – {meaning}")
        lines += [
            f"  to ε = {self.epsilon:.3g} ({self.epsilon_source}), target gradients in theory "
            f"({prediction.regime}, constants left out): SGD {prediction.sgd:.3g}, accelerated "
            f"{prediction.accelerated:.3g}, ProxyProx {prediction.proxyprox:.3g}",
            f"  a target gradient costs {self.cost.ratio:.3g} proxy gradients ({self.cost.unit})",
        ]
        return "\n".join([*lines, used])
