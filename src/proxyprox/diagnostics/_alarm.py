"""What ends an audit early: NaN of a proxy on the path, or a target without a minimum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from proxyprox._arrays import Vector, norm
from proxyprox._oracles import MeteredProxy, reported_value
from proxyprox._subproblem import NonFiniteError
from proxyprox.diagnostics._survey import Survey
from proxyprox.problems import Problem

FAR = 2.0
"""A loss that grows by twice its size along a path that leads down has run away."""

NO_VERDICT = "No verdict:"
"""How an alarm begins that is about the target: there is nothing to plan then."""

_CHECK = "Check the sign of its gradient, with scipy.optimize.check_grad."


def proxy_alarm(proxies: Sequence[MeteredProxy], w: Vector, start: Vector) -> str:
    """Return what to say of a first proxy that is not finite at a point of the path, or nothing.

    Raises
    ------
    NonFiniteError
        If any is not finite at the start, or a further one anywhere.
    """
    away = norm(w - start)
    where = f"at a distance of {away:.3g} from w0" if away > 0 else "at w0"
    for j, proxy in enumerate(proxies):
        proxy.fault = None
        with np.errstate(all="ignore"):
            proxy.gradient(w)
            proxy.value(w)
        if proxy.fault is None:
            continue
        whose = f"others[{j - 1}]" if j else "the proxy"
        what = f"{whose}'s {proxy.fault[0]} is NaN or infinite {where}"
        if j or away == 0:
            raise NonFiniteError(what)
        return f"Do not use it: {what}, on the path towards the minimum."
    return ""


def target_alarm(found: Survey, problem: Problem, w: Vector, start: Vector) -> str:
    """Return what to say of a target that curves downwards or runs away, or nothing."""
    if not found.target.values[-1] > 0:
        return (
            f"{NO_VERDICT} the target curves downwards, or not at all, in every direction looked "
            f"at, so that there is no minimum to predict the way to. {_CHECK}"
        )
    first, last = reported_value(problem, start), reported_value(problem, w)
    if first is None or last is None or not math.isfinite(first) or first == 0:
        return ""
    if math.isfinite(last) and last - first <= FAR * abs(first):
        return ""
    return (
        f"{NO_VERDICT} the target's loss runs away, from {first:.3g} to {last:.3g}, on a path "
        f"along which its gradient says that it falls. {_CHECK}"
    )
