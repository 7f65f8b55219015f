"""diffprivlib's logistic regression on the splits of ``experiments.private``.

diffprivlib needs an older scikit-learn, so it has an environment of its own:

    python -m experiments.private --write-splits runs/splits
    python -m venv runs/diffprivlib
    runs/diffprivlib/bin/pip install diffprivlib "scikit-learn<1.6"
    runs/diffprivlib/bin/python benchmarks/private_diffprivlib.py runs/splits runs/private

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
    for path in sorted(splits.glob("*.npz")):
        rows, seed = (int(part) for part in path.stem.split("-"))
        case = {"data": "a9a", "family": "logistic", "private": rows, "shift": False,
                "public": 1000, "seed": seed, "method": "diffprivlib, tuned"}  # fmt: skip
        with np.load(path) as parts:
            data = dict(parts)
        for epsilon in EPSILONS:
            for C in STRENGTHS:
                model = LogisticRegression(
                    epsilon=epsilon, data_norm=1.0, C=C, random_state=seed
                ).fit(data["private_X"], data["private_y"])
                p = model.predict_proba(data["test_X"])[:, 1]
                right = np.where(data["test_y"] == 1, p, 1 - p)
                loss = float(-np.log(np.maximum(right, 1e-12)).mean())
                lines.append({**case, "epsilon": epsilon, "rate": C, "loss": loss})
        print(path.stem, flush=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (output / "diffprivlib.jsonl").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
