r"""Never worse than without a proxy: a rival and ERM run on the same samples, held-out ones decide.

The rival is a method without a proxy: ``SGD("auto")``, or the one that is given.

Two points are compared without a single value of the target. For any a and b

.. math:: L(a) - L(b) = \int_0^1 \langle \nabla L(b + t(a - b)), a - b\rangle\,dt,

and the integral is taken at two Gauss nodes, which is exact for losses up to the fourth degree. A
held-out batch's gradients there give one sample of the gap; several give its standard error.

What is charged, all of it in the run's ledger:

* The rival evaluates each batch again at its own point: target gradients, but no new samples. If
  batches are not repeatable it draws its own, which are charged.
* Held-out batches: their samples, at every moment at most 15 % of those of the steps so far, and a
  gradient at each node (not repeatable: at one). A comparison takes two batches at least, the least
  that give a standard error, so there is none in the first 13 steps. They come at 20, 40, 80, …
  outer steps and at the end. On the way a comparison takes a tenth as many batches as there were
  steps since the last one, at the end a tenth of all, and at least eight: new ones as far as the
  15 % allow (10 % on the way if not repeatable), and earlier ones again. They have never been
  trained on, so that they still decide fairly. A budget makes them fewer, down to two, keeps enough
  back for the last time, and is never exceeded.
* ERM is fitted once, at the end, on the rows already seen: nothing.

Where the objective has ``halves``, each batch gives two samples of the gap. An arm that trails by
three standard errors (more if they come from fewer than eight samples: Student's quantile), and by
more than rounding, is given up: the proxy at once, the rival at the second time. ``Step.note`` and
the log "proxyprox" say so at that moment.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from proxyprox import checkpoint
from proxyprox._util.arrays import Vector, copy_tree, dot, dtype_name, norm
from proxyprox._util.validation import has
from proxyprox.checkpoint import Growing
from proxyprox.inner.base import NonFiniteError
from proxyprox.inner.exact import minimise_exactly
from proxyprox.methods import Method
from proxyprox.oracle import Purchase, Query, Step, answer_query, copying, price
from proxyprox.result import Budget, Result, Status, count_words

if TYPE_CHECKING:
    from proxyprox.run import Run

# Standard errors by which an arm must trail to be dropped before the end, where there are eight
# samples or more; Student's quantile of the same probability where there are fewer.
CLEAR = 3.0
PROBABILITY = 0.99


@dataclass(frozen=True)
class Check:
    """One comparison on held-out samples.

    Attributes
    ----------
    step : int
        Outer steps taken by then.
    arm, rival : str
        What was compared.
    gap : float
        Estimate of ``L(arm) − L(rival)``: negative if the arm is better.
    standard_error : float
        Of the gap.
    batches : int
        Held-out batches it rests on.
    rounding : float
        Gaps up to this are rounding.
    needed : float
        Standard errors that make a gap clear: 3, and more if it rests on few samples.
    """

    step: int
    arm: str
    rival: str
    gap: float
    standard_error: float
    batches: int
    rounding: float = 0.0
    needed: float = CLEAR

    @property
    def clear(self) -> bool:
        """Whether the gap is more than noise and rounding."""
        return abs(self.gap) > max(self.needed * self.standard_error, self.rounding)

    @property
    def finding(self) -> str:
        """What was found, in words."""
        held_out = count_words(self.batches, "batch", "batches")
        better, worse = (self.arm, self.rival) if self.gap < 0 else (self.rival, self.arm)
        found = f"the held-out loss of {better} is lower than that of {worse} by"
        size = f"{abs(self.gap):.3g} ± {self.standard_error:.2g}"
        if self.standard_error > 0:
            held_out += f", ± one standard error; {self.needed:.2g} of them drop an arm"
        if abs(self.gap) <= self.rounding:
            found = f"the held-out losses of {self.arm} and {self.rival}"
            size = "are equal up to rounding"
        return f"{found} {size} ({held_out})"

    @property
    def other(self) -> str:
        """The one that was compared with the proxy."""
        return self.rival if self.arm == "the proxy" else self.arm

    @property
    def doubt(self) -> str:
        """That the gap is no more than noise, in words; empty where it is clear."""
        if self.clear or abs(self.gap) <= self.rounding:
            return ""
        return f"within the error ({abs(self.gap) / self.standard_error:.2g} standard errors)"

    def __str__(self) -> str:
        return f"after {self.step} steps {self.finding}"


@dataclass(frozen=True)
class Evidence:
    """What the safeguard chose, and why.

    Attributes
    ----------
    chosen : str
        "proxy", "ERM" or the rival's name, such as "SGD".
    verdict : str
        The choice in words.
    dropped_at : int or None
        The outer step at which the proxy was given up, if it was.
    checks : tuple of Check
        Every comparison made.
    samples : dict
        The target's samples by use: "run", the rival's name (those that it drew itself, where
        batches may not be evaluated again) and "held out".
    """

    chosen: str
    verdict: str
    dropped_at: int | None
    checks: tuple[Check, ...]
    samples: dict[str, int] = field(default_factory=dict)

    @property
    def use_of_samples(self) -> str:
        """Where the samples went, in words; empty where the rival drew none."""
        others = self.samples.keys() - {"run", "held out"}
        if not any(self.samples[name] for name in others):
            return ""
        return ", ".join(f"{name} {count:,}" for name, count in self.samples.items())

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  {check}" for check in self.checks)])


# Gauss–Legendre nodes on [0, 1]; both weigh one half.
NODES = (0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6)

# Gaps below this share of ‖first gradient‖·‖w − w_0‖ are rounding, by the iterates' dtype.
ROUNDING = {"float32": 1e-5, "float64": 1e-10}


def has_rows(objective: Any, batch: Any) -> bool:
    """Tell whether a batch names rows that the loss can be fitted on."""
    return isinstance(batch, np.ndarray) and batch.dtype.kind == "i" and has(objective, "rows")


# Held-out batches of a comparison where nothing is short.
FEWEST = 8

# Held-out batches without which there is no standard error.
LEAST = 2

# Held-out samples that may be drawn, in percent of those of the steps: in all, and on the way if
# none can be used again.
MOST, ON_THE_WAY = 15, 10

# Held-out batches of a comparison for each step, where there are many steps.
SHARE = 0.1
# Comparisons that the share must pay for in a typical run: two on the way, one at the end.
SETS = 3

# What is known before it is spent.
KNOWN_BEFORE = ("target_gradients", "target_samples", "cost", "epsilon")


LOG = logging.getLogger("proxyprox")

FIRST_CHECK = 20


class SafeguardedRun:
    """A run with its rivals: to the loop that drives it, it looks like the run alone.

    All arms and comparisons are one object, which is replaced, never changed: a step works on a
    branch of it, and a step that is broken off leaves the branch behind.
    """

    def __init__(self, run: Run, rival: Method, limits: Budget | None = None) -> None:
        self._arms = _Arms(run, rival, limits)
        self.problem, self.ledger, self.start = run.problem, run.ledger, run.start

    @property
    def steps(self) -> int:
        """Outer steps taken."""
        return self._arms.steps

    def ask(self) -> Query:
        """Return the proxy's question; the rival's, once the proxy is dropped."""
        return self._arms.leader.ask()

    def price(self, query: Query) -> dict[str, float]:
        """Return what the step costs, its rival's share and the last comparisons included."""
        arms = self._arms.branch()
        price = arms.price(query)
        # The rival's question, if it has one of its own, stays open.
        self._arms = arms
        return price

    def tell(self, gradients: Any, *, halves: Any = None, value: float | None = None) -> Step:
        """Let every arm take its step on the batch, then compare them if it is time.

        After any error all arms are as they were before the call.
        """
        arms = self._arms.branch()
        step = arms.take_steps(gradients, halves, value)
        self._arms = arms
        if step.note:
            LOG.warning(step.note)
        return step

    def converged(self, tol: float = 0.0, atol: float = 0.0) -> bool:
        """Tell whether the target's last gradient on the proxy's way is small."""
        proxy = self._arms.proxy
        return proxy is not None and proxy.converged(tol, atol)

    @property
    def stalled(self) -> bool:
        """Whether neither the target's value nor its gradient fell in the last rounds."""
        return self._arms.proxy is not None and self._arms.proxy.stalled

    def result_before_verdict(self, status: Status, detail: str = "") -> Result:
        """Return the better answer with the evidence; after an error, the leader's."""
        arms = self._arms.branch()
        result = arms.choose_answer(status, detail)
        # The last comparisons are paid for: a run that goes on has them.
        self._arms = arms
        return result

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the runs and their comparisons depend on."""
        return self._arms.state_dict()

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned, bit for bit."""
        arms = self._arms.branch()
        arms.load_state_dict(tree)
        self._arms = arms


class _Arms:
    """The arms and what was found out about them."""

    def __init__(self, run: Run, rival: Method, limits: Budget | None = None) -> None:
        self.problem = run.problem
        self.ledger = run.ledger
        self.steps = 0
        self.proxy: Run | None = run
        # One generator serves the rival and the held-out batches; its state is the rival's.
        self._generator = np.random.default_rng(run.draw_seed())
        self.rival: Run | None = type(run)(run.problem, run.w, method=rival, rng=self._generator)
        self._rng = self.rival.state.rng
        self._name = type(rival).__name__
        self._answer = run
        self.start, self._slope = run.start, 0.0
        self._limits = limits
        self._repeatable = bool(getattr(run.problem.objective, "repeatable", True))
        self._points_each = len(NODES) if self._repeatable else 1
        self._batches = Growing()
        self._held_out = Growing()
        self._checks = Growing()
        self._samples = {"run": 0, self._name: 0, "held out": 0}
        self._dropped_at: int | None = None
        self._reason = ""
        self._last_check, self._next_check, self._clear_wins = 0, FIRST_CHECK, 0

    def branch(self) -> _Arms:
        """Return a twin that may change without this one; what is paid is entered in one ledger."""
        twin, arms = copy.copy(self), {}
        for run in (self.proxy, self.rival, self._answer):
            if run is not None and id(run) not in arms:
                arms[id(run)] = copy.copy(run)
        twin.proxy, twin.rival = (arms.get(id(run)) for run in (self.proxy, self.rival))
        twin._answer, twin._samples = arms[id(self._answer)], dict(self._samples)
        return twin

    def price(self, query: Query) -> dict[str, float]:
        """Return what the step costs, its rival's share and the last comparisons included."""
        used, new = self._plan(query.batch, ahead=1)
        last = Purchase(query.batch, used * self._points_at_end(query.batch), new)
        return self._price([*self._purchases_of_step(query), last])

    def take_steps(self, gradients: Any, halves: Any, value: float | None) -> Step:
        """Let every arm take its step on the batch, then compare them if it is time."""
        batch, step, dropped = self.leader.ask().batch, None, self._dropped_at
        if self.steps == 0:
            slope = norm(gradients[0])
            self._slope = slope if math.isfinite(slope) else 0.0
        self._batches = self._batches.append(batch)
        self._samples["run"] += self._samples_of(batch)
        if self.proxy is None:
            self._charge(self.leader.ask())
            step = self.leader.tell(gradients, halves=halves, value=value)
        else:
            try:
                step = self.proxy.tell(gradients, halves=halves, value=value)
            except NonFiniteError as error:
                if self.rival is None:
                    raise
                self._drop_proxy(f"its run broke down ({error})")
            rival = self._step_of_rival(batch)
            step = step or rival
        self.steps += 1
        if self.proxy and self.rival and self.proxy.faults.in_a_row(self.proxy.steps):
            self._drop_proxy(self.proxy.faults.words)
        if self.steps >= self._next_check:
            self._compare_arms()
        assert step is not None
        note = self._verdict(self._name) if dropped is None and self._dropped_at is not None else ""
        return replace(step, ledger=copy.copy(self.ledger), note=note)

    def choose_answer(self, status: Status, detail: str) -> Result:
        """Return the better answer with the evidence; after an error, the leader's."""
        if not status.success:
            failed = self.leader.result_before_verdict(status, detail)
            return replace(failed, ledger=copy.copy(self.ledger))
        held_out: list[Any] | None = None
        chosen = self._name if self.proxy is None else "proxy"
        decided: list[Check] = []
        if self.proxy is not None and self.rival is not None:
            if self._earlier_check("the proxy", self._name) is None:
                held_out = self._draw_held_out(self._points_at_end(self._typical_batch))
                self._compare("the proxy", self.proxy.w, self._name, self.rival.w, held_out)
            # If nothing was left to pay for it, what was found last must do.
            compared = next((c for c in reversed(list(self._checks)) if c.arm == "the proxy"), None)
            if compared is not None:
                decided.append(compared)
                if compared.gap > compared.rounding:
                    chosen = self._name
        best = self._runs[0 if chosen == "proxy" else -1]
        answer = best.result_before_verdict(status, detail)
        fitted = self._fit_rows_seen(answer.w)
        if fitted is not None:
            name = "the proxy" if chosen == "proxy" else chosen
            compared = self._earlier_check("ERM", name)
            if compared is None:
                held_out = self._draw_held_out(self._points_each) if held_out is None else held_out
                compared = self._compare("ERM", fitted, name, answer.w, held_out)
            if compared is not None:
                decided.append(compared)
                if compared.gap < -compared.rounding:
                    chosen, answer = "ERM", replace(answer, w=fitted, inner="", stop="", doubt=None)
        verdict = self._verdict(chosen, decided)
        evidence = Evidence(
            chosen, verdict, self._dropped_at, tuple(self._checks), dict(self._samples)
        )
        return replace(
            answer,
            steps=self.steps,
            ledger=copy.copy(self.ledger),
            message=f"{answer.message} {evidence.verdict}",
            safeguard=evidence,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the runs and their comparisons depend on."""
        # The rival is about the same problem: its data need not be looked at again.
        rival = None if self.rival is None else self.rival.state_dict(problem=False)
        return {
            "kind": "Guarded",
            "run": self._answer.state_dict(),
            "rival": rival,
            "proxy": self.proxy is not None,
            "rng": self._random_state,
            "batches": self._batches,
            "held_out": self._held_out,
            "samples": dict(self._samples),
            "checks": self._checks,
            "reason": self._reason,
            "slope": self._slope,
            "dropped_at": self._dropped_at,
            "counts": [self.steps, self._last_check, self._next_check, self._clear_wins],
        }

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned, bit for bit."""
        checkpoint.require_kind(tree, "Guarded")
        rival = self.rival
        assert rival is not None
        with checkpoint.refuse_damage():
            steps, last, due, ahead = counts = tree["counts"]
            parts = (tree[name] for name in ("dropped_at", "proxy", "slope", "reason"))
            dropped, proxy, slope, reason = parts
            samples = {name: tree["samples"][name] for name in self._samples}
            for count in (*counts, *samples.values(), 0 if dropped is None else dropped):
                checkpoint.require_count("a count of the safeguard", count)
            checkpoint.require_count("slope", slope, float)
            none_left = tree["rival"] is None and not proxy
            if type(proxy) is not bool or type(reason) is not str or none_left:
                raise ValueError("the safeguard's state is not one")
            lists = batches, held_out, checks = [
                tree[name] for name in ("batches", "held_out", "checks")
            ]
            if any(type(part) is not Growing for part in lists):
                raise ValueError("the safeguard's lists are not lists")
            for check in checks:
                checkpoint.conform("a comparison", check, Check(0, "", "", 0.0, 0.0, 0))
            generator = checkpoint.restore_rng(tree["rng"], self._generator)
        paid = copy.copy(self.ledger)
        try:
            self._answer.load_state_dict(tree["run"])
            if tree["rival"] is not None:
                rival.load_state_dict(tree["rival"])
        except checkpoint.CheckpointError:
            vars(self.ledger).update(vars(paid))
            raise
        self.rival = None if tree["rival"] is None else rival
        self._rng, self._generator = tree["rng"], generator
        self.proxy = self._answer if proxy else None
        self._batches, self._held_out, self._checks = batches, held_out, checks
        self._samples = samples
        self._dropped_at, self._reason, self._slope = dropped, reason, float(slope)
        self.steps, self._last_check, self._next_check, self._clear_wins = steps, last, due, ahead

    @property
    def _random_state(self) -> Mapping[str, Any]:
        return self._rng if self.rival is None else self.rival.state.rng

    def _draw(self) -> Any:
        """Draw a held-out batch."""
        self._generator.bit_generator.state = self._random_state
        batch = copy_tree(self.problem.objective.sample(self._generator))
        self._rng = self._generator.bit_generator.state
        if self.rival is not None:
            self.rival.state = replace(self.rival.state, rng=self._rng)
        return batch

    def _drop_rival(self) -> None:
        self._rng, self.rival = self._random_state, None

    @property
    def _runs(self) -> list[Run]:
        return [run for run in (self.proxy, self.rival) if run is not None]

    @property
    def leader(self) -> Run:
        """The arm whose questions are asked."""
        return self._runs[0]

    def _step_of_rival(self, batch: Any) -> Step | None:
        """Let the rival take its step, on the same batch if that may be evaluated again."""
        if self.rival is None:
            return None
        if self._repeatable:
            self.rival.open(batch)
        query = self.rival.ask()
        self._charge(query, samples=not self._repeatable)
        if not self._repeatable:
            self._samples[self._name] += self._samples_of(query.batch)
        told = answer_query(self.problem.objective, query)
        self.ledger.add(told.extra)
        try:
            return self.rival.tell(told.gradients, halves=told.halves, value=told.value)
        except NonFiniteError:
            if self.proxy is None:
                raise
            self._drop_rival()
            return None

    def _compare_arms(self) -> None:
        """Compare the arms on held-out batches, and drop one that clearly trails."""
        if self.proxy is not None and self.rival is not None:
            held_out = self._draw_held_out(self._points_each, on_the_way=True)
            arms = self.proxy.w, self._name, self.rival.w
            check = self._compare("the proxy", *arms, held_out)
            if check is not None and check.clear and check.gap > 0:
                self._drop_proxy(check.finding)
            elif check is not None and check.clear:
                self._clear_wins += 1
        if self._clear_wins == 2:
            # Twice clearly behind: the rival's gradients are saved from here on.
            self._drop_rival()
        self._last_check, self._next_check = self.steps, 2 * self._next_check

    def _drop_proxy(self, reason: str) -> None:
        self.proxy, self._dropped_at, self._reason = None, self.steps, reason

    @property
    def _typical_batch(self) -> Any:
        """A batch like those to come."""
        return self._batches[-1] if self._batches else self.leader.ask().batch

    def _samples_of(self, batch: Any) -> int:
        return int(self._price([Purchase(batch, 0, 1)])["target_samples"])

    def _plan(self, batch: Any, *, ahead: int = 0, on_the_way: bool = False) -> tuple[int, int]:
        """Return how many held-out batches a comparison takes, and how many of them are new.

        The comparison is the last one, after some more steps, or one on the way.
        """
        if batch is None:
            # Of exact gradients there is but one, and no sample of it is new.
            return 1, 0
        size, steps = max(1, self._samples_of(batch)), self.steps + ahead
        percent = ON_THE_WAY if on_the_way and not self._repeatable else MOST
        allowed = percent * (self._samples["run"] + ahead * size) // 100
        new = max(0, allowed - self._samples["held out"]) // size
        earlier = len(self._held_out) if self._repeatable else 0
        since = steps - self._last_check if on_the_way else steps
        wanted = max(self._fewest(batch), math.ceil(SHARE * since))
        used = min(wanted, earlier + new)
        return (used, min(used, new)) if used >= LEAST else (0, 0)

    def _fewest(self, batch: Any) -> int:
        """Return how many held-out batches a comparison should take at least."""
        counts, limits = [float(FEWEST)], self._limits
        if limits is not None:
            # A comparison has fewer where little is allowed: two on the way, and those at the end.
            points = 2 * self._points_each + self._points_at_end(batch)
            one = self._price([Purchase(batch, points, SETS)])
            for name in ("target_gradients", "target_samples", "cost"):
                limit = getattr(limits, name)
                if limit is not None and one.get(name):
                    counts.append(SHARE * limit / one[name])
            if limits.epsilon is not None:
                allowed, spent = 1, self.problem.objective.epsilon
                while allowed < 1 << 16 and spent(2 * allowed) <= limits.epsilon:
                    allowed *= 2
                counts.append(SHARE * allowed / points)
        return max(LEAST, int(min(counts)))

    def _points_at_end(self, batch: Any) -> int:
        """Return at how many points held-out batches will be evaluated at the end."""
        rivals = len(self._runs) - 1
        return self._points_each * (rivals + has_rows(self.problem.objective, batch))

    def _purchases_of_step(self, query: Query) -> list[Purchase]:
        """Return what the arms pay for in one step."""
        purchases = [Purchase(query.batch, len(query.points), 1)]
        for rival in self._runs[1:]:
            batch = query.batch if self._repeatable else rival.ask().batch
            purchases.append(Purchase(batch, len(rival.points), int(not self._repeatable)))
        return purchases

    def _draw_held_out(self, points: int, *, on_the_way: bool = False) -> list[Any]:
        """Return batches to compare at some points, as many as can be paid; charge new samples.

        On the way the last comparisons stay affordable.
        """
        like = self._typical_batch
        used, new = self._plan(like, on_the_way=on_the_way) if self.steps else (0, 0)
        purchases = []
        if on_the_way:
            at_end, fresh = self._plan(like)
            fresh = 0 if self._repeatable else fresh
            purchases.append(Purchase(like, at_end * self._points_at_end(like), fresh))
        if like is None:
            purchases.append(Purchase(like, points, 0))
            return [None] if used and self._lacking(purchases) is None else []
        earlier = list(self._held_out)[::-1][: used - new]
        drawn: list[Any] = []
        samples = self._samples["held out"]
        for number in range(used):
            old = earlier[number] if number < len(earlier) else None
            batch = self._draw() if old is None else old
            purchases.append(Purchase(batch, points, int(old is None)))
            samples += self._samples_of(batch) if old is None else 0
            # Batches differ in size: the next may be larger than those that were planned with.
            if self._lacking(purchases) or 100 * samples > MOST * self._samples["run"]:
                earlier = earlier[:number]
                break
            drawn += [batch] if old is None else []
        if len(earlier) + len(drawn) < LEAST:
            return []
        paid = sum(self._samples_of(batch) for batch in drawn)
        self.ledger.target_samples += paid
        self._samples["held out"] += paid
        if self._repeatable:
            self._held_out = self._held_out.append(*drawn)
        return [*drawn, *earlier]

    def _earlier_check(self, arm: str, rival: str) -> Check | None:
        """Return what was found when these two were compared as they are now."""
        same = (c for c in self._checks if (c.step, c.arm, c.rival) == (self.steps, arm, rival))
        return next(same, None)

    def _compare(
        self, arm: str, a: Vector, rival: str, b: Vector, held_out: list[Any]
    ) -> Check | None:
        if not held_out:
            return None
        gap, spread, needed = self._held_out_gap(a, b, held_out)
        gained = self._slope * max(norm(a - self.start), norm(b - self.start))
        rounding = ROUNDING[dtype_name(a)] * gained
        check = Check(self.steps, arm, rival, gap, spread, len(held_out), rounding, needed)
        self._checks = self._checks.append(check)
        return check

    def _fit_rows_seen(self, start: Vector) -> Vector | None:
        """Return the minimiser on all rows of the batches; None without rows, or if it fails."""
        objective = self.problem.objective
        if not self._batches or not all(has_rows(objective, batch) for batch in self._batches):
            return None
        seen, counts = np.unique(np.concatenate(list(self._batches)), return_counts=True)
        weights = getattr(objective, "sample_weight", None)
        counts = counts if weights is None else counts * weights[seen]
        loss, penalty = objective.rows(seen, sample_weight=counts), self.problem.penalty
        try:
            return minimise_exactly(loss, start, tol=1e-10, relative=1e-9, penalty=penalty)
        except (NonFiniteError, ValueError):
            return None

    def _price(self, purchases: list[Purchase]) -> dict[str, float]:
        return price(self.problem.objective, self.ledger, purchases)

    def _lacking(self, purchases: list[Purchase]) -> str | None:
        """Return the name of a limit that some gradients together would exceed, if one is."""
        if self._limits is None:
            return None
        ahead = self._price(purchases)
        limits = {name: getattr(self._limits, name) for name in KNOWN_BEFORE}
        after = {name: getattr(self.ledger, name) + ahead.get(name, 0.0) for name in limits}
        return next((n for n, limit in limits.items() if limit and after[n] > limit), None)

    def _charge(self, query: Query, *, samples: bool = True) -> None:
        self.ledger.add(self._price([Purchase(query.batch, len(query.points), int(samples))]))

    def _held_out_gap(self, a: Vector, b: Vector, batches: list[Any]) -> tuple[float, float, float]:
        """Return an estimate of ``L(a) + ψ(a) − L(b) − ψ(b)``, its error and what is clear."""
        objective, gaps = self.problem.objective, []
        split = getattr(objective, "halves", None)
        for number, batch in enumerate(batches):
            halves = None if split is None or batch is None else copy_tree(split(copy_tree(batch)))
            at_nodes = []
            for t in NODES if self._repeatable else (NODES[number % 2],):
                query = Query(batch, (b + t * (a - b),), halves)
                self._charge(query, samples=False)
                told = answer_query(objective, query)
                self.ledger.add(told.extra)
                answers = told.gradients if told.halves is None else told.halves[0]
                at_nodes.append([dot(gradient, a - b) for gradient in answers])
            gaps += list(np.mean(at_nodes, axis=0))
        gap, count = float(np.mean(gaps)), len(gaps)
        if self.problem.penalty is not None:
            penalty = copying(self.problem.penalty)
            gap += float(penalty.value(a)) - float(penalty.value(b))
        if count == 1:
            return gap, 0.0, CLEAR
        needed = max(CLEAR, float(scipy.special.stdtrit(count - 1, PROBABILITY)))
        return gap, float(np.std(gaps, ddof=1)) / math.sqrt(count), needed

    def _verdict(self, chosen: str, decided: Sequence[Check] = ()) -> str:
        """Return the choice in words, given the comparisons that decided it."""
        if self._dropped_at is not None:
            better = ""
            if chosen == "ERM":
                better = f" ERM on the rows seen {_better(decided[-1], ' still')}."
            dropped = count_words(self._dropped_at, "step")
            return f"The proxy was dropped after {dropped}: {self._reason}.{better}"
        if not self._checks:
            return (
                "The proxy's answer is returned: nothing was compared. Two held-out batches, the "
                f"least that give a standard error, must be at most {MOST} % of the steps' samples "
                "and within the budget: take 14 steps or more."
            )
        if chosen == "ERM":
            return f"ERM on the rows seen is returned: it {_better(decided[-1])}."
        if chosen != "proxy":
            return f"{chosen}'s answer is returned: it {_better(decided[0], ' than the proxy')}."
        near = [f"; {check.other} is {check.doubt}" for check in decided if check.doubt]
        return (
            "The proxy's answer is returned: no rival did better on held-out samples"
            f"{''.join(near)}."
        )


def _better(check: Check, more: str = "") -> str:
    """Return that one did better, or only looked so, in words."""
    if check.doubt:
        return f"looked better{more} on held-out samples, {check.doubt}"
    return f"did better{more} on held-out samples"
