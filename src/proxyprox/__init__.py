"""Minimise an expensive loss with few of its gradients, by leaning on a cheap proxy.

>>> import numpy as np
>>> import proxyprox as pp
>>> target = pp.Quadratic(np.diag([1.0, 50.0]), b=np.array([-1.0, -1.0]), noise=0.01)
>>> proxy = pp.Quadratic(np.diag([1.1, 49.0]))
>>> result = pp.minimize(pp.Problem(target, proxy), method=pp.ProxyProx(eta=0.2), steps=200, rng=0)
>>> bool(np.linalg.norm(result.w - [1.0, 0.02]) < 0.1)
True
"""

from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from proxyprox._public import *  # noqa: F403
else:
    # The public names are loaded on first use: NumPy and SciPy take longer to import than
    # `proxyprox --version` may take. Type checkers must not see this `__getattr__`: they would
    # accept every misspelt name.
    _PARTS = (
        "averaging", "checkpoint", "corrections", "inner", "methods", "observers", "oracle",
        "penalties", "problems", "result", "stepsizes", "stopping", "theory",
    )  # fmt: skip

    def __getattr__(name):
        from importlib import import_module

        if name in _PARTS:
            return import_module(f"{__name__}.{name}")
        # A private name is a module; modules import each other while `_public` is being loaded.
        if name == "__all__" or not name.startswith("_"):
            public = import_module(f"{__name__}._public")
            if name == "__all__" or name in public.__all__:
                value = globals()[name] = getattr(public, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *_PARTS, "__all__", *__getattr__("__all__")})
