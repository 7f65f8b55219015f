"""What an expensive loss and a cheap proxy must offer, and what they may offer besides.

Only two protocols are required. Everything else is an optional capability: an attribute of the
agreed name, absent or ``None`` when it is not offered.

======================  ==================================================================
capability              meaning
======================  ==================================================================
``value(w)``            the loss itself
``value_and_gradient(w, batch)``  both of one access, as a pair
``exact``               whether every gradient is exact: ``sample`` draws no noise
``evaluations``         a count, which grows, of the evaluations of a user's function
``hvp(w, v)``           Hessian-vector product
``hessian(w)``          the d × d Hessian
``sampled_hessian(w, share)``  the Hessian of a share of the rows
``work``                a :class:`Work`: about how long a gradient and Hessians take
``smoothness``          a bound H on the Hessian's largest eigenvalue (``math.inf``: none)
``strong_convexity``    a bound μ ≥ 0 on its smallest eigenvalue
``solve_shifted(v, η)``  ``(P + I/η)⁻¹ v`` of a quadratic proxy with Hessian P
``sample(rng)``         draw a batch for ``gradient(w, batch)``
``everything()``        the batch whose gradient is exact
``samples(batch)``      how many target samples (labels, rollouts) a batch holds
``cost(batch)``         what one access costs, in the user's own unit
``refuses``             reasons, by use, against "measured step sizes", "safeguard", "audit"
``most_gradients``      how many gradients will be answered, where there is a limit
``repeatable``          whether a drawn batch may be evaluated at a second point
``empirical``           whether a proxy is a mean over a sample of what the target averages
``halves(batch)``       two batches whose gradients' mean is the batch's, or None
``same_curvature(p)``   whether a proxy is known to have the same Hessian (δ = 0)
``hessian_terms()``     numbers and losses whose Hessians make up this one's
``fingerprint()``       a text that only equal losses share, for checkpoints; or None
``convex``              False where a proxy may be non-convex: solvers then go by its values
``exact_curvature``     False where hvp and hessian are approximate, as Gauss and Newton's is
``curvature(w)``        an approximate Hessian, positive semidefinite, that came with the gradient
                        at w; None where it would cost anything
``state_dict()``        what answers depend on besides point and batch, for checkpoints, and
                        ``load_state_dict(state)`` to go on from there
``gradient_source``     where gradients come from that are not the user's own, in a few words
``gradient_from(w, batch, observations)``  turn observed labels or rollouts into a gradient
``value_from(w, batch, observations)``  turn them into the loss at w
``biased``              True where gradients are known to be wrong on average; results say so
======================  ==================================================================
"""

from __future__ import annotations

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


class Work(NamedTuple):
    """About how many nanoseconds a pass over some rows takes, by their shape: never measured.

    Choices that follow from it are then the same in every run, resumed ones included.
    """

    gradient: float
    hessian: float
    rows: int


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
    as :class:`~proxyprox.Adam` and :class:`~proxyprox.methods.Adagrad` need.
    """

    def value(self, w: Vector) -> float:
        """Return ψ(w)."""

    def prox(self, w: Vector, step: float) -> Vector:
        """Return ``argmin_u ψ(u) + ‖u − w‖²/(2 step)``."""

    def distance(self, w: Vector, gradient: Vector) -> float:
        """Return the distance from 0 to ``gradient + ∂ψ(w)``."""
