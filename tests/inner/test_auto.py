import numpy as np
import pytest

from proxyprox import (
    L1,
    LBFGS,
    Auto,
    ClosedForm,
    FunctionProxy,
    NewtonCG,
    ProximalGradient,
    Quadratic,
    QuasiNewton,
    Zero,
    logistic_regression,
)
from proxyprox.inner.auto import DENSE_LIMIT
from proxyprox.inner.base import needs_of

GLM = logistic_regression(np.eye(3), [0, 1, 0])
PLAIN = FunctionProxy(lambda w: 0.0, lambda w: w)


@pytest.mark.parametrize(
    ("proxy", "penalty", "size", "solver", "reason"),
    [
        (GLM, None, 3, QuasiNewton, "Hessian and 3 parameters"),
        (GLM, None, DENSE_LIMIT, QuasiNewton, "Hessian"),
        (GLM, None, DENSE_LIMIT + 1, NewtonCG, "Hessian-vector products"),
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
