"""The three figures of an audit, as data for plotly: spectra, path, prediction."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from proxyprox.diagnostics import Audit, Interval
from proxyprox.experiments._style import styles

_LOOKS = styles([{"method": name} for name in ("grey", "blue", "orange", "green")])
_COLOURS = [look.colour for look in _LOOKS.values()]


def spectra_figure(audit: Audit) -> dict[str, Any]:
    """Return the eigenvalues of the target's Hessian and of the difference, largest first."""
    end = audit.points[-1]
    target = sorted((abs(float(x)) for x in end.target_spectrum), reverse=True)
    apart = sorted((abs(float(x)) for x in end.difference_spectrum), reverse=True)
    floor = 1e-10 * max(target[0], 1e-300)
    kind = "eigenvalues" if end.in_full else "Ritz values"
    return {
        "title": f"Spectra at the end of the path: {kind}, absolute, by rank",
        "traces": [
            _dots("target ∇²L", target, floor, 0, "circle"),
            _dots("difference ∇²L − ∇²L̂", apart, floor, 1, "square"),
        ],
        "xaxis": {"title": {"text": "rank"}},
        "yaxis": {"title": {"text": "absolute eigenvalue"}} | _decades([*target, *apart], floor),
    }


def _decades(values: list[float], floor: float = 1e-300) -> dict[str, Any]:
    """Return a logarithmic axis of whole decades: one label each, and two at least."""
    logs = [math.log10(max(value, floor)) for value in values]
    low, high = math.floor(min(logs) - 0.05), math.ceil(max(logs) + 0.05)
    return {"type": "log", "range": [low, high], "dtick": max(1, (high - low) // 6)}


def _dots(name: str, values: list[float], floor: float, colour: int, symbol: str) -> dict[str, Any]:
    # Below rounding error a logarithm shows noise: such values are laid on the floor.
    return {
        "name": name,
        "x": list(range(1, len(values) + 1)),
        "y": [max(value, floor) for value in values],
        "type": "scatter",
        "mode": "markers",
        "marker": {"color": _COLOURS[colour], "symbol": symbol, "size": 7},
        "hovertemplate": "%{x}: %{y:.3~g}<extra></extra>",
    }


def path_figure(audit: Audit) -> dict[str, Any]:
    """Return δ and H at the points and along the steps between them, with their limits."""
    names = ["start", *(f"point {i}" for i in range(1, len(audit.points)))]
    steps = [f"{a} → {b}" for a, b in pairwise(names)]
    order = [x for pair in zip(names, [*steps, ""], strict=True) for x in pair if x]
    traces = [
        _bars("H at points", names, [p.H for p in audit.points], 0, "circle"),
        _bars("δ at points", names, [p.delta for p in audit.points], 1, "square"),
    ]
    if steps:
        traces.append(_bars("H by secant", steps, [s.H for s in audit.path], 3, "diamond"))
        traces.append(_bars("δ by secant", steps, [s.delta for s in audit.path], 2, "triangle-up"))
    return {
        "title": "Along the path: how far apart the losses curve",
        "traces": traces,
        "xaxis": {"type": "category", "categoryorder": "array", "categoryarray": order},
        "yaxis": {"title": {"text": "curvature"}, "rangemode": "tozero"},
    }


def _bars(
    name: str, x: list[str], found: list[Interval], colour: int, symbol: str
) -> dict[str, Any]:
    return {
        "name": name,
        "x": x,
        "y": [float(i.estimate) for i in found],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [_length(i.high - i.estimate) for i in found],
            "arrayminus": [_length(i.estimate - i.low) for i in found],
        },
        "type": "scatter",
        "mode": "markers",
        "marker": {"color": _COLOURS[colour], "symbol": symbol, "size": 10},
        "hovertemplate": "%{x}: %{y:.3~g}<extra>%{fullData.name}</extra>",
    }


def _length(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0


def prediction_figure(audit: Audit) -> dict[str, Any]:
    """Return the target gradients that each method needs, rehearsed and in theory."""
    told = audit.prediction
    names = ["SGD", "accelerated SGD", "ProxyProx", "ProxyProx, offered"]
    rehearsed = [
        told.rehearsed_sgd.steps, math.inf, told.rehearsed_proxyprox.steps,
        told.rehearsed_best.steps,
    ]  # fmt: skip
    theory = [told.sgd, told.accelerated, told.proxyprox, math.inf]
    shown = [v for v in (*rehearsed, *theory) if math.isfinite(v) and v > 0]
    return {
        "title": f"Target gradients to ε = {audit.epsilon:.3g}",
        "traces": [
            _counts("tuned, on the quadratic model", names, rehearsed, 1, "square", "left"),
            _counts("theory, constants left out", names, theory, 0, "circle", "right"),
        ],
        "xaxis": {"type": "category", "range": [-0.6, len(names) - 0.4]},
        "yaxis": {"title": {"text": "target gradients"}} | _decades(shown or [1.0]),
    }


def _counts(
    name: str, x: list[str], values: list[float], colour: int, symbol: str, side: str
) -> dict[str, Any]:
    # Points, not bars: a bar on a logarithmic axis has no foot to stand on.
    known = [float(v) if math.isfinite(v) and v > 0 else None for v in values]
    return {
        "name": name,
        "x": x,
        "y": known,
        "type": "scatter",
        "mode": "markers+text",
        "text": ["" if v is None else f"{v:,.0f}" if v >= 10 else f"{v:.2g}" for v in known],
        "textposition": f"middle {side}",
        "cliponaxis": False,
        "marker": {"color": _COLOURS[colour], "symbol": symbol, "size": 11},
        "hovertemplate": "%{x}: %{y:,.3~g}<extra>%{fullData.name}</extra>",
    }
