"""Results: SciPy's names, what was counted, the figure, and what single precision allows."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import logistic

A, B = np.diag([1.0, 10.0, 100.0]), np.array([1.0, -2.0, 3.0])
PROXY = pp.Quadratic(A + 0.1 * np.eye(3))


class Counted:
    """A target that counts its calls; ``combined`` offers value and gradient in one."""

    exact = True

    def __init__(self, combined=False):
        self.values = self.gradients = 0
        if combined:
            self.value_and_gradient = self._both

    def sample(self, rng):
        return None

    def everything(self):
        return None

    def value(self, w):
        self.values += 1
        return float(w @ A @ w / 2 - B @ w)

    def gradient(self, w, batch=None):
        self.gradients += 1
        return A @ w - B

    def _both(self, w, batch=None):
        return self.value(w), self.gradient(w)


@pytest.mark.parametrize(
    ("method", "combined", "saved"),
    [(None, False, True), (pp.ProxyProx(eta=2.0), True, True), (pp.DANE(eta=2.0), True, False)],
)
def test_counts_are_those_of_the_calls(method, combined, saved, tmp_path):
    target = Counted(combined)
    where = tmp_path / "run" if saved else None
    result = pp.minimize(
        pp.Problem(target, PROXY), np.zeros(3), method=method, steps=20, checkpoint=where
    )
    assert (result.nfev, result.njev) == (target.values, target.gradients)
    assert result.nit == result.steps == result.trace[-1].k + 1
    assert "residual" in repr(result.trace)
    assert result.x is result.w
    assert result.fun == pytest.approx(target.value(result.x))
    assert result.fun == result.values[1]
    if result.jac is not None:
        assert np.allclose(result.jac, target.gradient(result.x))
    assert result.success
    assert result.message


def test_calls_for_differences_count_as_values():
    calls = []

    def fine(w):
        calls.append(w)
        return float(w @ A @ w / 2 - B @ w)

    result = pp.minimize(pp.Problem(fine, PROXY), np.zeros(3))
    assert result.nfev == len(calls)
    assert 0 < result.njev < result.nfev
    assert np.allclose(result.x, np.linalg.solve(A, B), atol=1e-4)
    calls.clear()
    root = np.sqrt(A)
    fitted = pp.LeastSquares(lambda w: (calls.append(w), root @ (w - 1))[1])
    coarse = pp.LeastSquares(lambda w: 1.1 * root @ (w - 1))
    result = pp.minimize(pp.Problem(fitted, coarse), np.zeros(3))
    assert result.nfev == len(calls)
    assert result.fun == pytest.approx(0.0, abs=1e-8)


def test_the_loss_includes_the_penalty_and_is_nan_if_unknown():
    target, penalty = logistic(200, 5, l2=1e-3), pp.L1(0.05)
    result = pp.minimize(pp.Problem(target, target.subsample(50, rng=0), penalty=penalty))
    assert result.fun == pytest.approx(target.value(result.x) + penalty.value(result.x))
    silent = pp.FunctionObjective(lambda w: A @ w - B)
    result = pp.minimize(pp.Problem(silent, PROXY), np.zeros(3))
    assert math.isnan(result.fun)
    assert result.nfev == 0
    assert result.njev > 0


def test_results_of_broken_off_and_open_runs_have_the_names():
    target = Counted()
    problem = pp.Problem(target, PROXY)

    def fail(step):
        if step.record.k == 3:
            raise RuntimeError("offline")

    with pytest.raises(pp.OracleError) as caught:
        pp.minimize(problem, np.zeros(3), callback=fail)
    result = caught.value.result
    assert (result.nit, result.njev, result.nfev) == (4, target.gradients, target.values)
    assert result.fun == pytest.approx(target.value(result.x))
    assert not result.success
    run = pp.Run(problem, np.zeros(3), method=pp.ProxyBFGS())
    for _ in range(3):
        query = run.ask()
        run.tell(target.gradient(query.points[0]), value=target.value(query.points[0]))
    result = run.result()
    assert (result.nit, result.njev, result.nfev) == (3, 3, 3)
    assert result.fun == pytest.approx(target.value(result.x))


def test_seconds_inside_the_proxy_are_counted():
    def slowly(w):
        time.sleep(0.002)
        return PROXY.gradient(w)

    target = pp.FunctionObjective(lambda w: A @ w - B)
    proxy = pp.FunctionProxy(gradient=slowly, value=PROXY.value)
    result = pp.minimize(
        pp.Problem(target, proxy), np.zeros(3), method=pp.ProxyProx(eta=1.0), steps=3
    )
    paid = result.ledger
    assert 0.002 * paid.proxy_gradients <= paid.proxy_seconds <= paid.seconds
    assert "in the proxy" in str(result)
    alone = pp.minimize(pp.Problem(target), np.zeros(3), method=pp.SGD(0.001), steps=3)
    assert alone.ledger.proxy_seconds == 0


# -- the figure -----------------------------------------------------------------------------------


@pytest.fixture
def pyplot(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")


def test_the_figure_shows_the_loss_or_says_that_it_shows_gradients(pyplot, tmp_path):
    target = logistic(200, 5, l2=1e-3)
    result = pp.minimize(pp.Problem(target, target.subsample(50, rng=0)))
    ax = result.plot()
    assert "loss" in ax.get_ylabel()
    (line,) = ax.lines
    lowest = line.get_ydata()
    assert (np.diff(lowest) <= 0).all()
    assert lowest[-1] == pytest.approx(result.fun)
    assert list(line.get_xdata()) == list(range(1, result.njev + 1))
    ax.figure.savefig(tmp_path / "run.png")
    target = logistic(200, 5, l2=1e-3, batch_size=8)
    result = pp.minimize(pp.Problem(target, target.subsample(50, rng=0)), steps=20, rng=0)
    own = pyplot.subplots()[1]
    assert result.plot(ax=own) is own
    assert "gradient" in own.get_ylabel()
    assert "loss" in own.get_ylabel()  # that it is not known
    (line,) = own.lines
    assert np.allclose(line.get_ydata(), result.trace["gradient"])
    pp.Run(pp.Problem(logistic(200, 5, l2=1e-3)), method=pp.SGD(0.1)).result().plot()


# -- names of other libraries ---------------------------------------------------------------------


FOREIGN = {
    "maxiter": "steps=", "x0": "w0=", "jac": "Problem", "bounds": "bounds=", "options": "steps=",
    "args": "lambda", "gtol": "atol=", "seed": "rng=", "learning_rate": "eta=", "stesp": "steps=",
    "nonsense": "w0, method, steps",
}  # fmt: skip
OF_PROBLEMS = {
    "fun": "objective=", "jac": "(value, gradient)", "x0": "w0=", "tol": "minimize",
    "penlty": "penalty=", "l1": "L1", "maxiter": "steps=", "upper": "bounds=",
}  # fmt: skip


def test_arguments_of_others_are_answered_with_ours():
    problem = pp.Problem(logistic(200, 5, l2=1e-3), pp.Quadratic(np.eye(5)))
    calls = [(pp.minimize, problem, {name: 10}, name, word) for name, word in FOREIGN.items()]
    calls += [
        (pp.Run, problem, {name: 10}, name, name) for name in FOREIGN.keys() - {"bounds", "jac"}
    ]
    calls += [
        (pp.Problem, logistic(200, 5, l2=1e-3), {n: 10}, n, word) for n, word in OF_PROBLEMS.items()
    ]
    for name, word in (("L-BFGS-B", "ProxyBFGS()"), ("adam", "Adam(0.01)")):
        calls.append((pp.minimize, problem, {"method": name}, "method", word))
    for function, first, given, name, word in calls:
        with pytest.raises(TypeError, match=name) as caught:
            function(first, **given)
        assert word in str(caught.value)


# -- single precision -----------------------------------------------------------------------------


def test_single_precision_is_mentioned_and_ends_where_it_can():
    def solve(dtype, **ends):
        A = np.array([[4.0, 1.0], [1.0, 3.0]], dtype)
        target, proxy = (lambda w, A=B: A @ w - np.ones(2, dtype) for B in (A, A + 0.1 * A**2))
        loss = pp.Problem(
            (lambda w: float(w @ A @ w / 2 - w.sum()), target),
            (lambda w: float(w @ (A + 0.1 * A**2) @ w / 2 - w.sum()), proxy),
        )
        return pp.minimize(loss, np.zeros(2, dtype), **ends)

    result, other = solve(np.float32), solve(np.float64)
    assert result.status is pp.Status.CONVERGED
    assert "float32" in result.message
    assert "float64" in str(result)
    assert "float32" not in other.message
    assert result.x == pytest.approx(other.x, rel=1e-3)
    assert "float32" not in solve(np.float32, tol=1e-3).message


# -- one gradient, if the losses differ by a linear function ---------------------------------------


def glm(make, y, **options):
    X = np.random.default_rng(0).standard_normal((200, 4))
    return make(X, y(X), l2=1e-3, **options)


def coin(X):
    return (X[:, 0] + np.random.default_rng(1).logistic(size=len(X)) > 0).astype(float)


LINEAR = {
    "logistic": lambda: glm(pp.logistic_regression, coin),
    "softmax": lambda: glm(pp.softmax_regression, lambda X: np.digitize(X[:, 1], [-0.5, 0.5])),
    "Poisson": lambda: glm(pp.poisson_regression, lambda X: np.round(np.exp(X[:, 0]))),
    "linear": lambda: glm(pp.linear_regression, lambda X: X @ np.ones(4) + 1),
}


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("logistic", "plain"), ("logistic", "w0"), ("logistic", "Box"), ("softmax", "proxy"),
        ("softmax", "tol"), ("Poisson", "L1"), ("Poisson", "plain"), ("linear", "w0"),
    ],
)  # fmt: skip
def test_one_gradient_is_paid_if_the_proxy_has_the_targets_curvature(name, how):
    target = LINEAR[name]()
    call, given, penalty = {}, {}, None
    if how == "w0":
        call["w0"] = 0.5 * np.ones(target.dim)
    elif how == "proxy":
        call["w0"] = "proxy"
    elif how in ("L1", "Box"):
        penalty = pp.L1(0.01) if how == "L1" else pp.Box(-0.1, 0.1)
        given["penalty"] = penalty
    tol = call["tol"] = 1e-6 if how == "tol" else 1e-8
    problem = pp.Problem(target, target.label_free(), **given)
    result = pp.minimize(problem, **(call if how == "tol" else {**call, "tol": None}))
    assert result.status is pp.Status.CONVERGED
    assert result.ledger.target_gradients == result.njev == 1
    assert "curvature" in result.message
    start = call.get("w0") if how == "w0" else target.zeros()
    sizes = [
        np.linalg.norm(g) if penalty is None else penalty.distance(w, g)
        for w, g in ((w, target.gradient(w, None)) for w in (result.w, start))
    ]
    assert sizes[0] <= 1.01 * tol * sizes[1] + 1e-14
