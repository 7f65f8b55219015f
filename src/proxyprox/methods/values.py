r"""Losses that give their values alone: a quadratic beside the coarse loss, one fine call a step.

With the difference h = L − L̂, its value and gradient at the point w₀ of the last differences and an
estimate D of its second derivatives, the model of the fine loss is

.. math:: m(x) = \hat L(x) + \nabla h(w_0)^\top (x - w_0) + (x - w_0)^\top D (x - w_0) / 2.

D follows from the gradients of h at the points of the last differences by BFGS, which keeps the
curvature of the model positive, and changes as little as it can to agree with the values of h at
all points since (as in NEWUOA), by the metric of that curvature. The model is minimised in a box
around the best point, and the fine loss is called there.

A step that fails, or gains less than a quarter of what it promised, or less than the calls since
the last differences did on average, leads to differences at the best point, which take d calls.
The run ends if the model is fresh and promises nothing.

What is a quarter here, and the first box, were chosen on the fits of ``values_alone()`` in
experiments/calibration.py; docs/results/simulators/calls.md reports others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from proxyprox._util.arrays import rounding
from proxyprox.inner.base import NonFiniteError
from proxyprox.methods.mapping import (
    Array,
    ManifoldMapping,
    MappingPolicy,
    MappingState,
    Model,
    _float64,
)


@dataclass(frozen=True)
class ValueState(MappingState):
    """What the mapping of outputs knows, and the difference of both losses.

    ``past`` are the points of the last differences with the fine gradients there, the newest last;
    ``tried`` the points since, with the fine losses. ``bend`` is D, ``metric`` measures it, and
    ``trusted`` is the length of the last step that went as promised.
    """

    past: list[tuple[Array, Array]] = field(default_factory=list)
    tried: list[tuple[Array, float]] = field(default_factory=list)
    bend: Any = None
    metric: Any = None
    trusted: float = 0.0


@dataclass(frozen=True)
class ValueMapping(ManifoldMapping):
    """Correct the coarse loss by a quadratic: differences now and then, one fine call a step.

    The default if objective and proxy are functions that return values alone, and are
    differentiated by differences. It begins, ends and keeps to bounds as
    :class:`ManifoldMapping` does.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, minimize
    >>> from proxyprox.methods import ValueMapping
    >>> def fine(w):
    ...     return float(np.cosh(w[0] - 1) + np.cosh(2 * w[0] + w[1]))
    >>> def coarse(w):
    ...     return float((w[0] - 1.2) ** 2 / 2 + (2 * w[0] + w[1]) ** 2 / 2)
    >>> result = minimize(Problem(fine, coarse), np.zeros(2), method=ValueMapping())
    >>> result.w.round(3), result.status.name
    (array([ 1., -2.]), 'CONVERGED')
    """

    begins: ClassVar[type[MappingState]] = ValueState

    def _mapped(self, state: Any, proxy: Any) -> Any:
        return self._differences(state)

    def _differentiated(self, state: Any, outputs: list[Array], proxy: Any) -> Any:
        """Return the state with the fine gradient, and what it says of the difference."""
        first = state.steps is None and not state.past
        if first and rounding(state.w, 1 / 2) < MappingPolicy.noisy:
            # Smooth losses hardly change over a difference: noise shows without another call.
            noisy = self._measured(replace(state, points=state.points[:1]), outputs[0], proxy)
            if noisy.steps is not None:
                return self._differences(noisy)
        before, state = state, super()._differentiated(state, outputs, proxy)
        if state.mirrored:
            return state
        w, newest = _float64(state.w), state.jacobian[0]
        B = self._curvature(before, state.jacobian, proxy)
        # A step of one in this metric changes the loss by half of it, or a parameter by a step.
        size = max(abs(state.value), math.ulp(0.0))
        metric = B / size + np.diag((state.units * MappingPolicy.longest) ** -2)
        bend = B - _hessian(proxy, w)
        return replace(
            state, past=[*before.past[-2:], (w, newest)], tried=[], bend=bend, metric=metric,
            trusted=0.0,
            radius=max(before.radius, before.trusted) if before.past else MappingPolicy.longest,
        )  # fmt: skip

    def _curvature(self, state: Any, jacobian: Array, proxy: Any) -> Array:
        """Return the curvature where differences were taken: BFGS on what their gradients show.

        It begins at the coarse Hessian and D, every curvature of which is taken as positive.
        """
        w = _float64(state.w)
        H = _hessian(proxy, w)
        values, vectors = np.linalg.eigh(H + (0 if state.bend is None else state.bend))
        B = np.asarray((vectors * np.abs(values)) @ vectors.T)
        slope = jacobian[0] - _gradient(proxy, w)
        for point, fine in state.past:
            move = w - point
            bent, change = B @ move, H @ move + slope - (fine - _gradient(proxy, point))
            old, new = float(bent @ move), float(change @ move)
            # Nearer to each other the errors of differences are more than what bends.
            far = np.abs(move / state.units).max() > rounding(power=1 / 4)
            if far and new > rounding(power=1 / 4) * old:
                B = B + np.outer(change, change) / new
                B -= np.outer(bent, bent) / old if old > 0 else 0.0
        return B

    def _taught(self, state: Any, outputs: list[Array], proxy: Any) -> Any:
        """Return the state with what the answers show of the difference."""
        pairs = zip(state.points, outputs, strict=True)
        found = [(point, float(fine[0]) - proxy.value(point)) for point, fine in pairs]
        near, begun = rounding(power=1 / 4) * state.units, state.past[-1][0]
        found = [
            (point, gap) for point, gap in found
            if math.isfinite(gap) and (np.abs(point - begun) > near).any()
        ]  # fmt: skip
        return replace(state, tried=[*state.tried, *found])

    def _corrected(self, state: Any, outputs: list[Array], proxy: Any) -> Any:
        """Return the state that the answers taught; differences follow a step that disappoints."""
        before, state = state, super()._corrected(state, outputs, proxy)
        ratio = (before.value - state.value) / before.promise
        away = float(np.abs((before.points[0] - _float64(before.w)) / state.units).max())
        poor = ratio < 1 / 4 and not state.fresh
        return replace(
            state, trusted=before.trusted if ratio < 1 / 4 else away,
            stage="differences" if poor else state.stage,
        )  # fmt: skip

    def _model(self, state: Any, proxy: Any) -> Model:
        """Return the coarse loss with the difference's model: one output."""
        (begun, fine), D, M = state.past[-1], state.bend, state.metric
        level, slope = state.cycle - proxy.value(begun), fine - _gradient(proxy, begun)
        if state.tried:
            moves = np.array([point for point, _ in state.tried]) - begun
            gaps = np.array([gap for _, gap in state.tried])
            along = moves @ M
            squares = np.sum(moves * along, axis=1)
            # D + Σ λ v vᵀ / ‖s‖² with v = M s agrees with all gaps, and is the least such change.
            missed = 2 * (gaps - level - moves @ slope) - np.sum((moves @ D) * moves, axis=1)
            products = (moves @ along.T) ** 2 / np.outer(squares, squares)
            weights = np.linalg.lstsq(products, missed / squares, rcond=rounding())[0]
            D = D + (along.T * weights / squares) @ along

        def model(x: Array) -> Array:
            away = x - begun
            loss = proxy.value(x) + level + slope @ away + away @ D @ away / 2
            return np.array([loss if math.isfinite(loss) else HIGH])

        return model


# In place of a coarse loss that is not finite.
HIGH = 1e30


def _gradient(proxy: Any, w: Array) -> Array:
    """Return the coarse gradient; zero if it is not finite."""
    gradient = _float64(proxy.gradient(w))
    return gradient if np.isfinite(gradient).all() else np.zeros_like(w)


def _hessian(proxy: Any, w: Array) -> Array:
    """Return the coarse Hessian; zero if it is not finite."""
    try:
        return _float64(proxy.hessian(w))
    except NonFiniteError:
        return np.zeros((len(w), len(w)))
