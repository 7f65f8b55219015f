"""Estimators on private rows: exactness without noise, odd rows, plans, shared budgets."""

import json

import numpy as np
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox import private as dp

COSTS = {"epsilon": 1.0, "delta": 1e-5, "n_nominal": 2000}


def log_loss(model, X, y):
    p = model.predict_proba(X)[np.arange(len(y)), y]
    return -np.log(p).mean()


@pytest.fixture
def parts(rows):
    X, y = rows
    return {"X": X[400:], "y": y[400:], "X_public": X[:400], "y_public": y[:400]}


@pytest.fixture
def public(parts):
    return {name: parts[name] for name in ("X_public", "y_public")}


@pytest.fixture
def memory():
    return dp.PrivacyBudget(epsilon=1.0, delta=1e-5)


def logistic(**options):
    return dp.PrivateLogisticRegression(**{**COSTS, "classes": (0, 1), **options})


def of_tables(parts, change):
    """Return the parts with their tables changed."""
    return {k: change(v) if "X" in k else v for k, v in parts.items()}


def test_with_little_noise_it_is_near_the_fit_of_all_rows(parts):
    # A clip that binds hardly, and a budget beyond reason.
    model = logistic(epsilon=200.0, moments=0.0, alpha=1e-6).fit(**parts)
    full = LogisticRegression(C=1e6).fit(parts["X"], parts["y"])
    assert np.abs(model.coef_ - full.coef_).max() < 0.15
    assert log_loss(model, parts["X"], parts["y"]) < log_loss(full, parts["X"], parts["y"]) + 0.001


@pytest.mark.parametrize("moments", [None, 0.0])
def test_it_costs_what_it_says_and_helps(parts, public, moments):
    model = logistic(moments=moments).fit(**parts)
    planned = model.plan(**public)
    assert model.privacy_.epsilon == pytest.approx(1.0)
    assert model.privacy_.releases == planned.guarantee.releases
    # A count, and second moments.
    assert planned.guarantee.releases == planned.releases + 1 + (moments is None)
    assert np.mean(model.predict(parts["X"]) == parts["y"]) > 0.65
    assert model.coef_.shape == (1, 3)
    for word in ("add or remove", "Not covered", "Pipeline", "other fits", "PrivacyBudget"):
        assert word in str(model.privacy_)
    # Seconds that tell of the number of rows are not kept.
    ledger = model.result_.ledger
    assert ledger.seconds == ledger.target_seconds == 0
    assert not model.result_.trace["seconds"].any()


def test_a_plan_says_what_a_fit_will_do_and_spends_nothing(public, memory):
    plan = logistic(budget=memory).plan(**public)
    assert plan.pays
    assert "can improve" in str(plan)
    assert plan.guarantee.epsilon == pytest.approx(1.0)
    assert memory.spent.releases == 0
    poor = logistic(budget=memory, epsilon=0.01, n_nominal=300).plan(**public)
    assert "not pay" in str(poor)
    assert poor.n_effective < plan.n_effective < 2000
    rich = logistic(epsilon=100.0).plan(**public)
    assert poor.clip < plan.clip < rich.clip
    assert plan.n_effective < rich.n_effective <= 2000
    np.testing.assert_allclose(plan.scaling.centre, np.median(public["X_public"], axis=0))


class Telling(list):
    """A row that raises when it is asked for its length."""

    def __len__(self):
        raise RuntimeError("secret")


def test_odd_private_rows_count_as_absent_and_never_raise(parts, public, repeated):
    def fit(X, y):
        repeated()
        return logistic().fit(X, y, **public).coef_

    X, y = parts["X"].tolist(), parts["y"].tolist()
    before = fit(X, y)
    odd = [[1.0], [[1.0], 0.0, 0.0], 5.0, [10**400, 0.0, 0.0], [np.nan, 0, 0], ["text", 0, 0]]
    odd += [Telling([1.0])]
    np.testing.assert_array_equal(fit([*X, *odd, X[0]], [*y, *[1] * len(odd), "unknown"]), before)
    frame = pytest.importorskip("pandas").DataFrame([*X, [10**400, 0.0, 0.0]])
    np.testing.assert_array_equal(fit(frame, [*y, 1]), before)
    with pytest.warns(dp.PrivateFitWarning, match="n_nominal"):
        nothing = logistic().fit(np.empty((0, 3)), [], **public)
    assert np.isfinite(nothing.coef_).all()


def test_regressions(rows):
    X, _ = rows
    rng = np.random.default_rng(1)
    z = X @ [1.0, -0.5, 0.25]
    costs = {**COSTS, "epsilon": 5.0}
    for model, y, slow in (
        (dp.PrivateRidge, z + rng.normal(size=len(z)), Ridge(alpha=1e-3)),
        (dp.PrivatePoissonRegressor, rng.poisson(np.exp(z)), PoissonRegressor(alpha=1e-6)),
    ):
        parts = (X[400:], y[400:], X[:400], y[:400])
        private = model(**costs).fit(*parts)
        assert np.abs(private.coef_ - slow.fit(X[400:], y[400:]).coef_).max() < 0.25
        assert private.score(X, y) > 0.15
        assert np.isfinite(model(**costs, label_bound=4.0).fit(*parts[:3]).coef_).all()
        with pytest.raises(ValueError, match="label_bound"):
            model(**COSTS).fit(*parts[:3])


def test_several_classes_and_public_rows_without_labels(rows, parts):
    X, _ = rows
    noisy = X + np.random.default_rng(0).gumbel(0, 0.2, X.shape)
    y = np.array(["a", "b", "c"])[np.argmax(noisy, 1)]
    for labels in (y[:400], None):
        model = logistic(classes=("a", "b", "c"), epsilon=3.0)
        model.fit(X[400:], y[400:], X_public=X[:400], y_public=labels)
        assert np.mean(model.predict(X) == y) > 0.6
        assert model.coef_.shape == (3, 3)
    model = logistic().fit(parts["X"], parts["y"], X_public=parts["X_public"])
    assert model.privacy_.releases == model.plan(parts["X_public"]).releases + 1
    assert np.mean(model.predict(parts["X"]) == parts["y"]) > 0.65


def test_public_rows_that_lack_a_column_are_made_up_for(rows):
    # Public rows are of one group only: the private gradients must not be followed blindly.
    X, y = rows
    group = (X[:, 0] > 0).astype(float)
    X = np.column_stack([group, 1 - group, X[:, 1:]])
    women = np.flatnonzero(group)[:400]
    rest = np.setdiff1d(np.arange(len(y)), women)
    parts = {"X_public": X[women], "y_public": y[women]}
    model = logistic(n_nominal=len(rest), epsilon=3.0)
    assert "2 do not vary" in str(model.plan(**parts))
    model.fit(X[rest], y[rest], **parts)
    public = LogisticRegression().fit(X[women], y[women])
    assert log_loss(model, X[rest], y[rest]) < log_loss(public, X[rest], y[rest])


@pytest.mark.parametrize(("moments", "sparse"), [(None, False), (0.0, True), (None, True)])
def test_categories_that_no_public_row_has_are_accepted(rows, moments, sparse):
    X, y = rows
    rare = (np.arange(len(y)) % 100 == 99).astype(float)
    rare[:400] = 0.0
    X = np.column_stack([X, rare, np.zeros(len(y))])
    X = scipy.sparse.csr_array(X) if sparse else X
    model = logistic(moments=moments, n_nominal=2000)
    assert "2 do not vary" in str(model.plan(X[:400], y[:400]))
    model.fit(X[400:], y[400:], X_public=X[:400], y_public=y[:400])
    assert log_loss(model, X, y) < 0.65
    # One row has little to say about its category.
    assert abs(model.coef_[0, 3:]).max() < 3


def test_public_rows_give_cuts_centres_and_units(parts, repeated):
    units, centre = np.array([1e3, 1.0, 1e-3]), np.array([5e3, -3.0, 1.0])
    raw = of_tables(parts, lambda X: X * units + centre)
    raw["X"][7] = 1e9
    shown = logistic().plan(raw["X_public"], raw["y_public"]).scaling
    by_hand = of_tables(raw, lambda X: np.clip(X, shown.low, shown.high) - shown.centre)
    by_hand = of_tables(by_hand, lambda X: X / shown.spread)
    found = []
    for given, scale in ((raw, "public"), (by_hand, None)):
        repeated()
        model = logistic(scale=scale).fit(**given)
        found.append(model.decision_function(given["X"]))
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)
    sparse = of_tables(raw, scipy.sparse.csr_array)
    assert not logistic().plan(sparse["X_public"], sparse["y_public"]).scaling.centre.any()
    assert np.isfinite(logistic().fit(**sparse).coef_).all()


@pytest.mark.parametrize("moments", [None, 0.0])
def test_without_public_rows_a_bound_and_the_classes_do(rows, memory, moments):
    X, y = rows
    many, labels = np.tile(X, (4, 1)), np.tile(y, 4)
    given = {"epsilon": 3.0, "n_nominal": len(labels), "bound": 2.0, "moments": moments}
    model = logistic(**given).fit(many, labels)
    plan = model.plan(columns=3)
    assert plan.setting == "no public rows"
    assert plan.share == (0.05 if moments is None else 0.0)
    assert model.privacy_.epsilon == pytest.approx(3.0)
    assert model.privacy_.releases == plan.guarantee.releases
    assert log_loss(model, X, y) < 0.66
    with pytest.raises(ValueError, match="X_public"):
        logistic(budget=memory).fit(X, y)
    assert memory.spent.releases == 0


def test_a_privacy_officer_gets_one_page(parts):
    page = logistic(data="visits of 2025").fit(**parts).page_
    told = json.loads(json.dumps(page))
    assert told["epsilon"] == pytest.approx(1.0)
    for word in ("visits of 2025", "ε = 1", "add or remove", "σ = ", "n_nominal", "2000", "signed"):
        assert word in str(page)


def test_frames_have_the_columns_of_the_public_ones(parts, memory):
    pd = pytest.importorskip("pandas")
    frames = of_tables(parts, lambda X: pd.DataFrame(X, columns=["a", "b", "c"]))
    logistic().fit(**frames).predict(frames["X"])
    for X in (frames["X"][["b", "a", "c"]], frames["X"].rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match="columns"):
            logistic().fit(**{**frames, "X": X})
    with pytest.raises(ValueError, match=r"^X .*transform_input"):
        logistic(budget=memory).fit(**{**frames, "X": parts["X"]})
    assert memory.spent.releases == 0


def test_a_budget_is_shared_by_clones_and_a_name_repeats_one_fit(parts, public, tmp_path):
    budget = dp.PrivacyBudget(tmp_path / "budget.sqlite", epsilon=1.6, delta=1e-5)
    model = logistic(budget=budget, name="fit")
    each = model.plan(**public).guarantee.releases
    one, again = (model.fit(**parts).coef_ for _ in range(2))
    np.testing.assert_array_equal(one, again)
    assert budget.spent.releases == each
    assert "budget.spent" in str(model.privacy_)
    copy = clone(model)
    assert copy.name is None
    assert copy.budget is budget
    assert (copy.fit(**parts).coef_ != one).any()
    with pytest.raises(dp.PrivacyBudgetError, match="overspent"):
        clone(model).fit(**parts)
    assert budget.spent.releases == 2 * each
    with pytest.raises(ValueError, match="name"):
        logistic(name="fit").fit(**parts)


def test_fits_without_a_budget_are_added_up_over_clones(parts):
    model = logistic().fit(**parts)
    with pytest.warns(dp.PrivateFitWarning, match="2 fits"):
        clone(model).fit(**parts)
    last = clone(model).fit(**parts)
    assert last.privacy_.epsilon == pytest.approx(1.0)
    text = str(last.privacy_)
    assert "3 fits" in text
    together = float(text.split("together ε = ")[1].split()[0])
    assert together == pytest.approx(dp.gaussian_epsilon(0.2681 * 3**0.5, 1e-5), rel=0.01)


@pytest.mark.filterwarnings("ignore::proxyprox.private.PrivateFitWarning")
def test_a_pipeline_and_a_search_on_one_budget(parts, public, tmp_path):
    frozen = FrozenEstimator(StandardScaler().fit(public["X_public"]))
    budget = dp.PrivacyBudget(tmp_path / "budget.sqlite", epsilon=3.0, delta=1e-5)
    with config_context(enable_metadata_routing=True):
        model = logistic(budget=budget).set_fit_request(X_public=True, y_public=True)
        pipeline = make_pipeline(frozen, model, transform_input=["X_public"])
        pipeline.fit(parts["X"], parts["y"], **public)
    assert np.mean(pipeline.predict(parts["X"]) == parts["y"]) > 0.6
    search = GridSearchCV(
        logistic(epsilon=0.5, n_nominal=1000, budget=budget),
        {"alpha": [1e-4, 1e-2]}, cv=2, refit=False,
    )  # fmt: skip
    search.fit(parts["X"], parts["y"], **public)
    assert 1.0 < budget.spent.epsilon < 2.0


def test_bad_arguments_are_named_before_anything_is_spent(parts, memory):
    nowhere = np.where(parts["X_public"] > 0.9, np.nan, 1.0)
    for word, options, given in (
        ("epsilon", {"epsilon": 0.0}, {}), ("delta", {"delta": 1 / 2000}, {}),
        ("bound", {"bound": -1.0}, {}), ("alpha", {"alpha": -1.0}, {}),
        ("n_nominal", {"n_nominal": 0}, {}), ("classes", {"classes": (1, 1)}, {}),
        ("scale", {"scale": "private"}, {}),
        ("classes", {"classes": (2**53 + 1, 0)}, {}), ("moments", {"moments": "yes"}, {}),
        ("classes", {"classes": None}, {"y_public": None}),
        ("X_public", {}, {"X_public": None, "y_public": None}),
        ("X_public", {}, {"X_public": nowhere}), ("columns", {}, {"X": parts["X"][:, :2]}),
        ("y_public", {}, {"y_public": np.ones(400, dtype=int)}),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=word):
            logistic(budget=memory, **options).fit(**{**parts, **given})
    assert memory.spent.releases == 0
    with pytest.raises(NotFittedError):
        logistic().predict(parts["X"])


@pytest.mark.parametrize(("truth", "labelled"), [(200, True), (2000, False)])
def test_rows_that_are_not_as_many_as_said_are_noticed_and_do_no_harm(rows, truth, labelled):
    X, y = rows
    X, y = np.vstack([X] * 9), np.tile(y, 9)
    public = {"X_public": X[:400].copy(), "y_public": y[:400].copy() if labelled else None}
    model = logistic(n_nominal=truth)
    with pytest.warns(dp.PrivateFitWarning, match="n_nominal"):
        model.fit(X[400:], y[400:], **public)
    assert model.rows_ == pytest.approx(len(y) - 400, abs=250)
    assert model.privacy_.epsilon == pytest.approx(1.0)
    # The base rate has 0.69.
    assert log_loss(model, X, y) < 0.6


def test_a_bound_below_most_public_rows_is_said_and_cuts_predictions_too(parts, public):
    raw = of_tables(parts, lambda X: 300 * X)
    model = logistic(bound=4.0)
    with pytest.warns(dp.PrivateFitWarning, match="bound"):
        model.fit(**raw)
    assert log_loss(model, raw["X"], raw["y"]) < 0.69
    far = 1e9 * np.eye(3)
    near = far / 1e9 * model.scaling_.bound
    np.testing.assert_allclose(model.decision_function(far), model.decision_function(near))
    # One public row that is far out does not change the units of the others.
    public["X_public"] = public["X_public"].copy()
    before = logistic().plan(**public).scaling.spread
    public["X_public"][3, 1] = 1e12
    np.testing.assert_allclose(logistic().plan(**public).scaling.spread, before, rtol=0.1)


def overlaps(X):
    """Yield private and public rows that are partly the same."""
    listed, table = X.tolist(), scipy.sparse.csr_array(X)
    yield from ((X, X), (X, X[::3]), (listed, listed[:50]), (list(X), list(X[5:50])))
    yield table, scipy.sparse.csr_array(table)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abc"))
    yield from ((frame, frame.iloc[5:50]), (frame, frame), (frame, frame.to_numpy()[5:50]))
    torch = pytest.importorskip("torch")
    yield torch.from_numpy(X), torch.from_numpy(X)[:50]


def test_public_rows_that_are_private_ones_are_refused(rows, memory):
    X, y = rows
    for private, public in overlaps(X.copy()):
        with pytest.raises(ValueError, match="X_public"):
            logistic(budget=memory).fit(private, y, X_public=public)
    with pytest.raises(ValueError, match="y_public"):
        logistic(budget=memory).fit(X[400:], y, X_public=X[:400], y_public=y[:400])
    assert memory.spent.releases == 0
    # Disjoint parts of one table are none.
    frame, listed = pytest.importorskip("pandas").DataFrame(X), X.tolist()
    logistic().fit(X[::2], y[::2], X_public=X[1::2], y_public=y[1::2])
    for table in (frame, listed):
        logistic().fit(table[400:], y[400:], X_public=table[:400], y_public=y[:400])
