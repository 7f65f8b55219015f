"""Which way to use cheap data the held-out rows preferred, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

MEANINGS = {
    "labels alone": "The fit tends to the minimiser of the labels' loss L.",
    "fine-tuned": (
        "The fit to the labels is pulled towards the teacher's imitation: that bias vanishes as "
        "more labels weaken the pull."
    ),
    "mixed": (
        "The fit tends to the minimiser of {theta:.2g} L + {rest:.2g} L̂, not of the labels' loss "
        "L: that bias stays however many rows the teacher answers, and vanishes only as more "
        "labels move θ to 1."
    ),
    "corrected": (
        "The teacher's errors on the labelled rows are taken out of its answers on the others: "
        "the fit tends to the minimiser of the labels' loss L."
    ),
}


@dataclass(frozen=True)
class Choice:
    """Which way to use labels and a teacher's answers (or other data) the labels preferred.

    Attributes
    ----------
    way : str
        "labels alone", "fine-tuned", "mixed" or "corrected"; of networks also "target alone".
    weight : float
        θ in ``θ L + (1 − θ) L̂``, the loss that the fit tends to minimise: 1 is the labels' loss
        L, 0 the loss L̂ of the teacher's answers. NaN if it is not known.
    losses : dict of str to float
        Least held-out loss of each way that was tried; empty if nothing was held out.
    errors : dict of str to float
        Standard error of each one's difference to the chosen way, row by row; NaN if there are too
        few rows.
    meaning : str
        What the way means for the answer; by default the words for fits of tables.
    tables : str
        What each of several other tables was worth; empty if there was one or none.

    Examples
    --------
    >>> choice = Choice("mixed", 0.2, {"mixed": 0.3, "labels alone": 0.4},
    ...                 {"mixed": 0.0, "labels alone": 0.02})
    >>> print(str(choice).splitlines()[0])
    Mixed (θ = 0.2): held-out loss 0.3; labels alone +0.1 ± 0.02.
    """

    way: str
    weight: float
    losses: Mapping[str, float]
    errors: Mapping[str, float]
    meaning: str = ""
    tables: str = ""

    @property
    def rivals(self) -> list[str]:
        """The other ways whose held-out loss is within a standard error of the chosen one's."""
        gaps = {way: abs(loss - self.losses[self.way]) for way, loss in self.losses.items()}
        return [way for way, gap in gaps.items() if gap <= self.errors[way] and way != self.way]

    def __str__(self) -> str:
        """Return what was preferred, by how much, and what the bias means."""
        known = self.way == "mixed" and math.isfinite(self.weight)
        lines = [self.way.capitalize() + (f" (θ = {self.weight:.2g})." if known else ".")]
        if self.way in self.losses:
            others = [self._compare(way) for way in self.losses if way != self.way]
            parts = "; ".join([f"{self.losses[self.way]:.3g}", *others])
            lines = [f"{lines[0][:-1]}: held-out loss {parts}."]
        if self.rivals:
            lines.append(f"Within a standard error, so undecided: {', '.join(self.rivals)}.")
        words = {"theta": self.weight, "rest": 1 - self.weight}
        lines.append(self.meaning or MEANINGS[self.way].format(**words))
        return "\n".join([*lines, self.tables] if self.tables else lines)

    def _compare(self, way: str) -> str:
        """Return how far another way is behind."""
        gap, error = self.losses[way] - self.losses[self.way], self.errors[way]
        if not math.isfinite(gap):
            return f"{way} diverged"
        return f"{way} {gap:+.3g}" + ("" if math.isnan(error) else f" ± {error:.2g}")
