"""The private objective: clipping against a loop over rows, noise, neighbours, refused uses."""

import math
from collections import Counter

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox import private as dp
from proxyprox.private.mechanism import draw_noise
from proxyprox.problems.families import Linear, Logistic, Poisson, Softmax

METRIC = dp.Metric(np.diag([1.0, 0.2, 0.01]), damping=0.05)
ZERO = np.zeros(3)


def slow_sum(X, y, family, w, clip, metric):
    total = 0.0
    for x, label in zip(X, y, strict=True):
        g = pp.GLM(x[None], [label], family).gradient(w)
        g = g if metric is None else metric.whiten(g)
        total = total + g * min(1.0, clip / np.linalg.norm(g))
    return total


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("metric", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_clipped_sums_are_those_of_a_loop(rows, metric, sparse, classes):
    X, y = rows[0][:40], rows[1][:40]
    family, w, whitened = Logistic((0, 1)), np.array([0.3, -0.1, 1.0]), METRIC
    if classes == 3:
        family, y = Softmax(("a", "b", "c")), np.array(["a", "b", "c"])[np.arange(40) % 3]
        w, whitened = (
            np.linspace(-1, 1, 9),
            dp.Metric(np.diag(np.linspace(0.01, 1, 9)), damping=0.1),
        )
    whitened = whitened if metric else None
    table = scipy.sparse.csr_array(X) if sparse else X
    found = dp.PrivateRows(table, y, family).clipped_sum(w, clip=0.4, metric=whitened)
    np.testing.assert_allclose(found, slow_sum(X, y, family, w, 0.4, whitened))


def test_without_noise_and_clip_it_is_the_gradient(rows):
    loss, private = pp.logistic_regression(*rows, l2=0.3), dp.PrivateRows(*rows, Logistic((0, 1)))
    given = {"epsilon": 1e9, "delta": 1e-5, "releases": 1, "n_nominal": len(rows[1])}
    w = np.array([1.0, 2.0, 3.0])
    found = dp.Private(private, **given, clip=1e3, l2=0.3).gradient(w)
    np.testing.assert_allclose(found, loss.gradient(w), atol=1e-2)


@pytest.mark.parametrize("family", [Linear(), Poisson()])
def test_numeric_labels_never_raise_and_are_bounded(rows, family):
    y = [1.0, np.nan, -3.0, 1e300, np.inf, "x"]
    private = dp.PrivateRows(rows[0][:6], y, family, label_bound=4.0)
    assert np.linalg.norm(private.clipped_sum(np.array([500.0, 900.0, 800.0]), clip=0.5)) <= 3.0


def test_noise_has_the_calibrated_size(rows, make):
    exact = dp.PrivateRows(rows[0][:500], rows[1][:500], Logistic((0, 1)))
    exact, K = exact.clipped_sum(ZERO, clip=1.0, metric=METRIC), 400
    target = make(releases=K, metric=METRIC)
    noise = np.array([METRIC.whiten(target.gradient(ZERO)) - exact / 500 for _ in range(K)])
    expected = target.sigma * 1.0 / 500
    assert noise.std() == pytest.approx(expected, rel=0.1)
    assert abs(noise.mean()) < 4 * expected / math.sqrt(3 * K)
    assert target.noise_variance == pytest.approx(3 * expected**2)
    assert abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.25
    empty = make(X=rows[0][:0], y=rows[1][:0])
    assert np.linalg.norm(empty.gradient(ZERO)) > 0


def test_noise_follows_no_seed(make):
    drawn = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        drawn.append(make().gradient(ZERO))
    assert (drawn[0] != drawn[1]).all()
    assert abs(draw_noise(20_000).std() - 1) < 0.03


def test_uses_that_are_not_in_the_plan_are_refused_before_anything_is_spent(make):
    target, step = make(), pp.ProxyProx(eta=1.0)
    problem = pp.Problem(target, pp.Quadratic(np.eye(3)))
    for options in (
        {}, {"method": pp.ProxyProx(eta="auto")}, {"method": step, "safeguard": True},
        {"method": pp.ProxyProx(eta=1.0, correction=pp.corrections.Storm())},
        {"method": pp.DANE(eta=1.0)}, {"method": pp.ProxyBFGS()}, {"method": step, "tol": 1e-3},
        {"method": step, "steps": 4},
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            pp.minimize(problem, **{"steps": 3, **options})
    with pytest.raises(TypeError, match="audit"):
        pp.audit(problem)
    with pytest.raises(ValueError, match="w must"):
        target.gradient(np.zeros(7))
    assert target.spent.releases == 0
    batch = target.sample(np.random.default_rng(0))
    assert target.gradient(ZERO, batch).shape == (3,)
    for refused, word in (
        (lambda: target.gradient(np.ones(3), batch), "already"),
        (lambda: target.adjust(metric=METRIC), "before"),
        (lambda: target.second_moments(clip=1.0), "moments"),
        (lambda: target.count_rows(), "count"),
    ):
        with pytest.raises(dp.PrivacyBudgetError, match=word):
            refused()
    assert target.spent.releases == 1


def test_a_count_and_moments_are_paid_for_and_sums_divided_by_it(rows, make):
    X, y = rows
    target = make(X=X, y=y, count=0.5, moments=0.2, epsilon=50.0)
    found, sd = target.count_rows()
    assert abs(found - len(y)) < 6 * sd
    assert target.count_rows()[0] == found
    target.adjust(size=found)
    moments, noise = target.second_moments(clip=3.0)
    np.testing.assert_allclose(moments, np.mean(X**2, axis=0), atol=6 * noise)
    np.testing.assert_array_equal(target.second_moments(clip=3.0)[0], moments)
    g = target.gradient(ZERO)
    exact = pp.logistic_regression(X, y).gradient(ZERO)
    np.testing.assert_allclose(g, exact, atol=6 * math.sqrt(target.noise_variance))
    for _ in range(2):
        target.gradient(ZERO)
    assert target.spent.epsilon == pytest.approx(50.0)
    assert target.spent.releases == 5


def test_matched_clipping_takes_the_public_bias_off(rows):
    X, y = rows
    public, private = pp.logistic_regression(X, y), dp.PrivateRows(X, y, Logistic((0, 1)))
    settings = {"epsilon": 1e7, "delta": 1e-5, "releases": 1, "n_nominal": len(y), "clip": 0.2}
    w = np.array([0.5, 0.5, -0.5])
    before, error = (
        np.linalg.norm(dp.Private(private, matched=m, **settings).gradient(w) - public.gradient(w))
        for m in (None, public)
    )
    assert error < 1e-2 < before


def test_james_stein_shrinks_noise_and_keeps_signal():
    metric = dp.Metric(np.diag([1.0, 0.2, 0.01]), damping=1e-9)
    rule = dp.JamesStein(metric, noise=1.0)
    signal = metric.unwhiten(np.array([100.0, 0.0, 0.0]))
    np.testing.assert_allclose(rule.estimate(rule(signal, None, None, 0)), signal, rtol=1e-3)
    weak = metric.unwhiten(np.array([0.5, 0.5, 0.5]))
    assert not rule.estimate(rule(weak, None, None, 0)).any()
    # What public rows explain is expected, whether it is seen or not.
    expecting = dp.JamesStein(metric, noise=1.0, expected=1 / 3)
    np.testing.assert_allclose(expecting.estimate(expecting(weak, None, None, 0)), weak / 2)
    memory = None
    for k in range(3):
        memory = rule(np.full(3, float(k)), None, memory, k)
    np.testing.assert_allclose(memory[0], 1.0)


BAD = [
    ("epsilon", {"epsilon": 0.0}), ("delta", {"delta": 1 / 500}), ("clip", {"clip": 0.0}),
    ("clip", {"clip": 1e200}), ("n_nominal", {"n_nominal": 0}), ("releases", {"releases": 10**9}),
    ("metric", {"metric": dp.Metric(np.eye(2), 1.0)}),
    ("metric", {"metric": 5}), ("moments", {"moments": 1.0}),
    ("moments", {"count": 0.6, "moments": 0.6}), ("matched", {"matched": 5}), ("name", {"name": 5}),
    ("budget", {"budget": 5}),
]  # fmt: skip


def test_bad_arguments_are_named(make, rows):
    X, y = rows
    family = Logistic((0, 1))
    plain = {"epsilon": 1.0, "delta": 1e-5, "releases": 1, "n_nominal": 5, "clip": 1.0}
    calls = [(word, lambda options=options: make(**options)) for word, options in BAD]
    calls += [
        ("hessian", lambda: dp.Metric(np.full((2, 2), np.nan), 1.0)),
        ("y must", lambda: dp.PrivateRows(X, y[:-1], family)),
        ("X must", lambda: dp.PrivateRows(X[0], y[:1], family)),
        ("label_bound", lambda: dp.PrivateRows(X, X[:, 0], Linear(), label_bound=math.nan)),
        ("objective", lambda: dp.Private(5, **plain)),
        ("noise", lambda: dp.JamesStein(METRIC, noise=math.nan)),
    ]
    for word, call in calls:
        with pytest.raises((TypeError, ValueError), match=word):
            call()


# -- every access to private rows has its charge, and one without is caught ----------------------


class CountedRows:
    """Rows between the table and the mechanism: each access needs a charge in the journal."""

    def __init__(self, rows, budget):
        self.rows, self.budget, self.accesses = rows, budget, Counter()
        self.dim, self.zeros = rows.dim, rows.zeros

    def __getattr__(self, name):
        def read(*args, **kwargs):
            self.accesses[name] += 1
            assert self.accesses.total() <= self.budget.spent.releases, f"{name} is not charged"
            return getattr(self.rows, name)(*args, **kwargs)

        return read


class Peeking(dp.Private):
    """A mechanism that reads the rows twice for one charge."""

    def gradient(self, w, batch=None):
        released = super().gradient(w, batch)
        self._rows.clipped_sum(w, clip=self.clip)
        return released


@pytest.fixture
def counted(rows):
    """Return a function that makes rows that are counted, and an objective on them."""

    def make(cls=dp.Private, **options):
        budget = dp.PrivacyBudget(epsilon=1.0, delta=1e-5)
        table = CountedRows(dp.PrivateRows(*(part[:60] for part in rows), Logistic((0, 1))), budget)
        given = {"epsilon": 1.0, "delta": 1e-5, "n_nominal": 60, "clip": 1.0, "budget": budget}
        return table, cls(table, releases=4, **given, **options)

    return make


def test_rows_are_accessed_once_for_each_charge(rows, counted):
    table, target = counted()
    public = pp.logistic_regression(rows[0][:20], rows[1][:20], l2=0.1)
    result = pp.minimize(pp.Problem(target, public), "proxy", method=pp.ProxyProx(eta=1.0), steps=4)
    assert table.accesses == {"clipped_sum": 4}
    assert target.budget.spent.releases == 4
    assert result.values is None
    assert result.ledger.epsilon == pytest.approx(1.0)
    with pytest.raises(dp.PrivacyBudgetError, match="planned"):
        target.gradient(np.zeros(3))
    table, target = counted(moments=0.1)
    target.second_moments(clip=1.0)
    target.gradient(np.zeros(3))
    assert table.accesses == {"clipped_moments": 1, "clipped_sum": 1}


def test_accesses_without_a_charge_are_refused(counted):
    with pytest.raises(AssertionError, match="not charged"):
        counted(Peeking)[1].gradient(np.zeros(3))
