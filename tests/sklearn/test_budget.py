"""Buying labels: unbiased draws, the stop rule, and answers that survive a kill."""

from __future__ import annotations

import copy
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
        budget._fitted = "nothing, as the criterion asks for nothing"
        budget.ask()
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
    X = rng.normal(size=(2000, 3))
    exact = ProxyLogisticRegression(n_steps="converged", alpha=0.0)

    def loss(model):
        p, q = expit(X @ w), model.predict_proba(X)[:, 1]
        return -np.mean(p * np.log(q) + (1 - p) * np.log(1 - q))

    for seed in range(25):
        y = (np.random.default_rng(seed).random(2000) < expit(X @ w)).astype(int)
        budget = LabelBudget(exact, X, budget=2000, batch_size=100, rng=seed, ahead=100)
        budget.tell(budget.ask(), y[budget.ask()])
        promised.append(budget.expected_gain())
        before = loss(budget.fit())
        budget.tell(budget.ask(), y[budget.ask()])
        gains.append(before - loss(budget.fit()))
    assert np.mean(promised) == pytest.approx(np.mean(gains), rel=0.5)


def test_answers_survive_and_are_resumed(pool, tmp_path):
    X, y = pool
    path = tmp_path / "labels.sqlite"
    whole = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty")
    whole.run(lambda rows: y[rows])
    budget = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty", path=path)
    for row in budget.ask()[:4]:
        budget.tell(int(row), y[row])
    left = budget.ask()
    again = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty", path=path)
    assert again.spent == 4
    assert (again.ask() == left).all()
    again.run(lambda rows: y[rows])
    assert again.labels == whole.labels
    np.testing.assert_array_equal(again.weights, whole.weights)


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_process_loses_nothing_it_was_told(tmp_path):
    path = tmp_path / "labels.sqlite"
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


def bought(X, path, rows=1, **settings):
    """Return a budget with a few answers in a file."""
    budget = LabelBudget(QUICK, X, budget=10, path=path, **settings)
    asked = budget.ask()[:rows]
    budget.tell(asked, [int(row) % 2 for row in asked])
    return budget


def test_other_data_is_refused(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    LabelBudget(QUICK, X[:50], budget=10, path=path).ask()  # no answer, nothing to lose
    bought(X, path)
    with pytest.raises(JournalError, match=r"rows: there 300, now 100"):
        LabelBudget(QUICK, X[:100], budget=10, path=path)
    for content in (b"what is this\n", b"notes without an end", b'{"a": 1}\n', b"SQLite"):
        path.write_bytes(content)
        with pytest.raises(JournalError, match="not a journal"):
            LabelBudget(QUICK, X, budget=10, path=path)
        assert path.read_bytes() == content


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
        bought(form(X[:100]), path)
        assert LabelBudget(QUICK, form(X[:100].copy()), budget=10, path=path).spent == 1
        with pytest.raises(JournalError, match="data: there"):
            LabelBudget(QUICK, form(X[100:200]), budget=10, path=path)


@pytest.mark.parametrize("criterion", ["uniform", "uncertainty"])
def test_no_answer_is_no_class(pool, tmp_path, criterion):
    X, y = pool
    path, asked = tmp_path / "labels.sqlite", []

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
    with pytest.raises(ValueError, match="regressor needs finite numbers"):
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
    path = tmp_path / "labels.sqlite"
    LabelBudget(QUICK, X, budget=20, batch_size=5, path=path).run(lambda rows: y[rows])
    assert len(LabelBudget(QUICK, X, budget=25, batch_size=5, path=path).ask()) == 5
    spent = LabelBudget(QUICK, X, budget=20, batch_size=5, path=path)
    assert spent.finished == "The budget of 20 labels is spent."
    assert len(spent.ask()) == 0
    some = LabelBudget(QUICK, X, budget=22, batch_size=5, path=path)
    assert len(some.ask()) == 2
    some.run(lambda rows: y[rows])
    assert some.spent == 22


# -- the file of answers ------------------------------------------------------------------------


def test_a_newer_budget_of_one_process_takes_over(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    older = bought(X, path)
    newer = LabelBudget(QUICK, X, budget=10, path=path)
    with pytest.raises(JournalError, match="newer LabelBudget"):
        older.tell(older.ask()[:1], [1])
    newer.tell(newer.ask()[:1], [1])
    newer.close()
    with pytest.raises(JournalError, match="closed"):
        newer.tell(newer.ask()[:1], [1])
    assert newer.spent == 2
    with LabelBudget(QUICK, X, budget=10, path=path) as again:
        assert again.labels == newer.labels
    assert again.path == path


HOLDS = """
import sys
import numpy as np
from proxyprox.sklearn import LabelBudget, ProxyRidge
try:
    LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=sys.argv[1])
except OSError as error:
    print(error)
"""


def test_another_process_is_refused(tmp_path):
    path = tmp_path / "labels.sqlite"
    budget = LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=path)
    command = [sys.executable, "-c", HOLDS, str(path)]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{str(path)!r} is being written by another process" in first.stdout
    budget.tell(budget.ask()[:2], [1.0, 2.0])
    assert LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=path).spent == 2


def test_a_file_that_is_taken_away_is_noticed(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    budget = bought(X, path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="cannot be written"):
        budget.tell(budget.ask()[:1], [1])
    (tmp_path / "elsewhere").rename(path)
    budget.tell(budget.ask()[:1], [1])
    assert LabelBudget(QUICK, X, budget=10, path=path).spent == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_write(tmp_path):
    path = tmp_path / "labels.sqlite"
    budget = LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=path)
    row = int(budget.ask()[0])
    child = os.fork()
    if child == 0:
        try:
            budget.tell(row, 1.0)
        except JournalError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    budget.tell(row, 2.0)
    assert budget.labels == {row: 2.0}


def test_a_copy_of_a_budget_does_not_write(pool, tmp_path):
    X, _ = pool
    copied = copy.deepcopy(bought(X, tmp_path / "labels.sqlite"))
    with pytest.raises(JournalError, match="newer LabelBudget"):
        copied.tell(copied.ask()[:1], [1])
    assert copy.deepcopy(bought(X, None)).spent == 1


@pytest.mark.parametrize("label", [True, 1, 1.5, "é", "\udcff", 2**70])
def test_labels_come_back_as_they_were(pool, tmp_path, label):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    budget = LabelBudget(QUICK, X, budget=10, path=path)
    budget.tell(int(budget.ask()[0]), [label])
    (back,) = LabelBudget(QUICK, X, budget=10, path=path).labels.values()
    assert (back, type(back)) == (label, type(label))


def test_labels_that_cannot_be_kept_or_are_not_allowed_are_refused(pool, tmp_path):
    X, _ = pool
    about = {"classes": ["yes", "no"]}
    budget = LabelBudget(QUICK, X, budget=10, path=tmp_path / "labels.sqlite", about=about)
    row = int(budget.ask()[0])
    for label, words in (("maybe", "classes"), (float("inf"), "finite"), (b"yes", "finite")):
        with pytest.raises(ValueError, match=words):
            budget.tell(row, [label])
    assert budget.spent == 0


def test_damaged_files_are_named_or_harmless(pool, tmp_path):
    X, _ = pool
    path, damaged = tmp_path / "labels.sqlite", tmp_path / "damaged.sqlite"
    budget = bought(X, path, rows=8)
    budget.close()
    content, rng = path.read_bytes(), np.random.default_rng(0)
    named = 0
    for _ in range(100):
        changed = bytearray(content)
        at = int(rng.integers(len(content)))
        kind = rng.integers(3)
        if kind == 0:
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del changed[max(at, 1) :]
        else:
            changed[at : at + 64] = rng.bytes(64)
        damaged.write_bytes(changed)
        try:
            found = LabelBudget(QUICK, X, budget=10, path=damaged)
        except JournalError as error:
            named += "damaged.sqlite" in str(error)
        else:
            assert found.labels == budget.labels
            assert (found.weights == budget.weights).all()
            found.close()
        for leftover in tmp_path.glob("damaged.sqlite*"):
            leftover.unlink()
    assert 20 < named < 100
