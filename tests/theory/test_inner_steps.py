import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import inner_steps_gradient_descent, inner_steps_nesterov, inner_steps_sgd

SOLVERS = [inner_steps_gradient_descent, inner_steps_nesterov]


def gradient_descent(gradient, start, smoothness, convexity, steps):
    w = start
    for _ in range(steps):
        w = w - gradient(w) / smoothness
    return w


def nesterov(gradient, start, smoothness, convexity, steps):
    ratio = math.sqrt(smoothness / convexity)
    momentum = (ratio - 1) / (ratio + 1)
    w = ahead = start
    for _ in range(steps):
        new = ahead - gradient(ahead) / smoothness
        ahead = new + momentum * (new - w)
        w = new
    return w


@pytest.mark.parametrize(
    ("count", "solver"),
    [(inner_steps_gradient_descent, gradient_descent), (inner_steps_nesterov, nesterov)],
)
@given(
    seed=st.integers(0, 2**32 - 1),
    H=st.floats(0.0, 300.0),
    eta=st.floats(0.05, 5.0),
    mu=st.floats(1e-4, 1.0),
)
def test_count_meets_the_accuracy_on_a_subproblem(count, solver, seed, H, eta, mu):
    # A softplus in each coordinate: curvature between 0 and H, not constant.
    rng = np.random.default_rng(seed)
    curvature = rng.uniform(0, 4 * H, 5)
    curvature[0] = 4 * H
    shift, linear, centre = rng.normal(size=(3, 5))

    def gradient(w):
        sigmoid = (1 + np.tanh((w - shift) / 2)) / 2
        return curvature * sigmoid + linear + (w - centre) / eta

    w = solver(gradient, centre, H + 1 / eta, 1 / eta, count(eta=eta, mu=mu, H=H))
    allowed = mu / (4 * eta) * np.sum((w - centre) ** 2)
    assert np.sum(gradient(w) ** 2) <= allowed * (1 + 1e-9) + 1e-20


def test_gradient_descent_known_value():
    # κ = 4, s = √(0.25)/8 = 1/16, so T = ln 17 / ln(4/3) = 9.85.
    assert inner_steps_gradient_descent(eta=1.0, mu=0.25, H=3.0) == 10


def test_nesterov_known_value():
    # κ = 4, s = √(0.25/4)/2 = 1/8, so T = (2 ln 9 + ln 5) / ln 2 = 8.66.
    assert inner_steps_nesterov(eta=1.0, mu=0.25, H=3.0) == 9


def test_acceleration_takes_the_root_of_the_condition_number():
    plain = inner_steps_gradient_descent(eta=1.0, mu=1e-3, H=1e8)
    fast = inner_steps_nesterov(eta=1.0, mu=1e-3, H=1e8)
    assert 1e8 < plain < 1e10
    assert 1e4 < fast < 1e6


@pytest.mark.parametrize("count", SOLVERS)
def test_a_flat_proxy_takes_one_step(count):
    assert count(eta=1.0, mu=1e-12, H=0.0) == 1


@pytest.mark.parametrize(
    ("count", "steps"), [(inner_steps_gradient_descent, 2), (inner_steps_nesterov, 4)]
)
def test_a_nearly_flat_proxy_is_not_taken_for_a_flat_one(count, steps):
    # 1 + H·η rounds to 1, yet one step cannot reach a relative accuracy of 1e-30:
    # ln(2e30) / ln(1e17) = 1.8, and (2 ln(2e30) + ln 2) / ln(2e17) = 3.5.
    assert count(eta=1.0, mu=1e-60, H=1e-17) == steps


@pytest.mark.parametrize("count", SOLVERS)
def test_tiny_strong_convexity_does_not_underflow(count):
    assert count(eta=1e-200, mu=1e-200, H=1e200) < 20_000


def test_sgd_known_values_of_each_term():
    unit = {"eta": 1.0, "mu": 1.0, "H": 1.0, "c": 1.0, "c_prime": 1.0}
    # 2·ln(32·4) = 9.7; 4·2·25 = 200.
    assert inner_steps_sgd(**unit, rho=0.0, G=1.0) == 10
    assert inner_steps_sgd(**unit, rho=5.0, G=1.0) == 200
    # The side condition 2·ln(16) = 5.5 takes over when μ is out of proportion.
    assert inner_steps_sgd(**{**unit, "mu": 1e6}, rho=0.0, G=1.0) == 6


def test_sgd_constants_scale_the_terms():
    base = {"eta": 1.0, "mu": 0.1, "H": 9.0, "G": 1.0}
    noisy = inner_steps_sgd(**base, rho=100.0, c=1.0, c_prime=1.0)
    assert inner_steps_sgd(**base, rho=100.0, c=3.0, c_prime=1.0) == 3 * noisy
    quiet = inner_steps_sgd(**base, rho=0.0, c=1.0, c_prime=1.0)
    assert 2 * quiet - 2 <= inner_steps_sgd(**base, rho=0.0, c=1.0, c_prime=2.0) <= 2 * quiet


def test_sgd_without_noise_does_not_need_G():
    assert inner_steps_sgd(eta=1.0, mu=0.1, H=1.0, rho=0.0, G=0.0) == inner_steps_sgd(
        eta=1.0, mu=0.1, H=1.0, rho=0.0, G=7.0
    )


def test_sgd_with_noise_needs_G():
    with pytest.raises(ValueError, match=r"G must be > 0 when rho=1\.0, got 0\.0: .*pass"):
        inner_steps_sgd(eta=1.0, mu=1.0, H=1.0, rho=1.0, G=0.0)


@pytest.mark.parametrize("name", ["c", "c_prime"])
def test_sgd_constants_below_one_are_refused(name):
    arguments = {"eta": 1.0, "mu": 1.0, "H": 1.0, "rho": 1.0, "G": 1.0, name: 0.5}
    with pytest.raises(ValueError, match=rf"^{name} must be at least 1\.0, got 0\.5"):
        inner_steps_sgd(**arguments)


@pytest.mark.parametrize("count", SOLVERS)
@pytest.mark.parametrize(("name", "value"), [("eta", 0.0), ("mu", 0.0), ("H", -1.0)])
def test_errors_name_the_argument(count, name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        count(**{"eta": 1.0, "mu": 1.0, "H": 1.0, name: value})
