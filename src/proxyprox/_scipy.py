"""ProxyProx as a method of ``scipy.optimize.minimize``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

from proxyprox._ledger import Budget
from proxyprox._minimize import minimize
from proxyprox._run import Step
from proxyprox.problems import FunctionObjective, Problem


def scipy_method(
    proxy: Any,
    *,
    method: Any,
    penalty: Any | None = None,
    **options: Any,
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
        the outer steps (100 by default) and ``tol`` stops at a gradient of that norm.

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
        maxiter: int = 100,
        tol: float | None = None,
        **unused: Any,
    ) -> scipy.optimize.OptimizeResult:
        if not callable(jac):
            raise TypeError(
                f"jac must be a function that returns the gradient, got {jac!r}. "
                "ProxyProx works from gradients; write jac, or use jac=True."
            )
        for name in ("bounds", "constraints", "hess", "hessp"):
            given = unused.pop(name, None)
            if given is not None and (name in ("bounds", "constraints") and len(given) > 0):
                raise ValueError(f"{name} must be left out: ProxyProx is unconstrained.")
        objective = FunctionObjective(
            lambda w: np.asarray(jac(w, *args), dtype=np.float64), value=lambda w: fun(w, *args)
        )

        def after(step: Step) -> bool:
            small = tol is not None and bool(np.linalg.norm(step.gradients[0]) <= tol)
            asked = callback is not None and bool(callback(np.array(step.w)))
            return small or asked

        settings = {"steps": int(maxiter), **options}
        if isinstance(settings.get("budget"), Budget | int):
            settings.setdefault("steps", None)
        start = np.asarray(x0, dtype=np.float64)
        result = minimize(
            Problem(objective, proxy, penalty), start, method=method, callback=after, **settings
        )
        return scipy.optimize.OptimizeResult(
            x=result.w,
            fun=float(fun(result.w, *args)),
            jac=np.asarray(jac(result.w, *args)),
            success=result.success,
            status=0 if result.success else 1,
            message=result.message,
            nit=result.steps,
            njev=result.ledger.target_gradients,
            nfev=1,
            proxyprox=result,
        )

    return solve
