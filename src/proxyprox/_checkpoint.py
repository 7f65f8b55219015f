"""Checkpoints: when they are written, and how a run is put back together from one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from proxyprox import _pack as pack
from proxyprox._checks import message, positive, whole
from proxyprox._config import NotRebuildableError, decode, encode
from proxyprox._faults import Faults
from proxyprox._identity import configuration, other_identity
from proxyprox._ledger import Ledger
from proxyprox._restored import (
    described_differences,
    require_count,
    require_like,
    require_memory,
    require_rule,
)
from proxyprox._rng_state import decode_rng, encode_rng
from proxyprox._trace import Trace

if TYPE_CHECKING:
    from proxyprox._run import Run

FORMAT = 1


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, or of another run."""


class Savable(Protocol):
    """What can be written to a file."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it, whole or not at all."""


@dataclass
class Checkpoint:
    """Where and how often :func:`~proxyprox.minimize` saves its run.

    If the file exists, ``minimize`` goes on from it, bit for bit; a file of a run that was
    configured otherwise is refused, as is one of another start, seed, penalty or data (of losses
    made of plain functions only the target's value and the proxy's gradient at the start are
    compared, unless they have a ``fingerprint()``: a target that differs elsewhere, or has no
    value, is not noticed). The file is written whole or not at all, and is also written when the
    run ends for any reason: an error, Ctrl-C, SIGTERM or SIGHUP. One run writes it at a time: a
    second is refused before anything is paid.

    Parameters
    ----------
    path : path-like
        The file.
    every_steps : int, optional
        Save after so many outer steps.
    every_seconds : float, optional
        Save when so many seconds have passed since the last time; 60 if neither is given.
    """

    path: str | os.PathLike[str]
    every_steps: int | None = None
    every_seconds: float | None = None
    _saved_at: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the path and both intervals."""
        if not isinstance(self.path, (str, os.PathLike)):
            raise TypeError(message("checkpoint", self.path, "a path or a Checkpoint"))
        folder = Path(self.path).parent
        if not os.path.isdir(folder):
            raise ValueError(
                message("checkpoint", str(self.path), "in a folder that exists")[:-1]
                + f". Create {folder} first."
            )
        if os.path.isdir(self.path):
            raise ValueError(message("checkpoint", str(self.path), "a file, not a folder"))
        if self.every_steps is not None:
            whole("every_steps", self.every_steps)
        if self.every_seconds is not None:
            positive("every_seconds", self.every_seconds)
        if self.every_steps is None and self.every_seconds is None:
            self.every_seconds = 60.0
        self._saved_at = time.monotonic()

    def due(self, steps: int) -> bool:
        """Tell whether it is time to save."""
        if self.every_steps is not None and steps % self.every_steps == 0:
            return True
        if self.every_seconds is None:
            return False
        return time.monotonic() - self._saved_at >= self.every_seconds

    def save(self, run: Savable) -> None:
        """Write the run to the file."""
        run.save(self.path)
        self._saved_at = time.monotonic()


def as_checkpoint(given: Any) -> Checkpoint | None:
    """Accept a Checkpoint or a path."""
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(given)


def save_tree(path: str | os.PathLike[str], tree: dict[str, Any]) -> None:
    """Write a checkpoint's tree, whole or not at all."""
    pack.write(Path(path), {"format": FORMAT, **tree})


def run_tree(run: Run) -> dict[str, Any]:
    """Return everything that the rest of a run depends on."""
    state = {f.name: getattr(run._state, f.name) for f in fields(run._state)}
    return {
        "config": configuration(run),
        "state": state,
        # The gradient at w_k is kept, not recomputed: counts and bits stay the same.
        "anchor": run._proxy.known(run._state.w),
        "memory": run._memory,
        "average": run._average,
        "share": run._share,
        "pending": None if run._pending is None else {"batch": run._pending.batch},
        "rng": encode_rng(run._rng),
        "ledger": run.ledger.as_dict(),
        "trace": run.trace.to_array(),
        "faults": run._faults.as_tree(),
    }


def read_tree(path: str | os.PathLike[str], like: Any) -> dict[str, Any]:
    """Read a checkpoint's tree, with one kind of error for all that can be wrong with the file."""
    if not os.path.isfile(path):
        raise CheckpointError(f"checkpoint must be an existing file, got {os.fspath(path)!r}.")
    try:
        tree = pack.read(Path(path), like)
        if tree["format"] != FORMAT:
            raise ValueError(f"format {tree['format']!r}, not {FORMAT}")
    except Exception as error:
        # What a hostile file can make the readers raise has no shorter list.
        raise damaged(path, error) from error
    return tree


def restore_run(
    path: str | os.PathLike[str],
    tree: dict[str, Any],
    run: Run,
    *,
    keep_stop: bool = False,
    guarded: bool = False,
    same_call: bool = False,
) -> None:
    """Fill a freshly built run of the same configuration from a checkpoint's tree.

    With ``keep_stop`` a default inner rule that follows from the number of steps planned gives
    way to the one that the run began with: a run may go on for longer than was planned. The
    problem must be the saved one, with ``same_call`` the start and the seed too; a rival's tree,
    inside that of its run, does not say.
    """
    try:
        if keep_stop:
            _keep_stop(tree["config"]["stop"], run)
        differences = described_differences(tree.get("config"), configuration(run))
        if "identity" in tree:
            differences += other_identity(tree["identity"], run, same_call=same_call)
        if ("guard" in tree) != guarded:
            differences.append(f"safeguard was {not guarded}, now {guarded}")
    except Exception as error:
        raise damaged(path, error) from error
    if differences:
        raise CheckpointError(
            f"checkpoint {os.fspath(path)!r} belongs to another run: {'; '.join(differences)}. "
            "Give the same arguments to go on with it, or another path to start afresh."
        )
    try:
        _fill(tree, run)
    except Exception as error:
        raise damaged(path, error) from error


def _fill(tree: dict[str, Any], run: Run) -> None:
    template = run._state
    w0 = template.w
    state = tree["state"]
    names = [f.name for f in fields(template)]
    if sorted(state) != sorted(names):
        raise ValueError(f"the state holds {sorted(state)}, not {sorted(names)}")
    for name, item in state.items():
        if name == "rule":
            require_rule(item, template.rule, w0)
            continue
        require_like(name, item, w0, whole_number=name == "k", optional=name != "w")
    average = tree["average"]
    require_like("average", average, w0, optional=True)
    require_like("anchor", tree["anchor"], w0, optional=True)
    counts = {field.name: tree["ledger"].pop(field.name) for field in fields(Ledger)}
    for key, value in counts.items():
        require_count(key, value, type(getattr(run.ledger, key)))
    if tree["ledger"]:
        raise ValueError(f"the ledger holds {sorted(tree['ledger'])} too")
    trace = Trace.from_array(tree["trace"])
    if trace["k"].tolist() != list(range(state["k"])):
        raise ValueError(f"{len(trace)} recorded steps, but k = {state['k']}")
    require_memory(tree["memory"], w0)
    rng = decode_rng(tree["rng"])
    share, pending = tree["share"], tree["pending"]
    require_count("share", share, float)
    if share > 1:
        raise ValueError(f"share is {share!r}, more than 1")
    if pending is not None and set(pending) != {"batch"}:
        raise ValueError("the open question holds no batch")
    faults = Faults()
    faults.restore(tree.get("faults"), state["k"])
    restored = type(template)(**state)
    points = None if pending is None else tuple(run.method.ask(restored))
    # All is well: only now is the run changed.
    run._state = restored
    run._identity = tree.get("identity", run._identity)
    run._average, run._share = average, share
    run._memory.clear()
    run._memory.update(tree["memory"])
    run._rng = rng
    run.trace, run._faults = trace, faults
    for key, value in counts.items():
        setattr(run.ledger, key, value)
    if tree["anchor"] is not None:
        run._proxy.remember(restored.w, tree["anchor"])
    run._reopen(None if pending is None else pending["batch"], points)


def rebuilt(
    path: str | os.PathLike[str], tree: dict[str, Any], build: Callable[[dict[str, Any]], Run]
) -> Run:
    """Build a run of the configuration that a checkpoint was saved with."""
    try:
        config = tree["config"]
        parts = {name: decode(config[name]) for name in ("method", "inner", "stop", "averaging")}
    except NotRebuildableError as error:
        raise CheckpointError(
            f"checkpoint {os.fspath(path)!r} cannot be loaded on its own: {error}. Build the run "
            "with the same arguments and use minimize(..., checkpoint=path) to go on."
        ) from error
    except Exception as error:
        raise damaged(path, error) from error
    try:
        return build(parts)
    except Exception as error:
        raise CheckpointError(
            f"checkpoint {os.fspath(path)!r} does not fit this problem: {error} "
            "Give the problem that the run was saved with."
        ) from error


def damaged(path: str | os.PathLike[str], error: BaseException) -> CheckpointError:
    """Return the one error for all that can be wrong with a file."""
    return CheckpointError(
        f"checkpoint {os.fspath(path)!r} is damaged or not a checkpoint "
        f"({type(error).__name__}: {error}). Restore the file from a copy, or start afresh "
        "with another path."
    )


def _keep_stop(saved: Any, run: Run) -> None:
    planned = ("Convex", "SDane")
    began, here = saved["class"] in planned, type(run.stop).__name__ in planned
    if began and here and saved != encode(run.stop):
        run.stop, run._why_stop = decode(saved), " (the rule that the run began with)"
