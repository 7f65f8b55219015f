"""Problems, and objectives and proxies made of functions."""

import numpy as np
import pytest

from proxyprox import (
    DANE,
    L1,
    FunctionObjective,
    FunctionProxy,
    Problem,
    ProxyProx,
    Quadratic,
    audit,
    linear_regression,
    minimize,
)
from proxyprox.problems import MixedProxy, Zero, regularized


def value(w):
    return float(w @ w)


def gradient(w):
    return 2 * w


def test_pairs_of_functions_become_objective_and_proxy():
    problem = Problem((value, gradient), (value, gradient))
    assert isinstance(problem.objective, FunctionObjective)
    assert isinstance(problem.proxy, FunctionProxy)
    assert problem.dim is None
    for part in (problem.objective, problem.proxy):
        np.testing.assert_array_equal(part.gradient(np.ones(2)), [2.0, 2.0])
    assert isinstance(Problem((value, gradient)).proxy, Zero)
    w = np.array([1.0, -2.0])
    assert problem.value(w) == 5.0
    assert Problem((value, gradient), penalty=L1(0.5)).value(w) == 6.5
    assert Problem(Quadratic(np.eye(3))).dim == 3
    assert Problem((value, gradient), Quadratic(np.eye(4))).dim == 4


def test_bounds_and_scales_are_the_problems_and_reach_losses_of_values():
    asked = []

    def watched(w):
        asked.append(w)
        return value(w)

    for scales, expected in ((2.0, [2.0, 2.0]), (np.array([1.0, 3.0]), [1.0, 3.0])):
        problem = Problem(watched, Quadratic(np.eye(2)), bounds=(0.0, [1.0, 2.0]), scales=scales)
        np.testing.assert_array_equal(problem.scales, expected)
        assert problem.penalty is problem.bounds
        problem.objective.gradient(np.array([1.0, 2.0]))
    points = np.array(asked)
    assert points.min() >= 0
    assert (points <= [1.0, 2.0]).all()
    assert problem.objective.evaluations == 3
    again = Problem(watched, Quadratic(np.eye(2)), problem.penalty, bounds=problem.bounds)
    assert again.penalty is problem.bounds
    for options, name in (
        ({"penalty": L1(0.1), "bounds": (0, 1)}, "penalty"),
        ({"bounds": (0, np.ones(3))}, "bounds"),
        ({"scales": 0.0}, "scales"), ({"scales": np.ones(3)}, "scales"),
        ({"scales": np.array([1.0, -1.0])}, "scales"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=name):
            Problem((value, gradient), Quadratic(np.eye(2)), **options)


def test_a_value_and_a_gradient_at_once_are_the_users():
    both = FunctionObjective(gradient, value_and_gradient=lambda w: (value(w), gradient(w)))
    batches = FunctionObjective(
        lambda w, b: b * w, value_and_gradient=lambda w, b: (b * value(w), b * gradient(w)),
        sample=lambda rng: 3.0,
    )  # fmt: skip
    for loss, batch, factor in ((both, None, 1.0), (batches, 3.0, 3.0)):
        found = loss.value_and_gradient(np.ones(2), batch)
        assert found[0] == 2 * factor
        np.testing.assert_array_equal(found[1], 2 * factor)


def test_what_is_refused():
    own = value, gradient
    with pytest.raises(TypeError, match="objective"):
        Problem((None, gradient)).value(np.ones(2))
    with pytest.raises(ValueError, match="proxy"):
        Problem(Quadratic(np.eye(3)), Quadratic(np.eye(2)))
    for objective in ((gradient,), (value, 3), Quadratic, Zero()):
        with pytest.raises(TypeError, match="objective"):
            Problem(objective)
    for proxy in ((None, gradient), Quadratic):
        with pytest.raises(TypeError, match=r"(proxy|value) must be a"):
            Problem(own, proxy)
    with pytest.raises(TypeError, match="function of w alone"):
        Problem((None, lambda w, rng: w))
    sampled = {"sample": lambda rng: 0}
    for name, options in (
        ("gradient", {"gradient": lambda w, rng: w}),
        ("gradient", {"gradient": gradient, **sampled}),
        ("hvp", {"gradient": gradient, "hvp": lambda v: v}),
        ("everything", {"gradient": lambda w, b: w, "everything": lambda w: w, **sampled}),
        ("everything", {"gradient": gradient, "everything": lambda: 0}),
    ):
        with pytest.raises(TypeError, match=f"{name} must be "):
            FunctionObjective(**options)
    for name, options in (
        ("gradient", {"gradient": lambda w, rng: w}),
        ("hvp", {"hvp": lambda v: v}),
    ):
        with pytest.raises(TypeError, match=name):
            FunctionProxy(**{"value": value, "gradient": gradient, **options})
    with pytest.raises(TypeError, match="proxy's value"):
        FunctionProxy(lambda w: w, lambda w: w).value(np.ones(2))


def test_wrong_signatures_of_classes_are_named():
    class Own:
        everything = (0, 1)
        sample = staticmethod(lambda rng: 0)
        gradient = staticmethod(lambda w, batch: w)
        hvp = staticmethod(lambda v: v)

    problem = Problem(Own(), FunctionProxy(value, gradient))
    with pytest.raises(TypeError, match=r"objective.everything must be callable as every"):
        minimize(problem, np.zeros(2), method=DANE(1.0), steps=2)
    Own.everything = staticmethod(lambda: 0)
    with pytest.raises(TypeError, match=r"objective.hvp must be callable as hvp\(w, v\)"):
        audit(problem, np.zeros(2), rng=0)


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


def test_parts_may_have_their_methods_by_getattr():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    target = linear_regression(X, X @ [1.0, -2.0, 0.5] + rng.normal(size=40), batch_size=8)
    plain = {"objective": target, "proxy": target.label_free(), "penalty": L1(0.1)}
    options = {"method": ProxyProx(eta=0.5), "steps": 10, "rng": 0}
    expected = minimize(Problem(**plain), **options)
    for wrapped in ("objective", "proxy", "penalty", "all"):
        given = {n: Delegating(p) if wrapped in (n, "all") else p for n, p in plain.items()}
        found = minimize(Problem(**given), **options)
        np.testing.assert_array_equal(found.w, expected.w)
        assert found.ledger.proxy_gradients == expected.ledger.proxy_gradients
    objective, proxy = Delegating(target), Delegating(target.label_free())
    problem = Problem(objective, proxy)
    assert audit(problem, rng=0).delta is not None
    assert regularized(problem, 0.1, np.zeros(3)).value(np.zeros(3)) > 0
    scaled = Problem(objective, Delegating(MixedProxy([proxy], [0.5])))
    assert minimize(scaled, method=DANE(eta=0.5), steps=5).ledger.target_gradients == 5


def test_everything_and_hvp_make_dane_and_an_audit_possible():
    A, rows = np.diag([1.0, 4.0]), np.eye(2)
    options = {"sample": lambda rng: [int(rng.integers(2))]}

    def sampled(w, batch):
        return A @ w - rows[batch].mean(axis=0)

    proxy = (value, gradient)
    blind = FunctionObjective(sampled, **options)
    with pytest.raises(TypeError, match=r"Use ProxyProx.*give FunctionObjective everything="):
        minimize(Problem(blind, proxy), np.zeros(2), method=DANE(1.0), steps=2)
    options |= {"everything": lambda: [0, 1], "hvp": lambda w, v: A @ v}
    problem = Problem(FunctionObjective(sampled, **options), proxy)
    result = minimize(problem, np.zeros(2), method=DANE(1.0), steps=60)
    np.testing.assert_allclose(result.w, [0.5, 0.125], atol=1e-6)
    found = audit(problem, np.zeros(2), rng=0)
    assert found.H.estimate == pytest.approx(4.0)
