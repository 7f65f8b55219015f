from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxyprox.experiments.records import read_records

Invoke = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_figures")
SMALL = ["--seeds", "1", "--budget", "8", "--tuning-budget", "2", "--inner-steps", "2"]
PANELS = ["--batch-sizes", "16", "--fractions", "0.5"]


def test_own_set(invoke: Invoke, data_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = invoke(
        "reproduce", "mushrooms", "--dataset", "tiny", "--output", folder, *SMALL, *PANELS,
        "--workers", "1", "--no-download", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert [panel["panel"] for panel in answer["panels"]] == ["batch 16", "subsampled proxy"]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["config"]["data"]["rows"] == 160
    assert "--dataset tiny" in summary["command"]
    fields = {
        "panel", "method", "batch_size", "eta", "target_gradients", "suboptimality_median",
        "suboptimality_q25", "suboptimality_q75", "proxy_gradients", "seconds",
    }  # fmt: skip
    assert all(fields <= row.keys() for row in summary["rows"])


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--no-download"], "downloading is switched off"),
        (["--dataset", "mushroms"], "Did you mean 'mushrooms'?"),
        (["--dataset", "../x"], "not the name of a data set"),
    ],
)
def test_absent_set_is_one_message(
    invoke: Invoke, data_folder: Path, tmp_path: Path, extra: list[str], words: str
) -> None:
    result = invoke("reproduce", "mushrooms", *extra, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert words in result.stderr
    assert "PROXYPROX_DATA" in result.stderr or "data set" in result.stderr
    assert result.stdout == ""


def test_three_classes_are_refused(invoke: Invoke, data_folder: Path, tmp_path: Path) -> None:
    (data_folder / "three.svm").write_text("1 1:1\n2 1:2\n3 1:3\n")
    result = invoke("reproduce", "mushrooms", "--dataset", "three", "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "two classes" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals to a process group are POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupt_and_resume(data_folder: Path, tmp_path: Path, name: str) -> None:
    arguments = [
        "reproduce", "mushrooms", "--dataset", "tiny", "--output", "out dir", "--workers", "2",
        "--seeds", "2", "--budget", "60", "--tuning-budget", "30", "--inner-steps", "10", *PANELS,
    ]  # fmt: skip
    command = [sys.executable, "-m", "proxyprox", *arguments]
    folder = tmp_path / "out dir"
    journal = folder / "grid.journal.jsonl"
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        start_new_session=True,  # a terminal interrupts the whole group, workers included
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while not (journal.exists() and journal.read_bytes().count(b"\n") >= 5):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            os.killpg(process.pid, getattr(signal, name))
            out, err = process.communicate(timeout=120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == (130 if name == "SIGINT" else -signal.SIGTERM), err
    assert "Traceback" not in err
    assert out == ""
    assert "runs are finished and kept in out dir" in err
    line = next(line for line in err.splitlines() if line.startswith("To go on"))
    assert line.endswith("proxyprox reproduce mushrooms " + line.partition("mushrooms ")[2])
    assert "--output 'out dir'" in line

    kept = [json.loads(text)["points"] for text in journal.read_text().splitlines()]
    assert len(kept) >= 5
    if name != "SIGINT":
        return  # going on is the same, and takes long
    resumed = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["reused"] == len(kept)
    # The seconds are those of the first time: nothing finished was run again.
    points = read_records(folder / "grid.jsonl")
    assert all(point in points for run in kept for point in run)


def test_real_mushrooms(invoke: Invoke, tmp_path: Path) -> None:
    data = Path(os.environ.get("PROXYPROX_DATA") or ".")
    if not any(data.glob("mushrooms*")):
        pytest.skip("PROXYPROX_DATA does not hold mushrooms")
    result = invoke(
        "reproduce", "mushrooms", "--output", tmp_path, "--workers", "1", "--no-download", "--json",
        "--seeds", "1", "--budget", "4", "--tuning-budget", "1", "--batch-sizes", "256",
        "--fractions", "none",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["config"]["data"]["rows"] == 8124
