"""What the numbers say, in sentences: composed from the rows, never written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxyprox.experiments.summary import Row, end_points, first_reaching

BASELINES = ("SGD", "gradient descent")


def sentences(rows: Sequence[Mapping[str, Any]], *, metric: str = "suboptimality") -> list[str]:
    """Return one sentence for each panel: the best method against the proxy-free baseline."""
    said = []
    last = end_points(rows)
    for panel in dict.fromkeys(row["panel"] for row in last):
        here = [row for row in last if row["panel"] == panel]
        base = next((row for row in here if row["method"] in BASELINES), None)
        ours = [r for r in here if r["method"].startswith("ProxyProx") and _value(r, metric)]
        if base is None or not ours or not _value(base, metric):
            continue
        best = min(ours, key=lambda row: _value(row, metric) or 0.0)
        said.append(_sentence(panel, base, best, rows, metric))
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


def _sentence(
    panel: str,
    base: Mapping[str, Any],
    best: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    metric: str,
) -> str:
    low, high = float(best[f"{metric}_median"]), float(base[f"{metric}_median"])
    budget = base["target_gradients"]
    text = (
        f"{panel.capitalize()}: after {budget:,} target gradients {best['method']} stands at "
        f"{low:.2g} above the optimum and {base['method']} at {high:.2g}, "
        f"{high / low:.3g} times as much"
    )
    hit = first_reaching(rows, high, metric=metric)[panel, best["method"]]
    if hit is not None:
        text += (
            f"; it needed {hit['target_gradients']:,} target gradients (and "
            f"{hit['proxy_gradients']:,.0f} of the proxy) to get as low as {base['method']}'s end"
        )
    return text + "."


def _value(row: Mapping[str, Any], metric: str) -> float | None:
    value = row[f"{metric}_median"]
    return None if value is None else float(value)
