"""What the three estimators share: parameters, ``fit``, ``partial_fit`` and intervals."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from proxyprox.problems.design import Design
from proxyprox.problems.families import Family
from proxyprox.sklearn._inputs import (
    Labelled,
    joined,
    labelled_rows,
    merged,
    proxy_rows,
    unlabelled_moment,
    validated,
)
from proxyprox.sklearn._interval import Interval, quantile
from proxyprox.sklearn._learn import Learned, learn
from proxyprox.sklearn._moment import Moment
from proxyprox.sklearn._resemblance import warn_if_suspicious
from proxyprox.sklearn._rows import means
from proxyprox.sklearn._settings import Settings, settings_of
from proxyprox.sklearn._teacher import Teacher
from proxyprox.sklearn._teaching import teacher_of

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
