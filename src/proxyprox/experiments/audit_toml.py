"""A plan as lines of a configuration file for ``proxyprox run``."""

from __future__ import annotations

from proxyprox import SGD, Uniform
from proxyprox.diagnostics import RunPlan
from proxyprox.problems import ScaledProxy

__all__ = ["plan_toml"]


def plan_toml(plan: RunPlan, batch_size: int | None) -> str | None:
    """Return ``[method]`` and ``[run]`` with the settings of a plan.

    Parameters
    ----------
    plan : RunPlan
        The plan.
    batch_size : int or None
        Rows of a target gradient, as audited; None for all rows.

    Returns
    -------
    lines : str or None
        TOML; None for a scaled proxy, which the configuration has no key for.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic, audit, plan
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.ones(2), noise=0.1)
    >>> planned = plan(audit(Problem(target, Quadratic(np.diag([1.0, 8.0]))), rng=0))
    >>> print(plan_toml(planned, 64).splitlines()[1])
    name = "proxyprox"
    """
    if isinstance(plan.problem.proxy, ScaledProxy):
        return None
    plain = isinstance(plan.method, SGD)
    kind = ['name = "sgd"'] if plain else ['name = "proxyprox"', 'correction = "plain"']
    average = "uniform" if isinstance(plan.averaging, Uniform) else "last"
    return "\n".join(
        [
            "[method]",
            *kind,
            f"eta = {float(plan.method.eta)!r}",
            f"batch_size = {batch_size}" if batch_size else 'batch_size = "all"',
            f'averaging = "{average}"',
            "",
            "[run]",
            f"target_gradients = {plan.steps}",
        ]
    )
