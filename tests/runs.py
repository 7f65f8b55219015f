"""Runs that several tests take by hand, and what they compare."""

from __future__ import annotations

import numpy as np

import proxyprox as pp


def advance(run, steps=1):
    """Answer questions of a run from its objective."""
    for _ in range(steps):
        query = run.ask()
        run.tell([run.problem.objective.gradient(w, query.batch) for w in query.points])
    return run


SOLVERS = [
    pp.inner.GradientDescent(), pp.inner.Newton(), pp.inner.NewtonCG(), pp.inner.QuasiNewton(),
    pp.LBFGS(), pp.inner.ProximalGradient(),
]  # fmt: skip
"""Solvers for a general smooth proxy."""


def logistic(n, d, scales=1.0, strength=1.0, *, seed=0, **options):
    """Return logistic regression on labels of a linear model, its columns scaled."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * scales
    y = X @ (strength * rng.normal(size=d)) + rng.logistic(size=n) > 0
    return pp.logistic_regression(X, y, **options)


def differences(function, w, h=1e-6):
    """Return the central differences of a function, one row for each parameter."""
    return np.array([(function(w + h * e) - function(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def assert_resumes(path, problem, w0=None, *, at, steps, **call):
    """Demand that a run in two parts is the whole, bit for bit, and return the whole and it."""
    whole = pp.minimize(problem, w0, steps=steps, **call)
    pp.minimize(problem, w0, steps=at, checkpoint=path, **call)
    again = pp.minimize(problem, w0, steps=steps, checkpoint=path, **call)
    for name in ("w", "last"):
        one, other = (np.asarray(getattr(result, name)) for result in (again, whole))
        assert one.tobytes() == other.tobytes()
    assert again.ledger.target_gradients == whole.ledger.target_gradients
    return whole, again


def counts(run):
    """Return what a run or a result has paid, but for the seconds."""
    return {k: v for k, v in run.ledger.as_dict().items() if "seconds" not in k}


def curved():
    """Return a noisy quadratic with a proxy that is none."""
    target = pp.Quadratic(np.diag([1.0, 4.0, 2.0]), b=np.array([-1.0, 0.5, 1.0]), noise=0.2)
    return pp.Problem(target, pp.FunctionProxy(
        lambda w: float(np.sum(np.cosh(w))), np.sinh, hessian=lambda w: np.diag(np.cosh(w)),
    ))  # fmt: skip


PARTS = {
    "method": pp.ProxyProx(0.5, pp.corrections.Storm(0.3)), "inner": pp.inner.QuasiNewton(),
    "stop": pp.stopping.SDane(), "averaging": pp.averaging.Uniform(), "rng": 0,
}  # fmt: skip


def started(steps=3, **options):
    """Return a run of every part that has a state, some steps on."""
    return advance(pp.Run(curved(), np.ones(3), **{**PARTS, **options}), steps)


def loaded(path, **options):
    """Return such a run as a file has it."""
    return pp.Run.load(path, curved(), np.ones(3), **{**PARTS, **options})


def mutated(data, rng):
    """Return a file's bytes with one or a few changes of the kinds that disks and people make."""
    data, kind = bytearray(data), rng.integers(8)
    first, last = sorted(int(at) for at in rng.integers(len(data) + 1, size=2))
    near = min(first + int(rng.integers(1, 64)), len(data))
    noise = rng.integers(256, size=near - first, dtype=np.uint8).tobytes()
    if kind == 0:
        for at in rng.integers(len(data), size=rng.integers(1, 4)):
            data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[first:near] = noise
    elif kind == 2:
        del data[first:]
    elif kind == 3:
        del data[first:near]
    elif kind == 4:
        data[first:first] = noise
    elif kind == 5:
        data[first:first] = data[first:last]  # a part twice
    elif kind == 6:
        data[first:last] = bytes(last - first)
    else:
        data += noise if rng.integers(2) else bytes(near - first)
    return bytes(data)
