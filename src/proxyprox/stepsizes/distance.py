r"""The step size without a proxy: the distance travelled over the gradients.

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1.2\,D_k}{\sqrt{k\,G_k}}\Big\},\qquad
          D_k = \min\Big\{\|\bar w_k - w_0\|,\; 6 \max_{j \le k}
          \frac{\|w_j - w_0\|^2 - \sum_{i<j}\|w_{i+1} - w_i\|^2}{2\|w_j - w_0\|}\Big\}

G is the mean of ``‖g_i‖²`` with weights i³; twice the last term is allowed while the average lags.
This is DoG, with a numerator that a single long step cannot raise and a denominator that forgets a
steep start. It serves SGD with noisy gradients. Curvature, which limits the step of a proxy, says
too little here: where noise is small and the curvature falls as the loss does (logistic regression
on all but separable data), steps far beyond 1/H that bounce at first are by far the best; where
noise is large, 1/H is too long. Both show in ``‖g‖``. That a step never grows out of hand is seen
from ``k G_k ≥ 4k/(k + 4) ‖g_k‖²``: beyond the first few, no step is much longer than 0.6 of the
distance travelled (1.2 while the average lags), and gradients that grow shorten the next ones.

Distance travelled is no proof of distance to go: where the loss is all but linear (a hinge,
absolute deviations) steps double unopposed, and bounded gradients never call them back. The second
term of D does. For convex L, ``0 ≤ Σ η_i ⟨g_i, w_i − w*⟩`` in expectation; with ``η_i g_i = w_i −
w_{i+1}`` this telescopes to ``(‖w_j − w_0‖² − Σ ‖w_{i+1} − w_i‖²)/2 ≤ ‖w_j − w_0‖ ‖w_0 − w*‖``: the
fraction is a distance that is proven to lie ahead (D-adaptation's bound, without its vectors). It
is a third of the distance travelled while steps double on a slope.

What else is proven, for convex L and in expectation: the newest batch is independent of both
points, so

.. math:: \lambda_k = \sum_i a_i \langle g_i, \bar w_i - w_i\rangle,\qquad
          \sum_i a_i\,(L(\bar w_i) - L(w_i)) \;\ge\; \mathbb{E}\,\lambda_k

with the weights ``a_i ∝ i¹⁵``. So λ > 0 is evidence that the iterates are on average better than
the averages beside them; by Jensen so is then their mean with the weights a, which becomes the
answer. (As evidence λ is noisy, and the newest iterate comes after it.) Where noise rules,
``E⟨∇L(w), w − w̄⟩`` is about ``η E‖g‖²/2``, hence λ < 0 and the answer stays the long average. With
a penalty, g is replaced in λ by a subgradient of the whole: the proximal step to ``w_i`` has shown
one of the penalty there, ``(w_{i−1} − w_i)/η_{i−1} − g_{i−1}``.

References
----------
Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
ICML 2023; Defazio and Mishchenko, "Learning-rate-free learning by D-adaptation", ICML 2023.
"""

from __future__ import annotations

import math

from proxyprox._arrays import Vector, dot, norm, square
from proxyprox.stepsizes.base import Memory, Signals

REACH = 1.2
LAGGING = 2.0
"""How much longer steps may be while the average is shown to lag behind the iterates."""

JUMP = 1024.0
"""How much longer than the probe the second step may be: where the loss is all but linear, its
curvature says nothing."""

TRUST = 6.0
"""Distances beyond so many times the proven one are not believed."""

POWER = 3
SHORT = 15
"""Weights ``k¹⁵``: the mean of about the last sixteenth of the run."""


def remembered(w0: Vector) -> Memory:
    """Return what this rule keeps, before the first step."""
    return {"square": 0.0, "lag": 0.0, "path": 0.0, "proven": 0.0, "recent": w0}


def applies(memory: Memory, noise: float | None) -> bool:
    """Tell whether there is no proxy but noise."""
    return "square" in memory and noise != 0


def with_gradient(memory: Memory, signals: Signals, estimate: Vector | None) -> Memory:
    """Update G and the lag with the newest gradient; ``estimate`` is the one before."""
    gradient, k = signals.gradient, signals.k
    square = memory["square"] + _share(k, POWER) * (dot(gradient, gradient) - memory["square"])
    if signals.step is not None and estimate is not None:
        # What the last proximal step has added; nothing but rounding without a penalty.
        gradient = gradient - estimate - signals.step / memory["eta"]
    newest = dot(gradient, memory["average"] - signals.w)
    lag = memory["lag"] + _share(k, SHORT) * (newest - memory["lag"])
    return {**memory, "square": square, "lag": lag}


def limit(memory: Memory, signals: Signals) -> float:
    """Return the largest η that the distance and the gradients allow."""
    begun = float(memory["reach"])
    travelled = max(norm(memory["average"] - memory["start"]), begun)
    distance = min(travelled, max(TRUST * float(memory["proven"]), begun))
    if memory["square"] == 0 or distance == 0:
        return math.inf
    reach = REACH * (LAGGING if memory["lag"] > 0 else 1.0)
    return reach * distance / math.sqrt((signals.k + 1) * float(memory["square"]))


def with_step(memory: Memory, centre: Vector, w: Vector, k: int) -> Memory:
    """Update the short mean and the proven distance with step k, from ``centre`` to ``w``."""
    recent = memory["recent"] + _share(k, SHORT) * (w - memory["recent"])
    path = memory["path"] + square(norm(w - centre))
    away = norm(w - memory["start"])
    proven = (away - path / away) / 2 if away > 0 else 0.0
    return {**memory, "recent": recent, "path": path, "proven": max(memory["proven"], proven)}


def _share(k: int, power: int) -> float:
    """Return the newest one's share in a mean with weights ``k**power``, or about so."""
    return min(1.0, (1 + power) / (k + 1 + power))
