"""The minimisation of one subproblem: gradients of the proxy, inner steps, a rule that ends it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxyprox._ledger import Ledger
from proxyprox.stopping import Criterion, Progress, Steps
from proxyprox.torch._block import Block, forget_casts, swap
from proxyprox.torch._linear import Tensors
from proxyprox.torch._measure import progress
from proxyprox.torch._probe import depends, probe
from proxyprox.torch._proxy import Oracle
from proxyprox.torch.inner import Stepper


@dataclass(frozen=True)
class Rules:
    """The settings that an inner solve obeys.

    Attributes
    ----------
    stop : Criterion
        When it is good enough; a random rule is drawn already.
    max_steps : int
        When to give up.
    check_every : int
        Inner steps between two looks at the residual, for rules that ask for it.
    measure : bool
        Measure the residual at the end even if no rule asks for it.
    weight : float
        Weight of the correction.
    paired : bool
        Evaluate every minibatch at w_k too.
    pair_weight : float
        How much of that second gradient is subtracted.
    probe : bool
        Look once whether the proxy is deterministic and finite.
    first : bool
        The first inner gradient is the first of all: look whether it reaches the parameters.
    """

    stop: Criterion
    max_steps: int
    check_every: int
    measure: bool
    weight: float
    paired: bool = False
    pair_weight: float = 1.0
    probe: bool = False
    first: bool = False


class InnerSolve:
    """The minimisation of one subproblem by a stepper, counted in a ledger.

    Parameters
    ----------
    blocks : list of Block
        The groups that move, at their centres.
    corrections : list of lists of tensors
        m on each block, for measuring.
    oracle : Oracle
        The proxy.
    stepper : Stepper
        Takes the steps.
    rules : Rules
        When to stop, what to measure.
    ledger : Ledger
        Counts the proxy's gradients.
    anchor_value : tensor, optional
        L̂(w_k), if the full gradient at w_k is in ``.grad`` already.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        corrections: Sequence[Tensors],
        oracle: Oracle,
        stepper: Stepper,
        rules: Rules,
        ledger: Ledger,
        anchor_value: Any | None,
    ) -> None:
        self.blocks = blocks
        self.corrections = corrections
        self.oracle = oracle
        self.stepper = stepper
        self.rules = rules
        self.ledger = ledger
        self.params = [p for block in blocks for p in block.params]
        self.centre = [c for block in blocks for c in block.centre]
        self._anchor_value = anchor_value
        self._value = anchor_value
        self._full_at = 0 if anchor_value is not None else -1
        self._first: float | None = None

    def run(self) -> tuple[int, Progress | None]:
        """Solve; return the number of steps and, where it was measured, the end's progress."""
        fixed = self.rules.stop.steps if isinstance(self.rules.stop, Steps) else None
        seen: Progress | None = None
        t = 0
        while t < (self.rules.max_steps if fixed is None else fixed):
            if fixed is None and t % self.rules.check_every == 0:
                seen = self.measure(t)
                if self.rules.stop(seen):
                    return t, seen
            self._gradient(t)
            self.stepper.step(self.blocks, t)
            forget_casts()
            t += 1
        if self.rules.measure or fixed is None:
            seen = self.measure(t)
        return t, seen

    def measure(self, t: int) -> Progress:
        """Measure ‖∇φ(w)‖ with the whole proxy."""
        self._full_gradient(t)
        seen = progress(
            self.blocks, self.corrections, self.rules.weight, t, self._first, self._proxy_decrease
        )
        self._first = seen.start_residual
        return seen

    def _gradient(self, t: int) -> None:
        if not self.oracle.sampled:
            self._full_gradient(t)
            self._full_at = -1  # the step may overwrite it
            return
        batch = self.oracle.sample()
        if self.rules.probe and t == 0:
            probe(self.oracle, batch)
        self._full_at = -1
        self.oracle.partial(batch, self.params)
        if self.rules.first and t == 0:
            depends(self.params)
        self.ledger.proxy_sampled_gradients += 1
        if self.rules.paired:
            swap(self.params, self.centre)
            try:
                self.oracle.subtract(batch, self.params, self.rules.pair_weight)
            finally:
                swap(self.params, self.centre)
            self.ledger.proxy_sampled_gradients += 1

    def _full_gradient(self, t: int) -> None:
        if self._full_at == t:
            return
        self._value = self.oracle.full(self.params)
        self.ledger.proxy_gradients += 1
        self._full_at = t

    def _proxy_decrease(self) -> float:
        if self._anchor_value is None or self._value is None:
            return math.nan
        return float(self._anchor_value) - float(self._value)
