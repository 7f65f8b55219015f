"""Summaries, figures and pages of a made-up experiment; pages are self-contained and safe."""

import getpass
import html.parser
import math
import platform
import re
from pathlib import Path

import numpy as np
import pytest

from experiments.comparison import panels
from experiments.report.page import write_report
from experiments.report.summary import last_rows, summarise

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

# name: (rate, floor, proxy gradients a step)
METHODS = {
    "SGD": (1.1, 1.2e-3, 0),
    "ProxyProx, 20 GD steps": (1.2, 1.0e-3, 21),
    "ProxyProx, exact": (3.4, 1.0e-5, 9),
    "ERM on rows seen": (2.2, 3.0e-5, 0),
}
PANELS = {"batch 1024": 0.7, "batch 256": 1.0, "batch 256, subsampled proxy": 1.6}


@pytest.fixture(scope="session")
def records():
    rng = np.random.default_rng(0)
    return [
        {
            "panel": panel,
            "method": method,
            "batch_size": 256,
            "eta": None if method.startswith("ERM") else 8.0,
            "seed": seed,
            "target_gradients": step,
            "proxy_gradients": step * proxy,
            "seconds": step / 250,
            "suboptimality": (0.69 * (1 + step / 8) ** -rate + noise * floor * (step > 0))
            * math.exp(0.25 * rng.standard_normal() * (step > 0)),
        }
        for panel, noise in PANELS.items()
        for method, (rate, floor, proxy) in METHODS.items()
        for seed in range(5)
        for step in range(0, 1200, 100)
    ]


def losses(values, method="m"):
    return [{"panel": "p", "method": method, "t": 0, "loss": value} for value in values]


LOSSES = {"metric": "loss", "x": "t", "constant": (), "costs": ("seconds",)}


def test_quartiles_and_divergence():
    for size in (1, 2, 5, 9):
        values = np.random.default_rng(size).lognormal(size=size, sigma=9).tolist()
        (row,) = summarise(losses(values), **LOSSES)
        got = [row["loss_q25"], row["loss_median"], row["loss_q75"]]
        np.testing.assert_allclose(got, np.quantile(values, [0.25, 0.5, 0.75]), rtol=1e-12)
    # A diverged seed counts as infinitely bad.
    (row,) = summarise(losses((1.0, 2.0, None)), **LOSSES)
    assert (row["loss_median"], row["loss_q25"], row["loss_q75"]) == (2.0, 1.5, None)
    assert (row["seconds"], row["seeds"]) == (None, 3)
    two = [{**point, "eta": eta} for eta, point in enumerate(losses((1.0, 1.0)))]
    with pytest.raises(ValueError, match="eta"):
        summarise(two, **LOSSES | {"constant": ("eta",)})


def test_ends_and_levels(records):
    rows = summarise(records)
    ends = last_rows(rows)
    assert len(ends) == 12
    assert {row["target_gradients"] for row in ends} == {1100}
    found = {panel["panel"]: panel for panel in panels(rows)}["batch 256"]
    assert found["baseline"] == "SGD"
    reached = {end["method"]: end["target_gradients_to_level"] for end in found["methods"]}
    assert reached["ProxyProx, 20 GD steps"] > reached["ProxyProx, exact"] > 0
    for method, spent in reached.items():
        own = [row for row in rows if (row["panel"], row["method"]) == ("batch 256", method)]
        low = [r for r in own if r["suboptimality_median"] <= found["level"]]
        assert spent == min((r["target_gradients"] for r in low), default=None)


EVIL = '</script><script>alert("x")</script>&<b>'


@pytest.fixture(scope="session")
def report(records, tmp_path_factory):
    rows = summarise(records)
    for row in rows:
        row["method"] = EVIL if row["method"] == "SGD" else row["method"]
    return write_report(
        tmp_path_factory.mktemp("report"),
        title=f"A report {EVIL}",
        lead=["It worked.", EVIL],
        command=f"proxyprox run --out {Path.home()}/runs",
        config={"seeds": [0, 1], "grid": {"steps": 250, "name": EVIL}, "mu": 1e-6},
        rows=rows,
        costs=[{"method": row["method"], "proxy_hvps": None} for row in last_rows(rows)[:4]],
        notes=[EVIL],
    )


class Outline(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.attributes = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def test_pages_are_whole_and_self_contained(report):
    # Panels times axes and the legend; tables of ends, costs, settings, versions and machine.
    counts = {"h1": 1, "script": 1, "b": 0, "figure": 3, "svg": 3 * 3 + 4, "table": 5}
    text = report.read_text(encoding="utf-8")
    outline = Outline(text)
    assert {tag: outline.tags.count(tag) for tag in counts} == counts
    assert [v for name, v in outline.attributes if name in ("src", "href")] == ["data:,"]
    names = [value for name, value in outline.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert "default-src 'none'" in text
    assert report.stat().st_size < 1e6
    words = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert not re.search(r"(?<!xlink=\")https?:(?!//www\.w3\.org)", words)
    for secret in (EVIL, platform.node(), str(Path.home()), f"/{getpass.getuser()}"):
        assert secret not in words or len(secret) < 5
    for part in ("Ledger", "grid.steps", "~/runs", "1e-06", "Versions", "processor", "It worked."):
        assert part in text
