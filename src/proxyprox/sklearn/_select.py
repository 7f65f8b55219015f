"""Cross-validation on the labelled rows, with all of the unlabelled ones in every fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv

from proxyprox._checks import message
from proxyprox.problems.families import Linear
from proxyprox.sklearn._inputs import Labelled
from proxyprox.sklearn._rows import means, row_losses
from proxyprox.sklearn._task import Candidate, Task

PATIENCE = 25
"""A walk ends when the held-out loss has not improved for so many steps."""

FEW = 250
"""Up to so many labels thirds are left out, and that five times.

One split of few labels is a gamble. And with few of them a fit that is too free costs far more than
one that is too stiff: to leave much out errs on the cheap side.
"""

LIGHT = 1_000_000
"""Labels times parameters above which few labels are split only once: it would take too long."""

FINE = 300_000
"""Labels times parameters up to which many labels are worth ten folds and a finer grid."""

Array = Any
Folds = Sequence[tuple[Array, Array]]


@dataclass(frozen=True)
class Choice:
    """What cross-validation picked.

    Attributes
    ----------
    candidate : Candidate
        The walk with the least held-out loss.
    steps : int
        How far it goes.
    curve : array
        Its mean held-out loss after 0, 1, 2, … steps.
    held_out : array of shape (n, C)
        Predictions of each labelled row by the fits that did not see it; NaN without folds.
    shares : mapping
        For each walk, the weight of its points 0, 1, 2, … in the answer; they add up to one.
    """

    candidate: Candidate
    steps: int
    curve: Array
    held_out: Array
    shares: Mapping[Candidate, Array]


def folds_of(cv: Any, rows: Labelled, *, classifier: bool, seed: Any, parameters: int = 1) -> Folds:
    """Return the train and test rows of each fold; empty if the labels are too few to split.

    Parameters
    ----------
    cv : int, splitter, iterable of splits or None
        How to split the labelled rows, in their order.
    rows : Labelled
        The labelled rows; those of weight zero are split but then left out.
    classifier : bool
        Whether the labels are classes, which every fold should hold.
    seed : int, RandomState or None
        Randomness of the default split.
    parameters : int
        Size of the model: a large one is not split again and again.
    """
    if cv is None:
        splits, repeats = _splitting(len(rows.y), parameters)
        return _default_folds(rows.y, splits, repeats, classifier=classifier, seed=seed)
    y = rows.all_y
    place = np.cumsum(rows.kept) - 1
    try:
        splits = check_cv(cv, y, classifier=classifier).split(np.zeros((len(y), 1)), y)
        mapped = [tuple(place[part[rows.kept[part]]] for part in split) for split in splits]
    except (TypeError, ValueError, IndexError) as error:
        allowed = "a number of folds, 2 or more, a splitter, a list of splits or None"
        raise ValueError(message("cv", cv, allowed, str(error))) from error
    return [(train, test) for train, test in mapped if len(train) and len(test)]


def fine(labels: int, parameters: int) -> bool:
    """Tell whether labels are many, and a walk cheap enough, for a thorough search."""
    return FEW < labels <= FINE / parameters


def _splitting(labels: int, parameters: int) -> tuple[int, int]:
    """Return the number of folds, and how often the rows are split."""
    if labels <= FEW and labels * parameters <= LIGHT:
        return 3, 5
    return (10, 1) if fine(labels, parameters) else (5, 1)


def _default_folds(y: Array, splits: int, repeats: int, *, classifier: bool, seed: Any) -> Folds:
    n = len(y)
    smallest = int(np.min(np.unique(y, return_counts=True)[1])) if classifier else n
    splits = min(splits, n)
    if splits < 2:
        return []
    if classifier and smallest >= 2:
        splits = min(splits, smallest)
        kind: Any = RepeatedStratifiedKFold
    else:
        kind = RepeatedKFold
    split = kind(n_splits=splits, n_repeats=repeats, random_state=seed)
    return list(split.split(np.zeros(n), y))


def choose(
    task: Task,
    candidates: Sequence[Candidate],
    folds: Folds,
    *,
    max_steps: int,
    fixed: bool = False,
    average: bool = True,
) -> Choice:
    """Return the candidate and the number of steps with the least held-out loss.

    A teacher is believed only if it lowers the held-out loss by more than a standard error of
    the difference, row by row: one that seems to help by chance must do no harm.

    With few labels the least held-out loss is a gamble. Averaging weighs every point of every
    walk by its held-out likelihood ``exp(−n · loss)``; because the loss is convex, the average
    is never worse than its parts are on average.

    Parameters
    ----------
    task : Task
        What is fitted.
    candidates : sequence of Candidate
        At least one.
    folds : sequence of (train, test)
        Rows of each fold.
    max_steps : int
        Longest walk.
    fixed : bool
        Whether every walk goes exactly that far.
    average : bool
        Whether points are averaged.
    """
    trials = [_tried(task, candidate, folds, max_steps, fixed) for candidate in candidates]
    plain = [t for t in trials if t.candidate.power == 0 and not t.candidate.taught] or trials
    helped = [t for t in trials if t.candidate.power != 0 or t.candidate.taught]
    best = min(plain, key=_score)
    rival = min(helped, key=_score, default=best)
    gap = rival.losses - best.losses
    group = plain
    if gap.mean() < -gap.std() / np.sqrt(len(gap)):
        best, group = rival, helped
    if average and not fixed:
        shares = _shares(group, best, task)
    else:
        shares = {best.candidate: np.eye(best.steps + 1)[-1]}
    return Choice(best.candidate, best.steps, best.curve, best.held_out, shares)


def _shares(trials: Sequence[_Trial], best: _Trial, task: Task) -> dict[Candidate, Array]:
    least = _score(best)
    # Least squares is a likelihood in units of the noise; the other losses are one as they are.
    scale = 2 * max(least, 1e-300) if isinstance(task.loss.family, Linear) else 1.0
    raw = {
        trial.candidate: np.exp(-task.total() * (trial.curve - least) / scale) for trial in trials
    }
    total = sum(float(weights.sum()) for weights in raw.values())
    return {candidate: weights / total for candidate, weights in raw.items()}


class _Trial(NamedTuple):
    candidate: Candidate
    steps: int
    curve: Array
    losses: Array
    held_out: Array


def _score(trial: _Trial) -> float:
    return float(trial.curve[trial.steps])


def _flat(curve: list[float]) -> bool:
    """Tell whether a walk has arrived: ten steps have not changed the held-out loss."""
    return len(curve) > 20 and abs(curve[-11] - curve[-1]) <= 1e-5 * abs(curve[-1])


def _tried(task: Task, candidate: Candidate, folds: Folds, max_steps: int, fixed: bool) -> _Trial:
    """Walk on all folds in step, so that all stop together when it no longer pays."""
    loss = task.losses[candidate.alpha]
    weights = loss.sample_weight
    walks = [task.walk(candidate, train) for train, _ in folds]
    tests = [loss.rows(test) for _, test in folds]
    seen = np.zeros(loss.design.rows)
    for _, test in folds:
        seen[test] += 1
    curve: list[float] = []
    best = (np.inf, 0, np.zeros(0), [walk.w for walk in walks])
    for k in range(max_steps + 1):
        if k:
            for walk in walks:
                walk.advance()
        losses = np.zeros(loss.design.rows)
        for walk, test_loss, (_, test) in zip(walks, tests, folds, strict=True):
            losses[test] += row_losses(test_loss, walk.w)
        losses = np.divide(losses, seen, out=np.zeros_like(losses), where=seen > 0)
        score = float(np.average(losses[seen > 0], weights=weights[seen > 0]))
        curve.append(score if np.isfinite(score) else np.inf)
        if curve[-1] < best[0] or (fixed and k == max_steps):
            best = (curve[-1], k, losses, [walk.w for walk in walks])
        elif not fixed and (k - best[1] >= PATIENCE or _flat(curve)):
            break
    held_out = np.zeros((loss.design.rows, loss.family.outputs))
    for w, test_loss, (_, test) in zip(best[3], tests, folds, strict=True):
        held_out[test] += means(test_loss.design, loss.family, w)
    with np.errstate(invalid="ignore", divide="ignore"):
        held_out = held_out / seen[:, None]
    return _Trial(candidate, best[1], np.asarray(curve), best[2], held_out)
