"""Several proxies of one target: their weights, against what is known of quadratics."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox.problems import MixedProxy
from proxyprox.problems.protocols import Secant
from proxyprox.problems.several import Several, nonnegative_fit
from tests.runs import assert_resumes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 6)) * np.geomspace(1, 0.2, 6)
Y = RNG.random(600) < 1 / (1 + np.exp(-X @ np.arange(6)))
TARGET = pp.logistic_regression(X, Y, l2=1e-3)


def rows(part, *, scale=1.0, order=slice(None)):
    return pp.logistic_regression(X[part][:, order] * scale, Y[part], l2=1e-3)


def five():
    return {
        "a": rows(slice(0, 100)), "b": rows(slice(100, 200)), "c": rows(slice(200, 300)),
        "shuffled": rows(slice(300, 400), order=[5, 4, 3, 2, 1, 0]),
        "units": rows(slice(400, 500), scale=30.0),
    }  # fmt: skip


def test_the_fit_is_scipys_and_equal_columns_share():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A, b = rng.normal(size=(30, 4)), rng.normal(size=30)
        want = scipy.optimize.nnls(A, b)[0]
        np.testing.assert_allclose(nonnegative_fit(A.T @ A, A.T @ b), want, atol=1e-6)
    column = np.ones((3, 1))
    twice = np.hstack([column, column])
    found = nonnegative_fit(twice.T @ twice, twice.T @ np.ones(3))
    np.testing.assert_allclose(found, 0.5, rtol=1e-5)


def test_weights_of_quadratics_in_other_units_are_found():
    parts = [RNG.normal(size=(9, 9)) for _ in range(3)]
    one, two, other = (pp.Quadratic(root @ root.T) for root in parts)
    b = RNG.normal(size=9)
    target = pp.Quadratic(2 * one.P + 0.5 * two.P, b)
    proxies = {"one": 1000 * one, "two": two, "other": other}
    seen = []
    result = pp.minimize(
        pp.Problem(target, proxies), tol=1e-8, callback=lambda s: seen.append(s.state.learning)
    )
    assert result.status is pp.Status.CONVERGED
    np.testing.assert_allclose(result.w, target.minimiser(), rtol=1e-5, atol=1e-6)
    one_weight, two_weight, _ = seen[-1].numbers
    assert one_weight == pytest.approx(2e-3, rel=0.5)
    assert two_weight == pytest.approx(0.5, rel=0.6)
    assert seen[-1].shares[2] < 0.2
    assert seen[-1].explained > 0.9


def test_weights_begin_with_equal_curvature_and_learn_from_a_secant():
    P = np.diag([4.0, 1.0, 1.0])
    one, flat = pp.Quadratic(P), pp.FunctionProxy(lambda w: 0.0, lambda w: 0 * w)
    products = pp.FunctionProxy(one.value, one.gradient, hvp=lambda w, v: 2 * P @ v)
    slopes = pp.FunctionProxy(one.value, lambda w: 3 * P @ w)
    broken = pp.FunctionProxy(one.value, lambda w: np.nan * w)
    several = Several({"1": one, "b": products, "c": slopes, "d": flat, "e": broken})
    meter = lambda proxy, name: proxy  # noqa: E731
    with pytest.warns(RuntimeWarning, match="proxy e"):
        state = several.begin(np.ones(3), meter)
    # Traces 6, 12 and 18; their median in place of none.
    units = np.array([1 / 6, 1 / 12, 1 / 18, 1 / 12, 0.0])
    np.testing.assert_allclose(state.units, units)
    np.testing.assert_allclose(state.numbers, units / units.sum())
    np.testing.assert_allclose(state.shares, np.array([1, 1, 1, 1, 0]) / 4)
    two = Several([one, pp.Quadratic(np.diag([0.0, 0.0, 5.0]))])
    state = two.begin(np.ones(3), meter)
    ends = np.array([1.0, 2.0, 0.0]), np.zeros(3)
    for factor, weight in ((10.0, 10.0), (-1.0, 0.0)):
        secant = Secant(ends, tuple(factor * one.gradient(w) for w in ends), exact=True)
        learnt = two.learn(state, [secant], 1, meter)
        np.testing.assert_allclose(learnt.numbers, [weight, 0.0], atol=1e-9)
        assert learnt.explained == pytest.approx(float(weight > 0))
    assert isinstance(two.using(learnt, meter), pp.problems.Zero)
    assert two.using(state, meter).value(np.ones(3)) > 0
    # A secant of no length says nothing, and a first slope unlike the proxies' no more.
    still = two.learn(state, [Secant(ends, (np.ones(3), np.ones(3)), exact=True)], 1, meter)
    assert still.numbers == state.numbers
    assert not still.leap
    first = Secant(ends[:1], (np.array([-1.0, 3.0, -2.0]),), exact=True)
    assert two.learn(state, [first], 1, meter).numbers == (0.0, 0.0)


def test_useless_proxies_get_zero_and_the_good_ones_save_rounds():
    proxies = five()
    result = pp.minimize(pp.Problem(TARGET, proxies), tol=1e-6)
    mean = MixedProxy(list(proxies.values()), [0.2] * 5)
    assert result.steps < pp.minimize(pp.Problem(TARGET, mean), tol=1e-6).steps
    assert "shuffled" in result.message.partition("say")[0]
    good = MixedProxy(list(proxies.values())[:3], [1 / 3] * 3)
    assert result.steps <= pp.minimize(pp.Problem(TARGET, good), tol=1e-6).steps + 5


def test_each_proxy_is_counted_and_limited():
    calls = dict.fromkeys(five(), 0)

    def counted(name, proxy):
        def gradient(w):
            calls[name] += 1
            return proxy.gradient(w)

        return pp.FunctionProxy(proxy.value, gradient, hessian=proxy.hessian)

    problem = pp.Problem(TARGET, {name: counted(name, p) for name, p in five().items()})
    result = pp.minimize(problem, tol=1e-6)
    for name, count in calls.items():
        assert result.ledger.proxies[name]["proxy_gradients"] == count
    assert result.ledger.proxy_gradients == sum(calls.values())
    # A useless one is asked now and then only.
    assert calls["shuffled"] < calls["a"]
    limit = pp.Budget(proxies={"a.proxy_gradients": 5})
    short = pp.minimize(problem, tol=1e-6, budget=limit)
    assert short.status is pp.Status.BUDGET_SPENT
    assert "a.proxy_gradients" in short.message


def test_a_list_of_one_is_that_proxy_bit_for_bit():
    proxy = five()["a"]
    for options in ({"tol": 1e-6}, {"method": pp.ProxyProx(1.0), "steps": 5, "rng": 0}):
        one, other = (pp.minimize(pp.Problem(TARGET, p), **options) for p in (proxy, [proxy]))
        assert one.w.tobytes() == other.w.tobytes()
        assert one.message == other.message
    assert pp.Problem(TARGET, {"a": proxy}).proxy is proxy


@pytest.mark.parametrize("batch", [None, 32])
def test_a_saved_run_resumes_bit_for_bit(batch, tmp_path):
    problem = pp.Problem(TARGET.with_batch_size(batch), five())
    for at in (1, 3, 7):
        call = {"at": at, "steps": 12, "rng": 0}
        whole, again = assert_resumes(tmp_path / f"run{at}", problem, np.zeros(6), **call)
        assert again.ledger.proxies["b"]["proxy_gradients"] >= 1
        assert again.message.partition(" Resumed")[0] == whole.message


def test_useless_proxies_alone_cost_few_rounds():
    proxies = {name: five()[name] for name in ("shuffled", "units")}
    # As a pair of functions it has no sample of its own.
    target = pp.FunctionObjective(TARGET.gradient, value=TARGET.value)
    alone = pp.minimize(pp.Problem(target), np.zeros(6), tol=1e-6)
    result = pp.minimize(pp.Problem(target, proxies), tol=1e-6)
    assert result.status is pp.Status.CONVERGED
    assert result.steps <= alone.steps + 4


@pytest.mark.parametrize(
    "method", [pp.DANE(eta="auto"), pp.ProxyProx(), pp.ProxyProx(1.0, pp.corrections.EMA(0.1))]
)
def test_other_methods_take_the_weights(method):
    target = TARGET if method.exact else TARGET.with_batch_size(64)
    result = pp.minimize(pp.Problem(target, five()), method=method, steps=40, rng=0)
    assert TARGET.value(result.w) < TARGET.value(np.zeros(6)) - 0.1
    assert "proxies" in result.message


def test_a_proxy_that_is_not_finite_is_left_out_with_a_warning():
    broken = pp.FunctionProxy(lambda w: np.nan, lambda w: np.nan * w)
    far = five()["b"]
    late = pp.FunctionProxy(
        far.value, lambda w: far.gradient(w) * (np.nan if np.abs(w).max() > 1e-3 else 1.0)
    )
    for bad in (broken, late):
        with pytest.warns(RuntimeWarning, match="bad"):
            result = pp.minimize(pp.Problem(TARGET, {"a": five()["a"], "bad": bad}), tol=1e-6)
        assert result.status is pp.Status.CONVERGED
        assert "not finite: bad" in result.message


def test_the_same_proxy_twice_is_said():
    proxy = five()["a"]
    result = pp.minimize(pp.Problem(TARGET, [proxy, proxy]), tol=1e-6)
    assert result.status is pp.Status.CONVERGED
    assert "not unique" in result.message


def test_arguments_are_checked_before_anything_is_paid():
    a = five()["a"]
    for kind, name, proxy in (
        (ValueError, "proxy", []), (ValueError, "proxy", {}), (TypeError, "proxy", [a, 3]),
        (ValueError, "proxies", [a, pp.Quadratic(np.eye(2))]),
        (ValueError, "proxy", {1: a, "1": a}),
    ):  # fmt: skip
        with pytest.raises(kind, match=name):
            pp.Problem(TARGET, proxy)
    with pytest.raises(ValueError, match="proxy"):
        pp.Problem(TARGET, [pp.Quadratic(np.eye(2))] * 2)
