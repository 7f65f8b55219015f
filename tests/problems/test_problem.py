import numpy as np
import pytest

from proxyprox import L1, FunctionObjective, FunctionProxy, Problem, Quadratic, Zero


def value(w):
    return float(w @ w)


def gradient(w):
    return 2 * w


def test_pairs_of_functions_become_objective_and_proxy():
    problem = Problem((value, gradient), (value, gradient))
    assert isinstance(problem.objective, FunctionObjective)
    assert isinstance(problem.proxy, FunctionProxy)
    assert problem.dim is None
    np.testing.assert_array_equal(problem.objective.gradient(np.ones(2)), [2.0, 2.0])
    np.testing.assert_array_equal(problem.proxy.gradient(np.ones(2)), [2.0, 2.0])


def test_proxy_is_zero_if_left_out():
    assert isinstance(Problem((value, gradient)).proxy, Zero)


def test_value_adds_the_penalty():
    w = np.array([1.0, -2.0])
    assert Problem((value, gradient)).value(w) == 5.0
    assert Problem((value, gradient), penalty=L1(0.5)).value(w) == 6.5


def test_value_of_gradients_only_is_refused():
    with pytest.raises(TypeError, match="gives gradients only"):
        Problem((None, gradient)).value(np.ones(2))


def test_dimensions_are_known_and_must_agree():
    assert Problem(Quadratic(np.eye(3))).dim == 3
    assert Problem((value, gradient), Quadratic(np.eye(4))).dim == 4
    with pytest.raises(ValueError, match="got 2 and 3"):
        Problem(Quadratic(np.eye(3)), Quadratic(np.eye(2)))


@pytest.mark.parametrize(
    "objective", [None, gradient, (gradient,), (value, 3), Quadratic, object(), Zero()]
)
def test_what_is_no_objective_is_refused(objective):
    with pytest.raises(TypeError, match="objective must be an Objective"):
        Problem(objective)


@pytest.mark.parametrize("proxy", [None, gradient, (None, gradient), Quadratic, object()])
def test_what_is_no_proxy_is_refused(proxy):
    with pytest.raises(TypeError, match="proxy must be a Proxy"):
        Problem((value, gradient), proxy)


def test_penalty_must_have_a_prox():
    with pytest.raises(TypeError, match="penalty must be a penalty with value, prox"):
        Problem((value, gradient), penalty=0.1)
