"""Never worse: SGD and ERM run along on the same samples, and held-out ones decide.

Two points are compared without a single value of the target; :mod:`proxyprox._gap` says how.

What is charged, all of it in the run's ledger:

* SGD evaluates each batch again at its own point: target gradients, but no new samples. If batches
  are not repeatable it draws its own, which are charged.
* Held-out batches: their samples, and a gradient at each node (not repeatable: at one). They come
  at 20, 40, 80, … outer steps and at the end, a tenth as many as the steps since the last time and
  at least eight: about 10 % more samples. A budget makes them fewer, down to two, keeps enough back
  for the last time, and is never exceeded; see :mod:`proxyprox._purse`.
* ERM is fitted once, at the end, on the rows already seen: nothing.

An arm that trails by three standard errors, and by more than rounding, is given up: the proxy at
once, SGD at the second time.
That the proxy was dropped is said at that moment, by ``Step.note`` and in the log "proxyprox".
"""

from __future__ import annotations

import copy
import logging
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from proxyprox import checkpoint
from proxyprox._arrays import Vector, norm
from proxyprox._erm import has_rows, minimiser_on_rows
from proxyprox._evidence import Check, Evidence, verdict
from proxyprox._exchange import Query, Step, answered
from proxyprox._gap import held_out_gap, points_each, rounding_of
from proxyprox._isolation import copied_tree
from proxyprox._ledger import Budget
from proxyprox._purse import LEAST, SHARE, Item, Purse, comparisons
from proxyprox._result import Result, Status
from proxyprox._run import Run, Snapshot
from proxyprox._signals import critical
from proxyprox._subproblem import NonFiniteError
from proxyprox.methods import SGD

LOG = logging.getLogger("proxyprox")

FIRST_CHECK = 20
NAN = math.nan


_CHANGED = (
    "steps", "_proxy", "_sgd", "_slope", "_dropped_at", "_reason", "_last", "_due", "_ahead",
)  # fmt: skip
"""What a step may assign, besides what it appends."""


class _Snapshot(NamedTuple):
    """The arms and what is known of them at one moment."""

    values: dict[str, Any]
    batches: int
    checks: int
    arms: list[tuple[Run, Snapshot]]
    bits: Any
    randomness: Any


class Guarded:
    """A run with its rivals: to the loop that drives it, it looks like the run alone."""

    def __init__(self, run: Run, rival: SGD, limits: Budget | None = None) -> None:
        self.problem = run.problem
        self.ledger = run.ledger
        self.steps = 0
        self._proxy: Run | None = run
        self._rng = np.random.default_rng(run.rng.integers(2**62))
        self._sgd: Run | None = Run(run.problem, run.w, method=rival, rng=self._rng)
        self._answer = run
        self._start, self._slope = run.w, 0.0
        self._purse = Purse(run.problem.objective, run.ledger, limits)
        self._repeatable = bool(getattr(run.problem.objective, "repeatable", True))
        self._each = points_each(self._repeatable)
        self._batches: list[Any] = []
        self._checks: list[Check] = []
        self._dropped_at: int | None = None
        self._reason = ""
        self._last, self._due, self._ahead = 0, FIRST_CHECK, 0
        self._broken_off: _Snapshot | None = None

    # -- what the loop asks of a run ----------------------------------------------------------

    def ask(self) -> Query:
        """Return the proxy's question; SGD's, once the proxy is dropped."""
        return self._leader.ask()

    def price(self, query: Query) -> dict[str, float]:
        """Return what the step costs, its rival's share and the last comparisons included."""
        last = comparisons(query.batch, self._ends(query.batch), self._count(query.batch, 1))
        return self._purse.bill([*self._step(query), last])

    def require_budget(self) -> None:
        """Refuse a budget too small for a useful step and its comparison, before it is spent."""
        if self._purse.limits is None:
            return
        try:
            query = self.ask()
            steps = self._step(query)
        except Exception:
            # The loop will meet it again, and report it as it does all errors of the objective.
            return
        if self._leader._measures:
            # The first step only finds out how long a step may be.
            for run in filter(None, (self._proxy, self._sgd)):
                secants = (getattr(run._state, "rule", None) or {}).get("secants")
                two = run.method.two_points or (query.batch is not None and bool(secants))
                new = run is self._leader or not self._repeatable
                steps.append(Item(query.batch, 1 + two, int(new)))
        least = comparisons(query.batch, self._ends(query.batch), LEAST)
        self._purse.require([*steps, least])

    def tell(self, gradients: Any, *, halves: Any = None) -> Step:
        """Let every arm take its step on the batch, then compare them if it is time.

        After any error all arms are as they were before the call.
        """
        self.settle()
        before = self._snapshot()
        try:
            step, note = self._stepped(gradients, halves)
        except BaseException:
            self._broken_off = before
            self.settle()
            raise
        if note:
            LOG.warning(note)
        return step

    def _stepped(self, gradients: Any, halves: Any) -> tuple[Step, str]:
        batch, step, dropped = self.ask().batch, None, self._dropped_at
        if self.steps == 0:
            slope = norm(gradients[0])
            self._slope = slope if math.isfinite(slope) else 0.0
        self._batches.append(batch)
        if self._proxy is not None:
            try:
                step = self._proxy.tell(gradients, halves=halves)
            except NonFiniteError as error:
                if self._sgd is None:
                    raise
                self._drop(f"its run broke down ({error})")
            rival = self._followed(batch)
            step = step or rival
        else:
            assert self._sgd is not None
            self._charge(self._sgd.ask())
            step = self._sgd.tell(gradients, halves=halves)
        self.steps += 1
        if self._proxy and self._sgd and self._proxy._faults.in_a_row(self._proxy.steps):
            self._drop(self._proxy._faults.words)
        if self.steps >= self._due:
            self._check()
        assert step is not None
        note = self._verdict("SGD") if dropped is None and self._dropped_at is not None else ""
        return replace(step, ledger=copy.copy(self.ledger), note=note), note

    def unjudged(self, status: Status, detail: str = "") -> Result:
        """Return the better answer with the evidence; after an error, the leader's."""
        self.settle()
        before = self._snapshot()
        try:
            return self._answered(status, detail)
        except BaseException:
            # The last comparisons draw batches, which a resumed run must draw again.
            self._broken_off = before
            self.settle()
            raise

    def _answered(self, status: Status, detail: str) -> Result:
        if not status.success:
            return replace(self._leader.unjudged(status, detail), ledger=copy.copy(self.ledger))
        held_out: list[Any] | None = None
        chosen = "proxy" if self._proxy is not None else "SGD"
        if self._proxy is not None and self._sgd is not None:
            compared = self._known("the proxy", "SGD")
            if compared is None:
                held_out = self._held_out(self._ends(self._seen))
                compared = self._compared("the proxy", self._proxy.w, "SGD", self._sgd.w, held_out)
            if compared is None:
                # Nothing is left to pay for it: what was found last must do.
                compared = next((c for c in reversed(self._checks) if c.rival == "SGD"), None)
            chosen = "SGD" if compared is not None and compared.gap > compared.rounding else "proxy"
        best = self._sgd if chosen == "SGD" else self._proxy
        assert best is not None
        answer = best.unjudged(status, detail)
        fitted = minimiser_on_rows(
            self.problem.objective, self._batches, answer.w, self.problem.penalty
        )
        if fitted is not None:
            name = "SGD" if chosen == "SGD" else "the proxy"
            compared = self._known("ERM", name)
            if compared is None:
                held_out = self._held_out(self._each) if held_out is None else held_out
                compared = self._compared("ERM", fitted, name, answer.w, held_out)
            if compared is not None and compared.gap < -compared.rounding:
                chosen, answer = "ERM", replace(answer, w=fitted, inner="", stop="", doubt=None)
        evidence = Evidence(chosen, self._verdict(chosen), self._dropped_at, tuple(self._checks))
        return replace(
            answer,
            steps=self.steps,
            ledger=copy.copy(self.ledger),
            message=f"{answer.message} {evidence.verdict}",
            safeguard=evidence,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the runs and their comparisons depend on."""
        self.settle()
        # The rival is about the same problem: its data need not be looked at again.
        rival = None if self._sgd is None else self._sgd.state_dict(problem=False)
        return {
            "kind": "Guarded",
            "run": self._answer.state_dict(),
            "rival": rival,
            "proxy": self._proxy is not None,
            "rng": self._rng.bit_generator.state,
            "batches": checkpoint.Prefix(self._batches),
            "checks": checkpoint.Prefix(self._checks),
            "reason": self._reason,
            "slope": self._slope,
            "dropped_at": self._dropped_at,
            "counts": [self.steps, self._last, self._due, self._ahead],
        }

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned, bit for bit."""
        checkpoint.require_kind(tree, "Guarded")
        rival = self._sgd
        assert rival is not None
        with checkpoint.structure():
            steps, last, due, ahead = counts = tree["counts"]
            dropped, proxy, slope, reason = (
                tree[name] for name in ("dropped_at", "proxy", "slope", "reason")
            )
            for count in (*counts, *(() if dropped is None else (dropped,))):
                checkpoint.require_count("a count of the safeguard", count)
            checkpoint.require_count("slope", slope, float)
            if type(proxy) is not bool or type(reason) is not str:
                raise ValueError("the safeguard's state is not one")
            if tree["rival"] is None and not proxy:
                raise ValueError("neither the run nor its rival is left")
            batches, checks = list(tree["batches"]), list(tree["checks"])
            for check in checks:
                checkpoint.conform("a comparison", check, Check(0, "", "", NAN, NAN, 0, NAN))
            rng = checkpoint.restored_rng(tree["rng"], self._rng)
        before = self._answer.state_dict(problem=False)
        self._answer.load_state_dict(tree["run"])
        if tree["rival"] is not None:
            try:
                rival.load_state_dict(tree["rival"])
            except checkpoint.CheckpointError:
                self._answer.load_state_dict(before)
                raise
            rng = rival.rng  # one generator serves the rival and the held-out batches
        self._sgd, self._rng = None if tree["rival"] is None else rival, rng
        self._proxy = self._answer if proxy else None
        self._batches, self._checks = batches, checks
        self._dropped_at, self._reason, self._slope = dropped, reason, float(slope)
        self.steps, self._last, self._due, self._ahead = steps, last, due, ahead
        self._broken_off = None

    def settle(self) -> None:
        """Undo the rest of a step that was broken off, in all arms."""
        if self._broken_off is not None:
            with critical():
                self._return_to(self._broken_off)
        for run in (self._proxy, self._sgd):
            if run is not None:
                run.settle()

    # -- internals ----------------------------------------------------------------------------

    def _snapshot(self) -> _Snapshot:
        arms = [(run, run.snapshot()) for run in (self._proxy, self._sgd) if run is not None]
        bits = self._rng.bit_generator
        values = {name: getattr(self, name) for name in _CHANGED}
        return _Snapshot(values, len(self._batches), len(self._checks), arms, bits, bits.state)

    def _return_to(self, before: _Snapshot) -> None:
        vars(self).update(before.values)
        del self._batches[before.batches :]
        del self._checks[before.checks :]
        for run, snapshot in before.arms:
            run.return_to(snapshot)
        before.bits.state = before.randomness
        self._broken_off = None

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
            held_out = self._held_out(self._each, keep=True)
            check = self._compared("the proxy", self._proxy.w, "SGD", self._sgd.w, held_out)
            if check is not None and check.clear and check.gap > 0:
                self._drop(check.finding)
            elif check is not None and check.clear:
                self._ahead += 1
        if self._ahead == 2:
            # Twice clearly behind: SGD's gradients are saved from here on.
            self._sgd = None
        self._last, self._due = self.steps, 2 * self._due

    def _drop(self, reason: str) -> None:
        self._proxy, self._dropped_at, self._reason = None, self.steps, reason

    @property
    def _seen(self) -> Any:
        """A batch like those to come."""
        return self._batches[-1] if self._batches else self.ask().batch

    def _count(self, batch: Any, ahead: int = 0) -> int:
        """Return how many held-out batches a comparison takes, after some more steps."""
        # Two comparisons on the way, and those at the end.
        few = self._purse.few(batch, 2 * self._each + self._ends(batch))
        return max(few, math.ceil(SHARE * (self.steps + ahead - self._last)))

    def _ends(self, batch: Any) -> int:
        """Return at how many points held-out batches will be evaluated at the end."""
        both = self._proxy is not None and self._sgd is not None
        return self._each * (both + has_rows(self.problem.objective, batch))

    def _step(self, query: Query) -> list[Item]:
        """Return what the arms pay for in one step."""
        items = [Item(query.batch, len(query.points), 1)]
        if self._proxy is not None and self._sgd is not None:
            points = len(self._sgd.method.ask(self._sgd._state))
            batch = query.batch if self._repeatable else self._sgd.ask().batch
            items.append(Item(batch, points, int(not self._repeatable)))
        return items

    def _held_out(self, points: int, *, keep: bool = False) -> list[Any]:
        """Draw batches to compare at some points, as many as can be paid; charge their samples.

        With ``keep`` the last comparisons stay affordable.
        """
        items: list[Item] = []
        batches: list[Any] = []
        wanted = self._count(self._seen) if self.steps else 0
        if keep:
            items.append(comparisons(self._seen, self._ends(self._seen), wanted))
        for _ in range(wanted):
            # Of exact gradients there is but one, whatever smaller batches there may be.
            batch = None
            if self._seen is not None:
                batch = copied_tree(self.problem.objective.sample(self._rng))
            items.append(comparisons(batch, points, 1))
            if not self._purse.affords(items):
                break
            batches.append(batch)
            if batch is None:
                return batches
        if keep and len(batches) < LEAST:
            return []
        for batch in batches:
            self.ledger.target_samples += int(
                self._purse.bill([Item(batch, 0, 1)])["target_samples"]
            )
        return batches

    def _known(self, arm: str, rival: str) -> Check | None:
        """Return what was found when these two were compared as they are now."""
        same = (c for c in self._checks if (c.step, c.arm, c.rival) == (self.steps, arm, rival))
        return next(same, None)

    def _compared(
        self, arm: str, a: Vector, rival: str, b: Vector, held_out: list[Any]
    ) -> Check | None:
        if not held_out:
            return None
        gap, spread = held_out_gap(
            self._answers, a, b, held_out,
            repeatable=self._repeatable, penalty=self.problem.penalty,
        )  # fmt: skip
        gained = self._slope * max(norm(a - self._start), norm(b - self._start))
        rounding = rounding_of(a, gained)
        check = Check(self.steps, arm, rival, gap, spread, len(held_out), rounding)
        self._checks.append(check)
        return check

    def _charge(self, query: Query, *, samples: bool = True) -> None:
        paid = self._purse.bill([Item(query.batch, len(query.points), int(samples))])
        self.ledger.add(paid)

    def _answers(self, query: Query) -> list[Vector]:
        self._charge(query, samples=False)
        return answered(self.problem.objective, query)[0]

    def _verdict(self, chosen: str) -> str:
        return verdict(chosen, self._dropped_at, self._reason, compared=bool(self._checks))
