"""The answer in plain words, and the rule that gives it."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from proxyprox.diagnostics.prediction import ratio
from proxyprox.diagnostics.rehearsal import Rehearsal

GAIN = 1.3
"""How many times fewer target gradients a proxy must promise before it is worth its trouble."""

TIE = 0.95
"""What is asked of a similar proxy instead: where noise decides, it must only not be worse."""

FEW = 2.0
"""Added to every number of steps: one step of three is no gain of a half."""

SIMILAR = 0.25
"""δ/H up to which a proxy counts as similar: the theorems then speak for it at every ε."""


class Verdict(Enum):
    """What to do with a proxy; the value is the sentence to read."""

    USE = (
        "Use it: with this proxy ProxyProx needs fewer target gradients than SGD, or as many where "
        "noise alone decides."
    )
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

    def __str__(self) -> str:
        return self.value


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
    noise hides the difference at this ε. A scale is preferred when it saves as much again, or
    when it halves δ and costs no more.

    Parameters
    ----------
    sgd, plain : Rehearsal
        Tuned SGD, and tuned ProxyProx with the proxy as it is.
    scaled : Rehearsal, optional
        Tuned ProxyProx with the scaled proxy.
    similarity, scaled_similarity : float
        δ/H of the proxy as it is, and scaled.

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

    if scaled is not None and pays(scaled, scaled_similarity):
        closer = scaled_similarity <= similarity / 2
        needed = TIE if closer else GAIN
        if not pays(plain, similarity) or gain(plain, scaled) >= needed:
            return Verdict.USE_SCALED
    return Verdict.USE if pays(plain, similarity) else Verdict.DO_NOT_USE
