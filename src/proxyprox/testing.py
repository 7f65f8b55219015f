"""Check your own method, objective, proxy or inner solver against the contract of this package.

Each function runs a class of yours on small problems, compares it with slow exact computations,
and raises :class:`ContractError` with what is wrong and what to do. None of them needs pytest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from proxyprox import checkpoint
from proxyprox._util.arrays import (
    Vector,
    copy_array,
    copy_tree,
    from_numpy,
    norm,
    rounding,
    to_numpy,
)
from proxyprox._util.validation import has
from proxyprox.inner import ClosedForm, Newton
from proxyprox.inner.base import InnerResult, Subproblem, needs_of
from proxyprox.methods import Method
from proxyprox.oracle import answer_query
from proxyprox.penalties import L1
from proxyprox.problems import Problem, Quadratic, logistic_regression
from proxyprox.problems.problem import facts_of, halves_of
from proxyprox.run import Run
from proxyprox.stopping import Relative, Residual, Steps

__all__ = ["ContractError", "check_inner_solver", "check_method", "check_objective", "check_proxy"]


class ContractError(AssertionError):
    """A class breaks the contract; the message says where and what to do."""


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise ContractError(text)


def _require_parts(given: Any, *names: str) -> str:
    """Return the name of an object's class; it must have all these attributes."""
    for name in names:
        _require(has(given, name), f"{type(given).__name__} has no {name}.")
    return type(given).__name__


# -- methods ----------------------------------------------------------------------------------


def check_method(
    method: Method, *, problem: Problem | None = None, w0: Vector | None = None, steps: int = 12
) -> None:
    """Check that an outer method keeps the contract.

    It must be a frozen dataclass derived from :class:`~proxyprox.Method`, count its steps, subtract
    ∇L̂ at the point where the target's gradient was taken, give the same bits for the same seed,
    resume bit for bit from a saved state at any step, and run with ``eta="auto"`` (unless it
    refuses that) and on torch tensors (if torch is installed).

    Parameters
    ----------
    method : Method
        The method with its settings.
    problem : Problem, optional
        What to run it on; by default a noisy quadratic with a similar proxy. Give one if the
        method needs more, such as batches that name single rows.
    w0 : array, optional
        Where to start.
    steps : int
        Outer steps of each run.

    Raises
    ------
    ContractError
        If something is broken.

    Examples
    --------
    >>> from proxyprox import ProxyProx
    >>> from proxyprox.testing import check_method
    >>> check_method(ProxyProx(eta=0.5))
    """
    name = type(method).__name__
    _require(not isinstance(method, type), f"{method} is a class: give check_method an instance.")
    _require(isinstance(method, Method), f"{name} is not a subclass of proxyprox.Method.")
    frozen = dataclasses.is_dataclass(method) and method.__dataclass_params__.frozen  # type: ignore[attr-defined]
    _require(frozen, f"{name} is not a frozen dataclass. Decorate it with @dataclass(frozen=True).")
    given = problem is not None
    problem = problem or _quadratics(noise=0.1)
    _check_steps(method, problem, w0, steps)
    with _naming(name):
        _check_bits(method, problem, w0, steps)
    if method.uses_proxy and not given:
        _check_anchor(method, steps)
    # Some methods refuse a measured step size.
    with contextlib.suppress(TypeError, ValueError):
        measured: Any = dataclasses.replace(method, eta="auto")  # type: ignore[type-var]
        with _naming(f'{name} with eta="auto"'):
            _check_bits(measured, problem, w0, steps)
    if not given and importlib.util.find_spec("torch") is not None:
        with _naming(f"{name} on torch tensors"):
            _check_torch(method, steps)


def _quadratics(noise: float = 0.0, *, linear_gap: bool = False, size: int = 24) -> Problem:
    """Return a quadratic target and a proxy, whose gap is linear or slightly curved."""
    rng = np.random.default_rng(12)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    P = basis @ np.diag(np.linspace(1.0, 6.0, size)) @ basis.T
    near = P if linear_gap else P + 0.2 * np.diag(rng.uniform(-1, 1, size))
    b, b_proxy = rng.normal(size=(2, size))
    return Problem(Quadratic(P, b=b, noise=noise), Quadratic(near, b=b_proxy))


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Put a name before the errors of a block, and make contract errors of all of them."""
    try:
        yield
    except Exception as error:
        what = str(error) if isinstance(error, ContractError) else repr(error)
        raise ContractError(f"{name}: {what}") from error


def _steps_of(run: Run, count: int) -> Iterator[Any]:
    """Answer questions of a run from its objective."""
    for _ in range(count):
        told = answer_query(run.problem.objective, run.ask())
        yield run.tell(told.gradients, halves=told.halves, value=told.value)


def _check_steps(method: Method, problem: Problem, w0: Vector | None, steps: int) -> None:
    """Check what the method returns, and where it leads."""
    name = type(method).__name__
    with _naming(name):
        run = Run(problem, w0, method=method, rng=0)
        has_both = all(hasattr(run.state.method, field) for field in ("w", "k"))
    both = f"{name}.init must return a state with the attributes w and k, such as State(w)."
    _require(has_both, both)
    _require(run.steps == 0, f"{name}.init must return a state with k = 0.")
    value = getattr(problem.objective, "value", None) or (lambda w: math.nan)
    start = value(run.w)
    with _naming(name):
        list(_steps_of(run, steps))
    end = value(run.w)
    diverges = f"{name} diverges, from a loss of {start:.3g} to {end:.3g} in {steps} steps."
    remedy = "Check the sign of the linear term and the step size."
    _require(not end > max(10 * abs(start), 1e3), f"{diverges} {remedy}")


def _same(a: Vector, b: Vector) -> bool:
    """Tell whether two arrays have the same entries."""
    return np.array_equal(to_numpy(a), to_numpy(b), equal_nan=True)


def _check_bits(method: Method, problem: Problem, w0: Vector | None, steps: int) -> None:
    """Check that the same seed gives the same bits, also across a save at any step."""
    name = type(method).__name__

    def fresh() -> Run:
        # A new instance: what the method wrote into itself is not part of its state.
        return Run(problem, w0, method=dataclasses.replace(method), rng=3)  # type: ignore[type-var]

    def iterates(run: Run, count: int) -> list[bytes]:
        return [to_numpy(step.w).tobytes() for step in _steps_of(run, count)]

    whole = iterates(fresh(), steps)
    remedy = "Draw random numbers from step.rng only, and keep nothing outside of the state."
    _require(whole == iterates(fresh(), steps), f"{name} is not deterministic. {remedy}")
    for stopped in sorted({0, 1, 2, steps // 2, steps - 1}):
        run, resumed = fresh(), fresh()
        iterates(run, stopped)
        run.ask()
        with tempfile.TemporaryDirectory() as folder:
            path, state = os.path.join(folder, "run"), f"the state of {name} after {stopped} steps"
            with _naming(f"{state} cannot be saved"):
                run.save(path)
            with _naming(f"{state} cannot be loaded"):
                checkpoint.resume(path, resumed)
        same = iterates(resumed, steps - stopped) == whole[stopped:]
        remedy = "Put all that it remembers into the state, as fields of a dataclass."
        _require(same, f"{name} does not resume bit for bit after {stopped} steps. {remedy}")


def _check_anchor(method: Method, steps: int) -> None:
    """Check that the linear term is made of ∇L(p) − ∇L̂(p) with one p for both.

    Where ∇h = ∇L − ∇L̂ is constant, so is every such difference, wherever it is taken. What else
    the linear term holds may be a combination of steps (momentum), but not of changes of ∇L̂.
    """
    name, problem = type(method).__name__, _quadratics(linear_gap=True, size=40)
    gap = problem.objective.b - problem.proxy.b
    run = Run(problem, method=method, rng=0, inner=_RandomMoves())
    moves: list[Vector] = []
    used = False
    for _ in range(min(steps, 10)):
        query = run.ask()
        w = query.points[0]
        step = run.tell([problem.objective.gradient(p, query.batch) for p in query.points])
        if step.subproblem is not None:
            linear, centre = step.subproblem.linear, step.subproblem.centre
            slack = rounding(w, 1 / 2) * (norm(linear) + norm(gap))
            used = used or _unexplained(linear, moves) > slack
            wrong = f"{name} has a wrong anchor: its linear term is not of differences ∇L − ∇L̂."
            remedy = "Use step.proxy.gradient(p) with the point p that ask(state) returned."
            right = _unexplained(linear, [gap, *moves, w - centre]) <= slack
            _require(right, f"{wrong} {remedy}")
        used = used or step.subproblem is None
        moves.append(step.w - w)
    _require(used, f"{name} ignores the target: its linear term holds no gradient that was told.")


class _RandomMoves:
    """An inner solver with random steps, so that momentum cannot imitate a change of ∇L̂."""

    needs = ()
    handles_penalty = False

    def solve(self, phi: Any, start: Vector, stop: Any, memory: Any, rng: Any) -> InnerResult:
        """Return a random point."""
        w = start + rng.normal(size=start.shape[0])
        return InnerResult(w, phi.progress(w, phi.gradient(w), 1))


def _unexplained(vector: Vector, columns: list[Vector]) -> float:
    """Return the length of what a combination of some vectors leaves of another."""
    directions = [c / norm(c) for c in columns if norm(c) > 0]
    if not directions:
        return norm(vector)
    A = np.stack(directions, axis=1)
    found = np.linalg.lstsq(A, vector, rcond=None)[0]
    return norm(vector - A @ found)


def _check_torch(method: Method, steps: int) -> None:
    """Check that torch tensors give what NumPy arrays give."""
    import torch

    problem = _quadratics()
    losses = problem.objective, problem.proxy
    target, proxy = (Quadratic(torch.tensor(loss.P), b=torch.tensor(loss.b)) for loss in losses)
    runs = [Run(each, method=method, rng=0) for each in (problem, Problem(target, proxy))]
    ours, theirs = (to_numpy(list(_steps_of(run, steps))[-1].w) for run in runs)
    close = np.allclose(theirs, ours, rtol=1e-6, atol=1e-8)
    _require(close, "the iterates differ from those of NumPy arrays. Use array operators only.")


# -- losses -----------------------------------------------------------------------------------


def check_objective(
    objective: Any, w: Vector, *, batches: int = 400, rng: np.random.Generator | int | None = 0
) -> None:
    """Check that an expensive loss keeps the contract.

    Checked is what it offers: gradients have the shape and dtype of ``w`` and agree with ``value``
    if the batch is everything; a repeatable batch gives the same gradient twice; batches are
    unbiased, without noise where it says ``exact``; ``halves`` make up
    their batch; ``value_and_gradient`` agrees with both; ``hvp`` and ``hessian`` agree with the
    gradients; ``samples`` and ``cost`` are numbers.

    Parameters
    ----------
    objective : Objective
        The loss.
    w : array
        A point to check it at, of the size and dtype of your parameters; not a minimiser.
    batches : int
        Batches drawn to test that they are unbiased; 0 leaves that out.
    rng : int or numpy.random.Generator, optional
        For the batches.

    Raises
    ------
    ContractError
        If something is broken.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Quadratic
    >>> from proxyprox.testing import check_objective
    >>> check_objective(Quadratic(np.eye(3), noise=0.1), np.ones(3))
    """
    name, rng = _require_parts(objective, "sample", "gradient"), np.random.default_rng(rng)
    batch, repeatable = objective.sample(rng), getattr(objective, "repeatable", True)

    def gradient_of(batch: Any) -> Callable[[Vector], Vector]:
        return lambda point: objective.gradient(point, copy_tree(batch))

    gradient = _check_gradient(name, gradient_of(batch), w, repeatable)
    halves = copy_tree(halves_of(facts_of(objective), batch))
    if halves is not None:
        mean = sum(objective.gradient(copy_array(w), half) for half in halves) / 2
        _require_close(f"{name} is divisible, but the mean of its halves", mean, gradient, 1e-6)
    for count in ("samples", "cost"):
        if has(objective, count):
            number = getattr(objective, count)(copy_tree(batch))
            right = isinstance(number, (int, float, np.number)) and bool(number >= 0)
            _require(right, f"{name}.{count}(batch) is {number!r}, not a number ≥ 0.")
    if not has(objective, "everything"):
        return
    exact, slack = gradient_of(objective.everything()), rounding(w, 1 / 2)
    full = _check_gradient(name, exact, w, repeatable)
    _check_derivatives(name, objective, exact, w, rng)
    if has(objective, "value_and_gradient"):
        value, both = objective.value_and_gradient(copy_array(w), objective.everything())
        _require_close(f"{name}.value_and_gradient: its gradient", both, full, slack)
        if has(objective, "value"):
            known = np.array([float(objective.value(copy_array(w)))])
            _require_close(f"{name}.value_and_gradient: its value", value, known, slack, 1.0)
    if getattr(objective, "exact", False):
        _require_close(f"{name}.exact is True, but a batch's gradient", gradient, full, slack)
    if batches:
        drawn = [objective.gradient(copy_array(w), objective.sample(rng)) for _ in range(batches)]
        sample = np.stack([to_numpy(g) for g in drawn]) - to_numpy(full)
        error = sample.std(0, ddof=1) / math.sqrt(batches)
        bias = np.abs(sample.mean(0))
        worst = int(np.argmax(bias - 6 * error))
        right = bias[worst] <= 6 * error[worst] + 1e-6 * norm(full)
        size = f"by {bias[worst]:.3g} ± {error[worst]:.1g} in entry {worst} of the gradient"
        remedy = "Check the scale of sums and means, and how rows are drawn."
        _require(bool(right), f"{name}.sample is biased against everything() {size}. {remedy}")


def _require_close(what: str, found: Any, known: Any, slack: float, least: float = 0.0) -> None:
    """Require that two vectors or numbers are the same up to a share of the second."""
    away, size = norm(known - found), max(norm(known), least)
    _require(away <= slack * size, f"{what} is not right: it is {away:.3g} off, of {size:.3g}.")


def check_proxy(proxy: Any, w: Vector, *, rng: np.random.Generator | int | None = 0) -> None:
    """Check that a cheap loss keeps the contract.

    ``gradient`` is compared with ``value``, ``hvp`` and ``hessian`` with gradients,
    ``solve_shifted`` with products, ``smoothness`` and ``strong_convexity`` with the curvature
    along random directions; answers are the same twice.

    Parameters
    ----------
    proxy : Proxy
        The loss.
    w : array
        A point to check it at; not a minimiser.
    rng : int or numpy.random.Generator, optional
        For random directions.

    Raises
    ------
    ContractError
        If something is broken.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Quadratic
    >>> from proxyprox.testing import check_proxy
    >>> check_proxy(Quadratic(np.eye(3)), np.ones(3))
    """
    name = _require_parts(proxy, "value", "gradient")
    first, again = float(proxy.value(copy_array(w))), float(proxy.value(copy_array(w)))
    _require(first == again, f"{name}.value gives two answers at one point: {first} and {again}.")
    _check_gradient(name, proxy.gradient, w)
    _check_derivatives(name, proxy, proxy.gradient, w, np.random.default_rng(rng))


def _check_gradient(
    name: str, gradient: Callable[[Vector], Vector], w: Vector, repeatable: bool = True
) -> Vector:
    """Return a gradient that is an array like w and the same twice."""
    found = gradient(copy_array(w))
    like, got = (
        f"{type(x).__name__} of shape {getattr(x, 'shape', None)} and {getattr(x, 'dtype', None)}"
        for x in (w, found)
    )
    _require(got == like, f"{name}.gradient must return a {like} as w is, got a {got}.")
    _require(bool(np.isfinite(to_numpy(found)).all()), f"{name}.gradient is not finite at w.")
    found = copy_array(found)
    if repeatable:
        remedy = "Draw randomness in sample(rng) only; an objective may set repeatable = False."
        again = _same(gradient(copy_array(w)), found)
        _require(again, f"{name}.gradient gives two answers at one point. {remedy}")
    return found


def _check_derivatives(
    name: str, loss: Any, gradient: Callable[[Vector], Vector], w: Vector, rng: np.random.Generator
) -> None:
    """Compare what a loss offers with differences of what it offers besides, along directions."""
    step, slack = (1e-2, 2e-2) if w.dtype.itemsize == 4 else (1e-5, 1e-4)
    hessian = loss.hessian(copy_array(w)) if has(loss, "hessian") else None
    here = gradient(copy_array(w))
    for _ in range(3):
        v = from_numpy(rng.normal(size=w.shape[0]), w)
        h = step * max(1.0, norm(w)) / norm(v)
        curved, rate = (gradient(w + h * v) - gradient(w - h * v)) / (2 * h), float(here @ v)
        if has(loss, "value"):
            slope = (float(loss.value(w + h * v)) - float(loss.value(w - h * v))) / (2 * h)
            size = max(abs(slope), abs(rate), slack * norm(here) * norm(v))
            right, rates = abs(slope - rate) <= slack * size + 1e-9, f"{rate:.6g}, not {slope:.6g}"
            _require(right, f"{name}.gradient is not that of value: its slope is {rates}.")
        products = {"hvp": loss.hvp(copy_array(w), copy_array(v))} if has(loss, "hvp") else {}
        products |= {} if hessian is None else {"hessian": hessian @ v}
        for what, product in products.items() if facts_of(loss).exact_curvature else ():
            size, error = max(norm(curved), norm(product)), norm(product - curved)
            wrong = f"{name}.{what} is not the derivative of gradient: a product of length"
            right = error <= 10 * slack * size + 1e-9
            _require(right, f"{wrong} {size:.3g} is {error:.2g} off.")
        along = float(curved @ v) / norm(v) ** 2
        for bound, sign in (("smoothness", 1), ("strong_convexity", -1)):
            limit = getattr(loss, bound, None)
            right = limit is None or sign * (along - limit) <= slack * (abs(limit) + 1)
            _require(right, f"{name}.{bound} is {limit}, but the curvature is {along:.6g}.")
        if has(loss, "solve_shifted") and hessian is not None:
            x = loss.solve_shifted(copy_array(v), 0.7)
            right = norm(hessian @ x + x / 0.7 - v) <= slack * norm(v)
            _require(right, f"{name}.solve_shifted(v, η) does not solve (∇²L̂ + I/η) x = v.")


# -- inner solvers ----------------------------------------------------------------------------


def check_inner_solver(solver: Any) -> None:
    """Check that an inner solver keeps the contract.

    It must reach the minimiser of small subproblems when the criterion asks for it, stop when the
    criterion holds, report the residual at the point it returns, leave its arguments unchanged,
    and keep nothing outside of ``memory``.

    Parameters
    ----------
    solver : InnerSolver
        The solver with its settings.

    Raises
    ------
    ContractError
        If something is broken.

    Examples
    --------
    >>> from proxyprox import LBFGS
    >>> from proxyprox.testing import check_inner_solver
    >>> check_inner_solver(LBFGS())
    """
    name = _require_parts(solver, "needs", "handles_penalty", "solve")
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 6))
    labels = X @ rng.normal(size=6) + rng.normal(size=80) > 0
    proxies = _quadratics(size=6).proxy, logistic_regression(X, labels, l2=1e-2, batch_size=80)
    penalties = (None, L1(0.05)) if solver.handles_penalty else (None,)
    for proxy, penalty in itertools.product(proxies, penalties):
        if all(has(proxy, need) for need in needs_of(solver)):
            with _naming(f"{name} on a {type(proxy).__name__} proxy"):
                _check_solves(solver, proxy, penalty)


def _check_solves(solver: Any, proxy: Any, penalty: Any) -> None:
    rng = np.random.default_rng(5)
    linear, centre = rng.normal(size=(2, 6)) / 4
    phi, start = Subproblem(proxy, linear, centre, 0.8, penalty), copy_array(centre)
    before, tight = copy_tree((linear, centre)), Relative(1e-6) | Residual(1e-9)

    def solve(stop: Any) -> InnerResult:
        solved: InnerResult = solver.solve(phi, start, stop, {}, np.random.default_rng(0))
        return solved

    solved = solve(tight)
    kept = zip((phi.linear, phi.centre, start), (*before, before[1]), strict=True)
    written = not all(_same(now, was) for now, was in kept)
    _require(not written, "solve writes into the subproblem or the start. Work on copies.")
    true, reported = phi.residual(solved.w, phi.gradient(solved.w)), solved.progress.residual
    wrong = f"the residual it reports is {reported:.3g}, not ‖∇φ‖ = {true:.3g} at its point."
    remedy = "Build the progress with phi.progress(w, phi.gradient(w), steps)."
    _require(abs(true - reported) <= 1e-6 * max(true, reported) + 1e-10, f"{wrong} {remedy}")
    if "sample" not in needs_of(solver):
        first = phi.residual(centre, phi.gradient(centre))
        early = f"it ends at a residual of {true:.3g}, not a millionth of the first, {first:.3g}."
        _require(true <= 1e-5 * first + 1e-8, early)
        again = _same(solve(tight).w, solved.w)
        _require(again, "it gives two answers for one subproblem and seed.")
        if penalty is None:
            exact = Newton() if has(proxy, "hessian") else ClosedForm()
            best = exact.solve(phi, centre, Relative(1e-12) | Residual(1e-13), {}, rng).w
            right = (away := norm(solved.w - best)) <= 1e-4 * (1 + norm(best))
            _require(right, f"its answer is {away:.3g} away from the exact minimiser.")
    if not isinstance(solver, ClosedForm):
        few = solve(Steps(1)).progress.steps
        _require(few <= max(1, getattr(solver, "steps", 1)), "it does not ask the criterion.")
