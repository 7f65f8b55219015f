"""Losses: what is expensive, what is cheap, and both together."""

from proxyprox.problems.combination import MixedProxy, regularized
from proxyprox.problems.differences import ValueObjective, ValueProxy
from proxyprox.problems.families import FAMILIES, CanonicalFamily, Family, LogLink
from proxyprox.problems.glm import (
    GLM,
    gamma_regression,
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)
from proxyprox.problems.least_squares import (
    LeastSquares,
    Outputs,
    Uncertainty,
    counts,
    huber,
    uncertainty,
    weighted,
)
from proxyprox.problems.parametric import Parametric
from proxyprox.problems.problem import FunctionObjective, FunctionProxy, Problem
from proxyprox.problems.protocols import Batch, Facts, Objective, Penalty, Proxy
from proxyprox.problems.quadratic import Quadratic, Zero

__all__ = [
    "FAMILIES", "GLM", "Batch", "CanonicalFamily", "Facts", "Family", "FunctionObjective",
    "FunctionProxy", "LeastSquares", "LogLink", "MixedProxy", "Objective", "Outputs", "Parametric",
    "Penalty", "Problem", "Proxy", "Quadratic", "Uncertainty", "ValueObjective", "ValueProxy",
    "Zero", "counts", "gamma_regression", "huber", "linear_regression", "logistic_regression",
    "poisson_regression", "regularized", "softmax_regression", "uncertainty", "weighted",
]  # fmt: skip
