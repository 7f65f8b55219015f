"""What is checked of a problem before anything is paid."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from proxyprox._util.arrays import Vector, copy_array
from proxyprox._util.validation import Words, has, message, require_takes
from proxyprox._util.validation import vector as checked_vector
from proxyprox.problems.problem import Problem

# How the parts of a problem are called.
CALLS = {
    "objective": {
        "sample": ("rng",), "everything": (), "gradient": ("w", "batch"), "value": ("w",),
        "value_and_gradient": ("w", "batch"),
        "samples": ("batch",), "cost": ("batch",), "halves": ("batch",), "hvp": ("w", "v"),
        "gradient_from": ("w", "batch", "observations"),
        "curvature": ("w",),
    },
    "proxy": {
        "value": ("w",), "gradient": ("w",), "hvp": ("w", "v"), "hessian": ("w",),
        "solve_shifted": ("v", "eta"),
    },
    "penalty": {"value": ("w",), "prox": ("w", "step"), "distance": ("w", "gradient")},
}  # fmt: skip


def require_problem(problem: Any) -> None:
    """Refuse what is not a Problem, and say how to make one."""
    if not isinstance(problem, Problem):
        remedy = "Wrap it: Problem(objective, proxy)."
        raise TypeError(message("problem", problem, "a Problem", remedy))


def require_ready(problem: Problem) -> None:
    """Refuse a target that says it cannot answer, one without labels for example."""
    if has(problem.objective, "require_ready"):
        problem.objective.require_ready()


def require_enough(objective: Any, steps: int | None) -> None:
    """Refuse more steps than the objective will answer."""
    most = getattr(objective, "most_gradients", None)
    if most is not None and steps is not None and steps > most:
        name = type(objective).__name__
        allowed = f"at most {most:,}, the gradients that were planned for {name}"
        raise ValueError(message("steps", steps, allowed))


def require_allowed(objective: Any, use: str) -> None:
    """Refuse a use of the objective that it says it is not for, and give its reason."""
    reason = (getattr(objective, "refuses", None) or {}).get(use)
    if reason:
        raise TypeError(f"{type(objective).__name__} refuses {use}: {reason}.")


def check_signatures(problem: Problem) -> None:
    """Refuse functions of other arguments before a gradient is paid for."""
    for role, calls in CALLS.items():
        part = getattr(problem, role)
        for name, arguments in calls.items():
            require_takes(f"{role}.{name}", getattr(part, name, None), arguments)


def is_exact(objective: Any) -> bool:
    """Tell whether every gradient of an objective is known to be exact."""
    return bool(getattr(objective, "exact", False))


def starting_point(problem: Problem, w0: Vector | None) -> Vector:
    """Return w0, checked and copied; if it was left out, the problem's own start, or zeros."""
    size = problem.dim
    if w0 is None:
        w0 = getattr(problem.objective, "start", None)
    if w0 is None:
        if size is None:
            remedy = "The problem does not know its number d of parameters: pass w0=np.zeros(d)."
            raise ValueError(message("w0", None, "a starting point", remedy))
        for part in (problem.objective, problem.proxy):
            if hasattr(part, "zeros"):
                return copy_array(part.zeros())
        w0 = np.zeros(size)
    start = checked_vector("w0", w0, size)
    for part in (problem.objective, problem.proxy):
        zeros = part.zeros() if hasattr(part, "zeros") else start
        # NumPy converts between its dtypes; other libraries refuse, deep inside.
        alike = is_numpy_array(start) or start.dtype == zeros.dtype
        if type(start) is not type(zeros) or not alike:
            got = Words(f"a {type(start).__name__} of dtype {start.dtype}")
            allowed = f"a {type(zeros).__name__} of dtype {zeros.dtype}, as the data is"
            raise TypeError(message("w0", got, allowed, "Convert it, or leave w0 out."))
    # A copy: the user's array may change, the run's must not.
    return copy_array(start)
