"""The outcome of a tournament as a table for people and as data for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from proxyprox.cli._console import say


def panels(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, panel by panel, where each method ended and what it took to match the baseline.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    """
    from proxyprox.experiments import findings
    from proxyprox.experiments.summary import end_points

    reached = {(row["panel"], row["method"]): row for row in findings.to_reach(rows)}
    found: dict[str, dict[str, Any]] = {}
    for end in end_points(rows):
        name = (end["panel"], end["method"])
        hit = reached.get(name, {})
        panel = found.setdefault(
            end["panel"],
            {"panel": end["panel"], "baseline": None, "level": hit.get("level"), "methods": []},
        )
        if end["method"] in findings.BASELINES:
            panel["baseline"] = end["method"]
        panel["methods"].append(
            {
                **{key: value for key, value in end.items() if key != "panel"},
                "target_gradients_to_level": hit.get("target_gradients"),
                "proxy_gradients_to_level": hit.get("proxy_gradients"),
            }
        )
    return list(found.values())


def closer_than(
    method: str, ends: Sequence[Mapping[str, Any]], times: float = 2.0
) -> Mapping[str, Any] | None:
    """Return the method that ended closest to the optimum, if `times` closer than the one named.

    Parameters
    ----------
    method : str
        The method to beat.
    ends : sequence of mappings
        Methods of a panel.
    times : float
        Differences by less are not worth a word.
    """
    known = [end for end in ends if end["suboptimality_median"] is not None]
    best = min(known, key=lambda end: float(end["suboptimality_median"]), default=None)
    ours = next((end for end in known if end["method"] == method), None)
    if best is None or best["method"] == method:
        return None
    if ours is None or ours["suboptimality_median"] > times * best["suboptimality_median"]:
        return best
    return None


def print_panels(console: Console, found: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each panel.

    Parameters
    ----------
    console : Console
        Where to.
    found : sequence of mappings
        What :func:`panels` returns.
    """
    for panel in found:
        name = str(panel["panel"])
        console.print()
        say(console, f"{name[:1].upper()}{name[1:]}", style="bold")
        for line in _table(panel):
            console.print(line, soft_wrap=True)


def _table(panel: Mapping[str, Any]) -> Iterator[Text]:
    """Lay the table out by hand: two headings span several columns."""
    methods, level = panel["methods"], panel["level"]
    width = max(20, *(len(method["method"]) for method in methods))
    reach = f"to reach {level:.1e}" if level is not None else ""
    after = f"after {methods[0]['target_gradients']:,} target gradients"
    yield Text(f"{'':{width}}  {reach:>17}  {after:>27}".rstrip(), style="dim")
    pair = ("target", "proxy") if reach else ("", "")
    yield Text(
        f"{'method':{width}}  {pair[0]:>8} {pair[1]:>8}  {'above opt.':>10} {'proxy':>8} "
        f"{'seconds':>7}",
        style="dim",
    )
    ends = [method["suboptimality_median"] for method in methods]
    best = min((end for end in ends if end is not None), default=None)
    for method, end in zip(methods, ends, strict=True):
        hit, cost = method["target_gradients_to_level"], method["proxy_gradients_to_level"]
        first = end is not None and end == best
        reached = ("" if level is None else "never") if hit is None else f"{hit:,}"
        yield Text(
            f"{method['method']:{width}}  {reached:>8} {_count(cost):>8}  "
            f"{'diverged' if end is None else f'{end:.1e}':>10}{'*' if first else ' '}"
            f"{_count(method['proxy_gradients']):>8} {method['seconds']:>7.2g}",
            style="bold" if first else "",
        )


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
