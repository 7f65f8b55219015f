"""Everything that is checked and filled in before the first step, and before anything is paid."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from proxyprox._util.arrays import Vector, dtype_name
from proxyprox._util.text import method_named
from proxyprox._util.validation import (
    Words,
    count_words,
    has,
    message,
    nonnegative,
    offers,
    require,
    whole,
)
from proxyprox.advice.sampling import sampling_method
from proxyprox.averaging import Averaging
from proxyprox.inner import Auto, ProximalGradient
from proxyprox.inner.base import needs_of
from proxyprox.inner.exact import find_minimum
from proxyprox.learning import Nested, proxy_for
from proxyprox.methods import (
    DANE,
    SGD,
    Defaults,
    ManifoldMapping,
    Method,
    ProxyBFGS,
    ProxyProx,
    ValueMapping,
)
from proxyprox.methods.mapping import maps_outputs
from proxyprox.penalties import Box
from proxyprox.problems import Problem, Zero
from proxyprox.problems.problem import (
    check_signatures,
    facts_of,
    is_exact,
    require_allowed,
    require_problem,
    starting_point,
)
from proxyprox.result import Budget, Ledger
from proxyprox.stepsizes import StepSize
from proxyprox.stopping import Convex, Criterion, Relative, SDane, StronglyConvex


@dataclass(frozen=True)
class DefaultsPolicy:
    """What a run is given if its caller says nothing.

    ``docs/results/rounds`` set ``close`` and ``far``; the other numbers are judgements.

    Attributes
    ----------
    sampled_method, rival : Method
        What sampled gradients are minimised with, and what a safeguarded run is compared with
        (``python benchmarks/safeguard.py`` compares the rivals).
    most_steps : int
        Rounds of a run that is to end by its gradient.
    small, small_rough : float
        Shares of the first gradient that are small: in float64, and in float32 or by differences.
        With 1e-6 half of the runs in float32 end in rounding: they take 10 to 40 rounds more and
        gain nothing.
    close : float
        The share of the first gap that may be left, by a method's own model of the loss; no more
        than that is spent in float64. benchmarks/rounds.py compares it with what is left.
    far : float
        A small gradient ends no run whose model leaves more than this many times ``close``.
    """

    sampled_method: ClassVar[Method] = ProxyProx(eta="auto")
    rival: ClassVar[Method] = SGD(eta="auto")
    most_steps: int = 1000
    small: float = 1e-8
    small_rough: float = 1e-5
    close: float = 1e-9
    far: float = 1e3


POLICY = DefaultsPolicy()


# (tol, atol); None is the share for the dtype.
Tolerances = tuple[float | None, float]


def rival_for(problem: Problem, safeguard: Any) -> Method | None:
    """Return what a safeguarded run is compared with; None if it is to run alone."""
    if safeguard is False:
        return None
    if safeguard is not True and (not isinstance(safeguard, Method) or safeguard.uses_proxy):
        allowed = "True, False or a method without a proxy, such as SGD(0.1) or Adam(0.01)"
        fits = isinstance(safeguard, type) and not getattr(safeguard, "uses_proxy", True)
        remedy = f"Call it: safeguard={safeguard.__name__}(...)." if fits else ""
        raise TypeError(message("safeguard", safeguard, allowed, remedy))
    require_allowed(problem.objective, "safeguard")
    if not getattr(problem.objective, "repeatable", True):
        remedy = "Its batches may be asked once, and the rival answers on the same ones."
        raise ValueError(message("safeguard", safeguard, "False for this objective", remedy))
    return POLICY.rival if safeguard is True else safeguard


def choose_ends(
    problem: Problem, method: Any, steps: int | None, limits: Budget | None, tol: Any, atol: Any,
    *, alone: bool,
) -> tuple[int | None, Tolerances | None]:  # fmt: skip
    """Return the steps to take at most and the tolerances, if the gradients may end the run."""
    exact = bool(getattr(method, "exact", False)) or is_exact(problem.objective)
    numbers = {
        name: nonnegative(name, number, "It bounds the gradient's norm.")
        for name, number in (("tol", tol), ("atol", atol))
        if number is not None
    }
    if numbers and not exact:
        remedy = (
            "Limit steps or the budget, name a method of full gradients such as "
            'DANE(eta="auto"), or give an objective of exact ones the attribute exact=True.'
        )
        allowed = "left out if gradients are sampled: noise never gets small"
        raise ValueError(message(*next(iter(numbers.items())), allowed, remedy))
    ends = (numbers.get("tol", 0.0), numbers.get("atol", 0.0)) if numbers else None
    if steps is None and limits is None:
        if ends is None and not exact:
            raise ValueError(
                "steps or budget must be given: without either a run of sampled gradients has no "
                "end. An objective whose gradients are all exact says so: exact = True."
            )
        return POLICY.most_steps, ends or (None, 0.0)
    # Steps and budgets are limits then: what is not needed is not spent.
    limited = (exact and method is None and alone) or getattr(method, "asks_outputs", False)
    return steps, ends or ((None, 0.0) if limited else None)


def default_tolerance(objective: Any, like: Vector) -> tuple[float, str]:
    """Return the share of the first gradient that is small, and what to say of it."""
    small, rough = POLICY.small, POLICY.small_rough
    if dtype_name(like) != "float32":
        return (small if getattr(objective, "evaluations", None) is None else rough), ""
    return rough, (
        f"The numbers are float32: {rough:.0e} of the first gradient is small there, {small:.0e} "
        "in float64, which can reach a lower loss."
    )


def share_left(objective: Any, like: Vector, gaps: tuple[float, float]) -> float:
    """Return what a method's model leaves to gain, in units of what is close enough; or NaN."""
    if default_tolerance(objective, like)[0] != POLICY.small:
        # Losses of so few digits do not show it.
        return math.nan
    left, first = gaps
    return left / (POLICY.close * first) if first > 0 else math.nan


def complete_parts(
    problem: Problem, w0: Vector | str | None, method: Any, inner: Any | None,
    stop: Criterion | None, averaging: Averaging | None, expected_steps: int | None, ledger: Ledger,
) -> tuple[Vector, Any, Criterion, str, str, str]:  # fmt: skip
    """Return w0, the inner solver, its criterion and why those two, after checking that all fit.

    The last text is what there is to say of w0; the search for it is entered in the ledger.
    """
    require_problem(problem)
    check_signatures(problem)
    _check_method(method, problem)
    if expected_steps is not None:
        whole("expected_steps", expected_steps)
    for name, part in (("inner", inner), ("stop", stop)):
        if method.defaults() is None and part is not None:
            allowed = f"left out: {type(method).__name__} solves no subproblems"
            raise TypeError(message(name, part, allowed, "Or name another method."))
    start, note = find_start(problem, w0, ledger)
    proxy = problem.proxy if method.uses_proxy else Zero()
    inner, why_inner = _choose_inner(inner, method, proxy, problem.penalty, int(start.shape[0]))
    stop, why_stop = choose_stop(stop, problem, method, expected_steps)
    require(f"stop={stop!r}", "proxy", proxy, stop.needs, "Use another rule, such as SDane().")
    if isinstance(averaging, type) or not (averaging is None or hasattr(averaging, "share")):
        allowed = "one of Last(), Adaptive(), Uniform() and Geometric(weight)"
        raise TypeError(message("averaging", averaging, allowed))
    return start, inner, stop, why_inner, why_stop, note


def choose_method(
    problem: Problem, *, solves: bool = False, first: tuple[Any, ...] = ()
) -> tuple[Any, str]:
    """Return the default method, and why; ``solves`` asks for one with subproblems.

    ``first`` may hold a batch that was drawn: None, all of the data, shows that there is no noise.
    Sampled gradients are never exchanged for full ones, which would buy every label.
    """
    require_problem(problem)
    all_data = bool(first) and first[0] is None
    if not is_exact(problem.objective) and not all_data:
        return POLICY.sampled_method, " (the default for sampled gradients)"
    why = " (chosen because the target's gradients are exact"
    if problem.same_curvature:
        return DANE(eta=math.inf), f"{why} and the proxy has its curvature: one step solves it)"
    if not (problem.penalty is None or isinstance(problem.penalty, Box)):
        return DANE(eta="auto"), f"{why} and there is a non-smooth penalty)"
    if solves:
        return DANE(eta="auto"), f"{why})"
    if maps_outputs(problem):
        return ManifoldMapping(), " (chosen because both losses are of a model's outputs)"
    if maps_outputs(problem, values=True):
        return ValueMapping(), " (chosen because both losses are functions without gradients)"
    sampled = sampling_method(problem, -math.log(POLICY.close))
    if sampled is not None:
        return sampled[0], f" (chosen by size and shape: {sampled[1]})"
    return ProxyBFGS(), f"{why})"


def draw_first(problem: Problem, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return the first batch, in a tuple, of an objective that does not say if it is exact."""
    require_problem(problem)
    objective = problem.objective
    if getattr(objective, "exact", None) is not None or not has(objective, "everything"):
        return ()
    # What the sampler raises here it raises again when the run asks it.
    with contextlib.suppress(Exception):
        return (objective.sample(rng),)
    return ()


def note_full_gradient(problem: Problem) -> str:
    """Return, for sampled gradients, that one full gradient would do where that is known."""
    objective = problem.objective
    if is_exact(objective) or not has(objective, "everything") or not problem.same_curvature:
        return ""
    samples = getattr(objective, "samples", None)
    paid = f" ({count_words(int(samples(objective.everything())), 'sample')})" if samples else ""
    return (
        f"The proxy has the target's curvature: one full gradient{paid} would solve the problem, "
        "with method=DANE(eta=math.inf)."
    )


def find_start(problem: Problem, w0: Any, ledger: Ledger) -> tuple[Vector, str]:
    """Return the starting point, the proxy's minimum if that is asked for, and what to say of it.

    The search is entered in the ledger.
    """
    wanted, note = isinstance(w0, str) and w0 == "proxy", ""
    start = starting_point(problem, None if wanted else w0)
    # An indicator, such as Box: its prox is the projection, and a run stays inside.
    project = getattr(problem.penalty, "project", None)
    if project is not None:
        inside = project(start)
        if outside := int((inside != start).sum()):
            parameters = count_words(outside, "parameter")
            note = f"w0 was outside the bounds in {parameters}: the run began at the nearest point."
        start = inside
    if not wanted:
        return start, note
    begun, proxy = time.perf_counter(), proxy_for(problem.proxy, ledger, start)
    zero = isinstance(problem.proxy, Zero)
    found = None if zero else find_minimum(proxy, start, penalty=problem.penalty)
    ledger.seconds += time.perf_counter() - begun
    if found is None:
        return start, "No minimum of the proxy was found to start at: the run began as without it."
    return found, ""


def _check_method(method: Any, problem: Problem) -> None:
    # Asked by name: a wrapper that delegates is a method, too.
    whole_method = all(hasattr(method, name) for name in ("init", "ask", "tell", "answer"))
    rule = getattr(method, "step_size", None)
    if isinstance(method, type) or not (whole_method and isinstance(rule, StepSize)):
        got, remedy = method, "One of your own is a subclass of proxyprox.Method."
        if isinstance(method, type):
            got = Words(f"the class {method.__name__}")
            remedy = f'Call it: method={method.__name__}(eta="auto").'
        elif isinstance(method, str):
            remedy = method_named(method)
        raise TypeError(message("method", got, 'a method, such as ProxyProx(eta="auto")', remedy))
    objective, name = problem.objective, type(method).__name__
    needs = tuple(need for need in method.needs if need != "everything")
    # Whatever an exact objective draws is all of the data.
    if (method.exact or "everything" in method.needs) and not is_exact(objective):
        needs = ("everything", *needs)
    instead = "Use ProxyProx, which needs sampled gradients only."
    options = facts_of(objective).options
    lacking = [options[need] for need in needs if need in options and not has(objective, need)]
    instead += "".join(f" Or give {type(objective).__name__} {option}." for option in lacking)
    require(f"method={name}", "objective", objective, needs, instead)
    if rule.measures:
        require_allowed(objective, "measured step sizes")
    if method.two_points and not getattr(objective, "repeatable", True):
        raise TypeError(
            f"method={method!r} evaluates each batch at two points, but the objective says that "
            "its batches are not repeatable. Use ProxyProx, with correction=Plain() or EMA(0.1)."
        )


def _choose_inner(inner: Any, method: Any, proxy: Any, penalty: Any, size: int) -> tuple[Any, str]:
    own, choose = getattr(method.defaults(), "inner", None), inner is None
    suits = own is not None and all(has(proxy, need) for need in needs_of(own))
    if choose and suits and penalty is None:
        return own, f" (the default of {type(method).__name__})"
    picked, reason = Auto().choose(proxy, penalty, size)
    if choose or isinstance(inner, Auto):
        if facts_of(proxy).helper is not None:
            return Nested(), " (picked because the proxy has a proxy of its own)"
        return picked, f" (picked because {reason})"
    if not offers(inner, "solve"):
        raise TypeError(message("inner", inner, "an inner solver, such as Newton()"))
    if penalty is not None and not inner.handles_penalty:
        raise TypeError(
            f"inner={inner!r} cannot minimise a non-smooth penalty such as {penalty!r}. "
            f"Use {ProximalGradient.__name__}() or leave inner out."
        )
    instead = f"Use {type(picked).__name__}(), or leave inner out."
    if "smoothness" in needs_of(inner) and hasattr(inner, "step_size"):
        instead = f"Give {type(inner).__name__} a step_size, or: {instead}"
    require(f"inner={inner!r}", "proxy", proxy, needs_of(inner), instead)
    return inner, ""


def choose_stop(
    stop: Criterion | None, problem: Problem, method: Any, expected_steps: int | None
) -> tuple[Criterion, str]:
    """Return the rule for the inner solver, and why if it is a default."""
    if stop is not None:
        if not isinstance(stop, Criterion):
            allowed = "a stopping rule, such as StronglyConvex(mu=1e-3) or Steps(20)"
            raise TypeError(message("stop", stop, allowed))
        return stop, ""
    own = method.defaults() or Defaults()
    if own.stop is not None:
        return own.stop, f" (the default of {type(method).__name__})"
    rule = method.step_size
    if not rule.measures and math.isinf(rule.eta(rule.init(None, problem, uses_proxy=True), 0)):
        return Relative(POLICY.small), " (the default without a proximal term)"
    mu = getattr(problem.objective, "strong_convexity", None) or 0.0
    if mu > 0:
        return StronglyConvex(mu), " (the default: the objective is strongly convex)"
    if expected_steps is not None:
        why = " (the default: the objective is not known to be strongly convex)"
        return Convex(expected_steps), why
    return SDane(), " (the default: neither μ nor the number of steps is known)"


def require_countable(problem: Any, method: Any, limits: Budget | None) -> None:
    """Refuse a limit on what is never counted in this run: it would not end it."""
    objective, proxy = getattr(problem, "objective", None), getattr(problem, "proxy", None)
    free = isinstance(proxy, Zero) or not getattr(method, "uses_proxy", True)
    uncounted = {"proxy_gradients": "the method uses no proxy"} if free else {}
    for name, part in {"cost": "cost", "epsilon": "epsilon", "target_calls": "evaluations"}.items():
        if getattr(objective, part, None) is None:
            uncounted[name] = f"{type(objective).__name__} has no {part}"
    for name, reason in uncounted.items():
        if (limit := getattr(limits, name, None)) is not None:
            allowed = "a limit on something that this run counts"
            remedy = f"Here {reason}: limit something else."
            raise ValueError(message(f"Budget.{name}", limit, allowed, remedy))


def planned_steps(steps: int | None, limits: Budget | None, method: Any) -> int | None:
    """Return how many outer steps a run will take, if its limits tell."""
    if steps is not None or limits is None or limits.target_gradients is None:
        return steps
    return max(1, int(limits.target_gradients) // (1 + getattr(method, "two_points", False)))
