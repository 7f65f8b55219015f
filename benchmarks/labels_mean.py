"""The README's example of few labels, drawn often: predictions, and the share of a class.

    python benchmarks/labels_mean.py [--draws 100]

breast_cancer, 60 labels drawn at random, the other 509 rows unlabelled and the test. Prints means
over the draws: accuracy and log-loss beside ``LogisticRegression()``; of the share of benign rows
among the others the error, the half-width and the coverage of 95 % intervals, by
``mean_prediction`` and by the mean of the labels alone.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from proxyprox.sklearn import ProxyLogisticRegression

LABELS = 60


def draw(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, float]:
    few, many, y_few, y_many = train_test_split(X, y, train_size=LABELS, random_state=seed)
    ours = ProxyLogisticRegression().fit(few, y_few, X_proxy=many)
    plain = LogisticRegression().fit(few, y_few)
    truth, p, share = y_many.mean(), y_few.mean(), ours.mean_prediction(many)
    half, simple = (share.high - share.low) / 2, 1.96 * (p * (1 - p) / LABELS) ** 0.5
    losses = [log_loss(y_many, model.predict_proba(many)) for model in (ours, plain)]
    return {
        "accuracy, ours": ours.score(many, y_many),
        "accuracy, LogisticRegression": plain.score(many, y_many),
        "log-loss, ours": losses[0],
        "log-loss, LogisticRegression": losses[1],
        "log-loss lower with ours": losses[0] < losses[1],
        "error, mean_prediction": abs(share.estimate - truth),
        "error, labels alone": abs(p - truth),
        "error, LogisticRegression": abs(plain.predict_proba(many)[:, 1].mean() - truth),
        "nearer by mean_prediction": abs(share.estimate - truth) < abs(p - truth),
        "half-width, mean_prediction": half,
        "half-width, labels alone": simple,
        "narrower by mean_prediction": half < simple,
        "covered, mean_prediction": share.low <= truth <= share.high,
        "covered, labels alone": abs(p - truth) <= simple,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    found = [draw(X, y, seed) for seed in range(given.draws)]
    for name in found[0]:
        print(f"{name:30} {np.mean([run[name] for run in found]):.3f}")


if __name__ == "__main__":
    main()
