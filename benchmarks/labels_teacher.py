"""Excess test log-loss of labels alone and with teachers of different worth.

    python benchmarks/labels_teacher.py a9a --labels 50 200 1000

The excess is what lies above a logistic regression fitted to all labels of the pool. A teacher
answers every row: "good" is wrong on 5 % of them, "mediocre" on 25 %, "random" tosses a coin, and
"inverted" is wrong on 90 %. Only the labels, never the test rows, decide how far it is believed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from proxyprox import datasets
from proxyprox.sklearn import ProxyLogisticRegression

FLIPS = {"good": 0.05, "mediocre": 0.25, "random": 0.5, "inverted": 0.9}


def excesses(name: str, numbers: list[int], seed: int) -> dict[str, float]:
    data = datasets.load(name)
    X, y = data.X, (data.y == data.y.max()).astype(int)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    test, pool = order[: len(y) // 3], order[len(y) // 3 :]
    best = LogisticRegression(max_iter=1000)
    floor = log_loss(y[test], best.fit(X[pool], y[pool]).predict_proba(X[test]))
    found = {}
    for labels in numbers:
        bought, rest = pool[:labels], pool[labels:]
        wrong = rng.random(len(pool))
        for teacher in ("alone", *FLIPS):
            extra = {}
            if teacher != "alone":
                extra["y_proxy"] = np.where(wrong < FLIPS[teacher], 1 - y[pool], y[pool])
            begun = time.process_time()
            model = ProxyLogisticRegression().fit(X[bought], y[bought], X_proxy=X[rest], **extra)
            found[f"{labels} {teacher} seconds"] = time.process_time() - begun
            loss = log_loss(y[test], model.predict_proba(X[test]))
            found[f"{labels} {teacher}"] = loss - floor
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--labels", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="JSON file of finished runs to go on with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    done = {}
    if arguments.cache and arguments.cache.exists():
        done = json.loads(arguments.cache.read_text())
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for name in arguments.datasets:
        for seed in seeds:
            key = f"{name} {seed}"
            if key not in done:
                with threadpool_limits(1):
                    done[key] = excesses(name, arguments.labels, seed)
                if arguments.cache:
                    arguments.cache.write_text(json.dumps(done))
        for labels in arguments.labels:
            table = {
                teacher: np.array([done[f"{name} {seed}"][f"{labels} {teacher}"] for seed in seeds])
                for teacher in ("alone", *FLIPS)
            }
            print(f"{name}, {labels} labels: excess log-loss, and as a ratio to labels alone")
            for teacher, values in table.items():
                ratio = values.mean() / table["alone"].mean()
                print(f"  {teacher:10} {values.mean():.4f}  {ratio:.3f}")


if __name__ == "__main__":
    main()
