"""One budget for several fits, clones and processes; killed runs; nothing is released twice."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.private import (
    PrivacyBudget,
    PrivacyBudgetError,
    PrivateLogisticRegression,
    noise_multiplier,
)
from proxyprox.private.accounting import Release, total_epsilon


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
    name = one.open(None, [release], {}, private=True)
    with pytest.raises(PrivacyBudgetError, match="Reserved"):
        other.open(None, [release], {}, private=True)
    one.charge(name, 0, release, "w")
    with pytest.raises(PrivacyBudgetError, match="overspent"):
        one.charge(name, 1, release, "w")
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
    with pytest.raises(PrivacyBudgetError, match="cannot be used"):
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
        rows = database.execute("SELECT data FROM events WHERE kind = 'release'").fetchall()
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


# -- plans at the same time ---------------------------------------------------------------------


def fit(budget):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] + rng.logistic(size=600) > 0).astype(int)
    model = PrivateLogisticRegression(
        epsilon=1.0, delta=1e-5, classes=[0, 1], n_nominal=500, budget=budget
    )
    try:
        model.fit(X[100:], y[100:], X_public=X[:100], y_public=y[:100])
    except PrivacyBudgetError:
        return "refused"
    return "finished"


def started(program, *arguments):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], text=True, env=env, **pipes
    )


def require_three_fits(outcomes, budget):
    assert sorted(outcomes) == ["finished"] * 3 + ["refused"] * 5
    alone = Release(noise_multiplier(1.0, 1e-5, 1))
    assert budget.spent.epsilon == pytest.approx(total_epsilon([alone] * 3, 1e-5))
    assert budget.spent.epsilon < 2.05
    states = [plan["state"] for plan in budget.report()["plans"]]
    assert states == ["complete"] * 3
    assert budget.report()["reserved"] == 0


@pytest.mark.parametrize("on_disk", [False, True])
def test_of_eight_threads_three_fit_and_nothing_is_burnt(path, on_disk):
    budget = PrivacyBudget(path if on_disk else None, epsilon=2.05, delta=1e-5)
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: fit(budget), range(8)))
    require_three_fits(outcomes, budget)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_of_eight_processes_three_fit_and_nothing_is_burnt(path):
    codes, children = {0: "finished", 3: "refused"}, []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            outcome = None
            try:
                outcome = fit(PrivacyBudget(path, epsilon=2.05, delta=1e-5))
            finally:
                os._exit(next((code for code in codes if codes[code] == outcome), 1))
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    budget = PrivacyBudget(path, epsilon=2.05, delta=1e-5)
    require_three_fits([codes.get(end, end) for end in ends], budget)


HOLDS = """
import sys
from proxyprox.private import PrivacyBudget
from proxyprox.private.accounting import Release
budget = PrivacyBudget(sys.argv[1], epsilon=1.0, delta=1e-5)
releases = [Release(float(sys.argv[2]))] * 3
name = budget.open("its plan", releases, {}, private=True)
budget.charge(name, 0, releases[0], "a point")
print("ready", flush=True)
sys.stdin.readline()
"""


def test_what_a_dead_process_reserved_is_free_and_what_it_charged_is_not(path):
    sigma = noise_multiplier(1.0, 1e-5, 3)
    budget = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    with started(HOLDS, str(path), str(sigma)) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        with pytest.raises(PrivacyBudgetError, match=f"its plan.*process {process.pid}"):
            budget.open("mine", [Release(sigma)] * 2, {}, private=True)
        assert "open" in [plan["state"] for plan in budget.report()["plans"]]
        process.kill()
    assert budget.spent.releases == 1
    with pytest.raises(PrivacyBudgetError, match="overspent"):
        budget.open("mine", [Release(sigma)] * 3, {}, private=True)
    name = budget.open("mine", [Release(sigma)] * 2, {}, private=True)
    for k in range(2):
        assert budget.charge(name, k, Release(sigma), "w") is None
    assert budget.spent.epsilon == pytest.approx(1.0)
    theirs = budget.report()["plans"][0]
    assert (theirs["state"], theirs["releases"]) == ("ended", 1)
    assert "gone" in theirs["opened"][0]["why"]
    budget.end(name)
    assert os.listdir(path.parent) == [path.name]  # the dead process's lock is removed


def test_a_reservation_ends_with_its_object_or_by_hand(make, path):
    for place in (None, path):
        budget = PrivacyBudget(place, epsilon=1.0, delta=1e-5)
        held = make(budget=budget)
        with pytest.raises(PrivacyBudgetError, match="Reserved"):
            make(budget=budget)
        del held
        held = make(budget=budget)
        budget.end(held.name)
        make(budget=budget).gradient(np.zeros(3))
        # What was ended has no claim, and takes what is left.
        held.gradient(np.zeros(3))
        assert budget.spent.releases == 2
        with pytest.raises(PrivacyBudgetError, match="no plan"):
            budget.end("another")


def test_a_fit_that_fails_reserves_nothing(make, path):
    budget = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    target = make(budget=budget)
    with pytest.raises(ValueError, match="w"):
        target.gradient(np.zeros(4))
    del target
    assert make(budget=budget).spent.releases == 0


def test_what_was_never_paid_for_or_opened_is_refused(path):
    budget = PrivacyBudget(path, epsilon=1.0, delta=1e-5)
    with pytest.raises(PrivacyBudgetError, match="no plan"):
        budget.charge("unknown", 0, Release(5.0), "w")
    name = budget.open(None, [Release(5.0)], {}, private=True)
    with pytest.raises(PrivacyBudgetError, match="not paid"):
        budget.enter_release(name, 0, np.zeros(2))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM events WHERE kind = 'plan'")
    # The plan's row is gone under a living object: SQLite's foreign keys refuse the charge.
    with pytest.raises(PrivacyBudgetError, match="cannot be used"):
        budget.charge(name, 0, Release(5.0), "w")


# -- a privacy officer's page -------------------------------------------------------------------


def test_the_page_says_who_when_and_what_is_left(make, path):
    budget = PrivacyBudget(path, epsilon=3.0, delta=1e-5)
    first = make(budget=budget, name="first fit")
    for _ in range(3):
        first.gradient(np.zeros(3))
    with pytest.warns(UserWarning, match="seeded"):
        seeded = make(budget=budget, seed=0)
    seeded.gradient(np.zeros(3))
    held = make(budget=budget)
    before = path.read_bytes()
    reader = PrivacyBudget.read(path)
    page = str(reader)
    assert page == str(budget)
    for words in (
        str(path), "ε = 3 at δ = 1e-05", "add or remove one row", "Gaussian noise", "spent",
        "reserved", "left", "'first fit': complete", "NOT PRIVATE", "3 of 3 releases",
        f"process {os.getpid()}", f"proxyprox {pp.__version__}", "UTC", f"σ = {first.sigma:.4g}",
        "sampling rate 1", "exact Gaussian DP", "clip = 1.0", "n_nominal = 500",
    ):  # fmt: skip
        assert words in page, words
    report = reader.report()
    assert [plan["state"] for plan in report["plans"]] == ["complete", "open", "open"]
    assert report["spent"] == pytest.approx(reader.spent.unseeded_epsilon)
    # Exactly what is left can still be opened.
    for factor, fits in ((1 + 1e-6, False), (1 - 1e-6, True)):
        releases = [Release(noise_multiplier(report["left"] * factor, 1e-5, 4))] * 4
        if fits:
            assert path.read_bytes() == before
            budget.open("rest", releases, {}, private=True)
            assert budget.left == pytest.approx(0, abs=0.01)
        else:
            with pytest.raises(PrivacyBudgetError, match="overspent"):
                budget.open("rest", releases, {}, private=True)
    for change in (
        lambda: reader.open("x", [Release(500.0)], {}, private=True),
        lambda: reader.open("first fit", first._plan, {}, private=True),
        lambda: reader.charge("first fit", 3, Release(500.0), "w"),
    ):
        with pytest.raises(PrivacyBudgetError):
            change()
    assert pickle.loads(pickle.dumps(reader)).id == budget.id
    del held


def test_reading_needs_a_file_that_is_a_budget(path):
    for content in (None, b"", b"no database, though it is long enough to look like one"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(PrivacyBudgetError, match=r"budget\.sqlite"):
            PrivacyBudget.read(path)
        assert not path.exists() or path.read_bytes() == content
