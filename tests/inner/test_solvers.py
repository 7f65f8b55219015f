"""What every inner solver owes: the minimiser, an honest residual, and giving up honestly."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from proxyprox import (
    LBFGS,
    ClosedForm,
    FunctionProxy,
    GradientDescent,
    Nesterov,
    Newton,
    NewtonCG,
    NonConvex,
    NonFiniteError,
    ProximalGradient,
    Quadratic,
    QuasiNewton,
    Relative,
    Residual,
    Steps,
    Subproblem,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)

GENERAL = [LBFGS(), Newton(), NewtonCG(), ProximalGradient(), QuasiNewton()]
SMOOTH = [*GENERAL, GradientDescent(), GradientDescent(implicit=True), Nesterov()]
every_smooth = pytest.mark.parametrize("solver", SMOOTH, ids=lambda s: repr(s).split("(")[0])
every_general = pytest.mark.parametrize("solver", GENERAL, ids=lambda s: type(s).__name__)


def logistic_case(seed, rows=60, columns=5):
    """A subproblem and its minimiser, by Newton steps on the formulas written out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = rng.integers(2, size=rows)
    linear, centre = rng.normal(size=(2, columns))
    eta = 10.0 ** rng.uniform(-1, 1.5)
    w = centre
    for _ in range(60):
        p = expit(X @ w)
        gradient = X.T @ (p - y) / rows + linear + (w - centre) / eta
        hessian = (X.T * (p * (1 - p))) @ X / rows + np.eye(columns) / eta
        step, t = np.linalg.solve(hessian, gradient), 1.0
        # φ is strongly convex: short steps first, until the full one is safe.
        if np.linalg.norm(step) > 1:
            t = 1 / np.linalg.norm(step)
        w = w - t * step
    assert np.linalg.norm(gradient) < 1e-12
    return Subproblem(logistic_regression(X, y), linear, centre, eta), w


def solve(solver, phi, stop=None, start=None, memory=None, seed=0):
    rng = np.random.default_rng(seed)
    stop = Residual(1e-8) if stop is None else stop
    return solver.solve(phi, phi.centre if start is None else start, stop,
                        {} if memory is None else memory, rng)  # fmt: skip


@every_smooth
@pytest.mark.parametrize("seed", range(6))
def test_logistic_subproblems_are_minimised(solver, seed):
    phi, exact = logistic_case(seed)
    w, progress = solve(solver, phi)
    assert progress.residual <= 1e-8
    # φ is 1/η-strongly convex, so the residual bounds the distance.
    assert np.linalg.norm(w - exact) <= phi.eta * 1.01e-8
    assert progress.residual == pytest.approx(np.linalg.norm(phi.gradient(w)), rel=1e-6)
    assert progress.displacement == pytest.approx(np.linalg.norm(w - phi.centre), rel=1e-12)
    assert progress.start_residual == pytest.approx(np.linalg.norm(phi.gradient(phi.centre)))
    assert progress.decrease() == pytest.approx(phi.value(phi.centre) - phi.value(w), abs=1e-12)


@every_smooth
def test_starts_away_from_the_centre_lead_to_the_same_place(solver):
    phi, exact = logistic_case(3)
    start = exact + 20 * np.random.default_rng(9).normal(size=5)
    w, progress = solve(solver, phi, start=start)
    assert np.linalg.norm(w - exact) <= phi.eta * 1.01e-8
    assert progress.start_residual == pytest.approx(np.linalg.norm(phi.gradient(start)))


@every_general
@pytest.mark.parametrize("family", ["softmax", "poisson"])
def test_other_families_agree_with_each_other(solver, family):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    if family == "softmax":
        proxy = softmax_regression(X, np.arange(40) % 3, intercept=True)
    else:
        proxy = poisson_regression(X, rng.poisson(2, size=40), intercept=True)
    linear, centre = 0.3 * rng.normal(size=(2, proxy.dim))
    phi = Subproblem(proxy, linear, centre, 2.0)
    w, progress = solve(solver, phi, Residual(1e-9))
    assert progress.residual <= 1e-9
    v = centre
    for _ in range(200):
        v = v - 0.5 * np.linalg.solve(phi.hessian(v), phi.gradient(v))
    np.testing.assert_allclose(w, v, atol=1e-8)


@every_smooth
def test_tensors_end_where_arrays_end(solver):
    phi, exact = logistic_case(2)
    proxy = logistic_regression(torch.tensor(phi.proxy.design.X), phi.proxy.targets)
    native = Subproblem(proxy, torch.tensor(phi.linear), torch.tensor(phi.centre), phi.eta)
    w, progress = solve(solver, native)
    assert isinstance(w, torch.Tensor)
    assert w.dtype == torch.float64
    assert np.linalg.norm(w.numpy() - exact) <= phi.eta * 1.01e-8
    assert progress.residual == pytest.approx(float(native.gradient(w).norm()), rel=1e-6)


@every_smooth
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_float32_stays_float32_and_reaches_its_accuracy(solver, library):
    phi, exact = logistic_case(4)
    make = torch.tensor if library == "torch" else np.array
    X, linear, centre = (
        make(np.asarray(x, dtype=np.float32)) for x in (phi.proxy.design.X, phi.linear, phi.centre)
    )
    small = Subproblem(logistic_regression(X, phi.proxy.targets), linear, centre, phi.eta)
    w, progress = solve(solver, small, Residual(2e-6))
    assert w.dtype == X.dtype
    assert progress.residual <= 2e-6
    assert np.linalg.norm(np.asarray(w, dtype=np.float64) - exact) <= phi.eta * 1e-5


@every_smooth
@pytest.mark.parametrize("steps", [1, 4])
def test_fixed_steps_are_taken_exactly(solver, steps):
    phi, _ = logistic_case(5)
    w, progress = solve(solver, phi, Steps(steps))
    assert progress.steps == steps
    assert progress.residual == pytest.approx(np.linalg.norm(phi.gradient(w)), rel=1e-9)


@pytest.mark.parametrize(
    "solver",
    [type(s)(max_steps=2) for s in GENERAL] + [GradientDescent(max_steps=2), Nesterov(max_steps=2)],
    ids=lambda s: type(s).__name__,
)
def test_giving_up_is_honest(solver):
    phi, _ = logistic_case(0)
    stop = Residual(1e-14)
    w, progress = solve(solver, phi, stop)
    assert progress.steps <= 2
    assert not stop.holds(progress)
    assert progress.residual > 1e-14
    assert progress.residual == pytest.approx(np.linalg.norm(phi.gradient(w)), rel=1e-9)


@every_smooth
def test_solved_start_is_returned_untouched(solver):
    phi, _ = logistic_case(1)
    start = solve(Newton(), phi, Residual(1e-10)).w
    w, progress = solve(solver, phi, Residual(1e-9), start=start)
    assert w is start
    assert progress.steps == 0


@every_smooth
def test_relative_rule_counts_from_the_start(solver):
    phi, _ = logistic_case(1)
    first = np.linalg.norm(phi.gradient(phi.centre))
    w, progress = solve(solver, phi, Relative(1e-3))
    assert progress.residual <= 1e-3 * first
    assert np.linalg.norm(phi.gradient(w)) <= 1.001e-3 * first
    # No more than asked, by far, for the methods that converge linearly.
    if isinstance(solver, (GradientDescent, Nesterov)):
        assert progress.residual > 1e-5 * first


@every_smooth
def test_accuracy_at_the_level_of_rounding_ends(solver):
    phi, exact = logistic_case(3)
    capped = type(solver)(max_steps=3000) if not isinstance(solver, Newton) else solver
    w, _ = solve(capped, phi, Residual(1e-300))
    assert np.linalg.norm(w - exact) <= 1e-9


@every_general
@pytest.mark.parametrize("size", [3.0, 8.0])
def test_poisson_from_far_away(solver, size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    proxy = poisson_regression(X, rng.poisson(1, size=50))
    centre = size * np.ones(3)
    phi = Subproblem(proxy, np.zeros(3), centre, 10.0)
    with np.errstate(over="ignore", invalid="ignore"):
        w, progress = solve(solver, phi, Residual(1e-7))
    assert progress.residual <= 1e-7
    # The stationary equation, written out.
    equation = X.T @ (np.exp(X @ w) - proxy.targets) / 50 + (w - centre) / 10
    assert np.linalg.norm(equation) <= 1.1e-7


def waves(size=4, strength=1.0):
    """``Σ strength·cos(3 w_j)``: curvature between −9 and 9 times the strength."""
    return FunctionProxy(
        lambda w: strength * float(np.sum(np.cos(3 * w))),
        lambda w: -3 * strength * np.sin(3 * w),
        hvp=lambda w, v: -9 * strength * np.cos(3 * w) * v,
        hessian=lambda w: np.diag(-9 * strength * np.cos(3 * w)),
        smoothness=9 * strength,
    )


@every_smooth
@pytest.mark.parametrize("seed", range(3))
def test_nonconvex_proxy_with_small_eta_has_one_minimiser(solver, seed):
    rng = np.random.default_rng(seed)
    linear, centre = rng.normal(size=(2, 4))
    phi = Subproblem(waves(), linear, centre, 0.1)
    w, progress = solve(solver, phi, Residual(1e-9))
    assert progress.residual <= 1e-9
    # 1/η = 10 > 9: φ is convex, and its gradient is monotone in each coordinate.
    for j in range(4):
        grid = np.linspace(centre[j] - 2, centre[j] + 2, 400_001)
        slope = -3 * np.sin(3 * grid) + linear[j] + 10 * (grid - centre[j])
        assert w[j] == pytest.approx(np.interp(0.0, slope, grid), abs=1e-7)


@every_general
@pytest.mark.parametrize("seed", range(5))
def test_nonconvex_subproblem_ends_stationary_and_says_whether_lower(solver, seed):
    rng = np.random.default_rng(seed)
    linear, centre = rng.normal(size=(2, 4))
    phi = Subproblem(waves(), linear, centre, 1.0)
    w, progress = solve(solver, phi, Residual(1e-7))
    assert progress.residual <= 1e-7
    assert NonConvex().holds(progress) == (phi.value(w) <= phi.value(centre))


@every_general
def test_shifted_newton_steps_do_not_climb(solver):
    # On a crest: the Hessian is negative definite at the start.
    centre = np.full(4, 0.05)
    phi = Subproblem(waves(), np.zeros(4), centre, 1.0)
    assert np.linalg.eigvalsh(phi.hessian(centre))[-1] < -5
    w, progress = solve(solver, phi, Residual(1e-8))
    assert progress.residual <= 1e-8
    assert phi.value(w) < phi.value(centre) - 4
    assert np.linalg.eigvalsh(phi.hessian(w))[0] > 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_hessian_that_is_not_finite_ends_the_solve(bad):
    proxy = FunctionProxy(
        lambda w: float(w @ w) / 2, lambda w: w, hessian=lambda w: np.full((2, 2), bad)
    )
    phi = Subproblem(proxy, np.ones(2), np.ones(2), 1.0)
    with np.errstate(invalid="ignore"), pytest.raises(NonFiniteError, match="Hessian"):
        solve(Newton(), phi)


@every_smooth
def test_gradient_that_is_not_finite_ends_the_solve(solver):
    proxy = FunctionProxy(
        lambda w: math.nan, lambda w: w * math.nan, smoothness=1.0,
        hvp=lambda w, v: v, hessian=lambda w: np.eye(2),
    )  # fmt: skip
    with pytest.raises(NonFiniteError):
        solve(solver, Subproblem(proxy, np.ones(2), np.ones(2), 1.0))


class TestClosedForm:
    @pytest.mark.parametrize("library", ["numpy", "torch"])
    @pytest.mark.parametrize("eta", [1e-3, 1.0, 1e4, math.inf])
    def test_solution_of_the_linear_system(self, library, eta):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(7, 7))
        P = root @ root.T + 0.1 * np.eye(7)
        b, linear, centre, start = rng.normal(size=(4, 7))
        make = torch.tensor if library == "torch" else np.array
        phi = Subproblem(Quadratic(make(P), make(b)), make(linear), make(centre), eta)
        want = np.linalg.solve(P + np.eye(7) / eta, centre / eta - b - linear)
        for begin in (centre, start):
            w, progress = solve(ClosedForm(), phi, Residual(1e-10), start=make(begin))
            np.testing.assert_allclose(np.asarray(w), want, atol=1e-10)
            assert progress.residual <= 1e-10
            assert progress.steps in (1, 2)

    def test_ill_conditioned_answers_are_refined(self):
        rng = np.random.default_rng(0)
        rotation = np.linalg.qr(rng.normal(size=(20, 20)))[0]
        P = rotation @ np.diag(np.logspace(-2, 8, 20)) @ rotation.T
        phi = Subproblem(Quadratic((P + P.T) / 2), rng.normal(size=20), np.zeros(20), 1.0)
        once = solve(ClosedForm(), phi, Residual(1e3)).progress
        twice = solve(ClosedForm(), phi, Residual(1e-300)).progress
        assert once.steps == 1
        assert twice.residual <= once.residual

    def test_residual_is_reported_as_it_is(self):
        phi = Subproblem(Quadratic(np.diag([1.0, 1e6])), np.ones(2), np.ones(2), 3.0)
        w, progress = solve(ClosedForm(), phi, Residual(1e-300))
        assert progress.residual == np.linalg.norm(phi.gradient(w))


class TestGradientDescent:
    @pytest.mark.parametrize("gamma", [0.05, 0.4])
    def test_implicit_step_is_the_stated_formula(self, gamma):
        phi, _ = logistic_case(7)
        w, c, eta = phi.centre, phi.centre, phi.eta
        for _ in range(5):
            slope = phi.proxy.gradient(w) + phi.linear
            w = (w / gamma + c / eta - slope) / (1 / gamma + 1 / eta)
        got = solve(GradientDescent(step_size=gamma, implicit=True), phi, Steps(5)).w
        np.testing.assert_allclose(got, w, rtol=1e-12)

    def test_explicit_step_is_plain_descent(self):
        phi, _ = logistic_case(7)
        w = phi.centre
        for _ in range(5):
            w = w - 0.03 * (phi.proxy.gradient(w) + phi.linear + (w - phi.centre) / phi.eta)
        got = solve(GradientDescent(step_size=0.03), phi, Steps(5)).w
        np.testing.assert_allclose(got, w, rtol=1e-12)

    def test_default_steps_suit_the_smoothness(self):
        phi, _ = logistic_case(7)
        H = np.linalg.norm(phi.proxy.design.X, 2) ** 2 / 60 / 4
        for solver in (GradientDescent(), GradientDescent(implicit=True)):
            w = solve(solver, phi, Steps(1)).w
            want = phi.centre - phi.gradient(phi.centre) / (H + 1 / phi.eta)
            np.testing.assert_allclose(w, want, rtol=1e-6)

    def test_implicit_step_is_stable_for_any_eta(self):
        phi, _ = logistic_case(7)
        gamma = 1 / phi.proxy.smoothness
        tight = Subproblem(phi.proxy, phi.linear, phi.centre, 1e-6)
        implicit = solve(GradientDescent(step_size=gamma, implicit=True), tight, Residual(1e-8))
        assert implicit.progress.steps <= 3
        explicit = GradientDescent(step_size=gamma, max_steps=3)
        assert solve(explicit, tight).progress.residual > 1e3

    def test_linear_rate_is_that_of_the_condition_number(self):
        P = np.diag([0.0, 99.0])
        phi = Subproblem(Quadratic(P), np.array([1.0, 0.0]), np.zeros(2), 1.0)
        # κ = 100: the slow coordinate loses 1 % of its gradient a step.
        progress = solve(GradientDescent(), phi, Residual(1e-6)).progress
        assert progress.steps == math.ceil(math.log(1e-6) / math.log(0.99))


def test_nesterov_needs_the_root_of_the_steps():
    P = np.diag(np.linspace(0.0, 9999.0, 30))
    phi = Subproblem(Quadratic(P), np.ones(30), np.zeros(30), 1.0)
    fast = solve(Nesterov(), phi, Residual(1e-6)).progress.steps
    slow = solve(GradientDescent(), phi, Residual(1e-6)).progress.steps
    # κ = 10⁴: about √κ·ln(√n·κ/tol) against κ·ln(1/tol).
    assert fast < 100 * math.log(math.sqrt(30) * 1e4 / 1e-6)
    assert slow > 50 * fast


class TestLBFGS:
    def test_history_is_used(self):
        P = np.diag(np.logspace(0, 4, 40))
        phi = Subproblem(Quadratic(P), np.ones(40), np.zeros(40), 1.0)
        steps = {m: solve(LBFGS(history=m), phi, Residual(1e-6)).progress.steps for m in (1, 40)}
        assert steps[40] < steps[1] / 2

    def test_step_limit_is_kept(self):
        calls = []
        P = np.diag(np.logspace(0, 6, 60))
        proxy = FunctionProxy(lambda w: w @ P @ w / 2, lambda w: calls.append(1) or P @ w)
        phi = Subproblem(proxy, np.ones(60), np.ones(60), 1.0)
        progress = solve(LBFGS(max_steps=30), phi, Residual(1e-12)).progress
        assert progress.residual > 1e-12
        # A step takes one evaluation, rarely two or three.
        assert 30 <= len(calls) <= 60


class TestNewtonCG:
    def test_products_are_bounded(self):
        calls = []
        P = np.diag(np.logspace(0, 4, 50))
        proxy = FunctionProxy(
            lambda w: w @ P @ w / 2, lambda w: P @ w, hvp=lambda w, v: calls.append(1) or P @ v
        )
        phi = Subproblem(proxy, np.ones(50), np.ones(50), 1.0)
        solve(NewtonCG(max_steps=2, max_products=3), phi, Residual(1e-12))
        assert len(calls) <= 6

    def test_wide_problems_need_no_matrix(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(100, 2000)) / 10
        proxy = logistic_regression(X, np.arange(100) % 2)
        proxy.hessian = None
        phi = Subproblem(proxy, 0.01 * rng.normal(size=2000), np.zeros(2000), 5.0)
        progress = solve(NewtonCG(), phi, Residual(1e-9)).progress
        assert progress.residual <= 1e-9
        assert progress.steps <= 12


def test_newton_converges_quadratically():
    phi, _ = logistic_case(8)
    residuals = [solve(Newton(max_steps=t), phi, Residual(1e-300)).progress.residual
                 for t in range(1, 8)]  # fmt: skip
    small = [r for r in residuals if 1e-13 < r < 1e-2]
    assert len(small) >= 2
    for before, after in itertools.pairwise(small):
        assert after < 50 * before**2
