"""Buying labels: unbiased draws, the stop rule, Pipelines, and labels that survive errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression, ProxyRidge

QUICK = ProxyLogisticRegression(cv=2, max_steps=10)


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, (rng.random(300) < expit(X @ [1.0, -1.0, 0.5])).astype(int)


@pytest.fixture
def unscaled():
    rng = np.random.default_rng(0)
    X = 5 + 100 * rng.normal(size=(300, 3))
    return X, (X[:, 0] - X[:, 1] + 100 * rng.normal(size=300) > 0).astype(int)


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


def test_margin_takes_the_rows_that_the_model_is_least_sure_of(pool):
    X, y = pool
    budget = LabelBudget(QUICK, X, budget=60, batch_size=20, criterion="margin", floor=0.25)
    assert not budget.unbiased
    budget.tell(budget.ask(), y[budget.ask()])
    gaps = np.abs(budget.fit().predict_proba(X)[:, 1] - 0.5)
    left = [row for row in np.argsort(gaps) if row not in budget.labels]
    rows = budget.ask().tolist()
    assert set(left[:15]) <= set(rows)
    assert len(set(rows)) == 20
    assert (budget.weights[rows] == 1).all()


@pytest.mark.parametrize("criterion", ["uniform", "margin", "uncertainty", "leverage", squares])
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

    for seed in range(15):
        y = (np.random.default_rng(seed).random(2000) < expit(X @ w)).astype(int)
        budget = LabelBudget(exact, X, budget=2000, batch_size=100, rng=seed, ahead=100)
        budget.tell(budget.ask(), y[budget.ask()])
        promised.append(budget.expected_gain())
        before = loss(budget.fit())
        budget.tell(budget.ask(), y[budget.ask()])
        gains.append(before - loss(budget.fit()))
    assert np.mean(promised) == pytest.approx(np.mean(gains), rel=0.5)


def test_wrong_answers_are_refused(pool):
    X, _ = pool
    budget = LabelBudget(QUICK, X, budget=10)
    with pytest.raises(ValueError, match="rows must be rows asked for"):
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
    with pytest.raises(ValueError, match="labels must be numbers"):
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


# -- Pipelines, DataFrames and errors ---------------------------------------------------------


@pytest.mark.parametrize("criterion", ["uniform", "uncertainty", "leverage"])
def test_a_pipeline_transforms_the_proxy_like_the_bought_rows(unscaled, criterion):
    X, y = unscaled
    options = {"budget": 40, "batch_size": 10, "criterion": criterion, "least_gain": 1e-9}
    piped = LabelBudget(make_pipeline(StandardScaler(), QUICK), X, **options)
    model = piped.run(lambda rows: y[rows])
    by_hand = LabelBudget(QUICK, StandardScaler().fit_transform(X), **options)
    assert by_hand.run(lambda rows: y[rows]).coef_ == pytest.approx(model[-1].coef_)
    assert piped.labels == by_hand.labels
    assert model.score(X, y) > 0.6


def test_steps_that_need_labels_see_the_bought_rows(unscaled):
    X, y = unscaled
    chain = make_pipeline(StandardScaler(), SelectKBest(k=2), QUICK)
    budget = LabelBudget(chain, X, budget=30, batch_size=10)
    assert budget.run(lambda rows: y[rows])[-1].coef_.shape == (1, 2)


def test_a_pipeline_may_begin_with_text(tmp_path):
    texts = [f"{'win money' if i % 2 else 'lunch today'} {i}" for i in range(60)]
    y = np.arange(60) % 2
    for text in (texts, texts[::-1]):
        chain = make_pipeline(TfidfVectorizer(), QUICK)
        budget = LabelBudget(chain, text, budget=20, path=tmp_path / f"{text[0][:3]}.jsonl")
        assert budget.run(lambda rows: y[rows]).score(texts, y) in (0.0, 1.0)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(make_pipeline(StandardScaler(), QUICK), {}),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_anything_is_bought(unscaled, estimator):
    with pytest.raises(TypeError, match=r"estimator must be.*make_pipeline"):
        LabelBudget(estimator, unscaled[0], budget=40)


def test_a_pool_that_cannot_be_fitted_is_refused_before_anything_is_bought(unscaled):
    X, _ = unscaled
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        LabelBudget(QUICK, X, budget=40)
    with pytest.raises(ValueError, match="2D array"):
        LabelBudget(QUICK, X[:, 0], budget=40)


def test_a_search_hands_the_proxy_on(unscaled):
    X, y = unscaled
    search = GridSearchCV(QUICK, {"alpha": [0.0, 0.1]}, cv=2)
    budget = LabelBudget(search, X, budget=30, batch_size=10, least_gain=1e-9)
    assert budget.run(lambda rows: y[rows]).best_estimator_.n_labels_ == 30


@pytest.mark.parametrize("where", ["fit", "oracle"])
def test_labels_paid_for_survive_an_error(unscaled, where):
    X, _ = unscaled

    def oracle(rows):
        if where == "oracle" and budget.spent == 20:
            raise RuntimeError("no more answers")
        return np.zeros(len(rows), dtype=int)  # one class: no fit

    budget = LabelBudget(QUICK, X, budget=40, batch_size=10)
    with pytest.raises((RuntimeError, ValueError)):
        budget.run(oracle)
    paid = 40 if where == "fit" else 20
    assert len(budget.labels) == paid


def test_column_names_are_kept(unscaled, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = unscaled
    frame = pandas.DataFrame(X, columns=["a", "b", "c"], index=np.arange(300)[::-1])
    for path in (tmp_path / "mine.jsonl", None):
        budget = LabelBudget(QUICK, frame, budget=30, criterion="leverage", path=path)
        model = budget.run(lambda rows: y[rows])
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        model.predict(frame)
    plain = LabelBudget(QUICK, X, budget=30, criterion="leverage", path=tmp_path / "mine.jsonl")
    assert plain.spent == 30
    frame.columns = [0, "b", "c"]
    LabelBudget(QUICK, frame, budget=30).run(lambda rows: y[rows])


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


@pytest.mark.parametrize("criterion", ["uniform", "uncertainty"])
def test_labels_that_are_there_already_cost_nothing(pool, criterion):
    X, y = pool
    budget = LabelBudget(QUICK, X, budget=10, criterion=criterion)
    budget.add(range(40), [None if row == 7 else y[row] for row in range(40)])
    assert (budget.spent, len(budget.labels), budget.declined) == (0, 39, {7})
    assert not budget.unbiased
    model = budget.run(lambda rows: y[rows])
    assert (budget.spent, model.n_labels_) == (10, 49)
    assert (budget.weights[sorted(budget.labels)] > 0).all()
    assert budget.undo() not in range(40)
    with pytest.raises(ValueError, match="rows must be"):
        budget.add(300, 1)
    whole = LabelBudget(QUICK, X[:20], budget=10)
    whole.add(range(20), y[:20])
    assert "All 20 rows" in whole.finished
    assert not len(whole.ask())


def test_comments(pool):
    X, _ = pool
    budget = LabelBudget(QUICK, X, budget=10)
    budget.comment(3, " odd ")
    budget.comment(4, "x")
    budget.comment(4, "")
    assert budget.comments == {3: "odd"}
    with pytest.raises(ValueError, match="row must be"):
        budget.comment(300, "x")
    with pytest.raises(TypeError, match="text must be"):
        budget.comment(3, None)


def test_a_teacher_is_believed_as_far_as_the_labels_go(pool):
    X, y = pool
    model = ProxyLogisticRegression(cv=3)
    rng = np.random.default_rng(1)
    alone = LabelBudget(model, X, budget=30)
    fitted = alone.run(lambda rows: y[rows])
    losses = {}
    for name, answers in {
        "true": y,
        "with gaps": np.where(rng.random(300) < 0.3, None, y),
        "random": rng.integers(2, size=300),
    }.items():
        budget = LabelBudget(model, X, budget=30, teacher=answers.tolist())
        taught = budget.run(lambda rows: y[rows])
        assert budget.labels == alone.labels
        losses[name] = -np.mean(np.log(taught.predict_proba(X)[np.arange(300), y]))
    own = -np.mean(np.log(fitted.predict_proba(X)[np.arange(300), y]))
    assert losses["true"] < own
    assert losses["with gaps"] < own
    assert losses["random"] < 1.1 * own
    with pytest.raises(ValueError, match="teacher must be"):
        LabelBudget(model, X, budget=30, teacher=y[:5])
    # Classes that no label has yet, and no answer at all, are left out.
    odd = LabelBudget(model, X, budget=30, teacher=["new"] * 200 + [None] * 100)
    assert odd.run(lambda rows: y[rows]).coef_ == pytest.approx(fitted.coef_)
