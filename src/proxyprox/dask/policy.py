"""What passes over a cluster judge by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterPolicy:
    """How much is fetched from a cluster, and how its work is divided.

    Attributes
    ----------
    rows : int
        Rows, or distinct labels, that are fetched at most: of more labelled rows a sample is, and
        all are fitted where they are. No record: a judgement of memory.
    fan_in : int
        Results that one task adds up, and tasks for each thread. Set by
        docs/results/scale/report.md.
    reading : float
        Nanoseconds of reading one number from a file, about. Set by docs/results/scale/report.md.
    """

    rows: int = 100_000
    fan_in: int = 8
    reading: float = 3.0


CLUSTER = ClusterPolicy()
