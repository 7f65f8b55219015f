"""Manifold mapping: fits of outputs against SciPy's, what is paid, and what goes wrong."""

import threading
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import scipy.optimize

from proxyprox import (
    Budget,
    LeastSquares,
    OracleError,
    Outputs,
    Problem,
    ProxyBFGS,
    Run,
    Status,
    ValueObjective,
    minimize,
)
from proxyprox.methods import ManifoldMapping, ValueMapping
from proxyprox.problems import counts, huber

T = np.linspace(0.0, 3.0, 31)
TRUTH, START = np.array([3.0, 1.1, 0.2]), np.array([2.0, 0.7, 0.5])


def fine(w):
    return w[0] * np.exp(-w[1] * T) + w[2]


def coarse(w):
    return w[0] * (1 - 0.1 * w[1]) ** np.arange(31) + w[2]


DATA = fine(TRUTH) + 0.05 * np.random.default_rng(0).normal(size=31)
OUTLIERS = DATA + 2.0 * (np.arange(31) % 7 == 3)


def squares(z):
    return (z - DATA) / 0.05


def likelihood(z):
    return float(np.sum(np.log(np.cosh((z - DATA) / 0.05))))


class Counting:
    def __init__(self, model=fine):
        self.model, self.points = model, []

    def __call__(self, w):
        self.points.append(w.copy())
        return self.model(w)


def problem(model=fine, loss=squares, rough=coarse, **settings):
    limits = {name: settings.pop(name) for name in ("bounds", "scales") if name in settings}
    return Problem(Outputs(model, loss, **settings), Outputs(rough, loss), **limits)


LOSSES = {
    "squares": squares,
    "huber": huber(OUTLIERS, 0.05),
    "counts": counts(np.random.default_rng(2).poisson(30 * fine(TRUTH)) / 30),
    "a number": likelihood,
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_fit_ends_at_the_minimum_that_is_found_by_brute_force(name):
    loss = LOSSES[name]
    exact = Outputs(fine, loss)
    slow = scipy.optimize.minimize(exact.value, TRUTH, method="Nelder-Mead", options={
        "xatol": 1e-10, "fatol": 1e-14, "maxiter": 4000})  # fmt: skip
    found = minimize(problem(loss=loss), START)
    assert "ManifoldMapping" in found.method
    assert found.fun <= slow.fun * (1 + 1e-6)
    assert found.success
    assert (found.details is None) == (name == "a number")


def test_the_mapping_needs_few_calls_and_differences_only_at_the_end():
    counted = Counting()
    found = minimize(problem(counted), START)
    losses = [float(squares(fine(w)) @ squares(fine(w))) / 2 for w in counted.points]
    assert next(n for n, loss in enumerate(losses, 1) if loss <= 1.01 * found.fun) <= 5
    assert found.ledger.target_calls == len(counted.points) <= 25
    assert found.values[0] == pytest.approx(losses[0])
    direct = scipy.optimize.least_squares(lambda w: squares(fine(w)), START, xtol=1e-14)
    np.testing.assert_allclose(found.w, direct.x, atol=1e-5)
    errors = np.sqrt(2 * direct.cost / 28 * np.diag(np.linalg.inv(direct.jac.T @ direct.jac)))
    np.testing.assert_allclose(found.details.errors, errors, rtol=1e-3)
    assert "standard errors" in str(found)


def test_least_squares_is_the_short_form():
    short = Problem(*(LeastSquares(lambda w, f=f: squares(f(w))) for f in (fine, coarse)))
    np.testing.assert_allclose(minimize(short, START).w, minimize(problem(), START).w)


@pytest.mark.parametrize("bounds", [([2.5, 0, 0.3], [3.5, 2, 1]), ([0, 0, 0], [2.5, 2, 1])])
def test_bounds_are_never_left_and_a_minimum_at_one_is_converged(bounds):
    counted = Counting()
    found = minimize(problem(counted, bounds=bounds), START)
    slow = scipy.optimize.least_squares(
        lambda w: squares(fine(w)), np.clip(START, *bounds), bounds=bounds, xtol=1e-12
    )
    assert found.fun <= slow.cost * (1 + 1e-6)
    assert all((w >= bounds[0]).all() and (w <= bounds[1]).all() for w in counted.points)
    assert found.status is Status.CONVERGED


def straight(w):
    return w[0] + w[2] * T


def noisy(units=1.0):
    rng = np.random.default_rng(3)
    return lambda w: fine(w / units) * (1 + 0.01 * rng.normal(size=31))


VALLEY = Problem(
    LeastSquares(lambda w: np.array([30 * (w[1] - w[0] ** 2), 1 - w[0]])),
    LeastSquares(lambda w: np.array([30 * (w[1] + 0.5 * w[0]), 1 - 0.3 * w[0]])),
)
LEAST, UNITS = 9.8030494, np.array([1e3, 1e-4, 1.0])
# The problem, where it begins, the calls that are paid for, and the least loss.
CASES = {
    "squares": (problem(), START, 11, LEAST),
    "huber": (problem(loss=LOSSES["huber"]), START, 10, 220.66275),
    "counts": (problem(loss=LOSSES["counts"]), START, 15, 0.4349485),
    "a number": (problem(loss=likelihood), START, 11, 7.8892576),
    "another law": (problem(rough=straight), START, 25, LEAST),
    "a number, another law": (problem(loss=likelihood, rough=straight), START, 20, 7.8892576),
    "a fifth off": (problem(rough=lambda w: coarse(w * [1, 0.8, 1])), START, 11, LEAST),
    "upside down": (problem(rough=lambda w: -coarse(w)), START, 23, LEAST),
    "constant": (problem(rough=lambda w: 0 * coarse(w)), START, 21, LEAST),
    "broken": (problem(rough=lambda w: np.nan * coarse(w)), START, 21, LEAST),
    "valley": (VALLEY, np.array([-2.0, 2.0]), 30, 0.0),
    "bounds": (problem(bounds=([2.5, 0, 0.3], [3.5, 2, 1])), START, 10, 17.511262),
    "upper bounds": (problem(bounds=([0, 0, 0], [2.5, 2, 1])), START, 10, 133.18398),
    "lower bounds": (problem(bounds=([3.3, 0, 0], [5, 2, 1])), START, 11, 45.253722),
    "zero": (problem(), START * [1, 1, 0], 11, LEAST),
    "noise": (problem(noisy()), START, 16, 9.95),
    "exact": (problem(loss=lambda z: z - fine(TRUTH)), START, 11, 0.0),
    "single": (problem(), START.astype(np.float32), 11, LEAST),
    "far": (problem(), np.array([9.0, 0.1, -3.0]), 11, LEAST),
    "units": (
        problem(lambda w: fine(w / UNITS), rough=lambda w: coarse(w / UNITS), scales=UNITS),
        START * UNITS, 11, LEAST,
    ),
    "noise in units": (
        problem(noisy(UNITS), rough=lambda w: coarse(w / UNITS), scales=UNITS),
        START * UNITS, 16, 9.95,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_more_calls_are_paid_than_were(name):
    fit, start, paid, least = CASES[name]
    found = minimize(fit, start)
    assert found.ledger.target_calls <= paid
    assert found.fun <= least * (1 + 1e-7) + 1e-20
    assert found.status is (Status.STALLED if "noise" in name else Status.CONVERGED)
    assert ("to the next: noise" in found.message) == ("noise" in name)


def test_budgets_hold_before_every_call():
    for limit in (1, 2, 5, 9):
        counted = Counting()
        found = minimize(problem(counted), START, budget=Budget(target_calls=limit))
        assert len(counted.points) == found.ledger.target_calls <= limit
        assert found.status is Status.BUDGET_SPENT


@pytest.mark.parametrize("at", [1, 4, 8])
def test_a_fit_that_is_broken_off_resumes_bit_for_bit_and_pays_nothing_twice(at, tmp_path):
    whole = minimize(problem(), START)
    counted = Counting()

    def broken(w):
        if len(counted.points) == at:
            raise KeyboardInterrupt
        return counted(w)

    with pytest.raises(KeyboardInterrupt):
        minimize(problem(broken), START, checkpoint=tmp_path / "fit")
    found = minimize(problem(counted), START, checkpoint=tmp_path / "fit")
    np.testing.assert_array_equal(found.w, whole.w)
    # A question of several points that was broken off is asked again, and so is the start, by
    # which a checkpoint knows its problem.
    assert len(counted.points) <= whole.ledger.target_calls + len(START) + 2


def test_a_laboratory_is_asked_and_told_outputs(tmp_path):
    run = Run(problem(), START)
    while not (run.converged(1e-6) or run.stalled):
        query = run.ask()
        assert query.outputs
        run.save(tmp_path / "run")
        run = Run.load(tmp_path / "run", problem(), START)
        run.tell([fine(w) for w in run.ask().points])
    np.testing.assert_allclose(run.w, minimize(problem(), START).w)
    with pytest.raises(ValueError, match="outputs"):
        run.tell([np.ones((2, 2))] * len(run.ask().points))


def test_a_fine_model_that_fails_away_from_the_start_is_turned_back_from():
    def fails(w):
        if w[1] > 1.3:
            raise ZeroDivisionError("the mesh is tangled")
        return fine(w)

    def nan(w):
        return fine(w) if w[1] <= 1.3 else np.full(31, np.nan)

    for model in (fails, nan):
        found = minimize(problem(model, rough=lambda w: coarse(w * [1, 0.8, 1])), START)
        assert found.fun == pytest.approx(minimize(problem(), START).fun, rel=1e-4)


def test_errors_of_the_user_are_named_and_what_was_paid_is_kept():
    counted = Counting()

    def breaks(w):
        if len(counted.points) == 3:
            raise RuntimeError("the licence server is down")
        return counted(w)

    with pytest.raises(OracleError, match="licence server") as error:
        minimize(problem(breaks), START)
    assert error.value.result.fun < 1e4
    other = Counting()
    for model, words in (
        (lambda w: other(w)[: 31 if len(other.points) < 3 else 5], "outputs"),
        (lambda w: np.full(31, np.nan), "every start"),
    ):
        if "start" in words:
            assert minimize(problem(model), START).status is Status.TARGET_NOT_FINITE
            continue
        with pytest.raises((OracleError, ValueError), match=words):
            minimize(problem(model), START)


def test_hanging_calls_are_given_up_and_the_others_are_kept():
    never = threading.Event()

    def hangs(w):
        if abs(w[1] - 1.0) < 0.02:
            never.wait(30)
        return fine(w)

    target = Outputs(hangs, squares, workers=4, timeout=0.3)
    points = [TRUTH, np.array([3.0, 1.0, 0.2]), START]
    one, lost, other = target.outputs(points)
    never.set()
    np.testing.assert_array_equal(one, fine(TRUTH))
    np.testing.assert_array_equal(other, fine(START))
    assert np.isnan(lost).all()
    assert "0.3 s" in target.gradient_source


@pytest.mark.slow
def test_a_model_that_other_processes_cannot_be_sent_is_named():
    with ProcessPoolExecutor(1) as pool:
        with pytest.raises((OracleError, TypeError), match="workers"):
            minimize(problem(lambda w: fine(w), workers=pool), START)
        assert minimize(problem(workers=pool), START).success


def test_odd_but_honest_fits_are_converged():
    fixed = minimize(problem(bounds=([0, 1.1, 0], [5, 1.1, 1])), START)
    assert (fixed.w[1], fixed.details.errors[1]) == (1.1, 0)
    tiny = problem(lambda w: fine(w * 1e9), rough=lambda w: coarse(w * 1e9))
    tiny = minimize(tiny, START * 1e-9)
    np.testing.assert_allclose(tiny.w * 1e9, minimize(problem(), START).w, rtol=1e-4)
    several = minimize(problem(), START, method=ManifoldMapping(points=3))
    np.testing.assert_allclose(several.w, minimize(problem(), START).w, atol=1e-5)
    assert all(found.success for found in (fixed, tiny, several))
    single = minimize(problem(), START.astype(np.float32))
    np.testing.assert_allclose(single.details.errors, several.details.errors, rtol=0.05)


def test_at_a_wall_differences_are_taken_on_the_other_side():
    found = minimize(problem(lambda w: fine(w) if w[1] <= 1.05 else np.full(31, np.nan)), START)
    assert np.isfinite(found.details.errors).all()


def values(model=fine, rough=coarse, **limits):
    def loss(function):
        return lambda w: float(np.sum(squares(function(w)) ** 2)) / 2

    return Problem(loss(model), loss(rough), **limits)


def test_values_alone_take_fewer_calls_than_a_gradient_at_every_step():
    counted = Counting()
    found = minimize(values(counted), START)
    least = minimize(problem(), START).fun
    assert "ValueMapping" in found.method
    assert found.status is Status.CONVERGED
    # A point that the loss has just answered for is charged, and not called again.
    assert found.ledger.target_calls - len(counted.points) in (0, 1)
    assert found.fun == pytest.approx(least, rel=1e-6)
    gradients = minimize(values(), START, method=ProxyBFGS())
    assert len(counted.points) < gradients.ledger.target_calls
    # Where the coarse loss says nothing, curvature is learnt from differences.
    alone = minimize(values(rough=lambda w: 0 * T), START, method=ValueMapping())
    assert alone.fun == pytest.approx(least, rel=1e-6)


def test_values_alone_keep_to_bounds_and_budgets_and_resume(tmp_path):
    counted, bounds = Counting(), ([2.5, 0.0, 0.3], [3.5, 2.0, 1.0])
    whole = minimize(values(counted, bounds=bounds), START)
    assert all((w >= bounds[0]).all() and (w <= bounds[1]).all() for w in counted.points)
    assert (whole.status, whole.w[2]) == (Status.CONVERGED, 0.3)
    for limit in (1, 6, 9):
        cut = minimize(
            values(bounds=bounds), START, budget=Budget(target_calls=limit),
            checkpoint=tmp_path / f"{limit}",
        )  # fmt: skip
        assert cut.ledger.target_calls <= limit
        again = minimize(values(bounds=bounds), START, checkpoint=tmp_path / f"{limit}")
        np.testing.assert_array_equal(again.w, whole.w)


def test_noise_of_values_is_found_or_told():
    rng = np.random.default_rng(3)
    found = minimize(values(lambda w: fine(w) * (1 + 0.01 * rng.normal(size=31))), START)
    assert found.status is Status.STALLED
    assert "noise" in found.message
    told = ValueObjective(lambda w: round(float(np.sum((w - 1) ** 2)), 9), noise=1e-9)
    found = minimize(Problem(told, lambda w: float(np.sum((w - 1.1) ** 2))), START)
    np.testing.assert_allclose(found.w, 1, atol=1e-3)
