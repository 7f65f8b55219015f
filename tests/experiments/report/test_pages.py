"""Pages: whole, self-contained, safe, and alive in a browser."""

import getpass
import html.parser
import platform
import re
from pathlib import Path

import pytest

from experiments.report.page import write_report
from experiments.report.summary import last_rows, summarise

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

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
