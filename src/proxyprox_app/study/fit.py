"""A table and the column to predict: models compared on held-out rows, and the one to keep.

Labels are the scarce part: rows without one are the proxy. Every model is judged on labelled rows
that neither it nor the columns' encoding has seen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from proxyprox import __version__
from proxyprox.problems.families import FAMILIES
from proxyprox_app.study import model_file
from proxyprox_app.study.columns import DECIMALS, Columns, as_text, plain_object, yes_or_no
from proxyprox_app.study.model_file import ModelFileError
from proxyprox_app.study.tables import (
    DataError,
    Finding,
    decimal_mark,
    distinct,
    is_coded,
    no_column,
    to_numbers,
)

Frame = Any
Array = Any

TASKS = ("classification", "regression")
# Labels without which nothing is fitted; labels of a class without which it is left out.
FEWEST, FEWEST_OF_CLASS = 10, 3
# Whole numbers up to which a target is taken for classes, and classes of a text that are too many.
FEW_VALUES, MOST_CLASSES = 10, 50
FOLDS = 5
# Resamples of the held-out losses that say how optimistic it is to choose the best.
RESAMPLES = 1000
LEVEL = 0.95

MODELS = {
    "proxyprox": "labels, with all rows as proxy",
    "scikit-learn": "labels alone, ridge penalty by cross-validation",
    "erm": "labels alone, no penalty",
    "base-rate": "the same for every row",
}


class Target(NamedTuple):
    """What is to be predicted: text classes or numbers, missing if there is no label."""

    name: str
    task: str
    y: Any
    findings: list[Finding]
    decimal: str = ""

    @property
    def known(self) -> Array:
        """Which rows have a label."""
        return self.y.notna().to_numpy()


def read_target(
    frame: Frame, name: str, task: str | None = None, decimals: Mapping[str, str] | None = None
) -> Target:
    """Return the column to predict.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    name : str
        The column.
    task : {"classification", "regression"}, optional
        Default: numbers of more than ten values are regressed, everything else is classes.
    decimals : mapping of str to str, optional
        What decimals were behind in the file; by default, what the cells of text tell.
    """
    if name not in frame:
        raise DataError(no_column(name, frame))
    cells, findings = frame[name], list[Finding]()

    def find(text: str, fatal: bool = False) -> None:
        findings.append(Finding(name, text, fatal))

    text = as_text(cells)
    decimal = (decimals or {}).get(name, "")
    if cells.dtype.kind == "O" and not decimal:
        decimal = decimal_mark(plain_object(cells))
    numeric = to_numbers(plain_object(cells), decimal)
    known, values = int(text.notna().sum()), numeric.dropna()
    whole = bool((values == values.round()).all())
    many = not whole or values.nunique() > FEW_VALUES
    share = len(values) / max(known, 1)
    auto, coded = task is None, is_coded(text) if cells.dtype.kind not in "iuf" else ""
    if task is None:
        task = "regression" if many and share >= 0.9 and not coded else "classification"
        if coded and share:
            find(f"{coded}: taken for classes (--task regression?).")
        if task == "classification" and share == 1 and values.nunique() > 2:
            find(f"{values.nunique()} whole numbers, taken for classes (--task regression?).")
    if task == "regression":
        y = numeric
        bad = text[numeric.isna()].dropna()
        if len(bad):
            what = f"{len(bad)} cells such as {bad.iloc[0]!r} are no numbers"
            find(f"{what}: taken as rows without a label.", fatal=share < 0.9)
        if len(values) and values.nunique() == 1:
            find(f"the same in every row, {values.iloc[0]:g}: nothing to learn.", fatal=True)
    else:
        y = yes_or_no(text)
        spellings = sorted(set(text.dropna()) - set(y.dropna()))
        if spellings:
            find(f"{', '.join(spellings[:6])} are read as yes or no.")
        y = _without_rare(y, find)
        if y.nunique() > MOST_CLASSES:
            more = " Is it the right column?" if auto else ""
            find(f"{y.nunique():,} classes are too many (at most {MOST_CLASSES}).{more}", True)
        elif y.nunique() < 2:
            got = f"one class, {y.dropna().iloc[0]!r}" if y.notna().any() else "no label"
            find(f"holds {got}; two are needed, of {FEWEST_OF_CLASS} labels each.", fatal=True)
    if (labels := int(y.notna().sum())) < FEWEST:
        find(f"{labels} labels are too few, {FEWEST} at least.", fatal=True)
    return Target(name, task, y, findings, decimal if task == "regression" else "")


def _without_rare(y: Any, find: Callable[..., None]) -> Any:
    """Return classes, without those that have too few labels to be held out."""
    counts = y.value_counts()
    rare = counts[counts < FEWEST_OF_CLASS].index.tolist()
    if rare and len(counts) - len(rare) >= 2:
        shown = ", ".join(map(repr, rare[:5])) + (" …" if len(rare) > 5 else "")
        find(f"fewer than {FEWEST_OF_CLASS} labels of {shown}: taken as rows without a label.")
        return y.where(~y.isin(rare), None)
    if (lower := y.dropna().str.lower()).nunique() < y.nunique():
        odd = sorted(set(y.dropna()[lower.isin(lower[y.dropna() != lower])]))
        find(f"classes that differ in upper and lower case only: {', '.join(odd[:4])}.")
    return y


# -- models ---------------------------------------------------------------------------------------


def make_model(name: str, task: str, folds: int = FOLDS) -> Any:
    """Return an unfitted estimator, whose own cross-validation has this many folds."""
    from sklearn import linear_model
    from sklearn.dummy import DummyClassifier, DummyRegressor

    from proxyprox.sklearn import ProxyLogisticRegression, ProxyRidge

    strengths = np.logspace(-4, 4, 13)
    if task == "regression":
        regressors: dict[str, Any] = {
            "proxyprox": ProxyRidge,
            "scikit-learn": lambda: linear_model.RidgeCV(alphas=strengths),
            "erm": linear_model.LinearRegression,
            "base-rate": DummyRegressor,
        }
        return regressors[name]()
    classifiers: dict[str, Any] = {
        "proxyprox": lambda: ProxyLogisticRegression(unlabelled=None),
        "scikit-learn": lambda: linear_model.LogisticRegressionCV(
            Cs=strengths, scoring="neg_log_loss", max_iter=2000, cv=folds
        ),
        "erm": lambda: linear_model.LogisticRegression(C=np.inf, max_iter=2000),
        "base-rate": lambda: DummyClassifier(strategy="prior"),
    }
    return classifiers[name]()


def fit_model(name: str, task: str, X: Array, y: Array, others: Array) -> Any:
    """Return a fitted model; only ours looks at the rows without a label."""
    folds = FOLDS
    if task != "regression":
        # A fold that lacks a class cannot be scored.
        folds = max(2, min(FOLDS, int(np.unique(y, return_counts=True)[1].min())))
    model = make_model(name, task, folds)
    with warnings.catch_warnings():
        # Convergence, and what newer releases will name otherwise.
        warnings.simplefilter("ignore")
        if name == "proxyprox":
            return model.fit(X, y, X_proxy=others if len(others) else None)
        return model.fit(X, y)


def losses_of(model: Any, task: str, X: Array, y: Array) -> tuple[Array, Array]:
    """Return each row's loss, and its other measure: whether the class is right, or nothing."""
    if task == "regression":
        error = (model.predict(X) - y) ** 2
        return error, error
    places = {str(label): place for place, label in enumerate(model.classes_)}
    chances = model.predict_proba(X)
    own = np.array(
        [chances[i, places[label]] if label in places else 0.0 for i, label in enumerate(y)]
    )
    right = np.asarray(model.predict(X)).astype(str) == y
    return -np.log(np.maximum(own, 1e-15)), right.astype(np.float64)


# -- comparison on held-out rows ------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """What a model does on held-out rows: the loss that decides and a second measure.

    ``loss`` and ``second`` are an estimate and the ends of its interval; ``gap`` is how much
    larger the loss is than the lowest, row by row.
    """

    model: str
    loss: tuple[float, float, float]
    second: tuple[float, float, float]
    gap: tuple[float, float, float]


@dataclass(frozen=True)
class Comparison:
    """Models on held-out rows, best first, and what is to be expected of choosing the best.

    Attributes
    ----------
    scores : list of Score
    chosen, why : str
        The model to keep, and the reason.
    expected : tuple of three floats
        The lowest loss with its interval, without the optimism of having chosen it: the lowest of
        several is too low on the rows it was chosen by.
    """

    task: str
    labels: int
    unlabelled: int
    folds: int
    scores: list[Score]
    chosen: str
    why: str
    expected: tuple[float, float, float]

    @property
    def measures(self) -> tuple[str, str]:
        """The names of the loss and of the second measure."""
        return ("RMSE", "R²") if self.task == "regression" else ("log-loss", "accuracy")


def compare_models(
    frame: Frame,
    columns: Columns,
    target: Target,
    wanted: str = "best",
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Comparison:
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

    Returns
    -------
    comparison : Comparison
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    known = np.flatnonzero(target.known)
    y = _labels(target)
    if target.task == "regression":
        splitter: Any = KFold(FOLDS, shuffle=True, random_state=seed)
    else:
        smallest = int(np.unique(y[known], return_counts=True)[1].min())
        splitter = StratifiedKFold(min(FOLDS, smallest), shuffle=True, random_state=seed)
    losses = {name: np.empty(len(known)) for name in MODELS}
    seconds = {name: np.empty(len(known)) for name in MODELS}
    splits = list(splitter.split(known, y[known]))
    for fold, (train, test) in enumerate(splits, start=1):
        progress(f"held-out rows: fold {fold} of {len(splits)}")
        # The rows held out are in nothing: not in the encoding, not in the proxy.
        seen = np.setdiff1d(np.arange(len(frame)), known[test])
        made = columns.refit(frame.iloc[seen])
        own, others, held_out = (
            made.transform(frame.iloc[rows]) if len(rows) else np.empty((0, 1))
            for rows in (known[train], np.setdiff1d(seen, known[train]), known[test])
        )
        for name in MODELS:
            model = fit_model(name, target.task, own, y[known[train]], others)
            found = losses_of(model, target.task, held_out, y[known[test]])
            losses[name][test], seconds[name][test] = found
    matrix = np.column_stack([losses[name] for name in MODELS])
    names = list(MODELS)
    best = names[int(np.argmin(matrix.mean(axis=0)))]
    spread = float(np.var(y[known])) if target.task == "regression" else 1.0
    scores = []
    for name in sorted(names, key=lambda name: losses[name].mean()):
        loss = _not_negative(_interval(losses[name]))
        gap = _interval(losses[name] - losses[best])
        if target.task == "regression":
            second = tuple(1 - value / spread for value in (loss[0], loss[2], loss[1]))
            loss = _root(loss)
        else:
            right = seconds[name]
            ends = scipy.stats.binomtest(int(right.sum()), len(right)).proportion_ci(
                LEVEL, method="wilson"
            )
            second = (float(right.mean()), float(ends.low), float(ends.high))
        scores.append(Score(name, loss, second, gap))  # type: ignore[arg-type]
    expected = _expected_of_best(matrix, seed)
    chosen = best if wanted == "best" else wanted
    why = _why(scores, chosen, wanted)
    return Comparison(
        target.task, len(known), len(frame) - len(known), len(splits), scores, chosen, why,
        _root(expected) if target.task == "regression" else expected,
    )  # fmt: skip


def _labels(target: Target) -> Array:
    if target.task == "regression":
        return target.y.to_numpy(dtype=np.float64)
    return target.y.fillna("").to_numpy(dtype=str)


def _interval(values: Array) -> tuple[float, float, float]:
    n, mean = len(values), float(values.mean())
    reach = float(scipy.stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return mean, mean - reach, mean + reach


def _not_negative(values: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = values
    return value, max(low, 0.0), high


def _root(values: tuple[float, float, float]) -> tuple[float, float, float]:
    a, b, c = (math.sqrt(max(value, 0.0)) for value in values)
    return a, b, c


def _expected_of_best(losses: Array, seed: int) -> tuple[float, float, float]:
    """Return the mean loss of the lowest of several, corrected for having been chosen.

    Rows are drawn with replacement. How much lower the lowest is on them than the model that is
    lowest on all rows, and how much higher it is on all rows, add up to the optimism of the choice
    (Efron's bootstrap of an optimism, with the difference to one model, which varies less).
    """
    n, means = len(losses), losses.mean(axis=0)
    shares = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    drawn, best = shares @ losses, int(np.argmin(means))
    lowest = np.argmin(drawn, axis=1)
    gain = drawn[:, best] - drawn[np.arange(RESAMPLES), lowest]
    optimism = float(np.mean(gain + means[lowest] - means[best]))
    value, low, high = (end + optimism for end in _interval(losses[:, best]))
    return _not_negative((value, low, high))


def _why(scores: Sequence[Score], chosen: str, wanted: str) -> str:
    """Return why a model is written."""
    best, second = scores[0], scores[1]
    if wanted != "best" and chosen != best.model:
        return f"{chosen} is written because --model asks for it; {best.model} was better."
    text = f"{chosen} is written: it has the lowest held-out loss"
    low, high = second.gap[1:]
    if low > 0:
        return f"{text}, and {second.model} is worse by more than chance explains."
    return f"{text}. {second.model} is within chance of it ({low:+.2g} to {high:+.2g} a row)."


# -- the model that is kept -----------------------------------------------------------------------


@dataclass
class TableModel:
    """A fitted model with what its table's columns become: from a raw table to predictions.

    Attributes
    ----------
    columns : Columns
        What the columns become.
    estimator : FittedGLM
        The weights.
    target, task : str
        The column that is predicted, "classification" or "regression".
    about : dict
        What a reader wants to know: the model's name, held-out scores, versions.
    decimal : str
        What the decimals of the labels are behind, "" if they did not need it.
    """

    columns: Columns
    estimator: FittedGLM
    target: str
    task: str
    about: dict[str, Any] = field(default_factory=dict)
    decimal: str = ""

    @property
    def texts(self) -> list[str]:
        """Columns whose cells are not to be read as numbers of their own accord."""
        return [*self.columns.texts, *([self.target] if self.decimal else [])]

    @property
    def classes(self) -> list[str]:
        """The classes, as text; none of a regression."""
        found = [] if self.task == "regression" else list(self.estimator.classes_)
        return [str(each) for each in found]

    def predict(
        self, frame: Frame, absent: bool = False, cells: Frame | None = None
    ) -> tuple[Frame, list[Finding]]:
        """Return a table of predictions, and what is odd about the rows.

        Parameters
        ----------
        frame : pandas.DataFrame
            Rows with the columns of the fit, in any order, perhaps with others.
        absent : bool
            Whether columns may be absent, which then count as empty.
        cells : pandas.DataFrame, optional
            The same rows as they stand in their file, for the columns that identify them.
        """
        import pandas as pd

        X, findings = self.columns.transform_with_findings(frame, absent)
        given = frame if cells is None else cells
        own = [name for name in self.columns.identifiers if name in given]
        made = [given[name].to_numpy(dtype=object, na_value=None) for name in own]
        made += [self.estimator.predict(X), np.arange(1, len(frame) + 1)]
        if self.task != "regression":
            made += list(self.estimator.predict_proba(X).T)
        # The names of the file stay; those that are added give way.
        names = [*own, self.target, "row", *(f"P({self.target} = {c})" for c in self.classes)]
        shown = dict(zip(distinct(names, findings), made, strict=True))
        order = list(shown)
        order.insert(0, order.pop(len(own) + 1))
        return pd.DataFrame(shown, index=frame.index)[order], findings

    def score(self, frame: Frame, absent: bool = False) -> dict[str, float] | None:
        """Return how good the predictions are where rows have a label; None if none has."""
        if self.target not in frame:
            return None
        cells = frame[self.target]
        if self.task == "regression":
            marks = self.columns.decimals(frame, self.target, self.decimal)
            y = to_numbers(plain_object(cells), marks.get(self.target, ""))
        else:
            text = yes_or_no(as_text(cells))
            y = text.where(text.isin(self.classes))
        known = y.notna().to_numpy()
        if not known.any():
            return None
        X, _ = self.columns.transform_with_findings(frame[known], absent)
        labels = y[known].to_numpy(dtype=np.float64 if self.task == "regression" else str)
        loss, right = losses_of(self.estimator, self.task, X, labels)
        count = {"labels": float(known.sum())}
        if self.task == "regression":
            spread = float(np.var(labels)) or math.nan
            return {**count, "RMSE": math.sqrt(loss.mean()), "R²": 1 - float(loss.mean()) / spread}
        return {**count, "log-loss": float(loss.mean()), "accuracy": float(right.mean())}

    def coefficients(self) -> list[dict[str, Any]]:
        """Return the coefficients by name, per unit of the raw column, widest effect first.

        Those of text are left out: only together they mean something. ``effect`` is the standard
        deviation of the column's part of the prediction, over the rows of the fit.
        """
        coef = np.atleast_2d(getattr(self.estimator, "coef_", np.empty((0, 0))))
        if coef.shape[1] != len(self.columns.feature_names):
            return []
        kinds = {column.name: column.kind for column in self.columns.columns}
        units, found = self.columns.scales[self.columns.kept], []
        intervals = self.about.get("intervals")
        for j, (name, source) in enumerate(
            zip(self.columns.feature_names, self.columns.sources, strict=True)
        ):
            if kinds[source] == "text":
                continue
            values = (coef[:, j] / units[j]).tolist()
            row: dict[str, Any] = {"name": name, "column": source}
            row["coefficient"] = (
                values[0] if len(values) == 1 else dict(zip(self.classes, values, strict=True))
            )
            if intervals and len(values) == 1:
                low, high = (end[j] for end in intervals)
                if low is not None and high is not None:
                    row |= {"low": low / units[j], "high": high / units[j]}
            found.append(row)
        return found

    def effects(self, X: Array) -> dict[str, float]:
        """Return the standard deviation of every column's part of the linear predictor."""
        coef = np.atleast_2d(getattr(self.estimator, "coef_", np.empty((0, 0))))
        if coef.shape[1] != X.shape[1]:
            return {}
        sources, found = np.array(self.columns.sources), {}
        for source in dict.fromkeys(self.columns.sources):
            mine = sources == source
            found[source] = float((X[:, mine] @ coef[:, mine].T).std(axis=0).max())
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def save(self, path: Path) -> None:
        """Write the model to a file of texts and numbers, whole or not at all.

        Raises
        ------
        ModelFileError
            For an estimator that is not a :class:`FittedGLM`.
        """
        if type(self.estimator) is not FittedGLM:
            got = type(self.estimator).__name__
            raise ModelFileError(f"{path.name}: only a FittedGLM can be saved, not a {got}.")
        glm = self.estimator
        estimator = {"family": glm.family, "classes": list(glm.classes_)}
        estimator |= {"coef": glm.coef_.tolist(), "intercept": glm.intercept_.tolist()}
        model: dict[str, Any] = {"format": model_file.FORMAT}
        model |= {"target": self.target, "task": self.task, "decimal": self.decimal}
        model |= {"about": self.about, "estimator": estimator, "columns": self.columns.state()}
        model_file.write(path, model)

    @classmethod
    def load(cls, path: Path) -> TableModel:
        """Return a model that :meth:`save` wrote; no code of the file is run.

        Raises
        ------
        ModelFileError
            For any other file.
        """
        model = model_file.read(path)
        given = model["estimator"]
        try:
            columns = Columns.from_state(model["columns"])
            glm = FittedGLM(
                given["family"], given["classes"], np.array(given["coef"], dtype=np.float64),
                np.array(given["intercept"], dtype=np.float64),
            )  # fmt: skip
            glm.check(model["task"], len(columns.feature_names))
            if model["decimal"] not in DECIMALS:
                raise ValueError(f"the labels have the decimal mark {model['decimal']!r}")
        except (ValueError, OverflowError) as error:
            raise model_file.refusal(path, str(error)) from error
        about, decimal = model["about"], model["decimal"]
        return cls(columns, glm, model["target"], model["task"], about, decimal)


@dataclass
class FittedGLM:
    """The weights of a generalised linear model, as an estimator that only predicts.

    Attributes
    ----------
    family : str
        One of ``FAMILIES``.
    classes_ : list
        Of a classifier.
    coef_, intercept_ : arrays of shape (outputs, columns) and (outputs,)
        Of a model that looks at no column, `coef_` has the shape (outputs, 0).
    """

    family: str
    classes_: list[Any]
    coef_: Array
    intercept_: Array

    @classmethod
    def of(cls, model: Any, task: str) -> FittedGLM:
        """Return the weights of a fitted linear model of scikit-learn or of this package."""
        classes = [] if task == "regression" else [str(each) for each in model.classes_]
        family = "linear" if not classes else "logistic" if len(classes) == 2 else "softmax"
        if hasattr(model, "coef_"):
            coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        else:  # the same for every row
            prior = getattr(model, "class_prior_", None)
            logs = np.ravel(model.constant_) if prior is None else np.log(prior)
            intercept = np.diff(logs) if family == "logistic" else logs
            coef = np.empty((len(intercept), 0))
        return cls(family, classes, coef.astype(np.float64), intercept.astype(np.float64))

    def check(self, task: str, columns: int) -> None:
        """Raise ValueError if the parts do not fit together."""
        if self.family not in FAMILIES:
            raise ValueError(f"the family is {self.family!r}, not one of {', '.join(FAMILIES)}")
        kind, count = FAMILIES[self.family], len(self.classes_)
        outputs = count if self.family == "softmax" else 1
        named = count >= 2 and (outputs > 1 or count == 2) if kind.classifier else not count
        if not named or len(set(map(str, self.classes_))) < count:
            raise ValueError(f"the classes of {self.family} are {str(self.classes_)[:80]}")
        if task != ("classification" if kind.classifier else "regression"):
            raise ValueError(f"the task is {task!r}, but the family {self.family!r}")
        coef = self.coef_
        if coef.shape not in ((outputs, columns), (outputs, 0)):
            raise ValueError(f"'coef' has the shape {coef.shape}, not {(outputs, columns)}")
        if self.intercept_.shape != (outputs,):
            raise ValueError(f"'intercept' has the shape {self.intercept_.shape}, not ({outputs},)")
        if not (np.isfinite(coef).all() and np.isfinite(self.intercept_).all()):
            raise ValueError("a coefficient is not finite")

    def _means(self, X: Array) -> Array:
        kind: Any = FAMILIES[self.family]
        family = kind(tuple(self.classes_)) if kind.classifier else kind()
        z = X[:, : self.coef_.shape[1]] @ self.coef_.T + self.intercept_
        return np.asarray(family.mean(z if z.shape[1] > 1 else z[:, 0]))

    def predict_proba(self, X: Array) -> Array:
        """Return the probability of each class."""
        means = self._means(X)
        return np.column_stack([1 - means, means]) if means.ndim == 1 else means

    def predict(self, X: Array) -> Array:
        """Return the likeliest class, or the expected label, of each row."""
        if not FAMILIES[self.family].classifier:
            return self._means(X)
        return np.array(self.classes_)[self.predict_proba(X).argmax(axis=1)]


def fit_all(frame: Frame, columns: Columns, target: Target, found: Comparison) -> TableModel:
    """Return the chosen model, fitted to all labels, and encoded by all rows.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    columns : Columns
        What its columns become, planned.
    target : Target
        What to predict.
    found : Comparison
        Which model to fit.
    """
    made, known, y = columns.refit(frame), target.known, _labels(target)
    X = made.transform(frame)
    about: dict[str, Any] = {"model": found.chosen, "proxyprox": __version__}
    estimator = fit_model(found.chosen, target.task, X[known], y[known], X[~known])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if found.chosen == "proxyprox" and np.ndim(estimator.coef_) * len(estimator.coef_) != 0:
            interval = estimator.confidence_interval(LEVEL)
            low, high = np.atleast_2d(interval.low), np.atleast_2d(interval.high)
            if len(low) == 1:
                ends = [np.where(np.isfinite(high - low), end, np.nan)[0] for end in (low, high)]
                # JSON has no infinite numbers.
                about["intervals"] = [
                    [None if math.isnan(value) else value for value in end.tolist()] for end in ends
                ]
            about["note"] = estimator.inference_note_
        if found.chosen == "proxyprox" and (~known).any():
            mean = estimator.mean_prediction(X[~known], LEVEL)
            if all(np.isfinite(each).all() for each in mean):
                about["mean"] = [np.asarray(each).tolist() for each in mean]
    glm = FittedGLM.of(estimator, target.task)
    model = TableModel(made, glm, target.name, target.task, about, target.decimal)
    about["effects"] = model.effects(X)
    return model
