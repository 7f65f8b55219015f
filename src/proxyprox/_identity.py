"""Which run a checkpoint is of: its configuration, its start, its seed, its problem."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

from proxyprox._arrays import namespace
from proxyprox._config import encode
from proxyprox._oracles import reported_value
from proxyprox._restored import described_differences
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


def identity(run: Run) -> dict[str, Any]:
    """Return, as JSON data, what the run is about; computed once, as data may be large."""
    if run._identity is None:
        known = fingerprint(run.problem.objective)
        run._identity = {
            "w0": digest(run._w0),
            "rng": run._seed,
            "objective": known,
            # Functions cannot be told apart; what they say at the start can.
            "value": reported_value(run.problem, run._w0) if known is None else None,
            "proxy": fingerprint(run.problem.proxy),
            "penalty": encode(run.problem.penalty),
        }
    return run._identity


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
    now = identity(run)
    differences = described_differences(saved, {"penalty": now["penalty"]})
    for name, words in {**(CALL if same_call else {}), **PROBLEM}.items():
        if None not in (saved[name], now[name]) and saved[name] != now[name]:
            differences.append(words)
    values = saved.get("value"), now["value"]
    if same_call and saved["w0"] == now["w0"] and _differ(*values):
        differences.append(f"the loss at w0 was {values[0]!r}, now {values[1]!r}")
    if same_call and None not in (saved["rng"], now["rng"]) and saved["rng"] != now["rng"]:
        differences.append(f"rng was {saved['rng']!r}, now {now['rng']!r}")
    return differences
