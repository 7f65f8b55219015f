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
from proxyprox.inner.base import (
    Criterion,
    InnerResult,
    Memory,
    NonFiniteError,
    Progress,
    Solver,
    Subproblem,
)


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory BFGS, SciPy's, stopped by our criterion at every iterate.

    Parameters
    ----------
    history : int
        Secant pairs kept.
    max_steps : int
        See :class:`Newton`.

    Examples
    --------
    >>> LBFGS(history=5).needs
    ('value', 'gradient')
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
        steps, by_gradients = 0, False
        while not stop(progress) and steps < self.max_steps:
            before, options = progress, {"maxcor": self.history, "maxiter": self.max_steps - steps}
            steps, best = _search(phi, w, stop, steps, before, by_gradients, options)
            w, progress = best or (w, progress)
            if by_gradients and not progress.residual < 0.5 * before.residual:
                break
            by_gradients = True
        return InnerResult(w, progress)


def _search(
    phi: Subproblem,
    base: Vector,
    stop: Criterion,
    steps: int,
    before: Progress,
    by_gradients: bool,
    options: dict[str, Any],
) -> tuple[int, tuple[Vector, Progress] | None]:
    """Call SciPy once, in float64, on the displacement u from a base point.

    Values are taken relative to the base: as differences, or by the trapezium rule
    ``⟨∇φ(base) + ∇φ(base + u), u⟩/2``, which is exact to third order in u.
    """
    origin = 0.0 if by_gradients else phi.value(base)
    if not math.isfinite(origin):
        raise NonFiniteError("the proxy's value is not finite where its gradient is")
    base_slope = to_numpy(phi.gradient(base)) if by_gradients else None
    # SciPy's first step is at most 1e10 gradients long, and squares them.
    scale = power_of_two(before.residual, np.zeros(0), 1e-20, 1e100)
    best: tuple[Vector, Progress] | None = None
    seen: dict[bytes, tuple[Vector, Vector]] = {}
    here: tuple[Any, float, Any] | None = None

    # SciPy resets what a run has told NumPy: overflow is looked for where it matters.
    @np.errstate(over="ignore", invalid="ignore")
    def value_and_gradient(u: Any) -> tuple[float, Any]:
        nonlocal here
        w = base + from_numpy(u, like=base)
        gradient = phi.gradient(w)
        seen[u.tobytes()] = (w, gradient)
        slope = to_numpy(gradient).astype(np.float64)
        if base_slope is None:
            value = scale * (phi.value(w) - origin)
        else:
            value = float((scale * ((base_slope + slope) / 2)) @ u)
        slope = scale * slope
        if here is None:
            here = (u.copy(), value, slope)
        elif not (math.isfinite(value) and np.isfinite(slope).all()):
            # SciPy would break off; where the last slope is mirrored, its search turns back.
            centre, low, down = here
            return low + abs(float(down @ (u - centre))), -down
        return value, slope

    @np.errstate(over="ignore", invalid="ignore")
    def after_step(intermediate_result: Any) -> None:
        # The accepted point is among those just evaluated: no gradient is computed twice.
        nonlocal steps, best, here
        u = np.array(intermediate_result.x)
        w, gradient = seen[u.tobytes()]
        slope = scale * to_numpy(gradient).astype(np.float64)
        here = (u, float(intermediate_result.fun), slope)
        seen.clear()
        steps += 1
        progress = phi.progress(w, gradient, steps, before.start_residual)
        if best is None or progress.residual < best[1].residual or stop(progress):
            best = (w, progress)
        if stop(progress):
            raise StopIteration

    scipy.optimize.minimize(
        value_and_gradient,
        np.zeros(base.shape[0]),
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={"ftol": 0.0, "gtol": 0.0, **options},
    )
    return steps, best
