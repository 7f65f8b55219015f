"""Methods on one's own files: every family and format, settings that are checked, weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyprox.problems import FAMILIES
from proxyprox_app.study.config import ConfigError, StudyConfig, example, read_config
from proxyprox_app.study.problem import read_study, run_methods
from proxyprox_app.study.tables import DataError

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


def settings(family: str = "logistic", **sections: dict[str, Any]) -> StudyConfig:
    tree: dict[str, Any] = {
        "model": {"family": family, "l2": 1e-2},
        "target": {"file": "rows.csv", "label": "label"},
        "run": {"batch_size": 16, "target_gradients": 30, "seeds": 1, "methods": ["proxyprox"]},
    }
    return StudyConfig.model_validate(
        tree | {name: {**tree.get(name, {}), **keys} for name, keys in sections.items()}
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_runs_and_predicts(tmp_path: Path, family: str) -> None:
    frame = rows(family)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    standardize = family in ("linear", "softmax")
    study = read_study(
        settings(family, model={"family": family, "standardize": standardize}), tmp_path
    )
    points = list(run_methods(study, lambda text: None))
    heights = [point["suboptimality"] for point, _ in points]
    assert -1e-9 <= heights[-1] < 0.3 * heights[0]
    assert [point["target_gradients"] for point, _ in points][::30] == [0, 30]
    w = points[-1][1]
    found, _ = study.model(w, "ours").predict(frame)
    z = study.columns.transform(frame) @ w.reshape(4, -1)[:3] + w.reshape(4, -1)[3]
    if family == "linear":
        np.testing.assert_allclose(found["label"], z[:, 0])
    elif FAMILIES[family].classifier:
        assert (found["label"].to_numpy() == frame["label"].to_numpy()).mean() > 0.6
    else:
        np.testing.assert_allclose(found["label"], np.exp(z[:, 0]))


def test_rivals_are_tuned_and_counted(tmp_path: Path) -> None:
    rows("logistic").to_csv(tmp_path / "rows.csv", index=False)
    run = {"methods": ["proxyprox", "sgd", "adam", "erm"], "target_gradients": 12, "seeds": 2}
    points = [p for p, _ in run_methods(read_study(settings(run=run), tmp_path), lambda text: None)]
    tried = {point["method"]: point["tried"] for point in points}
    assert list(tried.values()) == [1, 11, 9, 1]
    assert {point["seed"] for point in points} == {0, 1}
    run |= {"batch_size": "all", "methods": ["proxyprox", "lbfgs", "dane"], "seeds": 1}
    study = read_study(settings(run=run), tmp_path)
    ends = {point["method"]: point for point, _ in run_methods(study, lambda text: None)}
    assert max(end["suboptimality"] for end in ends.values()) < 1e-6
    rows("softmax").to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match="logistic takes two"):
        read_study(settings(run=run), tmp_path)


def test_proxies(tmp_path: Path) -> None:
    frame = rows("logistic")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    other = rows("logistic", 40, seed=1).rename(columns={"label": "then"})
    other.to_csv(tmp_path / "old.csv", index=False)
    kinds: list[tuple[dict[str, Any], int]] = [
        ({"kind": "label-free"}, 60),
        ({"kind": "label-free", "file": "old.csv"}, 40),
        ({"kind": "labelled", "file": "old.csv", "label": "then"}, 40),
        ({"kind": "subsample", "fraction": 0.5}, 30),
    ]
    for keys, count in kinds:
        study = read_study(settings(proxy=keys), tmp_path)
        assert study.problem().proxy.design.rows == count, keys
    frame.loc[10:, "label"] = None
    frame.to_csv(tmp_path / "rows.csv", index=False)
    study = read_study(settings(), tmp_path)
    assert (study.target.design.rows, study.problem().proxy.design.rows) == (10, 60)
    assert "50 rows without a label are the proxy's" in str(study.findings[0])


@pytest.mark.parametrize(
    "name", ["rows.csv.gz", "rows.parquet", "rows.xlsx", "rows.npz", "rows.svm"]
)
def test_every_format_gives_the_same_loss(tmp_path: Path, name: str) -> None:
    frame = rows("linear").round(6)
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, X=frame.iloc[:, :3], label=frame["label"], feature_names=list(frame)[:3])
    elif name.endswith("svm"):
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(frame.iloc[:, :3], frame["label"], str(path), zero_based=False)
    else:
        writer = {"gz": "to_csv", "parquet": "to_parquet", "xlsx": "to_excel"}[name.split(".")[-1]]
        getattr(frame, writer)(path, index=False)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    want = read_study(settings("linear"), tmp_path).optimum
    found = read_study(settings("linear", target={"file": name}), tmp_path).optimum
    assert math.isclose(found, want, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("section", "keys", "words"),
    [
        ("target", {"label": "lable"}, "did you mean 'label'"),
        ("target", {"label": None}, "[target] label"),
        ("target", {"features": ["agee"]}, "did you mean 'age'"),
        ("target", {"weight": "label"}, "negative, missing or no number"),
        ("target", {"file": "absent.csv"}, "does not exist"),
        ("target", {"file": "sklearn:mnist"}, "breast_cancer"),
        ("model", {"family": "linear"}, "is not a number"),
        ("proxy", {"file": "other.csv"}, "no column 'age'"),
    ],
)  # fmt: skip
def test_mistakes_in_the_data(
    tmp_path: Path, section: str, keys: dict[str, Any], words: str
) -> None:
    rows("logistic").to_csv(tmp_path / "rows.csv", index=False)
    pd.DataFrame({"x": [1, 2]}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError) as caught:
        read_study(settings(**{section: keys}), tmp_path)
    assert words in str(caught.value)


def test_settings_are_checked_by_name(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(example())
    assert read_config(path).run.methods == ["proxyprox", "sgd", "erm"]
    start = '[model]\nfamily = "logistic"\n[target]\nfile = "a.csv"\n'
    for text, words in {
        start.replace("logistic", "logistc"): "[model] family must be 'linear', 'logistic'",
        start.replace("family", "famly"): "[model] family is missing",
        start + "lable = 'y'\n": "[target] lable is no known key; there are file, label",
        start + "[modle]\nl2 = 1\n": "no known section; there are model, target",
        start + "[run]\nseeds = 1.5\n": "[run] seeds must be a valid integer, got 1.5",
        start + "[run]\nbatch_size = 0\n": "[run] batch_size",
        start + "[run]\nmethods = ['sdg']\n": "[run] methods.0 must be 'proxyprox'",
        start + "[run]\nmethods = ['lbfgs']\n": 'batch_size = "all", got 64',
        start + "[proxy]\nkind = 'labelled'\n": "[proxy] file is missing",
        start + "[proxy]\nkind = 'subsample'\n": "[proxy] fraction goes with",
        start + "columns = {zip = 'code'}\n": "[target] columns.zip must be 'number'",
        "model = 3\n" + start.partition("[target]")[2]: "[model] must be",
        "l2 = \n": "not TOML",
    }.items():
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            read_config(path)
        assert words in str(caught.value), text
    for name, words in (("table.csv", "run table.csv --target"), ("none.toml", "No such file")):
        with pytest.raises(ConfigError, match=words):
            read_config(tmp_path / name)
