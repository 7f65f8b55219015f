"""The few array helpers the core needs, so that NumPy and torch share one code path.

Copies keep runs apart from the code of others, which may write into what it is given and reuse what
it returns; :mod:`proxyprox.oracle` makes them. Read-only arrays would not do: compiled code refuses
them, and ``torch.from_numpy`` warns.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import importlib
import itertools
import math
import operator
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

import numpy as np
import scipy  # not scipy.linalg, which is slow: SciPy imports it when it is used
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_array

# One- and two-dimensional floating-point arrays of any array-API library.
# Marked, so that a state can be compared with what its class declares.
Vector = Annotated[Any, "an array like the iterate"]
Matrix = Any
# Squared norms below this may have lost digits to underflow in float32.
LEAST_SQUARE = 1e-30
# Entries of dense blocks, 8 MiB of float64: large enough for a product, small beside any data.
BLOCK = 1 << 20


def namespace(x: Any) -> Any:
    """Return the array-API namespace of ``x`` (NumPy's for a NumPy array)."""
    return np if type(x) is np.ndarray or is_numpy_array(x) else array_namespace(x)


@np.errstate(over="ignore", under="ignore")
def dot(x: Vector, y: Vector) -> float:
    """Return ⟨x, y⟩ as a Python float; only its own size can make it 0 or infinite."""
    # For short NumPy arrays the method takes half the time of the operator.
    product = float(x.dot(y) if type(x) is np.ndarray else x @ y)
    if product != 0 and math.isfinite(product):
        return product
    (u, e), (v, f) = _scaled(x), _scaled(y)
    return product if e is None or f is None else float(np.ldexp(u @ v, e + f))


@np.errstate(over="ignore", under="ignore")
def norm(x: Vector) -> float:
    """Return ‖x‖ as a Python float, right for all finite x: squares do not under- or overflow."""
    squared = float(x.dot(x) if type(x) is np.ndarray else x @ x)
    if LEAST_SQUARE <= squared < math.inf:
        return math.sqrt(squared)
    u, e = _scaled(x)
    return math.sqrt(squared) if e is None else float(np.ldexp(math.sqrt(u @ u), e))


def square(x: float) -> float:
    """Return x², infinite if Python would raise."""
    try:
        return x**2
    except OverflowError:
        return math.inf


def power_of_two(size: float, like: Vector, least: float, most: float) -> float:
    """Return 1, or a power of two that brings a size below ``least`` or above ``most`` near 1.

    Multiplied with it numbers keep all their digits.
    """
    if least <= size <= most or size == 0 or not math.isfinite(size):
        return 1.0
    limit = 120 if dtype_name(like) == "float32" else 1000
    return math.ldexp(1.0, max(-limit, min(limit, -math.frexp(size)[1])))


@np.errstate(over="ignore", invalid="ignore")
def all_finite(x: Vector | Matrix) -> bool:
    """Tell whether every entry is finite, however large."""
    # A sum with NaN or an infinity in it is never finite; one without may still overflow.
    total = x @ x if x.ndim == 1 else x.sum()
    return math.isfinite(float(total)) or bool(namespace(x).isfinite(x).all())


def dtype_name(x: Any) -> str:
    """Return the name of an array's dtype, such as "float64", in any library."""
    return str(x.dtype).rsplit(".", 1)[-1]


def rounding(like: Vector | None = None, power: float = 2 / 3) -> float:
    """Return the relative difference of two numbers that rounding may explain.

    It is a power of the machine epsilon of the dtype of ``like``, by default of float64. With 2/3,
    4e-11 or 2e-5, it covers sums of many terms; with 1/2 also the ends of iterations.
    """
    eps = sys.float_info.epsilon if like is None else namespace(like).finfo(like.dtype).eps
    return float(float(eps) ** power)


def _scaled(x: Vector) -> tuple[Vector, int | None]:
    """Return u in float64 and e with ``x = 2**e u`` and max |u| about 1; None for 0, NaN and ∞."""
    wide = to_numpy(x).astype(np.float64)
    largest = float(np.abs(wide).max(initial=0.0))
    if not 0 < largest < math.inf:
        return wide, None
    e = math.frexp(largest)[1] - 1
    return wide / math.ldexp(1.0, e), e


def zeros_like(x: Vector) -> Vector:
    """Return a vector of zeros with the shape, dtype and device of ``x``."""
    return np.zeros(x.shape, x.dtype) if type(x) is np.ndarray else namespace(x).zeros_like(x)


def copy_array(x: Vector) -> Vector:
    """Return a copy that shares no memory (and, for a tensor, no graph) with ``x``."""
    if type(x) is np.ndarray or is_numpy_array(x):
        return x.copy()
    if hasattr(x, "detach"):
        return x.detach().clone()
    return array_namespace(x).asarray(x, copy=True)


def to_numpy(x: Any) -> np.ndarray[Any, Any]:
    """Return ``x`` as a NumPy array, detaching and moving a torch tensor if needed."""
    if is_numpy_array(x):
        return x  # type: ignore[no-any-return]
    if hasattr(x, "detach"):
        x = x.detach().cpu()
    return np.asarray(x)


def from_numpy(array: np.ndarray[Any, Any], like: Vector) -> Vector:
    """Return ``array`` in the library, dtype and device of ``like``."""
    if is_numpy_array(like):
        return np.asarray(array, dtype=like.dtype)
    xp = array_namespace(like)
    # A copy: torch tensors made from NumPy share memory, and the caller may reuse its buffer.
    return xp.asarray(np.array(array), dtype=like.dtype, device=like.device)


def add_to_diagonal(matrix: Matrix, value: float) -> Matrix:
    """Return ``matrix + value·I`` as a new array."""
    xp = namespace(matrix)
    size = matrix.shape[0]
    if xp is np:
        shifted = np.array(matrix)
        shifted.flat[:: size + 1] += value
        return shifted
    return matrix + value * xp.eye(size, dtype=matrix.dtype, device=matrix.device)


def solve_positive(matrix: Matrix, rhs: Vector) -> Vector | None:
    """Solve ``matrix x = rhs`` by Cholesky; None if the matrix is not positive definite."""
    factor = factor_positive(matrix)
    return None if factor is None else solve_factored(factor, rhs)


def inverse_positive(matrix: Matrix) -> Matrix | None:
    """Return the symmetric inverse of a positive definite matrix, or None if it is not one."""
    xp = namespace(matrix)
    if xp is np:
        potrf, potri = scipy.linalg.lapack.get_lapack_funcs(("potrf", "potri"), (matrix,))
        lower, failed = potrf(matrix, lower=True)
        inverse, singular = (matrix, 1) if failed else potri(lower, lower=True)
        if singular:
            return None
        below = np.tril(inverse, -1)
        return below + below.T + np.diag(np.diag(inverse))
    try:
        xp.linalg.cholesky(matrix)
        inverse = xp.linalg.inv(matrix)
    except RuntimeError:
        return None
    return (inverse + inverse.T) / 2


def factor_positive(matrix: Matrix) -> Matrix | None:
    """Return what :func:`solve_factored` needs of a positive definite matrix, or None."""
    if not is_numpy_array(matrix):
        # Products with an inverse are faster there than two triangular solves.
        return inverse_positive(matrix)
    (potrf,) = scipy.linalg.lapack.get_lapack_funcs(("potrf",), (matrix,))
    lower, failed = potrf(matrix, lower=True)
    return None if failed else lower


def solve_factored(factor: Matrix, rhs: Vector) -> Vector:
    """Return the solution x of ``matrix x = rhs``."""
    if not is_numpy_array(factor):
        return factor @ rhs
    lapack = scipy.linalg.lapack
    potrs = lapack.dpotrs if factor.dtype == np.float64 else lapack.spotrs
    return potrs(factor, rhs, lower=True)[0]


def solve_upper(R: Matrix, rhs: Vector, *, transposed: bool = False) -> Vector:
    """Return x of ``R x = rhs`` or ``Rᵀ x = rhs``, R the upper triangle of a regular matrix."""
    if type(R) is not np.ndarray:
        R = namespace(R).triu(R)
        return namespace(R).linalg.solve(R.T if transposed else R, rhs)
    lapack = scipy.linalg.lapack
    trtrs = lapack.dtrtrs if R.dtype == np.float64 else lapack.strtrs
    return trtrs(R, rhs, trans=int(transposed))[0]


@dataclasses.dataclass(frozen=True, eq=False)
class SymmetricProduct:
    """``v ↦ matrix @ v`` for a symmetric matrix of NumPy, stored by columns.

    BLAS ``symv`` reads one triangle only: half the memory traffic of a general product, and
    memory traffic is what a matrix–vector product costs. Found at each call: it has no pickle.
    """

    columns: Matrix

    def __call__(self, v: Vector) -> Vector:
        blas = scipy.linalg.blas
        symv = blas.dsymv if self.columns.dtype == np.float64 else blas.ssymv
        return symv(1.0, self.columns, v)


def symmetric_product(matrix: Matrix) -> Callable[[Vector], Vector]:
    """Return ``v ↦ matrix @ v`` for a symmetric matrix."""
    if is_numpy_array(matrix) and matrix.dtype in (np.float64, np.float32) and len(matrix) > 1:
        return SymmetricProduct(np.asfortranarray(matrix))
    return functools.partial(operator.matmul, matrix)


def same_point(x: Vector | None, y: Vector | None) -> bool:
    """Tell whether two points are one array, or have the same entries."""
    if x is None or y is None:
        return False
    if x is y:
        return True
    if x.shape != y.shape:
        return False
    if type(x) is np.ndarray and x.size and x.item(0) != y.item(0):
        return False
    return bool((x == y).all())


# -- copies ---------------------------------------------------------------------------------------

Record = TypeVar("Record")
# What cannot change.
ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes))


def copy_tree(x: Any) -> Any:
    """Return a copy of the arrays in a batch or a state, however nested.

    Objects of unknown classes are shared.
    """
    kind = type(x)
    if kind in ATOMS:
        return x
    if kind is np.ndarray:
        # The order of a matrix stays: products with it differ in the last bit.
        return x.copy(order="K")
    if kind is tuple:
        return tuple([y if type(y) in ATOMS else copy_tree(y) for y in x])
    if kind is dict:
        return {key: y if type(y) in ATOMS else copy_tree(y) for key, y in x.items()}
    if kind is list:
        return [y if type(y) in ATOMS else copy_tree(y) for y in x]
    return _copy_record(x) if hasattr(kind, "__dataclass_fields__") else _copy_other(x)


def _copy_record(x: Any) -> Any:
    """Copy a dataclass, without running code of it."""
    if not hasattr(x, "__dict__"):
        twin = copy.copy(x)
        for field in dataclasses.fields(x):
            object.__setattr__(twin, field.name, copy_tree(getattr(x, field.name)))
        return twin
    content = x.__dict__
    copies = {
        name: y.copy("K") if type(y) is np.ndarray else copy_tree(y)
        for name, y in content.items()
        if type(y) not in ATOMS
    }
    if not copies and type(x).__dataclass_params__.frozen:
        return x
    twin = object.__new__(type(x))
    twin.__dict__.update(content, **copies)
    return twin


def changed(record: Record, **fields: Any) -> Record:
    """Return a frozen dataclass with other values in some fields, without checking them again."""
    twin = object.__new__(type(record))
    twin.__dict__.update(record.__dict__, **fields)
    return twin


def _copy_other(x: Any) -> Any:
    """Copy what is not met in every step: subclasses, tensors, sparse matrices, tables."""
    if isinstance(x, tuple):
        items = [copy_tree(item) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, dict):
        twin = copy.copy(x)
        twin.update((key, copy_tree(item)) for key, item in x.items())
        return twin
    if isinstance(x, list):
        return [copy_tree(item) for item in x]
    # The graph of a tensor that has one is the user's.
    if is_array_api_obj(x) and not getattr(x, "requires_grad", False):
        return x.copy(order="K") if is_numpy_array(x) else copy_array(x)
    if scipy.sparse.issparse(x) or hasattr(x, "iloc") or isinstance(x, (set, bytearray)):
        return x.copy()
    return x


# -- sequences that grow ---------------------------------------------------------------------------


class Growing:
    """A sequence that is never changed; :meth:`append` returns a longer one, mostly without a copy.

    It shares its list with those that it was made from. A branch, made when the list has gone on
    without it, gets a list of its own. Floats in an ``array("d")`` take eight bytes each.
    """

    __slots__ = ("items", "length")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self.items: Any = items if isinstance(items, array) else list(items)
        self.length = len(self.items)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self.items, self.length)

    def __getitem__(self, at: int) -> Any:
        return self.items[at + self.length if at < 0 else at]

    def __repr__(self) -> str:
        return f"Growing({list(self)!r})"

    def append(self, *added: Any) -> Growing:
        """Return the sequence with something at its end."""
        twin = Growing.__new__(Growing)
        twin.items = self.items if len(self.items) == self.length else self.items[: self.length]
        twin.items.extend(added)
        twin.length = self.length + len(added)
        return twin


def core_count() -> int:
    """Return the number of cores this process may use: in a container fewer than there are."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return len(allowed) or os.cpu_count() or 1


def thread_count() -> int:
    """Return how many threads may compute at once: the cores, or what OMP_NUM_THREADS allows."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(core_count(), int(limit)) if limit.isdecimal() and int(limit) > 0 else core_count()


@functools.lru_cache(maxsize=1)
def thread_pools() -> Any:
    """Return the thread pools of the loaded libraries; None if threadpoolctl is not installed."""
    # The search through all libraries of the process takes as long as a small fit.
    with contextlib.suppress(ImportError):
        return importlib.import_module("threadpoolctl").ThreadpoolController()
    return None


def digest(*items: Any) -> str:
    """Return a digest of arrays, sparse matrices, numbers and texts, in their order."""
    state: Any = hashlib.blake2b(digest_size=16)
    for item in items:
        arrays = [item] if is_array_api_obj(item) and not isinstance(item, np.generic) else []
        if scipy.sparse.issparse(item):
            rows = item.tocsr()
            state.update(f"sparse {rows.shape}".encode())
            arrays = [rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)]
        elif not arrays:
            state.update(f"{type(item).__name__} {item!r};".encode())
        for part in map(to_numpy, arrays):
            state.update(f"{part.dtype.str} {part.shape};".encode())
            # As bytes, without a copy of what is contiguous already.
            state.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
    return str(state.hexdigest())
