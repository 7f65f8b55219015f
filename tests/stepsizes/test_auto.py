"""``eta="auto"``: its parts against their formulas, and runs against tuned step sizes."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.stepsizes import auto, gain, geometry, noise, similarity
from proxyprox.stepsizes.base import Signals


def signals(k=1, **changed):
    zero = np.zeros(2)
    given = {"k": k, "w": zero, "gradient": zero, "difference": zero, "noise": None}
    return Signals(**{**given, **changed})


def fresh(**changed):
    return {**auto.begin(np.zeros(2), None), **changed}


@pytest.fixture(scope="module")
def target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8)) * np.linspace(1, 0.1, 8)
    y = X @ rng.normal(size=8) * 3 + rng.logistic(size=600) > 0
    return pp.logistic_regression(X, y, l2=1e-4, batch_size=32)


# -- the parts ------------------------------------------------------------------------------


def test_delta_is_the_mean_curvature_or_its_fading_peak():
    memory = fresh()
    for curvature in (1.0, 3.0, 0.5, 0.5):
        memory = similarity.with_curvature(memory, curvature)
    mean = (0.8**3 * 1 + 0.8**2 * 3 + 0.8 * 0.5 + 0.5) / (0.8**3 + 0.8**2 + 0.8 + 1)
    assert memory["delta"] == pytest.approx(max(mean, 0.9**2 * 3))
    assert memory["delta"] >= mean


def test_a_proxy_that_is_too_curved_limits_nothing_but_its_change_is_seen():
    memory = similarity.with_curvature(fresh(), -4.0)
    assert memory["delta"] == 0
    assert memory["rate"] == 4.0


def test_the_gain_is_one_over_k_where_nothing_drifts():
    memory, errors = fresh(noise=1.0), []
    for k in range(30):
        memory = gain.with_gain(memory, k)
        errors.append(memory["error"])
    assert memory["gain"] == pytest.approx(3 / 32)
    assert errors[-1] < 0.1
    assert all(b < a for a, b in itertools.pairwise(errors))


def test_the_gain_is_one_while_the_iterate_runs_and_for_exact_gradients():
    running = gain.with_gain(fresh(noise=1e-6, rate=1.0, moved=1.0), 50)
    assert running["gain"] > 0.99
    assert gain.with_gain(fresh(noise=0.0), 50)["gain"] == 1.0


def test_the_gain_minimises_the_mean_squared_error():
    memory = fresh(noise=0.7, error=0.2, rate=0.5, moved=0.4)
    before, a = (math.sqrt(0.2) + 0.2) ** 2, gain.with_gain(memory, 10**6)["gain"]
    errors = [(1 - b) ** 2 * before + b**2 * 0.7 for b in (a - 0.01, a, a + 0.01)]
    assert min(errors) == errors[1]


def test_half_batches_and_two_batches_at_one_point_estimate_the_noise_without_bias():
    rng = np.random.default_rng(1)
    loss = pp.Quadratic(np.eye(4), noise=2.0)
    found = []
    for _ in range(4000):
        first, second = (loss.gradient(np.ones(4), loss.sample(rng)) for _ in range(2))
        memory = fresh(last=first)
        memory = noise.with_noise(memory, signals(before=second), None)
        found.append(memory["noise"])
    assert np.mean(found) == pytest.approx(4.0, rel=0.05)


def test_the_halves_of_a_batch_make_up_its_gradient_and_show_its_noise(target):
    rng = np.random.default_rng(2)
    w, exact, seen, true = np.ones(8), target.gradient(np.ones(8)), [], []
    for _ in range(3000):
        batch = target.sample(rng)
        one, other = (target.gradient(w, half) for half in target.halves(batch))
        assert np.allclose((one + other) / 2, target.gradient(w, batch))
        seen.append(((one - other) ** 2).sum() / 4)
        true.append((((one + other) / 2 - exact) ** 2).sum())
    assert np.mean(seen) == pytest.approx(np.mean(true), rel=0.1)
    assert target.halves(None) is None
    assert target.halves(np.arange(3)) is None


def test_label_free_and_only_label_free_is_known_to_have_no_delta(target):
    assert pp.Problem(target, target.label_free()).same_curvature
    assert not pp.Problem(target, target.subsample(100, rng=0)).same_curvature
    assert not pp.Problem(target, target.label_free(target.design.X.copy())).same_curvature
    assert not pp.Problem(pp.Quadratic(np.eye(2))).same_curvature


def test_sgd_does_not_take_the_proxys_word_for_delta(target):
    # Without the proxy h is L: that the proxy has the same curvature is of no use to SGD.
    call = {"method": pp.SGD("auto"), "steps": 100, "rng": 0}
    beside = pp.minimize(pp.Problem(target, target.label_free()), **call)
    alone = pp.minimize(pp.Problem(target), **call)
    assert beside.w.tobytes() == alone.w.tobytes()


def test_steps_are_powers_of_two(target):
    problem = pp.Problem(target, target.subsample(60, rng=0))
    result = pp.minimize(problem, method=pp.ProxyProx(eta="auto"), steps=60, rng=0)
    assert np.all(np.log2(result.trace["eta"]) % 1 == 0)
    assert len(set(result.trace["eta"][30:])) < 10


# -- what the docstring proves ------------------------------------------------------------------


def test_a_step_whose_secant_is_below_one_over_eta_never_raises_a_convex_loss(target):
    exact, proxy = target.with_batch_size(None), target.subsample(60, rng=0)
    points = [np.zeros(8)]
    result = pp.minimize(
        pp.Problem(exact, proxy), method=pp.ProxyProx("auto"), steps=60, stop=pp.Residual(1e-11),
        callback=lambda step: points.append(step.w),
    )  # fmt: skip

    def slope_of_h(w):
        return exact.gradient(w) - proxy.gradient(w)

    seen = 0
    for (w, after), step in zip(itertools.pairwise(points), result.trace, strict=True):
        s, eta = after - w, step.eta
        if not np.isclose(np.linalg.norm(s), step.displacement, rtol=1e-9):
            continue  # It replaced a step that was taken back, and began elsewhere.
        q = (slope_of_h(after) - slope_of_h(w)) @ s / (s @ s)
        if q <= 1 / eta:
            seen += 1
            fall = exact.value(after) - exact.value(w)
            assert fall <= -(1 / eta - q) * (s @ s) + 1e-12
    assert seen > 30


def test_the_damping_of_a_quadratic_proxy_is_its_formula():
    P, u, eta = np.diag([0.0, 1.0, 100.0]), np.array([1.0, 2.0, 3.0]), 0.7
    shift = pp.Quadratic(P).solve_shifted(-u, eta)
    found = geometry.with_damping(fresh(), shift, u, eta)
    expected = u @ np.linalg.solve(np.eye(3) + eta * P, u) / (u @ u)
    assert found["damping"] == pytest.approx(expected)
    assert found["shaken"] == 1
    alone = geometry.with_damping(fresh(), -eta * u, u, eta)
    assert alone["damping"] == 1.0


def test_noise_adds_up_over_all_the_time_unless_h_drifts():
    assert geometry.horizon(fresh(eta=1.0, time=50.0)) == 50.0
    assert geometry.horizon(fresh(eta=1.0, time=50.0, rate=0.1)) == 10.0
    assert geometry.horizon(fresh(eta=20.0, time=50.0, rate=0.1)) == 20.0


def test_steps_are_shaken_ever_more_seldom_and_never_without_a_proxy(target):
    assert [k for k in range(14) if geometry.due(k)] == [1, 2, 3, 4, 5, 6, 7, 9, 11, 13]
    assert sum(geometry.due(k) for k in range(1000)) < 40
    for method, shaken in ((pp.ProxyProx("auto"), True), (pp.SGD("auto"), False)):
        run = pp.Run(pp.Problem(target, target.label_free()), method=method, rng=0)
        for _ in range(5):
            query = run.ask()
            halves = tuple(target.gradient(query.points[0], half) for half in query.halves)
            rest = [target.gradient(point, query.batch) for point in query.points[1:]]
            run.tell([sum(halves) / 2, *rest], halves=halves)
        assert (run._state.rule["shaken"] > 0) is shaken
        assert (run._state.rule["damping"] < 1) is shaken


# -- what is asked and charged ----------------------------------------------------------------


def test_secants_cost_gradients_but_no_samples(target):
    problem = pp.Problem(target, target.subsample(60, rng=0))
    result = pp.minimize(problem, method=pp.ProxyProx(eta="auto"), steps=200, rng=0)
    secants = auto.EVERY_STEP + (200 - auto.EVERY_STEP - 1) // auto.THEN_EVERY
    assert result.ledger.target_gradients == 200 + secants
    assert result.ledger.target_samples == 200 * 32


@pytest.mark.parametrize("steps", [1, 5, 30])
def test_no_secants_where_delta_is_known_to_vanish(target, steps):
    problem = pp.Problem(target, target.label_free())
    result = pp.minimize(problem, method=pp.ProxyProx(eta="auto"), steps=steps, rng=0)
    assert result.ledger.target_gradients == steps


def test_batches_that_may_not_be_repeated_are_not(target):
    asked = []

    def gradient(w, batch):
        asked.append(batch.tobytes())
        return target.gradient(w, batch)

    objective = pp.FunctionObjective(
        gradient, value=target.value, sample=target.sample, repeatable=False
    )
    problem = pp.Problem(objective, target.subsample(60, rng=0))
    result = pp.minimize(problem, np.zeros(8), method=pp.ProxyProx(eta="auto"), steps=300, rng=0)
    assert len(asked) == len(set(asked)) == 300
    assert target.value(result.w) < 0.7 * target.value(np.zeros(8))


def test_ask_and_tell_without_halves_works(target):
    problem = pp.Problem(target, target.subsample(60, rng=0))
    run = pp.Run(problem, method=pp.ProxyProx(eta="auto"), rng=0)
    for _ in range(200):
        query = run.ask()
        assert len(query.halves) == 2
        run.tell([target.gradient(point, query.batch) for point in query.points])
    assert target.value(run.w) < 0.7 * target.value(np.zeros(8))


def test_eta_must_be_a_number_a_function_or_auto():
    for method in (pp.ProxyProx, pp.SGD, pp.DANE):
        with pytest.raises(TypeError, match=r"eta must be .*'auto', got 'automatic'"):
            method(eta="automatic")
    with pytest.raises(ValueError, match="eta must be 'auto' without delta"):
        pp.AcceleratedSliding(delta=1.0, mu=1.0, eta="auto")
    with pytest.raises(ValueError, match="mu must be a positive number"):
        pp.AcceleratedSliding(eta="auto")


# -- saving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("proxy", ["label_free", "subsample"])
@pytest.mark.parametrize("stopped", [1, 2, 15, 33])
def test_a_saved_run_goes_on_bit_for_bit(target, tmp_path, proxy, stopped):
    other = target.label_free() if proxy == "label_free" else target.subsample(60, rng=0)
    call = {
        "problem": pp.Problem(target, other), "method": pp.ProxyProx(eta="auto"), "rng": 5,
    }  # fmt: skip
    whole = pp.minimize(**call, steps=50)
    pp.minimize(**call, steps=stopped, checkpoint=tmp_path / "run")
    resumed = pp.minimize(**call, steps=50, checkpoint=tmp_path / "run")
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.last.tobytes() == whole.last.tobytes()
    assert resumed.ledger.target_gradients == whole.ledger.target_gradients


@pytest.mark.parametrize(
    ("name", "value"), [("eta", math.nan), ("eta", "large"), ("peak", True), ("extra", 1.0)]
)
def test_a_damaged_memory_is_refused(target, tmp_path, name, value):
    problem = pp.Problem(target, target.subsample(60, rng=0))
    run = pp.Run(problem, method=pp.ProxyProx(eta="auto"), rng=0)
    run._state.rule[name] = value
    run.save(tmp_path / "run")
    with pytest.raises(pp.CheckpointError, match="damaged"):
        pp.Run.load(tmp_path / "run", problem)


def test_the_rules_memory_is_numbers_and_arrays_only(target):
    problem = pp.Problem(target, target.subsample(60, rng=0))
    run = pp.Run(problem, method=pp.ProxyProx(eta="auto"), rng=0)
    query = run.ask()
    run.tell([target.gradient(point, query.batch) for point in query.points])
    numbers = {k: v for k, v in run._state.rule.items() if not isinstance(v, np.ndarray)}
    assert json.loads(json.dumps(numbers)) == numbers


# -- how good it is ---------------------------------------------------------------------------


def tuned(problem, budget, seeds):
    """Return the least median loss over seven constant step sizes and two averages."""
    H = problem.objective.smoothness
    call = {"budget": budget, "averaging": pp.Uniform()}
    losses = []
    for eta in (0.5 * 4.0**j / H for j in range(7)):
        runs = [pp.minimize(problem, method=pp.ProxyProx(eta), rng=s, **call) for s in seeds]
        losses.append(np.median([problem.value(r.last) for r in runs]))
        losses.append(np.median([problem.value(r.w) for r in runs]))
    return min(losses)


@pytest.mark.parametrize("proxy", ["label_free", "subsample"])
def test_first_try_is_within_twice_the_tuned_suboptimality(target, proxy):
    other = target.label_free() if proxy == "label_free" else target.subsample(60, rng=0)
    problem, seeds = pp.Problem(target, other), range(3)
    exact = pp.minimize(pp.Problem(target, target.label_free()), method=pp.DANE(), steps=20)
    optimum = target.value(exact.w)
    runs = [pp.minimize(problem, method=pp.ProxyProx("auto"), budget=150, rng=s) for s in seeds]
    first_try = np.median([target.value(r.w) for r in runs]) - optimum
    assert first_try <= 2 * (tuned(problem, 150, seeds) - optimum)


def test_an_overshooting_step_is_taken_back():
    # The proxy is flat where the target is steep, which the first steps do not show.
    target = pp.Quadratic(np.diag([1.0, 50.0]), b=np.array([-1.0, -1e-3]))
    problem = pp.Problem(target, pp.Quadratic(np.diag([1.0, 0.0])))
    points = [np.zeros(2)]
    method = pp.ProxyProx("auto")
    result = pp.minimize(problem, method=method, steps=300, callback=lambda s: points.append(s.w))
    assert np.linalg.norm(result.w - target.minimiser()) < 1e-4
    # A step that replaces another does not begin where that one ended.
    ends = np.linalg.norm(np.diff(points, axis=0), axis=1)
    assert not np.allclose(ends, result.trace["displacement"], rtol=1e-9, atol=0)


def test_a_proxy_that_is_not_convex_is_survived():
    rng = np.random.default_rng(4)
    A = rng.normal(size=(6, 6))
    P = A @ A.T / 6
    target = pp.Quadratic(P + np.eye(6), b=rng.normal(size=6))
    result = pp.minimize(
        pp.Problem(target, pp.Quadratic(-P)), method=pp.ProxyProx("auto"), steps=300
    )
    assert result.success
    assert np.allclose(result.w, target.minimiser(), rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 10.0])
def test_a_wrongly_scaled_proxy_still_converges(target, scale):
    class Scaled:
        dim = target.dim
        smoothness = scale * target.smoothness

        def value(self, w):
            return scale * target.value(w)

        def gradient(self, w):
            return scale * target.gradient(w)

        def hessian(self, w):
            return scale * target.hessian(w)

    problem = pp.Problem(target, Scaled())
    result = pp.minimize(problem, method=pp.ProxyProx("auto"), steps=400, rng=0)
    best = pp.minimize(pp.Problem(target, target.label_free()), method=pp.DANE(), steps=20)
    start = target.value(np.zeros(8)) - target.value(best.w)
    assert target.value(result.w) - target.value(best.w) < 0.02 * start
