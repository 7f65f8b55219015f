"""Standard errors and intervals, with and without a teacher.

How sure: the covariance of the unregularised estimate, with a teacher's help where there is one.

A regularised fit is biased on purpose, so intervals are not drawn around it but around the
minimiser of the (paired) labelled loss without a penalty, to which the fit converges.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from proxyprox import GLM
from proxyprox._util.validation import message
from proxyprox.corrections import tuned_power
from proxyprox.problems.combination import PairedLoss, Tilted
from proxyprox.problems.families import Family, Linear, Poisson
from proxyprox.problems.glm import Design
from proxyprox.sklearn.moments import (
    centred,
    dense_rows,
    predictors,
    row_gradients,
    slopes,
    targets_of,
)
from proxyprox.sklearn.teacher import Teacher, minimised, soft_loss


class Interval(NamedTuple):
    """An estimate with the ends of its confidence interval."""

    estimate: Any
    low: Any
    high: Any


def quantile(level: float, labels: int) -> float:
    """Return the two-sided quantile; of Student's law, which for few labels has longer tails."""
    if not 0 < level < 1:
        raise ValueError(message("level", level, "a number in (0, 1)"))
    return float(scipy.stats.t.ppf((1 + level) / 2, max(labels - 1, 1)))


WRONG = 2.0
"""Wrong answers that a classifier is taken to give on the labelled rows at least."""

Array = Any


def rectifier_of(residuals: Array, loss: GLM) -> Array:
    """Return mean and standard error of the residuals, one column each.

    A classifier that has every label right leaves residuals that hardly vary, though it errs on
    rows like them: few labels do not show errors that are rare. The spread is therefore never
    taken to be less than two wrong answers would make it, as Agresti and Coull (1998) add two
    failures and two successes to a proportion before they draw its interval.

    Parameters
    ----------
    residuals : array of shape (n, C)
        Labels less predictions, held-out ones where there are.
    loss : GLM
        The labelled rows.
    """
    weights = loss.sample_weight
    share = weights / weights.sum()
    mean = share @ residuals
    n = len(weights)
    spread = share**2 @ (residuals - mean) ** 2
    if hasattr(loss.family, "classes"):
        # NaN where the labels were too few to hold any out stays NaN.
        spread = np.maximum(spread, WRONG * float(share @ share) ** 2)
    return np.stack([mean, np.sqrt(spread * (n / max(n - 1, 1)))], axis=1)


WIDEST = 400
"""Parameters up to which standard errors are computed by ``fit``."""

BLOCK = 1 << 21


TOO_WIDE = f"There are more than {WIDEST} parameters, for which no standard errors are computed."

SEPARATED = (
    "A plane separates the labels, so that the unregularised estimate lies at infinity: label more "
    "rows, those that the model is unsure of first, or use fewer columns."
)

COLLINEAR = (
    "Columns are constant or sums of others on the labelled rows, so that the labels do not "
    "determine the coefficients: drop such columns, or label more rows."
)


NO_EVENT = (
    "No event was seen: every labelled count is zero, and zeros alone do not determine the "
    "coefficients. Label more rows."
)


class Estimate(NamedTuple):
    """An asymptotically normal estimate."""

    w: Array
    covariance: Array
    power: float
    excess: float


def estimated(
    loss: GLM, start: Array, *, teacher: Teacher | None = None, power: float | None = None
) -> Estimate | str:
    """Return the unregularised estimate and its covariance, or why the labels do not fix it.

    Parameters
    ----------
    loss : GLM
        The labelled rows, without a penalty.
    start : array
        A point near the answer.
    teacher : Teacher, optional
        Answers for every row.
    power : float, optional
        λ of the paired correction; None tunes it for the least variance of the parameters.
    """
    n, family = loss.design.rows, loss.family
    if isinstance(family, Poisson) and not targets_of(loss).any():
        return NO_EVENT
    # Softmax parameters are fixed up to a shift of all classes. With fewer than two labels for
    # each parameter no asymptotic statement would be worth its name.
    free = free_parameters(loss.design.width, family)
    if n <= 2 * free:
        return too_few(n, free)
    objective: Any = loss
    if teacher is None or power == 0:
        power, w = 0.0, minimised(loss, start)
    else:
        if power is None:
            first = minimised(loss, start)
            power = best_power(loss, teacher, first)
        objective = paired(loss, teacher, power)
        w = minimised(objective, start)
    w = centred(w, family.outputs)
    if power == 0 and _separated(loss, w):
        # Where the search for an estimate at infinity stopped means nothing.
        return SEPARATED
    inverse = _inverse(np.asarray(objective.hessian(w)), free)
    if inverse is None or not np.isfinite(w).all():
        return COLLINEAR
    noise = _noise(loss, w, teacher, power, inverse) / n
    if teacher is not None and power:
        noise = noise + power**2 * _teacher_noise(teacher, family, w) / teacher.rows
    # The loss of the estimate above the best linear model: tr(H C)/2, H C H = noise.
    excess = float(np.sum(inverse * noise)) / 2
    return Estimate(w, inverse @ noise @ inverse, power, excess)


def free_parameters(width: int, family: Family) -> int:
    """Return how many parameters there are, those of softmax up to a shift of all classes."""
    return width * (family.outputs - (family.outputs > 1))


def too_wide(labels: int, width: int, family: Family) -> str:
    """Return why there are no standard errors for many columns: their number, or the labels'."""
    free = free_parameters(width, family)
    return too_few(labels, free) if labels <= 2 * free else TOO_WIDE


def too_few(labels: int, parameters: int) -> str:
    """Return the words for fewer than two labels for each parameter."""
    return (
        f"{labels} labels are too few for {parameters} coefficients: more than two are needed for "
        "each. Label more rows, or use fewer columns."
    )


def paired(loss: GLM, teacher: Teacher, power: float) -> PairedLoss | Tilted:
    """Return the labelled loss with the teacher's exact paired correction.

    Least squares needs the correction at one point only: with it the estimate is the teacher's
    regression plus the regression of its errors, as prediction-powered inference defines it.
    """
    if isinstance(loss.family, Linear):
        return teacher.tilted(loss, None, power)
    weights = loss.sample_weight
    same = soft_loss(loss.design, loss.family, teacher.answers, weights=weights)
    return PairedLoss(loss, same, teacher.loss, power=power)


def best_power(loss: GLM, teacher: Teacher, w: Array) -> float:
    """Return the λ of least variance of the parameters, at a consistent estimate."""
    design, family, scale = loss.design, loss.family, loss.sample_weight[:, None]
    target = row_gradients(design, scale * slopes(design, family, w, targets_of(loss)))
    proxy = row_gradients(design, scale * slopes(design, family, w, teacher.answers))
    inverse = np.linalg.pinv(np.asarray(loss.hessian(w)), hermitian=True)
    return tuned_power(target, proxy, ratio=loss.design.rows / teacher.rows, metric=inverse)


def _noise(loss: GLM, w: Array, teacher: Teacher | None, power: float, inverse: Array) -> Array:
    """Return the covariance of a labelled row's (paired) gradient.

    A fit bends towards its own rows and so makes their residuals look small, those of rows with
    much leverage most. Residuals are therefore divided by ``1 − h_i``, which approximates the
    jackknife (HC3: MacKinnon and White, 1985).
    """
    residual = slopes(loss.design, loss.family, w, targets_of(loss))
    bend = _leverage(loss, w, inverse)
    if teacher is not None and power:
        residual = residual - power * slopes(loss.design, loss.family, w, teacher.answers)
        if not isinstance(loss.family, Linear):
            # Of the labelled rows' curvature the teacher's rows replace the share λ.
            bend = (1 - power) * bend
    scale = loss.sample_weight / np.maximum(1 - bend, 0.1)
    rows = row_gradients(loss.design, scale[:, None] * residual)
    rows = rows - rows.mean(axis=0)
    return np.asarray(rows.T @ rows) / (len(rows) - 1)


def _leverage(loss: GLM, w: Array, inverse: Array) -> Array:
    """Return ``x_iᵀ H⁻¹ x_i A''(z_i) / n`` of each row, averaged over the free outputs."""
    design, C = loss.design, loss.family.outputs
    found = np.zeros(design.rows)
    step = max(1, BLOCK // len(w))
    for start in range(0, design.rows, step):
        rows = slice(start, start + step)
        part = design.take(rows)
        X, bend = dense_rows(part), _curvatures(part, loss.family, w)
        for c in range(C):
            for e in range(C):
                found[rows] += bend[:, c, e] * np.sum((X @ inverse[c::C, e::C]) * X, axis=1)
    return loss.sample_weight * found / (design.rows * max(1, C - 1))


def _curvatures(design: Design, family: Family, w: Array) -> Array:
    """Return the expected curvature of each row, shape (n, C, C)."""
    z = predictors(design, family, w)
    if family.outputs > 1:
        return np.asarray(family.expected_curvature(z))
    return np.asarray(family.expected_curvature(z[:, 0]))[:, None, None]


def _teacher_noise(teacher: Teacher, family: Family, w: Array) -> Array:
    """Return the covariance of a proxy row's gradient, in blocks of rows."""
    free = teacher.loss.loss
    design: Design = free.design
    total, mean, count = np.zeros((len(w), len(w))), np.zeros(len(w)), 0.0
    step = max(1, BLOCK // len(w))
    for start in range(0, design.rows, step):
        rows = slice(start, start + step)
        part, weights = design.take(rows), free.sample_weight[rows]
        gradients = row_gradients(part, slopes(part, family, w, teacher.on_proxy[rows]))
        total += gradients.T @ (weights[:, None] * gradients)
        mean += weights @ gradients
        count += float(weights.sum())
    mean /= count
    return (total / count - np.outer(mean, mean)) * (count / (count - 1))


def _separated(loss: GLM, w: Array) -> bool:
    """Tell whether a classifier has every label right, so that larger weights fit still better."""
    if not hasattr(loss.family, "classes"):
        return False
    z, targets = predictors(loss.design, loss.family, w), targets_of(loss)
    if loss.family.outputs == 1:
        return bool((np.where(targets > 0.5, z, -z) > 0).all())
    return bool((z.argmax(axis=1) == targets.argmax(axis=1)).all())


def _inverse(hessian: Array, rank: int) -> Array | None:
    """Return the pseudo-inverse on the directions that are fixed; None if some are not."""
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    values, vectors = values[-rank:], vectors[:, -rank:]
    if not values[0] > 1e-10 * values[-1]:
        return None
    inverse: Array = (vectors / values) @ vectors.T
    return inverse
