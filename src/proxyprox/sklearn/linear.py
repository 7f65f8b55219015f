"""What all linear estimators share, here and on private rows: shapes, predictions, scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.validation import check_is_fitted

from proxyprox._util.validation import message
from proxyprox.problems.families import Family, classifier_of
from proxyprox.sklearn import inputs

Array = Any


class LinearModel(BaseEstimator):  # type: ignore[misc]
    """A fitted generalised linear model: ``coef_``, ``intercept_`` and a family; abstract."""

    fit_intercept: bool
    family: Any
    coef_: Array
    intercept_: Any

    def __sklearn_tags__(self) -> Any:
        """Say that sparse inputs are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _shape(self, w: Array) -> tuple[Array, Any]:
        """Return coefficients and intercepts of parameters, as scikit-learn shapes them."""
        matrix = w.reshape(-1, self.family.outputs).T
        if self.fit_intercept:
            return matrix[:, :-1].copy(), matrix[:, -1].copy()
        return matrix.copy(), np.zeros(len(matrix))

    def _predictors(self, X: Any) -> Array:
        """Return the linear predictors of rows, a column for each output."""
        check_is_fitted(self, "coef_")
        X = inputs.validate(self, X)
        return np.asarray(X @ np.atleast_2d(self.coef_).T) + self.intercept_


class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """Predictions of classes from linear predictors; abstract.

    There is one predictor for two classes, and one for each class otherwise.
    """

    classes_: Array

    @property
    def family(self) -> Family:  # type: ignore[override]
        """The family of the classes of the last fit."""
        return classifier_of(tuple(self.classes_.tolist()))

    def decision_function(self, X: Any) -> Array:
        """Return the linear predictors: of the second class for two, of every class otherwise."""
        scores = self._predictors(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, in the order of ``classes_``."""
        return np.asarray(scipy.special.softmax(self._class_scores(X), axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of each class's probability."""
        return np.asarray(scipy.special.log_softmax(self._class_scores(X), axis=1))

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row."""
        codes = self._class_scores(X).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def _class_scores(self, X: Any) -> Array:
        scores = self._predictors(X)
        return np.hstack([-scores, scores]) / 2 if scores.shape[1] == 1 else scores


class LinearRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Predictions of numbers from one linear predictor; abstract."""

    def __sklearn_tags__(self) -> Any:
        """Say whether labels may be negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family.deviance_power > 0
        return tags

    def predict(self, X: Any) -> Array:
        """Return the expected label of each row."""
        return np.asarray(self.family.mean(self._predictors(X).ravel()))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the labels' deviance that the model explains: R², or Tweedie D².

        Parameters
        ----------
        X, y, sample_weight
            Rows with labels, and their weights if they differ.
        """
        power = self.family.deviance_power
        if not power:
            return float(super().score(X, y, sample_weight))
        if len(np.unique(y)) < 2:
            raise ValueError(message("y", y, "labels that differ: D² compares with their mean"))
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=power))

    def _shape(self, w: Array) -> tuple[Array, float]:
        coef, intercept = super()._shape(w)
        return coef[0], float(intercept[0])
