"""Which run a checkpoint is of: its configuration, its start, its seed, its problem.

Losses that have a ``fingerprint()`` are known by it. Functions cannot be told apart, only what they
say at the start: of the target its value, where it has one that costs nothing, and of the proxy its
gradient. A target that differs elsewhere, or in its gradients alone, is not noticed.
"""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from proxyprox._arrays import namespace, to_numpy
from proxyprox._config import encode
from proxyprox._isolation import isolated
from proxyprox._oracles import reported_value
from proxyprox._restored import described_differences
from proxyprox.problems import Zero
from proxyprox.problems._fingerprint import digest, fingerprint

if TYPE_CHECKING:
    from proxyprox._run import Run

PROBLEM = {
    "objective": "the objective's data is not that of the saved run",
    "proxy": "the proxy's data is not that of the saved run",
}
CALL = {"w0": "w0 is not that of the saved run"}


def configuration(run: Run) -> dict[str, Any]:
    """Return, as JSON data, how a run is set up."""
    w = run._state.w
    return {
        "method": encode(run.method),
        "inner": encode(run.inner),
        "stop": encode(run.stop),
        "averaging": encode(run.averaging),
        "size": int(w.shape[0]),
        "dtype": str(w.dtype),
        "library": namespace(w).__name__.removeprefix("array_api_compat."),
    }


def seed_of(rng: Any) -> int | None:
    """Return the seed that a run's randomness was given as, if it was."""
    return int(rng) if isinstance(rng, numbers.Integral) else None


def identity(run: Run, *, compared: bool = False) -> dict[str, Any]:
    """Return, as JSON data, what the run is about; computed once, as data may be large.

    With ``compared`` nothing of it is entered in the run's books.
    """
    if run._identity is None:
        known = fingerprint(run.problem.objective)
        run._identity = {
            "w0": digest(run._w0),
            "rng": run._seed,
            "objective": known,
            # Functions cannot be told apart; what they say at the start can.
            "value": reported_value(run.problem, run._w0) if known is None else None,
            "proxy": fingerprint(run.problem.proxy),
            "slope": _slope(run, compared=compared),
            "penalty": encode(run.problem.penalty),
        }
    return run._identity


def _slope(run: Run, *, compared: bool) -> list[float] | None:
    """Return the norm and a projection of a proxy's gradient at w0, where it has no fingerprint.

    Before the first step it is the gradient that the step will need: it is charged, and kept for
    it. After that, and when a checkpoint is only compared, it is no part of the run's books.
    """
    proxy, w0 = run.problem.proxy, run._w0
    if not run.method.uses_proxy or isinstance(proxy, Zero) or fingerprint(proxy) is not None:
        return None
    oracle = isolated(proxy) if compared or run.steps else run._proxy
    known = run._proxy.snapshot()
    try:
        with np.errstate(all="ignore"):
            slope = to_numpy(oracle.gradient(w0)).astype(np.float64)
    except Exception:
        # The first step will meet it again, and report it.
        return None
    # A direction without symmetries: gradients of equal norm, such as g and −g, differ along it.
    along = np.cos(np.arange(1.0, slope.size + 1))
    with np.errstate(all="ignore"):
        found = [float(np.linalg.norm(slope)), float(slope.reshape(-1) @ along)]
    if np.isfinite(found).all():
        return found
    # The first step is to meet it itself: a checkpoint holds finite numbers only.
    run._proxy.rewind(known)
    return None


def _other_slope(was: Any, now: Any, dtype: str) -> bool:
    if was is None or now is None:
        return False
    # As with values: only what rounding cannot explain counts.
    slack = (1e-9 if "64" in dtype else 1e-3) * max(was[0], now[0])
    return any(abs(one - other) > slack for one, other in zip(was, now, strict=True))


def _differ(was: Any, now: Any) -> bool:
    if not isinstance(was, float) or not isinstance(now, float):
        return False
    # Sums of the same data may be taken in another order on another machine.
    return abs(was - now) > 1e-9 * max(abs(was), abs(now))


def other_identity(saved: Any, run: Run, *, same_call: bool) -> list[str]:
    """Return in words what differs; what either side does not know is not compared.

    With ``same_call`` the start and the seed must be those of the saved run too.
    """
    if not isinstance(saved, dict):
        raise ValueError("it does not say which problem it is of")
    now = identity(run, compared=True)
    differences = described_differences(saved, {"penalty": now["penalty"]})
    for name, words in {**(CALL if same_call else {}), **PROBLEM}.items():
        if None not in (saved[name], now[name]) and saved[name] != now[name]:
            differences.append(words)
    dtype = str(run._w0.dtype)
    if saved["w0"] == now["w0"] and _other_slope(saved.get("slope"), now["slope"], dtype):
        differences.append("the proxy's gradient at w0 is not that of the saved run")
    values = saved.get("value"), now["value"]
    if same_call and saved["w0"] == now["w0"] and _differ(*values):
        differences.append(f"the loss at w0 was {values[0]!r}, now {values[1]!r}")
    if same_call and None not in (saved["rng"], now["rng"]) and saved["rng"] != now["rng"]:
        differences.append(f"rng was {saved['rng']!r}, now {now['rng']!r}")
    return differences
