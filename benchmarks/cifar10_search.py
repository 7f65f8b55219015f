"""Search for better settings of the CIFAR-10 experiment on one GPU, within a time limit.

    PROXYPROX_DATA=... PYTHONPATH=src:. python benchmarks/cifar10_search.py \
        --minutes 8 --json search.json [--only ema,plain] [--seeds 1] [--passes 5] [--workers 4]

Runs a list of settings until the time is over and prints a line after each: test accuracy after
1, 3 and 5 passes (or the nearest points), at the end, and on the validation images if there are
some; seconds and proxy gradients. What ran out of time is listed.

``--subset`` and ``--clean`` take the lists of ``cifar10_settings.py``.
``--settings file.json`` replaces the list by one's own: a list of objects with a ``name``, fields
of ``Recipe`` and, if wanted, ``config``: fields of ``Config`` for this one, such as
``{"clean": 2000, "noise": "pair", "passes": 10}``. ``seeds`` limits their number.

Of settings whose names begin alike up to a colon, such as "mixed: 0.1" and "mixed: 0.25", the one
with the best validation accuracy is named at the end, for each task, with its test accuracy.

``--workers N`` trains N settings at a time, each in a process of its own, which pays where one
training does not fill the GPU (start CUDA MPS before, if you can). The processes take their jobs
from a folder, ``--folder``, and write every finished row into it at once; called again with the
same folder, the search resumes with what is not finished. The first worker compiles the network
while the others wait for it, so put a setting of ProxyProx, which needs two variants, first.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from cifar10_settings import settings
from experiments.cifar10 import TINY, Config, Recipe
from experiments.cifar10.model import Network
from experiments.cifar10.run import device_data
from experiments.cifar10.training import Training, device_name

Row = dict[str, Any]

EMA = Recipe("ema", correction="ema", a=0.1, lr=0.25, inner_steps=20, inner_lr=0.01)


def ema(name: str, **changes: Any) -> Recipe:
    return replace(EMA, name=name, **changes)


SETTINGS = [
    EMA,
    ema("ema anchor512", anchor_batch=512),
    ema("ema refresh", refresh=20),
    ema("ema average .98 refresh", average=0.98, refresh=20),
    ema("ema proxy aug", proxy_augment=True, refresh=20),
    ema("ema both aug", proxy_augment=True, augment=True, refresh=20),
    ema("ema aug average", proxy_augment=True, augment=True, average=0.98, refresh=20),
    ema("ema smoothing .1", label_smoothing=0.1, refresh=20),
    ema("ema inner lr .02→.002", inner_lr=0.02, inner_lr_end=0.002, refresh=20),
    ema("ema inner 20→5", inner_steps_end=5, refresh=20),
    ema("ema batch 256", batch_size=256, refresh=20),
    ema("ema batch 64", batch_size=64, refresh=20),
    ema("ema eta 1", lr=1.0, refresh=20),
    ema("ema eta .1", lr=0.1, refresh=20),
    ema("ema decay 1e-3", weight_decay=1e-3, refresh=20),
    Recipe("SGD", "sgd", lr=0.1),
    Recipe("SGD Nesterov", "sgd", lr=0.05, momentum=0.9),
    Recipe("AdamW", "adamw", lr=1e-3, weight_decay=0.1),
]  # fmt: skip
"""One thing changed at a time from the best known, then the combinations that seem worth it."""


PATIENCE = 60.0
"""Seconds that the other workers wait for the first one to compile."""


def options(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--passes", type=float, help="default 5, or as a setting says")
    parser.add_argument("--until", type=float, help="stop each run after this many passes")
    parser.add_argument("--points", type=int, default=1, help="evaluations in a pass")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--settings", type=Path)
    parser.add_argument("--subset", action="store_true", help="those of cifar10_settings.py")
    parser.add_argument("--clean", type=int, nargs="+", help="the same, with few right labels")
    parser.add_argument("--noise", nargs="+", default=["pair"], help="pair, uniform: of the others")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="synthetic images, for a CPU")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="of jobs and rows; default a temporary one")
    parser.add_argument("--json", type=Path)
    # What the parent tells a worker: its number, and when to end.
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    return parser.parse_args(words)


# -- jobs ------------------------------------------------------------------------------------


def make_jobs(given: argparse.Namespace) -> list[Row]:
    """Return what to train: recipe, configuration and seed, the first seed of all of them first."""
    items = [asdict(recipe) for recipe in SETTINGS]
    if given.subset or given.clean:
        items = settings(subset=given.subset, clean=given.clean or (), noise=given.noise)
    elif given.settings:
        items = json.loads(given.settings.read_text())
    words = [word.strip() for word in given.only.split(",") if word.strip()]
    items = [i for i in items if not words or any(word in i["name"] for word in words)]
    common = {"compile": not given.no_compile, "graphs": not given.no_graphs,
              "points_per_pass": 2 if given.tiny else given.points}  # fmt: skip
    if given.passes:
        common["passes"] = given.passes
    small = {"batch_size": 32, "proxy_size": 128, "inner_steps": 2} if given.tiny else {}
    jobs = []
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for item in items:
            if item.get("seeds") and seed >= given.first_seed + item["seeds"]:
                continue
            recipe = {**item, **small}
            config = {**common, **recipe.pop("config", {})}
            make_config(config, recipe, tiny=given.tiny)  # to refuse it now, not in a worker
            jobs.append({"recipe": recipe, "config": config, "seed": seed})
    return jobs


def make_config(changes: Row, recipe: Row, *, tiny: bool) -> Config:
    """Return the configuration of one job."""
    return replace(TINY if tiny else Config(), recipes=(Recipe(**recipe),), **changes)


class Queue:
    """Jobs and rows in a folder that several processes share.

    A job is a file; who renames it has it. A row is a line in the file of the worker that made it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs, self.taken = folder / "jobs", folder / "taken"

    def fill(self, jobs: list[Row]) -> None:
        """Put all jobs into the folder that have no finished row yet."""
        done = {key(row["job"]) for row in self.rows() if row["finished"]}
        for place in (self.jobs, self.taken):
            place.mkdir(parents=True, exist_ok=True)
            for file in place.iterdir():
                file.unlink()
        (self.folder / "compiled").unlink(missing_ok=True)
        for i, job in enumerate(jobs):
            if key(job) not in done:
                (self.jobs / f"{i:05d}.json").write_text(json.dumps(job))

    def take(self) -> tuple[Path, Row] | None:
        """Take the next job that nobody has, if there is one."""
        for file in sorted(self.jobs.iterdir()):
            mine = self.taken / file.name
            try:
                file.rename(mine)
            except FileNotFoundError:
                continue  # another worker was faster
            return mine, json.loads(mine.read_text())
        return None

    def left(self) -> list[Row]:
        """Return the jobs that nobody took."""
        return [json.loads(file.read_text()) for file in sorted(self.jobs.iterdir())]

    def add(self, worker: int, row: Row) -> None:
        """Write a row to the disk."""
        with (self.folder / f"rows-{worker}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> list[Row]:
        """Return every complete row; of a job that was run twice, the last."""
        found = {}
        for file in sorted(self.folder.glob("rows-*.jsonl")):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    row = json.loads(line)
                    old = found.get(key(row["job"]))
                    if old is None or not old["finished"]:
                        found[key(row["job"])] = row
        return list(found.values())


def key(job: Row) -> str:
    """Return what tells a job from all others."""
    return json.dumps(job, sort_keys=True)


# -- a worker --------------------------------------------------------------------------------


def work(queue: Queue, given: argparse.Namespace, number: int, deadline: float) -> Iterator[Row]:
    """Train one job after the other; yield its row when it is on the disk."""
    data: dict[Any, Any] = {}
    networks: dict[Any, Network] = {}
    pace, waiting, too_long = 0.0, time.time() + PATIENCE, []
    while number and not (queue.folder / "compiled").exists() and time.time() < waiting:
        time.sleep(0.2)
    while time.time() < deadline and (taken := queue.take()):
        file, job = taken
        begun, passes = time.time(), job["config"].get("passes", Config.passes)
        if begun + pace * passes > deadline:
            too_long.append(file)
            continue
        gc.collect()  # graphs of the last training hold memory until then
        try:
            config = make_config(job["config"], job["recipe"], tiny=given.tiny)
            images = (config.data, config.train_images, config.test_images, config.image_size)
            if images not in data:
                data[images] = device_data(config, given.device, given.data)
            train, test, source = data[images]
            kind = (config.width, config.compile)
            if kind not in networks:
                networks.clear()
                networks[kind] = Network(kind[0], train.device, compiled=kind[1])
            training = Training(config, config.recipes[0], job["seed"], train, test, networks[kind])
            (queue.folder / "compiled").touch()
            row = train_job(training, until=given.until, deadline=deadline)
            about = {"device": device_name(train.device), "torch": torch.__version__}
            row.update(about, source=source, setup_seconds=row["begun"] - begun)
            del training
        except (RuntimeError, ValueError, TypeError) as error:
            row = {"error": f"{type(error).__name__}: {error}", "finished": True}
        row.update(job=job, name=job["recipe"]["name"], seed=job["seed"])
        row.update(worker=number, ended=time.time())
        queue.add(number, row)
        file.unlink()
        pace = max(pace, (time.time() - begun) / passes)
        yield row
    for file in too_long:
        file.rename(queue.jobs / file.name)


def train_job(training: Training, *, until: float | None, deadline: float) -> Row:
    """Train to the end, to ``until`` or to the deadline, and return the numbers of the row."""
    begun, share = time.time(), (until or math.inf) / training.config.passes

    def ends() -> bool:
        return training.step >= round(min(1.0, share) * training.total)

    training.run(stop=lambda: ends() or time.time() > deadline)
    points = training.points
    last = points[-1]
    return {
        "begun": begun,
        "finished": ends(),
        "steps": training.step,
        "accuracy": [accuracy_at(points, n) for n in (1, 3, 5)],
        "end": last["test_accuracy"],
        "validation": last.get("validation_accuracy"),
        "validation_loss": last.get("validation_loss"),
        "choice": last.get("choice"),
        **{name: last[name] for name in FROM_LAST},
        "ms_per_step": 1e3 * last["seconds"] / max(1, training.step),
        "recipe": asdict(training.recipe),
        "points": points,
    }


FROM_LAST = ("train_loss", "theta", "passes", "seconds", "proxy_gradients",
             "proxy_sampled_gradients", "target_gradients")  # fmt: skip


def accuracy_at(points: list[Row], passes: float) -> float | None:
    near = [p for p in points if abs(p["passes"] - passes) < 0.03]
    return near[-1]["test_accuracy"] if near else None


# -- the parent ------------------------------------------------------------------------------


def run_workers(queue: Queue, given: argparse.Namespace, deadline: float) -> Iterator[Row]:
    """Start the workers; yield rows as they are written, until all have ended."""
    environment = dict(os.environ)
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(queue.folder.absolute() / "compiler"))
    for name in ("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"):
        environment.setdefault(name, "1")
    told = ["--folder", str(queue.folder), "--deadline", str(deadline)]
    command = [sys.executable, __file__, *sys.argv[1:], *told]
    begun = time.time()
    workers = [
        subprocess.Popen([*command, "--worker", str(number)], env=environment)
        for number in range(given.workers)
    ]
    seen: set[str] = set()
    try:
        while True:
            running = any(worker.poll() is None for worker in workers)
            for row in queue.rows():
                if row.get("ended", 0) >= begun and key(row["job"]) not in seen:
                    seen.add(key(row["job"]))
                    yield row
            if not running:
                break
            time.sleep(0.5)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
    for number, worker in enumerate(workers):
        if worker.returncode:
            print(f"worker {number} ended with status {worker.returncode}", file=sys.stderr)


def table(rows: list[Row]) -> str:
    lines = [f"{'setting':40s} seed     1      3      5     end   valid   train  seconds  ms/step"
             "  target  proxy  theta"]  # fmt: skip
    for row in rows:
        if "error" in row:
            lines.append(f"{row['name']:40s} {row['seed']:4d}  {row['error']}")
            continue
        theta, both = row["theta"], [row["end"], row["validation"]]
        shown = [f"{a:.4f}" if a is not None else "  –   " for a in (*row["accuracy"], *both)]
        lines.append(
            f"{row['name']:40s} {row['seed']:4d}  {'  '.join(shown)} "
            f"{row['train_loss']:7.4f} {row['seconds']:8.1f} {row['ms_per_step']:8.1f} "
            f"{row['target_gradients']:7d} {row['proxy_sampled_gradients']:6d} "
            + (f"{theta:6.3f}" if isinstance(theta, float) else "")
            + ("" if row["finished"] else f"  stopped at {row['passes']:.2f} passes")
        )
    return "\n".join(lines)


TASK = ("clean", "noise", "noise_rate", "passes", "validation")


def choices(rows: list[Row]) -> str:
    """Say for each task and kind of method which setting its validation images prefer."""
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        if row.get("validation") is not None and row["finished"]:
            config = row["job"]["config"]
            task = ", ".join(f"{name} {config[name]}" for name in TASK if name in config)
            group = groups.setdefault((task, row["name"].partition(":")[0]), {})
            group.setdefault(row["name"], []).append(row)
    lines = []
    for (task, _), group in sorted(groups.items()):
        best = max(
            group.values(),
            key=lambda runs: (mean(runs, "validation"), -mean(runs, "validation_loss")),
        )
        ends = [row["end"] for row in best]
        spread = f" ± {statistics.stdev(ends):.4f}" if len(ends) > 1 else ""
        lines.append(
            f"{task:45s} {best[0]['name']:40s} validation {mean(best, 'validation'):.4f}, test "
            f"{mean(best, 'end'):.4f}{spread} ({len(ends)} seeds, {mean(best, 'seconds'):.1f} s)"
        )
    return "\n".join(lines)


def mean(runs: list[Row], field: str) -> float:
    return statistics.fmean(row[field] for row in runs)


def search(given: argparse.Namespace, queue: Queue) -> None:
    deadline = time.time() + 60 * given.minutes
    queue.fill(make_jobs(given))
    before = len(queue.left())
    print(f"{before} jobs in {queue.folder}", flush=True)
    alone = given.workers == 1
    rows = work(queue, given, 0, deadline) if alone else run_workers(queue, given, deadline)
    for row in rows:
        print(table([row]).splitlines()[-1], flush=True)
        write(given.json, queue)
    print("\n" + table(sorted(queue.rows(), key=lambda row: -row.get("end", 0.0))))
    if chosen := choices(queue.rows()):
        print(f"\nchosen by validation accuracy:\n{chosen}")
    if queue.left():
        print("no time for: " + "; ".join(name_of(job) for job in queue.left()))
    broken = [json.loads(file.read_text()) for file in sorted(queue.taken.iterdir())]
    if broken:
        print("broken off: " + "; ".join(map(name_of, broken)))
    write(given.json, queue)


def name_of(job: Row) -> str:
    return f"{job['recipe']['name']}, seed {job['seed']}"


def write(path: Path | None, queue: Queue) -> None:
    if path:
        rows = queue.rows()
        about = {n: rows[0].get(n) for n in ("device", "torch", "source")} if rows else {}
        left = [name_of(job) for job in queue.left()]
        path.write_text(json.dumps({**about, "rows": rows, "left": left}, indent=1) + "\n")


def main() -> None:
    given = options()
    if given.worker is not None:
        for _ in work(Queue(given.folder), given, given.worker, given.deadline):
            pass
        return
    with tempfile.TemporaryDirectory() as temporary:
        search(given, Queue(given.folder or Path(temporary)))


if __name__ == "__main__":
    main()
