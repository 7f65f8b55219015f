"""Bought labels in Pipelines and DataFrames, and their survival of errors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression

QUICK = ProxyLogisticRegression(cv=2, max_steps=10)


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    X = 5 + 100 * rng.normal(size=(300, 3))
    return X, (X[:, 0] - X[:, 1] + 100 * rng.normal(size=300) > 0).astype(int)


@pytest.mark.parametrize("criterion", ["uniform", "uncertainty", "leverage"])
def test_a_pipeline_transforms_the_proxy_like_the_bought_rows(pool, criterion):
    X, y = pool
    options = {"budget": 40, "batch_size": 10, "criterion": criterion, "least_gain": 1e-9}
    piped = LabelBudget(make_pipeline(StandardScaler(), QUICK), X, **options)
    model = piped.run(lambda rows: y[rows])
    by_hand = LabelBudget(QUICK, StandardScaler().fit_transform(X), **options)
    assert by_hand.run(lambda rows: y[rows]).coef_ == pytest.approx(model[-1].coef_)
    assert piped.labels == by_hand.labels
    assert model.score(X, y) > 0.6


def test_steps_that_need_labels_see_the_bought_rows(pool):
    X, y = pool
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
def test_what_cannot_be_fitted_is_refused_before_anything_is_bought(pool, estimator):
    with pytest.raises(TypeError, match=r"estimator must be.*make_pipeline"):
        LabelBudget(estimator, pool[0], budget=40)


def test_a_pool_that_cannot_be_fitted_is_refused_before_anything_is_bought(pool):
    X, _ = pool
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        LabelBudget(QUICK, X, budget=40)
    with pytest.raises(ValueError, match="rows and columns"):
        LabelBudget(QUICK, X[:, 0], budget=40)


def test_a_search_hands_the_proxy_on(pool):
    X, y = pool
    search = GridSearchCV(QUICK, {"alpha": [0.0, 0.1]}, cv=2)
    budget = LabelBudget(search, X, budget=30, batch_size=10, least_gain=1e-9)
    assert budget.run(lambda rows: y[rows]).best_estimator_.n_labels_ == 30


@pytest.mark.parametrize("where", ["fit", "oracle"])
def test_labels_paid_for_survive_an_error(pool, where):
    X, _ = pool

    def oracle(rows):
        if where == "oracle" and budget.spent == 20:
            raise RuntimeError("no more answers")
        return np.zeros(len(rows), dtype=int)  # one class: no fit

    budget = LabelBudget(QUICK, X, budget=40, batch_size=10)
    with pytest.raises((RuntimeError, ValueError)) as caught:
        budget.run(oracle)
    paid = 40 if where == "fit" else 20
    assert len(budget.labels) == paid
    assert caught.value.labels == budget.labels
    assert f"The {paid} labels" in caught.value.__notes__[0]
    assert len(caught.value.__notes__) == 1


def test_column_names_are_kept(pool, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = pool
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
