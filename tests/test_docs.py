"""Every Python snippet of the README and of the pages runs, and every link leads somewhere."""

from __future__ import annotations

import importlib.util
import operator
import re
import sys
import types
from pathlib import Path

import pytest

import proxyprox

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page: Path) -> str:
    """Return the page's code with everything else blanked out, so that line numbers agree."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for found in FENCE.finditer(text):
        first = text[: found.start(1)].count("\n")
        for offset, line in enumerate(found[1].splitlines()):
            lines[first + offset] = line
    return "\n".join(lines)


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p).strip()], ids=lambda p: p.name)
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = snippets(page)
    for word, package in (("torch", "torch"), ("dask", "distributed"), ("opacus", "opacus")):
        if word in code:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("snippets")
    # Dataclasses look for the module that they are defined in.
    monkeypatch.setitem(sys.modules, "snippets", module)
    exec(compile(code, str(page), "exec", dont_inherit=True), vars(module))


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the site write it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize(
    "page",
    [*PAGES, *(ROOT / "docs" / "results").rglob("*.md")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        place, _, anchor = link.partition("#")
        goal = page.parent / place if place else page
        if "://" in link:
            continue
        if not goal.exists() or (anchor and goal.suffix == ".md" and anchor not in anchors(goal)):
            wrong.append(link)
    assert not wrong


# -- the site: `make docs` builds and checks all of it; these are its cheap parts ----------------


def test_a_cheap_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: None)
    script = ROOT / "examples" / "plot_few_exact_gradients.py"
    code = script.read_text(encoding="utf-8").replace("ROWS = 20_000", "ROWS = 2000")
    exec(compile(code, str(script), "exec", dont_inherit=True), {"__name__": "example"})
    assert plt.gca().get_xlabel()
    plt.close("all")


def load(name: str) -> types.ModuleType:
    """Import a script of the documentation."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_a_page() -> None:
    pages = load("api_pages")
    parts = [part for _, _, sections in pages.PAGES.values() for part in sections.values()]
    listed = [n for part in parts if not part.startswith("proxyprox.") for n in part.split()]
    assert sorted(n for n in listed if "." not in n) == sorted(proxyprox.__all__)
    for name in listed:
        assert operator.attrgetter(name)(proxyprox), name


def test_the_pictures_are_of_the_record(tmp_path: Path) -> None:
    """The README's picture shows what is recorded: the file that is there has all its numbers."""
    pytest.importorskip("matplotlib")
    pictures = load("pictures")
    for name in pictures.PICTURES:
        assert (ROOT / "docs" / "pictures" / f"{name}.svg").stat().st_size < 200_000
    pictures.PICTURES = {"rounds": pictures.PICTURES["rounds"]}
    (drawn,) = pictures.draw(tmp_path)
    assert drawn.stat().st_size > 10_000


def test_check_names_broken_links(tmp_path: Path) -> None:
    check, index = load("check"), '<html><body><article><a href="other.html#here">x</a>{}</article>'
    (tmp_path / "other.html").write_text("<html><body><article><h1 id='here'>Here</h1></article>")
    (tmp_path / "index.html").write_text(index)
    assert check.broken_links(tmp_path) == []
    bad = '<a href="none.html">x</a><a href="other.html#no">x</a><script src="https://a.b/c.js">'
    (tmp_path / "index.html").write_text(index.format(bad))
    found = check.broken_links(tmp_path)
    assert len(found) == 3
    for word in ("https://a.b/c.js", "none.html", "#no"):
        assert word in "".join(found)
