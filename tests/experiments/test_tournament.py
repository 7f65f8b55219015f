from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from proxyprox.experiments import logistic
from proxyprox.experiments.records import RecordsError, read_records
from proxyprox.experiments.tournament import (
    TUNING_SEED,
    Entry,
    Job,
    LineDisplay,
    NoDisplay,
    cores,
    hold,
)


@dataclass(frozen=True)
class Settings:
    offset: float = 0.0


def played(config: Settings, job: Job) -> list[dict[str, Any]]:
    """Stand in for a run: the best step size is 2, and 9 diverges."""
    CALLS.append(job)
    end = None if job.eta == 9.0 else abs((job.eta or 0.0) - 2.0) + config.offset + job.seed / 1e9
    return [{"target_gradients": t, "suboptimality": end} for t in (0, job.budget)]


CALLS: list[Job] = []
ENTRIES = [
    Entry("p", "tuned", 8, (1.0, 2.0, 3.0)),
    Entry("p", "edge", 8, (2.0, 3.0, 9.0), effort=5.0),
    Entry("p", "fixed", None, (None,)),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


def held(folder: Path, config: Any = None, play: Any = played, **changes: Any) -> Any:
    settings = {
        "seeds": 2, "tuning_budget": 5, "budget": 20, "workers": 1, "display": NoDisplay(),
    }  # fmt: skip
    entries = changes.pop("entries", ENTRIES)
    return hold(entries, play, config or Settings(), folder=folder, **{**settings, **changes})


def test_tunes_then_runs(tmp_path: Path) -> None:
    outcome = held(tmp_path)
    assert outcome.chosen == {("p", "tuned"): 2.0, ("p", "edge"): 2.0, ("p", "fixed"): None}
    assert outcome.at_edge == [("p", "edge")]
    grid, final = CALLS[:6], CALLS[6:]
    assert {job.seed for job in grid} == {TUNING_SEED}
    assert {job.budget for job in grid} == {5}
    assert "fixed" not in {job.method for job in grid}
    assert {job.seed for job in final} == {0, 1}  # no step size is tuned on a seed that is shown
    assert len(final) == 6
    assert grid[0].method == "edge"  # the long ones first
    points = read_records(tmp_path / "records.jsonl")
    assert points == outcome.records
    assert [p["method"] for p in points[::4]] == ["tuned", "edge", "fixed"]


def test_nothing_is_done_twice(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def interrupted(config: Settings, job: Job) -> list[dict[str, Any]]:
        if len(CALLS) == 4:
            raise StopError
        return played(config, job)

    with pytest.raises(StopError):
        held(tmp_path, play=interrupted)
    done = list(CALLS)
    outcome = held(tmp_path)
    again = CALLS[len(done) :]
    assert len(done) + len(again) == 12
    assert not {job.key()["eta"] for job in done if job in again}
    assert not set(done) & set(again)
    held(tmp_path)
    assert len(CALLS) == 12
    assert len(outcome.records) == 12


def test_other_settings_or_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(tmp_path)
    with pytest.raises(RecordsError, match=r"offset \(there 0.0, now 1.0\)"):
        held(tmp_path, Settings(1.0))
    monkeypatch.setattr("proxyprox.experiments.tournament.__version__", "9")
    with pytest.raises(RecordsError, match="proxyprox"):
        held(tmp_path)


def test_two_workers_give_what_one_gives(tmp_path: Path) -> None:
    config = replace(logistic.DEMO, budget=6, tuning_budget=2, inner_steps=2, seeds=1, fractions=())
    entries = [
        entry
        for entry in logistic.entries(config)
        if entry.method in ("SGD", "ProxyProx, exact", "ERM on the rows seen")
    ]
    records = []
    for workers in (1, 2):
        outcome = held(
            tmp_path / str(workers), config, logistic.run_job, entries=entries, workers=workers,
            seeds=2, budget=6, tuning_budget=2,
        )  # fmt: skip
        records.append([{k: v for k, v in p.items() if k != "seconds"} for p in outcome.records])
    assert records[0] == records[1]


def test_lines_of_progress(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as file:
        held(tmp_path / "out", display=LineDisplay(file))
        held(tmp_path / "out", display=LineDisplay(file))
    lines = path.read_text().splitlines()
    assert lines[0] == "tuning step sizes"
    assert lines[-1] == "final runs: 100 % done"
    assert sum(line == "final runs: 100 % done" for line in lines) == 1


def test_cores() -> None:
    assert cores() >= 1
