"""Inner solvers: how a subproblem is minimised."""

from proxyprox.inner.base import Auto, InnerResult, InnerSolver, NonFiniteError, Subproblem
from proxyprox.inner.first_order import GradientDescent, ProximalGradient
from proxyprox.inner.newton import LBFGS, ClosedForm, Newton, NewtonCG, QuasiNewton

__all__ = [
    "LBFGS", "Auto", "ClosedForm", "GradientDescent", "InnerResult", "InnerSolver",
    "Newton", "NewtonCG", "NonFiniteError", "ProximalGradient", "QuasiNewton", "Subproblem",
]  # fmt: skip
