"""The methods that a configuration file can name, with the step sizes tried for each.

Every one of them takes a number or "auto" as its step size.
"""

from __future__ import annotations

from typing import Any, Literal

from proxyprox import (
    DANE,
    EMA,
    LBFGS,
    SGD,
    AuxMom,
    AuxMVR,
    Geometric,
    GradientDescent,
    Mean,
    Nesterov,
    Newton,
    NewtonCG,
    Plain,
    ProximalGradient,
    ProxyProx,
    QuasiNewton,
    Residual,
    Steps,
    Storm,
    Uniform,
)
from proxyprox.experiments.contenders import EXACT, Contender, yardstick
from proxyprox.experiments.own_config import Choice, Config

StepSize = float | Literal["auto"]

WEIGHT = 0.1
"""The weight a of moving averages, where none is given."""

INNER_STEPS = 20
"""Inner steps of AuxMom and AuxMVR, where none are given."""

_SOLVERS = {
    "newton": Newton,
    "quasi-newton": QuasiNewton,
    "newton-cg": NewtonCG,
    "lbfgs": LBFGS,
    "nesterov": Nesterov,
    "proximal-gradient": ProximalGradient,
}


def lineup(config: Config) -> list[Contender]:
    """Return the method of the configuration, then those it is compared with, each name once."""
    found: dict[str, Contender] = {}
    for name in (None, *config.run.compare):
        if name == "erm":
            contender = yardstick()
        elif name is None:
            contender = _contender(config.method, config)
        else:
            rival = Choice(name, batch_size=config.method.batch_size)
            contender = _contender(rival, config)
        found.setdefault(contender.name, contender)
    return list(found.values())


def _contender(choice: Choice, config: Config) -> Contender:
    build = {
        "proxyprox": _proxyprox,
        "sgd": _sgd,
        "auxmom": _auxiliary,
        "auxmvr": _auxiliary,
        "dane": _dane,
    }[choice.name]
    return build(choice, _averaging(config))


def _sgd(choice: Choice, common: dict[str, Any]) -> Contender:
    name = "SGD" if choice.batch_size else "gradient descent"
    return Contender(name, lambda eta: {"method": SGD(eta), **common}, 0.1, 2.5, 0.2)


def _proxyprox(choice: Choice, common: dict[str, Any]) -> Contender:
    a = WEIGHT if choice.a is None else choice.a
    words = {"plain": "", "ema": ", EMA", "mean": ", running mean", "storm": ", STORM"}
    correction: dict[str, Any] = {
        "plain": Plain(),
        "ema": EMA(a),
        "mean": Mean(),
        "storm": Storm(a),
    }
    kind = choice.correction or "plain"

    def build(eta: StepSize) -> dict[str, Any]:
        return {"method": ProxyProx(eta, correction[kind]), **_inner(choice, eta), **common}

    # Averaged corrections are less noisy and bear longer steps.
    return Contender(f"ProxyProx{words[kind]}", build, 0.25, 5.0 if kind == "plain" else 8.0, 1.0)


def _dane(choice: Choice, common: dict[str, Any]) -> Contender:
    def build(eta: StepSize) -> dict[str, Any]:
        return {"method": DANE(eta), **_inner(choice, eta), **common}

    return Contender("DANE", build, 0.25, 5.0, 1.0)


def _auxiliary(choice: Choice, common: dict[str, Any]) -> Contender:
    a = WEIGHT if choice.a is None else choice.a
    steps = choice.inner_steps or INNER_STEPS
    kind: Any = AuxMom if choice.name == "auxmom" else AuxMVR

    def build(gamma: StepSize) -> dict[str, Any]:
        if gamma == "auto":
            # The proximal term is what is measured; γ then follows from the smoothness.
            return {"method": kind(a=a, eta="auto"), "stop": Steps(steps), **common}
        return {
            "method": kind(a=a),
            "inner": GradientDescent(gamma),
            "stop": Steps(steps),
            **common,
        }

    return Contender(kind.__name__, build, 0.05, 2.5, steps / 4)


def _inner(choice: Choice, eta: StepSize) -> dict[str, Any]:
    """Return solver and rule of the subproblems; solved almost exactly unless told otherwise."""
    stop: Any = None
    if choice.inner_tolerance is not None or choice.inner_steps is None:
        stop = Residual(choice.inner_tolerance or EXACT)
    if choice.inner_steps is not None:
        steps = Steps(choice.inner_steps)
        stop = steps if stop is None else stop | steps
    settings: dict[str, Any] = {"stop": stop}
    if choice.inner == "gradient-descent":
        # T steps of size η/T cover the proximal step; otherwise the step suits the smoothness.
        known = choice.inner_steps is not None and eta != "auto"
        fixed = float(eta) / (choice.inner_steps or 1) if known else None
        settings["inner"] = GradientDescent(step_size=fixed, implicit=fixed is not None)
    elif choice.inner not in (None, "auto"):
        settings["inner"] = _SOLVERS[choice.inner]()
    return settings


def _averaging(config: Config) -> dict[str, Any]:
    kind = config.method.averaging
    if kind == "last":
        return {}
    return {"averaging": Uniform() if kind == "uniform" else Geometric(config.model.l2)}
