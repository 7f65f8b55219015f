"""The public names, loaded together when the first of them is used."""

from proxyprox._exchange import Query, Step
from proxyprox._ledger import Budget, Ledger
from proxyprox._minimize import OracleError, minimize
from proxyprox._result import Result, Status
from proxyprox._run import Run
from proxyprox._scipy import scipy_method
from proxyprox._subproblem import NonFiniteError, Subproblem
from proxyprox._trace import StepRecord, Trace
from proxyprox.averaging import Adaptive, Geometric, Last, Uniform
from proxyprox.checkpoint import Checkpoint, CheckpointError
from proxyprox.corrections import EMA, Mean, Plain, Storm
from proxyprox.diagnostics import audit, plan
from proxyprox.inner import (
    LBFGS,
    Auto,
    ClosedForm,
    GradientDescent,
    Nesterov,
    Newton,
    NewtonCG,
    ProximalGradient,
    QuasiNewton,
    StochasticGradient,
)
from proxyprox.methods import DANE, SGD, AcceleratedSliding, AuxMom, AuxMVR, ProxyProx
from proxyprox.penalties import L1, ElasticNet
from proxyprox.problems import (
    GLM,
    FunctionObjective,
    FunctionProxy,
    Objective,
    Penalty,
    Problem,
    Proxy,
    Quadratic,
    Zero,
    linear_regression,
    logistic_regression,
    poisson_regression,
    regularized,
    softmax_regression,
)
from proxyprox.stopping import (
    Convex,
    NonConvex,
    RandomSteps,
    Relative,
    Residual,
    SDane,
    Steps,
    StronglyConvex,
)

__all__ = [
    "DANE",
    "EMA",
    "GLM",
    "L1",
    "LBFGS",
    "SGD",
    "AcceleratedSliding",
    "Adaptive",
    "Auto",
    "AuxMVR",
    "AuxMom",
    "Budget",
    "Checkpoint",
    "CheckpointError",
    "ClosedForm",
    "Convex",
    "ElasticNet",
    "FunctionObjective",
    "FunctionProxy",
    "Geometric",
    "GradientDescent",
    "Last",
    "Ledger",
    "Mean",
    "Nesterov",
    "Newton",
    "NewtonCG",
    "NonConvex",
    "NonFiniteError",
    "Objective",
    "OracleError",
    "Penalty",
    "Plain",
    "Problem",
    "ProximalGradient",
    "Proxy",
    "ProxyProx",
    "Quadratic",
    "QuasiNewton",
    "Query",
    "RandomSteps",
    "Relative",
    "Residual",
    "Result",
    "Run",
    "SDane",
    "Status",
    "Step",
    "StepRecord",
    "Steps",
    "StochasticGradient",
    "Storm",
    "StronglyConvex",
    "Subproblem",
    "Trace",
    "Uniform",
    "Zero",
    "audit",
    "linear_regression",
    "logistic_regression",
    "minimize",
    "plan",
    "poisson_regression",
    "regularized",
    "scipy_method",
    "softmax_regression",
]
