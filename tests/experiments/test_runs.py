"""Records: whole runs or none of them, and never a mixture of settings."""

import random

import numpy as np
import pytest

from experiments.runs import Records, RecordsError, read_records

NAMES = [{"method": method, "seed": seed} for method in ("SGD", "ProxyProx") for seed in (0, 1, 10)]


def points(count=3):
    return [{"t": t, "loss": 1 / (1 + t)} for t in range(count)]


def test_runs_are_whole_kept_and_exported_in_order(tmp_path):
    contents = set()
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        with Records(folder, {}) as records:
            for name in random.Random(attempt).sample(NAMES, len(NAMES)):
                records.add(name, points())
            found = records.export("records.jsonl", NAMES)
        assert read_records(folder / "records.jsonl") == found
        contents.add((folder / "records.jsonl").read_bytes())
    assert len(contents) == 1  # it does not matter who finished first
    assert [(p["method"], p["seed"]) for p in found[::3]] == [tuple(n.values()) for n in NAMES]
    with Records(folder, {}) as records:
        assert records.points(NAMES[0]) == [{**NAMES[0], **p} for p in points()]
        records.add(NAMES[0], points(1))  # already there
        assert len(records.points(NAMES[0])) == 3
        other = {"method": "SGD", "seed": 99}
        assert other not in records
        with pytest.raises(KeyError, match="99"):
            records.export("records.jsonl", [other])


def test_numpy_scalars_and_divergence(tmp_path):
    name = {"method": "SGD", "seed": np.int64(3)}
    with Records(tmp_path, {}) as records:
        records.add(name, [{"loss": np.float64("inf"), "ok": np.bool_(True)}])
        assert {"method": "SGD", "seed": 3} in records
        assert records.points(name) == [{"method": "SGD", "seed": 3, "loss": None, "ok": True}]
        with pytest.raises(TypeError, match="ndarray"):
            records.add(NAMES[0], [{"w": np.ones(2)}])
        assert len(records) == 1


def test_other_settings_are_refused(tmp_path):
    with Records(tmp_path, {"steps": 5}):
        pass  # without runs the settings may change
    with Records(tmp_path, {"steps": (10,), "run": {"seeds": 3}}) as records:
        records.add(NAMES[0], points())
    # A setting that is None may be missing.
    with Records(tmp_path, {"steps": [10], "run": {"seeds": 3, "seconds": None}}) as records:
        assert len(records) == 1
    with pytest.raises(RecordsError, match=r"run\.seeds \(there 3, now 4\)"):
        Records(tmp_path, {"steps": [10], "run": {"seeds": 4}})


def test_a_damaged_file_and_records_of_an_earlier_version_are_named(tmp_path):
    (tmp_path / "runs.sqlite").write_bytes(b"not a database, whatever its name says" * 10)
    with pytest.raises(RecordsError, match=r"runs\.sqlite cannot be used"):
        Records(tmp_path, {})
    for name in ("records.jsonl", "records.journal.jsonl"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("{}\n")
        with pytest.raises(RecordsError, match=r"0\.1.*empty folder"):
            Records(folder, {})
