"""Runs measured along the target gradients, tuned with equal effort, in processes."""

import math
import multiprocessing
from dataclasses import dataclass
from itertools import islice
from operator import floordiv, pow  # workers import by name; a test module has none to import

import numpy as np
import pytest

import proxyprox as pp
from experiments import compare as study
from experiments.runs import read_records
from proxyprox.inner.exact import minimise_exactly

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
y = X @ [1.0, -2.0, 0.0] + 0.1 * rng.standard_normal(40)
TARGET = pp.linear_regression(X, y, l2=0.1, batch_size=8)
BEST = TARGET.value(minimise_exactly(TARGET, TARGET.zeros()))
SGD = study.Candidate("SGD", lambda eta: {"method": pp.SGD(eta)}, 0.1, 2.5, 1.0)
TWO_POINTS = study.Candidate(
    "STORM",
    lambda eta: {
        "method": pp.ProxyProx(math.inf, pp.corrections.Storm(0.1)),
        "inner": pp.inner.GradientDescent(eta),
        "stop": pp.stopping.Steps(3),
    },
    0.1,
    2.5,
    1.0,
)


def measured(candidate, problem, **changes):
    budget = pp.Budget(target_gradients=20)
    settings = {"optimum": BEST, "budget": budget, "seed": 0, "at": [0, 5, 10, 20], **changes}
    return study.run_candidate(candidate, 0.05, problem, **settings)[0]


def test_points_are_what_was_paid_for_by_then():
    problem = pp.Problem(TARGET, TARGET.label_free())
    for candidate in (SGD, TWO_POINTS):
        points = measured(candidate, problem)
        assert [point["target_gradients"] for point in points] == [0, 5, 10, 20]
        assert points[0]["suboptimality"] == TARGET.value(np.zeros(3)) - BEST
        assert points[-1]["suboptimality"] < points[0]["suboptimality"]
        assert all(set(study.LEDGER_FIELDS) <= point.keys() for point in points)
        assert points[0]["target_samples"] == 0
    # Two gradients a step after the first: 19 spent of 20, and 9 at the mark of 10.
    assert points[-1]["target_samples"] == 10 * 8
    assert points[2]["target_samples"] == 5 * 8


def test_the_rows_seen_are_fitted():
    points = measured(study.ROWS_SEEN, pp.Problem(TARGET))
    assert [point["target_samples"] for point in points] == [0, 40, 80, 160]
    assert points[-1]["suboptimality"] < points[1]["suboptimality"]
    full = TARGET.with_batch_size(None)
    assert measured(study.ROWS_SEEN, pp.Problem(full), at=[1])[0]["suboptimality"] == pytest.approx(
        0, abs=1e-12
    )
    penalty = pp.L1(0.5)
    best = minimise_exactly(full, full.zeros(), tol=1e-10, penalty=penalty)
    problem = pp.Problem(full, penalty=penalty)
    (point,) = measured(study.ROWS_SEEN, problem, at=[1], optimum=problem.value(best))
    assert point["suboptimality"] == pytest.approx(0, abs=1e-10)
    assert best[2] == 0


@dataclass(frozen=True)
class Settings:
    offset: float = 0.0


def fake_run(config, job):
    """Stand in for a run: the best step size is 2, and 9 diverges."""
    CALLS.append(job)
    eta = float(job.eta or 0.0)
    end = None if eta == 9.0 else abs(eta - 2.0) + config.offset + job.seed / 1e9
    return [{"target_gradients": t, "suboptimality": end} for t in (0, job.budget)]


CALLS = []
CURVES = [
    study.Curve("p", "tuned", 8, (1.0, 2.0, 3.0)),
    study.Curve("p", "edge", 8, (2.0, 3.0, 9.0), effort=5.0),
    study.Curve("p", "fixed", None, (None,)),
]


@pytest.fixture(autouse=True)
def _fresh():
    CALLS.clear()


def experiment(config=None, run_job=fake_run):
    return study.Experiment("", config or Settings(), CURVES, run_job, 2, 5, 20, {})


def test_tunes_then_runs(tmp_path):
    told = []
    outcome = study.compare(experiment(), tmp_path, 1, lambda *share: told.append(share))
    assert outcome.etas == {("p", "tuned"): 2.0, ("p", "edge"): 2.0, ("p", "fixed"): None}
    assert outcome.at_edge == [("p", "edge")]
    assert outcome.tuning == {("p", "tuned"): 15, ("p", "edge"): 15}
    grid, final = CALLS[:6], CALLS[6:]
    assert {job.seed for job in grid} == {study.TUNING_SEED}
    assert {job.budget for job in grid} == {5}
    assert "fixed" not in {job.method for job in grid}
    assert {job.seed for job in final} == {0, 1}  # no step size is tuned on a seed that is shown
    assert len(final) == 6
    assert grid[0].method == "edge"  # the long ones first
    points = read_records(tmp_path / "records.jsonl")
    assert points == outcome.records
    assert [p["method"] for p in points[::4]] == ["tuned", "edge", "fixed"]
    assert told[0] == ("tuning step sizes", 0)
    assert told[-1] == ("final runs", pytest.approx(1))


def test_nothing_is_done_twice(tmp_path):
    class StopError(Exception):
        pass

    def interrupted(config, job):
        if len(CALLS) == 4:
            raise StopError
        return fake_run(config, job)

    with pytest.raises(StopError):
        study.compare(experiment(run_job=interrupted), tmp_path)
    done = list(CALLS)
    outcome = study.compare(experiment(), tmp_path)
    again = CALLS[len(done) :]
    assert (outcome.reused, outcome.runs) == (4, 12)
    assert len(done) + len(again) == 12
    assert not set(done) & set(again)
    assert study.compare(experiment(), tmp_path).reused == 12
    assert len(CALLS) == 12
    assert len(outcome.records) == 12


def test_jobs_in_processes():
    found = dict(study.run_jobs(range(1, 8), floordiv, 60, workers=2))
    assert found == {n: 60 // n for n in range(1, 8)}
    with pytest.raises(ZeroDivisionError) as caught:
        list(study.run_jobs([1, 0, 2], floordiv, 60, workers=2))
    assert "Traceback" in str(caught.value.__cause__)
    # The second job would take for ever: 3 to a power of hundreds of millions.
    results = study.run_jobs([2, 10**9], pow, 3, workers=2)
    assert list(islice(results, 1)) == [(2, 9)]
    results.close()
    assert multiprocessing.active_children() == []
