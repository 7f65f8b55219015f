"""Inner solvers: how a subproblem is minimised."""

from proxyprox.inner.auto import Auto
from proxyprox.inner.base import InnerResult, InnerSolver
from proxyprox.inner.closed_form import ClosedForm
from proxyprox.inner.first_order import GradientDescent, Nesterov, StochasticGradient
from proxyprox.inner.lbfgs import LBFGS
from proxyprox.inner.newton import Newton, NewtonCG
from proxyprox.inner.proximal import ProximalGradient
from proxyprox.inner.quasi_newton import QuasiNewton

__all__ = [
    "LBFGS",
    "Auto",
    "ClosedForm",
    "GradientDescent",
    "InnerResult",
    "InnerSolver",
    "Nesterov",
    "Newton",
    "NewtonCG",
    "ProximalGradient",
    "QuasiNewton",
    "StochasticGradient",
]
