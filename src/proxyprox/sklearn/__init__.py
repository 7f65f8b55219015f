"""scikit-learn estimators for few labels and many inputs."""

from proxyprox._util.extras import require

require("sklearn", extra="sklearn", purpose="proxyprox.sklearn")

from proxyprox.advice.choice import Choice
from proxyprox.result import Interval
from proxyprox.sklearn.estimators import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
)
from proxyprox.sklearn.inputs import labelled_only
from proxyprox.sklearn.labelling import JournalError, LabelBudget

__all__ = [
    "Choice",
    "Interval",
    "JournalError",
    "LabelBudget",
    "ProxyGammaRegressor",
    "ProxyLogisticRegression",
    "ProxyPoissonRegressor",
    "ProxyRidge",
    "labelled_only",
]
