"""The outcome of a tournament as a table for people and as data for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from proxyprox.cli._console import plain, say


def panels(
    rows: Sequence[Mapping[str, Any]], step_sizes: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return, panel by panel, where each method ended and what it took to match the baseline.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    step_sizes : sequence of mappings
        What the step sizes cost, as ``publish.step_size_rows`` returns it.
    """
    from proxyprox.experiments import findings
    from proxyprox.experiments.summary import end_points

    reached = {(row["panel"], row["method"]): row for row in findings.to_reach(rows)}
    sizes = {(row["panel"], row["method"]): row for row in step_sizes}
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
                **{key: value for key, value in sizes.get(name, {}).items() if key != "panel"},
                "target_gradients_to_level": hit.get("target_gradients"),
                "proxy_gradients_to_level": hit.get("proxy_gradients"),
            }
        )
    return list(found.values())


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
    spent = [_on_step_size(method) for method in methods]
    alike = len({text for text in spent if text}) < 2
    yield Text(
        f"{'method':{width}}  {pair[0]:>8} {pair[1]:>8}  {'above opt.':>10} {'proxy':>8} "
        f"{'seconds':>7} {'' if alike else 'on eta':>8}".rstrip(),
        style="dim",
    )
    ends = [method["suboptimality_median"] for method in methods]
    best = min((end for end in ends if end is not None), default=None)
    for method, end, on_eta in zip(methods, ends, spent, strict=True):
        hit, cost = method["target_gradients_to_level"], method["proxy_gradients_to_level"]
        first = end is not None and end == best
        reached = ("" if level is None else "never") if hit is None else f"{hit:,}"
        yield plain(
            f"{method['method']:{width}}  {reached:>8} {_count(cost):>8}  "
            f"{'diverged' if end is None else f'{end:.1e}':>10}{'*' if first else ' '}"
            f"{_count(method['proxy_gradients']):>8} {method['seconds']:>7.2g} "
            f"{'' if alike else on_eta:>8}".rstrip(),
            "bold" if first else "",
        )
    if alike and any(spent):
        yield Text(f"on eta: {max(spent)} each", style="dim")


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _on_step_size(method: Mapping[str, Any]) -> str:
    """Return the target gradients spent on the step size: + on top, ( ) among the run's own."""
    before, within = method.get("tuning_gradients"), method.get("step_size_gradients")
    if within is not None:
        return f"({within:,.0f})"
    return f"+{before:,}" if before else ""
