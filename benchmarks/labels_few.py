"""Test log-loss with 20 to 100 labels: ours, scikit-learn's two, self-training, a mixture.

    python benchmarks/labels_few.py --taught 3 --first 500 --out docs/results/labels/few.json

A third of the rows is the test set; labels are drawn from the others, of every class two at least,
and up to 600 of the rest are the proxy's, on which teachers answer. Columns are standardised by all
rows that are not tested. "good" gives one row in ten another row's label, "useless" every row,
"opposite" turns the labels round; mixtures fit both, the labels' weight being cross-validated.

Constants of the library were set on the tables of ``--tuning``, which are others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from experiments.datasets import load
from experiments.records import write_record
from labels_seeds import Runs
from proxyprox.sklearn import ProxyLogisticRegression

Array = Any


def generated(
    seed: int, columns: int, informative: int, spread: float, rate: float = 0.5,
    correlated: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """Return a logistic table with a share of positives."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4000, columns))
    if correlated:
        X = X @ (rng.standard_normal((columns, columns)) / np.arange(1, columns + 1)[:, None])
        X /= X.std(axis=0)
    w = np.zeros(columns)
    w[:informative] = rng.standard_normal(informative)
    z = X @ w
    z *= spread / z.std()
    shift = np.quantile(z + rng.logistic(size=len(z)), 1 - rate)
    return X, (z + rng.logistic(size=len(z)) > shift).astype(int)


def clusters(seed: int, classes: int, columns: int, apart: float) -> tuple[Array, Array]:
    """Return Gaussian classes."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, columns)) * apart / np.sqrt(columns)
    y = rng.integers(classes, size=3000)
    return centres[y] + rng.standard_normal((3000, columns)), y


def like_penguins(seed: int) -> tuple[Array, Array]:
    """Return three Gaussian classes of unequal sizes in four correlated columns, well apart."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0, 0, 0], [2.5, 0.3, 0.8, 0.2], [1.8, -2.2, 2.8, 2.4]])
    y = rng.choice(3, size=1400, p=[0.44, 0.2, 0.36])
    mixing = 0.6 * np.eye(4) + 0.4 * rng.standard_normal((4, 4)) / 2
    return centres[y] + rng.standard_normal((1400, 4)) @ mixing, y


def heavy_tails(seed: int) -> tuple[Array, Array]:
    """Return a logistic table of Student's t columns, of which one row in twenty is positive."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(4000, 30))
    z = X[:, :10] @ rng.standard_normal(10) + rng.logistic(size=4000)
    return X, (z > np.quantile(z, 0.95)).astype(int)


def digits(*kept: int) -> tuple[Array, Array]:
    """Return some of the digits."""
    X, y = datasets.load_digits(return_X_y=True)
    return X[np.isin(y, kept)], y[np.isin(y, kept)]


def public(name: str, column: int | None = None) -> tuple[Array, Array]:
    """Return 6000 rows of a public table; of a column what others tell of it is the label."""
    data = load(name)
    rows = np.random.default_rng(23).permutation(len(data.y))[:6000]
    X, y = data.X[rows].toarray(), data.y[rows] > data.y.min()
    X = X[:, X.std(axis=0) > 0]
    if column is None:
        return X, y
    y = data.X[rows][:, [column]].toarray().ravel() > 0
    alike = abs(np.corrcoef(X, y, rowvar=False)[-1, :-1])
    return X[:, alike < 0.9], y


def surveyed(name: str, label: str, least: float, *dropped: str) -> tuple[Array, Array]:
    """Return 6000 rows of a table of statsmodels, and whether a column has a least value."""
    table = getattr(importlib.import_module("statsmodels.datasets"), name).load_pandas().data
    rows = np.random.default_rng(24).permutation(len(table))[:6000]
    inputs = table.drop(columns=[label, *dropped])
    return inputs.to_numpy(float)[rows], table[label].to_numpy()[rows] >= least


def made(seed: int, **options: Any) -> tuple[Array, Array]:
    """Return scikit-learn's generated classes."""
    return datasets.make_classification(4000, n_features=20, random_state=seed, **options)


# Written down before the first run on them. No constant of the library has met them, but for
# breast cancer, which earlier versions were run on.
TABLES = {
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "like penguins": lambda: like_penguins(31),
    "digits 3 and 8": lambda: digits(3, 8),
    "affairs": lambda: surveyed("fair", "affairs", 1e-9),
    "votes": lambda: surveyed("anes96", "vote", 1.0, "logpopul"),
    "three classes": lambda: made(35, n_informative=5, n_classes=3, flip_y=0.05),
    "mushrooms, a column": lambda: public("mushrooms", 97),
    "rare: a9a, a column": lambda: public("a9a", 56),
    "rare: ten visits": lambda: surveyed("randhie", "mdvis", 10.0),
    "rare: heavy tails": lambda: heavy_tails(32),
}
TUNING = {
    "diabetes": lambda: (lambda d: (d[0], (d[1] > np.median(d[1])).astype(int)))(
        datasets.load_diabetes(return_X_y=True)
    ),
    "clusters": lambda: clusters(11, 2, 30, 4.0),
    "easy": lambda: clusters(12, 4, 6, 8.0),
    "noisy": lambda: generated(13, 15, 5, 0.7),
    "correlated": lambda: generated(14, 30, 10, 3.0, 0.5, True),
    "rare": lambda: generated(15, 15, 8, 2.0, 0.05),
    "rare, easy": lambda: generated(16, 10, 3, 5.0, 0.08),
    "digits 0 to 2": lambda: digits(0, 1, 2),
    "digits, odd": lambda: (lambda d: (d[0], d[1] % 2))(datasets.load_digits(return_X_y=True)),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "mushrooms": lambda: public("mushrooms"),
    "a9a": lambda: public("a9a"),
    "no linear rule": lambda: datasets.make_hastie_10_2(4000, random_state=24),
    "rare, made": lambda: made(26, n_informative=6, weights=[0.95], flip_y=0.0),
    "other penguins": lambda: like_penguins(21),
}
MEASURES = ["src/proxyprox/sklearn/fitting.py", "src/proxyprox/sklearn/policy.py"]
LABELS = (20, 40, 50, 100)


def draw(table: Any, labels: int, seed: int) -> Any:
    """Return labelled rows, the proxy's rows and test rows."""
    X, y = table[0], np.unique(table[1], return_inverse=True)[1]
    rng = np.random.default_rng([seed, labels])
    order = rng.permutation(len(y))
    test, pool = np.split(order, [len(y) // 3])
    first = [int(pool[np.flatnonzero(y[pool] == c)[0]]) for c in np.unique(y)]
    # Two rows of each class, where stratified folds are to be possible at all.
    second = [int(pool[np.flatnonzero(y[pool] == c)[1]]) for c in np.unique(y)]
    forced = first + second
    others = [int(i) for i in pool if i not in set(forced)]
    # Small tables keep some rows for the proxy.
    bought = np.array(forced + others[: min(labels, len(pool) - 20) - len(forced)])
    rest = np.array([int(i) for i in pool if i not in set(bought.tolist())])[:600]
    scaler = StandardScaler().fit(X[pool])
    X = scaler.transform(X)
    return X[bought], y[bought], X[rest], y[rest], X[test], y[test]


def shuffled(y: Array, share: float, rng: Any) -> Array:
    """Return labels of which a share is another row's."""
    return np.where(rng.random(len(y)) < share, rng.permutation(y), y)


TEACHERS = {
    "good": lambda y, rng: shuffled(y, 0.1, rng),
    "useless": lambda y, rng: rng.permutation(y),
    "opposite": lambda y, rng: shuffled((y + 1) % (y.max() + 1), 0.1, rng),
}
THETAS = (0.03, 0.1, 0.3, 0.5, 0.7, 0.9)


def mixture(X: Array, y: Array, rest: Array, answers: Array) -> Any:
    """Return LogisticRegression on labels and answers, the labels' weight cross-validated."""

    def fit(theta: float, rows: Array) -> Any:
        weights = np.append(
            np.full(len(rows), theta / len(rows)), np.full(len(rest), (1 - theta) / len(rest))
        )
        both = np.vstack([X[rows], rest]), np.append(y[rows], answers)
        model = LogisticRegression(max_iter=1000)
        return model.fit(*both, sample_weight=weights * len(weights))

    smallest, classes = int(np.unique(y, return_counts=True)[1].min()), np.unique(y)
    folds = list(StratifiedKFold(min(5, smallest), shuffle=True, random_state=0).split(X, y))

    def held_out(theta: float) -> float:
        scores = []
        for train, test in folds:
            chances = fit(theta, train).predict_proba(X[test])
            scores.append(log_loss(y[test], chances, labels=classes) * len(test))
        return sum(scores)

    return fit(min(THETAS, key=held_out), np.arange(len(y)))


def losses(table: Any, labels: int, seed: int, teachers: Sequence[str]) -> dict[str, float]:
    """Return the test log-loss of every way, without a teacher and with each of some."""
    X, y, rest, y_rest, X_test, y_test = draw(table, labels, seed)
    classes, found = np.unique(y), {}
    marked = np.concatenate([y, np.full(len(rest), -1)])

    def training(*known: Array) -> Any:
        model = SelfTrainingClassifier(LogisticRegression(max_iter=1000))
        return model.fit(np.vstack([X, rest]), np.concatenate([y, *known]))

    ways = {
        "LogisticRegression": lambda: LogisticRegression(max_iter=1000).fit(X, y),
        "LogisticRegressionCV": lambda: LogisticRegressionCV(max_iter=1000).fit(X, y),
        "the same, by log-loss": lambda: LogisticRegressionCV(
            max_iter=1000, scoring="neg_log_loss"
        ).fit(X, y),
        "SelfTrainingClassifier": lambda: training(marked[len(y) :]),
        "ours": lambda: ProxyLogisticRegression().fit(X, y, X_proxy=rest),
    }
    for teacher in teachers:
        rng = np.random.default_rng([seed, labels, list(TEACHERS).index(teacher)])
        answers = TEACHERS[teacher](np.append(y, y_rest), rng)
        if teacher == "good":
            ways["mixture, good"] = partial(mixture, X, y, rest, answers[len(y) :])
        ways[f"ours, {teacher}"] = partial(
            ProxyLogisticRegression().fit, X, y, X_proxy=rest, y_proxy=answers
        )
    for name, fit in ways.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = float(log_loss(y_test, fit().predict_proba(X_test), labels=classes))
    return found


RIVALS = ("LogisticRegression", "LogisticRegressionCV", "the same, by log-loss")


def ratios(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return our mean loss over that which it is to be compared with, in the same draws."""

    def mean(way: str, among: str = "ours") -> float:
        return float(np.mean([run[way] for run in runs if among in run]))

    best = min(map(mean, RIVALS))
    found = {"alone": mean("ours") / best}
    for teacher in TEACHERS:
        own = f"ours, {teacher}"
        if own in runs[0]:
            rival = "mixture, good" if teacher == "good" else "ours"
            found[teacher] = mean(own, own) / mean(rival, own)
    return found


WAYS = (
    "ours", *RIVALS, "SelfTrainingClassifier", "ours, good", "mixture, good", "ours, useless",
    "ours, opposite",
)  # fmt: skip


def page_table(path: Path) -> str:
    """Return the ratios of every table: those of labels alone by their number, teachers' means."""
    record = json.loads(path.read_text())
    numbers = list(next(iter(record["tables"].values())))
    head = ["ours over the best of three", *(f"{n} labels" for n in numbers), *TEACHERS]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, rows in record["tables"].items():
        cells = [f"{rows[n]['ratios']['alone']:.2f}" for n in numbers]
        means = (np.mean([rows[n]["ratios"][teacher] for n in numbers]) for teacher in TEACHERS)
        cells += [f"{mean:.2f}" for mean in means]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    found = record["summary"]
    cells = ["" for _ in numbers[1:]]
    for kind in ("mean", "worst"):
        ends = [f"{found['alone'][kind]:.3f}", *cells]
        ends += [f"{found[teacher][kind]:.3f}" for teacher in TEACHERS]
        lines.append(f"| {kind} of all | {' | '.join(ends)} |")
    return "\n".join(lines)


def full_table(path: Path) -> str:
    """Return the mean losses of every way, ± the standard error of ours − theirs."""
    record = json.loads(path.read_text())
    lines = [f"| table | labels | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 2) + "|"]
    for name, rows in record["tables"].items():
        for labels, own in rows.items():
            cells = [
                f"{own['losses'][way]:.3f}"
                + (f" ± {own['errors'][way]:.3f}" if own["errors"][way] else "")
                for way in WAYS
            ]
            lines.append(f"| {name} | {labels} | {' | '.join(cells)} |")
    return "\n".join(lines)


def runs_of(given: argparse.Namespace, job: tuple[str, int]) -> list[dict[str, float]]:
    """Return the losses of every draw of a table with a number of labels."""
    name, labels = job
    table = (TUNING if given.tuning else TABLES)[name]()
    found = []
    for k in range(given.draws):
        runs, teachers = Runs(given.cache), given.teachers if k < given.taught else ()
        which = table, labels, given.first + k, teachers
        found.append(runs.result(str((name, *which[1:])), losses, *which))
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--taught", type=int, default=10, help="draws with teachers")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--labels", type=int, nargs="*", default=LABELS)
    parser.add_argument("--teachers", nargs="*", default=list(TEACHERS), choices=list(TEACHERS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--cache", type=Path, help="JSON file of finished runs to go on with")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    record: dict[str, Any] = {"draws": given.draws, "with teachers": given.taught, "tables": {}}
    found: dict[str, list[float]] = {}
    names = given.tables or list(TUNING if given.tuning else TABLES)
    jobs = [(name, labels) for name in names for labels in given.labels]
    with ProcessPoolExecutor(given.processes) as pool:
        for (name, labels), each in zip(jobs, pool.map(partial(runs_of, given), jobs), strict=True):
            known = {way: [run for run in each if way in run] for way in each[0]}
            mean = {way: float(np.mean([run[way] for run in own])) for way, own in known.items()}
            # One standard error of ours − theirs, draw by draw.
            error = {
                way: float(np.std([run["ours"] - run[way] for run in own]) / len(own) ** 0.5)
                for way, own in known.items()
            }
            own = ratios(each)
            for which, ratio in own.items():
                found.setdefault(which, []).append(ratio)
            record["tables"].setdefault(name, {})[str(labels)] = {
                "losses": mean, "errors": error, "ratios": own,
            }  # fmt: skip
            shown = "  ".join(f"{value:.3f}" for value in mean.values())
            own_shown = "  ".join(f"{which} {value:.3f}" for which, value in own.items())
            print(f"{name:18} {labels:4}  {shown}  {own_shown}", flush=True)
    record["summary"] = {
        which: {"mean": float(np.mean(each)), "worst": float(np.max(each))}
        for which, each in found.items()
    }
    print(record["summary"])
    if given.out:
        note = "in pieces; the seconds are those of the last one" if given.cache else ""
        write_record(given.out, record, measures=MEASURES, note=note)


if __name__ == "__main__":
    main()
