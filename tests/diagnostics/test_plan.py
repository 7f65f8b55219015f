"""Plans: they come true on losses they were not made for, and say what they rest on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris

import proxyprox as pp
from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.plan import plan
from proxyprox.diagnostics.report import Verdict
from proxyprox.problems import ScaledProxy


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
    planned = plan(found, budget=500, factors=[])
    assert planned.reaches
    runs = [pp.minimize(planned.problem, **planned.arguments, rng=s) for s in range(6)]
    # The plan is made on a quadratic model: a loss that bends away from it costs a factor.
    assert np.mean([loss.value(run.w) for run in runs]) - best < 2 * epsilon
    bill, ledger = planned.bill, runs[0].ledger
    assert bill.target_gradients == ledger.target_gradients == planned.steps
    assert bill.target_samples == ledger.target_samples
    work = ledger.proxy_gradients + ledger.proxy_hessians + ledger.proxy_hvps
    assert 0.2 * bill.proxy_gradients <= work <= 5 * bill.proxy_gradients
    # With a third of the budget the plan says itself how far it gets.
    short = plan(found, budget=planned.steps // 3, factors=[])
    ends = [pp.minimize(short.problem, **short.arguments, rng=s).w for s in range(6)]
    assert not short.reaches
    assert 0.3 < (np.mean([loss.value(w) for w in ends]) - best) / short.expected < 3


def test_what_is_out_of_reach_is_said(found):
    planned = plan(found, epsilon=1e-13, factors=[])
    assert not planned.reaches
    assert any("No constant step size" in note for note in planned.notes)
    short = plan(found, epsilon=1e-6, budget=5)
    assert (short.steps, short.reaches) == (5, False)
    assert short.expected > 1e-6
    words = str(short)
    assert words.startswith("ProxyProx(eta=")
    for part in ("5 target gradients on 320 samples", "64 → ", "The budget ends"):
        assert part in words
    samples = plan(found, epsilon=1e-6, budget=pp.Budget(target_samples=5 * 64), factors=[])
    assert samples.steps == 5


def test_larger_batches_need_fewer_gradients(target, found, tiny):
    lines = plan(found).what_if
    steps = [line.steps for line in lines]
    assert steps == sorted(steps, reverse=True)
    # There are 400 rows, and no batch has less than a sample.
    assert [line.batch_samples for line in lines] == [8, 16, 32, 64, 128, 256]
    assert lines[0].sigma2 == pytest.approx(8 * found.sigma2.estimate)
    assert [line.batch_samples for line in plan(tiny).what_if] == [1, 2, 4, 8]
    # Exact gradients say nothing of the noise of smaller batches.
    loss = pp.logistic_regression(target.design.X, target.targets, l2=1e-2)
    problem = pp.Problem(loss, loss.subsample(350, rng=0))
    exact = audit(problem, epsilon=1e-2, curvature="secants", rng=0)
    assert plan(exact).what_if == plan(exact, guaranteed=True).what_if == ()


def test_a_useless_proxy_is_left_out_and_a_scaled_one_taken_with_its_scale(target, best_value):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 10)) * np.geomspace(1, 0.1, 10)
    goal = pp.linear_regression(X, X.sum(axis=1), l2=1e-3, batch_size=128)
    useless = audit(pp.Problem(goal, goal.label_free(rng.standard_normal((500, 10)))), rng=0)
    assert useless.verdict is Verdict.DO_NOT_USE
    planned = plan(useless, factors=[])
    assert isinstance(planned.method, pp.SGD)
    assert planned.stop is None
    assert planned.bill.proxy_gradients == 0
    assert "Do not use it" in planned.notes[0]
    with pytest.raises(ValueError, match="guaranteed"):
        plan(useless, guaranteed=True)
    wrong = ScaledProxy(target.label_free(), 1e-3)
    planned = plan(audit(pp.Problem(target, wrong), epsilon=5e-3, rng=0), factors=[])
    assert isinstance(planned.problem.proxy, ScaledProxy)
    ends = [pp.minimize(planned.problem, **planned.arguments, rng=s).w for s in range(3)]
    assert np.mean([target.value(w) for w in ends]) - best_value(target) < 2 * planned.epsilon


def test_the_guaranteed_plan_is_the_corollarys(target, found):
    sure = plan(found, epsilon=1e-5, guaranteed=True, factors=[])
    assert sure.problem.objective is target
    assert isinstance(sure.averaging, pp.averaging.Geometric)
    assert isinstance(sure.stop, pp.stopping.StronglyConvex)
    assert sure.expected <= sure.epsilon * (1 + 1e-9)
    assert sure.steps > plan(found, epsilon=1e-5, factors=[]).steps
    # No strong convexity is used but the stated.
    assert sure.averaging.mu == target.strong_convexity < found.mu.low
    assert "B" in sure.notes[0]
    assert "strong_convexity" in sure.notes[0]
    flat = pp.logistic_regression(target.design.X, target.targets, batch_size=64)
    measured = audit(pp.Problem(flat, flat.label_free()), epsilon=0.1, rng=0)
    assert measured.mu.low > 0 == flat.strong_convexity
    convex = plan(measured, guaranteed=True, factors=[])
    assert isinstance(convex.averaging, pp.averaging.Uniform)
    assert isinstance(convex.stop, pp.stopping.Convex)
    assert convex.problem.objective is not flat
    assert "convexity alone" in convex.notes[0]


@pytest.mark.parametrize("solved", [False, True])
def test_guaranteed_plans_are_ready_to_run_and_keep_their_word(solved):
    """The convex theorem on a loss with a flat direction, or exact solves of a curved one."""
    last = 0.2 if solved else 0.0
    loss = pp.Quadratic(np.diag([1.0, 0.5, last]), b=np.array([1.0, 1.0, last / 2]), noise=0.1)
    proxy, w0, best = pp.Quadratic(np.diag([1.0, 0.4, last])), np.full(3, 0.5), [-1.0, -2.0, -0.5]
    best = np.array([*best[:2], best[2] if solved else 0.5])
    B = float(np.linalg.norm(w0 - best))
    found, epsilon = audit(pp.Problem(loss, proxy), w0, B=B, rng=0), 0.1 if solved else 0.3
    sure = plan(found, epsilon=epsilon, guaranteed=True, solved=solved, factors=[])
    if solved:
        assert sure.problem.objective is loss
        expected = 2.5 * 0.2 / (1 + sure.method.eta * found.delta.high)
        assert sure.averaging.mu == pytest.approx(expected)
    else:
        assert isinstance(sure.stop, pp.stopping.Convex)
        mu, v = 1 / (sure.method.eta * sure.steps), np.ones(3)
        for ours, theirs in ((sure.problem.objective, loss), (sure.problem.proxy, proxy)):
            np.testing.assert_allclose(ours.gradient(v) - theirs.gradient(v), mu * (v - w0))
    runs = [pp.minimize(sure.problem, **sure.arguments, rng=seed) for seed in range(12)]
    assert all(run.trace["held"].all() for run in runs)
    ends = [loss.value(run.w) - loss.value(best) for run in runs]
    assert np.mean(ends) + 3 * np.std(ends) / np.sqrt(12) <= sure.expected <= epsilon


def test_a_guarantee_beyond_the_budget_is_refused_with_its_steps(found):
    sure = plan(found, guaranteed=True, factors=[])
    exact = plan(found, guaranteed=True, solved=True, factors=[])
    assert exact.steps < sure.steps
    again = plan(found, budget=exact.steps, guaranteed=True, solved=True, factors=[])
    assert (again.steps, again.guaranteed) == (exact.steps, True)
    for given, word in (
        ({"budget": exact.steps, "guaranteed": True}, "epsilon"),
        ({"epsilon": 1e-12, "guaranteed": True}, "epsilon"),
        ({"solved": True}, "solved"),
        ({"audit": "found"}, "audit"),
    ):
        with pytest.raises((TypeError, ValueError), match=word):
            plan(**{"audit": found, **given})


def test_a_path_that_overshoots_is_cut_and_a_bent_loss_said_to_be_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = X @ rng.normal(size=10) + rng.standard_t(1.5, size=2000)

    def robust(X, y):
        def value(w):
            return float(np.mean(np.sqrt(1 + (X @ w - y) ** 2) - 1))

        def gradient(w):
            r = X @ w - y
            return X.T @ (r / np.sqrt(1 + r**2)) / len(y)

        return value, gradient

    target, unrelated = robust(X, y), robust(100 * rng.normal(size=(200, 10)), rng.normal(size=200))
    problem = pp.Problem(target, unrelated)
    found = audit(problem, np.zeros(10), epsilon=1e-3, curvature="secants", rng=0)
    values = [target[0](point.w) for point in found.points]
    assert values == sorted(values, reverse=True)
    planned = plan(found)
    assert any("the quadratic model is rough" in note for note in planned.notes)
    end = pp.minimize(planned.problem, **planned.arguments, rng=1)  # w0 is among the arguments
    assert values[0] - target[0](end.w) > 0.95 * (values[0] - values[-1])


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
    planned = plan(found, factors=[])
    ends = [pp.minimize(planned.problem, **planned.arguments, rng=s).w for s in range(3)]
    assert np.mean([goal.value(w) for w in ends]) - best < 2 * epsilon


def test_rows_that_stand_out_make_a_plan_rough():
    rng = np.random.default_rng(2)
    X, heavy = rng.standard_normal((600, 20)), rng.standard_t(2.2, size=(600, 20))
    for rows, rough in ((X, False), (heavy, True)):
        goal = pp.linear_regression(rows, rows.sum(axis=1) + X[:, 0], l2=1e-3, batch_size=64)
        planned = plan(audit(pp.Problem(goal, goal.label_free()), rng=0), factors=[])
        assert planned.rough is rough
        assert any("rows carry" in note for note in planned.notes) is rough
