"""Logistic regression, binary and multinomial, for few labels and many inputs."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.special
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from proxyprox._checks import message
from proxyprox.problems.families import Family, Logistic, Softmax
from proxyprox.sklearn._base import ProxyGLM
from proxyprox.sklearn._inputs import checked_weights, validated
from proxyprox.sklearn._marks import AUTO, doubt_of, is_mark, mark_of, read_labels
from proxyprox.sklearn._resemblance import ProxyWarning
from proxyprox.sklearn._settings import settings_of
from proxyprox.sklearn.scoring import labelled_part

Array = Any


class ProxyLogisticRegression(ClassifierMixin, ProxyGLM):  # type: ignore[misc]
    r"""Logistic regression that learns the geometry of the inputs from rows without labels.

    Full-gradient ProxyProx on the labelled rows, with the label-free loss on *all* inputs as
    proxy: the walk goes from the constant model towards the minimiser on the labelled rows, and
    how far is chosen by cross-validation on the labelled rows.

    Parameters
    ----------
    alpha : float, sequence of float or "auto"
        Strength of a penalty ``alpha (l1_ratio ‖w‖₁ + (1 − l1_ratio)/2 ‖w‖²)`` on the mean loss;
        of several, cross-validation picks one. "auto" is a grid made from the data; with a given
        number of steps and no L1 part it is zero, because the steps regularise.
    l1_ratio : float
        Share of the L1 norm, in [0, 1].
    n_steps : int, "cv" or "converged"
        Outer steps; "converged" goes to the minimiser of the labelled loss.
    max_steps : int
        Longest walk that cross-validation tries.
    power : float or "tuned"
        λ of the paired correction when ``y_proxy`` is given: 0 ignores the teacher, 1 is
        prediction-powered inference, "tuned" finds the best λ and uses the teacher only if it
        lowers the held-out loss.
    cv : int, splitter or None
        How the labelled rows are split; None for three folds five times where labels are few,
        else five or ten folds.
    average : bool
        Average all points of the walks by their held-out likelihood instead of taking the one
        with the least held-out loss; an L1 penalty always takes the one, to stay sparse.
    fit_intercept : bool
        Whether a constant is fitted; it is never penalised.
    warm_start : bool
        Begin at the last fit instead of at the constant model.
    random_state : int, RandomState or None
        Randomness of the default split.
    unlabelled : int, str, None or "auto"
        The value of y that marks a row without a label, a string for text labels; None and NaN
        in an array of objects mark one, too. None: every value is a class. "auto" is −1 unless it
        looks like a class: then it is an error, or where most rows are −1 a warning, to leave
        this open.

    Attributes
    ----------
    coef_, intercept_, classes_ : arrays
        As in scikit-learn's ``LogisticRegression``.
    n_steps_, alpha_, power_, taught_ : int, float, float, bool
        What was chosen; ``n_steps_`` is −1 for "converged". ``taught_`` tells whether the walk
        began at the teacher's imitation; ``power_`` is only the share λ of the paired correction
        in its steps, so that a teacher may be used and ``power_`` be zero. (It is zero, too, if λ
        was tuned but ``inference_note_`` says that there are no standard errors to tune it by.)
    cv_curve_ : array
        Mean held-out log-loss after 0, 1, 2, … steps.
    coef_std_, intercept_std_, coef_debiased_, intercept_debiased_ : arrays
        The unregularised estimate and its standard errors, see :meth:`confidence_interval`.
    inference_note_ : str
        Why the standard errors are infinite; empty if they are not.
    n_labels_ : int
        Labelled rows of the fit.

    Notes
    -----
    With metadata routing ask for what is to be passed through a Pipeline or a search:
    ``est.set_fit_request(X_proxy=True, y_proxy=True)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(600, n_features=10, random_state=0)
    >>> y[50:] = -1                     # fifty labels, 550 rows without
    >>> model = ProxyLogisticRegression(unlabelled=-1).fit(X, y)
    >>> model.n_labels_, model.predict_proba(X[:2]).shape
    (50, (2, 2))
    """

    def __init__(
        self,
        *,
        alpha: Any = "auto",
        l1_ratio: float = 0.0,
        n_steps: int | str = "cv",
        max_steps: int = 200,
        power: float | str = "tuned",
        cv: Any = None,
        average: bool = True,
        fit_intercept: bool = True,
        warm_start: bool = False,
        random_state: Any = 0,
        unlabelled: Any = AUTO,
    ) -> None:
        super().__init__(
            alpha=alpha, l1_ratio=l1_ratio, n_steps=n_steps, max_steps=max_steps, power=power,
            cv=cv, average=average, fit_intercept=fit_intercept, warm_start=warm_start,
            random_state=random_state,
        )  # fmt: skip
        self.unlabelled = unlabelled

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        X_proxy: Any = None,
    ) -> Self:
        """Add rows, labelled or not, to those seen so far and go on from the last fit.

        The labelled rows are kept, those of ``fit`` too, and of the others their second moment. A
        teacher is not: pass all rows to :meth:`fit` with ``y_proxy`` for that. What is kept is
        saved with the estimator; an X that was labelled throughout is kept without a copy, so do
        not change it in between.

        Parameters
        ----------
        X, y, sample_weight, X_proxy
            As in :meth:`fit`.
        classes : array, optional
            All classes; needed in the first call unless its labels, or a fit's, show them all.

        Returns
        -------
        self
        """
        first = getattr(self, "_rows", None) is None and getattr(self, "_others", None) is None
        settings = settings_of(self)
        X, y, found = self._checked(X, y, reset=first)
        if first or classes is not None:
            if classes is None:
                self._refuse_ambiguous(y, found)
            elif is_mark(-1, mark_of(self.unlabelled)) and -1 in list(classes):
                allowed = "without -1, which marks rows without a label"
                remedy = "If -1 is a class, set unlabelled=None."
                raise ValueError(message("classes", list(classes), allowed, remedy))
            known = np.unique(y[found] if classes is None else classes)
            if not first and not np.array_equal(known, self.classes_):
                allowed = f"the classes of the first call, {self.classes_.tolist()}"
                raise ValueError(message("classes", known.tolist(), allowed))
        else:
            known = self.classes_
        strange = ~np.isin(y[found], known)
        if strange.any():
            allowed = f"one of the classes {known.tolist()}"
            remedy = "Name all classes in the first call."
            raise ValueError(message("y", y[found][strange][0], allowed, remedy))
        family = self._family_of(known)
        return self._partial_fit(settings, (X, y, found), sample_weight, X_proxy, family)

    def decision_function(self, X: Any) -> Array:
        """Return the linear predictors: of the second class for two, of every class otherwise."""
        scores = self._predictors(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, in the order of ``classes_``."""
        scores = self._predictors(X)
        if scores.shape[1] == 1:
            # Both tails from the sigmoid itself: 1 − p would round small probabilities to zero.
            return np.hstack([scipy.special.expit(-scores), scipy.special.expit(scores)])
        probabilities: Array = scipy.special.softmax(scores, axis=1)
        return probabilities

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of each class's probability."""
        scores = self._predictors(X)
        if scores.shape[1] == 1:
            return np.hstack([scipy.special.log_expit(-scores), scipy.special.log_expit(scores)])
        logs: Array = scipy.special.log_softmax(scores, axis=1)
        return logs

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row."""
        scores = self._predictors(X)
        if scores.shape[1] == 1:
            return np.asarray(self.classes_[(scores.ravel() > 0).astype(int)])
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of labelled rows whose class is right; rows without a label are skipped.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        """
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, X)
        every = y
        X, y, sample_weight = labelled_part(X, y, sample_weight, mark_of(self.unlabelled))
        skipped = 0 if y is every else np.size(every) - np.size(y)
        if skipped and self.unlabelled == AUTO and not getattr(self, "_marks_seen", False):
            warnings.warn(
                f"score leaves out {skipped} rows as unlabelled, of a mark that fit did not see. "
                "Set unlabelled=-1 if they have no label, unlabelled=None if -1 is a class.",
                ProxyWarning,
                stacklevel=2,
            )
        return float(super().score(X, y, sample_weight))

    # -- internals --------------------------------------------------------------------------

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array, Array]:
        y, labelled = read_labels(y, mark_of(self.unlabelled))
        X, y = validated(self, X, y, reset=reset)
        check_classification_targets(y)
        return X, y, np.ones(len(y), dtype=bool) if labelled is None else labelled

    def _refuse_ambiguous(self, y: Array, labelled: Array) -> None:
        self._marks_seen = not labelled.all()
        if self.unlabelled is not None and y.dtype.kind in "UTO" and (y[labelled] == "").any():
            warnings.warn(
                f"y is '' in {int((y[labelled] == '').sum())} rows, which is taken for a class. "
                "If it marks rows without a label, set unlabelled=''; if it is a class, "
                "unlabelled=None.",
                ProxyWarning,
                stacklevel=3,
            )
        if labelled.all() or not is_mark(-1, mark_of(self.unlabelled)) or -1 not in y[~labelled]:
            return
        known = np.unique(y[labelled]).tolist()
        if len(known) <= 1:
            found = f"only class {known[0]!r} is labelled" if known else "nothing is labelled"
            raise ValueError(
                f"y must hold labels of two classes at least, but {found} "
                f"({int(labelled.sum())} of {len(y)} rows; the others are -1). Label rows of "
                f"{'another class' if known else 'two classes'}. Or -1 could be a class: then set "
                "unlabelled=None and pass unlabelled rows as X_proxy."
            )
        marked = int((~labelled).sum())
        doubt = doubt_of(np.unique(y[labelled]), marked, int(labelled.sum()))
        if self.unlabelled != AUTO or not doubt:
            return
        seen = f"y is -1 in {marked} of {len(y)} rows and one of {known} in the others: {doubt}"
        remedy = "Set unlabelled=-1 if such rows have no label, unlabelled=None if -1 is a class."
        if marked <= labelled.sum() or min(known) < 0:
            raise ValueError(message("unlabelled", AUTO, "-1 or None", f"Here {seen}. {remedy}"))
        warnings.warn(
            f"{seen}. These rows are taken as unlabelled. {remedy}", ProxyWarning, stacklevel=3
        )

    def _family_of(self, y: Array) -> Family:
        classes = np.unique(y)
        if not len(classes):
            raise ValueError(message("y", "no label", "labels of two classes at least"))
        if len(classes) < 2:
            raise ValueError(
                f"y must hold labels of two classes at least, got one class, {classes[0]!r}. "
                "Label rows of another class, too."
            )
        self.classes_ = classes
        return self._fitted_family()

    def _fitted_family(self) -> Family:
        classes = tuple(self.classes_.tolist())
        return Logistic(classes) if len(classes) == 2 else Softmax(classes)

    def _possible(self, mean: Array) -> Array:
        return np.clip(mean, 0.0, 1.0)

    def _shaped(self, matrix: Array) -> tuple[Array, Array]:
        return matrix[:, :-1].copy(), matrix[:, -1].copy()
