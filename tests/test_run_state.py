"""A run is a value: what the rest depends on, replaced and never changed."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import checkpoint
from proxyprox.methods.base import Answers
from proxyprox.run import asked, told
from tests.runs import counts, logistic


def problem(**options):
    target = logistic(60, 4, l2=1e-2, batch_size=8)
    return pp.Problem(target, target.subsample(20, rng=1), **options)


METHODS = {
    "ProxyProx": pp.ProxyProx(1.0),
    "auto": pp.ProxyProx("auto"),
    "Storm": pp.ProxyProx(1.0, pp.corrections.Storm(0.3)),
    "ProxyBFGS": pp.ProxyBFGS(),
    "SGD": pp.SGD(0.5),
}


def text(state):
    """Return a state as text that is equal only if every bit is."""
    parts = {name: part for name, part in vars(state).items() if name != "trace"}
    with np.printoptions(floatmode="unique"):
        return repr(parts)


def answers(run):
    query, objective = run.ask(), run.problem.objective
    gradients = tuple(objective.gradient(w, query.batch) for w in query.points)
    return Answers(gradients, query.batch, value=objective.value(query.points[0]))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_same_answer_twice_gives_the_same_state_and_changes_none(method):
    run = pp.Run(problem(), method=method, rng=0)
    for _ in range(4):
        given = answers(run)
        before, seen = copy.deepcopy(run.state), text(run.state)
        first, second = (told(run.parts, run.state, given)[0] for _ in range(2))
        assert text(first) == text(second)
        assert text(run.state) == seen == text(before)
        opened = [asked(run.parts, first) for _ in range(2)]
        assert text(opened[0]) == text(opened[1])
        run.tell(given.gradients, value=given.value)


class Mine(pp.ProxyProx):
    """The same method in a class of a user."""


class Penalty(pp.L1):
    """The same penalty in a class of a user."""


@pytest.mark.parametrize("eta", [1.0, "auto"])
def test_an_empty_subclass_takes_the_same_way(eta):
    call = {"steps": 12, "rng": 0}
    ours = pp.minimize(problem(penalty=pp.L1(1e-3)), method=pp.ProxyProx(eta), **call)
    theirs = pp.minimize(problem(penalty=Penalty(1e-3)), method=Mine(eta), **call)
    assert theirs.w.tobytes() == ours.w.tobytes()
    assert counts(ours) == counts(theirs)


def test_a_trace_that_branches_keeps_both_ways():
    one = checkpoint.Growing([1, 2])
    longer, other = one.append(3), one.append(4, 5)
    assert [list(part) for part in (one, longer, other)] == [[1, 2], [1, 2, 3], [1, 2, 4, 5]]
    assert (longer[-1], other[-1], other[0]) == (3, 5, 1)
