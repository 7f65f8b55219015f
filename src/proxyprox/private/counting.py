"""Private rows that notice when they are looked at without being paid for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from proxyprox._util import validation as check
from proxyprox._util.validation import Words, message
from proxyprox.private.accounting import PrivacyBudget, PrivacyBudgetError


class CountedRows:
    """Private rows that count accesses and refuse one that no charge of a budget covers.

    It stands between the rows and :class:`Private`, in tests of one's own methods: whatever reads
    the rows comes by here, and the journal must have a charge for it already.

    Parameters
    ----------
    rows : PrivateRows or object
        What ``Private`` takes.
    budget : PrivacyBudget
        What is charged, by these rows alone from here on.

    Attributes
    ----------
    accesses : Counter
        How often each method was called.

    Examples
    --------
    >>> from proxyprox.private import Private, PrivateRows
    >>> from proxyprox.problems.families import Logistic
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    >>> rows = CountedRows(PrivateRows([[1.0], [2.0]], [0, 1], Logistic((0, 1))), budget)
    >>> target = Private(rows, epsilon=1.0, delta=1e-5, releases=1, n_nominal=2, clip=1.0,
    ...                  budget=budget)
    >>> _ = target.gradient(target.zeros())
    >>> dict(rows.accesses)
    {'clipped_sum': 1}
    >>> rows.clipped_sum(target.zeros(), clip=1.0)
    Traceback (most recent call last):
    ...
    proxyprox.private.accounting.PrivacyBudgetError: clipped_sum is access 2 to private rows, \
and 1 is charged.
    """

    def __init__(self, rows: Any, budget: PrivacyBudget) -> None:
        check.instance("budget", budget, PrivacyBudget, "a PrivacyBudget")
        if not hasattr(rows, "clipped_sum"):
            got = Words(f"a {type(rows).__name__}")
            raise TypeError(message("rows", got, "rows that Private takes, such as PrivateRows"))
        self.accesses: Counter[str] = Counter()
        self._rows, self._budget = rows, budget
        self._before = budget.spent.releases

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._rows, name)
        # Shapes are known to the mechanism; everything else depends on what the rows hold.
        if name in ("dim", "rows", "columns", "zeros", "moments_of"):
            return found
        if not callable(found):
            self._require_charge(name)
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._require_charge(name)
            return found(*args, **kwargs)

        return counted

    def _require_charge(self, name: str) -> None:
        self.accesses[name] += 1
        count, paid = self.accesses.total(), self._budget.spent.releases - self._before
        if count > paid:
            raise PrivacyBudgetError(
                f"{name} is access {count} to private rows, and {paid} is charged."
            )
