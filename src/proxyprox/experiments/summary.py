"""Medians and quartiles over seeds, and what they say in sentences."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from proxyprox._util.files import atomic_write_text
from proxyprox.experiments.contest import ERM

Row = dict[str, Any]


def summarise(
    records: Iterable[Mapping[str, Any]],
    *,
    metric: str = "suboptimality",
    x: str = "target_gradients",
    group: Sequence[str] = ("panel", "method"),
    constant: Sequence[str] = ("batch_size", "eta"),
    costs: Sequence[str] = ("proxy_gradients", "seconds"),
    missing: float = math.inf,
) -> list[Row]:
    """Reduce points to one row for each group and value of `x`.

    Parameters
    ----------
    records : iterable of mappings
        Points of one or more seeds.
    metric : str
        Field to take the median and the quartiles of.
    x : str
        Field that says when a point was taken.
    group : sequence of str
        Fields that name a curve; curves keep the order in which they first appear.
    constant : sequence of str
        Fields that must be the same all along a curve and are repeated in its rows.
    costs : sequence of str
        Fields of which the median over seeds is carried along.
    missing : float
        Stands in for a metric recorded as None, i.e. a diverged run: ``inf`` where less is
        better, ``-inf`` where more is.

    Returns
    -------
    rows : list of dict
        Fields of `group`, `constant`, `x`, ``<metric>_median``, ``<metric>_q25``,
        ``<metric>_q75``, `costs`, and ``seeds``, the number of points behind the row. A statistic
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
    for name, by_x in curves.items():
        shared = _shared(name, group, constant, by_x.values())
        for value in sorted(by_x):
            points = by_x[value]
            sample = sorted(missing if p[metric] is None else float(p[metric]) for p in points)
            row: Row = {**dict(zip(group, name, strict=True)), **shared, x: value}
            for suffix, level in (("median", 0.5), ("q25", 0.25), ("q75", 0.75)):
                row[f"{metric}_{suffix}"] = _finite(_quantile(sample, level))
            for cost in costs:
                known = [p[cost] for p in points if p.get(cost) is not None]
                row[cost] = median(known) if known else None
            rows.append({**row, "seeds": len(points)})
    return rows


def end_points(rows: Iterable[Mapping[str, Any]], *, x: str = "target_gradients") -> list[Row]:
    """Return the last row of each panel and method.

    Parameters
    ----------
    rows : iterable of mappings
        Rows of `summarise`.
    x : str
        Field that says which row is last.
    """
    last: dict[tuple[Any, Any], Row] = {}
    for row in rows:
        curve = (row["panel"], row["method"])
        if curve not in last or row[x] >= last[curve][x]:
            last[curve] = dict(row)
    return list(last.values())


def first_reaching(
    rows: Iterable[Mapping[str, Any]],
    level: float,
    *,
    metric: str = "suboptimality",
    x: str = "target_gradients",
    larger_is_better: bool = False,
) -> dict[tuple[str, str], Row | None]:
    """Find, for each panel and method, the first row whose median is at least as good as `level`.

    Parameters
    ----------
    rows : iterable of mappings
        Rows of `summarise`.
    level : float
        Value to reach.
    metric, x : str
        Fields of the rows.
    larger_is_better : bool
        True for an accuracy.

    Returns
    -------
    reached : dict
        By (panel, method): the row, or None if the level was never reached.
    """
    sign = -1.0 if larger_is_better else 1.0
    reached: dict[tuple[str, str], Row | None] = {}
    for row in sorted(rows, key=lambda row: row[x]):
        curve = (row["panel"], row["method"])
        value = row[f"{metric}_median"]
        good = value is not None and sign * value <= sign * level
        if reached.setdefault(curve, None) is None and good:
            reached[curve] = dict(row)
    return reached


def write_summary(
    path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]], **extra: Any
) -> None:
    """Write ``summary.json``: ``{"rows": […]}`` and whatever else is passed by name.

    Parameters
    ----------
    path : path-like
        Final name.
    rows : sequence of mappings
        Rows of `summarise`.
    **extra
        Further JSON values.
    """
    content = {**extra, "rows": [dict(row) for row in rows]}
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    atomic_write_text(path, text + "\n")


def read_summary(path: str | os.PathLike[str]) -> list[Row]:
    """Read the rows of a ``summary.json``.

    Parameters
    ----------
    path : path-like
        The file.
    """
    rows: list[Row] = json.loads(Path(path).read_text(encoding="utf-8"))["rows"]
    return rows


def _shared(
    name: tuple[Any, ...],
    group: Sequence[str],
    constant: Sequence[str],
    points: Iterable[list[Mapping[str, Any]]],
) -> Row:
    flat = [point for some in points for point in some]
    shared: Row = {}
    for field in constant:
        values = list(dict.fromkeys(point.get(field) for point in flat))
        if len(values) > 1:
            curve = ", ".join(f"{key} {value!r}" for key, value in zip(group, name, strict=True))
            raise ValueError(
                f"the points of {curve} hold {len(values)} values of {field!r} "
                f"({', '.join(map(repr, values[:4]))}…): pass the records of one of them, or name "
                f"{field!r} in group."
            )
        shared[field] = values[0]
    return shared


def _quantile(ordered: Sequence[float], level: float) -> float:
    """Interpolate linearly between order statistics; safe with infinities, unlike NumPy's."""
    position = level * (len(ordered) - 1)
    low = math.floor(position)
    share = position - low
    if share == 0 or ordered[low] == ordered[low + 1]:
        return ordered[low]
    if math.isinf(ordered[low]) or math.isinf(ordered[low + 1]):
        return ordered[low] if math.isinf(ordered[low]) else ordered[low + 1]
    return ordered[low] * (1 - share) + ordered[low + 1] * share


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


BASELINES = ("SGD", "gradient descent")


def sentences(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str = "suboptimality",
    main: str | None = None,
) -> list[str]:
    """Return a few sentences for each panel: a method against the baseline and the yardstick.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    metric : str
        What is compared; less is better.
    main : str, optional
        The method to speak of; by default the best ProxyProx of the panel.
    """
    said = []
    last = end_points(rows)
    for panel in dict.fromkeys(row["panel"] for row in last):
        here = {row["method"]: row for row in last if row["panel"] == panel}
        ours = [
            row
            for name, row in here.items()
            if (name == main if main else name.startswith("ProxyProx"))
            and _value(row, metric) is not None
        ]
        if not ours:
            continue
        best = min(ours, key=lambda row: float(row[f"{metric}_median"]))
        base = next((here[name] for name in BASELINES if name in here), None)
        about = _about(panel, best, base, here.get(ERM), rows, metric)
        said.append(" ".join([*about, *_variants(ours, best, metric)]))
    return said


def to_reach(rows: Sequence[Mapping[str, Any]], *, metric: str = "suboptimality") -> list[Row]:
    """Return, for each panel and method, what it took to get as low as the baseline's end.

    The level is the baseline's median at the end of its budget; None means never reached.
    """
    table: list[Row] = []
    for base in end_points(rows):
        if base["method"] not in BASELINES or _value(base, metric) is None:
            continue
        level = float(base[f"{metric}_median"])
        reached = first_reaching(rows, level, metric=metric)
        for (panel, method), row in reached.items():
            if panel == base["panel"]:
                spent = {
                    name: None if row is None else row[name]
                    for name in ("target_gradients", "proxy_gradients", "seconds")
                }
                table.append({"panel": panel, "method": method, "level": level, **spent})
    return table


def _about(
    panel: str,
    best: Mapping[str, Any],
    base: Mapping[str, Any] | None,
    yardstick: Mapping[str, Any] | None,
    rows: Sequence[Mapping[str, Any]],
    metric: str,
) -> list[str]:
    name, low, budget = best["method"], float(best[f"{metric}_median"]), best["target_gradients"]
    said = [
        f"{panel[:1].upper()}{panel[1:]}: after {budget:,} target gradients, “{name}” is "
        f"{_height(low)}"
    ]
    if base is not None and base is not best and base["method"] != name:
        said[0] += f"; {base['method']} {_compared(low, _value(base, metric))}."
        said += _shortcut(panel, best, base, rows, metric)
    else:
        said[0] += "."
    fitted = None if yardstick is None else _value(yardstick, metric)
    if fitted is not None:
        said.append(f"Fitting the rows seen by then, without any proxy, gives {_plain(fitted)}.")
    return said


def _variants(ours: Sequence[Mapping[str, Any]], best: Mapping[str, Any], metric: str) -> list[str]:
    """Say how the variants fared that were not the best: it was picked by its result."""
    others = sorted(float(row[f"{metric}_median"]) for row in ours if row is not best)
    if not others:
        return []
    ends = _plain(others[0]) if len(others) == 1 else f"{_plain(others[0])} to {_plain(others[-1])}"
    return [f"The ProxyProx named is the best of {len(ours)}; the rest end at {ends}."]


def _shortcut(
    panel: str,
    best: Mapping[str, Any],
    base: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    metric: str,
) -> list[str]:
    """Say what it took to get where the baseline ends."""
    level = _value(base, metric)
    if level is None:
        return []
    reached = first_reaching(rows, level, metric=metric)
    hit, own = reached[panel, best["method"]], reached[panel, base["method"]]
    if hit is None:
        return []
    itself = f" ({base['method']}: {own['target_gradients']:,})" if own is not None else ""
    return [
        f"It got as low as {base['method']}'s end with {hit['target_gradients']:,} target "
        f"gradients{itself} and {hit['proxy_gradients']:,.0f} proxy gradients."
    ]


def _compared(low: float, high: float | None) -> str:
    if high is None:
        return "broke off"
    if low <= 0 or high <= 0:
        return f"is {_height(high)}"
    ratio = high / low
    if ratio < 1:
        return f"is closer, {_plain(high)} above it"
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
    return f"is {_plain(high)} above it, {times} times as far"


def _height(value: float) -> str:
    # A reference solved to rounding error can lie above an answer by as much.
    return "at the optimum to rounding" if value <= 0 else f"{_plain(value)} above the optimum"


def _plain(value: float) -> str:
    return f"{value:.2g}"


def _value(row: Mapping[str, Any], metric: str) -> float | None:
    value = row[f"{metric}_median"]
    return None if value is None else float(value)
