"""Poisson regression for few labels and many inputs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import d2_tweedie_score

from proxyprox._checks import message
from proxyprox.problems.families import Family, Poisson
from proxyprox.sklearn._interval import Interval
from proxyprox.sklearn._regressor import ProxyRegressor

Array = Any


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
