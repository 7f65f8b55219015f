"""A w0 that the caller gave is a point of the run: no answer lies above it."""

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import Status
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import MixedProxy
from tests.runs import assert_resumes, logistic

TARGETS = {
    "concave": (lambda w: -float(w @ w), lambda w: -2 * w),
    "cubic": (lambda w: float((w**3).sum()), lambda w: 3 * w**2),
    "saddle": (lambda w: float(w[0] ** 2 - w[1] ** 2), lambda w: w * np.array([2.0, -2.0])),
    "sine": (lambda w: float(np.sin(w).sum()), np.cos),
    "well": (lambda w: float((w**4 / 4 - 2 * w**2).sum()), lambda w: w**3 - 4 * w),
}
METHODS = {
    "default": None,
    "start at the proxy": pp.ProxyBFGS(),
    "start at w0": pp.ProxyBFGS(start_at_proxy=False),
    "DANE": pp.DANE(eta=0.1),
    "long steps": pp.DANE(eta=10.0),
}


def bowl(scale=1.0, centre=0.0):
    return (
        lambda w: scale * float((w - centre) @ (w - centre)),
        lambda w: 2 * scale * (w - centre),
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", TARGETS)
def test_no_answer_with_values_lies_above_w0(name, method):
    value, gradient = TARGETS[name]
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        w0 = rng.normal(size=2) * rng.choice([0.3, 1.0, 2.0])
        for target in (pp.FunctionObjective(gradient, value=value), value):
            problem = pp.Problem(target, bowl(scale))
            result = pp.minimize(problem, w0, method=METHODS[method], steps=8)
            # With values alone the start's is not computed a second time: it is the run's own.
            np.testing.assert_allclose(result.values[0], value(w0))
            np.testing.assert_allclose(result.values[1], value(result.w))
            assert value(result.w) <= value(w0) + 1e-9 * abs(value(w0))
            if target is not value and result.jac is not None:
                np.testing.assert_allclose(result.jac, gradient(result.w))


def test_a_maximum_at_the_proxys_minimum_is_not_the_answer():
    value, gradient = TARGETS["well"]
    for target in ((value, gradient), value, pp.FunctionObjective(gradient)):
        result = pp.minimize(pp.Problem(target, bowl()), np.array([1.9]))
        assert result.success
        np.testing.assert_allclose(result.w, 2, atol=1e-3)


def test_a_w0_costs_one_round_and_its_absence_none():
    target = logistic(400, 6, strength=3, l2=1e-3)
    problem = pp.Problem(target, target.subsample(80, rng=0))
    free, given = pp.minimize(problem), pp.minimize(problem, np.zeros(6))
    first = pp.Run(problem).ask().points[0]
    assert np.linalg.norm(first) > 0  # the proxy's minimum
    np.testing.assert_array_equal(pp.Run(problem, np.zeros(6)).ask().points[0], np.zeros(6))
    assert given.steps <= free.steps + 1
    # A start that is the minimum already needs no more than to be seen.
    assert pp.minimize(problem, given.w).steps <= 4


@pytest.mark.parametrize("bad", ["w0", "the minimum", "both"])
def test_a_start_where_the_target_is_not_finite_gives_way_to_the_other(bad):
    def holed(function):
        def there(w):
            nan = (bad != "the minimum" and w[0] > 2.9) or (bad != "w0" and abs(w[0]) < 1e-3)
            return function(w) * (np.nan if nan else 1.0)

        return there

    target = pp.FunctionObjective(holed(lambda w: 2 * (w - 1)), value=holed(bowl(1.0, 1.0)[0]))
    result = pp.minimize(pp.Problem(target, bowl()), np.full(1, 3.0))
    if bad == "both":
        assert result.status is Status.TARGET_NOT_FINITE
        np.testing.assert_array_equal(result.w, [3.0])
    else:
        assert result.status is Status.CONVERGED
        np.testing.assert_allclose(result.w, 1, atol=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_run_that_is_choosing_its_start_resumes_bit_for_bit(steps, tmp_path):
    value, gradient = TARGETS["well"]
    problem, w0 = pp.Problem((value, gradient), bowl(centre=1.0)), np.array([0.3, -1.0])
    call = {"method": pp.ProxyBFGS(), "at": steps, "steps": 8}
    whole, resumed = assert_resumes(tmp_path / "run", problem, w0, **call)
    assert resumed.values == whole.values


def counts(seed=0, n=2000):
    """Return a table of counts whose means span decades, in the order of time."""
    rng = np.random.default_rng(seed)
    time = np.arange(n)
    walk = rng.normal(size=(n, 3)).cumsum(0)
    columns = [np.eye(24)[time % 24][:, 1:], np.eye(12)[time * 12 // n][:, 1:7]]
    X = np.hstack([*columns, (walk - walk.mean(0)) / walk.std(0), np.ones((n, 1))])
    w = 0.8 * rng.normal(size=X.shape[1])
    w[-1] = 4
    return X, rng.poisson(np.exp(X @ w) * rng.gamma(4, 0.25, n)).astype(float)


@pytest.mark.parametrize("seed", [0, 2])
def test_steps_that_are_far_too_long_do_not_end_a_run(seed):
    X, y = counts(seed)
    target = pp.poisson_regression(X, y, l2=1e-3)
    proxies = [
        MixedProxy([target.subsample(200, rng=seed)], [0.001]),
        pp.poisson_regression(X[:200], y[:200], l2=1e-3),
        target.subsample(40, rng=seed),
    ]
    for proxy in proxies:
        with np.errstate(over="ignore", invalid="ignore"):
            result = pp.minimize(pp.Problem(target, proxy))
        assert result.status is Status.CONVERGED
        gap = target.value(result.w) - target.value(minimise_exactly(target, result.w))
        assert gap < 1e-8 * (target.value(target.zeros()) - result.fun)


@pytest.mark.parametrize("tol", [None, 1e-15])
def test_a_gradient_at_the_level_of_rounding_has_converged(tol):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    target = pp.linear_regression(X, X.sum(1) + rng.normal(size=1000) + 1e3, l2=1e-3)
    problem = pp.Problem(target, target.subsample(900, rng=0))
    result = pp.minimize(problem, tol=tol)
    assert result.status is Status.CONVERGED
    again = pp.minimize(problem, result.w, tol=tol)
    assert again.status is Status.CONVERGED
