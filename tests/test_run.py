"""Run: questions and answers in the user's hands."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp


def problem(noise=0.1, **options):
    target = pp.Quadratic(np.diag([1.0, 4.0, 9.0]), b=np.array([-1.0, 0.5, 2.0]), noise=noise)
    return pp.Problem(target, pp.Quadratic(np.diag([1.2, 4.0, 8.5])), **options)


def answered(run):
    """Answer a question of a run and return the step."""
    query, target = run.ask(), run.problem.objective
    return run.tell([target.gradient(w, query.batch) for w in query.points])


def snapshot(run):
    return repr(run.state), run.w.tobytes()


def same(one: pp.oracle.Query, other: pp.oracle.Query) -> bool:
    return np.array_equal(one.batch, other.batch) and np.array_equal(one.points, other.points)


def test_asking_twice_is_asking_once():
    given = problem()
    run = pp.Run(given, method=pp.ProxyProx(0.5), rng=0)
    first = run.ask()
    assert same(run.ask(), first)
    answered(run)
    assert not same(run.ask(), first)
    other = pp.Run(given, method=pp.ProxyProx(0.5), rng=0)
    assert answered(other).w.tobytes() == run.state.method.w.tobytes()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((), TypeError), (([1.0, 2.0],), ValueError), (([[1.0, 2.0, 3.0]],), TypeError),
        ((np.ones((3, 1)),), ValueError), ((np.ones(3) * 1j,), TypeError), ((3.0,), TypeError),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_refused_and_changes_nothing(answer, kind):
    run = pp.Run(problem(), method=pp.ProxyProx(0.5), rng=0)
    query, before = run.ask(), snapshot(run)
    with pytest.raises(kind, match="gradient"):
        run.tell(*answer)
    assert snapshot(run) == before
    assert same(run.ask(), query)
    assert run.ledger.target_gradients == 0


@pytest.mark.parametrize("correction", [pp.corrections.Plain(), pp.corrections.Storm(0.1)])
def test_told_labels_equal_told_gradients_bit_for_bit(correction):
    rng, method = np.random.default_rng(0), pp.ProxyProx(0.5, correction)
    X, labels = rng.normal(size=(40, 3)), rng.choice(["a", "b", "c"], size=40)
    options = {"l2": 0.1, "batch_size": 8, "classes": ("a", "b", "c")}
    losses = pp.softmax_regression(X, labels, **options), pp.softmax_regression(X, **options)
    direct, blind = (
        pp.Run(pp.Problem(one, one.label_free()), method=method, inner=pp.inner.Newton(), rng=1)
        for one in losses
    )
    for _ in range(6):
        answered(direct)
        blind.tell(observations=labels[blind.ask().batch])
    assert blind.w.tobytes() == direct.w.tobytes()
    assert blind.ledger.target_samples == direct.ledger.target_samples == 48


def test_a_result_stays_what_it_was():
    given = problem()
    run = pp.Run(given, method=pp.ProxyProx(0.5), averaging=pp.averaging.Uniform(), rng=0)
    step = answered(run)
    early = run.result()
    w = early.w.copy()
    answered(run)
    assert early.steps == len(early.trace) == early.ledger.target_gradients == 1
    assert step.ledger.target_gradients == 1
    assert (early.w == w).all()
    assert early.status is pp.Status.RUNNING
    assert not early.success


@pytest.mark.parametrize("inner", [pp.inner.QuasiNewton(), pp.inner.NewtonCG()])
@pytest.mark.parametrize("fault", [np.nan, KeyboardInterrupt, RuntimeError])
def test_a_failed_step_leaves_no_trace_in_the_run(inner, fault):
    plain, armed = problem(), []

    class Failing(pp.Quadratic):
        solve_shifted = None

        def gradient(self, w, batch=None):
            if armed and armed.pop() == 0:
                armed.append(0)
                if isinstance(fault, float):
                    return np.full(3, fault)
                raise fault
            return super().gradient(w, batch)

    given = pp.Problem(plain.objective, Failing(plain.proxy.P))
    stop = pp.stopping.RandomSteps(0.3) | pp.stopping.Residual(1e-9)
    parts = {"method": pp.ProxyProx(0.5), "inner": inner, "stop": stop, "rng": 0}
    run, calm = pp.Run(given, np.ones(3), **parts), pp.Run(plain, np.ones(3), **parts)
    run.ask()
    before = snapshot(run)
    armed.extend([0, 1])  # the second call fails: by then the solver has filled its memory
    kind = pp.inner.NonFiniteError if isinstance(fault, float) else fault
    with pytest.raises(kind):
        answered(run)
    assert snapshot(run) == before
    armed.clear()
    for _ in range(3):
        answered(run)
        answered(calm)
    assert run.w.tobytes() == calm.w.tobytes()


def test_the_default_method_is_that_of_minimize():
    target = pp.Quadratic(np.eye(2), b=-np.ones(2))
    run = pp.Run(pp.Problem(target, target))
    assert run.method == pp.DANE()
    assert pp.Run(pp.Problem(pp.Quadratic(np.eye(2), noise=1.0))).method == pp.ProxyProx("auto")
    for _ in range(4):
        run.tell(target.gradient(run.ask().points[0]))
    assert run.result().w.tobytes() == pp.minimize(run.problem, steps=4).w.tobytes()
    with pytest.raises(ValueError, match=r"pass w0=np\.zeros\(d\)"):
        pp.Run(pp.Problem((None, lambda w: w)))


def test_a_measured_step_size_compares_at_a_point_that_is_asked_about_anyway():
    given = problem()
    run = pp.Run(given, method=pp.ProxyProx("auto", pp.corrections.Storm(0.1)), rng=0)
    for _ in range(12):
        assert len(run.ask().points) <= 2
        answered(run)


def test_a_run_begins_at_the_callers_point_and_else_where_the_method_does():
    given = problem(noise=0.0)
    for w0, first in ((np.ones(3), np.ones(3)), (None, given.proxy.minimiser())):
        run = pp.Run(given, w0, method=pp.ProxyBFGS())
        assert run.given == (w0 is not None)
        np.testing.assert_allclose(run.ask().points[0], first, atol=1e-6)
    assert not pp.Run(given, "proxy", method=pp.ProxyBFGS()).given


def test_a_target_without_values_is_said_to_have_left_the_start_blindly():
    given = problem(noise=0.0)
    silent = pp.Problem(pp.FunctionObjective(given.objective.gradient), given.proxy)
    for one, blind in ((given, False), (silent, True)):
        result = pp.minimize(one, np.ones(3), method=pp.ProxyProx(0.5), steps=3)
        assert ("left w0" in result.message) == blind


def test_the_proxys_gradient_that_names_the_problem_is_that_of_the_first_step(tmp_path):
    given, calls = problem(noise=0.0), []

    def gradient(w):
        calls.append(1)
        return given.proxy.gradient(w)

    proxy = pp.FunctionProxy(given.proxy.value, gradient)
    call = {"method": pp.DANE(1.0), "inner": pp.LBFGS(), "checkpoint": tmp_path / "run"}
    result = pp.minimize(pp.Problem(given.objective, proxy), np.ones(3), steps=3, **call)
    assert result.ledger.proxy_gradients == len(calls)
