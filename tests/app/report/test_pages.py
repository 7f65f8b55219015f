from __future__ import annotations

import getpass
import html.parser
import importlib
import json
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from proxyprox._util.extras import MissingExtraError
from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.plan import plan
from proxyprox.diagnostics.report import Audit
from proxyprox_app.report import svg
from proxyprox_app.report.page import audit_values, write_audit_page, write_report
from proxyprox_app.report.summary import last_rows, summarise

EVIL = '</script><script>alert("x")</script>&<b>'


@pytest.fixture(scope="module")
def report(records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jinja2")
    rows = summarise(records)
    for row in rows:
        row["method"] = EVIL if row["method"] == "SGD" else row["method"]
    ledger = [
        {"method": row["method"], "target_gradients": 1000, "proxy_hvps": None}
        for row in last_rows(rows)[:8]
    ]
    return write_report(
        tmp_path_factory.mktemp("report"),
        title=f"A report {EVIL}",
        lead=["It worked.", EVIL],
        command=f"proxyprox run --out {Path.home()}/runs",
        config={"seeds": [0, 1], "grid": {"steps": 250, "name": EVIL}, "mu": 1e-6},
        rows=rows,
        costs=ledger,
        notes=[EVIL],
    )


class _Outline(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_page_is_whole_and_self_contained(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    outline = _Outline()
    outline.feed(text)
    assert outline.tags.count("h1") == 1
    assert outline.tags.count("figure") == 3
    assert outline.tags.count("svg") == 3 * 3 + 8  # panels times axes, and the legend
    assert outline.tags.count("table") == 5
    assert outline.tags.count("script") == 1
    assert report.stat().st_size < 1e6
    assert "b" not in outline.tags
    loads = [value for name, value in outline.attributes if name in ("src", "href")]
    assert loads == ["data:,"]
    for words in ("Ledger", "grid.steps", "~/runs", "1e-06", "Versions", "processor", "It worked."):
        assert words in text


def test_no_host_or_user_name(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    page = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert platform.node() not in page
    if len(getpass.getuser()) > 3:
        assert f"/{getpass.getuser()}" not in page


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common: dict[str, Any] = {"title": "t", "lead": ["l"], "command": "c", "config": {}}
    row = {"panel": "p", "method": "m", "loss_median": 1.0}
    with pytest.raises(ValueError, match="rows is empty"):
        write_report(tmp_path, rows=[], **common)
    with pytest.raises(ValueError, match="names no field"):
        write_report(tmp_path, rows=[row], metric="loss", **common)

    def absent(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r'needs jinja2.*"proxyprox\[app\]"'):
        write_report(tmp_path, rows=[{**row, "t": 1}], metric="loss", x_axes=["t"], **common)


@pytest.fixture(scope="module")
def found() -> Audit:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)) * np.geomspace(1, 0.1, 6)
    y = X.sum(axis=1) + rng.logistic(size=200) > 0
    target = pp.logistic_regression(X, y, l2=1e-2, batch_size=32)
    return audit(pp.Problem(target, target.subsample(60, rng=1)), rng=0)


@pytest.fixture(scope="module")
def audit_text(found: Audit, tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("jinja2")
    path = write_audit_page(
        tmp_path_factory.mktemp("audit"), found, plan(found), title=f"An audit {EVIL}",
        command=f"proxyprox audit {Path.home()}/x.toml", config={"model": {"name": EVIL}},
    )  # fmt: skip
    assert path.name == "audit.html"
    return path.read_text(encoding="utf-8")


def drawn(text: str, name: str) -> list[str]:
    """Return what a pointer reads at the points of a series."""
    found = re.search(rf'data-method="{name}" data-points="([^"]*)"', text)
    return [point.split(",", 2)[2] for point in found[1].split(";")]


def test_the_page_says_what_was_found(audit_text: str, found: Audit) -> None:
    plain = re.sub("<[^>]*>", "", audit_text)
    for words in (
        found.sentence.split("'")[0],
        "Estimates",
        "Point by point",
        "A plan",
        "What the audit cost",
    ):
        assert words in plain
    assert audit_text.count('class="plot"') == 3
    assert "Minus the logarithm" not in audit_text, "only words that occur are explained"
    assert audit_text.count("A slope of the loss you care about") > 1


def test_nothing_is_fetched_and_nothing_is_injected(audit_text: str) -> None:
    assert "default-src 'none'" in audit_text
    assert EVIL not in audit_text
    assert "http:" not in audit_text
    assert "https:" not in audit_text
    assert str(Path.home()) not in audit_text


def test_the_page_holds_the_numbers(audit_text: str, found: Audit) -> None:
    end = found.points[-1]
    assert drawn(audit_text, "target ∇²L")[0] == f"1: {svg.words(end.H.estimate)}"
    assert drawn(audit_text, "difference ∇²L − ∇²L̂")[0] == f"1: {svg.words(end.delta.estimate)}"
    heights = [point.split(": ")[1] for point in drawn(audit_text, "H")]
    assert heights == [svg.words(point.H.estimate) for point in found.points]
    sgd, *_ = drawn(audit_text, "tuned, on the quadratic model")
    assert sgd == f"SGD: {svg.words(found.prediction.rehearsed_sgd.steps)}"


def test_values_are_json(found: Audit) -> None:
    values = json.loads(json.dumps(audit_values(found, plan(found)), allow_nan=False))
    assert values["verdict"] == found.verdict.name
    assert values["delta"]["estimate"] == found.delta.estimate
    assert values["plan"]["steps"] == plan(found).steps


@pytest.mark.browser
def test_opens_from_disk_without_network_or_console_errors(browser: Any, report: Path) -> None:
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    browser.get(report.as_uri())
    plots = [p for p in browser.find_elements("css selector", ".plot") if p.is_displayed()]
    assert len(plots) == 3
    for plot in plots:
        assert plot.size["width"] > 200
        assert len(plot.find_elements("css selector", ".curve")) == 8
        assert len(plot.find_elements("css selector", ".band")) == 8
    timing = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
    assert browser.execute_script(timing) < 5000  # on a busy machine; 0.1 s on an idle one
    # Nothing was asked for but the file itself and what it carries inside.
    events = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        # The browser's own first page is not ours.
        and event["params"]["documentURL"].startswith("file:")
    ]
    assert report.as_uri() in asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert browser.execute_script("return document.querySelector('h1 script')") is None
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []


@pytest.mark.browser
def test_controls(browser: Any, report: Path) -> None:
    browser.get(report.as_uri())

    def shown(selector: str) -> list[Any]:
        found = browser.find_elements("css selector", selector)
        return [element for element in found if element.is_displayed()]

    assert shown(".plot .label")[0].text == "target gradients (minibatches)"
    axes = browser.find_elements("css selector", ".axes input")
    axes[1].click()
    assert shown(".plot .label")[0].text == "proxy gradients"
    assert any("they spend none" in hint.text for hint in shown(".hint"))
    axes[2].click()
    assert shown(".plot .label")[0].text == "seconds"
    assert not any("they spend none" in hint.text for hint in shown(".hint"))
    before = len(shown(".curve"))
    button = browser.find_elements("css selector", ".legend button")[0]
    assert button.text.endswith(EVIL)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(shown(".curve")) == before - 3  # one in each panel
    table = browser.find_element("css selector", "table")
    table.find_elements("css selector", "thead button")[4].click()
    cells = table.find_elements("css selector", "tbody td:nth-child(5)")
    values = [float(cell.get_attribute("data-value")) for cell in cells]
    assert values == sorted(values)
    assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []


@pytest.mark.browser
def test_terms_are_explained_to_pointer_and_keyboard(browser: Any, report: Path) -> None:
    browser.get(report.as_uri())
    tip = browser.find_element("id", "tip")
    assert not tip.is_displayed()
    for event in ("element.focus()", "element.dispatchEvent(new Event('pointerenter'))"):
        find = "const element = document.querySelector('.hint .term');"
        browser.execute_script(f"{find} element.scrollIntoView({{block: 'center'}})")

        def shown(_: Any, script: str = f"{find} element.blur(); {event}") -> bool:
            # Scrolling, which a busy machine ends late, hides the tip again: ask until it stays.
            browser.execute_script(script)
            return "Half of the runs" in tip.text

        wait = importlib.import_module("selenium.webdriver.support.ui").WebDriverWait
        wait(browser, 60).until(shown)
        browser.execute_script("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
        assert not tip.is_displayed()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1300, 400])
def test_nothing_overflows(browser: Any, report: Path, audit_text: str, width: int) -> None:
    audit_page = report.with_name("audit.html")
    audit_page.write_text(audit_text, encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for page in (report, audit_page):
            for scheme in ("light", "dark"):
                media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
                browser.get(page.as_uri())
                wide = browser.execute_script("return document.documentElement.scrollWidth")
                assert wide <= width
                paper = browser.execute_script(
                    "return getComputedStyle(document.body).backgroundColor"
                )
                assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        assert [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"] == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
