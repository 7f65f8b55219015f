"""Corrections: the estimate of ∇h = ∇L − ∇L̂ that a method adds to its proxy.

Arithmetic only: the same file serves NumPy arrays and torch tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import fraction, require_takes

__all__ = ["EMA", "Correction", "Mean", "Plain", "Storm"]


class Correction(Protocol):
    """Turn the newest difference ``g − ∇L̂`` into the linear term of the subproblem.

    What a correction returns is its memory, which it is given back at the next step and which is
    saved with the run: an array, or any tree of arrays, numbers, lists and dataclasses. Where the
    memory is not the estimate itself, ``estimate(memory)`` returns that.

    Examples
    --------
    The mean of the newest three differences:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class WindowMean:
    ...     length: int = 3
    ...     two_points = False
    ...
    ...     def __call__(self, difference, before, memory, k):
    ...         return [*(memory or []), difference][-self.length :]
    ...
    ...     def estimate(self, memory):
    ...         return sum(memory) / len(memory)
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, minimize
    >>> target = Quadratic(np.eye(2), b=np.array([-1.0, -2.0]), noise=0.1)
    >>> problem = Problem(target, proxy=Quadratic(np.eye(2)))
    >>> method = ProxyProx(eta=1.0, correction=WindowMean())
    >>> minimize(problem, method=method, steps=200, rng=0).w.round(1)
    array([1., 2.])
    """

    two_points: ClassVar[bool]
    """Whether the batch must also be evaluated at the previous iterate."""

    def __call__(self, difference: Vector, before: Vector | None, memory: Any, k: int) -> Any:
        """Return the memory after outer step ``k``.

        Parameters
        ----------
        difference : array
            ``g_k − ∇L̂(w_k)`` on the new batch.
        before : array or None
            The same batch's difference at ``w_{k−1}``, if ``two_points`` and k > 0.
        memory : array or tree
            What the correction returned at the step before; None at k = 0.
        k : int
            Number of earlier steps.
        """


def estimate_of(correction: Correction, memory: Any) -> Vector:
    """Return the estimate of ∇L − ∇L̂ in a correction's memory; by default they are the same."""
    estimate = getattr(correction, "estimate", None)
    return memory if estimate is None else estimate(memory)


@dataclass(frozen=True)
class Plain:
    """``m = g_k − ∇L̂(w_k)``, unbiased, with all of the batch's noise.

    Examples
    --------
    >>> Plain()(2.0, before=None, memory=5.0, k=3)
    2.0
    """

    two_points: ClassVar[bool] = False

    def __call__(self, difference: Vector, before: Vector | None, memory: Any, k: int) -> Vector:
        """Return the newest difference."""
        return difference


@dataclass(frozen=True)
class Mean:
    """``m ← m + (g_k − ∇L̂(w_k) − m)/(k + 1)``.

    For δ = 0 and noise that stays the same: ∇h does not move with w, so that every difference
    estimates the same vector equally well. For δ > 0 old differences go stale; where noise falls
    during the run (labels that can be fitted) the first, noisiest ones spoil the mean, and
    :class:`Plain` ends lower (mushrooms: 1.5e-5 against 3.4e-4).

    Examples
    --------
    >>> Mean()(2.0, before=None, memory=5.0, k=2)
    4.0
    """

    two_points: ClassVar[bool] = False

    def __call__(self, difference: Vector, before: Vector | None, memory: Any, k: int) -> Vector:
        """Return the mean of the differences so far."""
        return difference if memory is None else memory + (difference - memory) / (k + 1)


@dataclass(frozen=True)
class EMA:
    """``m ← (1 − a) m + a (g_k − ∇L̂(w_k))``.

    It averages the *difference*, never ``g`` alone: for a good proxy the difference barely moves
    with w, so that averaging removes noise without adding lag.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1]; 1 is :class:`Plain`.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information" (AuxMom).

    Examples
    --------
    >>> EMA(0.5)(2.0, before=None, memory=5.0, k=3)
    3.5
    """

    a: float = 0.1
    two_points: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the weight."""
        fraction("a", self.a)

    def __call__(self, difference: Vector, before: Vector | None, memory: Any, k: int) -> Vector:
        """Return the moving average."""
        return difference if memory is None else memory + self.a * (difference - memory)


@dataclass(frozen=True)
class Storm:
    """``m ← d_k + (1 − a)(m − d'_{k−1})``, both differences on the *same* batch.

    With ``d_k = g(w_k; ξ) − ∇L̂(w_k)`` and ``d'_{k−1} = g(w_{k−1}; ξ) − ∇L̂(w_{k−1})`` this is
    ``(1 − a) m + a d_k + (1 − a)(d_k − d'_{k−1})``: momentum without its lag, for two target
    gradients a step.

    Parameters
    ----------
    a : float or callable
        Weight of the newest difference, in (0, 1], or a function of the outer step, such as
        SPAM's ``lambda k: (k + 1) ** (-2 / 3)``.

    References
    ----------
    Cutkosky and Orabona, "Momentum-based variance reduction in non-convex SGD"; Chayti and
    Karimireddy, "Optimization with access to auxiliary information" (AuxMVR).

    Examples
    --------
    >>> Storm(0.5)(2.0, before=1.0, memory=5.0, k=3)
    4.0
    """

    a: float | Callable[[int], float] = 0.1
    two_points: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the weight; that of a function is checked where it is used."""
        if callable(self.a):
            require_takes("a", self.a, ("k",))
        else:
            fraction("a", self.a)

    def __call__(self, difference: Vector, before: Vector | None, memory: Any, k: int) -> Vector:
        """Return the corrected moving average."""
        if memory is None or before is None:
            return difference
        a = fraction(f"a({k})", self.a(k)) if callable(self.a) else self.a
        return difference + (1 - a) * (memory - before)
