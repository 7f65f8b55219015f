"""One budget for several fits, clones and processes; killed runs; nothing is released twice."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.private import PrivacyBudget, PrivacyBudgetError, noise_multiplier
from proxyprox.private.accounting import Release


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.sqlite"


def test_several_objectives_share_it(make, path):
    with PrivacyBudget(path, epsilon=1.5, delta=1e-5) as budget:
        target = make(budget=budget)
        for _ in range(3):
            target.gradient(np.zeros(3))
        assert budget.spent.epsilon == pytest.approx(1.0)
        with pytest.raises(PrivacyBudgetError, match="overspent"):
            make(epsilon=1.2, budget=budget)
        assert budget.spent.releases == 3
        make(epsilon=0.9, budget=budget).gradient(np.zeros(3))
    assert PrivacyBudget(path, epsilon=1.5, delta=1e-5).spent.releases == 4


def test_a_charge_that_would_overspend_is_refused_whoever_makes_it(path):
    one, other = (PrivacyBudget(path, epsilon=1.0, delta=1e-5) for _ in range(2))
    release = Release(1 / 0.2)
    names = [budget.open(None, [release], {}, private=True) for budget in (one, other)]
    one.charge(names[0], 0, release, "w")
    with pytest.raises(PrivacyBudgetError, match="overspent"):
        other.charge(names[1], 0, release, "w")
    assert other.spent.releases == 1


def test_copies_and_clones_are_the_same_purse(path):
    memory = PrivacyBudget(epsilon=1.0, delta=1e-5)
    assert copy.deepcopy(memory) is memory
    with pytest.raises(PrivacyBudgetError, match="file"):
        pickle.dumps(memory)
    on_disk = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    assert pickle.loads(pickle.dumps(on_disk)).id == on_disk.id


def test_another_epsilon_or_delta_is_refused(path):
    PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    for other in ({"epsilon": 2.0, "delta": 1e-5}, {"epsilon": 1.0, "delta": 1e-6}):
        with pytest.raises(PrivacyBudgetError, match="epsilon=1"):
            PrivacyBudget(path, **other)


def test_what_is_no_budget_is_refused(path):
    path.write_bytes(b"this is no database, whatever it is, and it is long enough to be read")
    with pytest.raises(PrivacyBudgetError, match="no privacy budget"):
        PrivacyBudget(path, epsilon=1.0, delta=1e-5)


def test_a_named_plan_is_resumed_at_no_cost_with_the_same_vectors(make, path):
    def run():
        budget = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
        target = make(budget=budget, name="first")
        return [target.gradient(np.full(3, 0.1 * k)) for k in range(3)], budget.spent

    first, spent = run()
    again, spent_again = run()
    np.testing.assert_array_equal(first, again)
    assert spent.releases == spent_again.releases == 3


def test_a_charge_answers_one_question_only(make, path):
    budget = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    make(budget=budget, name="a").gradient(np.zeros(3))
    with pytest.raises(PrivacyBudgetError, match="another point"):
        make(budget=budget, name="a").gradient(np.ones(3))


@pytest.mark.parametrize("other", [{"epsilon": 0.5}, {"clip": 2.0}, {"releases": 4}])
def test_a_name_with_other_settings_is_refused(make, path, other):
    budget = PrivacyBudget(path, epsilon=3.0, delta=1e-5)
    make(budget=budget, name="a").gradient(np.zeros(3))
    with pytest.raises(PrivacyBudgetError, match="another plan"):
        make(budget=budget, name="a", **other)
    assert budget.spent.releases == 1


KILLED = """
import sys, numpy as np, os, signal
import proxyprox.private.mechanism as mechanism
from proxyprox.private import PrivacyBudget, Private, PrivateRows
from proxyprox.problems.families import Logistic
budget = PrivacyBudget(sys.argv[1], epsilon=1.0, delta=1e-5)
rng = np.random.default_rng(1)
rows = PrivateRows(rng.uniform(-1, 1, size=(50, 2)), rng.integers(2, size=50), Logistic((0, 1)))
target = Private(rows, epsilon=1.0, delta=1e-5, releases=3, n_nominal=50, clip=1.0,
                 budget=budget, name="run")
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
for k in range(3):
    if sys.argv[2] == str(k): mechanism.draw_noise = kill
    print(*target.gradient(np.zeros(2) + k), flush=True)
"""


def run_killed(path, when):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), when], capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == (0 if when == "never" else -signal.SIGKILL), done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_run_spends_and_releases_once(path):
    seen = run_killed(path, "1")
    # The second was paid for and never drawn.
    assert len(seen) == 1
    assert PrivacyBudget(path, epsilon=1.0, delta=1e-5).spent.releases == 2
    finished = run_killed(path, "never")
    assert finished[:1] == seen
    assert PrivacyBudget(path, epsilon=1.0, delta=1e-5).spent.releases == 3


def test_checkpoints_resume_with_their_own_budget_only(make, path, tmp_path):
    public = pp.Quadratic(np.eye(3))
    settings = {"method": pp.ProxyProx(eta=1.0), "checkpoint": tmp_path / "run"}

    def problem(budget):
        return pp.Problem(make(budget=budget, name="run"), public)

    budget = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    pp.minimize(problem(budget), steps=2, **settings)
    result = pp.minimize(problem(budget), steps=3, **settings)
    assert result.steps == budget.spent.releases == 3
    other = PrivacyBudget(tmp_path / "other.sqlite", epsilon=1.0, delta=1e-5)
    with pytest.raises(PrivacyBudgetError, match="another budget"):
        pp.minimize(problem(other), steps=3, **settings)
    assert other.spent.releases == 0


def test_the_journal_holds_released_vectors_only(make, path):
    budget = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    target = make(budget=budget)
    released = target.gradient(np.zeros(3))
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT released FROM charges").fetchall()
    np.testing.assert_array_equal(np.frombuffer(rows[0][0]), released)


def test_a_seeded_plan_marks_the_whole_budget(make, path):
    budget = PrivacyBudget(path, epsilon=2.0, delta=1e-5)
    with pytest.warns(UserWarning, match="seeded"):
        make(budget=budget, seed=0).gradient(np.zeros(3))
    assert "NOT PRIVATE" in str(budget.spent)


def test_a_pickle_does_not_make_a_full_budget_of_a_lost_file(tmp_path):
    path = tmp_path / "budget.sqlite"
    text = pickle.dumps(PrivacyBudget(path, epsilon=1.0, delta=1e-5))
    assert pickle.loads(text).spent.releases == 0
    path.unlink()
    with pytest.raises(PrivacyBudgetError, match="gone"):
        pickle.loads(text)
    assert not path.exists()
    PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    with pytest.raises(PrivacyBudgetError, match="another budget"):
        pickle.loads(text)
    with pytest.raises(ValueError, match="path"):
        PrivacyBudget(tmp_path / "typo" / "budget.sqlite", epsilon=1.0, delta=1e-5)


def test_a_tiny_budget_can_be_spent():
    PrivacyBudget(epsilon=1e-6, delta=1e-5).open(
        None, [Release(noise_multiplier(1e-6, 1e-5, 1))], {}, private=True
    )
