"""Several proxies, ladders and parameters: rounds, gradients and calls, on fresh draws.

Run ``python benchmarks/several_proxies.py [--only weights,useless,sampled,ladder,parameters]``.
Constants were set with ``mushrooms``, ``sparse`` and both generated tables, draws 0 to 11; what
useless lists do was set with ``a9a`` and ``wide`` as well, and draws from 100 on were looked at.
The draws here begin at 200.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import proxyprox as pp
import rounds_rivals as rivals
from experiments.records import write_record
from proxyprox.problems.parametric import Parametric
from rounds_cases import Target
from several_cases import GOOD, NAMES, USELESS, five, mean_of, rounds_with, target
from several_pendulum import Pendulum, calls_to, least_of

TABLES = ("a9a", "wide", "heavy", "mushrooms", "generated")
DRAWS = range(200, 205)
STEPS = 500
LEVELS = (1e-2, 5e-3)
FOLDER = "docs/results/several_proxies"
CODE = [
    "src/proxyprox/problems/several.py", "src/proxyprox/problems/parametric.py",
    "src/proxyprox/learning.py", "src/proxyprox/methods/quasi_newton.py",
]  # fmt: skip


def weights() -> list[dict[str, Any]]:
    """Return the rounds to 1e-6 with all five proxies, and with weights known in hindsight."""
    rows = []
    for name in TABLES:
        for draw in DRAWS:
            proxies = five(name, draw)
            rounds, result = rounds_with(name, proxies)
            alone = {n: rounds_with(name, p)[0] for n, p in proxies.items()}
            fixed = {"the good ones": rounds_with(name, mean_of(proxies, GOOD))[0]}
            fixed |= {"all": rounds_with(name, mean_of(proxies, NAMES))[0]}
            rows.append({
                "table": name, "draw": draw, "fitted": rounds, "mean of": fixed, "alone": alone,
                "behind": rounds - min([*fixed.values(), *alone.values()]),
                "words": result.message.split("curvature: ")[-1],
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def eight() -> list[dict[str, Any]]:
    """Return the rounds with three good and five useless proxies."""
    rows = []
    for name in TABLES[:3]:
        for draw in DRAWS:
            proxies, more = five(name, draw), [five(name, draw + k) for k in (50, 60)]
            extra = {f"{n} {i}": each[n] for i, each in enumerate(more) for n in USELESS}
            rounds, _ = rounds_with(name, {**proxies, **dict(list(extra.items())[:3])})
            good = rounds_with(name, mean_of(proxies, GOOD))[0]
            rows.append({"table": name, "draw": draw, "fitted": rounds, "the good ones": good})
            print(rows[-1], flush=True)
    return rows


def useless() -> list[dict[str, Any]]:
    """Return the rounds with useless proxies only, and those of L-BFGS."""
    rows = []
    for name in TABLES:
        loss, least = target(name)
        known = Target(name, loss, least)
        lbfgs = rivals.rounds_of(known, 400, rivals.lbfgs(known.start, 50)).to_levels()[2]
        for draw in DRAWS[:3]:
            proxies = five(name, draw)
            rounds, _ = rounds_with(name, {n: proxies[n] for n in USELESS})
            alone = rounds_with(name, None)[0]
            rows.append({"table": name, "draw": draw, "fitted": rounds, "no proxy": alone,
                         "L-BFGS (50)": lbfgs, "limit": 1.05 * lbfgs + 3})  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def sampled() -> list[dict[str, Any]]:
    """Return the target gradients of batches of 64 until the answer is within each level."""
    rows = []
    for name in ("a9a", "wide", "mushrooms"):
        loss, least = target(name)
        objective = loss.with_batch_size(64)
        for draw in DRAWS[:3]:
            proxies = five(name, draw)
            lists: dict[str, Any] = {**{n: proxies[n] for n in GOOD}, "fitted": proxies}
            counts = {}
            for label, proxy in lists.items():
                seen: list[tuple[int, float]] = []

                def look(step: Any, seen: Any = seen, loss: Any = loss, least: Any = least) -> bool:
                    if step.record.k % 5 == 0:
                        gap = loss.value(step.answer) - least
                        seen.append((step.ledger.target_gradients, gap))
                    return bool(seen[-1][1] <= LEVELS[-1])

                problem = pp.Problem(objective, proxy)
                pp.minimize(problem, steps=STEPS, rng=draw, callback=look)
                counts[label] = [next((g for g, v in seen if v <= e), None) for e in LEVELS]
            rows.append({"table": name, "draw": draw, "levels": LEVELS, "gradients": counts})
            print(rows[-1], flush=True)
    return rows


class Counted:
    """A loss on rows that offers values and gradients, each counted."""

    exact = True

    def __init__(self, loss: Any) -> None:
        self.loss, self.dim, self.calls = loss, loss.dim, 0

    def sample(self, rng: Any) -> None:
        return None

    def value(self, w: Any) -> float:
        self.calls += 1
        return float(self.loss.value(w))

    def gradient(self, w: Any, batch: Any = None) -> Any:
        self.calls += 1
        return self.loss.gradient(w)


def ladder() -> list[dict[str, Any]]:
    """Return fine and medium calls with and without the coarse model; it has no Hessian either.

    The pendulum's loss is not convex: counts of five grids of the medium model show by how much
    they differ anyway.
    """
    rows = []
    for draw in DRAWS:
        fine = Pendulum(400, seed=draw)
        least = least_of(fine)
        level = 1e-6 * (fine.value(np.zeros(fine.dim)) - least)
        row: dict[str, Any] = {"problem": "pendulum, grids of 40, 146 to 154, 400", "draw": draw}
        for steps in range(146, 155, 2):
            medium, coarse = Pendulum(steps, seed=draw), Pendulum(40, seed=draw)
            for levels, proxy in (("two", medium), ("three", pp.Problem(medium, coarse))):
                medium.calls = 0
                found = calls_to(fine, proxy, least, level), medium.calls, coarse.calls
                row.setdefault(f"{levels} levels, each grid", []).append(found)
        for levels in ("two levels", "three levels"):
            each = np.array(row[f"{levels}, each grid"])
            row[levels] = np.median(each, axis=0).tolist()
        rows.append(row)
        print(row, flush=True)
    for name in ("a9a", "wide", "heavy"):
        loss, _ = target(name)
        for draw in DRAWS[:2]:
            row = {"problem": f"{name}, 1 %, 10 % and all rows", "draw": draw}
            n = loss.design.rows
            small, tiny = (Counted(loss.subsample(n // k, rng=draw + k)) for k in (10, 100))
            row["two levels"] = rounds_with(name, small)[0], small.calls
            small.calls = 0
            fine_calls = rounds_with(name, pp.Problem(small, tiny))[0]
            row["three levels"] = fine_calls, small.calls, tiny.calls
            rows.append(row)
            print(row, flush=True)
    return rows


def parameters() -> list[dict[str, Any]]:
    """Return fine calls with the constant of a coarse model known, 30 % off, and fitted."""
    rows = []
    for draw in DRAWS:
        fine = Pendulum(400, seed=draw)
        least = least_of(fine)
        level = 1e-6 * (fine.value(np.zeros(fine.dim)) - least)

        def build(theta: Any, draw: int = draw) -> Pendulum:
            return Pendulum(60, float(theta[0]), draw)

        counts = {
            "known": calls_to(fine, build([4.0]), least, level),
            "30 % off": calls_to(fine, build([5.2]), least, level),
            "fitted": calls_to(fine, Parametric(build, [5.2], (0.5, 20.0)), least, level),
        }
        rows.append({"problem": "pendulum", "draw": draw, "fine calls": counts})
        print(rows[-1], flush=True)
    return rows


PARTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "weights": weights, "eight": eight, "useless": useless, "sampled": sampled, "ladder": ladder,
    "parameters": parameters,
}  # fmt: skip


def summary(record: Path) -> str:
    """Return the rounds of each table as Markdown, medians over draws."""
    rows = json.loads(record.read_text(encoding="utf-8"))
    lines = [
        "| table | fitted | best fixed weights in hindsight | behind, each draw |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["table"] for row in rows):
        own = [row for row in rows if row["table"] == name]
        fitted = statistics.median(row["fitted"] for row in own)
        best = statistics.median(row["fitted"] - row["behind"] for row in own)
        behind = ", ".join(str(row["behind"]) for row in own)
        lines.append(f"| {name} | {fitted:g} | {best:g} | {behind} |")
    return "\n".join(lines)


def _rows(record: Path) -> list[dict[str, Any]]:
    return list(json.loads(record.read_text(encoding="utf-8")))


def within_limit(record: Path) -> str:
    """Return how many runs with useless proxies alone stayed within the limit."""
    rows = _rows(record)
    return f"{sum(row['fitted'] <= row['limit'] for row in rows)} runs of {len(rows)}"


def most_gradients(record: Path) -> str:
    """Return the most gradients of batches, as a multiple of the best single proxy's.

    A run that did not arrive counts as infinite.
    """
    shares = []
    for row in _rows(record):
        counts = {k: [math.inf if g is None else g for g in v] for k, v in row["gradients"].items()}
        others = zip(*(counts[name] for name in GOOD), strict=True)
        shares += [own / min(o) for own, o in zip(counts["fitted"], others, strict=True)]
    missed = sum(map(math.isinf, shares))
    most = f"{max(share for share in shares if share < math.inf):.2f} times"
    return f"{most} ({missed} of {len(shares)} had not arrived after {STEPS} steps)"


def eight_behind(record: Path) -> str:
    """Return by how many rounds eight proxies are behind the mean of the good ones."""
    behind = [row["fitted"] - row["the good ones"] for row in _rows(record)]
    return f"{statistics.median(behind):g} rounds behind in the median, {max(behind)} at most"


def ladder_calls(record: Path) -> str:
    """Return the shares of medium calls, and the differences of fine calls."""
    rows = _rows(record)
    shares = [row["three levels"][1] / row["two levels"][1] for row in rows]
    more = [row["three levels"][0] - row["two levels"][0] for row in rows]
    return (
        f"{min(shares):.2f} to {max(shares):.2f} times the medium calls, and from "
        f"{min(more):+g} to {max(more):+g} fine calls"
    )


def grids(record: Path) -> str:
    """Return by how much the counts of fine calls differ between grids of the medium model."""
    rows = [row for row in _rows(record) if "two levels, each grid" in row]
    ends = []
    for levels in ("two", "three"):
        each = [[found[0] for found in row[f"{levels} levels, each grid"]] for row in rows]
        widest = max(each, key=lambda counts: max(counts) - min(counts))
        ends.append(f"from {min(widest)} to {max(widest)} with {levels} levels")
    return ", and ".join(ends)


def parameter_calls(record: Path) -> str:
    """Return the fine calls with a fitted constant, for each draw, beside the others'."""
    rows = [row["fine calls"] for row in _rows(record)]
    known, off, fitted = (", ".join(str(row[k]) for row in rows) for k in rows[0])
    return f"{fitted} fine calls; with the constant known {known}; with the wrong one kept {off}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    for part in parser.parse_args().only.split(","):
        write_record(f"{FOLDER}/{part}.json", PARTS[part](), measures=CODE)
