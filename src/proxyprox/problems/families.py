"""Families of generalised linear models: what a label is, and what a prediction of it costs.

A family is one class. It sees a row through its linear predictor ``z = xᵀw`` and its encoded label
``t``, and says what the row's loss, slope and curvature in ``z`` are.

With a canonical link the loss is ``A(z) − t·z``: the curvature ``A''(z)`` does not see the label,
so that a proxy without any labels has δ = 0. With any other link it does see it, and a label-free
proxy has the expected curvature in its place.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import scipy.special

from proxyprox._util.arrays import from_numpy, namespace, to_numpy
from proxyprox._util.text import short
from proxyprox._util.validation import AS_NUMBERS, Words, as_list, message, without_mask

Array = Any

# Places in (0, 1) and their shares.
QUADRATURE = [
    (float(1 + node) / 2, float(share) / 2)
    for node, share in zip(*np.polynomial.legendre.leggauss(32), strict=True)
]


class Family(ABC):
    """The labels of a generalised linear model, and the loss of predicting them.

    Subclass it for a link that is not canonical, or :class:`CanonicalFamily` for one that is. The
    methods take arrays of NumPy or torch, one entry a row, and must not change them.

    Attributes
    ----------
    name : str
        What configurations and the command line call the family.
    labels : str
        What a label may be, for messages: "a number above zero in every row".
    prediction : str
        How a prediction follows from ``z``, for reports: "expected count = exp(z)".
    classifier : bool
        Whether labels are classes; such a family takes the tuple of them.
    canonical : bool
        Whether the curvature is free of the labels.
    outputs : int
        Number of linear predictors of a row.
    max_curvature : float
        A bound on the curvature over all predictors and labels; ``math.inf`` if there is none.
    max_expected_curvature : float
        The same of the expected curvature.
    quadratic : bool
        Whether the loss is a quadratic of ``z``, so that the curvature is a constant.
    known_dispersion : bool
        Whether the loss is a negative log-likelihood as it is, not up to an unknown factor (the
        noise of least squares, the shape of Gamma amounts).
    edge : float
        A label that every row must not have: the estimate would lie at infinity. NaN for none.
    deviance_power : int
        Power of the Tweedie deviance that scores explain: 0 normal, 1 Poisson, 2 Gamma.

    Examples
    --------
    Waiting times with mean ``1 + eᶻ`` (a link of one's own), exponentially distributed:

    >>> import numpy as np
    >>> from proxyprox.problems import GLM, Family
    >>> class Waiting(Family):
    ...     name, labels = "waiting", "a number above zero in every row"
    ...
    ...     def valid(self, t):
    ...         return t > 0
    ...
    ...     def loss(self, z, t):
    ...         return np.log(self.mean(z)) + t / self.mean(z)
    ...
    ...     def slope(self, z, t):
    ...         m = self.mean(z)
    ...         return (m - 1) * (m - t) / m**2
    ...
    ...     def curvature(self, z, t):
    ...         m = self.mean(z)
    ...         return (m - 1) * (m - t * (2 - m)) / m**3
    ...
    ...     def expected_curvature(self, z):
    ...         return (1 - 1 / self.mean(z)) ** 2
    ...
    ...     def mean(self, z):
    ...         return 1 + np.exp(z)
    ...
    ...     def link(self, mean):
    ...         return np.log(mean - 1)
    >>> loss = GLM(np.ones((2, 1)), [2.0, 4.0], Waiting())
    >>> loss.gradient(np.zeros(1)), loss.label_free().hessian(np.zeros(1)).round(9)
    (array([-0.25]), array([[0.25]]))
    """

    name: ClassVar[str] = ""
    labels: ClassVar[str] = "a finite number for every row"
    prediction: ClassVar[str] = "prediction = z"
    classifier: ClassVar[bool] = False
    max_curvature: ClassVar[float] = math.inf
    max_expected_curvature: ClassVar[float] = math.inf
    quadratic: ClassVar[bool] = False
    known_dispersion: ClassVar[bool] = True
    edge: ClassVar[float] = math.nan
    deviance_power: ClassVar[int] = 0

    @property
    def outputs(self) -> int:
        """Number of linear predictors of a row."""
        return 1

    @property
    def canonical(self) -> bool:
        """Whether the curvature is free of the labels."""
        return isinstance(self, CanonicalFamily)

    @property
    def neutral(self) -> float:
        """The mean at ``z = 0``."""
        shape = (1,) if self.outputs == 1 else (1, self.outputs)
        return float(np.ravel(self.mean(np.zeros(shape)))[0])

    @abstractmethod
    def loss(self, z: Array, t: Array) -> Array:
        """Return each row's loss; zero for a perfect fit, where that is possible."""

    @abstractmethod
    def slope(self, z: Array, t: Array) -> Array:
        """Return the derivative of each row's loss in ``z``."""

    @abstractmethod
    def curvature(self, z: Array, t: Array) -> Array:
        """Return the second derivative of each row's loss in ``z``."""

    @abstractmethod
    def expected_curvature(self, z: Array) -> Array:
        """Return the mean curvature over labels that the model itself would draw at ``z``."""

    @abstractmethod
    def mean(self, z: Array) -> Array:
        """Return the expected label."""

    @abstractmethod
    def link(self, mean: Array) -> Array:
        """Return ``z`` for a mean, given as a NumPy array."""

    def expected_slope(self, z: Array) -> Array:
        """Return ``∫₀ᶻ I(s) ds`` of the expected curvature I, by Gauss–Legendre quadrature."""
        return z * sum(share * self.expected_curvature(u * z) for u, share in QUADRATURE)

    def expected_loss(self, z: Array) -> Array:
        """Return ``∫₀ᶻ (z − s) I(s) ds``, whose derivative is the expected slope."""
        parts = (share * (1 - u) * self.expected_curvature(u * z) for u, share in QUADRATURE)
        return z * z * sum(parts)

    def loss_and_slope(self, z: Array, t: Array) -> tuple[Array, Array]:
        """Return each row's loss and its derivative."""
        return self.loss(z, t), self.slope(z, t)

    def expected_loss_and_slope(self, z: Array) -> tuple[Array, Array]:
        """Return both of the expected curvature."""
        return self.expected_loss(z), self.expected_slope(z)

    def valid(self, t: Array) -> Array:
        """Tell for each finite number whether it is a label; by default all are."""
        return np.ones(t.shape, dtype=bool)

    def encode(self, y: Array) -> Array:
        """Return labels as a NumPy array of targets ``t``, refusing what is no label."""
        targets = _numbers(y, self.labels)
        wrong = ~self.valid(targets)
        if wrong.any():
            row = int(np.argmax(wrong))
            got = Words(f"{float(targets[row])!r} at row {row}")
            raise ValueError(message("y", got, self.labels))
        return targets

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the weighted mean of the targets, which the constant model predicts."""
        return weights @ targets / weights.sum()

    def settings(self) -> dict[str, Any]:
        """Return what tells two families of one class apart: all they hold but their classes."""
        return {name: value for name, value in vars(self).items() if name != "classes"}


class CanonicalFamily(Family):
    """A family with its canonical link: loss ``A(z) − t·z`` plus what no parameter changes.

    Subclasses give ``log_partition`` (A), ``mean`` (A'), ``variance`` (A'') and ``link``.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.problems.families import Poisson
    >>> Poisson().slope(np.zeros(1), np.array([3.0]))
    array([-2.])
    """

    @abstractmethod
    def log_partition(self, z: Array) -> Array:
        """Return A(z) of each row."""

    @abstractmethod
    def variance(self, z: Array) -> Array:
        """Return A''(z) of each row."""

    def constant(self, t: Array) -> Array:
        """Return the part of each row's loss that does not depend on the parameters."""
        return 0.0

    def potential(self, z: Array) -> tuple[Array, Array]:
        """Return A(z) and A'(z) of each row at once."""
        return self.log_partition(z), self.mean(z)

    def loss(self, z: Array, t: Array) -> Array:
        """Return ``A(z) − t·z`` plus the constant."""
        return self.loss_and_slope(z, t)[0]

    def slope(self, z: Array, t: Array) -> Array:
        """Return ``A'(z) − t``."""
        return self.mean(z) - t

    def loss_and_slope(self, z: Array, t: Array) -> tuple[Array, Array]:
        """Return both of one A(z) and A'(z)."""
        potential, mean = self.potential(z)
        linear = t * z if self.outputs == 1 else namespace(z).sum(t * z, axis=1)
        return potential - linear + self.constant(t), mean - t

    def curvature(self, z: Array, t: Array = None) -> Array:
        """Return ``A''(z)``, whatever the labels."""
        return self.variance(z)

    expected_curvature = curvature


@dataclass(frozen=True)
class Linear(CanonicalFamily):
    """Least squares: ``A(z) = z²/2``, loss ``(z − y)²/2``.

    Examples
    --------
    >>> import numpy as np
    >>> Linear().loss(np.array([1.0]), np.array([3.0]))
    array([2.])
    """

    name = "linear"
    max_curvature = 1.0
    quadratic = True
    known_dispersion = False

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

    def constant(self, t: Array) -> Array:
        """Return y²/2, so that a perfect fit has loss zero."""
        return t * t / 2


@dataclass(frozen=True)
class Logistic(CanonicalFamily):
    """Binary classification: ``A(z) = log(1 + eᶻ)``; the second of the two classes is positive.

    Examples
    --------
    >>> import numpy as np
    >>> Logistic(("no", "yes")).encode(["yes", "no"])
    array([1., 0.])
    """

    classes: tuple[Any, ...] = (0, 1)

    name = "logistic"
    classifier = True
    prediction = "P({label} = {second}) = 1 / (1 + exp(-z))"
    max_curvature = 0.25

    def encode(self, y: Array) -> Array:
        """Return 0 and 1 for the two classes."""
        return _codes(y, self.classes).astype(np.float64)

    def log_partition(self, z: Array) -> Array:
        """Return log(1 + eᶻ), stable for every z."""
        return self.potential(z)[0]

    def potential(self, z: Array) -> tuple[Array, Array]:
        """Return both of one exponential."""
        xp = namespace(z)
        # No element-wise choice: random signs make branches slow.
        small = xp.exp(-xp.abs(z))
        total = xp.clip(z, 0.0, None) + xp.log1p(small)
        return total, xp.exp(xp.clip(z, None, 0.0)) * (1 / (1 + small))

    def mean(self, z: Array) -> Array:
        """Return the sigmoid of z."""
        return self.potential(z)[1]

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


@dataclass(frozen=True)
class Softmax(CanonicalFamily):
    """Multinomial classification: ``A(z) = log Σ exp z_c`` over C ≥ 2 classes.

    ``z`` and, but for ``encode``, the targets have shape (n, C), curvatures (n, C, C).

    Examples
    --------
    >>> import numpy as np
    >>> Softmax(("a", "b", "c")).mean(np.zeros((1, 3))).round(2)
    array([[0.33, 0.33, 0.33]])
    """

    classes: tuple[Any, ...]

    name = "softmax"
    classifier = True
    prediction = "P(class) = exp(z of the class) / sum of exp(z) over the classes"
    max_curvature = 0.5

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def encode(self, y: Array) -> Array:
        """Return the class codes 0 … C − 1."""
        return _codes(y, self.classes)

    def log_partition(self, z: Array) -> Array:
        """Return log Σ exp z_c, stable for every z."""
        return self.potential(z)[0]

    def potential(self, z: Array) -> tuple[Array, Array]:
        """Return both of one exponential."""
        xp = namespace(z)
        # Class by class: reductions along short rows take several times as long.
        columns = np.ascontiguousarray(z.T) if xp is np else z.T
        top = xp.max(columns, axis=0)
        small = xp.exp(columns - top)
        total = xp.sum(small, axis=0)
        return top + xp.log(total), (small / total).T

    def mean(self, z: Array) -> Array:
        """Return the class probabilities, shape (n, C)."""
        return self.potential(z)[1]

    def variance(self, z: Array) -> Array:
        """Return diag(p) − p pᵀ of each row."""
        p = self.mean(z)
        return p[:, :, None] * (from_numpy(np.eye(self.outputs), like=p) - p[:, None, :])

    def link(self, mean: Array) -> Array:
        """Return the log-frequencies, centred."""
        logs = np.log(mean)
        return logs - logs.mean()

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the class frequencies, with half a label added to each class."""
        counts = weights @ targets + 0.5
        return counts / counts.sum()


class LogLink:
    """The logarithmic link, to be inherited before the family: the mean is eᶻ.

    Examples
    --------
    >>> import numpy as np
    >>> LogLink().mean(np.zeros(1))
    array([1.])
    """

    def mean(self, z: Array) -> Array:
        """Return eᶻ."""
        with np.errstate(over="ignore"):
            # An overflow is a rejected trial point of a line search, not a fault.
            return namespace(z).exp(z)

    def link(self, mean: Array) -> Array:
        """Return log mean."""
        return np.log(mean)


@dataclass(frozen=True)
class Poisson(LogLink, CanonicalFamily):
    """Counts: ``A(z) = eᶻ``, the negative log-likelihood up to ``log y!``. H is unbounded.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().link(np.array([1.0]))
    array([0.])
    """

    name = "poisson"
    labels = "zero or more for every row (Poisson counts)"
    prediction = "expected count = exp(z)"
    edge = 0.0
    deviance_power = 1

    def valid(self, t: Array) -> Array:
        """Tell which numbers are zero or more."""
        return t >= 0

    log_partition = variance = LogLink.mean

    def potential(self, z: Array) -> tuple[Array, Array]:
        """Return both, which are the same."""
        mean = self.mean(z)
        return mean, mean

    def base_rate(self, targets: Array, weights: Array) -> Array:
        """Return the mean; without a single event its logarithm would be minus infinity."""
        return np.maximum(super().base_rate(targets, weights), 0.5 / weights.sum())


@dataclass(frozen=True)
class Gamma(LogLink, Family):
    """Amounts above zero with mean ``eᶻ``: half the deviance, ``y e⁻ᶻ − log(y e⁻ᶻ) − 1``.

    The link is the logarithm, not the canonical one: the curvature ``y e⁻ᶻ`` sees the label, and
    is one on average.

    Examples
    --------
    >>> import numpy as np
    >>> Gamma().slope(np.zeros(1), np.array([3.0])), Gamma().expected_curvature(np.zeros(1))
    (array([-2.]), array([1.]))
    """

    name = "gamma"
    labels = "a number above zero for every row (Gamma amounts)"
    prediction = "expected amount = exp(z)"
    max_expected_curvature = 1.0
    known_dispersion = False
    deviance_power = 2

    def valid(self, t: Array) -> Array:
        """Tell which numbers are above zero."""
        return t > 0

    def loss(self, z: Array, t: Array) -> Array:
        """Return ``y e⁻ᶻ − log(y e⁻ᶻ) − 1``."""
        return self.curvature(z, t) + z - namespace(z).log(t) - 1

    def slope(self, z: Array, t: Array) -> Array:
        """Return ``1 − y e⁻ᶻ``."""
        return 1 - self.curvature(z, t)

    def loss_and_slope(self, z: Array, t: Array) -> tuple[Array, Array]:
        """Return both of one exponential."""
        ratio = self.curvature(z, t)
        return ratio + z - namespace(z).log(t) - 1, 1 - ratio

    def curvature(self, z: Array, t: Array) -> Array:
        """Return ``y e⁻ᶻ``."""
        return t * self.mean(-z)

    def expected_curvature(self, z: Array) -> Array:
        """Return ones."""
        return namespace(z).ones_like(z)

    def expected_slope(self, z: Array) -> Array:
        """Return z."""
        return z

    def expected_loss(self, z: Array) -> Array:
        """Return z²/2."""
        return z * z / 2


# Every family by the name that configurations and the command line call it.
FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Linear, Logistic, Softmax, Poisson, Gamma)
}


def classifier_of(classes: tuple[Any, ...]) -> Family:
    """Return the family of some classes: logistic for two, softmax for more."""
    return Logistic(classes) if len(classes) == 2 else Softmax(classes)


def check_classes(classes: Any | None, y: Any | None, *, binary: bool) -> tuple[Any, ...]:
    """Return the classes that the user named, or those of the labels in order."""
    argument = "y" if classes is None else "classes"
    allowed = f"two classes{'' if binary else ' or more'}, finite numbers or text"
    if classes is None and y is None:
        if not binary:
            remedy = "Without labels the number of classes is unknown."
            raise ValueError(message("classes", None, f"a tuple of {allowed}", remedy))
        return (0, 1)
    if classes is None:
        y = label_array(y)
        values = np.unique(_numbers(y, "a class for every row") if y.dtype.kind == "f" else y)
    else:
        given = as_list("classes", without_mask("classes", classes), f"a tuple of {allowed}")
        values = label_array(np.fromiter(given, dtype=object), "classes")
    found = tuple(values.tolist())
    for coding in ((0, 1), (-1, 1)):
        # One class only: the two usual codings are unambiguous, anything else is not.
        if argument == "y" and binary and len(found) == 1 and found[0] in coding:
            return coding
    finite = values.dtype.kind != "f" or bool(np.isfinite(values).all())
    if len(set(found)) < max(len(found), 2) or (binary and len(found) > 2) or not finite:
        remedy = "Pass classes=(...) with every class there is."
        if len(found) > 2:
            remedy = "Use softmax_regression for more than two classes."
        got = Words(f"{len(found)} classes, {short(found)}")
        raise ValueError(message(argument, got, allowed, remedy))
    return found


def label_array(y: Any, argument: str = "y") -> Array:
    """Return labels as an array of numbers, booleans or text, whatever they came in."""
    values = without_mask(argument, y)
    if scipy.sparse.issparse(values):
        got, remedy = Words("a sparse matrix"), "Pass it dense and flat: .toarray().ravel()."
        raise TypeError(message(argument, got, "an array of labels", remedy))
    if isinstance(values, (list, tuple)) and any(isinstance(v, (str, bytes)) for v in values):
        # NumPy would turn a number among texts into a text.
        values = np.fromiter(values, dtype=object)
    try:
        values = to_numpy(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(message(argument, y, "an array of labels")) from error
    if values.ndim == 0:
        raise TypeError(message(argument, y, "an array of labels, one for each row"))
    values = values.view(np.ndarray)
    values = _of_one_kind(argument, values) if values.dtype.kind == "O" else values
    if values.dtype.kind not in "biufUST":
        got, remedy = Words(f"dtype {values.dtype}"), AS_NUMBERS
        raise TypeError(message(argument, got, "labels that are numbers or text", remedy))
    return values


def _of_one_kind(argument: str, values: Array) -> Array:
    """Return objects as an array of text or of numbers; anything else is refused."""
    kinds = (str, bytes, (numbers.Real, np.bool_))
    kind = next((k for k in kinds if values.size and isinstance(values.flat[0], k)), kinds[-1])
    flat = values.ravel().tolist()
    wrong = [row for row, v in enumerate(flat) if not isinstance(v, kind) or v != v]
    if wrong:
        got = Words(f"{short(flat[wrong[0]])} at row {wrong[0]}")
        allowed = "labels of one kind, text or numbers, and none missing"
        raise TypeError(message(argument, got, allowed, "Convert or drop the others."))
    array = np.array(values.tolist())
    try:
        # Whole numbers beyond 64 bits, and fractions, stay objects.
        return array.astype(np.float64) if array.dtype.kind == "O" else array
    except OverflowError as error:
        raise ValueError(message(argument, values, "numbers that float64 can hold")) from error


def _codes(y: Array, classes: tuple[Any, ...]) -> Array:
    y = label_array(y)
    if len(classes) == 2 and y.dtype.kind in "biuf":
        # Two numbers are told apart without sorting.
        first, second = (y == each for each in classes)
        if (first | second).all():
            return second.astype(np.intp)
    values, places = np.unique(y, return_inverse=True)
    codes = {value: code for code, value in enumerate(classes)}
    if unknown := [value for value in values.tolist() if value not in codes]:
        got = Words(f"{short(unknown[0])} at row {int(np.argmax(y == unknown[0]))}")
        mixed = isinstance(unknown[0], str) != isinstance(classes[0], str)
        remedy = "A text is never equal to a number." * mixed
        raise ValueError(message("y", got, f"one of the classes {list(classes)}", remedy))
    return np.array([codes[value] for value in values.tolist()], dtype=np.intp)[places]


def _numbers(y: Array, allowed: str) -> Array:
    y = label_array(y)
    if y.dtype.kind not in "biuf":
        got, remedy = Words(f"dtype {y.dtype}"), AS_NUMBERS
        raise TypeError(message("y", got, f"numeric, {allowed}", remedy))
    with np.errstate(over="ignore"):
        targets = y.astype(np.float64)
    bad = ~np.isfinite(targets)
    if bad.any():
        got = Words(f"{float(targets[bad][0])!r} at row {int(np.argmax(bad))}")
        raise ValueError(message("y", got, allowed, "Drop or impute those rows."))
    return targets
