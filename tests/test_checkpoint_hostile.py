"""Damaged and hostile checkpoint files: one kind of error, no code run, the run unchanged."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import _checkpoint


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


def rewritten(path, change, **zip_options):
    """Rewrite a checkpoint with its JSON skeleton and its members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(members["state.json"])
    change(tree, members)
    if "state.json" in members:
        members["state.json"] = json.dumps(tree).encode()
    with zipfile.ZipFile(path, "w", **zip_options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


def header_only(shape, descr="<f8"):
    head = str({"descr": descr, "fortran_order": False, "shape": shape})
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode("latin1")


def refused(path):
    """Both ways in refuse the file, and a run that was offered it stays as it was."""
    with pytest.raises(pp.CheckpointError) as caught:
        pp.Run.load(path, problem(), np.ones(3))
    assert os.fspath(path) in str(caught.value)
    run = started(0)
    before = repr(vars(run._state)), repr(run._rng.bit_generator.state), run.ledger.as_dict()
    with pytest.raises(pp.CheckpointError):
        _checkpoint.restore_run(path, _checkpoint.read_tree(path, like=run.w), run)
    after = repr(vars(run._state)), repr(run._rng.bit_generator.state), run.ledger.as_dict()
    assert after == before
    assert len(run.trace) == 0
    assert run._pending is None
    assert run._memory == {}


@pytest.fixture
def path(tmp_path):
    run = started()
    run.ask()
    run.save(tmp_path / "run")
    return tmp_path / "run"


def test_the_untouched_file_is_accepted(path):
    rewritten(path, lambda tree, members: None)
    assert pp.Run.load(path, problem(), np.ones(3)).steps == 3


@pytest.mark.parametrize("part", range(30))
def test_truncated(path, part):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * part // 30])
    refused(path)


def test_flipped_bytes_are_refused_or_harmless(path):
    data = path.read_bytes()
    whole = advance(pp.Run.load(path, problem(), np.ones(3)), 2).w.tobytes()
    rng = np.random.default_rng(0)
    rejected = 0
    for position in rng.integers(len(data), size=150):
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(flipped))
        try:
            run = pp.Run.load(path, problem(), np.ones(3))
        except pp.CheckpointError:
            rejected += 1
        else:
            # Only what no reader looks at (a date, say) may differ.
            assert advance(run, 2).w.tobytes() == whole
    assert rejected > 100


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK\x03\x04", b"\x00" * 10_000, b"{}", b"\x80"]
)
def test_not_a_checkpoint(tmp_path, content):
    (tmp_path / "run").write_bytes(content)
    refused(tmp_path / "run")


def test_a_folder_a_missing_file_and_a_pipe(tmp_path):
    for make in (lambda p: p.mkdir(), lambda p: None, os.mkfifo):
        path = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        make(path)
        refused(path)


RAN: list[int] = []


class Evil:
    """Leaves a mark when unpickled."""

    def __reduce__(self):
        return (RAN.append, (1,))


def set_in(*keys, value):
    def change(tree, members):
        for key in keys[:-1]:
            tree = tree[key]
        tree[keys[-1]] = value

    return change


def drop(*keys):
    def change(tree, members):
        for key in keys[:-1]:
            tree = tree[key]
        del tree[keys[-1]]

    return change


def member(*keys, data):
    """Replace the array that stands at these keys."""

    def change(tree, members):
        for key in keys:
            tree = tree[key]
        members[f"{tree['$array']}.npy"] = data

    return change


def extra(name):
    return lambda tree, members: members.update({name: b"x"})


def nested(tree, members):
    deep = []
    for _ in range(400):
        deep = [deep]
    tree["config"]["method"] = deep


def echo(tree, members):
    tree["memory"] = {f"m{i}": tree["state"]["w"] for i in range(1000)}


ARRAYS = [("state", "w"), ("state", "estimate"), ("average",), ("anchor",), ("memory", "inverse")]
HOSTILE = {
    "identity as text": set_in("identity", value="me"),
    "identity without proxy": drop("identity", "proxy"),
    "pickled object": member("state", "w", data=npy(np.array([Evil(), 1, 2], dtype=object))),
    "pickled memory": member("memory", "inverse", data=npy(np.array([Evil()], dtype=object))),
    **{f"NaN in {keys[-1]}": member(*keys, data=npy([1.0, np.nan, 2.0])) for keys in ARRAYS},
    "inf in w": member("state", "w", data=npy([1.0, np.inf, 2.0])),
    "short w": member("state", "w", data=npy([1.0, 2.0])),
    "square w": member("state", "w", data=npy(np.eye(3))),
    "float32 w": member("state", "w", data=npy(np.ones(3, dtype=np.float32))),
    "complex w": member("state", "w", data=npy(np.ones(3, dtype=complex))),
    "text w": member("state", "w", data=npy(["a", "b", "c"])),
    "w as text": set_in("state", "w", value="ones"),
    "w missing": set_in("state", "w", value=None),
    "huge header": member("state", "w", data=header_only((10**12,))),
    "huge empty header": member("trace", data=header_only((10**9, 0))),
    "huge zero-width text": member("trace", data=header_only((10**9, 10), "|S0")),
    "negative shape": member("state", "w", data=header_only((-3,))),
    "structured": member("state", "w", data=header_only((3,), [("a", "<f8")])),
    "broken header": member("state", "w", data=b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 118),
    "unknown member": extra("7777.npy"),
    "path traversal": extra("../../evil"),
    "absolute path": extra("/tmp/evil"),
    "no skeleton": lambda tree, members: members.pop("state.json"),
    "no arrays": lambda tree, members: [members.pop(n) for n in list(members) if n[0] != "s"],
    "one array many times": echo,
    "deeply nested": nested,
    "format 2": set_in("format", value=2),
    **{f"without {key}": drop(key) for key in (
        "format", "config", "state", "anchor", "memory", "average", "share", "pending", "rng",
        "ledger", "trace",
    )},
    "extra state": set_in("state", "more", value=1),
    "k as text": set_in("state", "k", value="3"),
    "k true": set_in("state", "k", value=True),
    "k negative": set_in("state", "k", value=-1),
    "k too large": set_in("state", "k", value=4),
    "k half": set_in("state", "k", value=2.5),
    "share as text": set_in("share", value="0.5"),
    "share NaN": set_in("share", value=float("nan")),
    "share 2": set_in("share", value=2.0),
    "memory list": set_in("memory", value=[1]),
    "memory text": set_in("memory", "eta", value="0.5"),
    "pending text": set_in("pending", value="batch"),
    "pending empty": set_in("pending", value={}),
    "ledger list": set_in("ledger", value=[]),
    "ledger negative": set_in("ledger", "target_gradients", value=-1),
    "ledger NaN": set_in("ledger", "cost", value=float("nan")),
    "ledger fraction": set_in("ledger", "target_gradients", value=1.5),
    "ledger text": set_in("ledger", "seconds", value="1"),
    "ledger unknown": set_in("ledger", "bitcoin", value=1),
    "trace of text": member("trace", data=npy([["a"] * 10] * 3)),
    "trace too narrow": member("trace", data=npy(np.zeros((3, 9)))),
    "trace NaN counts": member("trace", data=npy(np.full((3, 10), np.nan))),
    "trace out of order": member("trace", data=npy(np.zeros((3, 10)))),
    "rng text": set_in("rng", value="PCG64"),
    "rng of another kind": set_in("rng", "bit_generator", value="os.system"),
    "rng without state": drop("rng", "state"),
    "rng position outside": set_in("rng", value={
        "bit_generator": "MT19937", "state": {"key": [0] * 624, "pos": 10**9},
    }),
    "rng buffer outside": set_in("rng", value={
        "bit_generator": "Philox", "state": {"counter": [0] * 4, "key": [0] * 2},
        "buffer": [0] * 4, "buffer_pos": -(10**6), "has_uint32": 0, "uinteger": 0,
    }),
    "config text": set_in("config", value="x"),
    "method of another kind": set_in("config", "method", "class", value="os.system"),
    "method is a rule": set_in("config", "method", value={"class": "SDane", "settings": {}}),
    "method settings wrong": set_in("config", "method", "settings", value={"b": 1}),
    "method setting text": set_in("config", "method", "settings", "eta", value="big"),
    "method setting huge": set_in("config", "method", "settings", "eta", value=10**400),
    "inner none": set_in("config", "inner", value=None),
    "stop number": set_in("config", "stop", value=3),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content(path, name):
    rewritten(path, HOSTILE[name])
    refused(path)
    assert not RAN


def test_a_compressed_bomb_is_not_unpacked(path):
    def bomb(tree, members):
        members["state.json"] = b""
        members["0.npy"] = b"\x00" * (1 << 26)

    rewritten(path, bomb, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20
    refused(path)


def test_text_that_json_cannot_hold(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", "[" * 100_000)
    refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", '{"format": ' + "9" * 5000 + "}")
    refused(path)


def test_a_refused_file_is_left_alone(path):
    data = path.read_bytes()[:-100]
    path.write_bytes(data)
    with pytest.raises(pp.CheckpointError, match="damaged"):
        pp.minimize(
            problem(), np.ones(3), method=pp.AuxMVR(a=0.3, eta=0.5), steps=5, checkpoint=path
        )
    assert path.read_bytes() == data
