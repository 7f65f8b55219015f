"""A checkpoint is tied to its problem, start and seed; a finished one says that it is."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.integers(0, 2, size=60)


def target(X=X, y=Y, l2=0.1, **options):
    return pp.logistic_regression(X, y, l2=l2, batch_size=6, **options)


def problem(*changed, proxy=None, penalty=None, **options):
    loss = target(*changed, **options)
    return pp.Problem(loss, target().label_free() if proxy is None else proxy, penalty)


OBJECTIVE = "the objective's data is not that of the saved run"
OTHERS = {
    "labels": ({"problem": problem(X, 1 - Y)}, OBJECTIVE),
    "l2": ({"problem": problem(l2=0.2)}, OBJECTIVE),
    "rows": ({"problem": problem(X[::-1].copy(), Y)}, OBJECTIVE),
    "weights": ({"problem": problem(sample_weight=np.arange(60))}, OBJECTIVE),
    "proxy": (
        {"problem": problem(proxy=target().subsample(30, rng=0))},
        "the proxy's data is not that of the saved run",
    ),
    "penalty": ({"problem": problem(penalty=pp.L1(0.1))}, "penalty was None, now L1(alpha=0.1)"),
    "w0": ({"w0": np.ones(4)}, "w0 is not that of the saved run"),
    "rng": ({"rng": 1}, "rng was 0, now 1"),
}


@pytest.mark.parametrize("safeguard", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_is_named(name, safeguard, tmp_path):
    change, words = OTHERS[name]
    call = {"problem": problem(), "rng": 0, "steps": 3, "safeguard": safeguard}
    call |= {"checkpoint": tmp_path / "run", "inner": pp.ProximalGradient()}
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


def test_a_loaded_run_needs_the_problem_but_not_the_start(tmp_path):
    run = pp.Run(problem(), np.ones(4), rng=3)
    run.save(tmp_path / "run")
    loaded = pp.Run.load(tmp_path / "run", problem(), np.zeros(4))
    loaded.save(tmp_path / "again")
    with pytest.raises(pp.CheckpointError, match=r"w0 is not that.*rng was 3, now 4"):
        pp.minimize(problem(), rng=4, steps=1, checkpoint=tmp_path / "again")
    with pytest.raises(pp.CheckpointError, match="the objective's data"):
        pp.Run.load(tmp_path / "run", problem(l2=0.3))


def test_what_has_no_fingerprint_is_not_compared(tmp_path):
    call = {"w0": np.ones(2), "steps": 2, "checkpoint": tmp_path / "run"}
    pp.minimize(pp.Problem((None, lambda w: w)), **call)
    again = pp.minimize(pp.Problem((None, lambda w: w - 1)), **call, rng=5)
    assert "finished already" in again.message


def test_nothing_is_hashed_without_a_checkpoint(monkeypatch):
    def hashed(self):
        raise AssertionError("hashed")

    monkeypatch.setattr(pp.GLM, "fingerprint", hashed)
    assert pp.minimize(problem(), steps=2, rng=0).steps == 2


def test_a_resumed_run_that_fails_was_not_finished(tmp_path):
    answers = {"good": True}
    slope = pp.Problem((None, lambda w: w if answers["good"] else w * np.nan))
    call = {"w0": np.ones(2), "method": pp.SGD(0.1), "checkpoint": tmp_path / "run"}
    pp.minimize(slope, **call, steps=2)
    answers["good"] = False
    failed = pp.minimize(slope, **call, steps=4)
    assert failed.status is pp.Status.TARGET_NOT_FINITE
    assert "finished already" not in failed.message


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


def test_a_result_of_sgd_speaks_of_no_inner_solver():
    result = pp.minimize(problem(), method=pp.SGD(0.1), steps=3, rng=0)
    assert "inner" not in str(result)
    assert "inner solver" in str(pp.minimize(problem(), steps=3, rng=0))


def huber(y):
    X = np.arange(12.0).reshape(6, 2) / 6

    def value(w):
        return float(np.sum(np.sqrt(1 + (X @ w - y) ** 2)))

    return value, lambda w: X.T @ ((X @ w - y) / np.sqrt(1 + (X @ w - y) ** 2))


@pytest.mark.parametrize("safeguard", [False, True])
def test_another_proxy_of_functions_is_refused(safeguard, tmp_path):
    y = np.array([1.0, -2.0, 0.5, 3.0, -1.0, 2.0])
    call = {"w0": np.zeros(2), "steps": 3, "rng": 0, "safeguard": safeguard}
    plain = pp.minimize(pp.Problem(huber(y), huber(y / 2)), **call)
    call["checkpoint"] = tmp_path / "run"
    kept = pp.minimize(pp.Problem(huber(y), huber(y / 2)), **call)
    assert kept.ledger.proxy_gradients == plain.ledger.proxy_gradients
    assert kept.ledger.target_gradients == plain.ledger.target_gradients
    # The losses at w0 = 0 and the norms of the gradients are the same.
    with pytest.raises(pp.CheckpointError, match="the proxy's gradient at w0 is not that"):
        pp.minimize(pp.Problem(huber(-y), huber(-y / 2)), **call)
    again = pp.minimize(pp.Problem(huber(y), huber(y / 2)), **call)
    assert "finished already" in again.message
