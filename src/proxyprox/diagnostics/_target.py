"""The target as an audit sees it: every access charged, none beyond the budget."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, all_finite, copied, to_numpy
from proxyprox._checks import has, nonnegative
from proxyprox._isolation import copied_tree, isolated
from proxyprox._ledger import Ledger
from proxyprox._oracles import checked_gradient
from proxyprox._subproblem import NonFiniteError


class MeteredTarget:
    """Gradients and Hessian-vector products of an objective, entered in a ledger.

    A Hessian-vector product counts as one target gradient over all of the samples: it is a pass
    over the same data, whatever it needs of the labels.
    """

    def __init__(self, objective: Any, ledger: Ledger) -> None:
        self.objective = isolated(objective)
        self.ledger = ledger
        self.minibatch_seconds: list[float] = []

    def gradient(
        self, w: Vector, batch: Any, *, again: bool = False, whole: bool = False
    ) -> Vector:
        """Return a batch's gradient; ``again``: the batch was paid for before, at another point.

        ``whole``: the batch is everything there is, which is the user's own and not copied.
        """
        self._charge(batch, again=again)
        begun = time.perf_counter()
        # Overflow at a trial point is looked for below; NumPy's warning would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"):
            given = self.objective.gradient(w, batch if whole else copied_tree(batch))
        answer = copied(checked_gradient("the target's gradient", given, w))
        elapsed = time.perf_counter() - begun
        self.ledger.target_seconds += elapsed
        self.minibatch_seconds.append(elapsed)
        if not _all_finite(answer):
            raise NonFiniteError("the target's gradient is not finite at a point of the audit")
        return answer

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return the target's Hessian times v."""
        everything = self.objective.everything() if has(self.objective, "everything") else None
        self._charge(everything, again=False)
        begun = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):
            given = self.objective.hvp(w, v)
        answer = copied(checked_gradient("the target's hvp", given, w))
        self.ledger.target_seconds += time.perf_counter() - begun
        if not _all_finite(answer):
            raise NonFiniteError("the target's hvp is not finite at a point of the audit")
        return answer

    def _charge(self, batch: Any, *, again: bool) -> None:
        ledger, objective = self.ledger, self.objective
        ledger.target_gradients += 1
        count = getattr(objective, "samples", None)
        if not again:
            sized = len(batch) if hasattr(batch, "__len__") else 1
            ledger.target_samples += sized if count is None else int(count(copied_tree(batch)))
        cost = getattr(objective, "cost", None)
        if cost is not None:
            ledger.cost += nonnegative("objective.cost(batch)", cost(copied_tree(batch)))
        spent = getattr(objective, "epsilon", None)
        if spent is not None:
            ledger.epsilon = spent(ledger.target_gradients)


def _all_finite(vector: Vector) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return all_finite(vector)


def stacked(vectors: list[Vector]) -> np.ndarray[Any, Any]:
    """Return vectors of any library as the rows of a float64 NumPy matrix."""
    return np.stack([to_numpy(v).astype(np.float64) for v in vectors])
