"""Fit labelled rows with the help of all inputs: the proxy, its regularisation paths, the choice.

All inputs enter through their second moment, the curvature of a loss without labels. It is the
proxy of full-gradient ProxyProx on the labelled rows; how far the steps go regularises the fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial, reduce
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from threadpoolctl import ThreadpoolController

from proxyprox import GLM, L1, minimize
from proxyprox._util import arrays
from proxyprox._util.arrays import BLOCK
from proxyprox._util.validation import message
from proxyprox.inner import ClosedForm, InnerSolver, NonFiniteError, ProximalGradient
from proxyprox.inner.base import Subproblem
from proxyprox.problems.combination import Combination
from proxyprox.problems.families import Family
from proxyprox.problems.glm import Design
from proxyprox.problems.quadratic import Quadratic
from proxyprox.sklearn import inference, strengths
from proxyprox.sklearn.inputs import Labelled, stack_rows
from proxyprox.sklearn.policy import FITTING
from proxyprox.stopping import Relative, Steps

Array = Any

# -- the proxy ----------------------------------------------------------------------------------

# What is done to the eigenvalues of a matrix.
Spectral = Callable[[Array], Array]


class Moment(NamedTuple):
    """``Σ s_i x_i x_iᵀ / Σ s_i`` as ``V diag(values) Vᵀ + rest (I − V Vᵀ)``.

    Attributes
    ----------
    vectors : array of shape (d, k)
        Orthonormal directions, k = d for narrow data.
    values : array of shape (k,)
        The moment along them, zero or more.
    rest : float
        The moment ascribed to every other direction; zero when k = d.
    weight : float
        Σ s_i, how much the moment counts when it is merged with another.
    """

    vectors: Array
    values: Array
    rest: float
    weight: float

    def __matmul__(self, matrix: Array) -> Array:
        """Return the moment times a matrix of shape (d, c)."""
        return self.apply(matrix, lambda eigenvalues: eigenvalues)

    def apply(self, matrix: Array, function: Spectral, scales: Any = 1.0) -> Array:
        """Return a function of ``scales · moment``, given on eigenvalues, times a matrix."""
        inside = self.vectors.T @ matrix
        product = self.vectors @ (function(self.values[:, None] * scales) * inside)
        if self.rest:
            product += function(self.rest * scales) * (matrix - self.vectors @ inside)
        return product

    @property
    def top(self) -> float:
        """The largest eigenvalue."""
        return float(self.values.max(initial=self.rest))


@lru_cache(maxsize=1)
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of the loaded libraries."""
    # The search through all libraries of the process takes as long as a small fit.
    return ThreadpoolController()


def moment_of(design: Design, weights: Array | None = None) -> Moment:
    """Return the second moment of a design's rows; a row of weight zero is left out, uncopied."""
    weights = np.ones(design.rows) if weights is None else np.asarray(weights, dtype=np.float64)
    total = float(weights.sum())
    shares = weights / total
    if design.width <= FITTING.exact_size:
        return factorise(np.asarray(design.gram(shares), dtype=np.float64), total)
    product = partial(_moment_product, design, shares)
    return _leading_directions(product, design.width, total)


def _moment_product(design: Design, shares: Array, block: Array) -> Array:
    """Return the moment of some rows times a matrix."""
    step, result = max(1, BLOCK // block.shape[1]), np.zeros((design.width, block.shape[1]))
    for start in range(0, design.rows, step):
        rows = slice(start, start + step)
        if shares[rows].any():
            part = design.take(rows)
            result += part.pull(shares[rows, None] * part.predict(block))
    return result


def proxy_moment(design: Design, weights: Array, others: Moment | None) -> Moment:
    """Return the mean of the labelled rows' moment and that of all rows.

    Half of the proxy are the labelled inputs, so that its curvature is never less than half of
    the target's: then every step descends, however few the labels.
    """
    if others is None:
        return moment_of(design, weights)
    own = float(weights.sum())
    share = (1 + own / (own + others.weight)) / 2
    if design.width <= FITTING.exact_size:
        return mix(moment_of(design, weights), others, share)

    def product(block: Array) -> Array:
        rows = _moment_product(design, weights / own, block)
        return share * rows + (1 - share) * (others @ block)

    # The other rows' directions are nearly those of all: half the iterations do.
    return _leading_directions(product, design.width, own + others.weight, others.vectors)


def unlabelled_moment(
    known: Sequence[Any] | None, X: Any, unlabelled: Array, X_proxy: Any, intercept: bool
) -> Moment | None:
    """Return the moment of all rows without a label, and known ones; None if there are none."""
    found = [] if known is None else [Moment(*known)]
    if unlabelled.any():
        # By weights: a copy of the unlabelled rows would double the memory.
        design = Design(X, intercept=intercept, checked=True)
        found.append(moment_of(design, unlabelled.astype(np.float64)))
    if X_proxy is not None:
        found.append(moment_of(Design(X_proxy, intercept=intercept, checked=True)))
    return reduce(pool, found) if found else None


def pool(first: Moment, second: Moment) -> Moment:
    """Return the moment of both sets of rows together."""
    return mix(first, second, first.weight / (first.weight + second.weight))


def mix(first: Moment, second: Moment, share: float) -> Moment:
    """Return ``share · first + (1 − share) · second``, factorised; the weights add up."""
    width, weight = first.vectors.shape[0], first.weight + second.weight

    def product(block: Array) -> Array:
        return share * (first @ block) + (1 - share) * (second @ block)

    if width <= FITTING.exact_size:
        return factorise(product(np.eye(width)), weight)
    return _leading_directions(product, width, weight)


def factorise(matrix: Array, weight: float) -> Moment:
    """Return a moment that is given as a matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return Moment(vectors, np.maximum(values, 0.0), 0.0, weight)


def _leading_directions(
    product: Callable[[Array], Array], width: int, weight: float, start: Array | None = None
) -> Moment:
    """Find the leading directions by subspace iteration (Rayleigh–Ritz)."""
    # A fixed start: the same data always gives the same factor.
    block = (
        np.random.default_rng(0).standard_normal((width, FITTING.rank)) if start is None else start
    )
    for _ in range(4 if start is None else 2):
        block = _orthonormal(product(block))
    values, inner = np.linalg.eigh(block.T @ product(block))
    values = np.maximum(values, 0.0)
    # What is left lies below the smallest value kept; that value is the safe guess for all of it.
    return Moment(block @ inner, values, float(values.min()), weight)


def _orthonormal(block: Array) -> Array:
    """Return an orthonormal basis of some columns: by Cholesky factors, ten times as fast as QR."""
    found = block
    for _ in range(2):
        # The second time removes what rounding has left, unless columns are nearly dependent.
        factor = arrays.factor_positive(found.T @ found)
        if factor is None or factor.diagonal().min() < 1e-7 * factor.diagonal().max():
            return np.linalg.qr(block)[0]
        found = scipy.linalg.solve_triangular(factor, found.T, lower=True, check_finite=False).T
    return found


class LabelFree:
    r"""``½⟨W − W_0, M (W − W_0) S⟩``: the label-free loss to second order at ``W_0``.

    At the intercept-only fit every row has the same expected curvature ``S``, a C × C matrix, so
    that the Hessian of the label-free loss on all inputs is ``M ⊗ S`` with the inputs' second
    moment ``M``. Its labels cancel in every method, so nothing else of the proxy matters. One
    eigendecomposition of M serves all classes, folds, step sizes and strengths.
    """

    def __init__(self, moment: Moment, curvature: Array, w0: Array) -> None:
        self.moment, self.w0 = moment, w0
        self._shape = (-1, len(curvature))
        self._spread, self._turn = np.linalg.eigh(curvature)
        self.smoothness = moment.top * float(self._spread.max())
        # The last point with its gradient: the end of a step is the start of the next.
        self._last: tuple[Array, Array] | None = None

    def value(self, w: Array) -> float:
        """Return the quadratic."""
        return float((w - self.w0) @ self.gradient(w)) / 2

    def gradient(self, w: Array) -> Array:
        """Return its gradient."""
        if self._last is None or self._last[0] is not w:
            self._last = (w, self.hvp(w, w - self.w0))
        return self._last[1]

    def hvp(self, w: Array, v: Array) -> Array:
        """Return its Hessian times v."""
        return self._apply(v, lambda eigenvalues: eigenvalues)

    def solve_shifted(self, v: Array, eta: float) -> Array:
        """Return ``(H + I/η)⁻¹ v`` exactly."""
        return self._apply(v, lambda eigenvalues: 1 / (eigenvalues + 1 / eta))

    def _apply(self, v: Array, function: Spectral) -> Array:
        """Return a function of the Hessian, given on its eigenvalues, times v."""
        turned = v.reshape(self._shape) @ self._turn
        return (self.moment.apply(turned, function, self._spread) @ self._turn.T).ravel()


def label_free(loss: GLM, moment: Moment, counts: Array) -> LabelFree:
    """Return the proxy for a labelled loss: S from the labels' mean, M from all inputs.

    ``counts`` says how many labels each row stands for: its weight.
    """
    family, design, C = loss.family, loss.design, loss.family.outputs
    base, w0 = inference.constant_model(loss, counts)
    # Without an intercept the constant model is w = 0; of one output the larger curvature is safe.
    places = [base] if design.intercept else [np.zeros(C), base] if C == 1 else [np.zeros(C)]
    found = [family.expected_curvature(z if C == 1 else z[None, :]) for z in places]
    return LabelFree(moment, np.max(found, axis=0).reshape(C, C), w0)


# -- paths --------------------------------------------------------------------------------------


class RegularisationPath:
    r"""The iterates ``w_0, w_1, …`` of full-gradient ProxyProx on the labelled rows.

    .. math:: w_{k+1} = \arg\min_w \hat L(w) + \langle\nabla L_n(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta_k}\|w - w_k\|^2, \qquad \eta_k = 1.1^k / H

    The first steps barely move, each later one goes further: by the number of steps alone the
    path passes from the constant model, through fits regularised in the geometry of all inputs,
    to the minimiser on the labelled rows. A step that would raise the objective is taken again
    with a shorter η, so that the path also ends there when few labels make δ large.

    Parameters
    ----------
    objective, proxy, penalty : losses and Penalty or None
        Labelled loss, label-free proxy and what both share.
    w0 : array
        Where to begin.
    least_pull : float
        The least ``1/η``; the strength of an L2 term, which the proxy lacks.
    """

    def __init__(
        self, objective: Any, proxy: Any, penalty: Any, w0: Array, *, least_pull: float = 0.0
    ) -> None:
        self.objective, self.proxy, self.penalty = objective, proxy, penalty
        self.w = w0
        self.k = 0
        self._top = float(proxy.smoothness) or 1.0
        self._floor = max(least_pull, np.finfo(np.float64).eps ** 0.5 * self._top)
        self._boost = 1.0
        self._value, self._gradient = self._evaluate(w0)

    def _evaluate(self, w: Array) -> tuple[float, Array]:
        """Return the objective, the penalty included, and its gradient without that."""
        own = 0.0 if self.penalty is None else self.penalty.value(w)
        value, gradient = self.objective.value_and_gradient(w)
        return float(value) + own, gradient

    @property
    def pull(self) -> float:
        """``1/η`` of the next step."""
        return self._boost * max(self._top * FITTING.growth**-self.k, self._floor)

    def advance(self) -> Array:
        """Take one step and return the new point."""
        linear = self._gradient - self.proxy.gradient(self.w)
        highest = self._value + 1e-12 * max(1.0, abs(self._value))
        # The closed form is good enough after one step.
        stop = Relative(FITTING.tolerance) | Steps(200)
        solver: InnerSolver = ClosedForm() if self.penalty is None else ProximalGradient()
        while self._boost < 1e13:
            phi = Subproblem(self.proxy, linear, self.w, 1 / self.pull, self.penalty)
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    w = solver.solve(phi, self.w, stop, {}, np.random.default_rng(0)).w
                    value, gradient = self._evaluate(w)
            except NonFiniteError:
                value = math.inf
            if value <= highest:
                self.w, self._value, self._gradient = w, value, gradient
                break
            self._boost *= 4
        # A boost was for one place: let it fade, or a hard start would slow the whole path.
        self._boost = max(1.0, self._boost / 2)
        self.k += 1
        return self.w


class MixedPath:
    r"""The minimisers of ``θ L_n + (1 − θ) L̂`` for growing θ, from the teacher towards the labels.

    Parameters
    ----------
    loss, teacher : losses
        L_n of the labelled rows, L̂ of the teacher's answers.
    w0 : array
        The minimiser of L̂.
    """

    def __init__(self, loss: Any, teacher: Any, w0: Array) -> None:
        self.loss, self.teacher, self.k = loss, teacher, -1
        self.w = w0
        self.advance()

    def advance(self) -> Array:
        """Go to the next θ and return its minimiser."""
        self.k += 1
        theta = FITTING.thetas[self.k]
        mixture = Combination([self.loss, self.teacher], [theta, 1 - theta])
        self.w = inference.minimise(mixture, self.w, tol=FITTING.tolerance)
        return self.w


class StrengthPath:
    r"""The minimisers of ``L_n + α/2 ‖w‖²`` for falling α, from nearly the constant model on.

    Parameters
    ----------
    losses : iterable of losses
        Those of falling strengths.
    w0 : array
        Where to begin.
    """

    def __init__(self, losses: Any, w0: Array) -> None:
        self._losses, self.w = iter(losses), w0
        self.advance()

    def advance(self) -> Array:
        """Go to the next α and return its minimiser."""
        loss = next(self._losses)
        w = inference.minimise(loss, self.w, tol=1e-11)
        # Nothing holds the mean of the classes' constants.
        self.w = inference.centre_classes(w, loss.family.outputs)
        return self.w


class Candidate(NamedTuple):
    """One way to fit; cross-validation picks one of them, and how far to go.

    Attributes
    ----------
    way : str
        "labels alone", "teacher alone", "fine-tuned" (the path begins at the teacher's student),
        "mixed" (a path of mixtures of both losses) or "corrected" (paired).
    alpha : float
        Strength of the penalty.
    power : float or None
        λ of the paired correction; None tunes it on the labelled rows at hand.
    """

    way: str
    alpha: float
    power: float | None = 0.0

    def longest(self, most: int) -> int:
        """Return how many steps its path may have."""
        return {"teacher alone": 0, "mixed": len(FITTING.thetas) - 1}.get(self.way, most)


# -- fits ---------------------------------------------------------------------------------------

Folds = Sequence[tuple[Array, Array]]
# For each path, the weight of its points 0, 1, 2, … in the answer; they add up to one.
Shares = Mapping[Candidate, Array]


class Trial(NamedTuple):
    """What cross-validation found for a candidate: steps, losses, predictions of held-out rows."""

    candidate: Candidate
    steps: int
    curve: Array
    losses: Array
    held_out: Array

    @property
    def score(self) -> float:
        """The least held-out loss."""
        return float(self.curve[self.steps])


def lead(trial: Trial, rival: Trial) -> float:
    """Return by how many standard errors a trial's held-out loss is lower, row by row."""
    gap = rival.losses - trial.losses
    return float(gap.mean() / max(gap.std() / np.sqrt(len(gap)), 1e-300))


def choice_of(trials: Sequence[Trial]) -> inference.Choice:
    """Return what trials tell of the ways, the best trial being the first."""
    (way, *_), steps, *_ = best = trials[0]
    theta = FITTING.thetas[steps] if way == "mixed" else float(way != "teacher alone")
    losses, errors = dict[str, float](), dict[str, float]()
    for trial in trials:
        name = trial.candidate.way
        if len(trial.losses) and name not in losses:
            gap = trial.losses - best.losses
            losses[name], errors[name] = trial.score, float(gap.std() / np.sqrt(len(gap)))
    return inference.Choice(way, theta, losses, errors)


def learn(
    settings: Any, family: Family, rows: Labelled, others: Moment | None, teacher: Any
) -> tuple[Array, Trial, inference.Choice, Array, inference.Estimate | None]:
    """Return parameters, trial and choice, the rectifier of means, the unregularised estimate.

    The estimate is None if there is no teacher: it is made when it is asked for.

    ``others`` is the moment of the unlabelled rows, if there are any.
    """
    C, design = family.outputs, Design(rows.X, intercept=settings.fit_intercept, checked=True)
    steps = _steps_of(settings, design, C, teacher)
    settings = SimpleNamespace(**{**vars(settings), "n_steps": steps})
    known = [] if teacher is None else [teacher.student, teacher.slope]
    space, moment = None, cache(partial(proxy_moment, design, rows.weights, others))
    if settings.l1_ratio == 0 and (settings.n_steps == "cv" or isinstance(settings.n_steps, int)):
        space = _subspace(rows.X, moment(), [w.reshape(-1, C) for w in known])
    if space is None:
        return Fit(settings, family, rows, moment, teacher).learn()
    if teacher is not None:
        student, slope = (space.reduce(w.reshape(-1, C)).ravel() for w in known)
        teacher = replace(teacher, student=student, slope=slope)
    inner = moment()._replace(vectors=space.reduce(moment().vectors))
    small = replace(rows, X=space.reduce(rows.X.T).T)
    w, trial, choice, rectifier, _ = Fit(settings, family, small, lambda: inner, teacher).learn()
    # Standard errors belong to the original columns, of which there are too many for any.
    return space.expand(w.reshape(-1, C)).ravel(), trial, choice, rectifier, None


def estimate(
    family: Family, rows: Labelled, w: Array, intercept: bool, others: Moment | None
) -> inference.Estimate:
    """Return the unregularised estimate without a teacher."""
    design = Design(rows.X, intercept=intercept, checked=True)
    loss = GLM(design, rows.y, family, sample_weight=rows.weights)
    moment = cache(partial(proxy_moment, design, rows.weights, others))
    return inference.estimate_of(loss, w, None, 0.0, moment)


def _steps_of(settings: Any, design: Design, outputs: int, teacher: Any) -> int | str:
    """Return what "auto" stands for; "strengths" chooses among minimisers."""
    if settings.n_steps != "auto":
        return settings.n_steps  # type: ignore[no-any-return]
    if teacher is not None or settings.l1_ratio:
        return "cv"
    if settings.alpha is not None and len(settings.alpha) == 1:
        return "converged"
    size = design.width * outputs
    many = design.rows > max(FITTING.few, 2 * size) and size <= FITTING.exact_size
    return "strengths" if many else "cv"


class Subspace(NamedTuple):
    """The span of a moment's leading vectors and of some rows, and the constant.

    Its orthonormal basis ``[V, (I − VVᵀ) Rᵀ L⁻ᵀ]``, with ``L Lᵀ = R(I − VVᵀ)Rᵀ``, is never formed:
    products with sparse rows R take its place.

    Attributes
    ----------
    vectors : array of shape (p, k)
        V, orthonormal.
    rows : array or sparse matrix of shape (m, p)
        R, linearly independent of each other and of V.
    lower : array of shape (m, m)
        L, lower triangular.
    """

    vectors: Array
    rows: Any
    lower: Array

    def reduce(self, matrix: Array) -> Array:
        """Return the coordinates of columns of p entries; those of the constant stay."""
        p = len(self.vectors)
        inside = matrix[:p].T @ self.vectors
        left = self.rows @ matrix[:p]
        left = left.toarray() if hasattr(left, "toarray") else left
        left = left - (self.rows @ self.vectors) @ inside.T
        solved = scipy.linalg.solve_triangular(self.lower, left, lower=True)
        constant = matrix[p:] if matrix.shape[0] > p else np.zeros((0, matrix.shape[1]))
        return np.vstack([inside.T, solved, constant])

    def expand(self, small: Array) -> Array:
        """Return the columns of given coordinates."""
        k, m = self.vectors.shape[1], len(self.lower)
        shares = scipy.linalg.solve_triangular(self.lower, small[k : k + m], lower=True, trans="T")
        pulled = self.rows.T @ shares
        inside = small[:k] - self.vectors.T @ pulled
        return np.vstack([self.vectors @ inside + pulled, small[k + m :]])


def _subspace(X: Any, moment: Moment, known: Sequence[Array]) -> Subspace | None:
    """Return the space of the directions of a path; None if they are not far fewer.

    Gradients are combinations of labelled rows, and the proxy's inverse maps a direction to
    itself and the moment's leading vectors: from a start in the subspace, a path without an L1
    penalty stays in it. Nothing is approximated.
    """
    n, p = X.shape
    size = n + moment.vectors.shape[1] + sum(w.shape[1] for w in known)
    if 2 * size > p or size > FITTING.exact_size:
        return None
    rows = stack_rows(X, *(w[:p].T for w in known))
    lengths = np.sqrt((rows * rows).sum(axis=1))
    rows = scipy.sparse.diags_array(1 / np.where(lengths > 0, lengths, 1.0)) @ rows
    vectors = _orthonormal(moment.vectors[:p])
    inside, gram = rows @ vectors, rows @ rows.T
    gram = gram.toarray() if hasattr(gram, "toarray") else gram
    # Rows that depend on others come last, and are left out.
    lower, order, rank, _ = scipy.linalg.lapack.dpstrf(gram - inside @ inside.T, 1e-14, lower=1)
    return Subspace(vectors, rows[order[:rank] - 1], np.tril(lower[:rank, :rank]))


class Fit:
    """A fit of labelled rows, given the moment of all inputs and perhaps a teacher."""

    def __init__(
        self, settings: Any, family: Family, rows: Labelled, moment: Any, teacher: Any
    ) -> None:
        self.settings, self.rows, self.teacher = settings, rows, teacher
        self._moment = moment
        self.design = Design(rows.X, intercept=settings.fit_intercept, checked=True)
        same = (rows.weights == rows.weights[0]).all()
        weights = None if same else rows.weights
        self.plain = GLM(self.design, rows.y, family, sample_weight=weights)
        # Whether a product with the labelled rows is small.
        self.light = self.design.rows * self.plain.dim <= BLOCK
        smooth = 1 - settings.l1_ratio
        self.losses = {alpha: self.plain.with_l2(alpha * smooth) for alpha in self._alphas()}

    @property
    def moment(self) -> Moment:
        """The moment of all inputs, made when it is needed."""
        return self._moment()  # type: ignore[no-any-return]

    def _alphas(self) -> Sequence[float]:
        """Return the strengths of the penalty to try."""
        given, ratio = self.settings.alpha, self.settings.l1_ratio
        if given is not None:
            return list(given)
        if self.settings.n_steps == "converged" and not ratio:
            return [0.0]
        proxy = label_free(self.plain, self.moment, self.rows.weights)
        if ratio > 0:
            slope = self.plain.gradient(proxy.w0).reshape(self.design.width, -1)
            steepest = float(np.abs(slope[: self.design.columns]).max()) / ratio
            return [share * steepest for share in FITTING.l1_grid]
        if self.settings.n_steps not in ("cv", "strengths") or self.shrinks:
            return [0.0]
        return [share * proxy.smoothness for share in FITTING.l2_grid]

    @cached_property
    def imitation(self) -> Quadratic | LabelFree:
        """The teacher's loss to second order at the student: all rows at each step take long."""
        teacher, student = self.teacher, self.teacher.student
        if not len(student) == teacher.loss.dim <= FITTING.exact_size:
            return LabelFree(self.moment, teacher.curvature, student)
        hessian = np.asarray(teacher.loss.hessian(student)) + teacher.ridge * np.eye(len(student))
        return Quadratic(hessian, -hessian @ student)

    @property
    def shrinks(self) -> bool:
        """Whether strengths, not steps, regularise labels alone: few of them, of classes."""
        settings, few = self.settings, self.design.rows <= FITTING.few
        free = settings.alpha is None and settings.n_steps == "cv" and settings.l1_ratio == 0
        return free and few and self.plain.family.classifier

    @cached_property
    def shrinkages(self) -> Array:
        """The strengths that few labels try; equal columns of size one take scikit-learn's 1/C."""
        moment, design = self.moment, self.design
        total = float(moment.values.sum()) + moment.rest * (design.width - len(moment.values))
        square = (total - design.intercept) / design.columns
        return np.array(FITTING.shrinks) * max(square, 1e-300) / self.rows.weights.sum()

    @cached_property
    def expected(self) -> Array:
        """How likely each of them is before labels are seen."""
        off = (np.log10(FITTING.shrinks) - FITTING.usual) / FITTING.spread
        return np.exp(-(off**2) / 2)

    def path(self, candidate: Candidate, rows: Any = slice(None)) -> Any:
        """Return the path of a candidate on some of the labelled rows, or on all."""
        loss = self.losses[candidate.alpha].rows(rows)
        proxy = label_free(loss, self.moment, self.rows.weights[rows])
        w0 = proxy.w0 if candidate.way == "labels alone" else self.teacher.student
        if candidate.way == "labels alone" and self.shrinks:
            return StrengthPath((loss.with_l2(alpha) for alpha in self.shrinkages), w0)
        objective: Any = loss
        if candidate.way == "mixed":
            return MixedPath(loss, self.imitation, w0)
        if candidate.power != 0.0:
            objective = self.teacher.tilted_loss(loss, rows, candidate.power)
        penalty = None
        if candidate.alpha * self.settings.l1_ratio:
            strength = np.zeros((self.design.width, loss.family.outputs))
            strength[: self.design.columns] = candidate.alpha * self.settings.l1_ratio
            penalty = L1(strength.ravel())
        # The proxy lacks the L2 term: a pull of that strength stands in for it.
        return RegularisationPath(objective, proxy, penalty, w0, least_pull=loss.l2)

    def learn(self) -> tuple[Array, Trial, inference.Choice, Array, inference.Estimate | None]:
        """Choose a candidate and the number of steps, and fit all labelled rows so."""
        plain, teacher = self.plain, self.teacher
        # Thousands of small products stay on one thread: others would only wait for each other.
        with _thread_pools().limit(limits=1, user_api="blas") if self.light else nullcontext():
            if self.settings.n_steps == "converged":
                w, trial = self._minimise()
                trials = [trial]
            elif self.settings.n_steps == "strengths" and (folds := self._split()):
                alphas = list(self.losses)
                w, place, curve, held_out = strengths.best_strength(plain, alphas, folds)
                candidate = Candidate("labels alone", alphas[place])
                trials = [trial := Trial(candidate, place, curve, np.zeros(0), held_out)]
            else:
                trials, shares = self._cross_validate()
                w, trial = self._average(shares), trials[0]
                if self.shrinks and trial.candidate.way == "labels alone":
                    alpha = float(self.shrinkages[trial.steps])
                    trial = trial._replace(candidate=trial.candidate._replace(alpha=alpha))
        estimate = None
        if teacher is not None:
            power = trial.candidate.power
            estimate = inference.estimate_of(plain, w, teacher, power, self._moment)
        residuals = inference.targets_of(plain) - trial.held_out
        weights = self.rows.weights if self.rows.population is None else self.rows.population
        rectifier = inference.rectifier_of(residuals, weights, plain.family.classifier)
        return w, trial, choice_of(trials), rectifier, estimate

    def _minimise(self) -> tuple[Array, Trial]:
        """Go to the end of the path at once: the minimiser of the (paired) labelled loss."""
        (alpha, loss), *_ = self.losses.items()
        plain, teacher = self.plain, self.teacher
        power = self.settings.power if teacher else 0.0
        if teacher is None and not self.settings.l1_ratio:
            w = np.asarray(minimize(loss).w)
        else:
            path = self.path(Candidate("labels alone", alpha))
            start = teacher.student if teacher else path.w
            if power is None:
                power = inference.best_power(plain, teacher, inference.minimise(loss, path.w))
            objective = inference.paired_loss(loss, teacher, power) if teacher and power else loss
            w = inference.minimise(objective, start, penalty=path.penalty, tol=1e-10)
        if alpha == 0:
            w = inference.centre_classes(w, plain.family.outputs)
        targets, n = inference.targets_of(plain), self.design.rows
        residuals = targets - inference.means(self.design, plain.family, w)
        # Residuals of rows that the fit has seen are too small, by the parameters it spent.
        spare, mean = n / max(n - self.design.width, 1), residuals.mean(axis=0)
        held_out = targets - mean - np.sqrt(spare) * (residuals - mean)
        way = "corrected" if power else "labels alone"
        return w, Trial(Candidate(way, alpha, power), -1, np.zeros(0), np.zeros(0), held_out)

    def _average(self, shares: Shares) -> Array:
        """Follow the paths on all labelled rows, and average the points by their shares."""
        total, used = 0.0, 0.0
        for candidate, weights in shares.items():
            # What has no share to speak of need not be computed.
            last = int(np.max(np.flatnonzero(weights > FITTING.tolerance), initial=-1))
            if last < 0:
                continue
            path = self.path(candidate)
            for k in range(last + 1):
                total = total + weights[k] * (path.advance() if k else path.w)
            used += float(weights[: last + 1].sum())
        return total / used

    # -- cross-validation ---------------------------------------------------------------------

    def _cross_validate(self) -> tuple[list[Trial], Shares]:
        """Return the trials, the chosen one first, and the shares of all points.

        With few labels the least held-out loss is a gamble. Averaging weighs every point of every
        path by its held-out likelihood ``exp(−n · loss)``, whether the teacher has a part in it or
        not; because the loss is convex, the average is never worse than its parts are on average.
        Few labels cannot tell a gain from chance, and misleading data may cost far more than good
        data gain. There labels alone are fitted unless another way is better by a standard error;
        by less than one, a teacher that has answered on the labelled rows is believed in part.
        The correction is the noisiest way: it must always be better by one.
        """
        folds, candidates, steps = self._split(), self._candidates(), self.settings.n_steps
        if not folds:
            # As many as make η e times as long as the first.
            steps = int(1 / math.log(FITTING.growth)) if steps == "cv" else steps
            steps = int(self.expected.argmax()) if self.shrinks else steps
            nothing = np.full((self.design.rows, self.plain.family.outputs), np.nan)
            trial = Trial(candidates[0], steps, np.zeros(0), np.zeros(0), nothing)
            return [trial], {candidates[0]: np.eye(steps + 1)[-1]}
        trials = [self._try(candidate, folds) for candidate in candidates]
        trials.sort(key=lambda trial: trial.score)
        pooled = [trial for trial in trials if trial.candidate.way != "corrected"] or trials
        if lead(trials[0], pooled[0]) > 1:
            pooled = trials
        best, groups = pooled[0], [(1.0, pooled)]
        alone = [trial for trial in pooled if trial.candidate.way == "labels alone"]
        if alone and self.design.rows <= FITTING.few:
            trust = min(lead(best, alone[0]), 1.0)
            trust = trust if trust == 1 or (self.teacher and self.teacher.paired) else 0.0
            best = best if trust >= 0.5 else alone[0]
            groups = [
                (trust, [t for t in pooled if t.candidate.way != "labels alone"]),
                (1 - trust, alone),
            ]
        trials = [best, *(trial for trial in trials if trial is not best)]
        # An average of sparse points would not be sparse.
        if steps != "cv" or self.settings.l1_ratio > 0:
            return trials, {best.candidate: np.eye(best.steps + 1)[-1]}
        unit = self.rows.weights.sum()
        if not self.plain.family.known_dispersion:
            # The loss is a likelihood in units of the dispersion, here the mean deviance.
            unit /= 2 * max(best.score, 1e-300)
        shares: dict[Candidate, Array] = {}
        for part, group in groups:
            if part:
                raw = {t.candidate: np.exp(-unit * (t.curve - group[0].score)) for t in group}
                for candidate in raw:
                    if self.shrinks and candidate.way == "labels alone":
                        raw[candidate] *= self.expected
                total = sum(float(weights.sum()) for weights in raw.values())
                shares |= {candidate: part / total * weights for candidate, weights in raw.items()}
        return trials, shares

    def _split(self) -> Folds:
        """Return the train and test rows of each fold; none if the labels are too few to split."""
        rows, cv, n = self.rows, self.settings.cv, self.design.rows
        # The user's splitter sees the rows of weight zero, too, which are then left out.
        y, kept, classifier = rows.all_y, rows.kept, self.plain.family.classifier
        if cv is None:
            few = n <= FITTING.few and self.light
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

    def _candidates(self) -> list[Candidate]:
        """Return the candidates; the first is the one to take if nothing can be tried."""
        power, teacher = self.settings.power, self.teacher
        plain = [Candidate("labels alone", alpha) for alpha in self.losses]
        if teacher is None or power == 0.0:
            return plain
        # The teacher regularises in place of an L2 term. An L1 term has another purpose: a path
        # from the teacher becomes sparse, the teacher itself and mixtures are not.
        sparse = self.settings.l1_ratio > 0
        alphas = list(self.losses) if sparse else [min(self.losses)]
        if power is not None:
            return [Candidate("corrected", alpha, power) for alpha in alphas]
        ways = ["fine-tuned"] + ["corrected"] * teacher.paired
        if self.settings.n_steps == "cv" and not sparse:
            # Of equal ones the first is named: a path that does not leave the teacher is its fit.
            ways = ["teacher alone", *ways, "mixed"]
        helped = [
            Candidate(way, alpha, None if way == "corrected" else 0.0)
            for alpha in alphas
            for way in ways
        ]
        return plain + helped

    def _try(self, candidate: Candidate, folds: Folds) -> Trial:
        """Follow the paths of all folds in step, so that all stop when it no longer pays."""
        loss, rows = self.losses[candidate.alpha], self.design.rows
        fixed = self.settings.n_steps != "cv"
        longest = self.settings.n_steps if fixed else candidate.longest(self.settings.max_steps)
        if candidate.way == "labels alone" and self.shrinks:
            longest = len(FITTING.shrinks) - 1
        paths = [self.path(candidate, train) for train, _ in folds]
        tests = [(test, loss.rows(test)) for _, test in folds]
        seen = np.bincount(np.concatenate([test for test, _ in tests]), minlength=rows)
        weights = loss.sample_weight * (seen > 0)
        curve: list[float] = []
        best: Any = (math.inf, 0, np.zeros(0), [path.w for path in paths])
        for k in range(longest + 1):
            points = [path.advance() if k else path.w for path in paths]
            losses = np.zeros(rows)
            for w, (test, held_out) in zip(points, tests, strict=True):
                losses[test] += inference.row_losses(held_out, w)
            losses /= np.maximum(seen, 1)
            score = float(np.average(losses, weights=weights))
            curve.append(score if math.isfinite(score) else math.inf)
            if curve[-1] < best[0] or (fixed and k == longest):
                best = (curve[-1], k, losses, points)
            # A path has arrived when ten steps have not changed the held-out loss.
            arrived = k >= 20 and abs(curve[-11] - curve[-1]) <= FITTING.tolerance * abs(curve[-1])
            if not fixed and k > best[1] and (k - best[1] >= FITTING.patience or arrived):
                break
        predictions = np.zeros((rows, loss.family.outputs))
        for w, (test, held_out) in zip(best[3], tests, strict=True):
            predictions[test] += inference.means(held_out.design, loss.family, w)
        with np.errstate(invalid="ignore", divide="ignore"):
            predictions /= seen[:, None]
        return Trial(candidate, best[1], np.asarray(curve), best[2], predictions)
