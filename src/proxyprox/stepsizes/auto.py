"""What ``eta="auto"`` stands for, and what else a method's ``eta`` may be.

:class:`AutoStep` chooses between two rules: with a proxy, and for exact gradients, that of
:mod:`proxyprox.stepsizes.auto_proxy`; for noisy gradients without a proxy, the distance over the
gradients of :mod:`proxyprox.stepsizes.auto_distance`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import instance, message, positive
from proxyprox.stepsizes.auto_distance import DistanceState, DistanceStep
from proxyprox.stepsizes.auto_proxy import ProxyState, ProxyStep
from proxyprox.stepsizes.base import Constant, Observation, Schedule, StepSize


def _of_rule(name: str) -> Any:
    """Return a method of :class:`AutoStep` that calls that of the rule a state belongs to."""

    @functools.wraps(getattr(StepSize, name))
    def call(self: AutoStep, state: Any, *arguments: Any) -> Any:
        return getattr(self.rule(state), name)(state, *arguments)

    return call


@dataclass(frozen=True)
class AutoStep(StepSize):
    """Measure the step size during the run; what ``eta="auto"`` stands for.

    Parameters
    ----------
    proxy : ProxyStep
        The rule with a proxy, and for exact gradients.
    distance : DistanceStep
        The rule for noisy gradients without a proxy.
    """

    proxy: ProxyStep = field(default_factory=ProxyStep, repr=False)
    distance: DistanceStep = field(default_factory=DistanceStep, repr=False)

    measures: ClassVar[bool] = True
    states: ClassVar[tuple[type, ...]] = (ProxyState, DistanceState)

    def __post_init__(self) -> None:
        instance("proxy", self.proxy, ProxyStep, "a ProxyStep")
        instance("distance", self.distance, DistanceStep, "a DistanceStep")

    def rule(self, state: Any) -> StepSize:
        """Return the rule that a state belongs to."""
        return self.distance if isinstance(state, DistanceState) else self.proxy

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool) -> Any:
        """Return the state of the rule that is chosen, before the first step."""
        rule: StepSize = self.proxy if uses_proxy else self.distance
        return rule.init(w0, problem, uses_proxy=uses_proxy)

    def observe(self, state: Any, seen: Observation) -> Any:
        """Measure with a batch's gradients; the first ones show whether they are exact."""
        if seen.k == 0 and seen.noise == 0 and isinstance(state, DistanceState):
            # Exact gradients: curvature limits the steps, and without a proxy h is L itself.
            state = self.proxy.init(state.start, None, uses_proxy=False)
        return self.rule(state).observe(state, seen)

    # The rest is the business of the rule that is chosen.
    eta = _of_rule("eta")
    comparison_point = _of_rule("comparison_point")
    adapt = _of_rule("adapt")
    gain = _of_rule("gain")
    restart = _of_rule("restart")
    solve = _of_rule("solve")
    end_step = _of_rule("end_step")
    answer = _of_rule("answer")


def as_step_size(
    eta: Any,
    *,
    allow_inf: bool = False,
    remedy: str = "The theory allows eta up to 1/(4δ); with δ = 0 any positive eta converges.",
) -> StepSize:
    """Return the rule that a method's ``eta`` stands for.

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        A positive number, a function of the outer step k = 0, 1, …, a rule, or "auto" for
        :class:`AutoStep`.
    allow_inf : bool
        Whether η may be infinite, which drops the proximal term.
    remedy : str
        What the error says of a number that is refused; by default ProxyProx's limit.

    Examples
    --------
    >>> from proxyprox.stepsizes import as_step_size
    >>> as_step_size(0.5), as_step_size("auto")
    (Constant(value=0.5), AutoStep())
    """
    if isinstance(eta, StepSize):
        return eta
    if isinstance(eta, str) and eta == "auto":
        return AutoStep()
    if isinstance(eta, (str, type)):
        allowed = "a positive number, a function of the step, a StepSize or 'auto'"
        make = f"Make one: {eta.__name__}(...)." if isinstance(eta, type) else ""
        raise TypeError(message("eta", eta, allowed, make))
    if callable(eta):
        return Schedule(eta, allow_inf)
    return Constant(positive("eta", eta, remedy, allow_inf=allow_inf))


def fixed_step_size(eta: Any, limit: str, remedy: str) -> StepSize:
    """Return the rule of an η that is not measured; ``remedy`` is what to do instead of that."""
    rule = as_step_size(eta, remedy=limit)
    if rule.measures:
        raise ValueError(message("eta", eta, "a number or a function of the step", remedy))
    return rule
