"""The test suite itself, on machines that are not the author's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_linters_are_pinned_and_alike_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(pin.split("==") for pin in project["optional-dependencies"]["lint"])
    assert {"ruff", "mypy"} <= set(pins)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    found = dict(re.findall(r"/(?:mirrors-)?(ruff|mypy)(?:-pre-commit)?\n    rev: v(.*)", hooks))
    found |= dict(re.findall(r"- (\S+)==(\S+)", hooks))
    assert found == pins


def test_ci_covers_the_pythons_that_the_metadata_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if "Python :: 3." in c]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert f"python: {named}".replace("'", '"') in workflow
