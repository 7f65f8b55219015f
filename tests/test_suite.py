"""The test suite itself, on machines that are not the author's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run_pytest(folder, *options, **settings):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=folder, capture_output=True, text=True, check=False, timeout=600, **settings,
    )  # fmt: skip


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


def test_the_suite_says_at_its_end_what_was_skipped_and_why(tmp_path):
    pytest.importorskip("xdist")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_skips.py").write_text(
        textwrap.dedent(
            """
            import pytest

            @pytest.mark.parametrize("i", range(3))
            def test_of_three(i):
                pytest.skip("the moon is full")

            @pytest.mark.skipif(True, reason="no such machine")
            def test_elsewhere():
                pass
            """
        )
    )
    for options in ([], ["-p", "xdist", "-n", "2"]):
        lines = run_pytest(tmp_path, *options).stdout.splitlines()
        said = [" ".join(line.split()) for line in lines if "moon" in line or "machine" in line]
        assert said == ["3 the moon is full", "1 no such machine"]
