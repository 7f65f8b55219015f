"""A safeguarded run is saved and goes on bit for bit, its rival and its evidence with it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import _checkpoint as checkpoints


@pytest.fixture(scope="module")
def target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6)) * np.linspace(1, 0.1, 6)
    y = X @ rng.normal(size=6) * 3 + rng.logistic(size=600) > 0
    return pp.logistic_regression(X, y, l2=1e-3, batch_size=16)


CHECK = {"step": 1, "arm": "a", "rival": "b", "gap": 0.0, "standard_error": 0.0, "batches": 1}


def useless(target):
    far = 5 * np.random.default_rng(1).normal(size=(100, 6))
    return pp.GLM(far, None, target.family, l2=target.l2)


def counts(result):
    return {k: v for k, v in result.ledger.as_dict().items() if "seconds" not in k}


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("proxy", ["label-free", "useless"])
@pytest.mark.parametrize("until", [7, 20, 45])
def test_goes_on_bit_for_bit(target, tmp_path, proxy, until, repeatable):
    objective = copy.copy(target)
    objective.repeatable = repeatable
    problem = pp.Problem(objective, useless(target) if proxy == "useless" else target.label_free())
    call = {"steps": 60, "rng": 3, "safeguard": True}
    straight = pp.minimize(problem, **call)
    path = tmp_path / "run.ckpt"

    def pull_the_plug(step):
        if step.record.k + 1 == until:
            raise RuntimeError("no power")

    with pytest.raises(pp.OracleError, match="no power"):
        pp.minimize(problem, **call, checkpoint=path, callback=pull_the_plug)
    resumed = pp.minimize(problem, **call, checkpoint=path)
    assert resumed.w.tobytes() == straight.w.tobytes()
    assert resumed.safeguard == straight.safeguard
    assert counts(resumed) == counts(straight)


def test_a_lone_run_and_a_safeguarded_one_are_not_mixed_up(target, tmp_path):
    problem = pp.Problem(target, target.label_free())
    call = {"steps": 5, "rng": 0}
    pp.minimize(problem, **call, checkpoint=tmp_path / "lone")
    pp.minimize(problem, **call, checkpoint=tmp_path / "guarded", safeguard=True)
    with pytest.raises(checkpoints.CheckpointError, match="safeguard was False, now True"):
        pp.minimize(problem, **call, checkpoint=tmp_path / "lone", safeguard=True)
    with pytest.raises(checkpoints.CheckpointError, match="safeguard was True, now False"):
        pp.minimize(problem, **call, checkpoint=tmp_path / "guarded")
    with pytest.raises(checkpoints.CheckpointError, match="safeguard was True, now False"):
        pp.Run.load(tmp_path / "guarded", problem)
    with pytest.raises(checkpoints.CheckpointError, match=r"method\.eta was 'auto', now 0\.1"):
        pp.minimize(problem, **call, checkpoint=tmp_path / "guarded", safeguard=pp.SGD(0.1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dropped_at", -1),
        ("proxy", 3),
        ("sgd", {}),
        ("rng", {}),
        ("checks", [{"step": 1}]),
        ("checks", [{**CHECK, "gap": "x"}]),
        ("counts", {"steps": 2.5}),
        ("batches", 7),
    ],
)
def test_damage_is_named(target, tmp_path, name, value):
    problem, path = pp.Problem(target, target.label_free()), tmp_path / "run"
    call = {"steps": 3, "rng": 0, "safeguard": True, "checkpoint": path}
    pp.minimize(problem, **call)
    tree = checkpoints.read_tree(path, like=np.zeros(6))
    tree["guard"][name] = value
    checkpoints.save_tree(path, {key: item for key, item in tree.items() if key != "format"})
    with pytest.raises(checkpoints.CheckpointError):
        pp.minimize(problem, **call)
