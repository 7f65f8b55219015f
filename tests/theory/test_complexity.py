"""Counts of gradients and inner steps: values worked out by hand, limits, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import (
    exact_rounds,
    inner_steps_gradient_descent,
    inner_steps_nesterov,
    inner_steps_sgd,
    lower_bound,
    proxyprox_steps,
    sgd_steps,
    similarity_threshold,
    total_work,
)

CONVEX = {"epsilon": 0.1, "B": 3.0, "sigma": 2.0}
STRONG = {**CONVEX, "mu": 0.5}
scale = st.floats(1e-3, 1e3)
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


class TestCounts:
    """Target gradients of SGD, of ProxyProx and of any method."""

    def test_convex_known_values(self):
        # noise: 4·9/0.01 = 3600; bias: 40·9/0.1 = 3600, and its root 60.
        assert sgd_steps(**CONVEX, H=40.0) == pytest.approx(7200)
        assert proxyprox_steps(**CONVEX, delta=0.4) == pytest.approx(3636)
        assert lower_bound(**CONVEX, H=40.0) == pytest.approx(3660)

    def test_strongly_convex_known_values(self):
        # noise: 4/0.05 = 80; ln(50·9/0.1) = ln 4500 and ln(5·9/0.1) = ln 450.
        assert sgd_steps(**STRONG, H=50.0) == pytest.approx(80 + 100 * math.log(4500))
        assert lower_bound(**STRONG, H=50.0) == pytest.approx(80 + 10 * math.log(4500))
        assert proxyprox_steps(**STRONG, delta=5.0) == pytest.approx(80 + 10 * math.log(450))

    @given(epsilon=scale, H=scale, B=scale, sigma=scale, unit=scale, length=scale)
    def test_convex_counts_do_not_depend_on_units(self, epsilon, H, B, sigma, unit, length):
        # Loss measured in another unit, weights in another length; the misprint fails this.
        for count in (sgd_steps, lower_bound):
            changed = count(
                epsilon=unit * epsilon,
                H=unit * H / length**2,
                B=length * B,
                sigma=unit * sigma / length,
            )
            assert changed == pytest.approx(count(epsilon=epsilon, H=H, B=B, sigma=sigma))

    def test_without_difference_only_the_noise_is_left(self):
        assert proxyprox_steps(**CONVEX, delta=0.0) == pytest.approx(3600)
        assert proxyprox_steps(**STRONG, delta=0.0) == pytest.approx(80)

    def test_difference_tending_to_zero_is_continuous(self):
        assert proxyprox_steps(**STRONG, delta=1e-300) == pytest.approx(80)

    def test_logarithm_never_makes_a_count_negative(self):
        lazy = {"epsilon": 1e9, "mu": 1.0, "B": 1.0, "sigma": 0.0}
        assert sgd_steps(**lazy, H=2.0) == 0
        assert proxyprox_steps(**lazy, delta=2.0) == 0

    @pytest.mark.parametrize("count", [sgd_steps, lower_bound])
    def test_smoothness_below_strong_convexity_is_refused(self, count):
        with pytest.raises(ValueError, match=r"H must be at least 0\.5, got 0\.4: .*raise H"):
            count(**STRONG, H=0.4)

    @pytest.mark.parametrize("count", [sgd_steps, lower_bound])
    @pytest.mark.parametrize(
        ("name", "value"), [("epsilon", 0.0), ("H", 0.0), ("B", 0.0), ("sigma", -1.0)]
    )
    def test_errors_name_the_argument(self, count, name, value):
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            count(**{**CONVEX, "H": 1.0, name: value})


class TestSimilarityThreshold:
    """The largest δ that pays."""

    @given(epsilon=scale, H=scale, B=scale)
    def test_convex_threshold_is_where_the_counts_meet(self, epsilon, H, B):
        threshold = similarity_threshold(epsilon=epsilon, H=H, B=B)
        rest = {"epsilon": epsilon, "B": B, "sigma": 0.0}
        bound = lower_bound(**rest, H=H)
        assert proxyprox_steps(**rest, delta=0.999 * threshold) < bound
        assert proxyprox_steps(**rest, delta=1.001 * threshold) > bound

    def test_finer_accuracy_needs_a_better_proxy(self):
        coarse = similarity_threshold(epsilon=1e-2, H=1.0, B=1.0)
        assert similarity_threshold(epsilon=1e-4, H=1.0, B=1.0) == pytest.approx(coarse / 10)

    def test_strongly_convex_known_value(self):
        assert similarity_threshold(H=200.0, mu=0.02) == pytest.approx(2.0)

    def test_strongly_convex_threshold_lies_between_the_curvatures(self):
        assert 1e-4 < similarity_threshold(H=1.0, mu=1e-4) < 1.0

    def test_errors_name_the_argument(self):
        with pytest.raises(ValueError, match=r"^B must be a positive number"):
            similarity_threshold(epsilon=1.0, H=1.0, B=0.0)
        with pytest.raises(ValueError, match=r"^H must be at least 2\.0, got 1\.0"):
            similarity_threshold(H=1.0, mu=2.0)


class TestInnerSteps:
    """Steps on one subproblem."""

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
    def test_count_meets_the_accuracy_on_a_subproblem(self, count, solver, seed, H, eta, mu):
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

    def test_gradient_descent_known_value(self):
        # κ = 4, s = √(0.25)/8 = 1/16, so T = ln 17 / ln(4/3) = 9.85.
        assert inner_steps_gradient_descent(eta=1.0, mu=0.25, H=3.0) == 10

    def test_nesterov_known_value(self):
        # κ = 4, s = √(0.25/4)/2 = 1/8, so T = (2 ln 9 + ln 5) / ln 2 = 8.66.
        assert inner_steps_nesterov(eta=1.0, mu=0.25, H=3.0) == 9

    def test_acceleration_takes_the_root_of_the_condition_number(self):
        plain = inner_steps_gradient_descent(eta=1.0, mu=1e-3, H=1e8)
        fast = inner_steps_nesterov(eta=1.0, mu=1e-3, H=1e8)
        assert 1e8 < plain < 1e10
        assert 1e4 < fast < 1e6

    @pytest.mark.parametrize("count", SOLVERS)
    def test_a_flat_proxy_takes_one_step(self, count):
        assert count(eta=1.0, mu=1e-12, H=0.0) == 1

    @pytest.mark.parametrize(
        ("count", "steps"), [(inner_steps_gradient_descent, 2), (inner_steps_nesterov, 4)]
    )
    def test_a_nearly_flat_proxy_is_not_taken_for_a_flat_one(self, count, steps):
        # 1 + H·η rounds to 1, yet one step cannot reach a relative accuracy of 1e-30:
        # ln(2e30) / ln(1e17) = 1.8, and (2 ln(2e30) + ln 2) / ln(2e17) = 3.5.
        assert count(eta=1.0, mu=1e-60, H=1e-17) == steps

    @pytest.mark.parametrize("count", SOLVERS)
    def test_tiny_strong_convexity_does_not_underflow(self, count):
        assert count(eta=1e-200, mu=1e-200, H=1e200) < 20_000

    def test_sgd_known_values_of_each_term(self):
        unit = {"eta": 1.0, "mu": 1.0, "H": 1.0, "c": 1.0, "c_prime": 1.0}
        # 2·ln(32·4) = 9.7; 4·2·25 = 200.
        assert inner_steps_sgd(**unit, rho=0.0, G=1.0) == 10
        assert inner_steps_sgd(**unit, rho=5.0, G=1.0) == 200
        # The side condition 2·ln(16) = 5.5 takes over when μ is out of proportion.
        assert inner_steps_sgd(**{**unit, "mu": 1e6}, rho=0.0, G=1.0) == 6

    def test_sgd_constants_scale_the_terms(self):
        base = {"eta": 1.0, "mu": 0.1, "H": 9.0, "G": 1.0}
        noisy = inner_steps_sgd(**base, rho=100.0, c=1.0, c_prime=1.0)
        assert inner_steps_sgd(**base, rho=100.0, c=3.0, c_prime=1.0) == 3 * noisy
        quiet = inner_steps_sgd(**base, rho=0.0, c=1.0, c_prime=1.0)
        assert 2 * quiet - 2 <= inner_steps_sgd(**base, rho=0.0, c=1.0, c_prime=2.0) <= 2 * quiet

    def test_sgd_without_noise_does_not_need_G(self):
        assert inner_steps_sgd(eta=1.0, mu=0.1, H=1.0, rho=0.0, G=0.0) == inner_steps_sgd(
            eta=1.0, mu=0.1, H=1.0, rho=0.0, G=7.0
        )

    def test_sgd_with_noise_needs_G(self):
        with pytest.raises(ValueError, match=r"G must be above zero for rho=1\.0, got 0\.0"):
            inner_steps_sgd(eta=1.0, mu=1.0, H=1.0, rho=1.0, G=0.0)

    @pytest.mark.parametrize("name", ["c", "c_prime"])
    def test_sgd_constants_below_one_are_refused(self, name):
        arguments = {"eta": 1.0, "mu": 1.0, "H": 1.0, "rho": 1.0, "G": 1.0, name: 0.5}
        with pytest.raises(ValueError, match=rf"^{name} must be at least 1\.0, got 0\.5"):
            inner_steps_sgd(**arguments)

    @pytest.mark.parametrize("count", SOLVERS)
    @pytest.mark.parametrize(("name", "value"), [("eta", 0.0), ("mu", 0.0), ("H", -1.0)])
    def test_errors_name_the_argument(self, count, name, value):
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            count(**{"eta": 1.0, "mu": 1.0, "H": 1.0, name: value})


class TestTotalWork:
    """Target and proxy gradients together."""

    def test_known_values(self):
        # noise 4/(0.5·0.1) = 80; K = 10 + 80; T = 1000/90·(1 + 80); S = 1000 + 80.
        work = total_work(epsilon=0.1, H=500.0, mu=0.5, delta=5.0, sigma=2.0)
        assert work.target_gradients == pytest.approx(90)
        assert work.inner_steps == pytest.approx(900)
        assert work.proxy_gradients == pytest.approx(81_000)
        assert work.sgd_gradients == pytest.approx(1080)

    def test_exact_proxy_gradients_cost_the_condition_number_in_all(self):
        work = total_work(epsilon=0.1, H=500.0, mu=0.5, delta=5.0, sigma=2.0, rho=0.0)
        assert work.proxy_gradients == pytest.approx(1000)

    @given(
        epsilon=scale, mu=scale, ratio=st.floats(1, 1e3), sigma=scale, share=st.floats(0.01, 0.99)
    )
    def test_fewer_gradients_of_the_loss_but_more_in_all(self, epsilon, mu, ratio, sigma, share):
        H = mu * ratio
        work = total_work(epsilon=epsilon, H=H, mu=mu, delta=share * H, sigma=sigma)
        assert work.target_gradients <= work.sgd_gradients * (1 + 1e-12)
        assert work.target_gradients + work.proxy_gradients >= work.sgd_gradients * (1 - 1e-12)

    def test_no_count_falls_below_one_step(self):
        work = total_work(epsilon=1.0, H=1.0, mu=1.0, delta=0.0, sigma=0.0)
        assert work.target_gradients == work.inner_steps == 1
        late = total_work(epsilon=1e-6, H=1.0, mu=1.0, delta=0.0, sigma=1.0, rho=0.0)
        assert late.inner_steps == 1

    @pytest.mark.parametrize(
        ("name", "value"), [("epsilon", 0.0), ("mu", 0.0), ("delta", -1.0), ("rho", -1.0)]
    )
    def test_errors_name_the_argument(self, name, value):
        base = {"epsilon": 1.0, "H": 1.0, "mu": 1.0, "delta": 1.0, "sigma": 1.0}
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            total_work(**{**base, name: value})

    def test_smoothness_below_strong_convexity_is_refused(self):
        with pytest.raises(ValueError, match=r"^H must be at least 2\.0, got 1\.0"):
            total_work(epsilon=1.0, H=1.0, mu=2.0, delta=1.0, sigma=1.0)


@pytest.mark.parametrize("mu", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("delta", [0.02, 0.5])
def test_exact_rounds_are_enough_for_conjugate_gradients(mu, delta):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(80, 80)))[0]
    A = (basis * np.geomspace(max(mu, 1e-6), 2.0, 80)) @ basis.T
    error = rng.normal(size=(80, 80))
    error = error + error.T
    metric = np.linalg.inv(A + delta * (error / np.linalg.norm(error, 2) + np.eye(80)))
    x, least, epsilon = np.zeros(80), rng.normal(size=80), 1e-4
    B = float(np.linalg.norm(least))
    r = A @ least
    p, z = metric @ r, metric @ r
    for _ in range(exact_rounds(epsilon=epsilon, H=2.0, B=B, delta=delta, mu=mu)):
        step = (r @ z) / (p @ A @ p)
        x, before = x + step * p, r @ z
        r = r - step * A @ p
        z = metric @ r
        p = z + (r @ z) / before * p
    assert (x - least) @ A @ (x - least) / 2 <= epsilon
