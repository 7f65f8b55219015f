"""ProxyProx as a method of scipy.optimize.minimize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy  # not scipy.optimize, which is slow: SciPy imports it when it is used

from proxyprox._util.arrays import norm
from proxyprox._util.validation import message
from proxyprox.minimization import minimize
from proxyprox.oracles import Step
from proxyprox.problems import FunctionObjective, Problem
from proxyprox.result import Status


def scipy_method(
    proxy: Any, *, method: Any, penalty: Any | None = None, **options: Any
) -> Callable[..., scipy.optimize.OptimizeResult]:
    """Return a callable for ``scipy.optimize.minimize(fun, x0, jac=..., method=...)``.

    Parameters
    ----------
    proxy : Proxy or pair of callables
        The cheap loss.
    method : Method
        The outer method, such as ``ProxyProx(eta=1.0)``.
    penalty : Penalty, optional
        A non-smooth term shared by both losses.
    **options
        Any other option of :func:`~proxyprox.minimize`. SciPy's ``options={"maxiter": …}`` sets
        the outer steps (100 by default, unless there is a budget) and ``tol`` stops at a
        gradient of that norm; a run that ends before reports no success.

    Returns
    -------
    callable
        To be passed as ``method``; SciPy's ``callback`` gets the iterate.

    Examples
    --------
    >>> import numpy as np, scipy.optimize
    >>> from proxyprox import ProxyProx, Quadratic, scipy_method
    >>> A = np.diag([1.0, 100.0])
    >>> solver = scipy_method(Quadratic(A + 0.1 * np.eye(2)), method=ProxyProx(eta=2.0))
    >>> answer = scipy.optimize.minimize(
    ...     lambda x: x @ A @ x / 2 - x.sum(), np.zeros(2), jac=lambda x: A @ x - 1, method=solver
    ... )
    >>> answer.x.round(6), answer.success
    (array([1.  , 0.01]), True)
    """

    def solve(
        fun: Callable[..., float],
        x0: Any,
        args: tuple[Any, ...] = (),
        jac: Any = None,
        callback: Callable[[Any], Any] | None = None,
        maxiter: int | None = None,
        tol: float | None = None,
        **unused: Any,
    ) -> scipy.optimize.OptimizeResult:
        if not callable(jac):
            raise TypeError(
                f"jac must be a function that returns the gradient, got {jac!r}. "
                "ProxyProx works from gradients; write jac, or use jac=True."
            )
        for name in ("bounds", "constraints"):
            given = unused.pop(name, None)
            if given is not None and not (isinstance(given, tuple | list) and len(given) == 0):
                raise ValueError(message(name, given, "left out: ProxyProx is unconstrained"))
        if unknown := unused.keys() - {"hess", "hessp", "disp"}:
            raise ValueError(message("options", sorted(unknown), "made of maxiter and tol only"))
        objective = FunctionObjective(
            lambda w: np.asarray(jac(w, *args), dtype=np.float64), value=lambda w: fun(w, *args)
        )
        converged = False

        def after(step: Step) -> bool:
            nonlocal converged
            converged = tol is not None and norm(step.gradients[0]) <= tol
            asked = callback is not None and bool(callback(np.array(step.w)))
            return converged or asked

        # SciPy's option wins over the defaults; a budget alone is an end, too.
        steps = options.get("steps") if maxiter is None else maxiter
        if steps is None and options.get("budget") is None:
            steps = 100
        settings = {**options, "steps": steps, "method": method, "callback": after}
        problem, start = Problem(objective, proxy, penalty), np.asarray(x0, dtype=np.float64)
        result = minimize(problem, start, **settings)
        if converged:
            reason = f"The gradient's norm is within tol = {tol:g}."
            text = result.message.replace(Status.STOPPED_BY_CALLBACK.value, reason)
            result = replace(result, message=text)
        success = result.success and (tol is None or converged)
        return scipy.optimize.OptimizeResult(
            x=result.w,
            fun=float(fun(result.w.copy(), *args)),
            jac=np.array(jac(result.w.copy(), *args)),
            success=success,
            status=int(not success),
            message=result.message,
            nit=result.steps,
            njev=result.ledger.target_gradients,
            nfev=1,
            proxyprox=result,
        )

    return solve
