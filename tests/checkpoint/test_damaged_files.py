"""Damaged and hostile checkpoint files: one kind of error, no code run, the run unchanged."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import checkpoint
from tests.runs import curved as problem
from tests.runs import loaded, mutated, started

HEADER = b"proxyprox checkpoint 11\n"
RAN: list[int] = []


class Evil:
    """Leaves a mark when it is unpickled or called."""

    def __init__(self, *args, **kwargs):
        RAN.append(1)

    def __reduce__(self):
        return (RAN.append, (1,))


def bits(run):
    """Everything that a run would save, as text that is equal only if all of it is."""
    np.set_printoptions(floatmode="unique")

    def plain(item):
        if hasattr(item, "own_points"):
            item = vars(item)
        if isinstance(item, dict):
            return {key: plain(part) for key, part in item.items()}
        return list(item) if isinstance(item, checkpoint.Growing) else item

    return repr(plain(run.state_dict()))


def refused(path):
    """Both ways in refuse the file, and a run that was offered it stays as it was."""
    with pytest.raises(pp.CheckpointError) as caught:
        loaded(path)
    assert os.fspath(path) in str(caught.value)
    run = started(0)
    before = bits(run)
    with pytest.raises(pp.CheckpointError):
        checkpoint.resume(path, run)
    assert bits(run) == before
    assert not RAN


@pytest.fixture
def path(tmp_path):
    run = started()
    run.ask()
    run.save(tmp_path / "run")
    return tmp_path / "run"


# -- the file --------------------------------------------------------------------------------------


def parts(path):
    """Return the JSON skeleton and the raw arrays of a file with one save."""
    skeleton, _, raw = path.read_bytes()[len(HEADER) : -16].partition(b"\n")
    return json.loads(skeleton), raw


def written(path, skeleton, raw=b""):
    """Write a file as the format is described."""
    text = skeleton if isinstance(skeleton, bytes) else json.dumps(skeleton).encode()
    payload = text + b"\n" + raw
    path.write_bytes(HEADER + payload + hashlib.blake2b(payload, digest_size=16).digest())


def test_the_format_is_as_described(path):
    before = path.read_bytes()
    skeleton, raw = parts(path)
    written(path, json.dumps(skeleton, separators=(",", ":")).encode(), raw)
    assert path.read_bytes() == before
    assert loaded(path).steps == 3


def test_what_is_no_whole_checkpoint_is_refused(path, tmp_path):
    data = path.read_bytes()
    contents = [data[: len(data) * part // 10] for part in range(10)]
    for content in [*contents, b"hello", b"PK\x03\x04", b"\x00" * 10_000, b"{}", b"\x80", HEADER]:
        path.write_bytes(content)
        refused(path)
    for make in (lambda p: p.mkdir(), lambda p: None, os.mkfifo):
        place = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        make(place)
        refused(place)
    with pytest.raises(TypeError, match="path"):
        loaded(None)
    path.write_bytes(b"proxyprox checkpoint 10\nwhatever")
    with pytest.raises(pp.CheckpointError, match=r"another version.*start again"):
        loaded(path)


def test_a_refused_file_is_left_alone(path):
    data = path.read_bytes()[:-100]
    path.write_bytes(data)
    with pytest.raises(pp.CheckpointError, match="damaged"):
        pp.minimize(
            problem(), np.ones(3), method=pp.ProxyProx(0.5, pp.corrections.Storm(0.3)), steps=5,
            checkpoint=path,
        )  # fmt: skip
    assert path.read_bytes() == data


# -- mutations -------------------------------------------------------------------------------------


def test_a_mutated_file_is_refused(path):
    data, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(int(os.environ.get("PROXYPROX_MUTATIONS", "150"))):
        changed = mutated(data, rng)
        path.write_bytes(changed)
        if changed != data:
            with pytest.raises(pp.CheckpointError):
                loaded(path)
    assert not RAN


# -- content with the right checksums --------------------------------------------------------------


def at(*keys):
    """Return a function that sets what stands at these keys of a skeleton."""

    def setter(value):
        def change(tree):
            for key in keys[:-1]:
                tree = tree[key]
            tree[keys[-1]] = value

        return change

    return setter


def array(dtype="<f8", shape=(3,), start=0, order="C", library="numpy"):
    return {"$array": [start, dtype, list(shape), order, library]}


STATE = ("state", "$record", 1)
METHOD = (*STATE, "method", "$record")
W, K = (*METHOD, 1, "w"), (*METHOD, 1, "k")
TABLE = (*STATE, "trace", "$grown")
ROW = (*TABLE, 0, "$record")
SET = ("config", "method")
SKELETONS = {
    "huge array": at(*W)(array(shape=(10**12,))),
    "product overflows": at(*W)(array(shape=(2**40, 2**40))),
    "negative start": at(*W)(array(start=-24)),
    "start beyond the file": at(*W)(array(start=10**15)),
    "a hundred thousand dimensions": at(*W)(array(shape=[2**60] * 10**5)),
    "object array": at(*W)(array("|O")),
    "object memory": at(*STATE, "memory", "inverse")(array("|O", (1,))),
    "zero-width text": at(*W)(array("|S0", (10**9,))),
    "unknown dtype": at(*W)(array("float64; import os")),
    "unknown order": at(*W)(array(order="K")),
    "unknown library": at(*W)(array(library="os")),
    "two tags": at(*W)({"$tuple": [], "$int": "1"}),
    "unknown tag": at(*W)({"$eval": "1"}),
    "unhashable key": at(*STATE, "memory", "x")({"$dict": [[[], 1]]}),
    "k of 10**8": at(*K)(10**8),
    "rows not a table": at(*STATE, "trace")({"$grown": 7}),
    "a row of another class": at(*ROW, 0)("proxyprox.result:Result"),
    "a row without entries": at(*ROW, 1)([]),
    "a row with another entry": at(*ROW, 1)([1] * 13),
    "a row of text": at(*ROW, 1)("012345678901"),
    "rows of text": at(*TABLE)("012345678901"),
    "rows of many empties": at(*TABLE)(array(shape=(10**9, 0))),
    "record of a class that is not imported": at(*METHOD, 0)("antigravity:State"),
    "record of a class that is no record": at(*METHOD, 0)("subprocess:Popen"),
    "record of a function": at(*METHOD, 0)("os:system"),
    "record of another class": at(*METHOD)(["proxyprox.result:Ledger", {}]),
    "record with a field more": at(*METHOD, 1, "more")(1),
    "method is a class of this test": at(*SET, "")(f"{__name__}:Evil"),
    "method of another kind": at(*SET, "")("os:system"),
    "method is a rule": at(*SET)({"": "proxyprox.stopping:SDane"}),
    "method setting text": at(*SET, "eta")("big"),
}  # fmt: skip


def refuse_each(path, changes, tree, write):
    """Refuse the file with each of some changes."""
    for name, change in changes.items():
        changed = copy.deepcopy(tree)
        change(changed)
        write(changed)
        try:
            refused(path)
        except BaseException as error:
            error.add_note(name)
            raise


def test_hostile_skeletons(path):
    skeleton, raw = parts(path)
    refuse_each(path, SKELETONS, skeleton, lambda changed: written(path, changed, raw))


def test_text_that_is_no_skeleton(path):
    for text in (
        b"", b"[]", b"null", b"{", b"\xff{}", b"[" * 100_000, b'{"kind": ' + b"9" * 5000 + b"}",
        b'{"kind": "Run", "kind": "Run"}', b'{"kind": NaN}', b'{"kind": "Run"}', b'{"kind": []}',
        b'{"kind": Infinity}', b'{"a":' * 50_000, b'{"kind": {"$tuple": "' + b"x" * 10**6 + b'"}}',
    ):  # fmt: skip
        written(path, text)
        refused(path)


def test_lengths_are_compared_before_memory_is_taken(path):
    skeleton, raw = parts(path)
    long = ("k of 10**8", "huge array", "zero-width text", "rows of many empties")
    changes = {name: SKELETONS[name] for name in long}
    tracemalloc.start()
    refuse_each(path, changes, skeleton, lambda changed: written(path, changed, raw))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_one_array_many_times_takes_its_memory_once(path):
    skeleton, raw = parts(path)
    skeleton["state"]["$record"][1]["memory"] = {f"m{at}": array(shape=(3,)) for at in range(2000)}
    written(path, skeleton, raw)
    memory = checkpoint.read(path, started(0).record_classes)["state"].memory
    assert len({id(item) for item in memory.values()}) == 1


# -- trees that fit their own structure, but not the run -------------------------------------------


def inside(**changes):
    """Return a function that changes fields of a tree's state."""
    return lambda tree: tree.update(state=replace(tree["state"], **changes))


def state(**changes):
    def change(tree):
        inside(method=replace(tree["state"].method, **changes))(tree)

    return change


def ledger(**changes):
    return lambda tree: tree.update(ledger=replace(tree["ledger"], **changes))


def blocked(steps):
    return lambda tree: inside(faults=replace(tree["state"].faults, blocked=steps))(tree)


def random(**changes):
    return lambda tree: inside(rng={**tree["state"].rng, **changes})(tree)


def rows(change):
    def put_in(tree):
        inside(trace=checkpoint.Growing(change(list(tree["state"].trace))))(tree)

    return put_in


NAN = np.array([1.0, np.nan, 2.0])
TREES = {
    **{f"without {key}": lambda tree, key=key: tree.pop(key) for key in (
        "kind", "config", "w0", "state", "ledger",
    )},
    "NaN in w": state(w=NAN),
    "infinity in w": state(w=np.array([1.0, np.inf, 2.0])),
    "float32 w": state(w=np.ones(3, dtype=np.float32)),
    "w as a list": state(w=[1.0, 1.0, 1.0]),
    "k as text": state(k="3"),
    "k too large": state(k=4),
    "state of a table": at("state")({"k": 3}),
    "NaN in the average": inside(average=NAN),
    "NaN in an anchor": inside(anchors=((np.ones(3), NAN),)),
    "NaN in w0": at("w0")(NAN),
    "target number": at("target")(3),
    "target of nothing": at("target")({"x": 1}),
    "share NaN": inside(share=float("nan")),
    "share 2": inside(share=2.0),
    "question empty": inside(question={}),
    "question without points": inside(own_points=0),
    "ledger negative": ledger(target_gradients=-1),
    "ledger NaN": ledger(cost=float("nan")),
    "trace of text": rows(lambda found: [row._replace(eta="a") for row in found]),
    "trace out of order": rows(lambda found: [row._replace(k=0) for row in found]),
    "trace of tuples": rows(lambda found: [tuple(row) for row in found]),
    "trace a list": lambda tree: inside(trace=list(tree["state"].trace))(tree),
    "rng text": inside(rng="PCG64"),
    "rng of another kind": random(bit_generator="os.system"),
    "rng position outside": inside(rng={
        "bit_generator": "MT19937", "state": {"key": np.zeros(624, np.uint32), "pos": 10**9},
    }),
    "rng buffer outside": inside(rng={
        "bit_generator": "Philox", "state": {"counter": [0] * 4, "key": [0] * 2},
        "buffer": [0] * 4, "buffer_pos": -(10**6), "has_uint32": 0, "uinteger": 0,
    }),
    **{f"blocked steps {steps}": blocked(steps) for steps in (
        [7], [2, 1], [1, 1], [-1], [True], "ab",
    )},
    "identity as text": at("identity")("me"),
    "identity without proxy": lambda tree: tree["identity"].pop("proxy"),
}  # fmt: skip


def test_trees_of_no_run(path):
    tree = checkpoint.read(path, started(0).record_classes)
    refuse_each(path, TREES, tree, lambda changed: checkpoint.save(path, changed))


def test_what_is_no_tree_at_all_is_refused():
    run = started(1)
    before = bits(run)
    for tree in (None, [], "run", 7, {}, {"kind": "Run"}):
        with pytest.raises(pp.CheckpointError):
            run.load_state_dict(tree)
    assert bits(run) == before
