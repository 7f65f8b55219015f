"""ProxyProx as a method of scipy.optimize.minimize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy  # not scipy.optimize, which is slow: SciPy imports it when it is used

from proxyprox._util.validation import message, offers
from proxyprox.minimization import minimize
from proxyprox.oracle import Step
from proxyprox.penalties import box_of_pairs
from proxyprox.problems import FunctionObjective, Problem
from proxyprox.result import Status

__all__ = ["scipy_method"]


def scipy_method(
    proxy: Any, *, method: Any = None, penalty: Any | None = None, **options: Any
) -> Callable[..., scipy.optimize.OptimizeResult]:
    """Return a callable for ``scipy.optimize.minimize(fun, x0, jac=..., method=...)``.

    Parameters
    ----------
    proxy : Proxy or pair of callables
        The cheap loss.
    method : Method, optional
        The outer method, such as ``ProxyProx(eta=1.0)``; by default what suits exact gradients.
    penalty : Penalty, optional
        A non-smooth term shared by both losses.
    **options
        Any other option of :func:`~proxyprox.minimize`. SciPy's ``options={"maxiter": …}`` sets
        the outer steps (100 by default, unless there is a budget) and ``tol`` stops at a
        gradient of that norm; a run that ends before reports no success.

    Returns
    -------
    callable
        To be passed as ``method``; SciPy's ``callback`` gets the iterate, and ``bounds`` are kept.
        The answer's ``proxyprox`` is the :class:`~proxyprox.Result`; its ``fun`` includes the
        penalty, ``jac`` does not.

    Examples
    --------
    >>> import numpy as np, scipy.optimize
    >>> from proxyprox import Quadratic
    >>> from proxyprox.scipy import scipy_method
    >>> A = np.diag([1.0, 100.0])
    >>> solver = scipy_method(Quadratic(A + 0.1 * np.eye(2)))
    >>> answer = scipy.optimize.minimize(
    ...     lambda x: x @ A @ x / 2 - x.sum(), np.zeros(2), jac=lambda x: A @ x - 1, method=solver,
    ...     tol=1e-9,
    ... )
    >>> answer.x.round(6), answer.success
    (array([1.  , 0.01]), True)
    """
    # Refused here, and not when SciPy calls it.
    Problem(FunctionObjective(lambda w: w), proxy, penalty)
    if not (method is None or offers(method, "init", "ask", "tell")):
        raise TypeError(message("method", method, "a method, such as ProxyProx(eta=1.0)"))

    def solve(
        fun: Callable[..., float], x0: Any, args: tuple[Any, ...] = (), jac: Any = None,
        callback: Callable[[Any], Any] | None = None, maxiter: int | None = None,
        tol: float | None = None, **unused: Any,
    ) -> scipy.optimize.OptimizeResult:  # fmt: skip
        if not callable(jac):
            raise TypeError(
                f"jac must be a function that returns the gradient, got {jac!r}. "
                "ProxyProx works from gradients; write jac, or use jac=True."
            )
        constraints, bounds = unused.pop("constraints", None), unused.pop("bounds", None)
        if constraints is not None and constraints not in ((), []):
            raise ValueError(message("constraints", constraints, "left out: only bounds are kept"))
        if not (bounds is None or hasattr(bounds, "lb")):
            bounds = box_of_pairs(bounds)
        if unknown := unused.keys() - {"hess", "hessp", "disp"}:
            raise ValueError(message("options", sorted(unknown), "made of maxiter and tol only"))
        objective = FunctionObjective(
            lambda w: np.asarray(jac(w, *args), dtype=np.float64), value=lambda w: fun(w, *args)
        )

        def after(step: Step) -> bool:
            return callback is not None and bool(callback(np.array(step.w)))

        # SciPy's option wins over the defaults; a budget alone is an end, too.
        steps = options.get("steps") if maxiter is None else maxiter
        if steps is None and options.get("budget") is None:
            steps = 100
        settings = {**options, "steps": steps, "method": method, "callback": after, "atol": tol}
        problem = Problem(objective, proxy, penalty, bounds=bounds)
        start = np.asarray(x0, dtype=np.float64)
        result = minimize(problem, start, **settings)
        success = result.success and (tol is None or result.status is Status.CONVERGED)
        # SciPy's users look at jac: it is asked for if the run does not know it.
        slope = np.array(jac(result.w.copy(), *args)) if result.jac is None else result.jac
        return scipy.optimize.OptimizeResult(
            x=result.x, fun=result.fun, jac=slope, success=success, status=int(not success),
            message=result.message, nit=result.nit, njev=result.njev + (result.jac is None),
            nfev=result.nfev, proxyprox=result,
        )  # fmt: skip

    return solve
