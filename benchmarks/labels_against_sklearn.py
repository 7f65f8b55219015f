"""Test log-loss of ProxyLogisticRegression and LogisticRegressionCV on the same labels.

    python benchmarks/labels_against_sklearn.py a9a mushrooms --labels 50 200 1000

A third of the rows is the test set; of the others some are labelled and the rest is the proxy.
Nothing is tuned on test rows. LogisticRegressionCV runs as it comes (it picks C by accuracy) and
with ``scoring="neg_log_loss"``, which is the harder yardstick.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

from labels_seeds import Runs, given, split
from proxyprox.sklearn import ProxyLogisticRegression


def losses(name: str, labels: int, seed: int) -> dict[str, float]:
    inputs, classes, test, pool = split(name, np.random.default_rng(seed))
    inputs, bought, rest = inputs.toarray(), pool[:labels], pool[labels:]
    X, y, X_proxy = inputs[bought], classes[bought], inputs[rest]
    X_test, y_test = inputs[test], classes[test]
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
    arguments = given(__doc__, first_seed=100)
    runs, seeds = Runs(arguments.cache), arguments.seeds
    for name in arguments.datasets:
        for labels in arguments.labels:
            found = [
                runs.result(f"{name} {labels} {seed}", losses, name, labels, seed) for seed in seeds
            ]
            print(f"{name}, {labels} labels, seeds {seeds.start} to {seeds.stop - 1}")
            for title in found[0]:
                each = np.array([run[title] for run in found])
                print(f"  {title:34} {each.mean():.4f} ± {each.std(ddof=1) / len(each) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
