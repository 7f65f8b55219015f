from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris

import proxyprox as pp
from proxyprox.advice.audit import audit
from proxyprox.advice.plan import plan
from proxyprox.advice.report import Audit, Verdict
from proxyprox.problems import ScaledProxy


@pytest.fixture(scope="module")
def target() -> pp.GLM:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 10)) * np.geomspace(1, 0.1, 10)
    y = X @ (3 * rng.standard_normal(10)) + rng.logistic(size=500) > 0
    return pp.logistic_regression(X, y, l2=1e-3, batch_size=128)


@pytest.fixture(scope="module")
def found(target: pp.GLM) -> Audit:
    return audit(pp.Problem(target, target.label_free()), epsilon=5e-3, rng=0)


def best_value(target: pp.GLM) -> float:
    from proxyprox.inner.exact import minimise_exactly

    return target.value(minimise_exactly(target, target.zeros(), tol=1e-10))


def test_the_planned_run_reaches_its_accuracy(target: pp.GLM, found: Audit) -> None:
    planned = plan(found, factors=[])
    ends = [
        target.value(pp.minimize(planned.problem, **planned.arguments, rng=s).w) for s in range(5)
    ]
    assert planned.reaches
    # The plan is made on a quadratic model: a loss that bends away from it costs a factor.
    assert np.mean(ends) - best_value(target) < 2 * planned.epsilon


def unseen(name: str) -> tuple[pp.GLM, pp.GLM]:
    rng = np.random.default_rng(5)
    if name == "counts":
        X = 0.4 * rng.standard_normal((500, 12))
        counts = pp.poisson_regression(
            X, rng.poisson(np.exp(X.sum(axis=1) / 2)), l2=1e-3, batch_size=32
        )
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
def test_plans_hold_on_losses_and_data_not_used_to_make_them(name: str) -> None:
    loss, proxy = unseen(name)
    best = best_value(loss)
    epsilon = 0.02 * (loss.value(loss.zeros()) - best)
    found = audit(pp.Problem(loss, proxy), epsilon=epsilon, rng=0)
    planned = plan(found, budget=500, factors=[])
    assert planned.reaches
    runs = [pp.minimize(planned.problem, **planned.arguments, rng=s) for s in range(6)]
    assert all(run.ledger.target_gradients == planned.bill.target_gradients for run in runs)
    assert np.mean([loss.value(run.w) for run in runs]) - best < 2 * epsilon
    # With a third of the budget the plan says itself how far it gets.
    short = plan(found, budget=planned.steps // 3, factors=[])
    ends = [pp.minimize(short.problem, **short.arguments, rng=s).w for s in range(6)]
    assert not short.reaches
    assert 0.3 < (np.mean([loss.value(w) for w in ends]) - best) / short.expected < 3


def test_an_accuracy_out_of_reach_is_said(found: Audit) -> None:
    planned = plan(found, epsilon=1e-13, factors=[])
    assert not planned.reaches
    assert "No constant step size" in planned.notes[-1]


def test_a_plan_reads_well(found: Audit) -> None:
    words = str(plan(found, budget=3, epsilon=1e-6))
    assert words.startswith("ProxyProx(eta=")
    assert "3 target gradients on 384 samples" in words
    assert "128 → " in words
    assert "The budget ends" in words


def test_batches_of_less_than_a_sample_are_left_out() -> None:
    loss = pp.Quadratic(np.diag([1.0, 9.0]), b=np.ones(2), noise=0.1)
    found = audit(pp.Problem(loss, pp.Quadratic(np.diag([1.0, 8.0]))), rng=0)
    assert [line.batch_samples for line in plan(found).what_if] == [1, 2, 4, 8]


def test_the_bill_is_the_one_that_comes(target: pp.GLM, found: Audit) -> None:
    planned = plan(found, factors=[])
    ledger = pp.minimize(planned.problem, **planned.arguments, rng=0).ledger
    assert planned.bill.target_gradients == ledger.target_gradients == planned.steps
    assert planned.bill.target_samples == ledger.target_samples
    work = ledger.proxy_gradients + ledger.proxy_hessians + ledger.proxy_hvps
    assert 0.2 < work / planned.bill.proxy_gradients < 5


def test_a_budget_too_small_is_said_and_used_well(target: pp.GLM, found: Audit) -> None:
    planned = plan(found, epsilon=1e-6, budget=5, factors=[])
    assert planned.steps == 5
    assert not planned.reaches
    assert planned.expected > 1e-6
    assert "budget" in planned.notes[0]
    samples = plan(found, epsilon=1e-6, budget=pp.Budget(target_samples=5 * 128), factors=[])
    assert samples.steps == 5


def test_larger_batches_need_fewer_gradients(found: Audit) -> None:
    lines = plan(found).what_if
    steps = [line.steps for line in lines]
    assert steps == sorted(steps, reverse=True)
    # There are 500 rows.
    assert [line.batch_samples for line in lines] == [16, 32, 64, 128, 256]
    assert lines[0].sigma2 == pytest.approx(8 * found.sigma2.estimate)


def test_exact_gradients_say_nothing_of_smaller_batches(target: pp.GLM) -> None:
    loss = pp.logistic_regression(target.design.X, target.targets, l2=1e-2)
    problem = pp.Problem(loss, loss.subsample(400, rng=0))
    found = audit(problem, epsilon=1e-2, curvature="secants", rng=0)
    assert plan(found).what_if == plan(found, guaranteed=True).what_if == ()


def test_without_a_useful_proxy_the_plan_is_sgd() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 10)) * np.geomspace(1, 0.1, 10)
    goal = pp.linear_regression(X, X.sum(axis=1), l2=1e-3, batch_size=128)
    strange = rng.standard_normal((500, 10))
    useless = audit(pp.Problem(goal, goal.label_free(strange)), rng=0)
    assert useless.verdict is Verdict.DO_NOT_USE
    planned = plan(useless, factors=[])
    assert isinstance(planned.method, pp.SGD)
    assert planned.stop is None
    assert planned.bill.proxy_gradients == 0
    assert "Do not use it" in planned.notes[0]
    with pytest.raises(ValueError, match="guaranteed"):
        plan(useless, guaranteed=True)


def test_a_scaled_proxy_is_planned_with_its_scale(target: pp.GLM) -> None:
    wrong = ScaledProxy(target.label_free(), 1e-3)
    planned = plan(audit(pp.Problem(target, wrong), epsilon=5e-3, rng=0), factors=[])
    assert isinstance(planned.problem.proxy, ScaledProxy)
    end = pp.minimize(planned.problem, **planned.arguments, rng=3)
    assert target.value(end.w) - best_value(target) < 2 * planned.epsilon


def test_the_guaranteed_plan_is_the_corollarys(found: Audit) -> None:
    sure = plan(found, epsilon=1e-5, guaranteed=True, factors=[])
    assert sure.problem.objective is found.problem.objective
    assert isinstance(sure.averaging, pp.averaging.Geometric)
    assert isinstance(sure.stop, pp.stopping.StronglyConvex)
    assert sure.expected <= sure.epsilon * (1 + 1e-9)
    assert sure.steps > plan(found, epsilon=1e-5, factors=[]).steps
    assert any("B" in note for note in sure.notes)


def test_a_convex_loss_gets_the_convex_theorem_ready_to_run() -> None:
    flat = pp.Quadratic(np.diag([1.0, 0.5, 0.0]), b=np.array([1.0, 1.0, 0.0]), noise=0.1)
    problem, w0 = pp.Problem(flat, pp.Quadratic(np.diag([1.0, 0.4, 0.0]))), np.full(3, 0.5)
    best = np.array([-1.0, -2.0, 0.5])
    found = audit(problem, w0, B=float(np.linalg.norm(w0 - best)), rng=0)
    sure = plan(found, epsilon=0.3, guaranteed=True, factors=[])
    assert isinstance(sure.averaging, pp.averaging.Uniform)
    assert isinstance(sure.stop, pp.stopping.Convex)
    mu, v = 1 / (sure.method.eta * sure.steps), np.ones(3)
    for ours, theirs in ((sure.problem.objective, flat), (sure.problem.proxy, problem.proxy)):
        np.testing.assert_allclose(ours.gradient(v) - theirs.gradient(v), mu * (v - w0))
    runs = [pp.minimize(sure.problem, **sure.arguments, rng=seed) for seed in range(12)]
    assert all(run.trace["held"].all() for run in runs)
    ends = [flat.value(run.w) - flat.value(best) for run in runs]
    assert np.mean(ends) + 3 * np.std(ends) / np.sqrt(12) <= sure.expected <= 0.3


def test_a_guarantee_uses_no_strong_convexity_but_the_stated(target: pp.GLM, found: Audit) -> None:
    sure = plan(found, epsilon=1e-5, guaranteed=True, factors=[])
    assert sure.averaging.mu == target.strong_convexity < found.mu.low
    assert "strong_convexity" in sure.notes[0]
    flat = pp.logistic_regression(target.design.X, target.targets, batch_size=128)
    assert flat.strong_convexity == 0
    measured = audit(pp.Problem(flat, flat.label_free()), epsilon=0.1, rng=0)
    assert measured.mu.low > 0
    convex = plan(measured, guaranteed=True, factors=[])
    assert isinstance(convex.averaging, pp.averaging.Uniform)
    assert isinstance(convex.stop, pp.stopping.Convex)
    assert convex.problem.objective is not flat
    assert "convexity alone" in convex.notes[0]


def test_a_guarantee_beyond_the_budget_is_refused_with_its_steps(found: Audit) -> None:
    sure = plan(found, guaranteed=True, factors=[])
    exact = plan(found, guaranteed=True, solved=True, factors=[])
    assert exact.steps < sure.steps
    again = plan(found, budget=exact.steps, guaranteed=True, solved=True, factors=[])
    assert (again.steps, again.guaranteed) == (exact.steps, True)
    with pytest.raises(ValueError, match=r"needs .* steps; solved=True"):
        plan(found, budget=exact.steps, guaranteed=True)


def test_the_plan_with_exact_solves_is_ready_to_run() -> None:
    loss = pp.Quadratic(np.diag([1.0, 0.5, 0.2]), b=np.array([1.0, 1.0, 0.1]), noise=0.1)
    w0, best = np.full(3, 0.5), loss.minimiser()
    problem = pp.Problem(loss, pp.Quadratic(np.diag([1.0, 0.4, 0.2])))
    found = audit(problem, w0, B=float(np.linalg.norm(w0 - best)), rng=0)
    sure = plan(found, epsilon=0.1, guaranteed=True, solved=True, factors=[])
    eta, delta = sure.method.eta, found.delta.high
    assert sure.problem.objective is loss
    assert sure.averaging.mu == pytest.approx(2.5 * 0.2 / (1 + eta * delta))
    runs = [pp.minimize(sure.problem, **sure.arguments, rng=seed) for seed in range(12)]
    assert all(run.trace["held"].all() for run in runs)
    ends = [loss.value(run.w) - loss.value(best) for run in runs]
    assert np.mean(ends) + 3 * np.std(ends) / np.sqrt(12) <= sure.expected <= 0.1


def test_a_guarantee_out_of_reach_is_refused(found: Audit) -> None:
    with pytest.raises(ValueError, match="epsilon must be"):
        plan(found, 1e-12, guaranteed=True, factors=[])
    with pytest.raises(ValueError, match="solved must be"):
        plan(found, solved=True)


def test_only_an_audit_can_be_planned_with() -> None:
    with pytest.raises(TypeError, match="audit must be"):
        plan("found")  # type: ignore[arg-type]


def test_a_path_that_overshoots_is_cut_and_a_bent_loss_said_to_be_one() -> None:
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
    start = np.zeros(10)
    problem = pp.Problem(target, unrelated)
    found = audit(problem, start, epsilon=1e-3, curvature="secants", rng=0)
    values = [target[0](point.w) for point in found.points]
    assert values == sorted(values, reverse=True)
    planned = plan(found)
    assert any("the quadratic model is rough" in note for note in planned.notes)
    end = pp.minimize(planned.problem, **planned.arguments, rng=1)  # w0 is among the arguments
    assert values[0] - target[0](end.w) > 0.95 * (values[0] - values[-1])


def test_the_noise_outside_a_krylov_space_counts() -> None:
    """Nearly all of the noise of sparse rows is there: without it plans ended 10 to 60 ε away."""
    rng = np.random.default_rng(0)
    rows, d = 500, 1500
    shares = 1 / np.arange(1, d + 1)
    words = rng.choice(d, size=rows * 30, p=shares / shares.sum())
    X = scipy.sparse.csr_matrix(
        (np.ones(words.size), (np.repeat(np.arange(rows), 30), words)), shape=(rows, d)
    )
    X = scipy.sparse.csr_matrix(X / 30**0.5)
    y = X @ rng.standard_normal(d) + rng.logistic(size=rows) > 0
    goal = pp.logistic_regression(X, y, l2=1e-2, batch_size=32)
    epsilon = 0.05 * (goal.value(goal.zeros()) - best_value(goal))
    found = audit(pp.Problem(goal, goal.label_free()), epsilon=epsilon, budget=150, rng=0)
    assert found.model.subspace
    assert len(found.model.A) < d / 10
    # The model's noise is all of the noise at the end of the path.
    rows = found.model.residuals
    sigma2 = found.points[-1].sigma2.estimate
    assert np.sum(rows**2) / (len(rows) - 1) == pytest.approx(sigma2, rel=0.01)
    planned = plan(found, factors=[])
    ends = [pp.minimize(planned.problem, **planned.arguments, rng=s).w for s in range(3)]
    assert np.mean([goal.value(w) for w in ends]) - best_value(goal) < 2 * epsilon


def test_rows_that_stand_out_make_a_plan_rough() -> None:
    rng = np.random.default_rng(2)
    X, heavy = rng.standard_normal((600, 20)), rng.standard_t(2.2, size=(600, 20))
    for rows, rough in ((X, False), (heavy, True)):
        goal = pp.linear_regression(rows, rows.sum(axis=1) + X[:, 0], l2=1e-3, batch_size=64)
        planned = plan(audit(pp.Problem(goal, goal.label_free()), rng=0), factors=[])
        assert planned.rough is rough
        assert any("rows carry" in note for note in planned.notes) is rough
