"""Every solver reaches the minimiser, keeps its limits, and Auto picks the one that suits."""

import numpy as np
import pytest
import scipy.sparse

from proxyprox import L1, LBFGS, FunctionProxy, Quadratic, logistic_regression, poisson_regression
from proxyprox.inner import (
    Auto,
    ClosedForm,
    GradientDescent,
    Newton,
    NewtonCG,
    ProximalGradient,
    QuasiNewton,
    Subproblem,
)
from proxyprox.inner.base import SolverPolicy, needs_of
from proxyprox.problems import Zero
from proxyprox.stopping import NonConvex, Residual

GENERAL = [LBFGS(), Newton(), NewtonCG(), ProximalGradient(), QuasiNewton()]
SMOOTH = [*GENERAL, GradientDescent()]
every_smooth = pytest.mark.parametrize("solver", SMOOTH, ids=lambda s: repr(s).split("(")[0])
every_general = pytest.mark.parametrize("solver", GENERAL, ids=lambda s: type(s).__name__)


@every_smooth
@pytest.mark.parametrize("seed", range(2))
def test_logistic_subproblems_are_minimised(solver, seed, solve, logistic_case):
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
def test_float32_stays_float32_and_reaches_its_accuracy(solver, solve, logistic_case):
    phi, exact = logistic_case(4)
    make = pytest.importorskip("torch").tensor
    X, linear, centre = (
        make(np.asarray(x, dtype=np.float32)) for x in (phi.proxy.design.X, phi.linear, phi.centre)
    )
    small = Subproblem(logistic_regression(X, phi.proxy.targets), linear, centre, phi.eta)
    w, progress = solve(solver, small, Residual(2e-6))
    assert w.dtype == X.dtype
    assert progress.residual <= 2e-6
    assert np.linalg.norm(np.asarray(w, dtype=np.float64) - exact) <= phi.eta * 1e-5


@pytest.mark.parametrize(
    "solver",
    [type(s)(max_steps=2) for s in GENERAL] + [GradientDescent(max_steps=2)],
    ids=lambda s: type(s).__name__,
)
def test_giving_up_is_honest(solver, solve, logistic_case):
    phi, _ = logistic_case(0)
    stop = Residual(1e-14)
    w, progress = solve(solver, phi, stop)
    assert progress.steps <= 2
    assert not stop.holds(progress)
    assert progress.residual > 1e-14
    assert progress.residual == pytest.approx(np.linalg.norm(phi.gradient(w)), rel=1e-9)


@every_smooth
def test_solved_start_is_returned_untouched(solver, solve, logistic_case):
    phi, _ = logistic_case(1)
    start = solve(Newton(), phi, Residual(1e-10)).w
    w, progress = solve(solver, phi, Residual(1e-9), start=start)
    assert w is start
    assert progress.steps == 0


@every_smooth
def test_accuracy_at_the_level_of_rounding_ends(solver, solve, logistic_case):
    phi, exact = logistic_case(3)
    capped = type(solver)(max_steps=3000) if not isinstance(solver, Newton) else solver
    w, _ = solve(capped, phi, Residual(1e-300))
    assert np.linalg.norm(w - exact) <= 1e-9


@every_general
def test_poisson_from_far_away(solver, solve):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    proxy = poisson_regression(X, rng.poisson(1, size=50))
    centre = 8 * np.ones(3)
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


@every_general
@pytest.mark.parametrize("seed", range(3))
def test_nonconvex_subproblem_ends_stationary_and_says_whether_lower(solver, seed, solve):
    rng = np.random.default_rng(seed)
    linear, centre = rng.normal(size=(2, 4))
    phi = Subproblem(waves(), linear, centre, 1.0)
    w, progress = solve(solver, phi, Residual(1e-7))
    assert progress.residual <= 1e-7
    assert NonConvex().holds(progress) == (phi.value(w) <= phi.value(centre))


@every_general
def test_shifted_newton_steps_do_not_climb(solver, solve):
    # On a crest: the Hessian is negative definite at the start.
    centre = np.full(4, 0.05)
    phi = Subproblem(waves(), np.zeros(4), centre, 1.0)
    assert np.linalg.eigvalsh(phi.hessian(centre))[-1] < -5
    w, progress = solve(solver, phi, Residual(1e-8))
    assert progress.residual <= 1e-8
    assert phi.value(w) < phi.value(centre) - 4
    assert np.linalg.eigvalsh(phi.hessian(w))[0] > 0


GLM = logistic_regression(np.eye(3), [0, 1, 0])
PLAIN = FunctionProxy(lambda w: 0.0, lambda w: w)
CURVED = FunctionProxy(lambda w: 0.0, lambda w: w, hvp=lambda w, v: v, hessian=np.diag)
# Few non-zeros in many columns, and a long table of more than SolverPolicy.dense columns.
WIDE = logistic_regression(scipy.sparse.eye_array(2000, format="csr"))
LONG = logistic_regression(np.zeros((5000, 900)))


@pytest.mark.parametrize(
    ("proxy", "penalty", "size", "solver", "reason"),
    [
        (GLM, None, 3, QuasiNewton, "Hessian and 3 parameters"),
        (CURVED, None, SolverPolicy.dense, QuasiNewton, "Hessian"),
        (CURVED, None, SolverPolicy.dense + 1, NewtonCG, "more than"),
        (WIDE, None, 2000, NewtonCG, "Hessian-vector products"),
        (LONG, None, 900, QuasiNewton, "to keep it takes"),
        (Quadratic(np.eye(2)), None, 2, ClosedForm, "closed form"),
        (Zero(), None, 10**6, ClosedForm, "closed form"),
        (PLAIN, None, 3, LBFGS, "values and gradients only"),
        (GLM, L1(0.1), 3, ProximalGradient, "non-smooth"),
        (Zero(), L1(0.1), 3, ProximalGradient, "non-smooth"),
    ],
)
def test_choice_suits_the_proxy_and_says_why(proxy, penalty, size, solver, reason):
    choice = Auto().choose(proxy, penalty, size)
    assert isinstance(choice.solver, solver)
    assert reason in choice.reason
    assert all(getattr(proxy, need, None) is not None for need in needs_of(choice.solver))


def test_history_is_used(solve):
    P = np.diag(np.logspace(0, 4, 40))
    phi = Subproblem(Quadratic(P), np.ones(40), np.zeros(40), 1.0)
    steps = {m: solve(LBFGS(history=m), phi, Residual(1e-6)).progress.steps for m in (1, 40)}
    assert steps[40] < steps[1] / 2
