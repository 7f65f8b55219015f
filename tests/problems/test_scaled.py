from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.problems import ScaledProxy

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
