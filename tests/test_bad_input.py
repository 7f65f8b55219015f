"""Malformed input: the error names the argument, what it got, what is allowed and what to do."""

from __future__ import annotations

import inspect
import math
import traceback

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox.problems.families import Linear

X = np.arange(12.0).reshape(6, 2) / 10
Y = np.array([0, 1, 0, 1, 1, 0])
RAGGED = [[1.0, 2.0], [3.0]]


def with_nan(array, value=np.nan):
    array = np.array(array, dtype=float)
    array.flat[1] = value
    return array


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


def problem():
    return pp.Problem(quadratic(), quadratic())


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
    "w0 NaN": (lambda: solve(w0=[1.0, np.nan]), ValueError, ["w0", "finite", "1 NaN", "at 1"]),
    "w0 inf": (lambda: solve(w0=[np.inf, 1.0]), ValueError, ["w0", "finite", "at 0"]),
    "w0 2-D": (lambda: solve(w0=np.ones((2, 1))), ValueError, ["w0", "(2, 1)", "one-dim", "Flatt"]),
    "w0 0-D": (lambda: solve(w0=3.0), ValueError, ["w0", "()", "one-dimensional"]),
    "w0 empty": (lambda: solve(w0=[]), ValueError, ["w0", "(0,)", "length 2"]),
    "w0 empty, size unknown": (
        lambda: solve(plain_target(), pp.problems.Zero(), w0=[]), ValueError,
        ["w0", "(0,)", "1 or more"]),
    "w0 text": (lambda: solve(w0=["a", "b"]), TypeError, ["w0", "['a', 'b']", "array of numbers"]),
    "w0 text array": (lambda: solve(w0=np.array(["a", "b"])), TypeError, ["w0", "<U1", "float64"]),
    "w0 complex": (lambda: solve(w0=np.ones(2) * 1j), TypeError, ["w0", "complex128", "float64"]),
    "w0 complex list": (lambda: solve(w0=[1j, 2j]), TypeError, ["w0", "1j", "array of numbers"]),
    "w0 object": (lambda: solve(w0=np.array([1, None])), TypeError, ["w0", "object", "float64"]),
    "w0 float16": (lambda: solve(w0=np.ones(2, np.float16)), TypeError, ["w0", "float16", "float"]),
    "w0 ragged": (lambda: solve(w0=RAGGED), TypeError, ["w0", "[3.0]", "array of numbers"]),
    "w0 long": (lambda: solve(w0=np.ones(3)), ValueError, ["w0", "(3,)", "length 2"]),
    "w0 unknown": (
        lambda: solve(plain_target(), pp.problems.Zero()), ValueError,
        ["w0", "None", "starting point"]),
    # -- data
    "X NaN": (lambda: pp.linear_regression(with_nan(X), Y), ValueError, ["X", "1 NaN", "at 0, 1"]),
    "X inf": (lambda: pp.linear_regression(with_nan(X, np.inf), Y), ValueError, ["X", "finite"]),
    "X sparse NaN": (
        lambda: pp.linear_regression(scipy.sparse.csr_array(with_nan(X)), Y),
        ValueError, ["X", "finite", "1 NaN"]),
    "X empty": (lambda: pp.linear_regression(np.ones((0, 2)), []), ValueError, ["X", "(0, 2)"]),
    "X no columns": (lambda: pp.linear_regression(np.ones((6, 0)), Y), ValueError, ["X", "(6, 0)"]),
    "X 1-D": (lambda: pp.linear_regression(X[:, 0], Y), ValueError, ["X", "(6,)", "reshape"]),
    "X 3-D": (lambda: pp.linear_regression(X[None], Y), ValueError, ["X", "(1, 6, 2)", "two-dim"]),
    "X object": (
        lambda: pp.linear_regression(X.astype(object), Y), TypeError, ["X", "object", "float64"]),
    "X ragged": (lambda: pp.linear_regression(RAGGED, [1, 2]), TypeError, ["X", "numeric matrix"]),
    "X text": (lambda: pp.linear_regression([["a"]], [1]), TypeError, ["X", "numeric matrix"]),
    "y short": (lambda: pp.linear_regression(X, Y[:3]), ValueError, ["y", "(3,)", "6 rows"]),
    "y 2-D": (lambda: pp.linear_regression(X, Y[:, None]), ValueError, ["y", "(6, 1)", "6 rows"]),
    "y NaN": (lambda: pp.linear_regression(X, with_nan(Y)), ValueError, ["y", "nan", "row 1"]),
    "y NaN class": (lambda: pp.logistic_regression(X, with_nan(Y)), ValueError, ["y", "nan"]),
    "y text, linear": (
        lambda: pp.linear_regression(X, list("abcabc")), TypeError, ["y", "numeric"]),
    "y three classes": (
        lambda: pp.logistic_regression(X, [0, 1, 2, 0, 1, 2]),
        ValueError, ["y", "3 classes", "two classes", "softmax_regression"]),
    "y one class": (
        lambda: pp.logistic_regression(X, ["a"] * 6), ValueError, ["y", "'a'", "classes="]),
    "y one class, softmax": (
        lambda: pp.softmax_regression(X, [4] * 6), ValueError, ["y", "4", "two classes"]),
    "y unknown class": (
        lambda: pp.logistic_regression(X, [0, 1, 7, 0, 0, 1], classes=(0, 1)),
        ValueError, ["y", "7 at row 2", "[0, 1]"]),
    "y negative, Poisson": (
        lambda: pp.poisson_regression(X, [1, 2, -3, 0, 0, 1]),
        ValueError, ["y", "got -3.0 at row 2.", "zero or more"]),
    "option misspelt": (
        lambda: pp.logistic_regression(X, [0, 1] * 3, L2=1),
        TypeError, ["logistic_regression has no option 'L2'", "l2, intercept"]),
    "option unknown": (
        lambda: pp.poisson_regression(X, Y, depth=3),
        TypeError, ["poisson_regression has no option 'depth'", "l2, intercept"]),
    "columns of other inputs": (
        lambda: pp.linear_regression(X, Y).label_free(np.ones((4, 3))),
        ValueError, ["X must be a table of 2 columns, as the target's is, got 3 columns."]),
    "a class for a method": (
        lambda: solve(plain_target(), w0=np.ones(2), method=pp.ProxyProx),
        TypeError, ["got the class ProxyProx.", 'Call it: method=ProxyProx(eta="auto").']),
    "a class for a rival": (
        lambda: solve(safeguard=pp.Adam), TypeError, ["safeguard", "safeguard=Adam(...)."]),
    "a target without labels": (
        lambda: solve(pp.logistic_regression(X), method=None),
        ValueError, ["y", "None", "Give y", "tell(observations=...)"]),
    "two points, asked once": (
        lambda: solve(Robot(), method=pp.ProxyProx(0.1, correction=pp.corrections.Storm(0.1))),
        TypeError, ["not repeatable", "correction=Plain() or EMA(0.1)"]),
    "eta of SGD": (lambda: pp.SGD(-1), ValueError, ["eta", "-1", "Leave eta out"]),
    "eta of Adam": (lambda: pp.Adam(True), TypeError, ["eta", "True", "0.01"]),
    "eta of SVRP": (lambda: pp.SVRP(0), ValueError, ["eta", "0", "√p/(4 δ_B)"]),
    "eta infinite": (lambda: pp.SGD(math.inf), ValueError, ["eta", "inf", "finite"]),
    "eta measured": (lambda: pp.Adam("auto"), ValueError, ["eta", "auto", "SGD()"]),
    "beta negative": (lambda: pp.methods.Momentum(beta=-0.5), ValueError,
        ["beta", "-0.5", "[0, 1)"]),
    "beta 2": (lambda: pp.methods.Momentum(beta=2), ValueError, ["beta", "2", "[0, 1)"]),
    "classes missing": (lambda: pp.softmax_regression(X), ValueError, ["classes", "None", "tuple"]),
    "weights negative": (
        lambda: pp.linear_regression(X, Y, sample_weight=[-1, 1, 1, 1, 1, 1]),
        ValueError, ["sample_weight", "-1", "zero or more"]),
    "weights zero": (
        lambda: pp.linear_regression(X, Y, sample_weight=np.zeros(6)),
        ValueError, ["sample_weight", "0 to 0", "not all zero"]),
    "weights NaN": (
        lambda: pp.linear_regression(X, Y, sample_weight=with_nan(np.ones(6))),
        ValueError, ["sample_weight", "nan", "finite"]),
    "weights short": (
        lambda: pp.linear_regression(X, Y, sample_weight=[1, 1]),
        ValueError, ["sample_weight", "(2,)", "6 rows"]),
    "batch_size 0": (
        lambda: pp.linear_regression(X, Y, batch_size=0), ValueError, ["batch_size", "0", "1 or"]),
    "batch_size half": (
        lambda: pp.linear_regression(X, Y, batch_size=2.5), TypeError, ["batch_size", "2.5"]),
    "l2 negative": (lambda: pp.linear_regression(X, Y, l2=-1), ValueError, ["l2", "-1", "zero or"]),
    "l2 NaN": (lambda: pp.linear_regression(X, Y, l2=math.nan), ValueError, ["l2", "nan"]),
    "subsample too many": (
        lambda: pp.linear_regression(X, Y).subsample(7), ValueError, ["n must", "7", "rows, 6"]),
    "label_free other columns": (
        lambda: pp.linear_regression(X, Y).label_free(np.ones((3, 5))),
        ValueError, ["X", "5 columns", "2 columns"]),
    "P not square": (lambda: pp.Quadratic(np.ones((2, 3))), ValueError, ["P", "(2, 3)", "square"]),
    "P asymmetric": (
        lambda: pp.Quadratic(np.array([[1.0, 2.0], [0.0, 1.0]])),
        ValueError, ["P", "symmetric", "(P + P.T) / 2"]),
    "P NaN": (lambda: pp.Quadratic(with_nan(np.eye(2))), ValueError, ["P", "finite"]),
    "b short": (lambda: pp.Quadratic(np.eye(2), b=np.ones(3)), ValueError, ["b must", "3", "2"]),
    "noise negative": (lambda: pp.Quadratic(np.eye(2), noise=-1), ValueError, ["noise", "-1"]),
    "proxy of another size": (
        lambda: pp.Problem(quadratic(), pp.Quadratic(np.eye(3))),
        ValueError, ["proxy", "3 parameters", "same columns"]),
    # -- step sizes and settings
    "eta 0": (lambda: pp.ProxyProx(0), ValueError, ["eta", "got 0", "positive", "1/(4δ)"]),
    "eta negative": (lambda: pp.SGD(-1.0), ValueError, ["eta", "-1.0", "positive"]),
    "eta NaN": (lambda: pp.ProxyProx(math.nan), ValueError, ["eta", "nan", "positive"]),
    "eta inf": (lambda: pp.ProxyProx(math.inf), ValueError, ["eta", "inf", "positive"]),
    "eta text": (lambda: pp.ProxyProx("0.1"), TypeError, ["eta", "'0.1'", "positive"]),
    "eta bool": (lambda: pp.ProxyProx(True), TypeError, ["eta", "True", "positive"]),
    "eta None": (lambda: pp.ProxyProx(None), TypeError, ["eta", "None", "positive"]),
    "eta array": (lambda: pp.ProxyProx(np.ones(2)), TypeError, ["eta", "array", "positive"]),
    "eta huge": (lambda: pp.ProxyProx(10**400), ValueError, ["eta", "positive"]),
    "eta(k) negative": (
        lambda: solve(method=pp.ProxyProx(lambda k: -1)), ValueError, ["eta(0)", "-1", "schedule"]),
    "eta(k) text": (
        lambda: solve(method=pp.SGD(lambda k: "1")), TypeError, ["eta(0)", "'1'", "schedule"]),
    "a 0": (lambda: pp.methods.AuxMom(a=0.0), ValueError, ["a must", "0.0", "(0, 1]"]),
    "a 2": (lambda: pp.methods.AuxMVR(a=2.0), ValueError, ["a must", "2.0", "(0, 1]"]),
    "mu 0": (lambda: pp.stopping.StronglyConvex(0.0), ValueError, ["mu", "0.0", "Convex(steps=K)"]),
    "tol 0": (lambda: pp.stopping.Residual(0.0), ValueError, ["tol", "0.0", "positive"]),
    "Steps 0": (lambda: pp.stopping.Steps(0), ValueError, ["steps", "0", "1 or more"]),
    "StochasticGradient 0": (lambda: pp.inner.StochasticGradient(0), ValueError, ["steps", "0"]),
    "correction class": (
        lambda: pp.ProxyProx(1.0, correction=pp.corrections.EMA), TypeError,
        ["correction", "EMA", "Plain()"]),
    "L1 negative": (lambda: pp.L1(-0.1), ValueError, ["alpha", "-0.1", "zero or more"]),
    "l1_ratio 2": (lambda: pp.penalties.ElasticNet(1.0, l1_ratio=2), ValueError,
        ["l1_ratio", "2", "[0, 1]"]),
    # -- the call
    "steps 0": (lambda: solve(steps=0), ValueError, ["steps", "got 0", "1 or more"]),
    "steps negative": (lambda: solve(steps=-1), ValueError, ["steps", "-1", "1 or more"]),
    "steps half": (lambda: solve(steps=1.5), TypeError, ["steps", "1.5", "whole number"]),
    "steps True": (lambda: solve(steps=True), TypeError, ["steps", "True", "whole number"]),
    "steps text": (lambda: solve(steps="9"), TypeError, ["steps", "'9'", "whole number"]),
    "no end": (
        lambda: solve(plain_target(), w0=np.zeros(2), steps=None),
        ValueError,
        ["steps", "budget", "no end"],
    ),
    "tol of noise": (
        lambda: solve(plain_target(), w0=np.zeros(2), tol=0.1),
        ValueError,
        ["tol", "sampled"],
    ),
    "budget 0": (lambda: solve(budget=0), ValueError, ["budget", "got 0", "1 or more"]),
    "budget negative": (lambda: solve(budget=-5), ValueError, ["budget", "-5"]),
    "budget half": (lambda: solve(budget=0.5), TypeError, ["budget", "0.5", "whole number"]),
    "budget text": (lambda: solve(budget="9"), TypeError, ["budget", "'9'", "a Budget"]),
    "budget nothing": (lambda: pp.Budget(), ValueError, ["Budget", "target_gradients", "seconds"]),
    "budget NaN": (lambda: pp.Budget(cost=math.nan), ValueError, ["Budget.cost", "nan"]),
    "budget zero cost": (lambda: pp.Budget(cost=0), ValueError, ["Budget.cost", "0", "Leave it"]),
    "budget uncounted": (
        lambda: solve(steps=None, budget=pp.Budget(cost=5)),
        ValueError, ["Budget.cost", "5", "Quadratic has no cost"]),
    "budget epsilon uncounted": (
        lambda: solve(steps=None, budget=pp.Budget(epsilon=5)),
        ValueError, ["Budget.epsilon", "Quadratic has no epsilon"]),
    "budget without proxy": (
        lambda: solve(method=pp.SGD(1), steps=None, budget=pp.Budget(proxy_gradients=5)),
        ValueError, ["Budget.proxy_gradients", "uses no proxy"]),
    "cost negative": (
        lambda: solve(plain_target(cost=lambda b: -1.0), w0=np.ones(2)),
        ValueError, ["objective.cost(batch)", "-1.0", "zero or more"]),
    "problem bare": (
        lambda: pp.minimize(quadratic(), method=pp.SGD(1), steps=1),
        TypeError, ["problem", "a Problem", "Wrap it"]),
    "objective number": (lambda: pp.Problem(3), TypeError, ["objective", "got 3", "pair of call"]),
    "objective class": (lambda: pp.Problem(pp.GLM), TypeError, ["objective", "GLM", "sample and"]),
    "proxy class": (lambda: pp.Problem(quadratic(), pp.problems.Zero), TypeError,
        ["proxy", "Zero"]),
    "proxy one callable": (
        lambda: pp.Problem(quadratic(), abs).proxy.value(X[0]), TypeError, ["proxy(w)", "number"]),
    "penalty number": (lambda: pp.Problem(quadratic(), penalty=0.1), TypeError, ["penalty", "L1("]),
    "penalty class": (
        lambda: pp.Problem(quadratic(), penalty=pp.L1), TypeError, ["penalty", "L1("]),
    "gradient number": (lambda: pp.FunctionObjective(3), TypeError, ["gradient", "3", "function"]),
    "cost number": (lambda: plain_target(cost=3), TypeError, ["cost", "3", "cost(batch)"]),
    "method class": (
        lambda: solve(method=pp.SGD), TypeError, ["method", "SGD", "such as ProxyProx("]),
    "method text": (lambda: solve(method="sgd"), TypeError, ["method", "'sgd'", "ProxyProx"]),
    "inner class": (lambda: solve(inner=pp.inner.Newton), TypeError,
        ["inner", "Newton", "Newton()"]),
    "inner text": (lambda: solve(inner="newton"), TypeError, ["inner", "'newton'", "Newton()"]),
    "stop class": (lambda: solve(stop=pp.stopping.SDane), TypeError,
        ["stop", "SDane", "Steps(20)"]),
    "stop number": (lambda: solve(stop=1e-3), TypeError, ["stop", "0.001", "stopping rule"]),
    "averaging class": (
        lambda: solve(averaging=pp.averaging.Uniform), TypeError,
        ["averaging", "Uniform", "Geometric"]),
    "averaging text": (lambda: solve(averaging="mean"), TypeError, ["averaging", "'mean'", "Last"]),
    "rng text": (lambda: solve(rng="seed"), TypeError, ["rng", "'seed'", "whole number"]),
    "rng negative": (lambda: solve(rng=-1), ValueError, ["rng", "-1", "0 or more"]),
    "callback number": (
        lambda: solve(callback=3), TypeError, ["callback", "3", "callback(step)"]),
    "expected_steps 0": (
        lambda: pp.Run(pp.Problem(quadratic()), method=pp.SGD(1.0), expected_steps=0),
        ValueError, ["expected_steps", "0", "1 or more"]),
    "checkpoint number": (lambda: solve(checkpoint=3), TypeError, ["checkpoint", "3", "a path"]),
    "checkpoint nowhere": (
        lambda: solve(checkpoint="/nowhere/at/all"),
        ValueError, ["checkpoint", "/nowhere/at/all", "exists", "Create /nowhere/at"]),
    "checkpoint folder": (
        lambda: solve(checkpoint="/tmp"), ValueError, ["checkpoint", "/tmp", "not a folder"]),
    "checkpoint name too long": (
        lambda: solve(checkpoint="/tmp/" + "x" * 300), ValueError, ["checkpoint", "written"]),
    "every_steps 0": (
        lambda: pp.Checkpoint("/tmp/x", every_steps=0), ValueError, ["every_steps", "0"]),
    "every_seconds 0": (
        lambda: pp.Checkpoint("/tmp/x", every_seconds=0), ValueError, ["every_seconds", "0"]),
    # -- parts that do not fit
    "penalty and Newton": (
        lambda: solve(penalty=pp.L1(0.1), inner=pp.inner.Newton()),
        TypeError, ["inner=Newton", "L1(", "ProximalGradient()"]),
    "Newton without Hessian": (
        lambda: solve(proxy=values_only(), w0=np.ones(2), inner=pp.inner.Newton()),
        TypeError, ["inner=Newton", "hessian(w)", "FunctionProxy", "LBFGS()"]),
    "descent without smoothness": (
        lambda: solve(proxy=values_only(), w0=np.ones(2), inner=pp.inner.GradientDescent()),
        TypeError, ["smoothness", "Give GradientDescent a step_size"]),
    "descent on Poisson": (
        lambda: solve(
            pp.poisson_regression(X, Y), pp.poisson_regression(X, Y),
            inner=pp.inner.GradientDescent()),
        TypeError, ["smoothness", "GLM", "step_size"]),
    "DANE without full gradients": (
        lambda: solve(plain_target(), values_only(), np.ones(2), method=pp.DANE()),
        TypeError, ["method=DANE", "everything()", "FunctionObjective", "Use ProxyProx"]),
    "AuxMVR on rollouts": (
        lambda: solve(plain_target(repeatable=False), w0=np.ones(2), method=pp.methods.AuxMVR()),
        TypeError, ["AuxMVR", "two points", "not repeatable", "AuxMom"]),
    "Storm on rollouts": (
        lambda: solve(
            plain_target(repeatable=False), w0=np.ones(2),
            method=pp.ProxyProx(1.0, correction=pp.corrections.Storm())),
        TypeError, ["Storm", "two points", "not repeatable"]),
    # -- functions of other arguments, before a gradient is paid for
    "callback of nothing": (lambda: unpaid(callback=lambda: None), TypeError, ["callback(step)"]),
    "callback of two": (lambda: unpaid(callback=lambda a, b: 0), TypeError, ["callback(step)"]),
    "value of two": (
        lambda: plain_target(value=lambda w, b: 0.0), TypeError, ["value", "value(w)"]),
    "samples of nothing": (
        lambda: plain_target(samples=lambda: 1), TypeError, ["samples", "samples(batch)"]),
    "cost of two": (lambda: plain_target(cost=lambda a, b: 1), TypeError, ["cost", "cost(batch)"]),
    "sample of nothing": (
        lambda: pp.FunctionObjective(lambda w, b: w, sample=lambda: 0),
        TypeError, ["sample", "sample(rng)"]),
    "repeatable text": (
        lambda: plain_target(repeatable="no"), TypeError, ["repeatable", "'no'", "True or False"]),
    "proxy value missing": (
        lambda: pp.FunctionProxy(None, lambda w: w), TypeError, ["value", "None", "function"]),
    "own objective": (lambda: unpaid(objective=Own()), TypeError, ["gradient(w, batch)"]),
    "own penalty": (
        lambda: unpaid(penalty=Own(value=1, prox=1, distance=1)), TypeError, ["penalty", "prox"]),
    "progress text": (lambda: solve(progress="no"), TypeError, ["progress", "'no'", "True or"]),
    # -- files and rules
    "checkpoint empty": (lambda: solve(checkpoint=""), ValueError, ["checkpoint", "''", "file"]),
    "load None": (lambda: pp.Run.load(None, problem()), TypeError, ["path", "None", "path"]),
    "load empty": (lambda: pp.Run.load("", problem()), ValueError, ["path", "''", "file"]),
    "load no problem": (
        lambda: pp.Run.load("x", quadratic()), TypeError, ["problem", "Problem(objective"]),
    "save None": (lambda: pp.Run(problem()).save(None), TypeError, ["path", "None"]),
    "rule and None": (lambda: pp.stopping.Steps(3) & None, TypeError,
        ["rule", "None", "Steps(20)"]),
    "rule or a class": (lambda: pp.stopping.Steps(3) | pp.stopping.Steps, TypeError,
        ["rule", "Add parentheses"]),
    # -- points and batches
    "point too short": (lambda: quadratic().value(np.ones(1)), ValueError, ["w must", "length 2"]),
    "point is None": (lambda: pp.linear_regression(X, Y).gradient(None), ValueError, ["w", "None"]),
    "direction too long": (
        lambda: pp.linear_regression(X, Y).hvp(np.ones(2), np.ones(3)),
        ValueError, ["(3,)", "length 2"]),
    "batch out of range": (
        lambda: pp.linear_regression(X, Y).gradient(np.ones(2), [6]),
        ValueError, ["batch", "to 5"]),
    "batch of text": (
        lambda: pp.linear_regression(X, Y).gradient(np.ones(2), "a"), ValueError, ["batch", "'a'"]),
    "no rows": (lambda: pp.linear_regression(X, Y).rows([]), ValueError, ["batch", "[]"]),
    "shift zero": (lambda: quadratic().solve_shifted(np.ones(2), 0), ValueError, ["eta", "0"]),
    # -- advice
    "a robot is named": (
        lambda: pp.audit(pp.Problem(Robot(), quadratic())),
        TypeError, ["objective", "Robot object>"]),
    "curvature array": (
        lambda: pp.audit(problem(), curvature=X), ValueError, ["curvature", "'secants'"]),
    "problem not a Problem": (
        lambda: pp.problems.regularized(quadratic(), 0.1, np.ones(2)), TypeError,
        ["problem", "Problem("]),
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


def test_there_are_many_cases():
    assert len(CASES) >= 90


ODD = (
    None, "", "x", b"x", -1, 0, math.nan, math.inf, 10**400, 1e308, True, 1j, [], {}, object(), int,
    np.ones(3), np.array(1.0), np.ma.array([1.0, 2.0], mask=[1, 0]), lambda: 1, lambda a, b, c: 1,
)  # fmt: skip
GIVEN = {
    "problem": problem(), "objective": quadratic(), "proxy": quadratic(), "X": X, "P": np.eye(2),
    "gradient": lambda w: w, "value": lambda w: 0.0, "mu": 0.1, "eta": 0.2, "a": 0.5, "n": 2,
    "alpha": 0.1, "centre": np.ones(2), "method": pp.ProxyProx(0.2), "steps": 2, "p": 0.5,
    "delta": 1.0, "path": "run.npz", "y": Y, "family": Linear(), "tol": 0.1, "factor": 0.5,
    "function": lambda w: 0.0, "residuals": lambda w: w, "model": lambda w: w, "first": 0.5,
}  # fmt: skip
# Protocols, base classes, and what a run fills in itself.
NOT_CALLED = {
    "Subproblem", "plan", "Ledger", "Result", "Status", "Request", "Answers", "OuterStep", "State",
    "Averaging", "Correction", "Criterion", "InnerResult", "InnerSolver", "Progress", "AllOf",
    "AnyOf",
}  # fmt: skip
PARTS = [
    pp, pp.averaging, pp.corrections, pp.inner, pp.methods, pp.penalties, pp.scipy, pp.stopping,
]  # fmt: skip
PUBLIC = {
    **{name: getattr(part, name) for part in PARTS for name in part.__all__},
    **{name: getattr(pp.stepsizes, name) for name in ("AutoStep", "Decay")},
    **{name: getattr(pp.problems, name) for name in ("Zero", "regularized")},
}
CALLED = sorted(n for n in PUBLIC.keys() - NOT_CALLED if not n.endswith("Error"))


def refusal(call):
    """Return what was said and in which file; nothing was wrong if there was no error."""
    try:
        call()
    except (TypeError, ValueError) as error:
        return str(error), traceback.extract_tb(error.__traceback__)[-1].filename
    return "It must not be refused.", "proxyprox"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLED)
def test_no_odd_value_ends_deep_inside(name):
    call = PUBLIC[name]
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = [p for p in inspect.signature(call).parameters.values() if p.kind not in kinds]
    needed = {p.name: GIVEN[p.name] for p in parameters if p.default is p.empty}
    if name in ("minimize", "StochasticGradient"):
        needed["steps"] = 2
    for parameter in parameters:
        for value in ODD:
            if name == "minimize" and parameter.name == "callback" and value is int:
                continue  # It can be called with a step, and says what it thinks of it.
            text, where = refusal(lambda v=value, p=parameter: call(**{**needed, p.name: v}))
            assert " must " in text, f"{parameter.name}={value!r}: {text}"
            assert "proxyprox" in where, f"{parameter.name}={value!r}: {text}"


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


@pytest.mark.parametrize("second", [quadratic(), lambda w: 0.0])
def test_a_proxy_in_the_place_of_the_start_is_told_where_it_belongs(second):
    with pytest.raises(
        TypeError, match=r"w0 must be .* write minimize\(Problem\(target, proxy\)\)"
    ):
        pp.minimize(pp.logistic_regression(X, Y), second)


def test_a_sample_larger_than_its_table_is_named_as_the_method_calls_it():
    with pytest.raises(ValueError, match=r"sample must be .* at most 6, got 7"):
        pp.minimize(pp.logistic_regression(X, Y, l2=0.1), method=pp.ProxyBFGS(sample=7))


def test_a_gap_of_nothing_has_no_sign():
    target = (lambda w: float((w - 1) @ (w - 1))), (lambda w: 2 * (w - 1))
    proxy = (lambda w: 1.2 * float((w - 0.8) @ (w - 0.8))), (lambda w: 2.4 * (w - 0.8))
    assert " 0 billionths" in pp.minimize(pp.Problem(target, proxy), np.zeros(3)).message


def test_a_tuple_of_proxies_is_told_to_be_a_list():
    with pytest.raises(TypeError, match=r"Several proxies are a list: Problem\(target, \[a, b\]\)"):
        pp.Problem(quadratic(), (quadratic(), quadratic()))
