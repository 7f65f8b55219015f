from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics.evidence import stride
from proxyprox.diagnostics.sampling import MeteredTarget, Sampler
from proxyprox.result import Ledger

W = np.array([50.0, 20.0])


def value(w: Any) -> float:
    """All but linear away from the minimum, as hinge and absolute losses are."""
    return float(np.sqrt(1 + w @ w))


def gradient(w: Any) -> Any:
    return w / np.sqrt(1 + w @ w)


def strode(
    objective: Any, length: float, *, probes: int = 24, exact: bool = False
) -> tuple[Any, Ledger]:
    ledger = Ledger()
    sampler = Sampler(MeteredTarget(objective, ledger), 16, np.random.default_rng(0))
    here = sampler.at(W)
    used = ledger.target_gradients
    point = stride(sampler, here, here.mean, W, W - length * here.mean, probes=probes, exact=exact)
    ledger.target_gradients -= used
    return point, ledger


@pytest.mark.parametrize("length", [1e5, 3e3, 200.0, 54.0, 10.0, 1.0])
def test_a_step_of_any_length_ends_near_where_the_loss_is_least(length: float) -> None:
    point, ledger = strode(pp.FunctionObjective(gradient), length)
    assert value(point) < 0.8 * value(W)
    assert ledger.target_gradients <= 24


def test_an_exact_curvature_is_only_shortened() -> None:
    short, _ = strode(pp.FunctionObjective(gradient), 1.0, exact=True)
    assert np.linalg.norm(short - W) == pytest.approx(1.0, rel=1e-3)
    long, _ = strode(pp.FunctionObjective(gradient), 2e3, exact=True)
    assert value(long) < value(W)


@pytest.mark.parametrize("seed", range(5))
def test_one_batch_that_points_elsewhere_does_not_decide(seed: int) -> None:
    draws = np.random.default_rng(seed)
    noise = 2.0 * draws.standard_normal((16, 2))
    # The first batch falls where all together rise: alone it would let every step pass.
    noise[0] = -3.0 * gradient(W)
    noise -= noise.mean(axis=0)
    batches = iter(noise)
    noisy = pp.FunctionObjective(lambda w, b: gradient(w) + b, sample=lambda rng: next(batches))
    point, ledger = strode(noisy, 1e4)
    assert value(point) < value(W)
    assert ledger.target_gradients <= 24


def test_where_every_point_ahead_is_lost_there_is_none() -> None:
    cliff = pp.FunctionObjective(lambda w: gradient(w) if np.allclose(w, W) else w * np.nan)
    point, ledger = strode(cliff, 10.0, probes=3)
    assert point is None
    assert ledger.target_gradients == 3
