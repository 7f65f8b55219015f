"""A checkpoint is tied to its configuration, problem, start and seed; what differs is named."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import curved

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.integers(0, 2, size=60)


def target(X=X, y=Y, l2=0.1, batch_size=6, **options):
    return pp.logistic_regression(X, y, l2=l2, batch_size=batch_size, **options)


def problem(*changed, proxy=None, penalty=None, **options):
    loss = target(*changed, **options)
    return pp.Problem(loss, target().label_free() if proxy is None else proxy, penalty)


OBJECTIVE = "the objective's data is not that of the saved run"
OTHERS = {
    "labels": ({"problem": problem(X, 1 - Y)}, OBJECTIVE),
    "l2": ({"problem": problem(l2=0.2)}, "objective.l2 was 0.1, now 0.2"),
    "rows": ({"problem": problem(X[::-1].copy(), Y)}, OBJECTIVE),
    "weights": ({"problem": problem(sample_weight=np.arange(60))}, OBJECTIVE),
    "proxy": (
        {"problem": problem(proxy=target().subsample(30, rng=0))},
        "the proxy's data is not that of the saved run",
    ),
    "penalty": ({"problem": problem(penalty=pp.L1(0.1))}, "penalty was None, now L1(alpha=0.1)"),
    "w0": ({"w0": np.ones(4)}, "w0 is not that of the saved run"),
    "rng": ({"rng": 1}, "rng was 0, now 1"),
    "batch size": (
        {"problem": problem(batch_size=7)}, "objective.batch_size was 6, now 7",
    ),
    "no batch size": (
        {"problem": problem(batch_size=None)}, "objective.batch_size was 6, now None",
    ),
    "proxy's batch size": (
        {"problem": problem(proxy=target().label_free().with_batch_size(3))},
        "proxy.batch_size was None, now 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("safeguard", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_is_named(name, safeguard, tmp_path):
    change, words = OTHERS[name]
    call = {"problem": problem(), "rng": 0, "steps": 3, "safeguard": safeguard}
    call |= {"checkpoint": tmp_path / "run", "inner": pp.inner.ProximalGradient()}
    pp.minimize(**call)
    before = (tmp_path / "run").read_bytes()
    with pytest.raises(pp.CheckpointError, match="belongs to another run") as caught:
        pp.minimize(**call | change)
    assert words in str(caught.value)
    assert (tmp_path / "run").read_bytes() == before


@pytest.mark.parametrize("safeguard", [False, True])
def test_a_finished_run_says_so_and_may_go_on(safeguard, tmp_path):
    call = {"problem": problem(), "rng": 0, "checkpoint": tmp_path / "run", "safeguard": safeguard}
    first = pp.minimize(**call, steps=5)
    again = pp.minimize(**call, steps=5)
    assert "finished already" not in first.message
    said = f"Resumed from {str(tmp_path / 'run')!r}, it was finished already: no step was added."
    assert again.message.endswith(said)
    assert again.w.tobytes() == first.w.tobytes()
    longer = pp.minimize(**call, steps=8)
    assert longer.steps == 8
    assert "finished already" not in longer.message


def test_a_run_is_loaded_with_the_same_arguments(tmp_path):
    pp.Run(problem(), np.ones(4), rng=3).save(tmp_path / "run")
    load = functools.partial(pp.Run.load, tmp_path / "run")
    assert load(problem(), np.ones(4), rng=3).w.tolist() == [1.0] * 4
    with pytest.raises(pp.CheckpointError, match=r"w0 is not that.*rng was 3, now 4"):
        load(problem(), rng=4)
    with pytest.raises(pp.CheckpointError, match="l2"):
        load(problem(l2=0.3), np.ones(4))
    with pytest.raises(pp.CheckpointError, match=r"method\.eta was 'auto', now 0\.5"):
        load(problem(), np.ones(4), method=pp.ProxyProx(0.5))


def test_nothing_is_hashed_without_a_checkpoint(monkeypatch):
    def hashed(self):
        raise AssertionError("hashed")

    monkeypatch.setattr(pp.GLM, "fingerprint", hashed)
    assert pp.minimize(problem(), steps=2, rng=0).steps == 2


def test_functions_are_told_apart_by_their_value_at_the_start(tmp_path):
    def pull(towards):
        return lambda w: float((w - towards) @ (w - towards)), lambda w: 2 * (w - towards)

    call = {"w0": np.zeros(2), "steps": 3, "rng": 0, "checkpoint": tmp_path / "run"}
    proxy = pp.Quadratic(np.eye(2))
    pp.minimize(pp.Problem(pull(np.array([1.0, 2.0])), proxy), **call)
    with pytest.raises(pp.CheckpointError, match=r"the loss at w0 was 5\.0, now 10\.0"):
        pp.minimize(pp.Problem(pull(np.array([1.0, 3.0])), proxy), **call)
    again = pp.minimize(pp.Problem(pull(np.array([1.0, 2.0])), proxy), **call)
    assert "finished already" in again.message


def huber(y):
    X = np.arange(12.0).reshape(6, 2) / 6

    def value(w):
        return float(np.sum(np.sqrt(1 + (X @ w - y) ** 2)))

    return value, lambda w: X.T @ ((X @ w - y) / np.sqrt(1 + (X @ w - y) ** 2))


@pytest.mark.parametrize("safeguard", [False, True])
def test_another_proxy_of_functions_is_refused(safeguard, tmp_path):
    y = np.array([1.0, -2.0, 0.5, 3.0, -1.0, 2.0])
    calls, (value, gradient) = [], huber(y / 2)
    call = {"w0": np.zeros(2), "steps": 3, "rng": 0, "safeguard": safeguard}
    plain = pp.minimize(pp.Problem(huber(y), huber(y / 2)), **call)
    call["checkpoint"] = tmp_path / "run"
    proxy = value, lambda w: calls.append(1) or gradient(w)
    kept = pp.minimize(pp.Problem(huber(y), proxy), **call)
    # That by which the file knows the proxy is charged, too, if the first step does not need it.
    assert kept.ledger.proxy_gradients == plain.ledger.proxy_gradients + (not safeguard)
    assert kept.ledger.proxy_gradients == len(calls)
    assert kept.ledger.target_gradients == plain.ledger.target_gradients
    # The losses at w0 = 0 and the norms of the gradients are the same.
    with pytest.raises(pp.CheckpointError, match="the proxy's gradient at w0 is not that"):
        pp.minimize(pp.Problem(huber(-y), huber(-y / 2)), **call)
    again = pp.minimize(pp.Problem(huber(y), huber(y / 2)), **call)
    assert "finished already" in again.message


# -- the configuration -----------------------------------------------------------------------------


def test_a_run_may_go_on_for_longer_than_was_planned(tmp_path):
    call = {
        "problem": pp.Problem((None, np.sinh), curved().proxy), "w0": np.ones(3),
        "method": pp.ProxyProx(10.0),
    }  # fmt: skip
    first = pp.minimize(**call, steps=5, checkpoint=tmp_path / "run")
    assert first.stop.startswith("Convex(steps=5, G=0.0) (the default")
    longer = pp.minimize(**call, steps=12, checkpoint=tmp_path / "run")
    assert longer.steps == 12
    kept = "Convex(steps=5, G=0.0) (the rule that the run began with)"
    assert longer.stop == kept
    by_budget = pp.minimize(**call, budget=pp.Budget(seconds=1e-9), checkpoint=tmp_path / "run")
    assert by_budget.stop == kept
    whole = pp.minimize(**call, steps=12, stop=pp.stopping.Convex(5))
    assert longer.w.tobytes() == whole.w.tobytes()
    with pytest.raises(pp.CheckpointError, match=r"stop.steps was 5, now 20"):
        pp.minimize(**call, steps=20, stop=pp.stopping.Convex(20), checkpoint=tmp_path / "run")


def test_the_setting_that_differs_is_named(tmp_path):
    problem = pp.Problem((None, np.sinh), (lambda w: w @ w / 2, lambda w: w))
    EMA, PP = pp.corrections.EMA, pp.ProxyProx
    for at, (was, now, words) in enumerate([
        (PP(10.0), PP(5.0), "method.eta was 10.0, now 5.0."),
        (PP(1.0, EMA(0.5)), PP(1.0, EMA(0.1)), "method.correction.a was 0.5, now 0.1."),
        (PP(1.0), pp.SGD(1.0), "method was ProxyProx(eta=1.0, correction=Plain())"),
        (PP(1.0), PP("auto"), "method.eta was 1.0, now 'auto'"),
        (PP(1.0), PP(math.exp), "method.eta was 1.0, now function 'math:exp'"),
    ]):  # fmt: skip
        call = {"checkpoint": tmp_path / str(at), "w0": np.ones(3)}
        pp.minimize(problem, method=was, steps=2, **call)
        with pytest.raises(pp.CheckpointError, match="belongs to another run") as caught:
            pp.minimize(problem, method=now, steps=3, **call)
        assert words in str(caught.value)
        assert "settings" not in str(caught.value)


@dataclass(frozen=True)
class Mean:
    """A correction of the user's own, with the name of one of ours."""

    two_points = False

    def __call__(self, difference, before, estimate, k):
        return difference if estimate is None else 0.9 * estimate + 0.1 * difference


def test_a_users_class_is_never_exchanged_for_ours(tmp_path):
    call = {"problem": problem(), "rng": 0, "checkpoint": tmp_path / "run"}
    pp.minimize(**call, method=pp.ProxyProx(0.5, Mean()), steps=3)
    with pytest.raises(pp.CheckpointError, match=f"was {__name__}:Mean.*now Mean"):
        pp.minimize(**call, method=pp.ProxyProx(0.5, pp.corrections.Mean()), steps=4)
    whole = pp.minimize(problem(), rng=0, method=pp.ProxyProx(0.5, Mean()), steps=6)
    resumed = pp.minimize(**call, method=pp.ProxyProx(0.5, Mean()), steps=6)
    assert resumed.w.tobytes() == whole.w.tobytes()


# -- functions -------------------------------------------------------------------------------------


def scaled(size, k):
    return size / (k + 1)


class Schedule:
    def one(self, k):
        return 1.0

    def other(self, k):
        return 0.5


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        (Schedule().one, Schedule().other, r"Schedule\.one.*Schedule\.other"),
        (functools.partial(scaled, 0.1), functools.partial(scaled, 0.2), r"0\.1.*0\.2"),
        (functools.partial(scaled, 0.1), functools.partial(max, 0.1), r"scaled.*max"),
        (math.exp, math.cosh, "exp.*cosh"),
    ],
)
def test_another_function_is_refused_by_name(was, now, words, tmp_path):
    call = {"steps": 3, "rng": 0, "checkpoint": tmp_path / "run"}
    pp.minimize(problem(), method=pp.ProxyProx(was), **call | {"steps": 1})
    resumed = pp.minimize(problem(), method=pp.ProxyProx(was), **call)
    assert resumed.steps == 3
    with pytest.raises(pp.CheckpointError, match=rf"method\.eta was .*{words}"):
        pp.minimize(problem(), method=pp.ProxyProx(now), **call)
