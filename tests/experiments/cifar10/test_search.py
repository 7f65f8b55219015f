"""The queue of the search: who takes a job, what is on the disk, what is left."""

from __future__ import annotations

import json
import runpy
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "cifar10_search.py"
if not SCRIPT.is_file():
    pytest.skip("the benchmarks are not part of an installed package", allow_module_level=True)


def test_a_job_is_taken_once_and_done_again_only_if_unfinished(tmp_path):
    module = runpy.run_path(str(SCRIPT))
    jobs = [{"recipe": {"name": name}, "config": {}, "seed": 0} for name in "abc"]
    one, other = (module["Queue"](tmp_path) for _ in range(2))
    one.fill(jobs)
    taken = [queue.take() for queue in (one, other, one)]
    assert [job["recipe"]["name"] for _, job in taken] == ["a", "b", "c"]
    assert other.take() is None
    one.add(0, {"job": jobs[0], "finished": True})
    other.add(1, {"job": jobs[1], "finished": False})
    with (tmp_path / "rows-1.jsonl").open("a") as file:
        file.write('{"job": {"rec')  # broken off while writing
    one.fill(jobs)
    assert one.left() == jobs[1:]
    assert len(one.rows()) == 2
    other.add(2, {"job": jobs[1], "finished": True})
    assert {row["finished"] for row in one.rows()} == {True}


def test_a_worker_trains_what_it_takes(tmp_path):
    module = runpy.run_path(str(SCRIPT))
    small = {"train_images": 64, "test_images": 16, "image_size": 8, "width": 4, "passes": 1}
    common = {"lr": 1e-3, "optimizer": "adamw", "batch_size": 16}
    settings = [
        {"name": "mixed", "source": "mixed", "config": {**small, "clean": 32}, **common},
        {"name": "too few", "source": "mixed", "config": {**small, "clean": 63}, **common},
    ]
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    given = module["options"](["--tiny", "--device", "cpu", "--settings",
                               str(tmp_path / "settings.json")])  # fmt: skip
    queue = module["Queue"](tmp_path / "queue")
    queue.fill(module["make_jobs"](given))
    rows = list(module["work"](queue, given, 0, time.time() + 60))
    assert json.loads(json.dumps(rows)) == queue.rows()
    assert [row["name"] for row in rows] == ["mixed", "too few"]
    assert rows[0]["finished"]
    assert 0 <= rows[0]["validation"] <= 1
    assert "batch_size" in rows[1]["error"]
    assert "too few" in module["table"](rows)
