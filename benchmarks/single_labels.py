"""One label a step: the automatic step sizes against plain fits of as many rows.

Run ``python benchmarks/single_labels.py --output docs/results/auto_eta/single_labels.json``: 16
tables of 3000 rows and 20 columns with t(3) entries,
300 labels bought one at a time, the unlabelled rows as the proxy. The loss on all rows, means over
the tables, and on how many of them a method ended above its start. Less than a minute.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import proxyprox as pp
from experiments.records import write_record
from proxyprox.inner.exact import minimise_exactly
from proxyprox.sklearn import ProxyLogisticRegression

TABLES, ROWS, COLUMNS, LABELS = 16, 3000, 20, 300
METHODS = {
    'ProxyProx("auto")': pp.ProxyProx("auto"),
    'SGD("auto")': pp.SGD("auto"),
    "Adam(0.01)": pp.Adam(0.01),
}


def losses(seed: int) -> dict[str, float]:
    """Return the loss of every method on one table."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(ROWS, COLUMNS))
    y = X @ (0.5 * rng.normal(size=COLUMNS)) + rng.logistic(size=ROWS) > 0
    target = pp.logistic_regression(X, y, batch_size=1)
    problem, zeros = pp.Problem(target, target.label_free()), target.zeros()
    found = {"start": target.value(zeros), "minimum": target.value(minimise_exactly(target, zeros))}
    for name, method in METHODS.items():
        found[name] = target.value(pp.minimize(problem, method=method, steps=LABELS, rng=seed).w)
    bought = rng.choice(ROWS, LABELS, replace=False)
    others = np.setdiff1d(np.arange(ROWS), bought)
    fitted = LogisticRegression(fit_intercept=False).fit(X[bought], y[bought])
    found["LogisticRegression()"] = target.value(fitted.coef_[0])
    model = ProxyLogisticRegression(cv=3, fit_intercept=False)
    model.fit(X[bought], y[bought], X_proxy=X[others])
    found["ProxyLogisticRegression(cv=3)"] = target.value(model.coef_[0])
    return found


def labels_table(file: Path) -> str:
    """Return every method's mean loss, and on how many tables it is ahead of ProxyProx."""
    lines = ["| labels | method | mean loss | ahead of ProxyProx on |", "|---|---|---|---|"]
    for name, found in json.loads(file.read_text(encoding="utf-8")).items():
        kept = "kept" if "Regression" in name else "used once" if name in METHODS else ""
        ahead = "" if name == 'ProxyProx("auto")' or not kept else f"{found['ahead']} of {TABLES}"
        lines.append(f"| {kept} | `{name}` | {found['mean']:.3f} | {ahead} |")
    return "\n".join(lines)


def main() -> None:
    """Print what every method reached, and write it down."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, help="Where to keep the record.")
    output = parser.parse_args().output
    warnings.simplefilter("ignore")
    rows, record = [losses(seed) for seed in range(TABLES)], {}
    for name in rows[0]:
        record[name] = {
            "mean": float(np.mean([row[name] for row in rows])),
            "above the start": sum(row[name] > row["start"] for row in rows),
            "ahead": sum(row[name] < row['ProxyProx("auto")'] for row in rows),
        }
        print(f"{name:30} {record[name]}")
    if output is not None:
        write_record(output, record, measures=["src/proxyprox/stepsizes", "src/proxyprox/sklearn"])


if __name__ == "__main__":
    main()
