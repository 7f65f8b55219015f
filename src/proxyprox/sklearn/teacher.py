"""Another model's answers as a help: what they are worth, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from proxyprox import DANE, GLM, Problem, Residual, minimize
from proxyprox._util.validation import message
from proxyprox.corrections import tuned_power
from proxyprox.problems.combination import Tilted
from proxyprox.problems.families import Family, Linear, label_array
from proxyprox.problems.glm import Design
from proxyprox.sklearn.inputs import Labelled, Settings, encoded_answers
from proxyprox.sklearn.moments import Moment, means, slopes, targets_of

STUDENT_RIDGE = 1e-7
"""L2 strength of the student in units of the inputs' largest moment, so that it exists."""

Array = Any


@dataclass(frozen=True)
class Teacher:
    """What a teacher knows, reduced to what a walk needs.

    Attributes
    ----------
    student : array of shape (d · C,)
        The linear model that imitates the teacher best on the proxy's rows.
    slope : array of shape (d · C,)
        The teacher's loss gradient at the student on those rows; all but zero.
    answers : array of shape (n, C)
        The teacher's answers on the labelled rows.
    rows : float
        Number of the proxy's rows.
    loss : Tilted
        The teacher's loss on those rows.
    on_proxy : array of shape (N, C)
        The answers there.
    """

    student: Array
    slope: Array
    answers: Array
    rows: float
    loss: Tilted
    on_proxy: Array

    def tilted(self, loss: GLM, rows: Array | None, power: float | None) -> Tilted:
        """Return the labelled loss with the paired correction measured at the student.

        Parameters
        ----------
        loss : GLM
            The labelled rows.
        rows : array or None
            Which of the labelled rows these are.
        power : float or None
            λ; None for the tuned one.
        """
        answers = self.answers if rows is None else self.answers[rows]
        design, family = loss.design, loss.family
        error = slopes(design, family, self.student, answers)
        if power is None:
            own = slopes(design, family, self.student, targets_of(loss))
            power = tuned_power(own, error, ratio=len(error) / self.rows)
        weighted = loss.sample_weight[:, None] * error
        same = np.ravel(loss.design.pull(weighted)) / loss.design.rows
        return Tilted(loss, power * (self.slope - same))


def soft_loss(
    design: Design, family: Family, answers: Array, *, weights: Array | None = None, l2: float = 0.0
) -> Tilted:
    """Return the loss for answers that are probabilities or means, shape (n, C).

    With a canonical link labels are seen through a linear term alone, so that the label-free
    loss with another linear term is the loss for any answers. With others, answers are labels.
    """
    if not family.canonical:
        exact = GLM(design, answers[:, 0], family, l2=l2, sample_weight=weights)
        return Tilted(exact, np.zeros(exact.dim))
    free = GLM(design, None, family, l2=l2, sample_weight=weights)
    gap = free.sample_weight[:, None] * (family.neutral - answers)
    return Tilted(free, np.ravel(design.pull(gap)) / design.rows)


def minimised(loss: Any, start: Array, *, penalty: Any = None, tol: float = 1e-8) -> Array:
    """Return the minimiser of a loss (plus a penalty), found by the core's own solvers."""
    # Its own proxy without a proximal term: one outer step is the whole problem.
    problem = Problem(loss, proxy=loss, penalty=penalty)
    scale = max(1.0, float(np.linalg.norm(loss.gradient(start))))
    found = minimize(problem, start, method=DANE(), steps=1, stop=Residual(tol * scale))
    return np.asarray(found.last)


def taught(
    design: Design,
    family: Family,
    answers: Array,
    on_labelled: tuple[Design, Array | None],
    *,
    scale: float,
    weights: Array | None = None,
    start: Array | None = None,
) -> Teacher:
    """Distil a teacher's answers on the proxy's rows.

    Parameters
    ----------
    design : Design
        The proxy's rows.
    family : Family
        The exponential family.
    answers : array of shape (N, C)
        The teacher's answers there.
    on_labelled : (Design, array or None)
        The labelled rows and the answers on them; None lets the student answer, whose slope on
        the proxy's rows is the teacher's own.
    scale : float
        The inputs' largest moment.
    weights : array, optional
        Weights of the proxy's rows.
    start : array, optional
        Where the distillation begins.
    """
    exact = soft_loss(design, family, answers, weights=weights)
    # Least squares always has a minimiser that rounding finds; a classifier may need the term.
    ridge = scale * (1e-12 if isinstance(family, Linear) else STUDENT_RIDGE)
    smooth = soft_loss(design, family, answers, weights=weights, l2=ridge)
    begin = np.zeros(smooth.dim) if start is None else start
    student = minimised(smooth, begin, tol=1e-10 if isinstance(family, Linear) else 1e-7)
    labelled, own = on_labelled
    if own is None:
        own = means(labelled, family, student)
    total = float(design.rows if weights is None else weights.sum())
    return Teacher(student, exact.gradient(student), own, total, exact, answers)


def teacher_of(
    settings: Settings,
    family: Family,
    rows: Labelled,
    parts: tuple[Any, Array, Array, Any],
    y_proxy: Any,
    others: Moment | None,
) -> Teacher:
    """Sort a teacher's answers and distil them.

    Parameters
    ----------
    settings : Settings
        The estimator's parameters.
    family : Family
        The exponential family.
    rows : Labelled
        The labelled rows that are fitted.
    parts : tuple
        X, which of its rows have a label, which of those have a weight, and X_proxy or None.
    y_proxy : array
        Answers for the rows of X and then of X_proxy, or of X_proxy alone.
    others : Moment or None
        Second moment of the unlabelled inputs.
    """
    X, labelled, kept, X_proxy = parts
    n, N = X.shape[0], 0 if X_proxy is None else X_proxy.shape[0]
    if others is None:
        remedy = "Pass X_proxy, or mark rows of X as unlabelled."
        raise ValueError(message("y_proxy", "no unlabelled rows", "answers on some", remedy))
    given = np.atleast_1d(label_array(y_proxy, "y_proxy"))
    unlabelled = ~labelled
    alone = len(given) == N and N > 0 and not unlabelled.any()
    answers = encoded_answers(family, given, N if alone else n + N)
    design = Design(rows.X, intercept=settings.intercept, checked=True)
    own = None if alone else answers[:n][kept]
    weights = None
    if X_proxy is None:
        # By weights: a copy of the unlabelled rows would double the memory.
        where, there, weights = X, answers, unlabelled.astype(np.float64)
    elif not unlabelled.any():
        where, there = X_proxy, answers if alone else answers[n:]
    else:
        stack = scipy.sparse.vstack if scipy.sparse.issparse(X) else np.vstack
        where = stack([X[unlabelled], X_proxy])
        there = np.vstack([answers[:n][unlabelled], answers[n:]])
    proxy = Design(where, intercept=settings.intercept, checked=True)
    return taught(proxy, family, there, (design, own), scale=others.top, weights=weights)
