"""Losses that differ in their labels alone have δ = 0; fingerprints tell all others apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox._util.arrays import digest
from proxyprox.problems import MixedProxy, regularized
from proxyprox.problems.combination import Combination
from proxyprox.problems.identity import differences_of, fingerprint, identity_of
from proxyprox.problems.protocols import Facts, HessianOf

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(60, 4)), 2) * (RNG.random((60, 4)) < 0.7)
Y = np.arange(60) % 3
WEIGHTS = RNG.random(60)
LINE = np.arange(4.0)

MODELS = {
    "linear": pp.linear_regression(X, Y),
    "logistic": pp.logistic_regression(X, Y == 1, batch_size=5, intercept=True),
    "softmax": pp.softmax_regression(X, Y, l2=0.1),
    "weighted": pp.logistic_regression(X, Y == 1, sample_weight=WEIGHTS, l2=0.1),
    "sparse": pp.logistic_regression(scipy.sparse.csr_array(X), Y == 1),
    "torch": pp.logistic_regression(torch.from_numpy(X), Y == 1),
}
SAME = [
    X.copy(),
    np.asfortranarray(X),
    X.tolist(),
    scipy.sparse.csr_array(X),
    scipy.sparse.csc_matrix(X),
    X.astype(np.float32),
    torch.from_numpy(X.copy()),
]


def known(objective, proxy) -> bool:
    return pp.Problem(objective, proxy).same_curvature


@pytest.mark.parametrize("model", MODELS)
def test_equal_inputs_are_recognised_by_content(model):
    target, changed = MODELS[model], X.copy()
    for inputs in SAME:
        assert known(target, target.label_free(inputs))
    assert known(target.with_batch_size(7), target)
    changed[59, 3] += 1e-3
    for inputs in (changed, X[::-1].copy(), X[:59]):
        assert not known(target, target.label_free(inputs))
    assert not known(target, target.subsample(30, rng=0))


def test_losses_built_apart_are_recognised_and_others_are_not():
    proxy = pp.logistic_regression(X.copy(), sample_weight=7 * WEIGHTS, l2=0.1)
    assert known(MODELS["weighted"], proxy)
    target = pp.logistic_regression(X, Y == 1)
    for other in (
        pp.logistic_regression(X, l2=0.1), pp.logistic_regression(X, sample_weight=WEIGHTS),
        pp.linear_regression(X), pp.problems.Zero(),
    ):  # fmt: skip
        assert not known(target, other)
    P = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert known(pp.Quadratic(P, b=np.ones(2), noise=1.0), pp.Quadratic(P.copy()))
    assert not known(pp.Quadratic(P), pp.Quadratic(2 * P))


def tilted(loss):
    return Combination([loss], [1.0], tilt=LINE)


def twice(loss, free):
    problem = pp.Problem(tilted(loss), MixedProxy([MixedProxy([free, loss], [0.7, 1.3])], [0.5]))
    return regularized(regularized(problem, 0.1, LINE), 0.2, 0 * LINE)


COMBINED = {
    "regularized twice": twice,
    "scaled": lambda loss, free: pp.Problem(
        loss, MixedProxy([MixedProxy([free], [0.3])], [1 / 0.3])
    ),
    "paired": lambda loss, free: pp.Problem(
        Combination([loss, free, loss.label_free(X)], [1.0, -0.4, 0.4]), free
    ),
}


@pytest.mark.parametrize("how", COMBINED)
def test_combined_losses_keep_what_is_known(how):
    loss = pp.logistic_regression(X, Y == 1, l2=0.01)
    assert COMBINED[how](loss, loss.label_free(X.copy())).same_curvature
    assert not COMBINED[how](loss, loss.subsample(30, rng=0)).same_curvature


def test_a_user_s_own_loss_may_say_so():
    class Own:
        def __init__(self, P):
            self.P = P

        @property
        def facts(self):
            return Facts(hessian_terms=((1.0, HessianOf(self)),))

        def same_curvature(self, other):
            return isinstance(other, Own) and np.array_equal(other.P, self.P)

        def sample(self, rng):
            return None

        def value(self, w):
            return float(w @ self.P @ w) / 2

        def gradient(self, w, batch=None):
            return self.P @ w

    one, other = Own(np.eye(4)), Own(np.eye(4))
    assert known(one, other)
    assert known(tilted(one), MixedProxy([MixedProxy([other], [2.0])], [0.5]))
    assert not known(one, Own(2 * np.eye(4)))


def test_fingerprints_tell_losses_apart_by_data_and_settings_alone():
    def target(X=X, **options):
        return pp.logistic_regression(X, Y > 0, l2=0.1, batch_size=6, **options)

    quadratic, functions = pp.Quadratic(np.eye(4)), pp.FunctionProxy(float, np.negative)
    losses = [
        pp.problems.Zero(), quadratic, pp.Quadratic(np.eye(4), noise=0.1),
        pp.Quadratic(2 * np.eye(4)), target(), target(intercept=True),
        target(scipy.sparse.csr_array(X)), target(X.astype(np.float32)),
        pp.linear_regression(X, Y, l2=0.1), MixedProxy([quadratic], [2.0]),
        MixedProxy([quadratic], [3.0]), MixedProxy([quadratic, target()], [1.0, 2.0]),
        tilted(quadratic), regularized(pp.Problem(quadratic), 0.1, LINE).objective,
    ]  # fmt: skip
    marks = [fingerprint(loss) for loss in losses]
    assert None not in marks
    assert len(set(marks)) == len(losses)
    assert fingerprint(target()) == fingerprint(target(np.asfortranarray(X)))
    assert fingerprint(target().with_batch_size(3)) != fingerprint(target())
    assert fingerprint(MixedProxy([quadratic, functions], [1.0, 1.0])) is None
    assert digest(torch.ones(3, dtype=torch.float64)) == digest(np.ones(3))


def test_a_saved_problem_is_compared_up_to_the_rounding_of_its_numbers():
    target = pp.FunctionObjective(lambda w: w)
    proxy = pp.FunctionProxy(float, np.negative)

    def about(value, slope=1.0, seed=0):
        problem = pp.Problem(target, proxy)
        return identity_of(problem, LINE, seed, lambda: value, lambda w: slope * (w - 5.0))

    saved = about(-2.0)
    assert differences_of(saved, saved, "float64", True) == []
    for now, dtype, where in (
        (about(-2.0 * (1 + 1e-8)), "float64", ["loss"]),
        (about(-2.0 * (1 + 1e-10)), "float64", []),
        (about(-2.0, 1 + 1e-8), "float64", ["gradient"]),
        (about(-2.0, 1 + 1e-10), "float64", []),
        (about(-2.0, 1 + 2e-3), "float32", ["gradient"]),
        (about(-2.0, 1 + 5e-4), "float32", []),
        (about(-2.0, math.nan), "float64", []),
        (about(3.0, 2.0, seed=1), "float64", ["gradient", "loss", "rng"]),
    ):
        found = differences_of(saved, now, dtype, True)
        assert len(found) == len(where)
        assert all(word in text for word, text in zip(where, found, strict=True))
    assert len(differences_of(saved, about(3.0, 2.0, seed=1), "float64", False)) == 1
