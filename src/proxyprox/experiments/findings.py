"""What the numbers say, in sentences: composed from the rows, never written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxyprox.experiments.contenders import ERM
from proxyprox.experiments.summary import Row, end_points, first_reaching

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
