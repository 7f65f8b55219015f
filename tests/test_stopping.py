import math

import numpy as np
import pytest

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


def progress(residual=1.0, displacement=2.0, eta=0.125, steps=3, start=10.0, decrease=0.0):
    return Progress(steps, residual, displacement, eta, start, lambda: decrease)


def test_rules_hold_up_to_their_threshold_and_no_further():
    # ‖w − w_k‖ = 2, η = 1/8, first residual 10.
    for rule, threshold in {
        StronglyConvex(mu=0.5): 2.0, StronglyConvex(mu=0.5, G=1.0): math.sqrt(5),
        Convex(steps=4): 4.0, Convex(steps=4, G=3.0): 5.0, NonConvex(): math.sqrt(112),
        NonConvex(target_gradient_norm=4.0): math.sqrt(114), SDane(): 8.0, Residual(0.25): 0.25,
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


@pytest.mark.parametrize(
    ("method", "stop", "held"),
    [
        (pp.ProxyProx(0.5), Steps(2) | Steps(4), [None] * 4),
        (pp.ProxyProx(0.5), Steps(2) & Steps(4), [None] * 4),
        # The second half of an iteration solves nothing.
        (AcceleratedSliding(0.5, 1.0), Relative(1e-3), [True, None, True, None]),
    ],
)
def test_where_no_rule_is_asked_none_is_said_to_have_held(method, stop, held):
    target = pp.Quadratic(np.diag([1.0, 10.0]), b=np.ones(2))
    problem = pp.Problem(target, pp.Quadratic(np.diag([1.1, 9.0])))
    inner = pp.inner.GradientDescent()
    result = pp.minimize(problem, method=method, inner=inner, stop=stop, steps=4)
    assert result.trace["held"].tolist() == [row.held for row in result.trace] == held
    assert ("held in 2 of 2" if any(held) else "no inner rule") in str(result)
    assert ("rule held" in str(result)) == any(held)
    assert result.success
