"""Pages: whole, self-contained, safe, and alive in a browser."""

from __future__ import annotations

import getpass
import html.parser
import json
import platform
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.report.page import write_report
from experiments.report.summary import last_rows, summarise

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

EVIL = '</script><script>alert("x")</script>&<b>'


@pytest.fixture(scope="session")
def report(records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_pages_are_whole_and_self_contained(report: Path) -> None:
    counts = {"h1": 1, "script": 1, "b": 0}
    # Panels times axes and the legend; tables of ends, costs, settings, versions and machine.
    for path, more in ((report, {"figure": 3, "svg": 3 * 3 + 4, "table": 5}),):
        text = path.read_text(encoding="utf-8")
        outline = Outline(text)
        assert {tag: outline.tags.count(tag) for tag in counts | more} == counts | more
        assert [v for name, v in outline.attributes if name in ("src", "href")] == ["data:,"]
        names = [value for name, value in outline.attributes if name == "id"]
        assert len(names) == len(set(names))
        assert "default-src 'none'" in text
        assert path.stat().st_size < 1e6
        words = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
        assert not re.search(r"(?<!xlink=\")https?:(?!//www\.w3\.org)", words)
        for secret in (EVIL, platform.node(), str(Path.home()), f"/{getpass.getuser()}"):
            assert secret not in words or len(secret) < 5
    for words in ("Ledger", "grid.steps", "~/runs", "1e-06", "Versions", "processor", "It worked."):
        assert words in report.read_text(encoding="utf-8")


def errors(browser: Any) -> list[Any]:
    return [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"]


def shown(browser: Any, selector: str) -> list[Any]:
    found = browser.find_elements("css selector", selector)
    return [element for element in found if element.is_displayed()]


@pytest.mark.browser
def test_a_report_in_a_browser(browser: Any, report: Path) -> None:
    browser.get_log("performance")  # of other pages
    browser.get(report.as_uri())
    # Nothing was asked for but the file itself and what it carries inside.
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    asked = [s["request"]["url"] for s in sent if s["documentURL"].startswith("file:")]
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert browser.execute_script("return document.querySelector('h1 script')") is None
    plots = shown(browser, ".plot")
    assert len(plots) == 3
    # A line and a band of each method.
    assert [len(plot.find_elements("css selector", "[data-method]")) for plot in plots] == [8] * 3

    axes = browser.find_elements("css selector", ".axes input")
    for axis, label in ((1, "proxy gradients"), (2, "seconds")):
        axes[axis].click()
        texts = shown(browser, ".plot")[0].find_elements("css selector", "text")
        assert label in [text.text for text in texts]
    before = len(shown(browser, ".plot [data-method]"))
    button = browser.find_elements("css selector", ".legend button")[0]
    assert button.text.endswith(EVIL)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(shown(browser, ".plot [data-method]")) == before - 6  # two in each panel
    table = browser.find_element("css selector", "table")
    table.find_elements("css selector", "thead button")[4].click()
    cells = table.find_elements("css selector", "tbody td:nth-child(5)")
    values = [float(cell.get_attribute("data-value")) for cell in cells]
    assert values == sorted(values)

    assert errors(browser) == []
