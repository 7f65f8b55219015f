"""Each method against its update, written out by hand."""

import math

import numpy as np
import pytest

from experiments.rivals import Momentum
from proxyprox import DANE, L1, Adam, Problem, ProxyProx, Quadratic, minimize
from proxyprox.corrections import EMA, Mean, Plain, Storm
from proxyprox.stopping import Residual

RNG = np.random.default_rng(0)
D = 5


def positive_definite(seed):
    root = np.random.default_rng(seed).normal(size=(D, D))
    return root @ root.T / D + 0.2 * np.eye(D)


A, P = positive_definite(1), positive_definite(2)
B, W0 = RNG.normal(size=(2, D))
TARGET, PROXY = Quadratic(A, B, noise=0.5), Quadratic(P)


def noises(steps, seed=7):
    """The draws that a run with this seed makes."""
    rng = np.random.default_rng(seed)
    return [TARGET.sample(rng) for _ in range(steps)]


def gradient(w, noise):
    return A @ w + B + noise


def run(method, steps=6, **options):
    return minimize(Problem(TARGET, PROXY), W0, method=method, steps=steps, rng=7, **options)


def soft(v, threshold):
    return [math.copysign(max(abs(x) - t, 0), x) for x, t in zip(v, threshold, strict=True)]


def loop(method, alpha=0.0, steps=9):
    """The update of a method without a proxy, number by number, with the penalty alpha ‖w‖₁."""
    w, m, v = list(W0), [0.0] * D, [0.0] * D
    for k, noise in enumerate(noises(steps)):
        g, eta = gradient(np.array(w), noise), method.eta
        length = [eta] * D
        for j in range(D):
            if isinstance(method, Momentum):
                m[j] = method.beta * m[j] + g[j]
                direction = g[j] + method.beta * m[j] if method.nesterov else m[j]
            else:
                m[j] = method.beta1 * m[j] + (1 - method.beta1) * g[j]
                v[j] = method.beta2 * v[j] + (1 - method.beta2) * g[j] ** 2
                root = (v[j] / (1 - method.beta2 ** (k + 1))) ** 0.5
                length[j], direction = (
                    eta / (root + method.eps),
                    m[j] / (1 - method.beta1 ** (k + 1)),
                )
            w[j] -= length[j] * direction
        w = soft(w, [alpha * size for size in length])
    return w


RIVALS = [Momentum(0.1), Momentum(0.1, beta=0.5, nesterov=True), Adam(0.1, beta2=0.9)]


@pytest.mark.parametrize("method", RIVALS, ids=repr)
def test_methods_without_a_proxy_are_their_loops(method):
    result = run(method, steps=9)
    np.testing.assert_allclose(result.w, loop(method), rtol=1e-12)
    assert (result.ledger.target_gradients, result.ledger.proxy_gradients) == (9, 0)
    for penalty, alpha in ((L1(0.2), 0.2),):
        got = minimize(Problem(TARGET, PROXY, penalty), W0, method=method, steps=9, rng=7).w
        np.testing.assert_allclose(got, loop(method, alpha), atol=1e-10)
    box = minimize(Problem(TARGET, PROXY, bounds=(-0.1, 0.1)), W0, method=method, steps=9, rng=7).w
    assert np.abs(box).max() <= 0.1


def test_a_diagonal_metric_needs_a_separable_penalty():
    class Norm:
        def value(self, w):
            return float(np.linalg.norm(w))

        def prox(self, w, step):
            return max(0.0, 1 - step / np.linalg.norm(w)) * w

        def distance(self, w, gradient):
            return 0.0

    with pytest.raises(TypeError, match="penalty"):
        minimize(Problem(TARGET, PROXY, Norm()), W0, method=Adam(0.1), steps=1)


@pytest.mark.parametrize("correction", [Plain(), EMA(0.3), Mean(), Storm(0.3)], ids=repr)
def test_corrections_enter_the_linear_term(correction):
    eta, w, m, previous = 0.5, W0, None, None
    for k, noise in enumerate(noises(8)):
        d = gradient(w, noise) - P @ w
        if m is None or isinstance(correction, Plain):
            m = d
        elif isinstance(correction, EMA):
            m = 0.7 * m + 0.3 * d
        elif isinstance(correction, Mean):
            m = (k * m + d) / (k + 1)
        else:
            before = gradient(previous, noise) - P @ previous
            m = 0.7 * m + 0.3 * d + 0.7 * (d - before)
        previous = w
        w = np.linalg.solve(P + np.eye(D) / eta, w / eta - m)
    result = run(ProxyProx(eta, correction), steps=8, stop=Residual(1e-12))
    np.testing.assert_allclose(result.w, w, atol=1e-10)
    paid = 8 + 7 * isinstance(correction, Storm)
    assert result.ledger.target_gradients == paid


@pytest.mark.parametrize("eta", [0.5, math.inf])
def test_dane_is_its_closed_form(eta):
    w = W0
    for _ in range(6):
        w = w - np.linalg.solve(P + np.eye(D) / eta, A @ w + B)
    result = run(DANE(eta=eta), stop=Residual(1e-12))
    # Full gradients: the noise of the objective is not drawn.
    np.testing.assert_allclose(result.last, w, rtol=1e-9, atol=1e-10)
