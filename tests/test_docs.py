"""Every Python snippet of the README and of the pages runs, in the order in which it is read."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [li for li in links if "://" not in li and not (page.parent / li).exists()]
    assert not missing
