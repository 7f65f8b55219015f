"""Test losses with a teacher, or with old data, on eight tables: ours and plain scikit-learn.

    python benchmarks/teacher_tables.py --output docs/results/labels

A third of the rows (4000 at most) is the test set, of the others some are labelled and up to
2000 more are the proxy's. Teachers answer on all of them: "good" gives one row in ten another
row's label, "mediocre" every second one, "useless" all; "adversarial" turns the labels round.
"Old" data are rows from one side of the table, whose labels have drifted, and there is no answer
on the labelled rows. Rivals, by scikit-learn alone, with strengths and weights chosen by
cross-validation on the log-loss or the deviance: labels alone, teacher alone (a fit of the
proxy's rows to its answers), mixed (a fit of both, weights θ and 1 − θ).

The constants of the library's rule were fixed on the TUNED tables; the others report.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn import datasets as bundled
from sklearn.decomposition import PCA
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
)
from sklearn.metrics import (
    log_loss,
    mean_gamma_deviance,
    mean_poisson_deviance,
    mean_squared_error,
)
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from experiments import datasets
from experiments.records import write_record
from labels_seeds import Runs
from proxyprox.sklearn import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
)

Array = Any
Rng = np.random.Generator
Table = tuple[Array, Array, str]

# -- tables -------------------------------------------------------------------------------------


def from_sklearn(name: str, kind: str) -> Callable[[Rng], Table]:
    return lambda rng: (*getattr(bundled, f"load_{name}")(return_X_y=True), kind)


def public(name: str) -> Callable[[Rng], Table]:
    def load(rng: Rng) -> Table:
        data = datasets.load(name)
        rows = rng.permutation(len(data.y))[:9000]
        return data.X[rows].toarray(), (data.y[rows] == data.y.max()).astype(int), "classes"

    return load


def noisy_classes(rng: Rng, classes: int = 2) -> Table:
    X, y = bundled.make_classification(
        6000,
        n_features=25,
        n_informative=10,
        n_classes=classes,
        flip_y=0.15,
        random_state=int(rng.integers(1 << 30)),
    )
    return X, y, "classes"


def predictor(rng: Rng, columns: int = 20) -> tuple[Array, Array]:
    X = rng.standard_normal((6000, columns)) @ (np.eye(columns) + 0.3)
    w = rng.standard_normal(columns) * np.geomspace(1, 0.05, columns)
    z = X @ w
    return X, z / z.std()


def heavy_tails(rng: Rng) -> Table:
    X, z = predictor(rng)
    return X, z + 0.3 * z**2 + rng.standard_t(3, len(z)), "numbers"


def smooth_numbers(rng: Rng) -> Table:
    X, z = predictor(rng, 40)
    return X, z + np.sin(2 * X[:, 0]) + 0.5 * rng.standard_normal(len(z)), "numbers"


def counts(rng: Rng) -> Table:
    X, z = predictor(rng)
    return X, rng.poisson(np.exp(0.7 * z + 0.3)), "counts"


def rare_counts(rng: Rng) -> Table:
    X, z = predictor(rng, 10)
    return X, rng.poisson(np.exp(0.8 * np.tanh(z) - 1.0) * rng.gamma(2, 0.5, len(z))), "counts"


def amounts(rng: Rng) -> Table:
    X, z = predictor(rng)
    return X, rng.gamma(2.0, np.exp(0.5 * z) / 2) + 1e-3, "amounts"


def interactions(rng: Rng) -> Table:
    X, z = predictor(rng)
    return X, (rng.random(len(z)) < expit(2 * z + X[:, 0] * X[:, 1] / 2)).astype(int), "classes"


TUNED: dict[str, Callable[[Rng], Table]] = {
    "breast_cancer": from_sklearn("breast_cancer", "classes"),
    "diabetes": from_sklearn("diabetes", "numbers"),
    "mushrooms": public("mushrooms"),
    "wine": from_sklearn("wine", "classes"),
    "noisy classes": noisy_classes,
    "counts": counts,
    "smooth numbers": smooth_numbers,
}
REPORTED: dict[str, Callable[[Rng], Table]] = {
    "a9a": public("a9a"),
    "digits": from_sklearn("digits", "classes"),
    "iris": from_sklearn("iris", "classes"),
    "four noisy classes": lambda rng: noisy_classes(rng, 4),
    "interactions": interactions,
    "heavy tails": heavy_tails,
    "rare counts": rare_counts,
    "amounts": amounts,
}
TABLES = TUNED | REPORTED

# -- teachers -----------------------------------------------------------------------------------


def turned(y: Array) -> Array:
    """Return labels turned round: the next class, or the value of the opposite rank."""
    if y.dtype.kind in "iu" and len(np.unique(y)) <= 10 and y.max() < 10:
        return (y + 1) % (y.max() + 1)
    ranks = np.argsort(np.argsort(y))
    return np.sort(y)[::-1][ranks]


def shuffled(y: Array, share: float, rng: Rng) -> Array:
    """Return labels of which a share is another row's."""
    return np.where(rng.random(len(y)) < share, rng.permutation(y), y)


TEACHERS: dict[str, Callable[[Array, Rng], Array]] = {
    "good": lambda y, rng: shuffled(y, 0.1, rng),
    "mediocre": lambda y, rng: shuffled(y, 0.5, rng),
    "useless": lambda y, rng: rng.permutation(y),
    "adversarial": lambda y, rng: shuffled(turned(y), 0.1, rng),
}
SITUATIONS = (*TEACHERS, "old")


def old_data(X: Array, y: Array, kind: str, rng: Rng) -> tuple[Array, Array]:
    """Return rows from one side, with labels that have drifted since."""
    first, second = PCA(2, random_state=0).fit_transform(X).T
    kept = rng.random(len(y)) < expit(2 * first / first.std())
    drifted = (second > 0) & kept
    if kind == "classes":
        labels = np.where(drifted & (rng.random(len(y)) < 0.4), turned(y), y)
    elif kind == "numbers":
        labels = np.where(drifted, y + 0.5 * y.std(), y)
    else:
        labels = np.where(drifted, 2 * y, y)
    return X[kept], labels[kept]


# -- rivals -------------------------------------------------------------------------------------

OURS = {
    "classes": ProxyLogisticRegression,
    "numbers": ProxyRidge,
    "counts": ProxyPoissonRegressor,
    "amounts": ProxyGammaRegressor,
}
STRENGTHS = np.geomspace(1e-6, 1.0, 7)
THETAS = (0.03, 0.1, 0.3, 0.5, 0.7, 0.9)


def rival(kind: str, strength: float, X: Array, y: Array, weights: Array) -> Any:
    """Fit scikit-learn's model to a weighted mean loss plus ``strength / 2 ‖w‖²``."""
    total = weights.sum()
    if kind == "classes":
        solver = "newton-cholesky" if len(np.unique(y)) == 2 else "lbfgs"
        model = LogisticRegression(C=1 / (strength * total), solver=solver, max_iter=300)
    elif kind == "numbers":
        model = Ridge(strength * total)
    else:
        kinds = {"counts": PoissonRegressor, "amounts": GammaRegressor}
        model = kinds[kind](alpha=strength, solver="newton-cholesky", max_iter=300)
    return model.fit(X, y, sample_weight=weights)


def loss(kind: str, model: Any, X: Array, y: Array) -> float:
    if kind == "classes":
        # A fit of few rows may not know all classes.
        found = np.full((len(y), 1 + int(max(y.max(), model.classes_.max()))), 1e-12)
        found[:, model.classes_.astype(int)] = model.predict_proba(X)
        return log_loss(y, found / found.sum(axis=1, keepdims=True), labels=range(found.shape[1]))
    losses = {
        "numbers": mean_squared_error,
        "counts": mean_poisson_deviance,
        "amounts": mean_gamma_deviance,
    }
    return float(losses[kind](y, model.predict(X)))


def best_of(
    choices: Iterable[Any], fit: Callable[[Any, Array], Any], kind: str, X: Array, y: Array, k: int
) -> Any:
    """Return the choice of least cross-validated loss."""
    folds = StratifiedKFold if kind == "classes" and np.bincount(y).min() >= k else KFold
    splits = list(folds(k, shuffle=True, random_state=0).split(X, y))

    def score(choice: Any) -> float:
        return sum(loss(kind, fit(choice, train), X[test], y[test]) for train, test in splits)

    return min(choices, key=score)


def labels_alone(kind: str, X: Array, y: Array) -> tuple[Any, float]:
    """Return the fit to the labels, and its strength."""

    def fit(strength: float, rows: Array) -> Any:
        return rival(kind, strength, X[rows], y[rows], np.ones(len(rows)))

    strength = best_of(STRENGTHS, fit, kind, X, y, 5)
    return fit(strength, np.arange(len(y))), strength


def with_teacher(
    kind: str, X: Array, y: Array, X_proxy: Array, y_proxy: Array, own: float
) -> tuple[Any, Any, float]:
    """Return the fit to the teacher, the mixed one, and θ of the latter.

    ``own`` is the strength that suits the labels; a mixture has this one or the teacher's.
    """
    every = np.ones(len(y_proxy))

    def imitate(strength: float, rows: Array) -> Any:
        return rival(kind, strength, X_proxy[rows], y_proxy[rows], every[rows])

    strength = best_of(STRENGTHS, imitate, kind, X_proxy, y_proxy, 3)

    def mix(choice: tuple[float, float], rows: Array) -> Any:
        theta, shared = choice
        weights = np.append(every * (1 - theta) / len(every), np.full(len(rows), theta / len(rows)))
        both = np.vstack([X_proxy, X[rows]]), np.append(y_proxy, y[rows])
        return rival(kind, shared, *both, weights * len(weights))

    choices = [(theta, each) for theta in THETAS for each in {strength, own}]
    chosen = best_of(choices, mix, kind, X, y, 5)
    return imitate(strength, np.arange(len(every))), mix(chosen, np.arange(len(y))), chosen[0]


# -- runs ---------------------------------------------------------------------------------------


def case(name: str, labels: int, situation: str, seed: int) -> dict[str, Any] | None:
    """Return the data of one run; None if the table is too small for this many labels."""
    rng = np.random.default_rng([seed, labels, list(TABLES).index(name)])
    X, y, kind = TABLES[name](rng)
    order = rng.permutation(len(y))
    third = min(len(y) // 3, 4000)
    test, own, rest = np.split(order, [third, third + labels])
    if len(rest) < labels / 2 or (kind == "classes" and len(np.unique(y[own])) < y.max() + 1):
        return None
    rest = rest[:2000]
    X = StandardScaler().fit(X[np.append(own, rest)]).transform(X)
    drawn = np.random.default_rng([seed, labels, SITUATIONS.index(situation)])
    if situation == "old":
        X_proxy, answers = old_data(X[rest], y[rest], kind, drawn)
    else:
        X_proxy = X[rest]
        answers = TEACHERS[situation](y[np.append(own, rest)], drawn)
    return {
        "kind": kind,
        "labels": (X[own], y[own]),
        "proxy": (X_proxy, answers),
        "test": (X[test], y[test]),
    }


@functools.lru_cache(maxsize=1)
def without_teacher(name: str, labels: int, seed: int) -> dict[str, float]:
    """Return the losses of scikit-learn's classifiers that take no teacher."""
    data = case(name, labels, "good", seed)
    assert data is not None
    (X, y), (X_proxy, _) = data["labels"], data["proxy"]
    both = np.vstack([X, X_proxy]), np.append(y, np.full(len(X_proxy), -1))
    plain = LogisticRegression(max_iter=300)
    fits = {
        "LogisticRegression": plain.fit(X, y),
        "LogisticRegressionCV": LogisticRegressionCV(max_iter=300).fit(X, y),
        "SelfTrainingClassifier": SelfTrainingClassifier(plain).fit(*both),
    }
    return {way: loss(data["kind"], model, *data["test"]) for way, model in fits.items()}


def rivals(name: str, labels: int, situation: str, seed: int) -> dict[str, float]:
    data = case(name, labels, situation, seed)
    if data is None:
        return {}
    kind, (X, y), (X_proxy, answers) = data["kind"], data["labels"], data["proxy"]
    begun = time.process_time()
    alone, own = labels_alone(kind, X, y)
    found = {"labels alone": loss(kind, alone, *data["test"])}
    teacher, mixed, theta = with_teacher(kind, X, y, X_proxy, answers[-len(X_proxy) :], own)
    found["teacher alone"] = loss(kind, teacher, *data["test"])
    found["mixed"] = loss(kind, mixed, *data["test"])
    found |= {"theta": theta, "rivals' seconds": time.process_time() - begun}
    return found | (without_teacher(name, labels, seed) if kind == "classes" else {})


def ours(name: str, labels: int, situation: str, seed: int) -> dict[str, Any]:
    data = case(name, labels, situation, seed)
    if data is None:
        return {}
    kind, (X, y), (X_proxy, answers) = data["kind"], data["labels"], data["proxy"]
    begun = time.process_time()
    model = OURS[kind]().fit(X, y, X_proxy=X_proxy, y_proxy=answers)
    seconds = time.process_time() - begun
    choice = getattr(model, "choice_", None)
    way = {} if choice is None else {"way": choice.way, "weight": choice.weight}
    return {"ours": loss(kind, model, *data["test"]), "seconds": seconds, **way}


# -- the record ---------------------------------------------------------------------------------

KEY = ("table", "labels", "situation", "seed")
RIVALS = ("labels alone", "teacher alone", "mixed")
PLAIN = ("LogisticRegression", "LogisticRegressionCV", "SelfTrainingClassifier")


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean losses of each table, teacher and number of labels over the seeds."""
    rows = []
    places = {tuple(run[name] for name in KEY[:3]) for run in runs}
    order = {name: place for place, name in enumerate([*TABLES, *SITUATIONS])}
    for key in sorted(places, key=lambda place: (order[place[0]], place[1], order[place[2]])):
        own = [run for run in runs if tuple(run[name] for name in KEY[:3]) == key]
        ways = [way for way in (*RIVALS, *PLAIN, "ours") if way in own[0]]
        means = {way: float(np.mean([run[way] for run in own])) for way in ways}
        best = min(RIVALS, key=lambda way: means[way])
        ratios = [run["ours"] / run[best] for run in own]
        ways = [run.get("way", "") for run in own]
        rows.append(
            dict(zip(KEY[:3], key, strict=True))
            | means
            | {
                "seeds": len(own),
                "best": best,
                "above": means["ours"] / means[best] - 1,
                "median above": float(np.median(ratios)) - 1,
                "worst seed": max(ratios) - 1,
                "below labels": 1 - means["ours"] / means["labels alone"],
                "ways": {way: ways.count(way) for way in sorted(set(ways))},
                "seconds": float(np.mean([run["seconds"] for run in own])),
            }
        )
    return rows


def table_of(rows: list[dict[str, Any]]) -> str:
    head = (
        "table",
        "labels",
        "proxy",
        "seeds",
        *RIVALS,
        *PLAIN,
        "ours",
        "above best",
        "median",
        "worst seed",
    )
    lines = ["| " + " | ".join(head) + " | chosen |", "|---" * (len(head) + 1) + "|"]
    for row in rows:
        values = [f"{row[way]:.4g}" if way in row else "–" for way in (*RIVALS, *PLAIN, "ours")]
        shares = [f"{100 * row[name]:+.1f} %" for name in ("above", "median above", "worst seed")]
        chosen = ", ".join(f"{way} {count}" for way, count in row["ways"].items())
        own = [row["table"], str(row["labels"]), row["situation"], str(row["seeds"])]
        cells = [*own, *values, *shares, chosen]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def headline(rows: list[dict[str, Any]]) -> str:
    above = np.array([row["above"] for row in rows])
    median = np.array([row["median above"] for row in rows])
    good = [row["below labels"] for row in rows if row["situation"] == "good"]
    within, all_ = int((above <= 0.01).sum()), len(above)
    lines = [
        f"- Mean loss at most 1 % above the best rival's in {within} of {all_} cells, "
        f"at most 5 % in {int((above <= 0.05).sum())}; "
        f"median ratio over seeds at most 1 % above in {int((median <= 0.01).sum())}.",
        f"- Below the best rival in {int((above < 0).sum())}; the worst cell is "
        f"{100 * above.max():+.1f} %, the median one {100 * np.median(above):+.1f} %.",
        f"- With the good teacher {100 * np.median(good):.0f} % below labels alone in the median "
        f"cell, at least 5 % in {sum(value >= 0.05 for value in good)} of {len(good)}.",
    ]
    for way in RIVALS:
        losses = [row["ours"] / row[way] for row in rows]
        lines.append(
            f"- Against {way}: median ratio {np.median(losses):.3f}, "
            f"worst {max(losses):.3f}, more than 1 % above in "
            f"{sum(value > 1.01 for value in losses)}."
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(REPORTED))
    parser.add_argument("--labels", nargs="+", type=int, default=[50, 200])
    parser.add_argument("--situations", nargs="+", default=list(SITUATIONS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="folder of finished runs to go on with")
    parser.add_argument("--output", type=Path, help="folder for teacher_tables.json and .md")
    parser.add_argument("--finished", action="store_true", help="only runs that are in the cache")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.cache:
        given.cache.mkdir(parents=True, exist_ok=True)
    # After a change of the library ours.json is to be deleted, the rivals' runs stay.
    kept, fresh = (Runs(given.cache and given.cache / f"{who}.json") for who in ("rivals", "ours"))
    runs = []
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    for seed, labels, name in itertools.product(seeds, given.labels, given.tables):
        for situation in given.situations:
            where = (name, labels, situation, seed)
            if given.finished and str(where) not in fresh.done:
                continue
            if theirs := kept.result(str(where), rivals, *where):
                found = theirs | fresh.result(str(where), ours, *where)
                runs.append(dict(zip(KEY, where, strict=True)) | found)
        print(seed, labels, name, flush=True)
    rows = summary(runs)
    parts = []
    for title, tables in (("Reported", REPORTED), ("Used to fix constants", TUNED)):
        own = [row for row in rows if row["table"] in tables]
        if own:
            parts.append(f"## {title}\n\n{headline(own)}\n\n{table_of(own)}\n")
            print(title, headline(own), sep="\n")
    seconds = sum(run["seconds"] for run in runs), sum(run["rivals' seconds"] for run in runs)
    print(f"seconds: ours {seconds[0]:.0f}, rivals {seconds[1]:.0f}")
    if given.output:
        lead = __doc__.split("\n\n")
        text = f"# {lead[0]}\n\n`{lead[1].strip()}`\n\n" + "\n\n".join(lead[2:])
        text += "\n\nMean test loss (log-loss, squared error, deviance) over the seeds. "
        text += "*Above best*: our mean loss against the least of the three rivals' means.\n\n"
        (given.output / "teacher_tables.md").write_text(text + "\n".join(parts))
        record = given.output / "teacher_tables.json"
        write_record(record, rows, measures=["src/proxyprox/sklearn"])


if __name__ == "__main__":
    main()
