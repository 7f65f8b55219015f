"""The journal of labels: resumed, locked, validated, and whole after a kill."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from proxyprox._util.journal import Journal
from proxyprox.sklearn import JournalError, LabelBudget, ProxyLogisticRegression, ProxyRidge

QUICK = ProxyLogisticRegression(cv=2, max_steps=10)


@pytest.fixture
def pool(binary):
    X, y, _ = binary
    return X[:300, :3], y[:300]


def test_answers_survive_and_are_resumed(pool, tmp_path):
    X, y = pool
    path = tmp_path / "labels.sqlite"
    whole = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty")
    whole.run(lambda rows: y[rows])
    budget = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty", path=path)
    for row in budget.ask()[:4]:
        budget.tell(int(row), y[row])
    left = budget.ask()
    again = LabelBudget(QUICK, X, budget=30, batch_size=10, criterion="uncertainty", path=path)
    assert again.spent == 4
    assert (again.ask() == left).all()
    again.run(lambda rows: y[rows])
    assert again.labels == whole.labels
    np.testing.assert_array_equal(again.weights, whole.weights)


def bought(X, path, rows=1, **settings):
    """Return a budget with a few answers in a file."""
    budget = LabelBudget(QUICK, X, budget=10, path=path, **settings)
    asked = budget.ask()[:rows]
    budget.tell(asked, [int(row) % 2 for row in asked])
    return budget


def test_other_data_is_refused(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    LabelBudget(QUICK, X[:50], budget=10, path=path).ask()  # no answer, nothing to lose
    bought(X, path)
    with pytest.raises(JournalError, match=r"rows: there 300, now 100"):
        LabelBudget(QUICK, X[:100], budget=10, path=path)
    path.write_bytes(b'{"about": {}}\n')
    with pytest.raises(JournalError, match=r"version 0\.1.*label again"):
        LabelBudget(QUICK, X, budget=10, path=path)
    for content in (b"what is this\n", b"notes without an end", b'{"a": 1}\n', b"SQLite"):
        path.write_bytes(content)
        with pytest.raises(JournalError, match="cannot be used"):
            LabelBudget(QUICK, X, budget=10, path=path)
        assert path.read_bytes() == content


def test_labels_of_other_rows_of_the_same_shape_are_refused(pool, tmp_path):
    X, _ = pool
    for name, form in (("dense", np.asfortranarray), ("sparse", scipy.sparse.csr_array)):
        path = tmp_path / name
        bought(form(X[:100]), path)
        assert LabelBudget(QUICK, form(X[:100].copy()), budget=10, path=path).spent == 1
        with pytest.raises(JournalError, match="data: there"):
            LabelBudget(QUICK, form(X[100:200]), budget=10, path=path)


BUYS = """
import sys
import numpy as np
from proxyprox.sklearn import LabelBudget, ProxyRidge
budget = LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=sys.argv[1])
for row in budget.ask()[:7]:
    budget.tell(int(row), float(row))
print("bought", flush=True)
sys.stdin.read()
"""


def test_another_process_is_refused_and_a_killed_one_loses_nothing(tmp_path):
    path = tmp_path / "labels.sqlite"
    command = [sys.executable, "-c", BUYS, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline()
        with pytest.raises(JournalError, match=r"labels.sqlite.* is being written by process"):
            LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=path)
        process.kill()
    budget = LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=path)
    assert budget.spent == 7
    assert all(label == row for row, label in budget.labels.items())


def test_a_newer_budget_of_one_process_takes_over(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    older = bought(X, path)
    newer = LabelBudget(QUICK, X, budget=10, path=path)
    with pytest.raises(JournalError, match="newer LabelBudget"):
        older.tell(older.ask()[:1], [1])
    newer.tell(newer.ask()[:1], [1])
    newer.close()
    with pytest.raises(JournalError, match="closed"):
        newer.tell(newer.ask()[:1], [1])
    assert newer.spent == 2
    with LabelBudget(QUICK, X, budget=10, path=path) as again:
        assert again.labels == newer.labels
    assert again.path == path


def test_a_file_that_is_taken_away_is_noticed(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    budget = bought(X, path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="cannot be used"):
        budget.tell(budget.ask()[:1], [1])
    (tmp_path / "elsewhere").rename(path)
    budget.tell(budget.ask()[:1], [1])
    assert LabelBudget(QUICK, X, budget=10, path=path).spent == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_write(tmp_path):
    path = tmp_path / "labels.sqlite"
    budget = LabelBudget(ProxyRidge(), np.eye(20), budget=20, path=path)
    row = int(budget.ask()[0])
    child = os.fork()
    if child == 0:
        try:
            budget.tell(row, 1.0)
        except JournalError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    budget.tell(row, 2.0)
    assert budget.labels == {row: 2.0}


def test_a_copy_of_a_budget_does_not_write(pool, tmp_path):
    X, _ = pool
    copied = copy.deepcopy(bought(X, tmp_path / "labels.sqlite"))
    with pytest.raises(JournalError, match="newer LabelBudget"):
        copied.tell(copied.ask()[:1], [1])
    assert copy.deepcopy(bought(X, None)).spent == 1


@pytest.mark.parametrize("label", [True, 1, 1.5, "é", "\udcff", 2**70])
def test_labels_come_back_as_they_were(pool, tmp_path, label):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    budget = LabelBudget(QUICK, X, budget=10, path=path)
    budget.tell(int(budget.ask()[0]), [label])
    (back,) = LabelBudget(QUICK, X, budget=10, path=path).labels.values()
    assert (back, type(back)) == (label, type(label))


def test_labels_that_cannot_be_kept_or_are_not_allowed_are_refused(pool, tmp_path):
    X, _ = pool
    about = {"classes": ["yes", "no"]}
    budget = LabelBudget(QUICK, X, budget=10, path=tmp_path / "labels.sqlite", about=about)
    row = int(budget.ask()[0])
    for label, words in (("maybe", "classes"), (float("inf"), "finite"), (b"yes", "finite")):
        with pytest.raises(ValueError, match=words):
            budget.tell(row, [label])
    assert budget.spent == 0


def test_damaged_files_are_named_or_harmless(pool, tmp_path):
    X, _ = pool
    path, damaged = tmp_path / "labels.sqlite", tmp_path / "damaged.sqlite"
    budget = bought(X, path, rows=8)
    budget.close()
    content, rng = path.read_bytes(), np.random.default_rng(0)
    named = 0
    for _ in range(100):
        changed = bytearray(content)
        at = int(rng.integers(len(content)))
        kind = rng.integers(3)
        if kind == 0:
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del changed[max(at, 1) :]
        else:
            changed[at : at + 64] = rng.bytes(64)
        damaged.write_bytes(changed)
        try:
            found = LabelBudget(QUICK, X, budget=10, path=damaged)
        except JournalError as error:
            named += "damaged.sqlite" in str(error)
        else:
            assert found.labels == budget.labels
            assert (found.weights == budget.weights).all()
            found.close()
        for leftover in tmp_path.glob("damaged.sqlite*"):
            leftover.unlink()
    assert 20 < named < 100


def test_every_kind_of_entry_is_resumed(pool, tmp_path):
    X, _ = pool
    path = tmp_path / "labels.sqlite"
    budget = bought(X, path, rows=5)
    first = budget.last
    budget.undo()
    budget.tell(budget.ask()[1:2], [None])
    budget.add([200, 201, 202], [0, 1, None])
    budget.comment(200, "odd")
    budget.close()
    again = LabelBudget(QUICK, X, budget=10, path=path)
    for name in ("labels", "declined", "comments", "spent", "last", "unbiased"):
        assert getattr(again, name) == getattr(budget, name)
    assert again.ask().tolist() == budget.ask().tolist()
    assert again.ask()[0] == first
    np.testing.assert_array_equal(again.weights, budget.weights)
    assert again.undo() == budget.last


@pytest.mark.parametrize(
    "entry",
    [
        {"draw": [-1], "weights": [1.0]},
        {"draw": [300], "weights": [1.0]},
        {"draw": [True], "weights": [1.0]},
        {"draw": [1, 2], "weights": [1.0]},
        {"draw": [1], "weights": [float("nan")]},
        {"draw": [1], "weights": [0]},
        {"draw": [1], "weights": ["1"]},
        {"draw": 1, "weights": 1},
        {"row": -1, "label": "yes"},
        {"row": "1", "label": "yes"},
        {"row": 1, "label": "maybe"},
        {"row": 1, "label": ["yes"]},
        {"row": 1},
        {"undo": 1},
        {"comment": 1, "of": 1},
        {"comment": "x", "of": 300},
        {"about": {}},
        {},
        [],
        "yes",
        None,
    ],
)
def test_entries_that_this_package_never_writes_are_refused(pool, tmp_path, entry):
    X, _ = pool
    path, about = tmp_path / "labels.sqlite", {"classes": ["yes", "no"]}
    with LabelBudget(QUICK, X, budget=10, path=path, about=about) as budget:
        budget.tell(int(budget.ask()[0]), "yes")
    before = path.read_bytes()
    # As a program would that knows the digests.
    with Journal(path, "journal of labels", JournalError, print).transaction() as append:
        append("entry", content=entry)
    for _ in range(2):  # the first refusal has let go of the file
        with pytest.raises(JournalError, match=r"labels\.sqlite.*(cannot be used|damaged)"):
            LabelBudget(QUICK, X, budget=10, path=path, about=about)
    path.write_bytes(before)
    assert LabelBudget(QUICK, X, budget=10, path=path, about=about).spent == 1
