"""The comparison on private rows, in miniature: splits, rivals by hand and in a grid, records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments import private

CASE = {"data": "tiny", "public": 100, "private": 600, "rivals": True}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 4)) / 2
    y = (X @ [4.0, -4.0, 2.0, 0.0] + rng.logistic(size=1500) > 0) * 1.0
    np.savez(tmp_path / "tiny.npz", X=X, y=y)
    grids = {kind: {"clip": (1.0, 1e3), "rate": (0.25, 1.0)} for kind in ("metric", "plain")}
    for name, value in (("FOLDER", tmp_path), ("STEPS", (5,)), ("GRIDS", grids)):
        monkeypatch.setattr(private, name, value)
    private.table.cache_clear()


def test_rows_of_a_split_are_apart_and_ours_is_between_public_and_ceiling() -> None:
    split = private.Split(CASE, 3)
    rows = np.vstack([split.public[0], split.private[0], split.test[0]])
    assert len(np.unique(rows, axis=0)) == len(rows)
    ready = private.prepare((CASE, 3))
    assert ready["ceiling"] < 0.7
    assert private.fit_ours((CASE, 3, "ours", 100.0)) < ready["public"] + 0.05


def test_the_grid_is_the_ten_lines_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(private, "EPSILONS", (1e6,))
    split, ready = private.Split(CASE, 0), private.prepare((CASE, 0))
    found = dict(private.grid_losses(CASE, split, ready, "metric DP-GD", only=None, sigmas={},
                                     seed=0, device="cpu"))  # fmt: skip
    by_hand = private.metric_descent(
        *split.private, ready["w"], ready["hessian"], mu=1e9, steps=5, clip=1e6, rate=1.0,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found[1e6, 5, 1e3, 1.0, "tail"] == pytest.approx(split.loss(by_hand), rel=1e-3)
    assert private.at_edge("metric DP-GD", (1e6, 5, 1e3, 1.0, "tail")) == ["steps", "clip", "rate"]
