"""User code that writes into what it is handed, or keeps it, changes no run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.inner.base import InnerResult
from tests.runs import SOLVERS

A = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
P = np.array([[1.8, 0.2, 0.0], [0.2, 1.1, 0.0], [0.0, 0.0, 0.6]])
CENTRE = np.array([1.0, -2.0, 0.5])


def spoil(*arrays: Any) -> None:
    """Write into everything handed over, as careless code does."""
    for array in arrays:
        if array is not None and hasattr(array, "shape"):
            array[...] = 77


class Honest:
    """A user's loss ``½ (w − c)ᵀM(w − c)``, with noise added by a batch of noise vectors."""

    writes: ClassVar[bool] = False

    def __init__(self, matrix: Any, centre: Any, noise: float = 0.0) -> None:
        self.matrix, self.centre, self.noise = matrix, centre, noise

    def done(self, *arrays: Any) -> None:
        if self.writes:
            spoil(*arrays)

    def sample(self, rng: np.random.Generator) -> Any:
        return rng.normal(scale=self.noise, size=len(self.centre)) if self.noise else None

    def everything(self) -> None:
        return None

    def value(self, w: Any) -> float:
        found = float((w - self.centre) @ self.matrix @ (w - self.centre)) / 2
        self.done(w)
        return found

    def gradient(self, w: Any, batch: Any = None) -> Any:
        found = self.matrix @ (w - self.centre) + (0.0 if batch is None else batch)
        self.done(w, batch)
        return found

    def hvp(self, w: Any, v: Any) -> Any:
        found = self.matrix @ v
        self.done(w, v)
        return found

    def hessian(self, w: Any) -> Any:
        self.done(w)
        return self.matrix.copy()

    def samples(self, batch: Any) -> int:
        self.done(batch)
        return 1

    def cost(self, batch: Any) -> float:
        self.done(batch)
        return 1.0


class Writing(Honest):
    writes = True


class Reusing(Honest):
    """Answers every question in one buffer, or with the argument itself."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.buffer = np.zeros(len(self.centre))

    def gradient(self, w: Any, batch: Any = None) -> Any:
        self.buffer[:] = super().gradient(w, batch)
        return self.buffer

    def hvp(self, w: Any, v: Any) -> Any:
        v[:] = self.matrix @ v
        return v


class Keeping(Honest):
    """Keeps what it is handed, and writes into it later."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.kept: list[Any] = []

    def gradient(self, w: Any, batch: Any = None) -> Any:
        spoil(*self.kept)
        self.kept = [w, batch]
        return super().gradient(w, batch)


KINDS = [Writing, Reusing, Keeping]


def outcome(result: Any) -> tuple[Any, ...]:
    return result.w.tobytes(), result.last.tobytes(), result.values, result.status


METHODS = [
    pp.ProxyProx("auto"), pp.ProxyProx(0.5, pp.corrections.Storm(0.3)), pp.SGD(0.2), pp.SGD("auto"),
    pp.DANE(1.0), pp.ProxyProx(1.0, pp.corrections.Storm(0.3)),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_the_user(kind):
    """Demand that careless losses end where honest ones do, bit for bit."""
    calls = [(0.0, {"inner": inner}) for inner in [pp.inner.GradientDescent(0.3), *SOLVERS[1:]]]
    calls += [(0.1, {"method": method}) for method in METHODS]
    for noise, options in [*calls, (0.1, {"safeguard": True})]:
        call = {"method": pp.ProxyProx(1.0), "steps": 12, "rng": 0, **options}
        honest, careless = (
            pp.minimize(pp.Problem(one(A, CENTRE, noise), one(P, 0 * CENTRE)), np.zeros(3), **call)
            for one in (Honest, kind)
        )
        assert outcome(careless) == outcome(honest), options


class Penalty:
    """ψ = 0.1 |w|₁ of a user, which writes into its arguments."""

    own = pp.L1(0.1)

    def value(self, w: Any) -> float:
        found = self.own.value(w)
        spoil(w)
        return found

    def prox(self, w: Any, step: float) -> Any:
        w[:] = self.own.prox(w, step)
        return w

    def distance(self, w: Any, gradient: Any) -> float:
        found = self.own.distance(w, gradient)
        spoil(w, gradient)
        return found


def problem(noise: float = 0.1, penalty: Any = None) -> pp.Problem:
    return pp.Problem(Honest(A, CENTRE, noise), Honest(P, 0 * CENTRE), penalty)


def test_what_a_run_hands_out():
    runs = [pp.Run(problem(), np.zeros(3), method=pp.ProxyProx("auto"), rng=0) for _ in range(2)]
    for _ in range(12):
        for run, careless in zip(runs, (False, True), strict=True):
            query = run.ask()
            if careless:
                spoil(query.batch, *query.points, run.w)
                query = run.ask()
            gradients = [run.problem.objective.gradient(w, query.batch) for w in query.points]
            step = run.tell(gradients)
            if careless:
                spoil(*gradients, step.w, step.answer, *step.gradients)
    assert runs[0].w.tobytes() == runs[1].w.tobytes()


@dataclass(frozen=True)
class InPlace:
    """A user's correction that updates its estimate in place."""

    two_points: ClassVar[bool] = False

    def __call__(self, difference: Any, before: Any, estimate: Any, k: int) -> Any:
        if estimate is None:
            return difference
        difference -= estimate
        difference *= 0.5
        estimate += difference
        return estimate


@pytest.mark.parametrize("eta", [1.0, "auto"])
def test_a_correction_of_the_user(eta):
    found = []
    for correction in (pp.corrections.EMA(0.5), InPlace()):
        broken = iter([False, True, False] * 20)

        run = pp.Run(problem(), np.zeros(3), method=pp.ProxyProx(eta, correction), rng=0)
        for _ in range(8):
            query = run.ask()
            gradients = [run.problem.objective.gradient(w, query.batch) for w in query.points]
            if next(broken):
                with pytest.raises(pp.inner.NonFiniteError):
                    run.tell([np.nan * g for g in gradients])
            run.tell(gradients)
        found.append(run.w.tobytes())
    assert found[0] == found[1]


@dataclass
class Loop:
    """A user's inner solver: gradient steps that overwrite the array it was given."""

    needs: ClassVar[tuple[str, ...]] = ("gradient",)
    handles_penalty: ClassVar[bool] = False
    in_place: bool = False

    def solve(self, phi: Any, start: Any, stop: Any, memory: Any, rng: Any) -> InnerResult:
        w = start
        first = None
        for t in range(1000):
            gradient = phi.gradient(w)
            progress = phi.progress(w, gradient, t, first)
            first = progress.start_residual
            if stop(progress):
                break
            if self.in_place:
                w -= 0.2 * gradient
            else:
                w = w - 0.2 * gradient
        return InnerResult(w, progress)


@dataclass
class State:
    w: Any
    k: int = 0


@dataclass(frozen=True)
class Descent(pp.Method):
    """A user's method that changes its state in place, and asks the proxy on the way."""

    in_place: bool = False
    eta: float = 0.5

    def init(self, w0: Any, problem: Any) -> State:
        return State(w0)

    def tell(self, state: State, answers: pp.methods.Answers, step: Any) -> State:
        before, slope = step.proxy.gradient(state.w), answers.gradients[0]
        if not self.in_place:
            w = step.solve(linear=slope - before, centre=state.w)
            w = w - 0.01 * step.proxy.gradient(w)
            return State(w, state.k + 1)
        slope -= before
        state.w[:] = step.solve(linear=slope, centre=state.w)
        state.w -= 0.01 * step.proxy.gradient(state.w)
        state.k += 1
        return state


@pytest.mark.parametrize(
    "parts",
    [
        [{"penalty": psi, "noise": 0.0, "safeguard": True} for psi in (Penalty.own, Penalty())],
        [{"inner": Loop(in_place)} for in_place in (False, True)],
        [{"method": Descent(in_place=in_place)} for in_place in (False, True)],
    ],
    ids=["penalty", "inner solver", "method"],
)
def test_other_parts_of_the_user(parts):
    found = []
    for options in parts:
        call = {"method": pp.ProxyProx(1.0), "steps": 12, "rng": 0, **options}
        given = problem(call.pop("noise", 0.1), call.pop("penalty", None))
        found.append(pp.minimize(given, np.zeros(3), **call))
    assert outcome(found[0]) == outcome(found[1])
    assert np.abs(found[0].w - CENTRE).max() < 1.0
