"""Medians and quartiles over seeds, and the facts of the machine they were made on."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np

from proxyprox._util.arrays import core_count
from proxyprox._util.files import atomic_write_text

Row = dict[str, Any]
Point: TypeAlias = dict[str, Any]

_PACKAGES = ("proxyprox", "numpy", "scipy", "scikit-learn", "torch", "matplotlib")

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


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write JSON values, laid out for a reader."""
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    atomic_write_text(path, text + "\n")


def flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings with dots in their names."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from flat(value, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, tree


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed.

    Examples
    --------
    >>> sorted(versions())[0]
    'Python'
    """
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def machine() -> dict[str, str]:
    """Return processor, cores and system; no host name, no user name.

    Examples
    --------
    >>> list(machine())
    ['processor', 'cores', 'system']
    """
    text = ""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE | re.IGNORECASE)
    return {
        "processor": named[1] if named else platform.processor() or "unknown",
        "cores": str(core_count()),
        "system": f"{platform.system()} {platform.machine()}",
    }


def without_home(text: str) -> str:
    """Replace the user's home folder at the start of a word by ``~``.

    Examples
    --------
    >>> without_home(f"proxyprox demo --out {Path.home()}/runs")
    'proxyprox demo --out ~/runs'
    """
    return re.sub(rf"(^|\s){re.escape(str(Path.home()))}(?=[/\\]|\s|$)", r"\1~", text)
