"""Several ranks train as one process does; what they save resumes; what differs is named.

One launch of two ranks does everything, see ranks.py; the tests read its report.
"""

import json
import os
import subprocess
import sys

import pytest
import torch

from tests.torch import ranks

# Without a process group, torch.distributed.checkpoint says that it assumes one process.
pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.distributed is:UserWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the second rank is a fork"),
]
STEPS = ranks.FIRST + ranks.REST


@pytest.fixture(scope="module")
def alone():
    """Return the weights of one process with the same global batches, by setting."""
    return {name: ranks.Training(name, "alone").train(STEPS).weights() for name in ranks.SETTINGS}


# One test, so that whatever spreads tests over processes launches the ranks once.
def test_two_ranks(tmp_path, alone):
    ran = subprocess.run(
        [sys.executable, ranks.__file__, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    for case in ranks.CASES:
        check_case(report[ranks.name_of(case)], alone[case[0]], case, tmp_path)
    check_bytes(report["bytes"])
    errors = report["errors"]
    assert "RuntimeError: the ranks must draw the same proxy batches" in errors["other rows"]
    assert "the length of batches" in errors["other length"]
    assert "DistributedDataParallel" in errors["without ddp"]
    assert report["left alone"] == [True, True]
    assert report["same masks"]
    assert report["independent"] == 1


def check_case(found, alone, case, folder):
    assert found["equal on all ranks"], case
    assert found["resumed equal"], case
    weights = torch.tensor(found["weights"], dtype=torch.float64)
    torch.testing.assert_close(weights, alone, rtol=1e-12, atol=1e-12)
    # What two ranks have saved, one process resumes.
    saved = folder / ranks.name_of(case)
    resumed = ranks.Training(case[0], "alone").load(saved, ranks.FIRST).train(ranks.REST)
    torch.testing.assert_close(resumed.weights(), weights, rtol=1e-12, atol=1e-12)


def check_bytes(found):
    # Under DistributedDataParallel one gradient; 48 bytes more tell whether the ranks agree.
    for name in ("ddp-replicated", "through ddp"):
        assert found[name]["by"] == {"allreduce": found[name]["held"] + 48}, name
    # Shared: the target's, one of the whole proxy and those of three steps, with their losses.
    shared = found["ddp-shared"]
    assert shared["by"] == {"allreduce": 5 * shared["held"] + 4 * 8 + 48}
    for name in ("fsdp-replicated", "fsdp-shared"):
        # One pass of the target, three batches of the whole proxy, three steps; two ranks. Layers
        # are padded to equal parts, and the first rank's are full.
        whole, counted = 7 * 2 * found[name]["held"], found[name]["by"]
        assert counted["allgather_base"] == 2 * whole, name
        assert counted["reduce_scatter_base"] == whole, name
        assert found[name]["total"] < 1.05 * 3 * whole, name
