"""What labels and a teacher's answers tell: paired losses, standard errors, intervals.

A regularised fit is biased on purpose. Intervals are therefore drawn around the minimiser of the
(paired) labelled loss without a penalty, to which the fit converges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from proxyprox import GLM
from proxyprox._util.arrays import BLOCK
from proxyprox._util.text import list_names
from proxyprox._util.validation import Words, message
from proxyprox.inner import NonFiniteError
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems.combination import Combination
from proxyprox.problems.families import Family, label_array
from proxyprox.problems.glm import Design, as_targets
from proxyprox.problems.problem import FunctionProxy
from proxyprox.problems.protocols import Secant
from proxyprox.problems.several import Several
from proxyprox.sklearn.inputs import Labelled, encode_answers, stack_rows
from proxyprox.sklearn.policy import FITTING

Array = Any

# Share of a coefficient in directions that the labels do not determine, above which it is not.
LOOSE = 1e-6


def quantile(level: float, labels: int) -> float:
    """Return the two-sided quantile of Student's law, which for few labels has longer tails."""
    if not 0 < level < 1:
        raise ValueError(message("level", level, "a number in (0, 1)"))
    return float(scipy.stats.t.ppf((1 + level) / 2, max(labels - 1, 1)))


def predictors(design: Design, family: Family, w: Array) -> Array:
    """Return the linear predictors of each row, in the shape that the family takes."""
    z = np.asarray(design.predict(w.reshape(design.width, family.outputs)))
    return z if family.outputs > 1 else z[:, 0]


def means(design: Design, family: Family, w: Array) -> Array:
    """Return the expected label of each row, shape (n, C)."""
    return np.asarray(family.mean(predictors(design, family, w))).reshape(design.rows, -1)


def slopes(design: Design, family: Family, w: Array, targets: Array) -> Array:
    """Return each row's loss derivative in its predictors, for targets of shape (n, C)."""
    t = targets if family.outputs > 1 else targets[:, 0]
    found = family.slope(predictors(design, family, w), t)
    return np.asarray(found).reshape(design.rows, -1)


def targets_of(loss: GLM) -> Array:
    """Return the labels in the shape of the means, (n, C)."""
    targets = as_targets(loss.design, loss.family, loss.targets)  # type: ignore[arg-type]
    return np.asarray(targets, dtype=np.float64).reshape(loss.design.rows, loss.family.outputs)


def constant_model(loss: GLM, counts: Array) -> Array:
    """Return the parameters of the best constant model.

    ``counts`` says how many labels each row stands for: its weight.
    """
    w0 = np.zeros((loss.design.width, loss.family.outputs))
    w0[loss.design.columns :] = loss.family.link(loss.family.base_rate(targets_of(loss), counts))
    return w0.ravel()


def row_losses(loss: GLM, w: Array) -> Array:
    """Return the loss of each row; zero for a perfect fit if there is one."""
    targets = targets_of(loss)
    with np.errstate(over="ignore"):
        z = predictors(loss.design, loss.family, w)
        return np.asarray(loss.family.loss(z, targets if z.ndim > 1 else targets[:, 0]))


def row_gradients(design: Design, residuals: Array) -> Array:
    """Return ``x_i ⊗ r_i`` of each row as a dense (n, d · C) matrix."""
    return (dense_rows(design)[:, :, None] * residuals[:, None, :]).reshape(design.rows, -1)


def dense_rows(design: Design) -> Array:
    """Return the rows as a dense (n, d) matrix, with the constant if there is one."""
    X = design.X.toarray() if design.sparse else np.asarray(design.X, dtype=np.float64)
    return np.hstack([X, np.ones((design.rows, 1))]) if design.intercept else X


def centre_classes(w: Array, loss: Any) -> Array:
    """Return softmax parameters whose classes sum to zero, which changes no prediction."""
    matrix = w.reshape(-1, loss.family.outputs)
    return w if matrix.shape[1] == 1 else (matrix - matrix.mean(axis=1, keepdims=True)).ravel()


def minimise(loss: Any, start: Array, *, tol: float = 1e-8, penalty: Any = None) -> Array:
    """Return the minimiser to a gradient relative to that at the start, or the start itself."""
    tol *= max(1.0, float(np.linalg.norm(loss.gradient(start))))
    try:
        return np.asarray(minimise_exactly(loss, start, tol=tol, penalty=penalty))
    except NonFiniteError:
        return start


def strength_unit(X: Any, weights: Array) -> float:
    """Return the L2 strength that scikit-learn's C = 1 is, of columns whose mean square is one.

    With more columns than rows each of them tells less.
    """
    total, (n, p) = float(weights.sum()), X.shape
    mean = float(weights @ row_squares(X)) / (total * p)
    return float(max(mean * math.sqrt(max(p / n, 1.0)), 1e-300) / total)


def row_squares(X: Any) -> Array:
    """Return the sum of the squared entries of each row, of any kind of sparse table, too."""
    squares = X.power(2).sum(axis=1) if hasattr(X, "tocsr") else np.einsum("ij,ij->i", X, X)
    return np.ravel(squares)


# -- a teacher ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Teacher:
    """What another model's answers on the unlabelled rows tell.

    Attributes
    ----------
    student : array of shape (d · C,)
        The linear model that imitates the teacher best on the proxy's rows.
    answers : array of shape (n, C)
        The teacher's answers on the labelled rows.
    loss : GLM or Combination
        The teacher's loss on the proxy's rows.
    design, on_proxy, weights : Design and arrays
        Those rows, the answers there, and their weights.
    paired : bool
        Whether the teacher has answered on the labelled rows, too.
    ridge : float
        L2 strength of the student.
    held : GLM or Combination
        The teacher's loss with that L2 term.
    """

    student: Array
    answers: Array
    loss: Any
    design: Design
    on_proxy: Array
    weights: Array
    paired: bool
    ridge: float
    held: Any

    @property
    def rows(self) -> float:
        """Number of the proxy's rows."""
        return float(self.weights.sum())


def soft_loss(
    design: Design, family: Family, answers: Array, weights: Array, l2: float = 0.0
) -> Any:
    """Return the loss for answers that are probabilities or means, shape (n, C)."""
    if not family.classifier:
        return GLM(design, answers.ravel(), family, l2=l2, sample_weight=weights)
    # Classes enter through a linear term alone: the label-free loss takes any other.
    free = GLM(design, None, family, l2=l2, sample_weight=weights)
    gap = free.sample_weight[:, None] * (family.neutral - answers)
    return Combination([free], [1.0], tilt=np.ravel(design.pull(gap)) / design.rows)


def student_strength(
    design: Design, family: Family, answers: Array, weights: Array, labels: Labelled | None
) -> float:
    """Return the L2 strength of the student: scikit-learn's default, or a larger one.

    A student must predict the answers on a held-out third of the rows better than a constant does:
    that of a useless teacher, if it is sharp, says much and knows nothing. With many rows for each
    parameter the strength hardly matters. If labels are given, answers are those of rows from
    elsewhere, of which a sharp student may be too sure: the likeliest strength is taken.
    """
    unit, rows = strength_unit(design.X, weights), np.flatnonzero(weights)
    if len(rows) > FITTING.few * design.width * family.outputs or len(rows) < 3:
        return unit
    test, train = np.split(np.random.default_rng(0).permutation(rows), [len(rows) // 3])
    fitted, held_out = (
        (design.take(part), family, answers[part], weights[part]) for part in (train, test)
    )
    judge = soft_loss(*held_out)
    student, losses = np.zeros(judge.dim), dict[float, float]()
    for strength in [*(each for each in FITTING.strengths if each > 1), 1.0]:
        student = minimise(soft_loss(*fitted, l2=strength * unit), student, tol=1e-7)
        losses[strength] = float(judge.value(student))
    # The strongest leaves hardly more than a constant.
    constant = losses[FITTING.strengths[0]]
    allowed = [strength for strength, loss in losses.items() if loss <= constant]
    if labels is None:
        return unit * allowed[-1]
    own, n, surprise = labels.loss(family, design.intercept), labels.evidence(family), list[float]()
    for strength in allowed:
        held = soft_loss(design, family, answers, weights, l2=strength * unit)
        student = minimise(held, student, tol=1e-7)
        loss = float(np.average(row_losses(own, student), weights=own.sample_weight))
        loss = n * loss if family.known_dispersion else n / 2 * math.log(max(loss, 1e-300))
        surprise.append(loss + math.log1p((math.log10(strength) / FITTING.spread) ** 2))
    return unit * allowed[int(np.argmin(surprise))]


def read_teacher(
    family: Family, rows: Labelled, given: Any, settings: Any
) -> tuple[Teacher | None, Worth | None, list[str]]:
    """Return the teacher, what each of several tables is worth, and which were made from labels.

    ``given`` are X, which of its rows have a label, X_proxy or None, y_proxy and the numbers of
    rows of several tables.
    """
    X, labelled, X_proxy, y_proxy, sizes = given
    intercept = settings.fit_intercept
    if not sizes:
        teacher = teacher_of(family, rows, (X, labelled, X_proxy), y_proxy, intercept)
        own = teacher.design, teacher.on_proxy
        if not teacher.paired and is_made_from(*own, family, rows):
            return None, None, [""]
        return teacher, None, []
    worth = worth_of(family, rows, (X_proxy, y_proxy, sizes), intercept)
    used = worth.weights > 0
    if not used.any():
        return None, worth, worth.made
    parts, known = (X, labelled, X_proxy[used]), worth.weights[used]
    return teacher_of(family, rows, parts, y_proxy[used], intercept, known), worth, worth.made


def teacher_of(
    family: Family, rows: Labelled, parts: Any, y_proxy: Any, intercept: bool, known: Any = None
) -> Teacher:
    """Sort a teacher's answers and fit the student that imitates it.

    ``parts`` are X, which of its rows have a label, and X_proxy, whose rows have ``known`` weights,
    or None.
    """
    X, labelled, X_proxy = parts
    n, N = X.shape[0], 0 if X_proxy is None else X_proxy.shape[0]
    if X_proxy is None and labelled.all():
        got, allowed = Words("answers without X_proxy"), "answers on rows that have no label"
        raise ValueError(message("y_proxy", got, allowed, "Pass those rows as X_proxy."))
    given = np.atleast_1d(label_array(y_proxy, "y_proxy"))
    alone = len(given) == N and N > 0 and labelled.all()
    answers = encode_answers(family, given, N if alone else n + N)
    if X_proxy is None:
        # By weights: a copy of the unlabelled rows would double the memory.
        where, there = X, answers
    elif labelled.all():
        where, there = X_proxy, answers[-N:]
    else:
        where = stack_rows(X[~labelled], X_proxy)
        there = np.vstack([answers[:n][~labelled], answers[n:]])
    weights = np.ones(len(there)) if X_proxy is not None else (~labelled).astype(np.float64)
    weights = weights if known is None else known
    design = Design(where, intercept=intercept, checked=True)
    exact = soft_loss(design, family, there, weights)
    # Mixtures are fits to the labelled rows, too.
    count = float(weights.sum())
    ridge = student_strength(design, family, there, weights, rows if alone else None)
    ridge *= count / (count + float(rows.weights.sum()))
    held = soft_loss(design, family, there, weights, l2=ridge)
    student = minimise(held, np.zeros(held.dim), tol=1e-10)
    own = Design(rows.X, intercept=intercept, checked=True)
    # Without answers on the labelled rows the student answers in the teacher's place.
    here = means(own, family, student) if alone else answers[:n][labelled][rows.kept]
    return Teacher(student, here, exact, design, there, weights, not alone, ridge, held)


def is_made_from(design: Design, answers: Array, family: Family, rows: Labelled) -> bool:
    """Tell whether other rows and their answers were made from the labelled rows.

    Covariances of inputs and labels differ between independent samples by their sampling errors
    at least. Rows of a generator that was fitted to the labels repeat theirs: the sum of squared
    differences, in units of those errors, is then too small for a chi-squared variable.
    """
    loss = rows.loss(family, design.intercept)
    own, targets = loss.design, targets_of(loss)
    if own.columns > FITTING.exact_size or own.rows < 3:
        return False
    X, N = dense_rows(own)[:, : own.columns], design.rows
    X, targets = X - X.mean(axis=0), targets - targets.mean(axis=0)
    there = design.pull(answers - answers.mean(axis=0))[: own.columns] / N
    distance, freedom = 0.0, 0.0
    for c in range(family.outputs):
        products = X * targets[:, [c]]
        noise = products.var(axis=0)
        known = noise > 1e-12 * noise.max()
        if known.any():
            correlation = np.atleast_2d(np.corrcoef(products[:, known], rowvar=False))
            # Columns that depend on each other count as the number of independent ones.
            free = known.sum() ** 2 / (correlation**2).sum()
            error = noise[known] * (1 / own.rows + 1 / N)
            gap = products[:, known].mean(axis=0) - there[known, c]
            distance, freedom = distance + free * float(np.mean(gap**2 / error)), freedom + free
    # Of C classes that add up to one, C − 1 are free.
    scale = 1 - 1 / family.outputs if family.outputs > 1 else 1.0
    return bool(scipy.stats.chi2.cdf(scale * distance, scale * freedom) < FITTING.too_alike)


class Worth(NamedTuple):
    """The share of each of several tables, the weights of their rows, and what there is to say."""

    shares: Array
    weights: Array
    words: str
    made: list[str]


def worth_of(family: Family, rows: Labelled, tables: Any, intercept: bool) -> Worth:
    """Weigh other tables as the proxies of one target, by the labels' gradient at a constant model.

    That gradient is made of the covariances of inputs and labels, and few numbers c ≥ 0 are fitted
    to its many. Secants would say more of curvature, but nothing of labels: opposite ones have the
    same. Tables that seem to be made from the labels would explain them best, and are left out
    first. ``tables`` are their rows, answers and numbers of rows.
    """
    X, y, sizes = tables
    answers, ends = encode_answers(family, y, len(y)), np.cumsum(sizes)
    own = rows.loss(family, intercept)
    w0 = constant_model(own, rows.weights)
    losses, made = dict[str, Any](), list[str]()
    for i, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        part = slice(end - size, end)
        design = Design(X[part], intercept=intercept, checked=True)
        if is_made_from(design, answers[part], family, rows):
            made.append(f" [{i}]")
            continue
        loss = soft_loss(design, family, answers[part], np.ones(size))
        wide = loss.dim > FITTING.exact_size
        light = FunctionProxy(loss.value, loss.gradient, hvp=loss.hvp) if wide else loss
        losses[f"X_proxy[{i}]"] = light
    shares, counts, words = np.zeros(len(sizes)), np.zeros(len(sizes)), ""
    if losses:
        several, kept = Several(losses), [f"X_proxy[{i}]" in losses for i in range(len(sizes))]
        state = several.begin(w0, lambda proxy, name: proxy)
        secant = Secant((w0,), (own.gradient(w0),), exact=False)
        state = several.learn(state, [secant], 1, lambda proxy, name: proxy)
        shares[kept], counts[kept] = state.shares, state.numbers
        words = several.words(state)
        if np.isnan(state.explained):
            words += " The labels are too few, or too unlike all of them, to tell them apart."
    # Of equal weights that sum to their number, each is 1: they count as this many rows.
    weights = np.repeat(counts / sizes, sizes)
    weights *= weights.sum() / max(float(weights @ weights), 1e-300)
    return Worth(shares, weights, words, made)


def paired_loss(loss: GLM, teacher: Teacher, power: float) -> Combination:
    """Return the labelled loss with the teacher's exact paired correction.

    Least squares needs the correction at one point only: with it the estimate is the teacher's
    regression plus the regression of its errors, as prediction-powered inference defines it.
    """
    if loss.family.quadratic:
        least = 1e-12 * teacher.loss.smoothness
        rows = teacher.design, loss.family, teacher.on_proxy, teacher.weights
        student = minimise(soft_loss(*rows, l2=least), teacher.student, tol=1e-10)
        error = slopes(loss.design, loss.family, student, teacher.answers)
        same = np.ravel(loss.design.pull(loss.sample_weight[:, None] * error)) / loss.design.rows
        tilt = power * (teacher.loss.gradient(student) - same)
        return Combination([loss], [1.0], tilt=tilt)
    same = soft_loss(loss.design, loss.family, teacher.answers, loss.sample_weight)
    # For λ in [0, 1] convex: the three Hessians do not see labels.
    return Combination([loss, same, teacher.loss], [1.0, -power, power])


def best_power(loss: GLM, teacher: Teacher, w: Array) -> float:
    r"""Return the λ in [0, 1] for which the paired correction has the least variance.

    .. math:: \lambda = \frac{\sum_j \mathrm{Cov}(g_j, \hat g_j)}
              {(1 + n/N)\,\sum_j \mathrm{Var}(\hat g_j)}

    g and ĝ are gradients of each row at a consistent estimate, times the inverse Hessian; n/N,
    labelled rows over the proxy's rows, is the price of the proxy's own noise.
    """
    design, family, scale = loss.design, loss.family, loss.sample_weight[:, None]
    residuals = [slopes(design, family, w, t) for t in (targets_of(loss), teacher.answers)]
    rows = [row_gradients(design, scale * residual) for residual in residuals]
    inverse = np.linalg.pinv(np.asarray(loss.hessian(w)), hermitian=True)
    g, f = ((part - part.mean(axis=0)) @ inverse for part in rows)
    spread = (1 + design.rows / teacher.rows) * float(np.sum(f * f))
    return float(np.clip(np.sum(g * f) / spread, 0.0, 1.0)) if spread else 0.0


# -- standard errors ----------------------------------------------------------------------------


class Estimate(NamedTuple):
    """An asymptotically normal estimate with standard errors; ``note`` says why there is none.

    ``loose`` are the columns whose coefficients alone have none.
    """

    w: Array
    std: Array
    power: float
    excess: float
    note: str = ""
    loose: Sequence[int] = ()


def no_estimate(size: int, note: str) -> Estimate:
    """Return what stands for an estimate that does not exist."""
    return Estimate(np.full(size, np.nan), np.full(size, np.inf), 0.0, np.inf, note)


def collinear_note(loose: Sequence[int], columns: int, names: Any) -> str:
    """Return which columns have no standard errors; the one after the last is the constant."""
    known = [str(j) if names is None else str(names[j]) for j in loose if j < columns]
    listed = list_names(known) + " and the constant" * (columns in loose)
    return (
        f"The labelled rows do not determine {listed}: constant there, or sums of others. Only "
        "these intervals are infinite. Of the levels of a category drop one, such as with "
        "OneHotEncoder(drop='first'); otherwise label rows in which the columns vary."
    )


def too_many_parameters(labels: int, width: int, family: Family) -> str:
    """Return why that number of columns have no standard errors; empty if they may have."""
    # Softmax parameters are fixed up to a shift of all classes. With fewer than two labels for
    # each parameter no asymptotic statement would be worth its name.
    free = width * max(family.outputs - 1, 1)
    if labels <= 2 * free:
        return f"{labels} labels are too few for {free} coefficients: label more rows."
    if width * family.outputs <= FITTING.widest:
        return ""
    widest = f"There are more than {FITTING.widest} parameters"
    return f"{widest}, for which no standard errors are computed."


def estimate_of(loss: GLM, start: Array, teacher: Any) -> Estimate:
    """Return the minimiser of the unpenalised loss with its standard errors.

    With a teacher the loss has the paired correction of least variance.
    """
    n, family = loss.design.rows, loss.family
    note = too_many_parameters(n, loss.design.width, family)
    if (targets_of(loss) == family.edge).all():
        note = "No event was seen: every labelled count is zero. Label more rows."
    if note:
        return no_estimate(loss.dim, note)
    power = 0.0 if teacher is None else best_power(loss, teacher, minimise(loss, start))
    objective: Any = paired_loss(loss, teacher, power) if power else loss
    w = centre_classes(minimise(objective, start), loss)
    if not power and _is_separated(loss, w):
        # Where the search for an estimate at infinity stopped means nothing.
        note = "A plane separates the labels: the estimate lies at infinity. Label more rows."
        return no_estimate(loss.dim, note)
    inverse, loose = _inverse(np.asarray(objective.hessian(w)), family.outputs)
    if loose.all() or not np.isfinite(w).all():
        note = "Columns are constant or sums of others on the labelled rows: drop such columns."
        return no_estimate(loss.dim, note)
    noise = _noise(loss, w, teacher, power, inverse) / n
    if power:
        noise = noise + power**2 * _teacher_noise(teacher, family, w) / teacher.rows
    # The loss of the estimate above the best linear model: tr(H C)/2, H C H = noise.
    excess = float(np.sum(inverse * noise)) / 2
    variances = np.diag(inverse @ noise @ inverse)
    lost = np.repeat(loose, family.outputs)
    w = np.where(lost, np.nan, w)
    std = np.where(lost, np.inf, np.sqrt(np.maximum(variances, 0.0)))
    return Estimate(w, std, power, excess, "", np.flatnonzero(loose).tolist())


def rectifier_of(residuals: Array, weights: Array, counted: bool) -> Array:
    """Return mean and standard error of the residuals (labels less predictions), one column each.

    A classifier that has every label right leaves residuals that hardly vary, though it errs on
    rows like them: few labels do not show errors that are rare, nor do counts that are all zero
    show rare events. The spread of what is counted is therefore never taken to be less than two
    wrong answers would make it, as Agresti and Coull (1998) add two failures and two successes to
    a proportion before they draw its interval.
    """
    share = weights / weights.sum()
    mean, n = share @ residuals, len(share)
    spread = share**2 @ (residuals - mean) ** 2
    if counted:
        # If the labels were too few to hold any out, NaN stays NaN.
        spread = np.maximum(spread, FITTING.wrong_answers * float(share @ share) ** 2)
    return np.stack([mean, np.sqrt(spread * (n / max(n - 1, 1)))], axis=1)


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
        if not loss.family.quadratic:
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
    for rows in _blocks(design.rows, len(w)):
        part = design.take(rows)
        X = dense_rows(part)
        bend = np.reshape(
            loss.family.expected_curvature(predictors(part, loss.family, w)), (-1, C, C)
        )
        for c, e in np.ndindex(C, C):
            found[rows] += bend[:, c, e] * np.sum((X @ inverse[c::C, e::C]) * X, axis=1)
    return loss.sample_weight * found / (design.rows * max(1, C - 1))


def _teacher_noise(teacher: Any, family: Family, w: Array) -> Array:
    """Return the covariance of a proxy row's gradient."""
    total, mean, n = np.zeros((len(w), len(w))), np.zeros(len(w)), teacher.design.rows
    for rows in _blocks(n, len(w)):
        part, share = teacher.design.take(rows), teacher.weights[rows] / teacher.rows
        gradients = row_gradients(part, slopes(part, family, w, teacher.on_proxy[rows]))
        total += gradients.T @ (share[:, None] * gradients)
        mean += share @ gradients
    return (total - np.outer(mean, mean)) * (n / (n - 1))


def _blocks(rows: int, width: int) -> list[slice]:
    step = max(1, BLOCK // width)
    return [slice(start, start + step) for start in range(0, rows, step)]


def _is_separated(loss: GLM, w: Array) -> bool:
    """Tell whether a classifier has every label right, so that larger weights fit still better."""
    if not loss.family.classifier:
        return False
    z, targets = predictors(loss.design, loss.family, w), targets_of(loss)
    if z.ndim == 1:
        return bool((np.where(targets[:, 0] > 0.5, z, -z) > 0).all())
    return bool((z.argmax(axis=1) == targets.argmax(axis=1)).all())


def _inverse(hessian: Array, outputs: int) -> tuple[Array, Array]:
    """Return a generalised inverse, and which columns have a part in what predicts nothing.

    Columns are brought to one scale first: those in large units would make the others look flat.
    """
    hessian = (hessian + hessian.T) / 2
    scale = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    scale = np.where(scale > 1e-12 * scale.max(initial=0.0), scale, max(scale.max(), 1e-300))
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    flat = ~(values > 1e-10 * values[-1])
    strong = vectors[:, ~flat] / scale[:, None]
    inverse = (strong / values[~flat]) @ strong.T
    # Softmax parameters are fixed up to a shift of all classes: that leaves nothing open.
    d, size = len(values) // outputs, scale.reshape(-1, outputs).max(axis=1)
    free = (vectors[:, flat] / scale[:, None]).reshape(d, outputs, int(flat.sum()))
    free = size[:, None, None] * free
    free = free - free.mean(axis=1, keepdims=True) if outputs > 1 else free
    basis, weights, _ = np.linalg.svd(
        free.reshape(d, outputs * int(flat.sum())), full_matrices=False
    )
    free = np.linalg.qr(basis[:, weights > 1e-6] / size[:, None])[0]
    return np.asarray(inverse), np.sqrt((free**2).sum(axis=1)) > LOOSE
