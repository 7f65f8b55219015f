from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyprox_app.study.config import SECTIONS, StudyConfig, parse_config

Invoke = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_figures")


def test_example_is_complete_and_works(invoke: Invoke, tmp_path: Path) -> None:
    printed = invoke("run", "--example").stdout
    assert isinstance(parse_config(tomllib.loads(printed)), StudyConfig)
    for kind in SECTIONS.values():
        for key in kind.__dataclass_fields__:
            assert f"{key} = " in printed
    path = tmp_path / "my.toml"
    path.write_text(printed.replace("target_gradients = 200", "target_gradients = 8"))
    result = invoke("run", path, "--output", tmp_path / "out", "--workers", "1")
    assert result.exit_code == 0, result.stderr
    assert "weights.json" in " ".join(result.stdout.split())


def test_output_folder_and_json(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = invoke("run", config, "--output", folder, "--workers", "1", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["success"]
    assert answer["eta"] == 5.0
    names = {"records.jsonl", "summary.json", "report.html", "weights.json"}
    assert names <= {path.name for path in folder.iterdir()}
    weights = json.loads((folder / "weights.json").read_text())
    assert list(weights["coefficients"]) == ["a", "b", "c", "d"]
    assert weights["classes"] == ["no", "yes"]
    assert weights["usable"]
    assert answer["weights"] == [str(folder / "weights.json")]

    (folder / "weights.json").unlink()
    again = json.loads(invoke("run", config, "--output", folder, "--workers", "1", "--json").stdout)
    assert again["reused"] == again["runs"]
    assert json.loads((folder / "weights.json").read_text()) == weights


def test_eta_is_measured_on_the_way(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    text = config.read_text().replace("eta = 5.0", 'eta = "auto"')
    text = text.replace("[method]", '[proxy]\nkind = "subsample"\nfraction = 0.5\n[method]')
    config.write_text(text + 'compare = ["sgd", "erm", "auxmom", "auxmvr", "dane"]\n')
    folder = tmp_path / "out"
    result = invoke("run", config, "--output", folder, "--workers", "1", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert (answer["eta"], answer["runs"]) == ("auto", 6), "nothing is tuned"
    spent = {m["method"]: m["step_size_gradients"] for m in answer["panels"][0]["methods"]}
    # Steps 1 to 4 ask for a second gradient each, and with 9 of 10 spent the next is too dear.
    assert spent == {
        "ProxyProx": 4, "SGD": 1, "ERM on the rows seen": None, "AuxMom": 4, "AuxMVR": 0, "DANE": 0,
    }  # fmt: skip
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    ours = [p["step_size_gradients"] for p in records if p["method"] == "ProxyProx"]
    assert ours == sorted(ours)
    assert ours[-1] == 4
    assert json.loads((folder / "weights.json").read_text())["eta"] == "auto"
    shown = invoke("run", config, "--output", folder, "--workers", "1").stdout
    assert "(4)" in shown
    assert "of the run&#39;s, for the step size" in (folder / "report.html").read_text()


def test_tuning_is_shown_beside_the_runs_own(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("eta = 5.0", "eta = [5.0, 6.0]"))
    shown = invoke("run", config, "--output", tmp_path / "out", "--workers", "1").stdout
    last = {line[:10].strip(): line.split()[-1] for line in shown.splitlines() if line.strip()}
    assert (last["ProxyProx"], last["SGD"]) == ("+6", "+27")


def test_whose_weights_are_written(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace("eta = 5.0", "eta = 1e-6") + 'compare = ["erm"]\n')
    folder = tmp_path / "out"
    call = ("run", config, "--output", folder, "--workers", "1", "--json")
    first = json.loads(invoke(*call).stdout)
    assert (first["lowest"], first["weights_of"]) == ("ERM on the rows seen", "ProxyProx")
    assert json.loads((folder / "weights.json").read_text())["method"] == "ProxyProx"
    assert "ERM on the rows seen ended lowest" in (folder / "report.html").read_text()
    config.write_text(config.read_text() + 'weights = "lowest"\n')
    second = json.loads(invoke(*call).stdout)
    assert second["reused"] == second["runs"], "the records do not depend on it"
    assert second["weights_of"] == "ERM on the rows seen"
    weights = json.loads((folder / "weights.json").read_text())
    assert weights["method"] == "ERM on the rows seen"
    assert weights["usable"]
    assert weights["suboptimality"] == second["panels"][0]["methods"][1]["suboptimality_median"]


def test_changed_data_is_not_mixed_in(
    invoke: Invoke, config: Path, csv: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    assert invoke("run", config, "--output", folder, "--workers", "1").exit_code == 0
    csv.write_text(csv.read_text().replace("yes", "no", 1))
    result = invoke("run", config, "--output", folder, "--workers", "1")
    assert result.exit_code == 2
    assert "rows.csv: sha256" in result.stderr


def test_a_run_that_diverges(invoke: Invoke, config: Path, csv: Path, tmp_path: Path) -> None:
    text = config.read_text().replace('"logistic"', '"poisson"').replace("eta = 5.0", "eta = 1e6")
    config.write_text(text.replace("[method]", '[method]\nname = "sgd"\n').replace(
        "[run]", '[proxy]\nkind = "none"\n[run]\ncompare = []'
    ))  # fmt: skip
    csv.write_text(csv.read_text().replace("yes", "3").replace("no", "0"))
    folder = tmp_path / "out"
    result = invoke("run", config, "--output", folder, "--workers", "1", "--json")
    assert result.exit_code == 1, result.stdout
    assert "not usable" in result.stderr
    assert "last good iterate" in result.stderr
    answer = json.loads(result.stdout)
    assert not answer["success"]
    weights = json.loads((folder / "weights.json").read_text())
    assert not weights["usable"]
    assert "last good iterate" in weights["status"]
    assert all(np.isfinite(list(weights["coefficients"].values())))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'label = "bought"',
            'label = "buoght"',
            "no column 'buoght'; did you mean 'bought'? the columns",
        ),
        ('file = "rows.csv"', 'file = "row.csv"', "does not exist"),
        (
            "l2 = 1e-2",
            "intercpt = true",
            "a key of [model] must be one of 'family', 'l2', 'l1', 'intercept'",
        ),
        ("[method]", "[methods]", "a section must be one of 'model'"),
        ('"logistic"', '"logistc"', "[model] family must be one of 'linear', 'logistic'"),
        ("eta = 5.0", "eta = -1", "[method] eta must be a positive number"),
        ("eta = 5.0", 'eta = "big"', "[method] eta must be a positive number"),
        ("seeds = 1", "seeds = 1.5", "[run] seeds must be a whole number"),
        ("l2 = 1e-2", "l2 = ", "not TOML"),
        ('"logistic"', '"linear"', "'yes' is not a number"),
        ('label = "bought"', "", "column"),
        ('file = "rows.csv"', "", "[target] file is missing"),
        ("l2 = 1e-2", 'classes = ["nope", "yes"]', "in row 2"),
        ("l2 = 1e-2", "classes = [0, 1]", "one of the classes"),
        ("eta = 5.0", 'name = "sgd"\ncorrection = "ema"', "no effect on sgd"),
        ("[method]", '[proxy]\nkind = "none"\n[method]', "adam and erm, not proxyprox"),
        ("[method]", '[proxy]\nkind = "subsample"\n[method]', "one of fraction and rows"),
        ("[method]", "[proxy]\nfraction = 0.5\n[method]", "[proxy] fraction has no effect on kind"),
        ("eta = 5.0", 'name = "auxmom"\n[model]\nl1 = 0.1', "l1 cannot be used with auxmom"),
        ("eta = 5.0", 'name = "adam"\neta = "auto"', "eta of adam"),
    ],
)
def test_mistakes_in_the_configuration(
    invoke: Invoke, config: Path, tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = config.read_text()
    assert old in text
    text = text.replace(old, new, 1)
    if "l1 = 0.1" in new:
        text = text.replace("[model]\nl1 = 0.1", "").replace("l2 = 1e-2", "l1 = 0.1")
    config.write_text(text)
    result = invoke("run", config, "--output", tmp_path / "out", "--workers", "1")
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def _rewritten(csv: Path, change: Callable[[list[str]], list[str]]) -> None:
    csv.write_text("\n".join(change(csv.read_text().splitlines())) + "\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [line.partition(",")[2] for line in lines], "no column 'a'"),
        (lambda lines: [*lines, "1,1,1,1,no,7"], "not a table"),
        (lambda lines: [*lines, "1,1,1,1,maybe"], "'maybe', 'no', 'yes'"),
        (lambda lines: [lines[0], *(x.rpartition(",")[0] + "," for x in lines[1:])], "no row has"),
        (lambda lines: [line.replace("yes", "no") for line in lines], "of 1 classes"),
        (lambda lines: lines[:1], "no rows"),
        (lambda lines: [], "empty"),
    ],
    ids=["column", "cells", "label", "no label", "one class", "header", "empty"],
)
def test_mistakes_in_the_data(
    invoke: Invoke,
    config: Path,
    csv: Path,
    tmp_path: Path,
    change: Callable[[list[str]], list[str]],
    words: str,
) -> None:
    listed = 'label = "bought"\nfeatures = ["a", "b", "c", "d"]'
    config.write_text(config.read_text().replace('label = "bought"', listed))
    _rewritten(csv, change)
    result = invoke("run", config, "--output", tmp_path / "out", "--json")
    assert result.exit_code == 2
    assert words in result.stderr
    assert json.loads(result.stdout)["exit_code"] == 2


def test_gaps_and_text_are_handled_and_told(
    invoke: Invoke, config: Path, csv: Path, tmp_path: Path
) -> None:
    def change(lines: list[str]) -> list[str]:
        told = [f"{line},{'north' if i % 3 else 'south'}" for i, line in enumerate(lines)]
        return [f"{lines[0]},region", *told[1:3], "red,1,1,1,no,north", ",1,1,1,,south", *told[5:]]

    _rewritten(csv, change)
    config.write_text(config.read_text().replace("[method]", 'columns = {c = "drop"}\n[method]'))
    folder = tmp_path / "out"
    shown = invoke("run", config, "--dry-run", "--output", folder)
    assert shown.exit_code == 0, shown.stderr
    assert "region category" in " ".join(shown.stdout.split())
    assert not folder.exists()
    result = invoke("run", config, "--output", folder, "--workers", "1", "--json")
    assert result.exit_code == 0, result.stderr
    told = " ".join(json.loads(result.stdout)["notes"])
    assert "a: numbers, but 'red' (row 3)" in told
    assert "1 rows without a label are the proxy's" in told
    weights = json.loads((folder / "weights.json").read_text())
    assert list(weights["coefficients"]) == ["a", "a (missing)", "b", "d", "region = south"]
    predicted = invoke("predict", folder, csv)
    assert predicted.exit_code == 0, predicted.stderr
    lines = predicted.stdout.splitlines()
    assert lines[0] == "row,bought,P(bought = no),P(bought = yes)"
    assert len(lines) == 81


def test_options_of_tables_are_no_options_of_configurations(invoke: Invoke, config: Path) -> None:
    result = invoke("run", config, "--target", "bought")
    assert result.exit_code == 2
    assert "--target goes with a table" in result.stderr


def test_without_a_configuration(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run")
    assert result.exit_code == 2
    assert "--example" in result.stderr
    result = invoke("run", tmp_path / "none.toml")
    assert result.exit_code == 2
    assert "cannot be read: No such file" in result.stderr
    result = invoke("run", tmp_path)
    assert result.exit_code == 2
    assert "directory" in result.stderr
