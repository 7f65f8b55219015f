"""diffprivlib's logistic regression on the splits of ``experiments.private``.

diffprivlib needs an older scikit-learn, so it has an environment of its own:

    python -m experiments.private --fresh 1 --tuning 1 --only ridge      # writes runs/tables
    python -m venv runs/diffprivlib
    runs/diffprivlib/bin/pip install diffprivlib "scikit-learn<1.6"
    runs/diffprivlib/bin/python benchmarks/private_diffprivlib.py runs/tables runs/private

It knows no public rows. It is ε-differentially private with δ = 0, for tables in which one row was
exchanged (objective perturbation). It takes the best of its penalties on the test set.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression

STRENGTHS = tuple(10.0 ** np.arange(-3, 7, 1.0))
EPSILONS = (0.3, 1.0, 3.0)


def main(splits: Path, output: Path) -> None:
    warnings.simplefilter("ignore")
    lines = []
    with np.load(splits / "a9a.npz") as parts:
        X, y = parts["X"].astype(float), parts["y"].astype(float)
    for rows, seed in ((rows, seed) for rows in (2000, 20_000) for seed in range(3000, 3020)):
        # As experiments.private.Split.
        order = np.random.default_rng(seed).permutation(len(y))
        test, rest = np.split(order, [int(0.3532 * len(y))])
        others = np.setdiff1d(rest, rest[:1000], assume_unique=True)
        others = np.random.default_rng([seed, 1]).permutation(others)[:rows]
        data = {"private_X": X[others], "private_y": y[others], "test_X": X[test],
                "test_y": y[test]}  # fmt: skip
        case = {"data": "a9a", "private": rows, "public": 1000, "seed": seed,
                "method": "diffprivlib, tuned"}  # fmt: skip
        for epsilon in EPSILONS:
            for C in STRENGTHS:
                model = LogisticRegression(
                    epsilon=epsilon, data_norm=1.0, C=C, random_state=seed
                ).fit(data["private_X"], data["private_y"])
                p = model.predict_proba(data["test_X"])[:, 1]
                right = np.where(data["test_y"] == 1, p, 1 - p)
                loss = float(-np.log(np.maximum(right, 1e-12)).mean())
                lines.append({**case, "epsilon": epsilon, "rate": C, "loss": loss})
        print(rows, seed, flush=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (output / "diffprivlib.jsonl").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
