"""Private rows, public proxy: gradients that are clipped, perturbed and paid for by a budget.

>>> import numpy as np
>>> from proxyprox.private import PrivateLogisticRegression
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(6000, 3))
>>> y = (X @ [1.0, -2.0, 0.5] + rng.logistic(size=6000) > 0).astype(int)
>>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, classes=[0, 1], n_nominal=5500)
>>> _ = model.fit(X[500:], y[500:], X_public=X[:500], y_public=y[:500])
>>> print(model.privacy_)  # doctest: +ELLIPSIS
ε = 1 at δ = 1e-05, add or remove one row; full batch, 32 releases; exact Gaussian DP
Not covered: steps before this fit that saw private rows (a scaler, imputer or encoder in a ...
"""

from proxyprox._util.extras import require

require("sklearn", extra="private", purpose="proxyprox.private")

from proxyprox.private.accounting import (
    Guarantee,
    PrivacyBudget,
    PrivacyBudgetError,
    gaussian_epsilon,
    noise_multiplier,
)
from proxyprox.private.estimators import (
    PrivacyPlan,
    PrivateFitWarning,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
)
from proxyprox.private.mechanism import JamesStein, Metric, Private, PrivateRows
from proxyprox.private.membership import Attack, attack

__all__ = [
    "Attack",
    "Guarantee",
    "JamesStein",
    "Metric",
    "PrivacyBudget",
    "PrivacyBudgetError",
    "PrivacyPlan",
    "Private",
    "PrivateFitWarning",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
    "PrivateRidge",
    "PrivateRows",
    "attack",
    "gaussian_epsilon",
    "noise_multiplier",
]
