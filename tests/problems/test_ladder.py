"""A proxy with a proxy of its own: counts by an independent counter, depth, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import assert_resumes, logistic

FINE = logistic(800, 8, np.geomspace(1, 0.1, 8), 2, seed=1, l2=1e-3)


class Counted:
    """A loss that offers its values and gradients alone, and counts both."""

    exact, dim = True, 8

    def __init__(self, rows):
        self.loss, self.counts = FINE.subsample(rows, rng=rows), {"values": 0, "gradients": 0}

    def sample(self, rng):
        return None

    def value(self, w):
        self.counts["values"] += 1
        return self.loss.value(w)

    def gradient(self, w, batch=None):
        self.counts["gradients"] += 1
        return self.loss.gradient(w)


def levels(*rows):
    return [Counted(count) for count in rows]


def test_every_level_is_counted_and_the_medium_one_is_asked_half_as_often():
    (alone,) = levels(200)
    two = pp.minimize(pp.Problem(FINE, alone), tol=1e-7)
    medium, coarse = levels(200, 50)
    three = pp.minimize(pp.Problem(FINE, pp.Problem(medium, coarse)), tol=1e-7)
    assert three.status is pp.Status.CONVERGED
    np.testing.assert_allclose(three.w, two.w, atol=1e-4)
    for name, model in (("level 2", medium), ("level 3", coarse)):
        own = three.ledger.proxies[name]
        for what, count in model.counts.items():
            assert own[f"proxy_{what}"] == count
    assert three.ledger.proxy_gradients == medium.counts["gradients"]
    assert three.steps <= two.steps + 2
    assert sum(medium.counts.values()) <= sum(alone.counts.values()) / 2


@pytest.mark.parametrize("method", [pp.ProxyBFGS(), pp.DANE(eta=1e4)])
def test_any_depth_any_method_and_the_inner_rule_holds(method):
    one, two, three = levels(300, 150, 60)
    problem = pp.Problem(FINE, pp.Problem(one, pp.Problem(two, three)))
    result = pp.minimize(problem, method=method, steps=15, tol=1e-7)
    assert np.abs(FINE.gradient(result.w)).max() < 1e-4
    assert set(result.ledger.proxies) == {"level 2", "level 3", "level 4"}
    held = result.trace["held"]
    assert method == pp.ProxyBFGS() or np.ma.filled(held, True).all()


@pytest.mark.parametrize("method", [pp.ProxyBFGS(), pp.DANE(eta=1e4)])
def test_a_saved_run_resumes_bit_for_bit(method, tmp_path):
    medium, coarse = levels(200, 50)
    problem = pp.Problem(FINE, pp.Problem(medium, coarse))
    assert_resumes(tmp_path / "run", problem, np.zeros(8), at=3, steps=6, method=method, rng=0)


def test_arguments_are_checked():
    medium, coarse = levels(200, 50)
    for kind, proxy in (
        (ValueError, pp.Problem(medium, FINE)),
        (TypeError, pp.Problem(pp.FunctionObjective(medium.gradient), coarse)),
        (TypeError, pp.Problem(medium, coarse, pp.L1(0.1))),
    ):
        with pytest.raises(kind, match="proxy"):
            pp.Problem(FINE, pp.Problem(medium, proxy) if kind is ValueError else proxy)
    with pytest.raises(ValueError, match="proxy"):
        pp.Problem(medium, pp.Problem(coarse, medium))
