"""Kill runs at random moments and resume them: nothing paid is lost, and the result is the same.

    python benchmarks/kills.py --count 200

Every set-up runs once undisturbed. Then it is started in fresh folders and killed again and again,
by SIGKILL, SIGTERM, SIGHUP or SIGINT after a random time, until a start comes through. Checked are
the exit status after every kill, that no worker process outlives its parent, that the finished
result has the same bits as the undisturbed one, that no finished run was run again, that no target
gradient but those of the steps in flight was paid twice, and that no temporary file stays.

Children are made by fork, so that nothing is imported again; POSIX only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import proxyprox as pp

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
STEPS = 60
DEPENDENT = ("proxy_", "seconds", "target_seconds")
# -- what is run -----------------------------------------------------------------------------------


def table() -> tuple[Any, Any]:
    """Return inputs and two classes that overlap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, (X[:, 0] + rng.normal(size=120) > 0).astype(int)


class Paid:
    """A loss whose gradients take a moment, and are counted in a file as they are evaluated."""

    repeatable, dim = True, 4

    def __init__(self, folder: Path) -> None:
        self._loss = pp.logistic_regression(*table(), l2=0.1, batch_size=6)
        self.sample, self.samples = self._loss.sample, self._loss.samples
        self._file = os.open(folder / "paid", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def gradient(self, w: Any, batch: Any) -> Any:
        """Return the gradient, and count it."""
        time.sleep(0.002)
        gradient = self._loss.gradient(w, batch)
        os.write(self._file, b".")
        return gradient


def minimised(folder: Path, **options: Any) -> None:
    """Run ``minimize`` with a checkpoint, and keep its result."""
    target = Paid(folder)
    proxy = target._loss.subsample(30, rng=1)
    saver = pp.Checkpoint(folder / "run", every_steps=options.pop("every", 1))
    result = pp.minimize(pp.Problem(target, proxy), steps=STEPS, rng=5, checkpoint=saver, **options)
    # The ledger counts what was asked: a step that is broken off has asked the proxy, and a
    # comparison of the safeguard the target.
    dependent = (*DEPENDENT, "target_") if options.get("safeguard") else DEPENDENT
    counts = {k: v for k, v in result.ledger.as_dict().items() if not k.startswith(dependent)}
    columns = [k for k in pp.result.StepRecord._fields if not k.startswith(DEPENDENT)]
    np.savez(
        folder / "result.npz", w=result.w, last=result.last,
        trace=np.array([result.trace[k] for k in columns], float),
        counts=np.array(list(counts.values())),
    )  # fmt: skip


def plain(folder: Path) -> None:
    """Stochastic corrections and an average; saved at every step."""
    minimised(
        folder, method=pp.ProxyProx(0.5, pp.corrections.Storm(0.2)), inner=pp.inner.QuasiNewton(),
        stop=pp.stopping.Residual(1e-9), averaging=pp.averaging.Geometric(0.1),
    )  # fmt: skip


def seldom(folder: Path) -> None:
    """The default method with a progress bar; saved only when it ends, so not to be killed by 9."""
    minimised(folder, every=10**6, progress=True)


def safeguard(folder: Path) -> None:
    """All arms of a safeguarded run."""
    minimised(folder, method=pp.ProxyProx(0.5), stop=pp.stopping.Residual(1e-6), safeguard=True)


def run_without_figures(main: Callable[[], None], *words: str | int | Path) -> None:
    """Run a program; drawing takes longer than all the runs."""
    from experiments import figures as print_figures
    from experiments.report import figures

    print_figures.save_figures = lambda *_, **__: []
    figures.plot_svg = figures.glyph = lambda *_: ""
    sys.argv = list(map(str, words))
    main()


def mushrooms(folder: Path, workers: int = 1) -> None:
    """``python -m experiments.mushrooms`` on a small set."""
    from experiments import mushrooms as experiment
    from experiments import shared

    options = (
        "--seeds", "1", "--budget", "12", "--tuning-budget", "4", "--inner-steps", "2",
        "--batch-sizes", "16", "--fractions", "none", "--no-download", "--json",
    )  # fmt: skip
    words = ("--dataset", "tiny", "--output", folder, "--workers", workers, *options)
    run_without_figures(lambda: shared.start(experiment.mushrooms), "mushrooms", *words)


def workers(folder: Path) -> None:
    """The same in two worker processes, which import everything again: slow."""
    mushrooms(folder, workers=2)


SETUPS: dict[str, Callable[[Path], None]] = {
    f.__name__: f for f in (plain, seldom, safeguard, mushrooms, workers)
}

# -- a process of its own --------------------------------------------------------------------------


def start(setup: Callable[[Path], None], folder: Path, *, ignored: int | None = None) -> int:
    """Start a set-up in a process and a group of its own, and return its number."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    for number in SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if ignored is not None:
        signal.signal(ignored, signal.SIG_IGN)
    log = os.open(folder.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    status = 0
    try:
        (folder.parent / "begun").touch()
        setup(folder)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except KeyboardInterrupt:
        # As the interpreter does at its end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        status = 70
    os._exit(status)


def ended(pid: int) -> int:
    """Wait for a process and its group; return its exit status, negative for a signal."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for _ in range(2000):  # a worker notices its parent's death once it has imported the package
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return status
        time.sleep(0.02)
    left = os.popen(f"ps -o pid,stat,etimes,wchan:20,args -g {pid}").read()
    raise AssertionError(f"processes of {pid} (status {status}) are still there:\n{left}")


# -- what is checked -------------------------------------------------------------------------------


def outcome(folder: Path) -> dict[str, Any]:
    """Return what must not depend on interruptions."""
    found: dict[str, Any] = {}
    if (folder / "result.npz").exists():
        with np.load(folder / "result.npz") as arrays:
            found |= {f"result.npz/{key}": arrays[key].tobytes() for key in arrays.files}
    for name in ("records.jsonl", "grid.jsonl"):
        if (folder / name).exists():
            lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
            found[name] = [{k: v for k, v in p.items() if k != "seconds"} for p in lines]
    return found


def finished_runs(folder: Path) -> dict[str, bytes]:
    """Return every run in the records, seconds included, by its name."""
    if not (folder / "runs.sqlite").exists():
        return {}
    with contextlib.closing(sqlite3.connect(folder / "runs.sqlite")) as database:
        try:
            return dict(database.execute("SELECT key, data FROM events WHERE kind = 'run'"))
        except sqlite3.OperationalError:  # locked for a moment
            return {}


def paid(folder: Path) -> int:
    """Return the number of target gradients evaluated in a folder."""
    file = folder / "paid"
    return file.stat().st_size if file.exists() else 0


class Chains:
    """Kills one set-up again and again."""

    def __init__(self, name: str, place: Path, dice: random.Random) -> None:
        self.name, self.setup, self.dice = name, SETUPS[name], dice
        self.place = place / name
        self.place.mkdir()
        self.statuses: Counter[int] = Counter()
        whole = self.place / "whole"
        whole.mkdir()
        begun = time.monotonic()
        status = ended(start(self.setup, whole))
        assert status == 0, self.told(f"undisturbed it ended with {status}")
        self.seconds = time.monotonic() - begun
        self.expected, self.paid = outcome(whole), paid(whole)
        assert self.expected, self.told("there is no result")

    def told(self, text: str) -> str:
        """Return what went wrong and the end of the log."""
        log = self.place / "log"
        return f"{self.name}: {text}\n{log.read_text()[-3000:] if log.exists() else ''}"

    def chain(self, kills: int) -> int:
        """Start, kill and resume in one folder, so often at most; return the number of kills."""
        folder = self.place / f"chain{self.dice.random()}"
        folder.mkdir()
        kept: dict[str, str] = {}
        allowed = 0
        done = 0
        while True:
            pid = start(self.setup, folder)
            number = self.dice.choice(SIGNALS[1:] if self.name == "seldom" else SIGNALS)
            if done < kills:
                time.sleep(self.dice.uniform(0.0, self.seconds))
                os.kill(pid, number)
            status = ended(pid)
            if status == 0:
                break
            usual = {-number, 130} if number == signal.SIGINT else {-number}
            assert status in usual, self.told(f"{number!r} gave {status}")
            self.statuses[status] += 1
            done += 1
            # The step in flight; after kill -9 also the one that was not saved yet.
            allowed += 4 if number == signal.SIGKILL else 2
            now = finished_runs(folder)
            lost = [run for run in kept if now.get(run) != kept[run]]
            assert not lost, self.told(f"lost or repeated: {lost[:3]}")
            kept = now
        found = outcome(folder)
        differing = [k for k in self.expected if found.get(k) != self.expected[k]]
        assert not differing, self.told(f"other results: {differing}")
        now = finished_runs(folder)
        assert all(now[run] == kept[run] for run in kept), self.told("finished runs were repeated")
        if self.name != "safeguard":
            extra = paid(folder) - self.paid
            assert extra <= allowed, self.told(f"{extra} gradients paid twice, {allowed} allowed")
        # A file that was being written when kill -9 came stays beside its target.
        rest = [p for p in folder.rglob(".*") if p.suffix == ".lock"]
        assert not rest, self.told(f"left behind: {rest}")
        shutil.rmtree(folder)
        return done


def ignored_stays_ignored(place: Path) -> None:
    """Send SIGHUP to a run under ``nohup``: it must come through."""
    folder = place / "nohup" / "out"
    folder.mkdir(parents=True)
    pid = start(plain, folder, ignored=signal.SIGHUP)
    while not (folder / "run").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGHUP)
    assert ended(pid) == 0, "an ignored SIGHUP ended the run"


def main() -> None:
    """Kill as often as asked, spread over the set-ups."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--setups", default=",".join(SETUPS))
    given = parser.parse_args()
    names = given.setups.split(",")
    modules = ["proxyprox_app.cli.run", "experiments.report.page", "proxyprox_app.problem"]
    if {"mushrooms", "workers"} & set(names):
        modules.append("experiments.mushrooms")
    for module in modules:
        importlib.import_module(module)  # before the forks
    dice = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        X, y = table()
        lines = [
            f"{k + 1} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(row))
            for row, k in zip(X, y, strict=True)
        ]
        (place / "tiny.svm").write_text("\n".join(lines) + "\n")
        os.environ["PROXYPROX_DATA"], os.environ["XDG_CACHE_HOME"] = scratch, scratch
        # Before the forks: whatever is loaded here is not loaded again in every child.
        loss = pp.logistic_regression(*table(), batch_size=2)
        pp.minimize(pp.Problem(loss, loss.subsample(2, rng=0)), steps=2, safeguard=True)
        ignored_stays_ignored(place)
        for position, name in enumerate(names):
            share = given.count // len(names) + (position < given.count % len(names))
            if not share:
                continue
            begun = time.monotonic()
            chains = Chains(name, place, dice)
            kills = 0
            while kills < share:
                kills += chains.chain(min(4, share - kills))
            statuses = ", ".join(f"{n} × {s}" for s, n in sorted(chains.statuses.items()))
            seconds = time.monotonic() - begun
            print(f"{name}: {kills} kills survived in {seconds:.0f} s; statuses {statuses}")


if __name__ == "__main__":
    main()
