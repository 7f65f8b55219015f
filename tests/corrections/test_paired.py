"""The paired correction: unbiased for every power, least variance at the tuned one."""

from __future__ import annotations

import numpy as np
import pytest

from proxyprox.corrections import Paired, tuned_power


def test_power_zero_is_the_target_and_one_the_rectified_proxy():
    g, same, everywhere = np.array([1.0, 2.0]), np.array([0.5, 2.5]), np.array([0.4, 2.0])
    np.testing.assert_array_equal(Paired(0.0)(g, same, everywhere), g)
    np.testing.assert_allclose(Paired(1.0)(g, same, everywhere), everywhere + (g - same))


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_unbiased_for_every_power(power):
    rng = np.random.default_rng(0)
    proxy = rng.normal(size=20_000)
    target = 0.7 * proxy + rng.normal(size=20_000) + 3.0
    batches = np.arange(20_000).reshape(-1, 20)
    means = [Paired(power)(target[b].mean(), proxy[b].mean(), proxy.mean()) for b in batches]
    assert np.mean(means) == pytest.approx(target.mean(), abs=1e-9)


def test_tuned_power_has_the_least_variance():
    rng = np.random.default_rng(1)
    proxy = rng.normal(size=(50_000, 3))
    target = 0.6 * proxy + rng.normal(size=(50_000, 3))
    best = tuned_power(target, proxy)
    assert best == pytest.approx(0.6, abs=0.02)

    def spread(power):
        return np.var(target - power * proxy, axis=0).sum()

    assert spread(best) <= min(spread(best - 0.1), spread(best + 0.1))


def test_few_proxy_rows_lower_the_power():
    g = np.random.default_rng(2).normal(size=(500, 2))
    assert tuned_power(g, g, ratio=1.0) == pytest.approx(0.5)


def test_useless_teachers_get_no_power():
    g = np.random.default_rng(3).normal(size=(500, 2))
    assert tuned_power(g, np.zeros_like(g)) == 0.0
    assert tuned_power(g, -g) == 0.0


def test_metric_decides_which_directions_count():
    rng = np.random.default_rng(4)
    proxy = rng.normal(size=(20_000, 2))
    target = proxy * [1.0, 0.0] + rng.normal(size=(20_000, 2))
    assert tuned_power(target, proxy, metric=np.diag([1.0, 0.0])) == pytest.approx(1.0, abs=0.03)
    assert tuned_power(target, proxy, metric=np.diag([0.0, 1.0])) == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize("power", [-0.1, 1.1])
def test_power_outside_the_unit_interval_is_refused(power):
    with pytest.raises(ValueError, match="power must be"):
        Paired(power)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="two matrices of one shape"):
        tuned_power(np.zeros((3, 2)), np.zeros((3, 1)))
