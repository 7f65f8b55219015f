"""Models on held-out rows: splits, measures, and scores that are questioned."""

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from proxyprox_app.columns import Columns
from proxyprox_app.fit import compare_models, losses_of, more_measures, read_split, read_target
from proxyprox_app.tables import DataError

pd = pytest.importorskip("pandas")


def visits():
    """Return visits of patients whose label has nothing to do with what was measured."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(30), 6)
    return pd.DataFrame(
        {
            "patient": [f"P{i:02d}" for i in patient],
            "number": patient * 17 % 101,
            "pulse": rng.normal(70, 8, 180).round(1),
            "day": pd.date_range("2024-01-01", periods=180).strftime("%d.%m.%Y"),
            "ill": np.where(rng.integers(0, 2, 30)[patient] > 0, "yes", "no"),
        }
    )


def compared(frame, target, split=None, drop=""):
    goal = read_target(frame, target)
    kinds = {name: "drop" for name in drop.split(",") if name}
    columns = Columns(kinds).plan(frame, goal.y, [target])
    return compare_models(frame, columns, goal, split=split), columns, goal


def test_groups_that_determine_the_label_are_named_and_held_out_whole():
    frame = visits()
    found, columns, _ = compared(frame, "ill")
    told = {finding.column: finding.text for finding in columns.findings}
    assert "--groups patient" in told["patient"]
    assert "--groups number" in told["number"]
    assert "pulse" not in told
    assert found.perfect
    whole, _, _ = compared(frame, "ill", read_split(frame, "patient", None), "patient,number")
    assert not whole.perfect
    best, base = whole.scores[0].loss, whole.scores[-1].loss
    assert best[0] > 0.6
    assert "whole groups of patient" in whole.split
    # Six visits tell hardly more than one: the interval is that of 30 patients.
    assert base[2] - base[1] > 1.5 * (found.scores[-1].loss[2] - found.scores[-1].loss[1])
    with pytest.raises(DataError, match="--groups patient"):
        compared(
            frame.assign(patient="P"), "ill", read_split(frame.assign(patient="P"), "patient", None)
        )


def test_a_number_that_predicts_well_is_no_group():
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, 300)
    frame = pd.DataFrame({"age": age, "x": rng.normal(size=300), "old": age >= 40})
    _, columns, _ = compared(frame.assign(old=frame["old"].map({True: "y", False: "n"})), "old")
    assert columns.findings == []


def test_later_rows_are_held_out():
    rng = np.random.default_rng(0)
    n = 240
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=n), "x": rng.normal(size=n)})
    # What x says turns around halfway: only a split by time can notice.
    frame["y"] = frame["x"] * np.where(np.arange(n) < n // 2, 1.0, -1.0)
    shuffled = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    for column in ("day", "step"):
        shuffled["step"] = shuffled["day"].rank()
        found, _, _ = compared(shuffled, "y", read_split(shuffled, None, column), "day,step")
        assert found.judged < n
        assert found.folds == 5
        assert f"later rows by {column}" in found.split
        assert {s.model: s.second[0] for s in found.scores}["erm"] < 0
    text = frame.assign(day=frame["day"].dt.strftime("%d.%m.%Y"))
    assert (read_split(text, None, "day").codes == read_split(frame, None, "day").codes).all()
    for wrong, words in ((frame.assign(day=None), "no date"), (frame.drop(columns="day"), "'day'")):
        with pytest.raises(DataError, match=words):
            read_split(wrong, None, "day")


def test_outliers_are_named_and_decide_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.3 * rng.normal(size=300)
    y[:6] += 1e3 * rng.normal(size=6)
    found, _, goal = compared(pd.DataFrame(X, columns=list("abc")).assign(y=y), "y")
    assert goal.outliers == 6
    assert "interquartile" in str(goal.findings[0])
    assert found.chosen == "huber"
    assert found.measures[0] == "Huber error"
    assert found.scores[0].more["median error"] < 0.3
    clean, _, goal = compared(pd.DataFrame(X[6:], columns=list("abc")).assign(y=y[6:]), "y")
    assert (goal.findings, clean.measures[0]) == ([], "RMSE")


def test_rare_classes_are_measured_by_ranks():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    y = np.where(rng.random(1500) < 1 / (1 + np.exp(4.5 - 1.5 * x)), "event", "none")
    found, _, goal = compared(pd.DataFrame({"x": x, "y": y}), "y")
    assert "accuracy says little" in str(goal.findings[0])
    assert (goal.name, goal.findings[0].column) == ("y", "y")
    more = {score.model: score.more for score in found.scores}
    assert more["base-rate"]["AUC"] == pytest.approx(0.5)
    assert more["erm"]["AUC"] > 0.75
    assert more["erm"]["AP"] > 2 * more["base-rate"]["AP"]


def test_measures_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    classes = ["a", "b", "c"]
    y = rng.choice(classes, 80)
    chances = rng.dirichlet(np.ones(3), 80)
    found = more_measures("classification", chances, y, classes)
    for name, score in (("AUC", roc_auc_score), ("AP", average_precision_score)):
        want = np.mean([score(y == each, chances[:, j]) for j, each in enumerate(classes)])
        assert found[name] == pytest.approx(want)
    two = more_measures("classification", chances[:, :2], np.array(["a"] * 80), ["a", "b"])
    assert two == {"AUC": None, "AP": None}
    error = np.array([0.5, 3.0])
    found = losses_of("regression", error, np.zeros(2), (), 1.0)
    np.testing.assert_allclose(found, [0.25, 2 * 3.0 - 1.0])
    np.testing.assert_allclose(losses_of("regression", error, np.zeros(2), (), math.inf), error**2)
