from __future__ import annotations

import pytest

from proxyprox import GradientDescent, Problem, Steps, logistic_regression, minimize
from proxyprox.experiments.contest import ERM, GRID, exact, named, published, yardstick


def test_equal_tuning_effort() -> None:
    for contender in (*published(20), *exact()):
        etas = contender.etas(4.0)
        assert len(etas) == GRID
        assert list(etas) == sorted(etas)
        assert etas[0] == contender.lowest / 4


def test_the_same_inner_steps_for_every_published_method() -> None:
    for contender in published(7)[1:]:
        settings = contender.build(1.0)
        assert settings["stop"] == Steps(7)
        assert isinstance(settings["inner"], GradientDescent)
        assert "7 GD steps" in contender.name


def test_found_by_name() -> None:
    for contender in (*published(5), *exact(), yardstick()):
        assert named(contender.name, 5).name == contender.name
    assert yardstick().name == ERM
    with pytest.raises(KeyError):
        named("nobody", 5)


def test_every_contender_runs() -> None:
    target = logistic_regression([[1.0], [-1.0], [0.5]], [1, 0, 0], l2=0.1, batch_size=2)
    for contender in (*published(3), *exact()):
        result = minimize(
            Problem(target, target.label_free()), budget=6, rng=0, **contender.build(0.5)
        )
        assert result.success
        assert result.ledger.target_gradients in (5, 6)
