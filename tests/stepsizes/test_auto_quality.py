"""How good ``eta="auto"`` is: descent, tuned step sizes as the yardstick, and bad proxies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import proxyprox as pp


def test_a_step_whose_secant_is_below_one_over_eta_never_raises_a_convex_loss(target):
    exact, proxy = target.with_batch_size(None), target.subsample(60, rng=0)
    points = [np.zeros(8)]
    result = pp.minimize(
        pp.Problem(exact, proxy), method=pp.ProxyProx("auto"), steps=60,
        stop=pp.stopping.Residual(1e-11),
        callback=lambda step: points.append(step.w),
    )  # fmt: skip

    def slope_of_h(w):
        return exact.gradient(w) - proxy.gradient(w)

    seen = 0
    for (w, after), step in zip(itertools.pairwise(points), result.trace, strict=True):
        s, eta = after - w, step.eta
        if not np.isclose(np.linalg.norm(s), step.displacement, rtol=1e-9):
            continue  # It replaced a step that was taken back, and began elsewhere.
        q = (slope_of_h(after) - slope_of_h(w)) @ s / (s @ s)
        if q <= 1 / eta:
            seen += 1
            fall = exact.value(after) - exact.value(w)
            assert fall <= -(1 / eta - q) * (s @ s) + 1e-12
    assert seen > 30


def test_an_overshooting_step_is_taken_back():
    # The proxy is flat where the target is steep, which the first steps do not show.
    target = pp.Quadratic(np.diag([1.0, 50.0]), b=np.array([-1.0, -1e-3]))
    problem = pp.Problem(target, pp.Quadratic(np.diag([1.0, 0.0])))
    points = [np.zeros(2)]
    method = pp.ProxyProx("auto")
    result = pp.minimize(problem, method=method, steps=300, callback=lambda s: points.append(s.w))
    assert np.linalg.norm(result.w - target.minimiser()) < 1e-4
    # A step that replaces another does not begin where that one ended.
    ends = np.linalg.norm(np.diff(points, axis=0), axis=1)
    assert not np.allclose(ends, result.trace["displacement"], rtol=1e-9, atol=0)


@pytest.mark.parametrize("scale", [1e-3, 10.0])
def test_a_wrongly_scaled_proxy_still_converges(target, scale):
    problem = pp.Problem(target, scale * target.with_batch_size(None))
    result = pp.minimize(problem, method=pp.ProxyProx("auto"), steps=400, rng=0)
    best = pp.minimize(pp.Problem(target, target.label_free()), method=pp.DANE(), steps=20)
    start = target.value(np.zeros(8)) - target.value(best.w)
    assert target.value(result.w) - target.value(best.w) < 0.02 * start
