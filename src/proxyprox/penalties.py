"""Non-smooth terms that the two losses share.

Those here are ``separable``: their prox takes a step of its own for every coordinate as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_array_api_obj

from proxyprox._util.arrays import Vector, from_numpy, namespace, norm, to_numpy
from proxyprox._util.validation import Words, message, nonnegative, real_array
from proxyprox._util.validation import vector as checked_vector

__all__ = ["L1", "Box"]


def strength_like(strength: Any, w: Vector) -> Any:
    """Return a strength in the library and dtype of ``w``, so that a prox keeps them."""
    if isinstance(strength, float) or (type(strength), strength.dtype) == (type(w), w.dtype):
        return strength
    return from_numpy(to_numpy(strength), like=w)


@dataclass(frozen=True, eq=False)
class L1:
    """``ψ(w) = Σ alpha_j |w_j|``.

    Parameters
    ----------
    alpha : float or array of shape (d,)
        Strength ≥ 0; an array sets it for each coordinate, zero for those that are not penalised
        (an intercept, say).

    Examples
    --------
    >>> import numpy as np
    >>> L1(1.0).prox(np.array([3.0, -0.5]), step=1.0)
    array([ 2., -0.])
    """

    alpha: Any

    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the strength."""
        given = self.alpha
        if is_array_api_obj(given) or isinstance(given, (list, tuple)):
            strengths = checked_vector("alpha", given)
            if bool((strengths < 0).any()):
                raise ValueError(message("alpha", given, "zero or more in every coordinate"))
        else:
            strengths = nonnegative("alpha", given)
        object.__setattr__(self, "alpha", strengths)

    def value(self, w: Vector) -> float:
        """Return ψ(w)."""
        xp = namespace(w)
        return float(xp.sum(strength_like(self.alpha, w) * xp.abs(w)))

    def prox(self, w: Vector, step: float) -> Vector:
        """Return w shrunk towards zero by ``step · alpha``."""
        xp = namespace(w)
        shrunk = xp.abs(w) - step * strength_like(self.alpha, w)
        return xp.sign(w) * xp.where(shrunk > 0, shrunk, xp.zeros_like(w))

    def distance(self, w: Vector, gradient: Vector) -> float:
        """Return the distance from 0 to ``gradient + ∂ψ(w)``."""
        xp, alpha = namespace(w), strength_like(self.alpha, w)
        # At zero the subdifferential is the whole interval [−alpha, alpha].
        slack = xp.abs(gradient) - alpha
        at_zero = xp.where(slack > 0, slack, xp.zeros_like(slack))
        return norm(xp.where(w == 0, at_zero, gradient + alpha * xp.sign(w)))


@dataclass(frozen=True, eq=False)
class Box:
    """The indicator of ``lower ≤ w ≤ upper``: 0 inside, infinite outside.

    Parameters
    ----------
    lower, upper : float or array of shape (d,), optional
        Bounds, of each coordinate if an array; None (or an infinity) if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> box = Box(0.0, [1.0, np.inf])
    >>> box.prox(np.array([3.0, 3.0]), step=1.0)
    array([1., 3.])
    >>> box.distance(np.array([0.0, 2.0]), gradient=np.array([5.0, 5.0]))
    5.0
    """

    lower: Any = None
    upper: Any = None

    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check that there is a point inside."""
        for name, none in (("lower", -np.inf), ("upper", np.inf)):
            given = getattr(self, name)
            allowed = "a number, an array of numbers or None"
            found = to_numpy(real_array(name, none if given is None else given, allowed))
            bound = np.array(found, dtype=np.float64)
            if bound.ndim > 1 or np.isnan(bound).any() or (bound == -none).any():
                allowed = f"numbers, none of them NaN or {-none:g}, of shape () or (d,)"
                raise ValueError(message(name, given, allowed))
            object.__setattr__(self, name, bound if bound.ndim else float(bound))
        try:
            crossed = np.asarray(self.lower > self.upper)
        except ValueError as error:
            sizes = Words(f"{len(self.upper)} numbers")
            raise ValueError(message("upper", sizes, "as many as lower")) from error
        if crossed.any():
            got = Words(f"a bound below that in {int(crossed.sum())} of the coordinates")
            raise ValueError(message("upper", got, "at or above lower everywhere"))

    @property
    def size(self) -> int | None:
        """Number of coordinates; None if both bounds are numbers."""
        return next((len(b) for b in (self.lower, self.upper) if np.ndim(b)), None)

    def value(self, w: Vector) -> float:
        """Return 0 inside, infinity outside."""
        return float("inf") if bool((self.project(w) != w).any()) else 0.0

    def prox(self, w: Vector, step: float) -> Vector:
        """Return the nearest point inside, whatever the step."""
        return self.project(w)

    def project(self, w: Vector) -> Vector:
        """Return the nearest point inside: a start outside is moved there."""
        xp, (lower, upper) = namespace(w), self.limits(w)
        return xp.where(w < lower, lower, xp.where(w > upper, upper, w))

    def distance(self, w: Vector, gradient: Vector) -> float:
        """Return the norm of the projected gradient: what of ``−gradient`` leads inside."""
        xp, (lower, upper) = namespace(w), self.limits(w)
        inwards = xp.where((w <= lower) & (gradient > 0), xp.zeros_like(w), gradient)
        return norm(xp.where((w >= upper) & (gradient < 0), xp.zeros_like(w), inwards))

    def limits(self, w: Vector) -> tuple[Vector, Vector]:
        """Return both bounds as vectors in the library and dtype of ``w``."""
        lower, upper = (np.broadcast_to(b, tuple(w.shape)) for b in (self.lower, self.upper))
        return from_numpy(lower, like=w), from_numpy(upper, like=w)


def as_box(bounds: Any) -> Box:
    """Return bounds as a Box: a pair (lower, upper) or SciPy's ``Bounds``."""
    if isinstance(bounds, Box):
        return bounds
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        return Box(bounds.lb, bounds.ub)
    pair = isinstance(bounds, (tuple, list)) and len(bounds) == 2
    # Two tuples of two could be SciPy's pairs (min, max) of two parameters.
    if not pair or all(isinstance(item, tuple) and len(item) == 2 for item in bounds):
        allowed = "a pair (lower, upper) of numbers, arrays or None"
        raise TypeError(message("bounds", bounds, allowed, "Or pass scipy.optimize.Bounds."))
    return Box(*bounds)
