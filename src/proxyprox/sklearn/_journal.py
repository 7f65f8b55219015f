"""Answers that cost money, on disk before they count: one SQLite database for each pool of rows."""

from __future__ import annotations

import errno
import json
import math
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proxyprox._digests import text_digest
from proxyprox._text import printable

if TYPE_CHECKING:
    import sqlite3

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
