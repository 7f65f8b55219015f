"""What is checked of a problem before anything is paid."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from proxyprox._util.arrays import Vector, copy_array, zeros_like
from proxyprox._util.validation import Words, message, require_takes
from proxyprox._util.validation import vector as checked_vector
from proxyprox.problems.problem import Problem
from proxyprox.problems.protocols import facts_of

# How the parts of a problem are called.
CALLS = {
    "objective": {
        "sample": ("rng",), "everything": (), "gradient": ("w", "batch"), "value": ("w",),
        "value_and_gradient": ("w", "batch"),
        "samples": ("batch",), "cost": ("batch",), "hvp": ("w", "v"),
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
    if reason := facts_of(problem.objective).unready:
        raise ValueError(reason)


def require_enough(objective: Any, steps: int | None) -> None:
    """Refuse more steps than the objective will answer."""
    most = facts_of(objective).most_gradients
    if most is not None and steps is not None and steps > most:
        name = type(objective).__name__
        allowed = f"at most {most:,}, the gradients that were planned for {name}"
        raise ValueError(message("steps", steps, allowed))


def require_allowed(objective: Any, use: str) -> None:
    """Refuse a use of the objective that it says it is not for, and give its reason."""
    reason = facts_of(objective).refuses.get(use)
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
    known = [facts_of(part).start for part in (problem.objective, problem.proxy)]
    if w0 is None:
        w0 = known[0]
    if w0 is None:
        if size is None:
            remedy = "The problem does not know its number d of parameters: pass w0=np.zeros(d)."
            raise ValueError(message("w0", None, "a starting point", remedy))
        w0 = np.zeros(size) if known[1] is None else zeros_like(known[1])
    start = checked_vector("w0", w0, size)
    for own in known:
        zeros = start if own is None else own
        # NumPy converts between its dtypes; other libraries refuse, deep inside.
        alike = is_numpy_array(start) or start.dtype == zeros.dtype
        if type(start) is not type(zeros) or not alike:
            got = Words(f"a {type(start).__name__} of dtype {start.dtype}")
            allowed = f"a {type(zeros).__name__} of dtype {zeros.dtype}, as the data is"
            raise TypeError(message("w0", got, allowed, "Convert it, or leave w0 out."))
    # A copy: the user's array may change, the run's must not.
    return copy_array(start)
