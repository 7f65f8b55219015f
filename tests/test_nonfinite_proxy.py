"""A proxy that is NaN away from the start: no success, and in words."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import SOLVERS

A, B = np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(4)
TARGET = pp.FunctionObjective(lambda w: A @ w - B, value=lambda w: float(w @ A @ w / 2 - B @ w))


def holed(*, value=True):
    """Return a proxy whose gradient, and perhaps value, is NaN where ‖w‖ > 0.2."""

    def out(w):
        return np.linalg.norm(w) > 0.2

    return (
        lambda w: np.nan if value and out(w) else float(w @ w) / 2,
        lambda w: np.full(4, np.nan) if out(w) else w,
    )


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("method", [pp.ProxyProx("auto"), pp.DANE(1.0)])
def test_it_is_no_success(method, value):
    problem = pp.Problem(TARGET, holed(value=value))
    result = pp.minimize(problem, np.zeros(4), steps=50, method=method)
    assert not result.success
    assert result.status is pp.Status.PROXY_NOT_FINITE
    assert "of 50 steps" in result.message
    assert "the proxy's gradient was not finite at a distance of" in result.message


@pytest.mark.parametrize("steps", [12, 50])
def test_the_safeguard_takes_the_rival(steps):
    problem = pp.Problem(TARGET, holed())
    method = pp.ProxyProx("auto")
    result = pp.minimize(problem, np.zeros(4), method=method, steps=steps, safeguard=True)
    assert result.success
    assert result.safeguard.chosen == "SGD"
    assert result.safeguard.dropped_at == 6
    assert "dropped after 6 steps: the proxy's gradient was not finite at" in result.message


def test_a_wall_that_the_line_search_turns_back_from_is_no_fault():
    def value(w):
        return float(-np.log(1 - w @ w)) if w @ w < 1 else np.inf

    def slope(w):
        return 2 * w / (1 - w @ w) if w @ w < 1 else np.full(4, np.inf)

    def hessian(w):
        gap = 1 - w @ w
        return 2 * np.eye(4) / gap + 4 * np.outer(w, w) / gap**2

    wall = pp.FunctionProxy(value, slope, hessian=hessian)
    small = pp.FunctionObjective(lambda w: A @ w - B / 4)
    result = pp.minimize(pp.Problem(small, wall), np.zeros(4), method=pp.DANE("auto"), steps=60)
    assert result.success
    assert np.allclose(result.w, np.linalg.solve(A, B / 4), atol=1e-6)


def edge(sharp):
    """Return a proxy that is finite for w < 1 alone: a barrier, or a parabola with an edge."""

    def inside(w):
        return bool((w < 1).all())

    def value(w):
        return float(np.sum(w * w / 2 - (0 if sharp else np.log1p(-w)))) if inside(w) else np.nan

    def slope(w):
        return w + (0 if sharp else 1 / (1 - w)) if inside(w) else np.full(4, np.nan)

    def hessian(w):
        return np.diag(1 + (0 if sharp else 1 / (1 - w) ** 2) + 0 * w)

    return pp.FunctionProxy(
        value, slope, hessian=hessian, hvp=lambda w, v: hessian(w) @ v, smoothness=1.0
    )


# The first full step leads far beyond the edge, the minimum is at 0.8.
INSIDE = pp.FunctionObjective(
    lambda w: 3.75 * (w - 0.8), value=lambda w: float(1.875 * (w - 0.8) @ (w - 0.8))
)
FIXED = pp.inner.GradientDescent(step_size=0.45)
FEW = pp.stopping.Relative(1e-6) | pp.stopping.Steps(100)


@pytest.mark.parametrize("inner", [*SOLVERS, FIXED], ids=lambda inner: type(inner).__name__)
@pytest.mark.parametrize("method", [pp.DANE(0.5), pp.ProxyProx("auto"), pp.DANE()])
def test_a_step_that_leads_over_an_edge_is_shortened(inner, method):
    problem = pp.Problem(INSIDE, edge(sharp=True))
    result = pp.minimize(problem, np.zeros(4), method=method, inner=inner, stop=FEW, steps=15)
    assert result.status in (pp.Status.STEPS_DONE, pp.Status.PROXY_NOT_FINITE)
    assert ((result.w > 0) & (result.w < 1)).all()
    # Without a proximal term a proxy of a quarter of the curvature leads to and fro.
    if method != pp.DANE():
        assert result.success
        np.testing.assert_allclose(result.w, 0.8, atol=1e-3)
