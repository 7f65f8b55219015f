"""Observers: what they see, how they end a run, and what minimize's own ones do."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.minimization import StepLimit, Watcher
from proxyprox.observers import Ending
from proxyprox.oracle import OutOfBudget


def problem(noise=0.1):
    A = np.diag([1.0, 4.0, 2.0])
    return pp.Problem(pp.Quadratic(A, b=np.ones(3), noise=noise), pp.Quadratic(A))


def run(**options):
    given = {"method": pp.ProxyProx(0.5), "steps": 6, "rng": 0, **options}
    return pp.minimize(problem(), np.ones(3), **given)


class Seen:
    """Keeps what it is shown, and answers as it was told to."""

    def __init__(self, *answers):
        self.answers, self.states, self.steps, self.runs = list(answers), [], [], []

    def begin(self, run):
        self.runs.append(run)

    def after_step(self, state, step):
        self.states.append(state)
        self.steps.append(step)
        return self.answers.pop(0) if self.answers else None


def test_an_observer_sees_every_step_and_changes_nothing():
    seen = Seen()
    watched, alone = run(observers=[seen]), run()
    assert watched.w.tobytes() == alone.w.tobytes()
    assert [step.record.k for step in seen.steps] == list(range(6))
    assert [state.method.k for state in seen.states] == list(range(1, 7))
    assert len(seen.runs) == 1
    assert seen.steps[-1].answer.tobytes() == alone.w.tobytes()
    assert seen.steps[-1].w.tobytes() == alone.last.tobytes()
    first = seen.steps[0].subproblem
    linear = seen.steps[0].gradients[0] - problem().proxy.gradient(first.centre)
    assert np.allclose(first.linear, linear)
    assert [step.ledger.target_gradients for step in seen.steps] == list(range(1, 7))


def test_an_observer_ends_a_run():
    stopped = pp.Status.STOPPED_BY_CALLBACK
    for answer, status, text in (
        (True, stopped, ""), ("Enough is known.", stopped, "Enough is known."),
        (Ending(pp.Status.STALLED, "It stands."), pp.Status.STALLED, "It stands."),
    ):  # fmt: skip
        result = run(observers=[Seen(None, False, answer)])
        assert (result.steps, result.status) == (3, status)
        assert text in result.message
    first, second = Seen(None, "first"), Seen(None, "second")
    result = run(observers=[first, second])
    assert result.steps == len(second.steps) == 2
    assert result.message.endswith("first.")


def test_a_run_may_end_before_its_first_step():
    class Never(Watcher):
        def look(self):
            return Ending(pp.Status.STEPS_DONE, "Not today.")

    result = run(observers=[Never()])
    assert (result.steps, result.ledger.target_gradients) == (0, 0)
    assert "Not today." in result.message
    assert run(steps=None, budget=99, observers=[StepLimit(4)]).steps == 4


def test_a_target_that_will_answer_no_more_ends_the_run():
    target = problem().objective

    def gradient(w, batch):
        if gradient.calls == 3:
            raise OutOfBudget("All three rollouts are used.")
        gradient.calls += 1
        return target.gradient(w, batch)

    gradient.calls = 0
    counted = pp.Problem(pp.FunctionObjective(gradient, sample=target.sample), problem().proxy)
    result = pp.minimize(counted, np.ones(3), method=pp.ProxyProx(0.5), steps=9, rng=0)
    assert (result.steps, result.status) == (3, pp.Status.BUDGET_SPENT)
    assert "All three rollouts are used." in result.message


def test_what_is_no_observer_is_refused_before_anything_is_paid():
    wrong = {"observers must be": Seen(), "Call the class": [Seen], r"observers\[0\]": [print]}
    for words, given in wrong.items():
        with pytest.raises(TypeError, match=words):
            run(observers=given)
