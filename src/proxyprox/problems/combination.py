"""Losses made of other losses: sums, multiples, a linear term, a quadratic around a point.

All of them are ``Σ s_i f_i(w) + ⟨c, w⟩ + μ/2 ‖w − w_0‖²``, and one table says which capabilities of
the parts such a loss has. What is in neither row below is dropped.

========  ==================================================================================
summed    value, value_and_gradient, hvp, hessian, smoothness, strong_convexity, evaluations:
          if every part offers them
kept      sample, everything, exact, samples, cost, epsilon, repeatable, of the first part;
          solve_shifted if there is one part
facts     work and hessian_terms of all parts; empirical, refuses and divisible
          of the first; start of the first that has one
========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector, add_to_diagonal, copy_tree, dot, zeros_like
from proxyprox._util.validation import has, message
from proxyprox.problems.identity import combined_fingerprint
from proxyprox.problems.problem import IDENTITY, Problem, facts_of, hessian_terms, no_batch
from proxyprox.problems.protocols import Batch, Facts, Summable, Work


class Combination(Summable):
    """``Σ s_i f_i(w) + ⟨c, w⟩ + μ/2 ‖w − w_0‖²``; batches are those of the first part.

    Parameters
    ----------
    parts, weights : sequences
        The losses f_i and the numbers s_i.
    tilt : array, optional
        c.
    mu, centre : float and array, optional
        μ and w_0.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Quadratic
    >>> Combination([Quadratic(np.eye(1))], [2.0], tilt=np.array([-2.0])).gradient(np.ones(1))
    array([0.])
    """

    def __init__(
        self, parts: Iterable[Any], weights: Iterable[float], *, tilt: Vector | None = None,
        mu: float = 0.0, centre: Vector | None = None,
    ) -> None:  # fmt: skip
        self.parts, self.weights = tuple(parts), tuple(weights)
        self._tilt, self._mu, self._centre = tilt, mu, centre
        first = self.parts[0]
        for name in ("value", "value_and_gradient", "hvp", "hessian"):
            offered = all(has(part, name) for part in self.parts)
            setattr(self, name, getattr(self, f"_{name}") if offered else None)
        for name in ("sample", "everything", "exact", "samples", "cost", "epsilon"):
            setattr(self, name, getattr(first, name, None))
        self.repeatable = getattr(first, "repeatable", True)
        closed = len(self.parts) == 1 and has(first, "solve_shifted")
        self.solve_shifted = self._solve_shifted if closed else None
        sizes = {part.dim for part in self.parts if isinstance(getattr(part, "dim", None), int)}
        sizes |= {int(given.shape[0]) for given in (tilt, centre) if given is not None}
        if len(sizes) > 1:
            raise ValueError(message("proxies", sorted(sizes), "of equal numbers of parameters"))
        if sizes:
            self.dim = sizes.pop()

    def gradient(self, w: Vector, *batch: Batch) -> Vector:
        """Return the gradient, or its estimate from a batch."""
        return self._with_slope(self._sum(self._each("gradient", w, self._batches(*batch))), w)

    @property
    def evaluations(self) -> int:
        """Evaluations of the user's functions that its parts have counted."""
        return sum(getattr(part, "evaluations", 0) for part in self.parts)

    @property
    def facts(self) -> Facts:
        """What the parts state, as the table above says."""
        stated = [facts_of(part) for part in self.parts]
        works = [each.work for each in stated if each.work is not None]
        work = None
        if len(works) == len(stated):
            gradients, hessians, rows, _ = zip(*works, strict=True)
            work = Work(sum(gradients), sum(hessians), min(rows))
        starts = (each.start for each in stated if each.start is not None)
        return Facts(
            empirical=stated[0].empirical, refuses=stated[0].refuses,
            divisible=stated[0].divisible, start=next(map(zeros_like, starts), None),
            work=work, hessian_terms=tuple(self._hessian_terms()),
        )  # fmt: skip

    @property
    def smoothness(self) -> float | None:
        """The bounds H_i in sum, where every part has one and none is subtracted."""
        known = [getattr(part, "smoothness", None) for part in self.parts]
        if None in known or min(self.weights) < 0:
            return None
        return float(self._sum(known)) + self._mu

    @property
    def strong_convexity(self) -> float:
        """The bounds μ_i in sum, where none of the parts is subtracted."""
        if min(self.weights) < 0:
            return self._mu
        lower = [getattr(part, "strong_convexity", None) or 0.0 for part in self.parts]
        return float(self._sum(lower)) + self._mu

    def fingerprint(self) -> str | None:
        """Return a text that only equal losses share, or None if a part has none."""
        terms = self._tilt, self._mu, self._centre
        return combined_fingerprint(type(self).__name__, self.parts, *self.weights, *terms)

    def _hessian_terms(self) -> list[tuple[float, Any]]:
        terms = [
            (weight * factor, leaf)
            for part, weight in zip(self.parts, self.weights, strict=True)
            for factor, leaf in hessian_terms(part)
        ]
        return [*terms, (self._mu, IDENTITY)] if self._mu else terms

    def _value(self, w: Vector) -> float:
        return self._with_terms(float(self._sum(self._each("value", w))), w)

    def _value_and_gradient(self, w: Vector, *batch: Batch) -> tuple[float, Vector]:
        pairs = self._each("value_and_gradient", w, self._batches(*batch))
        values, gradients = zip(*pairs, strict=True)
        total = self._with_terms(float(self._sum(values)), w)
        return total, self._with_slope(self._sum(gradients), w)

    def _with_terms(self, total: float, w: Vector) -> float:
        if self._tilt is not None:
            total += dot(self._tilt, w)
        if self._centre is not None:
            away = w - self._centre
            total += self._mu / 2 * float(away @ away)
        return total

    def _hvp(self, w: Vector, v: Vector) -> Vector:
        product = self._sum(self._each("hvp", w, [(copy_tree(v),) for _ in self.parts]))
        return product + self._mu * v if self._mu else product

    def _hessian(self, w: Vector) -> Matrix:
        matrix = self._sum(self._each("hessian", w))
        return add_to_diagonal(matrix, self._mu) if self._mu else matrix

    def _solve_shifted(self, v: Vector, eta: float) -> Vector:
        # (sP + μI + I/η)⁻¹ is the part's own closed form at another η, divided by s.
        (scale,) = self.weights
        smaller = 1 / (self._mu + 1 / eta) if self._mu else eta
        solved = self.parts[0].solve_shifted(v, scale * smaller)
        return solved if scale == 1 else solved / scale

    def _each(self, name: str, w: Vector, given: Sequence[Any] = ()) -> list[Any]:
        """Return what each part answers; a part may write into w, and answer in one buffer."""
        pairs = zip(self.parts, given or [()] * len(self.parts), strict=True)
        return [copy_tree(getattr(part, name)(copy_tree(w), *own)) for part, own in pairs]

    def _batches(self, *batch: Batch) -> list[tuple[Batch, ...]]:
        """Return what of a batch each part's gradient is given."""
        return [batch] * len(self.parts)

    def _sum(self, terms: Sequence[Any]) -> Any:
        first, *others = (
            term if weight == 1 else weight * term
            for weight, term in zip(self.weights, terms, strict=True)
        )
        return sum(others, start=first)

    def _with_slope(self, gradient: Vector, w: Vector) -> Vector:
        if self._tilt is not None:
            gradient = gradient + self._tilt
        return gradient if self._centre is None else gradient + self._mu * (w - self._centre)


class MixedProxy(Combination):
    """``Σ s_i L̂_i(w)`` with every capability that all of the proxies share; also ``0.3 * a + b``.

    With one proxy it is what an audit offers for a proxy of the right shape and the wrong size.

    Parameters
    ----------
    proxies : sequence of Proxy
        The L̂_i, with equal numbers of parameters.
    weights : sequence of float
        The s_i ≥ 0, not all zero. A proxy of weight zero is left out and never asked.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Quadratic
    >>> pair = [Quadratic(np.diag([1.0, 0.0])), Quadratic(np.diag([0.0, 1.0]))]
    >>> MixedProxy(pair, [2.0, 3.0]).gradient(np.ones(2))
    array([2., 3.])
    """

    def __init__(self, proxies: Sequence[Any], weights: Sequence[float]) -> None:
        proxies = check.as_list("proxies", proxies, "a list of proxies")
        weights = check.as_list("weights", weights, "a list of numbers, one for each proxy")
        checked = [check.nonnegative("weights", weight) for weight in weights]
        if len(checked) != len(proxies) or not any(checked):
            allowed = f"one for each of the {len(proxies)} proxies, not all zero"
            raise ValueError(message("weights", checked, allowed, "For no proxy use Zero()."))
        kept = [(p, s) for p, s in zip(proxies, checked, strict=True) if s > 0]
        for proxy, _ in kept:
            remedy = "Pass a loss such as a GLM."
            check.require("MixedProxy", "proxies", proxy, ("value", "gradient"), remedy)
        self.proxies = tuple(proxy for proxy, _ in kept)
        super().__init__(self.proxies, [s for _, s in kept])
        # Each proxy has batches of its own.
        drawn = all(has(p, "sample") for p in self.proxies)
        self.sample = self._sample if drawn else None
        self.samples = self.cost = self.value_and_gradient = None
        exact = all(getattr(p, "exact", False) for p in self.proxies)
        self.exact: bool | None = exact or None
        self.everything: Any = no_batch if exact else None
        self.terms = list(zip(self.weights, self.proxies, strict=True))

    @property
    def facts(self) -> Facts:
        """What the parts state; a batch of several is not divided."""
        return replace(super().facts, divisible=False)

    def _sample(self, rng: np.random.Generator) -> Batch:
        return None if self.exact else tuple(p.sample(rng) for p in self.proxies)

    def _batches(self, *batch: Batch) -> list[tuple[Batch, ...]]:
        if not batch or batch[0] is None:
            return [()] * len(self.proxies)
        return [(own,) for own in batch[0]]


def regularized(problem: Problem, mu: float, centre: Vector) -> Problem:
    """Return the problem with ``μ/2 ‖w − centre‖²`` added to objective and proxy alike.

    The difference of the two losses, and so δ, is untouched; both become μ-strongly convex. The
    convex theorem takes ``μ = 1/(ηK)`` and ``centre = w_0``.

    Parameters
    ----------
    problem : Problem
        The problem to regularise.
    mu : float
        Strength, zero or more.
    centre : array
        The point to stay close to.

    Returns
    -------
    Problem
        The regularised problem, with the same penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic
    >>> flat = Problem(Quadratic(np.diag([1.0, 0.0])))
    >>> regularized(flat, mu=0.5, centre=np.zeros(2)).objective.strong_convexity
    0.5
    """
    check.instance("problem", problem, Problem, "a Problem(objective, proxy)")
    mu, centre = check.nonnegative("mu", mu), check.vector("centre", centre, problem.dim)
    losses = (problem.objective, problem.proxy)
    objective, proxy = (Combination([loss], [1.0], mu=mu, centre=centre) for loss in losses)
    return replace(problem, objective=objective, proxy=proxy)
