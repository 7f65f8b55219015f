"""The choice of an inner solver, made from what the proxy can do, and explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from proxyprox._util.validation import has
from proxyprox.inner.closed_form import ClosedForm
from proxyprox.inner.lbfgs import LBFGS
from proxyprox.inner.newton import NewtonCG
from proxyprox.inner.proximal import ProximalGradient
from proxyprox.inner.quasi_newton import QuasiNewton

DENSE_LIMIT = 600
"""Parameters up to which a d × d Hessian factor is worth keeping."""


class Choice(NamedTuple):
    """A solver and why it was picked."""

    solver: Any
    reason: str


@dataclass(frozen=True)
class Auto:
    """Pick the solver that suits the proxy; ``Result.inner`` says which, and why."""

    def choose(self, proxy: Any, penalty: Any | None, size: int) -> Choice:
        """Return the solver for a proxy of ``size`` parameters and the reason for it."""
        if penalty is not None:
            return Choice(ProximalGradient(), "the problem has a non-smooth penalty")
        if has(proxy, "solve_shifted"):
            return Choice(ClosedForm(), "the proxy is quadratic and solves in closed form")
        if has(proxy, "hessian") and size <= DENSE_LIMIT:
            reason = f"the proxy has a Hessian and {size} parameters, at most {DENSE_LIMIT}"
            return Choice(QuasiNewton(), reason)
        if has(proxy, "hvp"):
            reason = f"the proxy has Hessian-vector products and {size} parameters"
            return Choice(NewtonCG(), reason)
        return Choice(LBFGS(), "the proxy offers values and gradients only")
