"""Inner solvers: how a subproblem is minimised."""

from proxyprox.inner.auto import Auto
from proxyprox.inner.base import InnerResult, InnerSolver
from proxyprox.inner.closed_form import ClosedForm
from proxyprox.inner.gradient_descent import GradientDescent
from proxyprox.inner.lbfgs import LBFGS
from proxyprox.inner.nesterov import Nesterov
from proxyprox.inner.newton import Newton
from proxyprox.inner.newton_cg import NewtonCG
from proxyprox.inner.proximal_gradient import ProximalGradient
from proxyprox.inner.quasi_newton import QuasiNewton
from proxyprox.inner.sgd import StochasticGradient

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
