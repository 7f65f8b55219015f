"""What a run returns: the answer, its status, the record of its steps, and what was paid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util import extras
from proxyprox._util.arrays import Vector
from proxyprox._util.validation import count_words, instance, positive, whole

__all__ = ["Budget", "Ledger", "Result", "Status", "StepRecord", "Trace"]


@dataclass
class Ledger:
    """Counts of everything a run has used; the x-axis of every comparison.

    Attributes
    ----------
    target_gradients : int
        Stochastic (or full) gradients of the objective: the expensive ones.
    target_samples : int
        Samples (labels, rollouts) in their batches.
    target_values : int
        Values of the objective asked for on their own; one that comes with a gradient is free.
    value_calls : int
        Values of the objective in all: on their own, with a gradient, and for the report.
    target_calls : int
        Evaluations of the user's function, where the objective counts them (``evaluations``).
    cost : float
        The user's own cost, where the objective names one.
    epsilon : float
        Privacy spent, where the objective accounts for it.
    target_seconds : float
        Time spent inside the objective.
    proxy_values, proxy_gradients, proxy_sampled_gradients, proxy_hvps, proxy_hessians, proxy_solves
        Accesses to the proxy, by kind; gradients are full passes.
    proxy_seconds : float
        Time spent inside the proxy's functions.
    proxies : mapping
        The same counts for each of several proxies, by name, and for each level of a ladder.
    seconds : float
        Time of the whole run.
    """

    target_gradients: int = 0
    target_samples: int = 0
    target_values: int = 0
    value_calls: int = 0
    target_calls: int = 0
    cost: float = 0.0
    epsilon: float = 0.0
    target_seconds: float = 0.0
    proxy_values: int = 0
    proxy_gradients: int = 0
    proxy_sampled_gradients: int = 0
    proxy_hvps: int = 0
    proxy_hessians: int = 0
    proxy_solves: int = 0
    proxy_seconds: float = 0.0
    proxies: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the counts as a plain dictionary; those of a named proxy as "name.count"."""
        counts = {name: count for name, count in asdict(self).items() if name != "proxies"}
        for name, own in self.proxies.items():
            counts |= {f"{name}.{what}": count for what, count in own.items()}
        return counts


@dataclass(frozen=True)
class Budget:
    """Limits of a run; the step that would exceed one is not taken.

    What a step will cost the target is known before it is taken, so those limits are never
    exceeded. Proxy work, time and calls of a function whose gradients are found by differences
    (``target_calls``) are not: the run ends after the step that reaches the limit.

    Parameters
    ----------
    proxies : mapping, optional
        Limits on what single proxies, or levels of a ladder, are asked: the names are those of
        ``Ledger.as_dict()``, such as ``{"coarse.proxy_gradients": 500}``.

    Examples
    --------
    >>> Budget(target_gradients=1000, seconds=60.0).target_gradients
    1000
    """

    target_gradients: int | None = None
    target_samples: int | None = None
    target_calls: int | None = None
    proxy_gradients: int | None = None
    cost: float | None = None
    epsilon: float | None = None
    seconds: float | None = None
    proxies: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        """Check that there is a limit, and that each is positive."""
        limits = {name: limit for name, limit in vars(self).items() if limit is not None}
        allowed = 'limits by name, such as {"coarse.proxy_gradients": 500}'
        instance("Budget.proxies", limits.get("proxies", {}), Mapping, allowed)
        limits |= limits.pop("proxies", {})
        if not limits:
            raise ValueError(f"Budget must limit something: give one of {', '.join(vars(self))}.")
        for name, limit in limits.items():
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
        counts = ledger.as_dict()
        for name, limit in {**vars(self), **(self.proxies or {}), "proxies": None}.items():
            used, coming = counts.get(name, 0), ahead.get(name, 0.0)
            # Of what is not known ahead (time, proxy work), reaching the limit is enough.
            if limit is not None and (used + coming > limit or (coming == 0 and used >= limit)):
                return name
        return None


def as_budget(budget: Any) -> Budget | None:
    """Accept a Budget, or a number that limits the target gradients."""
    if budget is None or isinstance(budget, Budget):
        return budget
    remedy = "It is the number of target gradients; a Budget limits other things."
    return Budget(target_gradients=whole("budget", budget, remedy=remedy))


class StepRecord(NamedTuple):
    """One outer step.

    ``held`` tells whether the inexactness rule held at the returned point: ``residual ≤
    threshold`` (and what else the rule asks). It is None, and the threshold NaN, if there was no
    such rule: a fixed number of inner steps bounds nothing, and some steps solve no subproblem.
    ``value`` is the target's at the point asked about, without the penalty; NaN if it was not told.
    ``gradient`` is the norm of the target's gradient there (of the batch's, if it is sampled).
    """

    k: int
    eta: float
    residual: float
    threshold: float
    held: bool | None
    inner_steps: int
    displacement: float
    target_gradients: int
    proxy_gradients: int
    seconds: float
    value: float = math.nan
    gradient: float = math.nan


@dataclass(eq=False, repr=False)
class Trace:
    """The outer steps of a run, in order; ``trace["residual"]`` is a column as an array.

    ``trace[-1]`` is the record of the last step. ``trace["held"]`` is masked if there was no rule.
    """

    rows: list[StepRecord] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[StepRecord]:
        return iter(self.rows)

    def __repr__(self) -> str:
        columns = ", ".join(StepRecord._fields)
        return f"<Trace of {count_words(len(self), 'outer step')} with the columns {columns}>"

    def __getitem__(self, column: str | int) -> Any:
        if isinstance(column, int):
            return self.rows[column]
        if column not in StepRecord._fields:
            raise KeyError(f"no column {column!r}; there are {', '.join(StepRecord._fields)}")
        entries = [getattr(row, column) for row in self.rows]
        if column != "held":
            counts = ("k", "inner_steps", "target_gradients", "proxy_gradients")
            return np.array(entries, dtype=int if column in counts else float)
        # Of None, bool makes False: a masked entry is neither.
        none, flags = [held is None for held in entries], np.array(entries, dtype=bool)
        return np.ma.array(flags, mask=none) if any(none) else flags


class Status(Enum):
    """How a run ended; the value is the sentence a user reads."""

    RUNNING = "The run has not ended."
    STEPS_DONE = "All the requested outer steps were taken."
    BUDGET_SPENT = "The budget is spent: the next step would exceed it."
    STOPPED_BY_CALLBACK = "A callback or an observer asked to stop."
    CONVERGED = "The gradient is below the tolerance, or at the level of rounding."
    STALLED = (
        "No further decrease was found, though the gradient is above the tolerance: the target's "
        "rounding or noise is reached, or its gradient does not fit its values."
    )
    TARGET_NOT_FINITE = (
        "The target's gradient was NaN or infinite; the last good iterate is returned."
    )
    DIVERGED = (
        "The inner solve met NaN or an infinity; the last good iterate is returned. "
        "A smaller eta, or a proxy that is finite everywhere, should help."
    )
    PROXY_NOT_FINITE = (
        "The proxy's value or gradient was NaN or infinite away from the iterate, which blocked "
        "or shortened the steps. A proxy that is finite wherever steps lead, or another inner "
        "solver, should help."
    )
    GREW = "The run diverged, though every number stayed finite."
    ABOVE_START = "The loss ended above where it began."
    INNER_RULE_FAILED = (
        "The inner rule failed in most steps, and nothing shows that the loss fell. A smaller eta, "
        "an inner solver that may take more steps, or a looser rule should help."
    )
    INTERRUPTED = "The run was interrupted; the last good iterate is returned."

    @property
    def success(self) -> bool:
        """Whether the run ended as asked."""
        return self.name in ("STEPS_DONE", "BUDGET_SPENT", "STOPPED_BY_CALLBACK", "CONVERGED")


# Largest over smallest number of a figure from which on its axis is logarithmic.
WIDE = 30.0


@dataclass(frozen=True)
class Result:
    """The answer of a run.

    SciPy's names are there, too: ``x`` is ``w``, ``nit`` is ``steps``, and ``fun``, ``jac``,
    ``nfev``, ``njev``, ``message`` and ``success`` mean what they mean in SciPy's
    ``OptimizeResult``. ``status`` is not a number but a :class:`Status`.

    Attributes
    ----------
    w : array
        The answer: the last iterate, or the average that was asked for; the start if values show
        that the run ended above it.
    fun : float
        The loss at ``w``, penalty included; NaN if it is not known: the target offers no values,
        they are accounted for, or the run was broken off.
    jac : array or None
        The target's gradient at ``w``, without the penalty, if it was paid for; otherwise None.
    last : array
        The last iterate.
    status : Status
        How the run ended.
    message : str
        The status in words, with what was spent or met.
    steps : int
        Outer steps taken.
    ledger : Ledger
        What was paid.
    trace : Trace
        Every outer step's residual, threshold, inner steps and whether the rule held (None if
        there was none).
    inner : str
        The inner solver, and why it was picked if Auto picked it.
    stop : str
        The inexactness rule, and why if it was the default.
    method : str
        The method, and why if none was named.
    gradients : str
        Where the gradients of losses that are given by their values come from.
    values : tuple of float or None
        The loss (penalty included) at the start and at ``w``, where the objective offers values.
        The start is a ``w0`` that was given; without one, where the method began. A function whose
        evaluations are counted is not called for this if its value at the start is known.
    safeguard : Evidence or None
        With ``safeguard=True``: what was chosen, and the held-out comparisons behind it.
    doubt : Finding or None
        What the target's gradients along the way say against ``w``, as a status and a text; the
        result's own status follows it, unless values of the loss say otherwise.
    biased : bool
        Whether the target says that its gradients are not unbiased, as with a simulator's Jacobians
        on real trajectories: the theory then does not hold.
    details : object or None
        What else the method has to say: an :class:`~proxyprox.problems.Uncertainty` of a fit.
    """

    w: Vector
    last: Vector
    status: Status
    message: str
    steps: int
    ledger: Ledger
    trace: Trace
    inner: str
    stop: str
    values: tuple[float, float] | None = None
    gradients: str = ""
    safeguard: Any = None
    doubt: Any = None
    method: str = ""
    biased: bool = False
    fun: float = math.nan
    jac: Vector | None = None
    details: Any = None

    @property
    def success(self) -> bool:
        """Whether the run ended as asked."""
        return self.status.success

    x = property(attrgetter("w"), doc="The answer ``w``.")
    nit = property(attrgetter("steps"), doc="Outer steps taken.")
    njev = property(
        attrgetter("ledger.target_gradients"),
        doc="Gradients of the target, full or of a batch, one for each point asked about.",
    )

    @property
    def nfev(self) -> int:
        """Evaluations of the target's value, those for the report included.

        A call that returns value and gradient counts here and in ``njev``. If gradients are found
        by differences, every call of the function counts.
        """
        return self.ledger.target_calls or self.ledger.value_calls

    def plot(self, ax: Any = None) -> Any:
        """Draw the target's lowest loss so far against the target gradients that were paid for.

        The loss is without the penalty. If no step knows it, the norm of the target's gradient is
        drawn (of the batch's, if it is sampled), and the axis says so.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default axes of a new figure, ``ax.figure``.

        Returns
        -------
        matplotlib.axes.Axes
            The axes; ``ax.figure.savefig("run.png")`` writes them to a file.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed: ``pip install "proxyprox[plot]"``.
        """
        # Of pyplot: notebooks show its figures, and plt.show() knows them.
        pyplot = extras.require("matplotlib.pyplot", extra="plot", purpose="result.plot()")
        if ax is None:
            ax = pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")[1]
            ax.xaxis.get_major_locator().set_params(integer=True)
        paid, values = self.trace["target_gradients"], self.trace["value"]
        losses = np.where(np.isfinite(values), values, math.nan)
        known = bool(np.isfinite(losses).any())
        drawn = np.fmin.accumulate(losses) if known else self.trace["gradient"]
        label = "lowest loss of the target so far"
        if not known:
            label = "norm of the target's gradient\n(no step knows the loss)"
        ax.plot(paid, drawn, ".-", color="#0072B2")
        finite = drawn[np.isfinite(drawn)]
        if 0 < finite.min(initial=math.inf) <= finite.max(initial=-math.inf) / WIDE:
            ax.set_yscale("log")
        ends = "" if self.values is None else "loss {:.4g} → {:.4g}, ".format(*self.values)
        title = f"{ends}{count_words(self.njev, 'target gradient')}"
        ax.set_title(title if self.success else f"{self.status.name}: {title}", fontsize="medium")
        ax.set(xlabel="target gradients paid for", ylabel=label)
        ax.grid(visible=True, color="0.9")
        return ax

    def __str__(self) -> str:
        paid, guard = self.ledger, self.safeguard
        used = _counted({
            "gradient": paid.proxy_gradients, "sampled gradient": paid.proxy_sampled_gradients,
            "value": paid.proxy_values, "Hessian product": paid.proxy_hvps,
            "Hessian": paid.proxy_hessians, "closed-form solve": paid.proxy_solves,
        })  # fmt: skip
        target = {"value": paid.target_values, "function call": paid.target_calls}
        bought = [
            count_words(paid.target_gradients, "gradient"),
            count_words(paid.target_samples, "sample"),
            *_counted(target),
        ]
        held = [row.held for row in self.trace if row.held is not None]
        rule = f"(inner rule held in {sum(held):,} of {len(held):,})" if held else "(no inner rule)"
        seconds = f"{paid.seconds:.3g}, of them {paid.target_seconds:.3g} in the target"
        rows = {
            "loss": self.values and "{:.6g} at the start, {:.6g} at the end".format(*self.values),
            "outer steps": f"{self.steps:,} {rule if self.stop and self.steps else ''}".rstrip(),
            "method": self.method,
            "target paid": ", ".join(bought),
            "proxy used": ", ".join(used) or "nothing",
            "gradients": self.gradients,
            "seconds": seconds + (f", {paid.proxy_seconds:.3g} in the proxy" if used else ""),
            "inner solver": self.inner,
            "inner rule": self.stop,
            "parameters": self.details and str(self.details),
            "held out": guard and f"\n{'':16}".join(map(str, guard.checks)),
        }
        return "\n".join([self.message, *(f"  {name:12}  {x}" for name, x in rows.items() if x)])


def _counted(counts: Mapping[str, int]) -> list[str]:
    return [count_words(count, name) for name, count in counts.items() if count]


class Interval(NamedTuple):
    """A number, or an array of numbers, that was estimated, and its confidence limits.

    Attributes
    ----------
    estimate : float or array
        The best single guess.
    low, high : float or array
        Limits that hold the true value with the confidence that was asked for.

    Examples
    --------
    >>> found = Interval(2.0, 1.5, 2.5)
    >>> 1.9 in found, str(found)
    (True, '2 [1.5, 2.5]')
    >>> Interval(0.1, -0.2, 0.4).at_least(0.0)
    Interval(estimate=0.1, low=0.0, high=0.4)
    """

    estimate: Any
    low: Any
    high: Any

    def __contains__(self, value: Any) -> bool:
        return bool(np.all((self.low <= value) & (value <= self.high)))

    def at_least(self, least: float) -> Interval:
        """Return the interval with everything below ``least`` raised to it.

        Parameters
        ----------
        least : float
            What is known to be a lower bound, such as 0 for a variance.

        Returns
        -------
        Interval
            Estimate and limits, each ``least`` or more.
        """
        larger: Any = np.maximum if np.ndim(self.estimate) else max
        return Interval(*(larger(each, least) for each in self))

    def __str__(self) -> str:
        if np.ndim(self.estimate):
            return repr(self)
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"
