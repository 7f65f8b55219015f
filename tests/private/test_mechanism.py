"""The private objective: clipping against a loop over rows, noise, neighbours, refused uses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox.private import (
    JamesStein,
    Metric,
    NotPrivateWarning,
    PrivacyBudgetError,
    Private,
    PrivateRows,
)
from proxyprox.private.mechanism import draw_noise
from proxyprox.problems.families import Linear, Logistic, Poisson, Softmax

METRIC = Metric(np.diag([1.0, 0.2, 0.01]), damping=0.05)


def slow_sum(X, y, family, w, clip, metric):
    total = 0.0
    for x, label in zip(X, y, strict=True):
        g = pp.GLM(x[None], [label], family).gradient(w)
        g = g if metric is None else metric.whiten(g)
        total = total + g * min(1.0, clip / np.linalg.norm(g))
    return total


@pytest.mark.parametrize("metric", [None, METRIC])
@pytest.mark.parametrize("sparse", [False, True])
def test_clipped_sums_are_those_of_a_loop(rows, metric, sparse):
    X, y = (part[:40] for part in rows)
    w = np.array([0.3, -0.1, 1.0])
    table = scipy.sparse.csr_array(X) if sparse else X
    found = PrivateRows(table, y, Logistic((0, 1))).clipped_sum(w, clip=0.4, metric=metric)
    np.testing.assert_allclose(found, slow_sum(X, y, Logistic((0, 1)), w, 0.4, metric))


def test_clipped_sums_of_several_classes_are_those_of_a_loop(rows):
    X, family = rows[0][:30], Softmax(("a", "b", "c"))
    y = np.array(["a", "b", "c"])[np.arange(30) % 3]
    w = np.linspace(-1, 1, 9)
    metric = Metric(np.diag(np.linspace(0.01, 1, 9)), damping=0.1)
    found = PrivateRows(X, y, family).clipped_sum(w, clip=0.5, metric=metric)
    np.testing.assert_allclose(found, slow_sum(X, y, family, w, 0.5, metric))


def test_without_noise_and_clip_it_is_the_gradient(rows):
    X, y = rows
    loss = pp.logistic_regression(X, y, l2=0.3)
    target = Private(
        loss, epsilon=1e9, delta=1e-5, releases=1, n_nominal=len(y), clip=1e3, l2=0.3,
    )  # fmt: skip
    w = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(target.gradient(w), loss.gradient(w), atol=1e-2)


ODD_ROWS = [
    ([np.nan, 0.0, 0.0], 1), ([np.inf, 0.0, 0.0], 0), ([1e308, 1e308, -1e308], 1),
    ([0.1, 0.2, 0.3], 7), ([0.1, 0.2, 0.3], np.nan), ([0.1, 0.2, 0.3], None),
    ([0.1, 0.2, 0.3], "text"), (["a", 0.2, 0.3], 1), ([None, 0.2, 0.3], 1),
    ([0.1, 0.2, 0.3], [1]), ([0.0, 0.0, 0.0], 1),
]  # fmt: skip


@pytest.mark.parametrize(("x", "label"), ODD_ROWS)
@pytest.mark.parametrize("metric", [None, METRIC])
def test_neighbours_differ_by_the_clip_at_most(rows, x, label, metric):
    X, y = (part[:20].astype(object) for part in rows)
    labels = np.empty(21, dtype=object)
    labels[:20], labels[20] = y, label
    w = np.array([1.0, -1.0, 5.0])
    sums = [
        PrivateRows(table, given, Logistic((0, 1)), bound=1.0).clipped_sum(
            w, clip=0.3, metric=metric
        )
        for table, given in ((X, y), (np.vstack([X, np.array([x], dtype=object)]), labels))
    ]
    assert np.isfinite(sums).all()
    assert np.linalg.norm(sums[1] - sums[0]) <= 0.3 * (1 + 1e-9)


@pytest.mark.parametrize("container", [list, np.array, "pandas"])
@pytest.mark.parametrize("labels", [[0, 1], [0.0, 1.0]])
@pytest.mark.parametrize(
    ("x", "label"), [([1.0, 1.0], "other"), (["text", 1.0], 1), ([None, 1.0], 1), ([1, 1], np.nan)]
)
def test_one_odd_entry_does_not_change_how_the_others_are_read(container, labels, x, label):
    pandas = pytest.importorskip("pandas")
    table, w = [[1.0, 2.0], [3.0, -1.0]], np.array([1.0, -0.5])
    make_X, make_y = (container, container)
    if container == "pandas":
        make_X, make_y = pandas.DataFrame, pandas.Series
    without, with_it = (
        PrivateRows(make_X(X), make_y(y), Logistic((0, 1)), bound=2.0).clipped_sum(w, clip=0.3)
        for X, y in ((table, labels), ([*table, x], [*labels, label]))
    )
    np.testing.assert_array_equal(with_it, without)


@pytest.mark.parametrize(
    ("x", "label"), [row for row in ODD_ROWS if row[1] != 1 or row[0][0] is None]
)
def test_rows_that_cannot_be_used_count_as_absent(rows, x, label):
    X, y = (part[:20].astype(object) for part in rows)
    labels = np.empty(21, dtype=object)
    labels[:20], labels[20] = y, label
    more = np.vstack([X, np.array([x], dtype=object)])
    w = np.ones(3)
    found = PrivateRows(more, labels, Logistic((0, 1))).clipped_sum(w, clip=0.3)
    np.testing.assert_allclose(
        found, PrivateRows(X, y, Logistic((0, 1))).clipped_sum(w, clip=0.3), atol=1e-12
    )


@pytest.mark.parametrize("family", [Linear(), Poisson()])
def test_numeric_labels_never_raise_and_are_bounded(rows, family):
    X = rows[0][:6]
    y = [1.0, np.nan, -3.0, 1e300, np.inf, "x"]
    w = np.array([500.0, 900.0, 800.0])
    total = PrivateRows(X, y, family, label_bound=4.0).clipped_sum(w, clip=0.5)
    assert np.linalg.norm(total) <= 3.0


def test_long_rows_are_scaled_to_the_bound():
    near, far = (
        PrivateRows([[scale, scale]], [1], Logistic((0, 1)), bound=1.0).clipped_sum(
            np.zeros(2), clip=9.0
        )
        for scale in (10.0, 1e200)
    )
    np.testing.assert_allclose(near, far)
    assert np.linalg.norm(near) == pytest.approx(0.5)


def test_an_empty_table_and_an_empty_sample_release_noise(make, rows):
    empty = make(X=rows[0][:0], y=rows[1][:0])
    assert np.linalg.norm(empty.gradient(np.zeros(3))) > 0
    pytest.importorskip("opacus")
    few = make(X=rows[0][:1], y=rows[1][:1], sample_rate=0.01)
    assert np.linalg.norm(few.gradient(np.zeros(3))) > 0
    assert few.samples(0) == 5


def test_noise_has_the_calibrated_size(rows, make):
    X, y = rows[0][:500], rows[1][:500]
    K = 400
    target = make(releases=K, metric=METRIC)
    exact = PrivateRows(X, y, Logistic((0, 1))).clipped_sum(np.zeros(3), clip=1.0, metric=METRIC)
    noise = np.array([METRIC.whiten(target.gradient(np.zeros(3))) - exact / 500 for _ in range(K)])
    expected = target.sigma * 1.0 / 500
    assert noise.std() == pytest.approx(expected, rel=0.1)
    assert abs(noise.mean()) < 4 * expected / math.sqrt(3 * K)
    assert target.noise_variance == pytest.approx(3 * expected**2)
    assert abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.25


def test_poisson_samples_are_divided_by_their_expected_size(rows, make):
    pytest.importorskip("opacus")
    target = make(releases=300, sample_rate=0.2, epsilon=1e4)
    found = np.mean([target.gradient(np.zeros(3)) for _ in range(300)], axis=0)
    exact = PrivateRows(rows[0][:500], rows[1][:500], Logistic((0, 1)))
    np.testing.assert_allclose(found, exact.clipped_sum(np.zeros(3), clip=1.0) / 500, atol=0.02)


def test_noise_does_not_follow_any_seed(make):
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        drawn.append(make().gradient(np.zeros(3)))
    assert (drawn[0] != drawn[1]).all()
    assert abs(draw_noise(20_000).std() - 1) < 0.03


def test_seeded_noise_is_repeated_and_marked_everywhere(make):
    found = []
    for _ in range(2):
        with pytest.warns(NotPrivateWarning):
            target = make(seed=3)
        public = pp.Quadratic(np.eye(3))
        result = pp.minimize(pp.Problem(target, public), method=pp.ProxyProx(eta=1.0), steps=3)
        found.append(result.w)
        for text in (str(target.spent), repr(target), str(result)):
            assert "NOT PRIVATE" in text
        assert result.ledger.epsilon == math.inf
    np.testing.assert_array_equal(*found)


class Counting(PrivateRows):
    accesses = 0

    def clipped_sum(self, *arguments, **options):
        Counting.accesses += 1
        return super().clipped_sum(*arguments, **options)


def test_a_run_accesses_rows_once_for_each_release(rows):
    target = Private(
        Counting(*rows, Logistic((0, 1))), epsilon=1.0, delta=1e-5, releases=4, n_nominal=2400,
        clip=1.0,
    )  # fmt: skip
    public = pp.logistic_regression(rows[0][:200], rows[1][:200], l2=0.1)
    Counting.accesses = 0
    result = pp.minimize(
        pp.Problem(target, public), "proxy", method=pp.ProxyProx(eta=1.0), steps=4,
    )  # fmt: skip
    assert Counting.accesses == target.spent.releases == 4
    assert result.values is None
    assert result.ledger.epsilon == pytest.approx(1.0)
    with pytest.raises(PrivacyBudgetError, match="planned"):
        target.gradient(np.zeros(3))
    assert Counting.accesses == 4


REFUSED = {
    "auto": {"method": pp.ProxyProx(eta="auto")},
    "default method": {},
    "safeguard": {"method": pp.ProxyProx(eta=1.0), "safeguard": True},
    "two points": {"method": pp.ProxyProx(eta=1.0, correction=pp.corrections.Storm())},
    "full gradients": {"method": pp.DANE(eta=1.0)},
    "values": {"method": pp.ProxyBFGS()},
    "tolerance": {"method": pp.ProxyProx(eta=1.0), "tol": 1e-3},
    "too many steps": {"method": pp.ProxyProx(eta=1.0), "steps": 4},
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_uses_that_are_not_in_the_plan_are_refused_before_anything_is_spent(make, options):
    target = make()
    problem = pp.Problem(target, pp.Quadratic(np.eye(3)))
    with pytest.raises((TypeError, ValueError)):
        pp.minimize(problem, **{"steps": 3, **options})
    assert target.spent.releases == 0


def test_audits_are_refused(make):
    target = make()
    with pytest.raises(TypeError, match="audit"):
        pp.audit(pp.Problem(target, pp.Quadratic(np.eye(3))))
    assert target.spent.releases == 0


def test_a_point_of_another_length_is_refused_before_it_is_paid_for(make):
    target = make()
    with pytest.raises(ValueError, match="w must"):
        target.gradient(np.zeros(7))
    assert target.spent.releases == 0
    assert target.gradient(np.zeros(3)).shape == (3,)


def test_a_batch_has_one_release(make):
    target = make()
    batch = target.sample(np.random.default_rng(0))
    target.gradient(np.zeros(3), batch)
    with pytest.raises(PrivacyBudgetError, match="made already"):
        target.gradient(np.ones(3), batch)
    assert target.spent.releases == 1


def test_the_metric_is_fixed_before_the_first_gradient(make):
    target = make()
    target.gradient(np.zeros(3))
    with pytest.raises(PrivacyBudgetError, match="metric"):
        target.set_metric(METRIC)


def test_second_moments_are_released_once_and_in_the_plan(rows, make):
    target = make(moments=0.5, epsilon=1e6)
    found, sd = target.second_moments(clip=3.0)
    np.testing.assert_allclose(found, np.mean(rows[0][:500] ** 2, axis=0), atol=5 * sd)
    np.testing.assert_array_equal(target.second_moments(clip=3.0)[0], found)
    assert target.spent.releases == 1
    with pytest.raises(PrivacyBudgetError, match="moments"):
        make().second_moments(clip=1.0)


def test_shares_of_the_budget_add_up(make):
    target = make(moments=0.1)
    target.second_moments(clip=1.0)
    for _ in range(3):
        target.gradient(np.zeros(3))
    assert target.spent.epsilon == pytest.approx(1.0)
    assert target.spent.releases == 4


def test_matched_clipping_takes_the_public_bias_off(rows):
    X, y = rows
    public = pp.logistic_regression(X, y)
    settings = {"epsilon": 1e7, "delta": 1e-5, "releases": 1, "n_nominal": len(y), "clip": 0.2}
    w = np.array([0.5, 0.5, -0.5])
    private = pp.logistic_regression(X.copy(), y)
    plain, matched = (
        Private(private, matched=given, **settings).gradient(w) for given in (None, public)
    )
    error, before = (np.linalg.norm(g - public.gradient(w)) for g in (matched, plain))
    assert error < 1e-2 < before


def test_a_metric_is_the_norm_of_the_inverse():
    g, H = np.array([1.0, -2.0, 0.3]), np.diag([1.0, 0.2, 0.01])
    expected = g @ np.linalg.solve(H + 0.05 * np.eye(3), g)
    assert np.sum(METRIC.whiten(g) ** 2) == pytest.approx(expected)
    np.testing.assert_allclose(METRIC.unwhiten(METRIC.whiten(g)), g)
    trace = np.trace(np.linalg.solve(H + 0.05 * np.eye(3), H))
    assert METRIC.degrees_of_freedom == pytest.approx(trace)


def test_james_stein_shrinks_noise_and_keeps_signal():
    rule = JamesStein(METRIC, noise=1.0, growing=True)
    signal = METRIC.unwhiten(np.array([100.0, 0.0, 0.0]))
    np.testing.assert_allclose(rule.estimate(rule(signal, None, None, 0)), signal, rtol=1e-3)
    weak = METRIC.unwhiten(np.array([0.5, 0.5, 0.5]))
    assert not rule.estimate(rule(weak, None, None, 0)).any()
    memory = None
    for k in range(3):
        memory = rule(np.full(3, float(k)), None, memory, k)
    np.testing.assert_allclose(memory[0], (0 * 1 + 1 * 2 + 2 * 3) / 6)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"), ({"epsilon": -1.0}, "epsilon"), ({"delta": 0.0}, "delta"),
        ({"delta": 1 / 500}, "delta"), ({"clip": None}, "clip"), ({"clip": 0.0}, "clip"),
        ({"n_nominal": 0}, "n_nominal"), ({"releases": 0}, "releases"), ({"seed": -1}, "seed"),
        ({"metric": Metric(np.eye(2), 1.0)}, "metric"), ({"moments": 1.0}, "moments"),
        ({"sample_rate": 0.0}, "sample_rate"), ({"sample_rate": 0.5, "moments": 0.1}, "moments"),
        ({"count": 1.0}, "count"), ({"sample_rate": 0.5, "count": 0.1}, "count"),
        ({"count": 0.6, "moments": 0.6}, "moments"), ({"clip": 1e200}, "clip"),
        ({"clip": 1e-200}, "clip"), ({"releases": 10**9}, "releases"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(make, options, word):
    with pytest.raises(ValueError, match=word):
        make(**options)


def test_wrong_shapes_are_named(rows):
    X, y = rows
    with pytest.raises(ValueError, match="y must"):
        PrivateRows(X, y[:-1], Logistic((0, 1)))
    with pytest.raises(ValueError, match="X must"):
        PrivateRows(X[0], y[:1], Logistic((0, 1)))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"metric": 5}, "metric"), ({"matched": 5}, "matched"), ({"name": 5}, "name"),
        ({"budget": 5}, "budget"), ({"clip": "1"}, "clip"), ({"releases": 2.5}, "releases"),
    ],
)  # fmt: skip
def test_arguments_of_other_kinds_are_named(make, options, word):
    with pytest.raises(TypeError, match=word):
        make(**options)


def test_objects_that_have_no_rows_and_metrics_that_are_none_are_named(rows):
    with pytest.raises(TypeError, match="objective"):
        Private(5, epsilon=1.0, delta=1e-5, releases=1, n_nominal=5, clip=1.0)
    for hessian in (2.5, np.ones((2, 3)), np.full((2, 2), np.nan)):
        with pytest.raises((TypeError, ValueError), match="hessian"):
            Metric(hessian, 1.0)
    with pytest.raises((TypeError, ValueError), match="noise"):
        JamesStein(METRIC, noise=math.nan)
    with pytest.raises(ValueError, match="scale"):
        PrivateRows(*rows, Logistic((0, 1)), scale=np.zeros(3))
    with pytest.raises(ValueError, match="label_bound"):
        PrivateRows(rows[0], rows[0][:, 0], Linear(), label_bound=math.nan)
    loss = pp.logistic_regression(*rows)
    for word in ("metric", "matched"):
        with pytest.raises(ValueError, match=word):
            Private(loss, epsilon=1.0, delta=1e-5, releases=1, n_nominal=5, clip=1.0,
                    **{word: loss})  # fmt: skip


@pytest.mark.parametrize("entry", [1e154, 1e155, 1e300, -1e308])
@pytest.mark.parametrize("sparse", [False, True])
def test_released_moments_are_finite_whatever_the_rows_hold(rows, make, entry, sparse):
    X = rows[0][:500].copy()
    X[7, 1] = entry
    target = make(X=scipy.sparse.csr_array(X) if sparse else X, moments=0.5, epsilon=1e6)
    found, sd = target.second_moments(clip=3.0)
    # The row counts with the clip at most.
    np.testing.assert_allclose(
        found, np.mean(rows[0][:500] ** 2, axis=0), atol=3.0 / 500 + 5 * sd + 1e-3
    )


def test_a_count_is_paid_for_and_sums_may_be_divided_by_it(rows, make):
    X, y = rows
    target = make(X=X, y=y, count=0.5, moments=0.2, epsilon=50.0)
    found, sd = target.count_rows()
    assert abs(found - len(y)) < 6 * sd
    assert target.count_rows()[0] == found
    target.set_size(found)
    moments, noise = target.second_moments(clip=3.0)
    np.testing.assert_allclose(moments, np.mean(X**2, axis=0), atol=6 * noise)
    g = target.gradient(np.zeros(3))
    exact = pp.logistic_regression(X, y).gradient(np.zeros(3))
    np.testing.assert_allclose(g, exact, atol=6 * math.sqrt(target.noise_variance))
    for _ in range(2):
        target.gradient(np.zeros(3))
    assert target.spent.epsilon == pytest.approx(50.0)
    assert target.spent.releases == 5
    with pytest.raises(PrivacyBudgetError, match="size"):
        target.set_size(5)
    with pytest.raises(PrivacyBudgetError, match="count"):
        make().count_rows()
