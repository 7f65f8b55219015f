"""Model files: numbers go round, and nothing else is read. No file runs code."""

import copy
import functools
import json
import operator
import pickle
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

from proxyprox_app.columns import Columns
from proxyprox_app.fit import make_model
from proxyprox_app.model import FittedGLM, ModelFileError, TableModel, seal

pd = pytest.importorskip("pandas")
ROWS = 40


def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "x": rng.normal(size=ROWS),
        "age": [None, *rng.integers(18, 80, ROWS - 1).astype(float)],
        "city": rng.choice(["Rome", "Bonn", "Oslo"], ROWS),
        "paid": rng.choice(["yes", "no"], ROWS),
        "since": pd.date_range("2024-01-01", periods=ROWS, freq="7h"),
        "note": [f"late {i} broken" if i % 3 else f"fine {i} quick" for i in range(ROWS)],
    })  # fmt: skip


def model(family="logistic", classes=("no", "yes")):
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
def test_what_is_read_is_what_was_written(tmp_path, family, classes):
    kept = model(family, classes)
    kept.save(tmp_path / "model.json")
    again = TableModel.load(tmp_path)
    pd.testing.assert_frame_equal(again.predict(table())[0], kept.predict(table())[0])
    assert again.about == kept.about
    assert again.coefficients() == kept.coefficients()
    assert again.estimator.classes_ == classes


@pytest.mark.parametrize("name", ["proxyprox", "scikit-learn", "erm", "base-rate"])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_weights_predict_what_the_estimator_does(name, classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60)
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


# -- what is no model file -------------------------------------------------------------------------


def test_files_that_could_run_something_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Payload:
        def __reduce__(self):
            return subprocess.check_output, (["touch", str(tmp_path / "PWNED")],)

    for name, content in {
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
        "zip archive": b"PK\x03\x04" + b"\0" * 100,
        "schema": b'{"__class__": "check_output", "__module__": "subprocess"}',
    }.items():
        path = tmp_path / f"{name}.json"
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=name):
            TableModel.load(path)
    assert not Path("PWNED").exists()


# -- damaged and forged files of our own -----------------------------------------------------------


FORGED = {
    "task": "regression", "target": "\ud800", "more": 1, "estimator.family": "os.system",
    "estimator.classes": ["a", "a"], "estimator.classes.0": {"__reduce__": ["os.system"]},
    "estimator.coef": [[1.0], [2.0, 3.0]], "estimator.coef.0.0": 10**400,
    "estimator.intercept": [0.0, 1.0], "columns.columns.0.kind": "category",
    "columns.columns.0.name": None, "columns.columns.0.values": 10**400, "columns.learned": {},
    "columns.learned.city.levels": ["a", "a"], "columns.learned.city.levels.0": "\udfff",
    "columns.learned.city.analyzer": "os.system", "columns.learned.note.idf": [],
    "columns.learned.note.idf.0": 1e308, "columns.learned.note.directions.0": [1.0],
    "columns.learned.since.hours": 1, "columns.medians": [], "columns.medians.0": -1e200,
    "columns.scales.0": 1e-300, "columns.kept.0": False, "columns.dtype": "O",
    "columns.decimal": "x", "columns.columns.4.date": "%Y" + "x" * 1000,
}  # fmt: skip


def test_forged_files_are_named(tmp_path):
    path = tmp_path / "model.json"
    model().save(path)
    whole = json.loads(path.read_text())
    del whole["digest"]
    dates = [("columns.columns.4.date", form) for form in ("%Q((((", "%d %d", "((%")]
    numbers = [("estimator.intercept.0", value) for value in ("1", True, float("inf"), 1e200)]
    for place, value in [*FORGED.items(), *dates, *numbers]:
        data = copy.deepcopy(whole)
        *keys, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        part = functools.reduce(operator.getitem, keys, data)
        part[last] = value
        if value == float("inf"):
            part[last] = 0.125
            path.write_text(seal(data).replace("0.125", "1e999"))
        else:
            path.write_text(seal(data))
        with pytest.raises(ModelFileError) as caught:
            TableModel.load(path)
        assert str(caught.value).startswith("model.json"), place


def test_every_form_of_dates_that_is_found_is_read_again(tmp_path):
    for cell in ("2024-01-31", "31.01.2024", "01/31/2024", "31 Jan 2024 10:15", "Jan 31, 2024",
                 "2024-01-31T10:15:00.123+02:00", "20240131", "Wed 31 January 2024"):  # fmt: skip
        days = [cell, cell.replace("31", "30")] * 10
        frame = pd.DataFrame({"x": np.arange(20.0) ** 2, "day": days})
        columns = Columns({"day": "date"}).fit(frame)
        glm = FittedGLM("linear", [], np.ones((1, len(columns.feature_names))), np.zeros(1))
        kept = TableModel(columns, glm, "y", "regression", {})
        kept.save(tmp_path / "model.json")
        again = TableModel.load(tmp_path)
        pd.testing.assert_frame_equal(again.predict(frame)[0], kept.predict(frame)[0])


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "model.json"
    model().save(path)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    want = TableModel.load(path).predict(table())[0]
    for length in rng.integers(0, len(content), 20):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"model\.json"):
            TableModel.load(path)
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
