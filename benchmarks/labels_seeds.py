"""What the benchmarks on few labels share: command line, split of a set, and a cache of runs."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments import datasets


def given(description: str | None, first_seed: int) -> argparse.Namespace:
    """Return the sets, numbers of labels, ``seeds`` as a range, and the cache asked for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--labels", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=first_seed)
    parser.add_argument("--cache", type=Path, help="JSON file of finished runs to go on with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    return arguments


def split(name: str, rng: np.random.Generator) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, labels 0 and 1, the test rows (a third) and the others in random order."""
    data = datasets.load(name)
    order = rng.permutation(len(data.y))
    third = len(order) // 3
    return data.X, (data.y == data.y.max()).astype(int), order[:third], order[third:]


class Runs:
    """Results by key; each is worked out once, on one thread, and kept in the cache."""

    def __init__(self, cache: Path | None) -> None:
        self.cache = cache
        self.done: dict[str, dict[str, float]] = {}
        if cache and cache.exists():
            self.done = json.loads(cache.read_text())

    def result(
        self, key: str, work: Callable[..., dict[str, float]], *arguments: Any
    ) -> dict[str, float]:
        """Return what is known under the key, or else what the work returns."""
        if key not in self.done:
            with threadpool_limits(1):
                self.done[key] = work(*arguments)
            if self.cache:
                self.cache.write_text(json.dumps(self.done))
        return self.done[key]
