"""What the driver costs besides the oracles and the inner solve, at d = 100."""

from __future__ import annotations

import time

import numpy as np

from _measure import Row
from proxyprox import Problem, ProxyProx, minimize
from proxyprox.averaging import Uniform
from proxyprox.problems import Zero

SIZE = 100
STEPS = 5000


class _Timed:
    """Adds up the time spent inside a part."""

    def __init__(self, part: object, names: tuple[str, ...]) -> None:
        self.part, self.spent = part, 0.0
        for name in names:
            setattr(self, name, self._timed(getattr(part, name)))

    def _timed(self, work):
        def timed(*args):
            begun = time.perf_counter()
            try:
                return work(*args)
            finally:
                self.spent += time.perf_counter() - begun

        return timed

    def __getattr__(self, name: str) -> object:
        return getattr(self.part, name)


def rows() -> list[Row]:
    fixed = np.ones(SIZE)
    worst = 0.0
    for averaging in (None, Uniform()):
        inner = _Timed(_solver(), ("solve",))
        objective = _Timed(_Constant(fixed), ("sample", "gradient"))
        problem = Problem(objective, Zero())
        begun = time.perf_counter()
        minimize(
            problem, np.zeros(SIZE), method=ProxyProx(0.1), steps=STEPS, inner=inner,
            averaging=averaging, callback=lambda step: None,
        )  # fmt: skip
        total = time.perf_counter() - begun
        worst = max(worst, (total - inner.spent - objective.spent) / STEPS)
    return [
        Row(
            f"driver overhead an outer step, d = {SIZE} (seconds)",
            worst, 100e-6, worst / 100e-6, 1.0, f"{worst * 1e6:.0f} µs, with and without averaging",
        )
    ]  # fmt: skip


class _Constant:
    def __init__(self, gradient: np.ndarray) -> None:
        self._gradient = gradient

    def sample(self, rng: np.random.Generator) -> None:
        return None

    def gradient(self, w: np.ndarray, batch: None) -> np.ndarray:
        return self._gradient


def _solver() -> object:
    from proxyprox.inner import ClosedForm

    return ClosedForm()
