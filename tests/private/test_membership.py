"""The attack finds planted mistakes, and hardly ever one where there is none."""

import numpy as np
import pytest

import proxyprox.private
from proxyprox.private import Private, PrivateRows, attack, gaussian_epsilon, mechanism
from proxyprox.private.accounting import gaussian_mu
from proxyprox.problems.families import Logistic

DELTA, EPSILON, RELEASES = 1e-5, 3.0, 3
SIGMA = np.sqrt(RELEASES) / gaussian_mu(EPSILON, DELTA)
ROWS = np.random.default_rng(0).normal(size=(12, 3)) / 3
CANARY = np.array([30.0, -30.0, 10.0])
# At the second point the canary is classified well, and has no gradient.
POINTS = [np.zeros(3), np.array([-0.5, 0.5, 0.0]), np.full(3, 0.1)]


def clip_norms(gradients):
    norms = np.linalg.norm(gradients, axis=-1, keepdims=True)
    return gradients / np.maximum(norms, 1.0)


def make_release(rng, *, noise=SIGMA, clip_rows=clip_norms, clip_mean=None, reuse=False, seed=None):
    """Return three noisy gradients of a logistic regression, with a mistake or without."""

    sums = {}
    for present in (False, True):
        rows = np.vstack([ROWS, CANARY]) if present else ROWS
        for k, w in enumerate(POINTS):
            gradients = rows / (1 + np.exp(-np.clip(rows @ w, -30, 30)))[:, None]
            total = clip_rows(gradients).sum(axis=0)
            if clip_mean is not None:
                total = len(ROWS) * clip_mean(total / len(ROWS))
            sums[present, k] = total

    def release(present):
        draw = rng if seed is None else np.random.default_rng(seed)
        drawn = draw.normal(size=(1 if reuse else RELEASES, 3))
        totals = np.array([sums[present, k] for k in range(RELEASES)])
        return (totals + noise * drawn) / len(ROWS)

    return release


MISTAKES = {
    "no noise": {"noise": 0.0},
    "half of the noise": {"noise": SIGMA / 2},
    "no clip": {"clip_rows": lambda gradients: gradients},
    "noise reused": {"reuse": True},
    "noise seeded": {"seed": 5},
    "clip after averaging": {"clip_rows": lambda gradients: gradients, "clip_mean": clip_norms},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_found(mistake):
    release = make_release(np.random.default_rng(0), **MISTAKES[mistake])
    found = attack(release, delta=DELTA, epsilon=EPSILON, runs=2400)
    assert found.refutes_claim, str(found)
    assert "REFUTED" in str(found)


def test_a_sound_release_is_not_accused():
    release = make_release(np.random.default_rng(0))
    found = attack(release, delta=DELTA, epsilon=EPSILON, runs=2400)
    assert not found.refutes_claim
    assert found.epsilon > 0.15 * EPSILON  # not for want of strength
    assert "no proof" in str(found)


def own_release(present):
    """Return gradients by the package's mechanism on a table of few rows and one unlike them."""
    X = np.vstack([np.eye(3), -np.eye(3), [[30.0, -30.0, 10.0]]]) / 3
    y = np.array([0, 1, 0, 1, 0, 1, 0])
    # At the second point the last row is classified well, and has no gradient.
    points = (np.zeros(3), np.array([-5.0, 5.0, 0.0]), np.full(3, 0.1))
    rows = slice(None) if present else slice(-1)
    table = proxyprox.private.PrivateRows(X[rows], y[rows], Logistic((0, 1)))
    settings = {"epsilon": EPSILON, "delta": DELTA, "releases": 3, "n_nominal": 6, "clip": 1.0}
    target = Private(table, **settings)
    return np.concatenate([target.gradient(w) for w in points])


class Unclipped(PrivateRows):
    def clipped_sum(self, w, *, clip, metric=None):
        return super().clipped_sum(w, clip=1e9, metric=metric)


@pytest.mark.parametrize("mistake", ["noise reused", "no clip"])
def test_mistakes_in_the_packages_own_mechanism_would_be_found(mistake, monkeypatch):
    drawn = mechanism.draw_noise(3)
    if mistake == "noise reused":
        monkeypatch.setattr(mechanism, "draw_noise", lambda size: drawn)
    else:
        monkeypatch.setattr("proxyprox.private.PrivateRows", Unclipped)
    found = attack(own_release, delta=DELTA, epsilon=EPSILON, runs=100)
    assert found.refutes_claim, str(found)


@pytest.mark.slow
@pytest.mark.parametrize(("gaussian", "mu"), [(True, 0.7), (False, 0.7), (True, 3.0), (False, 3.0)])
@pytest.mark.parametrize("confidence", [0.8, 0.999])
def test_false_alarms_are_as_rare_as_they_should_be(gaussian, mu, confidence):
    rng, alarms, audits = np.random.default_rng(3), 0, 200
    for _ in range(audits):
        outcomes = rng.normal(size=(100, 2))
        drawn = iter(outcomes.ravel())
        found = attack(
            lambda present, drawn=drawn: mu * present + next(drawn),
            delta=1e-2, epsilon=gaussian_epsilon(mu, 1e-2), runs=100, confidence=confidence,
            gaussian=gaussian,
        )  # fmt: skip
        alarms += found.refutes_claim
    # Four standard errors; the limits are conservative.
    allowed = (1 - confidence) * audits
    assert alarms <= allowed + 4 * np.sqrt(allowed)


def test_a_bound_for_every_release_finds_one_that_is_not_gaussian():
    rng = np.random.default_rng(0)
    # Randomised response: the bit is told with probability 0.9, so ε = log 9.
    release = lambda present: present if rng.random() < 0.9 else not present  # noqa: E731
    found = attack(release, delta=1e-5, runs=4000, gaussian=False)
    assert 1.8 < found.epsilon < np.log(9)
    assert not found.refutes_claim


def test_bad_arguments_are_named():
    for name, given in (
        ("delta", 0.0), ("delta", 1.0), ("epsilon", -1.0), ("runs", 10), ("confidence", 1.0),
        ("release", lambda present: np.nan), ("release", set()), ("release", lambda p: "text"),
        ("release", lambda present: [1.0] * (1 + present)),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=name):
            attack(**{"release": lambda present: 0.0, "delta": 1e-5, "runs": 40, name: given})
