"""Runs on one's own files: every family, every format, weights for the raw columns."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from sklearn.datasets import dump_svmlight_file

import proxyprox as pp
from experiments.compare import Experiment, Job, compare
from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.plan import RunPlan, plan
from proxyprox.problems import FAMILIES, ScaledProxy
from proxyprox_app.study import problem
from proxyprox_app.study.config import METHODS, StudyConfig, parse_config
from proxyprox_app.study.problem import PANEL, Study, load_study, method_to_write, raw_weights
from proxyprox_app.study.tables import DataError, read_table

NAMES = ("age", "income", "height")


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
        "gamma": rng.gamma(3.0, np.exp(0.5 * z) / 3),
    }[family]


def write_csv(path: Path, X: Any, y: Any = None, order: tuple[int, ...] = (0, 1, 2)) -> None:
    header = [NAMES[j] for j in order] + ([] if y is None else ["label"])
    lines = [",".join(header)]
    for i, row in enumerate(X):
        cells = [repr(float(row[j])) for j in order] + ([] if y is None else [str(y[i])])
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


def settings(family: str, file: str = "rows.csv", **sections: dict[str, Any]) -> StudyConfig:
    tree: dict[str, dict[str, Any]] = {
        "model": {"family": family, "l2": 1e-2},
        "target": {"file": file, "label": "label"},
        "method": {"eta": 1.0, "batch_size": 16},
        "run": {"target_gradients": 6, "seeds": 1, "compare": []},
    }
    for name, changes in sections.items():
        tree[name] = {**tree.get(name, {}), **changes}
    return parse_config(tree)


def finished(
    config: StudyConfig, folder: Path, workers: int = 1
) -> tuple[list[Any], dict[str, Any]]:
    ready = problem.prepare(config, folder)
    study, out = load_study(ready, folder), folder / f"out{workers}"
    curves = study.curves()
    experiment = Experiment(
        title="",
        config=ready,
        curves=curves,
        run_job=partial(problem.run_job, base=folder),
        seeds=ready.run.seeds,
        tuning_budget=ready.run.tuning_budget,
        budget=ready.run.target_gradients,
        shown={},
    )
    outcome = compare(experiment, out, workers)
    eta = outcome.etas[PANEL, curves[0].method]
    problem.write_weights(out / "weights.json", study, curves[0], eta)
    points = [{k: v for k, v in p.items() if k != "seconds"} for p in outcome.records]
    return points, json.loads((out / "weights.json").read_text())


def built(config: StudyConfig, folder: Path = Path()) -> Study:
    return load_study(problem.prepare(config, folder), folder)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_apply_to_the_raw_columns(
    tmp_path: Path, family: str, intercept: bool, standardize: bool
) -> None:
    X, y = rows(family)
    if family in ("poisson", "gamma"):
        X = X / [1.0, 20.0, 1.0]  # unscaled columns of 100 would overflow
    write_csv(tmp_path / "rows.csv", X, y)
    model = {"intercept": intercept, "standardize": standardize}
    study = built(settings(family, model=model), tmp_path)
    target = study.target
    w = np.random.default_rng(1).standard_normal(target.dim)
    coefficients, intercepts = raw_weights(study, w)
    inside = target.design.X @ w.reshape(target.design.width, -1)[:3]
    if intercept:
        inside = inside + w.reshape(target.design.width, -1)[3]
    np.testing.assert_allclose(X @ coefficients + intercepts, inside, rtol=1e-9, atol=1e-9)
    if not intercept:
        assert not intercepts.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_end_to_end(tmp_path: Path, family: str) -> None:
    X, y = rows(family)
    write_csv(tmp_path / "rows.csv", X, y)
    run = {"target_gradients": 60, "compare": ["sgd", "erm"], "tuning_gradients": 2}
    eta = 1.0 if family in ("poisson", "gamma") else 5.0
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
    elif family in ("poisson", "gamma"):
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
    study = built(settings("logistic", proxy=sections[2]), tmp_path)
    assert study.other is not None
    scaled = (more - study.centre) / study.scale
    np.testing.assert_allclose(study.other.design.X, scaled)  # the target's order and scaling


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
    run = {"seeds": 2, "target_gradients": 4}
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
        *({"name": name, "eta": "auto"} for name in METHODS if name != "adam"),
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


def test_inner_gradient_steps_need_a_smoothness(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("poisson"))
    method = {"eta": "auto", "inner": "gradient-descent"}
    with pytest.raises(TypeError, match=r"GradientDescent.*smooth"):
        finished(settings("poisson", method=method), tmp_path)


def test_labels_of_another_length_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.eye(3), y=np.ones(2))
    with pytest.raises(DataError, match=r"rows\.npz.*y must"):
        built(settings("linear", "rows.npz", target={"label": None}), tmp_path)


def test_notes_and_facts(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    study = built(settings("logistic", run={"seconds": 5.0}), tmp_path)
    assert any("after 5 s" in note for note in study.notes())
    known = study.facts()
    assert known["rows"] == 60
    assert known["classes"] == ["no", "yes"]


def test_large_labels_make_no_rough_optimum(tmp_path: Path) -> None:
    X, y = rows("linear")
    write_csv(tmp_path / "rows.csv", X, 1e12 * y)
    assert built(settings("linear", model={"l2": 0.0}), tmp_path).notes() == []


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
    config = problem.prepare(settings("logistic"), tmp_path)
    points = problem.run_job(config, Job(PANEL, "ProxyProx", 16, 1.0, 0, 4), base=tmp_path)
    assert points[-1]["target_gradients"] == 4


ROWS = """age,income,height,label
1,20,3,no
2,10,3,yes
4,30,2,yes
3,25,1,no
"""


@pytest.mark.parametrize(
    ("proxy", "text", "words"),
    [
        ({"kind": "label-free"}, "age,income\n1,2\n", "same columns.*'height'"),
        ({"kind": "label-free"}, "age,income,height,x\n1,2,3,4\n", "same columns.*'x'"),
        ({"kind": "labelled"}, "age,income,height\n1,2,3\n", "no column 'label'"),
        ({"kind": "labelled"}, "age,income,height,label\n1,2,3,maybe\n", "maybe"),
        ({"kind": "labelled"}, "age,income,height,label\n1,2,3,0\n", r"one of the classes .*got"),
    ],
)
def test_columns_and_labels_must_match(
    tmp_path: Path, proxy: dict[str, Any], text: str, words: str
) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "other.csv").write_text(text)
    config = settings("logistic", proxy={**proxy, "file": "other.csv"})
    with pytest.raises(DataError, match=words):
        built(config, tmp_path)


def test_svmlight_files_may_end_before_the_last_column(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1 2:2\n0 1:2\n1 2:1\n")
    (tmp_path / "b.svm").write_text("0 1:1 4:1\n")
    config = parse_config(
        {
            "model": {"family": "logistic"},
            "target": {"file": "a.svm"},
            "proxy": {"kind": "label-free", "file": "b.svm"},
        }
    )
    study = built(config, tmp_path)
    assert study.names == ("x1", "x2", "x3", "x4")
    assert study.target.design.columns == 4


@pytest.mark.parametrize(
    ("family", "y", "words"),
    [
        ("poisson", [1, -2, 3], r"rows.csv: .*-2.0 in row 2"),
        ("linear", [1, "two", 3], "row 2, column 'label': 'two' is not a number"),
        ("logistic", [1, 1, 1], "1 classes"),
        ("logistic", [1, 2, 3], 'use family = "softmax"'),
        ("softmax", ["a", "a", "a"], r"1 classes"),
    ],
)
def test_labels_that_do_not_suit(tmp_path: Path, family: str, y: list[Any], words: str) -> None:
    lines = [f"{i},{i * i},{2 * i},{label}" for i, label in enumerate(y)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,income,height,label", *lines]) + "\n")
    with pytest.raises(DataError, match=words):
        built(settings(family), tmp_path)


def test_built_in_sets() -> None:
    for name, family in (("iris", "softmax"), ("diabetes", "linear")):
        config = settings(family, f"sklearn:{name}", target={"label": None})
        assert built(config).optimum >= 0
    with pytest.raises(DataError, match=r"sklearn: must be one of .*iriss"):
        built(settings("linear", "sklearn:iriss"))


def test_text_in_a_column_of_numbers_is_told_and_left_out(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    lines[2] = "tall," + lines[2].partition(",")[2]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    study = built(settings("logistic"), tmp_path)
    name = lines[0].partition(",")[0]
    assert any(note.startswith(name) and "'tall' (row 2)" in note for note in study.notes())
    assert f"{name} (missing)" in study.names
    kept = problem.table_model(study, np.zeros(study.target.dim), "ours")
    assert kept is not None
    found, _ = kept.predict(read_table(tmp_path / "rows.csv"))
    assert (found.iloc[:, -1] == 0.5).all()


def test_a_forgotten_label_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    with pytest.raises(DataError, match=r"\[target\] label"):
        built(settings("logistic", target={"label": None}), tmp_path)


def test_rows_without_a_label_are_the_proxy(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", *rows("logistic"))
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    part = [line if i % 3 else line.rpartition(",")[0] + "," for i, line in enumerate(lines)]
    (tmp_path / "rows.csv").write_text("\n".join([lines[0], *part[1:]]))
    study = built(settings("logistic"), tmp_path)
    assert study.other is not None
    assert study.other.design.rows == len(lines) - 1
    assert study.target.design.rows == sum(1 for i in range(1, len(lines)) if i % 3)
    assert any("without a label are the proxy's" in note for note in study.notes())
    dropped = built(settings("logistic", proxy={"kind": "subsample", "rows": 9}), tmp_path)
    assert dropped.other is None


def ends(**values: float | None) -> list[dict[str, Any]]:
    return [{"method": name, "suboptimality_median": end} for name, end in values.items()]


@pytest.mark.parametrize(
    ("values", "lowest", "words"),
    [
        ({"ours": 0.1, "SGD": 0.7}, "ours", "0.1 above the optimum; the weights written are"),
        ({"ours": 0.1, "SGD": 0.1}, "ours", "ours ended lowest"),
        ({"ours": 1.0, "SGD": 0.7}, "SGD", "(ours: 1 above the optimum); the weights"),
        ({"ours": 1.0, "SGD": -1e-16}, "SGD", "at the optimum to rounding"),
        ({"ours": None, "SGD": 5.0}, "SGD", "(ours: broke off)"),
        ({"ours": None, "SGD": None}, "ours", "weights written are those of ours."),
        ({"ours": 1.0}, "ours", "weights written are those of ours."),
    ],
)
def test_which_weights_are_written(
    values: dict[str, float | None], lowest: str, words: str
) -> None:
    chosen, found, said = method_to_write("ours", "method", ends(**values))
    assert (chosen, found) == ("ours", lowest)
    assert words in said
    assert ('[run] weights = "lowest" writes' in said) == (lowest != "ours")
    chosen, found, said = method_to_write("ours", "lowest", ends(**values))
    assert (chosen, found) == (lowest, lowest)
    assert '[run] weights = "lowest"' not in said


@pytest.fixture(scope="module")
def planned() -> RunPlan:
    target = pp.Quadratic(np.diag([1.0, 10.0, 100.0]), b=np.ones(3), noise=0.01)
    return plan(audit(pp.Problem(target, pp.Quadratic(np.diag([1.1, 10.5, 99.0]))), rng=0))


def test_the_lines_hold_the_plan(planned: RunPlan) -> None:
    read = tomllib.loads(problem.plan_toml(planned, 64) or "")
    assert read["method"]["eta"] == planned.method.eta
    assert read["method"]["correction"] == "plain"
    assert read["method"]["batch_size"] == 64
    assert read["run"]["target_gradients"] == planned.steps


def test_sgd_on_all_rows_averaged(planned: RunPlan) -> None:
    other = replace(planned, method=pp.SGD(0.5), averaging=pp.averaging.Uniform(), stop=None)
    assert tomllib.loads(problem.plan_toml(other, None) or "")["method"] == {
        "name": "sgd", "eta": 0.5, "batch_size": "all", "averaging": "uniform",
    }  # fmt: skip


def test_a_scale_has_no_key(planned: RunPlan) -> None:
    proxy = ScaledProxy(planned.problem.proxy, 2.0)
    scaled = replace(planned, problem=pp.Problem(planned.problem.objective, proxy))
    assert problem.plan_toml(scaled, 64) is None
