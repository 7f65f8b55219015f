"""Runs on one's own files: every family, every format, weights for the raw columns."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from sklearn.datasets import dump_svmlight_file

from proxyprox.experiments import study as own_data
from proxyprox.experiments.study import raw_weights, write_weights
from proxyprox.experiments.study_config import METHODS, Config, parse_config
from proxyprox.experiments.tournament import Job, NoDisplay, hold

NAMES = ("age", "income", "height")
FAMILIES = ("linear", "logistic", "softmax", "poisson")


def rows(family: str, count: int = 60, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, 3)) * [1.0, 20.0, 0.1] + [3.0, 100.0, 1.0]
    z = (X[:, 0] - 3) - (X[:, 1] - 100) / 20
    noisy = z + rng.standard_normal(count)
    return X, {
        "linear": noisy,
        "logistic": np.where(noisy > 0, "yes", "no"),
        "softmax": np.digitize(noisy, [-1, 1]),
        "poisson": rng.poisson(np.exp(0.5 * z)),
    }[family]


def write_csv(path: Path, X: Any, y: Any = None, order: tuple[int, ...] = (0, 1, 2)) -> None:
    header = [NAMES[j] for j in order] + ([] if y is None else ["label"])
    lines = [",".join(header)]
    for i, row in enumerate(X):
        cells = [repr(float(row[j])) for j in order] + ([] if y is None else [str(y[i])])
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


def settings(family: str, file: str = "rows.csv", **sections: dict[str, Any]) -> Config:
    tree: dict[str, dict[str, Any]] = {
        "model": {"family": family, "l2": 1e-2},
        "target": {"file": file, "label": "label"},
        "method": {"eta": 1.0, "batch_size": 16},
        "run": {"target_gradients": 6, "seeds": 1, "compare": []},
    }
    for name, changes in sections.items():
        tree[name] = {**tree.get(name, {}), **changes}
    return parse_config(tree)


def finished(config: Config, folder: Path, workers: int = 1) -> tuple[list[Any], dict[str, Any]]:
    ready = own_data.prepare(config, folder)
    out = folder / f"out{workers}"
    entries = own_data.entries(ready, folder)
    outcome = hold(
        entries,
        partial(own_data.run_job, base=folder, keep=out),
        ready,
        folder=out,
        seeds=ready.run.seeds,
        tuning_budget=ready.run.tuning_budget,
        budget=ready.run.target_gradients,
        workers=workers,
        display=NoDisplay(),
    )
    eta = outcome.chosen[entries[0].panel, entries[0].method]
    assert eta is not None
    fit = own_data.fit(ready, folder, out, entries[0], eta)
    write_weights(out, ready, own_data.study(ready, folder), fit)
    points = [{k: v for k, v in p.items() if k != "seconds"} for p in outcome.records]
    return points, json.loads((out / "weights.json").read_text())


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_apply_to_the_raw_columns(
    tmp_path: Path, family: str, intercept: bool, standardize: bool
) -> None:
    X, y = rows(family)
    if family == "poisson":
        X = X / [1.0, 20.0, 1.0]  # unscaled columns of 100 would overflow
    write_csv(tmp_path / "rows.csv", X, y)
    model = {"intercept": intercept, "standardize": standardize}
    config = own_data.prepare(settings(family, model=model), tmp_path)
    built = own_data.study(config, tmp_path)
    w = np.random.default_rng(1).standard_normal(built.target.dim)
    coefficients, intercepts = raw_weights(built, w)
    inside = built.target._predict(w).reshape(len(X), -1)
    np.testing.assert_allclose(X @ coefficients + intercepts, inside, rtol=1e-9, atol=1e-9)
    if not intercept:
        assert not intercepts.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_end_to_end(tmp_path: Path, family: str) -> None:
    X, y = rows(family)
    write_csv(tmp_path / "rows.csv", X, y)
    run = {"target_gradients": 60, "compare": ["sgd", "erm"], "tuning_gradients": 2}
    eta = 1.0 if family == "poisson" else 5.0
    points, weights = finished(settings(family, run=run, method={"eta": eta}), tmp_path)
    ours = [p["suboptimality"] for p in points if p["method"] == "ProxyProx"]
    assert 0 <= ours[-1] < 0.3 * ours[0]
    assert weights["suboptimality"] == ours[-1]
    assert weights["usable"]
    assert weights["run"].startswith("the first of 1 seeds")
    coefficients = weights["coefficients"]
    assert list(coefficients) == list(NAMES)
    z = X @ np.array(
        [list(c.values()) if isinstance(c, dict) else [c] for c in coefficients.values()]
    )
    shift = weights["intercept"]
    z = z + (list(shift.values()) if isinstance(shift, dict) else shift)
    if family == "logistic":
        assert weights["classes"] == ["no", "yes"]
        assert "P(label = yes) = 1 / (1 + exp(-z))" in weights["predict"]
        hits = np.array(weights["classes"])[(z[:, 0] > 0).astype(int)] == y
        assert hits.mean() > 0.75
    elif family == "softmax":
        assert weights["classes"] == [0, 1, 2]
        assert (scipy.special.softmax(z, axis=1).argmax(axis=1) == y).mean() > 0.6
    elif family == "poisson":
        assert np.exp(z[:, 0]).mean() == pytest.approx(y.mean(), rel=0.3)
    else:
        assert np.corrcoef(z[:, 0], y)[0, 1] > 0.7


@pytest.mark.parametrize("kind", ["csv", "npz", "svm", "parquet"])
def test_every_format_gives_the_same_run(tmp_path: Path, kind: str) -> None:
    X, _ = rows("linear")
    y = (X[:, 0] > 3).astype(float)
    y[::7] = 1 - y[::7]
    write_csv(tmp_path / "plain.csv", X, y)
    plain = settings("logistic", "plain.csv", model={"intercept": False})
    expected, _ = finished(plain, tmp_path)
    target: dict[str, Any] = {"file": f"rows.{kind}"}
    if kind == "csv":
        write_csv(tmp_path / "rows.csv", X, y)
    elif kind == "npz":
        np.savez(tmp_path / "rows.npz", X=X, label=y, feature_names=np.array(NAMES))
    elif kind == "svm":
        dump_svmlight_file(X, y, str(tmp_path / "rows.svm"), zero_based=False)
    else:
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame(dict(zip(NAMES, X.T, strict=True)) | {"label": y})
        frame.to_parquet(tmp_path / "rows.parquet")
    config = replace(plain, target=replace(plain.target, **target))
    if kind == "svm":
        config = replace(config, target=replace(config.target, label=None))
    folder = tmp_path / "again"
    folder.mkdir()
    (tmp_path / f"rows.{kind}").rename(folder / f"rows.{kind}")
    points, weights = finished(config, folder)
    ends = [[p["suboptimality"] for p in some] for some in (points, expected)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)
    assert list(weights["coefficients"]) == (["x1", "x2", "x3"] if kind == "svm" else list(NAMES))


def test_proxies(tmp_path: Path) -> None:
    X, y = rows("logistic")
    write_csv(tmp_path / "rows.csv", X, y)
    more, old = rows("logistic", 90, seed=5)
    write_csv(tmp_path / "unlabelled.csv", more, order=(2, 0, 1))
    write_csv(tmp_path / "old.csv", more, old, order=(1, 2, 0))
    sections: list[dict[str, Any]] = [
        {"kind": "label-free"},
        {"kind": "label-free", "file": "unlabelled.csv"},
        {"kind": "labelled", "file": "old.csv"},
        {"kind": "subsample", "fraction": 0.5},
        {"kind": "subsample", "rows": 20},
    ]
    for number, proxy in enumerate(sections):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file in tmp_path.glob("*.csv"):
            (folder / file.name).write_bytes(file.read_bytes())
        points, _ = finished(settings("logistic", proxy=proxy), folder)
        assert points[-1]["suboptimality"] < points[0]["suboptimality"]
        assert points[-1]["proxy_gradients"] > 0
    config = own_data.prepare(settings("logistic", proxy=sections[2]), tmp_path)
    built = own_data.study(config, tmp_path)
    assert built.other is not None
    scaled = (more - built.centre) / built.scale
    np.testing.assert_allclose(built.other.design.X, scaled)  # the target's order and scaling


def test_l1_leaves_the_intercept_alone(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    model = {"l1": 10.0, "l2": 0.0}
    config = settings("logistic", model=model, run={"target_gradients": 40, "compare": ["erm"]})
    points, weights = finished(config, tmp_path)
    assert list(weights["coefficients"].values()) == [0.0, 0.0, 0.0]
    assert weights["intercept"] != 0
    assert points[-1]["suboptimality"] == pytest.approx(0, abs=1e-2)


def test_same_seed_same_records_whatever_the_workers(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    run = {"seeds": 2, "compare": ["sgd"], "tuning_gradients": 1, "target_gradients": 4}
    config = settings("logistic", run=run)
    one, weights = finished(config, tmp_path, workers=1)
    two, again = finished(config, tmp_path, workers=2)
    assert one == two
    assert weights == again
    other = replace(config, run=replace(config.run, seed=7))
    folder = tmp_path / "other"
    folder.mkdir()
    (tmp_path / "rows.csv").rename(folder / "rows.csv")
    assert finished(other, folder)[0][-1] != one[-1]


@pytest.mark.parametrize(
    "method",
    [
        {"name": "sgd"},
        {"name": "dane"},
        {"name": "auxmom", "eta": 0.1, "inner_steps": 3, "a": 0.5},
        {"name": "auxmvr", "eta": 0.1},
        {"correction": "ema", "a": 0.2},
        {"correction": "storm", "averaging": "geometric"},
        {"correction": "mean", "averaging": "uniform", "batch_size": "all"},
        {"inner": "gradient-descent", "inner_steps": 5},
        {"inner": "gradient-descent", "inner_steps": 5, "eta": "auto"},
        {"correction": "storm", "averaging": "uniform", "eta": "auto"},
        *({"name": name, "eta": "auto"} for name in METHODS),
        {"inner": "gradient-descent"},
        {"inner": "nesterov", "inner_tolerance": 1e-4, "inner_steps": 50},
        *({"inner": name} for name in ("newton", "newton-cg", "lbfgs", "proximal-gradient")),
    ],
    ids=str,
)
def test_methods(tmp_path: Path, method: dict[str, Any]) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    points, weights = finished(settings("logistic", method=method), tmp_path)
    assert points[-1]["suboptimality"] < points[0]["suboptimality"]
    assert weights["usable"]
    assert weights["run"].startswith("the first of 1 seeds")


def test_notes_and_facts(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    config = own_data.prepare(settings("logistic", run={"seconds": 5.0}), tmp_path)
    assert any("after 5 s" in note for note in own_data.notes(config, tmp_path))
    known = own_data.facts(config, tmp_path)
    assert known["rows"] == 60
    assert known["classes"] == ["no", "yes"]


def test_large_labels_make_no_rough_optimum(tmp_path: Path) -> None:
    X, y = rows("linear")
    write_csv(tmp_path / "rows.csv", X, 1e12 * y)
    config = own_data.prepare(settings("linear", model={"l2": 0.0}), tmp_path)
    assert own_data.notes(config, tmp_path) == []


def test_time_limit_ends_a_run(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    run = {"seconds": 1e-9, "target_gradients": 50}
    points, weights = finished(settings("logistic", run=run), tmp_path)
    assert weights["target_gradients"] == 1
    assert "seconds" in weights["status"]
    assert points[-1]["suboptimality"] == points[2]["suboptimality"]


def test_tuning_uses_a_seed_of_its_own(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    config = settings("logistic", method={"eta": [0.5, 5.0]}, run={"seeds": 2})
    finished(config, tmp_path)
    grid = [json.loads(line) for line in (tmp_path / "out1/grid.jsonl").read_text().splitlines()]
    final = [json.loads(li) for li in (tmp_path / "out1/records.jsonl").read_text().splitlines()]
    assert not {p["seed"] for p in grid} & {p["seed"] for p in final}
    assert {p["eta"] for p in grid} == {0.5, 5.0}


def test_one_job_can_be_run_by_itself(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    config = own_data.prepare(settings("logistic"), tmp_path)
    job = Job(own_data.PANEL, "ProxyProx", 16, 1.0, 0, 4, 1.0)
    points = own_data.run_job(config, job, base=tmp_path)
    assert points[-1]["target_gradients"] == 4
    assert not list(tmp_path.glob("**/fit.json"))
