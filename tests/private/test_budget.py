"""One budget for several fits, clones and processes; killed runs; nothing is released twice."""

import copy
import os
import pickle
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.private import PrivacyBudget, PrivacyBudgetError, noise_multiplier
from proxyprox.private.accounting import total_epsilon

ZERO = np.zeros(3)


def test_copies_are_the_same_purse_and_a_lost_file_is_no_full_one(purse, path):
    memory = PrivacyBudget(epsilon=1.0, delta=1e-5)
    assert copy.deepcopy(memory) is memory
    with pytest.raises(PrivacyBudgetError, match="file"):
        pickle.dumps(memory)
    text = pickle.dumps(purse())
    assert pickle.loads(text).id == purse().id
    path.unlink()
    with pytest.raises(PrivacyBudgetError, match="gone"):
        pickle.loads(text)
    assert not path.exists()
    purse()
    with pytest.raises(PrivacyBudgetError, match="another budget"):
        pickle.loads(text)
    with pytest.raises(ValueError, match="path"):
        purse(place=path.parent / "typo" / "budget.sqlite")


def test_a_named_plan_is_resumed_at_no_cost_with_the_same_vectors(make, purse, path):
    def run():
        budget = purse()
        target = make(budget=budget, name="first")
        return [target.gradient(np.full(3, 0.1 * k)) for k in range(3)], budget.spent

    first, spent = run()
    again, spent_again = run()
    np.testing.assert_array_equal(first, again)
    assert spent.releases == spent_again.releases == 3
    # The journal holds released vectors only.
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT data FROM events WHERE kind = 'release'").fetchall()
    np.testing.assert_array_equal([np.frombuffer(data) for (data,) in found], first)


def test_a_name_and_a_charge_answer_one_question_only(make, purse):
    budget = purse(3.0)
    make(budget=budget, name="a").gradient(ZERO)
    with pytest.raises(PrivacyBudgetError, match="another point"):
        make(budget=budget, name="a").gradient(np.ones(3))
    for other in ({"epsilon": 0.5}, {"clip": 2.0}, {"releases": 4}):
        with pytest.raises(PrivacyBudgetError, match="another plan"):
            make(budget=budget, name="a", **other)
    assert budget.spent.releases == 1


def test_a_release_that_was_paid_for_and_never_drawn_is_drawn_once(make, purse, monkeypatch):
    def fail(size):
        raise KeyboardInterrupt

    target = make(budget=purse(), name="run")
    first = target.gradient(ZERO)
    with monkeypatch.context() as patched:
        patched.setattr("proxyprox.private.mechanism.draw_noise", fail)
        with pytest.raises(KeyboardInterrupt):
            target.gradient(np.ones(3))
    assert purse().spent.releases == 2
    del target
    again = make(budget=purse(), name="run")
    np.testing.assert_array_equal(again.gradient(ZERO), first)
    for point in (np.ones(3), ZERO):
        again.gradient(point)
    assert purse().spent.releases == 3


def test_checkpoints_resume_with_their_own_budget_only(make, purse, tmp_path):
    settings = {"method": pp.ProxyProx(eta=1.0), "checkpoint": tmp_path / "run"}

    def problem(budget):
        return pp.Problem(make(budget=budget, name="run"), pp.Quadratic(np.eye(3)))

    budget = purse()
    pp.minimize(problem(budget), steps=2, **settings)
    result = pp.minimize(problem(budget), steps=3, **settings)
    assert result.steps == budget.spent.releases == 3
    other = purse(place=tmp_path / "other.sqlite")
    with pytest.raises(PrivacyBudgetError, match="another budget"):
        pp.minimize(problem(other), steps=3, **settings)
    assert other.spent.releases == 0


# -- plans at the same time ---------------------------------------------------------------------


def fit(make, budget):
    try:
        target = make(budget=budget)
        for _ in range(3):
            target.gradient(ZERO)
    except PrivacyBudgetError:
        return "refused"
    return "finished"


def require_three_fits(outcomes, budget):
    assert sorted(outcomes) == ["finished"] * 3 + ["refused"] * 5
    alone = noise_multiplier(1.0, 1e-5, 1)
    assert budget.spent.epsilon == pytest.approx(total_epsilon([alone] * 3, 1e-5))
    assert [plan["state"] for plan in budget.report()["plans"]] == ["complete"] * 3
    assert budget.report()["reserved"] == 0


@pytest.mark.parametrize("on_disk", [False, True])
def test_of_eight_threads_three_fit_and_nothing_is_burnt(make, purse, path, on_disk):
    budget = purse(2.05, path if on_disk else None)
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: fit(make, budget), range(8)))
    require_three_fits(outcomes, budget)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_of_eight_processes_three_fit_and_nothing_is_burnt(make, purse):
    codes, children = {0: "finished", 3: "refused"}, []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            outcome = None
            try:
                outcome = fit(make, purse(2.05))
            finally:
                os._exit(next((code for code in codes if codes[code] == outcome), 1))
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    require_three_fits([codes.get(end, end) for end in ends], purse(2.05))


HOLDS = """
import sys
from proxyprox.private import PrivacyBudget
budget = PrivacyBudget(sys.argv[1], epsilon=1.0, delta=1e-5)
releases = [float(sys.argv[2])] * 3
name = budget.open("its plan", releases, {})
budget.charge(name, 0, releases[0], "a point")
print("ready", flush=True)
sys.stdin.readline()
"""


def started(program, *arguments):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], text=True, env=env, **pipes
    )


def test_what_a_dead_process_reserved_is_free_and_what_it_charged_is_not(purse, path):
    sigma, budget = noise_multiplier(1.0, 1e-5, 3), purse()

    def open_plan(releases):
        return budget.open("mine", [sigma] * releases, {})

    with started(HOLDS, path, sigma) as process:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        with pytest.raises(PrivacyBudgetError, match=f"its plan.*process {process.pid}"):
            open_plan(2)
        assert "open" in [plan["state"] for plan in budget.report()["plans"]]
        process.kill()
    assert budget.spent.releases == 1
    with pytest.raises(PrivacyBudgetError, match="overspent"):
        open_plan(3)
    name = open_plan(2)
    for k in range(2):
        assert budget.charge(name, k, sigma, "w") is None
    assert budget.spent.epsilon == pytest.approx(1.0)
    theirs = budget.report()["plans"][0]
    assert (theirs["state"], theirs["releases"]) == ("ended", 1)


def test_a_reservation_ends_with_its_object_or_by_hand(make, purse, path):
    for place in (None, path):
        budget = purse(place=place)
        held = make(budget=budget)
        with pytest.raises(PrivacyBudgetError, match="Reserved"):
            make(budget=budget)
        with pytest.raises(ValueError, match="w"):
            held.gradient(np.zeros(4))
        del held
        held = make(budget=budget)
        budget.end(held.name)
        make(budget=budget).gradient(ZERO)
        # What was ended has no claim, and takes what is left.
        held.gradient(ZERO)
        assert budget.spent.releases == 2


def test_the_page_says_who_when_and_what_is_left(make, purse, path):
    budget = purse(3.0)
    first = make(budget=budget, name="first fit")
    for _ in range(3):
        first.gradient(ZERO)
    make(budget=budget).gradient(ZERO)
    held = make(budget=budget)
    before = path.read_bytes()
    reader = PrivacyBudget.read(path)
    assert str(reader) == str(budget)
    for words in (
        str(path), "add or remove one row", "Gaussian noise", "spent", "reserved", "left",
        "first fit", "complete", f"process {os.getpid()}", f"proxyprox {pp.__version__}", "UTC",
        f"{first.sigma:.4g}", "exact Gaussian DP", "'clip': 1.0", "'n_nominal': 500",
    ):  # fmt: skip
        assert words in str(reader), words
    report = reader.report()
    assert [plan["state"] for plan in report["plans"]] == ["complete", "ended", "open"]
    assert report["spent"] == pytest.approx(reader.spent.epsilon)
    assert pickle.loads(pickle.dumps(reader)).id == budget.id
    for change in (
        lambda: reader.open("x", [500.0], {}),
        lambda: reader.charge("first fit", 3, 500.0, "w"),
    ):
        with pytest.raises(PrivacyBudgetError):
            change()
    assert path.read_bytes() == before
    del held
