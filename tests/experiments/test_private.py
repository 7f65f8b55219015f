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
    monkeypatch.setattr(private, "table", lambda family: (X, labels[family]))
    for name, value in (("TEST_ROWS", 500), ("STEPS", (5,)), ("SGD_STEPS", (5,)),
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
    assert ours["against_public"] == pytest.approx(ours["loss"] - lines[0]["loss"])


def test_the_best_of_a_grid_is_best_on_average() -> None:
    case = {"family": "f", "private": 1, "shift": False, "public": 1, "method": "m", "epsilon": 1.0}
    losses = {(0, 1.0): 1.0, (1, 1.0): 5.0, (0, 2.0): 2.0, (1, 2.0): 2.0}
    records = [{**case, "seed": s, "rate": r, "loss": x} for (s, r), x in losses.items()]
    (found,) = private.best_of_grids(records).values()
    assert found.tolist() == [2.0, 2.0]
