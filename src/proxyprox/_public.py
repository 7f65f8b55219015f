"""The public names, loaded together when the first of them is used."""

from proxyprox.advice.audit import audit
from proxyprox.advice.plan import plan
from proxyprox.averaging import Adaptive, Geometric, Last, Uniform
from proxyprox.checkpoint import Checkpoint, CheckpointError
from proxyprox.corrections import EMA, Mean, Plain, Storm
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
from proxyprox.inner.base import NonFiniteError, Subproblem
from proxyprox.methods import (
    DANE,
    PAGE,
    SAGA,
    SGD,
    SPAM,
    SVRP,
    AcceleratedSliding,
    Adagrad,
    Adam,
    Answers,
    AuxMom,
    AuxMVR,
    FedRed,
    Method,
    Momentum,
    OuterStep,
    ProxyBFGS,
    ProxyProx,
    Request,
    StabilizedDANE,
)
from proxyprox.minimization import OracleError, minimize
from proxyprox.oracle import Query, Step
from proxyprox.penalties import L1, Box, ElasticNet
from proxyprox.problems import (
    GLM,
    FunctionObjective,
    FunctionProxy,
    LeastSquares,
    Objective,
    Penalty,
    Problem,
    Proxy,
    Quadratic,
    ValueObjective,
    ValueProxy,
    Zero,
    gamma_regression,
    linear_regression,
    logistic_regression,
    poisson_regression,
    regularized,
    softmax_regression,
)
from proxyprox.result import Budget, Ledger, Result, Status, StepRecord, Trace
from proxyprox.run import Run
from proxyprox.scipy import scipy_method
from proxyprox.stepsizes import AutoStep, Decay, StepSize
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
    "DANE", "EMA", "GLM", "L1", "LBFGS", "PAGE", "SAGA", "SGD", "SPAM", "SVRP",
    "AcceleratedSliding", "Adagrad", "Adam", "Adaptive", "Answers", "Auto", "AutoStep", "AuxMVR",
    "AuxMom", "Box", "Budget", "Checkpoint", "CheckpointError", "ClosedForm", "Convex", "Decay",
    "ElasticNet", "FedRed", "FunctionObjective", "FunctionProxy", "Geometric", "GradientDescent",
    "Last", "LeastSquares", "Ledger", "Mean", "Method", "Momentum", "Nesterov", "Newton",
    "NewtonCG", "NonConvex", "NonFiniteError", "Objective", "OracleError", "OuterStep", "Penalty",
    "Plain", "Problem", "ProximalGradient", "Proxy", "ProxyBFGS", "ProxyProx", "Quadratic",
    "QuasiNewton", "Query", "RandomSteps", "Relative", "Request", "Residual", "Result", "Run",
    "SDane", "StabilizedDANE", "Status", "Step", "StepRecord", "StepSize", "Steps",
    "StochasticGradient", "Storm", "StronglyConvex", "Subproblem", "Trace", "Uniform",
    "ValueObjective", "ValueProxy", "Zero", "audit", "gamma_regression", "linear_regression",
    "logistic_regression", "minimize", "plan", "poisson_regression", "regularized", "scipy_method",
    "softmax_regression",
]  # fmt: skip
