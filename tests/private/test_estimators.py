"""Estimators on private rows: exactness without noise, odd rows, plans, shared budgets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox.private import (
    NotPrivateWarning,
    PrivacyBudget,
    PrivacyBudgetError,
    PrivateFitWarning,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    gaussian_epsilon,
)

COSTS = {"epsilon": 1.0, "delta": 1e-5, "n_nominal": 2000}


def log_loss(model, X, y):
    p = model.predict_proba(X)[np.arange(len(y)), y]
    return -np.log(p).mean()


@pytest.fixture
def parts(rows):
    X, y = rows
    return {"X": X[400:], "y": y[400:], "X_public": X[:400], "y_public": y[:400]}


def logistic(**options):
    return PrivateLogisticRegression(**{**COSTS, "classes": (0, 1), **options})


def test_with_little_noise_it_is_near_the_fit_of_all_rows(parts):
    # A clip that binds hardly, and a budget beyond reason.
    model = logistic(epsilon=200.0, same_support=True, alpha=1e-6).fit(**parts)
    full = LogisticRegression(C=1e6).fit(parts["X"], parts["y"])
    assert np.abs(model.coef_ - full.coef_).max() < 0.15
    assert log_loss(model, parts["X"], parts["y"]) < log_loss(full, parts["X"], parts["y"]) + 0.001


@pytest.mark.parametrize("options", [{}, {"same_support": True}, {"same_support": False}])
def test_it_costs_what_it_says_and_helps(parts, options):
    model = logistic(**options).fit(**parts)
    assert model.privacy_.epsilon == pytest.approx(1.0)
    planned = model.plan(parts["X_public"], parts["y_public"])
    assert model.privacy_.releases == planned.guarantee.releases
    # A count, and second moments.
    more = 1 + (not options.get("same_support"))
    assert planned.guarantee.releases == planned.releases + more
    assert np.mean(model.predict(parts["X"]) == parts["y"]) > 0.65
    assert model.coef_.shape == (1, 3)
    assert "add or remove" in str(model.privacy_)


def test_less_noise_allows_more_steps_and_a_wider_clip(parts):
    plans = [
        logistic(epsilon=e).plan(parts["X_public"], parts["y_public"]) for e in (0.01, 1.0, 100.0)
    ]
    assert plans[0].releases < plans[1].releases < plans[2].releases
    assert plans[0].clip < plans[1].clip < plans[2].clip


def test_rows_of_another_length_and_numbers_beyond_floats_count_as_absent(parts):
    def fit(X, y):
        public = {name: parts[name] for name in ("X_public", "y_public")}
        with pytest.warns(NotPrivateWarning):
            model = logistic(seed=1).fit(X, y, **public)
        return model.coef_

    X, y = parts["X"].tolist(), parts["y"].tolist()
    before = fit(X, y)
    for row in ([1.0], [[1.0], 0.0, 0.0], 5.0, [10**400, 0.0, 0.0]):
        np.testing.assert_array_equal(fit([*X, row], [*y, 1]), before)
    frame = pytest.importorskip("pandas").DataFrame([*X, [10**400, 0.0, 0.0]])
    np.testing.assert_array_equal(fit(frame, [*y, 1]), before)


def test_unlabelled_public_rows_suffice(parts):
    del parts["y_public"]
    model = logistic().fit(**parts)
    assert model.privacy_.releases == 9
    assert np.mean(model.predict(parts["X"]) == parts["y"]) > 0.65


def test_regressions(rows):
    X, _ = rows
    rng = np.random.default_rng(1)
    z = X @ [1.0, -0.5, 0.25]
    for model, y, slow in (
        (PrivateRidge, z + rng.normal(size=len(z)), Ridge(alpha=1e-3)),
        (PrivatePoissonRegressor, rng.poisson(np.exp(z)), PoissonRegressor(alpha=1e-6)),
    ):
        parts = X[400:], y[400:], X[:400], y[:400]
        private = model(**{**COSTS, "epsilon": 5.0}).fit(*parts)
        slow.fit(X[400:], y[400:])
        assert np.abs(private.coef_ - slow.coef_).max() < 0.25
        assert private.score(X, y) > 0.15
        free = model(**{**COSTS, "epsilon": 5.0}, label_bound=4.0).fit(*parts[:3])
        assert np.isfinite(free.coef_).all()
        with pytest.raises(ValueError, match="label_bound"):
            model(**COSTS).fit(*parts[:3])


def test_several_classes(rows):
    X, _ = rows
    y = np.array(["a", "b", "c"])[
        np.argmax(X + np.random.default_rng(0).gumbel(0, 0.2, X.shape), 1)
    ]
    model = logistic(classes=("a", "b", "c"), epsilon=3.0)
    model.fit(X[400:], y[400:], X_public=X[:400], y_public=y[:400])
    assert np.mean(model.predict(X) == y) > 0.6
    assert model.coef_.shape == (3, 3)
    del model
    free = logistic(classes=("a", "b", "c"), epsilon=3.0).fit(X[400:], y[400:], X_public=X[:400])
    assert np.isfinite(free.coef_).all()


def test_odd_private_rows_never_raise(parts):
    X, y = parts["X"].astype(object), parts["y"].astype(object)
    X[0, 0], X[1, 1], X[2, 0], X[3, 0] = np.nan, 1e308, "text", None
    y[4], y[5], y[6] = 9, None, "unknown"
    model = logistic().fit(X, y, X_public=parts["X_public"], y_public=parts["y_public"])
    assert np.isfinite(model.coef_).all()
    with pytest.warns(PrivateFitWarning, match="n_nominal"):
        nothing = logistic().fit(
            X[:0], y[:0], X_public=parts["X_public"], y_public=parts["y_public"]
        )
    assert np.isfinite(nothing.coef_).all()


def test_public_rows_that_lack_a_column_are_made_up_for(rows):
    # Public rows are of one group only: the private gradients must not be followed blindly.
    X, y = rows
    group = (X[:, 0] > 0).astype(float)
    X = np.column_stack([group, 1 - group, X[:, 1:]])
    women = np.flatnonzero(group)[:400]
    rest = np.setdiff1d(np.arange(len(y)), women)
    parts = {"X_public": X[women], "y_public": y[women]}
    model = logistic(same_support=False, n_nominal=len(rest), epsilon=3.0)
    model.fit(X[rest], y[rest], **parts)
    public = LogisticRegression().fit(X[women], y[women])
    assert log_loss(model, X[rest], y[rest]) < log_loss(public, X[rest], y[rest])
    for support in (None, True):
        with pytest.raises(ValueError, match="constant"):
            logistic(same_support=support).fit(X[rest], y[rest], **parts)


def test_sparse_tables_and_frames(parts):
    pd = pytest.importorskip("pandas")
    names = ["a", "b", "c"]
    frames = {k: pd.DataFrame(v, columns=names) if "X" in k else v for k, v in parts.items()}
    logistic().fit(**frames).predict(frames["X"])
    with pytest.raises(ValueError, match="columns"):
        logistic().fit(**{**frames, "X": frames["X"][["b", "a", "c"]]})
    with pytest.raises(ValueError, match="columns"):
        logistic().fit(**{**frames, "X": frames["X"].rename(columns={"a": "z"})})
    sparse = {k: scipy.sparse.csr_array(v) if "X" in k else v for k, v in parts.items()}
    assert logistic().fit(**sparse).coef_.shape == (1, 3)


def test_units_of_columns_do_not_matter(parts):
    units = np.array([1e4, 1.0, 1e-3])
    scaled = {k: v * units if "X" in k else v for k, v in parts.items()}
    models = []
    for given in (parts, scaled):
        with pytest.warns(NotPrivateWarning):
            models.append(logistic(seed=0, bound=1e9).fit(**given))
    np.testing.assert_allclose(models[0].coef_, models[1].coef_ * units, rtol=1e-5)
    assert "NOT PRIVATE" in str(models[0].privacy_)


def test_a_plan_says_what_a_fit_will_do_and_spends_nothing(parts):
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    public = parts["X_public"], parts["y_public"]
    plan = logistic(budget=budget).plan(*public)
    assert plan.pays
    assert "can improve" in str(plan)
    assert plan.guarantee.epsilon == pytest.approx(1.0)
    assert budget.spent.releases == 0
    poor = logistic(budget=budget, epsilon=0.01, n_nominal=300).plan(*public)
    assert "not pay" in str(poor)
    assert poor.n_effective < plan.n_effective < 2000
    # Three columns and a constant, all known: C² = 4c².
    mu2, length = 0.2681**2 * 0.95, 4.0
    c2 = plan.clip**2 / length
    assert plan.n_effective == pytest.approx(2000 / (1 + c2 * 4 / (mu2 * 2000)), rel=0.1)


def test_clones_share_the_budget(parts):
    budget = PrivacyBudget(epsilon=1.6, delta=1e-5)
    model = logistic(budget=budget)
    each = model.plan(parts["X_public"], parts["y_public"]).guarantee.releases
    for _ in range(2):
        clone(model).fit(**parts)
    assert budget.spent.releases == 2 * each
    with pytest.raises(PrivacyBudgetError, match="overspent"):
        clone(model).fit(**parts)
    assert budget.spent.releases == 2 * each


def test_cross_validation_spends_from_one_file(parts, tmp_path):
    budget = PrivacyBudget(tmp_path / "budget.sqlite", epsilon=3.0, delta=1e-5)
    public = {name: parts[name] for name in ("X_public", "y_public")}
    model = logistic(budget=budget)
    found = cross_validate(model, parts["X"], parts["y"], cv=2, params=public)
    assert (found["test_score"] > 0.6).all()
    assert budget.spent.releases == 2 * model.plan(**public).guarantee.releases


def test_a_name_is_of_one_fit_and_not_of_its_clones(parts, tmp_path):
    budget = PrivacyBudget(tmp_path / "budget.sqlite", epsilon=2.0, delta=1e-5)
    model = logistic(budget=budget, name="fit").fit(**parts)
    copy = clone(model)
    assert copy.name is None
    assert copy.budget is budget
    assert (copy.fit(**parts).coef_ != model.coef_).any()
    with pytest.raises(ValueError, match="name"):
        logistic(name="fit").fit(**parts)


def test_seconds_that_tell_of_the_number_of_rows_are_not_kept(parts):
    result = logistic().fit(**parts).result_
    assert result.ledger.seconds == result.ledger.target_seconds == 0
    assert not result.trace["seconds"].any()


def test_public_rows_that_spoil_the_fit_are_named(parts):
    one = {**parts, "y_public": np.ones(len(parts["y_public"]), dtype=int)}
    with pytest.raises(ValueError, match="y_public"):
        logistic().fit(**one)
    public = parts["X_public"].copy()
    public[3, 1] = 1e12
    with pytest.warns(PrivateFitWarning, match="X_public"):
        logistic().plan(public, parts["y_public"])
    with pytest.raises((TypeError, ValueError), match="same_support"):
        logistic(same_support="yes").fit(**parts)


def test_predictions_need_a_fit(parts):
    with pytest.raises(NotFittedError):
        logistic().predict(parts["X"])


def test_a_named_fit_is_repeated_from_the_journal(parts, tmp_path):
    budget = PrivacyBudget(tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-5)
    one, other = (logistic(budget=budget, name="fit").fit(**parts) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert budget.spent.releases == one.privacy_.releases


BAD = {
    "epsilon": ({"epsilon": 0.0}, "epsilon"),
    "delta": ({"delta": 1 / 2000}, "delta"),
    "bound": ({"bound": -1.0}, "bound"),
    "alpha": ({"alpha": -1.0}, "alpha"),
    "rows": ({"n_nominal": 0}, "n_nominal"),
    "classes": ({"classes": (1, 1)}, "classes"),
    "scale": ({"scale": "private"}, "scale"),
    "seed": ({"seed": -1}, "seed"),
    "rounded classes": ({"classes": (2**53 + 1, 0)}, "classes"),
}


@pytest.mark.parametrize(("options", "word"), BAD.values(), ids=BAD)
def test_bad_arguments_are_named_before_anything_is_spent(parts, options, word):
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match=word):
        logistic(budget=budget, **options).fit(**parts)
    assert budget.spent.releases == 0


def test_missing_public_rows_and_classes_are_named(parts):
    with pytest.raises(ValueError, match="X_public"):
        logistic().fit(parts["X"], parts["y"])
    with pytest.raises(ValueError, match="classes"):
        logistic(classes=None).fit(parts["X"], parts["y"], X_public=parts["X_public"])
    with pytest.raises(ValueError, match="columns"):
        logistic().fit(**{**parts, "X": parts["X"][:, :2]})
    with pytest.raises(ValueError, match="X_public"):
        logistic().fit(**{**parts, "X_public": np.where(parts["X_public"] > 0.9, np.nan, 1.0)})


@pytest.mark.parametrize("truth", [200, 2000])
@pytest.mark.parametrize("labelled", [True, False])
def test_rows_that_are_not_as_many_as_said_are_noticed_and_do_no_harm(rows, truth, labelled):
    X, y = rows
    X, y = np.vstack([X] * 9), np.tile(y, 9)
    public = {"X_public": X[:400].copy(), "y_public": y[:400].copy() if labelled else None}
    model = logistic(n_nominal=truth)
    with pytest.warns(PrivateFitWarning, match="n_nominal"):
        model.fit(X[400:], y[400:], **public)
    assert model.rows_ == pytest.approx(len(y) - 400, abs=250)
    assert model.privacy_.epsilon == pytest.approx(1.0)
    # The base rate has 0.69.
    assert log_loss(model, X, y) < 0.6


def test_a_bound_below_most_public_rows_is_said_and_rows_are_shortened_for_predictions(parts):
    raw = {k: 300 * v if "X" in k else v for k, v in parts.items()}
    model = logistic(bound=4.0)
    with pytest.warns(PrivateFitWarning, match="bound"):
        model.plan(raw["X_public"], raw["y_public"])
    with pytest.warns(PrivateFitWarning, match="bound"):
        model.fit(**raw)
    assert log_loss(model, raw["X"], raw["y"]) < 0.69
    far = 1e9 * np.eye(3)
    near = far / 1e9 * model.bound_
    np.testing.assert_allclose(model.decision_function(far), model.decision_function(near))
    assert logistic(bound=600.0).plan(raw["X_public"], raw["y_public"]).n_public == 400


@pytest.mark.parametrize("sparse", [False, True])
def test_public_rows_give_the_scale(parts, sparse):
    units = np.array([1e3, 1.0, 1e-3])
    centre = np.zeros(3) if sparse else np.array([5e3, -3.0, 1.0])
    raw = {k: v * units + centre if "X" in k else v for k, v in parts.items()}
    by_hand = {k: (v - raw["X_public"].mean(0)) / raw["X_public"].std(0) if "X" in k else v
               for k, v in raw.items()}  # fmt: skip
    if sparse:
        by_hand = {k: v / raw["X_public"].std(0) if "X" in k else v for k, v in raw.items()}
        raw = {k: scipy.sparse.csr_array(v) if "X" in k else v for k, v in raw.items()}
    found = []
    for given, scale in ((raw, "public"), (by_hand, None)):
        with pytest.warns(NotPrivateWarning):
            model = logistic(seed=0, scale=scale).fit(**given)
        found.append(model.decision_function(given["X"]))
        bound = model.bound_
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)
    assert bound < 10
    z = logistic(epsilon=3.0, scale="public").fit(**raw)
    inside = raw["X_public"]
    np.testing.assert_allclose(
        z.decision_function(inside), (inside @ z.coef_.T + z.intercept_).ravel(), rtol=1e-6
    )


def make_overlap(kind, X):
    """Return private and public rows that are partly the same."""
    if kind == "same":
        return X, X
    if kind == "view":
        return X, X[::3]
    if kind == "list":
        listed = X.tolist()
        return listed, listed[:50]
    if kind == "list of views":
        return list(X), list(X[5:50])
    if kind == "sparse":
        table = scipy.sparse.csr_array(X)
        return table, scipy.sparse.csr_array(table)
    if kind == "tensor":
        torch = pytest.importorskip("torch")
        return torch.from_numpy(X), torch.from_numpy(X)[:50]
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))
    return {"frame": (frame, frame.iloc[5:50]), "same frame": (frame, frame),
            "values": (frame, frame.to_numpy()[5:50])}[kind]  # fmt: skip


KINDS = [
    "same",
    "view",
    "list",
    "list of views",
    "sparse",
    "tensor",
    "frame",
    "same frame",
    "values",
]


@pytest.mark.parametrize("kind", KINDS)
def test_public_rows_that_are_private_ones_are_refused(rows, kind):
    private, public = make_overlap(kind, rows[0].copy())
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="X_public"):
        logistic(budget=budget).fit(private, rows[1], X_public=public)
    assert budget.spent.releases == 0
    X, y = rows
    with pytest.raises(ValueError, match="y_public"):
        logistic().fit(X[400:], y, X_public=X[:400], y_public=y[:400])


def test_disjoint_parts_of_one_table_are_not_refused(rows):
    X, y = rows
    logistic().fit(X[::2], y[::2], X_public=X[1::2], y_public=y[1::2])
    frame = pytest.importorskip("pandas").DataFrame(X)
    logistic().fit(frame[400:], y[400:], X_public=frame[:400], y_public=y[:400])
    listed = X.tolist()
    logistic().fit(listed[400:], y[400:], X_public=listed[:400], y_public=y[:400])


def test_what_is_not_covered_is_printed(parts):
    text = str(logistic().fit(**parts).privacy_)
    for word in ("Not covered", "Pipeline", "other fits", "PrivacyBudget"):
        assert word in text
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    assert "budget.spent" in str(logistic(budget=budget).fit(**parts).privacy_)


def test_fits_without_a_budget_are_added_up_over_clones(parts):
    model = logistic().fit(**parts)
    with pytest.warns(PrivateFitWarning, match="2 fits"):
        clone(model).fit(**parts)
    last = clone(model).fit(**parts)
    assert last.privacy_.epsilon == pytest.approx(1.0)
    text = str(last.privacy_)
    assert "3 fits" in text
    together = float(text.split("together ε = ")[1].split()[0])
    assert together == pytest.approx(gaussian_epsilon(0.2681 * 3**0.5, 1e-5), rel=0.01)
    with pytest.warns(NotPrivateWarning):
        assert "fits of this" not in str(logistic(seed=0).fit(**parts).privacy_)


@pytest.mark.parametrize("same_support", [None, True, False])
@pytest.mark.parametrize("sparse", [False, True])
def test_categories_that_no_public_row_has_are_accepted(rows, same_support, sparse):
    X, y = rows
    rare = (np.arange(len(y)) % 100 == 99).astype(float)
    rare[:400] = 0.0
    X = np.column_stack([X, rare, np.zeros(len(y))])
    X = scipy.sparse.csr_array(X) if sparse else X
    model = logistic(same_support=same_support, n_nominal=2000)
    assert "2 columns are zero" in str(model.plan(X[:400], y[:400]))
    model.fit(X[400:], y[400:], X_public=X[:400], y_public=y[:400])
    assert log_loss(model, X, y) < 0.65
    # One row has little to say about its category.
    assert abs(model.coef_[0, 3:]).max() < 3


@pytest.mark.filterwarnings("ignore::proxyprox.private.PrivateFitWarning")
def test_a_pipeline_and_a_search_on_one_budget(parts, tmp_path):
    public = {name: parts[name] for name in ("X_public", "y_public")}
    frozen = FrozenEstimator(StandardScaler().fit(public["X_public"]))
    budget = PrivacyBudget(tmp_path / "budget.sqlite", epsilon=3.0, delta=1e-5)
    with config_context(enable_metadata_routing=True):
        model = logistic(budget=budget).set_fit_request(X_public=True, y_public=True)
        pipeline = make_pipeline(frozen, model, transform_input=["X_public"])
        pipeline.fit(parts["X"], parts["y"], **public)
    assert np.mean(pipeline.predict(parts["X"]) == parts["y"]) > 0.6
    search = GridSearchCV(
        logistic(epsilon=0.5, n_nominal=1000, budget=budget, scale="public"),
        {"alpha": [1e-4, 1e-2]}, cv=2, refit=False,
    )  # fmt: skip
    search.fit(parts["X"], parts["y"], **public)
    assert 1.0 < budget.spent.epsilon < 2.0


def test_column_names_of_public_rows_alone_are_refused_before_anything_is_spent(parts):
    pd = pytest.importorskip("pandas")
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    given = {**parts, "X_public": pd.DataFrame(parts["X_public"], columns=["a", "b", "c"])}
    with pytest.raises(ValueError, match=r"^X .*transform_input"):
        logistic(budget=budget).fit(**given)
    assert budget.spent.releases == 0
