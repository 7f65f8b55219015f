"""Losses that differ in their labels alone have δ = 0, however they were built and combined."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox.problems import MixedProxy, ScaledProxy
from proxyprox.problems.combination import PairedLoss, Tilted
from proxyprox.problems.problem import halves_of
from proxyprox.problems.protocols import Facts, HessianOf

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(60, 4)), 2) * (RNG.random((60, 4)) < 0.7)
Y = np.arange(60) % 3
WEIGHTS = RNG.random(60)

MODELS = {
    "linear": pp.linear_regression(X, Y),
    "logistic": pp.logistic_regression(X, Y == 1, batch_size=5, intercept=True),
    "softmax": pp.softmax_regression(X, Y, l2=0.1),
    "poisson": pp.poisson_regression(X, Y),
    "weighted": pp.logistic_regression(X, Y == 1, sample_weight=WEIGHTS, l2=0.1),
    "sparse": pp.logistic_regression(scipy.sparse.csr_array(X), Y == 1),
    "torch": pp.logistic_regression(torch.from_numpy(X), Y == 1),
}

with_zeros = scipy.sparse.coo_array(
    (np.r_[X[X != 0] / 2, X[X != 0] / 2, 0.0], [np.r_[i, i, 0] for i in np.nonzero(X)])
)
SAME = [
    X,
    X.copy(),
    np.asfortranarray(X),
    X.tolist(),
    scipy.sparse.csr_array(X),
    scipy.sparse.csc_matrix(X),
    with_zeros,
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
    assert known(target, target.label_free(X, rng=np.random.default_rng(0)))
    assert known(target.with_batch_size(7), target)
    changed[59, 3] += 1e-3
    for inputs in (changed, X[::-1].copy(), X[:59]):
        assert not known(target, target.label_free(inputs))
    assert not known(target, target.subsample(30, rng=0))


def test_losses_built_apart_are_recognised():
    for inputs in SAME:
        proxy = pp.logistic_regression(inputs, sample_weight=7 * WEIGHTS, l2=0.1)
        assert known(MODELS["weighted"], proxy)


def test_other_settings_are_not_the_same():
    target = pp.logistic_regression(X, Y == 1)
    assert not known(target, pp.logistic_regression(X, l2=0.1))
    assert not known(target, pp.logistic_regression(X, sample_weight=WEIGHTS))
    assert not known(target, pp.linear_regression(X))
    assert not known(target, pp.problems.Zero())
    constant = np.column_stack([X[:, :3], np.ones(60)])
    assert not known(
        pp.logistic_regression(X[:, :3], intercept=True), pp.logistic_regression(constant[:, ::-1])
    )


def test_quadratics_are_compared_by_their_matrix():
    P = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert known(pp.Quadratic(P, b=np.ones(2), noise=1.0), pp.Quadratic(P.copy()))
    assert not known(pp.Quadratic(P), pp.Quadratic(2 * P))


LINE = np.arange(4.0)
COMBINED = {
    "regularized": lambda loss, free: pp.problems.regularized(pp.Problem(loss, free), 0.3, LINE),
    "regularized twice": lambda loss, free: pp.problems.regularized(
        pp.problems.regularized(pp.Problem(loss, free), 0.1, LINE), 0.2, 0 * LINE
    ),
    "scaled there and back": lambda loss, free: pp.Problem(
        loss, ScaledProxy(ScaledProxy(free, 0.3), 1 / 0.3)
    ),
    "tilted": lambda loss, free: pp.Problem(Tilted(loss, LINE), free),
    "tilted proxy": lambda loss, free: pp.Problem(loss, Tilted(free, LINE)),
    "mixed": lambda loss, free: pp.Problem(loss, MixedProxy([free, loss], [0.7, 0.3])),
    "paired": lambda loss, free: pp.Problem(
        PairedLoss(loss, free, loss.label_free(X), power=0.4), free
    ),
    "paired with all rows": lambda loss, free: pp.Problem(
        PairedLoss(loss.subsample(20, rng=0), free.subsample(20, rng=0), free), loss
    ),
    "all at once": lambda loss, free: pp.problems.regularized(
        pp.Problem(Tilted(loss, LINE), ScaledProxy(MixedProxy([free, free], [1.0, 1.0]), 0.5)),
        0.2,
        LINE,
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
    assert pp.problems.regularized(pp.Problem(one, other), 0.1, LINE).same_curvature
    assert known(Tilted(one, LINE), ScaledProxy(ScaledProxy(other, 2.0), 0.5))
    assert not known(one, Own(2 * np.eye(4)))


@pytest.mark.parametrize(
    "how",
    [
        lambda target: pp.Problem(target, target.label_free(X.copy())),
        lambda target: pp.problems.regularized(pp.Problem(target, target.label_free()), 0.01, LINE),
    ],
)
def test_where_delta_is_zero_fewer_gradients_are_spent_on_measuring(how):
    target = pp.logistic_regression(X, Y == 1, batch_size=6)
    paid = [
        pp.minimize(problem, steps=40, rng=0).ledger.target_gradients
        for problem in (how(target), pp.Problem(target, target.subsample(8, rng=0)))
    ]
    assert 40 < paid[0] < paid[1]


def test_combinations_offer_what_survives():
    loss = pp.logistic_regression(X, Y == 1, l2=0.1, batch_size=6)
    batch = loss.sample(np.random.default_rng(0))
    for made in (Tilted(loss, LINE), ScaledProxy(loss, 2.0), PairedLoss(loss, loss, loss)):
        assert halves_of(made.facts, batch) is not None
        assert made.samples(batch) == 6
        assert made.repeatable
        assert made.gradient_from(LINE, batch, (Y == 1)[batch]) == pytest.approx(
            made.gradient(LINE, batch)
        )
    assert Tilted(loss, LINE).strong_convexity == loss.strong_convexity
    P = np.diag([1.0, 2.0, 3.0, 4.0])
    tilted = Tilted(pp.Quadratic(P), LINE)
    np.testing.assert_allclose(tilted.solve_shifted(LINE, 0.5), LINE / (np.diag(P) + 2))
