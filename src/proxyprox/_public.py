"""The public names, loaded together when the first of them is used."""

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
from proxyprox.minimization import OracleError, minimize
from proxyprox.oracles import Query, Step
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
from proxyprox.result import Budget, Ledger, Result, Status, StepRecord, Trace
from proxyprox.run import Run
from proxyprox.scipy import scipy_method
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
from proxyprox.subproblem import NonFiniteError, Subproblem

__all__ = ["DANE", "EMA", "GLM", "L1", "LBFGS", "SGD", "AcceleratedSliding", "Adaptive", "Auto"]
__all__ += ["AuxMVR", "AuxMom", "Budget", "Checkpoint", "CheckpointError", "ClosedForm", "Convex"]
__all__ += ["ElasticNet", "FunctionObjective", "FunctionProxy", "Geometric", "GradientDescent"]
__all__ += ["Last", "Ledger", "Mean", "Nesterov", "Newton", "NewtonCG", "NonConvex"]
__all__ += ["NonFiniteError", "Objective", "OracleError", "Penalty", "Plain", "Problem"]
__all__ += ["ProximalGradient", "Proxy", "ProxyProx", "Quadratic", "QuasiNewton", "Query"]
__all__ += ["RandomSteps", "Relative", "Residual", "Result", "Run", "SDane", "Status", "Step"]
__all__ += ["StepRecord", "Steps", "StochasticGradient", "Storm", "StronglyConvex", "Subproblem"]
__all__ += ["Trace", "Uniform", "Zero", "audit", "linear_regression", "logistic_regression"]
__all__ += ["minimize", "plan", "poisson_regression", "regularized", "scipy_method"]
__all__ += ["softmax_regression"]
