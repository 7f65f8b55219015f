"""The public names, loaded together when the first of them is used."""

from proxyprox.checkpoint import Checkpoint, CheckpointError
from proxyprox.diagnostics.audit import audit, plan
from proxyprox.inner import LBFGS
from proxyprox.methods import DANE, SGD, Adam, Method, ProxyBFGS, ProxyProx, Request
from proxyprox.minimization import OracleError, minimize
from proxyprox.penalties import L1, Box
from proxyprox.problems import (
    GLM,
    FunctionObjective,
    FunctionProxy,
    LeastSquares,
    Outputs,
    Problem,
    Quadratic,
    ValueObjective,
    ValueProxy,
    gamma_regression,
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)
from proxyprox.result import Budget, Ledger, Result, Status
from proxyprox.run import Run
from proxyprox.stepsizes import StepSize

__all__ = [
    "DANE", "GLM", "L1", "LBFGS", "SGD", "Adam", "Box", "Budget", "Checkpoint",
    "CheckpointError", "FunctionObjective", "FunctionProxy", "LeastSquares", "Ledger", "Method",
    "OracleError", "Outputs", "Problem", "ProxyBFGS", "ProxyProx", "Quadratic", "Request", "Result",
    "Run", "Status", "StepSize", "ValueObjective", "ValueProxy", "audit", "gamma_regression",
    "linear_regression", "logistic_regression", "minimize", "plan", "poisson_regression",
    "softmax_regression",
]  # fmt: skip
