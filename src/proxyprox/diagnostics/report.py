"""What audits say, and the rehearsal and the rule that their verdicts follow from."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import count_words
from proxyprox.diagnostics.rehearsal import POLICY, Matrix, Rehearsal
from proxyprox.problems import MixedProxy, Problem, Zero
from proxyprox.result import Budget, Interval, Ledger

__all__ = [
    "Audit", "Bill", "Interval", "PointAudit", "Prediction", "Rehearsal", "Verdict",
]  # fmt: skip

# Name and meaning, in plain words, of each number estimated.
MEANINGS = {
    "delta": ("similarity δ", "how differently proxy and target curve: 0 is best, H no help"),
    "H": ("smoothness H", "the target's strongest curvature"),
    "mu": ("strong convexity μ", "the target's weakest curvature"),
    "sigma2": ("noise σ²", "how far one batch's gradient is off, squared"),
}


class Verdict(Enum):
    """What to do with a proxy; the value is the sentence to read."""

    USE = "Use it: with this proxy no more target gradients are needed than without."
    USE_SCALED = "Use it with the scale below: the proxy has the right shape but the wrong size."
    DO_NOT_USE = "Do not use it: it saves too few target gradients, or none."
    UNSURE = "Unsure: what was measured does not describe the way to the minimum."

    def __str__(self) -> str:
        return self.value


def ratio(slow: float, fast: float) -> float:
    """Return how many times as many steps the first takes; 1 if neither ends."""
    return 1.0 if math.isinf(slow) and math.isinf(fast) else slow / fast


def decide(
    without: float,
    own: float,
    scaled: float = math.inf,
    shares: tuple[float, float] = (0.0, 0.0),
) -> Verdict:
    """Return the verdict from the target gradients that were rehearsed.

    A proxy pays if it needs no more target gradients than the best method without it. Unless δ is
    at most half of H, it must save ``gain`` times. A scale must pay, and save something against no
    proxy. If the proxy pays as it is, the scale must save ``gain`` times against that.
    :class:`~proxyprox.diagnostics.rehearsal.AuditPolicy` has the thresholds.

    Parameters
    ----------
    without, own, scaled : float
        Target gradients without a proxy, with the proxy as it is, and with the scaled proxy.
    shares : pair of float
        δ/H of the proxy as it is, and scaled.

    Examples
    --------
    >>> decide(1000.0, 10.0).name, decide(1000.0, 1010.0).name
    ('USE', 'DO_NOT_USE')
    >>> decide(1000.0, 900.0, 10.0, (1.0, 0.0)).name
    'USE_SCALED'
    """

    def pays(steps: float, share: float) -> bool:
        return ratio(without, steps) >= (1.0 if share <= POLICY.half else POLICY.gain)

    usable = pays(own, shares[0])
    saves = not usable or ratio(own, scaled) >= POLICY.gain
    if saves and scaled < without and pays(scaled, shares[1]):
        return Verdict.USE_SCALED
    return Verdict.USE if usable else Verdict.DO_NOT_USE


@dataclass(frozen=True)
class Prediction:
    """Target gradients to the accuracy ε, rehearsed on the quadratic model of this very target.

    Attributes
    ----------
    sgd, proxyprox : Rehearsal
        Tuned SGD, and tuned ProxyProx with the proxy as it is.
    best : Rehearsal
        ProxyProx with the scaled proxy if that is offered; otherwise the same as ``proxyprox``.
    """

    sgd: Rehearsal
    proxyprox: Rehearsal
    best: Rehearsal

    @property
    def saved(self) -> float:
        """SGD's steps over ProxyProx's, as rehearsed with the proxy that is offered."""
        return ratio(self.sgd.steps, self.best.steps)


class PointAudit(NamedTuple):
    """What was measured at one point.

    Attributes
    ----------
    w : array
        The point.
    delta, H, mu, sigma2 : Interval
        Similarity, smoothness, strong convexity and noise there.
    in_full : bool
        Whether the Hessian was seen in full, so that nothing but rounding is uncertain.
    """

    w: Vector
    delta: Interval
    H: Interval
    mu: Interval
    sigma2: Interval
    in_full: bool

    @property
    def share(self) -> float:
        """δ/H."""
        return float(self.delta.estimate / max(self.H.estimate, 1e-300))


@dataclass(frozen=True)
class Bill:
    """What a run asks of the target.

    Attributes
    ----------
    target_gradients, target_samples : float
        Accesses to the target, and samples in their batches.
    cost : float or None
        In the objective's own unit, if it names one.
    """

    target_gradients: float
    target_samples: float
    cost: float | None

    def times(self, steps: int) -> Bill:
        """Return the bill of several steps."""
        return Bill(*(each and each * steps for each in astuple(self)))

    def affordable(self, limits: Budget | None) -> float:
        """Return the steps that every limit allows; infinitely many without limits."""
        pairs = [(getattr(limits, name, None), each) for name, each in vars(self).items()]
        return min((limit // each for limit, each in pairs if limit and each), default=math.inf)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found; the rival is SGD.

    ``delta``, ``H`` and ``sigma2`` are the largest over the points visited, ``mu`` is the smallest.

    Attributes
    ----------
    verdict : Verdict
        What to do with the proxy.
    leaning : Verdict
        What the rehearsal alone says: the verdict itself, unless that is unsure.
    reasons : tuple of str
        Why, in sentences.
    doubts : tuple of str
        Why the rehearsal is not to be trusted, as among the reasons; mostly empty.
    alarm : str
        Why there is nothing to predict, as one sentence: the proxy is NaN on the path, or the
        target curves downwards or runs away. Mostly empty.
    delta, H, mu, sigma2 : Interval
        Similarity, smoothness, strong convexity, and noise of a target gradient.
    points : tuple of PointAudit
        The start first, then the points of the path.
    scale : float
        The best scale of the proxy; it is offered if ``factor`` is the same.
    prediction : Prediction
        Target gradients that each method needs.
    epsilon : float
        The suboptimality that target gradients are counted to.
    ledger : Ledger
        What the audit itself cost.
    batch : Bill
        What one stochastic gradient of the target costs.
    problem, factor, w0
        What was audited and from where, and the scale of the proxy that the leaning is for.
    model, proxy_matrices
        What a plan builds on: the quadratic model, and the Hessians of the proxy offered (at the
        end of the path, and before it if δ exceeds H there).
    """

    verdict: Verdict
    leaning: Verdict
    delta: Interval
    H: Interval
    mu: Interval
    sigma2: Interval
    points: tuple[PointAudit, ...]
    scale: float
    prediction: Prediction
    epsilon: float
    ledger: Ledger
    batch: Bill
    problem: Problem = field(repr=False)
    w0: Vector = field(repr=False)
    model: Any = field(repr=False)
    proxy_matrices: tuple[Matrix, ...] = field(repr=False)
    factor: float = 1.0
    reasons: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    alarm: str = ""

    @property
    def refused(self) -> bool:
        """Whether the audit leans against the proxy."""
        return self.leaning is Verdict.DO_NOT_USE

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with the target gradients rehearsed; or the alarm."""
        if self.alarm:
            return self.alarm
        advice = self.leaning.value.partition(":")[0]
        if self.verdict is Verdict.UNSURE:
            lower = f"{advice[0].lower()}{advice[1:]}"
            advice = f"Unsure, see below; the rehearsal alone says “{lower}”"
        gain = self.prediction.saved
        if self.refused:
            outcome = "no gain" if gain <= 1 else f"only {gain:.2g} times fewer, too few to rely on"
        elif float(f"{gain:.2g}") <= 1:
            outcome = "no gain at this ε, where noise alone decides, and no loss"
        else:
            outcome = f"{gain:.2g} times fewer" if gain < math.inf else "only the second arrives"
        sgd, best = (
            f"{each.steps:,.0f}" if each.steps < math.inf else "more than ten million"
            for each in (self.prediction.sgd, self.prediction.best)
        )  # fmt: skip
        return (
            f"{advice}: to ε = {self.epsilon:.2g} SGD needs {sgd} target gradients, ProxyProx "
            f"{best} (rehearsed): {outcome}."
        )

    @property
    def recommended(self) -> Problem:
        """The problem with the proxy that the verdict, or its leaning, is for; or with none."""
        proxy: Any = self.problem.proxy
        if self.factor != 1.0:
            proxy = MixedProxy([proxy], [self.factor])
        return replace(self.problem, proxy=Zero() if self.refused else proxy)

    def __str__(self) -> str:
        count = count_words(self.ledger.target_gradients, "target gradient")
        spent = f"{count} on {self.ledger.target_samples} samples"
        lines = [self.sentence, *self.reasons]
        if not self.alarm:
            points = len(self.points)
            place = f"the largest over the points visited, {points} in all (of μ the smallest)"
            place = "at the only point visited, the start" if points == 1 else place
            lines += [f"{place}, 95% limits:"]
            lines += [f"  {name:<18} {getattr(self, k)} – {t}" for k, (name, t) in MEANINGS.items()]
        lines += [f"the audit used {spent} (a pass over all of the data counts all its rows)"]
        return "\n  ".join(lines)
