import numpy as np
import pytest

from proxyprox import (
    DANE,
    L1,
    LBFGS,
    FunctionObjective,
    FunctionProxy,
    Mean,
    Problem,
    ProxyProx,
    Quadratic,
    Uniform,
    Zero,
    audit,
    linear_regression,
    minimize,
    regularized,
)
from proxyprox.problems import ScaledProxy


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
    with pytest.raises(TypeError, match="objective must be an object"):
        Problem(objective)


@pytest.mark.parametrize("proxy", [None, gradient, (None, gradient), Quadratic, object()])
def test_what_is_no_proxy_is_refused(proxy):
    with pytest.raises(TypeError, match="(proxy|value) must be a"):
        Problem((value, gradient), proxy)


def test_penalty_must_have_a_prox():
    with pytest.raises(TypeError, match="penalty must be a penalty with value, prox"):
        Problem((value, gradient), penalty=0.1)


class Delegating:
    """Has every attribute by ``__getattr__`` only, as a user's logging or caching wrapper."""

    def __init__(self, inside):
        self._inside = inside

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._inside, name)

    def __call__(self, *arguments, **named):
        return self._inside(*arguments, **named)


def parts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    target = linear_regression(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=40), batch_size=8)
    return target, target.label_free()


@pytest.mark.parametrize("wrapped", ["objective", "proxy", "penalty", "all"])
def test_parts_may_have_their_methods_by_getattr(wrapped):
    objective, proxy = parts()
    plain = {"objective": objective, "proxy": proxy, "penalty": L1(0.1)}
    given = {
        name: Delegating(part) if wrapped in (name, "all") else part for name, part in plain.items()
    }
    found = minimize(Problem(**given), method=ProxyProx(eta=0.5), steps=10, rng=0)
    expected = minimize(Problem(**plain), method=ProxyProx(eta=0.5), steps=10, rng=0)
    np.testing.assert_array_equal(found.w, expected.w)
    assert found.ledger.proxy_gradients == expected.ledger.proxy_gradients


def test_methods_solvers_averages_and_corrections_may_delegate():
    problem = Problem(*parts())
    found = minimize(
        problem, method=Delegating(ProxyProx(eta=0.5, correction=Delegating(Mean()))),
        inner=Delegating(LBFGS()), averaging=Delegating(Uniform()), steps=10, rng=0,
    )  # fmt: skip
    expected = minimize(
        problem, method=ProxyProx(eta=0.5, correction=Mean()), inner=LBFGS(), averaging=Uniform(),
        steps=10, rng=0,
    )  # fmt: skip
    np.testing.assert_array_equal(found.w, expected.w)


def test_wrapped_losses_are_audited_regularised_and_scaled():
    objective, proxy = (Delegating(part) for part in parts())
    problem = Problem(objective, proxy)
    assert audit(problem, rng=0).delta is not None
    assert regularized(problem, 0.1, np.zeros(3)).value(np.zeros(3)) > 0
    scaled = Problem(objective, Delegating(ScaledProxy(proxy, 0.5)))
    assert minimize(scaled, method=DANE(eta=0.5), steps=5).ledger.target_gradients == 5
