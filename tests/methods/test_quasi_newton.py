"""ProxyBFGS: BFGS in the proxy's metric, against PCG and SciPy's L-BFGS-B."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox.inner.base import SolverPolicy
from proxyprox.inner.exact import minimise_exactly
from proxyprox.methods.quasi_newton import (
    Curvature,
    Metric,
    QuasiNewtonPolicy,
    conjugate,
    usable,
)
from proxyprox.problems.combination import MixedProxy
from tests.runs import logistic

BFGS = pp.ProxyBFGS()


def spectrum(rng, d, condition):
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    A = (basis * np.geomspace(1 / condition, 1, d)) @ basis.T
    return (A + A.T) / 2


def quadratics(d=12, condition=100.0, seed=0, error=0.05):
    """Return a quadratic target and a proxy that is off by a positive semidefinite error."""
    rng = np.random.default_rng(seed)
    A, b = spectrum(rng, d, condition), rng.normal(size=d)
    root = rng.normal(size=(d, d))
    P = A + error * (root @ root.T) / d
    return pp.Quadratic(A, b), pp.Quadratic((P + P.T) / 2, b + 0.1 * rng.normal(size=d))


def table(n=500, d=20):
    return logistic(n, d, np.geomspace(1, 0.1, d), 3, l2=1e-3)


# -- quadratics ------------------------------------------------------------------------------------


def rounds_of_cg(target, proxy, tol):
    """Return the rounds of CG preconditioned with the proxy's Hessian, from its minimum."""
    w, count = proxy.minimiser(), 1
    r = target.gradient(w)
    z = np.linalg.solve(proxy.P, r)
    p, first = -z, np.linalg.norm(r)
    while np.linalg.norm(r) > tol * first:
        Ap = target.P @ p
        share = (r @ z) / (p @ Ap)
        new, count = r + share * Ap, count + 1
        zn = np.linalg.solve(proxy.P, new)
        p, r, z = -zn + (new @ zn) / (r @ z) * p, new, zn
    return count


def kinds(A, rng):
    """Return positive definite proxies of many kinds."""
    d = len(A)
    root = rng.normal(size=(d, d))
    near = root @ root.T / d
    ranks = root[:, :2] @ root[:, :2].T / d
    return {
        "near": A + 0.01 * near, "far": A + near, "steep": 100 * A + 1e-3 * near,
        "flat": 0.01 * A + 1e-5 * near, "low rank": A + 5 * ranks, "identity": np.eye(d),
        "diagonal": np.diag(np.diag(A)), "inverse": np.linalg.inv(A), "unrelated": near,
    }  # fmt: skip


@pytest.mark.parametrize("kind", kinds(np.eye(2), np.random.default_rng(0)))
def test_rounds_on_a_quadratic_are_at_most_twice_those_of_preconditioned_cg(kind):
    rng = np.random.default_rng(3)
    A, b = spectrum(rng, 25, 1e4), rng.normal(size=25)
    P = kinds(A, rng)[kind]
    target = pp.Quadratic(A, b)
    proxy = pp.Quadratic((P + P.T) / 2, b + 0.1 * rng.normal(size=25))
    result = pp.minimize(pp.Problem(target, proxy), method=BFGS, tol=1e-6)
    assert result.status is pp.Status.CONVERGED
    assert result.steps <= 2 * rounds_of_cg(target, proxy, 1e-6)


def applied(proxy, *, hvp=True):
    """Return a proxy without a Hessian."""
    return pp.FunctionProxy(
        proxy.value, proxy.gradient, hvp=proxy.hvp if hvp else None, smoothness=2.0
    )


@pytest.mark.parametrize("hvp", [True, False])
def test_a_hessian_that_is_applied_gives_the_iterates_of_the_matrix(hvp, monkeypatch):
    target, proxy = quadratics(14, error=0.2)
    dense = pp.minimize(pp.Problem(target, proxy), method=BFGS, tol=1e-8)
    monkeypatch.setattr(SolverPolicy, "dense", 10)
    other = pp.minimize(pp.Problem(target, applied(proxy, hvp=hvp)), method=BFGS, tol=1e-8)
    assert other.status is pp.Status.CONVERGED
    assert abs(other.steps - dense.steps) <= 3
    first = slice(0, 5)
    np.testing.assert_allclose(other.trace["value"][first], dense.trace["value"][first], rtol=0.02)
    np.testing.assert_allclose(other.w, target.minimiser(), rtol=1e-4, atol=1e-6)


def test_large_problems_take_as_many_rounds_as_small_ones():
    def sizes(d):
        diagonal = np.tile(np.geomspace(0.01, 1, 25), d // 25)
        wrong = diagonal * np.tile([0.5, 1.0, 1.5, 2.0, 1.0], d // 5)
        target = pp.FunctionObjective(
            lambda w: diagonal * w - 1, value=lambda w: float(w @ (diagonal * w) / 2 - w.sum())
        )
        proxy = pp.FunctionProxy(
            lambda w: float(w @ (wrong * w) / 2 - w.sum()), lambda w: wrong * w - 1,
            hvp=lambda w, v: wrong * v,
        )  # fmt: skip
        result = pp.minimize(pp.Problem(target, proxy), np.zeros(d), tol=1e-6)
        np.testing.assert_allclose(result.w, 1 / diagonal, rtol=1e-3)
        return result.steps

    assert abs(sizes(1500) - sizes(50)) <= 2


# -- bounds and scales -----------------------------------------------------------------------------


def watched(target):
    """Return the objective of a target, and the list of points that it is asked about."""
    asked = []

    def both(w):
        asked.append(w.copy())
        return target.value(w), target.gradient(w)

    objective = pp.FunctionObjective(
        lambda w: both(w)[1], value=lambda w: both(w)[0], value_and_gradient=both
    )
    return objective, asked


@pytest.mark.parametrize("kind", ["quadratic", "logistic", "applied"])
def test_the_minimum_within_bounds_is_scipys(kind):
    rng = np.random.default_rng(0)
    if kind == "quadratic":
        target, proxy = quadratics(15, 1e3)
    else:
        target = table(200, 15)
        proxy = target.subsample(60, rng=0)
    d = target.dim
    proxy = applied(proxy) if kind == "applied" else proxy
    size = 0.5 * np.abs(rng.normal(size=d))
    # Coordinates without bounds, with active ones, and with those that play no part.
    lower = np.where(np.arange(d) % 3 == 0, -np.inf, -size)
    upper = np.where(np.arange(d) % 5 == 0, 1e3, size)
    objective, asked = watched(target)
    start = 3 * rng.normal(size=d)
    problem = pp.Problem(objective, proxy, bounds=(lower, upper))
    result = pp.minimize(problem, start, method=BFGS, tol=1e-7)
    assert result.status is pp.Status.CONVERGED
    assert "outside the bounds" in result.message
    assert all(((lower <= w) & (w <= upper)).all() for w in asked)
    reference = scipy.optimize.minimize(
        target.value, np.zeros(d), jac=target.gradient, bounds=list(zip(lower, upper, strict=True)),
        method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-10, "maxiter": 2000},
    )  # fmt: skip
    assert ((result.w == lower) | (result.w == upper)).any()
    np.testing.assert_allclose(result.w, reference.x, atol=1e-4)


def test_a_badly_scaled_problem_with_scales_is_the_well_scaled_one():
    target = table()
    proxy, d = target.subsample(100, rng=0), target.dim
    units = 2.0 ** np.random.default_rng(0).integers(-20, 20, size=d)

    def in_units(loss, cls):
        return cls(
            value=lambda w: loss.value(w / units),
            gradient=lambda w: loss.gradient(w / units) / units,
        )

    def hessian(w):
        return proxy.hessian(w / units) / np.outer(units, units)

    scaled = in_units(proxy, pp.FunctionProxy)
    scaled.hessian = hessian
    well = pp.minimize(
        pp.Problem(target, proxy), method=pp.ProxyBFGS(start_at_proxy=False), steps=12
    )
    badly = pp.minimize(
        pp.Problem(in_units(target, pp.FunctionObjective), scaled, scales=units), np.zeros(d),
        method=pp.ProxyBFGS(start_at_proxy=False), steps=12,
    )  # fmt: skip
    np.testing.assert_allclose(badly.w / units, well.w, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(badly.trace["value"], well.trace["value"], rtol=1e-6)


# -- numbers that are not finite -------------------------------------------------------------------


def with_holes(target, inside, *, parts=("value", "gradient"), fault=math.nan):
    """Return a target that is not finite where ``inside`` does not hold."""

    def part(name, function):
        return lambda w: function(w) * (fault if name in parts and not inside(w) else 1.0)

    return pp.FunctionObjective(
        part("gradient", target.gradient), value=part("value", target.value)
    )


@pytest.mark.parametrize("fault", [math.nan, math.inf])
@pytest.mark.parametrize("values", [True, False])
def test_a_simulator_that_blows_up_is_backtracked_from(values, fault):
    least = np.full(6, 0.5)

    def value(w):
        return float(np.sum((w - least) ** 4 / 4 + 0.005 * (w - least) ** 2))

    def slope(w):
        return (w - least) ** 3 + 0.01 * (w - least)

    whole = pp.FunctionObjective(slope, value=value)
    target = with_holes(whole, lambda w: np.abs(w).max() < 0.8, fault=fault)
    if not values:
        target.value = None
    # The proxy is far too flat: its first step leads far away.
    problem = pp.Problem(target, pp.Quadratic(np.diag(np.geomspace(1e-5, 1e-2, 6))))
    with np.errstate(invalid="ignore"):
        result = pp.minimize(problem, np.zeros(6), tol=1e-8)
    assert result.status is pp.Status.CONVERGED
    assert result.steps <= 40
    np.testing.assert_allclose(result.w, least, atol=1e-4)


@pytest.mark.parametrize(
    ("parts", "fault"),
    [(("value", "gradient"), math.nan), (("value",), math.inf), (("gradient",), math.nan)],
)
def test_a_target_that_is_not_finite_at_the_proxys_minimum_is_asked_at_w0(parts, fault, tmp_path):
    target, proxy = quadratics()
    bad = proxy.minimiser()
    holed = with_holes(target, lambda w: np.abs(w - bad).max() > 1e-3, parts=parts, fault=fault)
    problem = pp.Problem(holed, proxy)
    with np.errstate(invalid="ignore"):
        result = pp.minimize(problem, np.zeros(12), tol=1e-8)
        assert result.status is pp.Status.CONVERGED
        assert "could not be used" not in result.message
        np.testing.assert_allclose(result.w, target.minimiser(), atol=1e-5)
        # A run that is saved before the first answer, or after it, resumes.
        for steps in (1, 2):
            path = tmp_path / f"run{steps}"
            pp.minimize(problem, np.zeros(12), method=BFGS, steps=steps, checkpoint=path)
            again = pp.minimize(problem, np.zeros(12), method=BFGS, tol=1e-8, checkpoint=path)
            np.testing.assert_array_equal(again.w, result.w)


@pytest.mark.parametrize("fault", [math.nan, math.inf, 0.0, 1e300])
@pytest.mark.parametrize("size", ["matrix", "applied"])
def test_a_hessian_that_is_of_no_use_at_some_points_is_survived(size, fault, monkeypatch):
    if size == "applied":
        monkeypatch.setattr(SolverPolicy, "dense", 50)
    target, whole = quadratics()
    calls = []

    def broken(matrix):
        calls.append(1)
        return matrix * (fault if len(calls) % 3 else 1.0)

    parts = {
        "matrix": {"hessian": lambda w: broken(whole.P)},
        "applied": {"hvp": lambda w, v: broken(whole.P @ v)},
    }
    proxy = pp.FunctionProxy(whole.value, whole.gradient, **parts[size])
    method = pp.ProxyBFGS(start_at_proxy=False)
    with np.errstate(all="ignore"):
        result = pp.minimize(pp.Problem(target, proxy), np.zeros(12), method=method, tol=1e-8)
    assert result.status is pp.Status.CONVERGED
    assert result.steps <= 60


def test_a_proxy_without_curvature_at_its_minimum_is_survived():
    target = pp.FunctionObjective(
        lambda w: np.sinh(w - 2), value=lambda w: float(np.cosh(w - 2).sum())
    )
    proxy = pp.FunctionProxy(lambda w: float(((w - 1) ** 4).sum()), lambda w: 4 * (w - 1) ** 3)
    with np.errstate(over="ignore"):
        result = pp.minimize(pp.Problem(target, proxy), np.zeros(1))
    assert result.status is pp.Status.CONVERGED
    np.testing.assert_allclose(result.w, 2.0, atol=1e-6)


# -- ask and tell ----------------------------------------------------------------------------------


def advance(run, target, *, value=True):
    w = run.ask().points[0]
    return run.tell(target.gradient(w), value=target.value(w) if value else None)


@pytest.mark.parametrize("values", ["always", "never", "at times"])
def test_ask_and_tell_do_what_minimize_does(values):
    target = table()
    proxy = target.subsample(100, rng=0)
    run = pp.Run(pp.Problem(target, proxy), method=BFGS)
    while not run.converged(tol=1e-8) and run.steps < 60:
        told = values == "always" or (values == "at times" and run.steps % 2 == 0)
        advance(run, target, value=told)
    whole = pp.minimize(pp.Problem(target, proxy), method=BFGS, tol=1e-8)
    assert run.steps <= whole.steps + 5
    np.testing.assert_allclose(run.w, whole.w, atol=1e-6)
    if values == "always":
        np.testing.assert_array_equal(run.result(pp.Status.CONVERGED).w, whole.w)


def hard():
    """Return a target of many line searches, and its flat proxy."""

    def value(w):
        return float(np.sum(np.cosh(3 * (w - 0.7))))

    def gradient(w):
        return 3 * np.sinh(3 * (w - 0.7))

    return pp.FunctionObjective(gradient, value=value), pp.Quadratic(np.diag([0.1, 0.3, 1.0, 3.0]))


def test_a_run_saved_in_the_middle_of_a_line_search_resumes_bit_for_bit(tmp_path):
    target, proxy = hard()
    problem = pp.Problem(target, proxy)
    whole = pp.Run(problem, np.zeros(4), method=BFGS)
    shortened = []
    for k in range(16):
        before = whole.w
        whole.save(tmp_path / f"run{k}")
        advance(whole, target)
        shortened.append(bool((whole.w == before).all()))
    assert sum(shortened) >= 2
    for k in range(1, 16, 3):
        run = pp.Run.load(tmp_path / f"run{k}", problem, np.zeros(4), method=BFGS)
        while run.steps < 16:
            advance(run, target)
        assert run.w.tobytes() == whole.w.tobytes()
        assert run.trace["value"].tobytes() == whole.trace["value"].tobytes()


# -- useless proxies -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_a_proxy_far_too_flat_or_of_other_inputs_ends_no_convex_run_early(family):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 12)) + 3 * rng.normal(size=12)
        score = X @ rng.normal(size=12)
        means = np.exp(2 * (score - score.mean()) / score.std() + 2)
        y = rng.poisson(means) if family == "poisson" else rng.gamma(2.0, means / 2) + 1e-6
        loss = getattr(pp, f"{family}_regression")
        target, start = loss(X, y, l2=1e-3), np.zeros(12)
        with np.errstate(over="ignore"):
            least = target.value(minimise_exactly(target, start, relative=1e-10))
        flat = pp.Quadratic(1e-6 * np.eye(12))
        other = loss(3 * rng.normal(size=X.shape), y, l2=1e-3)
        for proxy in (flat, MixedProxy([target.subsample(20, rng=0)], [1e-3]), other):
            result = pp.minimize(pp.Problem(target, proxy))
            left = (target.value(result.w) - least) / (target.value(start) - least)
            assert result.success, (seed, proxy)
            assert left < 1e-5, (seed, proxy)


def test_a_huge_gradient_at_the_proxys_minimum_is_no_measure_of_convergence(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 10))
    target = pp.poisson_regression(X, rng.poisson(np.exp(X @ np.full(10, 0.2))), l2=1e-3)
    # Its minimum is far out, where the target's gradient is huge: the run begins at w0.
    proxy = pp.Quadratic(0.1 * np.eye(10), -np.full(10, 0.3))
    problem, path = pp.Problem(target, proxy), tmp_path / "run"
    result = pp.minimize(problem, method=BFGS, tol=1e-6, checkpoint=path)
    first = np.linalg.norm(target.gradient(np.zeros(10)))
    assert result.trace["value"][0] > 1e3
    assert result.status is pp.Status.CONVERGED
    assert np.linalg.norm(target.gradient(result.w)) <= 1e-6 * first
    assert result.values[0] == target.value(np.zeros(10))
    again = pp.minimize(problem, method=BFGS, tol=1e-6, checkpoint=path)
    assert "no step was added" in again.message


# -- targets that are not convex -------------------------------------------------------------------


@pytest.mark.parametrize("start", [[-1.2, 1.0], [3.0, -2.0, 1.0]])
def test_rosenbrocks_function_with_a_perturbed_proxy(start):
    value, gradient = scipy.optimize.rosen, scipy.optimize.rosen_der
    # Its valley bends at another place, and its walls are less steep.
    perturbed = lambda w: 0.8 * value(w / 1.1), lambda w: 0.8 / 1.1 * gradient(w / 1.1)
    problem = pp.Problem((value, gradient), perturbed)
    result = pp.minimize(problem, np.array(start), tol=1e-8)
    assert result.status is pp.Status.CONVERGED
    assert np.linalg.norm(gradient(result.w)) < 1e-4
    assert value(result.w) <= value(np.array(start))
    alone = scipy.optimize.minimize(value, start, jac=gradient, method="BFGS")
    assert result.steps <= alone.nfev + 5
    hessian = scipy.optimize.approx_fprime(result.w, gradient, 1e-6)
    assert np.linalg.eigvalsh((hessian + hessian.T) / 2)[0] > 0


@pytest.mark.parametrize("offset", [1e-3, 0.1])
def test_a_saddle_point_is_left(offset):
    def value(w):
        return float(w[0] ** 2 + w[1] ** 4 / 4 - w[1] ** 2 / 2)

    def gradient(w):
        return np.array([2 * w[0], w[1] ** 3 - w[1]])

    # The proxy's minimum is next to the saddle point.
    proxy = pp.Quadratic(np.diag([2.0, 1.0]), b=np.array([0.0, -offset]))
    problem = pp.Problem(pp.FunctionObjective(gradient, value=value), proxy)
    result = pp.minimize(problem, np.array([1.0, offset]), tol=1e-8)
    assert result.status is pp.Status.CONVERGED
    np.testing.assert_allclose(np.abs(result.w), [0.0, 1.0], atol=1e-5)


# -- dtypes, corner cases and defaults -------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("condition", [1e2, 1e6])
def test_rounding_ends_a_run_that_asks_for_too_much(dtype, condition):
    rng = np.random.default_rng(0)
    A = spectrum(rng, 15, condition).astype(dtype)
    target = pp.Quadratic((A + A.T) / 2, rng.normal(size=15).astype(dtype))
    proxy = pp.Quadratic(target.P + np.eye(15, dtype=dtype) / 10, target.b)
    result = pp.minimize(pp.Problem(target, proxy), tol=0.0, steps=1000)
    assert result.status in (pp.Status.CONVERGED, pp.Status.STALLED)
    assert result.steps < 120
    assert result.w.dtype == dtype


def test_a_start_with_a_zero_gradient_is_the_answer():
    target, proxy = quadratics()
    start = target.minimiser()
    still = pp.Quadratic(target.P, -target.P @ start)
    here = pp.FunctionObjective(lambda w: 0 * w, value=lambda w: 1.0)
    for problem in (pp.Problem(here), pp.Problem(here, pp.Quadratic(proxy.P))):
        result = pp.minimize(problem, np.zeros(12))
        assert result.status is pp.Status.CONVERGED
        assert result.steps == 1
        np.testing.assert_array_equal(result.w, 0.0)
    # The proxy's minimum is the target's: steps that are asked for stay there.
    result = pp.minimize(pp.Problem(still, pp.Quadratic(proxy.P, -proxy.P @ start)), steps=6)
    np.testing.assert_allclose(result.w, start, rtol=1e-9)
    assert result.success


def test_a_proxy_in_other_units_does_not_end_a_run_early():
    target = logistic(3000, 30, np.geomspace(1, 0.03, 30), 4, seed=3, l2=1e-5)
    least = target.value(pp.minimize(target, tol=1e-12).w)
    near = target.subsample(300, rng=0)
    for factor in (1e-3, 1.0, 1e3):
        result = pp.minimize(pp.Problem(target, factor * near))
        assert result.status is pp.Status.CONVERGED
        assert target.value(result.w) - least < 1e-8 * (np.log(2) - least), factor


def test_what_the_model_says_is_left_is_about_the_gap():
    target = table()
    start = np.zeros(target.dim)
    least = target.value(minimise_exactly(target, start))
    run = pp.Run(pp.Problem(target, target.subsample(100, rng=0)), start, method=BFGS)
    for steps in range(1, 15):
        advance(run, target)
        left, whole = run.method.gaps(run.state.method)
        value = run.state.method.value
        assert math.isnan(left) == (steps < 3)
        if steps >= 3:
            assert 0.5 < left / (value - least) < (100 if steps == 3 else 20)
            falls = -np.diff(run.state.method.losses[-QuasiNewtonPolicy.watched :])
            if len(falls) > 1 and (falls > 0).all():
                # The falls shrink alike from round to round: those to come are a geometric sum.
                ratio = min((falls[-1] / falls[0]) ** (1 / (len(falls) - 1)), 0.99)
                linear = run.method.promise(run.state.method) / 2
                assert left == pytest.approx(max(linear, falls[-1] * ratio / (1 - ratio)))
            # The way from w0 is known: what is left is the rest.
            assert whole - left == pytest.approx(target.value(start) - value)


@pytest.mark.parametrize(("worth", "formed"), [(2.0, 2), (5.0, 1), (20.5, 1), (21.5, 0)])
def test_a_hessian_is_formed_if_more_rounds_seem_left_than_it_takes(worth, formed):
    target = logistic(2000, 25, np.geomspace(1, 0.2, 25), 4, seed=1, l2=1e-4)
    method = pp.ProxyBFGS(sample=200, worth=worth, start_at_proxy=False)
    run, found = pp.Run(pp.Problem(target), method=method), 0
    for _ in range(17):
        before = run.state.method
        advance(run, target)
        state = run.state.method
        losses, left = [*before.losses, state.value], 0.0
        if len(losses) >= 8 and state.value != before.value:
            # Three rounds shrink the gap by this ratio, down to a billionth of the first one.
            first, then = losses[-7] - losses[-4], losses[-4] - losses[-1]
            ratio, gap = then / first, then * then / (first - then)
            share = gap / (losses[0] - losses[-1] + gap)
            left = 3 * math.log(QuasiNewtonPolicy.close / share) / math.log(ratio)
        due = left > worth and (before.anchor is None or state.k - before.formed >= worth)
        assert (state.formed == state.k) == due
        found += due
    assert found == formed


def test_without_values_the_start_is_chosen_by_the_trapezoidal_rule():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        target, proxy = quadratics(4, seed=seed, error=5.0)
        w0 = target.minimiser() + rng.normal(size=4) * rng.choice([0.3, 3.0])
        run = pp.Run(pp.Problem(pp.FunctionObjective(target.gradient), proxy), w0, method=BFGS)
        for point in (w0, proxy.minimiser()):
            np.testing.assert_allclose(run.ask().points[0], point, rtol=1e-6)
            advance(run, target, value=False)
        # The rule is exact for quadratics; a way that begins uphill is not taken.
        downhill = target.gradient(w0) @ (proxy.minimiser() - w0) < 0
        lower = downhill and target.value(proxy.minimiser()) < target.value(w0)
        chosen = proxy.minimiser() if lower else w0
        np.testing.assert_allclose(run.state.method.w, chosen, rtol=1e-6)


# -- the metric ------------------------------------------------------------------------------------


def of_proxy(seed=0):
    rng = np.random.default_rng(seed)
    A = spectrum(rng, 5, 50.0)
    curvature = Curvature(pp.Quadratic(A), np.zeros(5), np.ones(5), np.ones(5, dtype=bool))
    return rng, A, np.linalg.norm(A), curvature


def test_a_score_is_the_logarithm_of_two_curvatures_over_lengths():
    for seed in range(5):
        rng, A, unit, curvature = of_proxy(seed)
        s, y = rng.normal(size=(2, 5))
        y *= np.sign(s @ y)
        metric = Metric(scale=0.7, shift=0.02, score=-1.5)
        M = 0.7 * A + 0.02 * unit * np.eye(5)
        gap = np.log((s @ M @ s) * (y @ np.linalg.solve(M, y)) / (s @ s) / (y @ y))
        found = metric.scored(curvature, usable(s, y)).score
        policy = QuasiNewtonPolicy
        want = policy.fade * -1.5 + np.clip(gap, -policy.decisive, policy.decisive)
        assert found == pytest.approx(want, rel=1e-9)
    assert metric.scored(curvature, (0 * s, 0 * s, 0.0)) == metric


@pytest.mark.parametrize("quadratic", [True, False])
def test_the_fitted_metric_is_that_of_all_that_are_tried(quadratic):
    rng, A, unit, curvature = of_proxy()
    low, high, count = QuasiNewtonPolicy.grid
    grid = [10.0 ** (low + (high - low) * k / (count - 1)) for k in range(count)]
    for steep in (0.02, 0.6, 5.0):
        pairs = pairs_of(steep * A + 0.1 * np.eye(5), 3, rng)
        least = min(s @ A @ s / sy for s, _, sy in pairs)

        def misfit(c, shift, pairs=pairs):
            total = 0.0 if quadratic else QuasiNewtonPolicy.price * abs(np.log(c))
            for age, (s, _, sy) in enumerate(reversed(pairs)):
                ratio = (c * (s @ A @ s) + shift * unit * (s @ s)) / sy
                total += QuasiNewtonPolicy.fade**age * (ratio - np.log(ratio))
            return total + quadratic * 0.01 * np.log10(shift / grid[0])

        tried = [c for c in grid[::2] if c * least >= 0.99 * min(least, 1.0)]
        best = min((misfit(c, shift), c, shift) for c in tried for shift in grid)
        now = Metric(shift=1e-3)
        found = now.fitted(curvature, pairs, quadratic=quadratic)
        assert found.scale == pytest.approx(best[1])
        assert found.shift == pytest.approx(max(best[2], 0.0 if quadratic else 1e-4))
        gain = misfit(now.scale, now.shift) - best[0]
        if not quadratic:
            for stay, kept in ((gain - 1e-6, False), (gain + 1e-6, True)):
                fitted = now.fitted(curvature, pairs, quadratic=False, stay=max(stay, 1e-12))
                assert (fitted == now) == kept
    assert now.fitted(curvature, [], quadratic=quadratic) == now


def test_a_promise_is_kept_by_the_smallest_shift():
    rng, A, unit, curvature = of_proxy()
    g, grid = rng.normal(size=5), np.logspace(*QuasiNewtonPolicy.grid)
    gains = np.array([g @ np.linalg.solve(A + x * unit * np.eye(5), g) / 2 for x in grid])
    for promise in (1.1 * gains[0], *np.sqrt(gains[[40, 90, 130]] * gains[[41, 91, 131]]), 1e-9):
        kept = grid[gains <= promise]
        want = kept[0] if len(kept) else grid[-1]
        assert Metric().promised(curvature, g, promise).shift == pytest.approx(want)


def pairs_of(A, count, rng):
    steps = rng.normal(size=(count, len(A)))
    return [usable(s, A @ s) for s in steps]


def test_pairs_of_another_quadratic_stay_as_they_are():
    rng = np.random.default_rng(2)
    old, new = pairs_of(spectrum(rng, 8, 100.0), 2, rng), pairs_of(np.eye(8) * 30, 3, rng)
    pairs, agreeing = conjugate([*old, *new])
    assert agreeing == 3
    assert all(kept is given for kept, given in zip(pairs[:2], old, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_other_units_without_a_hessian_are_not_called_done_too_early(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 30)) * np.logspace(6, -6, 30)
    y = X @ (rng.normal(size=30) / np.logspace(6, -6, 30)) + rng.normal(size=300)
    loss, best = pp.linear_regression(X, y), np.linalg.lstsq(X, y, rcond=1e-16)[0]
    result = pp.minimize(pp.Problem((loss.value, loss.gradient)), np.zeros(30), steps=200)
    left = (loss.value(result.w) - loss.value(best)) / (loss.value(0 * best) - loss.value(best))
    assert left < 1e-6 or not result.success
    assert "scales=" in result.message
