"""``safeguard=True``: a bad proxy costs little, a good one is kept, and the evidence is honest."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import logistic

ZERO = np.zeros(10)
AUTO = {"method": pp.ProxyProx("auto"), "rng": 0, "safeguard": True}
EXACT = pp.Quadratic(np.diag([1.0, 3.0]), b=np.array([-1.0, 2.0]))


@pytest.fixture(scope="module")
def target():
    return logistic(1500, 10, np.linspace(1, 0.1, 10), 3, l2=1e-3, batch_size=16)


@pytest.fixture(scope="module")
def sample(target):
    return target.subsample(300, rng=0)


def without_rows(target, **options):
    """Return the same objective by functions only: no rows, no ERM."""
    return pp.FunctionObjective(
        target.gradient, value=target.value, sample=target.sample, **options
    )


def times(loss, s):
    smoothness = abs(s) * loss.smoothness
    return pp.FunctionProxy(
        lambda w: s * loss.value(w), lambda w: s * loss.gradient(w), smoothness=smoothness
    )


USELESS = {
    "columns permuted": lambda t: pp.GLM(t.design.X[:, ::-1].copy(), None, t.family, l2=t.l2),
    "sign-flipped": lambda t: times(t, -1.0),
    "× 1000": lambda t: times(t, 1e3),
    "× 0.001": lambda t: times(t, 1e-3),
}


@pytest.fixture(scope="module")
def tuned_sgd(target):
    """Return the lowest loss of SGD after 150 steps, over step sizes and averages."""
    problem, losses = pp.Problem(target), []
    for eta in (0.1 * 3.0**j / 2.0 for j in range(7)):
        for averaging in (pp.averaging.Last(), pp.averaging.Uniform()):
            call = {"method": pp.SGD(eta), "steps": 150, "rng": 0, "averaging": averaging}
            losses.append(problem.value(pp.minimize(problem, ZERO, **call).w))
    return min(losses)


@pytest.mark.parametrize("kind", USELESS)
def test_a_useless_proxy_costs_at_most_five_per_cent(target, tuned_sgd, kind):
    for objective in (target, without_rows(target)):
        problem = pp.Problem(objective, USELESS[kind](target))
        result = pp.minimize(problem, ZERO, steps=150, **AUTO)
        assert problem.value(result.w) <= 1.05 * tuned_sgd
        assert result.safeguard.chosen in ("proxy", "SGD", "ERM")
        assert result.safeguard.verdict in result.message


def test_a_proxy_that_turns_out_bad_is_dropped_with_a_message(target, caplog):
    problem = pp.Problem(without_rows(target), times(target, 1e3))
    seen = []
    result = pp.minimize(problem, ZERO, steps=100, callback=seen.append, **AUTO)
    evidence = result.safeguard
    assert evidence.chosen == "SGD"
    # Three held-out batches, all that 15 % allow at 20 steps, are too few for it.
    assert evidence.dropped_at == 40
    assert "The proxy was dropped after 40 steps: the held-out loss of SGD" in result.message
    assert result.steps == len(seen) == 100
    early, check = evidence.checks
    assert (early.batches, check.batches) == (3, 6)
    assert early.needed > check.needed > 3
    assert check.gap > check.needed * check.standard_error > 0
    # Said when it happened, and again in what is printed at the end.
    assert [step.note != "" for step in seen] == [k == 39 for k in range(100)]
    assert seen[39].note == evidence.verdict == caplog.messages[0]
    assert f"held out      {early}" in str(result)


def test_a_good_proxy_is_kept_and_sgd_is_spared():
    rng = np.random.default_rng(5)
    scales = np.logspace(0, -2, 10)
    X = rng.normal(size=(2000, 10)) * scales
    y = X @ (rng.normal(size=10) / scales) + rng.logistic(size=2000) > 0
    steep = pp.logistic_regression(X, y, l2=1e-6, batch_size=256)
    problem = pp.Problem(without_rows(steep), steep.label_free())
    result = pp.minimize(problem, ZERO, steps=200, **AUTO)
    assert result.safeguard.chosen == "proxy"
    assert result.safeguard.dropped_at is None
    # Two clear leads, then no more comparisons and no more gradients for SGD.
    assert len(result.safeguard.checks) < 5
    assert result.ledger.target_gradients < 2 * 200
    sgd = pp.minimize(problem, ZERO, method=pp.SGD("auto"), steps=200, rng=0)
    assert problem.value(result.w) < problem.value(sgd.w)


def test_budgets_are_kept_and_samples_shown_by_their_use(target, sample):
    problem = pp.Problem(without_rows(target, samples=len), sample)
    for limit in (120, 400):
        result = pp.minimize(problem, ZERO, budget=limit, **AUTO)
        assert result.ledger.target_gradients <= limit
        assert result.safeguard is not None
    result = pp.minimize(problem, ZERO, steps=64, **AUTO)
    samples = result.safeguard.samples
    assert sum(samples.values()) == result.ledger.target_samples
    # 15 % of 64 batches; earlier ones are used again.
    assert samples == {"run": 1024, "held out": 16 * 9}
    assert [check.batches for check in result.safeguard.checks] == [3, 6, 8]
    once = pp.Problem(without_rows(target, repeatable=False), sample)
    with pytest.raises(ValueError, match="safeguard"):
        pp.minimize(once, ZERO, budget=120, **AUTO)


def test_the_same_seed_gives_the_same_answer_and_exact_targets_work(target, sample):
    problem = pp.Problem(target, sample)
    first, second = (pp.minimize(problem, steps=50, **AUTO) for _ in range(2))
    assert first.w.tobytes() == second.w.tobytes()
    assert first.safeguard == second.safeguard
    result = pp.minimize(pp.Problem(target.with_batch_size(None), sample), steps=50, **AUTO)
    assert result.safeguard.chosen == "proxy"
    assert result.safeguard.checks[0].standard_error == 0
    assert pp.minimize(problem, budget=120, **AUTO).ledger.target_gradients <= 120


@pytest.mark.parametrize("penalty", [None, pp.L1(0.3)])
def test_the_gap_of_a_quadratic_is_exact_and_includes_the_penalty(penalty):
    problem = pp.Problem(EXACT, pp.Quadratic(np.eye(2)), penalty)
    result = pp.minimize(problem, method=pp.ProxyProx(0.1), steps=5, safeguard=True)
    ours, sgd = (
        problem.value(pp.minimize(problem, method=method, steps=5).w)
        for method in (pp.ProxyProx(0.1), pp.SGD("auto"))
    )
    assert result.safeguard.checks[-1].gap == pytest.approx(ours - sgd, rel=1e-9)


@pytest.mark.parametrize("rival", [pp.Adam(0.1), pp.SGD(0.1)], ids=repr)
def test_any_method_without_a_proxy_may_be_the_rival(rival):
    noisy = pp.Quadratic(np.diag([1.0, 3.0]), b=np.array([-1.0, 2.0]), noise=0.1)
    problem = pp.Problem(noisy, pp.Quadratic(1e4 * np.eye(2)))
    call = {"method": pp.ProxyProx(0.1), "steps": 100, "rng": 0, "safeguard": rival}
    result = pp.minimize(problem, **call)
    name = type(rival).__name__
    assert result.safeguard.chosen == result.safeguard.checks[0].rival == name
    assert f"the held-out loss of {name} is lower" in result.message
    for wrong in ("SGD", pp.SGD, pp.ProxyProx(1.0)):
        with pytest.raises(TypeError, match="safeguard"):
            pp.minimize(problem, **{**call, "safeguard": wrong})
