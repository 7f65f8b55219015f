"""Least squares for few labels and many inputs."""

from __future__ import annotations

from typing import Any

from proxyprox.problems.families import Family, Linear
from proxyprox.sklearn._regressor import ProxyRegressor

Array = Any


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
