"""Newton's method within bounds, against SciPy's L-BFGS-B."""

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox.inner.exact import find_minimum, minimise_in_box


@pytest.mark.parametrize(("lower", "upper"), [(-0.1, 0.2), (-30.0, 30.0), (0.0, np.inf)])
def test_the_minimum_is_that_of_scipy(lower, upper):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * np.logspace(0, -1, 5)
    loss = pp.logistic_regression(X, rng.integers(0, 2, 60), l2=1e-3)
    box = pp.Box(lower, upper)
    start = box.prox(np.zeros(5), 1.0)
    found = minimise_in_box(loss, start, box, tol=1e-9)
    tight = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 10_000}
    reference = scipy.optimize.minimize(
        loss.value, start, jac=loss.gradient, bounds=[(lower, upper)] * 5, method="L-BFGS-B",
        options=tight,
    )  # fmt: skip
    np.testing.assert_allclose(found, reference.x, atol=1e-5)
    assert box.value(found) == 0
    np.testing.assert_allclose(find_minimum(loss, start, penalty=box), found, atol=1e-6)


def test_a_curved_valley_takes_few_evaluations_and_none_outside():
    seen = []

    def rosenbrock(w):
        seen.append(np.array(w))
        return float(scipy.optimize.rosen(w))

    loss = pp.FunctionProxy(
        rosenbrock, lambda w: scipy.optimize.rosen_der(w),
        hessian=lambda w: scipy.optimize.rosen_hess(w),
    )  # fmt: skip
    box = pp.Box([-2.0, -2.0], [0.8, 2.0])
    found = minimise_in_box(loss, np.array([-1.2, 1.0]), box, tol=1e-9)
    # On the bound w_0 = 0.8 the least is at w_1 = 0.8².
    np.testing.assert_allclose(found, [0.8, 0.64], atol=1e-6)
    assert len(seen) < 60
    assert all(box.value(w) == 0 for w in seen)
