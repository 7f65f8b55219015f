"""The label experiment: draws, methods, paired differences and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import labels
from experiments.compare import Job
from experiments.labels import ALONE, BASELINE, OURS, TAUGHT, differences, loss_of, sentences
from experiments.shared import application


def test_draws_are_nested_and_disjoint():
    few, many = (labels.draw("wine", n, seed=3) for n in (20, 40))
    assert len(few.y) == 20
    np.testing.assert_array_equal(few.X, many.X[:20])
    np.testing.assert_array_equal(few.X_test, many.X_test)
    assert len(few.y) + few.X_proxy.shape[0] + len(few.y_test) == 178
    assert min(np.unique(few.y, return_counts=True)[1]) >= 2


def test_teachers_err_as_often_as_they_should():
    drawn = labels.draw("breast_cancer", 50, seed=0, flip=0.25)
    assert len(drawn.answers) == 50 + drawn.X_proxy.shape[0]
    assert np.mean(drawn.answers[:50] != drawn.y) == pytest.approx(0.25, abs=0.15)


@pytest.mark.parametrize("method", list(dict([*ALONE, *TAUGHT])))
def test_every_method_learns(method):
    drawn = labels.draw("breast_cancer", 40, seed=1, flip=0.05)
    # A step size chosen on eight labels may be a bad one; cross-validation is not that rash.
    assert loss_of(method, drawn, seed=0) < (2.0 if "one pass" in method else np.log(2))


def test_a_method_without_an_answer_leaves_a_gap(monkeypatch):
    job = Job("wine", OURS, None, None, 0, 20, 1.0)
    monkeypatch.setattr(labels, "loss_of", lambda *_, **__: float("nan"))
    (point,) = labels.run_job(labels.Config(datasets=("wine",), taught=(), labels=(20,)), job)
    assert point["test_loss"] is None


def points():
    for seed in range(5):
        for method, loss in ((OURS, 0.3), (BASELINE, 0.4)):
            yield {
                "panel": "a", "method": method, "labels": 20, "seed": seed,
                "test_loss": loss + 0.01 * seed,
            }  # fmt: skip


def test_differences_are_paired():
    (row,) = differences(list(points()))
    assert row["difference"] == pytest.approx(-0.1)
    assert row["low"] == pytest.approx(-0.1)
    assert row["seeds"] == 5
    assert "lower at 20 labels" in sentences([row])[0]


def test_command(tmp_path, monkeypatch):
    monkeypatch.setattr(labels, "save_figures", lambda *_, **__: [])
    monkeypatch.setattr(labels, "loss_of", lambda method, *_, **__: 0.3 + (method == OURS))
    args = "--datasets breast_cancer --taught none --labels 20 --seeds 2 --workers 1 --json"
    done = CliRunner().invoke(
        application(labels.labels), [*args.split(), "--output", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {row["method"] for row in found["differences"]} == {n for n, _ in ALONE} - {OURS}
    assert {"records.jsonl", "summary.json", "report.html"} <= {p.name for p in tmp_path.iterdir()}


@pytest.mark.parametrize("settings", [{"labels": ()}, {"labels": (2,)}, {"seeds": 0}])
def test_settings_are_checked(settings):
    with pytest.raises(ValueError, match="must be"):
        labels.Config(**settings)
