"""The answer in plain words, and the rule that gives it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from proxyprox.diagnostics.rehearsal import Prediction, Rehearsal, counted, ratio

GAIN = 1.3
"""How many times fewer target gradients a proxy must promise before it is worth its trouble."""

TIE = 0.95
"""What is asked of a similar proxy instead: where noise decides, it must only not be worse."""

FEW = 2.0
"""Added to every number of steps: one step of three is no gain of a half."""

SIMILAR = 0.25
"""δ/H up to which a proxy counts as similar: the theorems then speak for it at every ε."""


_ALIKE = 0.05
"""Share by which two numbers of steps must differ to be told apart."""

NEAR_ONE = 0.1
"""How far from 1 a scale must be to be worth saying."""


class Verdict(Enum):
    """What to do with a proxy; the value is the sentence to read."""

    USE = "Use it: with this proxy ProxyProx needs no more target gradients than SGD."
    USE_SCALED = (
        "Use it with this scale: the proxy has the right shape but the wrong size, and multiplied "
        "by the scale given it serves as well as one of the right size."
    )
    USE_MIXED = (
        "Use the mixture: together, with the weights given, the proxies save target gradients that "
        "this one alone does not."
    )
    DO_NOT_USE = (
        "Do not use it: with this proxy ProxyProx saves too few target gradients against SGD to be "
        "worth it, or none."
    )
    UNSURE = (
        "Unsure: what was measured does not describe the way to the minimum, so that the rehearsal "
        "may be wrong either way."
    )

    def __str__(self) -> str:
        return self.value


_OPENINGS = {
    Verdict.USE: "Use it",
    Verdict.USE_SCALED: "Use it with the scale below",
    Verdict.USE_MIXED: "Use the mixture below",
    Verdict.DO_NOT_USE: "Do not use it",
    Verdict.UNSURE: "Unsure",
}


def worth_saying(weights: Sequence[float]) -> bool:
    """Tell whether a scale is positive and not 1 for all practical purposes.

    Examples
    --------
    >>> worth_saying([1.004]), worth_saying([0.0]), worth_saying([0.1])
    (False, False, True)
    """
    return weights[0] > 0 and abs(weights[0] - 1) > NEAR_ONE


def decide(
    sgd: Rehearsal,
    plain: Rehearsal,
    scaled: Rehearsal | None = None,
    *,
    similarity: float = 1.0,
    scaled_similarity: float = 1.0,
) -> Verdict:
    """Return the verdict from the rehearsed numbers of steps.

    A proxy pays when it promises ``GAIN`` times fewer target gradients than SGD; a similar one
    (δ ≤ H/4) pays already when it promises no more, since SGD's only advantage there is that
    noise hides the difference at this ε. A scale must save something against SGD. To be
    preferred to a proxy that pays as it is, it must save ``GAIN`` times as much, or halve δ and
    save anything.

    Parameters
    ----------
    sgd, plain : Rehearsal
        Tuned SGD, and tuned ProxyProx with the proxy as it is.
    scaled : Rehearsal, optional
        Tuned ProxyProx with the scaled proxy.
    similarity, scaled_similarity : float
        δ/H of the proxy as it is, and scaled: at the end of the path, or the largest on the way
        where that exceeds 1.

    Examples
    --------
    >>> steps = lambda n: Rehearsal(1.0, n, 0.0)
    >>> decide(steps(1000.0), steps(10.0)).name
    'USE'
    >>> decide(steps(1000.0), steps(900.0), steps(10.0)).name
    'USE_SCALED'
    >>> decide(steps(1000.0), steps(950.0), steps(950.0)).name
    'DO_NOT_USE'
    """

    def gain(one: Rehearsal, other: Rehearsal) -> float:
        return ratio(replace(one, steps=one.steps + FEW), replace(other, steps=other.steps + FEW))

    def pays(found: Rehearsal, share: float) -> bool:
        return gain(sgd, found) >= (TIE if share <= SIMILAR else GAIN)

    if scaled is not None and gain(sgd, scaled) > 1 and pays(scaled, scaled_similarity):
        closer = scaled_similarity <= similarity / 2 and scaled.steps < plain.steps
        if not pays(plain, similarity) or closer or gain(plain, scaled) >= GAIN:
            return Verdict.USE_SCALED
    return Verdict.USE if pays(plain, similarity) else Verdict.DO_NOT_USE


def headline(verdict: Verdict, told: Prediction, leaning: Verdict | None = None) -> str:
    """Return the verdict as one sentence with the gain that was rehearsed.

    Parameters
    ----------
    verdict : Verdict
        What to do.
    told : Prediction
        The target gradients rehearsed.
    leaning : Verdict, optional
        What the rehearsal alone says, where the verdict is unsure.

    Examples
    --------
    >>> one, two = Rehearsal(1.0, 203.0, 0.0), Rehearsal(1.0, 48.0, 0.0)
    >>> headline(Verdict.USE, Prediction(0.1, "convex", 1.0, 1.0, 1.0, one, two, two))
    'Use it: to ε = 0.1 SGD needs 203 target gradients, ProxyProx 48 (rehearsed): 4.2 times fewer.'
    """
    said = verdict if leaning is None else leaning
    opening = _OPENINGS[said]
    if verdict is Verdict.UNSURE:
        opening = f"Unsure, see below; the rehearsal alone says “{opening[0].lower()}{opening[1:]}”"
    gain = told.saved
    if said is Verdict.DO_NOT_USE:
        outcome = "no gain" if gain <= 1 else f"only {gain:.2g} times fewer, too few to rely on"
    elif told.rehearsed_sgd.steps <= told.rehearsed_best.steps * (1 + _ALIKE):
        outcome = "no gain at this ε, where noise alone decides, and no loss"
    else:
        outcome = f"{gain:.2g} times fewer" if gain < math.inf else "only the second arrives"
    sgd, proxied = (counted(r.steps) for r in (told.rehearsed_sgd, told.rehearsed_best))
    return (
        f"{opening}: to ε = {told.epsilon:.2g} SGD needs {sgd} target gradients, ProxyProx "
        f"{proxied} (rehearsed): {outcome}."
    )
