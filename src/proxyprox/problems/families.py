"""Exponential families with canonical link: what a generalised linear model needs of them.

With the canonical link the loss of a row is ``A(z) − t·z``, where ``z = xᵀw``, ``t`` encodes the
label and ``A`` is the log-partition. Its second derivative ``A''(z)`` does not see the label: that
is why a proxy without any labels has δ = 0.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse
import scipy.special

from proxyprox._util.arrays import namespace, to_numpy
from proxyprox._util.validation import INSTEAD, Words, listed, message, short, unmasked

Array = Any


class Family(Protocol):
    """The scalar functions of one family; ``z`` has shape (n,) or, for softmax, (n, C)."""

    @property
    def outputs(self) -> int:
        """Number of linear predictors a row has."""

    @property
    def curvature(self) -> float:
        """An upper bound on the eigenvalues of A'' (``math.inf`` if there is none)."""

    @property
    def neutral(self) -> float:
        """Return A'(0): the label-free target, for which w = 0 is stationary."""

    def encode(self, y: Array) -> Array:
        """Return labels as targets: floats t, or class codes for softmax."""

    def log_partition(self, z: Array) -> Array:
        """Return A(z) for each row."""

    def mean(self, z: Array) -> Array:
        """Return A'(z)."""

    def constant(self, targets: Array) -> Array:
        """Return the part of each row's loss that does not depend on w."""

    def loss(self, z: Array, t: Array) -> Array:
        """Return each row's loss."""

    def slope(self, z: Array, t: Array) -> Array:
        """Return the derivative of each row's loss in ``z``."""

    def expected_curvature(self, z: Array) -> Array:
        """Return the mean curvature over labels that the model itself would draw at ``z``."""

    def link(self, mean: Array) -> Array:
        """Return ``z`` for a mean, given as a NumPy array."""

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the mean of targets of shape (n, outputs), as the constant model predicts it."""


class CanonicalFamily:
    """A family with its canonical link: loss ``A(z) − t·z`` plus what no parameter changes."""

    def loss(self: Any, z: Array, t: Array) -> Array:
        """Return ``A(z) − t·z`` plus the constant."""
        return self.log_partition(z) - t * z + self.constant(t)

    def slope(self: Any, z: Array, t: Array) -> Array:
        """Return ``A'(z) − t``."""
        return self.mean(z) - t

    def expected_curvature(self: Any, z: Array) -> Array:
        """Return ``A''(z)``."""
        return self.variance(z)

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the mean of the targets."""
        return np.asarray(weights @ targets / weights.sum())


@dataclass(frozen=True)
class Linear(CanonicalFamily):
    """Least squares: ``A(z) = z²/2``, loss ``(z − y)²/2``."""

    outputs = 1
    curvature = 1.0
    neutral = 0.0

    def encode(self, y: Array) -> Array:
        """Return y as floats."""
        return _numbers(y, "a finite number for every row")

    def log_partition(self, z: Array) -> Array:
        """Return z²/2."""
        return z * z / 2

    def mean(self, z: Array) -> Array:
        """Return z."""
        return z

    def variance(self, z: Array) -> Array:
        """Return ones."""
        return namespace(z).ones_like(z)

    def link(self, mean: Array) -> Array:
        """Return the mean."""
        return mean

    def constant(self, targets: Array) -> Array:
        """Return y²/2, so that a perfect fit has loss zero."""
        return targets * targets / 2


@dataclass(frozen=True)
class Logistic(CanonicalFamily):
    """Binary classification: ``A(z) = log(1 + eᶻ)``; the second of the two classes is positive."""

    classes: tuple[Any, ...] = (0, 1)

    outputs = 1
    curvature = 0.25
    neutral = 0.5

    def encode(self, y: Array) -> Array:
        """Return 0 and 1 for the two classes."""
        return _codes(y, self.classes).astype(np.float64)

    def log_partition(self, z: Array) -> Array:
        """Return log(1 + eᶻ), stable for every z."""
        xp = namespace(z)
        if xp is np:
            return np.logaddexp(0.0, z)
        return xp.where(z > 0, z, xp.zeros_like(z)) + xp.log1p(xp.exp(-xp.abs(z)))

    def mean(self, z: Array) -> Array:
        """Return the sigmoid of z."""
        xp = namespace(z)
        if xp is np:
            return scipy.special.expit(z)
        small = xp.exp(-xp.abs(z))
        return xp.where(z > 0, xp.ones_like(z), small) / (1 + small)

    def variance(self, z: Array) -> Array:
        """Return s(z)(1 − s(z))."""
        s = self.mean(z)
        return s * (1 - s)

    def link(self, mean: Array) -> Array:
        """Return the log-odds."""
        return np.log(mean) - np.log1p(-mean)

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the share of the positive class, with half a label added to each class."""
        return (weights @ targets + 0.5) / (weights.sum() + 1)

    def constant(self, targets: Array) -> Array:
        """Return zero."""
        return 0.0 * targets


@dataclass(frozen=True)
class Softmax(CanonicalFamily):
    """Multinomial classification: ``A(z) = log Σ exp z_c`` over C ≥ 2 classes."""

    classes: tuple[Any, ...]

    curvature = 0.5

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def neutral(self) -> float:
        """Return 1/C."""
        return 1 / len(self.classes)

    def encode(self, y: Array) -> Array:
        """Return the class codes 0 … C − 1."""
        return _codes(y, self.classes)

    def log_partition(self, z: Array) -> Array:
        """Return log Σ exp z_c, stable for every z."""
        xp = namespace(z)
        if xp is np:
            return scipy.special.logsumexp(z, axis=1)
        top = xp.max(z, axis=1)
        return top + xp.log(xp.sum(xp.exp(z - top[:, None]), axis=1))

    def mean(self, z: Array) -> Array:
        """Return the class probabilities, shape (n, C)."""
        xp = namespace(z)
        top = xp.max(z, axis=1, keepdims=True)
        shifted = xp.exp(z - top)
        return shifted / xp.sum(shifted, axis=1, keepdims=True)

    def loss(self, z: Array, t: Array) -> Array:
        """Return minus the log-probability of each row's class."""
        return self.log_partition(z) - namespace(z).sum(t * z, axis=1)

    def variance(self, z: Array) -> Array:
        """Return diag(p) − p pᵀ of each row."""
        p = self.mean(z)
        return p[:, :, None] * (np.eye(self.outputs) - p[:, None, :])

    def link(self, mean: Array) -> Array:
        """Return the log-frequencies, centred."""
        logs = np.log(mean)
        return logs - logs.mean()

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the class frequencies, with half a label added to each class."""
        counts = weights @ targets + 0.5
        return np.asarray(counts / counts.sum())

    def constant(self, targets: Array) -> Array:
        """Return zero."""
        return 0.0 * targets


@dataclass(frozen=True)
class Poisson(CanonicalFamily):
    """Counts: ``A(z) = eᶻ``, the negative log-likelihood up to ``log y!``. H is unbounded."""

    outputs = 1
    curvature = math.inf
    neutral = 1.0

    def encode(self, y: Array) -> Array:
        """Return y as floats, refusing negative counts."""
        targets = _numbers(y, "zero or more for every row")
        if (targets < 0).any():
            bad = int(np.argmax(targets < 0))
            got = Words(f"{float(targets[bad])!r} at row {bad}")
            raise ValueError(message("y", got, "zero or more for every row (Poisson counts)"))
        return targets

    def log_partition(self, z: Array) -> Array:
        """Return eᶻ."""
        with np.errstate(over="ignore"):
            # An overflow is a rejected trial point of a line search, not a fault.
            return namespace(z).exp(z)

    def mean(self, z: Array) -> Array:
        """Return eᶻ."""
        return self.log_partition(z)

    def variance(self, z: Array) -> Array:
        """Return eᶻ."""
        return self.log_partition(z)

    def link(self, mean: Array) -> Array:
        """Return log mean."""
        return np.log(mean)

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the mean; without a single event its logarithm would be minus infinity."""
        return np.maximum(super().base_rate(targets, weights), 0.5 / weights.sum())

    def constant(self, targets: Array) -> Array:
        """Return zero."""
        return 0.0 * targets


def binary_classes(y: Array) -> tuple[Any, ...]:
    """Return the two classes of binary labels, smaller first."""
    found = _distinct(y)
    if len(found) > 2:
        shown = ", ".join(map(repr, found[:5])) + (", ..." if len(found) > 5 else "")
        raise ValueError(
            message("y", Words(f"{len(found)} classes ({shown})"), "labels of two classes")[:-1]
            + ". Use softmax_regression for more than two classes."
        )
    if len(found) == 2:
        return found
    # One class only: the two usual codings are unambiguous, anything else is not.
    for coding in ((0, 1), (-1, 1)):
        if found[0] in coding:
            return coding
    remedy = "Pass classes=(negative, positive)."
    raise ValueError(
        message("y", Words(f"only the class {found[0]!r}"), "labels of two classes", remedy)
    )


def many_classes(y: Array) -> tuple[Any, ...]:
    """Return the sorted classes of multinomial labels."""
    found = _distinct(y)
    if len(found) < 2:
        remedy = "Pass classes=(…) with every class there is."
        got = Words(f"only the class {found[0]!r}")
        raise ValueError(message("y", got, "labels of at least two classes", remedy))
    return found


def label_array(y: Any, argument: str = "y") -> Array:
    """Return labels as an array of numbers, booleans or text, whatever they came in."""
    y = unmasked(argument, y)
    if scipy.sparse.issparse(y):
        got, remedy = Words("a sparse matrix"), "Pass it dense and flat: .toarray().ravel()."
        raise TypeError(message(argument, got, "an array of labels", remedy))
    if isinstance(y, (list, tuple)):
        # NumPy would turn a number among texts into a text.
        mixed = any(isinstance(value, (str, bytes)) for value in y)
        values = _objects(y) if mixed else y
    else:
        values = y
    try:
        values = to_numpy(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(message(argument, y, "an array of labels")) from error
    if values.ndim == 0:
        raise TypeError(message(argument, y, "an array of labels, one for each row"))
    values = _of_one_kind(argument, values.view(np.ndarray))
    if values.dtype.kind not in "biufUST":
        got, remedy = Words(f"dtype {values.dtype}"), INSTEAD.get(values.dtype.kind, "")
        raise TypeError(message(argument, got, "labels that are numbers or text", remedy))
    return values


def checked_classes(classes: Any, least: int, most: int | None = None) -> tuple[Any, ...]:
    """Return classes that the user named: numbers or text, each of them once."""
    exactly = f"exactly {least}" if most == least else f"{least} or more"
    allowed = f"a tuple of {exactly} classes, numbers or text"
    if isinstance(classes, dict):
        raise TypeError(message("classes", classes, allowed))
    given = listed("classes", unmasked("classes", classes), allowed)
    if len(given) < least or (most is not None and len(given) > most):
        remedy = "Use softmax_regression for more than two classes." if most else ""
        raise ValueError(message("classes", given, allowed, remedy))
    values = _of_one_kind("classes", _objects(given))
    if values.dtype.kind not in "biufUST":
        raise TypeError(message("classes", given, allowed))
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(message("classes", given, "finite numbers or text"))
    if len(np.unique(values)) < len(values):
        raise ValueError(message("classes", given, "different from each other"))
    return tuple(values.tolist())


def _objects(values: Any) -> Array:
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _of_one_kind(argument: str, values: Array) -> Array:
    """Return objects as an array of text or of numbers; anything else is refused."""
    if values.dtype.kind != "O":
        return values
    found = values.ravel().tolist()
    for row, value in enumerate(found):
        missing = value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant")
        if missing or (isinstance(value, float) and math.isnan(value)):
            got = Words(f"{value!r} at row {row}")
            remedy = "Drop those rows."
            raise ValueError(message(argument, got, "a label for every row", remedy))
    for kinds in (str, bytes, (numbers.Real, np.bool_)):
        if all(isinstance(value, kinds) for value in found):
            array = np.array(found).reshape(values.shape)
            # Whole numbers beyond 64 bits, and fractions, stay objects.
            return _as_floats(argument, array) if array.dtype.kind == "O" else array
    number = (numbers.Real, np.bool_)
    kinds = next((k for k in (str, bytes, number) if isinstance(found[0], k)), number)
    row = next(row for row, value in enumerate(found) if not isinstance(value, kinds))
    got = Words(f"{short(found[row])} at row {row}")
    remedy = "Convert them all to text, or all to numbers."
    raise TypeError(message(argument, got, "labels of one kind, text or numbers", remedy))


def _as_floats(argument: str, values: Array) -> Array:
    try:
        floats = values.astype(np.float64)
    except OverflowError:
        floats = None
    if floats is None or len(np.unique(floats)) < len(set(values.ravel().tolist())):
        row = max(range(values.size), key=lambda row: abs(values.flat[row]))
        got = Words(f"{short(values.flat[row])} at row {row}")
        raise ValueError(message(argument, got, "numbers that float64 tells apart"))
    return floats


def _distinct(y: Array) -> tuple[Any, ...]:
    y = label_array(y)
    if y.dtype.kind == "f":
        _numbers(y, "a class for every row")
    if y.size == 0:
        raise ValueError(message("y", Words("an empty array"), "one label for each row"))
    return tuple(v.item() if isinstance(v, np.generic) else v for v in np.unique(y))


def _codes(y: Array, classes: tuple[Any, ...]) -> Array:
    y = label_array(y)
    given = np.asarray(classes)
    texts = [kind if kind in "UST" else "number" for kind in (y.dtype.kind, given.dtype.kind)]
    if texts[0] != texts[1] and y.size:
        got = Words(f"{short(y[0].item())} at row 0")
        remedy = "A text is never equal to a number: convert one of the two."
        raise ValueError(message("y", got, f"one of the classes {list(classes)}", remedy))
    # The classes may be given in any order: a code is a place in it.
    order = np.argsort(given)
    codes = order[np.clip(np.searchsorted(given, y, sorter=order), 0, len(classes) - 1)]
    wrong = given[codes] != y
    if wrong.any():
        bad = int(np.argmax(wrong))
        got = Words(f"{short(y[bad].item())} at row {bad}")
        raise ValueError(message("y", got, f"one of the classes {list(classes)}"))
    return codes


def _numbers(y: Array, allowed: str) -> Array:
    y = label_array(y)
    if y.dtype.kind not in "biuf":
        got, remedy = Words(f"dtype {y.dtype}"), INSTEAD["U"]
        raise TypeError(message("y", got, f"numeric, {allowed}", remedy))
    with np.errstate(over="ignore"):
        targets = y.astype(np.float64)
    bad = ~np.isfinite(targets)
    if bad.any():
        got = Words(f"{float(targets[bad][0])!r} at row {int(np.argmax(bad))}")
        raise ValueError(message("y", got, allowed, "Drop or impute those rows."))
    return targets
