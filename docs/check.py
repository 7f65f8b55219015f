"""Check the built site: ``python docs/check.py docs/_build/html``, as `make docs` does.

Every internal link and anchor must lead somewhere, and nothing may be loaded from another host.
With Chromium, pages are also opened at 1300 and 400 pixels and in the dark: none may scroll
sideways, text must have contrast, and the search must find.
"""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

WIDTHS = (1300, 400)
LEAST_CONTRAST = 4.5  # WCAG AA, for text
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
RESOURCES = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """The anchors, links and resources of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag refers to."""
        found = {name: value for name, value in attrs if value is not None}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        where = found.get(RESOURCES.get(tag, ""))
        if where and found.get("rel") != "canonical":
            self.resources.append(where)


def html(folder: Path) -> list[Path]:
    """Return the pages of the site, without the theme's own templates."""
    return [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]


def broken_links(folder: Path) -> list[str]:
    """Return what is wrong with links, anchors and resources of all pages."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in html(folder)}
    problems = []
    for path, page in pages.items():
        for link in [*page.links, *page.resources]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.resources and parts.scheme != "data":
                    problems.append(f"{path.relative_to(folder)}: loads {link}")
                continue
            place, anchor = urldefrag(link)
            place = place.split("?")[0]
            goal = (path.parent / unquote(place)).resolve() if place else path
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.exists():
                problems.append(f"{path.relative_to(folder)}: {link} does not exist")
            elif anchor and goal in pages and unquote(anchor) not in pages[goal].ids | {"top"}:
                problems.append(f"{path.relative_to(folder)}: {link} has no such anchor")
    return sorted(set(problems))


# -- in a browser -------------------------------------------------------------------------------

OPEN = "document.querySelectorAll('details').forEach(part => part.open = true)"

SIDEWAYS = """
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
if (wide <= 0) return "";
const right = document.documentElement.clientWidth;
const guilty = [...document.querySelectorAll("article *")].filter(
    e => e.getBoundingClientRect().right > right + 1 && !e.closest("table, pre, .highlight"));
const first = guilty.length ? guilty[0].outerHTML.slice(0, 120) : "";
return `${wide} pixels too wide ${first}`;
"""

# The least contrast of visible text in the article; colours as the browser computes them.
CONTRAST = """
function parse(c) { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m }
function light(c) {
    const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(e) {
    for (; e; e = e.parentElement) {
        const c = parse(getComputedStyle(e).backgroundColor);
        if (c[3] > 0.99) return c;
    }
    return [255, 255, 255, 1];
}
let worst = [99, ""];
for (const e of document.querySelectorAll("article p, article td, article li, article code, "
        + "article summary, article h1, article h2, article dt, article pre span")) {
    if (!e.textContent.trim() || !e.offsetParent) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 100)];
}
return worst;
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine only, and return its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def chromium() -> str | None:
    """Return the path of Chromium or Chrome under any of their names."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def needed() -> dict[str, str | None]:
    """Return the programs that open pages, and where they are."""
    return {"Chromium": chromium(), "chromedriver": shutil.which("chromedriver")}


@contextmanager
def browser() -> Iterator[Any]:
    """Start a headless Chromium with a profile of its own."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = chromium() or ""
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-sync"
    for flag in (flags + " disable-background-networking disable-component-update").split():
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options.add_argument(f"--user-data-dir={profile}")
        driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def resize(driver: Any, width: int) -> None:
    """Set the width that pages see; a window cannot be as narrow as a phone."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def foreign_requests(driver: Any, address: str) -> list[str]:
    """Return the addresses at other hosts that were asked for since the last call."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith((address, "data:", "blob:", "chrome")):
                found.append(url)
    return found


def search_finds(driver: Any, address: str, words: str, seconds: float = 20) -> bool:
    """Return whether the search of the site has results for these words."""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(f"{address}/search.html?q={words.replace(' ', '+')}")
    count = "return document.querySelectorAll('#search-results li').length"
    try:
        return bool(WebDriverWait(driver, seconds).until(lambda d: d.execute_script(count)))
    except TimeoutException:
        return False


def browser_problems(folder: Path, pages: list[str], seconds: float = 20) -> list[str]:
    """Return what is wrong with these pages in a browser; the search may take some seconds."""
    problems = []
    with served(folder) as address, browser() as driver:
        for page in pages:
            resize(driver, WIDTHS[0])
            driver.get(f"{address}/{page}")
            driver.execute_script(OPEN)
            for width in WIDTHS:
                resize(driver, width)
                if sideways := driver.execute_script(SIDEWAYS):
                    problems.append(f"{page}, {width} pixels: {sideways}")
            for theme in ("light", "dark"):
                driver.execute_script(f"document.documentElement.dataset.theme = '{theme}'")
                ratio, text = driver.execute_script(CONTRAST)
                if ratio < LEAST_CONTRAST:
                    problems.append(f"{page}, {theme}: contrast {ratio:.1f} of {text}")
        if not search_finds(driver, address, "safeguard", seconds):
            problems.append("search.html: no results for a word that is on many pages")
        problems += [f"loads {url}" for url in foreign_requests(driver, address)]
        for entry in driver.get_log("browser"):
            if entry["level"] == "SEVERE" and "favicon" not in entry["message"]:
                problems.append(f"console: {entry['message']}")
    return problems


def main(folder: Path) -> int:
    """Check everything; return the exit status."""
    problems = broken_links(folder)
    done = f"{len(html(folder))} pages: links and resources"
    missing = [name for name, path in needed().items() if path is None]
    if not missing:
        every = [str(path.relative_to(folder)) for path in html(folder)]
        # Reference pages look alike: every tenth of them.
        generated = [page for page in every if "generated" in page]
        pages = [page for page in every if page not in generated] + generated[::10]
        problems += browser_problems(folder, pages)
        done += f"; {len(pages)} of them in a browser"
    else:
        done += f" (not opened in a browser: no {' and no '.join(missing)} on the PATH)"
    sys.stdout.write("\n".join([*problems, f"Checked {done}: {len(problems)} problems."]) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
