r"""Never worse: SGD and ERM run along on the same samples, and held-out ones decide.

Two points are compared without a single value of the target: for any a and b

.. math:: L(a) - L(b) = \int_0^1 \langle \nabla L(b + t(a - b)), a - b\rangle\,dt,

and the integral is taken at two Gauss nodes, which is exact for losses up to the fourth degree. A
held-out batch's gradients there give one sample of the gap; several give its standard error.

What is charged, all of it in the run's ledger:

* SGD evaluates each batch again at its own point: target gradients, but no new samples. If batches
  are not repeatable it draws its own, which are charged.
* Held-out batches: their samples, and a gradient at each node (not repeatable: at one). They come
  at 20, 40, 80, … outer steps and at the end, a tenth as many as the steps since the last time and
  at least eight: about 10 % more samples. A budget keeps enough back for the last time.
* ERM is fitted once, at the end, on the rows already seen: nothing.

An arm that trails by three standard errors is given up: the proxy at once, SGD at the second time.
That the proxy was dropped is said at that moment, by ``Step.note`` and in the log "proxyprox".
"""

from __future__ import annotations

import copy
import logging
import math
import os
from dataclasses import replace
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, dot
from proxyprox._checkpoint import save_tree
from proxyprox._erm import minimiser_on_rows
from proxyprox._evidence import Check, Evidence
from proxyprox._exchange import Query, Step, answered
from proxyprox._guard_state import guard_tree
from proxyprox._result import Result, Status
from proxyprox._run import Run
from proxyprox._subproblem import NonFiniteError
from proxyprox.methods import SGD

LOG = logging.getLogger("proxyprox")

FIRST_CHECK = 20
SHARE = 0.1
FEWEST = 8
NODES = (0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6)
"""Gauss–Legendre nodes on [0, 1]; both weigh one half."""


class Guarded:
    """A run with its rivals: to the loop that drives it, it looks like the run alone."""

    def __init__(self, run: Run, rival: SGD) -> None:
        self.problem = run.problem
        self.ledger = run.ledger
        self.steps = 0
        self._proxy: Run | None = run
        self._rng = np.random.default_rng(run._rng.integers(2**62))
        self._sgd: Run | None = Run(run.problem, run.w, method=rival, rng=self._rng)
        self._answer = run
        self._repeatable = bool(getattr(run.problem.objective, "repeatable", True))
        self._batches: list[Any] = []
        self._checks: list[Check] = []
        self._dropped_at: int | None = None
        self._reason = ""
        self._last, self._due, self._ahead = 0, FIRST_CHECK, 0

    # -- what the loop asks of a run ----------------------------------------------------------

    def ask(self) -> Query:
        """Return the proxy's question; SGD's, once the proxy is dropped."""
        return self._leader.ask()

    def price(self, query: Query) -> dict[str, float]:
        """Return what the step costs, its rival's share and the comparisons to come included."""
        price = self._leader.price(query)
        samples, points, ahead = price["target_samples"], len(query.points), 0
        if self._sgd is not None and self._proxy is not None:
            ahead += len(self._sgd.method.ask(self._sgd._state))
        # Kept back for the end: two comparisons on one set of held-out batches.
        batches = self._count(self.steps + 1)
        due = batches if self.steps + 1 >= self._due else 0
        ahead += len(NODES) * (2 * batches + due)
        price["target_gradients"] += ahead
        price["target_samples"] += samples * (batches + due)
        if "cost" in price:
            price["cost"] += ahead * price["cost"] / points
        return price

    def tell(self, gradients: Any, *, halves: Any = None) -> Step:
        """Let every arm take its step on the batch, then compare them if it is time."""
        batch, step, dropped = self.ask().batch, None, self._dropped_at
        self._batches.append(batch)
        if self._proxy is not None:
            try:
                step = self._proxy.tell(gradients, halves=halves)
            except NonFiniteError as error:
                if self._sgd is None:
                    raise
                self._drop(f"its run broke down ({error.args[0]})")
                self._proxy = None
            rival = self._followed(batch)
            step = step or rival
        else:
            assert self._sgd is not None
            self._charge(self._sgd.ask())
            step = self._sgd.tell(gradients, halves=halves)
        self.steps += 1
        if self.steps >= self._due:
            self._check()
        assert step is not None
        note = self._verdict("SGD") if dropped is None and self._dropped_at is not None else ""
        if note:
            LOG.warning(note)
        return replace(step, ledger=copy.copy(self.ledger), note=note)

    def result(self, status: Status = Status.RUNNING, detail: str = "") -> Result:
        """Return the better answer with the evidence; after an error, the leader's."""
        if not status.success:
            return replace(self._leader.result(status, detail), ledger=copy.copy(self.ledger))
        held_out = self._held_out()
        chosen = "proxy" if self._proxy is not None else "SGD"
        if self._proxy is not None and self._sgd is not None:
            compared = self._compared("the proxy", self._proxy.w, "SGD", self._sgd.w, held_out)
            chosen = "SGD" if compared.gap > 0 else "proxy"
        best = self._sgd if chosen == "SGD" else self._proxy
        assert best is not None
        answer = best.result(status, detail)
        fitted = minimiser_on_rows(
            self.problem.objective, self._batches, answer.w, self.problem.penalty
        )
        if fitted is not None:
            name = "SGD" if chosen == "SGD" else "the proxy"
            if self._compared("ERM", fitted, name, answer.w, held_out).gap < 0:
                chosen, answer = "ERM", replace(answer, w=fitted)
        evidence = Evidence(chosen, self._verdict(chosen), self._dropped_at, tuple(self._checks))
        return replace(
            answer,
            steps=self.steps,
            ledger=copy.copy(self.ledger),
            message=f"{answer.message} {evidence.verdict}",
            safeguard=evidence,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run, its rival and the comparisons to a file, whole or not at all."""
        save_tree(path, guard_tree(self))

    # -- internals ----------------------------------------------------------------------------

    @property
    def _leader(self) -> Run:
        leader = self._proxy or self._sgd
        assert leader is not None
        return leader

    def _followed(self, batch: Any) -> Step | None:
        """Let SGD take its step, on the same batch if that may be evaluated again."""
        if self._sgd is None:
            return None
        if self._repeatable:
            self._sgd._reopen(batch, tuple(self._sgd.method.ask(self._sgd._state)))
        query = self._sgd.ask()
        self._charge(query, samples=not self._repeatable)
        gradients, halves = answered(self.problem.objective, query)
        try:
            return self._sgd.tell(gradients, halves=halves)
        except NonFiniteError:
            if self._proxy is None:
                raise
            self._sgd = None
            return None

    def _check(self) -> None:
        """Compare the arms on fresh held-out batches, and drop one that clearly trails."""
        if self._proxy is not None and self._sgd is not None:
            held_out = self._held_out()
            check = self._compared("the proxy", self._proxy.w, "SGD", self._sgd.w, held_out)
            if check.clear and check.gap > 0:
                self._drop(check.finding)
                self._proxy = None
            elif check.clear:
                self._ahead += 1
        if self._ahead == 2:
            # Twice clearly behind: SGD's gradients are saved from here on.
            self._sgd = None
        self._last, self._due = self.steps, 2 * self._due

    def _drop(self, reason: str) -> None:
        self._dropped_at, self._reason = self.steps, reason

    def _count(self, steps: int) -> int:
        return max(FEWEST, math.ceil(SHARE * (steps - self._last)))

    def _held_out(self) -> list[Any]:
        """Draw the batches of a comparison; their samples are charged once."""
        batches = [self.problem.objective.sample(self._rng) for _ in range(self._count(self.steps))]
        if batches[0] is None:
            # Exact gradients: one look is enough.
            return batches[:1]
        for batch in batches:
            self.ledger.target_samples += int(
                self._leader.price(Query(batch, ()))["target_samples"]
            )
        return batches

    def _compared(self, arm: str, a: Vector, rival: str, b: Vector, held_out: list[Any]) -> Check:
        gaps = []
        for number, batch in enumerate(held_out):
            nodes = NODES if self._repeatable else (NODES[number % 2],)
            query = Query(batch, tuple(b + t * (a - b) for t in nodes))
            self._charge(query, samples=False)
            answers, _ = answered(self.problem.objective, query)
            gaps.append(sum(dot(answer, a - b) for answer in answers) / len(answers))
        spread = float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
        check = Check(self.steps, arm, rival, float(np.mean(gaps)), spread, len(gaps))
        self._checks.append(check)
        return check

    def _charge(self, query: Query, *, samples: bool = True) -> None:
        for name, amount in self._answer.price(query).items():
            if samples or name != "target_samples":
                setattr(self.ledger, name, getattr(self.ledger, name) + amount)

    def _verdict(self, chosen: str) -> str:
        if self._dropped_at is not None:
            lead = f"The proxy was dropped after {self._dropped_at} steps: {self._reason}."
            return lead + (" ERM on the rows seen did better still." if chosen == "ERM" else "")
        return {
            "proxy": "The proxy's answer is returned: no rival did better on held-out samples.",
            "SGD": "SGD's answer is returned: it did better than the proxy on held-out samples.",
            "ERM": "ERM on the rows seen is returned: it did better on held-out samples.",
        }[chosen]
