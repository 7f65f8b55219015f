"""Several ranks train as one process does; what they save resumes; what differs is named.

One ``torchrun`` of two ranks does everything, see ranks.py; the tests read its report.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from proxyprox.torch import Proxy
from tests.torch import ranks

# Without a process group, torch.distributed.checkpoint says that it assumes one process.
pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.distributed is:UserWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="gloo of several processes"),
]
STEPS = ranks.FIRST + ranks.REST


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run everything once; return where the report and the checkpoints are."""
    folder = tmp_path_factory.mktemp("ranks")
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         ranks.__file__, str(folder)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def report(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def alone():
    """Return the weights of one process with the same global batches, by setting."""
    return {name: ranks.Training(name, "alone").train(STEPS).weights() for name in ranks.SETTINGS}


@pytest.mark.parametrize("case", ranks.CASES, ids=ranks.name_of)
def test_ranks_agree_resume_and_train_as_one_process(report, alone, folder, case):
    found = report[ranks.name_of(case)]
    assert found["equal on all ranks"]
    assert found["resumed equal"]
    weights = torch.tensor(found["weights"], dtype=torch.float64)
    torch.testing.assert_close(weights, alone[case[0]], rtol=1e-12, atol=1e-12)
    # What two ranks have saved, one process resumes.
    saved = Path(folder) / ranks.name_of(case)
    resumed = ranks.Training(case[0], "alone").load(saved, ranks.FIRST).train(ranks.REST)
    torch.testing.assert_close(resumed.weights(), weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["ddp-replicated", "through ddp"])
def test_an_outer_step_under_ddp_reduces_one_gradient(report, name):
    found = report["bytes"][name]
    # 48 bytes more tell whether the ranks agree.
    assert found["by"] == {"allreduce": found["held"] + 48}


def test_shared_batches_reduce_every_proxy_gradient(report):
    found = report["bytes"]["ddp-shared"]
    # The target's, one of the whole proxy and those of three steps, with their losses.
    assert found["by"] == {"allreduce": 5 * found["held"] + 4 * 8 + 48}


@pytest.mark.parametrize("mode", ["replicated", "shared"])
def test_sharded_passes_gather_twice_and_scatter_once(report, mode):
    found = report["bytes"][f"fsdp-{mode}"]
    # One pass of the target, three batches of the whole proxy, three steps; two ranks. The layers
    # are padded to equal parts, and the first rank's are full.
    whole = 7 * 2 * found["held"]
    assert found["by"]["allgather_base"] == 2 * whole
    assert found["by"]["reduce_scatter_base"] == whole
    assert found["total"] < 1.05 * 3 * whole


def test_ranks_that_differ_are_refused(report):
    errors = report["errors"]
    assert "RuntimeError: the ranks must draw the same proxy batches" in errors["other rows"]
    assert "the length of batches" in errors["other length"]
    assert "DistributedDataParallel" in errors["without ddp"]


def test_ranks_draw_the_same_dropout_masks_in_proxy_passes(report):
    assert report["same masks"]


def test_independent_ranks_do_not_wait_for_each_other(report):
    assert report["independent"] == 1


def test_modes_are_checked():
    with pytest.raises(ValueError, match="across_ranks"):
        Proxy([torch.zeros(2)], torch.sum, across_ranks="some")


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("setting", ranks.SETTINGS)
def test_checkpoints_do_not_change_a_run(alone, setting, flat):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)

    def save(training):
        found = get_optimizer_state_dict(training.network, training.optimizer, options=options)
        return copy.deepcopy(found)

    first = ranks.Training(setting, "alone")
    start = save(first)  # before there is any state
    first.train(ranks.FIRST)
    later = save(first)
    weights = {name: p.detach().clone() for name, p in first.network.named_parameters()}
    assert torch.equal(first.train(ranks.REST).weights(), alone[setting])
    for k, state in ((0, start), (ranks.FIRST, later)):
        other = ranks.Training(setting, "alone")
        if k:
            other.network.load_state_dict(weights)
        other.optimizer.zero_grad()
        set_optimizer_state_dict(other.network, other.optimizer, state, options=options)
        other.k = k
        assert torch.equal(other.train(STEPS - k).weights(), alone[setting])
