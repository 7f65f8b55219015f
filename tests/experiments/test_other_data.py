"""Little right data and much other data: draws, rivals, rounds and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import proxyprox as pp
from experiments import other_data
from experiments.other_data import OURS, RIVALS, SOLVERS, TARGET, Losses
from experiments.shared import application
from proxyprox.inner.exact import minimise_exactly

from .conftest import table as overlapping


@pytest.fixture
def small(monkeypatch):
    """Put a small table in the place of a9a, with a rare group."""
    X, y = overlapping(900)
    X = np.column_stack([X, np.arange(900) % 3 == 0, X[:, :1] > 1, np.ones((900, 1))]) * 1.0
    monkeypatch.setattr(other_data, "table", lambda name: (X, y))
    for kept in (other_data.draw, other_data.fitted_logits, other_data.hidden_column):
        kept.cache_clear()
    monkeypatch.setattr(other_data, "RARE_COLUMN", 4)
    for name, number in (("PROXY_ROWS", 100), ("TASK_ROWS", 30), ("FOLDS", 2)):
        monkeypatch.setattr(other_data, name, number)
    yield
    for kept in (other_data.draw, other_data.fitted_logits, other_data.hidden_column):
        kept.cache_clear()


A9A = [case for case in other_data.CASES if case.endswith("a9a")]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", [*A9A, "ten related tasks", "other pairs of digits"])
def test_draws_have_both_classes_and_share_no_row(case):
    drawn = other_data.draw(case, 40, seed=1)
    assert len(drawn.y) + (0 if drawn.spent is None else len(drawn.spent[1])) == 40
    for y in (drawn.y, drawn.y_proxy, drawn.y_test):
        assert set(np.unique(y)) == {0, 1}
    parts = [drawn.X, drawn.X_test, *([] if "synthetic" in case else [drawn.X_proxy])]
    rows = [tuple(row) for part in parts for row in part]
    # Some images of digits are alike, but no row is drawn twice.
    assert len(set(rows)) >= len(rows) - 5
    other_data.draw.cache_clear()
    again = other_data.draw(case, 40, seed=1)
    np.testing.assert_array_equal(drawn.X_proxy, again.X_proxy)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("method", RIVALS)
def test_every_method_learns_from_good_other_data(method):
    loss, _ = other_data.fit_and_score(method, other_data.draw("ten related tasks", 40, 0), 0)
    assert loss < (1.0 if method == TARGET else np.log(2))


@pytest.mark.parametrize("solver", SOLVERS)
def test_rounds_are_counted(solver):
    X, y = overlapping(300)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    target = pp.logistic_regression(X, y, l2=1e-3)
    optimum = target.value(minimise_exactly(target, target.zeros()))
    points = other_data.count_rounds(solver, Losses(target, optimum, target.subsample(200, rng=0)))
    excess = [point["excess"] for point in points]
    assert excess == sorted(excess, reverse=True)
    reached = next(p["rounds"] for p in points if p["excess"] <= other_data.EXCESS)
    assert points[0]["to_one_per_cent"] <= reached


def test_command(tmp_path, monkeypatch):
    monkeypatch.setattr(other_data, "save_figure", lambda *_: [])
    monkeypatch.setattr(
        other_data, "fit_and_score", lambda method, *_: (0.3 + (method == OURS) / 10, "mixed")
    )
    args = "--cases ten --labels 40 --no-rounds --seeds 2 --workers 1 --json --output"
    done = CliRunner().invoke(application(other_data.other_data), [*args.split(), str(tmp_path)])
    assert done.exit_code == 0, done.output
    (text,) = json.loads(done.stdout)["findings"]
    assert "33.3% above" in text
    assert TARGET in text.partition("surely above")[2]
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert f"{OURS} chose: mixed 2." in page
