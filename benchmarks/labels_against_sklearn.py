"""Test log-loss of ProxyLogisticRegression and LogisticRegressionCV on the same labels.

    python benchmarks/labels_against_sklearn.py a9a mushrooms --labels 50 200 1000

A third of the rows is the test set; of the others so many are labelled and the rest is the proxy.
Nothing is tuned on test rows. LogisticRegressionCV runs as it comes (it picks C by accuracy) and
with ``scoring="neg_log_loss"``, which is the harder yardstick.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from proxyprox import datasets
from proxyprox.sklearn import ProxyLogisticRegression


def split(name: str, labels: int, seed: int) -> tuple[np.ndarray, ...]:
    data = datasets.load(name)
    X, y = data.X.toarray(), (data.y == data.y.max()).astype(int)
    order = np.random.default_rng(seed).permutation(len(y))
    test, pool = order[: len(y) // 3], order[len(y) // 3 :]
    bought, rest = pool[:labels], pool[labels:]
    return X[bought], y[bought], X[rest], X[test], y[test]


def losses(name: str, labels: int, seed: int) -> dict[str, float]:
    X, y, X_proxy, X_test, y_test = split(name, labels, seed)
    found = {}
    for title, scoring in (("LogisticRegressionCV", None), ("… by log-loss", "neg_log_loss")):
        begun = time.process_time()
        model = LogisticRegressionCV(scoring=scoring, max_iter=1000).fit(X, y)
        found[title] = log_loss(y_test, model.predict_proba(X_test))
        found[f"{title}, seconds"] = time.process_time() - begun
    begun = time.process_time()
    ours = ProxyLogisticRegression().fit(X, y, X_proxy=X_proxy)
    found["ProxyLogisticRegression"] = log_loss(y_test, ours.predict_proba(X_test))
    found["ProxyLogisticRegression, seconds"] = time.process_time() - begun
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--labels", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--cache", type=Path, help="JSON file of finished runs to go on with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    done = {}
    if arguments.cache and arguments.cache.exists():
        done = json.loads(arguments.cache.read_text())
    for name in arguments.datasets:
        for labels in arguments.labels:
            seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
            for seed in seeds:
                key = f"{name} {labels} {seed}"
                if key not in done:
                    with threadpool_limits(1):
                        done[key] = losses(name, labels, seed)
                    if arguments.cache:
                        arguments.cache.write_text(json.dumps(done))
            print(f"{name}, {labels} labels, seeds {seeds.start} to {seeds.stop - 1}")
            for title in done[f"{name} {labels} {seeds[0]}"]:
                each = np.array([done[f"{name} {labels} {seed}"][title] for seed in seeds])
                print(f"  {title:34} {each.mean():.4f} ± {each.std(ddof=1) / len(each) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
