"""What was paid: one place that counts every access, and budgets that stop a run."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from proxyprox._checks import message, positive, whole


@dataclass
class Ledger:
    """Counts of everything a run has used; the x-axis of every comparison.

    Attributes
    ----------
    target_gradients : int
        Stochastic (or full) gradients of the objective: the expensive ones.
    target_samples : int
        Samples (labels, rollouts) in their batches.
    cost : float
        The user's own cost, where the objective names one.
    epsilon : float
        Privacy spent, where the objective accounts for it.
    target_seconds : float
        Time spent inside the objective.
    proxy_values, proxy_gradients, proxy_sampled_gradients, proxy_hvps, proxy_hessians, proxy_solves
        Accesses to the proxy, by kind; gradients are full passes.
    seconds : float
        Time of the whole run.
    """

    target_gradients: int = 0
    target_samples: int = 0
    cost: float = 0.0
    epsilon: float = 0.0
    target_seconds: float = 0.0
    proxy_values: int = 0
    proxy_gradients: int = 0
    proxy_sampled_gradients: int = 0
    proxy_hvps: int = 0
    proxy_hessians: int = 0
    proxy_solves: int = 0
    seconds: float = 0.0

    def add(self, paid: Mapping[str, float]) -> None:
        """Enter what was paid, all of it or nothing should an interrupt come."""
        vars(self).update({name: getattr(self, name) + paid[name] for name in paid})

    def as_dict(self) -> dict[str, float]:
        """Return the counts as a plain dictionary."""
        return asdict(self)


@dataclass(frozen=True)
class Budget:
    """Limits of a run; the step that would exceed one is not taken.

    What a step will cost the target is known before it is taken, so those limits are never
    exceeded. Proxy work and time are not: the run ends after the step that reaches the limit.

    Examples
    --------
    >>> Budget(target_gradients=1000, seconds=60.0).target_gradients
    1000
    """

    target_gradients: int | None = None
    target_samples: int | None = None
    proxy_gradients: int | None = None
    cost: float | None = None
    epsilon: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Check that there is a limit, and that each is positive."""
        limits = {field.name: getattr(self, field.name) for field in fields(self)}
        if all(limit is None for limit in limits.values()):
            raise ValueError(f"Budget must limit something: give one of {', '.join(limits)}.")
        for name, limit in limits.items():
            if limit is not None:
                positive(f"Budget.{name}", limit, "Leave it out for no limit.")

    def exceeded(self, ledger: Ledger, ahead: dict[str, float]) -> str | None:
        """Return the limit that the next step would exceed, or None.

        Parameters
        ----------
        ledger : Ledger
            What has been used.
        ahead : dict
            What the next step will use for certain, by field name.
        """
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is None:
                continue
            used = getattr(ledger, field.name)
            coming = ahead.get(field.name, 0.0)
            # Of what is not known ahead (time, proxy work), reaching the limit is enough.
            if used + coming > limit or (coming == 0.0 and used >= limit):
                return field.name
        return None


def as_budget(budget: Any) -> Budget | None:
    """Accept a Budget, or a number that limits the target gradients."""
    if budget is None or isinstance(budget, Budget):
        return budget
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        allowed = "a Budget, or a number of target gradients"
        raise TypeError(message("budget", budget, allowed))
    return Budget(target_gradients=whole("budget", budget))
