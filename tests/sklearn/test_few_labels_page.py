"""The page about few labels: its code runs, top to bottom."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "few_labels.md"


def test_the_code_of_the_page_runs(capsys):
    if not PAGE.exists():
        pytest.skip("the documentation is not part of an installed package")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4
    assert float(said[0].split()[1]) > 0.9
    assert said[1].startswith("True")
