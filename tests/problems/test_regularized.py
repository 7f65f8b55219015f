import math

import numpy as np
import pytest

from proxyprox import (
    L1,
    FunctionObjective,
    FunctionProxy,
    Problem,
    ProxyProx,
    Quadratic,
    Zero,
    logistic_regression,
    minimize,
    poisson_regression,
    regularized,
)
from proxyprox.problems import Regularized

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), np.arange(12) % 2
CENTRE, W, V = RNG.normal(size=(3, 3))
MU = 0.7


@pytest.fixture
def loss():
    return logistic_regression(X, Y, batch_size=4)


def added(w):
    return MU / 2 * np.sum((w - CENTRE) ** 2)


def differences(function, w, h=1e-6):
    return np.array([(function(w + h * e) - function(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def test_every_capability_gains_the_quadratic(loss):
    regular = Regularized(loss, MU, CENTRE)
    assert regular.value(W) == pytest.approx(loss.value(W) + added(W), rel=1e-14)
    np.testing.assert_allclose(regular.gradient(W), differences(regular.value, W), atol=1e-9)
    np.testing.assert_allclose(regular.hessian(W), differences(regular.gradient, W), atol=1e-9)
    np.testing.assert_allclose(regular.hvp(W, V), regular.hessian(W) @ V, atol=1e-14)
    assert regular.smoothness == loss.smoothness + MU
    assert regular.strong_convexity == MU


def test_sampled_gradients_are_regularised_too(loss):
    regular = Regularized(loss, MU, CENTRE)
    batch = regular.sample(np.random.default_rng(3))
    assert len(batch) == 4
    want = loss.gradient(W, batch) + MU * (W - CENTRE)
    np.testing.assert_allclose(regular.gradient(W, batch), want, rtol=1e-14)
    observed = regular.gradient_from(W, batch, Y[batch])
    np.testing.assert_allclose(observed, want, rtol=1e-14)
    assert regular.samples(batch) == 4
    assert regular.everything() is None


@pytest.mark.parametrize("mu", [0.0, 0.7])
@pytest.mark.parametrize("eta", [0.3, math.inf])
def test_shifted_solve_inverts_the_explicit_matrix(mu, eta):
    P = np.diag([1.0, 2.0, 5.0]) + 0.1
    solved = Regularized(Quadratic(P), mu, CENTRE).solve_shifted(V, eta)
    np.testing.assert_allclose((P + (mu + 1 / eta) * np.eye(3)) @ solved, V, atol=1e-13)


def test_zero_proxy_keeps_its_closed_form():
    regular = Regularized(Zero(), MU, CENTRE)
    np.testing.assert_allclose(regular.solve_shifted(V, 0.5), V / (MU + 2), rtol=1e-14)
    np.testing.assert_allclose(regular.gradient(W), MU * (W - CENTRE), rtol=1e-14)


def test_what_the_loss_lacks_stays_missing():
    bare = Regularized(FunctionProxy(lambda w: float(w @ w), lambda w: 2 * w), MU, CENTRE)
    assert bare.hvp is bare.hessian is bare.solve_shifted is bare.sample is None
    assert bare.smoothness is None
    gradients_only = Regularized(FunctionObjective(lambda w: w), MU, CENTRE)
    assert gradients_only.value is None
    with pytest.raises(TypeError, match="proxy must be"):
        Problem(FunctionObjective(lambda w: w), gradients_only)
    assert Regularized(poisson_regression(X, Y), MU, CENTRE).smoothness == math.inf


def test_privacy_and_cost_are_still_charged():
    private = FunctionObjective(lambda w: w, cost=lambda batch: 2.5)
    private.epsilon = lambda gradients: 0.1 * gradients
    problem = regularized(Problem(private), MU, CENTRE)
    ledger = minimize(problem, method=ProxyProx(eta=0.1), steps=3).ledger
    assert ledger.cost == 7.5
    assert ledger.epsilon == pytest.approx(0.3)


def test_both_losses_are_regularised_and_their_difference_is_not(loss):
    problem = Problem(loss, loss.label_free(), L1(0.1))
    made = regularized(problem, MU, CENTRE)
    assert made.penalty is problem.penalty
    np.testing.assert_allclose(
        made.objective.gradient(W) - made.proxy.gradient(W),
        loss.gradient(W) - problem.proxy.gradient(W),
        atol=1e-15,
    )
    assert made.objective.strong_convexity == made.proxy.strong_convexity == MU


def test_solution_solves_the_regularised_equation(loss):
    problem = regularized(Problem(loss.with_batch_size(None), loss.label_free()), MU, CENTRE)
    w = minimize(problem, method=ProxyProx(eta=100.0), steps=60).w
    np.testing.assert_allclose(loss.gradient(w) + MU * (w - CENTRE), 0.0, atol=1e-10)


def test_run_starts_in_the_library_of_the_data():
    torch = pytest.importorskip("torch")
    tensor = logistic_regression(torch.tensor(X, dtype=torch.float32), Y)
    problem = Problem(tensor, tensor.label_free())
    centre = torch.ones(3, dtype=torch.float32)
    w = minimize(regularized(problem, MU, centre), method=ProxyProx(eta=1.0), steps=2).w
    assert isinstance(w, torch.Tensor)
    assert w.dtype == torch.float32


def test_centre_must_have_the_size_of_the_loss(loss):
    with pytest.raises(ValueError, match="centre must be of length 3"):
        Regularized(loss, MU, np.zeros(1))
    with pytest.raises(ValueError, match="mu must be a finite number"):
        Regularized(loss, -1.0, CENTRE)
