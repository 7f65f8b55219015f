"""The array-based core and the torch optimiser are the same method, to 1e-12."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Mean, Plain, ProxyProx

STEPS, INNER, GAMMA = 12, 7, 0.2


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5)) * [1, 2, 0.5, 1, 3]
    y = (X @ rng.normal(size=5) + rng.normal(size=60) > 0).astype(float)
    return X, y


def core_path(data, method, *, implicit):
    X, y = data
    target = pp.logistic_regression(X, y, batch_size=10)
    run = pp.Run(
        pp.Problem(target, proxy=target.label_free()),
        method=method,
        inner=pp.inner.GradientDescent(step_size=GAMMA, implicit=implicit),
        stop=pp.stopping.Steps(INNER),
        rng=5,
    )
    batches, path = [], []
    for _ in range(STEPS):
        query = run.ask()
        batches.append(query.batch)
        run.tell([target.gradient(w, query.batch) for w in query.points])
        path.append(run.w)
    return batches, np.array(path)


def torch_path(data, batches, *, correction, eta, inner):
    X, y = (torch.from_numpy(part) for part in data)
    w = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))

    def logistic(rows, labels):
        margins = X[rows] @ w
        return torch.nn.functional.softplus(margins).mean() - (labels * margins).mean()

    def proxy():
        return logistic(slice(None), 0.5)

    optimizer = ProxyProx([w], lr=eta, proxy=proxy, correction=correction, inner=inner, stop=INNER)
    path = []
    for batch in batches:
        rows = torch.from_numpy(np.asarray(batch))

        def closure(rows=rows):
            optimizer.zero_grad()
            loss = logistic(rows, y[rows])
            loss.backward()
            return loss

        optimizer.step(closure)
        path.append(w.detach().numpy().copy())
    return np.array(path), optimizer


@pytest.mark.parametrize(
    ("method", "correction", "eta", "implicit"),
    [
        (pp.ProxyProx(eta=2.0), Plain(), 2.0, False),
        (pp.ProxyProx(eta=2.0, correction=EMA(0.3)), EMA(0.3), 2.0, True),
        (pp.ProxyProx(eta=2.0, correction=Mean()), Mean(), 2.0, False),
        (pp.methods.AuxMom(a=0.2), EMA(0.2), math.inf, True),
    ],
    ids=["plain", "ema", "mean", "auxmom"],
)
def test_same_iterates_as_the_core(data, method, correction, eta, implicit):
    batches, expected = core_path(data, method, implicit=implicit)
    inner = ImplicitStep(GAMMA) if implicit else functools.partial(torch.optim.SGD, lr=GAMMA)
    found, optimizer = torch_path(data, batches, correction=correction, eta=eta, inner=inner)
    assert np.abs(expected[-1]).max() > 0.05, "the run must go somewhere"
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert optimizer.ledger.target_gradients == STEPS
    # The anchor's gradient is the first inner step's: INNER full gradients an outer step.
    assert optimizer.ledger.proxy_gradients == STEPS * INNER
