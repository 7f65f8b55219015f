"""What a table costs on a cluster that is not here: a formula, its table, and two checks of it.

- ``python benchmarks/scale_plan.py docs/results/scale/scale.json`` prints the table of the page
  *Planning*: passes and seconds per byte are those of the record, all else is an option.
- ``--check`` compares the formula with a discrete-event simulation: workers that take the next
  task as soon as they are free, messages with latency, tasks of random length, slow workers.
- ``--check-dask 16`` compares it with Dask itself: workers (threads of this process, so that two
  cores are enough) take passes of ``proxyprox.dask`` over blocks that sleep when they are read.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from experiments.records import write_record

FAN_IN = 8
"""Results that one task of the tree adds up."""


@dataclass(frozen=True)
class Cluster:
    """Workers of one core each, and what is between them.

    Attributes
    ----------
    workers, tasks : int
        W, and N, the tasks of a pass.
    submit, overhead : float
        Seconds of the client for each task before the first one begins, and of the scheduler for
        each, one after the other, while others run.
    latency, bandwidth : float
        Seconds until a message arrives, and bytes in a second after that.
    storage : float
        Bytes in a second that one worker reads; infinite if the time of a task has it already.
    spread : float
        Standard deviation of a task's time over its mean.
    slow, factor : float
        The chance that a worker is slow during a pass, and how many times longer its tasks take.
    price : float
        Of a worker for an hour.
    row_group : float
        Bytes of the table's row groups.
    """

    workers: int = 64
    tasks: int = 256
    submit: float = 5e-4
    overhead: float = 1e-3
    latency: float = 1e-3
    bandwidth: float = 1e9
    storage: float = math.inf
    spread: float = 0.1
    slow: float = 0.02
    factor: float = 3.0
    price: float = 0.05
    row_group: float = 1.25e7


def pass_seconds(cluster: Cluster, task: float, message: float) -> float:
    """Return the expected seconds of a pass whose tasks take ``task`` seconds each."""
    c = cluster
    count = np.arange(c.workers + 1)
    chances = scipy.stats.binom.pmf(count, c.workers, c.slow)
    likely = [(int(s), p) for s, p in zip(count, chances, strict=True) if p > 1e-6]
    work = float(sum(p * slowest_end(c, task + c.latency, s) for s, p in likely))
    each = c.tasks / c.workers
    highest = float(scipy.stats.norm.ppf((c.workers - 0.375) / (c.workers + 0.25)))
    # Fixed shares end apart by √k spreads; workers that take the next task by one task at most.
    late = c.spread * highest
    work += task * min(late * math.sqrt(each), 0.5 + late)
    # The first tasks are sent one after the other; a scheduler may be slower than all workers.
    work = max(work + min(c.workers, c.tasks) * c.overhead / 2, c.tasks * c.overhead + task)
    return c.tasks * c.submit + work + tree_seconds(c, message)


def slowest_end(cluster: Cluster, task: float, slow: int) -> float:
    """Return when the last worker ends if ``slow`` of them are slow and all take what is next.

    All tasks have begun at the least Q with Σⱼ (⌊Q/tⱼ⌋ + 1) ≥ N; worker j then ends the task in
    hand at (⌊Q/tⱼ⌋ + 1) tⱼ, and the pass takes the maximum of these.
    """
    kinds = [(cluster.workers - slow, task), (slow, cluster.factor * task)]
    kinds = [(count, each) for count, each in kinds if count]
    moments = {
        k * each
        for count, each in kinds
        for k in range(math.ceil(cluster.tasks / count * cluster.factor) + 1)
    }
    for moment in sorted(moments):
        done = [math.floor(moment / each + 1e-9) for _, each in kinds]
        if sum((n + 1) * count for n, (count, _) in zip(done, kinds, strict=True)) >= cluster.tasks:
            break
    free = [abs(n * each - moment) < 1e-9 for n, (_, each) in zip(done, kinds, strict=True)]
    # Those that become free at Q itself get a task only as long as there is one.
    begun = sum(
        (n + (not at_once)) * count
        for n, at_once, (count, _) in zip(done, free, kinds, strict=True)
    )
    left = cluster.tasks - begun
    share = left / sum(count for at_once, (count, _) in zip(free, kinds, strict=True) if at_once)
    ends = []
    for n, at_once, (count, each) in zip(done, free, kinds, strict=True):
        chance = 1 - (1 - share) ** count if at_once else 1.0
        ends.append((n + chance) * each)
    return max(ends)


def tree_seconds(cluster: Cluster, message: float) -> float:
    """Return the seconds from the last partition's sum to the driver's."""
    levels = max(1, math.ceil(math.log(cluster.tasks, FAN_IN)))
    return levels * (2 * cluster.latency + cluster.overhead + FAN_IN * message / cluster.bandwidth)


def simulate_pass(cluster: Cluster, task: float, message: float, rng: np.random.Generator) -> float:
    """Return the seconds of one pass, event by event."""
    c = cluster
    sigma = math.sqrt(math.log1p(c.spread**2))
    times = task * np.exp(sigma * rng.standard_normal(c.tasks) - sigma**2 / 2)
    factors = np.where(rng.random(c.workers) < c.slow, c.factor, 1.0)
    sent = c.tasks * c.submit
    free = [(sent, int(worker)) for worker in rng.permutation(c.workers)]
    ends = np.empty(c.tasks)
    for number in range(c.tasks):
        now, worker = heapq.heappop(free)
        # The scheduler sends one task after the other.
        sent = max(now, sent) + c.overhead
        ends[number] = sent + (times[number] + c.latency) * factors[worker]
        heapq.heappush(free, (ends[number], worker))
    level = ends
    while True:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        cost = 2 * c.latency + c.overhead + FAN_IN * message / c.bandwidth
        level = np.array([group.max() + cost * rng.exponential(1.0) for group in groups])
        if len(level) == 1:
            return float(level[0])


CHECKS = {
    "quiet": {"spread": 0.02, "slow": 0.0},
    "tasks of unequal length": {"spread": 0.3, "slow": 0.0},
    "long latency": {"latency": 0.1, "slow": 0.0},
    "one worker in 64 slow": {"slow": 1 / 64, "factor": 3.0},
    "one in 64 very slow": {"slow": 1 / 64, "factor": 8.0},
    "one in eight slow": {"slow": 0.125, "factor": 3.0},
    "one task for each worker": {"tasks": 64, "slow": 0.02},
    "slow, and long latency": {"slow": 0.05, "latency": 0.1},
}
"""Settings, unlike the default, in which the formula is compared with what happens."""


def check_by_simulation(repeats: int = 200) -> list[dict[str, Any]]:
    """Return predicted and simulated seconds of passes over 64 workers and of smaller clusters."""
    found = []
    for workers in (8, 64, 512):
        for name, changed in CHECKS.items():
            tasks = changed.get("tasks", 256) * workers // 64
            cluster = replace(Cluster(workers=workers), **{**changed, "tasks": tasks})
            rng = np.random.default_rng(0)
            passes = [simulate_pass(cluster, 1.0, 8 * 52, rng) for _ in range(repeats)]
            predicted, seen = pass_seconds(cluster, 1.0, 8 * 52), statistics.mean(passes)
            row = {"workers": workers, "case": name, "formula": predicted, "seen": seen}
            found.append({**row, "error": predicted / seen - 1})
    return found


# -- the same on Dask ---------------------------------------------------------------------------

SLEEP: dict[str, Any] = {"seconds": 0.0, "latency": 0.0, "spread": 0.0, "slow": {}}
"""What the blocks of the sleeping table do; its workers are threads, which see it."""


def sleeping_block(index: Any) -> Any:
    """Return a few rows after the time that reading a block is said to take on this worker."""
    from distributed import get_worker

    sigma = math.sqrt(math.log1p(SLEEP["spread"] ** 2))
    noise = np.random.default_rng().standard_normal()
    seconds = SLEEP["seconds"] * math.exp(sigma * noise - sigma**2 / 2) + SLEEP["latency"]
    time.sleep(seconds * SLEEP["slow"].get(get_worker().address, 1.0))
    return np.random.default_rng(int(index[0])).standard_normal((20, 3))


def check_on_dask(workers: int, tasks: int, task: float, repeats: int) -> list[dict[str, Any]]:
    """Return predicted and measured seconds of passes of ``proxyprox.dask``."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from proxyprox.dask import linear_regression

    rng, found = np.random.default_rng(0), []
    settings = {"n_workers": workers, "threads_per_worker": 1, "processes": False}
    settings |= {"memory_limit": 0}
    with LocalCluster(dashboard_address=None, **settings) as cluster, Client(cluster):
        index = da.arange(tasks, chunks=1)
        chunks = ((20,) * tasks, (3,))
        X = index.map_blocks(sleeping_block, new_axis=1, chunks=chunks, meta=np.empty((0, 0)))
        target = linear_regression(X, da.ones(20 * tasks, chunks=20))
        addresses = [each.address for each in cluster.workers.values()]
        SLEEP.update(seconds=0.0, latency=0.0, spread=0.0, slow={})
        target.gradient(np.zeros(3))
        # Nothing sleeps: what a pass takes is the client's time and the scheduler's.
        costs = []
        for _ in range(3):
            own = time.thread_time()
            target.gradient(rng.standard_normal(3))
            costs.append((target.passes[-1].seconds, time.thread_time() - own))
        total, own = min(costs)
        client = {"submit": own / tasks, "overhead": (total - own) / tasks}
        for name in ("quiet", "tasks of unequal length", "long latency", "one worker in 64 slow"):
            changed = CHECKS[name]
            assumed = replace(Cluster(), **changed, workers=workers, tasks=tasks, **client)
            seen = []
            for _ in range(repeats):
                slow = [a for a in addresses if rng.random() < assumed.slow]
                SLEEP.update(
                    seconds=task, latency=assumed.latency, spread=assumed.spread,
                    slow=dict.fromkeys(slow, assumed.factor),
                )  # fmt: skip
                target.gradient(rng.standard_normal(3))
                seen.append(target.passes[-1].seconds)
            mean = statistics.mean(seen)
            predicted = pass_seconds(assumed, task, 8 * 5)
            row = {"workers": workers, "case": name, "formula": predicted, "seen": mean}
            found.append({**row, "error": predicted / mean - 1, **client})
            print(found[-1], flush=True)
    return found


# -- the table ----------------------------------------------------------------------------------


def plan_table(
    record: dict[str, Any], cluster: Cluster, size: float, columns: int, given: dict[str, float]
) -> str:
    """Return the cost of each solver on ``size`` bytes, from the record's largest table.

    Seconds a byte that are ``given`` take the place of the record's.
    """
    gb, runs = list(record["sizes"].items())[-1]
    times = runs["pass"]["pass_times"]
    rate = {name: WORKERS_OF_RECORD * times[name] / (float(gb) * 1e9) for name in KINDS} | given
    best = runs["optimum"]["optimum"]
    each, with_hessian = (1e9 * rate[name] for name in KINDS)
    source = "given" if given else "measured there"
    rows = [
        f"Passes until (L − L*)/L* ≤ 1e-6 are those of {gb} GB here. τ = {each:.2f} ns a byte, "
        f"{with_hessian:.2f} with the Hessian, {source}. Assumed: {described(cluster)}.\n",
        "| | passes | read | between machines | seconds of a pass | hours | cost |",
        "|" + "---|" * 7,
    ]
    for method, (name, kind) in SOLVERS.items():
        if method not in runs:
            continue
        trace = runs[method]["trace"]
        passes = next((p for p, _, v, _ in trace if v / best - 1 <= 1e-6), None)
        if method == "sgd":
            rows.append(plan_sgd(runs, cluster, size, float(gb)))
            continue
        if passes is None:
            continue
        message = 8 * (columns + 2) + HEADER
        if kind == "dask_hessian":
            message += 8 * columns**2
        task = size / cluster.tasks * (rate[kind] + 1 / cluster.storage)
        seconds = pass_seconds(cluster, task, message)
        moved = cluster.tasks * (message + TASK_BYTES) + size / cluster.row_group * GROUP_BYTES
        moved += cluster.workers * 8 * columns
        hours = passes * seconds / 3600
        cells = [
            f"{passes:.0f}", f"{passes * size / 1e12:.0f} TB", f"{passes * moved / 1e6:.1f} MB",
            f"{seconds:.0f}", f"{hours:.2f}", f"{hours * cluster.workers * cluster.price:.2f}",
        ]  # fmt: skip
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def described(cluster: Cluster) -> str:
    """Return the assumptions in words."""
    c = cluster
    storage = "none" if math.isinf(c.storage) else f"{c.storage / 1e6:.0f} MB/s a worker"
    return (
        f"N = {c.tasks}, ℓ = {1e3 * c.latency:g} ms, b = {c.bandwidth / 1e9:g} GB/s, "
        f"c = {1e3 * c.submit:g} ms, o = {1e3 * c.overhead:g} ms, s = {c.spread:g}, "
        f"p = {c.slow:g}, f = {c.factor:g}, {c.price:g} a worker and hour; "
        f"limit of the storage: {storage}"
    )


def plan_sgd(runs: dict[str, Any], cluster: Cluster, size: float, gb: float) -> str:
    """Return the line of SGD, whose steps follow each other: one worker reads everything."""
    trace = runs["sgd"]["trace"]
    gap = min(value / runs["optimum"]["optimum"] - 1 for _, _, value, _ in trace)
    epochs, seconds, *_ = trace[-1]
    each = size * (seconds / epochs / (gb * 1e9) + 1 / cluster.storage)
    hours = epochs * each / 3600
    cells = [
        f"{epochs:.0f}, to {gap:.0e}", f"{epochs * size / 1e12:.0f} TB", "0 MB", f"{each:.0f}",
        f"{hours:.2f}", f"{hours * cluster.price:.2f}",
    ]  # fmt: skip
    return f"| SGD over the partitions, one worker | {' | '.join(cells)} |"


SOLVERS = {
    "ours": ("ours, quasi-Newton", "dask"),
    "lbfgs_scaled": ("L-BFGS (50) in the sample's metric", "dask"),
    "lbfgs": ("L-BFGS (50) from the sample's minimum", "dask"),
    "lbfgs_zero": ("L-BFGS (50) from 0", "dask"),
    "sgd": ("SGD", ""),
}
KINDS = ("dask", "dask_hessian")
WORKERS_OF_RECORD, HEADER, TASK_BYTES, GROUP_BYTES = 2, 300, 600, 44
"""Cores of the record's cluster; bytes around a message's numbers, of a task, of a row group."""


def error_table(rows: list[dict[str, Any]]) -> str:
    """Return formula, what was seen and the error: a line for each case, a column for each size."""
    sizes = list(dict.fromkeys(row["workers"] for row in rows))
    cells = {
        (row["case"], row["workers"]): (
            f"{row['formula']:.2f} / {row['seen']:.2f}, {row['error']:+.0%}"
        )
        for row in rows
    }
    lines = [["case", *(f"{size} workers" for size in sizes)], ["---"] * (len(sizes) + 1)]
    cases = dict.fromkeys(row["case"] for row in rows)
    lines += [[case, *(cells[case, size] for size in sizes)] for case in cases]
    worst = max(abs(row["error"]) for row in rows)
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{table}\nFormula / seen, in seconds; the largest error is {worst:.0%}.\n"


def terabyte_table(record: Path) -> str:
    """Return the plan for 1 TB on the default cluster, for the page."""
    return plan_table(json.loads(record.read_text()), Cluster(), 1e12, 50, {})


def simulation_table(record: Path) -> str:
    """Return the checks by simulation, for the page."""
    return error_table(json.loads(record.read_text())["simulation"])


def simulation_error(record: Path) -> str:
    """Return the largest error of the checks by simulation."""
    return largest_error(json.loads(record.read_text())["simulation"])


def dask_error(record: Path) -> str:
    """Return the largest error of the checks on Dask's scheduler."""
    return largest_error(json.loads(record.read_text())["dask"])


def largest_error(rows: list[dict[str, Any]]) -> str:
    """Return the largest error in per cent."""
    return f"{max(abs(row['error']) for row in rows):.0%}".replace("%", " %")


def dask_table(record: Path) -> str:
    """Return the checks on Dask's scheduler, for the page."""
    return error_table(json.loads(record.read_text())["dask"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=Path, nargs="?", help="scale.json of a run of scale.py")
    parser.add_argument("--bytes", type=float, default=1e12)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument(
        "--tau", type=float, nargs=2, default=(), help="core-nanoseconds a byte, and with Hessians"
    )
    for name, default in vars(Cluster()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--check-dask", type=int, default=0, metavar="WORKERS")
    parser.add_argument("--checks", type=Path, help="JSON that keeps the checks")
    given = parser.parse_args()
    cluster = Cluster(**{name: getattr(given, name) for name in vars(Cluster())})
    rates = dict(zip(KINDS, (1e-9 * tau for tau in given.tau), strict=False))
    known = {}
    if given.checks is not None and given.checks.exists():
        known = json.loads(given.checks.read_text())
    if given.check:
        known["simulation"] = check_by_simulation()
    if given.check_dask:
        # From the module, not from __main__, whose functions workers get copies of.
        from scale_plan import check_on_dask

        known["dask"] = check_on_dask(given.check_dask, 4 * given.check_dask, 2.0, 6)
    if given.checks is not None:
        write_record(given.checks, known, measures=["src/proxyprox/dask"])
    for rows in known.values():
        print(error_table(rows))
    if given.record is not None:
        record = json.loads(given.record.read_text())
        print(plan_table(record, cluster, given.bytes, given.columns, rates))


if __name__ == "__main__":
    main()
