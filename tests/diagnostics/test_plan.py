"""Plans: they come true on losses they were not made for, and say what they rest on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris

import proxyprox as pp
from proxyprox.diagnostics.audit import audit, plan
from proxyprox.diagnostics.report import Verdict
from proxyprox.problems import MixedProxy


@pytest.fixture(scope="module")
def found(target):
    return audit(pp.Problem(target, target.label_free()), epsilon=5e-3, rng=0)


def unseen(name):
    rng = np.random.default_rng(5)
    if name == "counts":
        X = 0.4 * rng.standard_normal((500, 12))
        y = rng.poisson(np.exp(X.sum(axis=1) / 2))
        counts = pp.poisson_regression(X, y, l2=1e-3, batch_size=32)
        return counts, counts.label_free()
    if name == "iris":
        X, y = load_iris(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        flowers = pp.softmax_regression(X, y, l2=1e-3, batch_size=16)
        return flowers, flowers.label_free()
    X = rng.standard_normal((500, 10)) * np.geomspace(1, 0.1, 10)
    X = np.concatenate([X, X**2], axis=1)
    z = X @ rng.standard_normal(20) + rng.standard_normal(500)
    squares = pp.linear_regression(X, z, l2=1e-3, batch_size=32)
    return squares, squares.subsample(150, rng=0)


@pytest.mark.parametrize("name", ["counts", "iris", "squares"])
def test_plans_hold_on_losses_and_data_not_used_to_make_them(name, best_value):
    loss, proxy = unseen(name)
    best = best_value(loss)
    epsilon = 0.02 * (loss.value(loss.zeros()) - best)
    found = audit(pp.Problem(loss, proxy), epsilon=epsilon, rng=0)
    planned = plan(found, budget=500)
    assert planned.reaches
    runs = [pp.minimize(planned.problem, **planned.arguments, rng=s) for s in range(6)]
    # The plan is made on a quadratic model: a loss that bends away from it costs a factor.
    assert np.mean([loss.value(run.w) for run in runs]) - best < 2 * epsilon
    bill, ledger = planned.bill, runs[0].ledger
    assert bill.target_gradients == ledger.target_gradients == planned.steps
    assert bill.target_samples == ledger.target_samples
    # With a third of the budget the plan says itself how far it gets.
    short = plan(found, budget=planned.steps // 3)
    ends = [pp.minimize(short.problem, **short.arguments, rng=s).w for s in range(6)]
    assert not short.reaches
    assert 0.3 < (np.mean([loss.value(w) for w in ends]) - best) / short.expected < 3


def test_what_is_out_of_reach_is_said(found):
    planned = plan(found, epsilon=1e-13)
    assert not planned.reaches
    assert any("No constant step size" in note for note in planned.notes)
    short = plan(found, epsilon=1e-6, budget=5)
    assert (short.steps, short.reaches) == (5, False)
    assert short.expected > 1e-6
    words = str(short)
    assert words.startswith("ProxyProx(eta=")
    for part in ("5 target gradients on 320 samples", "The budget ends"):
        assert part in words
    samples = plan(found, epsilon=1e-6, budget=pp.Budget(target_samples=5 * 64))
    assert samples.steps == 5


def test_a_useless_proxy_is_left_out_and_a_scaled_one_taken_with_its_scale(target, best_value):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 10)) * np.geomspace(1, 0.1, 10)
    goal = pp.linear_regression(X, X.sum(axis=1), l2=1e-3, batch_size=128)
    useless = audit(pp.Problem(goal, goal.label_free(rng.standard_normal((500, 10)))), rng=0)
    assert useless.verdict is Verdict.DO_NOT_USE
    planned = plan(useless)
    assert isinstance(planned.method, pp.SGD)
    assert planned.stop is None
    assert "Do not use it" in planned.notes[0]
    wrong = MixedProxy([target.label_free()], [1e-3])
    planned = plan(audit(pp.Problem(target, wrong), epsilon=5e-3, rng=0))
    assert isinstance(planned.problem.proxy, MixedProxy)
    ends = [pp.minimize(planned.problem, **planned.arguments, rng=s).w for s in range(3)]
    assert np.mean([target.value(w) for w in ends]) - best_value(target) < 2 * planned.epsilon


def test_the_noise_outside_a_krylov_space_counts(best_value):
    """Nearly all of the noise of sparse rows is there: without it plans ended 10 to 60 ε away."""
    rng = np.random.default_rng(0)
    rows, d = 500, 1500
    shares = 1 / np.arange(1, d + 1)
    words = rng.choice(d, size=rows * 30, p=shares / shares.sum())
    entries = (np.full(words.size, 30**-0.5), (np.repeat(np.arange(rows), 30), words))
    X = scipy.sparse.csr_matrix(entries, shape=(rows, d))
    y = X @ rng.standard_normal(d) + rng.logistic(size=rows) > 0
    goal = pp.logistic_regression(X, y, l2=1e-2, batch_size=32)
    best = best_value(goal)
    epsilon = 0.05 * (goal.value(goal.zeros()) - best)
    found = audit(pp.Problem(goal, goal.label_free()), epsilon=epsilon, budget=150, rng=0)
    assert found.model.subspace
    assert len(found.model.A) < d / 10
    # The model's noise is all of the noise at the end of the path.
    rows = found.model.residuals
    sigma2 = found.points[-1].sigma2.estimate
    assert np.sum(rows**2) / (len(rows) - 1) == pytest.approx(sigma2, rel=0.01)
    planned = plan(found)
    ends = [pp.minimize(planned.problem, **planned.arguments, rng=s).w for s in range(3)]
    assert np.mean([goal.value(w) for w in ends]) - best < 2 * epsilon


def test_rows_that_stand_out_make_a_plan_rough():
    rng = np.random.default_rng(2)
    X, heavy = rng.standard_normal((600, 20)), rng.standard_t(2.2, size=(600, 20))
    for rows, rough in ((X, False), (heavy, True)):
        goal = pp.linear_regression(rows, rows.sum(axis=1) + X[:, 0], l2=1e-3, batch_size=64)
        planned = plan(audit(pp.Problem(goal, goal.label_free()), rng=0))
        assert planned.rough is rough
        assert any("rows carry" in note for note in planned.notes) is rough
