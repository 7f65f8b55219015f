"""A proxy in code that calls ``scipy.optimize.minimize``: a method for its ``method=``.

New code has less to write: ``proxyprox.minimize(Problem((fun, jac), proxy, bounds=...), x0)``,
whose result has SciPy's names, too.

    answer = scipy.optimize.minimize(fun, x0, jac=jac, method=scipy_method(proxy), tol=1e-9)
"""

import numpy as np
import scipy.optimize

import proxyprox as pp


def scipy_method(proxy, **settings):
    """Return what SciPy takes as ``method``; ``settings`` are those of ``proxyprox.minimize``.

    SciPy's ``tol`` is the norm of a small gradient, its option ``maxiter`` limits the steps, and
    ``bounds``, ``args`` and ``callback`` are kept.
    """

    def solve(fun, x0, args=(), jac=None, callback=None, maxiter=100, tol=None, **others):
        if not callable(jac):
            raise TypeError(f"jac must be a function that returns the gradient, got {jac!r}.")
        bounds = others.pop("bounds", None)
        if isinstance(bounds, (list, tuple)):
            lower, upper = np.array(bounds, dtype=float).T
            bounds = (np.nan_to_num(lower, nan=-np.inf), np.nan_to_num(upper, nan=np.inf))
        if refused := [name for name, given in others.items() if given not in (None, (), [])]:
            raise ValueError(f"{', '.join(refused)} must be left out.")
        target = (lambda x: fun(x, *args), lambda x: np.asarray(jac(x, *args), dtype=float))
        watch = None if callback is None else lambda step: callback(np.array(step.w))
        own = {"steps": maxiter, "atol": tol, "callback": watch} | settings
        problem = pp.Problem(target, proxy, bounds=bounds)
        result = pp.minimize(problem, np.asarray(x0, dtype=float), **own)
        success = result.success and (tol is None or result.status is pp.Status.CONVERGED)
        return scipy.optimize.OptimizeResult(
            x=result.x, fun=result.fun, jac=result.jac, success=success, message=result.message,
            nit=result.nit, nfev=result.nfev, njev=result.njev, status=int(not success),
        )  # fmt: skip

    return solve
