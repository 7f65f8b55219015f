"""Model files: numbers go round, and nothing else is read. No file runs code."""

from __future__ import annotations

import functools
import io
import json
import operator
import subprocess
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyprox_app.study.columns import Columns
from proxyprox_app.study.fit import FittedGLM, TableModel, make_model
from proxyprox_app.study.model_file import ModelFileError, seal

pd: Any = pytest.importorskip("pandas")
ROWS = 40


def table() -> Any:
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "x": rng.normal(size=ROWS),
        "age": [None, *rng.integers(18, 80, ROWS - 1).astype(float)],
        "city": rng.choice(["Rome", "Bonn", "Oslo"], ROWS),
        "paid": rng.choice(["yes", "no"], ROWS),
        "since": pd.date_range("2024-01-01", periods=ROWS, freq="7h"),
        "note": [f"late {i} broken" if i % 3 else f"fine {i} quick" for i in range(ROWS)],
    })  # fmt: skip


def model(family: str = "logistic", classes: Any = ("no", "yes")) -> TableModel:
    columns = Columns({"note": "text", "city": "category"}).fit(table())
    outputs = len(classes) if family == "softmax" else 1
    coef = np.random.default_rng(1).normal(size=(outputs, len(columns.feature_names))) / 10
    glm = FittedGLM(family, list(classes), coef, np.linspace(0.1, 0.3, outputs))
    task = "classification" if classes else "regression"
    return TableModel(columns, glm, "y", task, {"model": "erm", "mean": [0.5, [None, "x"]]})


@pytest.mark.parametrize(
    ("family", "classes"),
    [("logistic", ["no", "yes"]), ("softmax", ["a", "b", "c"]), ("linear", []), ("poisson", []),
     ("logistic", [0.0, 1.0]), ("logistic", [False, True])],
)  # fmt: skip
def test_what_is_read_is_what_was_written(tmp_path: Path, family: str, classes: Any) -> None:
    kept = model(family, classes)
    kept.save(tmp_path / "model.json")
    again = TableModel.load(tmp_path)
    pd.testing.assert_frame_equal(again.predict(table())[0], kept.predict(table())[0])
    assert again.about == kept.about
    assert again.coefficients() == kept.coefficients()
    assert again.estimator.classes_ == classes


@pytest.mark.parametrize("name", ["proxyprox", "scikit-learn", "erm", "base-rate"])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_weights_predict_what_the_estimator_does(name: str, classes: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y: Any = X[:, 0] + rng.normal(size=60)
    if classes:
        y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [0.0, 0.7][: classes - 1])]
    task = "classification" if classes else "regression"
    fitted = make_model(name, task, folds=2)
    if name == "proxyprox":
        fitted.set_params(cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # settings that newer releases name otherwise
        fitted.fit(X, y)
    glm = FittedGLM.of(fitted, task)
    glm.check(task, 3)
    if classes:
        np.testing.assert_allclose(glm.predict_proba(X), fitted.predict_proba(X), rtol=1e-7)
        assert glm.predict(X).tolist() == fitted.predict(X).tolist()
    else:
        np.testing.assert_allclose(glm.predict(X), fitted.predict(X), rtol=1e-9)


# -- archives of skops, which earlier versions read ------------------------------------------------


def _attacks(command: str) -> dict[str, Any]:
    """Return estimators that run a command when they are loaded or used."""
    from sklearn.base import BaseEstimator
    from sklearn.compose import ColumnTransformer
    from sklearn.dummy import DummyRegressor
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import FeatureUnion, make_pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.utils._indexing import _safe_indexing

    def behind(*steps: Any) -> Any:
        none = FunctionTransformer(_safe_indexing, kw_args={"indices": []})
        return make_pipeline(none, *steps, DummyRegressor().fit([[0.0]], [0.0]))

    options = {"executable": "/bin/sh", "input": command, "text": True}
    run = FunctionTransformer(subprocess.check_output, kw_args=options)

    class Vectorizer(BaseEstimator):
        pass

    holder = DummyRegressor()
    holder.random_state = functools.partial(subprocess.check_output, **options)
    caller = DummyRegressor()
    caller.strategy = operator.methodcaller("system", command)
    return {
        "pipeline": behind(run),
        "function in a ColumnTransformer": behind(
            ColumnTransformer([("all", run, subprocess.check_output)])
        ),
        "inside an allowed transformer": behind(FeatureUnion([("a", run)])),
        "callable of a vectorizer": behind(CountVectorizer(analyzer=subprocess.check_output)),
        "partial": holder,
        "methodcaller": caller,
        "bound method": FunctionTransformer(run.transform),
    }


ATTACKS = (
    "pipeline", "function in a ColumnTransformer", "inside an allowed transformer",
    "callable of a vectorizer", "partial", "methodcaller", "bound method",
)  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("renamed", [False, True])
def test_archives_that_run_commands_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, renamed: bool
) -> None:
    skops: Any = pytest.importorskip("skops.io")
    monkeypatch.chdir(tmp_path)
    estimator = _attacks("touch PWNED")[name]
    content = skops.dumps({"columns": {}, "estimator": estimator, "target": "y"})
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        for part in old.namelist():
            text = old.read(part)
            if renamed and part == "schema.json":
                text = text.replace(b'"subprocess"', b'"sklearn.utils._testing"')
                text = text.replace(b'"builtins"', b'"proxyprox_app.study.fit"')
                text = text.replace(b'"dict"', b'"TableModel"')
            new.writestr(part, text)
    # By its name of before, by the name of now, and by its folder.
    for file in ("model.skops", "model.json"):
        Path(file).write_bytes(made.getvalue())
        for path in (Path(file), tmp_path):
            with pytest.raises(ModelFileError, match=file) as caught:
                TableModel.load(path)
            assert "proxyprox run" in str(caught.value)
    assert not Path("PWNED").exists()
    # Nothing but weights is written, either.
    kept = model()
    kept.estimator = estimator
    with pytest.raises(ModelFileError, match="FittedGLM"):
        kept.save(tmp_path / "evil.json")
    assert not (tmp_path / "evil.json").exists()


def test_other_archives_and_pickles_are_refused(tmp_path: Path) -> None:
    import pickle

    class Payload:
        def __reduce__(self) -> Any:
            return subprocess.check_output, (["touch", str(tmp_path / "PWNED")],)

    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * 10_000_000)
        archive.writestr("../../outside", b"x")
    files = {
        "bomb": bomb.getvalue(),
        "pickle": pickle.dumps(Payload()),
        "old pickle": pickle.dumps(Payload(), protocol=0),
        "empty": b"",
        "rubbish": b"\xff\xfe\x00",
        "deep": b"[" * 200_000,
        "deep object": b'{"a":' * 200_000,
        "digits": b'{"format": ' + b"9" * 10_000 + b"}",
        "array": b"[1, 2]",
        "null": b"null",
        "other": b'{"format": "proxyprox table model 9"}',
        "skops schema": b'{"__class__": "check_output", "__module__": "subprocess"}',
    }
    for name, content in files.items():
        path = tmp_path / f"{name}.json"
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=name):
            TableModel.load(path)
    assert not (tmp_path / "PWNED").exists()
    assert not (tmp_path.parent.parent / "outside").exists()


# -- damaged and forged files of our own -----------------------------------------------------------


def _set(*keys: Any, to: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in keys[:-1]:
            data = data[key]
        data[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("task", to="regression"), "task"),
        (_set("task", to=1), "task"),
        (_set("more", to=1), "more"),
        (lambda data: data.pop("about"), "about"),
        (_set("target", to=["y"]), "target"),
        (_set("estimator", "family", to="os.system"), "os.system"),
        (_set("estimator", "family", to="softmax"), "coef"),
        (_set("estimator", "classes", to=["a"]), "classes"),
        (_set("estimator", "classes", to=["a", "a"]), "classes"),
        (_set("estimator", "classes", 0, to={"__reduce__": ["os.system"]}), "classes"),
        (_set("estimator", "coef", to=[["1"]]), "coef"),
        (_set("estimator", "coef", to=[[1.0], [2.0, 3.0]]), ""),
        (_set("estimator", "coef", 0, 0, to=10**400), "coef"),
        (_set("estimator", "coef", 0, 0, to=True), "coef"),
        (_set("estimator", "intercept", to=[0.0, 1.0]), "intercept"),
        (_set("columns", "columns", 0, "kind", to="FunctionTransformer"), "FunctionTransformer"),
        (_set("columns", "columns", 0, "kind", to="category"), "learned"),
        (_set("columns", "columns", 0, "name", to=None), "name"),
        (_set("columns", "learned", to={}), "learned"),
        (_set("columns", "learned", "city", "levels", to=["a", "a"]), "city"),
        (_set("columns", "learned", "city", "levels", to=[1]), "city"),
        (_set("columns", "learned", "city", "analyzer", to="os.system"), "city"),
        (_set("columns", "learned", "note", "idf", to=[]), "note"),
        (_set("columns", "learned", "note", "directions", 0, to=[1.0]), ""),
        (_set("columns", "learned", "since", "hours", to=1), "since"),
        (_set("columns", "medians", to=[]), "medians"),
        (_set("columns", "scales", 0, to=0.0), "scales"),
        (_set("columns", "kept", 0, to=0), "kept"),
        (_set("columns", "kept", 0, to=False), "coef"),
        (_set("columns", "dtype", to="O"), "dtype"),
        (_set("columns", "scales", 0, to=1e-300), "scales"),
        (_set("columns", "medians", 0, to=-1e200), "medians"),
        (_set("columns", "columns", 0, "values", to=10**400), "values"),
        (_set("columns", "decimal", to="x"), "decimal"),
        (_set("columns", "columns", 4, "date", to="%Q(((("), "since"),
        (_set("columns", "columns", 4, "date", to="%d %d"), "since"),
        (_set("columns", "columns", 4, "date", to="((%"), "since"),
        (_set("columns", "columns", 4, "date", to="%Y" + "x" * 1000), "since"),
        (_set("columns", "learned", "note", "idf", 0, to=1e308), "note"),
        (_set("columns", "learned", "note", "directions", 0, 0, to=-1e308), "note"),
        (_set("columns", "learned", "city", "levels", 0, to="\udfff"), ""),
        (_set("estimator", "coef", 0, 0, to=1e200), "coef"),
        (_set("estimator", "classes", 0, to="\ud800"), ""),
        (_set("target", to="\ud800"), ""),
        (lambda data: data["columns"].pop("decimal"), "decimal"),
    ],
)  # fmt: skip
def test_forged_files_are_named(tmp_path: Path, change: Callable[[Any], None], words: str) -> None:
    path = tmp_path / "model.json"
    model().save(path)
    data = json.loads(path.read_text())
    del data["digest"]
    change(data)
    path.write_text(seal(data))
    with pytest.raises(ModelFileError, match=rf"model\.json(?s:.*)({words})"):
        TableModel.load(path)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999"])
def test_numbers_are_finite(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.json"
    model().save(path)
    data = json.loads(path.read_text())
    del data["digest"]
    data["estimator"]["intercept"] = [0.125]
    path.write_text(seal(data).replace("0.125", text))
    with pytest.raises(ModelFileError, match=r"model\.json"):
        TableModel.load(path)


@pytest.mark.parametrize(
    "cell", ["2024-01-31", "31.01.2024", "01/31/2024", "31 Jan 2024 10:15", "Jan 31, 2024",
             "2024-01-31T10:15:00.123+02:00", "20240131", "Wed 31 January 2024"],
)  # fmt: skip
def test_every_form_of_dates_that_is_found_is_read_again(tmp_path: Path, cell: str) -> None:
    frame = pd.DataFrame({"x": np.arange(20.0) ** 2, "day": [cell, cell.replace("31", "30")] * 10})
    columns = Columns({"day": "date"}).fit(frame)
    width = len(columns.feature_names)
    glm = FittedGLM("linear", [], np.ones((1, width)), np.zeros(1))
    kept = TableModel(columns, glm, "y", "regression", {})
    kept.save(tmp_path / "model.json")
    again = TableModel.load(tmp_path)
    pd.testing.assert_frame_equal(again.predict(frame)[0], kept.predict(frame)[0])


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model().save(path)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for length in rng.integers(0, len(content), 20):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"model\.json"):
            TableModel.load(path)
    want = TableModel.load(_rewritten(path, content)).predict(table())[0]
    for _ in range(100):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = TableModel.load(path)
        except ModelFileError:
            continue
        # 1e-05 is the same number as 1E-05.
        pd.testing.assert_frame_equal(again.predict(table())[0], want)


def _rewritten(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
