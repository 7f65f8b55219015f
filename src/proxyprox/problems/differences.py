"""Losses given by their values only: derivatives by finite differences."""

from __future__ import annotations

import concurrent.futures
import copy
import functools
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import (
    Matrix,
    Vector,
    copy_array,
    from_numpy,
    norm,
    rounding,
    to_numpy,
    zeros_like,
)
from proxyprox._util.validation import Words, message
from proxyprox.problems.protocols import Batch, Facts, Paired, Summable

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DifferencesPolicy:
    """How much of what was paid for is remembered.

    Attributes
    ----------
    kept : int
        Points whose answers are remembered: the first, which a report asks for again, and the last.
        No record: a judgement.
    """

    kept: int = 8


class DifferenceError(RuntimeError):
    """A function has a value at a point, and none beside it."""


class Derivatives:
    """A user's function of w with its derivatives, every call of it counted.

    Parameters
    ----------
    whose : str
        What the function is called in messages.
    function : callable
        ``function(w)`` returns a number, or a vector where ``ndim`` is 1.
    scheme : str
        ``"2-point"`` or ``"3-point"``.
    workers : int or concurrent.futures.Executor
        How many threads evaluate the points of one derivative, or the pool that does.
    noise : float, optional
        Relative error of the function's values; by default that of rounding.
    scales : array, optional
        A typical size of each parameter; by default 1.
    bounds : pair, optional
        Lower and upper limits, which no evaluation leaves.
    derivative : callable, optional
        The derivative, where it is known; a call of it is counted as one.
    ndim : int
        0 for functions that return a number, 1 for vectors.
    timeout : float, optional
        Seconds for one evaluation; one that takes longer counts as NaN.

    Examples
    --------
    >>> import numpy as np
    >>> square = Derivatives("f", lambda w: float(w @ w))
    >>> value, gradient = square.linearise(np.array([1.0, 2.0]))
    >>> value, gradient.round(6), square.calls, square.source
    (5.0, array([2., 4.]), 3, '2-point differences')
    """

    def __init__(
        self,
        whose: str,
        function: Callable[[Any], Any],
        *,
        scheme: str = "2-point",
        workers: int | Executor = 1,
        noise: float | None = None,
        scales: Vector | None = None,
        bounds: tuple[Any, Any] | None = None,
        derivative: Callable[[Any], Any] | None = None,
        ndim: int = 0,
        timeout: float | None = None,
    ) -> None:
        if not callable(function) or not check.takes(function, 1):
            raise TypeError(message(whose, function, "a function of w alone"))
        self.whose, self.function, self.ndim = whose, function, ndim
        if not isinstance(workers, Executor):
            check.whole("workers", workers, remedy="Or pass an executor of concurrent.futures.")
        self.noise = None if noise is None else check.fraction("noise", noise)
        self.scheme = scheme
        self.calls, self.trouble, self._size, self._eps = 0, "", 0, 0.0
        self._timeout = None if timeout is None else check.positive("timeout", timeout)
        self._derivative = derivative
        self._workers = workers if isinstance(workers, Executor) else int(workers)
        self._known: dict[bytes, tuple[Any, Array | None]] = {}
        self._set_limits(scales, bounds)

    def _set_limits(self, scales: Vector | None, bounds: tuple[Any, Any] | None) -> None:
        self.scales = _numbers("scales", 1.0 if scales is None else scales)
        if not ((self.scales > 0) & np.isfinite(self.scales)).all():
            raise ValueError(message("scales", scales, "positive numbers"))
        pair = (None, None) if bounds is None else bounds
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise TypeError(message("bounds", bounds, "a pair (lower, upper)"))
        self._lower = _numbers("bounds", -math.inf if pair[0] is None else pair[0])
        self._upper = _numbers("bounds", math.inf if pair[1] is None else pair[1])
        if not np.all(self._lower <= self._upper):
            raise ValueError(message("bounds", bounds, "lower limits at most the upper ones"))

    @property
    def source(self) -> str:
        """Where derivatives come from, in a few words."""
        failed = f"; at some points there was no value, at the last by {self.trouble}"
        failed = failed if self.trouble else ""
        own = self._derivative is not None
        return ("a function of their own" if own else f"{self.scheme} differences") + failed

    def value(self, w: Vector) -> Any:
        """Return f(w), as a float or a vector of float64."""
        known = self._known.get(_key(w))
        if known is not None:
            return known[0]
        return self._remember(w, self._read(self._call(w)))[0]

    def values(self, points: Sequence[Vector]) -> list[Array]:
        """Return f at some points, NaN if there is none; an error at a lone point is raised.

        Answers of other lengths than the first are refused.
        """
        keys = [*map(_key, points)]
        known = {key: self._known[key][0] for key in keys if key in self._known}
        new = [w for key, w in zip(keys, points, strict=True) if key not in known]
        if len(new) == 1 and self._timeout is None:
            known[_key(new[0])] = self.value(new[0])
        elif new:
            answers = self._evaluate([copy_array(w) for w in new])
            known |= zip(map(_key, new), answers, strict=True)
            for w, answer in zip(new, answers, strict=True):
                self._remember(w, answer)
        return [self._sized(np.atleast_1d(known[key])) for key in keys]

    def _sized(self, answer: Array) -> Array:
        if np.isnan(answer).all():
            return np.full(self._size or len(answer), math.nan)
        self._size = self._size or len(answer)
        if len(answer) != self._size:
            got = Words(f"{len(answer)} outputs")
            raise ValueError(message(f"{self.whose}(w)", got, f"{self._size} outputs, as at first"))
        return answer

    def linearise(self, w: Vector) -> tuple[Any, Array]:
        """Return f(w) and the gradient or Jacobian there."""
        value, derivative = self._known.get(_key(w), (None, None))
        if derivative is None:
            rule = self._subtract if self._derivative is None else self._ask
            value, derivative = self._remember(w, *rule(w))
        assert derivative is not None
        return value, derivative

    def known_derivative(self, w: Vector) -> Array | None:
        """Return the derivative at a point where it was found lately, without a call."""
        return self._known.get(_key(w), (None, None))[1]

    def within(self, scales: Vector | None, bounds: tuple[Any, Any] | None) -> Derivatives:
        """Return the same function with other scales and bounds, its calls counted anew."""
        other = copy.copy(self)
        other.calls, other._known = 0, {}
        other._set_limits(scales, bounds)
        return other

    # -- calls and their answers ------------------------------------------------------------

    def _call(self, w: Vector) -> Any:
        self.calls += 1
        try:
            return self.function(copy_array(w))
        except (ArithmeticError, np.linalg.LinAlgError):
            # At a trial point methods turn back from NaN; at the first point it is a mistake.
            if not self._known:
                raise
            return np.full(self.ndim, math.nan) if self.ndim else math.nan

    def _read(self, raw: Any) -> Any:
        """Return an answer of the function as a float or a vector of float64."""
        name, allowed = f"{self.whose}(w)", "a vector of numbers" if self.ndim else "a number"
        try:
            array = to_numpy(raw)
            if array.dtype.kind not in "biuf":
                raise TypeError
        except (TypeError, ValueError) as error:
            raise TypeError(message(name, raw, allowed)) from error
        if array.dtype.kind == "f":
            self._eps = float(np.finfo(array.dtype).eps)
        array = array.astype(np.float64)
        if self.ndim == 1 == array.ndim:
            return array
        if self.ndim == 0 and array.size == 1:
            return float(array.reshape(-1)[0])
        remedy = "A gradient is given as (None, gradient), residuals as LeastSquares(residuals)."
        got = Words(f"an array of shape {array.shape}")
        raise TypeError(message(name, got, allowed, "" if self.ndim else remedy))

    def _remember(
        self, w: Vector, value: Any, derivative: Array | None = None
    ) -> tuple[Any, Array | None]:
        known = {**self._known, _key(w): (value, derivative)}
        if len(known) > DifferencesPolicy.kept:
            del known[list(known)[1]]
        self._known = known
        return value, derivative

    def _evaluate(self, points: Sequence[Any]) -> list[Any]:
        """Return f at some points; NaN if it raised or took too long."""
        self.calls += len(points)
        answers = self._map(functools.partial(_attempt, self.function), points)
        for answer in answers:
            if isinstance(answer, Exception):
                self.trouble = f"{type(answer).__name__}: {answer}"
        return [math.nan if isinstance(a, Exception) else self._read(a) for a in answers]

    def _map(self, function: Callable[[Any], Any], points: Sequence[Any]) -> list[Any]:
        """Return what a function answers at some points, in parallel if there are workers."""
        workers, rounds = self._workers, 1
        if workers == 1 and self._timeout is None:
            return [function(point) for point in points]
        if isinstance(workers, Executor):
            futures = [workers.submit(function, point) for point in points]
        else:
            slots, rounds = threading.BoundedSemaphore(workers), math.ceil(len(points) / workers)
            futures = [_submit(function, point, slots) for point in points]
        seconds = None if self._timeout is None else self._timeout * rounds
        done, late = concurrent.futures.wait(futures, seconds)
        for future in late:
            future.cancel()
        slow = TimeoutError(f"no answer within {self._timeout} s")
        return [_result(future) if future in done else slow for future in futures]

    # -- differences ------------------------------------------------------------------------

    def _step_sizes(self, w: Vector, power: float) -> Array:
        """Return relative steps like SciPy's: those of a parameter of its size, or its scale.

        The power of the relative error of values balances rounding and truncation.
        """
        x = _float64(w)
        given = {"scales": self.scales, "bounds": self._lower if self._lower.ndim else self._upper}
        for name, numbers in given.items():
            if numbers.shape not in ((), x.shape):
                got = Words(f"{numbers.size} of them")
                raise ValueError(message(name, got, f"one for each of the {x.size} parameters"))
        # A function of float64 may compute in float32, as JAX does unless told otherwise.
        noise = self.noise or max(self._eps, float(np.finfo(to_numpy(w).dtype).eps))
        return np.asarray(noise**power * np.maximum(np.abs(x), self.scales))

    def _subtract(self, w: Vector) -> tuple[Any, Array]:
        """Return f(w) and its derivative by differences inside the bounds."""
        value, x = self.value(w), _float64(w)
        if not np.all(np.isfinite(value)):
            return value, np.full((*np.shape(value), x.size), math.nan)
        short, long = self._step_sizes(w, 1 / 2), self._step_sizes(w, 1 / 3)
        up, down = np.maximum(self._upper - x, 0.0), np.maximum(x - self._lower, 0.0)
        away = np.copysign(np.minimum(short, np.maximum(up, down)), x)
        room = np.where(away > 0, up, down)
        away = np.where(np.abs(away) > room, -away, away)
        shifts = [[shift] if shift else [] for shift in away]
        if self.scheme == "3-point":
            both = long <= np.minimum(up, down)
            shifts = [
                [h, -h] if two else one for h, two, one in zip(long, both, shifts, strict=True)
            ]
        slopes = self._slopes(w, value, shifts)
        # If no point had a value, the other side may.
        failed = [j for j, found in enumerate(slopes) if shifts[j] and not found]
        if failed:
            others: list[list[float]] = [[] for _ in shifts]
            for j in failed:
                side = -shifts[j][0]
                others[j] = [side] if abs(side) <= (up if side > 0 else down)[j] else []
            again = self._slopes(w, value, others)
            for j in failed:
                slopes[j] = again[j]
                if not slopes[j]:
                    raise DifferenceError(
                        f"{self.whose} has no finite value within ±{abs(shifts[j][0]):.3g} of "
                        f"w[{j}] = {x[j]:.6g}: its gradient cannot be found by differences there. "
                        "Give bounds= that leave room, scales= that fit, or a pair "
                        "(value, gradient)."
                    )
        # A parameter that bounds fix has no slope; two sides are averaged.
        flat = [np.zeros_like(value)]
        return value, np.stack([np.mean(some or flat, axis=0) for some in slopes], axis=-1)

    def _slopes(self, w: Vector, value: Any, shifts: list[list[float]]) -> list[list[Any]]:
        """Return the slopes from w to the shifts of every parameter at which f is finite."""
        moves = [(j, shift) for j, some in enumerate(shifts) for shift in some]
        points = [_moved(w, {j: shift}) for j, shift in moves]
        found: list[list[Any]] = [[] for _ in shifts]
        for (j, _), point, answer in zip(moves, points, self._evaluate(points), strict=True):
            # The step as it is taken, after rounding to the dtype of w.
            taken = float(point[j]) - float(w[j])
            if taken and np.shape(answer) == np.shape(value) and np.all(np.isfinite(answer)):
                found[j].append((answer - value) / taken)
        return found

    def second(self, w: Vector) -> Array:
        """Return second differences, symmetric and inside the bounds; d² + d + 1 values."""
        x = _float64(w)
        steps = np.minimum(self._step_sizes(w, 1 / 4), (self._upper - self._lower) / 2)
        # Near a bound the matrix is that of a point one step inside.
        centre = from_numpy(np.clip(x, self._lower + steps, self._upper - steps), like=w)
        d = x.size
        singles = [{j: side * steps[j]} for side in (1, -1) for j in range(d)]
        pairs = [(i, j) for i in range(d) for j in range(i)]
        doubles = [{i: s * steps[i], j: s * steps[j]} for s in (1, -1) for i, j in pairs]
        answers = self._evaluate([_moved(centre, move) for move in ({}, *singles, *doubles)])
        middle, ahead = answers[0], np.array(answers[1 : d + 1])
        behind, both = np.array(answers[d + 1 : 2 * d + 1]), np.array(answers[2 * d + 1 :])
        bends = ahead - 2 * middle + behind
        hessian = np.diag(bends)
        for (i, j), one, other in zip(pairs, *np.split(both, 2), strict=True):
            mixed = (one - 2 * middle + other - bends[i] - bends[j]) / 2
            hessian[i, j] = hessian[j, i] = mixed
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = hessian / np.outer(steps, steps)
        # Parameters that bounds fix have no curvature.
        return np.where(np.outer(steps, steps) > 0, scaled, 0.0)

    def _ask(self, w: Vector) -> tuple[Any, Array]:
        """Return f(w) and what the user's own derivative answers."""
        assert self._derivative is not None
        value = self.value(w)
        self.calls += 1
        answer, wanted = to_numpy(self._derivative(copy_array(w))), (*np.shape(value), w.shape[0])
        if answer.shape != wanted and np.all(np.isfinite(value)):
            got = Words(f"shape {answer.shape}")
            raise ValueError(message("jacobian(w)", got, f"of shape {tuple(wanted)}"))
        return value, _float64(answer)


def _numbers(name: str, given: Any) -> Array:
    """Return a number or a vector of numbers in float64; infinities are allowed, NaN is not."""
    array = _float64(check.real_array(name, given, "a number or a vector of numbers"))
    if array.ndim > 1 or np.isnan(array).any():
        raise ValueError(message(name, given, "a number or a vector of numbers"))
    return array


def _key(w: Vector) -> bytes:
    return _float64(w).tobytes()


def _float64(x: Any) -> Array:
    return to_numpy(x).astype(np.float64)


def _attempt(function: Callable[[Any], Any], point: Any) -> Any:
    """Return f at a point, or what it raises there."""
    try:
        return function(point)
    except Exception as error:
        return error


def _submit(function: Callable[[Any], Any], point: Any, slots: Any) -> Future[Any]:
    """Start a call in a thread that nobody has to wait for: it may hang."""
    future: Future[Any] = Future()

    def work() -> None:
        with slots:
            if not future.set_running_or_notify_cancel():
                return
            try:
                answer = function(point)
            # Whatever it is, it is raised where the answer is waited for.
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(answer)

    threading.Thread(target=work, daemon=True).start()
    return future


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except Exception as error:
        if "pickle" in str(error):
            allowed = "an executor that the model can be sent to"
            remedy = f"Define the model at the top of a module: {error}."
            raise TypeError(
                message("workers", Words("one of processes"), allowed, remedy)
            ) from error
        raise


def _moved(w: Vector, move: dict[int, float]) -> Vector:
    x = _float64(w)
    for j, shift in move.items():
        x[j] += shift
    return from_numpy(x, like=w)


class Differenced(Summable, Paired):
    """What losses that take differences have in common: a problem tells them its limits."""

    role: ClassVar[str]
    scheme: ClassVar[str]

    def __init__(self, function: Callable[[Any], Any], **settings: Any) -> None:
        self.derivatives = Derivatives(self.role, function, scheme=self.scheme, **settings)

    def within(self, scales: Vector | None, bounds: tuple[Any, Any] | None) -> Self:
        """Return the same loss with other scales and bounds, its evaluations counted anew."""
        other = copy.copy(self)
        other.derivatives = self.derivatives.within(scales, bounds)
        return other

    def value(self, w: Vector) -> float:
        """Return the loss."""
        return float(self.derivatives.value(w))

    def gradient(self, w: Vector, *batch: Batch) -> Vector:
        """Return the gradient; a proxy's is NaN if differences fail."""
        try:
            return self.value_and_gradient(w)[1]
        except DifferenceError:
            if batch or self.role == "objective":
                raise
            return from_numpy(np.full(int(w.shape[0]), math.nan), like=w)

    def value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        """Return the loss and its gradient, which share evaluations."""
        value, gradient = self.derivatives.linearise(w)
        return float(value), from_numpy(gradient, like=w)

    def outputs(self, points: Sequence[Vector]) -> list[Array]:
        """Return what the function returns at some points, in parallel if there are workers."""
        return self.derivatives.values(points)

    def terms(self, outputs: Array) -> Any:
        """Return the loss of an output: itself."""
        return float(outputs[0])

    def loss_of(self, outputs: Array) -> float:
        """Return the loss of an output."""
        return float(outputs[0])

    def slopes(self, outputs: Array, jacobian: Array) -> tuple[Any, Array]:
        """Return the loss and its gradient by the parameters."""
        return self.terms(outputs), jacobian[0]

    @property
    def evaluations(self) -> int:
        """Calls of the function, and of a derivative of your own, so far."""
        return self.derivatives.calls

    @property
    def gradient_source(self) -> str:
        """Where the gradients come from."""
        return self.derivatives.source

    @property
    def facts(self) -> Facts:
        """What else is known of the loss."""
        return Facts(
            gradient_source=self.gradient_source, convex=self.role == "objective",
            values_alone=True, noise=self.derivatives.noise,
        )  # fmt: skip


class ValueObjective(Differenced):
    """An expensive loss given by its value alone, as ``Problem(fine, coarse)`` makes of a function.

    Gradients are 2-point differences: one takes d + 1 evaluations, the value included, which
    ``Ledger.target_calls`` counts. A point beside w where the function raises or is not finite
    gives way to the one on the other side. After the first point an ArithmeticError or a
    LinAlgError is taken for NaN: methods can turn back from that.

    Parameters
    ----------
    function : callable
        ``function(w)`` returns a number.
    workers : int or concurrent.futures.Executor
        Evaluate the points of a gradient in this many threads, or in your own pool: a
        ``ProcessPoolExecutor`` for functions that are slow in Python itself.
    noise : float, optional
        Relative error of the values, such as the tolerance of an adaptive solver; steps grow with
        it. By default that of rounding, and the steps are SciPy's.
    scales : array, optional
        A typical size of each parameter, 1 by default: the least size that steps are relative to.
    bounds : pair of arrays, optional
        Lower and upper limits, which no evaluation leaves: differences are one-sided there.
    timeout : float, optional
        Seconds for one evaluation beside others; what takes longer counts as NaN, and the others'
        answers are kept. The call is then made in a thread, which is left to itself.

    Examples
    --------
    >>> import numpy as np
    >>> loss = ValueObjective(lambda w: float(np.sum(w**4)))
    >>> loss.gradient(np.array([1.0, -2.0])).round(5), loss.evaluations
    (array([  4., -32.]), 3)
    >>> loss.gradient_source
    '2-point differences'
    """

    exact = True
    repeatable = True
    role, scheme = "objective", "2-point"

    def sample(self, rng: np.random.Generator) -> Batch:
        """Return None: there is one batch only."""
        return None

    def everything(self) -> Batch:
        """Return None: every gradient is exact."""
        return None


class ValueProxy(Differenced):
    """A cheap loss given by its value alone, as ``Problem(fine, coarse)`` makes of a function.

    If the function has no value beside a point, its gradient is NaN, from which solvers turn
    back.

    Parameters
    ----------
    function : callable
        ``function(w)`` returns a number.
    workers, noise, scales, bounds, timeout
        As of :class:`ValueObjective`, but differences are of three points.

    Examples
    --------
    >>> import numpy as np
    >>> loss = ValueProxy(lambda w: float(np.sum(w**4)))
    >>> loss.hessian(np.array([1.0, -2.0])).round(3) + 0.0
    array([[12.,  0.],
           [ 0., 48.]])
    """

    role, scheme = "proxy", "3-point"

    def hessian(self, w: Vector) -> Matrix:
        """Return ∇²L̂(w), by differences of d² + d + 1 values."""
        return from_numpy(self.derivatives.second(w), like=w)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²L̂(w) v, from the gradients at two points along v."""
        length = norm(v)
        if length == 0:
            return zeros_like(v)
        step = rounding(w, 1 / 4)
        move = step * max(1.0, norm(w)) / length * v
        return (self.gradient(w + move) - self.gradient(w - move)) * (length / (2 * norm(move)))
