"""Runs with ``eta="auto"``: what is asked and charged, and what is saved."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.stepsizes.auto import AutoStepPolicy
from tests.runs import assert_resumes


def test_sgd_does_not_take_the_proxys_word_for_delta(target):
    # Without the proxy h is L: that the proxy has the same curvature is of no use to SGD.
    call = {"method": pp.SGD("auto"), "steps": 100, "rng": 0}
    beside = pp.minimize(pp.Problem(target, target.label_free()), **call)
    alone = pp.minimize(pp.Problem(target), **call)
    assert beside.w.tobytes() == alone.w.tobytes()


def test_secants_cost_gradients_but_no_samples(target):
    problem = pp.Problem(target, target.subsample(60, rng=0))
    result = pp.minimize(problem, method=pp.ProxyProx(eta="auto"), steps=200, rng=0)
    every = AutoStepPolicy.every
    secants = every + (200 - every - 1) // every
    assert result.ledger.target_gradients == 200 + secants
    assert result.ledger.target_samples == 200 * 32


def test_batches_that_may_not_be_repeated_are_not(target):
    asked = []

    def gradient(w, batch):
        asked.append(batch.tobytes())
        return target.gradient(w, batch)

    objective = pp.FunctionObjective(
        gradient, value=target.value, sample=target.sample, repeatable=False
    )
    problem = pp.Problem(objective, target.subsample(60, rng=0))
    result = pp.minimize(problem, np.zeros(8), method=pp.ProxyProx(eta="auto"), steps=300, rng=0)
    assert len(asked) == len(set(asked)) == 300
    assert target.value(result.w) < 0.7 * target.value(np.zeros(8))


def test_ask_and_tell_without_halves_works(target):
    problem = pp.Problem(target, target.subsample(60, rng=0))
    run = pp.Run(problem, method=pp.ProxyProx(eta="auto"), rng=0)
    for _ in range(200):
        query = run.ask()
        assert len(query.halves) == 2
        run.tell([target.gradient(point, query.batch) for point in query.points])
    assert target.value(run.w) < 0.7 * target.value(np.zeros(8))


@pytest.mark.parametrize(
    ("proxy", "stopped"), [("label_free", 2), ("subsample", 1), ("subsample", 15)]
)
def test_a_saved_run_goes_on_bit_for_bit(target, tmp_path, proxy, stopped):
    other = target.label_free() if proxy == "label_free" else target.subsample(60, rng=0)
    call = {"method": pp.ProxyProx(eta="auto"), "rng": 5, "at": stopped, "steps": 50}
    assert_resumes(tmp_path / "run", pp.Problem(target, other), **call)
