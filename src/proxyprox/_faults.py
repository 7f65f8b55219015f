"""Steps that NaN or infinities of the proxy stood in the way of."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, norm
from proxyprox._oracles import MeteredProxy
from proxyprox._result import counted
from proxyprox._subproblem import NonFiniteError
from proxyprox.checkpoint import Prefix

ROW = 5
"""Such steps in a row, at the end of a run, that are no accident."""


class Faults:
    """Which outer steps were blocked: the proxy was not finite at a trial point, and it mattered.

    It mattered if a subproblem had no finite solution, so that the step had to be shortened, or
    if the inner rule failed. A line search that turns back from an infinity in time is no fault.
    """

    def __init__(self) -> None:
        self.blocked: list[int] = []
        self.words = ""
        self._raised = False

    def begin(self, proxy: MeteredProxy) -> None:
        """Look from here on, at the begin of a step."""
        proxy.fault, self._raised = None, False

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Notice a subproblem without a finite solution."""
        try:
            yield
        except NonFiniteError:
            self._raised = True
            raise

    def end(self, k: int, proxy: MeteredProxy, w: Vector, *, held: bool) -> None:
        """Enter step k from w if it was blocked."""
        if proxy.fault is None or (held and not self._raised):
            return
        what, point = proxy.fault
        with np.errstate(over="ignore", invalid="ignore"):
            away = norm(point - w)
        where = f"at a distance of {away:.3g} from w" if math.isfinite(away) else "far from w"
        self.blocked.append(k)
        self.words = f"the proxy's {what} was not finite {where}"

    def in_a_row(self, steps: int) -> bool:
        """Tell whether the last few of so many steps were all blocked."""
        return steps >= ROW and self.blocked[-ROW:] == list(range(steps - ROW, steps))

    def stuck(self, steps: int) -> bool:
        """Tell whether the last few of so many steps, or most of all, were blocked."""
        return self.in_a_row(steps) or 2 * len(self.blocked) > steps

    def summary(self, steps: int) -> str:
        """Return what was met, where and how often, as a sentence."""
        often = f"{len(self.blocked):,} of {counted(steps, 'step')}"
        return f"That was so in {often}; in the last of them {self.words}."

    def as_tree(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"blocked": Prefix(self.blocked), "words": self.words}

    def go_back(self, count: int, words: str) -> None:
        """Forget what was entered after so many blocked steps."""
        del self.blocked[count:]
        self.words = words

    def restore(self, tree: Any, steps: int) -> None:
        """Go back to what a checkpoint kept."""
        blocked, words = list(tree["blocked"]), tree["words"]
        whole = all(type(k) is int and 0 <= k < steps for k in blocked)
        if not whole or sorted(set(blocked)) != blocked or not isinstance(words, str):
            raise ValueError("the blocked steps are not a list of steps")
        self.blocked, self.words = blocked, words
