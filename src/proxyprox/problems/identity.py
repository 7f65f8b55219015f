"""Which problem a saved run is about: what is compared before it goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from proxyprox._util.arrays import digest, to_numpy
from proxyprox._util.codec import describe, differences
from proxyprox.problems.problem import facts_of


def identity_of(
    problem: Any, w0: Any, seed: int | None, value: Callable[[], Any], gradient: Any
) -> dict[str, Any]:
    """Return, as JSON data, what a run is about; costly, as data may be large.

    ``value`` returns the loss at w0 and ``gradient`` is the proxy's (None if none is used):
    both are asked of losses without a fingerprint, which cannot be told apart otherwise.
    """
    parts = {name: describe(getattr(problem, name)) for name in ("penalty", "scales")}
    about: dict[str, Any] = {"rng": seed, **parts, "settings": {}}
    for name in ("objective", "proxy"):
        loss = getattr(problem, name)
        about[name] = fingerprint(loss)
        # Named if they differ; the fingerprint covers the rest.
        known = {**facts_of(loss).settings, "repeatable": getattr(loss, "repeatable", True)}
        about["settings"][name] = {key: describe(value) for key, value in known.items()}
    asked = about["proxy"] is None and gradient is not None
    about["value"] = value() if about["objective"] is None else None
    about["slope"] = _slope(gradient, w0) if asked else None
    return about


def _slope(gradient: Callable[[Any], Any], w0: Any) -> list[float] | None:
    """Return the norm of a gradient and its product with a direction that has no symmetries."""
    # The first step will meet an error or a number that is not finite again, and report it.
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        slope = to_numpy(gradient(w0)).astype(np.float64).reshape(-1)
        along = np.cos(np.arange(1.0, slope.size + 1))
        found = [float(np.linalg.norm(slope)), float(slope @ along)]
        return found if np.isfinite(found).all() else None
    return None


def differences_of(
    saved: dict[str, Any], now: dict[str, Any], dtype: str, same_start: bool
) -> list[str]:
    """Return in words what differs; what either side does not know is not compared.

    Values and gradients are taken at the start: without ``same_start`` they say nothing.
    """
    found = differences("penalty", saved["penalty"], now["penalty"])
    found += differences("scales", saved["scales"], now["scales"])
    for name in ("objective", "proxy"):
        before, after = (tree["settings"][name] for tree in (saved, now))
        named = []
        for key in before.keys() & after.keys():
            named += differences(f"{name}.{key}", before[key], after[key])
        if not named and _differ(saved[name], now[name]):
            named = [f"the {name}'s data is not that of the saved run"]
        found += named
    # Sums of the same data may be taken in another order on another machine.
    slack = 1e-9 if "64" in dtype else 1e-3
    if same_start and _differ(saved["slope"], now["slope"], slack):
        found.append("the proxy's gradient at w0 is not that of the saved run")
    if same_start and _differ(saved["value"], now["value"], 1e-9):
        found.append(f"the loss at w0 was {saved['value']!r}, now {now['value']!r}")
    if _differ(saved["rng"], now["rng"]):
        found.append(f"rng was {saved['rng']!r}, now {now['rng']!r}")
    return found


def _differ(was: Any, now: Any, slack: float = 0.0) -> bool:
    """Tell whether two known things differ; numbers by more than a share of the first ones."""
    if was is None or now is None or was == now:
        return False
    if not slack:
        return True
    was, now = np.atleast_1d(was), np.atleast_1d(now)
    return bool((np.abs(was - now) > slack * max(abs(was[0]), abs(now[0]))).any())


def fingerprint(loss: Any) -> str | None:
    """Return a text that only equal losses share, or None if the loss cannot give one."""
    offered = getattr(loss, "fingerprint", None)
    given = offered() if callable(offered) else None
    return None if given is None else str(given)


def combined_fingerprint(kind: str, losses: Any, *settings: Any) -> str | None:
    """Return the fingerprint of a loss made of others, if each of them has one."""
    parts = [fingerprint(loss) for loss in losses]
    return None if None in parts else digest(kind, *parts, *settings)
