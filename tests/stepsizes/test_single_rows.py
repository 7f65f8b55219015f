"""``eta="auto"`` where a batch is one row: noise that grows with the distance."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox.stepsizes.auto import AutoStep, Point
from proxyprox.stepsizes.base import Observation


def squares(d, batch, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, d))
    y = X @ rng.normal(size=d) + rng.normal(size=2000)
    return pp.linear_regression(X, y, batch_size=batch)


def repeated(loss, *, repeatable=True):
    return pp.FunctionObjective(
        loss.gradient, value=loss.value, sample=loss.sample, repeatable=repeatable
    )


@pytest.mark.parametrize("method", [pp.ProxyProx("auto"), pp.SGD("auto")])
@pytest.mark.parametrize(("batch", "repeatable"), [(1, True), (4, False)])
def test_no_run_ends_above_its_start(batch, method, repeatable):
    rng = np.random.default_rng(1)
    X = rng.standard_t(4, size=(1000, 15))
    loss = pp.linear_regression(X, X @ rng.normal(size=15) + rng.standard_t(3, size=1000))
    loss = loss.with_batch_size(batch)
    problem = pp.Problem(repeated(loss, repeatable=repeatable), loss.label_free())
    for seed in range(3):
        result = pp.minimize(problem, np.zeros(15), method=method, steps=150, rng=seed)
        assert loss.value(result.w) < loss.value(np.zeros(15))


def zipf_rows(batch, seed=0):
    """Return logistic regression on rows that share few columns, without an intercept."""
    rng = np.random.default_rng(seed)
    shares = np.minimum(0.4, 1 / np.arange(1, 101))
    X = scipy.sparse.csr_matrix((rng.random((1000, 100)) < shares).astype(float))
    y = X @ rng.normal(size=100) + rng.logistic(size=1000) > 1
    return pp.logistic_regression(X, y, l2=1e-4, batch_size=batch)


@pytest.mark.parametrize(
    ("batch", "kind"),
    [
        (1, "10%"),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in [(1, "label-free"), (2, "10%")]),
    ],
)
def test_rows_that_share_no_column_do_not_make_a_long_step(batch, kind):
    loss = zipf_rows(batch)
    start = loss.value(loss.zeros())
    for seed in range(8):
        proxy = loss.label_free() if kind == "label-free" else loss.subsample(100, rng=seed)
        call = {"method": pp.ProxyProx("auto"), "steps": 120, "rng": seed}
        assert loss.value(pp.minimize(pp.Problem(loss, proxy), loss.zeros(), **call).w) < start


def test_a_batch_beside_the_probe_says_nothing_about_the_growth_of_noise():
    rng = np.random.default_rng(202)
    shares = 1 / np.arange(1, 31)
    columns = rng.choice(30, p=shares / shares.sum(), size=(3000, 3)) + 30 * np.arange(3)
    X = np.eye(90)[columns].sum(axis=1)
    y = X @ rng.normal(size=90) - 0.5 + rng.logistic(size=3000) > 0
    loss = pp.logistic_regression(X, y, l2=1e-4, batch_size=4)
    problem = pp.Problem(loss, loss.subsample(300, rng=np.random.default_rng([5, 2])))
    result = pp.minimize(problem, loss.zeros(), method=pp.ProxyProx("auto"), steps=15, rng=5)
    assert loss.value(result.last) < 1.2 * loss.value(loss.zeros())


# -- the parts ------------------------------------------------------------------------------


def fresh(**changed):
    state = AutoStep().init(np.zeros(3), None)
    zero = np.zeros(3)
    return dataclasses.replace(state, previous=Point(zero, zero, None), eta=1e-3, **changed)


def observed(here, *, step, k=1, state=None, gaps=(None, None)):
    """Return the state after a batch without gradient at zero was evaluated at a step as well."""
    zero = np.zeros(3)
    elsewhere = ((zero, zero, gaps[0]),)
    seen = Observation(k, step, here, zero, half_gap=gaps[1], elsewhere=elsewhere)
    return AutoStep().observe(state or fresh(), seen)


def test_the_growth_of_one_rows_noise_is_its_smoothness_whatever_the_step():
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, step = rng.normal(size=(2, 3))
        assert observed(x * (x @ step), step=step).growth.value == pytest.approx(x @ x)


def test_halves_that_are_no_pairs_are_refused_by_name():
    loss = squares(3, 2)
    run = pp.Run(pp.Problem(loss, loss.label_free()), method=pp.ProxyProx("auto"), rng=0)
    query = run.ask()
    for halves in ((), 5, [()], [(1.0, 2.0, 3.0)], np.zeros((3, 3))):
        with pytest.raises(ValueError, match="halves"):
            run.tell(loss.gradient(query.points[0], query.batch), halves=halves)


def test_a_row_drawn_twice_is_not_an_exact_gradient():
    loss = squares(3, 2)
    run = pp.Run(pp.Problem(loss, loss.subsample(50, rng=0)), method=pp.ProxyProx("auto"), rng=0)
    run.open(np.array([5, 5]))
    query = run.ask()
    halves = [tuple(loss.gradient(w, half) for half in query.halves) for w in query.points]
    run.tell([sum(pair) / 2 for pair in halves], halves=halves)
    assert not run.state.step_size.exact
