"""Signals and interrupts: what is saved is whole, and the process ends as usual."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import proxyprox as pp
from proxyprox._util.signals import ending_signals
from tests.runs import advance

ROOT = Path(pp.__file__).parent
posix = pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """Undo what a shell does to a suite that it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def handlers():
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return [signal.getsignal(getattr(signal, n)) for n in names if hasattr(signal, n)]


# -- handlers --------------------------------------------------------------------------------------


def test_handlers_are_set_and_restored():
    before = handlers()
    with ending_signals():
        inside = handlers()
        with ending_signals():
            assert handlers() == inside
        assert handlers() == inside
    assert all(a is not b for a, b in zip(before, inside, strict=True))
    assert handlers() == before


@pytest.mark.parametrize("own", [signal.SIG_IGN, lambda number, frame: None])
def test_an_ignored_signal_and_a_users_handler_are_left_alone(own):
    before = signal.signal(signal.SIGTERM, own)
    try:
        with ending_signals():
            assert signal.getsignal(signal.SIGTERM) is own
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def rows():
    X = np.random.default_rng(0).normal(size=(40, 3))
    return pp.logistic_regression(X, np.arange(40) % 2, l2=0.1, batch_size=5)


# -- what a process leaves -------------------------------------------------------------------------

SCRIPT = """
import json, os, signal, sys
import numpy as np
import proxyprox as pp

folder = sys.argv[1]

def send(number, times=1):
    for _ in range(times):
        os.kill(os.getpid(), number)

def problem(where, number, at=6):
    target = pp.logistic_regression(np.random.default_rng(0).normal(size=(40, 3)),
                                    np.arange(40) % 2, l2=0.1, batch_size=5)
    calls = []
    def gradient(w, batch):
        calls.append(1)
        if where == "target" and len(calls) == at:
            send(number)
        return target.gradient(w, batch)
    def proxy(w):
        if where == "proxy" and 5 <= len(calls) < 100:
            calls.extend(100 * [1])
            send(number)
        return target.gradient(w)
    return pp.Problem(pp.FunctionObjective(gradient, sample=target.sample),
                      pp.FunctionProxy(target.value, proxy))

def work(where, number, path):
    def callback(step):
        if where == "callback" and step.record.k == 4:
            send(number)
        if where == "swallowed" and step.record.k == 4:
            try:
                send(number)
            except KeyboardInterrupt:
                pass
    class Saver(pp.Checkpoint):
        def save(self, run):
            if where == "saving" and run.steps:
                send(number, 3)
            super().save(run)
            if where == "saved" and run.steps:
                send(number)
    saver = Saver(path, every_steps=5 if where in ("saving", "saved") else 10**6)
    pp.minimize(problem(where, number), np.zeros(3), method=pp.ProxyProx(0.5),
                inner=pp.inner.GradientDescent(1.0), stop=pp.stopping.Steps(3), steps=10, rng=0,
                checkpoint=saver,
                callback=callback, progress=where == "target", safeguard=where == "proxy")

# Before the forks: whatever is loaded here is not loaded eighteen times.
warm = pp.logistic_regression(np.ones((4, 3)), np.arange(4) % 2, batch_size=2)
pp.minimize(pp.Problem(warm, warm.subsample(2, rng=0)), steps=2, rng=0, progress=True,
            checkpoint=pp.Checkpoint(os.path.join(folder, "warm")), safeguard=True)
children = {}
for where in ("target", "proxy", "callback", "swallowed", "saving", "saved"):
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        path = os.path.join(folder, where + name)
        child = os.fork()
        if not child:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(2)
            status = 0
            try:
                work(where, getattr(signal, name), path)
            except KeyboardInterrupt:
                status = 130
            except BaseException as error:
                print(where, name, repr(error), flush=True)
                status = 70
            os._exit(status)
        children[where + " " + name] = child
found = {name: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
         for name, child in children.items()}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signals")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder, json.loads(ran.stdout.splitlines()[-1])


@posix
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("where", ["target", "proxy", "callback", "swallowed", "saving", "saved"])
def test_a_signal_saves_and_ends_the_process(left, where, name):
    folder, statuses = left
    status = statuses[f"{where} {name}"]
    if where == "swallowed" and name == "SIGINT":
        assert status == 0, "Ctrl-C that the user's code has handled is handled"
        return
    assert status == (130 if name == "SIGINT" else -getattr(signal, name))
    target = rows()
    same = pp.Problem(
        pp.FunctionObjective(target.gradient, sample=target.sample),
        pp.FunctionProxy(target.value, target.gradient),
    )
    options = {
        "method": pp.ProxyProx(0.5), "inner": pp.inner.GradientDescent(1.0),
        "stop": pp.stopping.Steps(3),
        "steps": 10, "rng": 0, "safeguard": where == "proxy",
    }  # fmt: skip
    steps = []
    resumed = pp.minimize(
        same, np.zeros(3), checkpoint=folder / (where + name),
        callback=lambda step: steps.append(step.record.k), **options,
    )  # fmt: skip
    # What was paid for when the signal came is not paid again.
    assert steps[0] == 5 or where == "proxy"
    whole = pp.minimize(same, np.zeros(3), **options)
    assert resumed.w.tobytes() == whole.w.tobytes()
    # All but the seconds, and what a step that was broken off had asked of the proxy.
    unequal = {"seconds": 0.0} | ({"proxy_gradients": 0} if where == "proxy" else {})
    traces = [
        repr([row._replace(**unequal) for row in result.trace]) for result in (resumed, whole)
    ]
    assert traces[0] == traces[1]
    rest = {p.name for p in folder.iterdir() if p.suffix in (".part", ".lock")}
    assert rest == set()


SETUPS = "plain,seldom,safeguard"


@posix
@pytest.mark.slow
def test_runs_killed_at_random_moments_go_on_bit_for_bit():
    script = ROOT.parents[1] / "benchmarks" / "kills.py"
    if not script.exists():
        pytest.skip("the benchmarks are not part of an installed package")
    ran = subprocess.run(
        [sys.executable, str(script), "--count", "3", "--seed", "1", "--setups", SETUPS],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


# -- interrupts between any two lines --------------------------------------------------------------

FILES = ("run.py", "safeguard.py", "minimization.py", "result.py")


def interrupted_at(line, function):
    """Call a function and raise KeyboardInterrupt before its n-th line in the files above."""
    left = [line]

    def trace(frame, event, argument):
        if not frame.f_code.co_filename.endswith(FILES):
            return None if frame.f_code.co_filename.endswith("signals.py") else trace
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return function()
    except KeyboardInterrupt:
        return None
    finally:
        sys.settrace(before)


def problem():
    target = rows()
    return pp.Problem(target, target.subsample(20, rng=1))


def test_an_interrupt_between_any_two_lines_leaves_a_run_whole():
    def fresh():
        return pp.Run(
            problem(), method=pp.ProxyProx(0.5, pp.corrections.Storm(0.3)),
            inner=pp.inner.NewtonCG(),
            stop=pp.stopping.Steps(3), averaging=pp.averaging.Uniform(), rng=0,
        )  # fmt: skip

    whole = advance(fresh(), 4)
    for line in range(1, 400):
        run = advance(fresh())
        interrupted_at(line, lambda run=run: advance(run))
        assert run.steps == len(run.trace)
        assert list(run.trace["k"]) == list(range(run.steps))
        first = run.steps == 2 and run.state.question is None
        advance(run, 4 - run.steps)
        assert run.w.tobytes() == whole.w.tobytes(), line
        assert run.trace["residual"].tobytes() == whole.trace["residual"].tobytes()
        if first:
            break  # the whole step was taken: there are no more lines
    assert line > 30


# -- a checkpoint has one writer -------------------------------------------------------------------


def test_two_runs_on_one_checkpoint_are_refused(tmp_path):
    path = tmp_path / "run"
    refused = []

    def second(step):
        try:
            pp.minimize(problem(), steps=2, rng=0, checkpoint=path)
        except pp.CheckpointError as error:
            refused.append(str(error))

    pp.minimize(problem(), steps=2, rng=0, checkpoint=path, callback=second)
    assert len(refused) == 2
    assert repr(str(path)) in refused[0]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
