"""Every solver reaches the minimiser, keeps its limits, and Auto picks the one that suits."""

import collections

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import rosen, rosen_der, rosen_hess, rosen_hess_prod

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


# Values, gradients, and Hessians or products that each solver may take on `HARD`.
COSTS = {
    "LBFGS": [(46, 46, 0), (10, 9, 0), (49, 49, 0)],
    "Newton": [(0, 31, 30), (8, 11, 10), (21, 30, 26)],
    "NewtonCG": [(0, 31, 69), (7, 7, 5), (17, 22, 60)],
    "ProximalGradient": [(593, 307, 0), (0, 14, 0), (941, 455, 0)],
    "QuasiNewton": [(32, 40, 18), (8, 13, 14), (77, 78, 92)],
}
RNG = np.random.default_rng(0)
POISSON = poisson_regression(RNG.normal(size=(50, 3)), RNG.poisson(1, size=50))
CALLS = ("value", "gradient", "hvp", "hessian")
HARD = [
    # From far away, from a crest with a negative definite Hessian, along a bent valley.
    (FunctionProxy(**{name: getattr(POISSON, name) for name in CALLS}), 8 * np.ones(3), 10.0),
    (waves(), np.full(4, 0.05), 1.0),
    (FunctionProxy(rosen, rosen_der, hvp=rosen_hess_prod, hessian=rosen_hess),
     np.array([-1.2, 1.0, -1.2, 1.0]), np.inf),
]  # fmt: skip


@every_general
@pytest.mark.parametrize("case", range(3))
def test_hard_subproblems_cost_no_more_than_they_did(solver, case, solve):
    (proxy, centre, eta), calls = HARD[case], collections.Counter()

    def counted(name):
        return lambda *at: calls.update([name]) or getattr(proxy, name)(*at)

    counting = FunctionProxy(**{name: counted(name) for name in CALLS}, smoothness=proxy.smoothness)
    phi = Subproblem(counting, np.zeros(len(centre)), centre, eta)
    with np.errstate(over="ignore", invalid="ignore"):
        w, progress = solve(solver, phi)
    assert progress.residual <= 1e-8
    np.testing.assert_allclose(proxy.gradient(w) + (w - centre) / eta, 0, atol=1.1e-8)
    assert np.linalg.eigvalsh(proxy.hessian(w) + np.eye(len(w)) / eta)[0] > 0
    spent = calls["value"], calls["gradient"], calls["hvp"] + calls["hessian"]
    allowed = COSTS[type(solver).__name__][case]
    assert all(took <= most for took, most in zip(spent, allowed, strict=True)), spent


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
    assert needs_of(GradientDescent(step_size=0.1)) == ("gradient",)


def test_history_is_used(solve):
    P = np.diag(np.logspace(0, 4, 40))
    phi = Subproblem(Quadratic(P), np.ones(40), np.zeros(40), 1.0)
    steps = {m: solve(LBFGS(history=m), phi, Residual(1e-6)).progress.steps for m in (1, 40)}
    assert steps[40] < steps[1] / 2
