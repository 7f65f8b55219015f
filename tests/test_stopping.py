import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proxyprox as pp
from accelerated_sliding import AcceleratedSliding
from proxyprox.stopping import (
    Convex,
    NonConvex,
    Progress,
    RandomSteps,
    Relative,
    Residual,
    SDane,
    Steps,
    StronglyConvex,
)

positive = st.floats(1e-6, 1e6)


def progress(residual=1.0, displacement=2.0, eta=0.5, steps=3, start=10.0, decrease=0.0):
    return Progress(steps, residual, displacement, eta, start, lambda: decrease)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    mu=positive, G=st.floats(0, 1e3), eta=positive, move=st.floats(0, 1e3), K=st.integers(1, 999)
)
def test_squared_thresholds_are_the_papers(mu, G, eta, move, K):
    here = progress(displacement=move, eta=eta)
    rules = {
        StronglyConvex(mu, G): mu / (4 * eta) * move**2 + G**2,
        Convex(K, G): move**2 / (4 * eta**2 * K) + G**2,
        NonConvex(G): 7 / (16 * eta**2) * move**2 + G**2 / 8,
        SDane(): (move / (2 * eta)) ** 2,
    }
    for rule, squared in rules.items():
        assert rule.threshold(here) ** 2 == pytest.approx(squared, rel=1e-12, abs=1e-300)


def test_rules_hold_up_to_their_threshold_and_no_further():
    # ‖w − w_k‖ = 2, η = 1/2, first residual 10.
    for rule, threshold in {
        StronglyConvex(mu=0.5): 1.0, StronglyConvex(mu=0.5, G=1.0): math.sqrt(2),
        Convex(steps=4): 1.0, NonConvex(): math.sqrt(7), SDane(): 2.0, Residual(0.25): 0.25,
        Relative(0.1): 1.0,
    }.items():  # fmt: skip
        assert rule.threshold(progress()) == pytest.approx(threshold, rel=1e-15)
        below, above = progress(threshold * (1 - 1e-12)), progress(threshold * (1 + 1e-12))
        assert (rule.holds(below), rule(below)) == (True, True)
        assert (rule.holds(above), rule(above)) == (False, False)


def test_nonconvex_rule_refuses_growth():
    rule = NonConvex()
    assert rule(progress(decrease=0.0))
    assert not rule(progress(decrease=-1e-12))
    assert rule.needs == ("value",)


def test_either_and_both():
    either, both = Residual(0.1) | Steps(5), Residual(0.1) & Steps(5)
    for rule, cases in (
        (either, [(0.05, 1, True), (0.5, 5, True), (0.5, 4, False), (0.05, 9, True)]),
        (both, [(0.05, 1, False), (0.5, 5, False), (0.05, 5, True)]),
    ):
        for residual, steps, stops in cases:
            here = progress(residual, steps=steps)
            assert rule(here) is stops
            # What is recorded as held is the inexactness rule, not the cap on steps.
            assert rule.holds(here) is (residual <= 0.1)
    assert (Residual(0.1) | Residual(0.2) | Steps(1)).threshold(progress()) == 0.2
    assert (Residual(0.1) & Residual(0.2) & Steps(1)).threshold(progress()) == 0.1
    assert (Steps(1) | Steps(2)).threshold(progress()) is None
    assert (Steps(1) & Steps(2)).holds(progress()) is None


@pytest.mark.parametrize("p", [0.05, 0.3, 1.0])
def test_random_steps_are_geometric(p):
    rng = np.random.default_rng(0)
    drawn = np.array([RandomSteps(p).begin(rng).steps for _ in range(20_000)])
    assert drawn.min() == 1
    deviation = math.sqrt(1 - p) / p
    assert abs(drawn.mean() - 1 / p) <= 4 * deviation / math.sqrt(20_000)
    assert drawn.std() == pytest.approx(deviation, rel=0.05, abs=1e-12)
    assert np.mean(drawn == 1) == pytest.approx(p, abs=0.02)


class TestNoRule:
    """A fixed number of inner steps bounds nothing: nothing is said to have held."""

    RULES = (Steps(3), RandomSteps(0.5), Steps(2) | Steps(4), Steps(2) & Steps(4))

    @staticmethod
    def run(stop, **options):
        target = pp.Quadratic(np.diag([1.0, 10.0]), b=np.ones(2))
        proxy = pp.Quadratic(np.diag([1.1, 9.0]))
        call = {"method": pp.ProxyProx(0.5), "inner": pp.inner.GradientDescent(), "steps": 5}
        return pp.minimize(pp.Problem(target, proxy), stop=stop, **{**call, **options})

    @pytest.mark.parametrize("rule", RULES, ids=repr)
    def test_records_and_words(self, rule):
        result = self.run(rule)
        assert [row.held for row in result.trace] == [None] * 5
        assert np.isnan(result.trace["threshold"]).all()
        assert result.trace["held"].tolist() == [None] * 5
        assert not result.trace["held"].any()
        assert "no inner rule" in str(result)
        assert "rule held" not in str(result)
        assert result.success

    def test_steps_without_a_subproblem(self):
        # The second half of an iteration solves nothing.
        result = self.run(Relative(1e-3), method=AcceleratedSliding(0.5, 1.0), steps=4)
        assert [row.held for row in result.trace] == [True, None, True, None]
        assert "held in 2 of 2" in str(result)
