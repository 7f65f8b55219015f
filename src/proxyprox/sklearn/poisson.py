"""Poisson regression for few labels and many inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import d2_tweedie_score

from proxyprox._checks import message
from proxyprox.problems.families import Family, Poisson
from proxyprox.sklearn._regressor import ProxyRegressor

Array = Any


class ProxyPoissonRegressor(ProxyRegressor):
    """Regression of counts, with a logarithmic link, helped by rows without labels.

    The parameters and attributes are those of
    :class:`~proxyprox.sklearn.ProxyLogisticRegression`; unlabelled rows come as ``X_proxy``,
    a teacher's predictions as ``y_proxy``.

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
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _family_of(self, y: Array) -> Family:
        if (y < 0).any():
            raise ValueError(message("y", float(y.min()), "zero or more in every row (counts)"))
        return Poisson()

    def _possible(self, mean: Array) -> Array:
        return np.maximum(mean, 0.0)

    def _fitted_family(self) -> Family:
        return Poisson()
