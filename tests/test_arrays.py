import math

import numpy as np
import pytest

from proxyprox._util.arrays import all_finite, inverse_positive, norm, solve_positive


@pytest.fixture(params=["numpy64", "numpy32", "torch64", "torch32"])
def native(request):
    dtype = np.float32 if request.param.endswith("32") else np.float64
    if request.param.startswith("torch"):
        torch = pytest.importorskip("torch")
        return lambda x: torch.tensor(np.asarray(x, dtype=dtype))
    return lambda x: np.asarray(x, dtype=dtype)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("power", [-300, -170, -100, -25, 0, 25, 100, 170, 300])
def test_norms_neither_underflow_nor_overflow(native, power):
    x = native([3.0, -4.0, 0.0])
    if "32" in str(x.dtype):
        power = power // 10
    x = x * 10.0**power
    size = math.hypot(*(float(entry) for entry in x))
    assert norm(x) == pytest.approx(size, rel=1e-6 if "32" in str(x.dtype) else 1e-15)
    assert all_finite(x)
    assert all_finite(x[:, None])


def test_what_is_not_finite(native):
    for bad in (np.nan, np.inf, -np.inf):
        x = native([1.0, bad])
        assert not all_finite(x)
        assert not all_finite(x[:, None])
        assert not math.isfinite(norm(x))
    assert norm(native([0.0, 0.0])) == 0.0


@pytest.mark.parametrize("worst", [-1.0, 0.0])
def test_what_is_not_positive_definite_gives_none(native, worst):
    matrix = native(np.diag([1.0, worst, 2.0]))
    assert solve_positive(matrix, native(np.ones(3))) is None
    assert inverse_positive(matrix) is None
