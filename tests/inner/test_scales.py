"""Losses of any scale: no norm under- or overflows, and no residual counts as solved by it."""

import math

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import SOLVERS

A = np.array([[2.0, 0.3], [0.3, 1.0]])
P = np.array([[1.8, 0.2], [0.2, 1.1]])
CENTRE = np.array([1.0, -2.0])
SCALES = {"float64": (1e-290, 1e-170, 1e150, 1e290), "float32": (1e-35, 1e-25, 1e20, 1e30)}
CASES = [(dtype, scale) for dtype, scales in SCALES.items() for scale in scales]


def problem(scale, native):
    T, B, centre = native(scale * A), native(scale * P), native(CENTRE)
    proxy = pp.FunctionProxy(
        lambda w: float(w @ (B @ w)) / 2, lambda w: B @ w, hvp=lambda w, v: B @ v,
        hessian=lambda w: B, smoothness=2 * scale,
    )  # fmt: skip
    return pp.Problem((None, lambda w: T @ (w - centre)), proxy)


def arrays(library, dtype):
    if library == "torch":
        torch = pytest.importorskip("torch")
        return lambda x: torch.tensor(np.asarray(x), dtype=getattr(torch, dtype))
    return lambda x: np.asarray(x, dtype=dtype)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(("dtype", "scale"), CASES)
@pytest.mark.parametrize("inner", SOLVERS, ids=lambda s: type(s).__name__)
def test_solvers_know_no_scale(inner, dtype, scale, library):
    native = arrays(library, dtype)
    result = pp.minimize(
        problem(scale, native), native(np.zeros(2)), method=pp.ProxyProx(1 / scale), inner=inner,
        steps=25,
    )  # fmt: skip
    np.testing.assert_allclose(np.asarray(result.w), CENTRE, atol=1e-5)
    assert result.trace["residual"][0] > 0


@pytest.mark.parametrize(("dtype", "scale"), CASES)
def test_a_step_that_solves_nothing_is_not_solved(dtype, scale):
    native = arrays("numpy", dtype)
    run = pp.Run(
        problem(scale, native), native(np.zeros(2)), method=pp.ProxyProx(1 / scale),
        inner=pp.inner.GradientDescent(step_size=1e-9 / scale, max_steps=1),
        stop=pp.stopping.Relative(0.5),
    )  # fmt: skip
    step = run.tell(run.problem.objective.gradient(run.ask().points[0]))
    assert step.record.held is False
    assert step.record.residual == pytest.approx(scale * math.hypot(*(A @ CENTRE)), rel=1e-4)


@pytest.mark.parametrize(("dtype", "scale"), [("float64", 1e-100), ("float32", 1e-25)])
def test_an_audit_of_a_flat_loss(dtype, scale):
    native = arrays("numpy", dtype)
    found = pp.audit(problem(scale, native), w0=native(np.zeros(2)), rng=0)
    assert found.H.estimate == pytest.approx(scale * np.linalg.eigvalsh(A)[-1], rel=1e-2)
