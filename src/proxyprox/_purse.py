"""What a safeguarded run may still spend, and how much of it comparisons may take."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from proxyprox._checks import Words, message
from proxyprox._exchange import Query, price
from proxyprox._ledger import Budget, Ledger

FEWEST = 8
"""Held-out batches of a comparison where nothing is short."""

LEAST = 2
"""Held-out batches without which there is no standard error."""

SHARE = 0.1
SETS = 3
"""Comparisons that the share must pay for in a typical run: two on the way, one at the end."""

NAMES = {
    "target_gradients": "target gradients",
    "target_samples": "target samples",
    "cost": "units of cost",
    "epsilon": "of epsilon",
}
"""What is known before it is spent, and its name in messages."""


class Item(NamedTuple):
    """Gradients to pay for: of a batch, at so many points, with so many batches of new samples."""

    batch: Any
    points: int
    batches: int


def comparisons(batch: Any, points: int, count: int) -> Item:
    """Return what comparisons at some points each pay for, on one set of held-out batches."""
    if batch is None:
        # Exact gradients: one look is enough, and no sample is new.
        return Item(batch, points, 0)
    return Item(batch, points * count, count if points else 0)


class Purse:
    """The limits of a run, applied to all that its arms and their comparisons spend."""

    def __init__(self, objective: Any, ledger: Ledger, limits: Budget | None) -> None:
        self.objective = objective
        self.ledger = ledger
        self.limits = limits

    def bill(self, items: list[Item]) -> dict[str, float]:
        """Return what some gradients together add to the ledger."""
        total: dict[str, float] = {"target_gradients": 0, "target_samples": 0}
        for item in items:
            one = price(self.objective, Query(item.batch, (None,)), self.ledger)
            total["target_gradients"] += item.points
            total["target_samples"] += item.batches * one["target_samples"]
            if "cost" in one:
                total["cost"] = total.get("cost", 0.0) + item.points * one["cost"]
        epsilon = getattr(self.objective, "epsilon", None)
        if epsilon is not None:
            # Privacy is not a sum: it follows from the number of gradients.
            gradients = self.ledger.target_gradients + int(total["target_gradients"])
            total["epsilon"] = epsilon(gradients) - self.ledger.epsilon
        return total

    def affords(self, items: list[Item]) -> bool:
        """Tell whether no limit would be exceeded."""
        return self.limits is None or self._lacking(self.bill(items)) is None

    def few(self, batch: Any, points: int) -> int:
        """Return how many held-out batches a comparison may have: fewer where little is allowed.

        Parameters
        ----------
        batch : batch
            One like those to come.
        points : int
            Gradients that a held-out batch takes, from first to last comparison.
        """
        if self.limits is None:
            return FEWEST
        one, counts = self.bill([Item(batch, points, SETS)]), [float(FEWEST)]
        for name in ("target_gradients", "target_samples", "cost"):
            limit = getattr(self.limits, name)
            if limit is not None and one.get(name):
                counts.append(SHARE * limit / one[name])
        if self.limits.epsilon is not None:
            counts.append(SHARE * self._private_gradients / points)
        return max(LEAST, int(min(counts)))

    def require(self, items: list[Item]) -> None:
        """Refuse limits that do not even allow these."""
        needs = self.bill(items)
        name = self._lacking(needs)
        if name is None:
            return
        least = f"{needs[name]:,.0f}" if name.startswith("target") else f"{needs[name]:.6g}"
        allowed = "enough for each arm's first useful step and a comparison on held-out samples"
        remedy = (
            f"safeguard=True needs at least {least} {NAMES[name]} here; raise the budget or leave "
            "the safeguard out."
        )
        limit = Words(f"{getattr(self.limits, name):,}")
        raise ValueError(message(f"Budget.{name}", limit, allowed, remedy))

    def _lacking(self, ahead: dict[str, float]) -> str | None:
        for name in NAMES:
            limit = getattr(self.limits, name)
            if limit is not None and getattr(self.ledger, name) + ahead.get(name, 0.0) > limit:
                return name
        return None

    @cached_property
    def _private_gradients(self) -> int:
        """Return how many gradients the privacy allows, to the power of two below."""
        assert self.limits is not None
        assert self.limits.epsilon is not None
        count = 1
        while count < 1 << 16 and self.objective.epsilon(2 * count) <= self.limits.epsilon:
            count *= 2
        return count
