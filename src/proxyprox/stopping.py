"""When an inner solve is good enough: the paper's three inexactness rules, and plainer ones.

A rule bounds ``‖∇φ_k(w)‖`` by a threshold made of quantities known at run time. Rules compose:
``StronglyConvex(mu=1e-3) | Steps(100)`` stops at whichever comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from proxyprox._util.validation import fraction, instance, nonnegative, positive, whole

__all__ = [
    "AllOf", "AnyOf", "Convex", "Criterion", "NonConvex", "Progress", "RandomSteps", "Relative",
    "Residual", "SDane", "Steps", "StronglyConvex",
]  # fmt: skip


class Progress(NamedTuple):
    """Where an inner solve stands.

    Attributes
    ----------
    steps : int
        Inner steps taken.
    residual : float
        ``‖∇φ_k(w)‖``; with a penalty, the distance from 0 to the subdifferential.
    displacement : float
        ``‖w − w_k‖``.
    eta : float
        The step size η of the subproblem.
    start_residual : float
        The residual at the start of this solve.
    decrease : callable
        Returns ``φ_k(w_k) − φ_k(w)``; evaluated only by rules that need it.
    """

    steps: int
    residual: float
    displacement: float
    eta: float
    start_residual: float
    decrease: Callable[[], float]


class Criterion:
    """A rule that says when to stop; abstract."""

    needs: tuple[str, ...] = ()
    """Capabilities that the rule asks of the proxy."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in getattr(self, "__dataclass_fields__", ()):
            if name in CHECKS:
                CHECKS[name](name, getattr(self, name))

    def threshold(self, progress: Progress) -> float | None:
        """Return the bound on the residual, or None if the rule has none."""
        return None

    def holds(self, progress: Progress) -> bool | None:
        """Tell whether the inexactness rule holds; None if this is not such a rule."""
        threshold = self.threshold(progress)
        return None if threshold is None else progress.residual <= threshold

    def __call__(self, progress: Progress) -> bool:
        """Tell whether to stop."""
        return bool(self.holds(progress))

    def begin(self, rng: np.random.Generator) -> Criterion:
        """Return the rule to use for one outer step (a random rule draws here)."""
        return self

    def __or__(self, other: Criterion) -> Criterion:
        return AnyOf((self, other))

    def __and__(self, other: Criterion) -> Criterion:
        return AllOf((self, other))


CHECKS: dict[str, Callable[..., Any]] = {
    "mu": partial(positive, remedy="Use Convex(steps=K) if the objective is not strongly convex."),
    "G": nonnegative, "target_gradient_norm": nonnegative, "steps": whole, "tol": positive,
    "factor": fraction, "p": fraction,
}  # fmt: skip


@dataclass(frozen=True)
class StronglyConvex(Criterion):
    """``‖∇φ_k(w)‖² ≤ μ/(4η) ‖w − w_k‖² + G²``: the strongly convex theorem's rule.

    Parameters
    ----------
    mu : float
        Strong convexity of the objective.
    G : float
        Error allowed besides; it costs ``G²/μ`` in the guarantee.

    Examples
    --------
    >>> from proxyprox.stopping import Progress
    >>> at = Progress(3, 0.1, displacement=1.0, eta=0.5, start_residual=1.0, decrease=float)
    >>> StronglyConvex(mu=0.5)(at)
    True
    """

    mu: float
    G: float = 0.0

    def threshold(self, progress: Progress) -> float:
        """Return the square root of the rule's right-hand side."""
        return math.hypot(math.sqrt(self.mu / progress.eta) / 2 * progress.displacement, self.G)


@dataclass(frozen=True)
class Convex(Criterion):
    """``‖∇φ_k(w)‖² ≤ ‖w − w_k‖²/(4η²K) + G²``: the convex theorem's rule for K outer steps."""

    steps: int
    G: float = 0.0

    def threshold(self, progress: Progress) -> float:
        """Return the square root of the rule's right-hand side."""
        slope = 1 / (2 * progress.eta * math.sqrt(self.steps))
        return math.hypot(slope * progress.displacement, self.G)


@dataclass(frozen=True)
class NonConvex(Criterion):
    """``‖∇φ_k(w)‖² ≤ 7/(16η²)‖w − w_k‖² + ‖∇L(w)‖²/8`` and ``φ_k(w) ≤ φ_k(w_k)``.

    The paper prints ``‖φ_k‖²`` for ``‖∇φ_k‖²``. The target's gradient at a trial point is not
    known without paying for it, so its term is left out unless a lower bound is given: the rule
    is then stricter than the theorem asks, never laxer.

    Parameters
    ----------
    target_gradient_norm : float
        A lower bound on ``‖∇L(w)‖``, if one is known.
    """

    target_gradient_norm: float = 0.0
    needs = ("value",)

    def threshold(self, progress: Progress) -> float:
        """Return the square root of the rule's right-hand side."""
        slope = math.sqrt(7) / (4 * progress.eta)
        return math.hypot(slope * progress.displacement, self.target_gradient_norm / math.sqrt(8))

    def holds(self, progress: Progress) -> bool:
        """Tell whether the gradient is small enough and φ did not grow."""
        return progress.residual <= self.threshold(progress) and progress.decrease() >= 0


@dataclass(frozen=True)
class SDane(Criterion):
    """``‖∇φ_k(w)‖ ≤ ‖w − w_k‖/(2η)``: S-DANE's rule, which needs neither μ nor G.

    References
    ----------
    Jiang, Rodomanov and Stich, "Stabilized proximal-point methods for federated optimization".
    """

    def threshold(self, progress: Progress) -> float:
        """Return ``‖w − w_k‖/(2η)``."""
        return progress.displacement / (2 * progress.eta)


@dataclass(frozen=True)
class Residual(Criterion):
    """``‖∇φ_k(w)‖ ≤ tol``, an absolute accuracy."""

    tol: float

    def threshold(self, progress: Progress) -> float:
        """Return the tolerance."""
        return self.tol


@dataclass(frozen=True)
class Relative(Criterion):
    """``‖∇φ_k(w)‖ ≤ factor · ‖∇φ_k(start)‖``."""

    factor: float

    def threshold(self, progress: Progress) -> float:
        """Return the scaled residual of the start."""
        return self.factor * progress.start_residual


@dataclass(frozen=True)
class Steps(Criterion):
    """Stop after a fixed number of inner steps.

    Examples
    --------
    >>> from proxyprox.stopping import Progress
    >>> at = Progress(3, 0.1, displacement=1.0, eta=0.5, start_residual=1.0, decrease=float)
    >>> Steps(20)(at)
    False
    """

    steps: int

    def __call__(self, progress: Progress) -> bool:
        """Tell whether the steps are taken."""
        return progress.steps >= self.steps


@dataclass(frozen=True)
class RandomSteps(Criterion):
    """Stop after a geometric number of inner steps, ``1/p`` on average, drawn each outer step."""

    p: float

    def begin(self, rng: np.random.Generator) -> Criterion:
        """Draw this outer step's number of inner steps."""
        return Steps(int(rng.geometric(self.p)))


@dataclass(frozen=True)
class _Joined(Criterion):
    """Several rules as one; abstract."""

    rules: tuple[Criterion, ...]

    enough: ClassVar[Callable[[Iterable[object]], bool]]
    bound: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        """Check the rules."""
        for rule in self.rules:
            instance("a stopping rule", rule, Criterion, "joined to one such as Steps(20)")

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Capabilities that any of the rules asks for."""
        return tuple({need for rule in self.rules for need in rule.needs})

    def threshold(self, progress: Progress) -> float | None:
        """Return the laxest or the strictest of the rules' bounds."""
        bounds = (rule.threshold(progress) for rule in self.rules)
        known = [bound for bound in bounds if bound is not None]
        return float(type(self).bound(known)) if known else None

    def holds(self, progress: Progress) -> bool | None:
        """Tell whether enough of the inexactness rules hold."""
        answers = (rule.holds(progress) for rule in self.rules)
        known = [answer for answer in answers if answer is not None]
        return type(self).enough(known) if known else None

    def __call__(self, progress: Progress) -> bool:
        """Tell whether to stop."""
        return type(self).enough(rule(progress) for rule in self.rules)

    def begin(self, rng: np.random.Generator) -> Criterion:
        """Begin every rule."""
        return type(self)(tuple(rule.begin(rng) for rule in self.rules))


class AnyOf(_Joined):
    """Stop as soon as one of the rules says so.

    Examples
    --------
    >>> from proxyprox.stopping import Progress
    >>> at = Progress(3, 0.1, displacement=1.0, eta=0.5, start_residual=1.0, decrease=float)
    >>> (Steps(20) | Relative(0.5))(at)
    True
    """

    enough, bound = any, max


class AllOf(_Joined):
    """Stop when all of the rules say so."""

    enough, bound = all, min
