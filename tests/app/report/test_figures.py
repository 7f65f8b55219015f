from __future__ import annotations

import importlib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from proxyprox._util.extras import MissingExtraError
from proxyprox_app.report.figures import draw_panels, save_figures, styles
from proxyprox_app.report.summary import summarise


@pytest.fixture
def few(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one panel of two methods, quickly drawn."""
    names = ("SGD", "ProxyProx, exact")
    return [p for p in records if p["panel"] == "batch 256" and p["method"] in names]


def test_files_for_every_axis_there_is(few: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = summarise(few, costs=("proxy_gradients",))
    paths = save_figures(tmp_path, rows)
    assert [path.name for path in paths] == [
        "figure_target_gradients.png",
        "figure_target_gradients.svg",
        "figure_proxy_gradients.png",
        "figure_proxy_gradients.svg",
    ]
    for path in paths[::2]:
        assert path.read_bytes().startswith(b"\x89PNG")
    assert ET.parse(paths[1]).getroot().tag.endswith("svg")
    before = paths[1].read_bytes()
    save_figures(tmp_path, rows, x_axes=["target_gradients"])
    assert paths[1].read_bytes() == before


def test_figure_says_what_it_shows(records: list[dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib")
    rows = summarise(records)
    figure = draw_panels(rows)
    axes = figure.get_axes()
    assert [axis.get_title() for axis in axes] == list(dict.fromkeys(r["panel"] for r in rows))
    assert axes[0].get_xlabel() == "target gradients (minibatches)"
    assert axes[0].get_ylabel() == "suboptimality L(w) − L*"
    assert axes[0].get_yscale() == "log"
    lines = axes[0].get_lines()
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(lines) == 8
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 8


def test_a_method_off_the_axis_is_named_in_the_legend(records: list[dict[str, Any]]) -> None:
    pytest.importorskip("matplotlib")
    figure = draw_panels(summarise(records), x="proxy_gradients", log_x=True)
    assert figure.legends[0].get_texts()[0].get_text() == "SGD (no proxy gradients)"


def test_many_methods_are_named_at_their_ends_and_rounding_leaves_the_axis() -> None:
    pytest.importorskip("matplotlib")
    rows = [
        {"panel": "a", "method": f"method {j}", "target_gradients": i, "seeds": 1}
        | {f"suboptimality_{s}": end if i else 1.0 for s in ("median", "q25", "q75")}
        for j, end in enumerate([1e-3] * 9 + [-1e-16])
        for i in range(2)
    ]
    figure = draw_panels(rows)
    (axis,) = figure.get_axes()
    assert not figure.legends
    places = {text.get_text(): text.xyann[1] for text in axis.texts}
    assert set(places) == {f"method {j}" for j in range(10)}
    gaps = [
        b - a for a, b in zip(sorted(places.values()), sorted(places.values())[1:], strict=False)
    ]
    assert min(gaps) > 0.05
    assert min(places, key=places.__getitem__) == "method 9"
    assert 1e-4 < axis.get_ylim()[0] < 1e-3


def test_axes_with_nothing_positive(few: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    free = [{**point, "proxy_gradients": 0} for point in few]
    paths = save_figures(tmp_path, summarise(free, costs=("proxy_gradients",)))
    assert {path.stem for path in paths} == {"figure_target_gradients"}
    solved = [{**point, "suboptimality": -1e-16} for point in few]
    assert save_figures(tmp_path, summarise(solved, costs=("proxy_gradients",)))


def test_another_metric_with_gaps(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [
        {
            "panel": "CIFAR-10",
            "method": "SGD",
            "passes": i,
            "test_accuracy_median": None if i == 1 else i / 5,
            "test_accuracy_q25": i / 6,
            "test_accuracy_q75": i / 4,
        }
        for i in range(4)
    ]
    words = {"passes": "passes over the target data"}
    figure = draw_panels(rows, metric="test_accuracy", x="passes", labels=words)
    (axis,) = figure.get_axes()
    assert axis.get_xlabel() == "passes over the target data"
    assert axis.get_ylabel() == "test accuracy"
    assert axis.get_yscale() == "log"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_method_has_one_colour_that_shows_on_white_and_on_dark() -> None:
    names = ["SGD", "Adam", "ProxyProx", "L-BFGS", "Newton", "ERM on the rows seen", "mixed", "?"]
    both = styles({"method": name} for name in [*names, "DANE", "AuxMom", "AuxMVR"])
    backwards = styles({"method": name} for name in names[::-1])
    assert [both[n].colour for n in names[:-1]] == [backwards[n].colour for n in names[:-1]]
    assert len({look.colour for look in both.values()}) == len(both)
    for look in both.values():
        for paper in ("#ffffff", "#16191f"):
            low, high = sorted((luminance(look.colour), luminance(paper)))
            assert (high + 0.05) / (low + 0.05) >= 3, (look.colour, paper)


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="rows is empty"):
        draw_panels([])


def test_without_matplotlib(
    records: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def absent(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r'needs matplotlib.*"proxyprox\[app\]"'):
        save_figures(tmp_path, summarise(records))
