"""The journal below labels, budgets and rollouts: damage, and files that were replaced."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from proxyprox.private import PrivacyBudget, PrivacyBudgetError, noise_multiplier
from proxyprox.simulation import RolloutJournal, Trajectory
from proxyprox.simulation.rollouts import RolloutError
from proxyprox.sklearn import JournalError, LabelBudget, ProxyRidge
from tests.runs import mutated

# -- the stores: how a file is made and filled, and all that it holds ---------------------

SIGMA = noise_multiplier(1.0, 1e-5, 3)


class Budget:
    error, name = PrivacyBudgetError, "budget.sqlite"

    @staticmethod
    def open(path):
        return PrivacyBudget(path, epsilon=3.0, delta=1e-5)

    @staticmethod
    def add(budget, k):
        releases = [SIGMA] * 3
        name = budget.open(f"plan {k}", releases, {"clip": 1.0})
        for i in range(2):
            budget.charge(name, i, releases[i], f"point {i}")
            budget.enter_release(name, i, np.arange(5.0) + k + i)
        budget.charge(name, 2, releases[2], "never drawn")
        budget.end(name)

    @staticmethod
    def content(budget):
        plans = budget.report()["plans"]
        vectors = [
            budget.charge(plan["name"], i, SIGMA, f"point {i}").tolist()
            for plan in plans
            for i in range(2)
        ]
        spent = budget.spent
        return (
            budget.id, spent.epsilon, spent.releases, vectors,
            [[plan["name"], plan["releases"], plan["settings"]] for plan in plans],
        )  # fmt: skip


class Labels:
    error, name = JournalError, "labels.sqlite"

    @staticmethod
    def open(path):
        return LabelBudget(ProxyRidge(), np.eye(20), budget=20, batch_size=20, path=path)

    @staticmethod
    def add(budget, k):
        row = int(budget.ask()[0])
        budget.tell(row, [k / 3])
        budget.comment(row, "seen")

    @staticmethod
    def content(budget):
        budget.close()
        return budget.labels, budget.comments, budget.ask().tolist()


class Rollouts:
    error, name = RolloutError, "rollouts.sqlite"

    @staticmethod
    def open(path):
        return RolloutJournal(path, "a task")

    @staticmethod
    def request(k):
        return SimpleNamespace(id=f"rollout {k}", w=np.arange(3.0) + k, evaluation=k == 2)

    @classmethod
    def add(cls, journal, k):
        journal.start(cls.request(k))
        journal.start(cls.request(k))
        if k != 3:
            journal.answer(cls.request(k), Trajectory(np.full((4, 1), k / 3), seconds=0.5))
        journal.remember(f"note {k}", lambda: np.array([k / 7]))

    @staticmethod
    def content(journal):
        answers = [(w.tolist(), one.actions.tolist()) for w, one in journal.answered()]
        notes = [journal.remember(f"note {k}", lambda: np.zeros(1)).tolist() for k in range(4)]
        return journal.ledger(), answers, notes


STORES = [Budget, Labels, Rollouts]


@pytest.fixture(params=STORES, ids=lambda store: store.name.split(".")[0])
def store(request):
    return request.param


FILLED: dict[type, bytes] = {}


@pytest.fixture
def path(store, tmp_path):
    """A file with four of what the store keeps."""
    path = tmp_path / store.name
    if store not in FILLED:
        opened = store.open(path)
        for k in range(4):
            store.add(opened, k)
        getattr(opened, "close", lambda: None)()
        FILLED[store] = path.read_bytes()
    path.write_bytes(FILLED[store])
    return path


def attempt(store, path):
    """Return what a file holds, or None if it is refused by a named error that says what to do."""
    try:
        return store.content(store.open(path))
    except store.error as error:
        text = str(error)
        assert path.name in text
        assert any(word in text for word in ("estore", "hoose", "emove", "ring it back")), text
        return None


# -- damage ------------------------------------------------------------------------------------


def test_a_damaged_file_is_refused_or_whole(store, path):
    whole, content, refused = attempt(store, path), path.read_bytes(), 0
    rng = np.random.default_rng(0)
    for _ in range(int(os.environ.get("PROXYPROX_MUTATIONS", "75"))):
        path.write_bytes(mutated(content, rng))
        found = attempt(store, path)
        assert found in (None, whole)
        refused += found is None
        for side in path.parent.glob(f"{path.name}-*"):
            side.unlink()
    assert refused > 20


ROWS = ("events WHERE number = 1", "events WHERE number = 3", "events WHERE number > 4", "head")


@pytest.mark.parametrize("rows", ROWS)
def test_lost_rows_are_noticed(store, path, rows):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"DELETE FROM {rows}")
    assert attempt(store, path) is None


def test_a_file_of_0_bytes_and_an_empty_database_are_refused(store, path):
    for content in (b"", b"\0" * 4096):
        path.write_bytes(content)
        assert attempt(store, path) is None
        assert path.read_bytes() == content
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE a (b)")
        database.execute("DROP TABLE a")
    assert attempt(store, path) is None


def test_a_write_that_was_cut_off_is_rolled_back(store, path):
    """SQLite's own journal brings the file back; without it the file is refused."""
    whole, before = attempt(store, path), path.read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA cache_spill = 1")
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE head SET count = 0")
        for _ in range(50):
            database.execute("INSERT INTO events VALUES (NULL, '', '', ?, '', NULL, '', '')",
                             ("x" * 3000,))  # fmt: skip
        side = Path(f"{path}-journal")
        torn, journal = path.read_bytes(), side.read_bytes()
    assert torn != before
    path.write_bytes(torn)
    assert attempt(store, path) is None
    path.write_bytes(torn)
    side.write_bytes(journal)
    assert attempt(store, path) == whole


# -- files that are replaced, shared or made at once -------------------------------------------


def test_a_live_object_notices_another_file_an_older_copy_and_none(store, tmp_path):
    path = tmp_path / store.name
    live = store.open(path)
    store.add(live, 0)
    older = path.read_bytes()
    store.add(live, 1)
    newer = path.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    stranger = store.open(other / store.name)
    store.add(stranger, 0)
    for content in (older, (other / store.name).read_bytes(), b"", None):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(store.error, match=store.name):
            store.add(live, 2)
        assert not path.exists() or path.read_bytes() == content
        path.write_bytes(newer)
    store.add(live, 2)
    assert path.read_bytes() != newer


def test_a_file_of_another_store_is_refused(store, path):
    for other in STORES:
        if other is not store:
            content = path.read_bytes()
            place = path.rename(path.with_name(other.name))
            assert attempt(other, place) is None
            assert place.read_bytes() == content
            place.rename(path)
