import math

import numpy as np
import pytest

from proxyprox._util.arrays import (
    add_to_diagonal,
    all_finite,
    dot,
    from_numpy,
    inverse_positive,
    norm,
    solve_positive,
    symmetric_product,
    to_numpy,
)


def positive_definite(size, seed=0):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T + np.eye(size)


@pytest.fixture(params=["numpy64", "numpy32", "torch64", "torch32"])
def native(request):
    dtype = np.float32 if request.param.endswith("32") else np.float64
    if request.param.startswith("torch"):
        torch = pytest.importorskip("torch")
        return lambda x: torch.tensor(np.asarray(x, dtype=dtype))
    return lambda x: np.asarray(x, dtype=dtype)


def tolerance(array):
    return 1e-4 if "32" in str(array.dtype) else 1e-11


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


@pytest.mark.filterwarnings("ignore:overflow")
def test_products_of_large_and_small(native):
    x = native([1e30, 1e30])
    assert dot(x, native([1e30, 1e-30])) == pytest.approx(1e60)
    assert dot(x, 0 * x) == 0.0
    assert dot(native([1.0, 1.0]), native([1.0, -1.0])) == 0.0


def test_what_is_not_finite(native):
    for bad in (np.nan, np.inf, -np.inf):
        x = native([1.0, bad])
        assert not all_finite(x)
        assert not all_finite(x[:, None])
        assert not math.isfinite(norm(x))
    assert norm(native([0.0, 0.0])) == 0.0


def test_tensor_from_numpy_does_not_share_memory():
    torch = pytest.importorskip("torch")
    buffer = np.zeros(2)
    tensor = from_numpy(buffer, like=torch.zeros(2, dtype=torch.float64))
    buffer[0] = 7.0
    assert tensor[0] == 0.0


@pytest.mark.parametrize("order", ["C", "F"])
def test_diagonal_grows_in_a_copy(native, order):
    matrix = native(np.array([[1.0, 2.0], [3.0, 4.0]], order=order))
    grown = add_to_diagonal(matrix, 0.5)
    assert to_numpy(grown).tolist() == [[1.5, 2.0], [3.0, 4.5]]
    assert to_numpy(matrix).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert grown.dtype == matrix.dtype


@pytest.mark.parametrize("size", [1, 2, 7])
def test_positive_systems_are_solved(native, size):
    matrix = native(positive_definite(size))
    rhs = native(np.arange(1.0, size + 1))
    x = solve_positive(matrix, rhs)
    assert x.dtype == rhs.dtype
    np.testing.assert_allclose(to_numpy(matrix @ x), to_numpy(rhs), atol=tolerance(matrix))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_inverse_is_symmetric_and_inverts(native, size):
    matrix = native(positive_definite(size))
    kept = to_numpy(matrix).copy()
    inverse = inverse_positive(matrix)
    assert inverse.dtype == matrix.dtype
    product = to_numpy(inverse) @ kept
    np.testing.assert_allclose(product, np.eye(size), atol=tolerance(matrix))
    np.testing.assert_array_equal(to_numpy(inverse), to_numpy(inverse).T)
    np.testing.assert_array_equal(to_numpy(matrix), kept)


@pytest.mark.parametrize("worst", [-1.0, 0.0])
def test_what_is_not_positive_definite_gives_none(native, worst):
    matrix = native(np.diag([1.0, worst, 2.0]))
    assert solve_positive(matrix, native(np.ones(3))) is None
    assert inverse_positive(matrix) is None


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("order", ["C", "F"])
def test_symmetric_product_is_the_product(native, size, order):
    full = positive_definite(size, seed=3)
    matrix = native(np.array(full, order=order))
    v = np.random.default_rng(1).normal(size=size)
    product = symmetric_product(matrix)(native(v))
    assert product.dtype == matrix.dtype
    np.testing.assert_allclose(to_numpy(product), full @ v, atol=tolerance(matrix))
