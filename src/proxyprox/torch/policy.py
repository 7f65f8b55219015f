"""What the optimisers judge a proxy by while they train."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProbePolicy:
    """When a proxy, or steps on it, are warned of. No record: judgements.

    Attributes
    ----------
    look_every : int
        Outer steps between two looks at whether proxy steps lower the loss that they step on.
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


PROBE = ProbePolicy()
