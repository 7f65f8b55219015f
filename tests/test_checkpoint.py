"""Checkpoints: what survives a kill, and which files are refused."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import proxyprox as pp

SCRIPT = """
import sys, time
import numpy as np
import proxyprox as pp

path, out, kind, pause = sys.argv[1:5]
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 4)), rng.integers(0, 2, size=60)
target = pp.logistic_regression(X, y, l2=0.1, batch_size=6)

class Slow:
    repeatable, dim = True, 4
    sample, samples = target.sample, target.samples
    def gradient(self, w, batch):
        time.sleep(float(pause))
        return target.gradient(w, batch)

proxy = target.subsample(30, rng=1)
parts = {
    "quasi": dict(method=pp.ProxyProx(0.5), inner=pp.QuasiNewton(), stop=pp.Residual(1e-9)),
    "mvr": dict(method=pp.AuxMVR(a=0.2), inner=pp.GradientDescent(), stop=pp.Steps(5)),
    "sgd": dict(method=pp.ProxyProx(0.5), inner=pp.StochasticGradient(steps=20),
                stop=pp.RandomSteps(0.3) | pp.Residual(1e-3)),
}[kind]
proxy.batch_size = 7
checkpoint = None if path == "-" else pp.Checkpoint(path, every_steps=1)
print("go", flush=True)
result = pp.minimize(pp.Problem(Slow(), proxy), averaging=pp.Geometric(0.1), steps=120, rng=5,
                     checkpoint=checkpoint, **parts)
counts = {k: v for k, v in result.ledger.as_dict().items() if "seconds" not in k}
np.savez(out, w=result.w, last=result.last, trace=result.trace.to_array()[:, :-1],
         counts=np.array(list(counts.values())))
"""


def launch(tmp_path, *args):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    source = os.path.dirname(os.path.dirname(pp.__file__))
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, args)],
        env={**os.environ, "PYTHONPATH": source}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def finished(process):
    with process:
        return process.wait(60)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system knows no kill -9")
@pytest.mark.parametrize("kind", ["quasi", "mvr", "sgd"])
def test_killed_at_random_points_and_resumed_bit_for_bit(kind, tmp_path):
    whole, pieces, path = tmp_path / "whole.npz", tmp_path / "pieces.npz", tmp_path / "run"
    assert finished(launch(tmp_path, "-", whole, kind, 0)) == 0
    dice, kills = random.Random(kind), 0
    for _ in range(2):
        process = launch(tmp_path, path, pieces, kind, 0.003)
        process.stdout.readline()  # imports are done, the run begins
        time.sleep(dice.uniform(0.0, 0.25))
        process.send_signal(signal.SIGKILL)
        kills += finished(process) == -signal.SIGKILL
        assert not pieces.exists()
    assert kills == 2
    assert finished(launch(tmp_path, path, pieces, kind, 0)) == 0
    with np.load(whole) as a, np.load(pieces) as b:
        for name in a.files:
            assert a[name].tobytes() == b[name].tobytes(), name
    # Nothing half-written stays behind under the run's own name.
    assert pp.Run.load(path, *_problem_of_script()).steps == 120


def _problem_of_script():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 2, size=60)
    target = pp.logistic_regression(X, y, l2=0.1, batch_size=6)
    proxy = target.subsample(30, rng=1)
    proxy.batch_size = 7
    return (pp.Problem(target, proxy),)


# -- saving and loading ------------------------------------------------------------------------


def problem():
    target = pp.Quadratic(np.diag([1.0, 4.0, 2.0]), b=np.array([-1.0, 0.5, 1.0]), noise=0.2)
    return pp.Problem(target, pp.FunctionProxy(
        lambda w: float(np.sum(np.cosh(w))), np.sinh, hessian=lambda w: np.diag(np.cosh(w)),
    ))  # fmt: skip


def started(steps=3, **options):
    parts = {"method": pp.AuxMVR(a=0.3, eta=0.5), "inner": pp.QuasiNewton(), "stop": pp.SDane()}
    run = pp.Run(problem(), np.ones(3), averaging=pp.Uniform(), **{**parts, "rng": 0, **options})
    return advance(run, steps)


def advance(run, steps):
    for _ in range(steps):
        query = run.ask()
        run.tell([run.problem.objective.gradient(w, query.batch) for w in query.points])
    return run


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_bit_generator_survives(kind, tmp_path):
    make = getattr(np.random, kind)
    whole = started(7, rng=np.random.Generator(make(11)))
    half = started(3, rng=np.random.Generator(make(11)))
    half._rng.integers(3, dtype=np.uint32)  # leave half a word buffered, where there is a buffer
    whole2 = half._rng.bit_generator.state
    half.save(tmp_path / "run")
    resumed = pp.Run.load(tmp_path / "run", problem(), np.ones(3))
    assert repr(resumed._rng.bit_generator.state) == repr(whole2)
    assert advance(resumed, 4).w.tobytes() == advance(half, 4).w.tobytes()
    assert whole.steps == 7


def test_the_open_question_survives(tmp_path):
    run = started()
    query = run.ask()
    run.save(tmp_path / "run")
    resumed = pp.Run.load(tmp_path / "run", problem(), np.ones(3))
    again = resumed.ask()
    assert again.batch.tobytes() == query.batch.tobytes()
    assert [p.tobytes() for p in again.points] == [p.tobytes() for p in query.points]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": pp.AuxMVR(a=0.4, eta=0.5)}, ["run: method.a was 0.3, now 0.4. Give"]),
        ({"inner": pp.Newton()}, ["inner was QuasiNewton(", "), now Newton("]),
        ({"stop": pp.Residual(1e-3)}, ["stop was", "SDane", "Residual"]),
        ({"averaging": pp.Last()}, ["averaging was", "Uniform", "Last"]),
    ],
)
def test_another_configuration_is_refused_by_name(change, words, tmp_path):
    started().save(tmp_path / "run")
    before = (tmp_path / "run").read_bytes()
    parts = {
        "method": pp.AuxMVR(a=0.3, eta=0.5), "inner": pp.QuasiNewton(), "stop": pp.SDane(),
        "averaging": pp.Uniform(),
    }  # fmt: skip
    with pytest.raises(pp.CheckpointError, match="belongs to another run") as caught:
        pp.minimize(
            problem(), np.ones(3), steps=9, checkpoint=tmp_path / "run", **{**parts, **change}
        )
    for word in words:
        assert word in str(caught.value)
    assert (tmp_path / "run").read_bytes() == before


def test_a_run_may_go_on_for_longer_than_was_planned(tmp_path):
    call = {
        "problem": pp.Problem((None, np.sinh), problem().proxy), "w0": np.ones(3),
        "method": pp.ProxyProx(10.0),
    }  # fmt: skip
    first = pp.minimize(**call, steps=5, checkpoint=tmp_path / "run")
    assert first.stop.startswith("Convex(steps=5, G=0.0) (the default: the objective is not known")
    longer = pp.minimize(**call, steps=12, checkpoint=tmp_path / "run")
    assert longer.steps == 12
    kept = "Convex(steps=5, G=0.0) (the rule that the run began with)"
    assert longer.stop == kept
    by_budget = pp.minimize(**call, budget=pp.Budget(seconds=1e-9), checkpoint=tmp_path / "run")
    assert by_budget.stop == kept
    whole = pp.minimize(**call, steps=12, stop=pp.Convex(5))
    assert longer.w.tobytes() == whole.w.tobytes()
    with pytest.raises(pp.CheckpointError, match=r"stop.steps was 5, now 20"):
        pp.minimize(**call, steps=20, stop=pp.Convex(20), checkpoint=tmp_path / "run")


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        (pp.ProxyProx(10.0), pp.ProxyProx(5.0), "method.eta was 10.0, now 5.0."),
        (
            pp.ProxyProx(1.0, correction=pp.EMA(0.5)), pp.ProxyProx(1.0, correction=pp.EMA(0.1)),
            "method.correction.a was 0.5, now 0.1.",
        ),
        (pp.ProxyProx(1.0), pp.SGD(1.0), "method was ProxyProx(eta=1.0, correction=Plain())"),
        (pp.ProxyProx(1.0), pp.ProxyProx("auto"), "method.eta was 1.0, now 'auto'"),
        (pp.ProxyProx(1.0), pp.ProxyProx(math.exp), "method.eta was 1.0, now math.exp"),
    ],
)  # fmt: skip
def test_the_setting_that_differs_is_named(was, now, words, tmp_path):
    problem = pp.Problem((None, np.sinh), (lambda w: w @ w / 2, lambda w: w))
    pp.minimize(problem, np.ones(3), method=was, steps=2, checkpoint=tmp_path / "run")
    with pytest.raises(pp.CheckpointError, match="belongs to another run") as caught:
        pp.minimize(problem, np.ones(3), method=now, steps=3, checkpoint=tmp_path / "run")
    assert words in str(caught.value)
    assert "settings" not in str(caught.value)


def test_another_size_or_dtype_is_refused(tmp_path):
    started().save(tmp_path / "run")
    with pytest.raises(pp.CheckpointError, match=r"fit|another run|length"):
        pp.Run.load(tmp_path / "run", pp.Problem((None, np.sinh), problem().proxy), np.ones(4))
    floats = pp.Problem((None, np.sinh), problem().proxy)
    with pytest.raises(pp.CheckpointError, match=r"dtype was 'float64', now 'float32'"):
        pp.Run.load(tmp_path / "run", floats, np.ones(3, dtype=np.float32))


def test_steps_and_seconds_between_saves(tmp_path):
    saved = []

    class Watched(pp.Checkpoint):
        def save(self, run):
            saved.append(run.steps)
            super().save(run)

    call = {"method": pp.AuxMVR(eta=0.5), "inner": pp.Newton(), "steps": 7, "rng": 0}
    pp.minimize(problem(), np.ones(3), checkpoint=Watched(tmp_path / "a", every_steps=3), **call)
    assert saved == [0, 3, 6, 7]
    saved.clear()
    often = Watched(tmp_path / "b", every_seconds=1e-9)
    pp.minimize(problem(), np.ones(3), checkpoint=often, **call)
    assert saved == [0, 1, 2, 3, 4, 5, 6, 7, 7]
