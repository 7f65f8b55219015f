"""The two losses as a run asks them: counted, checked and priced; questions and answers."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj

from proxyprox._util.arrays import (
    Matrix,
    Vector,
    all_finite,
    changed,
    copy_array,
    copy_tree,
    norm,
    same_point,
    square,
)
from proxyprox._util.validation import Words, has, message, nonnegative, require_takes, scalar
from proxyprox.inner.base import NonFiniteError, Subproblem
from proxyprox.problems import Zero
from proxyprox.problems.problem import facts_of
from proxyprox.result import Ledger, StepRecord
from proxyprox.stopping import Criterion, Progress

__all__ = ["Query", "Step"]

# Points and the proxy's gradients there, the newest last.
Remembered = tuple[tuple[Vector, Vector], ...]


class MeteredProxy:
    """The proxy as a run asks it: each access counted, each answer checked, vectors copied.

    The gradients at the last few points are remembered by the points' entries: the last inner
    iterate is the next centre, so that its gradient is there already when the next outer step
    asks for ∇L̂(w_k). ``derived`` holds what a method has computed from the proxy at a point that
    its state names: after a resume it is computed again. ``fault`` is what was not finite first
    ("value", "gradient", …), and where, until it is reset. Whatever else the proxy offers is
    passed on.
    """

    learns = False
    kept = 3  # gradients: those at the centre, at the start and at the point just reached

    def __init__(self, proxy: Any, ledger: Ledger, name: str = "", *, total: bool = True) -> None:
        self.proxy, self.ledger = proxy, ledger
        self._name, self._total = name, total
        self.strong_convexity = getattr(proxy, "strong_convexity", None)
        require_takes("proxy.hvp", getattr(proxy, "hvp", None), ("w", "v"))
        self.hvp = self._hvp if has(proxy, "hvp") else None
        self.facts = facts_of(proxy)
        self.hessian = self._hessian if has(proxy, "hessian") else None
        self.solve_shifted = self._solve_shifted if has(proxy, "solve_shifted") else None
        self.sample = partial(self._timed, proxy.sample) if has(proxy, "sample") else None
        self.fault: tuple[str, Vector] | None = None
        self.remembered: Remembered = ()
        self.derived: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        # Only of names that this class does not define; a copy under way has no proxy yet.
        if name.startswith("__") or "proxy" not in vars(self):
            raise AttributeError(name)
        return getattr(self.proxy, name)

    @property
    def smoothness(self) -> float | None:
        """H of the proxy, where it knows one; finding it may take a few passes over its data."""
        known: float | None = self._timed(getattr, self.proxy, "smoothness", None)
        return known

    def _timed(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function of the proxy's returns; its seconds are entered."""
        begun = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            self._charge("proxy_seconds", time.perf_counter() - begun)

    def _charge(self, what: str, amount: float) -> None:
        """Enter an access: in the total, and under the proxy's name if it has one."""
        ledger, name = self.ledger, self._name
        if self._total:
            setattr(ledger, what, getattr(ledger, what) + amount)
        if name:
            # A new dict: copies of the ledger do not change.
            own = ledger.proxies.get(name, {})
            ledger.proxies = {**ledger.proxies, name: {**own, what: own.get(what, 0) + amount}}

    def value(self, w: Vector) -> float:
        """Return L̂(w)."""
        self._charge("proxy_values", 1)
        number = scalar("the proxy's value", self._timed(self.proxy.value, copy_array(w)))
        if not math.isfinite(number):
            self.fault = self.fault or ("value", w)
        return number

    def gradient(self, w: Vector, *batch: Any) -> Vector:
        """Return ∇L̂(w), from memory if w is one of the last points; or a sampled gradient."""
        if batch:
            return self._vector("gradient", "proxy_sampled_gradients", w, *batch)
        known = self.remembered
        for pair in reversed(known):
            if same_point(pair[0], w):
                if pair is not known[-1]:
                    # The centre outlives the trial points of several solves around it.
                    self.remembered = (*(other for other in known if other is not pair), pair)
                return copy_array(pair[1])
        gradient = self._vector("gradient", "proxy_gradients", w)
        self.remembered = (*known[1 - self.kept :], (copy_array(w), gradient))
        return copy_array(gradient)

    def outputs(self, points: list[Vector]) -> list[Any]:
        """Return the outputs of the proxy's model at some points."""
        self.ledger.proxy_values += len(points)
        answers: list[Any] = self._timed(self.proxy.outputs, [*map(copy_array, points)])
        return answers

    def _vector(self, name: str, counted: str, w: Vector, *arguments: Any) -> Vector:
        """Return what one of the proxy's methods answers at a point, a copy of the right form."""
        self._charge(counted, 1)
        answer = self._timed(getattr(self.proxy, name), copy_array(w), *arguments)
        answer = copy_array(as_gradient(f"the proxy's {name}", answer, w))
        if not all_finite(answer):
            self.fault = self.fault or (name.replace("hvp", "Hessian product"), copy_array(w))
        return answer

    def _hvp(self, w: Vector, v: Vector) -> Vector:
        return self._vector("hvp", "proxy_hvps", w, copy_array(v))

    def _hessian(self, w: Vector) -> Matrix:
        self._charge("proxy_hessians", 1)
        hessian = self._timed(self.proxy.hessian, copy_array(w))
        shape, wanted = tuple(getattr(hessian, "shape", ())), (w.shape[0], w.shape[0])
        if shape != wanted:
            got = Words(f"shape {shape}" if shape else f"a {type(hessian).__name__}")
            raise ValueError(message("the proxy's hessian", got, f"a matrix of shape {wanted}"))
        if not all_finite(hessian):
            self.fault = self.fault or ("Hessian", w)
            raise NonFiniteError("the proxy's Hessian is not finite at a trial point")
        return hessian

    def _solve_shifted(self, v: Vector, eta: float) -> Vector:
        return self._vector("solve_shifted", "proxy_solves", v, eta)


class FreeProxy(Zero):
    """The zero proxy as a run asks it: nothing to count, to check or to remember."""

    learns = False
    sample = None
    fault: tuple[str, Vector] | None = None
    remembered: Remembered = ()


def as_gradient(whose: str, gradient: Any, w: Vector) -> Vector:
    """Refuse an answer that is not an array like ``w``; finiteness is checked by its users."""
    if type(gradient) is not type(w):
        got = Words(f"a {type(gradient).__name__}")
        raise TypeError(message(whose, got, f"a {type(w).__name__}, as the iterate is"))
    if gradient.shape != w.shape:
        got = Words(f"shape {tuple(gradient.shape)}")
        raise ValueError(message(whose, got, f"of the iterate's shape, {tuple(w.shape)}"))
    if gradient.dtype != w.dtype:
        remedy = "Convert w0 or the data so that both agree."
        got = Words(f"dtype {gradient.dtype}")
        raise TypeError(message(whose, got, f"of the iterate's dtype, {w.dtype}", remedy))
    # A tensor that still carries its graph would keep every step of the run alive.
    return gradient.detach() if getattr(gradient, "requires_grad", False) else gradient


@dataclass(frozen=True)
class Query:
    """What a run wants to know: the gradient of one batch at one or more points.

    ``halves``, where the objective offers them and the step size is measured, are two batches that
    make up the batch. Their gradients at the first point, evaluated in its place, also show how
    noisy the gradient is: tell them too (``tell(..., halves=(g1, g2))``). ``exact`` says that the
    batch is everything there is, ``value`` that the method can use the loss at the first point
    (``tell(..., value=...)``). The arrays are copies, the caller's own.
    """

    batch: Any
    points: tuple[Vector, ...]
    halves: tuple[Any, Any] | None = None
    exact: bool = False
    value: bool = False
    outputs: bool = False

    def copied(self) -> Query:
        """Return the query for user code, which may write into it."""
        points = tuple(copy_array(point) for point in self.points)
        batch, halves = self.batch_for_user(self.batch), copy_tree(self.halves)
        return changed(self, batch=batch, points=points, halves=halves)

    @property
    def purchase(self) -> Purchase:
        """What answering it costs."""
        return Purchase(self.batch, len(self.points), 1, self.exact)

    def batch_for_user(self, batch: Any) -> Any:
        """Return a batch for user code; the batch of everything is the user's own already."""
        return batch if self.exact else copy_tree(batch)


class Solved(NamedTuple):
    """A subproblem, how far it was solved, and the rule that was to hold."""

    phi: Subproblem
    progress: Progress
    stop: Criterion


def step_record(
    k: int, eta: float, solved: Any, ledger: Ledger, value: float | None, gradient: float
) -> StepRecord:
    """Return the numbers of step k: how well its subproblem was solved, and what it had cost."""
    numbers: tuple[Any, ...] = eta, 0.0, math.nan, None, 0, 0.0
    if solved is not None:
        phi, progress, stop = solved
        bound, held = stop.threshold(progress), stop.holds(progress)
        threshold = math.nan if bound is None else bound
        numbers = phi.eta, progress.residual, threshold, held, progress.steps, progress.displacement
    paid = ledger.target_gradients, ledger.proxy_gradients, ledger.seconds
    return StepRecord._make((k, *numbers, *paid, math.nan if value is None else value, gradient))


class Step:
    """One finished outer step, as observers see it; every array is a copy, made when it is asked.

    Attributes
    ----------
    record : StepRecord
        The step's numbers, as in ``Result.trace``.
    ledger : Ledger
        What has been paid so far.
    state : RunState
        The run's state after the step: a value, not to be written into.
    note : str
        What else happened, such as that the safeguard has dropped the proxy; mostly empty.
    """

    def __init__(
        self, record: StepRecord, state: Any, gradients: tuple[Vector, ...], solved: Solved | None,
        ledger: Ledger, answer: Callable[[], Vector], note: str = "",
    ) -> None:  # fmt: skip
        self.record, self.state, self.ledger, self.note = record, state, ledger, note
        self._gradients, self._solved, self._answer = gradients, solved, answer

    def __repr__(self) -> str:
        return f"Step({self.record!r})"

    @cached_property
    def w(self) -> Vector:
        """The new iterate."""
        return copy_array(self.state.method.w)

    @cached_property
    def answer(self) -> Vector:
        """What the run would return now: the new iterate, or the average that was asked for."""
        return self._answer()

    @cached_property
    def gradients(self) -> tuple[Vector, ...]:
        """What the target answered."""
        return tuple(map(copy_array, self._gradients))

    @cached_property
    def subproblem(self) -> Subproblem | None:
        """What was minimised (its ``linear``, ``centre`` and ``eta``); None if nothing was."""
        if self._solved is None:
            return None
        phi = self._solved.phi
        # The twin knows what is remembered; what it remembers besides is its own.
        linear, centre = copy_array(phi.linear), copy_array(phi.centre)
        return Subproblem(changed(phi.proxy), linear, centre, phi.eta, phi.penalty)

    @property
    def value(self) -> float:
        """The target's value at the point asked about, without the penalty; NaN if not known."""
        return self.record.value


class OutOfBudget(RuntimeError):  # noqa: N818 - an end, not a mistake
    """An objective raises it if it will answer no more: the run ends, its budget spent."""


class Told(NamedTuple):
    """The target's answers to a query, and what they cost besides its price, by ledger field."""

    gradients: tuple[Any, ...]
    halves: tuple[tuple[Any, Any], ...] | None
    value: float | None
    extra: dict[str, float]


def answer_query(objective: Any, query: Query) -> Told:
    """Return the objective's answers: the gradients, those of two halves, and the value."""
    if query.outputs:
        answers = objective.outputs([copy_array(point) for point in query.points])
        return Told(tuple(answers), None, None, {})
    before = getattr(objective, "evaluations", None)
    extra: dict[str, float] = {}
    value, halves = None, None

    def ask(w: Vector, batch: Any) -> Vector:
        # Copied: the objective may write into what it is given, and answer in one buffer.
        return _copied(objective.gradient(copy_array(w), query.batch_for_user(batch)))

    point, *others = query.points
    if query.halves is not None:
        one, other = query.halves
        halves = tuple([(ask(w, one), ask(w, other)) for w in query.points])
        gradients = [(first + second) / 2 for first, second in halves]
    else:
        if query.value and has(objective, "value_and_gradient"):
            batch = query.batch_for_user(query.batch)
            value, first = objective.value_and_gradient(copy_array(point), batch)
            first = _copied(first)
        else:
            first = ask(point, query.batch)
            full = query.exact or query.batch is None
            if query.value and full and reports_values(objective):
                value, extra["target_values"] = objective.value(copy_array(point)), 1
        gradients = [first, *(ask(w, query.batch) for w in others)]
    if before is not None:
        extra["target_calls"] = objective.evaluations - before
    number = None if value is None else scalar("the target's value", value)
    return Told(tuple(gradients), halves, number, extra)


def _copied(answer: Any) -> Any:
    """Return a copy of an answer; one that is no array is refused by whoever takes it."""
    return copy_array(answer) if is_array_api_obj(answer) else answer


@contextlib.contextmanager
def charging_calls(objective: Any, ledger: Ledger) -> Iterator[None]:
    """Charge as ``target_calls`` what the objective itself counts while the block runs."""
    before = getattr(objective, "evaluations", 0)
    yield
    charge(ledger, {"target_calls": getattr(objective, "evaluations", 0) - before})


def reports_values(objective: Any) -> bool:
    """Tell whether the objective has values that a report may ask for: they are not paid for."""
    paid = any(getattr(objective, name, None) is not None for name in ("cost", "epsilon"))
    return has(objective, "value") and not paid


def check_answers(
    objective: Any, query: Query, gradients: Any, observations: Any
) -> tuple[tuple[Vector, ...], float | None]:
    """Return the gradients told for a query, checked, and the loss if observations tell it."""
    value = None
    if (gradients is None) == (observations is None):
        raise TypeError("tell needs either gradients or observations, and not both.")
    if observations is not None:
        if not has(objective, "gradient_from"):
            name = type(objective).__name__
            raise TypeError(f"observations need gradient_from; {name} has none. Tell gradients.")
        gradients = []
        for w in query.points:
            batch = query.batch_for_user(query.batch)
            seen = objective.gradient_from(copy_array(w), batch, observations)
            loss, gradient = seen if isinstance(seen, tuple) else (None, seen)
            value = loss if query.value and not gradients else value
            gradients.append(_copied(gradient))
    elif not isinstance(gradients, (list, tuple)):
        gradients = [gradients]
    if len(gradients) != len(query.points):
        count = len(query.points)
        allowed = "one array" if count == 1 else f"a list of {count} arrays, one for each point"
        got = Words(f"{len(gradients)} of them")
        raise ValueError(message("gradients", got, allowed, "Give arrays, not lists of numbers."))
    # Copied: whoever answers may reuse the buffer.
    checked = tuple(map(copy_array, check_gradients(query, gradients)))
    return checked, value


def check_gradients(query: Query, gradients: Iterable[Any]) -> tuple[Vector, ...]:
    """Return the target's gradients, or outputs, at the points of a query; refuse what is none."""
    if not query.outputs:
        pairs = zip(gradients, query.points, strict=True)
        return tuple([as_gradient("the target's gradient", g, w) for g, w in pairs])
    outputs = [np.array(answer, dtype=np.float64) for answer in gradients]
    for answer in outputs:
        if answer.ndim != 1:
            got = Words(f"an array of shape {answer.shape}")
            raise ValueError(message("the target's outputs", got, "a vector for each point"))
    return tuple(outputs)


class CopyingPenalty:
    """A penalty as a run asks it: with copies of vectors, its answers copied."""

    def __init__(self, penalty: Any) -> None:
        self._penalty = penalty

    def __repr__(self) -> str:
        return repr(self._penalty)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_penalty":
            raise AttributeError(name)
        return getattr(self._penalty, name)

    def value(self, w: Vector) -> float:
        """Return ψ(w)."""
        return float(self._penalty.value(copy_array(w)))

    def prox(self, w: Vector, step: Any) -> Vector:
        """Return the proximal point."""
        return _copied(self._penalty.prox(copy_array(w), step))

    def distance(self, w: Vector, gradient: Vector) -> float:
        """Return the distance from 0 to ``gradient + ∂ψ(w)``."""
        return float(self._penalty.distance(copy_array(w), copy_array(gradient)))


def copying(penalty: Any) -> Any:
    """Return a penalty as a run asks it; None for none."""
    known = penalty is None or isinstance(penalty, CopyingPenalty)
    return penalty if known else CopyingPenalty(penalty)


def noise(query: Query, halves: Any) -> tuple[float | None, tuple[Vector, ...]]:
    """Return an estimate of E‖g − ∇L‖², and samples of g − ∇L: half the gap of two halves.

    One sample for each point whose halves are told; all are of the same batch.
    """
    if query.exact or query.batch is None:
        return 0.0, ()
    if halves is None:
        return None, ()
    several = isinstance(halves, (list, tuple)) and isinstance(
        next(iter(halves), ()), (list, tuple)
    )
    pairs, gaps = halves if several else [halves], []
    two = [hasattr(pair, "__len__") and len(pair) == 2 for pair in pairs]
    if not 0 < len(pairs) <= len(query.points) or not all(two):
        allowed = "a pair of gradients, or a list of pairs, one for each of the query's points"
        raise ValueError(message("halves", halves, allowed))
    for point, pair in zip(query.points, pairs, strict=False):
        first, second = (as_gradient("a half's gradient", half, point) for half in pair)
        gaps.append((first - second) / 2)
    # Halves that happen to be equal, such as one row drawn twice, do not make the gradient exact.
    return max(square(norm(gaps[0])), sys.float_info.min), tuple(gaps)


class Purchase(NamedTuple):
    """Gradients to pay for: of a batch at some points, with a number of batches of new samples."""

    batch: Any
    points: int
    new_batches: int = 1
    exact: bool = False


def price(objective: Any, ledger: Ledger, purchases: Iterable[Purchase]) -> dict[str, float]:
    """Return what some gradients together add to the ledger."""
    count, cost = getattr(objective, "samples", None), getattr(objective, "cost", None)
    paid: dict[str, float] = {"target_gradients": 0, "target_samples": 0}
    if cost is not None:
        paid["cost"] = 0.0
    for batch, points, new_batches, exact in purchases:
        # A user's function may write into the batch; the batch of everything is the user's own.
        used = count is not None or cost is not None
        given = copy_tree(batch) if used and not exact else batch
        samples = len(given) if hasattr(given, "__len__") else 1
        if count is not None:
            samples = int(count(given))
        paid["target_gradients"] += points
        paid["target_samples"] += new_batches * samples
        if cost is not None:
            paid["cost"] += points * nonnegative("objective.cost(batch)", cost(given))
    epsilon = getattr(objective, "epsilon", None)
    if epsilon is not None:
        # Privacy is not a sum: it follows from the number of gradients.
        gradients = ledger.target_gradients + int(paid["target_gradients"])
        after = epsilon(gradients)
        # Infinite where noise is seeded: nothing is added to that.
        paid["epsilon"] = after - ledger.epsilon if after != ledger.epsilon else 0.0
    return paid


def charge(ledger: Ledger, paid: Mapping[str, float]) -> None:
    """Enter what was paid, all of it or nothing if an interrupt comes."""
    vars(ledger).update({name: getattr(ledger, name) + paid[name] for name in paid})
