"""ProxyProx as a method of scipy.optimize.minimize."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp

A, B = np.diag([1.0, 10.0, 100.0]), np.array([1.0, -2.0, 3.0])
SOLUTION = np.linalg.solve(A, B)
PROXY = pp.Quadratic(A + 0.1 * np.eye(3))


def fun(x, scale=1.0):
    return x @ A @ x / 2 - scale * B @ x


def jac(x, scale=1.0):
    return A @ x - scale * B


def both(x):
    return fun(x), jac(x)


def solve(fun=fun, *, method=None, **call):
    solver = method or pp.scipy.scipy_method(PROXY, method=pp.ProxyProx(eta=2.0))
    return scipy.optimize.minimize(fun, np.zeros(3), method=solver, **call)


@pytest.mark.parametrize(
    "call", [{"jac": jac}, {"fun": both, "jac": True}, {"jac": jac, "args": (3.0,)}]
)
def test_finds_the_minimiser(call):
    answer = solve(**call)
    assert isinstance(answer, scipy.optimize.OptimizeResult)
    scale = call.get("args", (1.0,))[0]
    assert np.allclose(answer.x, scale * SOLUTION, atol=1e-8)
    assert answer.success
    assert answer.status == 0
    assert answer.fun == pytest.approx(fun(scale * SOLUTION, scale))
    assert np.linalg.norm(answer.jac) < 1e-6
    assert answer.nit == answer.njev == 100
    assert answer.message == answer.proxyprox.message


def test_maxiter():
    assert solve(jac=jac, options={"maxiter": 7}).nit == 7
    with pytest.raises(ValueError, match="steps must be a whole number, 1 or more, got 0"):
        solve(jac=jac, options={"maxiter": 0})


def test_tol_stops_at_a_small_gradient_and_says_whether_it_did():
    answer = solve(jac=jac, tol=1e-3)
    assert answer.success
    assert 1 < answer.nit < 100
    assert answer.message == pp.Status.CONVERGED.value
    assert np.linalg.norm(answer.jac) <= 1e-3
    short = solve(jac=jac, tol=1e-12, options={"maxiter": 3})
    assert not short.success
    assert short.status == 1
    assert short.nit == 3


def test_the_callback_gets_the_iterate_and_can_stop():
    seen = []
    answer = solve(jac=jac, callback=lambda x: seen.append(x.copy()), options={"maxiter": 4})
    assert len(seen) == 4
    assert (seen[-1] == answer.x).all()

    def stop(x):
        raise StopIteration

    assert solve(jac=jac, callback=stop).nit == 1
    assert solve(jac=jac, callback=lambda x: True).nit == 1


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("constraints", [{"type": "eq", "fun": lambda x: x[0]}]),
        ("constraints", scipy.optimize.LinearConstraint(np.eye(3), 0, 1)),
    ],
)
def test_constraints_are_refused(name, given):
    with pytest.raises(ValueError, match=f"{name} must be left out"):
        solve(jac=jac, **{name: given})


@pytest.mark.parametrize("bounds", [[(None, 0.5)] * 3, scipy.optimize.Bounds(ub=[0.5] * 3)])
def test_bounds_are_kept(bounds):
    answer = solve(
        jac=jac, bounds=bounds, method=pp.scipy.scipy_method(pp.Quadratic(np.eye(3))), tol=1e-8
    )
    reference = solve(jac=jac, bounds=bounds, method="L-BFGS-B")
    assert answer.success
    np.testing.assert_allclose(answer.x, reference.x, atol=1e-5)


def test_an_unknown_option_is_refused():
    with pytest.raises(ValueError, match=r"options must be made of maxiter and tol.*'maxitr'"):
        solve(jac=jac, options={"maxitr": 5})
