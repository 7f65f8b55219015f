"""The answers of the first final runs on one's own data, and whose weights are written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxyprox import Result
from proxyprox._arrays import Vector
from proxyprox._files import atomic_write_text
from proxyprox.experiments.tournament import Job


def fit_file(folder: Path, method: str, *, main: bool) -> Path:
    """Return where a method's answer is kept, beside the records."""
    words = re.sub(r"[^a-z0-9]+", "-", method.lower()).strip("-")
    return folder / ("fit.json" if main else f"fit-{words}.json")


def keep_result(path: Path, job: Job, result: Result, suboptimality: float) -> None:
    """Write the answer of a run.

    Parameters
    ----------
    path : Path
        The file.
    job : Job
        What was run.
    result : Result
        What came out.
    suboptimality : float
        Of the answer.
    """
    _write(
        path,
        job,
        result.w,
        suboptimality,
        status=result.status.name,
        success=result.success,
        message=result.message,
        steps=result.steps,
        ledger=result.ledger.as_dict(),
        inner=result.inner,
    )


def keep_rows_seen(
    path: Path, job: Job, w: Vector, suboptimality: float, ledger: Mapping[str, float]
) -> None:
    """Write the answer of the yardstick, which has no step size and no steps."""
    rows = f"{ledger['target_samples']:,.0f} rows drawn"
    _write(
        path,
        job,
        w,
        suboptimality,
        status="CONVERGED",
        success=True,
        message=f"The {rows}, repetitions counted, were fitted without a proxy.",
        steps=0,
        ledger=dict(ledger),
        inner="",
    )


def whose(main: str, wanted: str, ends: Sequence[Mapping[str, Any]]) -> tuple[str, str, str]:
    """Return whose weights are written, which method ended lowest, and both in a sentence.

    Parameters
    ----------
    main : str
        The configuration's own method.
    wanted : {"method", "lowest"}
        ``[run] weights``.
    ends : sequence of mappings
        Last row of each method: its name, its batch size (None for all rows) and its median
        suboptimality (None if it diverged).
    """
    known = {e["method"]: float(e["suboptimality_median"]) for e in ends if _arrived(e)}
    lowest = min(known, key=lambda name: known[name], default=main)
    # Of several that ended equally low, one's own.
    if main in known and known[main] <= known[lowest]:
        lowest = main
    chosen = lowest if wanted == "lowest" else main
    if len(ends) < 2 or not known:
        return chosen, lowest, f"The weights written are those of {main}."
    said = f"{lowest} ended lowest, {_height(known[lowest])}"
    if lowest != main:
        said += f" ({main}: {_height(known[main]) if main in known else 'broke off'})"
        sizes = {end["method"]: end.get("batch_size") for end in ends}
        if sizes[lowest] is None and sizes.get(main) is not None:
            said += f", with gradients of all rows where {main}'s are of {sizes[main]}"
    if chosen == lowest:
        return chosen, lowest, f"{said}; the weights written are its own."
    hint = f'[run] weights = "lowest" writes those of {lowest}.'
    return chosen, lowest, f"{said}; the weights written are those of {main}. {hint}"


def _arrived(end: Mapping[str, Any]) -> bool:
    return end["suboptimality_median"] is not None


def _height(value: float) -> str:
    return "at the optimum to rounding" if value <= 0 else f"{value:.1e} above the optimum"


def _write(path: Path, job: Job, w: Vector, suboptimality: float, **more: Any) -> None:
    content = {
        "method": job.method,
        "eta": job.eta,
        "suboptimality": suboptimality if math.isfinite(suboptimality) else None,
        **more,
        "w": [float(x) for x in w],
    }
    atomic_write_text(path, json.dumps(content, allow_nan=False) + "\n")
