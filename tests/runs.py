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


def counts(run):
    """Return what a run or a result has paid, but for the seconds."""
    return {k: v for k, v in run.ledger.as_dict().items() if "seconds" not in k}


def curved():
    """Return a noisy quadratic with a proxy that is none."""
    target = pp.Quadratic(np.diag([1.0, 4.0, 2.0]), b=np.array([-1.0, 0.5, 1.0]), noise=0.2)
    return pp.Problem(target, pp.FunctionProxy(
        lambda w: float(np.sum(np.cosh(w))), np.sinh, hessian=lambda w: np.diag(np.cosh(w)),
    ))  # fmt: skip


def started(steps=3, **options):
    """Return a run of every part that has a state, some steps on."""
    parts = {
        "method": pp.ProxyProx(0.5, pp.corrections.Storm(0.3)), "inner": pp.inner.QuasiNewton(),
        "stop": pp.stopping.SDane(), "averaging": pp.averaging.Uniform(), "rng": 0,
    }  # fmt: skip
    return advance(pp.Run(curved(), np.ones(3), **{**parts, **options}), steps)


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
