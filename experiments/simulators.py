"""Fits of simulators: a fine model that is slow, a coarse one of the same system that is cheap.

Each is a least-squares fit of measurements that the fine model made with noise. The rates and
coefficients of the models are positive; the parameters ``w`` are their logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgttrf, dgttrs

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Simulator:
    """A fit: the residuals of both models, where a user would begin, and a loss that is enough.

    Parameters
    ----------
    name : str
        What is simulated.
    fine_residuals, coarse_residuals : callable
        ``(model(w) − measured) / √n``, and rows of a prior where the fit has one.
    w0 : array
        The user's start.
    enough : float
        A loss at most one per cent above the least one.

    Examples
    --------
    >>> fit = lotka_volterra()
    >>> fit.w0.shape, bool(fit.fine(fit.w0) > fit.enough)
    ((4,), True)
    """

    name: str
    fine_residuals: Callable[[Array], Array]
    coarse_residuals: Callable[[Array], Array]
    w0: Array
    enough: float

    def fine(self, w: Array) -> float:
        """Return half the sum of squares of the fine model's residuals."""
        return _half_square(self.fine_residuals(w))

    def coarse(self, w: Array) -> float:
        """Return half the sum of squares of the coarse model's residuals."""
        return _half_square(self.coarse_residuals(w))


def _half_square(residuals: Array) -> float:
    with np.errstate(all="ignore"):
        return 0.5 * float(residuals @ residuals)


def _rates(w: Array) -> list[float]:
    with np.errstate(over="ignore"):
        return [float(rate) for rate in np.exp(w)]


def _distance(model: Array, measured: Array) -> Array:
    scaled: Array = (model - measured).ravel() / np.sqrt(measured.size)
    return scaled


def _measure(model: Array, noise: float, seed: int) -> Array:
    return model + noise * np.random.default_rng(seed).normal(size=model.shape)


@cache
def lotka_volterra() -> Simulator:
    """Return the fit of prey and predators: 2000 Runge–Kutta steps against 100 of Euler's.

    ``x' = x (a − b y)``, ``y' = y (d x − c)``; four rates, 20 measurements of both species.
    """
    start, end, times = (1.0, 0.5), 10.0, 20

    def fine(w: Array) -> Array:
        a, b, c, d = _rates(w)
        (x, y), steps = start, 2000
        h, kept = end / steps, []
        for step in range(1, steps + 1):
            k1, l1 = x * (a - b * y), y * (d * x - c)
            p, q = x + h / 2 * k1, y + h / 2 * l1
            k2, l2 = p * (a - b * q), q * (d * p - c)
            p, q = x + h / 2 * k2, y + h / 2 * l2
            k3, l3 = p * (a - b * q), q * (d * p - c)
            p, q = x + h * k3, y + h * l3
            k4, l4 = p * (a - b * q), q * (d * p - c)
            x += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            y += h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
            if step % (steps // times) == 0:
                kept.append((x, y))
        return np.array(kept)

    def coarse(w: Array) -> Array:
        a, b, c, d = _rates(w)
        (x, y), steps = start, 100
        h, kept = end / steps, []
        for step in range(1, steps + 1):
            x, y = x + h * x * (a - b * y), y + h * y * (d * x - c)
            if step % (steps // times) == 0:
                kept.append((x, y))
        return np.array(kept)

    # The noise of this seed has a least loss one per cent below 1.36e-3.
    measured = _measure(fine(np.log([0.7, 0.5, 0.6, 0.3])), 0.05, 35)
    return Simulator(
        "Lotka–Volterra",
        lambda w: _distance(fine(w), measured),
        lambda w: _distance(coarse(w), measured),
        np.log([0.5, 0.35, 0.4, 0.2]),
        1.36e-3,
    )


@cache
def heat() -> Simulator:
    """Return the fit of a rod's conductivity in 24 segments: 240 cells and 400 steps, or 48 and 40.

    ``u_t = (k u_x)_x`` with ``u = 0`` at first, 1 at the left end and 0 at the right. 23
    thermometers are read 20 times, and a weak prior makes neighbouring segments alike.
    """
    segments, end, times = 24, 0.5, 20

    def model(w: Array, cells: int, steps: int, theta: float) -> Array:
        k = np.repeat(_rates(w), cells // segments)
        # Half cells in series; the outer faces are half a cell from their ends.
        faces = np.concatenate([[2 * k[0]], 2 * k[:-1] * k[1:] / (k[:-1] + k[1:]), [2 * k[-1]]])
        faces *= cells**2
        h = end / steps
        diagonal, beside = -(faces[:-1] + faces[1:]), faces[1:-1]
        *factors, _ = dgttrf(-h * theta * beside, 1 - h * theta * diagonal, -h * theta * beside)
        u, kept = np.zeros(cells), []
        for step in range(1, steps + 1):
            # The increment solves (1 − hθA) v = h (A u + b).
            slope = diagonal * u
            slope[:-1] += beside * u[1:]
            slope[1:] += beside * u[:-1]
            slope[0] += faces[0]
            u = u + dgttrs(*factors, h * slope)[0]
            if step % (steps // times) == 0:
                kept.append(u.reshape(segments, -1)[:, [0, -1]])
        ends = np.array(kept)
        between: Array = (ends[:, 1:, 0] + ends[:, :-1, 1]) / 2
        return between

    x = (np.arange(segments) + 0.5) / segments
    truth = np.log(1 + 0.6 * np.sin(5 * x) * x) - 0.5 * ((x > 0.4) & (x < 0.6))
    noise = 0.01
    measured = _measure(model(truth, 240, 400, 0.5), noise, 0)

    def residuals(w: Array, cells: int, steps: int, theta: float) -> Array:
        with np.errstate(all="ignore"):
            data = _distance(model(w, cells, steps, theta), measured) / noise
        return np.concatenate([data, 0.2 * np.diff(w)])

    return Simulator(
        "heat conduction",
        lambda w: residuals(w, 240, 400, 0.5),
        lambda w: residuals(w, 48, 40, 1.0),
        np.zeros(segments),
        0.488,
    )


@cache
def oscillators() -> Simulator:
    """Return the fit of a chain of eight masses: 300 steps of velocity Verlet against 25.

    Nine springs of unknown stiffness, one common hardening (a cubic force) and one damping; the
    first mass is pushed, and the positions of all are recorded 25 times.
    """
    masses, end, times = 8, 10.0, 25

    def model(w: Array, steps: int) -> Array:
        *stiffness, cubic, damping = _rates(w)
        k = np.array(stiffness)
        h = end / steps
        x, v, kept = np.zeros(masses), np.zeros(masses), []
        v[0] = 1.0
        stretch = np.zeros(masses + 1)

        def force(x: Array) -> Array:
            stretch[1:-1] = x[1:] - x[:-1]
            stretch[0], stretch[-1] = x[0], -x[-1]
            pull = k * (stretch + cubic * stretch**3)
            return pull[1:] - pull[:-1]

        with np.errstate(all="ignore"):
            f = force(x)
            for step in range(1, steps + 1):
                half = v + h / 2 * (f - damping * v)
                x = x + h * half
                f = force(x)
                v = (half + h / 2 * f) / (1 + h / 2 * damping)
                if step % (steps // times) == 0:
                    kept.append(x)
        return np.array(kept)

    stiffness = 1 + 0.3 * np.cos(np.arange(9.0))
    truth = np.log([*stiffness, 0.5, 0.1])
    noise = 0.01
    measured = _measure(model(truth, 300), noise, 0)
    return Simulator(
        "spring chain",
        lambda w: _distance(model(w, 300), measured) / noise,
        lambda w: _distance(model(w, 25), measured) / noise,
        np.log([*np.full(9, 1.0), 0.3, 0.2]),
        0.4275,
    )


@cache
def enzyme() -> Simulator:
    """Return the fit of an enzyme's reactions: mass action against its quasi-steady state.

    ``E + S ⇌ C → E + P``, ``P → Q``: five parameters (three rates of the enzyme, its amount, and
    the decay of P), of which the coarse model sees only three combinations.
    """
    end, times = 10.0, 25

    def fine(w: Array) -> Array:
        k1, back, turn, decay, total = _rates(w)
        s, c, p, steps = 1.0, 0.0, 0.0, 1500
        h, kept = end / steps, []

        def slopes(s: float, c: float, p: float) -> tuple[float, float, float]:
            bind = k1 * (total - c) * s
            return back * c - bind, bind - (back + turn) * c, turn * c - decay * p

        for step in range(1, steps + 1):
            # Heun's third-order step.
            a = slopes(s, c, p)
            b = slopes(s + h / 3 * a[0], c + h / 3 * a[1], p + h / 3 * a[2])
            g = 2 * h / 3
            e = slopes(s + g * b[0], c + g * b[1], p + g * b[2])
            s += h / 4 * (a[0] + 3 * e[0])
            c += h / 4 * (a[1] + 3 * e[1])
            p += h / 4 * (a[2] + 3 * e[2])
            if step % (steps // times) == 0:
                kept.append((s, p))
        return np.array(kept)

    def coarse(w: Array) -> Array:
        k1, back, turn, decay, total = _rates(w)
        s, p, steps = 1.0, 0.0, 100
        h, kept, half = end / steps, [], (back + turn) / k1
        for step in range(1, steps + 1):
            made = turn * total * s / (half + s)
            s, p = s - h * made, p + h * (made - decay * p)
            if step % (steps // times) == 0:
                kept.append((s, p))
        return np.array(kept)

    noise = 0.01
    measured = _measure(fine(np.log([4.0, 1.0, 1.0, 0.2, 0.5])), noise, 0)
    return Simulator(
        "enzyme",
        lambda w: _distance(fine(w), measured) / noise,
        lambda w: _distance(coarse(w), measured) / noise,
        np.log([2.0, 2.0, 1.5, 0.1, 0.4]),
        0.368,
    )


SIMULATORS = (lotka_volterra, heat, oscillators, enzyme)
