"""SciPy's L-BFGS-B on the subproblem: needs values and gradients, nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator

from proxyprox._util.arrays import Vector, from_numpy, power_of_two, to_numpy
from proxyprox.inner.base import InnerResult, Memory, NonFiniteError, Solver, Subproblem
from proxyprox.stopping import Criterion


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory BFGS, SciPy's, stopped by our criterion at every iterate.

    Parameters
    ----------
    history : int
        Secant pairs kept.
    max_steps : int
        Give up after so many steps, with the rule recorded as not held.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, LBFGS, ProxyProx, logistic_regression, minimize
    >>> target = logistic_regression(np.eye(2), [0, 1], l2=0.1)
    >>> problem = Problem(target, target.label_free())
    >>> found = minimize(problem, method=ProxyProx(1.0), inner=LBFGS(), steps=20)
    >>> bool(np.linalg.norm(target.gradient(found.w)) < 0.01)
    True
    """

    history: int = 10
    max_steps: int = 1000

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient")

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        # Slow, hence not at the top; not left to the first step, whose seconds are counted.
        import_module("scipy.optimize")

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Run SciPy on the displacement from the start, again where its line search gave up.

        It gives up where rounding hides the decrease; from there on values are taken from the
        gradients, which have digits to spare.
        """
        w, gradient = start, phi.gradient(start)
        progress = phi.progress(w, gradient, 0)
        first, steps, by_gradients = progress.start_residual, 0, False
        while not stop(progress) and steps < self.max_steps:
            before = progress.residual
            search = _Search(phi, w, stop, steps, first, by_gradients, before)
            search.run(self.history, self.max_steps - steps)
            steps = search.steps
            if search.best is not None:
                w, progress = search.best
            if by_gradients and not progress.residual < 0.5 * before:
                break
            by_gradients = True
        return InnerResult(w, progress)


class _Search:
    """One call of SciPy, in float64, on the displacement u from a base point.

    Values are taken relative to the base: as differences, or by the trapezium rule
    ``⟨∇φ(base) + ∇φ(base + u), u⟩/2``, which is exact to third order in u.
    """

    def __init__(
        self,
        phi: Subproblem,
        base: Vector,
        stop: Criterion,
        steps: int,
        first: float,
        by_gradients: bool,
        residual: float,
    ) -> None:
        self.phi, self.base, self.stop, self.steps, self.first = phi, base, stop, steps, first
        self.origin = 0.0 if by_gradients else phi.value(base)
        if not math.isfinite(self.origin):
            raise NonFiniteError("the proxy's value is not finite where its gradient is")
        self.slope = phi.gradient(base) if by_gradients else None
        # SciPy's first step is at most 1e10 gradients long, and squares them.
        self.scale = power_of_two(residual, np.zeros(0), 1e-20, 1e100)
        self.best: tuple[Vector, Any] | None = None
        self._seen: dict[bytes, tuple[Vector, Vector]] = {}

    def run(self, history: int, max_steps: int) -> None:
        scipy.optimize.minimize(
            self._value_and_gradient,
            np.zeros(self.base.shape[0]),
            jac=True,
            method="L-BFGS-B",
            callback=self._after_step,
            options={"maxcor": history, "maxiter": max_steps, "ftol": 0.0, "gtol": 0.0},
        )

    # SciPy resets what a run has told NumPy: overflow is looked for where it matters.
    @np.errstate(over="ignore", invalid="ignore")
    def _value_and_gradient(self, u: Any) -> tuple[float, Any]:
        w = self.base + from_numpy(u, like=self.base)
        gradient = self.phi.gradient(w)
        self._seen[u.tobytes()] = (w, gradient)
        slope = to_numpy(gradient).astype(np.float64)
        if self.slope is None:
            return self.scale * (self.phi.value(w) - self.origin), self.scale * slope
        mean = (to_numpy(self.slope) + slope) / 2
        return float((self.scale * mean) @ u), self.scale * slope

    @np.errstate(over="ignore", invalid="ignore")
    def _after_step(self, intermediate_result: Any) -> None:
        # The accepted point is among those just evaluated: no gradient is computed twice.
        key = np.asarray(intermediate_result.x).tobytes()
        w, gradient = self._seen[key]
        self._seen.clear()
        self.steps += 1
        progress = self.phi.progress(w, gradient, self.steps, self.first)
        if self.best is None or progress.residual < self.best[1].residual or self.stop(progress):
            self.best = (w, progress)
        if self.stop(progress):
            raise StopIteration
