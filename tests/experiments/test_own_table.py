"""Methods compared on one's own table: rivals are tuned and counted, weights predict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.own_table import OwnTable, own_table, run_methods, table_model
from experiments.shared import application
from proxyprox.problems import FAMILIES
from proxyprox_app.study.config import example
from proxyprox_app.study.problem import read_study

pd: Any = pytest.importorskip("pandas")


def rows(family: str, count: int = 60, seed: int = 0) -> Any:
    """Return a table whose column `label` depends on two of the others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, 3))
    noisy = X[:, 0] - X[:, 1] + rng.standard_normal(count)
    y: Any = {
        "linear": noisy,
        "logistic": np.where(noisy > 0, "yes", "no"),
        "softmax": np.array(["a", "b", "c"])[np.digitize(noisy, [-1, 1])],
        "poisson": rng.poisson(np.exp(0.5 * noisy)),
        "gamma": rng.gamma(3.0, np.exp(0.5 * noisy) / 3),
    }[family]
    return pd.DataFrame(X, columns=["age", "income", "height"]).assign(label=y)


def settings(family: str = "logistic", **sections: dict[str, Any]) -> OwnTable:
    tree: dict[str, Any] = {
        "model": {"family": family, "l2": 1e-2},
        "target": {"file": "rows.csv", "label": "label"},
        "run": {"batch_size": 16, "target_gradients": 30, "seeds": 1, "methods": ("proxyprox",)},
    }
    return OwnTable.model_validate(
        tree | {name: {**tree.get(name, {}), **keys} for name, keys in sections.items()}
    )


def finished(config: OwnTable, folder: Path) -> tuple[Any, list[tuple[dict[str, Any], Any]]]:
    study = read_study(config, folder)
    return study, list(run_methods(study, config.run, lambda text: None))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_runs_and_predicts(tmp_path: Path, family: str) -> None:
    frame = rows(family)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    standardize = family in ("linear", "softmax")
    model = {"family": family, "standardize": standardize}
    study, points = finished(settings(family, model=model), tmp_path)
    heights = [point["suboptimality"] for point, _ in points]
    assert -1e-9 <= heights[-1] < 0.3 * heights[0]
    assert [point["target_gradients"] for point, _ in points][::30] == [0, 30]
    w = points[-1][1]
    found, _ = table_model(study, w, "ours").predict(frame)
    z = study.columns.transform(frame) @ w.reshape(4, -1)[:3] + w.reshape(4, -1)[3]
    if family == "linear":
        np.testing.assert_allclose(found["label"], z[:, 0])
    elif FAMILIES[family].classifier:
        assert (found["label"].to_numpy() == frame["label"].to_numpy()).mean() > 0.6
    else:
        np.testing.assert_allclose(found["label"], np.exp(z[:, 0]))


def test_rivals_are_tuned_and_counted(tmp_path: Path) -> None:
    rows("logistic").to_csv(tmp_path / "rows.csv", index=False)
    run = {"methods": ("proxyprox", "sgd", "adam", "erm"), "target_gradients": 12, "seeds": 2}
    points = [point for point, _ in finished(settings(run=run), tmp_path)[1]]
    tried = {point["method"]: point["tried"] for point in points}
    assert list(tried.values()) == [1, 11, 9, 1]
    assert {point["seed"] for point in points} == {0, 1}
    run |= {"batch_size": "all", "methods": ("proxyprox", "lbfgs", "dane"), "seeds": 1}
    ends = {p["method"]: p for p, _ in finished(settings(run=run), tmp_path)[1]}
    assert max(end["suboptimality"] for end in ends.values()) < 1e-6
    with pytest.raises(ValueError, match="batch_size"):
        settings(run=run | {"batch_size": 8})


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("plot_svg", "glyph"):
        monkeypatch.setattr(f"experiments.report.figures.{name}", lambda *_: "")
    path = tmp_path / "my.toml"
    path.write_text(f"{example()}\ntarget_gradients = 8\nseeds = 1\n")
    call = [str(path), "--output", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(application(own_table), call)
    assert result.exit_code == 0, result.output
    done = json.loads(result.stdout)
    assert done["methods"][0]["method"] == "proxyprox, its default"
    names = {each.name for each in (tmp_path / "out").iterdir() if each.suffix}
    assert names == {"records.jsonl", "summary.json", "report.html", "model.json"}
