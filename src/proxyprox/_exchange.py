"""What passes between a run and its user: the question, its answer and price, the finished step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from proxyprox._arrays import Vector, copied, norm, square
from proxyprox._checks import Words, message, nonnegative
from proxyprox._isolation import copied_tree, isolated
from proxyprox._ledger import Ledger
from proxyprox._oracles import checked_gradient
from proxyprox._subproblem import Subproblem
from proxyprox._trace import StepRecord
from proxyprox.methods import Answers
from proxyprox.stopping import Criterion, Progress


@dataclass(frozen=True)
class Query:
    """What a run wants to know: the gradient of one batch at one or two points.

    ``halves``, where the objective offers them and the method can use them, are two batches that
    make up the batch: whoever evaluates both in its place, at the first point, learns for nothing
    how noisy the gradient is, and may tell both gradients (``tell(..., halves=(g1, g2))``).
    ``exact`` says that the batch is everything there is. The arrays are copies, the caller's own.
    """

    batch: Any
    points: tuple[Vector, ...]
    halves: tuple[Any, Any] | None = None
    exact: bool = False

    def copied(self) -> Query:
        """Return the query for user code, which may write into it."""
        points = tuple(copied(point) for point in self.points)
        return Query(self.handed(self.batch), points, copied_tree(self.halves), self.exact)

    def handed(self, batch: Any) -> Any:
        """Return a batch for user code; the batch of everything is the user's own already."""
        return batch if self.exact else copied_tree(batch)


@dataclass(frozen=True)
class Step:
    """One finished outer step, as a callback sees it; the arrays are copies, its own.

    Attributes
    ----------
    record : StepRecord
        The step's numbers, as in ``Result.trace``.
    w : array
        The new iterate.
    answer : array
        What the run would return now: the new iterate, or the average that was asked for.
    gradients : tuple of arrays
        What the target answered.
    subproblem : Subproblem or None
        What was minimised (its ``linear``, ``centre`` and ``eta``); None if nothing was.
    ledger : Ledger
        What has been paid so far.
    note : str
        What else happened, such as that the safeguard has dropped the proxy; mostly empty.
    """

    record: StepRecord
    w: Vector
    answer: Vector
    gradients: tuple[Vector, ...]
    subproblem: Subproblem | None
    ledger: Ledger
    note: str = ""


def answered(objective: Any, query: Query) -> tuple[list[Vector], tuple[Vector, Vector] | None]:
    """Return the answers and, where the batch came in two halves, those of the halves."""
    objective = isolated(objective)

    def gradient(w: Vector, batch: Any) -> Vector:
        return objective.gradient(w, query.handed(batch))

    point, *others = query.points
    if query.halves is not None:
        one, other = query.halves
        halves = gradient(point, one), gradient(point, other)
        rest = [gradient(w, query.batch) for w in others]
        return [(halves[0] + halves[1]) / 2, *rest], halves
    return [gradient(w, query.batch) for w in query.points], None


def received(objective: Any, query: Query, gradients: Any, observations: Any) -> Answers:
    """Return the answers to a query, checked; observations are turned into gradients."""
    if (gradients is None) == (observations is None):
        raise TypeError("tell needs either gradients or observations, and not both.")
    if observations is not None:
        turn = getattr(isolated(objective), "gradient_from", None)
        if turn is None:
            raise TypeError(
                f"observations need an objective with gradient_from(w, batch, observations), "
                f"but {type(objective).__name__} has none. Tell gradients."
            )
        gradients = [turn(w, query.handed(query.batch), observations) for w in query.points]
    elif not isinstance(gradients, (list, tuple)):
        gradients = [gradients]
    if len(gradients) != len(query.points):
        allowed = f"one for each of the {len(query.points)} points asked about"
        raise ValueError(message("gradients", Words(f"{len(gradients)} of them"), allowed))
    # Copied: whoever answers may reuse the buffer.
    return Answers(
        copied(checked_gradient("the target's gradient", answer, point))
        for answer, point in zip(gradients, query.points, strict=True)
    )


def subproblem_copied(phi: Subproblem | None) -> Subproblem | None:
    """Return a subproblem for a callback: its own arrays, and a memory of its own of gradients."""
    if phi is None:
        return None
    linear, centre = copied(phi.linear), copied(phi.centre)
    return Subproblem(phi.proxy.twin(), linear, centre, phi.eta, phi.penalty)


def recorded(
    k: int, eta: float, solved: tuple[Subproblem, Progress, Criterion] | None, ledger: Ledger
) -> StepRecord:
    """Return the numbers of step k: how well its subproblem was solved, and what it had cost."""
    residual, threshold, held, inner_steps, displacement = 0.0, math.nan, None, 0, 0.0
    if solved is not None:
        phi, progress, stop = solved
        bound, held = stop.threshold(progress), stop.holds(progress)
        residual, inner_steps = progress.residual, progress.steps
        displacement, eta = progress.displacement, phi.eta
        threshold = math.nan if bound is None else bound
    return StepRecord(
        k, eta, residual, threshold, held, inner_steps, displacement,
        ledger.target_gradients, ledger.proxy_gradients, ledger.seconds,
    )  # fmt: skip


def noise(query: Query, halves: tuple[Vector, Vector] | None) -> tuple[float | None, Vector | None]:
    """Return an estimate of E‖g − ∇L‖² and a sample of g − ∇L: the halves' gap, for their mean."""
    if query.batch is None:
        return 0.0, None
    if halves is None:
        return None, None
    point = query.points[0]
    first, second = (checked_gradient("a half's gradient", half, point) for half in halves)
    gap = (first - second) / 2
    return square(norm(gap)), gap


def price(objective: Any, query: Query, ledger: Ledger) -> dict[str, float]:
    """Return what answering a query adds to the ledger."""
    points, count = len(query.points), getattr(objective, "samples", None)
    if count is not None:
        samples = int(count(query.handed(query.batch)))
    else:
        samples = len(query.batch) if hasattr(query.batch, "__len__") else 1
    paid: dict[str, float] = {"target_gradients": points, "target_samples": samples}
    cost = getattr(objective, "cost", None)
    if cost is not None:
        paid["cost"] = points * nonnegative(
            "objective.cost(batch)", cost(query.handed(query.batch))
        )
    epsilon = getattr(objective, "epsilon", None)
    if epsilon is not None:
        paid["epsilon"] = epsilon(ledger.target_gradients + points) - ledger.epsilon
    return paid
