"""Kill ranks of a distributed training at random moments: it must end as if nothing had happened.

    python benchmarks/torch_kills.py --kills 20 --output docs/results/torch/kills.json

For each case, ``examples/distributed_training.py`` runs once undisturbed, and again under
``examples/supervise.py`` while a random rank is killed by SIGKILL at a random moment after each
start: while it imports, connects, loads, trains or saves. The weights at the end must be equal bit
for bit. Bytes are those of one outer step as ``CollectiveBytes`` counts them. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "distributed_training.py"
STEPS, EVERY = {"ddp": 120, "fsdp": 40}, 5
# What the script prints when it begins to train.
BEGINS = "from step"
# Share of the kills that come before it, and of the training's time in which the others come.
EARLY, SPAN = 0.25, 0.25
# Batches of the proxy's full pass and inner steps of the script, and the target's own pass.
PASSES = 8 + 8 + 1


def command(kind: str, ranks: int, folder: Path) -> list[str]:
    """Return what starts the training."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    options = ["--steps", STEPS[kind], "--every", EVERY, "--folder", folder]
    options += ["--shard"] if kind == "fsdp" else []
    return [*launcher, "--nproc-per-node", str(ranks), str(SCRIPT), *map(str, options)]


def environment() -> dict[str, str]:
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def workers(folder: Path) -> dict[int, int]:
    """Return the processes of the ranks, by rank."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() not in (entry / "cmdline").read_bytes().split(b"\0"):
                continue
            rank = re.search(rb"(?:^|\0)RANK=(\d+)", (entry / "environ").read_bytes())
        except OSError:
            continue
        if rank:
            found[int(rank[1])] = int(entry.name)
    return found


def begins(folder: Path) -> int:
    """Return how many starts have begun to train."""
    return folder.with_suffix(".log").read_text().count(BEGINS)


def progress(folder: Path) -> int:
    """Return the step of the newest checkpoint."""
    return max((int(path.name[5:]) for path in folder.glob("step-????????")), default=0)


def killed_run(
    kind: str, ranks: int, folder: Path, kills: int, times: tuple[float, float], dice: random.Random
) -> list[dict[str, Any]]:
    """Train in a folder, with this many kills at most; return when they were."""
    supervised = [sys.executable, str(SCRIPT.with_name("supervise.py")), "--restarts", str(kills)]
    supervised += ["--pause", "0", "--", *command(kind, ranks, folder)]
    done: list[dict[str, Any]] = []
    with open(folder.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(supervised, env=environment(), stdout=log, stderr=log)
        seen, begun = set[int](), 0
        while process.poll() is None:
            time.sleep(0.02)
            found = workers(folder)
            if len(done) == kills or len(found) < ranks or seen & set(found.values()):
                continue
            seen, early = set(found.values()), dice.random() < EARLY
            while not early and process.poll() is None and begins(folder) == begun:
                time.sleep(0.02)
            wait = dice.uniform(0.0, times[0] if early else SPAN * times[1])
            time.sleep(wait)
            begun = begins(folder)
            victim = dice.choice(sorted(found))
            try:
                os.kill(found[victim], signal.SIGKILL)
            except ProcessLookupError:
                continue  # it had just ended by itself
            moment = {"early": early, "after": round(wait, 2), "checkpoint": progress(folder)}
            done.append({"rank": victim, **moment})
    text = folder.with_suffix(".log").read_text()
    assert process.returncode == 0, f"status {process.returncode}\n{text}"
    return done


def equal(one: Path, other: Path) -> bool:
    """Tell whether two runs have ended with the same bits."""
    weights = [torch.load(folder / "weights.pt", weights_only=True) for folder in (one, other)]
    return weights[0].keys() == weights[1].keys() and all(
        torch.equal(weights[0][name].view(torch.int32), weights[1][name].view(torch.int32))
        for name in weights[0]
    )


def measure(kind: str, ranks: int, kills: int, place: Path, dice: random.Random) -> dict[str, Any]:
    """Return one case's figures."""
    whole = place / "unbroken"
    begun, started, shown = time.monotonic(), 0.0, ""
    words = command(kind, ranks, whole)
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            shown += line
            started = time.monotonic() if BEGINS in line else started
    times = started - begun, time.monotonic() - started
    counted = Counter(int(n) for n in re.findall(r"(\d+) bytes", shown))
    weights = torch.load(whole / "weights.pt", weights_only=True)
    gradient = sum(w.numel() * w.element_size() for w in weights.values())
    formula = gradient if kind == "ddp" else 3 * PASSES * gradient
    done: list[dict[str, Any]] = []
    runs, same = 0, 0
    while len(done) < kills:
        folder = place / f"killed{runs}"
        done += killed_run(kind, ranks, folder, kills - len(done), times, dice)
        runs, same = runs + 1, same + equal(whole, folder)
    found = {
        "kind": kind, "ranks": ranks, "runs": runs, "runs equal": same,
        "seconds to start": round(times[0], 1), "seconds to train": round(times[1], 1),
        "bytes of a step": counted.most_common(1)[0][0],
        "bytes by formula": formula, "bytes of a gradient": gradient, "killed": done,
    }  # fmt: skip
    print(json.dumps({**found, "killed": len(done)}), flush=True)
    return found


def main() -> None:
    """Measure the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of each case")
    parser.add_argument("--cases", default="ddp:2,ddp:4,fsdp:2", help="kind:ranks, …")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a JSON file")
    given = parser.parse_args()
    dice = random.Random(given.seed)
    cases = [case.split(":") for case in given.cases.split(",")]
    found = []
    for kind, ranks in cases:
        with tempfile.TemporaryDirectory() as scratch:
            found.append(measure(kind, int(ranks), given.kills, Path(scratch), dice))
        if given.output:
            given.output.write_text(json.dumps(found, indent=1) + "\n")
    assert all(case["runs"] == case["runs equal"] for case in found)


if __name__ == "__main__":
    main()
