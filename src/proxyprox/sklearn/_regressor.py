"""What the two regressors share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from proxyprox._checks import INSTEAD, Words, message
from proxyprox.sklearn._base import ProxyGLM
from proxyprox.sklearn._inputs import checked_weights, validated
from proxyprox.sklearn._marks import refuse_nan
from proxyprox.sklearn._settings import settings_of

Array = Any


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
