"""What a privacy officer signs: one page a fit."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from proxyprox import __version__
from proxyprox._util.text import printable
from proxyprox.private.accounting import MECHANISM, Guarantee


@dataclass(frozen=True)
class FitPage:
    """What one fit released and guarantees; printed it is a page, ``to_dict()`` is for JSON.

    Attributes
    ----------
    estimator, data, setting : str
        What was fitted, to which rows, and how it was planned.
    date, version : str
        When (UTC), and by which version of proxyprox.
    epsilon, delta, neighbours, accountant, sampling, private
        The guarantee, as in :class:`Guarantee`.
    mechanism : str
        What was released.
    releases : dict
        How many there are of each σ, noise over sensitivity.
    clip : float
        The largest norm of a row's gradient, in the metric.
    metric : str
        In which norm rows are clipped.
    n_nominal : int
        The public number that stands for that of the rows.
    budget, plan : str
        The budget that was charged, and the plan's name there.
    note : str
        What the guarantee does not cover.
    """

    estimator: str
    data: str
    setting: str
    date: str
    version: str
    epsilon: float
    delta: float
    neighbours: str
    accountant: str
    sampling: str
    private: bool
    mechanism: str
    releases: dict[str, int]
    clip: float
    metric: str
    n_nominal: int
    budget: str
    plan: str
    note: str

    @classmethod
    def of(
        cls, target: Any, guarantee: Guarantee, *, estimator: str, data: str | None, setting: str
    ) -> FitPage:
        """Return the page of what a mechanism has released."""
        place = target.budget.path
        return cls(
            estimator, data or "not named", setting,
            datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), __version__,
            guarantee.unseeded_epsilon, guarantee.delta, guarantee.neighbours,
            guarantee.accountant, guarantee.sampling, guarantee.private, MECHANISM,
            dict(Counter(f"{release.sigma:.6g}" for release in target.planned)), target.clip,
            repr(target.metric), target.n_nominal,
            f"{target.budget.id} in {'memory' if place is None else place}", target.name,
            guarantee.note,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the page as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        sigmas = ", ".join(f"{count} with σ = {sigma}" for sigma, count in self.releases.items())
        seeded = "" if self.private else "NOT PRIVATE (seeded noise); without the seed "
        lines = {
            "fit": f"{self.estimator} on {self.data}, {self.date}, proxyprox {self.version}",
            "cost": f"{seeded}ε = {self.epsilon:.4g} at δ = {self.delta:g}",
            "neighbours": f"{self.neighbours}; {self.accountant}, {self.sampling}",
            "mechanism": self.mechanism,
            "releases": sigmas,
            "clip": f"{self.clip:.6g} in the norm of: {self.metric}",
            "n_nominal": f"{self.n_nominal:,} (public)",
            "setting": self.setting,
            "budget": f"{self.budget}, plan {self.plan}",
            "note": self.note,
            "signed": "_" * 40,
        }
        return "\n".join(f"{name:11}{printable(text)}" for name, text in lines.items())
