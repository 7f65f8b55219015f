r"""Several proxies in one place, with weights that a run fits to the target.

A secant of the target has d equations for a handful of weights:

.. math:: \nabla L(w_1) - \nabla L(w_0) \approx \sum_i c_i
          \bigl(\nabla\hat L_i(w_1) - \nabla\hat L_i(w_0)\bigr), \qquad c_i \ge 0.

- *Units.* Before the first fit each proxy is divided by its own curvature, the trace of its
  Hessian at the start, so that a proxy in other units counts as much as any other.
- *The first answer* of an exact run is a gradient at w0. If the proxies' gradients there explain
  it, as those of the same labels do, it is the first secant, from an imagined minimum.
- *The fit* is non-negative least squares on the normal equations of all secants. Each secant is
  scaled to length one and fades as newer ones come. Secants of batches have errors, but those are
  the target's alone: the equations stay unbiased, and their mean over batches is what counts.
- *A ridge* keeps weights even among proxies that agree, and away from one whose curvature has all
  but vanished along the path: it would take a large weight, and be stiff elsewhere.
- *Small weights are zero.* Few secants see the directions in which a useless proxy is stiff.
- *Not proven:* that secants along a run's path tell the proxies apart in directions that the path
  has not seen.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector, from_numpy, to_numpy
from proxyprox._util.validation import Words, has, message
from proxyprox.problems.combination import MixedProxy
from proxyprox.problems.identity import combined_fingerprint
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Facts, Secant
from proxyprox.problems.quadratic import Zero

Array = np.ndarray[Any, Any]
# Secants are parallel but for rounding.
SAME = 1e-10
# Returns a proxy as the run asks it, counted under its name.
Meter = Callable[[Any, str], Any]


@dataclass(frozen=True)
class SeveralPolicy:
    """What the weights of several proxies are fitted by.

    benchmarks/several_proxies.py set it on mushrooms and generated tables
    (docs/results/several_proxies).

    Attributes
    ----------
    ridge : float
        The price of a squared weight, in units of the median proxy's squared secants.
    share : float
        A proxy that explains a smaller share of the secants gets the weight 0: a stiff useless one
        costs tens of rounds even at a hundredth.
    fade : float
        What an exact secant counts one round later, and one of a batch at the next one.
    explained : tuple of float
        The least share of the secants that weights above zero explain, and those that are worth a
        look at the combination's minimum.
    alike : float
        The least share of the target's first gradient that proxies of the same slope explain.
    """

    ridge: float = 0.1
    share: float = 0.1
    fade: tuple[float, float] = (0.8, 0.97)
    explained: tuple[float, float] = (0.3, 0.5)
    alike: float = 0.8


@dataclass(frozen=True)
class Weights:
    """The weights in use, and what they were fitted to.

    ``units`` are the inverse curvatures of the proxies, 0 of one that is left out; ``gram``
    has the products of the secants, the target's last.
    """

    numbers: tuple[float, ...]
    units: tuple[float, ...]
    gram: tuple[tuple[float, ...], ...]
    k: int = 0
    explained: float = math.nan
    leap: bool = False

    @property
    def shares(self) -> Array:
        """The share of each proxy in the combination's curvature."""
        units = np.array(self.units)
        parts = np.divide(self.numbers, units, out=np.zeros(len(units)), where=units > 0)
        return np.asarray(parts / (parts.sum() or 1.0))


class Several(MixedProxy):
    """Several proxies of one target: a run finds out what each is worth.

    :class:`~proxyprox.Problem` makes it of a list or a dict of proxies. By itself it is their mean.

    Parameters
    ----------
    proxies : sequence or mapping of proxies
        The proxies; the keys of a mapping are their names in ledgers and results.
    """

    def __init__(self, proxies: Sequence[Any] | Mapping[str, Any]) -> None:
        named = dict(proxies) if isinstance(proxies, Mapping) else {}
        named = named or {str(i + 1): proxy for i, proxy in enumerate(proxies)}
        self.names = tuple(map(str, named))
        if len(set(self.names)) < len(named):
            raise ValueError(message("proxy", list(named), "a dict of names that differ as texts"))
        super().__init__(list(named.values()), [1 / len(named)] * len(named))
        kinds = {str(s.dtype): s for p in self.proxies if (s := facts_of(p).start) is not None}
        if len(kinds) > 1:
            remedy = "Convert their data to one of them."
            raise TypeError(message("proxies", sorted(kinds), "of one dtype", remedy))

    @property
    def facts(self) -> Facts:
        """What the proxies state."""
        return replace(super().facts, learns=True)

    def begin(self, w: Vector, meter: Meter) -> Weights:
        """Return weights that give every proxy the same curvature at w."""
        traces = [self._trace(meter(*pair), w) for pair in self._named()]
        self._warn(np.isnan(traces))
        good = [trace for trace in traces if trace > 0]
        middle = float(np.median(good)) if good else 1.0
        units = tuple(0.0 if math.isnan(t) else 1 / t if t > 0 else 1 / middle for t in traces)
        # In all 1: of losses that are like the target's their mean promises what it may reach.
        numbers = tuple(unit / (sum(units) or 1.0) for unit in units)
        return Weights(numbers, units, none(len(units)))

    def learn(self, state: Weights, secants: Sequence[Secant], k: int, meter: Meter) -> Weights:
        """Return the weights after the target has answered at the ends of some ways."""
        policy, gram = SeveralPolicy, np.array(state.gram)
        units = np.array(state.units)
        for secant in secants:
            target = change(secant.gradients)
            size = float(np.linalg.norm(target))
            if not 0 < size < math.inf:
                continue
            ends = [[p.gradient(w) for w in secant.points] for p in self._metered(meter)]
            rows = np.array([change(e) for e in ends])
            faulty = ~np.isfinite(rows).all(axis=1)
            self._warn(faulty & (units > 0))
            units[faulty], rows[faulty] = 0.0, 0.0
            rows = np.vstack([units[:, None] * rows, target]) / size
            fade = policy.fade[0] ** (k - state.k) if secant.exact else policy.fade[1]
            gram = fade * gram + rows @ rows.T
            state = replace(state, k=k)
        state = replace(state, units=tuple(map(float, units)), gram=tuple(map(tuple, gram)))
        fitted = self._fitted(state, gram)
        alike = policy.alike if secants[-1].exact else policy.explained[0]
        if len(secants[-1].points) == 1 and not fitted.explained > alike:
            # A slope of its own says nothing of curvature, and the proxies are no better at this.
            return replace(state, numbers=(0.0,) * len(units), gram=none(len(units)))
        return fitted

    def using(self, state: Weights, meter: Meter) -> Any:
        """Return the combination in use."""
        if not any(state.numbers):
            return Zero()
        return MixedProxy(self._metered(meter), state.numbers)

    def words(self, state: Weights) -> str:
        """Say what each proxy was worth."""
        # A number alone would be read as a weight.
        names = [f"proxy {name}" if name.isdigit() else name for name in self.names]
        pairs = list(zip(names, state.shares, strict=True))
        worth = ", ".join(f"{name} {share:.2f}" for name, share in pairs if share > 0)
        lost = [name for name, unit in zip(names, state.units, strict=True) if not unit]
        idle = [name for name, share in pairs if share == 0 and name not in lost]
        text = f"Of the proxies' curvature: {worth or 'none'}."
        if idle:
            says = "says" if len(idle) == 1 else "say"
            text += f" {' and '.join(idle)} {says} nothing about this target."
        if lost:
            text += f" Left out, since they are not finite: {', '.join(lost)}."
        A = np.array(state.gram)[:-1, :-1]
        alike = (1 - SAME) * np.outer(np.diag(A), np.diag(A)) < A**2
        for i, j in zip(*np.nonzero(np.triu(alike, 1)), strict=True):
            one, two = names[i], names[j]
            text += f" {one} and {two} are the same along the run: their weights are not unique."
        return text

    def _warn(self, faulty: Array) -> None:
        for name in np.array(self.names)[faulty]:
            text = f"The proxy {name} is NaN or infinite at a point: it is left out."
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _named(self) -> list[tuple[Any, str]]:
        return list(zip(self.proxies, self.names, strict=True))

    def _metered(self, meter: Meter) -> list[Any]:
        return [meter(*pair) for pair in self._named()]

    @staticmethod
    def _trace(proxy: Any, w: Vector) -> float:
        """Return the trace of a Hessian, by random signs if there is no matrix; NaN if it fails."""
        try:
            if has(proxy, "hessian"):
                trace = float(np.abs(np.diag(to_numpy(proxy.hessian(w)))).sum())
                return trace if math.isfinite(trace) else math.nan
            signs = from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], len(w)), like=w)
            if has(proxy, "hvp"):
                product = proxy.hvp(w, signs)
            else:
                product = proxy.gradient(w + signs / 2) - proxy.gradient(w - signs / 2)
            trace = abs(float(product @ signs))
            return trace if math.isfinite(trace) else math.nan
        except ArithmeticError:
            return math.nan

    def _fitted(self, state: Weights, gram: Array) -> Weights:
        policy, units = SeveralPolicy, np.array(state.units)
        A, b, kept = gram[:-1, :-1], gram[:-1, -1], units > 0
        if not kept.any() or not gram[-1, -1] > 0:
            return replace(state, leap=False)
        ridge = policy.ridge * float(np.median(np.diag(A)[kept]))
        while True:
            found = np.zeros(len(units))
            own = A[np.ix_(kept, kept)] + ridge * np.eye(int(kept.sum()))
            found[kept] = nonnegative_fit(own, b[kept])
            share = found * b / (found @ b or 1.0)
            small = kept & (share < policy.share)
            if not small.any():
                break
            kept = kept & ~small
        # The ridge makes weights even, and smaller in all: their sum follows from the fit itself.
        found *= (found @ b) / (found @ A @ found or 1.0)
        explained = float(found @ b / gram[-1, -1])
        if explained < policy.explained[0]:
            found *= 0.0
        leap = explained > policy.explained[1] and bool(((found > 0) != (state.shares > 0)).any())
        numbers = tuple(map(float, found * units))
        return replace(state, numbers=numbers, explained=explained, leap=leap)


def none(count: int) -> tuple[tuple[float, ...], ...]:
    """Return the products of no secants of some proxies."""
    return ((0.0,) * (count + 1),) * (count + 1)


def change(gradients: Sequence[Vector]) -> Array:
    """Return the difference of two gradients, or the one there is."""
    first, *last = (to_numpy(g).astype(np.float64) for g in gradients)
    return first - last[0] if last else first


def nonnegative_fit(gram: Array, right: Array) -> Array:
    """Return the c ≥ 0 of least ``cᵀAc − 2bᵀc``; of equal columns each gets the same."""
    # Here, because it takes long to import.
    from scipy.optimize import nnls

    if not len(gram):
        return np.zeros(0)
    values, vectors = np.linalg.eigh(gram + 1e-9 * np.trace(gram) * np.eye(len(gram)))
    root = np.sqrt(np.maximum(values, 1e-300))
    return np.asarray(nnls((vectors * root).T, (vectors.T @ right) / root)[0])


class Ladder:
    """The medium model of a problem, as the proxy of a finer one.

    Its subproblems are solved as the problem would be: with few gradients of the medium model, by
    leaning on the coarse one. If a Hessian is asked for, it is the coarse one's, corrected by the
    changes of the medium gradients that are known already.

    Parameters
    ----------
    problem : Problem
        The medium model, whose gradients are exact, and its proxy.
    """

    def __init__(self, problem: Any) -> None:
        medium, self.coarse = problem.objective, problem.proxy
        exact = getattr(medium, "exact", False) or has(medium, "everything")
        if not (exact and has(medium, "value")) or problem.penalty is not None:
            got = Words(f"a Problem of a {type(medium).__name__}")
            allowed = "one whose objective has values and full gradients, without a penalty"
            raise TypeError(message("proxy", got, allowed, "Give penalty and bounds to the outer."))
        self.medium, self.dim, self.value = medium, problem.dim, medium.value
        for name in ("hvp", "smoothness", "strong_convexity", "cost", "evaluations"):
            if getattr(medium, name, None) is not None:
                setattr(self, name, getattr(medium, name))
        self.levels = (medium, *(facts_of(self.coarse).levels or (self.coarse,)))

    def gradient(self, w: Vector) -> Vector:
        """Return the medium model's gradient."""
        medium = self.medium
        batch = medium.everything() if has(medium, "everything") else None
        answer: Vector = medium.gradient(w, batch)
        return answer

    @property
    def facts(self) -> Facts:
        """What is known of the medium model, and its helper."""
        known = replace(facts_of(self.medium), work=None, units=None, subsample=None, rows=None)
        return replace(known, helper=self.coarse, levels=self.levels)

    def fingerprint(self) -> str | None:
        """Return a text that only equal ladders share."""
        return combined_fingerprint("ladder", self.levels)
