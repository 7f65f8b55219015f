"""Gradients that the default pays for on small problems of many kinds: more are a regression."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import MixedProxy


def table(n=400, d=8, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / 3
    return X, X @ rng.normal(size=d) / 2, rng


def logistic(**options):
    X, s, rng = table(**options)
    return pp.logistic_regression(X, s + rng.logistic(size=len(s)) > 0, l2=1e-3)


def poisson():
    X, s, rng = table(d=5)
    order = np.argsort(X[:, 0])
    return pp.poisson_regression(X[order], rng.poisson(np.exp(s[order] / 2)), l2=1e-3)


def silent(loss):
    gradient = loss[1] if isinstance(loss, tuple) else loss.gradient
    return pp.FunctionObjective(gradient)


def curved(shift):
    def value(w):
        return float((1 - w[0]) ** 2 + 5 * (w[1] - shift * w[0] ** 2) ** 2)

    def gradient(w):
        away = w[1] - shift * w[0] ** 2
        return np.array([-2 * (1 - w[0]) - 20 * shift * w[0] * away, 10 * away])

    return value, gradient


def drifted(loss):
    return pp.GLM(loss.design.X[:120] * 1.3, loss.targets[:120], loss.family, l2=1e-3)


def quadratic(seed, size=30):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    P = (basis * np.geomspace(1e-3, 10, size)) @ basis.T
    error = rng.normal(size=(size, size)) / size
    near = P + 0.05 * error @ error.T
    return pp.Quadratic((P + P.T) / 2, b=rng.normal(size=size)), pp.Quadratic((near + near.T) / 2)


def negated(loss):
    return pp.FunctionProxy(
        lambda w: -loss.value(w), lambda w: -loss.gradient(w), hessian=lambda w: -loss.hessian(w)
    )


def hard():
    """Return a target of many line searches, and its flat proxy."""
    target = pp.FunctionObjective(
        lambda w: 3 * np.sinh(3 * (w - 0.7)), value=lambda w: float(np.cosh(3 * (w - 0.7)).sum())
    )
    return target, pp.Quadratic(np.diag([0.1, 0.3, 1.0, 3.0]))


def steep(scale):
    """Return the gradients of a sum of cosh, and its flat proxy."""
    target = pp.FunctionObjective(lambda w: scale * np.sinh(scale * (w - 0.5)))
    return target, pp.Quadratic(np.diag([0.5, 1.0, 2.0]))


def in_units(loss, kind):
    units = np.geomspace(1e-3, 1e3, 8)
    return kind(
        value=lambda w: loss.value(w / units), gradient=lambda w: loss.gradient(w / units) / units
    )


def relabelled(loss, X, labels):
    return pp.GLM(X, labels, loss.family, l2=1e-3)


def case(paid, *losses, size=8, w0=0.0, bounds=None, scales=None, **method):
    """Return a problem, where the run begins, its method and the gradients that are paid for."""
    problem = pp.Problem(*losses, bounds=bounds, scales=scales)
    return problem, np.full(size, w0), pp.ProxyBFGS(**method), paid


L, W, MANY, Q = logistic(), poisson(), logistic(n=2000, d=12), quadratic(2)
NEAR, SILENT, BENT = L.subsample(80, rng=0), silent(L), curved(1.0)
BACKWARDS = pp.GLM(NEAR.design.X[:, ::-1], NEAR.targets, L.family, l2=1e-3)
FLIPPED = pp.GLM(NEAR.design.X, 1 - NEAR.targets, L.family, l2=1e-3)
UNITS = [in_units(L, pp.FunctionObjective), in_units(NEAR, pp.FunctionProxy)]
BOX, OWN = (-0.3, 0.4), {"size": 12, "sample": 200, "worth": 3.0}
CASES = {
    "sample": case(10, L, NEAR),
    "small sample": case(15, L, L.subsample(20, rng=1)),
    "gradients alone": case(10, SILENT, NEAR),
    "a thousandth": case(24, L, MixedProxy([NEAR], [1e-3])),
    "a thousand times": case(16, L, MixedProxy([NEAR], [1e3])),
    "drifted": case(10, L, drifted(L)),
    "sorted counts": case(10, W, W.subsample(60, rng=0), size=5),
    "counts, gradients alone": case(10, silent(W), W.subsample(60, rng=0), size=5),
    "quadratic": case(12, *quadratic(0), size=30),
    "quadratic, gradients alone": case(12, silent(quadratic(1)[0]), quadratic(1)[1], size=30),
    "curved": case(8, BENT, curved(0.9), size=2),
    "far proxy": case(14, BENT, curved(0.2), size=2),
    "curved, gradients alone": case(10, silent(BENT), curved(0.9), size=2),
    "far proxy, gradients alone": case(33, silent(BENT), curved(0.2), size=2),
    "few line searches, gradients alone": case(10, *steep(2.0), size=3),
    "many line searches": case(16, *hard(), size=4),
    "none": case(18, L),
    "none, gradients alone": case(21, SILENT),
    "counts without a proxy": case(13, W, size=5),
    "curved without a proxy": case(13, BENT, size=2),
    "backwards": case(20, L, BACKWARDS),
    "flipped": case(13, L, FLIPPED),
    "negated": case(12, L, negated(NEAR)),
    "flipped, gradients alone": case(13, SILENT, FLIPPED),
    "values and gradients": case(10, L, pp.FunctionProxy(NEAR.value, NEAR.gradient)),
    "products": case(10, L, pp.FunctionProxy(NEAR.value, NEAR.gradient, hvp=NEAR.hvp)),
    "flat": case(20, Q[0], pp.Quadratic(0.1 * Q[1].P), size=30),
    "steep": case(12, Q[0], pp.Quadratic(1e3 * Q[1].P), size=30),
    "identity": case(33, Q[0], pp.Quadratic(np.eye(30)), size=30),
    "in a box": case(7, L, NEAR, bounds=BOX),
    "in a box, gradients alone": case(8, SILENT, NEAR, bounds=BOX),
    "in a box without a proxy": case(12, L, bounds=BOX),
    "quadratic in a box": case(4, *Q, bounds=(-1, 1), size=30),
    "curved in a box": case(4, BENT, curved(0.9), bounds=(-2, 0.8), size=2),
    "in other units": case(20, *UNITS),
    "scales": case(12, *UNITS, scales=np.geomspace(1e-3, 1e3, 8)),
    "from elsewhere": case(10, L, NEAR, w0=0.5),
    "from w0": case(16, *hard(), size=4, start_at_proxy=False),
    "few pairs": case(71, L, BACKWARDS, memory=3),
    "own rows": case(12, MANY, **OWN),
    "own rows later": case(15, MANY, start_at_proxy=False, **OWN),
    "own few rows": case(16, MANY, **{**OWN, "sample": 60, "worth": 2.0}, start_at_proxy=False),
    "own rows of counts": case(10, W, size=5, sample=40, worth=1.0),
    "own rows in a box": case(9, MANY, bounds=BOX, **OWN),
}


@pytest.mark.parametrize("name", CASES)
def test_no_more_gradients_are_paid_than_were(name):
    problem, w0, method, paid = CASES[name]
    result = pp.minimize(problem, w0, method=method, tol=1e-7)
    assert result.status is pp.Status.CONVERGED
    assert result.njev <= paid


def test_useless_proxies_cost_few_rounds_more_than_none():
    least = L.value(minimise_exactly(L, np.zeros(8)))
    values = []
    scipy.optimize.minimize(
        lambda w: (values.append(L.value(w)) or values[-1], L.gradient(w)), np.zeros(8), jac=True,
        method="L-BFGS-B", options={"ftol": 0.0, "gtol": 1e-10},
    )  # fmt: skip
    for name in ("none", "backwards", "flipped", "negated", "a thousandth", "a thousand times"):
        problem, w0, method, _ = CASES[name]
        ours = pp.minimize(problem, w0, method=method, tol=1e-10).trace["value"]
        ours, rivals = (int(np.argmax(np.array(x) - least <= 1e-6)) for x in (ours, values))
        assert ours <= rivals + 3, name
