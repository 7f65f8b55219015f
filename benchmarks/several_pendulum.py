"""A pendulum that is steered: twenty torques, three grids, a constant of gravity."""

from __future__ import annotations

from typing import Any

import numpy as np

import proxyprox as pp

TORQUES, TIME = 20, 6.0


class Pendulum:
    """Half the squared distance to a path, on a grid, and its exact gradient; calls are counted."""

    exact = True
    dim = TORQUES

    def __init__(self, steps: int, gravity: float = 4.0, seed: int = 0) -> None:
        self.steps, self.gravity, self.calls = steps, gravity, 0
        rng = np.random.default_rng([seed, 35])
        self.start = 0.5 * rng.normal(size=2)
        self.goal, self.swing = 1.5 + 0.5 * rng.normal(), 0.5 + rng.random()

    def sample(self, rng: Any) -> None:
        return None

    def both(self, u: Any) -> tuple[float, Any]:
        self.calls += 1
        n, h = self.steps, TIME / self.steps
        which = np.arange(n) * TORQUES // n
        x, v = np.empty(n + 1), np.empty(n + 1)
        x[0], v[0] = self.start
        for i in range(n):
            v[i + 1] = v[i] + h * (2 * u[which[i]] - self.gravity * np.sin(x[i]) - 0.5 * v[i])
            x[i + 1] = x[i] + h * v[i + 1]
        gap = x - self.goal * np.sin(self.swing * np.linspace(0, TIME, n + 1))
        value = h * float(gap @ gap) / 2 + 1e-3 * float(u @ u) / 2
        gradient, back_x, back_v = 1e-3 * u, 0.0, 0.0
        for i in range(n - 1, -1, -1):
            back_x += h * gap[i + 1]
            back_v += h * back_x
            gradient[which[i]] += 2 * h * back_v
            # Of v[i + 1] on x[i] and v[i].
            back_x, back_v = (
                back_x - self.gravity * h * np.cos(x[i]) * back_v,
                back_v * (1 - h * 0.5),
            )
        return value, gradient

    def value_and_gradient(self, u: Any, batch: Any = None) -> tuple[float, Any]:
        return self.both(u)

    def value(self, u: Any) -> float:
        return self.both(u)[0]

    def gradient(self, u: Any, batch: Any = None) -> Any:
        return self.both(u)[1]


def calls_to(fine: Pendulum, proxy: Any, least: float, level: float, limit: int = 300) -> int:
    """Return the fine calls until the loss is within a share of the least."""
    fine.calls, values = 0, []

    def done(step: Any) -> bool:
        values.append(step.value)
        return bool(np.nanmin(values) - least <= level)

    pp.minimize(pp.Problem(fine, proxy), steps=limit, tol=1e-12, callback=done)
    within = np.flatnonzero(np.array(values) - least <= level)
    return int(within[0]) + 1 if len(within) else limit


def least_of(fine: Pendulum) -> float:
    found = pp.minimize(pp.Problem(fine), np.zeros(TORQUES), tol=1e-10, steps=2000)
    return float(found.fun)
