"""The comparison on private rows, in miniature: splits, rivals by hand and in a lattice, lines."""

import numpy as np
import pytest

from experiments import private

CASE = {"data": "tiny", "public": 100, "private": 600, "rivals": ("metric DP-GD",)}


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 4)) / 2
    y = (X @ [4.0, -4.0, 2.0, 0.0] + rng.logistic(size=1500) > 0) * 1.0
    np.savez(tmp_path / "tiny.npz", X=X, y=y)
    monkeypatch.setattr(private, "FOLDER", tmp_path)
    monkeypatch.setitem(private.RIVALS, "metric DP-GD", ("metric", True, (1, 5)))
    private.table.cache_clear()


def test_rows_of_a_split_are_apart_and_ours_is_between_public_and_ceiling():
    split = private.Split(CASE, 3)
    rows = np.vstack([split.public[0], split.private[0], split.test[0]])
    assert len(np.unique(rows, axis=0)) == len(rows)
    (line, *_) = private.compare(CASE, [0], [3])
    assert line["loss"]["ceiling"] < 0.7
    assert line["loss"]["ours"] < line["loss"]["public"] + 0.05
    gap = line["loss"]["ours"] - line["loss"]["metric DP-GD, tail"]
    assert line["ours minus"]["metric DP-GD, tail"]["mean"] == pytest.approx(gap)


def test_the_lattice_holds_the_ten_lines_by_hand(monkeypatch):
    monkeypatch.setattr(private, "EPSILONS", (1e6,))
    split = private.Split(CASE, 0)
    ready = private.prepare(split)
    setting = (1e6, 5, 20, 2)
    found = private.descend(split, ready, "metric DP-GD", [setting], 0)
    by_hand = private.metric_descent(
        *split.private, ready["w"], ready["hessian"], mu=1e9, steps=5, clip=1e6,
        rate=private.clip_and_rate(setting)[1], rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found["tail"][0] == pytest.approx(split.loss(by_hand), rel=1e-3)
    tuned = private.tune("metric DP-GD", [(0, split, ready)])["metric DP-GD, tail 1e+06"]
    assert tuned["tuning loss"] <= split.loss(by_hand) + 1e-6
