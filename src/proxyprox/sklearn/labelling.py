"""Labels bought one at a time: which row next, and a journal that loses nothing."""

from __future__ import annotations

import errno
import inspect
import json
import math
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array

from proxyprox._util.digests import data_digest, text_digest
from proxyprox._util.isolation import copied_tree
from proxyprox._util.text import printable
from proxyprox._util.validation import (
    file_path,
    fraction,
    instance,
    message,
    positive,
    require_takes,
    whole,
)
from proxyprox.problems.design import Design
from proxyprox.sklearn.estimators import ProxyGLM
from proxyprox.sklearn.fitting import moment_of
from proxyprox.sklearn.inputs import FLOATS, ProxyWarning, is_mark, is_missing, mark_of

if TYPE_CHECKING:
    import sqlite3


Array = Any


def last_step(estimator: Any) -> Any:
    """Return the model itself: a search's best, a Pipeline's last step."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def pool_of(X: Any, estimator: Any) -> Any:
    """Return the pool as it is kept, and refuse what no fit to bought labels could use.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix
        What the user passed; a DataFrame with names stays one.
    estimator : estimator
        What will be fitted.
    """
    piped = isinstance(estimator, Pipeline)
    if not _takes_proxy(last_step(estimator)):
        remedy = (
            "Put transformers before one of them by make_pipeline, with the model as last step, "
            "or transform X first."
        )
        allowed = "one of this package's estimators, or a Pipeline that ends in one"
        got = " with ".join(type(part).__name__ for part in _nested(estimator))
        raise TypeError(message("estimator", got, allowed, remedy))
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    elif not (hasattr(X, "iloc") and (piped or all(isinstance(name, str) for name in X.columns))):
        X = np.asarray(X)
    if len(X.shape) != 2 and not piped:
        raise ValueError(message("X", f"an array of shape {X.shape}", "rows and columns"))
    if isinstance(estimator, ProxyGLM):
        # What the fit would refuse is refused before anything is paid for.
        check_array(X, accept_sparse="csr", dtype=FLOATS, input_name="X")
    return X


def fitted(estimator: Any, X: Any, bought: Array, y: Array, weights: Array | None) -> Any:
    """Return a clone fitted to the bought rows, with the rest of the pool as proxy.

    A Pipeline's transformers are fitted to the whole pool, those that need labels to the bought
    rows; the model then gets bought rows and proxy as they come out of them.

    Parameters
    ----------
    estimator : estimator
        One of ours, a search over one, or a Pipeline that ends in one.
    X : array, DataFrame or sparse matrix
        The pool.
    bought : array of int
        Rows that have a label, in order.
    y : array
        Their labels.
    weights : array or None
        Their weights.
    """
    whole = clone(estimator)
    model = whole
    if isinstance(whole, Pipeline):
        X, model = _transformed(whole, X, bought, y), last_step(whole)
    if hasattr(model, "unlabelled"):
        model.set_params(unlabelled=None)
    rest = np.setdiff1d(np.arange(X.shape[0]), bought)
    proxy = _safe_indexing(X, rest) if len(rest) and len(rest) != len(bought) else X
    with warnings.catch_warnings():
        # The pool is its own proxy, however the bought rows were chosen.
        warnings.simplefilter("ignore", ProxyWarning)
        model.fit(_safe_indexing(X, bought), y, sample_weight=weights, X_proxy=proxy)
    return whole


@contextmanager
def reachable(labels: Mapping[int, Any]) -> Iterator[None]:
    """See to it that an error loses no label that was paid for.

    Parameters
    ----------
    labels : mapping
        Labels by row number; a copy becomes the error's attribute ``labels``, and a note says so.
    """
    try:
        yield
    except BaseException as error:
        if labels and not hasattr(error, "labels"):
            vars(error)["labels"] = dict(labels)
            error.add_note(
                f"The {len(labels)} labels bought so far are not lost: they are in the attribute "
                "'labels' of the LabelBudget, by row number, and of this error."
            )
        raise


def _transformed(pipeline: Pipeline, X: Any, bought: Array, y: Array) -> Any:
    for _, step in pipeline.steps[:-1]:
        if step is None or isinstance(step, str):
            continue
        try:
            step.fit(X)
        except (TypeError, ValueError):
            # No tag tells for sure which transformers need labels.
            step.fit(_safe_indexing(X, bought), y)
        X = step.transform(X)
    return X.tocsr() if hasattr(X, "tocsr") else X


def _nested(estimator: Any) -> Iterator[Any]:
    """Return an estimator, and what is inside it, down to the model."""
    while estimator is not None:
        yield estimator
        piped = isinstance(estimator, Pipeline)
        estimator = last_step(estimator) if piped else getattr(estimator, "estimator", None)


def _takes_proxy(model: Any) -> bool:
    if isinstance(model, Pipeline) or not hasattr(model, "fit"):
        return False
    names = inspect.signature(model.fit).parameters
    if "X_proxy" in names and "sample_weight" in names:
        return True
    # A search hands on what it is given, to a model that has to take it.
    handed = any(parameter.kind is parameter.VAR_KEYWORD for parameter in names.values())
    return handed and _takes_proxy(getattr(model, "estimator", None))


Criterion = Callable[[Any, Any], Array]
"""A function of the fitted estimator and the inputs that returns a score ≥ 0 for each row."""


def uncertainty(estimator: Any, X: Any) -> Array:
    """Return the standard deviation of each row's label under the fitted classifier."""
    if not hasattr(estimator, "predict_proba"):
        remedy = 'Use "leverage" for a regressor.'
        raise TypeError(message("criterion", "uncertainty", "for a classifier", remedy))
    p = estimator.predict_proba(X)
    return np.sqrt(np.maximum(1 - np.sum(p * p, axis=1), 0.0))


def leverage(estimator: Any, X: Any) -> Array:
    """Return ``√(xᵀM⁻¹x)``: how much a row moves the fit, whatever its label."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        X = estimator[:-1].transform(X)
    X = np.asarray(X) if hasattr(X, "iloc") else X
    design = Design(X, intercept=last_step(estimator).fit_intercept)
    moment = moment_of(design)
    # A little of the top: directions hardly present must not swallow the budget.
    scaled = moment.vectors / np.sqrt(moment.values + 1e-3 * moment.top)
    return np.linalg.norm(np.asarray(design.predict(scaled)), axis=1)


NAMED: dict[str, Criterion | None] = {
    "uniform": None,
    "uncertainty": uncertainty,
    "leverage": leverage,
}


def criterion_of(given: Any) -> Criterion | None:
    """Return the criterion of a name, or a user's own function."""
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if callable(given) and not isinstance(given, type):
        require_takes("criterion", given, ("estimator", "X"))
        return given  # type: ignore[no-any-return]
    allowed = f"one of {', '.join(NAMED)}, or a function (estimator, X) -> scores"
    raise ValueError(message("criterion", given, allowed))


def probabilities(scores: Array, rows: int, floor: float) -> Array:
    """Return the chance of each row to be drawn: the scores' share, and a floor for all."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (rows,) or not np.isfinite(scores).all() or (scores < 0).any():
        got = f"scores of shape {scores.shape} from {scores.min():g}"
        raise ValueError(message("criterion", got, f"{rows} finite scores, zero or more"))
    total = float(scores.sum())
    uniform = np.full(rows, 1 / rows)
    return uniform if total == 0 else (1 - floor) * scores / total + floor * uniform


APPLICATION = 0x50504C4A
"""Marks a database as a journal of labels, in the field that SQLite has for it."""

MAGIC = b"SQLite format 3\x00"

TABLES = {
    "settings": "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "draws": (
        "CREATE TABLE draws (draw INTEGER NOT NULL, place INTEGER NOT NULL, row INTEGER NOT NULL, "
        "weight REAL NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (draw, place))"
    ),
    "answers": (
        "CREATE TABLE answers (number INTEGER PRIMARY KEY, row INTEGER NOT NULL, label TEXT NOT "
        "NULL, time TEXT NOT NULL, digest TEXT NOT NULL)"
    ),
}
"""What was asked for whom, which rows were drawn with which weight, and every answer as JSON."""

_OPEN: weakref.WeakValueDictionary[str, Journal] = weakref.WeakValueDictionary()
"""The journals this process holds: a newer one for the same file takes it over."""


class JournalError(ValueError):
    """A journal is in use, belongs to other data or settings, or holds what cannot be used."""

    def __init__(self, text: str = "") -> None:
        super().__init__(printable(text))


class Draw(NamedTuple):
    """Rows that were drawn together, and what each counts."""

    rows: list[int]
    weights: list[float]


class Answer(NamedTuple):
    """A row and its label; None where the row was declined."""

    row: int
    label: Any


class Journal:
    """Draws and answers of one pool, in a SQLite database that one process holds at a time.

    What was added is on disk when the call returns, and a kill at any moment loses none of it.
    The lock is the operating system's and ends with the process. Inside one process a newer
    journal for the same file takes over, and the older one refuses to be written to.

    Parameters
    ----------
    path : path-like or None
        The file; None keeps nothing. If it holds a journal of version 0.1 (JSON lines), that file
        stays as it is, and its entries are copied once to a database whose name is the file's with
        ".sqlite" behind.
    settings : mapping
        What must agree for the entries to be usable, as JSON values. "rows" is the number of rows.
    label_fault : callable
        Returns what is wrong with a label, or None.
    optional : tuple of str
        Names in ``settings`` that are compared only where both sides have them.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "labels.sqlite"
    >>> journal = Journal(path, {"rows": 3})
    >>> journal.add_draw(Draw([1, 2], [1.0, 1.0]))
    >>> journal.add_answers([Answer(1, "yes")])
    >>> Journal(path, {"rows": 3}).answers
    [Answer(row=1, label='yes')]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        settings: Mapping[str, Any],
        *,
        label_fault: Callable[[Any], str | None] = lambda label: None,
        optional: tuple[str, ...] = (),
    ) -> None:
        self.path = None if path is None else Path(path)
        self.draws: list[Draw] = []
        self.answers: list[Answer] = []
        self._settings = json.loads(json.dumps(dict(settings)))
        self._label_fault, self._optional = label_fault, optional
        self._database: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._known_as = ""
        if self.path is None:
            return
        earlier = None
        if _begins_like_version_0_1(self.path):
            earlier, self.path = self.path, self.path.with_name(f"{self.path.name}.sqlite")
        self._open(earlier)

    # -- writing ------------------------------------------------------------------------------

    def add_draw(self, draw: Draw) -> None:
        """Add rows that were drawn; when this returns, they are on disk."""
        rows, weights = [int(row) for row in draw.rows], [float(w) for w in draw.weights]
        with self._transaction() as database:
            if database is not None:
                self._insert_draw(database, len(self.draws), Draw(rows, weights))
        self.draws.append(Draw(rows, weights))

    def add_answers(self, answers: Sequence[Answer]) -> None:
        """Add answers, all or none of them; when this returns, they are on disk."""
        with self._transaction() as database:
            if database is not None:
                self._insert_answers(database, answers)
        self.answers.extend(answers)

    def close(self) -> None:
        """Let another process have the file."""
        database, self._database = self._database, None
        # A forked process must leave alone what its parent still uses.
        if database is not None and os.getpid() == self._process:
            database.close()

    def __del__(self) -> None:
        with suppress(Exception):  # the constructor, or the interpreter, may have ended early
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be copied or sent elsewhere: one process holds the file."""
        if self.path is not None:
            raise TypeError(
                f"the journal {self.path} is held by one process and cannot be copied or pickled: "
                "make a LabelBudget with the same path where the labels are needed."
            )
        return dict(vars(self))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection | None]:
        """Yield the database; what is done to it is on disk when the block ends, or not at all."""
        if self.path is None:
            yield None
            return
        if os.getpid() != self._process:
            raise JournalError(
                f"{self.path} is held by the process that this one was forked from: tell answers "
                "there."
            )
        database = self._database
        if database is None:
            raise JournalError(
                f"{self.path} is closed, or a newer LabelBudget of this process has it: use that "
                "one, or make one with the same path."
            )
        if self._identity() != self._known_as:
            # The lock of POSIX systems is lost when anything in its process reads the file.
            raise JournalError(
                f"{self.path} was moved, replaced or written to by another program while it was "
                "open: put it back if it was moved, and open it again."
            )
        with _named(self.path):
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                with suppress(Exception):
                    database.execute("ROLLBACK")
                self._known_as = self._identity()
                raise
        self._known_as = self._identity()

    def _identity(self) -> str:
        assert self.path is not None
        try:
            found = self.path.stat()
        except OSError:
            return "gone"
        return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns}"

    @staticmethod
    def _insert_draw(database: sqlite3.Connection, number: int, draw: Draw) -> None:
        cells = [
            (number, place, row, weight)
            for place, (row, weight) in enumerate(zip(*draw, strict=True))
        ]
        database.executemany(
            "INSERT INTO draws VALUES (?, ?, ?, ?, ?)", [(*part, _digest(part)) for part in cells]
        )

    @staticmethod
    def _insert_answers(database: sqlite3.Connection, answers: Sequence[Answer]) -> None:
        (last,) = database.execute("SELECT max(number) FROM answers").fetchone()
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        cells = [
            (number, int(row), _json(label), now)
            for number, (row, label) in enumerate(answers, start=(last or 0) + 1)
        ]
        database.executemany(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?)", [(*part, _digest(part)) for part in cells]
        )

    # -- opening ------------------------------------------------------------------------------

    def _open(self, earlier: Path | None) -> None:
        assert self.path is not None
        try:
            import sqlite3
        except ImportError as error:
            raise JournalError(
                f"{self.path} is an SQLite database, but this Python was built without the module "
                "sqlite3: use another Python."
            ) from error
        self.path.parent.mkdir(parents=True, exist_ok=True)
        place = os.path.realpath(self.path)
        older = _OPEN.get(place)
        if older is not None:
            older.close()
        with suppress(FileExistsError):
            # Made here because SQLite would ignore a umask that lets a group write.
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        self._refuse_foreign()
        with _named(self.path):
            database = sqlite3.connect(
                place, timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            with _named(self.path):
                database.execute("PRAGMA trusted_schema = OFF")
                # Back and forth removes the rollback file that a killed process left.
                database.execute("PRAGMA journal_mode = PERSIST")
                database.execute("PRAGMA journal_mode = DELETE")
                database.execute("PRAGMA synchronous = EXTRA")
                # Held until the connection ends, and with it the process.
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
                database.execute("BEGIN EXCLUSIVE")
                self._begin(database, earlier)
                database.execute("COMMIT")
        except BaseException:
            # What was begun is rolled back, and another process may have the file.
            database.close()
            raise
        self._database = database
        self._known_as = self._identity()
        _OPEN[place] = self

    def _refuse_foreign(self) -> None:
        assert self.path is not None
        with self.path.open("rb") as file:
            head = file.read(len(MAGIC))
        if head and head != MAGIC:
            raise JournalError(
                f"{self.path} is not a journal of labels, or is damaged: choose another file, or "
                "restore a copy."
            )

    def _begin(self, database: sqlite3.Connection, earlier: Path | None) -> None:
        """Make the tables, or read what is in them."""
        assert self.path is not None
        found = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        tables = {(name, sql) for kind, name, sql in found if sql is not None or kind != "index"}
        if tables:
            (application,) = database.execute("PRAGMA application_id").fetchone()
            if application != APPLICATION or tables != set(TABLES.items()):
                raise JournalError(
                    f"{self.path} is a database, but not a journal of labels of this version: "
                    "choose another file."
                )
            problems = database.execute("PRAGMA integrity_check(1)").fetchone()
            if problems != ("ok",):
                raise _damaged(self.path, problems[0])
            (answers,) = database.execute("SELECT count(*) FROM answers").fetchone()
            held = self._held(database)
            if self._usable(held, answered=bool(answers), where=self.path):
                self._read(database)
                return
            # Nothing was paid for yet: other settings cost nothing.
            for table in TABLES:
                database.execute(f"DELETE FROM {table}")
        else:
            for statement in TABLES.values():
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {APPLICATION}")
            if earlier is not None:
                self._import(earlier)
        pairs = [(name, json.dumps(value)) for name, value in self._settings.items()]
        database.executemany("INSERT INTO settings VALUES (?, ?)", pairs)
        for number, draw in enumerate(self.draws):
            self._insert_draw(database, number, draw)
        self._insert_answers(database, self.answers)

    def _usable(self, held: Mapping[str, Any], *, answered: bool, where: Path) -> bool:
        """Tell whether a journal has these settings; refuse others if it has answers."""
        here = self._settings
        names = [
            name
            for name in sorted(held.keys() | here.keys())
            if name not in self._optional or (name in held and name in here)
        ]
        differences = [
            f"{name}: there {_shown(held.get(name))}, now {_shown(here.get(name))}"
            for name in names
            if held.get(name) != here.get(name)
        ]
        if differences and answered:
            raise JournalError(
                f"{where} holds labels for something else ({'; '.join(differences)}): "
                "choose another file, or repeat the settings that made it."
            )
        return not differences

    # -- reading ------------------------------------------------------------------------------

    def _held(self, database: sqlite3.Connection) -> dict[str, Any]:
        """Return the settings that the journal was begun with."""
        held = {}
        for name, value in database.execute("SELECT name, value FROM settings"):
            try:
                held[str(name)] = json.loads(value)
            except (ValueError, TypeError, RecursionError):
                raise _damaged(self.path, f"the setting {name!r} is not JSON") from None
        return held

    def _read(self, database: sqlite3.Connection) -> None:
        """Take over the draws and the answers of the database, each of them validated."""
        assert self.path is not None
        entries = _Entries(self._settings["rows"], self._label_fault)
        command = "SELECT draw, place, row, weight, digest FROM draws ORDER BY draw, place"
        parts: dict[Any, list[tuple[Any, Any, Any]]] = {}
        for draw, place, row, weight, digest in database.execute(command):
            if digest != _digest((draw, place, row, weight)):
                raise _damaged(self.path, f"row {place} of draw {draw} was changed")
            parts.setdefault(draw, []).append((place, row, weight))
        if list(parts) != list(range(len(parts))):
            raise _damaged(self.path, "a draw is missing")
        for draw, cells in parts.items():
            if [place for place, _, _ in cells] != list(range(len(cells))):
                raise _damaged(self.path, f"a row of draw {draw} is missing")
            rows, weights = [row for _, row, _ in cells], [weight for _, _, weight in cells]
            entries.draw(rows, weights, f"draw {draw} in {self.path}", "restore a copy")
        command = "SELECT number, row, label, time, digest FROM answers ORDER BY number"
        for number, row, label, when, digest in database.execute(command):
            remedy = (
                "restore a copy, or delete that entry with "
                f"sqlite3 {self.path} 'DELETE FROM answers WHERE number = {number}'"
            )
            place = f"answer {number} in {self.path}"
            if digest != _digest((number, row, label, when)):
                raise JournalError(f"{place} was changed or is damaged: {remedy}.")
            try:
                value = json.loads(label)
            except (ValueError, TypeError, RecursionError):
                raise JournalError(f"{place} holds no label that can be read: {remedy}.") from None
            entries.answer(row, value, place, remedy)
        self.draws, self.answers = entries.draws, entries.answers

    def _import(self, file: Path) -> None:
        """Take over a journal of version 0.1; a last line without its end never counted."""
        lines = []
        remedy = "mend or remove that line, or restore a copy"
        for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], start=1):
            try:
                lines.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise JournalError(
                    f"line {number} of {file} cannot be read ({error}): {remedy}."
                ) from None
        if not lines:
            return
        head, kinds = lines[0], [entry.keys() if isinstance(entry, dict) else () for entry in lines]
        if kinds[0] != {"about"} or not isinstance(head["about"], dict):
            raise JournalError(f"{file} is not a journal of labels: choose another file.")
        answered = {"row", "label"} in kinds
        if not self._usable(head["about"], answered=answered, where=file):
            return
        entries = _Entries(self._settings["rows"], self._label_fault)
        for number, (entry, kind) in enumerate(zip(lines[1:], kinds[1:], strict=True), start=2):
            place = f"line {number} of {file}"
            if kind == {"draw", "weights"}:
                entries.draw(entry["draw"], entry["weights"], place, remedy)
            elif kind == {"row", "label"}:
                entries.answer(entry["row"], entry["label"], place, remedy)
            else:
                raise JournalError(f"{place} is neither a draw nor an answer: {remedy}.")
        self.draws, self.answers = entries.draws, entries.answers


class _Entries:
    """Collects draws and answers that were read, and refuses what cannot be one."""

    def __init__(self, rows: int, label_fault: Callable[[Any], str | None]) -> None:
        self._rows, self._label_fault = rows, label_fault
        self.draws: list[Draw] = []
        self.answers: list[Answer] = []
        self._drawn: set[int] = set()

    def draw(self, rows: Any, weights: Any, place: str, remedy: str) -> None:
        lists = isinstance(rows, list) and isinstance(weights, list) and len(rows) == len(weights)
        if not lists or not rows:
            raise JournalError(f"{place} is not a list of rows with a weight each: {remedy}.")
        for row, weight in zip(rows, weights, strict=True):
            self._check_row(row, place, remedy)
            number = type(weight) in (int, float) and weight > 0
            if not number or not math.isfinite(weight):
                raise JournalError(
                    f"{place} has the weight {_shown(weight)}, which is not a positive number: "
                    f"{remedy}."
                )
        self.draws.append(Draw(rows, [float(weight) for weight in weights]))
        self._drawn.update(rows)

    def answer(self, row: Any, label: Any, place: str, remedy: str) -> None:
        self._check_row(row, place, remedy)
        if row not in self._drawn:
            raise JournalError(f"{place} is for row {row}, which was never drawn: {remedy}.")
        fault = None if label is None else self._label_fault(label)
        if fault is not None:
            raise JournalError(f"{place} has the label {_shown(label)}, {fault}: {remedy}.")
        self.answers.append(Answer(row, label))

    def _check_row(self, row: Any, place: str, remedy: str) -> None:
        if type(row) is not int or not 0 <= row < self._rows:
            raise JournalError(
                f"{place} has the row {_shown(row)}, but rows are whole numbers from 0 to "
                f"{self._rows - 1}: {remedy}."
            )


def _begins_like_version_0_1(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(8) == b'{"about"'
    except (FileNotFoundError, NotADirectoryError):
        return False


def _digest(cells: tuple[Any, ...]) -> str:
    return text_digest(repr(cells))


def _json(label: Any) -> str:
    """Return a label as JSON, readable where it is text that can be encoded."""
    text = json.dumps(label, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(label)
    return text


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _damaged(path: Path | None, what: Any) -> JournalError:
    words = " ".join(str(what).split())
    return JournalError(f"{path} is damaged ({words}): restore a copy.")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into those that name the file and say what to do."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            raise JournalError(
                f"{path} is in use by another process, which is buying labels into it: wait until "
                "that one ends, or choose another file."
            ) from error
        if code == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise JournalError(
                f"{path} cannot be written to ({error}): both the file and its folder must be "
                "writable. Change that, or choose another file."
            ) from error
        if code == sqlite3.SQLITE_IOERR:
            raise OSError(errno.EIO, f"{os.strerror(errno.EIO)} ({error})", str(path)) from error
        raise _damaged(path, error) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a damaged schema in its message, whatever it is.
        raise _damaged(path, "its tables cannot be read") from error


def answers_of(labels: Any, estimator: Any) -> list[Any]:
    """Return answers as plain values, None where there is no label.

    Parameters
    ----------
    labels : label or sequence of labels
        What was told.
    estimator : estimator
        For whom: a classifier's mark of unlabelled rows and empty strings are no labels; for a
        regressor only numbers are.
    """
    classifier, mark = is_classifier(estimator), mark_of(getattr(estimator, "unlabelled", None))
    found: list[Any] = []
    marked = False
    for answer in _listed(labels):
        if is_missing(answer) or (classifier and isinstance(answer, str) and not answer.strip()):
            found.append(None)
        elif classifier and is_mark(answer, mark):
            marked = True
            found.append(None)
        elif not classifier and not _finite(answer):
            remedy = "Answer None if there is no label."
            raise ValueError(message("labels", answer, "finite numbers for a regressor", remedy))
        else:
            found.append(answer)
    if marked:
        warnings.warn(
            f"The answer {mark!r} marks a row without a label: such rows count as declined. If it "
            "is a class, give LabelBudget an estimator with unlabelled=None.",
            UserWarning,
            stacklevel=3,
        )
    return found


def label_fault(label: Any, estimator: Any, classes: Any = None) -> str | None:
    """Return what keeps a value from being a label, in words; None if nothing does.

    Parameters
    ----------
    label : object
        A plain value.
    estimator : estimator
        For whom.
    classes : sequence, optional
        The labels that are allowed.
    """
    text = isinstance(label, str)
    if not text and not _finite(label):
        return "which is neither text nor a finite number"
    if text and not is_classifier(estimator):
        return "which is no number, as a regressor needs"
    if isinstance(classes, (list, tuple)) and label not in classes:
        return f"which is none of the classes {', '.join(map(repr, classes))}"
    return None


def _listed(labels: Any) -> list[Any]:
    """Return one label or several as a list; numpy would make text of numbers among text."""
    if labels is None or isinstance(labels, (str, bytes)):
        return [labels]
    if not isinstance(labels, (list, tuple)):
        labels = np.atleast_1d(np.asarray(labels)).tolist()
    return [answer.item() if isinstance(answer, np.generic) else answer for answer in labels]


def _finite(answer: Any) -> bool:
    try:
        return isinstance(answer, (bool, int, float)) and math.isfinite(answer)
    except OverflowError:
        return False


class LabelBudget:
    r"""The labels of a pool of rows, bought in batches.

    Rows are drawn uniformly without replacement, or with probabilities ``q_i`` from a criterion;
    a drawn row then counts ``1/(N q_i)`` in the fit, so that its gradient stays unbiased for the
    whole pool. Such rows are drawn with replacement, and one that is drawn again counts more but
    is not asked about again: a batch may therefore come out smaller than ``batch_size``.

    Parameters
    ----------
    estimator : estimator
        One of this package's, or a Pipeline that ends in one; it is cloned. A Pipeline's other
        steps are fitted to the whole pool, those that need labels to the bought rows.
    X : array, DataFrame or sparse matrix of shape (N, p)
        The pool, all of it serving as proxy.
    budget : int
        Labels that may be bought; more than N buy all N rows.
    batch_size : int
        Rows drawn at a time; with a criterion repeats among them are not asked about again.
    criterion : str or callable
        "uniform", "uncertainty" (classifiers), "leverage", or a function of the fitted estimator
        and X that returns a score ≥ 0 for each row.
    floor : float
        Share of uniform draws in a criterion's, in (0, 1]: no weight exceeds ``1/floor``.
    least_gain : float, optional
        Stop when ``ahead`` more labels are expected to lower the loss by less than this.
    ahead : int
        The labels meant in ``least_gain``.
    path : path-like, optional
        File of all draws and answers, an SQLite database; every answer is on disk before it
        counts, and an existing file is resumed. One process has it at a time, until `close`, the
        end of a ``with`` block or of the process; another one is refused. In one process a newer
        budget with the same path takes over. A journal of version 0.1 (JSON lines) stays as it
        is: its answers are copied once to a file with ".sqlite" behind the name.
    rng : int
        Seed of the draws.
    about : mapping, optional
        What else must agree for the answers of ``path`` to be usable, as JSON values. A digest of
        X is among them, under the name "data"; an entry of that name takes its place and that of
        the number of columns. An entry "classes" lists the labels that are allowed.

    Attributes
    ----------
    labels : dict
        The labels bought, by row number. An error in ``run`` or ``fit`` has them, too, as its
        attribute of that name.
    declined : set of int
        Rows that were answered by None, NaN or, for classifiers, an empty string or the
        estimator's mark of unlabelled rows: they are not asked again and cost nothing.
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
        criterion: Any = "uniform",
        floor: float = 0.25,
        least_gain: float | None = None,
        ahead: int = 100,
        path: str | os.PathLike[str] | None = None,
        rng: int = 0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        if path is not None:
            file_path("path", path)
        if about is not None:
            instance("about", about, Mapping, "a mapping of names to values, or None")
        self.estimator = estimator
        self.X = pool_of(X, estimator)
        self.rows = int(self.X.shape[0])
        self._wanted = whole("budget", budget)
        self.budget = min(self._wanted, self.rows)
        self.batch_size = whole("batch_size", batch_size)
        self.criterion = criterion_of(criterion)
        self.floor = fraction("floor", floor)
        self.least_gain = None if least_gain is None else positive("least_gain", least_gain)
        self.ahead = whole("ahead", ahead)
        self.labels: dict[int, Any] = {}
        self.declined: set[int] = set()
        self.weights = np.zeros(self.rows)
        self._draws = 0
        self._open: list[int] = []
        self._fitted: tuple[int, Any] | None = None
        name = criterion if isinstance(criterion, str) else getattr(criterion, "__name__", "own")
        header: dict[str, Any] = {"rows": self.rows, "criterion": name}
        header |= {"seed": whole("rng", rng, 0), "floor": self.floor, **(about or {})}
        self._classes = header.get("classes")
        if path is not None and "data" not in header:
            header |= {"data": data_digest(self.X), "columns": int(np.prod(self.X.shape[1:]))}
        # Files of the first version have no digest of the data.
        optional = ("data", "columns")
        self._journal = Journal(path, header, label_fault=self._label_fault, optional=optional)
        self.path = self._journal.path
        self._seed = rng
        for draw in self._journal.draws:
            self._enter_draw(draw)
        for answer in self._journal.answers:
            self._enter_answer(answer)

    def close(self) -> None:
        """Let another process have the file of answers; this object buys no more of them."""
        self._journal.close()

    def __enter__(self) -> LabelBudget:
        """Return the budget, whose file another process may have when the block ends."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let another process have the file of answers."""
        self.close()

    # -- ask and tell -----------------------------------------------------------------------

    @property
    def spent(self) -> int:
        """Labels bought so far."""
        return len(self.labels)

    def ask(self) -> Array:
        """Return the rows whose labels are wanted; asking again does not change them."""
        if not self._open and self.finished is None:
            # Rows that a criterion draws again cost nothing, so a batch may come out empty.
            while not self._open:
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
            One for each, or None where there is no answer.
        """
        numbers = np.atleast_1d(np.asarray(rows)).tolist()
        answers = answers_of(labels, last_step(self.estimator))
        if len(numbers) != len(answers):
            got = f"{len(answers)} labels"
            raise ValueError(message("labels", got, f"one for each of the {len(numbers)} rows"))
        known = self.labels.keys() | self.declined | set(self._open)
        strange = [row for row in numbers if row not in known]
        if strange:
            allowed = f"rows that were asked for, {self._open[:8]}"
            raise ValueError(message("rows", strange[0], allowed))
        for label in answers:
            fault = None if label is None else self._label_fault(label)
            if fault is not None:
                raise ValueError(
                    f"labels has {label!r}, {fault}. Answer None if there is no label."
                )
        told = [Answer(int(row), label) for row, label in zip(numbers, answers, strict=True)]
        self._journal.add_answers(told)
        for answer in told:
            self._enter_answer(answer)

    @property
    def finished(self) -> str | None:
        """Why no more labels are wanted; None while some are."""
        if self._wanted <= self.rows and self.spent >= self.budget:
            return f"The budget of {self.budget} labels is spent."
        if self._open:
            return None
        if self.spent + len(self.declined) >= self.rows:
            return f"All {self.rows} rows have been asked for (the budget was {self._wanted})."
        if self.least_gain is not None and self.spent:
            gain = self.expected_gain()
            if gain < self.least_gain:
                return (
                    f"Another {self.ahead} labels are expected to lower the loss by {gain:.2g}, "
                    f"less than {self.least_gain:.2g}."
                )
        return None

    def run(self, oracle: Callable[[Array], Any]) -> Any:
        """Buy labels from a function until finished, and return the fitted estimator.

        Parameters
        ----------
        oracle : callable
            Returns the labels of an array of row numbers.
        """
        if not callable(oracle):
            raise TypeError(message("oracle", oracle, "a function of an array of row numbers"))
        require_takes("oracle", oracle, ("rows",))
        with reachable(self.labels):
            while self.finished is None:
                rows = self.ask()
                self.tell(rows, oracle(np.array(rows)))
            return self.fit()

    # -- what the labels say ------------------------------------------------------------------

    def fit(self) -> Any:
        """Return the estimator fitted to all labels so far, the rest of the pool as proxy."""
        known = self._fitted
        if known is not None and known[0] == self.spent:
            return known[1]
        bought = np.array(sorted(self.labels), dtype=int)
        if not len(bought):
            raise ValueError(message("labels", "none", "at least one", "Tell some first."))
        y = np.array([self.labels[int(row)] for row in bought])
        weights = None if self.criterion is None else self.weights[bought]
        with reachable(self.labels):
            model = fitted(self.estimator, self.X, bought, y, weights)
        self._fitted = (self.spent, model)
        return model

    def expected_gain(self, labels: int | None = None) -> float:
        r"""Return by how much more labels are expected to lower the loss.

        An unregularised fit to n labels lies ``tr(H C)/2 ∝ 1/n`` above the best linear model, C
        the covariance of its parameters; ``m`` more labels take ``m/(n + m)`` of that away. A
        regularised fit lies lower, so the estimate errs towards buying. Infinite while the
        labels do not determine the fit.

        Parameters
        ----------
        labels : int, optional
            Labels to come; ``ahead`` by default.
        """
        more = self.ahead if labels is None else whole("labels", labels)
        try:
            model = last_step(self.fit())
        except ValueError:
            # Labels of one class only: anything may still be learned.
            return float("inf")
        return float(model.excess_ * more / (model.n_labels_ + more))

    # -- internals --------------------------------------------------------------------------

    def _draw(self) -> None:
        # Each batch has randomness of its own: a resumed budget draws what it would have drawn.
        rng = np.random.default_rng([self._seed, self._draws])
        wanted = min(self.batch_size, self.budget - self.spent)
        scores = None if self.criterion is None else self._scores()
        if scores is None and self.criterion is None:
            left = np.setdiff1d(np.arange(self.rows), [*self.labels, *self.declined])
            wanted = min(wanted, len(left))
            rows, weights = rng.choice(left, wanted, replace=False), np.ones(wanted)
        else:
            q = np.full(self.rows, 1 / self.rows) if scores is None else scores
            rows = rng.choice(self.rows, wanted, p=q)
            weights = 1 / (self.rows * q[rows])
        draw = Draw(rows.tolist(), weights.tolist())
        self._journal.add_draw(draw)
        self._enter_draw(draw)

    def _scores(self) -> Array | None:
        assert self.criterion is not None
        try:
            model = self.fit()
        except ValueError:
            return None
        named = any(self.criterion is known for known in NAMED.values())
        X = self.X if named else copied_tree(self.X)
        return probabilities(self.criterion(model, X), self.rows, self.floor)

    def _label_fault(self, label: Any) -> str | None:
        return label_fault(label, last_step(self.estimator), self._classes)

    def _enter_draw(self, draw: Draw) -> None:
        self._draws += 1
        np.add.at(self.weights, np.array(draw.rows, dtype=int), draw.weights)
        known = self.labels.keys() | self.declined
        self._open = list(dict.fromkeys(row for row in draw.rows if row not in known))

    def _enter_answer(self, answer: Answer) -> None:
        row, label = answer
        if label is None:
            self.labels.pop(row, None)
            self.declined.add(row)
        else:
            self.labels[row] = label
            self.declined.discard(row)
        self._fitted = None
        self._open = [other for other in self._open if other != row]
