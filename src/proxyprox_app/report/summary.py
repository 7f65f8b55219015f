"""Medians and quartiles over seeds, and what they say in sentences."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from proxyprox._util.files import atomic_write_text

Row = dict[str, Any]

ERM = "ERM on the rows seen"
"""The baseline without a proxy: fit the rows bought so far."""

BASELINES = ("SGD", "gradient descent", "heavy ball", "Nesterov", "Adam")
"""Methods without a proxy; the one that ends lowest is what others are compared with."""

LEDGER_FIELDS = (
    "target_samples",
    "proxy_gradients",
    "proxy_values",
    "proxy_hvps",
    "proxy_hessians",
    "seconds",
)
"""What a point carries of the ledger, besides the target gradients."""

ON_STEP_SIZE = "step_size_gradients"
"""Of the target gradients, those that ``eta="auto"`` spent on the step size alone."""

QUARTILES = ("median", "q25", "q75")
"""Endings of the fields that a summary has of its metric."""

LIMITS = ("low", "high")
"""Endings of its confidence limits."""

CONFIDENCE = 0.95
"""With which the limits of all medians of a panel hold at once, where the seeds suffice."""

_DIVERGED = 1e300


def median_limits(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return two of the values between which the median lies, whatever the distribution.

    The narrowest pair of order statistics with this confidence; if there are too few values for
    it, the least and the largest, which hold the median with probability ``1 − 2^(1−n)``.

    Examples
    --------
    >>> median_limits([3.0, 1.0, 2.0, 9.0, 5.0, 4.0, 7.0, 8.0], 0.9)
    (2.0, 8.0)
    """
    ordered, out = sorted(values), 0
    n = len(ordered)
    while 2 * sum(math.comb(n, k) for k in range(out + 2)) <= (1 - confidence) * 2**n:
        out += 1
    return ordered[out], ordered[n - 1 - out]


def joint_confidence(seeds: int, intervals: int) -> float:
    """Return the least confidence with which this many limits of medians hold at once.

    Examples
    --------
    >>> joint_confidence(8, 5), joint_confidence(5, 4), joint_confidence(3, 4)
    (0.95, 0.75, 0.0)
    """
    return min(CONFIDENCE, max(0.0, 1 - intervals * 2.0 ** (1 - seeds)))


def summarise(
    records: Iterable[Mapping[str, Any]],
    *,
    metric: str = "suboptimality",
    x: str = "target_gradients",
    group: Sequence[str] = ("panel", "method"),
    constant: Sequence[str] = ("batch_size", "eta"),
    costs: Sequence[str] = ("proxy_gradients", "seconds"),
) -> list[Row]:
    """Reduce points to one row for each group and value of `x`.

    Parameters
    ----------
    records : iterable of mappings
        Points of one or more seeds.
    metric : str
        Field to take the median and the quartiles of. None, a diverged run, counts as infinite.
    x : str
        Field that says when a point was taken.
    group : sequence of str
        Fields that name a curve; curves keep the order in which they first appear.
    constant : sequence of str
        Fields that must be the same all along a curve and are repeated in its rows.
    costs : sequence of str
        Fields of which the median over seeds is carried along.

    Returns
    -------
    rows : list of dict
        Fields of `group`, `constant`, `x`, ``<metric>_median``, ``<metric>_q25``,
        ``<metric>_q75``, its confidence limits ``<metric>_low`` and ``<metric>_high`` (at
        :data:`CONFIDENCE` for all methods of a panel at once, by :func:`median_limits`), `costs`,
        and ``seeds``, the number of points behind the row. A statistic
        that is not finite is None.

    Raises
    ------
    ValueError
        When a field of `constant` varies along a curve.

    Examples
    --------
    >>> records = [
    ...     {"panel": "a", "method": "SGD", "t": 1, "seed": s, "loss": v}
    ...     for s, v in enumerate([1.0, 2.0, 4.0])
    ... ]
    >>> summarise(records, metric="loss", x="t", constant=(), costs=())[0]["loss_median"]
    2.0
    """
    curves: dict[tuple[Any, ...], dict[Any, list[Mapping[str, Any]]]] = {}
    for point in records:
        name = tuple(point[field] for field in group)
        curves.setdefault(name, {}).setdefault(point[x], []).append(point)
    rows: list[Row] = []
    shared = group.index("panel") if "panel" in group else None
    panel_of = {name: None if shared is None else name[shared] for name in curves}
    methods = Counter(panel_of.values())
    for name, by_x in curves.items():
        fixed: Row = dict(zip(group, name, strict=True))
        for field in constant:
            values = {point.get(field): None for points in by_x.values() for point in points}
            if len(values) > 1:
                text = f"the points of {', '.join(map(str, name))} hold {len(values)} values of "
                raise ValueError(f"{text}{field!r}: pass those of one, or name it in group.")
            fixed[field] = next(iter(values))
        for at, points in sorted(by_x.items()):
            found = [_DIVERGED if p[metric] is None else float(p[metric]) for p in points]
            row = {**fixed, x: at}
            for suffix, value in zip(QUARTILES, np.quantile(found, (0.5, 0.25, 0.75)), strict=True):
                row[f"{metric}_{suffix}"] = float(value) if value < 1e-6 * _DIVERGED else None
            # Bonferroni: the limits of all methods of a panel hold at once.
            limits = median_limits(found, 1 - (1 - CONFIDENCE) / methods[panel_of[name]])
            for suffix, value in zip(LIMITS, limits, strict=True):
                row[f"{metric}_{suffix}"] = value if value < 1e-6 * _DIVERGED else None
            for cost in costs:
                known = [p[cost] for p in points if p.get(cost) is not None]
                row[cost] = median(known) if known else None
            rows.append({**row, "seeds": len(points)})
    return rows


def last_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the last row of each panel and method."""
    return list({(row["panel"], row["method"]): dict(row) for row in rows}.values())


def method_costs(
    records: Iterable[Mapping[str, Any]], tuning: Mapping[tuple[str, str], int]
) -> list[Row]:
    """Return what a whole run of each method spent: medians over seeds at its last point.

    ``tuning_gradients`` are the target gradients of its grid runs, on top of a run's own;
    ``step_size_gradients``, where the step size was measured on the way, those among a run's own.
    """
    fields = ("panel", "method", "target_gradients", *LEDGER_FIELDS, ON_STEP_SIZE)
    rows = summarise(records, metric="target_gradients", constant=(), costs=fields[3:])
    return [
        {name: end[name] for name in fields}
        | {"tuning_gradients": tuning.get((end["panel"], end["method"]), 0)}
        for end in last_rows(rows)
    ]


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write JSON values, laid out for a reader."""
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    atomic_write_text(path, text + "\n")


def panels(
    rows: Sequence[Mapping[str, Any]], step_sizes: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return, panel by panel, where each method ended and what it took to match the baseline.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    step_sizes : sequence of mappings
        More fields by panel and method.
    """
    sizes = {(row["panel"], row["method"]): row for row in step_sizes}
    ends, found = last_rows(rows), []
    for panel in dict.fromkeys(end["panel"] for end in ends):
        methods = [dict(end) for end in ends if end["panel"] == panel]
        rivals = [end for end in methods if end["method"] in BASELINES]
        base: Row = min(rivals, key=_end, default={})
        level = base.get("suboptimality_median")
        for end in methods:
            curve = (row for row in rows if (row["panel"], row["method"]) == (panel, end["method"]))
            lows = ((row, row["suboptimality_median"]) for row in curve if level is not None)
            hit = next((row for row, low in lows if low is not None and low <= level), {})
            end |= sizes.get((panel, end["method"]), {})
            del end["panel"]
            for kind in ("target_gradients", "proxy_gradients"):
                end[f"{kind}_to_level"] = hit.get(kind)
        baseline = base.get("method")
        found.append({"panel": panel, "baseline": baseline, "level": level, "methods": methods})
    return found


def _end(row: Mapping[str, Any]) -> float:
    low = row["suboptimality_median"]
    return float("inf") if low is None else float(low)


def sentences(rows: Sequence[Mapping[str, Any]], *, main: str | None = None) -> list[str]:
    """Return a few sentences for each panel: a method against the best rival and against ERM.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    main : str, optional
        The method to speak of; by default the best ProxyProx of the panel.
    """
    texts = []
    for panel in panels(rows):
        name, base, level = panel["panel"], panel["baseline"], panel["level"]
        ends = {end["method"]: end for end in panel["methods"]}
        lows = {method: end["suboptimality_median"] for method, end in ends.items()}
        ours = [
            (low, method)
            for method, low in lows.items()
            if low is not None and (method == main if main else method.startswith("ProxyProx"))
        ]
        if not ours:
            continue
        low, best = min(ours, key=lambda pair: pair[0])
        budget = max(end["target_gradients"] for end in ends.values())
        text = f"{name[:1].upper()}{name[1:]}: after {budget:,} target gradients, “{best}” is "
        text += height(low)
        if base not in (None, best):
            text += f"; {base} " + ("broke off" if level is None else f"is {height(level)}")
        if (hit := ends[best]["target_gradients_to_level"]) is not None and base != best:
            text += (
                f". It got as low as {base}'s end with {hit:,} target gradients "
                f"({base}: {ends[base]['target_gradients_to_level']:,}) and "
                f"{ends[best]['proxy_gradients_to_level']:,.0f} proxy gradients"
            )
        if (fitted := lows.get(ERM)) is not None:
            text += f". Fitting the rows seen by then, without any proxy, gives {fitted:.2g}"
        if len(ours) > 1:
            text += f". The ProxyProx named is the best of {len(ours)}"
        text += "."
        texts.append(text)
    return texts


def height(value: float) -> str:
    """Return a suboptimality in words."""
    # A reference solved to rounding error can lie above an answer by as much.
    return "at the optimum to rounding" if value <= 0 else f"{value:.2g} above the optimum"
