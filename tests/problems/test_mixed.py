from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.problems import MixedProxy

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
    ("weights", "words"), [([1.0], "one for each"), ([0.0, 0.0], "positive"), ([-1.0, 1.0], "zero")]
)
def test_weights_are_checked(weights: list[float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MixedProxy([pp.Quadratic(A), pp.Quadratic(B)], weights)


def test_sizes_must_agree() -> None:
    with pytest.raises(ValueError, match="equal numbers"):
        MixedProxy([pp.Quadratic(A), pp.Quadratic(np.eye(3))], [1.0, 1.0])
