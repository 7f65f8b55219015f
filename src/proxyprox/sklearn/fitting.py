"""Fit labelled rows with the help of all inputs: candidates, paths, choice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from threadpoolctl import threadpool_limits

from proxyprox import DANE, GLM, L1, NonFiniteError, Problem, Relative, Run, Steps
from proxyprox._util.validation import message
from proxyprox.problems.families import Family, Linear
from proxyprox.problems.glm import Design
from proxyprox.sklearn.inference import (
    WIDEST,
    Estimate,
    best_power,
    estimated,
    paired,
    rectifier_of,
    too_wide,
)
from proxyprox.sklearn.inputs import Labelled, Settings
from proxyprox.sklearn.moments import (
    LabelFree,
    Moment,
    centred,
    factorised,
    label_free,
    means,
    mixture,
    moment_of,
    pooled,
    row_losses,
    targets_of,
)
from proxyprox.sklearn.teacher import Teacher, minimised

MOST = 1200
"""Directions up to which the reduction pays."""

Array = Any


class Reduction(NamedTuple):
    """An orthonormal basis of the directions a walk can take, and the fit in its coordinates.

    Gradients are combinations of labelled rows, and the proxy's inverse maps a direction to
    itself and the moment's leading vectors: from a start in the subspace, a walk without an L1
    penalty stays in it. Nothing is approximated.
    """

    basis: Array
    rows: Labelled
    moment: Moment
    intercept: bool

    def inside(self, w: Array, outputs: int) -> Array:
        """Return parameters in the basis' coordinates."""
        matrix = w.reshape(-1, outputs)
        columns = self.basis.shape[0]
        return np.vstack([self.basis.T @ matrix[:columns], matrix[columns:]]).ravel()

    def outside(self, w: Array, outputs: int) -> Array:
        """Return coordinates as parameters of the original columns."""
        matrix = w.reshape(-1, outputs)
        directions = self.basis.shape[1]
        return np.vstack([self.basis @ matrix[:directions], matrix[directions:]]).ravel()

    def taught(self, teacher: Teacher, outputs: int) -> Teacher:
        """Return a teacher whose student and slope are in the basis' coordinates."""
        student, slope = (self.inside(w, outputs) for w in (teacher.student, teacher.slope))
        return replace(teacher, student=student, slope=slope)


def reduced(
    rows: Labelled, moment: Moment, known: Sequence[Array], *, outputs: int, intercept: bool
) -> Reduction | None:
    """Return the fit in the subspace of its walk, or None where that is not much smaller.

    Parameters
    ----------
    rows : Labelled
        The labelled rows.
    moment : Moment
        Of all inputs.
    known : sequence of arrays
        Parameters that must lie in the subspace: a start, a student, a slope.
    outputs : int
        Parameters of a column.
    intercept : bool
        Whether there is a constant.
    """
    n, columns = rows.X.shape
    size = n + moment.vectors.shape[1] + outputs * len(known)
    if 2 * size > columns or size > MOST:
        return None
    X = rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X
    parts = [moment.vectors[:columns], X.T]
    parts += [w.reshape(-1, outputs)[:columns] for w in known]
    basis = np.linalg.qr(np.hstack(parts))[0]
    whole = np.zeros((columns + intercept, basis.shape[1] + intercept))
    whole[:columns, : basis.shape[1]] = basis
    if intercept:
        whole[-1, -1] = 1.0
    inner = factorised(whole.T @ (moment @ whole), moment.weight)
    return Reduction(basis, replace(rows, X=X @ basis), inner, intercept)


GROWTH = 1.1
"""Factor by which η grows from step to step."""

FAINTEST = 1e-8
"""The pull never falls below this share of the proxy's smoothness."""

SOLVED = Relative(1e-3) | Steps(200)
"""When a subproblem with a penalty is solved; without one it is solved exactly, in closed form."""


class Walk:
    r"""The iterates ``w_0, w_1, …`` of full-gradient ProxyProx on the labelled rows.

    .. math:: w_{k+1} = \arg\min_w \hat L(w) + \langle\nabla L_n(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta_k}\|w - w_k\|^2, \qquad \eta_k = 1.1^k / H

    The first steps barely move, each later one goes further: by the number of steps alone the
    walk passes from the constant model, through fits regularised in the geometry of all inputs,
    to the minimiser on the labelled rows. A step that would raise the objective is taken again
    with a shorter η, so that the walk also ends there when few labels make δ large.

    Parameters
    ----------
    problem : Problem
        Labelled loss, label-free proxy and penalty.
    w0 : array
        Where to begin.
    floor : float
        The least pull ``1/η``; at least the strength of an L2 term, which the proxy lacks.
    """

    def __init__(self, problem: Problem, w0: Array, *, floor: float = 0.0) -> None:
        self.problem = problem
        self.w = w0
        self.k = 0
        self._top = float(problem.proxy.smoothness) or 1.0
        self._floor = max(floor, FAINTEST * self._top)
        self._boost = 1.0
        self._value = problem.value(w0)
        self._slope: Array | None = None

    @property
    def pull(self) -> float:
        """``1/η`` of the next step."""
        return self._boost * max(self._top * GROWTH**-self.k, self._floor)

    def advance(self) -> Array:
        """Take one step and return the new point."""
        while True:
            w, value = self._tried()
            slack = 1e-12 * max(1.0, abs(self._value))
            if value <= self._value + slack or self._boost > 1e12:
                break
            self._boost *= 4
        if value <= self._value + slack:
            self.w, self._value, self._slope = w, value, None
        # A boost was for one place: let it fade, or a hard start would slow the whole walk.
        self._boost = max(1.0, self._boost / 2)
        self.k += 1
        return self.w

    def _tried(self) -> tuple[Array, float]:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                w = self._stepped(1 / self.pull)
                value = self.problem.value(w)
        except NonFiniteError:
            return self.w, math.inf
        return w, value if math.isfinite(value) else math.inf

    def _stepped(self, eta: float) -> Array:
        if self._slope is None:
            self._slope = self.problem.objective.gradient(self.w)
        if self.problem.penalty is not None:
            run = Run(self.problem, self.w, method=DANE(eta=eta), stop=SOLVED)
            run.ask()
            return run.tell(self._slope).w
        # The same step in closed form, of which cross-validation takes thousands: from the iterate
        # itself the proxy's slope cancels, and a factorised proxy solves the rest exactly.
        return self.w - self.problem.proxy.solve_shifted(self._slope, eta)


@dataclass(frozen=True)
class Candidate:
    """One way to walk; cross-validation picks one of them, and how far to go.

    Attributes
    ----------
    alpha : float
        Strength of the penalty.
    power : float or None
        λ of the paired correction; None tunes it on the labelled rows at hand.
    taught : bool
        Whether the walk begins at the teacher's student instead of the constant model.
    """

    alpha: float = 0.0
    power: float | None = 0.0
    taught: bool = False


@dataclass(frozen=True)
class Task:
    """A fit, up to the candidate and the rows it is done on.

    Attributes
    ----------
    losses : mapping
        The labelled loss for each strength ``alpha``, its L2 part included.
    moment : Moment
        Of all inputs.
    l1_ratio : float
        Share of the L1 norm in the penalty.
    teacher : Teacher, optional
        Answers for every row.
    start : array, optional
        Where to begin instead of at the constant model.
    counts : array, optional
        How many labels each labelled row stands for: its weight; one by default.
    """

    losses: Mapping[float, GLM]
    moment: Moment
    l1_ratio: float = 0.0
    teacher: Teacher | None = None
    start: Array | None = None
    counts: Array | None = None

    def total(self, rows: Array | None = None) -> float:
        """Return how many labels some of the rows stand for, or all."""
        if self.counts is None:
            return float(self.loss.design.rows if rows is None else len(rows))
        return float((self.counts if rows is None else self.counts[rows]).sum())

    @property
    def loss(self) -> GLM:
        """The labelled rows, at any strength."""
        return next(iter(self.losses.values()))

    def walk(self, candidate: Candidate, rows: Array | None = None) -> Walk:
        """Return the walk of a candidate on some of the labelled rows, or on all."""
        loss = self.losses[candidate.alpha]
        loss = loss if rows is None else loss.rows(rows)
        proxy = label_free(loss, self.moment, self.total(rows) / loss.design.rows)
        w0 = proxy.w0 if self.start is None else self.start
        objective: Any = loss
        if self.teacher is not None and candidate.power != 0.0:
            objective = self.teacher.tilted(loss, rows, candidate.power)
        if self.teacher is not None and candidate.taught:
            w0 = self.teacher.student
        # The proxy lacks the L2 term: a pull of that strength stands in for it.
        return Walk(Problem(objective, proxy, self._l1(candidate.alpha)), w0, floor=loss.l2)

    def _l1(self, alpha: float) -> L1 | None:
        if alpha * self.l1_ratio == 0:
            return None
        design, outputs = self.loss.design, self.loss.family.outputs
        strength = np.full((design.width, outputs), alpha * self.l1_ratio)
        if design.intercept:
            strength[-1] = 0.0
        return L1(strength.ravel())


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
