r"""The rule behind ``eta="auto"``.

The convex corollary of the paper wants ``η = min{1/(4δ), B/(σ√K)}``. Here everything in it is
measured on the way:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1}{\delta_k},\;
          \frac{1.2\,\|\bar w_k - w_0\|}{\sqrt{k\,r_k v_k}}\Big\}

δ comes from secants of h on one batch (:func:`with_curvature`), the noise v from half batches
(:func:`with_noise`), the share r of it that reaches the iterate from a few subproblems solved again
with a sample of the noise added (:func:`with_damping`), B from the distance travelled, as in DoG,
and K from the steps so far, which makes the rule anytime. The last term's denominator holds noise
only, not the gradients themselves, so that it never slows a deterministic run. Where the correction
is plain, past differences are weighed in by their expected error (:func:`with_gain`). The answer
is the average of the iterates with weights ``k³``, or the last one if nothing is noisy.

A step is taken back when its own secant shows that it overshot (``δ > 2/η`` along it): the newest
batch's gradient at the point before is known already, so the step that replaces it costs nothing.

What is proven, for exact inner solves:

* Where L is convex and its gradients exact, a step s whose secant shows ``q ≤ 1/η`` never raises L:
  ``∇L(w⁺) = ∇h(w⁺) − ∇h(w) − s/η`` at the subproblem's solution, hence by convexity
  ``L(w⁺) − L(w) ≤ ⟨∇L(w⁺), s⟩ = −(1/η − q)‖s‖²``. For quadratic L̂ and h, ``q ≤ 2/η`` is enough.
* Every step that is taken back at least halves η (``q > 2/η`` and then ``η ≤ 1/q``), and where the
  gradients are exact and h is δ-smooth the similarity term alone never pushes η below
  ``1/(√2 δ)`` (√2: powers of two). A sampled batch's secants may exceed δ, and push it lower.
* With δ, B and σ known in place of their estimates, and the newest difference alone: the
  corollary's bound, with ``r σ²`` in the place of σ².

That the estimates are good enough is not proven. It is tested, in ``benchmarks/auto_eta.py``.

**Without a proxy**, in :class:`~proxyprox.SGD` with noisy gradients, the distance travelled over
the gradients takes the place of δ and v:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1.2\,D_k}{\sqrt{k\,G_k}}\Big\},\qquad
          D_k = \min\Big\{\|\bar w_k - w_0\|,\; 6 \max_{j \le k}
          \frac{\|w_j - w_0\|^2 - \sum_{i<j}\|w_{i+1} - w_i\|^2}{2\|w_j - w_0\|}\Big\}

G is the mean of ``‖g_i‖²`` with weights i³; twice the last term is allowed while the average lags.
This is DoG, with a numerator that a single long step cannot raise and a denominator that forgets a
steep start. Curvature, which limits the step of a proxy, says too little here: where noise is small
and the curvature falls as the loss does (logistic regression on nearly separable data), steps far
beyond 1/H that bounce at first are by far the best; where noise is large, 1/H is too long. Both
show in ``‖g‖``. Steps stay bounded because ``k G_k ≥ 4k/(k + 4) ‖g_k‖²``: beyond the first few, no
step is much longer than 0.6 of the distance travelled (1.2 while the average lags), and gradients
that grow shorten the next ones.

Distance travelled does not prove distance to go: where the loss is nearly linear (a hinge, absolute
deviations) steps double unopposed, and bounded gradients never stop them. The second term of D
does. For convex L, ``0 ≤ Σ η_i ⟨g_i, w_i − w*⟩`` in expectation if the step sizes do not depend on
the gradients they multiply; with ``η_i g_i = w_i − w_{i+1}`` this telescopes to
``(‖w_j − w_0‖² − Σ ‖w_{i+1} − w_i‖²)/2 ≤ ‖w_j − w_0‖ ‖w_0 − w*‖``, a lower bound on the distance to
go (D-adaptation's, without its vectors). Here η_i does depend on g_i, so that the bound is a
heuristic.

Whether the average lags is measured with gradients of batches that are independent of both points:

.. math:: \lambda_k = \sum_i a_i \langle g_i, \bar w_i - w_i\rangle,\qquad
          \sum_i a_i\,(L(\bar w_i) - L(w_i)) \;\ge\; \mathbb{E}\,\lambda_k

for convex L, with the weights ``a_i ∝ i¹⁵``. So λ > 0 is evidence that the iterates are on average
better than the averages beside them; by Jensen so is then their mean with the weights a, which
becomes the answer. Where noise dominates, ``E⟨∇L(w), w − w̄⟩`` is about ``η E‖g‖²/2``, hence λ < 0
and the answer stays the long average. With a penalty, g is replaced in λ by a subgradient of the
whole: the proximal step to ``w_i`` has shown one of the penalty there,
``(w_{i−1} − w_i)/η_{i−1} − g_{i−1}``.

References
----------
Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
ICML 2023, for the distance over gradients; Defazio and Mishchenko, "Learning-rate-free learning by
D-adaptation", ICML 2023; Shamir and Zhang, "Stochastic gradient descent for non-smooth
optimization", ICML 2013, for the polynomial-decay average.
"""

from __future__ import annotations

import math
from typing import Any

from proxyprox._util.arrays import Vector, dot, norm, square
from proxyprox.stepsizes.base import Memory, Signals

FORGET = 0.8
"""Weight of the past in the running mean of curvatures."""

FADE = 0.9
"""How fast the largest curvature seen is forgotten."""


def with_curvature(memory: Memory, curvature: float) -> Memory:
    r"""Update δ with the curvature of h along the last step.

    .. math:: q = \frac{\langle \nabla h(w_k) - \nabla h(w_{k-1}), w_k - w_{k-1}\rangle}
                       {\|w_k - w_{k-1}\|^2},\qquad
              \delta = \max\{0, \bar q, \text{peak}\}

    Both gradients are of the newest batch, which is independent of the step: q is unbiased for
    the curvature of h between the two points. (On the batch that made the step it would not be.)
    Only its positive part can make a step overshoot, since h lies below its tangent plane plus
    ``q/2 ‖s‖²``; a proxy that is too curved only makes it short. The mean alone is too slow where
    the path turns into a direction in which the proxy is flat: the fading peak is kept too.

    How fast ∇h changes along the path, the ``rate``, counts both signs.
    """
    mean = FORGET * memory["mean"] + curvature
    weight = FORGET * memory["weight"] + 1
    peak = max(curvature, FADE * memory["peak"])
    trough = min(curvature, FADE * memory["trough"])
    return {
        **memory,
        "mean": mean,
        "weight": weight,
        "peak": peak,
        "trough": trough,
        "delta": max(0.0, mean / weight, peak),
        "rate": max(abs(mean) / weight, peak / 2, -trough / 2),
    }


NOISE_RECENT = 0.1
"""Weight of the newest batch in the noise level used for weighing gradients."""

POWER = 3
"""The level used for the step size is a mean with weights k³: recent batches count most."""


def with_noise(memory: Memory, signals: Signals, estimate: Vector | None) -> Memory:
    """Update both noise levels with this batch's."""
    newest, k = _measured_noise(memory, signals, estimate), signals.k
    recent = newest if k == 0 else memory["noise"] + NOISE_RECENT * (newest - memory["noise"])
    share = min(1.0, (1 + POWER) / (k + 1 + POWER))
    if k == 1 and signals.noise is None:
        # The first batch alone says nothing about its noise: take the second's for both.
        recent, share = newest, 1.0
    spread = memory["spread"] + share * (newest - memory["spread"])
    return {**memory, "noise": recent, "spread": spread}


def _measured_noise(memory: Memory, signals: Signals, estimate: Vector | None) -> float:
    """Return an estimate of ``E‖g − ∇L‖²``.

    Best is what the objective says: two half batches give ``‖g₁ − g₂‖²/4`` without bias. Next,
    two batches at one point: a secant re-evaluates the newest at ``w_{k−1}``, where the difference
    of the batch before is remembered. Otherwise the surprise ``‖d_k − m‖²``, of which the share
    that the error of m explains is left out.
    """
    if signals.noise is not None:
        return signals.noise
    if signals.before is not None and "last" in memory:
        gap = signals.before - memory["last"]
        return dot(gap, gap) / 2
    if estimate is None:
        return 0.0
    gap = signals.difference - estimate
    level, error = memory["noise"], memory["error"]
    explained = max(level / (level + error), 0.5) if level + error > 0 else 0.5
    return dot(gap, gap) * explained


DAMPING_RECENT = 0.25
"""Weight of the newest measurement, once there are four."""

LEAST_DAMPING = 1e-12

PER_OCTAVE = 4
"""Measurements are made four times while the number of steps doubles: it changes slowly."""


def due(k: int) -> bool:
    """Tell whether the damping should be measured at step k."""
    return k > 0 and math.floor(PER_OCTAVE * math.log2(k + 1)) > PER_OCTAVE * math.log2(k)


def horizon(memory: Memory) -> float:
    """Return over how much time (the sum of step sizes) noise adds up in one direction.

    That is all the time so far, unless ∇h has drifted since: then it is about 1/δ.
    """
    rate, eta = float(memory["rate"]), float(memory["eta"])
    return max(eta, min(float(memory["time"]), 1 / rate if rate > 0 else math.inf))


def with_damping(memory: Memory, shift: Vector, gap: Vector, eta: float) -> Memory:
    r"""Update the share r of the noise that counts, from a step that was shaken on purpose.

    .. math:: r = \frac{\langle u, w^+(0) - w^+(u)\rangle}{\eta\,\|u\|^2} \in [0, 1]

    ``w⁺(u)`` solves the subproblem with u, a sample of the noise, added to its linear term; here
    ``shift = w⁺(u) − w⁺(0)``. Since the subproblem is 1/η-strongly convex, r is at most 1 (and is
    1 without a proxy); for a quadratic proxy ``r = uᵀ(I + ηP)⁻¹u/‖u‖²``: the noise in directions
    where the proxy is steep hardly moves the iterate.

    This is the term by which noise enters the paper's proof. With ``g = ∇L(w) + ξ``, a minimiser
    w* and the noiseless step w̃, ``E⟨ξ, w* − w⁺⟩ = E⟨ξ, w̃ − w⁺⟩ = η E[r‖ξ‖²]``, which the proof
    bounds by ησ². Its bound therefore holds with ``r σ²`` in the place of σ² for the η of the step.
    The rule measures r for a longer step, the :func:`horizon`: k steps of size η regularise like
    one of size kη. That part is a heuristic.
    """
    size = eta * dot(gap, gap)
    if not size > 0:
        return memory
    share = min(1.0, max(LEAST_DAMPING, -dot(gap, shift) / size))
    count = memory["shaken"]
    weight = max(DAMPING_RECENT, 1 / (count + 1))
    damping = memory["damping"] + weight * (share - memory["damping"])
    return {**memory, "damping": damping, "shaken": count + 1}


LEAST_GAIN = 3
"""The newest of k differences weighs at least 3/(k + 3)."""


def with_gain(memory: Memory, k: int) -> Memory:
    r"""Update the weight a of the newest difference and the error N of the weighted mean.

    .. math:: m \leftarrow m + a\,(d_k - m),\qquad
              N^- = (\sqrt N + \delta\|w_k - w_{k-1}\|)^2,\qquad
              a = \frac{N^-}{N^- + v},\qquad N = (1-a)^2 N^- + a^2 v

    ``d_k = g_k − ∇L̂(w_k)`` has the mean ∇h(w_k) and the noise v; since the last step ∇h has moved
    by at most δ times its length. With these a is the weight of least mean squared error: 1 while
    the iterate runs (``N⁻ ≫ v``: the paper's plain correction), 1/k where ∇h stands still (δ = 0:
    the mean of all differences). In between it decays whenever ``η < 1/δ``: noise moves the iterate
    by at most ``η a √v``, hence ∇h by ``c a √v`` with ``c = δη < 1``, and
    ``a = N⁻/(N⁻ + v)`` with ``N⁻ = c²a v/(1 − …)`` has no positive fixed point.
    The floor forgets a start that was noisier, or an N that was too hopeful.
    """
    if k == 0:
        return {**memory, "gain": 1.0, "error": memory["noise"]}
    noise, drift = memory["noise"], memory["rate"] * memory["moved"]
    before = square(memory["error"] ** 0.5 + drift)
    gain = max(before / (before + noise) if before > 0 else 0.0, LEAST_GAIN / (k + LEAST_GAIN))
    if noise == 0:
        gain = 1.0
    return {**memory, "gain": gain, "error": (1 - gain) ** 2 * before + gain**2 * noise}


DISTANCE_REACH = 1.2
LAGGING = 2.0
"""How much longer steps may be while the average is shown to lag behind the iterates."""

JUMP = 1024.0
"""How much longer than the probe the second step may be: where the loss is all but linear, its
curvature says nothing."""

TRUST = 6.0
"""Distances beyond so many times the proven one are not believed."""

SHORT = 15
"""Weights ``k¹⁵``: the mean of about the last sixteenth of the run."""


def distance_memory(w0: Vector) -> Memory:
    """Return what this rule keeps, before the first step."""
    return {"square": 0.0, "lag": 0.0, "path": 0.0, "proven": 0.0, "recent": w0}


def distance_applies(memory: Memory, noise: float | None) -> bool:
    """Tell whether there is no proxy but noise."""
    return "square" in memory and noise != 0


def distance_observed(memory: Memory, signals: Signals, estimate: Vector | None) -> Memory:
    """Update G and the lag with the newest gradient; ``estimate`` is the one before."""
    gradient, k = signals.gradient, signals.k
    square = memory["square"] + _share(k, POWER) * (dot(gradient, gradient) - memory["square"])
    if signals.step is not None and estimate is not None:
        # What the last proximal step has added; nothing but rounding without a penalty.
        gradient = gradient - estimate - signals.step / memory["eta"]
    newest = dot(gradient, memory["average"] - signals.w)
    lag = memory["lag"] + _share(k, SHORT) * (newest - memory["lag"])
    return {**memory, "square": square, "lag": lag}


def distance_limit(memory: Memory, signals: Signals) -> float:
    """Return the largest η that the distance and the gradients allow."""
    begun = float(memory["reach"])
    travelled = max(norm(memory["average"] - memory["start"]), begun)
    distance = min(travelled, max(TRUST * float(memory["proven"]), begun))
    if memory["square"] == 0 or distance == 0:
        return math.inf
    reach = DISTANCE_REACH * (LAGGING if memory["lag"] > 0 else 1.0)
    return reach * distance / math.sqrt((signals.k + 1) * float(memory["square"]))


def distance_moved(memory: Memory, centre: Vector, w: Vector, k: int) -> Memory:
    """Update the short mean and the proven distance with step k, from ``centre`` to ``w``."""
    recent = memory["recent"] + _share(k, SHORT) * (w - memory["recent"])
    path = memory["path"] + square(norm(w - centre))
    away = norm(w - memory["start"])
    proven = (away - path / away) / 2 if away > 0 else 0.0
    return {**memory, "recent": recent, "path": path, "proven": max(memory["proven"], proven)}


def _share(k: int, power: int) -> float:
    """Return the newest one's share in a mean with weights ``k**power``, or about so."""
    return min(1.0, (1 + power) / (k + 1 + power))


GROW = 2.0
REACH = 1.2
BLIND_REACH = 2.0
"""The factor of the last term where r could not be measured and 1 stands for it."""

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
        **({} if uses_proxy else distance_memory(w0)),
    }


def wants_secant(memory: Memory, k: int) -> bool:
    """Tell whether the batch of step k should also be evaluated at the point before."""
    # Exact gradients are all of one batch: the point before has been answered already.
    if not memory["secants"] or memory["exact"] or k == 0:
        return False
    if distance_applies(memory, None):
        # One, for the scale of the steps.
        return k == 1
    return k <= EVERY_STEP or k % THEN_EVERY == 0


def wants_shaking(memory: Memory, k: int) -> bool:
    """Tell whether step k should also be tried with a sample of the noise added."""
    return bool(memory["shakes"]) and due(k)


def observed(memory: Memory, signals: Signals, estimate: Vector | None) -> Memory:
    """Return the memory after a batch's gradients: its ``eta`` and ``gain`` are for this step."""
    alone = distance_applies(memory, signals.noise)
    memory = with_noise(memory, signals, estimate)
    if alone:
        memory = distance_observed(memory, signals, estimate)
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
        memory = distance_moved(memory, centre, w, k)
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
    if distance_applies(memory, signals.noise):
        eta = min(eta, JUMP * memory["eta"])
    return {**memory, "reach": eta * norm(signals.gradient)}, eta


def _limits(memory: Memory, signals: Signals, *, alone: bool) -> tuple[float, ...]:
    if alone:
        return (distance_limit(memory, signals),)
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
