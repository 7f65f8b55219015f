"""The model that is kept: from a raw table to predictions, in a file that holds nothing to run.

A model file is JSON: texts, numbers and lists of them. A model is rebuilt by this package's own
code from the numbers in its file. Nothing in a file names a type, a module or a function. Every
value is compared with :class:`ModelFile` before it is used. A digest tells damage; it is no
protection against somebody who writes a file on purpose.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from proxyprox import __version__
from proxyprox._util.files import atomic_write_bytes
from proxyprox.problems.families import FAMILIES
from proxyprox_app import fit
from proxyprox_app.columns import Column, Columns, Exact, Number, plain_object, yes_or_no
from proxyprox_app.tables import DataError, Finding, Mark, as_text, distinct, to_numbers

Frame = Any
Array = Any

NAME = "model.json"
FORMAT = "proxyprox table model 3"

# -- files ----------------------------------------------------------------------------------------


class _Learned(Exact):
    levels: list[str] = Field([])
    hours: bool = False
    terms: list[str] = Field([])
    idf: list[Number] = Field([])
    directions: list[list[Number]] = Field([])


class _Columns(Exact):
    columns: list[Column]
    learned: dict[str, _Learned]
    gaps: list[str]
    decimal: Mark
    medians: list[Number]
    centres: list[Number]
    scales: list[Number]
    kept: list[bool]


class _Estimator(Exact):
    family: str
    classes: list[str | bool | Number]
    coef: list[list[Number]]
    intercept: list[Number]


class ModelFile(Exact):
    """What a file holds; ``about`` is what a reader may want to know, no prediction needs it."""

    format: Literal["proxyprox table model 3"]
    target: str
    task: Literal["classification", "regression"]
    about: dict[str, Any]
    estimator: _Estimator
    columns: _Columns


class ModelFileError(DataError):
    """A file is no model of ``proxyprox run``; nothing in it was used."""


def _digest(model: dict[str, Any]) -> str:
    text = json.dumps(model, allow_nan=False).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def seal(model: dict[str, Any]) -> str:
    """Return the text of a file: the model, and a digest of it by which damage is noticed."""
    return json.dumps({"digest": _digest(model), **model}, separators=(",", ":"))


def read(path: Path) -> dict[str, Any]:
    """Return what :func:`write` has written; no code of the file is run.

    Parameters
    ----------
    path : Path
        The file, or the folder that holds it.

    Raises
    ------
    ModelFileError
        For any other file; the message says what was found, what is allowed and what to do.
    """
    if path.is_dir():
        path /= NAME
    try:
        model = json.loads(path.read_bytes())
        if not isinstance(model, dict) or model.get("format") != FORMAT:
            got = model.get("format") if isinstance(model, dict) else model
            raise ValueError(f"its format is {str(got)[:40]!r}, not {FORMAT!r}")
        if model.pop("digest", None) != _digest(model):
            raise ValueError("it differs from its own digest, so it was damaged or changed")
        json.dumps(model, ensure_ascii=False).encode()  # no half of a character
        return _checked(model)
    except (ValueError, RecursionError) as error:
        reason = "not JSON" if isinstance(error, UnicodeDecodeError) else str(error)
        raise refusal(path, reason) from error


def _checked(model: dict[str, Any]) -> dict[str, Any]:
    try:
        ModelFile.model_validate(model)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place} is {str(first['input'])[:40]!r}: {first['msg']}") from None
    return model


def refusal(path: Path, reason: str) -> ModelFileError:
    """Return the error for a file that is no model."""
    return ModelFileError(
        f"{path.name}: not a model that proxyprox run has written: {reason[:500].rstrip('.')}. "
        f"Fit the model again: proxyprox run TABLE --target COLUMN writes {NAME}."
    )


# -- the model ------------------------------------------------------------------------------------


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
    """

    columns: Columns
    estimator: FittedGLM
    target: str
    task: str
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> list[str]:
        """The classes, as text; none of a regression."""
        return list(map(str, self.estimator.classes_))

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
        if self.classes:
            made += list(self.estimator.predict_proba(X).T)
        # The names of the file stay; those that are added give way.
        names = [*own, self.target, "row", *(f"P({self.target} = {c})" for c in self.classes)]
        shown = dict(zip(distinct(names, findings), made, strict=True))
        order = list(shown)
        order.insert(0, order.pop(len(own) + 1))
        return pd.DataFrame(shown, index=frame.index)[order], findings

    def score(self, frame: Frame, absent: bool = False) -> dict[str, Any] | None:
        """Return how good the predictions are where rows have a label; None if none has."""
        if self.target not in frame:
            return None
        cells, classes = frame[self.target], sorted(self.classes)
        if classes:
            y = yes_or_no(as_text(cells), classes)
            y = y.where(y.isin(classes))
        else:
            y = to_numbers(plain_object(cells), self.columns.decimal)
        known = y.notna().to_numpy()
        if not known.any():
            return None
        X, _ = self.columns.transform_with_findings(frame[known], absent)
        labels = y[known].to_numpy(dtype=str if classes else np.float64)
        outputs = fit.outputs_of(self.estimator, self.task, X, classes)
        loss = float(fit.losses_of(self.task, outputs, labels, classes).mean())
        if classes:
            right = np.array(classes)[outputs.argmax(axis=1)] == labels
            found = {"log-loss": loss, "accuracy": float(right.mean())}
        else:
            spread = float(np.var(labels)) or math.nan
            found = {"RMSE": math.sqrt(loss), "R²": 1 - loss / spread}
        more = fit.more_measures(self.task, outputs, labels, classes)
        return {"labels": int(known.sum()), **found, **more}

    def coefficients(self) -> list[dict[str, Any]]:
        """Return the coefficients by name, per unit of the raw column.

        Those of text are left out: only together they mean something.
        """
        coef, found = self.estimator.coef_, list[dict[str, Any]]()
        if coef.shape[1] == 0:
            return found
        kinds = {column.name: column.kind for column in self.columns.columns}
        units = self.columns.scales[self.columns.kept]
        lows, highs = self.about.get("intervals") or ([None] * len(units),) * 2
        names = zip(self.columns.feature_names, self.columns.sources, strict=True)
        for j, (name, source) in enumerate(names):
            if kinds[source] == "text":
                continue
            values: Any = (coef[:, j] / units[j]).tolist()
            single = len(values) == 1
            value = values[0] if single else dict(zip(self.classes, values, strict=True))
            found.append({"name": name, "column": source, "coefficient": value})
            if single and lows[j] is not None and highs[j] is not None:
                found[-1] |= {"low": lows[j] / units[j], "high": highs[j] / units[j]}
        return found

    def effects(self, X: Array) -> dict[str, float]:
        """Return the standard deviation of every column's part of the prediction, widest first."""
        coef, sources, found = self.estimator.coef_, np.array(self.columns.sources), {}
        for source in dict.fromkeys(self.columns.sources) if coef.shape[1] else ():
            mine = sources == source
            found[source] = float((X[:, mine] @ coef[:, mine].T).std(axis=0).max())
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def save(self, path: Path) -> None:
        """Write the model to a file of texts and numbers, whole or not at all.

        Raises
        ------
        ModelFileError
            For what a file cannot hold.
        """
        glm = self.estimator
        estimator = {
            "family": glm.family, "classes": list(glm.classes_), "coef": glm.coef_.tolist(),
            "intercept": glm.intercept_.tolist(),
        }  # fmt: skip
        model = {"format": FORMAT, "target": self.target, "task": self.task, "about": self.about}
        model |= {"estimator": estimator, "columns": self.columns.state()}
        try:
            text = seal(_checked(model))
        except (ValueError, TypeError) as error:
            raise ModelFileError(f"{path.name}: the model cannot be saved: {error}.") from error
        atomic_write_bytes(path, text.encode("ascii"))

    @classmethod
    def load(cls, path: Path) -> TableModel:
        """Return a model that :meth:`save` wrote; no code of the file is run.

        Raises
        ------
        ModelFileError
            For any other file.
        """
        model = read(path)
        given = model["estimator"]
        try:
            columns = Columns.from_state(model["columns"])
            coef, intercept = (np.array(given[n], dtype=np.float64) for n in ("coef", "intercept"))
            glm = FittedGLM(given["family"], given["classes"], coef, intercept)
            glm.check(model["task"], len(columns.feature_names))
        except (ValueError, OverflowError) as error:
            raise refusal(path, str(error)) from error
        return cls(columns, glm, model["target"], model["task"], model["about"])


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
            logs = np.log(model.class_prior_) if classes else np.ravel(model.constant_)
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
        coef, intercept = self.coef_, self.intercept_
        for what, right in {
            f"classes {str(self.classes_)[:80]}": named
            and len({*map(str, self.classes_)}) == count,
            f"task {task!r}": task == ("classification" if kind.classifier else "regression"),
            f"coef of shape {coef.shape}": coef.shape in ((outputs, columns), (outputs, 0)),
            f"intercept of shape {intercept.shape}": intercept.shape == (outputs,),
            "numbers that are not finite": np.isfinite(coef).all() and np.isfinite(intercept).all(),
        }.items():
            if not right:
                raise ValueError(f"a {self.family} model of {columns} columns has {what}")

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
        if not self.classes_:
            return self._means(X)
        return np.array(self.classes_)[self.predict_proba(X).argmax(axis=1)]


def fit_all(frame: Frame, columns: Columns, target: fit.Target, best: fit.Comparison) -> TableModel:
    """Return the chosen model of a comparison, fitted to all labels, and encoded by all rows."""
    made, known, y = columns.refit(frame), target.known, target.labels
    X = made.transform(frame)
    about: dict[str, Any] = {"model": best.chosen, "proxyprox": __version__}
    estimator = fit.fit_model(best.chosen, target.task, X[known], y[known], X[~known])
    glm = FittedGLM.of(estimator, target.task)
    if best.chosen == "proxyprox" and len(glm.coef_) == 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interval = estimator.confidence_interval(fit.LEVEL)
        low, high = np.ravel(interval.low), np.ravel(interval.high)
        # JSON has no infinite numbers.
        ends = [np.where(np.isfinite(high - low), end, np.nan).tolist() for end in (low, high)]
        about["intervals"] = [[None if x != x else x for x in end] for end in ends]
    model = TableModel(made, glm, target.name, target.task, about)
    about["effects"] = model.effects(X)
    return model
