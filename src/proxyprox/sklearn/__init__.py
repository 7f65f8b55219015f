"""scikit-learn estimators for few labels and many inputs."""

from proxyprox.sklearn._interval import Interval
from proxyprox.sklearn._journal import JournalError
from proxyprox.sklearn._resemblance import ProxyWarning
from proxyprox.sklearn.budget import LabelBudget
from proxyprox.sklearn.logistic import ProxyLogisticRegression
from proxyprox.sklearn.poisson import ProxyPoissonRegressor
from proxyprox.sklearn.ridge import ProxyRidge
from proxyprox.sklearn.scoring import labelled_only

__all__ = [
    "Interval",
    "JournalError",
    "LabelBudget",
    "ProxyLogisticRegression",
    "ProxyPoissonRegressor",
    "ProxyRidge",
    "ProxyWarning",
    "labelled_only",
]
