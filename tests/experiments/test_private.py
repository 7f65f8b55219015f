"""The comparison on private rows: paired records, grids and the command, in miniature."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import private
from experiments.shared import application


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 4)) / 2
    z = X @ [4.0, -4.0, 2.0, 0.0]
    labels = {"logistic": (z + rng.logistic(size=1500) > 0) * 1.0, "ridge": z,
              "poisson": rng.poisson(np.exp(z / 2)) * 1.0}  # fmt: skip
    monkeypatch.setattr(private, "table", lambda data, family: (X, labels[family]))
    for name, value in (("STEPS", (5,)), ("SGD_STEPS", (5,)),
                        ("RATES", (1.0, 4.0)), ("CLIPS", (0.3, 1.0)), ("FEMALE", 0)):  # fmt: skip
        monkeypatch.setattr(private, name, value)


@pytest.mark.parametrize("family", ["logistic", "ridge", "poisson"])
def test_the_command_writes_paired_lines(tmp_path: Path, family: str) -> None:
    pytest.importorskip("opacus")
    pytest.importorskip("matplotlib")
    words = ["--splits", "2", "--private", "600", "--public", "100", "--epsilons", "1"]
    words += ["--family", family, "--output", str(tmp_path)]
    done = CliRunner().invoke(application(private.private_rows), words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "figure.png").exists()
    lines = json.loads((tmp_path / "summary.json").read_text())["lines"]
    methods = {line["method"] for line in lines}
    assert methods == {
        private.PUBLIC, private.CEILING, private.OURS, private.LABEL_FREE, private.GD,
        private.SGD, private.GD_FROM_ZERO,
    }  # fmt: skip
    ours = next(line for line in lines if line["method"] == private.OURS)
    assert ours["splits"] == 2
    assert ours["minus_public"] == pytest.approx(ours["loss"] - lines[0]["loss"])
    again = CliRunner().invoke(application(private.private_rows), words)
    assert again.exit_code == 0, again.output
    assert (
        json.loads((tmp_path / "summary.json").read_text())["lines"] == lines
    )  # nothing was rerun


def test_splits_are_written_for_other_libraries(tmp_path: Path) -> None:
    words = [
        "--splits",
        "1",
        "--private",
        "600",
        "--public",
        "100",
        "--write-splits",
        str(tmp_path),
    ]
    done = CliRunner().invoke(application(private.private_rows), words)
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "600-10.npz") as parts:
        assert parts["private_X"].shape == (600, 4)
        assert set(parts) == {"private_X", "private_y", "test_X", "test_y"}


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    words = ["--family", "gamma", "--output", str(tmp_path)]
    assert CliRunner().invoke(application(private.private_rows), words).exit_code == 2


def test_the_best_of_a_grid_is_best_on_average() -> None:
    case = dict.fromkeys((*private.CASE, "method", "epsilon"), 1)
    losses = {(0, 1.0): 1.0, (1, 1.0): 5.0, (0, 2.0): 2.0, (1, 2.0): 2.0}
    points = [{**case, "seed": s, "rate": r, "loss": x} for (s, r), x in losses.items()]
    ((setting, found),) = private.best_of_grids(points).values()
    assert setting == {"rate": 2.0}
    assert found == {0: 2.0, 1: 2.0}
