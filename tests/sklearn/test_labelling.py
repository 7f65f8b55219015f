"""Buying labels: draws, the stop rule, and a journal that loses nothing."""

import copy

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox._util.journal import Event, Journal
from proxyprox.sklearn import JournalError, LabelBudget, ProxyLogisticRegression, ProxyRidge

pytestmark = pytest.mark.filterwarnings("ignore:The least populated class")
QUICK = ProxyLogisticRegression(cv=2)


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, (rng.random(300) < expit(X @ [1.0, -1.0, 0.5])).astype(int)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.sqlite"


def budget_of(X, path=None, *, answers=0, **options):
    """Return a budget of ten labels, some of them told."""
    budget = LabelBudget(QUICK, X, **{"budget": 10, "path": path, **options})
    if answers:
        rows = budget.ask()[:answers]
        budget.tell(rows, [int(row) % 2 for row in rows])
    return budget


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


@pytest.mark.parametrize("criterion", ["uniform", "margin"])
def test_a_run_spends_the_budget_on_answers(pool, path, criterion):
    X, y = pool
    asked = []

    def oracle(rows):
        asked.extend(rows.tolist())
        labels = [None if row % 3 == 0 else y[row] for row in rows]
        rows += 1  # what it is handed is its own
        return labels

    options = {"budget": 30, "batch_size": 10, "criterion": criterion, "path": path}
    budget = LabelBudget(QUICK, X, **options)
    model = budget.run(oracle)
    assert budget.spent == 30 == model.n_labels_
    assert budget.unbiased == (criterion != "margin")
    assert "budget of 30" in budget.finished
    assert len(asked) == len(set(asked))
    assert budget.declined == {row for row in asked if row % 3 == 0}
    budget.close()
    again = LabelBudget(QUICK, X, **options)
    assert (again.labels, again.declined) == (budget.labels, budget.declined)
    whole = LabelBudget(QUICK, X[:40], budget=90, criterion=criterion)
    assert whole.run(lambda rows: y[rows]).n_labels_ == 40
    assert whole.finished == "All 40 rows have been asked for (the budget was 90)."
    silent = LabelBudget(QUICK, X[:40], budget=40, criterion=criterion)
    with pytest.raises(ValueError, match="labels"):
        silent.run(lambda rows: [None] * len(rows))
    assert silent.declined == set(range(40))


def test_margin_takes_the_rows_that_the_model_is_least_sure_of(pool):
    X, y = pool
    budget = LabelBudget(QUICK, X, budget=60, batch_size=20, criterion="margin")
    budget.tell(budget.ask(), y[budget.ask()])
    gaps = np.abs(budget.fit().predict_proba(X)[:, 1] - 0.5)
    left = [row for row in np.argsort(gaps) if row not in budget.labels]
    rows = budget.ask().tolist()
    assert set(left[:15]) <= set(rows)
    assert len(set(rows)) == 20


@pytest.mark.slow
def test_expected_gain_is_the_gain(pool):
    """Against the true loss: how much lower it is with as many labels again; and a run stops."""
    budget = LabelBudget(QUICK, pool[0], budget=300, batch_size=50, least_gain=0.05)
    budget.run(lambda rows: pool[1][rows])
    assert 0 < budget.spent < 300
    assert "less than 0.05" in budget.finished
    w, gains, promised = np.array([1.0, -1.0, 0.5]), [], []
    X = np.random.default_rng(3).normal(size=(2000, 3))
    p, exact = expit(X @ w), ProxyLogisticRegression(alpha=0.0)
    for seed in range(15):
        y = (np.random.default_rng(seed).random(2000) < p).astype(int)
        budget = LabelBudget(exact, X, budget=2000, batch_size=100, rng=seed)
        losses = []
        for _ in range(2):
            budget.tell(budget.ask(), y[budget.ask()])
            q = budget.fit().predict_proba(X)[:, 1]
            losses.append(-np.mean(p * np.log(q) + (1 - p) * np.log(1 - q)))
            promised += [budget.expected_gain()] * (len(losses) == 1)
        gains.append(losses[0] - losses[1])
    assert np.mean(promised) == pytest.approx(np.mean(gains), rel=0.5)


def test_what_is_refused(pool):
    X, y = pool
    broken = X.copy()
    broken[7, 1] = np.nan
    budget = LabelBudget(QUICK, X, budget=10)
    for kind, name, call in (
        (ValueError, "rows", lambda: budget.tell(-1, 0)),
        (ValueError, "labels", lambda: budget.tell(budget.ask()[:2], [1])),
        (ValueError, "labels", budget.fit),
        (ValueError, "rows", lambda: budget.add(300, 1)),
        (ValueError, "row", lambda: budget.comment(300, "x")),
        (TypeError, "text", lambda: budget.comment(3, None)),
        (ValueError, "criterion", lambda: budget_of(X, criterion="best")),
        (ValueError, "teacher", lambda: budget_of(X, teacher=y[:5])),
        (ValueError, "X", lambda: budget_of(broken)),
        (ValueError, "X", lambda: budget_of(X[:, 0])),
    ):
        with pytest.raises(kind, match=name):
            call()
    other = make_pipeline(StandardScaler(), QUICK)
    for estimator in (RandomForestClassifier(), other, GridSearchCV(QUICK, {})):
        with pytest.raises(TypeError, match="estimator"):
            LabelBudget(estimator, X, budget=9)
    with pytest.raises(TypeError, match="criterion"):
        LabelBudget(ProxyRidge(cv=2), X, budget=30, criterion="margin")


def test_marks_and_blanks_are_no_answers(pool):
    X, _ = pool
    budget = budget_of(X)
    rows = budget.ask()[:4]
    budget.tell(rows, ["yes", None, "", float("nan")])
    assert (budget.spent, len(budget.declined)) == (1, 3)
    budget.tell(rows[:2], [None, "no"])
    assert budget.labels == {rows[1]: "no"}
    numbers = LabelBudget(ProxyRidge(), X, budget=10)
    numbers.tell(numbers.ask()[:2], np.array([np.nan, -1.0]))
    assert (numbers.spent, len(numbers.declined)) == (1, 1)
    with pytest.raises(ValueError, match="labels"):
        numbers.tell(numbers.ask()[:2], [1.0, "two"])
    assert numbers.spent == 1


def test_answers_are_taken_back_in_turn(pool):
    X, y = pool
    budget = LabelBudget(QUICK, X, budget=6, batch_size=3)
    assert budget.undo() is None
    order = []
    while budget.finished is None:
        order.append(int(budget.ask()[0]))
        budget.tell(order[-1], y[order[-1]])
    assert budget.last == order[-1]
    assert [budget.undo() for _ in range(4)] == order[:1:-1]
    assert (budget.spent, budget.finished) == (2, None)
    assert budget.ask().tolist() == order[2:]
    budget.tell(order[2], None)
    assert (budget.undo(), budget.declined) == (order[2], set())
    budget.tell(order[:1], [1 - y[order[0]]])  # a correction is the last answer, too
    assert budget.undo() == order[0]
    assert budget.ask()[0] == order[0]


@pytest.mark.parametrize("criterion", ["uniform", "margin"])
def test_labels_that_are_there_already_cost_nothing(pool, criterion):
    X, y = pool
    budget = budget_of(X, criterion=criterion)
    budget.add(range(40), [None if row == 7 else y[row] for row in range(40)])
    assert (budget.spent, len(budget.labels), budget.declined) == (0, 39, {7})
    assert not budget.unbiased
    model = budget.run(lambda rows: y[rows])
    assert (budget.spent, model.n_labels_) == (10, 49)
    assert budget.undo() not in range(40)
    whole = budget_of(X[:20])
    whole.add(range(20), y[:20])
    assert "All 20 rows" in whole.finished
    assert not len(whole.ask())


def test_a_teacher_is_believed_as_far_as_the_labels_go(pool):
    X, y = pool
    rng, model = np.random.default_rng(1), ProxyLogisticRegression(cv=3)
    gaps, random = np.where(rng.random(300) < 0.3, None, y), rng.integers(2, size=300)
    losses = []
    # Classes that no label has yet, and no answer at all, are left out.
    for answers in (None, y, gaps, random, np.array(["new"] * 200 + [None] * 100)):
        given = None if answers is None else answers.tolist()
        taught = LabelBudget(model, X, budget=30, teacher=given).run(lambda rows: y[rows])
        losses.append(-np.mean(np.log(taught.predict_proba(X)[np.arange(300), y])))
    alone, true, some, bad, odd = losses
    assert max(true, some) < alone
    assert bad < 1.1 * alone
    assert odd == pytest.approx(alone)


def test_labels_paid_for_survive_an_error(pool):
    budget = LabelBudget(QUICK, pool[0], budget=40, batch_size=10)
    with pytest.raises(ValueError, match="y"):
        budget.run(lambda rows: np.zeros(len(rows), dtype=int))  # one class: no fit
    assert len(budget.labels) == 40


# -- the journal ----------------------------------------------------------------------------------


def test_every_kind_of_entry_is_resumed(pool, path):
    X, y = pool
    budget = budget_of(X, path, answers=5, criterion="margin")
    first = budget.last
    budget.undo()
    budget.tell(budget.ask()[1:2], [None])
    budget.add([200, 201, 202], [0, 1, None])
    for row, text in ((200, " odd "), (201, "x"), (201, "")):
        budget.comment(row, text)
    assert budget.comments == {200: "odd"}
    budget.close()
    again = budget_of(X, path, criterion="margin")
    for name in ("labels", "declined", "comments", "spent", "last", "unbiased"):
        assert getattr(again, name) == getattr(budget, name)
    assert again.ask().tolist() == budget.ask().tolist()
    assert again.ask()[0] == first
    assert again.undo() == budget.last
    # What is drawn after a resume is what would have been drawn.
    options = {"budget": 30, "batch_size": 10, "criterion": "margin"}
    whole = LabelBudget(QUICK, X, **options)
    whole.run(lambda rows: y[rows])
    other = path.with_name("other")
    with LabelBudget(QUICK, X, path=other, **options) as begun:
        begun.tell(begun.ask()[:4], y[begun.ask()[:4]])
    resumed = LabelBudget(QUICK, X, path=other, **options)
    resumed.run(lambda rows: y[rows])
    assert resumed.labels == whole.labels


def test_files_of_something_else_are_refused(pool, tmp_path):
    X, _ = pool
    for name, form in (("dense", np.asfortranarray), ("sparse", scipy.sparse.csr_array)):
        file = tmp_path / name
        budget_of(form(X[:100]), file, answers=1).close()
        with budget_of(form(X[:100].copy()), file) as again:
            assert again.spent == 1
        for other, word in ((X[100:200], "data: there"), (X, "rows: there 100, now 300")):
            with pytest.raises(JournalError, match=word):
                budget_of(form(other), file)


def test_answers_of_the_criterion_that_left_are_refused(pool, path):
    X, _ = pool
    content = {"rows": 300, "criterion": "uncertainty", "seed": 0, "floor": 0.25, "data": "mine"}
    first = [Event("settings", content=content)]
    Journal(path, "journal of labels", JournalError, lambda event: None, first=first)
    with pytest.raises(JournalError, match="export its labels"):
        budget_of(X, path, about={"data": "mine"})


def test_one_budget_writes_at_a_time(pool, path):
    X, _ = pool
    older = budget_of(X, path, answers=1)
    with pytest.raises(JournalError, match="already"):
        budget_of(X, path)
    older.close()
    newer = budget_of(X, path)
    for budget in (older, copy.deepcopy(newer)):
        with pytest.raises(JournalError, match="closed"):
            budget.tell(budget.ask()[:1], [1])
    newer.tell(newer.ask()[:1], [1])
    newer.close()
    with budget_of(X, path) as again:
        assert again.labels == newer.labels
        assert again.spent == 2
    assert again.path == path
    assert copy.deepcopy(budget_of(X, answers=1)).spent == 1


def test_labels_come_back_as_they_were_or_are_refused(pool, path):
    X, _ = pool
    given = [True, 1, 1.5, "é", "\udcff", 2**70]
    budget = budget_of(X, path)
    rows = budget.ask()[: len(given)]
    budget.tell(rows, given)
    budget.close()
    with budget_of(X, path) as again:
        back = [again.labels[int(row)] for row in rows]
    assert [(each, type(each)) for each in back] == [(each, type(each)) for each in given]
    budget = budget_of(X, path.with_name("other"), about={"classes": ["yes", "no"]})
    for label in ("maybe", float("inf"), b"yes"):
        with pytest.raises(ValueError, match="labels"):
            budget.tell(int(budget.ask()[0]), [label])
    assert budget.spent == 0


def test_entries_that_this_package_never_writes_are_refused(pool, path):
    X, _ = pool
    about = {"classes": ["yes", "no"], "data": "mine"}
    with budget_of(X, path, about=about) as budget:
        budget.tell(int(budget.ask()[0]), "yes")
    before = path.read_bytes()
    for entry in ({}, "yes", {"draw": [300]}, {"row": [1], "label": "yes"}):
        journal = Journal(path, "journal of labels", JournalError, lambda event: None)
        with journal.transaction() as append:
            append("entry", content=entry)
        for _ in range(2):  # the first refusal has let go of the file
            with pytest.raises(JournalError, match=r"labels\.sqlite"):
                budget_of(X, path, about=about)
        path.write_bytes(before)
    assert budget_of(X, path, about=about).spent == 1
