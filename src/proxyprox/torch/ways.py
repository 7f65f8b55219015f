"""When an optimiser steps on the proxy, with what gradients, and at what learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from proxyprox._util.validation import flag, fraction, message, nonnegative, one_of, positive, whole


@dataclass(frozen=True)
class SchedulePolicy:
    """The learning rate of a way.

    Attributes
    ----------
    warmup : float
        Share of the steps over which it rises. No record: the share that hand-written schedules of
        the cases in ``docs/results/torch`` use.
    """

    warmup: float = 0.05


SCHEDULE = SchedulePolicy()


@dataclass(frozen=True)
class Way:
    r"""A schedule of target steps and proxy steps.

    A run has T target steps and N = ``proxy_steps``·T proxy steps, bN of them before the first
    target step. When a share p of the target steps is done, so is this share of the steps of both
    kinds that remain:

    .. math:: S(p) = p^{1 / (1 + q)},

    so that with q > 0 the target's share of the steps grows like their number to the power q. The
    learning rate is constant up to the first planned target step, and falls as half a cosine over
    the steps that remain, of both kinds; a short warm-up comes first.

    Parameters
    ----------
    proxy_steps : int
        Proxy steps for each target step, on the average; 0 for the target alone.
    before : float
        b, in [0, 1]: the share of the proxy steps that come before the target's.
    growth : float
        q ≥ 0.
    weight : float
        By what the target's gradient is multiplied.
    theta : float
        θ, in [0, 1]: what share of the running mean of ∇L − ∇L̂ is added to the proxy's gradients.
    averaging : float
        Weight of the newest difference in that mean.
    joint : bool
        Add the gradient of one proxy batch to the target's, and take one step with both.
    restart : float
        If positive, the learning rate falls to 0 before the target steps and starts anew at this
        multiple.

    Examples
    --------
    >>> way = Way(proxy_steps=8, before=0.75)
    >>> [way.planned(done, 5) for done in range(6)]
    [30, 32, 35, 38, 40, 40]
    >>> round(way.rate(20, 5), 2), round(way.rate(44, 5), 2)
    (1.0, 0.01)
    """

    proxy_steps: int = 8
    before: float = 0.0
    growth: float = 0.0
    weight: float = 1.0
    theta: float = 0.0
    averaging: float = 0.2
    joint: bool = False
    restart: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole("proxy_steps", self.proxy_steps, least=0)
        for name in ("before", "theta"):
            if getattr(self, name):
                fraction(name, getattr(self, name))
        nonnegative("growth", self.growth)
        nonnegative("restart", self.restart)
        positive("weight", self.weight)
        fraction("averaging", self.averaging)
        flag("joint", self.joint)

    @property
    def needs_total(self) -> bool:
        """Whether the number of target steps must be known."""
        return bool(self.before or self.growth or self.restart)

    @property
    def target_share(self) -> float:
        """The weight of L beside L̂ in what a run descends on the average."""
        steps = self.proxy_steps
        return (self.weight + self.theta * steps) / (self.weight + steps)

    def planned(self, done: int, total: int | None) -> int:
        """Return how many proxy steps are due when some target steps are done."""
        if total is None:
            return self.proxy_steps * done
        every = self.proxy_steps * total
        first = self.before * every
        # The last step is one on the target.
        share = min(1.0, done / max(1, total - 1))
        later: float = (total + every - first) * share ** (1 / (1 + self.growth)) - total * share
        return round(min(every, first + max(0.0, later)))

    def rate(self, step: int, total: int) -> float:
        """Return the learning rate's factor after some steps of both kinds."""
        every = total * (1 + self.proxy_steps)
        first = round(self.before * self.proxy_steps * total)
        early = step < first
        at, length = (step, first) if early else (step - first, every - first)
        falling = (1 + math.cos(math.pi * min(1.0, at / max(1, length)))) / 2
        if self.restart:
            warm = min(1.0, (at + 1) / (SCHEDULE.warmup * length))
            return warm * falling * (1.0 if early else self.restart)
        warm = min(1.0, (step + 1) / (SCHEDULE.warmup * every))
        return warm * (1.0 if early else falling)


WAYS = {
    "late": Way(before=1.0),
    "weighted": Way(before=0.875, weight=2.0),
    "interleaved": Way(),
    "growing": Way(growth=2.0),
    "joint": Way(joint=True),
    "fine-tuned": Way(before=1.0, restart=0.5),
    "corrected": Way(weight=3.0, theta=0.3),
    "target alone": Way(proxy_steps=0),
}
"""The ways that have names."""


def as_way(way: Way | str, proxy_steps: int | None = None) -> Way:
    """Return a way, or the one of a name, with another number of proxy steps if one is given."""
    if not isinstance(way, (Way, str)):
        remedy = "Pass choice.candidate.way of what choose_way returned."
        raise TypeError(message("way", way, f"a Way, or one of {tuple(WAYS)}", remedy))
    found = WAYS[one_of("way", way, WAYS)] if isinstance(way, str) else way
    if proxy_steps is None or not found.proxy_steps:
        return found
    return replace(found, proxy_steps=whole("proxy_steps", proxy_steps))


def default_way(
    *, target_rows: str = "fresh", proxy: str = "other data", proxy_steps: int | None = None
) -> Way:
    """Return the way that was best, in our records, for data of a kind.

    Parameters
    ----------
    target_rows : {"fresh", "reused"}
        Whether most target gradients are of new rows, or few rows are used again and again, about
        ten times or more.
    proxy : {"part", "other data", "wrong labels", "teacher"}
        What the proxy is: a part of the target's own rows; other rows or other tasks; rows of which
        many have wrong or outdated labels; a teacher's answers.
    proxy_steps : int, optional
        Proxy steps for each target step, if not the way's own.

    Examples
    --------
    >>> default_way(target_rows="reused", proxy="other data") == WAYS["growing"]
    True
    """
    one_of("target_rows", target_rows, ("fresh", "reused"))
    fresh = {"part": "weighted"}
    reused = {"wrong labels": "fine-tuned", "teacher": "fine-tuned"}
    one_of("proxy", proxy, ("other data", *fresh, *reused))
    name = reused.get(proxy, "growing")
    if target_rows == "fresh":
        name = fresh.get(proxy, "late")
    return as_way(name, proxy_steps)
