from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyprox.experiments.records import RecordsError, RecordStore, read_records

KEY = ("method", "seed")


def run(method: str, seed: int, points: int = 3) -> list[dict[str, Any]]:
    return [{"method": method, "seed": seed, "t": t, "loss": 1 / (1 + t)} for t in range(points)]


RUNS = [run(method, seed) for method in ("SGD", "ProxyProx") for seed in (0, 1, 10)]


def test_final_file_does_not_depend_on_who_finished_first(tmp_path: Path) -> None:
    contents = set()
    for attempt in range(3):
        store = RecordStore(tmp_path / str(attempt) / "records.jsonl", key=KEY)
        for points in random.Random(attempt).sample(RUNS, len(RUNS)):
            store.append(points)
        contents.add(store.finalise().read_bytes())
        assert not store.journal.exists()
    assert len(contents) == 1
    lines = contents.pop().decode().splitlines()
    assert len(lines) == 18
    assert [json.loads(line)["seed"] for line in lines[::3]] == [0, 1, 10] * 2


def test_order_of_the_plan(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "records.jsonl", key=KEY)
    for points in RUNS:
        store.append(points)
    plan = [{"method": "SGD", "seed": 10}, {"method": "SGD", "seed": 0}]
    read = read_records(store.finalise(plan))
    assert [(p["method"], p["seed"]) for p in read[::3]][:2] == [("SGD", 10), ("SGD", 0)]
    assert len(read) == 18
    with pytest.raises(ValueError, match="not finished"):
        store.finalise([{"method": "SGD", "seed": 99}])


def test_reopening_finds_finished_runs_before_and_after_the_end(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    RecordStore(path, key=KEY).append(RUNS[0])
    store = RecordStore(path, key=KEY)
    assert RUNS[0][0] in store
    assert RUNS[1][0] not in store
    assert store.points(RUNS[0][0]) == RUNS[0]
    store.append(RUNS[1])
    before = store.finalise().read_bytes()
    again = RecordStore(path, key=KEY)
    assert len(again) == 2
    again.append(RUNS[0])  # already there
    assert not again.journal.exists()
    assert again.finalise().read_bytes() == before


@pytest.mark.parametrize("kept", [1, 5, 40, -1])
def test_a_torn_last_line_is_dropped_and_the_run_done_again(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "records.jsonl"
    store = RecordStore(path, key=KEY)
    store.append(RUNS[0])
    first = store.journal.read_bytes()
    store.append(RUNS[1])
    second = store.journal.read_bytes()[len(first) :]
    store.journal.write_bytes(first + second[:kept])
    again = RecordStore(path, key=KEY)
    assert again.finished == {("SGD", 0)}
    again.append(RUNS[1])
    assert again.journal.read_bytes() == first + second


def test_a_damaged_line_costs_only_its_run(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "records.jsonl", key=KEY)
    for points in RUNS[:2]:
        store.append(points)
    content = store.journal.read_bytes()
    store.journal.write_bytes(b"\0\0\0\n" + content)
    assert len(RecordStore(store.path, key=KEY)) == 2


def test_a_failed_write_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RecordStore(tmp_path / "records.jsonl", key=KEY)
    store.append(RUNS[0])
    before = store.journal.read_bytes()
    real = os.write
    calls = iter([1])

    def full_disk(descriptor: int, data: bytes) -> int:
        if next(calls, None):
            return real(descriptor, data[:7])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.append(RUNS[1])
    assert store.journal.read_bytes() == before
    assert RUNS[1][0] not in store


@pytest.mark.skipif(os.name == "nt", reason="kill -9 is POSIX")
def test_kill_9_loses_no_finished_run(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from proxyprox.experiments.records import RecordStore
        store = RecordStore(sys.argv[1], key=("method", "seed"))
        seed = 0
        while True:
            store.append([{"method": "m" * 2000, "seed": seed, "t": t} for t in range(50)])
            sys.stdout.write(f"{seed}\\n")
            sys.stdout.flush()
            seed += 1
        """
    )
    path = tmp_path / "records.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 5:
                process.send_signal(signal.SIGKILL)
                break
        announced = [5, *(int(line) for line in process.stdout)][-1]
    store = RecordStore(path, key=KEY)
    # What was announced is there; at most the one run under way may be there as well.
    assert announced + 1 <= len(store) <= announced + 2
    assert {seed for _, seed in store.finished} == set(range(len(store)))
    assert all(len(store.points({"method": m, "seed": s})) == 50 for m, s in store.finished)


def test_numpy_scalars_and_divergence(tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "records.jsonl", key=KEY)
    point = {"method": "SGD", "seed": np.int64(3), "loss": np.float64("inf"), "ok": np.bool_(True)}
    store.append([point])
    assert point in store
    assert read_records(store.finalise()) == [
        {"method": "SGD", "seed": 3, "loss": None, "ok": True}
    ]


@pytest.mark.parametrize(
    ("points", "error", "words"),
    [
        ([], ValueError, "exactly one run, got 0"),
        ([*RUNS[0], *RUNS[1]], ValueError, "exactly one run, got 2"),
        ([{"method": "SGD"}], ValueError, "lacks the field.* seed"),
        ([{"method": "SGD", "seed": 0, "w": [1]}], TypeError, "'w' holds a list"),
        ([{"method": "SGD", "seed": 0, "w": np.ones(2)}], TypeError, "'w' holds a ndarray"),
    ],
)
def test_mistakes(
    tmp_path: Path, points: list[dict[str, Any]], error: type[Exception], words: str
) -> None:
    store = RecordStore(tmp_path / "records.jsonl", key=KEY)
    with pytest.raises(error, match=words):
        store.append(points)
    assert len(store) == 0


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    RecordStore(path, key=KEY, config={"steps": 10}).append(RUNS[0])
    assert len(RecordStore(path, key=KEY, config={"steps": 10})) == 1
    with pytest.raises(RecordsError, match=r"steps \(there 10, now 20\)"):
        RecordStore(path, key=KEY, config={"steps": 20})
    (tmp_path / "records.config.json").unlink()
    with pytest.raises(RecordsError, match="choose an empty folder"):
        RecordStore(path, key=KEY, config={"steps": 10})


def test_a_setting_that_is_none_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    RecordStore(path, key=KEY, config={"run": {"steps": 3}}).append(RUNS[0])
    later = RecordStore(path, key=KEY, config={"run": {"steps": 3, "seconds": None}})
    assert RUNS[0][0] in later


def test_a_configuration_without_records_may_change(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    RecordStore(path, key=KEY, config={"steps": 10})
    RecordStore(path, key=KEY, config={"steps": (20,)}).append(RUNS[0])
    assert len(RecordStore(path, key=KEY, config={"steps": [20]})) == 1


@pytest.mark.parametrize("line", ["{", "[1]"])
def test_damaged_final_file(tmp_path: Path, line: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"method": "SGD", "seed": 0}\n' + line + "\n")
    with pytest.raises(RecordsError, match="line 2"):
        RecordStore(path, key=KEY)
