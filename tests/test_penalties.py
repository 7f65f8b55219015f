import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxyprox import L1, Box

numbers = st.floats(-20, 20)
strengths = st.floats(0, 5)
steps = st.floats(1e-3, 10)
modest = settings(deadline=None, max_examples=60, derandomize=True)


@modest
@given(w=st.one_of(st.just(0.0), numbers), slope=numbers, alpha=strengths)
def test_distance_is_the_least_over_the_subdifferential(w, slope, alpha):
    sign = np.sign(w) if w else np.linspace(-1, 1, 20_001)
    brute = np.min(np.abs(slope + alpha * sign))
    got = L1(alpha).distance(np.array([w]), np.array([slope]))
    assert got == pytest.approx(brute, abs=alpha * 1e-4 + 1e-12)


@modest
@given(seed=st.integers(0, 10**6), step=steps)
def test_prox_is_stationary(seed, step):
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0, 3, 8) * (rng.random(8) < 0.7)
    v = 5 * rng.normal(size=8)
    penalty = L1(alpha)
    w = penalty.prox(v, step)
    scale = 1 + np.abs(v).max() / step
    assert penalty.distance(w, (w - v) / step) <= 1e-14 * scale
    # And only the prox is: a nudge of any coordinate shows.
    nudged = w + 0.01 * np.eye(8)[seed % 8]
    assert penalty.distance(nudged, (nudged - v) / step) > 1e-4 / step


def test_values_by_hand():
    alpha, w = np.array([0.0, 1.0, 2.0]), np.array([5.0, -3.0, 0.5])
    assert L1(alpha).value(w) == pytest.approx(4.0, rel=1e-15)
    assert L1(2.0).value(w) == pytest.approx(17.0, rel=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.5, [0.5, 0.0, 0.5], np.array([0.5, 0.0, 0.5])], ids=str)
def test_library_and_dtype_are_kept(dtype, alpha):
    w = np.array([2.0, 0.1, -0.3], dtype=dtype)
    penalty = L1(alpha)
    got = penalty.prox(w, 0.5)
    assert got.dtype == dtype
    tensor = pytest.importorskip("torch").tensor(w)
    native = penalty.prox(tensor, 0.5)
    assert native.dtype == tensor.dtype
    np.testing.assert_allclose(native.numpy(), got, rtol=1e-6)
    assert penalty.value(tensor) == pytest.approx(penalty.value(w), rel=1e-6)
    assert penalty.distance(tensor, tensor) == pytest.approx(penalty.distance(w, w), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tensors", [False, True])
def test_a_box_clips_and_projects(dtype, tensors):
    as_array = pytest.importorskip("torch").tensor if tensors else np.asarray
    box = Box([0.1, -np.inf, 0.0, 1.0], [1.0, 2.0, np.inf, 1.0])
    w = as_array(np.array([-3.0, 5.0, 7.0, 1.0], dtype=dtype))
    inside = box.prox(w, 0.5)
    assert inside.dtype == w.dtype
    np.testing.assert_allclose(np.asarray(inside), [0.1, 2.0, 7.0, 1.0], rtol=1e-6)
    assert (box.value(w), box.value(inside)) == (np.inf, 0.0)
    # Of the gradient only what can be followed inside the box counts: here in coordinates 1 and 3.
    gradient = as_array(np.array([-3.0, -1.0, 4.0, 9.0], dtype=dtype))
    assert box.distance(inside, gradient) == pytest.approx(5.0)
