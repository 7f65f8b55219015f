"""Functions of one name are told apart by what they are made of, and by nothing else."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox._code import code_digest
from proxyprox._config import encode
from proxyprox._restored import described_differences

FACTOR = 2.0


def constant(value):
    return lambda k: value


def scaled(size, k):
    return size / (k + 1)


def helped(by):
    def helper(k):
        return by * k

    return lambda k: helper(k)


class Schedule:
    def __init__(self, size):
        self.size = size

    def one(self, k):
        return self.size

    def other(self, k):
        return self.size / 2


DIFFERENT = {
    "constants": (lambda k: 0.1, lambda k: 0.2),
    "instructions": (lambda k: 1 / (k + 1), lambda k: 1 / (k - 1)),
    "names": (lambda k: math.sqrt(k), lambda k: math.exp(k)),
    "closures": (constant(0.1), constant(0.2)),
    "types": (constant(1), constant(1.0)),
    "arrays": (constant(np.ones(2)), constant(np.zeros(2))),
    "defaults": (lambda k, a=1: a, lambda k, a=2: a),
    "keywords": (lambda k, *, a=1: a, lambda k, *, a=2: a),
    "inside": (lambda k: [j + 1 for j in range(k)], lambda k: [j + 2 for j in range(k)]),
    "helpers": (helped(1), helped(2)),
    "partials": (functools.partial(scaled, 1.0), functools.partial(scaled, 2.0)),
    "methods": (Schedule(1).one, Schedule(1).other),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=list(DIFFERENT))
def test_different_functions(pair):
    first, second = (encode(item) for item in pair)
    assert first == encode(pair[0])
    assert first != second


def test_the_same_function_made_twice():
    assert encode(constant(0.1)) == encode(constant(0.1))
    assert encode(helped(2)) == encode(helped(2))
    assert encode(functools.partial(scaled, 1.0)) == encode(functools.partial(scaled, 1.0))


def test_globals_count(monkeypatch):
    def schedule(k):
        return FACTOR / (k + 1)

    before = code_digest(schedule)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert code_digest(schedule) != before


def test_what_a_schedule_keeps_for_itself_does_not():
    calls, log = 0, []

    def counting(k):
        nonlocal calls
        calls += 1
        log.append(k)
        return 1.0

    def endless(k):
        return endless(k - 1)

    before = code_digest(counting)
    counting(0)
    assert code_digest(counting) == before
    assert code_digest(endless) is not None


def test_a_checkpoint_notices_another_lambda(tmp_path):
    problem = pp.Problem(pp.Quadratic(np.diag([1.0, 4.0]), b=np.ones(2)), pp.Quadratic(np.eye(2)))
    call = {"steps": 3, "checkpoint": tmp_path / "run"}
    pp.minimize(problem, method=pp.ProxyProx(lambda k: 0.1), **call)
    again = pp.minimize(problem, method=pp.ProxyProx(lambda k: 0.1), **call)
    assert "finished already" in again.message
    with pytest.raises(pp.CheckpointError, match=r"method\.eta was another function"):
        pp.minimize(problem, method=pp.ProxyProx(lambda k: 0.2), **call)


def test_what_is_not_known_is_not_compared():
    now = {"eta": encode(lambda k: 0.1)}
    older = {"eta": {"function": now["eta"]["function"]}}
    elsewhere = {"eta": {**now["eta"], "python": "3.0", "code": "other"}}
    assert described_differences(older, now) == []
    assert described_differences(elsewhere, now) == []
    renamed = {"eta": {**now["eta"], "function": "other"}}
    assert "was other, now" in described_differences(renamed, now)[0]
