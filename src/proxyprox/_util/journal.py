"""One durable journal, for labels, privacy budgets, rollouts and records.

A journal is a list of events in an SQLite file that is only ever added to. Its owner computes what
the events mean by replaying them. An event's digest covers the event and the digest before it; the
head holds the file's identity, the number of events and the last digest, and changes in the same
transaction as the events.

A kill, a power cut or a full disk leaves the journal as it was before or after a transaction.
Damage (flipped bits, zeroed sectors, lost rows, a file cut short or replaced by another) is an
error that says what to do, never a shorter journal. This does not protect against malice, as the
digests hold no secret, nor against a whole older copy that is put in the file's place while no
process has it open.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from proxyprox._util.files import atomic_new

SCHEMA = {
    "head": "CREATE TABLE head (kind TEXT NOT NULL, identity TEXT NOT NULL, "
    "count INTEGER NOT NULL, digest TEXT NOT NULL)",
    "events": "CREATE TABLE events (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, "
    "key TEXT NOT NULL, content TEXT NOT NULL, data BLOB, "
    "refers INTEGER REFERENCES events (number), time TEXT NOT NULL, digest TEXT NOT NULL)",
}
# Seconds to wait for other processes, whose transactions take milliseconds.
PATIENCE = 60
REMEDY = "Restore a copy, or choose another file."


class Event(NamedTuple):
    """Something that happened.

    Attributes
    ----------
    kind, key : str
        What happened, and to what.
    content : JSON value
        The rest of it.
    data : bytes, optional
        Arrays, which are read again on demand.
    refers : int, optional
        Number of the earlier event that it belongs to; SQLite refuses one that is not there.
    time : str
        When, in UTC; by default now.
    number : int
        Its place in the journal, from 1 on.
    """

    kind: str
    key: str = ""
    content: Any = None
    data: bytes | None = None
    refers: int | None = None
    time: str = ""
    number: int = 0


class _UnusableError(Exception):
    """What is wrong with a file, and what to do."""

    def __init__(self, text: str, remedy: str = REMEDY) -> None:
        super().__init__(text)
        self.remedy = remedy


class Journal:
    """Events in a file that threads and processes share, or in memory.

    Parameters
    ----------
    path : path-like, optional
        The file. It is made if it is not there, whole or not at all; symbolic links are followed.
    kind : str
        What it is, in words: "privacy budget". Files of another kind are refused.
    error : type
        The exception for everything that is wrong with the file.
    replay : callable
        Takes each event in order, whoever wrote it; after an interrupt it may get one again.
    first : sequence of Event
        What a new journal begins with.
    readonly : bool
        Never write.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, kind: str, error: type[Exception],
        replay: Callable[[Event], None], *, first: Sequence[Event] = (), readonly: bool = False,
    ) -> None:  # fmt: skip
        self.path = None if path is None else Path(os.path.realpath(path))
        self.kind, self.readonly, self.identity = kind, readonly, secrets.token_hex(16)
        self._error, self._replay = error, replay
        self._lock, self._database = threading.RLock(), cast("Any", None)
        # That of the identity, then one for each event.
        self._digests: list[str] = []
        self._memory: list[Event] | None = None
        if self.path is None:
            self._memory, self._digests = [], [""]
            self._keep_in_memory(first)
            return
        with self._named():
            if not readonly and not self.path.exists():
                self._make(first)
            if self.path.stat().st_size == 0:
                remedy = "Restore a copy, or remove it if nothing was ever stored there."
                raise _UnusableError("it has 0 bytes, which is what damage leaves", remedy)
            self._open()

    @contextmanager
    def transaction(self) -> Iterator[Callable[..., int]]:
        """Yield a function that appends events: all are on disk when the block ends, or none is.

        Whatever other processes have appended is replayed first. The function takes the fields of
        an :class:`Event` and returns its number.
        """
        new: list[Event] = []

        def append(*args: Any, **fields: Any) -> int:
            if self.readonly:
                raise self._error(f"The {self.kind} {self.path} was opened for reading only.")
            new.append(_stamped(Event(*args, **fields), len(self._digests) + len(new)))
            return new[-1].number

        with self._lock, self._named():
            if self._memory is not None:
                yield append
                self._keep_in_memory(new)
                return
            with self._connected() as database:
                self._catch_up(database)
                self._database = database
                try:
                    yield append
                finally:
                    self._database = None
                if not new:
                    return
                digests = _insert(database, self._digests[-1], new)
                database.execute("COMMIT")
            for event, digest in zip(new, digests, strict=True):
                self._take(event, digest)

    def read(self, numbers: Sequence[int]) -> list[Event]:
        """Return events again, inside a transaction."""
        if self._memory is not None:
            return [self._memory[number - 1] for number in numbers]
        query = "SELECT * FROM events WHERE number = ?"
        rows = [self._database.execute(query, (number,)).fetchone() for number in numbers]
        pairs = zip(rows, numbers, strict=True)
        return [_checked(row, number, self._digests[number - 1])[0] for row, number in pairs]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None, "_database": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    # -- the file ---------------------------------------------------------------------------------

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn what is wrong with the file into the owner's error."""
        try:
            yield
        except (
            _UnusableError, sqlite3.Error, OSError, UnicodeError, OverflowError, MemoryError,
        ) as error:  # fmt: skip
            text, remedy = str(error).rstrip("."), _remedy(error)
            if self.readonly and "readonly" in text:
                text = "a process was cut off while it wrote, and reading alone cannot mend that"
                remedy = "Open it for writing once."
            text = f"The {self.kind} {self.path} cannot be used: {text}."
            raise self._error(f"{text} {remedy}") from error

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Yield the database in a transaction, which is undone unless the block commits it."""
        address = f"{cast('Path', self.path).as_uri()}?mode={'ro' if self.readonly else 'rw'}"
        with closing(
            sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None)
        ) as database:
            database.execute("PRAGMA synchronous = EXTRA")
            # Tables of an earlier version that are dropped do not mind their keys.
            database.execute(f"PRAGMA foreign_keys = {bool(self._digests)}")
            database.execute("BEGIN" if self.readonly else "BEGIN IMMEDIATE")
            yield database

    def _make(self, first: Sequence[Event]) -> None:
        with (
            atomic_new(cast("Path", self.path)) as temporary,
            closing(sqlite3.connect(temporary, isolation_level=None)) as database,
        ):
            database.execute("PRAGMA journal_mode = MEMORY")  # nobody sees it before it is whole
            database.execute("BEGIN")
            for statement in SCHEMA.values():
                database.execute(statement)
            root = _root(self.kind, self.identity)
            head = (self.kind, self.identity, root)
            database.execute("INSERT INTO head VALUES (?, ?, 0, ?)", head)
            _insert(database, root, [_stamped(event, n) for n, event in enumerate(first, start=1)])
            database.execute("COMMIT")

    def _open(self) -> None:
        """Check the whole file."""
        with self._connected() as database:
            (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                raise _UnusableError(f"it is damaged ({found})")
            named = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"
            if dict(database.execute(named)) != SCHEMA:
                raise _UnusableError(f"it is no {self.kind}, or its tables are damaged")
            if database.execute("PRAGMA foreign_key_check").fetchone() is not None:
                raise _UnusableError("it is damaged (an event refers to one that is not there)")
            self._catch_up(database)

    def _catch_up(self, database: Any) -> None:
        """Replay what was appended since the last time; refuse another file or a shorter one."""
        heads = database.execute("SELECT kind, identity, count, digest FROM head").fetchall()
        if len(heads) != 1:
            raise _UnusableError("it is damaged (its head is lost)")
        kind, identity, count, last = heads[0]
        if kind != self.kind:
            raise _UnusableError(f"it is a {kind}", "Choose another file.")
        if self._digests and identity != self.identity:
            remedy = "Bring that file back, or open the new one."
            raise _UnusableError("another file was put in its place", remedy)
        if not self._digests:
            self._digests, self.identity = [_root(kind, identity)], identity
        known = len(self._digests) - 1
        query = "SELECT * FROM events" + (f" WHERE number > {known}" if known else "")
        for row in database.execute(f"{query} ORDER BY number"):
            self._take(*_checked(row, len(self._digests), self._digests[-1]))
        if (count, last) != (len(self._digests) - 1, self._digests[-1]):
            raise _UnusableError("it is damaged, or an older copy was put in its place")

    def _take(self, event: Event, digest: str) -> None:
        try:
            self._replay(event)
        except (self._error, sqlite3.Error, OSError):
            raise
        except Exception as error:
            text = f"event {event.number} is not one that this version writes ({error!r})"
            raise _UnusableError(text) from error
        self._digests.append(digest)

    def _keep_in_memory(self, events: Iterable[Event]) -> None:
        for event in events:
            stamped = _stamped(event, len(self._digests))
            cast("list[Event]", self._memory).append(stamped)
            self._take(stamped, "")


def _stamped(event: Event, number: int) -> Event:
    """Return an event with its place and time, and the content that a file would give back."""
    data = None if event.data is None else bytes(event.data)
    now = event.time or f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    content = json.loads(json.dumps(event.content))
    return Event(event.kind, str(event.key), content, data, event.refers, now, number)


def _insert(database: Any, previous: str, events: Sequence[Event]) -> list[str]:
    """Append events and move the head; return their digests."""
    digests = []
    for event in events:
        row = (event.number, event.kind, event.key, json.dumps(event.content), *event[3:6])
        previous = _digest(previous, row)
        digests.append(previous)
        database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, previous))
    if events:
        last = (events[-1].number, previous)
        database.execute("UPDATE head SET count = ?, digest = ?", last)
    return digests


def _checked(row: Any, number: int, previous: str) -> tuple[Event, str]:
    """Return the event of a row and its digest, which must continue the chain."""
    try:
        whole = row is not None and row[0] == number and row[-1] == _digest(previous, row[:-1])
    except (TypeError, ValueError):  # a cell of another type
        whole = False
    if not whole:
        raise _UnusableError(f"event {number} was changed, lost or damaged")
    _, kind, key, text, data, refers, time, digest = row
    return Event(kind, key, json.loads(text), data, refers, time, number), digest


def _root(kind: str, identity: str) -> str:
    return hashlib.blake2b(json.dumps([kind, identity]).encode(), digest_size=16).hexdigest()


def _digest(previous: str, row: Sequence[Any]) -> str:
    """Return the digest of a row's cells (all but its own) and of the digest before it."""
    *cells, data, refers, time = row
    size = None if data is None else len(data)
    state = hashlib.blake2b(digest_size=16)
    state.update(json.dumps([previous, *cells, size, refers, time]).encode())
    state.update(b"" if data is None else data)
    return state.hexdigest()


def _remedy(error: BaseException) -> str:
    """Return what to do about an error of the file."""
    text = str(error)
    if isinstance(error, _UnusableError):
        return error.remedy
    if "locked" in text:
        return f"Another process has kept it for {PATIENCE} seconds: try again when it has ended."
    if "full" in text or getattr(error, "errno", None) == errno.ENOSPC:
        return "Make room and try again: nothing of this call was stored."
    if isinstance(error, OSError) or "unable to open" in text or "readonly" in text:
        return "Bring it back, or make the file and its folder readable and writable."
    return REMEDY
