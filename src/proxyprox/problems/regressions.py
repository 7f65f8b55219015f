"""The four regressions by name: the everyday way to build a generalised linear model."""

from __future__ import annotations

import difflib
from typing import Any

from proxyprox._checks import message
from proxyprox.problems.families import (
    Linear,
    Logistic,
    Poisson,
    Softmax,
    binary_classes,
    checked_classes,
    many_classes,
)
from proxyprox.problems.glm import GLM

OPTIONS = ("l2", "intercept", "sample_weight", "batch_size")


def linear_regression(X: Any, y: Any = None, **options: Any) -> GLM:
    """Return the least-squares loss ``mean (xᵀw − y)²/2``; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = linear_regression(np.eye(2), [1.0, 2.0])
    >>> loss.value(np.zeros(2))
    1.25
    """
    return GLM(X, y, Linear(), **_known("linear_regression", options))


def logistic_regression(
    X: Any, y: Any = None, *, classes: tuple[Any, Any] | None = None, **options: Any
) -> GLM:
    """Return the logistic loss for labels of two classes; options as in :class:`GLM`.

    The larger of the two labels is the positive class, whether they are {0, 1}, {−1, 1}, {1, 2}
    or two strings; ``classes=(negative, positive)`` says otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> loss = logistic_regression(np.array([[1.0], [-1.0]]), ["yes", "no"])
    >>> round(loss.value(np.zeros(1)), 6)
    0.693147
    """
    _known("logistic_regression", options, "classes")
    if classes is None:
        classes = (0, 1) if y is None else binary_classes(y)
    return GLM(X, y, Logistic(checked_classes(classes, 2, 2)), **options)


def softmax_regression(
    X: Any, y: Any = None, *, classes: tuple[Any, ...] | None = None, **options: Any
) -> GLM:
    """Return the multinomial logistic loss; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = softmax_regression(np.eye(3), ["a", "b", "c"])
    >>> loss.dim, round(loss.value(np.zeros(9)), 6)
    (9, 1.098612)
    """
    _known("softmax_regression", options, "classes")
    if classes is None:
        if y is None:
            remedy = "Without labels the number of classes is unknown."
            raise ValueError(message("classes", None, "the tuple of all classes", remedy))
        classes = many_classes(y)
    return GLM(X, y, Softmax(checked_classes(classes, 2)), **options)


def poisson_regression(X: Any, y: Any = None, **options: Any) -> GLM:
    """Return the Poisson loss ``mean exp(xᵀw) − y xᵀw``; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = poisson_regression(np.ones((2, 1)), [0, 3])
    >>> loss.value(np.zeros(1))
    1.0
    """
    return GLM(X, y, Poisson(), **_known("poisson_regression", options))


def _known(function: str, options: dict[str, Any], *more: str) -> dict[str, Any]:
    """Refuse an option that no regression has, in the name of the function that was called."""
    allowed = (*OPTIONS, *more)
    for name in options:
        if name not in allowed:
            close = difflib.get_close_matches(name.lower(), allowed, n=1)
            meant = f" Use {close[0]}." if close else ""
            raise TypeError(
                f"{function} has no option {name!r}; its options are {', '.join(allowed)}.{meant}"
            )
    return options
