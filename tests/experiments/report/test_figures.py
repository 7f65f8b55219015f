from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from experiments.figures import draw_panels, save_figures
from experiments.report.figures import draw_curves, plot_svg, styles
from experiments.report.summary import summarise

Rows = list[dict[str, Any]]


def curves(ends: dict[str, float | None], metric: str = "suboptimality") -> Rows:
    """Return rows of methods that fall from 1 to their ends."""
    return [
        {"panel": "a", "method": method, "target_gradients": t, "seeds": 1}
        | {f"{metric}_{s}": end if t else 1.0 for s in ("median", "q25", "q75")}
        for method, end in ends.items()
        for t in range(2)
    ]


def drawn(rows: Rows, **options: Any) -> Any:
    """Return the axes with the curves of rows."""
    found = []

    def draw(axis: Any) -> None:
        found.append(axis)
        draw_curves(axis, rows, styles(rows), **options)

    plot_svg("t", "x", "y", draw)
    return found[0]


def test_files_for_every_axis_there_is(records: Rows, tmp_path: Path) -> None:
    few = [p for p in records if p["panel"] == "batch 256" and p["method"] != "SGD"]
    rows = summarise(few, costs=("proxy_gradients",))
    paths = save_figures(tmp_path, rows)
    names = [f"figure_{x}.{kind}" for x in ("target_gradients", "proxy_gradients")
             for kind in ("png", "svg")]  # fmt: skip
    assert [path.name for path in paths] == names
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert ET.parse(paths[1]).getroot().tag.endswith("svg")
    before = paths[1].read_bytes()
    free = [{**row, "proxy_gradients": 0} for row in rows]
    assert len(save_figures(tmp_path, free)) == 2
    assert paths[1].read_bytes() == before
    with pytest.raises(ValueError, match="rows"):
        draw_panels([])


def test_axes_fit_the_values() -> None:
    options = {"metric": "suboptimality", "x": "target_gradients"}
    # Rounding does not stretch the axis, and what is not positive has no logarithm.
    axis = drawn(curves({"SGD": 1e-3, "Newton": -1e-16}), **options)
    assert axis.get_yscale() == "log"
    assert 1e-4 < axis.get_ylim()[0] < 1e-3
    assert drawn(curves({"SGD": 0.5, "Adam": None}), **options).get_yscale() == "linear"
    nothing = [row for row in curves({"SGD": -1e-16}) if row["target_gradients"]]
    assert drawn(nothing, **options).get_yscale() == "linear"
    zero = [{**row, "target_gradients": 0} for row in nothing]
    assert drawn(zero, **options, log_x=True).get_xscale() == "linear"
    words = {"target_gradients": "passes"}
    axis = drawn(curves({"SGD": 0.9}, "accuracy"), **options | {"metric": "accuracy"}, labels=words)
    assert axis.get_xlabel() == "passes"
