"""The contract's case list: adding a method, solver, correction, rule or average is one line."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from accelerated_sliding import AcceleratedSliding
from experiments.rivals import Momentum
from fedred import FedRed
from finite_sums import PAGE, SVRP
from own_methods import HalvingStep, HeavyBall, SvrgProxyProx, WindowMean
from proxyprox.stopping import AllOf, AnyOf
from spam import SPAM
from stabilized_dane import StabilizedDANE

D, MU, SMOOTHNESS, DELTA = 4, 1.0, 4.0, 0.2


@dataclass(frozen=True)
class Case:
    """A method with the outer steps in which it must come within ``accuracy`` of the minimiser."""

    method: Any
    steps: int = 14
    accuracy: float = 1e-6


METHODS = {
    "ProxyProx": Case(pp.ProxyProx(eta=4.0)),
    "ProxyProx+EMA": Case(pp.ProxyProx(eta=4.0, correction=pp.corrections.EMA(0.7)), steps=20),
    "ProxyProx+Mean": Case(
        pp.ProxyProx(eta=0.5, correction=pp.corrections.Mean()), steps=30, accuracy=3e-2
    ),
    "ProxyProx+Storm": Case(pp.ProxyProx(eta=4.0, correction=pp.corrections.Storm(0.5))),
    "ProxyProx+schedule": Case(pp.ProxyProx(eta=lambda k: 4.0 + 1 / (k + 1))),
    "ProxyProx auto": Case(pp.ProxyProx(eta="auto")),
    "ProxyProx+EMA auto": Case(
        pp.ProxyProx(eta="auto", correction=pp.corrections.EMA(0.7)), steps=20
    ),
    "SGD": Case(pp.SGD(eta=0.36), steps=40),
    "SGD auto": Case(pp.SGD(eta="auto"), steps=30),
    "Momentum": Case(Momentum(eta=0.3, beta=0.3), steps=30, accuracy=1e-4),
    "Momentum auto": Case(Momentum(beta=0.5, nesterov=True), steps=30, accuracy=1e-2),
    "Adam": Case(pp.Adam(eta=0.1), steps=150, accuracy=1e-2),
    "ProxyProx+Storm auto": Case(pp.ProxyProx("auto", pp.corrections.Storm(0.5))),
    "DANE": Case(pp.DANE(eta=4.0)),
    "DANE auto": Case(pp.DANE(eta="auto")),
    "DANE without prox": Case(pp.DANE(), steps=9),
    "ProxyBFGS": Case(pp.ProxyBFGS(), steps=10),
    "StepSize of a user": Case(pp.ProxyProx(eta=HalvingStep(4.0))),
    "Correction of a user": Case(pp.ProxyProx(eta=4.0, correction=WindowMean(2)), steps=18),
    "HeavyBall": Case(HeavyBall(eta=4.0)),
    "HeavyBall auto": Case(HeavyBall(eta="auto")),
    "SVRG": Case(SvrgProxyProx(eta=4.0, period=4)),
    "SVRG auto": Case(SvrgProxyProx(eta="auto", period=4)),
    "SVRP": Case(SVRP(eta=4.0, p=0.3)),
    "SVRP auto": Case(SVRP(p=0.3)),
    "PAGE": Case(PAGE(eta=4.0, p=0.3)),
    "SPAM": Case(SPAM(8.0)),
    "FedRed": Case(FedRed(eta=4.0, p=0.1)),
    "StabilizedDANE": Case(StabilizedDANE(0.25, mu=MU), steps=20),
    "AcceleratedSliding": Case(AcceleratedSliding(DELTA, MU), steps=36, accuracy=1e-5),
}
"""Every outer method; each correction with the method that carries it."""

INNERS = {
    "Auto": pp.inner.Auto(),
    "ClosedForm": pp.inner.ClosedForm(),
    "GradientDescent": pp.inner.GradientDescent(),
    "LBFGS": pp.LBFGS(),
    "Newton": pp.inner.Newton(),
    "NewtonCG": pp.inner.NewtonCG(),
    "ProximalGradient": pp.inner.ProximalGradient(),
    "QuasiNewton": pp.inner.QuasiNewton(),
}

CORRECTIONS = {
    "EMA": pp.corrections.EMA(0.3),
    "Mean": pp.corrections.Mean(),
    "Plain": pp.corrections.Plain(),
    "Storm": pp.corrections.Storm(0.3),
}

CRITERIA = {
    "AllOf": pp.stopping.SDane() & pp.stopping.Residual(1e-3),
    "AnyOf": pp.stopping.StronglyConvex(1.0, G=1e-3) | pp.stopping.Steps(30),
    "Convex": pp.stopping.Convex(steps=40, G=1e-9),
    "NonConvex": pp.stopping.NonConvex(1e-12),
    "RandomSteps": pp.stopping.RandomSteps(0.2),
    "Relative": pp.stopping.Relative(1e-3),
    "Residual": pp.stopping.Residual(1e-6),
    "SDane": pp.stopping.SDane(),
    "Steps": pp.stopping.Steps(7),
    "StronglyConvex": pp.stopping.StronglyConvex(MU),
}
assert isinstance(CRITERIA["AllOf"], AllOf)
assert isinstance(CRITERIA["AnyOf"], AnyOf)

AVERAGINGS = {
    "Adaptive": pp.averaging.Adaptive(),
    "Geometric": pp.averaging.Geometric(mu=MU),
    "Last": pp.averaging.Last(),
    "Uniform": pp.averaging.Uniform(),
}

BACKENDS = ("numpy", "torch")


@dataclass
class Shared:
    """One strongly convex problem with its minimiser, in one library."""

    problem: pp.Problem
    w0: Any
    minimiser: np.ndarray
    backend: str
    extra: dict[str, Any] = field(default_factory=dict)


def as_backend(array: Any, backend: str) -> Any:
    if backend == "numpy":
        return np.array(array)
    torch = pytest.importorskip("torch")
    return torch.tensor(np.asarray(array))


def quadratic(backend: str, noise: float = 0.0) -> Shared:
    """Return L with eigenvalues in [MU, SMOOTHNESS] and a proxy whose Hessian differs by DELTA."""
    rng = np.random.default_rng(7)
    basis, _ = np.linalg.qr(rng.normal(size=(D, D)))
    tilt, _ = np.linalg.qr(rng.normal(size=(D, D)))
    P = basis @ np.diag(np.linspace(MU, SMOOTHNESS, D)) @ basis.T
    P_proxy = P + tilt @ np.diag(DELTA * rng.choice([-1.0, 1.0], size=D)) @ tilt.T
    P, P_proxy = (P + P.T) / 2, (P_proxy + P_proxy.T) / 2
    b, b_proxy, w0 = rng.normal(size=(3, D))
    objective = pp.Quadratic(as_backend(P, backend), b=as_backend(b, backend), noise=noise)
    proxy = pp.Quadratic(as_backend(P_proxy, backend), b=as_backend(b_proxy, backend))
    return Shared(
        pp.Problem(objective, proxy), as_backend(w0, backend), np.linalg.solve(P, -b), backend
    )


def numpy_of(w: Any) -> np.ndarray:
    return w if isinstance(w, np.ndarray) else w.detach().cpu().numpy()


def suits(method: Any, inner: Any) -> bool:
    """Tell whether the method takes this inner solver on the contract's problem."""
    if method.defaults() is None:
        return isinstance(inner, pp.inner.Auto)
    return True


def combinations() -> dict[tuple[str, str, str], bool]:
    """Return all methods with their solvers in both libraries, and whether each is always run.

    Always: three of a method's solvers, each in one library, both libraries among them. The whole
    product runs with the slow tests.
    """
    found = {}
    for number, (name, case) in enumerate(METHODS.items()):
        solvers = [solver for solver, inner in INNERS.items() if suits(case.method, inner)]
        always = {
            (solvers[(3 * number + turn) % len(solvers)], BACKENDS[turn % 2]) for turn in range(3)
        }
        for pair in itertools.product(solvers, BACKENDS):
            found[name, *pair] = pair in always
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    tables = {
        "criterion": CRITERIA, "averaging": AVERAGINGS,
        "backend": dict(zip(BACKENDS, BACKENDS, strict=True)),
    }  # fmt: skip
    if "inner" in metafunc.fixturenames:
        rows = [
            pytest.param(
                METHODS[name], INNERS[solver], backend, id=f"{name}-{solver}-{backend}",
                marks=[] if always else pytest.mark.slow,
            )
            for (name, solver, backend), always in combinations().items()
        ]  # fmt: skip
        metafunc.parametrize(("case", "inner", "backend"), rows)
        return
    for name, table in tables.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, list(table.values()), ids=list(table))


@pytest.fixture
def shared(backend: str) -> Shared:
    return quadratic(backend)


@pytest.fixture
def noisy(backend: str) -> Shared:
    return quadratic(backend, noise=0.1)


@pytest.fixture
def registry() -> dict[str, dict[str, Any]]:
    methods = {name: case.method for name, case in METHODS.items()}
    return {
        "methods": methods, "inner": INNERS, "criteria": CRITERIA,
        "averaging": AVERAGINGS, "corrections": CORRECTIONS,
    }  # fmt: skip


@pytest.fixture(name="suits")
def suits_() -> Any:
    return suits


@pytest.fixture
def to_numpy() -> Any:
    return numpy_of
