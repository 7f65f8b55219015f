"""Fit labelled rows with the help of all inputs: candidates, choice, walk, standard errors."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from proxyprox import GLM
from proxyprox.problems.design import Design
from proxyprox.problems.families import Family
from proxyprox.sklearn._inference import (
    WIDEST,
    Estimate,
    best_power,
    estimated,
    paired,
    too_wide,
)
from proxyprox.sklearn._inputs import Labelled
from proxyprox.sklearn._moment import Moment, mixture, moment_of, pooled
from proxyprox.sklearn._proxy import LabelFree
from proxyprox.sklearn._rectify import rectifier_of
from proxyprox.sklearn._reduce import reduced
from proxyprox.sklearn._rows import centred, means, targets_of
from proxyprox.sklearn._select import Choice, choose, fine, folds_of
from proxyprox.sklearn._settings import Settings
from proxyprox.sklearn._start import label_free
from proxyprox.sklearn._task import Candidate, Task
from proxyprox.sklearn._teacher import Teacher, minimised

FEW_STEPS = 10
"""Steps taken where the labels are too few to split."""

NEGLIGIBLE = 1e-4
"""A point's share in the average below which it may be left out."""

SMALL_PRODUCT = 2_000_000
"""Multiplications up to which a product with the labelled rows is small."""

L2_GRID = (0.0, 1e-3, 1e-2)
"""L2 strengths tried, in units of the proxy's smoothness; the number of steps does the rest."""

FINE_GRID = (0.0, 1e-3, 3e-3, 1e-2, 3e-2)
"""The same where labels are many, so that the finer choice is not a gamble."""

L1_GRID = np.geomspace(1.0, 1e-3, 8)
"""Strengths tried for an L1 penalty, in units of the one that sets all coefficients to zero."""

Array = Any


class Learned(NamedTuple):
    """What a fit found."""

    w: Array
    alpha: float
    steps: int
    power: float
    taught: bool
    curve: Array
    rectifier: Array
    estimate: Estimate | str


def learn(
    settings: Settings,
    family: Family,
    rows: Labelled,
    *,
    others: Moment | None,
    teacher: Teacher | None = None,
    start: Array | None = None,
) -> Learned:
    """Fit the labelled rows.

    Parameters
    ----------
    settings : Settings
        The estimator's parameters.
    family : Family
        The exponential family.
    rows : Labelled
        Labelled rows.
    others : Moment or None
        Second moment of the unlabelled inputs.
    teacher : Teacher, optional
        Answers for every row.
    start : array, optional
        Where to begin (``warm_start``).
    """
    design = Design(rows.X, intercept=settings.intercept, checked=True)
    plain = GLM(design, rows.y, family, sample_weight=rows.weights)
    own = moment_of(design, rows.weights)
    # Half of the proxy are the labelled inputs, so that its curvature is never less than half of
    # the target's: then every step descends, however few the labels.
    moment = own if others is None else mixture(own, pooled(own, others), 0.5)
    inner = _inside(settings, family, rows, moment, teacher, start)
    if inner is not None:
        return inner
    return _fitted(settings, plain, rows, moment, teacher, start)


def _fitted(
    settings: Settings,
    plain: GLM,
    rows: Labelled,
    moment: Moment,
    teacher: Teacher | None,
    start: Array | None,
) -> Learned:
    # A row of weight two counts as two labels here as everywhere.
    unit = 1.0 if rows.weights is None else float(rows.weights.mean())
    alphas = _alphas(settings, plain, label_free(plain, moment, unit))
    losses = {alpha: _with_l2(plain, rows, alpha, settings) for alpha in alphas}
    task = Task(losses, moment, settings.l1_ratio, teacher, start, rows.weights)
    if settings.steps == "converged":
        return _converged(task, settings, plain)
    with _few_threads(plain):
        choice = _chosen(task, settings, rows, classifier=hasattr(plain.family, "classes"))
        w = _averaged(task, choice)
    estimate = _estimate(plain, w, teacher, choice.candidate.power)
    residuals = targets_of(plain) - choice.held_out
    power = choice.candidate.power
    if power is None:
        power = 0.0 if isinstance(estimate, str) else estimate.power
    return Learned(
        w, choice.candidate.alpha, choice.steps, power, choice.candidate.taught,
        choice.curve, rectifier_of(residuals, plain), estimate,
    )  # fmt: skip


def _inside(
    settings: Settings,
    family: Family,
    rows: Labelled,
    moment: Moment,
    teacher: Teacher | None,
    start: Array | None,
) -> Learned | None:
    """Fit in the subspace of the walk, where the data are wide and the labels few."""
    if settings.l1_ratio > 0 or settings.steps == "converged":
        return None
    known = [] if teacher is None else [teacher.student, teacher.slope]
    known += [] if start is None else [start]
    C = family.outputs
    small = reduced(rows, moment, known, outputs=C, intercept=settings.intercept)
    if small is None:
        return None
    found = _fitted(
        settings,
        GLM(
            Design(small.rows.X, intercept=settings.intercept, checked=True),
            rows.y,
            family,
            sample_weight=rows.weights,
        ),
        small.rows,
        small.moment,
        None if teacher is None else small.taught(teacher, C),
        None if start is None else small.inside(start, C),
    )
    # Standard errors belong to the original columns, of which there are too many for any.
    why = too_wide(len(rows.y), rows.X.shape[1] + settings.intercept, family)
    return found._replace(w=small.outside(found.w, C), estimate=why)


def _few_threads(loss: GLM) -> AbstractContextManager[Any]:
    """Keep thousands of small products on one thread: others would only wait for each other."""
    small = loss.design.rows * loss.dim <= SMALL_PRODUCT
    return threadpool_limits(1, user_api="blas") if small else nullcontext()


def _averaged(task: Task, choice: Choice) -> Array:
    """Walk on all labelled rows, and average the points by their shares."""
    total, used = np.zeros(task.loss.dim), 0.0
    for candidate, shares in choice.shares.items():
        # What has no share to speak of need not be walked.
        last = int(np.max(np.flatnonzero(shares > NEGLIGIBLE), initial=-1))
        if last < 0:
            continue
        walk = task.walk(candidate)
        for k in range(last + 1):
            total += shares[k] * (walk.advance() if k else walk.w)
        used += float(shares[: last + 1].sum())
    return total / used


def _converged(task: Task, settings: Settings, plain: GLM) -> Learned:
    """Go to the end of the walk at once: the minimiser of the (paired) labelled loss."""
    alpha, loss = next(iter(task.losses.items()))
    walk = task.walk(Candidate(alpha))
    objective: Any = loss
    power = 0.0
    if task.teacher is not None and settings.power != 0.0:
        power = settings.power  # type: ignore[assignment]
        if settings.power is None:
            power = best_power(plain, task.teacher, minimised(loss, walk.w))
        objective = paired(loss, task.teacher, power)
    start = walk.w if task.teacher is None else task.teacher.student
    w = minimised(objective, start, penalty=walk.problem.penalty, tol=1e-10)
    if alpha == 0:
        w = centred(w, plain.family.outputs)
    estimate = _estimate(plain, w, task.teacher, power)
    residuals = targets_of(plain) - means(plain.design, plain.family, w)
    spare = plain.design.rows / max(plain.design.rows - plain.design.width, 1)
    widened = residuals.mean(axis=0) + np.sqrt(spare) * (residuals - residuals.mean(axis=0))
    rectifier = rectifier_of(widened, plain)
    return Learned(w, alpha, -1, power, False, np.zeros(0), rectifier, estimate)


def _chosen(task: Task, settings: Settings, rows: Labelled, *, classifier: bool) -> Choice:
    folds = folds_of(
        settings.cv, rows, classifier=classifier, seed=settings.seed, parameters=task.loss.dim
    )
    candidates = _candidates(task, settings)
    fixed = settings.steps if isinstance(settings.steps, int) else None
    if not folds:
        nothing = np.full((len(rows.y), task.loss.family.outputs), np.nan)
        steps = FEW_STEPS if fixed is None else fixed
        shares = {candidates[0]: np.eye(steps + 1)[-1]}
        return Choice(candidates[0], steps, np.zeros(0), nothing, shares)
    longest = settings.max_steps if fixed is None else fixed
    # An average of sparse points would not be sparse.
    average = settings.average and settings.l1_ratio == 0
    return choose(
        task, candidates, folds, max_steps=longest, fixed=fixed is not None, average=average
    )


def _candidates(task: Task, settings: Settings) -> list[Candidate]:
    plain = [Candidate(alpha) for alpha in task.losses]
    if task.teacher is None or settings.power == 0.0:
        return plain
    if settings.power is not None:
        return [
            Candidate(alpha, settings.power, taught)
            for alpha in task.losses
            for taught in (False, True)
        ]
    helped = [
        Candidate(alpha, power, taught)
        for alpha in task.losses
        for power, taught in ((None, False), (0.0, True), (None, True))
    ]
    return plain + helped


def _alphas(settings: Settings, plain: GLM, proxy: LabelFree) -> tuple[float, ...]:
    if settings.alphas is not None:
        return settings.alphas
    if settings.steps != "cv" and settings.l1_ratio == 0:
        return (0.0,)
    if settings.l1_ratio == 0:
        grid = FINE_GRID if fine(plain.design.rows, plain.dim) else L2_GRID
        return tuple(share * proxy.smoothness for share in grid)
    slope = plain.gradient(proxy.w0).reshape(plain.design.width, -1)
    steepest = float(np.abs(slope[: plain.design.columns]).max()) / settings.l1_ratio
    return tuple(float(share) * steepest for share in L1_GRID)


def _with_l2(plain: GLM, rows: Labelled, alpha: float, settings: Settings) -> GLM:
    l2 = alpha * (1 - settings.l1_ratio)
    if l2 == 0:
        return plain
    return GLM(plain.design, rows.y, plain.family, l2=l2, sample_weight=rows.weights)


def _estimate(plain: GLM, w: Array, teacher: Teacher | None, power: float | None) -> Estimate | str:
    if plain.dim > WIDEST:
        return too_wide(plain.design.rows, plain.design.width, plain.family)
    return estimated(plain, w, teacher=teacher, power=power)
