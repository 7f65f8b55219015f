"""Simulators to calibrate: a fine model, a coarse one of the same system, and measurements.

No constant of the library was chosen on them: those come from :mod:`experiments.simulators`.
Parameters are logarithms of rates; measurements are the fine model's at the truth, with noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

Array = NDArray[np.float64]
Model = Callable[[Array], Array]


@dataclass(frozen=True)
class Fit:
    """Residuals of both models, the user's start, and the truth that made the measurements.

    ``outputs`` are the fine model's, and ``slope`` the derivatives of residuals by them.
    """

    name: str
    fine: Model
    coarse: Model
    w0: Array
    truth: Array
    outputs: Model
    slope: Array


@dataclass(frozen=True)
class System:
    """Two models with the truth; ``noise`` is that of a measurement, in shares or absolute."""

    name: str
    fine: Model
    coarse: Model
    truth: Array
    noise: float
    relative: bool = False
    prior: float = 0.0
    spread: float = 0.3

    def fit(self, seed: int) -> Fit:
        """Return the fit to measurements of one seed, from a start near the truth."""
        rng = np.random.default_rng([seed, 35])
        exact = self.fine(self.truth)
        size = np.maximum(np.abs(exact), 0.1 * np.abs(exact).max())
        sigma = self.noise * (size if self.relative else 1.0)
        measured = exact + sigma * rng.normal(size=exact.shape)
        start = self.truth + self.spread * rng.normal(size=len(self.truth))

        def residuals(model: Model) -> Model:
            def compare(w: Array) -> Array:
                with np.errstate(all="ignore"):
                    data = (model(w) - measured) / (sigma * np.sqrt(measured.size))
                return np.append(data, self.prior * np.diff(w)) if self.prior else data

            return compare

        slope = 1 / (sigma * np.sqrt(measured.size)) * np.ones(measured.size)
        fine, coarse = residuals(self.fine), residuals(self.coarse)
        return Fit(self.name, fine, coarse, start, self.truth, self.fine, slope)


def rk4(f: Callable[..., Any], start: Sequence[float], end: float, steps: int, kept: int) -> Array:
    """Integrate ``y' = f(t, *y)`` with Runge and Kutta's steps; return the states, kept often."""
    y, h, rows = np.array(start, dtype=float), end / steps, []
    for step in range(steps):
        t = step * h
        a = np.array(f(t, *y.tolist()))
        b = np.array(f(t + h / 2, *(y + h / 2 * a).tolist()))
        c = np.array(f(t + h / 2, *(y + h / 2 * b).tolist()))
        y = y + h / 6 * (a + 2 * b + 2 * c + np.array(f(t + h, *(y + h * c).tolist())))
        if (step + 1) % (steps // kept) == 0:
            rows.append(y)
    return np.array(rows)


def euler(
    f: Callable[..., Any], start: Sequence[float], end: float, steps: int, kept: int
) -> Array:
    """Integrate with Euler's steps."""
    y, h, rows = np.array(start, dtype=float), end / steps, []
    for step in range(steps):
        y = y + h * np.array(f(step * h, *y.tolist()))
        if (step + 1) % (steps // kept) == 0:
            rows.append(y)
    return np.array(rows)


def ode(
    name: str, slopes: Callable[..., Any], start: Callable[[Array], Sequence[float]], end: float,
    *, kept: int, fine: int, coarse: int, truth: Any, noise: float,
    seen: slice | list[int] = slice(None), coarse_slopes: Callable[..., Any] | None = None,
    **more: Any,
) -> System:  # fmt: skip
    """Return two integrations of a system whose slopes are ``slopes(p, t, *y)``, p = exp(w)."""

    def model(rule: Any, steps: int, law: Any) -> Model:
        def run(w: Array) -> Array:
            with np.errstate(all="ignore"):
                p = np.exp(w)
                try:
                    path = rule(lambda t, *y: law(p, t, *y), start(p), end, steps, kept)
                except (OverflowError, ZeroDivisionError, ValueError):
                    return np.full(size, np.nan)
                made: Array = path[:, seen].ravel()
                return made

        return run

    size = kept * len(np.zeros(len(start(np.exp(np.array(truth, dtype=float)))))[seen])
    return System(
        name, model(rk4, fine, slopes), model(euler, coarse, coarse_slopes or slopes),
        np.array(truth, dtype=float), noise, **more,
    )  # fmt: skip


def _seir(p: Array, t: float, s: float, e: float, i: float, r: float) -> tuple[float, ...]:
    infect = p[0] * s * (i + 1e-9) ** p[3]
    return -infect, infect - p[1] * e, p[1] * e - p[2] * i, p[2] * i


def _sirs(p: Array, t: float, s: float, i: float, c: float) -> tuple[float, ...]:
    infect = p[0] * s * i
    return -infect + p[2] * (1 - s - i), infect - p[1] * i, p[3] * infect


def _prey(p: Array, t: float, x: float, y: float) -> tuple[float, float]:
    return x * (p[0] - p[1] * y), y * (p[3] * x - p[2])


def _dose(p: Array, t: float, gut: float, blood: float, tissue: float) -> tuple[float, ...]:
    out = p[1] * blood / (p[2] + blood)
    return (
        -p[0] * gut,
        p[0] * gut - out - p[3] * blood + p[4] * tissue,
        p[3] * blood - p[4] * tissue,
    )


def _pendulum(p: Array, t: float, x: float, v: float) -> tuple[float, float]:
    return v, -p[0] * np.sin(x) - p[1] * v + p[2] * np.cos(p[3] * t)


def _van_der_pol(p: Array, t: float, x: float, v: float) -> tuple[float, float]:
    return v, p[0] * (1 - p[2] * x * x) * v - p[1] * x


def _tanks(p: Array, t: float, a: float, b: float, c: float) -> tuple[float, ...]:
    def root(h: float) -> float:
        return float(max(h, 1e-9) ** 0.5)

    one, two = p[0] * root(a), p[1] * root(b)
    return p[3] * (1 + np.sin(t)) - one, one - two, p[4] * two - p[2] * root(c)


def _reactor(p: Array, t: float, a: float, b: float, heat: float) -> tuple[float, ...]:
    first = p[0] * np.exp(p[1] * (1 - 1 / heat)) * a
    second = p[2] * np.exp(p[3] * (1 - 1 / heat)) * b
    return -first, first - second, p[4] * first + 0.3 * p[4] * second - p[5] * (heat - 1)


def _chemostat(p: Array, t: float, x: float, s: float) -> tuple[float, float]:
    grow = p[0] * s / (p[1] + s + s * s / (4 * p[4])) * x
    return grow - 0.2 * x - 0.05 * p[3] * x, 0.2 * (2 - s) - grow / p[2]


def _enzyme(p: Array, t: float, s: float, c: float, q: float) -> tuple[float, ...]:
    bind = p[0] * (p[4] - c) * s
    return p[1] * c - bind, bind - (p[1] + p[2]) * c, p[2] * c - p[3] * q


def _michaelis(p: Array, t: float, s: float, c: float, q: float) -> tuple[float, ...]:
    made = p[2] * p[4] * s / ((p[1] + p[2]) / p[0] + s)
    return -made, 0.0, made - p[3] * q


def _logistic(p: Array, t: float, x: float, y: float) -> tuple[float, float]:
    return p[0] * x * (1 - x / p[1]) - p[2] * x * y, p[3] * x * y - 0.5 * y


def _malthus(p: Array, t: float, x: float, y: float) -> tuple[float, float]:
    # Other physics: no limit to growth, which leaves p[1] unseen, and hunters that do not starve.
    return p[0] * x * (1 - x / 6) - p[2] * x * y, p[3] * x * y - 0.3 * y


def _unseen(p: Array, t: float, gut: float, blood: float, tissue: float) -> tuple[float, ...]:
    # One compartment less: the exchange with the tissue is unseen.
    return -p[0] * gut, p[0] * gut - p[1] * blood / (p[2] + blood), 0.0


def _lorenz(p: Array, t: float, x: float, y: float, z: float) -> tuple[float, ...]:
    return p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z


def starts(*y: float) -> Callable[[Array], Sequence[float]]:
    """Return a start that no parameter changes."""
    return lambda p: y


def heat() -> System:
    """Return a rod of 30 segments: 180 cells and 200 half-implicit steps, or 60 and 20 implicit."""
    segments, end, kept = 30, 0.4, 20

    def model(w: Array, cells: int, steps: int, theta: float) -> Array:
        k = np.repeat(np.exp(w), cells // segments)
        faces = np.concatenate([[2 * k[0]], 2 * k[:-1] * k[1:] / (k[:-1] + k[1:]), [2 * k[-1]]])
        faces *= cells**2
        h, diagonal, beside = end / steps, -(faces[:-1] + faces[1:]), faces[1:-1]
        band = np.zeros((3, cells))
        band[0, 1:] = band[2, :-1] = -h * theta * beside
        band[1] = 1 - h * theta * diagonal
        u, rows = np.zeros(cells), []
        for step in range(steps):
            slope = diagonal * u
            slope[:-1] += beside * u[1:]
            slope[1:] += beside * u[:-1]
            slope[0] += faces[0]
            u = u + solve_banded((1, 1), band, h * slope)
            if (step + 1) % (steps // kept) == 0:
                both = u.reshape(segments, -1)
                rows.append((both[1:, 0] + both[:-1, -1]) / 2)
        made: Array = np.array(rows).ravel()
        return made

    x = np.linspace(0, 1, segments)
    truth = 0.4 * np.sin(6 * x) - 0.5 * (np.abs(x - 0.6) < 0.1)
    return System(
        "heat", lambda w: model(w, 180, 200, 0.5), lambda w: model(w, 60, 20, 1.0), truth,
        0.01, prior=0.2,
    )  # fmt: skip


def truss() -> System:
    """Return the areas of 20 bars from displacements: large ones (Newton's) against linear ones."""
    nodes = np.array([(x, y) for x in range(5) for y in (0.0, 1.0)], dtype=float)
    bars = [(i, i + 2) for i in range(8)] + [(2 * i, 2 * i + 1) for i in range(1, 5)]
    bars += [(2 * i, 2 * i + 3) for i in range(4)] + [(2 * i + 1, 2 * i + 2) for i in range(4)]
    ends = np.array(bars)
    at = np.hstack([2 * ends[:, :1], 2 * ends[:, :1] + 1, 2 * ends[:, 1:], 2 * ends[:, 1:] + 1])
    free = np.arange(4, 20)
    rest = np.linalg.norm(nodes[ends[:, 1]] - nodes[ends[:, 0]], axis=1)
    loads = [(18, 0.016), (19, -0.02), (13, -0.032), (9, 0.024), (16, -0.016)]

    def assemble(u: Array, areas: Array) -> tuple[Array, Array]:
        spots = nodes + u.reshape(-1, 2)
        way = spots[ends[:, 1]] - spots[ends[:, 0]]
        length = np.linalg.norm(way, axis=1)
        unit, pull = way / length[:, None], areas * (length - rest) / rest
        outer = unit[:, :, None] * unit[:, None, :]
        block = (areas / rest)[:, None, None] * outer
        block += (pull / length)[:, None, None] * (np.eye(2) - outer)
        force, stiff = np.zeros(20), np.zeros((20, 20))
        np.add.at(force, at, pull[:, None] * np.hstack([-unit, unit]))
        blocks = np.block([[block, -block], [-block, block]])
        np.add.at(stiff, (at[:, :, None], at[:, None, :]), blocks)
        return force, stiff

    def model(w: Array, iterations: int) -> Array:
        areas, found = np.exp(w), []
        for place, load in loads:
            u, push = np.zeros(20), np.zeros(20)
            push[place] = load
            for _ in range(iterations):
                force, stiff = assemble(u, areas)
                try:
                    u[free] += np.linalg.solve(stiff[np.ix_(free, free)], (push - force)[free])
                except np.linalg.LinAlgError:
                    return np.full(80, np.nan)
            found.append(u[free])
        return np.concatenate(found)

    truth = 0.4 * np.cos(np.arange(20.0))
    return System("truss", lambda w: model(w, 7), lambda w: model(w, 1), truth, 0.001, prior=0.1)


def transport() -> System:
    """Return a plume: speed, spreading, decay and three sources; 120 cells upwind, or 30."""
    places, kept = (0.1, 0.3, 0.5), 8

    def model(w: Array, cells: int, steps: int) -> Array:
        speed, spread, decay, *sources = np.exp(w)
        x, h, u, rows = (np.arange(cells) + 0.5) / cells, 1.0 / steps, np.zeros(cells), []
        source = sum(
            s * np.exp(-0.5 * ((x - at) / 0.05) ** 2) for s, at in zip(sources, places, strict=True)
        )
        band, a, b = np.zeros((3, cells)), speed * cells, spread * cells**2
        band[0, 1:], band[2, :-1] = -h * b, -h * (a + b)
        band[1] = 1 + h * (a + 2 * b + decay)
        for step in range(steps):
            u = solve_banded((1, 1), band, u + h * source)
            if (step + 1) % (steps // kept) == 0:
                rows.append(u.reshape(10, -1).mean(axis=1))
        made: Array = np.array(rows).ravel()
        return made

    truth = np.log([0.5, 0.02, 0.6, 1.0, 2.0, 1.5])
    return System(
        "plume", lambda w: model(w, 120, 160), lambda w: model(w, 30, 16), truth, 0.01
    )  # fmt: skip


def faithful() -> list[System]:
    """Return the simulators whose coarse model is of the same physics."""
    return [
        ode("SEIR", _seir, lambda p: (1 - p[4] - p[5], p[5], p[4], 0.0), 60.0, kept=30,
            fine=600, coarse=60, truth=np.log([0.6, 0.25, 0.2, 1.0, 0.01, 0.005]), noise=0.05,
            seen=[2], relative=True),
        ode("SIRS", _sirs, lambda p: (1 - p[4], p[4], 0.0), 40.0, kept=20, fine=400, coarse=80,
            truth=np.log([0.8, 0.3, 0.05, 0.7, 0.02]), noise=0.05, seen=[2], relative=True),
        ode("Lotka–Volterra", _prey, lambda p: (p[4], p[5]), 12.0, kept=20, fine=500, coarse=100,
            truth=np.log([0.7, 0.5, 0.6, 0.3, 1.0, 0.5]), noise=0.05, spread=0.2),
        heat(),
        truss(),
        ode("pharmacokinetics", _dose, starts(5.0, 0.0, 0.0), 12.0, kept=24, fine=240, coarse=48,
            truth=np.log([1.2, 0.9, 1.0, 0.4, 0.3]), noise=0.03, seen=[1]),
        ode("pendulum", _pendulum, starts(1.5, 0.0), 8.0, kept=32, fine=320, coarse=160,
            truth=np.log([2.0, 0.3, 0.8, 1.3]), noise=0.03, spread=0.2),
        ode("van der Pol", _van_der_pol, starts(1.0, 0.0), 8.0, kept=40, fine=400, coarse=200,
            truth=np.log([1.0, 1.2, 1.0]), noise=0.05, spread=0.2),
        transport(),
        ode("tanks", _tanks, starts(1.0, 1.0, 1.0), 10.0, kept=20, fine=200, coarse=40,
            truth=np.log([0.6, 0.5, 0.7, 0.5, 0.8]), noise=0.02),
        ode("reactor", _reactor, starts(1.0, 0.0, 1.0), 6.0, kept=24, fine=240, coarse=48,
            truth=np.log([0.5, 3.0, 0.2, 4.0, 0.5, 0.8]), noise=0.01),
        ode("chemostat", _chemostat, starts(0.2, 2.0), 20.0, kept=25, fine=300, coarse=50,
            truth=np.log([0.8, 0.5, 0.6, 1.0, 2.0]), noise=0.02),
    ]  # fmt: skip


def misleading() -> list[System]:
    """Return simulators with a coarse model of other physics, or blind for a parameter."""
    return [
        ode("enzyme, quasi-steady", _enzyme, lambda p: (1.0, 0.0, 0.0), 10.0, kept=25, fine=300,
            coarse=100, truth=np.log([4.0, 1.0, 1.0, 0.2, 0.5]), noise=0.01, seen=[0, 2],
            coarse_slopes=_michaelis),
        ode("prey, other laws", _logistic, lambda p: (1.0, 0.5), 10.0, kept=20, fine=300,
            coarse=200, truth=np.log([1.0, 4.0, 0.8, 0.4]), noise=0.03, coarse_slopes=_malthus),
        ode("dose, unseen tissue", _dose, lambda p: (5.0, 0.0, 0.0), 12.0, kept=24, fine=240,
            coarse=120, truth=np.log([1.2, 0.9, 1.0, 0.4, 0.3]), noise=0.03, seen=[1],
            coarse_slopes=_unseen),
    ]  # fmt: skip


def chaotic() -> System:
    """Return Lorenz's system over three turns."""
    return ode(
        "Lorenz", _lorenz, lambda p: (1.0, 1.0, 20.0), 3.0, kept=30, fine=600, coarse=600,
        truth=np.log([10.0, 28.0, 8 / 3]), noise=0.5, spread=0.05,
    )  # fmt: skip


def _leak(p: Array, t: float, a: float, b: float, c: float) -> tuple[float, ...]:
    # Two vessels with a hidden third one: filled, emptied and read in the second.
    flow = p[0] * a
    return -flow, flow - p[1] * b - p[3] * b + p[4] * c, p[3] * b - p[4] * c - p[2] * c * c


def _no_leak(p: Array, t: float, a: float, b: float, c: float) -> tuple[float, ...]:
    return -p[0] * a, p[0] * a - p[1] * b, 0.0


def _swing(p: Array, t: float, x: float, v: float) -> tuple[float, float]:
    return v, -p[0] * x - p[3] * x**3 - p[1] * v + p[2] * np.cos(t)


def _linear_swing(p: Array, t: float, x: float, v: float) -> tuple[float, float]:
    return v, -p[0] * x - 1.5 * p[1] * v + p[2] * np.cos(t)


def _growth(p: Array, t: float, x: float, s: float) -> tuple[float, float]:
    grow = p[0] * s / (p[1] + s) * x
    return grow - p[3] * x, -grow / p[2]


def _free_growth(p: Array, t: float, x: float, s: float) -> tuple[float, float]:
    return p[0] * x * s - p[3] * x * x, -p[0] * s * x


def tuning() -> list[System]:
    """Return the simulators on which the mapping's constants were chosen, with four older ones.

    The coarse models of the last three mislead.
    """
    return [
        ode("SEIR, tuning", _seir, lambda p: (1 - p[4] - p[5], p[5], p[4], 0.0), 80.0, kept=40,
            fine=640, coarse=80, truth=np.log([0.5, 0.35, 0.15, 0.95, 0.004, 0.01]), noise=0.05,
            seen=[2], relative=True),
        ode("dose, tuning", _dose, lambda p: (4.0, 0.0, 0.0), 10.0, kept=20, fine=200, coarse=40,
            truth=np.log([0.9, 1.2, 0.7, 0.5, 0.4]), noise=0.03, seen=[1]),
        ode("prey, tuning", _prey, lambda p: (p[4], p[5]), 10.0, kept=20, fine=400, coarse=80,
            truth=np.log([0.9, 0.6, 0.5, 0.4, 0.8, 0.7]), noise=0.05, spread=0.2),
        ode("leak, unseen vessel", _leak, starts(3.0, 0.0, 0.0), 10.0, kept=20, fine=200,
            coarse=100, truth=np.log([0.8, 0.5, 0.2, 0.6, 0.4]), noise=0.02, seen=[1],
            coarse_slopes=_no_leak),
        ode("swing, linear", _swing, starts(1.5, 0.0), 8.0, kept=32, fine=320, coarse=160,
            truth=np.log([1.5, 0.3, 0.8, 0.6]), noise=0.03, spread=0.2,
            coarse_slopes=_linear_swing),
        ode("growth, other laws", _growth, starts(0.1, 3.0), 10.0, kept=25, fine=250, coarse=100,
            truth=np.log([1.0, 0.8, 0.6, 0.1]), noise=0.02, coarse_slopes=_free_growth),
    ]  # fmt: skip


def _spikes(p: Array, t: float, v: float, w: float) -> tuple[float, float]:
    return p[0] * (v - v**3 / 3 - w + 0.5), (v + p[1] - p[2] * w) / (5 * p[3])


def _duffing(p: Array, t: float, x: float, v: float) -> tuple[float, float]:
    return v, -p[0] * x - p[1] * x**3 - p[2] * v + p[3] * np.cos(1.2 * t)


def _clock(p: Array, t: float, a: float, b: float, c: float) -> tuple[float, ...]:
    return p[0] / (1 + c**3) - p[1] * a, p[2] * a - 0.4 * b, p[3] * b - p[4] * c


def _chain(p: Array, t: float, a: float, b: float, c: float) -> tuple[float, ...]:
    return -p[0] * a * a, p[0] * a * a - p[1] * b, p[1] * b - p[2] * c / (p[3] + c)


def _glucose(p: Array, t: float, g: float, x: float, i: float) -> tuple[float, ...]:
    rise = p[4] * np.maximum(g - 1.0, 0.0)
    return -(p[0] + x) * g + p[0], p[2] * i - p[1] * x, rise - p[3] * (i - 0.2)


def _masses(p: Array, t: float, x: float, v: float, y: float, u: float) -> tuple[float, ...]:
    pull = p[2] * (y - x)
    return v, pull - p[0] * x - p[1] * v, u, -p[3] * y - pull - 0.1 * u


def values_alone() -> list[System]:
    """Return the simulators on which the choices of fits by values alone were made.

    Those of :func:`tuning` were the others.
    """
    return [
        ode("spikes", _spikes, starts(-1.0, 1.0), 10.0, kept=40, fine=400, coarse=200,
            truth=np.log([1.5, 0.7, 0.8, 2.0]), noise=0.05, spread=0.2),
        ode("Duffing", _duffing, starts(1.0, 0.0), 8.0, kept=32, fine=320, coarse=160,
            truth=np.log([1.5, 0.5, 0.3, 0.8]), noise=0.03, spread=0.2),
        ode("clock", _clock, starts(0.1, 0.2, 0.5), 12.0, kept=24, fine=240, coarse=72,
            truth=np.log([1.5, 0.6, 0.8, 0.9, 0.7]), noise=0.03, seen=[0, 2]),
        ode("chain", _chain, starts(2.0, 0.0, 0.0), 8.0, kept=24, fine=240, coarse=48,
            truth=np.log([0.9, 0.6, 0.5, 0.7]), noise=0.02, seen=[1, 2]),
        ode("glucose", _glucose, starts(3.0, 0.0, 1.0), 10.0, kept=25, fine=250, coarse=50,
            truth=np.log([0.15, 0.4, 0.3, 0.6, 0.5]), noise=0.03, seen=[0, 2]),
        ode("two masses", _masses, starts(1.0, 0.0, 0.0, 0.0), 8.0, kept=32, fine=320,
            coarse=160, truth=np.log([1.5, 0.3, 0.7, 1.2]), noise=0.03, seen=[0, 2], spread=0.2),
    ]  # fmt: skip
