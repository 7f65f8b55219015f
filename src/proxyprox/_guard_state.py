"""A safeguarded run in a checkpoint: the run, its rival, and what has been compared so far."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from proxyprox import _checkpoint as checkpoints
from proxyprox._evidence import Check
from proxyprox._identity import identity
from proxyprox._restored import require_count
from proxyprox._rng_state import decode_rng, encode_rng

if TYPE_CHECKING:
    from proxyprox._safeguard import Guarded

COUNTS = ("steps", "_last", "_due", "_ahead")


def guard_tree(guarded: Guarded) -> dict[str, Any]:
    """Return everything that the rest of a safeguarded run depends on."""
    sgd = guarded._sgd
    guard = {
        "sgd": None if sgd is None else checkpoints.run_tree(sgd),
        "proxy": guarded._proxy is not None,
        "rng": encode_rng(guarded._rng),
        "batches": list(guarded._batches),
        "checks": [asdict(check) for check in guarded._checks],
        "dropped_at": guarded._dropped_at,
        "reason": guarded._reason,
        "slope": guarded._slope,
        "counts": {name: getattr(guarded, name) for name in COUNTS},
    }
    run = guarded._answer
    return {**checkpoints.run_tree(run), "identity": identity(run), "guard": guard}


def restore_guard(
    path: str | os.PathLike[str], tree: dict[str, Any], guarded: Guarded, *, keep_stop: bool
) -> None:
    """Fill a freshly built safeguarded run of the same configuration from a checkpoint's tree."""
    checkpoints.restore_run(
        path, tree, guarded._answer, keep_stop=keep_stop, guarded=True, same_call=True
    )
    try:
        _fill(path, tree["guard"], guarded)
    except checkpoints.CheckpointError:
        raise
    except Exception as error:
        raise checkpoints.damaged(path, error) from error


def _fill(path: str | os.PathLike[str], guard: dict[str, Any], guarded: Guarded) -> None:
    counts, dropped, reason = guard["counts"], guard["dropped_at"], guard["reason"]
    for name in COUNTS:
        require_count(name, counts[name], int)
    require_count("slope", guard["slope"], float)
    if dropped is not None:
        require_count("dropped_at", dropped, int)
    if not isinstance(guard["proxy"], bool) or not isinstance(reason, str):
        raise ValueError("the safeguard's state is not one")
    checks = [_check(item) for item in guard["checks"]]
    rng = decode_rng(guard["rng"])
    rival, batches = guarded._sgd, list(guard["batches"])
    assert rival is not None
    if guard["sgd"] is None:
        rival = None
    else:
        checkpoints.restore_run(path, guard["sgd"], rival)
        rng = rival._rng  # one generator serves the rival and the held-out batches
    if rival is None and not guard["proxy"]:
        raise ValueError("neither the run nor its rival is left")
    guarded._sgd, guarded._rng = rival, rng
    guarded._proxy = guarded._answer if guard["proxy"] else None
    guarded._batches, guarded._checks = batches, checks
    guarded._dropped_at, guarded._reason = dropped, reason
    guarded._slope = float(guard["slope"])
    for name in COUNTS:
        setattr(guarded, name, counts[name])


def _check(item: dict[str, Any]) -> Check:
    for field in fields(Check):
        kinds = {"str": str, "int": int, "float": (int, float)}[str(field.type)]
        if isinstance(item[field.name], bool) or not isinstance(item[field.name], kinds):  # type: ignore[arg-type]
            raise ValueError(f"a comparison holds {field.name} = {item[field.name]!r}")
    return Check(**item)
