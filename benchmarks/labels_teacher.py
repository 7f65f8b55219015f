"""Excess test log-loss of labels alone and with teachers of different worth.

    python benchmarks/labels_teacher.py a9a --labels 50 200 1000

The excess is what lies above a logistic regression fitted to all labels of the pool. A teacher
answers every row: "good" is wrong on 5 % of them, "mediocre" on 25 %, "random" tosses a coin, and
"inverted" is wrong on 90 %. Only the labels, never the test rows, decide how far it is believed.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from labels_seeds import Runs, given, split
from proxyprox.sklearn import ProxyLogisticRegression

FLIPS = {"good": 0.05, "mediocre": 0.25, "random": 0.5, "inverted": 0.9}


def excesses(name: str, numbers: list[int], seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    X, y, test, pool = split(name, rng)
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
    arguments = given(__doc__, first_seed=0)
    runs, numbers = Runs(arguments.cache), arguments.labels
    for name in arguments.datasets:
        found = [
            runs.result(f"{name} {numbers} {seed}", excesses, name, numbers, seed)
            for seed in arguments.seeds
        ]
        for labels in numbers:
            table = {
                teacher: np.array([run[f"{labels} {teacher}"] for run in found])
                for teacher in ("alone", *FLIPS)
            }
            print(f"{name}, {labels} labels: excess log-loss, and as a ratio to labels alone")
            for teacher, values in table.items():
                ratio = values.mean() / table["alone"].mean()
                print(f"  {teacher:10} {values.mean():.4f}  {ratio:.3f}")


if __name__ == "__main__":
    main()
