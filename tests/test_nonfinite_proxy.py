"""A proxy that is NaN away from the start: no success, and in words."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp

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
@pytest.mark.parametrize("method", [None, pp.DANE(1.0)])
def test_it_is_no_success(method, value):
    problem = pp.Problem(TARGET, holed(value=value))
    result = pp.minimize(problem, np.zeros(4), steps=50, method=method)
    assert not result.success
    if method is None or value:
        assert result.status is pp.Status.PROXY_NOT_FINITE
        assert "in 50 of 50 steps" in result.message
        assert "the proxy's gradient was not finite at a distance of" in result.message


@pytest.mark.parametrize("steps", [12, 50])
def test_the_safeguard_takes_the_rival(steps):
    problem = pp.Problem(TARGET, holed())
    result = pp.minimize(problem, np.zeros(4), steps=steps, safeguard=True)
    assert result.success
    assert result.safeguard.chosen == "SGD"
    assert result.safeguard.dropped_at == 5
    assert "dropped after 5 steps: the proxy's gradient was not finite at" in result.message


def test_it_is_remembered_in_a_checkpoint(tmp_path):
    call = {"w0": np.zeros(4), "steps": 8, "checkpoint": tmp_path / "run"}
    pp.minimize(pp.Problem(TARGET, holed()), **call)
    again = pp.minimize(pp.Problem(TARGET, holed()), **call)
    assert again.status is pp.Status.PROXY_NOT_FINITE
    assert "in 8 of 8 steps" in again.message


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
    result = pp.minimize(pp.Problem(small, wall), np.zeros(4), steps=60)
    assert result.success
    assert np.allclose(result.w, np.linalg.solve(A, B / 4), atol=1e-6)
