"""Losses made of others, against their definition and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import (
    L1,
    FunctionObjective,
    FunctionProxy,
    Problem,
    ProxyProx,
    Quadratic,
    logistic_regression,
    minimize,
    poisson_regression,
)
from proxyprox.problems import MixedProxy, Regularized, ScaledProxy, Zero, regularized
from proxyprox.problems.combination import PairedLoss, Tilted

A, B = np.diag([2.0, 0.5]), np.array([[1.0, 0.2], [0.2, 3.0]])
W, V = np.array([1.0, -2.0]), np.array([0.3, 0.7])


def test_everything_is_summed() -> None:
    one, two = pp.Quadratic(A, b=np.ones(2)), pp.Quadratic(B)
    mixed = MixedProxy([one, two], [0.5, 2.0])
    whole = pp.Quadratic(0.5 * A + 2 * B, b=0.5 * np.ones(2))
    assert mixed.value(W) == pytest.approx(whole.value(W))
    np.testing.assert_allclose(mixed.gradient(W), whole.gradient(W))
    np.testing.assert_allclose(mixed.hvp(W, V), whole.hvp(W, V))
    np.testing.assert_allclose(mixed.hessian(W), whole.hessian(W))
    assert mixed.smoothness >= whole.smoothness
    assert mixed.strong_convexity <= whole.strong_convexity
    assert mixed.dim == 2


def test_capabilities_are_those_that_all_share() -> None:
    poor = pp.FunctionProxy(lambda w: 0.0, lambda w: 0 * w)
    mixed = MixedProxy([pp.Quadratic(A), poor], [1.0, 1.0])
    assert mixed.hvp is None
    assert mixed.hessian is None
    assert mixed.smoothness is None


def test_weightless_proxies_are_never_asked() -> None:
    def refuse(w: object) -> float:
        raise AssertionError

    mixed = MixedProxy([pp.FunctionProxy(refuse, refuse), pp.Quadratic(A)], [0.0, 1.0])
    np.testing.assert_allclose(mixed.gradient(W), A @ W)


def test_sampled_gradients_draw_from_each() -> None:
    rng = np.random.default_rng(0)
    parts = [
        pp.linear_regression(rng.standard_normal((20, 2)), rng.standard_normal(20), batch_size=4)
        for _ in range(2)
    ]
    mixed = MixedProxy(parts, [1.0, 3.0])
    batch = mixed.sample(rng)
    expected = parts[0].gradient(W, batch[0]) + 3 * parts[1].gradient(W, batch[1])
    np.testing.assert_allclose(mixed.gradient(W, batch), expected)


def test_a_mixture_can_be_minimised_with() -> None:
    target = pp.Quadratic(A + B, b=np.ones(2))
    mixed = MixedProxy([pp.Quadratic(A), pp.Quadratic(B)], [1.0, 1.0])
    result = pp.minimize(pp.Problem(target, mixed), method=pp.ProxyProx(eta=1e6), steps=3)
    np.testing.assert_allclose(result.w, target.minimiser(), atol=1e-4)


@pytest.mark.parametrize(
    ("weights", "words"),
    [([1.0], "one for each"), ([0.0, 0.0], "all zero"), ([-1.0, 1.0], "zero")],
)
def test_weights_are_checked(weights: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MixedProxy([pp.Quadratic(A), pp.Quadratic(B)], weights)


def test_sizes_must_agree() -> None:
    with pytest.raises(ValueError, match="equal numbers"):
        MixedProxy([pp.Quadratic(A), pp.Quadratic(np.eye(3))], [1.0, 1.0])


P = np.array([[2.0, 0.5], [0.5, 1.0]])
W, V = np.array([1.0, -2.0]), np.array([0.3, 0.7])


def test_everything_is_scaled() -> None:
    plain = pp.Quadratic(P, b=np.ones(2))
    scaled = ScaledProxy(plain, 2.5)
    assert scaled.value(W) == pytest.approx(2.5 * plain.value(W))
    np.testing.assert_allclose(scaled.gradient(W), 2.5 * plain.gradient(W))
    np.testing.assert_allclose(scaled.hvp(W, V), 2.5 * plain.hvp(W, V))
    np.testing.assert_allclose(scaled.hessian(W), 2.5 * P)
    np.testing.assert_allclose(
        scaled.solve_shifted(V, 0.7), np.linalg.solve(2.5 * P + np.eye(2) / 0.7, V)
    )
    assert scaled.smoothness == pytest.approx(2.5 * plain.smoothness)
    assert scaled.strong_convexity == pytest.approx(2.5 * plain.strong_convexity)
    assert scaled.dim == 2


def test_what_the_proxy_lacks_stays_lacking() -> None:
    scaled = ScaledProxy(pp.FunctionProxy(lambda w: 0.0, lambda w: 0 * w), 3.0)
    assert scaled.hvp is None
    assert scaled.hessian is None
    assert scaled.solve_shifted is None
    assert scaled.smoothness is None
    assert not hasattr(scaled, "dim")


def test_sampled_gradients_are_scaled() -> None:
    rng = np.random.default_rng(0)
    plain = pp.linear_regression(rng.standard_normal((20, 2)), rng.standard_normal(20))
    scaled = ScaledProxy(plain, 0.5)
    rows = np.array([1, 3])
    np.testing.assert_allclose(scaled.gradient(W, rows), 0.5 * plain.gradient(W, rows))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_only_positive_scales(scale: float) -> None:
    with pytest.raises(ValueError, match="scale"):
        ScaledProxy(pp.Quadratic(P), scale)


def test_a_run_with_the_right_scale_is_the_run_with_the_right_proxy() -> None:
    target = pp.Quadratic(P, b=np.ones(2), noise=0.1)
    options = {"method": pp.ProxyProx(eta=3.0), "steps": 20, "rng": 0}
    one = pp.minimize(pp.Problem(target, pp.Quadratic(P)), **options)
    two = pp.minimize(pp.Problem(target, ScaledProxy(pp.Quadratic(P / 100), 100.0)), **options)
    np.testing.assert_allclose(one.w, two.w, rtol=1e-9)


@pytest.fixture
def paired():
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(40, 3)), rng.normal(size=(90, 3))
    y, f, F = (rng.integers(2, size=n) for n in (40, 40, 90))
    parts = (logistic_regression(X, y), logistic_regression(X, f), logistic_regression(more, F))
    return PairedLoss(*parts, power=0.4)


def test_derivatives(paired):
    w, v, h = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0]), 1e-5
    slope = (paired.value(w + h * v) - paired.value(w - h * v)) / (2 * h)
    assert slope == pytest.approx(paired.gradient(w) @ v, rel=1e-6)
    bend = (paired.gradient(w + h * v) - paired.gradient(w - h * v)) / (2 * h)
    np.testing.assert_allclose(bend, paired.hvp(w, v), rtol=1e-6)
    np.testing.assert_allclose(paired.hessian(w) @ v, paired.hvp(w, v))


def test_batches_pair_label_and_teacher(paired):
    w = np.zeros(3)
    batch = np.array([0, 3, 3])
    target, same = paired.labels.gradient(w, batch), paired.same.gradient(w, batch)
    expected = target - 0.4 * (same - paired.all.gradient(w))
    np.testing.assert_allclose(paired.gradient(w, batch), expected)
    assert paired.samples(batch) == 3
    assert paired.samples(paired.everything()) == 40
    assert paired.sample(np.random.default_rng(0)) is None


def test_tilted_adds_a_line():
    flat = Quadratic(np.diag([1.0, 4.0]))
    tilted = Tilted(flat, np.array([1.0, -2.0]))
    w = np.array([0.5, 0.25])
    assert tilted.value(w) == pytest.approx(flat.value(w) + 0.0)
    np.testing.assert_allclose(tilted.gradient(w), flat.gradient(w) + tilted.tilt)
    np.testing.assert_allclose(tilted.hessian(w), flat.hessian(w))
    with pytest.raises(ValueError, match="of length 2"):
        Tilted(flat, np.zeros(3))


RNG = np.random.default_rng(0)
INPUTS, LABELS = RNG.normal(size=(12, 3)), np.arange(12) % 2
CENTRE, POINT, DIRECTION = RNG.normal(size=(3, 3))
MU = 0.7


@pytest.fixture
def logistic():
    return logistic_regression(INPUTS, LABELS, batch_size=4)


def added(w):
    return MU / 2 * np.sum((w - CENTRE) ** 2)


def differences(function, w, h=1e-6):
    return np.array([(function(w + h * e) - function(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def test_every_capability_gains_the_quadratic(logistic):
    regular = Regularized(logistic, MU, CENTRE)
    assert regular.value(POINT) == pytest.approx(logistic.value(POINT) + added(POINT), rel=1e-14)
    np.testing.assert_allclose(
        regular.gradient(POINT), differences(regular.value, POINT), atol=1e-9
    )
    np.testing.assert_allclose(
        regular.hessian(POINT), differences(regular.gradient, POINT), atol=1e-9
    )
    np.testing.assert_allclose(
        regular.hvp(POINT, DIRECTION), regular.hessian(POINT) @ DIRECTION, atol=1e-14
    )
    assert regular.smoothness == logistic.smoothness + MU
    assert regular.strong_convexity == MU


def test_sampled_gradients_are_regularised_too(logistic):
    regular = Regularized(logistic, MU, CENTRE)
    batch = regular.sample(np.random.default_rng(3))
    assert len(batch) == 4
    want = logistic.gradient(POINT, batch) + MU * (POINT - CENTRE)
    np.testing.assert_allclose(regular.gradient(POINT, batch), want, rtol=1e-14)
    observed = regular.gradient_from(POINT, batch, LABELS[batch])
    np.testing.assert_allclose(observed, want, rtol=1e-14)
    assert regular.samples(batch) == 4
    assert regular.everything() is None


@pytest.mark.parametrize("mu", [0.0, 0.7])
@pytest.mark.parametrize("eta", [0.3, math.inf])
def test_shifted_solve_inverts_the_explicit_matrix(mu, eta):
    P = np.diag([1.0, 2.0, 5.0]) + 0.1
    solved = Regularized(Quadratic(P), mu, CENTRE).solve_shifted(DIRECTION, eta)
    np.testing.assert_allclose((P + (mu + 1 / eta) * np.eye(3)) @ solved, DIRECTION, atol=1e-13)


def test_zero_proxy_keeps_its_closed_form():
    regular = Regularized(Zero(), MU, CENTRE)
    np.testing.assert_allclose(
        regular.solve_shifted(DIRECTION, 0.5), DIRECTION / (MU + 2), rtol=1e-14
    )
    np.testing.assert_allclose(regular.gradient(POINT), MU * (POINT - CENTRE), rtol=1e-14)


def test_what_the_loss_lacks_stays_missing():
    bare = Regularized(FunctionProxy(lambda w: float(w @ w), lambda w: 2 * w), MU, CENTRE)
    assert bare.hvp is bare.hessian is bare.solve_shifted is bare.sample is None
    assert bare.smoothness is None
    gradients_only = Regularized(FunctionObjective(lambda w: w), MU, CENTRE)
    assert gradients_only.value is None
    with pytest.raises(TypeError, match="proxy must be"):
        Problem(FunctionObjective(lambda w: w), gradients_only)
    assert Regularized(poisson_regression(INPUTS, LABELS), MU, CENTRE).smoothness == math.inf


def test_privacy_and_cost_are_still_charged():
    private = FunctionObjective(lambda w: w, cost=lambda batch: 2.5)
    private.epsilon = lambda gradients: 0.1 * gradients
    problem = regularized(Problem(private), MU, CENTRE)
    ledger = minimize(problem, method=ProxyProx(eta=0.1), steps=3).ledger
    assert ledger.cost == 7.5
    assert ledger.epsilon == pytest.approx(0.3)


def test_both_losses_are_regularised_and_their_difference_is_not(logistic):
    problem = Problem(logistic, logistic.label_free(), L1(0.1))
    made = regularized(problem, MU, CENTRE)
    assert made.penalty is problem.penalty
    np.testing.assert_allclose(
        made.objective.gradient(POINT) - made.proxy.gradient(POINT),
        logistic.gradient(POINT) - problem.proxy.gradient(POINT),
        atol=1e-15,
    )
    assert made.objective.strong_convexity == made.proxy.strong_convexity == MU


def test_solution_solves_the_regularised_equation(logistic):
    problem = regularized(
        Problem(logistic.with_batch_size(None), logistic.label_free()), MU, CENTRE
    )
    w = minimize(problem, method=ProxyProx(eta=100.0), steps=60).w
    np.testing.assert_allclose(logistic.gradient(w) + MU * (w - CENTRE), 0.0, atol=1e-10)


def test_run_starts_in_the_library_of_the_data():
    torch = pytest.importorskip("torch")
    tensor = logistic_regression(torch.tensor(INPUTS, dtype=torch.float32), LABELS)
    problem = Problem(tensor, tensor.label_free())
    centre = torch.ones(3, dtype=torch.float32)
    w = minimize(regularized(problem, MU, centre), method=ProxyProx(eta=1.0), steps=2).w
    assert isinstance(w, torch.Tensor)
    assert w.dtype == torch.float32


def test_centre_must_have_the_size_of_the_loss(logistic):
    with pytest.raises(ValueError, match=r"centre must be .* of length 3"):
        Regularized(logistic, MU, np.zeros(1))
    with pytest.raises(ValueError, match="mu must be a finite number"):
        Regularized(logistic, -1.0, CENTRE)
