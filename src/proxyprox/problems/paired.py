"""A target whose labels are few, helped by a teacher who answers for every row."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyprox._arrays import Matrix, Vector
from proxyprox._checks import require
from proxyprox._isolation import copied_tree, isolated
from proxyprox.corrections.paired import Paired
from proxyprox.problems._fingerprint import combined
from proxyprox.problems.base import Batch


class PairedLoss:
    r"""``L_n(w) + λ(L̂_N(w) − L̂_n(w))``: labels, and the teacher on the same and on all rows.

    For generalised linear models its minimiser is the power-tuned prediction-powered estimate;
    the loss is convex for λ in [0, 1] because the three Hessians do not see labels.

    Parameters
    ----------
    labels : loss
        L_n, the labelled rows with their labels.
    teacher_same : loss
        L̂_n, the same rows with the teacher's answers.
    teacher_all : loss
        L̂_N, other (or all) rows with the teacher's answers.
    power : float
        λ in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import linear_regression
    >>> one = np.ones((2, 1))
    >>> loss = PairedLoss(
    ...     linear_regression(one, [1.0, 2.0]),
    ...     linear_regression(one, [1.5, 2.5]),
    ...     linear_regression(np.ones((4, 1)), [2.0, 2.0, 3.0, 3.0]),
    ...     power=1.0,
    ... )
    >>> loss.gradient(np.array([2.0]))
    array([0.])
    """

    repeatable = True

    def __init__(
        self, labels: Any, teacher_same: Any, teacher_all: Any, *, power: float = 1.0
    ) -> None:
        self.labels, self.same, self.all = labels, teacher_same, teacher_all
        self._isolated = tuple(isolated(part) for part in self._parts)
        for role, part in zip(("labels", "teacher_same", "teacher_all"), self._parts, strict=True):
            require("PairedLoss", role, part, ("value", "gradient"), "Pass a loss such as a GLM.")
        self.correction = Paired(power)
        self.dim = labels.dim
        self.zeros = labels.zeros

    @property
    def _parts(self) -> tuple[Any, Any, Any]:
        return self.labels, self.same, self.all

    def value(self, w: Vector) -> float:
        """Return the loss."""
        return float(self.correction(*(part.value(w) for part in self._isolated)))

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return the gradient; of a batch, label and teacher are taken on the same rows."""
        labels, same, everywhere = self._isolated
        # Copied: the same rows are handed to both.
        target = labels.gradient(w, copied_tree(batch))
        return self.correction(target, same.gradient(w, batch), everywhere.gradient(w))

    def fingerprint(self) -> str | None:
        """Return a text that only equal losses share, or None if a part has none."""
        return combined("PairedLoss", self._parts, self.correction.power)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return the Hessian-vector product."""
        return self.correction(*(part.hvp(w, v) for part in self._isolated))

    def hessian(self, w: Vector) -> Matrix:
        """Return the Hessian."""
        return self.correction(*(part.hessian(w) for part in self._isolated))

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw labelled rows."""
        return self.labels.sample(rng)

    def everything(self) -> Batch:
        """Return the batch of all labelled rows."""
        return self.labels.everything()

    def samples(self, batch: Batch) -> int:
        """Return the number of labels of a batch."""
        return int(self.labels.samples(batch))
