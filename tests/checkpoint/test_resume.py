"""Checkpoints: what survives a kill, bit for bit, and what the file is like."""

from __future__ import annotations

import dataclasses
import errno
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import checkpoint
from proxyprox._util.codec import walk
from proxyprox.advice.safeguard import SafeguardedRun
from tests.runs import advance, counts, loaded, logistic, started
from tests.runs import curved as problem

# -- what is saved ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_every_bit_generator_survives(kind, tmp_path):
    half = started(3, rng=np.random.Generator(getattr(np.random, kind)(11)))
    half.rng.integers(3, dtype=np.uint32)  # leave half a word buffered, where there is a buffer
    before = repr(half.rng.bit_generator.state)
    half.save(tmp_path / "run")
    resumed = loaded(tmp_path / "run")
    assert repr(resumed.rng.bit_generator.state) == before
    assert advance(resumed, 4).w.tobytes() == advance(half, 4).w.tobytes()


class Corner(NamedTuple):
    value: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class Tail:
    points: list[Any] = field(default_factory=list)
    best: float = float("inf")


@dataclass(frozen=True)
class HeavyBallState:
    """Anything that a method may want to remember."""

    w: Any
    k: int = 0
    velocity: Any = 0.0
    ratio: float = 0.5
    table: Any = None
    tail: Any = None
    notes: Any = None


@dataclass(frozen=True)
class HeavyBall(pp.Method):
    """A method of the user's own, with numbers, tables and lists in its state."""

    eta: float = 0.1
    beta: float = 0.5
    states: ClassVar = (Corner,)

    def init(self, w0, problem):
        return HeavyBallState(w0, tail=Tail(), notes={})

    def tell(self, state, answers, step):
        slope = answers.gradients[0] - step.proxy.gradient(state.w)
        w = step.solve(linear=slope, centre=state.w + self.beta * state.velocity)
        return HeavyBallState(
            w,
            state.k + 1,
            velocity=w - state.w,
            ratio=float("nan") if state.k % 2 else np.float32(1.5),
            table=np.outer(w, w)[:, :2].T,
            tail=Tail([*state.tail.points, w], -float("inf")),
            notes={1: "one", (2, "b"): [Corner(-0.0, ("x",)), 2**200, 1 + 2j, b"raw"], "$x": None},
        )


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_users_state_is_any_tree(library, tmp_path):
    torch = pytest.importorskip("torch")
    make = np.asarray if library == "numpy" else torch.tensor
    target = pp.Quadratic(make(np.diag([1.0, 4.0])), b=make(np.ones(2)), noise=0.1)
    given = pp.Problem(target, pp.Quadratic(make(np.eye(2))))
    whole = advance(pp.Run(given, method=HeavyBall(), rng=0), 7)
    half = advance(pp.Run(given, method=HeavyBall(), rng=0), 4)
    half.save(tmp_path / "run")
    now = pp.Run.load(tmp_path / "run", given, method=HeavyBall(), rng=0)
    was, now = half.state_dict(), now.state_dict()
    was, now = was["state"].method, now["state"].method
    assert type(now) is HeavyBallState
    for mine, theirs in zip(walk(was), walk(now), strict=True):
        assert type(mine) is type(theirs)
        if hasattr(mine, "shape"):
            assert mine.dtype == theirs.dtype
            assert mine.tolist() == theirs.tolist()
    assert repr(now.notes) == repr(was.notes)
    resumed = advance(pp.Run.load(tmp_path / "run", given, method=HeavyBall(), rng=0), 3)
    assert type(resumed.w) is type(whole.w)
    assert resumed.w.tolist() == whole.w.tolist()
    assert counts(resumed) == counts(whole)


def test_classes_of_a_function_are_found_and_others_are_to_be_listed(tmp_path):
    @dataclass(frozen=True)
    class Extra:
        extra: float = 1.0

    @dataclass(frozen=True)
    class Local(HeavyBall):
        def tell(self, state, answers, step):
            return dataclasses.replace(super().tell(state, answers, step), ratio=Extra(2.0))

    call = {"problem": problem(), "w0": np.ones(3), "rng": 0}
    with pytest.raises(pp.OracleError, match=r"Extra.*states"):
        pp.minimize(**call, method=Local(), steps=3, checkpoint=tmp_path / "other")
    Local.states = (Corner, Extra)
    whole = pp.minimize(**call, method=Local(), steps=6)
    pp.minimize(**call, method=Local(), steps=3, checkpoint=tmp_path / "run")
    resumed = pp.minimize(**call, method=Local(), steps=6, checkpoint=tmp_path / "run")
    assert resumed.w.tobytes() == whole.w.tobytes()


def test_classes_of_batches_are_to_be_listed_before_anything_is_paid(tmp_path):
    loss, counted = pp.Quadratic(np.eye(2), noise=0.1), []

    def gradient(w, batch):
        counted.append(batch)
        return loss.gradient(w, batch.value)

    target = pp.FunctionObjective(gradient, sample=lambda rng: Corner(loss.sample(rng), ("x",)))
    call = {"w0": np.ones(2), "rng": 0, "checkpoint": tmp_path / "run"}
    with pytest.raises(TypeError, match=r"Corner.*states"):
        pp.minimize(pp.Problem(target, loss), **call, steps=2)
    assert not counted
    target.states = (Corner,)
    assert [pp.minimize(pp.Problem(target, loss), **call, steps=k).steps for k in (2, 4)] == [2, 4]


def test_what_cannot_be_saved_is_named(tmp_path):
    for item in (object(), {1, 2}, np.array([object()]), np.ma.array([1.0]), lambda: None):
        with pytest.raises(TypeError, match=r"memory\.x.*cannot be saved"):
            checkpoint.save(tmp_path / "run", {"memory": {"x": item}})
        assert not list(tmp_path.iterdir())


def test_arrays_keep_layout_dtype_and_identity(tmp_path):
    rng, shared = np.random.default_rng(0), np.arange(3.0)
    arrays = [
        rng.normal(size=(3, 4)), np.asfortranarray(rng.normal(size=(3, 4))), np.ones((0, 5)),
        np.arange(6).reshape(2, 3)[:, ::2], np.array(3.0), np.array(["é", "ab"]), np.ones(2, ">f4"),
        np.array([True, False]), np.array([1, -1], dtype=np.int8), np.array("2020-01-01", "M8[D]"),
    ]  # fmt: skip
    checkpoint.save(tmp_path / "run", {"arrays": arrays, "pair": (shared, [shared])})
    tree = checkpoint.read(tmp_path / "run", {})
    for mine, theirs in zip(arrays, tree["arrays"], strict=True):
        assert theirs.dtype == mine.dtype
        assert theirs.shape == mine.shape
        assert theirs.tolist() == mine.tolist()
        assert theirs.flags.writeable
    assert tree["arrays"][1].flags.f_contiguous
    assert tree["pair"][0] is tree["pair"][1][0]


def test_a_state_is_a_snapshot_and_public(tmp_path):
    run, other = started(4), started(0)
    tree = run.state_dict()
    before = run.w.tobytes()
    advance(run, 3)
    w = tree["state"].method.w
    w[:] = w.copy()  # writable, and no array of the run
    other.load_state_dict(tree)
    assert other.w.tobytes() == before
    assert len(other.trace) == 4
    w[:] = 99.0
    tree["state"].memory.clear()
    assert advance(other, 3).w.tobytes() == run.w.tobytes()
    assert counts(other) == counts(run)


# -- the safeguard ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def target():
    return logistic(600, 6, np.linspace(1, 0.1, 6), 3, l2=1e-3, batch_size=16)


def useless(target):
    far = 5 * np.random.default_rng(1).normal(size=(100, 6))
    return pp.GLM(far, None, target.family, l2=target.l2)


@pytest.mark.parametrize("proxy", ["label-free", "useless"])
@pytest.mark.parametrize("until", [7, 20, 45])
def test_a_safeguarded_run_goes_on_bit_for_bit(target, tmp_path, proxy, until):
    problem = pp.Problem(target, useless(target) if proxy == "useless" else target.label_free())
    call = {"steps": 60, "rng": 3, "safeguard": True}
    straight = pp.minimize(problem, **call)
    saver = pp.Checkpoint(tmp_path / "run.ckpt", every_steps=2)

    def pull_the_plug(step):
        if step.record.k + 1 == until:
            raise RuntimeError("no power")

    with pytest.raises(pp.OracleError, match="no power"):
        pp.minimize(problem, **call, checkpoint=saver, callback=pull_the_plug)
    resumed = pp.minimize(problem, **call, checkpoint=tmp_path / "run.ckpt")
    assert resumed.w.tobytes() == straight.w.tobytes()
    assert resumed.safeguard == straight.safeguard
    assert counts(resumed) == counts(straight)


def test_a_lone_run_and_a_safeguarded_one_are_not_mixed_up(target, tmp_path):
    problem = pp.Problem(target, target.label_free())
    call = {"steps": 5, "rng": 0}
    pp.minimize(problem, **call, checkpoint=tmp_path / "lone")
    pp.minimize(problem, **call, checkpoint=tmp_path / "guarded", safeguard=True)
    with pytest.raises(pp.CheckpointError, match="safeguard was False, now True"):
        pp.minimize(problem, **call, checkpoint=tmp_path / "lone", safeguard=True)
    with pytest.raises(pp.CheckpointError, match="safeguard was True, now False"):
        pp.minimize(problem, **call, checkpoint=tmp_path / "guarded")
    with pytest.raises(pp.CheckpointError, match="safeguard was True, now False"):
        pp.Run.load(tmp_path / "guarded", problem, rng=0)
    with pytest.raises(pp.CheckpointError, match=r"method\.eta was 'auto', now 0\.1"):
        pp.minimize(problem, **call, checkpoint=tmp_path / "guarded", safeguard=pp.SGD(0.1))


def test_a_damaged_safeguard_is_named(target, tmp_path):
    problem, path = pp.Problem(target, target.label_free()), tmp_path / "run"
    call = {"steps": 3, "rng": 0, "safeguard": True, "checkpoint": path}
    pp.minimize(problem, **call)
    guarded = SafeguardedRun(pp.Run(problem, method=pp.ProxyProx("auto"), rng=0), pp.SGD("auto"))
    tree, grown = checkpoint.read(path, guarded.record_classes), checkpoint.Growing
    changes = [
        ("dropped_at", -1), ("proxy", 3), ("rival", None), ("checks", grown([{"step": 1}])),
        ("checks", grown([pp.Ledger()])), ("checks", "many"), ("steps", 2.5), ("next_check", -1),
        ("slope", float("nan")), ("reason", None), ("batches", 7),
    ]  # fmt: skip
    damaged = [{"guard": dataclasses.replace(tree["guard"], **{k: v})} for k, v in changes]
    for change in [*damaged, {"guard": None}, {"guard": {}}, {"rival": {}}, {"rival": 7},
                   {"run": None}]:  # fmt: skip
        checkpoint.save(path, {**tree, **change})
        with pytest.raises(pp.CheckpointError, match="damaged"):
            pp.minimize(problem, **call)


# -- the file --------------------------------------------------------------------------------------


def test_steps_and_seconds_between_saves(tmp_path, monkeypatch):
    saved, clock = [], iter(range(0, 10_000, 70))

    class Watched(pp.Checkpoint):
        def save(self, run):
            saved.append(run.steps)
            super().save(run)

    call = {
        "method": pp.ProxyProx(0.5, pp.corrections.Storm(0.1)),
        "inner": pp.inner.Newton(),
        "steps": 7,
        "rng": 0,
    }
    pp.minimize(problem(), np.ones(3), checkpoint=Watched(tmp_path / "a", every_steps=3), **call)
    assert saved == [0, 3, 6, 7]
    saved.clear()
    # By default a minute is long enough to wait, and a moment is not.
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: next(clock))
    saver = Watched(tmp_path / "b")
    assert saver.due(1)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: 0.5)
    assert not saver.due(1)


def test_every_number_of_a_trace_comes_back_as_it_was(tmp_path):
    run = started(5, method=pp.ProxyProx(np.float64(0.5)))
    rows = list(run.trace)
    rows[2] = rows[2]._replace(target_gradients=2**62 + 1, held=None, residual=float("inf"))
    rows[3] = rows[3]._replace(inner_steps=2**70)
    run.state = dataclasses.replace(run.state, trace=checkpoint.Growing(rows))
    run.save(tmp_path / "run")
    rows = list(loaded(tmp_path / "run", method=pp.ProxyProx(np.float64(0.5))).trace)
    assert repr(rows) == repr(list(run.trace))
    assert [list(map(type, row)) for row in rows] == [list(map(type, row)) for row in run.trace]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_save_that_fails_half_way_costs_only_itself(error, tmp_path, monkeypatch):
    run, path = started(1), tmp_path / "run"
    saver = pp.Checkpoint(path, every_steps=1)
    saver.save(run)
    saver.save(advance(run, 1))
    sync = os.fsync

    def full(descriptor):
        raise error

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(type(error)):
        saver.save(advance(run, 1))
    monkeypatch.setattr(os, "fsync", sync)
    assert loaded(path).steps == 2
    saver.save(advance(run, 1))
    saver.save(advance(run, 1))
    assert advance(loaded(path), 2).w.tobytes() == advance(run, 2).w.tobytes()
