"""An objective, its proxy and the penalty they share: what ``minimize`` is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from proxyprox._arrays import Vector
from proxyprox._checks import has, message, offers
from proxyprox._isolation import isolated
from proxyprox.problems._curvature import same_hessian
from proxyprox.problems.base import Penalty
from proxyprox.problems.functions import FunctionObjective, FunctionProxy
from proxyprox.problems.zero import Zero


@dataclass(frozen=True)
class Problem:
    """Minimise ``L(w) + ψ(w)`` with the help of ``L̂(w) + ψ(w)``.

    Parameters
    ----------
    objective : Objective or pair of callables
        The expensive loss. A pair ``(value, gradient)`` of functions of ``w`` will do;
        ``value`` may be None.
    proxy : Proxy or pair of callables, optional
        The cheap loss. Left out, it is zero, and every method becomes its proxy-free self.
    penalty : Penalty, optional
        A non-smooth term shared by both, such as :class:`~proxyprox.penalties.L1`. It is added
        to both losses; the gradients of objective and proxy do not include it.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem
    >>> target = (lambda w: float((w - 3) @ (w - 3)) / 2, lambda w: w - 3)
    >>> problem = Problem(target, proxy=(lambda w: float(w @ w) / 2, lambda w: w))
    >>> problem.value(np.array([1.0]))
    2.0
    """

    objective: Any
    proxy: Any = field(default_factory=Zero)
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        """Wrap pairs of callables and check that both parts can do the least that is asked."""
        object.__setattr__(self, "objective", _as_objective(self.objective))
        object.__setattr__(self, "proxy", _as_proxy(self.proxy))
        if not (self.penalty is None or offers(self.penalty, "value", "prox", "distance")):
            allowed = "a penalty with value, prox and distance, such as L1(0.1)"
            raise TypeError(message("penalty", self.penalty, allowed))
        dims = [d for d in (self._dim(self.objective), self._dim(self.proxy)) if d is not None]
        if len(set(dims)) > 1:
            raise ValueError(
                f"proxy must have as many parameters as the objective, got {dims[1]} and {dims[0]}."
                " Build both from the same columns (and the same intercept setting)."
            )

    @property
    def dim(self) -> int | None:
        """Number of parameters, where either part knows it."""
        known = self._dim(self.objective)
        return known if known is not None else self._dim(self.proxy)

    @cached_property
    def same_curvature(self) -> bool:
        """Whether both losses are known to have the same Hessian everywhere: δ = 0."""
        return same_hessian(self.objective, self.proxy)

    @staticmethod
    def _dim(part: Any) -> int | None:
        dim = getattr(part, "dim", None)
        return int(dim) if isinstance(dim, int) else None

    def value(self, w: Vector) -> float:
        """Return L(w) + ψ(w); the objective must offer values."""
        if not has(self.objective, "value"):
            raise TypeError(
                f"problem.value needs values from the objective, but "
                f"{type(self.objective).__name__} gives gradients only. Pass a value function."
            )
        total = float(isolated(self.objective).value(w))
        return total if self.penalty is None else total + isolated(self.penalty).value(w)


def _as_objective(given: Any) -> Any:
    if isinstance(given, tuple) and len(given) == 2 and callable(given[1]):
        return FunctionObjective(gradient=given[1], value=given[0])
    if offers(given, "sample", "gradient"):
        return given
    allowed = "an Objective (sample and gradient) or a pair of callables (value, gradient)"
    raise TypeError(message("objective", given, allowed))


def _as_proxy(given: Any) -> Any:
    if isinstance(given, tuple) and len(given) == 2 and all(callable(part) for part in given):
        return FunctionProxy(value=given[0], gradient=given[1])
    if offers(given, "value", "gradient"):
        return given
    allowed = "a Proxy (value and gradient) or a pair of callables (value, gradient)"
    raise TypeError(message("proxy", given, allowed))
