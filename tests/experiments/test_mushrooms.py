from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from proxyprox import Problem, datasets
from proxyprox.experiments import logistic
from proxyprox.experiments.contest import ERM, exact, play
from proxyprox.experiments.tournament import Job


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


TINY = replace(logistic.DEMO, budget=10, tuning_budget=3, inner_steps=2, seeds=2)


def job(config: logistic.Config, method: str, panel: str = "batch 256", **changes: Any) -> Job:
    entry = next(e for e in logistic.entries(config) if (e.panel, e.method) == (panel, method))
    fields = {"eta": entry.etas[len(entry.etas) // 2], "seed": 0, "budget": 10, **changes}
    return Job(panel, method, entry.batch_size, effort=1.0, **fields)


def plain(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in point.items() if k != "seconds"} for point in points]


def test_panels_of_the_paper() -> None:
    config = replace(logistic.Config(), dataset=logistic.BUILT_IN)
    panels: dict[str, list[str]] = {}
    for entry in logistic.entries(config):
        panels.setdefault(entry.panel, []).append(entry.method)
    assert list(panels) == ["batch 1024", "batch 256", "subsampled proxy"]
    assert panels["batch 1024"] == panels["batch 256"]
    for name in ("SGD", "AuxMom, 20 GD steps", "AuxMVR, 20 GD steps", "ProxyProx, exact", ERM):
        assert name in panels["batch 256"]
    assert panels["subsampled proxy"][-1] == "ProxyProx, all inputs, no labels"


def test_same_seed_same_points() -> None:
    for entry in logistic.entries(TINY):
        here = job(TINY, entry.method, entry.panel)
        assert plain(logistic.run_job(TINY, here)) == plain(logistic.run_job(TINY, here))


def test_seeds_differ() -> None:
    ends = {
        logistic.run_job(TINY, job(TINY, "SGD", seed=seed))[-1]["suboptimality"]
        for seed in range(3)
    }
    assert len(ends) == 3


def test_which_random_labels_the_proxy_has_does_not_matter() -> None:
    target = logistic._target(TINY)
    ends = []
    for seed in (1, 2, None):
        rng = None if seed is None else np.random.default_rng(seed)
        problem = Problem(target.with_batch_size(64), target.label_free(rng=rng))
        points = play(exact()[0], 10.0, problem, optimum=0.0, budget=10, seed=0, at=[10])
        ends.append(points[0]["suboptimality"])
    assert ends == pytest.approx([ends[0]] * 3, rel=1e-7)


def test_subsample_of_all_rows_is_the_target() -> None:
    config = replace(TINY, fractions=(1.0,))
    points = logistic.run_job(
        config, job(config, "ProxyProx, 100% of the rows", logistic.SUBSAMPLED, eta=1e8)
    )
    assert points[1]["suboptimality"] < 1e-9  # full gradients, δ = 0: one step


def test_facts() -> None:
    known = logistic.facts(TINY)
    assert (known["rows"], known["columns"]) == (569, 30)
    assert 0 < known["optimal loss"] < 0.1
    assert known["l2"] == pytest.approx(1e-4 * known["smoothness H"], rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": 0}, "seeds"),
        ({"batch_sizes": ()}, "batch_sizes"),
        ({"fractions": (0.0,)}, "fractions"),
        ({"relative_l2": 0.0}, "relative_l2"),
    ],
)
def test_mistakes(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(logistic.Config(), **changes)


def test_fetch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    logistic.fetch(logistic.DEMO, download=False)
    monkeypatch.setenv("PROXYPROX_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(datasets.DatasetNotFoundError, match="switched off"):
        logistic.fetch(logistic.Config(), download=False)
