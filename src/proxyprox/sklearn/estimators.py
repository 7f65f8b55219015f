"""Logistic, ridge, Poisson and Gamma regression that learn from few labels and many inputs."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from proxyprox._util.validation import INSTEAD, Words, message
from proxyprox.problems.families import Family, Gamma, Linear, Logistic, Poisson, Softmax
from proxyprox.problems.glm import Design
from proxyprox.sklearn.fitting import Learned, learn
from proxyprox.sklearn.inference import Interval, quantile
from proxyprox.sklearn.inputs import (
    AUTO,
    Labelled,
    ProxyWarning,
    Settings,
    checked_weights,
    doubt_of,
    is_mark,
    joined,
    labelled_rows,
    mark_of,
    merged,
    proxy_rows,
    read_labels,
    refuse_nan,
    settings_of,
    unlabelled_moment,
    validated,
    warn_if_suspicious,
)
from proxyprox.sklearn.moments import Moment, means
from proxyprox.sklearn.scoring import labelled_part
from proxyprox.sklearn.teacher import Teacher, teacher_of

Array = Any


class ProxyGLM(BaseEstimator, ABC):  # type: ignore[misc]
    """A generalised linear model fitted to labelled rows with all inputs as proxy; abstract."""

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
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.n_steps = n_steps
        self.max_steps = max_steps
        self.power = power
        self.cv = cv
        self.average = average
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that sparse inputs are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- fitting ----------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_proxy: Any = None,
        y_proxy: Any = None,
    ) -> Self:
        """Fit the labelled rows with the help of all inputs.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, p)
            Inputs.
        y : array of shape (n,)
            Labels; for classifiers ``unlabelled`` (−1) marks a row without one.
        sample_weight : array of shape (n,), optional
            Weights of the labelled rows.
        X_proxy : array or sparse matrix of shape (N, p), optional
            Inputs without labels; if both have column names, they must be X's in X's order.
            scikit-learn's cross-validation splits it like X if it has as
            many rows, and a Pipeline transforms it only if told to by ``transform_input``, which
            needs ``sklearn.set_config(enable_metadata_routing=True)``.
        y_proxy : array, optional
            A teacher's answers: for the rows of X and then those of X_proxy; or for those of
            X_proxy only, and a student answers on X in its place.

        Returns
        -------
        self
        """
        settings = settings_of(self)
        X, y, labelled = self._checked(X, y, reset=True)
        # What an earlier fit kept must not be gone on with if this one fails.
        self._rows: Any = None
        self._others: Any = None
        self._refuse_ambiguous(y, labelled)
        if X_proxy is not None:
            X_proxy = proxy_rows(
                X_proxy, X.shape[1], names=getattr(self, "feature_names_in_", None)
            )
            warn_if_suspicious(X, X_proxy)
        family = self._family_of(y[labelled])
        rows = labelled_rows(X, y, sample_weight, labelled)
        kept = labelled.copy()
        kept[labelled] = rows.kept
        others = unlabelled_moment(X, ~labelled, X_proxy, intercept=settings.intercept)
        teacher = None
        if y_proxy is not None:
            parts = (X, labelled, kept, X_proxy)
            teacher = teacher_of(settings, family, rows, parts, y_proxy, others)
        self._learn(settings, family, rows, others, teacher, warm=self.warm_start)
        # References where they do: rows that all have a label stay the user's.
        self._rows = (X if kept.all() else rows.X, rows.y, rows.weights)
        self._others = merged(None, others, X.shape[1] + settings.intercept)
        return self

    def _partial_fit(
        self,
        settings: Settings,
        data: tuple[Any, Array, Array],
        sample_weight: Any,
        X_proxy: Any,
        family: Family,
    ) -> Self:
        """Add rows to those seen so far, and go on from the last fit."""
        X, y, labelled = data
        if X_proxy is not None:
            X_proxy = proxy_rows(
                X_proxy, X.shape[1], names=getattr(self, "feature_names_in_", None)
            )
        more = unlabelled_moment(X, ~labelled, X_proxy, intercept=settings.intercept)
        width = X.shape[1] + settings.intercept
        known = merged(getattr(self, "_others", None), more, width)
        if labelled.any():
            new = labelled_rows(X, y, sample_weight, labelled)
            self._rows = joined(getattr(self, "_rows", None), new)
        self._others = known
        if getattr(self, "_rows", None) is None:
            return self
        X, y, weights = self._rows
        X = X.astype(np.float64, copy=False)
        rows = Labelled(X, y, weights, y, np.ones(len(y), dtype=bool))
        others = None if known is None else Moment(*known)
        return self._learn(settings, family, rows, others, None, warm=True)

    def _learn(
        self,
        settings: Settings,
        family: Family,
        rows: Labelled,
        others: Moment | None,
        teacher: Teacher | None,
        *,
        warm: bool,
    ) -> Self:
        size = (rows.X.shape[1] + settings.intercept) * family.outputs
        start = getattr(self, "_w", None) if warm else None
        start = start if start is not None and start.shape == (size,) else None
        found = learn(settings, family, rows, others=others, teacher=teacher, start=start)
        self.n_labels_ = int(rows.X.shape[0])
        self._store(family, found)
        return self

    # -- what differs between estimators ------------------------------------------------------

    @abstractmethod
    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array, Array]:
        """Return validated inputs and labels, and which rows have a label."""

    def _refuse_ambiguous(self, y: Array, labelled: Array) -> None:
        """Refuse or warn of labels that may have been meant otherwise."""

    @abstractmethod
    def _family_of(self, y: Array) -> Family:
        """Return the exponential family for the labels, and note the classes."""

    @abstractmethod
    def _shaped(self, matrix: Array) -> tuple[Array, Any]:
        """Return coefficients and intercept as scikit-learn shapes them."""

    # -- after fitting ----------------------------------------------------------------------

    def _store(self, family: Family, found: Learned) -> None:
        self._w = found.w
        self._outputs = family.outputs
        self.coef_, self.intercept_ = self._shaped(self._matrix(found.w))
        self.alpha_, self.n_steps_, self.power_ = found.alpha, found.steps, found.power
        self.taught_ = found.taught
        self.cv_curve_ = found.curve
        self._rectifier = found.rectifier
        estimate = found.estimate
        self.inference_note_ = estimate if isinstance(estimate, str) else ""
        self.excess_ = np.inf if isinstance(estimate, str) else estimate.excess
        if isinstance(estimate, str):
            nothing = np.full_like(found.w, np.nan)
            centre, spread = nothing, np.full_like(found.w, np.inf)
        else:
            centre, spread = estimate.w, np.sqrt(np.maximum(np.diag(estimate.covariance), 0.0))
        self.coef_debiased_, self.intercept_debiased_ = self._shaped(self._matrix(centre))
        self.coef_std_, self.intercept_std_ = self._shaped(self._matrix(spread))

    def _matrix(self, w: Array) -> Array:
        """Return parameters as (C, d), the intercept's column of zeros if there is none."""
        matrix = w.reshape(-1, self._outputs).T
        if self.fit_intercept:
            return matrix
        return np.hstack([matrix, np.zeros((self._outputs, 1))])

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Return intervals for the coefficients.

        They are drawn around ``coef_debiased_``, the unregularised (with a teacher: paired)
        estimate, because the fit itself is shrunk on purpose. Where the labels do not determine
        the coefficients, the intervals are infinite; a warning and ``inference_note_`` say why.

        Parameters
        ----------
        level : float
            Coverage, in (0, 1).

        Returns
        -------
        Interval
            ``estimate``, ``low`` and ``high``, each in the shape of ``coef_``.
        """
        check_is_fitted(self)
        reach = quantile(level, self.n_labels_) * self.coef_std_
        if self.inference_note_:
            text = f"The confidence intervals are infinite. {self.inference_note_}"
            warnings.warn(text, UserWarning, stacklevel=2)
        centre = np.where(np.isfinite(reach), self.coef_debiased_, self.coef_)
        return Interval(centre, centre - reach, centre + reach)

    def mean_prediction(self, X: Any, level: float = 0.95) -> Interval:
        """Return the mean label over a population, with its interval.

        The mean prediction is rectified by the residuals of the labelled rows under fits that
        did not see them, so that it is right even where the model is not. A classifier's interval
        is never narrower than two wrong answers among the labelled rows would make it: labels
        that are all predicted right do not show how often others are not.

        Parameters
        ----------
        X : array or sparse matrix
            A sample of the population, usually the unlabelled rows.
        level : float
            Coverage, in (0, 1).

        Returns
        -------
        Interval
            Means: of the label for regressors, of the second class for two classes, of every
            class otherwise.
        """
        check_is_fitted(self)
        X = validated(self, X)
        design = Design(X, intercept=self.fit_intercept, checked=True)
        predicted = means(design, self._fitted_family(), self._w)
        centre = predicted.mean(axis=0) + self._rectifier[:, 0]
        spread = np.hypot(self._rectifier[:, 1], predicted.std(axis=0) / np.sqrt(len(predicted)))
        reach = quantile(level, self.n_labels_) * spread
        found = Interval(*(self._possible(end) for end in (centre, centre - reach, centre + reach)))
        return found if len(centre) > 1 else Interval(*(float(part[0]) for part in found))

    def _possible(self, mean: Array) -> Array:
        """Return a mean label moved into the range that labels have."""
        return mean

    @abstractmethod
    def _fitted_family(self) -> Family:
        """Return the family of the last fit."""

    def _predictors(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validated(self, X)
        coef = np.atleast_2d(self.coef_)
        scores: Array = np.asarray(X @ coef.T) + self.intercept_
        return scores


class ProxyRegressor(RegressorMixin, ProxyGLM):  # type: ignore[misc]
    """A regression on labelled rows with all inputs as proxy; abstract."""

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, X_proxy: Any = None) -> Self:
        """Add labelled rows (and inputs without labels) and go on from the last fit.

        The labelled rows of that fit, too, are kept, and of the others their second moment; its
        teacher is not: pass all rows to ``fit`` with ``y_proxy`` for that.

        Parameters
        ----------
        X, y, sample_weight, X_proxy
            As in ``fit``.

        Returns
        -------
        self
        """
        settings = settings_of(self)
        data = self._checked(X, y, reset=not hasattr(self, "n_features_in_"))
        family = self._family_of(data[1])
        return self._partial_fit(settings, data, sample_weight, X_proxy, family)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², the share of the labels' variance that the model explains."""
        y, sample_weight = self._scored(X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def _scored(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array | None]:
        X, y, _ = self._checked(X, y, reset=False)
        return y, None if sample_weight is None else checked_weights(sample_weight, X)

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array, Array]:
        refuse_nan(y, "Pass the rows without a label as X_proxy.")
        X, y = validated(self, X, y, y_numeric=True, reset=reset)
        if y.dtype.kind not in "biuf":
            got, remedy = Words(f"dtype {y.dtype}"), INSTEAD.get(y.dtype.kind, "")
            raise ValueError(message("y", got, "a number in every row", remedy))
        return X, y, np.ones(len(y), dtype=bool)

    def _shaped(self, matrix: Array) -> tuple[Array, float]:
        return matrix[0, :-1].copy(), float(matrix[0, -1])


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


class ProxyPoissonRegressor(ProxyRegressor):
    """Regression of counts, with a logarithmic link, helped by rows without labels.

    The parameters and attributes are those of
    :class:`~proxyprox.sklearn.ProxyLogisticRegression`; unlabelled rows come as ``X_proxy``,
    a teacher's predictions as ``y_proxy``. No value of y marks a row without a label here: −1 is
    a value, and as a count it is refused.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = rng.poisson(np.exp(X[:80] @ [0.5, -0.5, 0.0]))
    >>> model = ProxyPoissonRegressor().fit(X[:80], y, X_proxy=X[80:])
    >>> bool((model.predict(X) > 0).all())
    True
    """

    def __sklearn_tags__(self) -> Any:
        """Say that labels are zero or more."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def predict(self, X: Any) -> Array:
        """Return the expected count of each row."""
        return np.exp(self._predictors(X).ravel())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return D², the share of the Poisson deviance that the model explains."""
        y, sample_weight = self._scored(X, y, sample_weight)
        if (y == y[0]).all():
            remedy = "D² compares with their mean."
            raise ValueError(message("y", y[0], "counts that differ between rows", remedy))
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def mean_prediction(self, X: Any, level: float = 0.95) -> Interval:
        """Return the mean count over a population, with its interval.

        As for the other estimators. Labels without any event have no spread to draw an interval
        from: its upper end is then that of zero events among n rows, ``−log(1 − level) / n``, the
        rule of three, and a warning says so.

        Parameters
        ----------
        X : array or sparse matrix
            A sample of the population, usually the unlabelled rows.
        level : float
            Coverage, in (0, 1).

        Returns
        -------
        Interval
            Of the mean count.
        """
        found = super().mean_prediction(X, level)
        _, y, weights = self._rows
        if y.any():
            return found
        # Unequal weights: as many equal ones as would give a mean of the same variance.
        n = len(y) if weights is None else weights.sum() ** 2 / (weights**2).sum()
        high = float(np.fmax(found.high, -np.log1p(-level) / n))
        text = (
            f"All {len(y)} labelled counts are zero: the upper end of the interval, {high:.2g}, is "
            "the rule of three for Poisson counts. Label more rows."
        )
        warnings.warn(text, UserWarning, stacklevel=2)
        return Interval(found.estimate, 0.0, high)

    def _family_of(self, y: Array) -> Family:
        if (y < 0).any():
            raise ValueError(message("y", float(y.min()), "zero or more in every row (counts)"))
        return Poisson()

    def _possible(self, mean: Array) -> Array:
        return np.maximum(mean, 0.0)

    def _fitted_family(self) -> Family:
        return Poisson()


class ProxyGammaRegressor(ProxyRegressor):
    """Regression of amounts above zero, with a logarithmic link, helped by rows without labels.

    The parameters and attributes are those of
    :class:`~proxyprox.sklearn.ProxyLogisticRegression`; unlabelled rows come as ``X_proxy``,
    a teacher's predictions as ``y_proxy``. No value of y marks a row without a label here. The
    link is not the canonical one: rows without labels help through the expected curvature.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = rng.gamma(2.0, np.exp(X[:80] @ [0.5, -0.5, 0.0]) / 2)
    >>> model = ProxyGammaRegressor().fit(X[:80], y, X_proxy=X[80:])
    >>> bool((model.predict(X) > 0).all())
    True
    """

    def __sklearn_tags__(self) -> Any:
        """Say that labels are above zero."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def predict(self, X: Any) -> Array:
        """Return the expected amount of each row."""
        return np.exp(self._predictors(X).ravel())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return D², the share of the Gamma deviance that the model explains."""
        y, sample_weight = self._scored(X, y, sample_weight)
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=2))

    def _family_of(self, y: Array) -> Family:
        Gamma().encode(y)
        return Gamma()

    def _possible(self, mean: Array) -> Array:
        return np.maximum(mean, 0.0)

    def _fitted_family(self) -> Family:
        return Gamma()


class ProxyRidge(ProxyRegressor):
    """Linear regression that learns the geometry of the inputs from rows without labels.

    The parameters and attributes are those of
    :class:`~proxyprox.sklearn.ProxyLogisticRegression`; unlabelled rows come as ``X_proxy``,
    a teacher's predictions as ``y_proxy``. No value of y marks a row without a label here: −1 is
    a value like any other.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = X[:40] @ np.arange(5.0) + rng.normal(size=40)
    >>> model = ProxyRidge().fit(X[:40], y, X_proxy=X[40:])
    >>> model.coef_.shape, model.confidence_interval().low.shape
    ((5,), (5,))
    """

    def predict(self, X: Any) -> Array:
        """Return the expected label of each row."""
        return self._predictors(X).ravel()

    def _family_of(self, y: Array) -> Family:
        return Linear()

    def _fitted_family(self) -> Family:
        return Linear()
