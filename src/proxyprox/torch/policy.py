"""What the optimisers judge a proxy by while they train, and the shape of their schedules."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class ProbePolicy:
    """When a proxy, or steps on it, are warned of. No record: judgements.

    Attributes
    ----------
    look_every : int
        Outer steps between two looks at whether proxy steps lower the loss that they step on, and
        at which of several proxies agrees with the target.
    looks : int
        Looks whose mean is judged: steps that overshoot go up and down in turn.
    rise : float
        Mean relative rise of that loss from which on steps are called too long.
    scale : float
        Length of the proxy's gradient over the target's from which on units are called different.
    """

    look_every: int = 25
    looks: int = 4
    rise: float = 0.25
    scale: float = 30.0


@dataclass(frozen=True)
class HalvingPolicy:
    """How much ``choose_way`` may cost. The price is the one promised to users.

    Attributes
    ----------
    runs : float
        Full runs in all.
    factor : int
        By what the number of candidates is divided in every round, down to fewer than this.
    """

    runs: float = 3.0
    factor: int = 3


SCHEDULE = SchedulePolicy()
PROBE = ProbePolicy()
HALVING = HalvingPolicy()
