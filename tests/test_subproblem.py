import math

import numpy as np
import pytest

from proxyprox import L1, logistic_regression
from proxyprox.inner import Subproblem
from tests.runs import differences

RNG = np.random.default_rng(0)
X = RNG.normal(size=(15, 4))
PROXY = logistic_regression(X, np.arange(15) % 2, l2=0.1)
LINEAR, CENTRE, W, V = RNG.normal(size=(4, 4))


@pytest.fixture(params=[0.3, math.inf])
def phi(request):
    return Subproblem(PROXY, LINEAR, CENTRE, request.param)


def test_value_is_the_three_terms(phi):
    quadratic = 0.0 if math.isinf(phi.eta) else np.sum((W - CENTRE) ** 2) / (2 * phi.eta)
    want = PROXY.value(W) + LINEAR @ (W - CENTRE) + quadratic
    assert phi.value(W) == pytest.approx(want, rel=1e-14)
    assert phi.decrease(W) == pytest.approx(PROXY.value(CENTRE) - want, rel=1e-12)
    assert phi.decrease(CENTRE.copy()) == 0.0
    penalised = Subproblem(PROXY, LINEAR, CENTRE, phi.eta, L1(0.5))
    assert penalised.value(W) == pytest.approx(want + 0.5 * np.abs(W).sum(), rel=1e-14)


def test_derivatives_are_those_of_the_value(phi):
    np.testing.assert_allclose(phi.gradient(W), differences(phi.value, W), atol=1e-8)
    np.testing.assert_allclose(phi.hessian(W), differences(phi.gradient, W), atol=1e-8)
    np.testing.assert_allclose(phi.hvp(W, V), phi.hessian(W) @ V, atol=1e-13)
    np.testing.assert_allclose(phi.gradient(CENTRE), differences(phi.value, CENTRE), atol=1e-8)


def test_constants_bound_the_hessian(phi):
    eigenvalues = np.linalg.eigvalsh(phi.hessian(W))
    assert phi.strong_convexity <= eigenvalues[0]
    assert eigenvalues[-1] <= phi.smoothness
    assert phi.strong_convexity == pytest.approx(0.1 + 1 / phi.eta)
    assert phi.smoothness == pytest.approx(PROXY.smoothness + 1 / phi.eta)
