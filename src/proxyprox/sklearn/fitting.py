"""Fit labelled rows, with the help of a teacher or of other data if there are any.

Every way to do so has a path of fits that are pulled less and less: towards zero, or towards the
model that imitates the teacher. Held-out labels weigh all points of all paths, and the answer is
their average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv

from proxyprox import GLM, minimize
from proxyprox._util import arrays
from proxyprox._util.arrays import BLOCK
from proxyprox._util.validation import message
from proxyprox.advice.choice import Choice
from proxyprox.problems.combination import Combination
from proxyprox.problems.families import Family
from proxyprox.problems.quadratic import Quadratic
from proxyprox.sklearn import inference
from proxyprox.sklearn.inputs import Labelled, stack_rows
from proxyprox.sklearn.policy import FITTING

Array = Any
Folds = Sequence[tuple[Array, Array]]
# For each way, the weight of each point of its path in the answer, up to a factor.
Shares = Mapping[str, Array]


class Trial(NamedTuple):
    """What cross-validation found for the points of a way's path.

    ``place`` is the point that weighs most; ``losses`` are those of its held-out rows,
    ``held_out`` the predictions for them.
    """

    way: str
    place: int
    curve: Array
    losses: Array
    held_out: Array

    @property
    def score(self) -> float:
        """The held-out loss of the point that weighs most."""
        return float(self.curve[self.place])


def choice_of(trials: Sequence[Trial]) -> Choice:
    """Return what trials tell of the ways, the best trial being the first."""
    best, theta = trials[0], 1.0
    judged = [trial for trial in trials if len(trial.losses)]
    gaps = {trial.way: trial.losses - best.losses for trial in judged}
    if best.way == "mixed":
        theta = FITTING.thetas[best.place]
    errors = {way: float(gap.std() / np.sqrt(len(gap))) for way, gap in gaps.items()}
    return Choice(best.way, theta, {trial.way: trial.score for trial in judged}, errors)


ALONE = "labels alone"


class Found(NamedTuple):
    """A fit: parameters, the trial that was preferred, its strength, and what follows from them.

    The estimate without a penalty is None if there is no teacher: it is made when it is asked for.
    """

    w: Array
    trial: Trial
    alpha: float
    choice: Choice
    rectifier: Array
    estimate: inference.Estimate | None


def learn(settings: Any, family: Family, rows: Labelled, teacher: Any) -> Found:
    """Fit labelled rows, perhaps with the help of a teacher."""
    C, unit = family.outputs, inference.strength_unit(rows.X, rows.weights)
    student = None if teacher is None else teacher.student.reshape(-1, C)
    space = None if settings.alpha == (0.0,) else _subspace(rows.X, student)
    if space is None:
        return Fit(settings, family, rows, unit, teacher).learn()
    if teacher is not None:
        teacher = replace(teacher, student=space.reduce(student).ravel())
    small = replace(rows, X=space.reduce(rows.X.T).T)
    found = Fit(settings, family, small, unit, teacher).learn()
    # Standard errors belong to the original columns, of which there are too many for any.
    return found._replace(w=space.expand(found.w.reshape(-1, C)).ravel(), estimate=None)


class Subspace(NamedTuple):
    """The span of some rows R of p columns; its orthonormal basis ``Rᵀ L⁻ᵀ`` is never formed.

    ``lower`` is L, the Cholesky factor of ``R Rᵀ``. A constant column is left as it is.
    """

    rows: Any
    lower: Array

    def reduce(self, matrix: Array) -> Array:
        """Return the coordinates of columns of p entries, and of the constant."""
        p = self.rows.shape[1]
        inside = self.rows @ matrix[:p]
        inside = inside.toarray() if hasattr(inside, "toarray") else inside
        inside = scipy.linalg.solve_triangular(self.lower, inside, lower=True)
        return np.vstack([inside, matrix[p:]]) if matrix.shape[0] > p else inside

    def expand(self, small: Array) -> Array:
        """Return the columns of given coordinates."""
        m = len(self.lower)
        shares = scipy.linalg.solve_triangular(self.lower, small[:m], lower=True, trans="T")
        return np.vstack([self.rows.T @ shares, small[m:]])


def _subspace(X: Any, student: Array | None) -> Subspace | None:
    """Return the span of the rows and of a student; None if it is not far smaller.

    Minimisers that are pulled to zero, or to the student, lie in it.
    """
    p = X.shape[1]
    rows = X if student is None else stack_rows(X, student[:p].T)
    # A mixture with the teacher does not.
    mixed = student is not None and len(student) <= FITTING.few
    if mixed or 2 * rows.shape[0] > p or rows.shape[0] > FITTING.exact_size:
        return None
    lengths = np.sqrt(inference.row_squares(rows))
    rows = scipy.sparse.diags_array(1 / np.where(lengths > 0, lengths, 1.0)) @ rows
    gram = rows @ rows.T
    gram = gram.toarray() if hasattr(gram, "toarray") else gram
    # Rows that depend on others come last, and are left out.
    lower, order, rank, _ = scipy.linalg.lapack.dpstrf(gram, 1e-12, lower=1)
    return Subspace(rows[order[:rank] - 1], np.tril(lower[:rank, :rank]))


class Fit:
    """A fit of labelled rows, given the unit of strengths and perhaps a teacher."""

    def __init__(
        self, settings: Any, family: Family, rows: Labelled, unit: float, teacher: Any
    ) -> None:
        self.settings, self.rows, self.teacher = settings, rows, teacher
        self.plain = rows.loss(family, settings.fit_intercept)
        self.design = self.plain.design
        # Whether a product with the labelled rows is small, and whether labels are few.
        self.light = self.design.rows * self.plain.dim <= BLOCK
        self.few = self.design.rows <= FITTING.few
        self.strengths = np.array(FITTING.strengths) * unit
        given = settings.alpha
        self.alphas = self.strengths if given is None else np.sort(given)[::-1]

    @cached_property
    def imitations(self) -> list[Quadratic]:
        """The teacher's loss to second order near each mixture: all its rows take long.

        From the student on, each is made where the one before leads to.
        """
        held, w, found = self.teacher.held, self.teacher.student, list[Quadratic]()
        classes = self.plain.family.outputs
        for theta in [0.0, *FITTING.thetas]:
            if theta:
                w = self._mixture(self.plain, theta, found[-1], w)
            hessian = np.array(held.hessian(w))
            if classes > 1:
                # Else nothing would hold the mean of the classes' constants.
                hessian[-classes:, -classes:] += hessian.max() / classes
            found.append(Quadratic(hessian, held.gradient(w) - hessian @ w))
        return found[1:]

    def _mixture(self, loss: GLM, theta: float, imitation: Quadratic, start: Array) -> Array:
        """Return the minimiser of θ L + (1 − θ) L̂, both with the student's L2 term."""
        losses = [loss.with_l2(self.teacher.ridge), imitation]
        return inference.minimise(Combination(losses, [theta, 1 - theta]), start, tol=1e-11)

    def ways(self) -> list[str]:
        """Return the ways to fit that are tried."""
        if self.teacher is None:
            return [ALONE]
        teacher = self.teacher
        narrow = len(teacher.student) == teacher.held.dim <= FITTING.exact_size
        return [ALONE, "fine-tuned"] + ["mixed"] * narrow

    def grid(self, way: str) -> Array:
        """Return what the points of a way's path differ in: strengths, or weights θ."""
        grids = {"mixed": np.array(FITTING.thetas), "fine-tuned": self.strengths}
        return grids.get(way, self.alphas)

    def expected(self, way: str) -> Array:
        """Return how likely each point of a way's path is before labels are seen."""
        grid = self.grid(way)
        given = self.settings.alpha is not None and way != "fine-tuned"
        if given or way == "mixed" or not (self.few and self.plain.family.classifier):
            return np.full(len(grid), 1 / len(grid))
        off = (np.log10(FITTING.strengths) - FITTING.usual) / FITTING.spread
        found = 1 / (1 + (off / (2 if way == "fine-tuned" else 1)) ** 2)
        return found / found.sum()

    def points(self, way: str, rows: Any = slice(None)) -> Iterator[Array]:
        """Yield the points of a way's path on some of the labelled rows, or on all."""
        loss, teacher = self.plain.rows(rows), self.teacher
        if way == ALONE:
            w = inference.constant_model(loss, self.rows.weights[rows])
        else:
            w = teacher.student
        for k, point in enumerate(self.grid(way)):
            if way == "mixed":
                w = self._mixture(loss, point, self.imitations[k], w)
            else:
                # The minimisers of L + α/2 ‖w − c‖², c being zero or the student.
                goal: Any = loss.with_l2(point)
                if way != ALONE:
                    goal = Combination([goal], [1.0], tilt=-goal.ridge(teacher.student))
                w = inference.minimise(goal, w, tol=1e-11)
            # Nothing holds the mean of the classes' constants.
            w = inference.centre_classes(w, loss)
            yield w

    def learn(self) -> Found:
        """Weigh the ways and their points, and fit all labelled rows so."""
        teacher, design = self.teacher, self.design
        many = not self.few and self.plain.dim <= min(FITTING.exact_size, design.rows / 2)
        # Thousands of small products stay on one thread: others would only wait for each other.
        with (
            arrays.thread_pools().limit(limits=1, user_api="blas") if self.light else nullcontext()
        ):
            if len(self.alphas) == 1 and teacher is None:
                w, trial = self._minimise()
                trials = [trial]
            elif teacher is None and many and (folds := self._split()):
                w, trial = best_strength(self.plain, self.alphas, folds)
                trials = [trial]
            else:
                trials, shares = self._cross_validate()
                w, trial = self._average(shares), trials[0]
        estimate, plain = None, self.plain
        if teacher is not None:
            estimate = inference.estimate_of(plain, w, teacher if teacher.paired else None)
        residuals = inference.targets_of(plain) - trial.held_out
        weights = self.rows.weights if self.rows.population is None else self.rows.population
        rectifier = inference.rectifier_of(residuals, weights, plain.family.known_dispersion)
        alpha = 0.0 if trial.way == "mixed" else float(self.grid(trial.way)[trial.place])
        return Found(w, trial, alpha, choice_of(trials), rectifier, estimate)

    def _minimise(self) -> tuple[Array, Trial]:
        """Return the minimiser of the labelled loss for the one strength given."""
        plain, alpha = self.plain, float(self.alphas[0])
        w = np.asarray(minimize(plain.with_l2(alpha)).w)
        w = w if alpha else inference.centre_classes(w, plain)
        targets, n = inference.targets_of(plain), self.design.rows
        residuals = targets - inference.means(self.design, plain.family, w)
        # Residuals of rows that the fit has seen are too small, by the parameters it spent.
        spare, mean = n / max(n - self.design.width, 1), residuals.mean(axis=0)
        held_out = targets - mean - np.sqrt(spare) * (residuals - mean)
        return w, Trial(ALONE, 0, np.zeros(0), np.zeros(0), held_out)

    def _average(self, shares: Shares) -> Array:
        """Return the average of the points of paths on all labelled rows."""
        total, used = 0.0, 0.0
        least = FITTING.tolerance * sum(float(weights.sum()) for weights in shares.values())
        for way, weights in shares.items():
            # What has no share to speak of need not be computed.
            last = int(np.max(np.flatnonzero(weights > least), initial=-1))
            for weight, w in zip(weights[: last + 1], self.points(way), strict=False):
                total, used = total + weight * w, used + weight
        return total / used

    # -- cross-validation ---------------------------------------------------------------------

    def _cross_validate(self) -> tuple[list[Trial], Shares]:
        """Return the trials, the chosen one first, and the shares of all points.

        With few labels the least held-out loss is a gamble. Every point of every path is weighed by
        its held-out likelihood and by how likely it was before. Because the loss is convex, the
        average is never worse than its parts are on average.
        """
        folds, ways = self._split(), self.ways()
        if not folds:
            nothing = np.full((self.design.rows, self.plain.family.outputs), np.nan)
            place = int(self.expected(ways[0]).argmax())
            trial = Trial(ways[0], place, np.zeros(0), np.zeros(0), nothing)
            return [trial], {ways[0]: np.eye(place + 1)[-1]}
        found = {way: self._try(way, folds) for way in ways}
        lowest, n = (
            min(float(curve.min()) for curve, *_ in found.values()),
            self.rows.evidence(self.plain.family),
        )
        shares = dict[str, Array]()
        for way, (curve, *_) in found.items():
            if self.plain.family.known_dispersion:
                likelihood = np.exp(-n * (curve - lowest))
            else:
                # Of an unknown dispersion the most likely one: the mean deviance. It is zero if
                # held-out numbers are all alike.
                likelihood = (max(lowest, 1e-300) / np.maximum(curve, 1e-300)) ** (n / 2)
            # Who has a teacher believes it: mixtures are expected twice as often as all else.
            often = 2 * (len(ways) - 1) if way == "mixed" else 1
            shares[way] = often * self.expected(way) * likelihood
        trials = [
            Trial(way, place := int(shares[way].argmax()), curve, losses[place], predicted[place])
            for way, (curve, losses, predicted) in found.items()
        ]
        trials.sort(key=lambda trial: -float(shares[trial.way].sum()))
        return trials, shares

    def _split(self) -> Folds:
        """Return the train and test rows of each fold; none if the labels are too few to split."""
        rows, cv, n = self.rows, self.settings.cv, self.design.rows
        # The user's splitter sees the rows of weight zero, too, which are then left out.
        y, kept, classifier = rows.all_y, rows.kept, self.plain.family.classifier
        if cv is None:
            few = self.few and self.light
            smallest = min(np.unique(rows.y, return_counts=True)[1]) if classifier else 0
            kind = RepeatedStratifiedKFold if smallest >= 2 else RepeatedKFold
            splits = min(3 if few else 5, smallest if smallest >= 2 else n)
            if splits < 2:
                return []
            seed, y, kept = self.settings.random_state, rows.y, np.ones(n, dtype=bool)
            cv = kind(n_splits=splits, n_repeats=5 if few else 1, random_state=seed)
        place = np.cumsum(kept) - 1
        try:
            found = check_cv(cv, y, classifier=classifier).split(np.zeros((len(y), 1)), y)
            mapped = [tuple(place[part[kept[part]]] for part in split) for split in found]
        except (TypeError, ValueError, IndexError) as error:
            allowed = "a number of folds, 2 or more, a splitter, a list of splits or None"
            raise ValueError(message("cv", cv, allowed, str(error))) from error
        return [(train, test) for train, test in mapped if len(train) and len(test)]

    def _try(self, way: str, folds: Folds) -> tuple[Array, Array, Array]:
        """Return the held-out loss of each point of a path, of its rows, and their predictions."""
        loss, rows, outputs = self.plain, self.design.rows, self.plain.family.outputs
        seen = np.bincount(np.concatenate([test for _, test in folds]), minlength=rows)
        losses, predicted = list[Array](), list[Array]()
        for train, test in folds:
            held_out = loss.rows(test)
            for k, w in enumerate(self.points(way, train)):
                if k == len(losses):
                    losses.append(np.zeros(rows))
                    predicted.append(np.zeros((rows, outputs)))
                losses[k][test] += inference.row_losses(held_out, w)
                predicted[k][test] += inference.means(held_out.design, loss.family, w)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.array(predicted) / seen[:, None]
        table = np.array(losses) / np.maximum(seen, 1)
        curve = np.average(table, axis=1, weights=loss.sample_weight * (seen > 0))
        return np.where(np.isfinite(curve), curve, math.inf), table, means


# -- one strength for many labels --------------------------------------------------------------


def best_strength(loss: GLM, strengths: Array, folds: Folds) -> tuple[Array, Trial]:
    """Return the minimiser for the strength of least held-out loss, and what the folds showed.

    All folds share each pass over the rows, which also shows the held-out losses; their Newton
    steps share the Hessian of all rows, from which their own differ little. It is formed anew if
    the steps show that it no longer fits. A strength counts only if every fold came near its
    minimum: for rows that can be separated, those of weak strengths are far away, and a fit that
    was ended early can predict far better than the one that all rows would get.
    """
    # The first column is the fit to all rows.
    trained, tested = np.zeros((2, loss.design.rows, len(folds) + 1))
    trained[:, 0] = loss.sample_weight
    for f, (train, test) in enumerate(folds, 1):
        trained[train, f] = loss.sample_weight[train]
        tested[test, f] = loss.sample_weight[test]
    trained /= trained.sum(axis=0)
    order = np.argsort(strengths)[::-1].tolist()
    curve, best, hessian = np.full(len(strengths), np.inf), order[0], None
    # From the strongest on, each from the minimisers before.
    W = np.tile(np.asarray(minimize(loss.with_l2(strengths[order[0]])).w), (len(folds) + 1, 1))
    kept, found, fresh = W, fold_pass(loss, W, trained, tested), False
    for place in order:
        strong, factor, before = loss.with_l2(strengths[place]), None, math.inf
        ridge, gain = strong.ridge(np.ones(loss.dim)), math.inf
        for _ in range(FITTING.fold_steps):
            if factor is None:
                fresh = fresh or hessian is None
                hessian = np.asarray(loss.hessian(W[0])) if hessian is None else hessian
                factor = arrays.factor_positive(hessian + np.diag(ridge + 1e-10 * hessian.max()))
            if factor is None:
                break
            slopes = found.gradients + ridge * W
            moves = scipy.linalg.cho_solve((factor, True), slopes.T).T
            gain = float((slopes * moves).sum(axis=1).max())
            if gain <= FITTING.tolerance * float(found.values[0]):
                break
            if fresh or gain <= FITTING.fold_pace * before:
                further = fold_pass(loss, W - moves, trained, tested)
                rise = further.values - found.values + (ridge * (moves - 2 * W) * moves).sum(1) / 2
                if (rise <= FITTING.tolerance * found.values[0]).all():
                    W, found, before, fresh = W - moves, further, gain, False
                    continue
                if fresh:
                    break
            hessian = factor = None
        held_out = found.held_out.sum() / tested.sum()
        near = gain <= math.sqrt(FITTING.tolerance) * float(found.values[0])
        if near and held_out < curve.min():
            best, kept = place, W
        curve[place] = held_out if near else math.inf
    predicted = np.zeros((loss.design.rows, loss.family.outputs))
    for (_, test), own in zip(folds, kept[1:], strict=True):
        predicted[test] = inference.means(loss.design.take(test), loss.family, own)
    w = np.asarray(minimize(loss.with_l2(strengths[best]), kept[0]).w)
    return w, Trial(ALONE, best, curve, np.zeros(0), predicted)


class Pass(NamedTuple):
    """Mean losses of the rows of each fold, held-out losses, and gradients without an L2 term."""

    values: Array
    held_out: Array
    gradients: Array


def fold_pass(loss: GLM, W: Array, trained: Array, tested: Array) -> Pass:
    """Return what one pass over the rows shows of the parameters in the rows of W.

    The weights of the rows have a column for each fold.
    """
    design, family, (count, _) = loss.design, loss.family, W.shape
    outputs, totals = family.outputs, list[Array]()
    matrix = W.reshape(count, design.width, outputs).transpose(1, 0, 2).reshape(design.width, -1)

    def visit(rows: slice, part: Any) -> Array:
        z = np.asarray(design.push(part, matrix)).reshape(-1, outputs)
        targets = np.repeat(loss.targets[rows], count)
        if outputs > 1:
            losses, slopes = family.loss_and_slope(z, np.eye(outputs)[targets])
        else:
            losses, slopes = family.loss_and_slope(z[:, 0], targets)
        losses = losses.reshape(-1, count)
        totals.append(np.stack([(each[rows] * losses).sum(axis=0) for each in (trained, tested)]))
        scaled = trained[rows][:, :, None] * slopes.reshape(-1, count, outputs)
        return design.pull_part(part, scaled.reshape(len(scaled), -1))

    gradients = np.asarray(design.visit(visit, 0.0)).reshape(design.width, count, outputs)
    values, held_out = np.sum(totals, axis=0)
    return Pass(values, held_out, gradients.transpose(1, 0, 2).reshape(count, -1))
