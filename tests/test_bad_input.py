"""Malformed input: the error names the argument, what it got, what is allowed and what to do."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp

X = np.arange(12.0).reshape(6, 2) / 10
Y = np.array([0, 1, 0, 1, 1, 0])


def quadratic(noise=0.0):
    return pp.Quadratic(np.diag([1.0, 2.0]), b=np.ones(2), noise=noise)


def solve(objective=None, proxy=None, w0=None, penalty=None, **call):
    problem = pp.Problem(objective or quadratic(), proxy or quadratic(), penalty)
    call = {"method": pp.ProxyProx(0.5), "steps": 2, "rng": 0, **call}
    return pp.minimize(problem, w0, **call)


def plain_target(**options):
    return pp.FunctionObjective(lambda w, b: w, sample=lambda rng: 0, **options)


def values_only():
    return pp.FunctionProxy(lambda w: 0.5 * float(w @ w), lambda w: w)


def unpaid(objective=None, **call):
    """Solve with an objective that may not be asked."""

    def gradient(w):
        raise AssertionError("paid for")

    return solve(objective or pp.FunctionObjective(gradient), w0=np.ones(2), **call)


class Own:
    """An objective whose gradient takes no batch, or a penalty that has no methods."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def sample(self, rng):
        raise AssertionError("asked")

    def gradient(self, w):
        raise AssertionError("paid for")


class Robot:
    """An objective whose batches may not be evaluated again."""

    repeatable, dim = False, 2

    def sample(self, rng):
        return int(rng.integers(9))

    def gradient(self, w, batch):
        raise AssertionError("paid for")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# name: (what is called, the error, words that the message must hold)
CASES = {
    # -- w0
    "w0 NaN": (lambda: solve(w0=[1.0, np.nan]), ValueError, ["w0", "at 1"]),
    "w0 empty, size unknown": (
        lambda: solve(plain_target(), pp.problems.Zero(), w0=[]), ValueError, ["w0", "1 or more"]),
    "w0 long": (lambda: solve(w0=np.ones(3)), ValueError, ["w0", "length 2"]),
    "w0 unknown": (
        lambda: solve(plain_target(), pp.problems.Zero()), ValueError, ["w0", "starting point"]),
    # -- data
    "y text, linear": (
        lambda: pp.linear_regression(X, list("abcabc")), TypeError, ["y", "numeric"]),
    "y three classes": (
        lambda: pp.logistic_regression(X, [0, 1, 2, 0, 1, 2]),
        ValueError, ["y", "softmax_regression"]),
    "y one class": (lambda: pp.logistic_regression(X, ["a"] * 6), ValueError, ["y", "classes="]),
    "y unknown class": (
        lambda: pp.logistic_regression(X, [0, 1, 7, 0, 0, 1], classes=(0, 1)),
        ValueError, ["y", "[0, 1]"]),
    "option misspelt": (
        lambda: pp.logistic_regression(X, [0, 1] * 3, L2=1),
        TypeError, ["GLM", "L2", "l2"]),
    "columns of other inputs": (
        lambda: pp.linear_regression(X, Y).label_free(np.ones((4, 3))),
        ValueError, ["X must be a table of 2 columns, as the target's is, got 3 columns."]),
    "a class for a method": (
        lambda: solve(plain_target(), w0=np.ones(2), method=pp.ProxyProx),
        TypeError, ["got the class ProxyProx.", 'Call it: method=ProxyProx(eta="auto").']),
    "a target without labels": (
        lambda: solve(pp.logistic_regression(X), method=None),
        ValueError, ["y", "tell(observations=...)"]),
    "two points, asked once": (
        lambda: solve(Robot(), method=pp.ProxyProx(0.1, correction=pp.corrections.Storm(0.1))),
        TypeError, ["not repeatable", "correction=Plain() or EMA(0.1)"]),
    "classes missing": (lambda: pp.softmax_regression(X), ValueError, ["classes", "tuple"]),
    # -- step sizes and settings
    "eta(k) negative": (
        lambda: solve(method=pp.ProxyProx(lambda k: -1)), ValueError, ["eta(0)", "schedule"]),
    # -- the call
    "budget uncounted": (
        lambda: solve(steps=None, budget=pp.Budget(cost=5)),
        ValueError, ["Budget.cost", "Quadratic has no cost"]),
    "budget without proxy": (
        lambda: solve(method=pp.SGD(1), steps=None, budget=pp.Budget(proxy_gradients=5)),
        ValueError, ["Budget.proxy_gradients", "uses no proxy"]),
    "cost negative": (
        lambda: solve(plain_target(cost=lambda b: -1.0), w0=np.ones(2)),
        ValueError, ["objective.cost(batch)", "zero or more"]),
    "problem bare": (
        lambda: pp.minimize(quadratic(), method=pp.SGD(1), steps=1),
        TypeError, ["problem", "Wrap it"]),
    "proxy one callable": (
        lambda: pp.Problem(quadratic(), abs).proxy.value(X[0]), TypeError, ["proxy(w)", "number"]),
    "checkpoint nowhere": (
        lambda: solve(checkpoint="/nowhere/at/all"),
        ValueError, ["checkpoint", "Create /nowhere/at"]),
    "checkpoint name too long": (
        lambda: solve(checkpoint="/tmp/" + "x" * 300), ValueError, ["checkpoint", "written"]),
    # -- parts that do not fit
    "penalty and Newton": (
        lambda: solve(penalty=pp.L1(0.1), inner=pp.inner.Newton()),
        TypeError, ["inner=Newton", "ProximalGradient()"]),
    "Newton without Hessian": (
        lambda: solve(proxy=values_only(), w0=np.ones(2), inner=pp.inner.Newton()),
        TypeError, ["inner=Newton", "LBFGS()"]),
    "descent without smoothness": (
        lambda: solve(proxy=values_only(), w0=np.ones(2), inner=pp.inner.GradientDescent()),
        TypeError, ["smoothness", "Give GradientDescent a step_size"]),
    # -- functions of other arguments, before a gradient is paid for
    "callback of two": (lambda: unpaid(callback=lambda a, b: 0), TypeError, ["callback(step)"]),
    "own objective": (lambda: unpaid(objective=Own()), TypeError, ["gradient(w, batch)"]),
    "own penalty": (
        lambda: unpaid(penalty=Own(value=1, prox=1, distance=1)), TypeError, ["penalty", "prox"]),
    # -- files and rules
    "load no problem": (
        lambda: pp.Run.load("x", quadratic()), TypeError, ["problem", "Problem(objective"]),
    # -- points and batches
    "batch out of range": (
        lambda: pp.linear_regression(X, Y).gradient(np.ones(2), [6]), ValueError, ["batch", "to 5"],
    ),
    # -- advice
    "a robot is named": (
        lambda: pp.audit(pp.Problem(Robot(), quadratic())),
        TypeError, ["objective", "Robot object>"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_message_says_what_where_and_how(name):
    call, kind, words = CASES[name]
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    text = str(caught.value)
    assert type(caught.value) is kind, text
    for word in words:
        assert word in text, text
    assert text.endswith((".", ")"))


def test_torch_and_numpy_are_not_mixed():
    torch = pytest.importorskip("torch")
    target = pp.linear_regression(X, Y)
    with pytest.raises(TypeError, match=r"w0 must be a ndarray of dtype float64, as the data is"):
        solve(target, target, w0=torch.zeros(2, dtype=torch.float64))
    target = pp.linear_regression(torch.tensor(X), Y)
    with pytest.raises(TypeError, match=r"w0 must be a Tensor .*got a ndarray"):
        solve(target, target, w0=np.zeros(2))
    with pytest.raises(TypeError, match=r"w0 must be a Tensor of dtype torch.float64.*float32"):
        solve(target, target, w0=torch.zeros(2))


def test_other_dtypes_are_refused_before_anything_is_paid():
    one, other = (pp.Quadratic(np.eye(2, dtype=dtype)) for dtype in (np.float32, np.float64))
    for proxy in (other, [other, other], [one, other], pp.linear_regression(X, Y)):
        with pytest.raises(TypeError, match="prox"):
            pp.Problem(one, proxy)
    with pytest.raises(TypeError, match="w0"):
        pp.Run(pp.Problem(one, one), np.zeros(2))


@pytest.mark.parametrize("second", [quadratic(), lambda w: 0.0])
def test_a_proxy_in_the_place_of_the_start_is_told_where_it_belongs(second):
    with pytest.raises(
        TypeError, match=r"w0 must be .* write minimize\(Problem\(target, proxy\)\)"
    ):
        pp.minimize(pp.logistic_regression(X, Y), second)


def test_a_sample_larger_than_its_table_is_named_as_the_method_calls_it():
    with pytest.raises(ValueError, match=r"sample must be .* at most 6, got 7"):
        pp.minimize(pp.logistic_regression(X, Y, l2=0.1), method=pp.ProxyBFGS(sample=7))


def test_a_message_says_what_is_left_of_the_gap_but_not_of_nothing():
    target = (lambda w: float((w - 1) @ (w - 1))), (lambda w: 2 * (w - 1))
    proxy = (lambda w: 1.2 * float((w - 0.8) @ (w - 0.8))), (lambda w: 2.4 * (w - 0.8))
    assert "is left" not in pp.minimize(pp.Problem(target, proxy), np.zeros(3)).message
    rows = np.random.default_rng(0).normal(size=(200, 5))
    loss = pp.logistic_regression(rows, rows.sum(1) + rows[:, 0] ** 2 > 0, l2=1e-2)
    best = pp.minimize(loss, tol=1e-12).fun
    for end in ({"tol": 1e-2}, {"budget": 5}, {"steps": 5}, {"steps": 5, "w0": np.zeros(5)}):
        result = pp.minimize(pp.Problem(loss, loss.subsample(40, rng=0)), **end)
        said = float(result.message.split(" of the first gap")[0].split()[-1])
        left = (result.fun - best) / (loss.value(np.zeros(5)) - best)
        assert said / 20 < left < 20 * said
