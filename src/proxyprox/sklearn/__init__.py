"""scikit-learn estimators for few labels and many inputs."""

from proxyprox.sklearn.estimators import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
)
from proxyprox.sklearn.inference import Interval
from proxyprox.sklearn.inputs import ProxyWarning
from proxyprox.sklearn.labelling import JournalError, LabelBudget
from proxyprox.sklearn.scoring import labelled_only

__all__ = [
    "Interval",
    "JournalError",
    "LabelBudget",
    "ProxyGammaRegressor",
    "ProxyLogisticRegression",
    "ProxyPoissonRegressor",
    "ProxyRidge",
    "ProxyWarning",
    "labelled_only",
]
