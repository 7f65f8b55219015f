"""What an expensive loss and a cheap proxy must offer, and what they may offer besides.

Only two protocols are required. Everything else is an optional capability: an attribute of the
agreed name, absent or ``None`` when it is not offered. This table is the whole list.

==================================  ======================================================
capability                          meaning
==================================  ======================================================
``value(w)``                        the loss itself
``value_and_gradient(w, batch)``    both of one access, as a pair
``hvp(w, v)``                       Hessian-vector product
``hessian(w)``                      the d × d Hessian
``curvature(w)``                    an approximate Hessian, positive semidefinite, that came with
                                    the gradient at w; None if it would cost anything
``smoothness``                      a bound H on the Hessian's largest eigenvalue (``math.inf``:
                                    none)
``strong_convexity``                a bound μ ≥ 0 on its smallest eigenvalue
``solve_shifted(v, η)``             ``(P + I/η)⁻¹ v`` of a quadratic proxy with Hessian P
``dim``                             the number d of parameters
``sample(rng)``                     draw a batch for ``gradient(w, batch)``
``everything()``                    the batch whose gradient is exact
``exact``                           whether every gradient is exact: ``sample`` draws no noise
``repeatable``                      whether a batch may be evaluated at a second point
``samples(batch)``                  how many target samples (labels, rollouts) a batch holds
``cost(batch)``                     what one access costs, in the user's own unit
``epsilon(n)``                      the privacy spent after n gradients
``evaluations``                     a count, which grows, of the calls of a user's function
``gradient_from(w, batch, seen)``   the gradient of observed labels or rollouts, or a pair of the
                                    loss and the gradient
``outputs(points)``                 a model's outputs at some points; with ``terms``, ``loss_of``,
                                    ``slopes`` as :class:`~proxyprox.Outputs` has them
``fingerprint()``                   a text that only equal losses share, for checkpoints; or None
``facts``                           a :class:`Facts`: what else is known of the loss
==================================  ======================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from proxyprox._util.arrays import Vector

Batch = Any
"""Whatever an objective's ``sample`` returns; ``None`` stands for all of the data."""


class Paired:
    """A loss that gives its value and its gradient at once.

    A subclass that changes one of the two, and not the pair, has no pair: it would be another loss.
    """

    value_and_gradient: Any

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        changed = vars(cls).keys() & {"value", "gradient"}
        if changed and "value_and_gradient" not in vars(cls):
            cls.value_and_gradient = None


class Summable:
    """A loss that can be added to others and multiplied by a number: ``0.3 * a + b``."""

    # NumPy's numbers leave the product to the loss.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        return _summed([(1.0, self), (1.0, other)])

    def __mul__(self, factor: float) -> Any:
        return _summed([(factor, self)])

    __rmul__ = __mul__


def _summed(terms: list[tuple[float, Any]]) -> Any:
    # Here, because sums are made of what this module describes.
    from proxyprox.problems.combination import MixedProxy

    parts = [(f, x.terms if type(x) is MixedProxy else [(1.0, x)]) for f, x in terms]
    flat = [(factor * own, loss) for factor, pairs in parts for own, loss in pairs]
    return MixedProxy([loss for _, loss in flat], [factor for factor, _ in flat])


class Secant(NamedTuple):
    """The target's gradients, of one batch or exact, at two points; at first at one.

    ``loss`` is that at the first point, NaN if it is not known; ``outputs`` are the model's
    there, if a method has asked for them in place of gradients.
    """

    points: tuple[Vector, ...]
    gradients: tuple[Vector, ...]
    exact: bool
    loss: float = math.nan
    outputs: Any = None


class Work(NamedTuple):
    """About how many nanoseconds a pass over some rows takes, by their shape: never measured.

    ``width`` is the number of columns, if each output of a row is a combination of them.

    Choices that follow from it are then the same in every run, resumed ones included.
    """

    gradient: float
    hessian: float
    rows: int
    width: int | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of a loss besides its interface; every field has a default that asks nothing.

    Attributes
    ----------
    convex : bool
        False if a proxy may be non-convex: solvers then go by its values.
    exact_curvature : bool
        False if hvp and hessian are approximate, as Gauss and Newton's is.
    empirical : bool
        Whether a proxy is a mean over a sample of what the target averages.
    biased : bool
        Whether gradients are known to be wrong on average; results say so.
    gradient_source : str
        Where gradients come from that are not the user's own, in a few words.
    most_gradients : int, optional
        How many gradients will be answered.
    refuses : mapping
        Reasons, by use, against "measured step sizes", "safeguard" and "audit".
    unready : str
        Why the loss cannot be a target yet.
    options : mapping
        By capability, the argument of the constructor that would add it; for messages.
    settings : mapping
        What is named if it differs from that of a saved run.
    work : Work, optional
        About how long a gradient and Hessians take.
    units : callable, optional
        ``units()``: about the change of each parameter that matters to the loss.
    hessian_terms : tuple of pairs, optional
        Numbers and objects that make up the Hessian. Equal objects stand for equal Hessians.
    divisible : bool
        Whether a batch is an array and its gradient the mean over the entries.
    rows : callable, optional
        ``rows(chosen, counts)``: the loss of the chosen rows, each counted so often.
    learns : bool
        Whether a run fits numbers of a proxy: it has ``begin``, ``learn``, ``using`` and ``words``
        (:mod:`proxyprox.problems.several`).
    subsample : callable, optional
        ``subsample(n)``: the loss of n rows, the same each time, spread over the table.
    helper : Proxy, optional
        A proxy of this proxy, with which its subproblems are solved.
    levels : tuple
        The losses of a ladder, the finer ones first.
    solver : InnerSolver, optional
        The solver that it then brings along.
    start : array, optional
        Where a run begins without w0; its library and dtype are those of the data.
    cheap_derivatives : bool
        Whether a model's Jacobian costs little more than its outputs.
    values_alone : bool
        Whether its only output is its value, and differences are its gradient.
    noise : float, optional
        The relative error that its caller states.
    memory : object, optional
        If answers depend on more than point and batch: what has ``state_dict()`` and
        ``load_state_dict(state)`` for checkpoints.
    """

    convex: bool = True
    exact_curvature: bool = True
    empirical: bool = False
    biased: bool = False
    gradient_source: str = ""
    most_gradients: int | None = None
    refuses: Mapping[str, str] = field(default_factory=dict)
    unready: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    work: Work | None = None
    units: Callable[[], Vector] | None = None
    hessian_terms: tuple[tuple[float, Any], ...] | None = None
    divisible: bool = False
    rows: Callable[[Any, Any], Any] | None = None
    learns: bool = False
    helper: Any = None
    levels: tuple[Any, ...] = ()
    solver: Any = None
    subsample: Callable[[int], Any] | None = None
    start: Vector | None = None
    cheap_derivatives: bool = False
    values_alone: bool = False
    noise: float | None = None
    memory: Any = None


@dataclass(frozen=True, eq=False)
class HessianOf:
    """Stands for the Hessian of a loss that knows which others have the same."""

    loss: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HessianOf) and bool(self.loss.same_curvature(other.loss))

    def __hash__(self) -> int:
        return hash(type(self.loss))


class Objective(Protocol):
    """The expensive loss L: only stochastic gradients are required."""

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw a batch."""

    def gradient(self, w: Vector, batch: Batch) -> Vector:
        """Return an unbiased estimate of ∇L(w) from a drawn batch."""


class Proxy(Protocol):
    """The cheap loss L̂: values and full gradients."""

    def value(self, w: Vector) -> float:
        """Return L̂(w)."""

    def gradient(self, w: Vector) -> Vector:
        """Return ∇L̂(w)."""


class Penalty(Protocol):
    """A convex, possibly non-smooth term ψ that objective and proxy share.

    One with ``separable = True`` takes an array of steps in ``prox`` too, one for each coordinate,
    as :class:`~proxyprox.Adam` needs.
    """

    def value(self, w: Vector) -> float:
        """Return ψ(w)."""

    def prox(self, w: Vector, step: float) -> Vector:
        """Return ``argmin_u ψ(u) + ‖u − w‖²/(2 step)``."""

    def distance(self, w: Vector, gradient: Vector) -> float:
        """Return the distance from 0 to ``gradient + ∂ψ(w)``."""
