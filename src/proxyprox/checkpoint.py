"""Checkpoints: when a run is saved, how it is resumed, and what another run's file is refused for.

``state_dict()`` of a run makes a tree and ``load_state_dict(tree)`` takes it back;
:mod:`proxyprox._util.codec` says how trees become bytes.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

from proxyprox._util.arrays import Growing
from proxyprox._util.codec import CheckpointError, read, refuse_damage, require_listed, save
from proxyprox._util.validation import file_path, message, whole

__all__ = [
    "Checkpoint", "CheckpointError", "Growing", "as_checkpoint", "other_run_error",
    "read", "refuse_damage", "require_kind", "require_listed", "resume", "save",
]  # fmt: skip


@dataclass
class Checkpoint:
    """Where and how often :func:`~proxyprox.minimize` saves its run.

    If the file exists, ``minimize`` resumes from it, bit for bit. A file of another configuration,
    start, seed, penalty, batch size or data is refused. A function that is a setting, such as a
    schedule for eta, is compared by its module and name. Losses are compared by their
    ``fingerprint()``; of those without one, such as plain functions, only the target's value and
    the proxy's gradient at the start are compared: a target that differs elsewhere, or has no
    value, is not noticed. A save replaces the file, whole or not at all: one that is cut short
    leaves the save before it. The file is also written when the run ends for
    any reason: an error, Ctrl-C, SIGTERM or SIGHUP. One run writes it at a time: a second one is
    refused before anything is paid.

    Parameters
    ----------
    path : path-like
        The file.
    every_steps : int, optional
        Save after this many outer steps. By default a save follows when a second has passed since
        the last one, or twenty times what that took, at most a minute. What one step of a slow
        target has cost is then never lost.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from proxyprox import Checkpoint, Problem, Quadratic, minimize
    >>> target = Quadratic(np.eye(2), b=np.ones(2), noise=0.1)
    >>> problem = Problem(target, Quadratic(np.eye(2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     every = Checkpoint(f"{folder}/run", every_steps=10)
    ...     first = minimize(problem, steps=20, rng=0, checkpoint=every)
    ...     minimize(problem, steps=30, rng=0, checkpoint=every).steps
    30
    """

    path: str | os.PathLike[str]
    every_steps: int | None = None
    _saved_at: float = field(default=0.0, init=False, repr=False, compare=False)
    _took: float = field(default=0.0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the path and the interval."""
        path = file_path("checkpoint", self.path)
        if os.path.isdir(path) or not os.path.isdir(path.parent):
            allowed = "a file, not a folder, in a folder that exists"
            remedy = "" if os.path.isdir(path) else f"Create {path.parent} first."
            raise ValueError(message("checkpoint", str(path), allowed, remedy))
        if self.every_steps is not None:
            whole("every_steps", self.every_steps)
        self._saved_at = time.monotonic()

    def due(self, steps: int) -> bool:
        """Tell whether it is time to save."""
        if self.every_steps is not None:
            return steps % self.every_steps == 0
        return time.monotonic() - self._saved_at >= min(max(1.0, 20 * self._took), 60.0)

    def save(self, run: Any) -> None:
        """Write the run to the file."""
        begun = time.monotonic()
        save(self.path, run.state_dict(), run.record_classes)
        self._saved_at = time.monotonic()
        self._took = self._saved_at - begun


def as_checkpoint(given: Any) -> Checkpoint | None:
    """Accept a Checkpoint or a path."""
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(given)


def resume(path: str | os.PathLike[str], run: Any) -> None:
    """Fill a freshly built run of the same call from a file."""
    try:
        run.load_state_dict(read(path, run.record_classes, like=run.start))
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {os.fspath(path)!r}: {error}") from error


def require_kind(tree: Any, kind: str) -> None:
    """Refuse a lone run's state where a safeguarded one's is wanted, and the other way round."""
    with refuse_damage():
        was = {"Run": False, "Guarded": True}[tree["kind"]]
    if was != (kind == "Guarded"):
        raise other_run_error([f"safeguard was {was}, now {not was}"])


def other_run_error(differences: list[str]) -> CheckpointError:
    """Return the error for a state of another run."""
    return CheckpointError(
        f"it belongs to another run: {'; '.join(differences)}. "
        "Give the same arguments to resume it, or another path to start again."
    )
