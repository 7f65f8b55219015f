"""A table and the column to predict: models compared on held-out rows.

Labels are the scarce part: rows without one are the proxy. Every model is judged on labelled rows
that neither it nor the columns' encoding has seen.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from proxyprox_app.columns import (
    Columns,
    date_format,
    outliers_of,
    parse_dates,
    plain_object,
    yes_or_no,
)
from proxyprox_app.tables import (
    POLICY,
    DataError,
    Finding,
    as_text,
    is_coded,
    no_column,
    to_numbers,
)

Frame = Any
Array = Any
Triple = tuple[float, float, float]

TASKS = ("classification", "regression")
LEVEL = 0.95
MODELS = {
    "proxyprox": "labels, with all rows as proxy",
    "scikit-learn": "labels alone, ridge penalty by cross-validation",
    "huber": "labels alone, Huber's loss (numbers only)",
    "erm": "labels alone, no penalty",
    "base-rate": "the same for every row",
}


class Target(NamedTuple):
    """What is to be predicted: text classes or numbers, missing if there is no label."""

    name: str
    task: str
    y: Any
    findings: list[Finding]
    outliers: int = 0

    @property
    def known(self) -> Array:
        """Which rows have a label."""
        return self.y.notna().to_numpy()

    @property
    def labels(self) -> Array:
        """Numbers, or text that is empty if there is no label."""
        if self.task == "regression":
            return self.y.to_numpy(dtype=np.float64)
        return self.y.fillna("").to_numpy(dtype=str)


def read_target(frame: Frame, name: str, task: str | None = None, decimal: str = "") -> Target:
    """Return the column to predict.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    name : str
        The column.
    task : {"classification", "regression"}, optional
        Default: numbers of more than ten values are regressed, everything else is classes.
    decimal : {"", ",", "."}
        What decimals are behind if the cells do not tell.
    """
    if name not in frame:
        raise DataError(no_column(name, frame))
    cells, findings, outliers = frame[name], list[Finding](), 0

    def find(text: str, fatal: bool = False) -> None:
        findings.append(Finding(name, text, fatal))

    text, numeric = as_text(cells), to_numbers(plain_object(cells), decimal)
    known, values = int(text.notna().sum()), numeric.dropna()
    many = bool((values % 1 != 0).any()) or values.nunique() > POLICY.few_values
    share = len(values) / max(known, 1)
    auto, coded = task is None, "" if cells.dtype.kind in "iuf" else is_coded(text)
    if task is None:
        numbers = many and share >= POLICY.enough and not coded
        task = "regression" if numbers else "classification"
        if coded and share:
            find(f"{coded}: taken for classes (--task regression?).")
        if task == "classification" and share == 1 and values.nunique() > 2:
            find(f"{values.nunique()} whole numbers, taken for classes (--task regression?).")
    if task == "regression":
        y = numeric
        if len(bad := text[numeric.isna()].dropna()):
            what = f"{len(bad)} cells such as {bad.iloc[0]!r} are no numbers"
            find(f"{what}: taken as rows without a label.", fatal=share < POLICY.enough)
        if len(values) and values.nunique() == 1:
            find(f"the same in every row, {values.iloc[0]:g}: nothing to learn.", fatal=True)
        outliers, what = outliers_of(values)
        if outliers:
            text = "Models are compared by Huber's loss, which a few of them do not decide."
            find(f"{outliers} labels are {what} {text}")
    else:
        y = yes_or_no(text)
        for word in sorted(set(y.dropna())):
            if others := sorted(set(text[y == word].dropna()) - {word}):
                find(f"{', '.join(others[:6])} read as {word}.")
        y = _without_rare(y, find)
        if y.nunique() > POLICY.most_classes:
            more = " Is it the right column?" if auto else ""
            most = f"(at most {POLICY.most_classes})"
            find(f"{y.nunique():,} classes are too many {most}.{more}", True)
        elif y.nunique() < 2:
            got = f"one class, {y.dropna().iloc[0]!r}" if y.notna().any() else "no label"
            find(f"holds {got}; two are needed, of {POLICY.fewest_of_class} labels each.", True)
        elif (counts := y.value_counts(normalize=True)).iloc[0] >= POLICY.rare:
            most, often = counts.iloc[0], counts.index[0]
            text = f"{most:.1%} of the labels are {often!r}: accuracy says little here. Look at "
            find(f"{text}average precision (AP), which is {1 - most:.2g} without any skill.")
    if (labels := int(y.notna().sum())) < POLICY.fewest:
        find(f"{labels} labels are too few, {POLICY.fewest} at least.", fatal=True)
    return Target(name, task, y, findings, outliers)


def _without_rare(y: Any, find: Callable[..., None]) -> Any:
    """Return classes, without those that have too few labels to be held out."""
    counts = y.value_counts()
    rare = counts[counts < POLICY.fewest_of_class].index.tolist()
    if rare and len(counts) - len(rare) >= 2:
        shown = ", ".join(map(repr, rare[:5])) + (" …" if len(rare) > 5 else "")
        find(f"fewer than {POLICY.fewest_of_class} labels of {shown}: taken as rows without one.")
        return y.mask(y.isin(rare))
    if (lower := y.dropna().str.lower()).nunique() < y.nunique():
        odd = sorted(set(y.dropna()[lower.isin(lower[y.dropna() != lower])]))
        find(f"classes that differ in upper and lower case only: {', '.join(odd[:4])}.")
    return y


def repeated_rows(frame: Frame) -> list[Finding]:
    """Return a finding if rows are copies of others: one may be fitted and the other judged."""
    try:
        copies = int(frame.duplicated().sum())
    except TypeError:  # lists in cells
        return []
    text = "rows are copies of earlier ones, so rows that are held out may be among those fitted."
    return [Finding("", f"{copies:,} {text}")] if copies else []


# -- which rows are held out together -------------------------------------------------------------


class Split(NamedTuple):
    """How rows are held out: at random, by whole groups, or later ones after earlier ones.

    ``codes`` has the group, or the rank of the time, of every row.
    """

    kind: str = "rows"
    column: str = ""
    codes: Any = None
    words: str = "random rows held out"


def read_split(frame: Frame, groups: str | None, time: str | None) -> Split:
    """Return how rows are held out.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    groups, time : str, optional
        The column that says which rows belong together, or when a row was made; one at most.
    """
    import pandas as pd

    name = groups or time
    if name is None:
        return Split()
    if groups and time:
        raise DataError("--groups and --time do not go together: take one of them.")
    if name not in frame:
        raise DataError(f"--{'groups' if groups else 'time'}: {no_column(name, frame)}")
    cells = frame[name]
    if groups:
        codes = pd.factorize(as_text(cells))[0]
        # Rows without a group are groups of their own.
        alone = codes < 0
        codes = np.where(alone, codes.max() + np.cumsum(alone), codes)
        return Split("groups", name, codes, f"whole groups of {name} held out")
    times = to_numbers(plain_object(cells)) if cells.dtype.kind in "iuf" else None
    if times is None:
        form = "" if cells.dtype.kind == "M" else date_format(as_text(cells).dropna())[0]
        times = parse_dates(cells, form)
    if lost := int(times.isna().sum()):
        raise DataError(f"--time {name}: {lost} cells are no date or number: fill them in.")
    ranks = times.rank(method="dense").to_numpy(dtype=np.int64)
    return Split("time", name, ranks, f"later rows by {name} held out")


def _folds(split: Split, target: Target, seed: int) -> list[tuple[Array, Array]]:
    """Return the rows that may be seen and the labelled ones that are judged, fold by fold."""
    from sklearn import model_selection as ms

    known, rows = np.flatnonzero(target.known), np.arange(len(target.y))
    y = target.labels[known]
    classes = [] if target.task == "regression" else np.unique(y, return_counts=True)[1].tolist()
    count = POLICY.folds
    options: dict[str, Any] = {"shuffle": True, "random_state": seed}
    found = []
    if split.kind == "time":
        ends = np.unique(np.quantile(split.codes[known], np.arange(1, count + 1) / (count + 1)))
        cuts = [*np.ceil(ends), math.inf]
        for start, stop in itertools.pairwise(cuts):
            later = (split.codes[known] >= start) & (split.codes[known] < stop)
            found.append((rows[split.codes < start], known[later]))
    elif split.kind == "groups":
        groups = split.codes[known]
        count = min(count, len(np.unique(groups)))
        if count < 2:
            raise DataError(f"--groups {split.column}: all labels are in one group.")
        kind = ms.StratifiedGroupKFold if classes else ms.GroupKFold
        tests = [test for _, test in kind(count, **options).split(known, y, groups)]
        found = [(rows[~np.isin(split.codes, groups[test])], known[test]) for test in tests]
    else:
        kind = ms.StratifiedKFold if classes else ms.KFold
        tests = [test for _, test in kind(min([count, *classes]), **options).split(known, y)]
        found = [(np.setdiff1d(rows, known[test]), known[test]) for test in tests]
    labels = (set(target.labels[_fitted(target, seen)]) for seen, _ in found)
    found = [fold for fold, own in zip(found, labels, strict=True) if len(fold[1]) and len(own) > 1]
    if not found:
        raise DataError(f"--{split.kind} {split.column}: no part has labels to fit and to judge.")
    return found


def _fitted(target: Target, seen: Array) -> Array:
    """Return the labelled rows among some, without classes that have one row there."""
    own = seen[target.known[seen]]
    if target.task == "regression":
        return own
    _, places, counts = np.unique(target.labels[own], return_inverse=True, return_counts=True)
    return own[counts[places] > 1]


# -- models ---------------------------------------------------------------------------------------


def make_model(name: str, task: str, folds: int = POLICY.folds) -> Any:
    """Return an unfitted estimator, whose own cross-validation has this many folds."""
    from sklearn import linear_model
    from sklearn.dummy import DummyClassifier, DummyRegressor

    from proxyprox.sklearn import ProxyLogisticRegression, ProxyRidge

    strengths = np.logspace(-4, 4, 13)
    makers: dict[str, Any] = {
        "proxyprox": lambda: ProxyLogisticRegression(unlabelled=None),
        "scikit-learn": lambda: linear_model.LogisticRegressionCV(
            Cs=strengths, scoring="neg_log_loss", max_iter=2000, cv=folds
        ),
        "erm": lambda: linear_model.LogisticRegression(C=np.inf, max_iter=2000),
        "base-rate": lambda: DummyClassifier(strategy="prior"),
    }
    if task == "regression":
        makers = {
            "proxyprox": ProxyRidge,
            "scikit-learn": lambda: linear_model.RidgeCV(alphas=strengths),
            "huber": lambda: linear_model.HuberRegressor(alpha=1.0, max_iter=2000),
            "erm": linear_model.LinearRegression,
            "base-rate": DummyRegressor,
        }
    return makers[name]()


def models_for(task: str) -> list[str]:
    """Return the names of the models that are compared."""
    return [name for name in MODELS if name != "huber" or task == "regression"]


def fit_model(name: str, task: str, X: Array, y: Array, others: Array) -> Any:
    """Return a fitted model; only ours looks at the rows without a label."""
    folds = POLICY.folds
    if task != "regression":
        # A fold that lacks a class cannot be scored.
        folds = max(2, min(folds, int(np.unique(y, return_counts=True)[1].min())))
    model = make_model(name, task, folds)
    with warnings.catch_warnings():
        # Convergence, and what newer releases will name otherwise.
        warnings.simplefilter("ignore")
        if name == "proxyprox":
            return model.fit(X, y, X_proxy=others if len(others) else None)
        if name == "huber":
            # Its solver is at home near 1.
            scale = float(np.subtract(*np.quantile(y, (0.75, 0.25)))) or 1.0
            model.fit(X, (y - np.median(y)) / scale)
            model.coef_ = model.coef_ * scale
            model.intercept_ = model.intercept_ * scale + np.median(y)
            return model
        return model.fit(X, y)


def outputs_of(model: Any, task: str, X: Array, classes: Sequence[str]) -> Array:
    """Return predicted numbers, or the probability of each of these classes."""
    if task == "regression":
        return np.asarray(model.predict(X))
    chances, made = model.predict_proba(X), [str(each) for each in model.classes_]
    shown = np.zeros((len(X), len(classes)))
    shown[:, [list(classes).index(each) for each in made]] = chances
    return shown


def losses_of(
    task: str, outputs: Array, y: Array, classes: Sequence[str], huber: float = math.inf
) -> Array:
    """Return each row's loss: squared or Huber's error, or minus the logarithm of its chance."""
    if task == "regression":
        error = np.abs(outputs - y)
        near = np.minimum(error, huber)
        return near * (2 * error - near)
    places = np.searchsorted(classes, y)
    return -np.log(np.maximum(outputs[np.arange(len(y)), places], 1e-15))


def more_measures(
    task: str, outputs: Array, y: Array, classes: Sequence[str], folds: Array | None = None
) -> dict[str, float | None]:
    """Return measures that a mean of the rows' losses does not show, averaged over folds.

    ``AUC`` and average precision ``AP`` are the rarer class's, or means over three or more.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    if task == "regression":
        return {"median error": float(np.median(np.abs(outputs - y)))}
    folds, there = np.zeros(len(y)) if folds is None else folds, y[:, None] == classes
    columns = [int(np.argmin(there.sum(axis=0)))] if len(classes) == 2 else range(len(classes))
    scores = [
        (roc_auc_score(*pair), average_precision_score(*pair), mine.sum())
        for mine in (folds == fold for fold in np.unique(folds))
        for pair in ((there[mine, j], outputs[mine, j]) for j in columns)
        if 0 < pair[0].sum() < mine.sum()
    ]
    if not scores:
        return {"AUC": None, "AP": None}
    area, precision, rows = np.transpose(scores)
    return {"AUC": float(np.average(area, weights=rows)),
            "AP": float(np.average(precision, weights=rows))}  # fmt: skip


# -- comparison on held-out rows ------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """What a model does on held-out rows: the loss that decides and other measures.

    ``loss`` and ``second`` (accuracy or R²) are an estimate and the ends of its interval; ``gap``
    is how much larger the loss is than the lowest, row by row.
    """

    model: str
    loss: Triple
    second: Triple
    gap: Triple
    more: dict[str, float | None]


@dataclass(frozen=True)
class Comparison:
    """Models on held-out rows, best first, and what is to be expected of choosing the best.

    Attributes
    ----------
    labels, unlabelled, judged, folds : int
        Rows with and without a label, labelled rows that were held out once, and folds.
    split : str
        What was held out together, as the end of a sentence.
    measures : tuple of two str
        Names of the loss that decides and of the second measure.
    scores : list of Score
    chosen, why : str
        The model to keep, and the reason.
    expected : tuple of three floats
        The lowest loss with its interval, without the optimism of having chosen it: the lowest of
        several is too low on the rows it was chosen by.
    perfect : bool
        Whether the best score is too good to be believed unasked.
    """

    task: str
    labels: int
    unlabelled: int
    judged: int
    folds: int
    split: str
    measures: tuple[str, str]
    scores: list[Score]
    chosen: str
    why: str
    expected: Triple
    perfect: bool


def compare_models(
    frame: Frame, columns: Columns, target: Target, wanted: str = "best", seed: int = 0,
    progress: Callable[[str], None] = lambda text: None, split: Split | None = None,
) -> Comparison:  # fmt: skip
    """Compare all models by cross-validation on the labelled rows.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    columns : Columns
        What its columns become, planned.
    target : Target
        What to predict.
    wanted : str
        The model to keep, or "best".
    seed : int
        Seed of the folds.
    progress : callable
        Told what is being done.
    split : Split, optional
        How rows are held out; by default at random.

    Returns
    -------
    comparison : Comparison
    """
    split, task, y, known = split or Split(), target.task, target.labels, target.known
    classes = [] if task == "regression" else sorted(set(y[known]))
    names, folds = models_for(task), _folds(split, target, seed)
    shape = (len(frame),) if task == "regression" else (len(frame), len(classes))
    outputs = {name: np.full(shape, np.nan) for name in names}
    for number, (seen, test) in enumerate(folds, start=1):
        progress(f"held-out rows: fold {number} of {len(folds)}")
        # The rows held out are in nothing: not in the encoding, not in the proxy.
        made = columns.refit(frame.iloc[seen])
        own, others = _fitted(target, seen), seen[~known[seen]]
        X, Z, T = (made.transform(frame.iloc[rows]) if len(rows) else np.empty((0, 1))
                   for rows in (own, others, test))  # fmt: skip
        for name in names:
            outputs[name][test] = outputs_of(fit_model(name, task, X, y[own], Z), task, T, classes)
    judged = np.concatenate([test for _, test in folds])
    part = np.repeat(np.arange(len(folds)), [len(test) for _, test in folds])
    y, spread = y[judged], 1.0
    groups = np.unique(split.codes[judged], return_inverse=True)[1] if split.kind == "groups" else (
        np.arange(len(judged)))  # fmt: skip
    huber, outputs = math.inf, {name: made[judged] for name, made in outputs.items()}
    if target.outliers:
        huber = 2 * min(float(np.median(np.abs(made - y))) for made in outputs.values())
    losses = {name: losses_of(task, outputs[name], y, classes, huber) for name in names}
    matrix = np.column_stack([losses[name] for name in names])
    best, scores = names[int(np.argmin(matrix.mean(axis=0)))], []
    if task == "regression":
        spread = float(losses_of(task, np.full(len(y), np.median(y)), y, (), huber).mean())
        spread = float(np.var(y)) if math.isinf(huber) else spread
    for name in sorted(names, key=lambda name: losses[name].mean()):
        loss = _interval(losses[name], groups, 0.0)
        if task == "regression":
            value, low, high = (1 - each / spread for each in loss)
            second, loss = (value, high, low), _root(loss)
        else:
            right = (np.array(classes)[outputs[name].argmax(axis=1)] == y).astype(np.float64)
            second = _share(right, groups)
        more = more_measures(task, outputs[name], y, classes, part)
        gap = _interval(losses[name] - losses[best], groups)
        scores.append(Score(name, loss, second, gap, more))
    expected = _expected_of_best(matrix, groups, seed)
    chosen = best if wanted == "best" else wanted
    limit = POLICY.perfect_squared if task == "regression" else POLICY.perfect
    perfect = losses[best].mean() < limit * losses["base-rate"].mean()
    perfect |= task == "classification" and scores[0].second[0] == 1
    measures = ("log-loss", "accuracy")
    if task == "regression":
        expected = _root(expected)
        measures = ("RMSE", "R²") if math.isinf(huber) else ("Huber error", "robust R²")
    return Comparison(
        task, int(known.sum()), int((~known).sum()), len(judged), len(folds), split.words, measures,
        scores, chosen, _why(scores, chosen, wanted), expected,
        bool(perfect and len(y) >= 2 * POLICY.fewest),
    )  # fmt: skip


def _interval(values: Array, groups: Array, least: float = -math.inf) -> Triple:
    """Return a mean and its interval, over groups whose rows may resemble each other."""
    n, mean = len(values), float(values.mean())
    sums = np.bincount(groups, values - mean)
    m = len(sums)
    deviation = math.sqrt(m / max(m - 1, 1) * float(sums @ sums)) / n
    reach = float(scipy.stats.t.ppf((1 + LEVEL) / 2, max(m - 1, 1))) * deviation
    return mean, max(mean - reach, least), mean + reach


def _share(right: Array, groups: Array) -> Triple:
    """Return a share and its interval, which lies between 0 and 1."""
    if len(np.unique(groups)) < len(right):
        value, low, high = _interval(right, groups, 0.0)
        return value, low, min(high, 1.0)
    ends = scipy.stats.binomtest(int(right.sum()), len(right)).proportion_ci(LEVEL, "wilson")
    return float(right.mean()), float(ends.low), float(ends.high)


def _root(values: Triple) -> Triple:
    a, b, c = (math.sqrt(max(value, 0.0)) for value in values)
    return a, b, c


def _expected_of_best(losses: Array, groups: Array, seed: int) -> Triple:
    """Return the mean loss of the lowest of several, corrected for having been chosen.

    Groups of rows are drawn with replacement. How much lower the lowest is on them than the model
    that is lowest on all rows, and how much higher it is on all rows, add up to the optimism of the
    choice (Efron's bootstrap of an optimism, with the difference to one model, which varies less).
    """
    means, count, times = losses.mean(axis=0), int(groups.max()) + 1, POLICY.resamples
    sums = np.column_stack([np.bincount(groups, column) for column in losses.T])
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=times)
    drawn = (drawn @ sums) / (drawn @ np.bincount(groups))[:, None]
    lowest, best = np.argmin(drawn, axis=1), int(np.argmin(means))
    gain = drawn[:, best] - drawn[np.arange(times), lowest]
    optimism = float(np.mean(gain + means[lowest] - means[best]))
    value, low, high = (end + optimism for end in _interval(losses[:, best], groups))
    return value, max(low, 0.0), high


def _why(scores: Sequence[Score], chosen: str, wanted: str) -> str:
    """Return why a model is written."""
    best, second = scores[0], scores[1]
    if wanted != "best" and chosen != best.model:
        return f"{chosen} is written because --model asks for it; {best.model} was better."
    text, (low, high) = f"{chosen} is written: it has the lowest held-out loss", second.gap[1:]
    if low > 0:
        return f"{text}, and {second.model} is worse by more than chance explains."
    return f"{text}. {second.model} is within chance of it ({low:+.2g} to {high:+.2g} a row)."
