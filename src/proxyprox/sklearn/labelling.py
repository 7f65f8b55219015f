"""Labels bought one at a time: which row next, and a journal that loses nothing."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, check_array

from proxyprox._util import journal as durable
from proxyprox._util import validation as check
from proxyprox._util.arrays import digest
from proxyprox._util.files import LockedError, locked
from proxyprox._util.text import printable
from proxyprox._util.validation import message
from proxyprox.sklearn.estimators import ProxyGLM
from proxyprox.sklearn.inputs import FLOATS, is_missing

Array = Any
Entry = dict[str, Any]
CRITERIA = ("uniform", "margin")
UNIFORM = 0.25  # share of uniform draws beside those of "margin"


# -- the pool and the fit -----------------------------------------------------------------------


def pool_of(X: Any, estimator: Any) -> Any:
    """Return the pool as it is kept, and refuse what no fit to bought labels could use."""
    if not isinstance(estimator, ProxyGLM):
        allowed, remedy = "one of this package's estimators", "Transform X before it is a pool."
        raise TypeError(message("estimator", type(estimator).__name__, allowed, remedy))
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    elif not (hasattr(X, "iloc") and all(isinstance(name, str) for name in X.columns)):
        X = np.asarray(X)
    # What the fit would refuse is refused before anything is paid for.
    try:
        check_array(X, accept_sparse="csr", dtype=FLOATS, input_name="X")
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(message("X", X, "a table of numbers", f"{error}")) from error
    return X


def fit_to_labels(estimator: Any, X: Any, bought: Array, y: Array, teacher: Array | None) -> Any:
    """Return a clone fitted to the bought rows, with a teacher's answers on the others."""
    model = clone(estimator)
    if hasattr(model, "unlabelled"):
        model.set_params(unlabelled=None)
    own, rest = _safe_indexing(X, bought), np.setdiff1d(np.arange(X.shape[0]), bought)
    if teacher is None:
        return model.fit(own, y)
    # Answers that no label can confirm yet, and rows without one, are left out.
    known = np.isin(teacher, np.unique(y))
    rest = rest[known[rest]]
    if not len(rest):
        return model.fit(own, y)
    paired = np.concatenate([bought, rest]) if known[bought].all() else rest
    return model.fit(own, y, None, _safe_indexing(X, rest), teacher[paired].astype(y.dtype))


# -- the journal --------------------------------------------------------------------------------


class JournalError(ValueError):
    """A journal is closed, belongs to other data or settings, or holds what cannot be used.

    A journal's entries are {"draw": rows}, {"row": row, "label": label}, the same with "given" for
    a label that was not asked for, {"undo": row} or {"comment": text, "of": row}. What was added is
    on disk when the call returns, and a kill loses none of it.
    """


# -- answers ------------------------------------------------------------------------------------


def answers_of(labels: Any, estimator: Any, classes: Any) -> list[Any]:
    """Return one label or several as plain values, None if there is no label."""
    if labels is None or isinstance(labels, (str, bytes)):
        labels = [labels]
    elif not isinstance(labels, (list, tuple)):
        labels = np.atleast_1d(np.asarray(labels)).tolist()
    classifier = is_classifier(estimator)
    kinds = (bool, int, float, str) if classifier else (bool, int, float)
    allowed = "text or finite numbers" if classifier else "numbers: a regressor needs finite ones"
    allowed += f" of the classes {classes}" if classes else ""
    found = []
    for label in labels:
        answer = label.item() if isinstance(label, np.generic) else label
        fits = isinstance(answer, kinds) and answer not in (math.inf, -math.inf)
        if is_missing(answer) or (classifier and str(answer).strip() == ""):
            answer = None
        elif not fits or (classes and answer not in classes):
            raise ValueError(message("labels", answer, f"{allowed}, or None for no label"))
        found.append(answer)
    return found


class LabelBudget(AbstractContextManager["LabelBudget"]):
    """The labels of a pool of rows, bought in batches.

    Rows are drawn uniformly without replacement. With "margin" three quarters of them are the rows
    whose two likeliest classes are closest: better predictions for as many labels, but the rows no
    longer stand for the pool.

    Parameters
    ----------
    estimator : estimator
        One of this package's; it is cloned. Transform the pool first: it is there as a whole.
    X : array, DataFrame or sparse matrix of shape (N, p)
        The pool.
    budget : int
        Labels that may be bought; more than N buy all N rows.
    batch_size : int
        Rows drawn at a time.
    criterion : str
        "uniform", or "margin" of classifiers.
    least_gain : float, optional
        Stop when a hundred more labels are expected to lower the loss by less than this.
    path : path-like, optional
        File of all draws and answers, an SQLite database; every answer is on disk before it
        counts, and an existing file is resumed. One budget has it at a time, until `close`, the
        end of a ``with`` block or of the process; another one is refused.
    rng : int
        Seed of the draws.
    about : mapping, optional
        What else must agree for the answers of ``path`` to be usable, as JSON values. A digest of
        X is among them, under the name "data"; an entry of that name takes its place. An entry
        "classes" lists the labels that are allowed.
    teacher : sequence of length N, optional
        Another model's label for each row, None if it has none; the labels bought decide how
        far it is believed.

    Attributes
    ----------
    labels : dict
        The labels by row number; an error in ``run`` or ``fit`` loses none of them.
    declined : set of int
        Rows that were answered by None, NaN or, for classifiers, an empty string: they are not
        asked again and cost nothing.
    comments : dict
        What was remarked on rows, by row number.
    path : Path or None
        Where the answers are.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> truth = (X[:, 0] + rng.normal(size=500) > 0).astype(int)
    >>> budget = LabelBudget(ProxyLogisticRegression(), X, budget=60, batch_size=20)
    >>> model = budget.run(lambda rows: truth[rows])
    >>> budget.spent, bool(model.score(X, truth) > 0.6)
    (60, True)
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        *,
        budget: int,
        batch_size: int = 25,
        criterion: str = "uniform",
        least_gain: float | None = None,
        path: str | os.PathLike[str] | None = None,
        rng: int = 0,
        about: Mapping[str, Any] | None = None,
        teacher: Any = None,
    ) -> None:
        about = {} if about is None else about
        check.instance("about", about, Mapping, "a mapping of names to values, or None")
        self.estimator = estimator
        self.X = pool_of(X, estimator)
        self.rows = int(self.X.shape[0])
        self._wanted = check.whole("budget", budget)
        self.budget = min(self._wanted, self.rows)
        self.batch_size = check.whole("batch_size", batch_size)
        self.criterion = check.one_of("criterion", criterion, CRITERIA)
        if criterion != "uniform" and not is_classifier(estimator):
            raise TypeError(message("criterion", criterion, '"uniform" for a regressor'))
        self.least_gain = None if least_gain is None else check.positive("least_gain", least_gain)
        if teacher is not None:
            teacher = np.array(check.as_list("teacher", teacher, "a list of answers"), dtype=object)
        self.teacher = teacher
        if self.teacher is not None and self.teacher.shape != (self.rows,):
            raise ValueError(message("teacher", self.teacher.shape, f"{self.rows} answers"))
        self.comments: dict[int, str] = {}
        # Of each row the last answer, and whether it was there without being asked for.
        self._answers: dict[int, tuple[Any, bool]] = {}
        self._draws = 0
        self._open: list[int] = []
        self._fitted: Any = None
        self._seed = check.whole("rng", rng, 0)
        self._classes = about.get("classes")
        self.path = None if path is None else check.file_path("path", path)
        settings = {"rows": self.rows, "criterion": criterion, "seed": self._seed,
                    "floor": UNIFORM, **about}  # fmt: skip
        if self.path is not None:
            settings.setdefault("data", data_digest(self.X))
            self._lock(self.path)
        self._settings = json.loads(json.dumps(settings))
        first = [durable.Event("settings", content=self._settings)]
        try:
            self._log = durable.Journal(
                self.path, "journal of labels", JournalError, self._replay, first=first
            )
        except JournalError:
            self.close()
            raise

    def close(self) -> None:
        """Let another budget have the file of answers; this one buys no more of them."""
        if self.path is not None:
            self._unlock()

    def __exit__(self, *error: object) -> None:
        """Close the file of answers."""
        self.close()

    # -- ask and tell -----------------------------------------------------------------------

    @property
    def labels(self) -> dict[int, Any]:
        """The labels by row number."""
        return {row: label for row, (label, _) in self._answers.items() if label is not None}

    @property
    def declined(self) -> set[int]:
        """The rows that were answered by no label."""
        return {row for row, (label, _) in self._answers.items() if label is None}

    @property
    def spent(self) -> int:
        """Labels bought so far; those of `add` were not."""
        return sum(label is not None and not given for label, given in self._answers.values())

    def ask(self) -> Array:
        """Return the rows whose labels are wanted; asking again does not change them."""
        if not self._open and self.finished is None:
            self._draw()
        # A draw made under a larger budget may leave more rows open than this one pays for.
        return np.array(self._open[: max(self.budget - self.spent, 0)], dtype=int)

    def tell(self, rows: Sequence[int] | Array | int, labels: Any) -> None:
        """Give labels of rows that were asked for, all or some of them.

        A row told again is a correction: the last answer counts. None is no answer: the row is
        noted as declined and not asked again.

        Parameters
        ----------
        rows : int or sequence of int
            Row numbers.
        labels : label or sequence of labels
            One for each, or None if there is no answer.
        """
        known = self._answers.keys() | set(self._open)
        pairs = self._pairs(rows, labels, known, f"rows asked for, {self._open[:8]}")
        self._record([{"row": row, "label": label} for row, label in pairs])

    def add(self, rows: Sequence[int] | Array | int, labels: Any) -> None:
        """Add labels that are there already, of any rows; they cost nothing of the budget.

        Parameters
        ----------
        rows : int or sequence of int
            Row numbers.
        labels : label or sequence of labels
            One for each, or None for a row that must not be asked about.
        """
        pairs = self._pairs(rows, labels, range(self.rows), f"rows from 0 to {self.rows - 1}")
        self._record([{"row": row, "label": label, "given": True} for row, label in pairs])

    def undo(self) -> int | None:
        """Take the last answer back; its row, which is returned, is the next to be asked for.

        None without an answer that was told. Calling again goes back further, in answers of an
        earlier process, too.
        """
        row = self.last
        if row is not None:
            self._record([{"undo": row}])
        return row

    def comment(self, row: int, text: str) -> None:
        """Keep a remark on a row, in place of an earlier one; an empty text removes it.

        Parameters
        ----------
        row : int
            Row number.
        text : str
            The remark; characters that are not shown, such as NUL, are kept as escapes.
        """
        if row not in range(self.rows):
            raise ValueError(message("row", row, f"from 0 to {self.rows - 1}"))
        check.instance("text", text, str, "text")
        # As it can be shown, kept and exported everywhere: without NUL and other such characters.
        self._record([{"comment": printable(text).strip(), "of": int(row)}])

    @property
    def last(self) -> int | None:
        """The row that `undo` would take back."""
        told = (row for row, (_, given) in reversed(self._answers.items()) if not given)
        return next(told, None)

    @property
    def unbiased(self) -> bool:
        """Whether the labelled rows stand for the pool."""
        return self.criterion == "uniform" and self.spent == len(self.labels)

    @property
    def finished(self) -> str | None:
        """Why no more labels are wanted; None while some are."""
        if self._wanted <= self.rows and self.spent >= self.budget:
            return f"The budget of {self.budget} labels is spent."
        if self._open:
            return None
        if len(self._answers) >= self.rows:
            return f"All {self.rows} rows have been asked for (the budget was {self._wanted})."
        if self.least_gain is None or not self.labels or self.expected_gain() >= self.least_gain:
            return None
        return (
            "Another 100 labels are expected to lower the loss by "
            f"{self.expected_gain():.2g}, less than {self.least_gain:.2g}."
        )

    def run(self, oracle: Callable[[Array], Any]) -> Any:
        """Buy labels from a function until finished, and return the fitted estimator.

        Parameters
        ----------
        oracle : callable
            Returns the labels of an array of row numbers.
        """
        check.require_takes("oracle", oracle, ("rows",))
        while self.finished is None:
            rows = self.ask()
            self.tell(rows, oracle(np.array(rows)))
        return self.fit()

    # -- what the labels say ------------------------------------------------------------------

    def fit(self) -> Any:
        """Return the estimator fitted to all labels so far."""
        if self._fitted is None:
            if not (labels := self.labels):
                raise ValueError(message("labels", "none", "at least one", "Tell some first."))
            bought = np.array(sorted(labels))
            y = np.array([labels[row] for row in bought.tolist()])
            self._fitted = fit_to_labels(self.estimator, self.X, bought, y, self.teacher)
        return self._fitted

    def expected_gain(self, labels: int = 100) -> float:
        r"""Return by how much more labels are expected to lower the loss.

        An unregularised fit to n labels lies ``tr(H C)/2 ∝ 1/n`` above the best linear model, C
        the covariance of its parameters; ``m`` more labels take ``m/(n + m)`` of that away. A
        regularised fit lies lower, so the estimate errs towards buying. Infinite while the
        labels do not determine the fit.

        Parameters
        ----------
        labels : int, optional
            Labels to come.
        """
        try:
            model = self.fit()
        except ValueError:
            # Labels of one class only: anything may still be learned.
            return float("inf")
        return float(model.excess_ * labels / (model.n_labels_ + labels))

    # -- the file -----------------------------------------------------------------------------

    def _lock(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = ExitStack()
        try:
            held.enter_context(locked(path))
        except LockedError as error:
            text = f"The journal of labels {error}: close the budget that has it."
            raise JournalError(text) from error
        self._unlock = weakref.finalize(self, held.close)

    def _replay(self, event: durable.Event) -> None:
        """Count what the journal holds, and refuse one of another pool or of other settings."""
        if event.kind != "settings":
            self._count(event.content)
            return
        there, now = event.content, self._settings
        differences = [
            f"{name}: there {there.get(name)!r:.60}, now {now.get(name)!r:.60}"
            for name in there | now
            if there.get(name) != now.get(name)
        ]
        if differences:
            text = f"{self.path} holds labels for something else ({'; '.join(differences)})"
            remedy = "choose another file, or repeat its settings"
            if there.get("criterion") not in CRITERIA:
                remedy = (
                    "export its labels with the version that wrote it, and add them to a new file"
                )
            raise JournalError(f"{text}: {remedy}.")

    # -- internals --------------------------------------------------------------------------

    def _pairs(self, rows: Any, labels: Any, known: Any, allowed: str) -> list[tuple[int, Any]]:
        """Return rows with their labels, once both are what they should be."""
        numbers = np.atleast_1d(np.asarray(rows)).tolist()
        answers = answers_of(labels, self.estimator, self._classes)
        if len(numbers) != len(answers):
            raise ValueError(message("labels", labels, f"one for each of {len(numbers)} rows"))
        if strange := [row for row in numbers if row not in known]:
            raise ValueError(message("rows", strange[0], allowed))
        return list(zip(numbers, answers, strict=True))

    def _draw(self) -> None:
        # Each batch has randomness of its own: a resumed budget draws what it would have drawn.
        rng = np.random.default_rng([self._seed, self._draws])
        wanted = min(self.batch_size, self.budget - self.spent)
        left = np.setdiff1d(np.arange(self.rows), [*self._answers])
        best = self._least_sure(left)[: wanted - int(UNIFORM * wanted)]
        rest = np.setdiff1d(left, best)
        others = rng.choice(rest, min(wanted - len(best), len(rest)), replace=False)
        self._record([{"draw": [*best.tolist(), *others.tolist()]}])

    def _least_sure(self, rows: Array) -> Array:
        """Return the rows, the least sure first; none if the criterion or labels say nothing."""
        if self.criterion == "uniform":
            return rows[:0]
        try:
            chances = np.sort(self.fit().predict_proba(self.X), axis=1)[rows]
        except ValueError:
            # Labels of one class only.
            return rows[:0]
        return rows[np.argsort(chances[:, -1] - chances[:, -2], kind="stable")]

    def _record(self, entries: Sequence[Entry]) -> None:
        """Put entries into the journal, which counts them once they are on disk."""
        if self.path is not None and not self._unlock.alive:
            raise JournalError(f"{self.path} is closed: open it by a new LabelBudget.")
        with self._log.transaction() as append:
            for entry in entries:
                append("entry", content=entry)

    def _count(self, entry: Entry) -> None:
        if "comment" in entry:
            self.comments[entry["of"]] = entry["comment"]
            if not entry["comment"]:
                del self.comments[entry["of"]]
            return
        if "draw" in entry:
            self._draws += 1
            drawn = np.arange(self.rows)[entry["draw"]].tolist()
            self._open = [row for row in drawn if row not in self._answers]
            return
        row = entry["undo"] if "undo" in entry else entry["row"]
        self._fitted = None
        self._open = [other for other in self._open if other != row]
        # The last answer comes last.
        self._answers.pop(row, None)
        if "undo" in entry:
            self._open = [row, *self._open]
            return
        self._answers[row] = entry["label"], "given" in entry


def data_digest(X: Any) -> str:
    """Return 16 hex digits that other values, another order or another shape would change.

    Parameters
    ----------
    X : array, DataFrame or CSR matrix
        Inputs; their precision and memory layout do not matter.
    """
    if scipy.sparse.issparse(X):
        return digest(X.sorted_indices().astype(np.float64))[:16]
    return digest(np.asarray(X).astype(np.float64, copy=False))[:16]
