"""The experiment that the documentation shows is complete, short and works."""

import importlib
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments import shared

PAGE = Path(shared.__file__).parents[1] / "docs" / "experiments.md"


@pytest.mark.usefixtures("no_figures")
def test_the_experiment_of_the_page(tmp_path, monkeypatch):
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    code = [line for line in found[1].splitlines() if line.strip()]
    assert len(code) <= 60
    (tmp_path / "ridge.py").write_text(found[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    ridge = importlib.import_module("ridge")
    words = ["--output", str(tmp_path / "out"), "--budget", "20", "--seeds", "1"]
    done = CliRunner().invoke(shared.application(ridge.ridge), [*words, "--workers=1", "--json"])
    assert done.exit_code == 0, done.output
    panels = json.loads(done.stdout)["panels"]
    assert [panel["panel"] for panel in panels] == ["40 rows", "200 rows"]
    assert all(panel["baseline"] == "SGD" for panel in panels)
