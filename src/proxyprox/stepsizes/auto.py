r"""The rule behind ``eta="auto"``.

The convex corollary of the paper wants ``η = min{1/(4δ), B/(σ√K)}``. Here everything in it is
measured on the way:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1}{\delta_k},\;
          \frac{1.2\,\|\bar w_k - w_0\|}{\sqrt{k\,r_k v_k}}\Big\}

δ from secants of h on one batch (:mod:`~proxyprox.stepsizes.similarity`), the noise v from half
batches (:mod:`~proxyprox.stepsizes.noise`), the share r of it that reaches the iterate from a few
steps shaken on purpose (:mod:`~proxyprox.stepsizes.geometry`), B from the distance travelled, as in
DoG, and K from the steps so far, which makes the rule anytime. The last term's denominator holds
noise only, not the gradients themselves: a deterministic run is never slowed down by it. Where the
correction is plain, past differences are weighed in by their expected error
(:mod:`~proxyprox.stepsizes.gain`). The answer is the average with weights ``k³`` of the iterates,
or the last one if nothing is noisy. Without a proxy, in :class:`~proxyprox.SGD` with noisy
gradients, the gradients take the place of δ and v (:mod:`~proxyprox.stepsizes.distance`).

A step is taken back when its own secant shows that it overshot (``δ > 2/η`` along it): the newest
batch's gradient at the point before is known already, so the step that replaces it costs nothing.

What is proven, for exact inner solves:

* Where L is convex and its gradients exact, a step s whose secant shows ``q ≤ 1/η`` never raises L:
  ``∇L(w⁺) = ∇h(w⁺) − ∇h(w) − s/η`` at the subproblem's solution, hence by convexity
  ``L(w⁺) − L(w) ≤ ⟨∇L(w⁺), s⟩ = −(1/η − q)‖s‖²``. For quadratic L̂ and h, ``q ≤ 2/η`` is enough.
* Every step that is taken back at least halves η (``q > 2/η`` and then ``η ≤ 1/q``), and where h is
  δ-smooth the similarity term alone never pushes η below ``1/(√2 δ)`` (√2: powers of two).
* With δ, B and σ known in place of their estimates, and the newest difference alone: the
  corollary's bound, with ``r σ²`` in the place of σ².

What is not: that the estimates are good enough. That is tested, in ``benchmarks/auto_eta.py``.

References
----------
Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
ICML 2023, for the distance over gradients; Shamir and Zhang, "Stochastic gradient descent for
non-smooth optimization", ICML 2013, for the polynomial-decay average.
"""

from __future__ import annotations

import math
from typing import Any

from proxyprox._arrays import Vector, dot, norm, square
from proxyprox.stepsizes import distance
from proxyprox.stepsizes.base import Memory, Signals
from proxyprox.stepsizes.gain import with_gain
from proxyprox.stepsizes.geometry import due
from proxyprox.stepsizes.noise import with_noise
from proxyprox.stepsizes.similarity import with_curvature

GROW = 2.0
REACH = 1.2
BLIND_REACH = 2.0
"""The factor of the last term where r could not be measured and 1 stands for it."""

POWER = 3
LARGEST = 2.0**40
"""η beyond which the quadratic term is nothing but rounding."""

FARTHEST = 10.0

PROBE = 1e-4
"""Length of the first step, in units of max(1, ‖w_0‖), where nothing is known about scales."""

EVERY_STEP = 20
THEN_EVERY = 10
"""Secants are taken at the first twenty steps and at every tenth after: 10 % more gradients."""


def begin(w0: Vector, problem: Any | None, *, uses_proxy: bool = True) -> Memory:
    """Return what the rule knows before the first step; without a proxy, h is L itself."""
    objective = None if problem is None else problem.objective
    same = uses_proxy and problem is not None and problem.same_curvature
    repeatable = bool(getattr(objective, "repeatable", True))
    levels = ("eta", "noise", "spread", "error", "moved", "time", "reach", "exact", "probed")
    secants = ("delta", "rate", "mean", "weight", "peak", "trough")
    return {
        **dict.fromkeys((*levels, *secants), 0.0),
        "gain": 1.0,
        "damping": 1.0,
        "shaken": 0.0,
        "shakes": float(uses_proxy),
        "secants": float(repeatable and not same),
        "same": float(same),
        "start": w0,
        "average": w0,
        **({} if uses_proxy else distance.remembered(w0)),
    }


def wants_secant(memory: Memory, k: int) -> bool:
    """Tell whether the batch of step k should also be evaluated at the point before."""
    # Exact gradients are all of one batch: the point before has been answered already.
    if not memory["secants"] or memory["exact"] or k == 0:
        return False
    if distance.applies(memory, None):
        # One, for the scale of the steps.
        return k == 1
    return k <= EVERY_STEP or k % THEN_EVERY == 0


def wants_shaking(memory: Memory, k: int) -> bool:
    """Tell whether step k should also be tried with a sample of the noise added."""
    return bool(memory["shakes"]) and due(k)


def observed(memory: Memory, signals: Signals, estimate: Vector | None) -> Memory:
    """Return the memory after a batch's gradients: its ``eta`` and ``gain`` are for this step."""
    alone = distance.applies(memory, signals.noise)
    memory = with_noise(memory, signals, estimate)
    if alone:
        memory = distance.with_gradient(memory, signals, estimate)
    else:
        memory = _with_similarity(memory, signals, estimate)
        memory = with_gain(memory, signals.k)
    if signals.k == 0:
        memory, eta = _first(memory, signals)
    elif signals.k == 1 and memory["probed"]:
        memory, eta = _second(memory, signals)
    else:
        eta = GROW * memory["eta"]
    eta = min(eta, *_limits(memory, signals, alone=alone), LARGEST)
    if not eta > 0:
        eta = memory["eta"]
    elif not alone:
        # Powers of two: solvers that keep a factor of ∇²L̂ + I/η need a new one only now and then.
        eta = 2.0 ** round(math.log2(eta))
    # Kept only where the next batch's noise will be read off it.
    last = {} if signals.noise else {"last": signals.difference}
    return {**memory, **last, "eta": eta, "exact": float(signals.noise == 0)}


def overshot(memory: Memory, signals: Signals) -> bool:
    """Tell whether the secant shows that the last step went beyond a minimum along itself."""
    if signals.before is None:
        return False
    curvature = signals.curvature(signals.difference - signals.before)
    return curvature > 2 / float(memory["eta"])


def too_long(memory: Memory, centre: Vector, w: Vector) -> bool:
    """Tell whether a step leads tenfold beyond all that was seen: a subproblem all but singular."""
    seen = max(norm(centre - memory["start"]), float(memory["moved"]), float(memory["reach"]))
    return seen > 0 and norm(w - centre) > FARTHEST * seen


def shortened(memory: Memory) -> Memory:
    """Return the memory after a subproblem without a finite solution: a quarter of η for a while.

    Such a proxy curves downwards, by 1/η or more, which h must make up for.
    """
    eta = memory["eta"] / 4
    peak = max(memory["peak"], 1 / eta)
    return {**memory, "eta": eta, "peak": peak, "delta": max(memory["delta"], peak)}


def tracked(memory: Memory, difference: Vector, estimate: Vector | None) -> Vector:
    """Return the estimate of ∇h that the gain makes of the newest difference."""
    return difference if estimate is None else estimate + memory["gain"] * (difference - estimate)


def moved(memory: Memory, centre: Vector, w: Vector, k: int) -> Memory:
    """Return the memory after step k from ``centre`` to ``w``."""
    share = min(1.0, (1 + POWER) / (k + 1 + POWER))
    average = memory["average"] + share * (w - memory["average"])
    time = min(LARGEST, memory["time"] + memory["eta"])
    if "recent" in memory:
        memory = distance.with_step(memory, centre, w, k)
    return {**memory, "moved": norm(w - centre), "time": time, "average": average}


def answer(memory: Memory, w: Vector) -> Vector:
    """Return the average, or the last iterate if there is no noise to average away.

    Without a proxy, a shorter average where the longer one is shown to lag behind the iterates.
    """
    if not memory["spread"] > 0:
        return w
    return memory["recent"] if memory.get("lag", 0.0) > 0 else memory["average"]


def _with_similarity(memory: Memory, signals: Signals, estimate: Vector | None) -> Memory:
    """Measure the curvature of h along the last step, as well as the oracle allows."""
    if signals.step is None or memory["same"]:
        return memory
    if signals.before is not None:
        return with_curvature(memory, signals.curvature(signals.difference - signals.before))
    if estimate is None:
        return memory
    # Another batch made the estimate, and the estimate made the step: only what neither its noise
    # nor that bias can explain counts.
    gap, length, noise = signals.difference - estimate, norm(signals.step), memory["noise"]
    doubt = math.sqrt(noise + memory["error"]) * length + memory["eta"] * noise
    curvature = max(0.0, dot(gap, signals.step) - doubt) / square(length) if length > 0 else 0.0
    if memory["secants"] and curvature * memory["eta"] <= 2:
        # Secants are better; between them this is an alarm.
        return memory
    return with_curvature(memory, curvature)


def _first(memory: Memory, signals: Signals) -> tuple[Memory, float]:
    """Return 1/H where the proxy's scale must be trusted, else a step that is only a probe."""
    H = signals.smoothness
    if not memory["secants"] and H is not None and 0 < H < math.inf:
        return memory, 1 / H
    length = PROBE * max(1.0, norm(signals.w))
    steepness = norm(signals.gradient)
    return {**memory, "probed": 1.0}, length / steepness if steepness > 0 else length


def _second(memory: Memory, signals: Signals) -> tuple[Memory, float]:
    """Return a gradient step's η, from the curvature of L that the first step has shown."""
    if signals.anchor_change is None:
        return memory, GROW * memory["eta"]
    change = signals.anchor_change
    if signals.before is not None:
        change = change + signals.difference - signals.before
    curvature = signals.curvature(change)
    if not curvature > 0:
        return memory, GROW * memory["eta"]
    eta = 1 / curvature
    if distance.applies(memory, signals.noise):
        eta = min(eta, distance.JUMP * memory["eta"])
    return {**memory, "reach": eta * norm(signals.gradient)}, eta


def _limits(memory: Memory, signals: Signals, *, alone: bool) -> tuple[float, ...]:
    if alone:
        return (distance.limit(memory, signals),)
    return _similarity_limit(memory), _noise_limit(memory, signals.k)


def _similarity_limit(memory: Memory) -> float:
    delta = float(memory["delta"])
    return 1 / delta if delta > 0 else math.inf


def _noise_limit(memory: Memory, k: int) -> float:
    distance = max(norm(memory["average"] - memory["start"]), float(memory["reach"]))
    if memory["spread"] == 0 or distance == 0:
        return math.inf
    reach = REACH if memory["shaken"] else BLIND_REACH
    return reach * distance / math.sqrt((k + 1) * float(memory["damping"] * memory["spread"]))
