"""scikit-learn estimators for few labels and many inputs."""

from proxyprox.sklearn._base import Interval
from proxyprox.sklearn._inputs import ProxyWarning
from proxyprox.sklearn._journal import JournalError
from proxyprox.sklearn.budget import LabelBudget
from proxyprox.sklearn.logistic import ProxyLogisticRegression
from proxyprox.sklearn.poisson import ProxyPoissonRegressor
from proxyprox.sklearn.ridge import ProxyRidge

__all__ = [
    "Interval",
    "JournalError",
    "LabelBudget",
    "ProxyLogisticRegression",
    "ProxyPoissonRegressor",
    "ProxyRidge",
    "ProxyWarning",
]
