"""An objective, its proxy and the penalty they share; losses made of functions."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from proxyprox._util.arrays import Matrix, Vector, copy_array, rounding, to_numpy, zeros_like
from proxyprox._util.validation import (
    Words,
    explain_names,
    flag,
    message,
    nonnegative,
    offers,
    positive,
    require,
    require_takes,
    scalar,
    takes,
)
from proxyprox._util.validation import vector as check_vector
from proxyprox.penalties import as_box
from proxyprox.problems.differences import Differenced, ValueObjective, ValueProxy
from proxyprox.problems.protocols import Batch, Facts, Penalty, Summable
from proxyprox.problems.quadratic import Zero

# Stands for the matrix I among the terms of a Hessian.
IDENTITY = "identity"
# How the parts of a problem are called.
CALLS = {
    "objective": {
        "sample": ("rng",), "everything": (), "gradient": ("w", "batch"), "value": ("w",),
        "value_and_gradient": ("w", "batch"),
        "samples": ("batch",), "cost": ("batch",), "hvp": ("w", "v"),
        "gradient_from": ("w", "batch", "observations"),
        "curvature": ("w",), "outputs": ("points",),
    },
    "proxy": {
        "value": ("w",), "gradient": ("w",), "hvp": ("w", "v"), "hessian": ("w",),
        "solve_shifted": ("v", "eta"),
    },
    "penalty": {"value": ("w",), "prox": ("w", "step"), "distance": ("w", "gradient")},
}  # fmt: skip


def facts_of(loss: Any) -> Facts:
    """Return what a loss states of itself, or that nothing is stated."""
    stated = getattr(loss, "facts", None)
    return stated if isinstance(stated, Facts) else Facts()


def halves_of(facts: Facts, batch: Batch) -> tuple[Batch, Batch] | None:
    """Return two batches whose gradients' mean is the batch's: their gap shows its noise."""
    if batch is None or not facts.divisible or len(batch) % 2 or not len(batch):
        return None
    middle = len(batch) // 2
    return batch[:middle], batch[middle:]


def hessian_terms(loss: Any) -> list[tuple[float, Any]]:
    """Return numbers and losses whose Hessians make up that of a loss; mostly itself, once."""
    stated = facts_of(loss).hessian_terms
    return [(1.0, loss)] if stated is None else list(stated)


def same_hessian(one: Any, other: Any) -> bool:
    """Tell whether the terms of two losses' Hessians cancel."""
    found: list[list[Any]] = []
    for sign, loss in ((1.0, one), (-1.0, other)):
        for factor, leaf in hessian_terms(loss):
            group = next((g for g in found if g[0] is leaf or g[0] == leaf), None)
            if group is None:
                found.append(group := [leaf, 0.0, 0.0])
            group[1] += sign * factor
            group[2] += abs(factor)
    return all(abs(net) <= rounding() * size for _, net, size in found)


def no_batch() -> None:
    """Stand for the one batch there is; named, because a lambda cannot be pickled."""


class FunctionObjective(Summable):
    """An expensive loss given by functions.

    Parameters
    ----------
    gradient : callable
        ``gradient(w)`` for an exact gradient, or ``gradient(w, batch)`` when ``sample`` is given.
    value : callable, optional
        ``value(w)``; only used to report, never needed to minimise.
    sample : callable, optional
        ``sample(rng)`` draws the batch that ``gradient`` is handed.
    repeatable : bool
        Whether a batch may be evaluated at a second point. A robot's rollout may not.
    samples : callable, optional
        ``samples(batch)``: how many target samples a batch holds (default: its length, or 1).
    cost : callable, optional
        ``cost(batch)``: what one gradient costs, in a unit of your own.
    everything : callable, optional
        ``everything()`` returns the batch whose gradient is exact; lets DANE run where ``sample``
        is given. Without ``sample`` every gradient is exact.
    hvp : callable, optional
        ``hvp(w, v)``: the exact Hessian times v; an audit measures curvature with it.
    value_and_gradient : callable, optional
        Both at once, as a pair, with the arguments of ``gradient``: for methods that use values,
        where one computation gives both.

    Examples
    --------
    >>> import numpy as np
    >>> noisy = FunctionObjective(lambda w, noise: w + noise, sample=lambda rng: rng.normal(size=2))
    >>> noisy.gradient(np.zeros(2), np.ones(2))
    array([1., 1.])
    """

    # The arguments that give it what methods may need.
    facts = Facts(
        options={
            "everything": "everything=, which returns the batch of all data",
            "samples": "samples=, which counts a batch (samples=len)",
        }
    )

    def __init__(
        self, gradient: Callable[..., Vector], *, value: Callable[[Vector], float] | None = None,
        sample: Callable[[np.random.Generator], Batch] | None = None, repeatable: bool = True,
        samples: Callable[[Batch], int] | None = None,
        cost: Callable[[Batch], float] | None = None,
        everything: Callable[[], Batch] | None = None,
        hvp: Callable[[Vector, Vector], Vector] | None = None,
        value_and_gradient: Callable[..., tuple[float, Vector]] | None = None,
    ) -> None:  # fmt: skip
        alone = sample is None
        given = {
            "samples": samples, "cost": cost, "value": value, "sample": sample, "hvp": hvp,
            "everything": everything,
        }  # fmt: skip
        for name, function in given.items():
            require_takes(name, function, CALLS["objective"][name])
        both = ("w",) if alone else ("w", "batch")
        require_takes("value_and_gradient", value_and_gradient, both)
        if not takes(gradient, len(both)):
            allowed = f"a function of w {'alone' if alone else 'and a batch'}"
            remedy = "With sample=... it is handed what sample(rng) drew; without it, w alone."
            raise TypeError(message("gradient", gradient, allowed, remedy))
        if alone and everything is not None:
            remedy = "Without sample= there is but one batch, and every gradient is exact."
            raise TypeError(message("everything", everything, "left out", remedy))
        self._gradient, self._sample = gradient, sample
        self.value, self.hvp, self.samples, self.cost = value, hvp, samples, cost
        self.exact, self._both = alone, value_and_gradient
        self.value_and_gradient = None if self._both is None else self._value_and_gradient
        self.repeatable = flag("repeatable", repeatable)
        # Without a sampler the function is the exact gradient: there is only one batch.
        self.everything = no_batch if alone else everything

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw a batch (None when the gradient is exact)."""
        return None if self._sample is None else self._sample(rng)

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return the user's gradient."""
        return self._gradient(w) if self._sample is None else self._gradient(w, batch)

    def _value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        both: Any = self._both
        value, gradient = both(w) if self._sample is None else both(w, batch)
        return value, gradient


class FunctionProxy(Summable):
    """A cheap loss given by functions.

    Parameters
    ----------
    value, gradient : callable
        ``value(w)`` and ``gradient(w)``.
    hvp : callable, optional
        ``hvp(w, v)``; lets Newton-CG run.
    hessian : callable, optional
        ``hessian(w)``; lets Newton's method run.
    smoothness : float, optional
        A bound H on the Hessian; lets gradient descent choose its step.
    strong_convexity : float, optional
        A bound μ ≥ 0 on the Hessian's smallest eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> proxy = FunctionProxy(lambda w: float(w @ w) / 2, lambda w: w, smoothness=1.0)
    >>> proxy.value(np.ones(4))
    2.0
    """

    def __init__(
        self, value: Callable[[Vector], float], gradient: Callable[[Vector], Vector], *,
        hvp: Callable[[Vector, Vector], Vector] | None = None,
        hessian: Callable[[Vector], Matrix] | None = None,
        smoothness: float | None = None, strong_convexity: float = 0.0,
    ) -> None:  # fmt: skip
        for name, function in {"value": value, "gradient": gradient}.items():
            if not takes(function, 1):
                remedy = "A proxy is cheap: give it exact values and gradients."
                raise TypeError(message(name, function, "a function of w alone", remedy))
        require_takes("hvp", hvp, ("w", "v"))
        require_takes("hessian", hessian, ("w",))
        self._value, self._gradient = value, gradient
        self.hvp, self.hessian = hvp, hessian
        self.smoothness = None if smoothness is None else positive("smoothness", smoothness)
        self.strong_convexity = nonnegative("strong_convexity", strong_convexity)

    def value(self, w: Vector) -> float:
        """Return L̂(w)."""
        return scalar("the proxy's value", self._value(w))

    def gradient(self, w: Vector) -> Vector:
        """Return ∇L̂(w)."""
        return self._gradient(w)


@dataclass(frozen=True)
class Problem:
    """Minimise ``L(w) + ψ(w)`` with the help of ``L̂(w) + ψ(w)``.

    Parameters
    ----------
    objective : Objective, callable or pair of callables
        The expensive loss. A function of ``w`` that returns its value will do, and so will a pair
        ``(value, gradient)`` of functions, whose ``value`` may be None.
    proxy : Proxy, callable or pair of callables, optional
        The cheap loss. Left out, it is zero, and every method becomes its proxy-free self. Of a
        list of proxies, or a dict with their names, a run finds out what each is worth. Another
        Problem is a ladder: its objective is the proxy, and has a proxy of its own.
    penalty : Penalty, optional
        A non-smooth term shared by both, such as :class:`~proxyprox.penalties.L1`. It is added
        to both losses; the gradients of objective and proxy do not include it.
    bounds : pair (lower, upper), optional
        Numbers, arrays or None, or SciPy's ``Bounds``: becomes the penalty
        :class:`~proxyprox.penalties.Box`, which no other may join.
    scales : float or array of shape (d,), optional
        A typical size of each parameter, for methods and gradients that need units.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem
    >>> target = (lambda w: float((w - 3) @ (w - 3)) / 2, lambda w: w - 3)
    >>> problem = Problem(target, proxy=(lambda w: float(w @ w) / 2, lambda w: w))
    >>> problem.value(np.array([1.0]))
    2.0
    >>> problem = Problem(lambda w: float((w - 3) @ (w - 3)) / 2, proxy=lambda w: float(w @ w) / 2)
    >>> problem.objective.gradient(np.array([1.0])).round(6)
    array([-2.])
    """

    objective: Any
    proxy: Any = field(default_factory=Zero)
    penalty: Penalty | None = None
    bounds: Any = field(default=None, kw_only=True, compare=False)
    scales: Any = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        """Wrap callables and check that both parts can do the least that is asked."""
        for role in ("objective", "proxy"):
            object.__setattr__(self, role, _as_loss(role, getattr(self, role)))
        if not (self.penalty is None or offers(self.penalty, "value", "prox", "distance")):
            allowed = "a penalty with value, prox and distance, such as L1(0.1)"
            raise TypeError(message("penalty", self.penalty, allowed))
        levels = [self.objective, *facts_of(self.proxy).levels]
        if len(levels) > 1 and len({id(level) for level in levels}) < len(levels):
            got = Words("a ladder with the same loss on two levels")
            raise ValueError(message("proxy", got, "finer above, coarser below, without a circle"))
        dims = self._dims()
        self._check_units(next(iter(dims), None))
        if len(set(dims)) > 1:
            allowed = f"of as many parameters as the objective, {dims[0]}"
            remedy = "Build both from the same columns (and the same intercept setting)."
            raise ValueError(message("proxy", Words(f"{dims[1]} parameters"), allowed, remedy))
        starts = [facts_of(part).start for part in (self.objective, self.proxy)]
        kinds = [getattr(start, "dtype", None) for start in starts]
        # A mixture of libraries is named when the run begins.
        if type(starts[0]) is type(starts[1]) and kinds[0] != kinds[1]:
            allowed = f"of the objective's dtype, {kinds[0]}"
            remedy = "Convert the data of one of them."
            raise TypeError(message("proxy", Words(f"dtype {kinds[1]}"), allowed, remedy))
        self._pass_on_limits()

    def _pass_on_limits(self) -> None:
        """Tell the parts that take differences the scales and the bounds of the parameters."""
        lower, upper = (getattr(self.penalty, name, None) for name in ("lower", "upper"))
        bounds = None if lower is None and upper is None else (lower, upper)
        scales = self.scales
        for role in ("objective", "proxy"):
            part = getattr(self, role)
            if isinstance(part, Differenced) and not (scales is None and bounds is None):
                object.__setattr__(self, role, part.within(scales, bounds))

    def _check_units(self, size: int | None) -> None:
        """Turn bounds into the penalty, and scales into an array."""
        if self.bounds is not None:
            box = as_box(self.bounds)
            if self.penalty is not None and self.penalty is not box:
                raise TypeError(message("penalty", self.penalty, "left out if there are bounds"))
            if size is not None and box.size not in (None, size):
                got = Words(f"{box.size} of them")
                raise ValueError(message("bounds", got, f"one for each of the {size} parameters"))
            object.__setattr__(self, "bounds", box)
            object.__setattr__(self, "penalty", box)
        if self.scales is not None:
            given = self.scales
            if isinstance(given, numbers.Real) and size is not None:
                given = np.full(size, positive("scales", given))
            scales = to_numpy(check_vector("scales", given, size))
            if not bool((scales > 0).all()):
                raise ValueError(message("scales", self.scales, "above zero everywhere"))
            object.__setattr__(self, "scales", scales)

    @property
    def dim(self) -> int | None:
        """Number of parameters, where either part knows it."""
        return next(iter(self._dims()), None)

    @cached_property
    def same_curvature(self) -> bool:
        """Whether both losses are known to have the same Hessian everywhere: δ = 0."""
        return same_hessian(self.objective, self.proxy)

    def _dims(self) -> list[int]:
        dims = (getattr(part, "dim", None) for part in (self.objective, self.proxy))
        return [dim for dim in dims if isinstance(dim, int)]

    def with_proxy(self, proxy: Any) -> Problem:
        """Return the problem with another object in the proxy's place, which is not checked."""
        twin = copy.copy(self)
        object.__setattr__(twin, "proxy", proxy)
        return twin

    def value(self, w: Vector) -> float:
        """Return L(w) + ψ(w); the objective must offer values."""
        require("Problem", "objective", self.objective, ("value",), "Pass a value function.")
        total = float(self.objective.value(copy_array(w)))
        return total if self.penalty is None else total + float(self.penalty.value(copy_array(w)))


Problem.__init__ = explain_names(Problem.__init__)  # type: ignore[method-assign]


def _as_loss(role: str, given: Any) -> Any:
    target = role == "objective"
    if isinstance(given, (list, dict)) and not target:
        return _as_several(given)
    if isinstance(given, Problem) and not target:
        from proxyprox.problems.several import Ladder

        return Ladder(given)
    if isinstance(given, tuple) and len(given) == 2 and callable(given[1]):
        return (FunctionObjective if target else FunctionProxy)(value=given[0], gradient=given[1])
    if offers(given, "sample" if target else "value", "gradient"):
        return given
    if callable(given) and not isinstance(given, type):
        return (ValueObjective if target else ValueProxy)(given)
    methods = "sample and gradient" if target else "value and gradient"
    allowed = f"an object with {methods}, a function of w that returns a number, or a pair of "
    several = isinstance(given, tuple) and not target
    remedy = "Several proxies are a list: Problem(target, [a, b])." if several else ""
    raise TypeError(message(role, given, f"{allowed}callables (value, gradient)", remedy))


def _as_several(given: list[Any] | dict[str, Any]) -> Any:
    """Return several proxies as one; a list of one is that proxy."""
    # Here, because combinations are made of what this module knows.
    from proxyprox.problems.several import Several

    named = given if isinstance(given, dict) else {str(i): x for i, x in enumerate(given, 1)}
    if not named:
        raise ValueError(message("proxy", given, "at least one proxy", "Leave it out for none."))
    losses = {name: _as_loss("proxy", each) for name, each in named.items()}
    return Several(losses) if len(losses) > 1 else next(iter(losses.values()))


# -- what is checked before anything is paid ------------------------------------------------------


def require_problem(problem: Any) -> None:
    """Refuse what is not a Problem, and say how to make one."""
    if not isinstance(problem, Problem):
        remedy = "Wrap it: Problem(objective, proxy)."
        raise TypeError(message("problem", problem, "a Problem", remedy))


def require_ready(problem: Problem) -> None:
    """Refuse a target that says it cannot answer, one without labels for example."""
    if reason := facts_of(problem.objective).unready:
        raise ValueError(reason)


def require_enough(objective: Any, steps: int | None) -> None:
    """Refuse more steps than the objective will answer."""
    most = facts_of(objective).most_gradients
    if most is not None and steps is not None and steps > most:
        name = type(objective).__name__
        allowed = f"at most {most:,}, the gradients that were planned for {name}"
        raise ValueError(message("steps", steps, allowed))


def require_allowed(objective: Any, use: str) -> None:
    """Refuse a use of the objective that it says it is not for, and give its reason."""
    reason = facts_of(objective).refuses.get(use)
    if reason:
        raise TypeError(f"{type(objective).__name__} refuses {use}: {reason}.")


def check_signatures(problem: Problem) -> None:
    """Refuse functions of other arguments before a gradient is paid for."""
    for role, calls in CALLS.items():
        part = getattr(problem, role)
        for name, arguments in calls.items():
            require_takes(f"{role}.{name}", getattr(part, name, None), arguments)


def is_exact(objective: Any) -> bool:
    """Tell whether every gradient of an objective is known to be exact."""
    return bool(getattr(objective, "exact", False))


def starting_point(problem: Problem, w0: Vector | None) -> Vector:
    """Return w0, checked and copied; if it was left out, the problem's own start, or zeros."""
    size = problem.dim
    known = [facts_of(part).start for part in (problem.objective, problem.proxy)]
    if w0 is None:
        w0 = known[0]
    if w0 is None:
        if size is None:
            remedy = "The problem does not know its number d of parameters: pass w0=np.zeros(d)."
            raise ValueError(message("w0", None, "a starting point", remedy))
        w0 = np.zeros(size) if known[1] is None else zeros_like(known[1])
    if callable(w0) or hasattr(w0, "gradient"):
        # The second argument of minimize is no proxy.
        remedy = "If this is the proxy, write minimize(Problem(target, proxy))."
        raise TypeError(message("w0", w0, "a starting point", remedy))
    start = check_vector("w0", w0, size)
    for own in known:
        zeros = start if own is None else own
        if type(start) is not type(zeros) or start.dtype != zeros.dtype:
            got = Words(f"a {type(start).__name__} of dtype {start.dtype}")
            allowed = f"a {type(zeros).__name__} of dtype {zeros.dtype}, as the data is"
            raise TypeError(message("w0", got, allowed, "Convert it, or leave w0 out."))
    # A copy: the user's array may change, the run's must not.
    return copy_array(start)


def as_problem(given: Any) -> Any:
    """Return a loss that can be sampled as a problem without a proxy; anything else as it is."""
    return Problem(given) if facts_of(given).subsample is not None else given
