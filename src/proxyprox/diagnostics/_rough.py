"""Which plans are rough, and why: the model they are made on does not hold all the way."""

from __future__ import annotations

from proxyprox.diagnostics._report import Audit

BENT = 0.4
"""Share by which H may change between start and end before the plan is said to be rough."""


def why_rough(audit: Audit, *, guaranteed: bool) -> list[str]:
    """Return the notes that say so; none where the plan is as good as plans are.

    Parameters
    ----------
    audit : Audit
        What the plan is made of.
    guaranteed : bool
        Whether it is the corollary's, which does without the quadratic model.
    """
    notes = []
    if audit.doubts:
        held = "its constants hold at the points visited only" if guaranteed else "this is rough"
        notes.append(
            f"The audit has its doubts (audit.doubts), and {held}: the run may need several times "
            "these steps, or few of them. minimize(..., safeguard=True) has SGD run along."
        )
    if audit.model.bend > BENT and not guaranteed:
        notes.append(
            f"H changes by {audit.model.bend:.0%} on the way: the quadratic model is rough, and "
            'the run may need several times these steps. eta="auto" finds its own way.'
        )
    return notes
