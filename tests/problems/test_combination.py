"""Losses made of others, against their definition and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import L1, FunctionObjective, FunctionProxy, Problem, ProxyProx, Quadratic, minimize
from proxyprox.problems import MixedProxy, Regularized, ScaledProxy, Zero, regularized
from proxyprox.problems.combination import PairedLoss, Tilted

A, B = np.diag([2.0, 0.5, 1.0]), np.diag([1.0, 3.0, 2.0]) + 0.2
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), np.arange(12) % 2
CENTRE, W, V = RNG.normal(size=(3, 3))
MU = 0.7


@pytest.fixture
def logistic():
    return pp.logistic_regression(X, Y, batch_size=4)


@pytest.fixture
def paired(logistic):
    more = RNG.normal(size=(30, 3))
    teacher = pp.logistic_regression(X, 1 - Y), pp.logistic_regression(more, np.arange(30) % 2)
    return PairedLoss(logistic, *teacher, power=0.4)


def differences(function, w, h=1e-6):
    return np.array([(function(w + h * e) - function(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def test_sums_scales_and_lines_are_the_quadratics_they_stand_for():
    one, two, line = Quadratic(A, b=np.ones(3)), Quadratic(B), np.array([1.0, -2.0, 0.5])
    for made, whole in (
        (MixedProxy([one, two], [0.5, 2.0]), Quadratic(0.5 * A + 2 * B, b=0.5 * np.ones(3))),
        (ScaledProxy(one, 2.5), Quadratic(2.5 * A, b=2.5 * np.ones(3))),
        (Tilted(one, line), Quadratic(A, b=1 + line)),
        (Regularized(two, MU, CENTRE), Quadratic(B + MU * np.eye(3), b=-MU * CENTRE)),
    ):
        rest = made.value(np.zeros(3))
        assert made.value(W) == pytest.approx(whole.value(W) + rest)
        np.testing.assert_allclose(made.gradient(W), whole.gradient(W))
        np.testing.assert_allclose(made.hvp(W, V), whole.hvp(W, V))
        np.testing.assert_allclose(made.hessian(W), whole.hessian(W))
        assert made.smoothness >= whole.smoothness * (1 - 1e-12)
        assert made.strong_convexity <= whole.strong_convexity * (1 + 1e-12)
        assert made.dim == 3
        for eta in (0.3, math.inf) if made.solve_shifted else ():
            want = np.linalg.solve(whole.P + np.eye(3) / eta, V)
            np.testing.assert_allclose(made.solve_shifted(V, eta), want)
    zero = Regularized(Zero(), MU, CENTRE)
    np.testing.assert_allclose(zero.solve_shifted(V, 0.5), V / (MU + 2), rtol=1e-14)


def test_derivatives_of_what_is_no_quadratic(logistic, paired):
    for loss in (paired, Regularized(logistic, MU, CENTRE)):
        np.testing.assert_allclose(loss.gradient(W), differences(loss.value, W), atol=1e-8)
        np.testing.assert_allclose(loss.hessian(W), differences(loss.gradient, W), atol=1e-8)
        np.testing.assert_allclose(loss.hvp(W, V), loss.hessian(W) @ V, atol=1e-13)
    assert loss.smoothness == logistic.smoothness + MU
    assert loss.strong_convexity == MU


def test_batches_are_those_of_the_parts(logistic, paired):
    batch = np.array([0, 3, 3])
    own, same = logistic.gradient(W, batch), paired.same.gradient(W, batch)
    regular = Regularized(logistic, MU, CENTRE)
    for loss, want in (
        (ScaledProxy(logistic, 0.5), own / 2),
        (paired, own - 0.4 * (same - paired.all.gradient(W))),
        (regular, own + MU * (W - CENTRE)),
    ):
        np.testing.assert_allclose(loss.gradient(W, batch), want, rtol=1e-13)
        np.testing.assert_allclose(loss.gradient_from(W, batch, Y[batch]), want, rtol=1e-13)
        assert loss.samples(batch) == 3
        assert loss.samples(loss.everything()) == 12
        assert len(loss.sample(np.random.default_rng(3))) == 4
    parts = [logistic, logistic.with_batch_size(2)]
    mixed = MixedProxy(parts, [1.0, 3.0])
    one, two = mixed.sample(np.random.default_rng(0))
    want = parts[0].gradient(W, one) + 3 * parts[1].gradient(W, two)
    np.testing.assert_allclose(mixed.gradient(W, (one, two)), want)


def test_capabilities_are_those_that_all_parts_share():
    poor = FunctionProxy(lambda w: 0.0, lambda w: 0 * w)
    for made in (
        MixedProxy([Quadratic(A), poor], [1.0, 1.0]),
        ScaledProxy(poor, 3.0),
        Regularized(poor, MU, CENTRE),
    ):
        lacking = made.hvp, made.hessian, made.solve_shifted, made.smoothness, made.sample
        assert lacking == (None,) * 5
    assert not hasattr(ScaledProxy(poor, 3.0), "dim")
    gradients_only = Regularized(FunctionObjective(lambda w: w), MU, CENTRE)
    assert gradients_only.value is None
    with pytest.raises(TypeError, match="proxy"):
        Problem(FunctionObjective(lambda w: w), gradients_only)
    assert Regularized(pp.poisson_regression(X, Y), MU, CENTRE).smoothness == math.inf

    def refuse(w):
        raise AssertionError

    weightless = MixedProxy([FunctionProxy(refuse, refuse), Quadratic(A)], [0.0, 1.0])
    np.testing.assert_allclose(weightless.gradient(W), A @ W)


def test_arguments_are_checked(logistic):
    two = [Quadratic(A), Quadratic(B)]
    for name, make in (
        ("weights", lambda: MixedProxy(two, [1.0])),
        ("weights", lambda: MixedProxy(two, [0.0, 0.0])),
        ("weights", lambda: MixedProxy(two, [-1.0, 1.0])),
        ("proxies", lambda: MixedProxy([two[0], Quadratic(np.eye(2))], [1.0, 1.0])),
        ("scale", lambda: ScaledProxy(two[0], 0.0)),
        ("scale", lambda: ScaledProxy(two[0], -1.0)),
        ("scale", lambda: ScaledProxy(two[0], np.nan)),
        ("tilt", lambda: Tilted(two[0], np.zeros(2))),
        ("centre", lambda: Regularized(logistic, MU, np.zeros(1))),
        ("mu", lambda: Regularized(logistic, -1.0, CENTRE)),
    ):
        with pytest.raises(ValueError, match=name):
            make()


def test_runs_with_combined_losses(logistic):
    target = Quadratic(A + B, b=np.ones(3), noise=0.1)
    options = {"method": ProxyProx(eta=3.0), "steps": 20, "rng": 0}
    runs = [
        minimize(Problem(target, proxy), **options).w
        for proxy in (
            Quadratic(A + B),
            ScaledProxy(Quadratic((A + B) / 100), 100.0),
            MixedProxy([Quadratic(A), Quadratic(B)], [1.0, 1.0]),
        )
    ]
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-9)
    np.testing.assert_allclose(runs[2], runs[0], rtol=1e-6)
    problem = Problem(logistic.with_batch_size(None), logistic.label_free(), L1(0.1))
    made = regularized(problem, MU, CENTRE)
    assert made.penalty is problem.penalty
    gaps = [each.objective.gradient(W) - each.proxy.gradient(W) for each in (made, problem)]
    np.testing.assert_allclose(*gaps, atol=1e-15)
    smooth = regularized(Problem(problem.objective, problem.proxy), MU, CENTRE)
    w = minimize(smooth, method=ProxyProx(eta=100.0), steps=60).w
    np.testing.assert_allclose(logistic.gradient(w) + MU * (w - CENTRE), 0.0, atol=1e-10)


def test_privacy_and_cost_are_still_charged():
    private = FunctionObjective(lambda w: w, cost=lambda batch: 2.5)
    private.epsilon = lambda gradients: 0.1 * gradients
    problem = regularized(Problem(private), MU, CENTRE)
    ledger = minimize(problem, method=ProxyProx(eta=0.1), steps=3).ledger
    assert (ledger.cost, ledger.epsilon) == (7.5, pytest.approx(0.3))


def test_run_starts_in_the_library_of_the_data():
    torch = pytest.importorskip("torch")
    tensor = pp.logistic_regression(torch.tensor(X, dtype=torch.float32), Y)
    problem = regularized(Problem(tensor, tensor.label_free()), MU, torch.ones(3))
    w = minimize(problem, method=ProxyProx(eta=1.0), steps=2).w
    assert isinstance(w, torch.Tensor)
    assert w.dtype == torch.float32
