"""Attack a release: how large must ε be, judged by who can tell that a row was in the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from proxyprox._util import validation as check
from proxyprox._util.validation import Words, message
from proxyprox.private.accounting import gaussian_epsilon, require_delta


@dataclass(frozen=True)
class Attack:
    """What an attacker can prove about a release.

    Attributes
    ----------
    epsilon : float
        Lower bound on ε, for the δ below.
    false_alarms, misses : float
        Upper bounds on the attacker's errors: a row seen that is not there, and the converse.
    delta, confidence : float
        As they were given.
    claimed : float or None
        The ε that was claimed.
    runs : int
        Releases of each kind; half of them were used to choose the attack.
    gaussian : bool
        Whether the release was taken for a Gaussian one, which makes the bound larger.
    """

    epsilon: float
    false_alarms: float
    misses: float
    delta: float
    confidence: float
    claimed: float | None
    runs: int
    gaussian: bool

    @property
    def refutes_claim(self) -> bool:
        """Whether the claimed ε is below the bound: the release is not as private as it says."""
        return self.claimed is not None and self.epsilon > self.claimed

    def __str__(self) -> str:
        kind = " if it is Gaussian" if self.gaussian else ""
        verdict = "REFUTED: there is a mistake" if self.refutes_claim else "not refuted: no proof"
        claim = "." if self.claimed is None else f". The claim ε = {self.claimed:g} is {verdict}."
        return (
            f"ε ≥ {self.epsilon:.3g} at δ = {self.delta:g}{kind}, with confidence "
            f"{self.confidence:g}: one row more or less is told by {self.runs} runs of each kind, "
            f"with at most {self.false_alarms:.3g} false alarms and {self.misses:.3g} misses{claim}"
        )


def attack(
    release: Callable[[bool], Any], *, delta: float, epsilon: float | None = None,
    runs: int = 2000, confidence: float = 0.999, gaussian: bool = True,
) -> Attack:  # fmt: skip
    r"""Bound ε from below by telling releases with a row from releases without it.

    The first quarter of the runs gives directions in which both kinds differ (difference of the
    means, and Fisher's discriminant, which also finds noise that is used twice), the second chooses
    direction and threshold, the rest is judged: with upper Clopper–Pearson limits α and β on
    false alarms and misses,

    .. math:: \varepsilon \ge \log\max\Big\{\frac{1-\delta-\beta}{\alpha},
              \frac{1-\delta-\alpha}{\beta}\Big\}, \qquad
              \mu \ge \Phi^{-1}(1-\alpha) - \Phi^{-1}(\beta).

    The first holds for every release, the second for Gaussian ones; it needs far fewer runs.

    Parameters
    ----------
    release : callable
        ``release(present)`` runs the whole mechanism on data with (True) or without (False) one
        row, the canary, and returns all that it releases as numbers, at most a tenth of ``runs``.
        The runs must be independent. The worst row is best: one whose gradient is long and points
        away from all others, in a table of few rows.
    delta : float
        δ.
    epsilon : float, optional
        The ε that is claimed, to be refuted.
    runs : int
        Runs of each kind, at least 40.
    confidence : float
        Probability that the bound holds: a sound release is refuted with at most the rest.
    gaussian : bool
        Take the release for a Gaussian mechanism of the whole data, one that is μ-GDP. Say
        False for Poisson-sampled releases and others.

    Returns
    -------
    Attack
        The bound, and whether it refutes the claim.

    References
    ----------
    Jagielski, Ullman and Oprea, "Auditing Differentially Private Machine Learning", 2020; Nasr et
    al., "Tight Auditing of Differentially Private Machine Learning", 2023.

    Examples
    --------
    >>> noise = np.random.default_rng(0)
    >>> found = attack(lambda present: present + 0.5 * noise.normal(), delta=1e-5, epsilon=1.0)
    >>> found.refutes_claim
    True
    """
    check.require_function("release", release, ("present",))
    delta, confidence = require_delta(delta), check.below_one("confidence", confidence)
    claimed = None if epsilon is None else check.positive("epsilon", epsilon)
    runs, gaussian = check.whole("runs", runs, least=40), check.flag("gaussian", gaussian)
    kinds: tuple[list[Any], list[Any]] = ([], [])
    for present in (False, True) * runs:
        made = release(present)
        try:
            kinds[present].append(np.asarray(made, dtype=np.float64).ravel())
        except (TypeError, ValueError) as error:
            got = Words(f"a function that returns a {type(made).__name__}")
            raise TypeError(message("release", got, "one that returns numbers")) from error
    sizes = {len(outcome) for outcome in (*kinds[0], *kinds[1])}
    if len(sizes) > 1 or 0 in sizes or not np.isfinite(found := np.array(kinds)).all():
        got = Words(f"{min(sizes)} to {max(sizes)} numbers, not all of them finite, or none")
        allowed = "one that returns as many finite numbers every time"
        raise ValueError(message("release", got, allowed))

    def errors(scores: Any, thresholds: Any) -> tuple[Any, Any]:
        """Return upper limits on false alarms and misses."""
        absent, present = np.sort(scores[0]), np.sort(scores[1])
        alarms = len(absent) - np.searchsorted(absent, thresholds, side="right")
        misses = np.searchsorted(present, thresholds, side="right")
        return tuple(upper_limit(k, len(absent), (1 - confidence) / 2) for k in (alarms, misses))

    def strength(errors: tuple[Any, Any]) -> Any:
        alpha, beta = errors
        if gaussian:
            return -ndtri(alpha) - ndtri(beta)
        odds = np.maximum((1 - delta - beta) / alpha, (1 - delta - alpha) / beta)
        return np.log(np.maximum(odds, 1.0))

    first, second, rest = np.split(found, [runs // 4, runs // 2], axis=1)
    candidates = []
    for direction in directions(first):
        scores = second @ direction
        ordered = np.unique(scores)
        thresholds = (ordered[1:] + ordered[:-1]) / 2 if len(ordered) > 1 else ordered
        values = strength(errors(scores, thresholds))
        candidates.append((values.max(), direction, thresholds[values.argmax()]))
    _, direction, threshold = max(candidates, key=lambda candidate: float(candidate[0]))
    alpha, beta = (float(e) for e in errors(rest @ direction, threshold))
    proven = max(float(strength((alpha, beta))), 0.0)
    bound = gaussian_epsilon(proven, delta) if gaussian else proven
    return Attack(bound, alpha, beta, delta, confidence, claimed, runs, gaussian)


def directions(outcomes: Any) -> list[Any]:
    """Return along which lines releases with the row differ from those without it."""
    means = outcomes.mean(axis=1)
    gap = means[1] - means[0]
    centred = (outcomes - means[:, None]).reshape(-1, outcomes.shape[-1])
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    # Directions without noise count most, but not beyond what rounding leaves of them.
    rounding = centred.size * np.finfo(float).eps
    floor = rounding * (values[-1] + gap @ gap) + np.finfo(float).tiny
    return [gap, vectors @ ((vectors.T @ gap) / np.maximum(values, floor))]


def upper_limit(count: Any, trials: int, level: float) -> Any:
    """Return Clopper and Pearson's upper limit on a probability, exceeded at most at this level."""
    count = np.asarray(count)
    limit = betaincinv(count + 1.0, np.maximum(trials - count, 1.0), 1 - level)
    return np.where(count < trials, limit, 1.0)
