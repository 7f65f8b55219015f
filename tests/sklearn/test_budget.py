"""Buying labels: unbiased draws, the stop rule, and answers that survive a kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit

from proxyprox.sklearn import JournalError, LabelBudget, ProxyLogisticRegression, ProxyRidge

QUICK = ProxyLogisticRegression(cv=2, max_steps=10)


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, (rng.random(300) < expit(X @ [1.0, -1.0, 0.5])).astype(int)


def test_asking_again_changes_nothing_and_answers_may_come_one_by_one(pool):
    X, y = pool
    budget = LabelBudget(QUICK, X, budget=20, batch_size=8)
    rows = budget.ask()
    assert (budget.ask() == rows).all()
    assert len(set(rows.tolist())) == 8
    budget.tell(int(rows[3]), y[rows[3]])
    assert len(budget.ask()) == 7
    budget.tell(budget.ask(), y[budget.ask()])
    assert budget.spent == 8
    assert not set(budget.ask().tolist()) & set(rows.tolist())


def test_functions_that_write_into_what_they_are_handed(pool):
    X, y = pool

    def standardised(model, X):
        X -= X.mean(axis=0)
        return X[:, 0] ** 2

    def counted_from_one(rows):
        labels = y[rows]
        rows += 1
        return labels

    before = X.copy()
    budget = LabelBudget(QUICK, X, budget=24, batch_size=8, criterion=standardised)
    budget.run(counted_from_one)
    assert all(label == y[row] for row, label in budget.labels.items())
    np.testing.assert_array_equal(budget.X, before)


def squares(model, X):
    return X[:, 0] ** 2


@pytest.mark.parametrize("criterion", ["uniform", "uncertainty", "leverage", squares])
def test_run_spends_the_budget(pool, criterion):
    X, y = pool
    budget = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion=criterion)
    asked = []
    model = budget.run(lambda rows: asked.extend(rows.tolist()) or y[rows])
    assert budget.spent == 30 == len(set(asked)) == len(asked)
    assert model.n_labels_ == 30
    assert "budget of 30" in budget.finished


def test_weighted_gradients_are_unbiased(pool):
    X, y = pool
    row_gradients = X * (expit(X @ [0.3, 0.1, 0.0]) - y)[:, None]
    means = []
    for seed in range(300):
        budget = LabelBudget(
            QUICK, X, budget=300, batch_size=20, criterion=lambda m, X: np.abs(X[:, 1]), rng=seed
        )
        budget._fitted = (0, None)
        budget._draw()
        means.append(budget.weights @ row_gradients / 20)
    error = np.std(means, axis=0) / np.sqrt(300)
    assert (np.abs(np.mean(means, axis=0) - row_gradients.mean(axis=0)) < 4 * error).all()
    assert budget.weights.max() <= 4 * 20


def test_stop_rule_ends_early(pool):
    X, y = pool
    budget = LabelBudget(QUICK, X, budget=300, batch_size=50, least_gain=0.05)
    budget.run(lambda rows: y[rows])
    assert 0 < budget.spent < 300
    assert "less than 0.05" in budget.finished


def test_expected_gain_is_the_gain():
    """Against the true loss: how much lower it is with as many labels again."""
    w, gains, promised = np.array([1.0, -1.0, 0.5]), [], []
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 3))
    exact = ProxyLogisticRegression(n_steps="converged", alpha=0.0)

    def loss(model):
        p, q = expit(X @ w), model.predict_proba(X)[:, 1]
        return -np.mean(p * np.log(q) + (1 - p) * np.log(1 - q))

    for seed in range(40):
        y = (np.random.default_rng(seed).random(4000) < expit(X @ w)).astype(int)
        budget = LabelBudget(exact, X, budget=4000, batch_size=100, rng=seed, ahead=100)
        budget.tell(budget.ask(), y[budget.ask()])
        promised.append(budget.expected_gain())
        before = loss(budget.fit())
        budget.tell(budget.ask(), y[budget.ask()])
        gains.append(before - loss(budget.fit()))
    assert np.mean(promised) == pytest.approx(np.mean(gains), rel=0.5)


def test_answers_survive_and_go_on(pool, tmp_path):
    X, y = pool
    path = tmp_path / "labels.jsonl"
    whole = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty")
    whole.run(lambda rows: y[rows])
    budget = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty", path=path)
    for row in budget.ask()[:4]:
        budget.tell(int(row), y[row])
    left = budget.ask()
    with path.open("ab") as file:
        file.write(b'{"row": 5, "lab')  # the power goes
    again = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty", path=path)
    assert again.spent == 4
    assert (again.ask() == left).all()
    again.run(lambda rows: y[rows])
    assert again.labels == whole.labels
    np.testing.assert_array_equal(again.weights, whole.weights)


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_process_loses_nothing_it_was_told(tmp_path):
    path = tmp_path / "labels.jsonl"
    code = textwrap.dedent(f"""
        import os, signal
        import numpy as np
        from proxyprox.sklearn import LabelBudget, ProxyRidge
        budget = LabelBudget(ProxyRidge(), np.eye(20), budget=20, path={str(path)!r})
        for i, row in enumerate(budget.ask()):
            if i == 7:
                os.kill(os.getpid(), signal.SIGKILL)
            budget.tell(int(row), float(row))
    """)
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False)
    assert done.returncode != 0
    budget = LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=path)
    assert budget.spent == 7
    assert all(label == row for row, label in budget.labels.items())


def test_other_data_is_refused(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.jsonl"
    LabelBudget(QUICK, X, budget=10, path=path)
    with pytest.raises(JournalError, match=r"rows: there 300, now 100"):
        LabelBudget(QUICK, X[:100], budget=10, path=path)
    path.write_text("what is this\n")
    with pytest.raises(JournalError, match="damaged"):
        LabelBudget(QUICK, X, budget=10, path=path)
    path.write_text(json.dumps({"a": 1}) + "\n")
    with pytest.raises(JournalError, match="not a journal"):
        LabelBudget(QUICK, X, budget=10, path=path)


def test_wrong_answers_are_refused(pool):
    X, _ = pool
    budget = LabelBudget(QUICK, X, budget=10)
    with pytest.raises(ValueError, match="rows must be rows that were asked for"):
        budget.tell(-1, 0)
    with pytest.raises(ValueError, match="one for each"):
        budget.tell(budget.ask()[:2], [1])
    with pytest.raises(ValueError, match="criterion must be"):
        LabelBudget(QUICK, X, budget=10, criterion="best")
    with pytest.raises(TypeError, match="leverage"):
        LabelBudget(ProxyRidge(cv=2), X, budget=30, criterion="uncertainty", batch_size=10).run(
            lambda rows: X[rows, 0]
        )
    with pytest.raises(ValueError, match="Tell some first"):
        budget.fit()


def test_labels_of_other_rows_of_the_same_shape_are_refused(pool, tmp_path):
    X, _ = pool
    for name, form in (("dense", np.asfortranarray), ("sparse", scipy.sparse.csr_array)):
        path = tmp_path / name
        LabelBudget(QUICK, form(X[:100]), budget=10, path=path)
        LabelBudget(QUICK, form(X[:100].copy()), budget=10, path=path)
        with pytest.raises(JournalError, match="data: there"):
            LabelBudget(QUICK, form(X[100:200]), budget=10, path=path)
    # A file of an earlier version has no digest.
    header = json.loads(path.read_text().splitlines()[0])
    del header["about"]["data"]
    path.write_text(json.dumps(header) + "\n")
    assert LabelBudget(QUICK, X[100:200], budget=10, path=path).spent == 0


@pytest.mark.parametrize("criterion", ["uniform", "uncertainty"])
def test_no_answer_is_no_class(pool, tmp_path, criterion):
    X, y = pool
    path, asked = tmp_path / "labels.jsonl", []

    def oracle(rows):
        asked.extend(rows.tolist())
        return [None if row % 3 == 0 else y[row] for row in rows]

    settings = {"budget": 30, "batch_size": 10, "criterion": criterion, "path": path}
    budget = LabelBudget(QUICK, X, **settings)
    model = budget.run(oracle)
    assert budget.spent == 30 == model.n_labels_
    assert model.classes_.tolist() == [0, 1]
    assert budget.declined == {row for row in asked if row % 3 == 0}
    assert len(asked) == len(set(asked))
    again = LabelBudget(QUICK, X, **settings)
    assert (again.labels, again.declined) == (budget.labels, budget.declined)


def test_marks_and_blanks_are_no_answers(pool):
    X, _ = pool
    budget = LabelBudget(QUICK, X, budget=10)
    rows = budget.ask()[:4]
    with pytest.warns(UserWarning, match="unlabelled=None"):
        budget.tell(rows, ["yes", -1, "", float("nan")])
    assert (budget.spent, len(budget.declined)) == (1, 3)
    budget.tell(rows[:2], [None, "no"])
    assert budget.labels == {rows[1]: "no"}
    signed = LabelBudget(ProxyLogisticRegression(unlabelled=None), X, budget=10)
    signed.tell(int(signed.ask()[0]), -1)
    assert signed.spent == 1
    numbers = LabelBudget(ProxyRidge(), X, budget=10)
    numbers.tell(numbers.ask()[:2], np.array([np.nan, -1.0]))
    assert (numbers.spent, len(numbers.declined)) == (1, 1)
    with pytest.raises(ValueError, match="finite numbers for a regressor"):
        numbers.tell(numbers.ask()[:2], [1.0, "two"])
    assert numbers.spent == 1


@pytest.mark.parametrize("criterion", ["uniform", "leverage"])
def test_a_budget_above_the_rows_buys_them_all(pool, criterion):
    X, y = pool
    budget = LabelBudget(QUICK, X[:40], budget=90, criterion=criterion)
    assert budget.run(lambda rows: y[rows]).n_labels_ == 40
    assert budget.finished == "All 40 rows have been asked for (the budget was 90)."
    silent = LabelBudget(QUICK, X[:40], budget=40, criterion=criterion)
    with pytest.raises(ValueError, match="Tell some first"):
        silent.run(lambda rows: [None] * len(rows))
    assert silent.declined == set(range(40))


def test_rows_drawn_under_a_larger_budget_are_not_asked_for(pool, tmp_path):
    X, y = pool
    path = tmp_path / "labels.jsonl"
    LabelBudget(QUICK, X, budget=20, batch_size=5, path=path).run(lambda rows: y[rows])
    assert len(LabelBudget(QUICK, X, budget=25, batch_size=5, path=path).ask()) == 5
    spent = LabelBudget(QUICK, X, budget=20, batch_size=5, path=path)
    assert spent.finished == "The budget of 20 labels is spent."
    assert len(spent.ask()) == 0
    some = LabelBudget(QUICK, X, budget=22, batch_size=5, path=path)
    assert len(some.ask()) == 2
    some.run(lambda rows: y[rows])
    assert some.spent == 22
