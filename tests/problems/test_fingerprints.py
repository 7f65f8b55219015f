"""Fingerprints tell losses apart by their data and settings, and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox._util.arrays import digest
from proxyprox.problems import MixedProxy, Regularized, ScaledProxy
from proxyprox.problems.combination import PairedLoss, Tilted
from proxyprox.problems.identity import fingerprint

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.integers(0, 2, size=60)


def target(X=X, **options):
    return pp.logistic_regression(X, Y, l2=0.1, batch_size=6, **options)


def test_fingerprints_of_all_losses():
    quadratic = pp.Quadratic(np.eye(4))
    functions = pp.FunctionProxy(lambda w: 0.0, lambda w: 0 * w)
    losses = [
        pp.problems.Zero(),
        quadratic,
        pp.Quadratic(np.eye(4), noise=0.1),
        pp.Quadratic(2 * np.eye(4)),
        target(),
        target(intercept=True),
        target(scipy.sparse.csr_array(X)),
        target(X.astype(np.float32)),
        pp.linear_regression(X, Y, l2=0.1),
        ScaledProxy(quadratic, 2.0),
        ScaledProxy(quadratic, 3.0),
        MixedProxy([quadratic, target()], [1.0, 2.0]),
        MixedProxy([quadratic, target()], [1.0, 3.0]),
        Regularized(quadratic, 0.1, np.zeros(4)),
        Regularized(quadratic, 0.1, np.ones(4)),
        Tilted(quadratic, np.ones(4)),
        PairedLoss(target(), target(), target(), power=0.5),
    ]
    marks = [fingerprint(loss) for loss in losses]
    assert None not in marks
    assert len(set(marks)) == len(losses)
    assert fingerprint(target()) == fingerprint(target(np.asfortranarray(X)))
    assert fingerprint(target().with_batch_size(3)) != fingerprint(target())
    assert fingerprint(ScaledProxy(functions, 2.0)) is None
    assert fingerprint(MixedProxy([quadratic, functions], [1.0, 1.0])) is None


def test_tensors_have_the_digest_of_arrays():
    torch = pytest.importorskip("torch")
    assert digest(torch.ones(3, dtype=torch.float64)) == digest(np.ones(3))
