r"""Never worse than without a proxy: a rival and ERM run on the same samples, held-out ones decide.

The rival is a method without a proxy: ``SGD("auto")``, or the one that is given.

Two points are compared without a single value of the target. For any a and b

.. math:: L(a) - L(b) = \int_0^1 \langle \nabla L(b + t(a - b)), a - b\rangle\,dt,

and the integral is taken at two Gauss nodes, which is exact for losses up to the fourth degree. A
held-out batch's gradients there give one sample of the gap; several give its standard error.

What is charged, all of it in the run's ledger:

* The rival evaluates each batch again at its own point: target gradients, but no new samples. So
  batches must be repeatable.
* Held-out batches: their samples, at every moment at most 15 % of those of the steps so far, and a
  gradient at each node. A comparison takes two batches at least, the least
  that give a standard error, so there is none in the first 13 steps. They come at 20, 40, 80, …
  outer steps and at the end. On the way a comparison takes a tenth as many batches as there were
  steps since the last one, at the end a tenth of all, and at least eight: new ones as far as the
  15 % allow, and earlier ones again. They have never been trained on, so that they still decide
  fairly. A budget keeps enough back for the last time, and is never exceeded.
* ERM is fitted once, at the end, on the rows already seen: nothing.

If the objective has ``halves``, each batch gives two samples of the gap. An arm that trails by
three standard errors (more if they come from few samples: Student's quantile), and by more than
rounding, is given up: the proxy at once, the rival at the second time. ``Step.note`` and
the log "proxyprox" say so at that moment.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import scipy

from proxyprox._util.arrays import Growing, Vector, copy_tree, dot, norm, rounding
from proxyprox._util.codec import CheckpointError, record_classes, require_form
from proxyprox._util.validation import count_words
from proxyprox.advice.outcome import POLICY as OUTCOME
from proxyprox.checkpoint import refuse_damage, require_kind, require_listed
from proxyprox.inner.base import NonFiniteError
from proxyprox.inner.exact import minimise_exactly
from proxyprox.methods import Method
from proxyprox.oracle import Purchase, Query, Step, Told, answer_query, charge, copying, price
from proxyprox.problems.problem import facts_of, halves_of
from proxyprox.result import Budget, Result, Status

if TYPE_CHECKING:
    from proxyprox.run import Run


@dataclass(frozen=True)
class SafeguardPolicy:
    """How arms are compared, and when one is given up.

    ``python benchmarks/safeguard.py`` is the record (docs/results/auto_eta/safeguard.json).

    Attributes
    ----------
    probability : float
        An arm is dropped before the end if it trails by Student's quantile of this in standard
        errors: three of many samples, more of few.
    fewest : int
        Held-out batches of a comparison if nothing is short.
    share : float
        Held-out batches of a comparison for each step, if there are many steps.
    most : int
        Held-out samples that may be drawn, in percent of those of the steps.
    first_check : int
        Steps after which arms are compared first; then after twice as many, and so on.
    """

    probability: float = 0.9987
    fewest: int = 8
    share: float = 0.1
    most: int = 15
    first_check: int = 20


POLICY = SafeguardPolicy()

# The Gauss–Legendre nodes on [0, 1]; both weigh one half.
NODES = (0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6)


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
        Standard errors that make a gap clear: 3 of many samples, more of few.
    """

    step: int
    arm: str
    rival: str
    gap: float
    standard_error: float
    batches: int
    rounding: float = 0.0
    needed: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether the gap is more than noise and rounding."""
        return abs(self.gap) > max(self.needed * self.standard_error, self.rounding)

    @property
    def finding(self) -> str:
        """What was found, in words."""
        held_out = count_words(self.batches, "batch", "batches")
        better, worse = (self.arm, self.rival) if self.gap < 0 else (self.rival, self.arm)
        size = f"{abs(self.gap):.3g} ± {self.standard_error:.2g} ({held_out})"
        size += "" if self.clear else ", which is within the error"
        return f"the held-out loss of {better} is lower than that of {worse} by {size}"

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
        The target's samples by use: "run" and "held out".
    """

    chosen: str
    verdict: str
    dropped_at: int | None
    checks: tuple[Check, ...]
    samples: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  {check}" for check in self.checks)])


def has_rows(objective: Any, batch: Any) -> bool:
    """Tell whether a batch names rows that the loss can be fitted on."""
    return (
        isinstance(batch, np.ndarray) and batch.dtype.kind == "i" and bool(facts_of(objective).rows)
    )


@dataclass(frozen=True)
class GuardState:
    """What the safeguard knows besides the states of its two runs; replaced, never changed.

    Attributes
    ----------
    steps, last_check, next_check : int
        Steps taken, taken at the last comparison, and after which to compare next.
    wins : int
        How often the proxy was clearly ahead.
    proxy, rival : bool
        Which arms are not given up.
    dropped_at, reason
        When and why the proxy was given up.
    slope : float
        The norm of the first gradient.
    of_run, of_held_out : int
        Samples by use.
    batches, held_out, checks : Growing
        The steps' batches, held-out ones that may be used again, and all comparisons.
    """

    steps: int = 0
    last_check: int = 0
    next_check: int = POLICY.first_check
    wins: int = 0
    proxy: bool = True
    rival: bool = True
    dropped_at: int | None = None
    reason: str = ""
    slope: float = 0.0
    of_run: int = 0
    of_held_out: int = 0
    batches: Growing = field(default_factory=Growing)
    held_out: Growing = field(default_factory=Growing)
    checks: Annotated[Growing, Check] = field(default_factory=Growing)


class SafeguardedRun:
    """A run with its rival: to the loop that drives it, it looks like the run alone.

    A step works on a copy, which takes this one's place at the end: a step that is broken off
    leaves the copy behind. Both enter what is paid in one ledger.
    """

    def __init__(self, run: Run, rival: Method, limits: Budget | None = None) -> None:
        # One stream serves the rival and the held-out batches.
        rng = np.random.default_rng(run.draw_seed())
        self.run, self.rival = run, type(run)(run.problem, run.w, method=rival, rng=rng)
        self.problem, self.ledger, self.start = run.problem, run.ledger, run.start
        self.state, self._limits, self._name = GuardState(), limits, type(rival).__name__

    @property
    def steps(self) -> int:
        """Outer steps taken."""
        return self.state.steps

    @property
    def leader(self) -> Run:
        """The arm whose questions are asked: the rival, once the proxy is dropped."""
        return self._going[0]

    def open_question(self) -> Query:
        """Return the leader's question; not to be written into."""
        return self.leader.open_question()

    def hold(self, answer: Told) -> None:
        """Keep the target's answer to that question, which is charged."""
        if not self.state.proxy:
            charge(self.ledger, self._price([self.leader.open_question().purchase]))
            charge(self.ledger, answer.extra)
        self.leader.hold(answer)

    @property
    def held(self) -> bool:
        """Whether that question has an answer that no step has followed yet."""
        return self.leader.held

    def price(self, query: Query) -> dict[str, float]:
        """Return what the step costs, its rival's share and the last comparisons included."""
        used, new = self._plan(query.batch, ahead=1)
        last = Purchase(query.batch, used * self._points_at_end(query.batch), new)
        rivals = [Purchase(query.batch, len(rival.points), 0) for rival in self._going[1:]]
        return self._price([Purchase(query.batch, len(query.points), 1), *rivals, last])

    def tell(self) -> Step:
        """Let every arm take its step on the batch, then compare them if it is time.

        After any error all arms are as they were before the call.
        """
        other = self._twin()
        other._ask_rival()
        # What the rival's answer has cost stays paid, whatever becomes of the step.
        self._become(other)
        other = self._twin()
        try:
            step = other._take_steps()
        except Exception:
            # An answer that leads nowhere is asked for again.
            self.leader.state = replace(self.leader.state, answer=None)
            raise
        self._become(other)
        if step.note:
            logging.getLogger("proxyprox").warning(step.note)
        return step

    @property
    def left(self) -> float:
        """What is left to gain by the method's model: see :class:`~proxyprox.Run`."""
        return self.run.left

    def converged(self, tol: float | None = None, atol: float = 0.0) -> bool:
        """Tell whether the target's last gradient on the proxy's way is small."""
        return self.state.proxy and self.run.converged(tol, atol)

    @property
    def stalled(self) -> bool:
        """Whether neither the target's value nor its gradient fell in the last rounds."""
        return self.state.proxy and self.run.stalled

    def result_before_verdict(self, status: Status, detail: str = "") -> Result:
        """Return the better answer with the evidence; after an error, the leader's."""
        other = self._twin()
        result = other._choose_answer(status, detail)
        # The last comparisons are paid for: a run that goes on has them.
        self._become(other)
        return result

    @property
    def record_classes(self) -> dict[str, type]:
        """The classes of which a file of these runs may hold records, by name."""
        return (
            record_classes(self.state, [Check])
            | self.run.record_classes
            | self.rival.record_classes
        )

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the rest of the runs and their comparisons depend on."""
        # The rival is about the same problem: its data need not be looked at again.
        rival = self.rival.state_dict(problem=False)
        return {
            "kind": "Guarded", "run": self.run.state_dict(), "rival": rival, "guard": self.state,
        }  # fmt: skip

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned, bit for bit."""
        require_kind(tree, "Guarded")
        with refuse_damage():
            state, run, rival = (tree[name] for name in ("guard", "run", "rival"))
            require_form("guard", state, GuardState, self.run.start)
            if not (state.proxy or state.rival):
                raise ValueError("the safeguard has no arm left")
        other, paid = self._twin(), copy.copy(self.ledger)
        other.run.load_state_dict(run)
        try:
            other.rival.load_state_dict(rival)
        except CheckpointError:
            # The ledger, which both share, came with the run.
            vars(self.ledger).update(vars(paid))
            raise
        require_listed(tree)
        other.state = state
        self._become(other)

    # -- a step -------------------------------------------------------------------------------

    def _twin(self) -> SafeguardedRun:
        """Return a copy that may change without this one."""
        other = copy.copy(self)
        other.run, other.rival = copy.copy(self.run), copy.copy(self.rival)
        return other

    def _become(self, other: SafeguardedRun) -> None:
        vars(self).update(vars(other))

    def _note(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    @property
    def _going(self) -> list[Run]:
        return [self.run] * self.state.proxy + [self.rival] * self.state.rival

    def _ask_rival(self) -> None:
        """Get the rival's answer on the same batch."""
        if len(self._going) < 2 or self.rival.held:
            return
        self.rival.open(self.run.open_question().batch)
        self.rival.hold(self._answer(self.rival.ask()))

    def _take_steps(self) -> Step:
        """Let every arm take its step on the batch, then compare them if it is time."""
        before, leader, step = self.state, self.leader, None
        batch, slope, both = leader.open_question().batch, before.slope, len(self._going) > 1
        if before.steps == 0:
            assert leader.state.answer is not None
            slope = norm(leader.state.answer.gradients[0])
        self._note(
            batches=before.batches.append(batch), slope=slope if slope < math.inf else 0.0,
            of_run=before.of_run + self._samples_of(batch),
        )  # fmt: skip
        try:
            step = leader.tell()
        except NonFiniteError as error:
            if not both:
                raise
            self._drop_proxy(f"its run broke down ({error})")
        if both:
            try:
                of_rival = self.rival.tell()
                step = step or of_rival
            except NonFiniteError:
                if not self.state.proxy:
                    raise
                self._note(rival=False)
        self._note(steps=before.steps + 1)
        if len(self._going) > 1 and self.run.state.faults.in_a_row(self.run.steps, OUTCOME.row):
            self._drop_proxy(self.run.state.faults.words)
        if self.state.steps >= before.next_check:
            self._compare_arms()
        assert step is not None
        dropped = before.proxy and not self.state.proxy
        step.ledger = copy.copy(self.ledger)
        step.note = self._verdict(self._name) if dropped else ""
        return step

    def _compare_arms(self) -> None:
        """Compare the arms on held-out batches, and drop one that clearly trails."""
        if len(self._going) > 1:
            held_out = self._draw_held_out(len(NODES), on_the_way=True)
            check = self._compare("the proxy", self.run.w, self._name, self.rival.w, held_out)
            if check is not None and check.clear and check.gap > 0:
                self._drop_proxy(check.finding)
            elif check is not None and check.clear:
                # Twice clearly behind: the rival's gradients are saved from here on.
                self._note(wins=self.state.wins + 1, rival=self.state.wins == 0)
        self._note(last_check=self.state.steps, next_check=2 * self.state.next_check)

    def _drop_proxy(self, reason: str) -> None:
        self._note(proxy=False, dropped_at=self.state.steps, reason=reason)

    def _choose_answer(self, status: Status, detail: str) -> Result:
        """Return the better answer with the evidence; after an error, the leader's."""
        if not status.success:
            failed = self.leader.result_before_verdict(status, detail)
            return replace(failed, ledger=copy.copy(self.ledger))
        chosen, held_out = "proxy" if self.state.proxy else self._name, None
        decided: list[Check] = []
        if len(self._going) > 1:
            if self._earlier_check("the proxy", self._name) is None:
                held_out = self._draw_held_out(self._points_at_end(self._typical_batch))
                self._compare("the proxy", self.run.w, self._name, self.rival.w, held_out)
            # If nothing was left to pay for it, what was found last must do.
            decided = [check for check in self.state.checks if check.arm == "the proxy"][-1:]
            if any(check.gap > check.rounding for check in decided):
                chosen = self._name
        best = self._going[0 if chosen == "proxy" else -1]
        answer = best.result_before_verdict(status, detail)
        fitted = self._fit_rows_seen(answer.w)
        if fitted is not None:
            name = "the proxy" if chosen == "proxy" else chosen
            compared = self._earlier_check("ERM", name)
            if compared is None:
                held_out = self._draw_held_out(len(NODES)) if held_out is None else held_out
                compared = self._compare("ERM", fitted, name, answer.w, held_out)
            if compared is not None:
                decided.append(compared)
                if compared.gap < -compared.rounding:
                    chosen, answer = "ERM", replace(answer, w=fitted, inner="", stop="", doubt=None)
        verdict, state = self._verdict(chosen, decided), self.state
        uses = {"run": state.of_run, "held out": state.of_held_out}
        evidence = Evidence(chosen, verdict, state.dropped_at, tuple(state.checks), uses)
        text, ledger = f"{answer.message} {verdict}", copy.copy(self.ledger)
        return replace(answer, steps=state.steps, ledger=ledger, message=text, safeguard=evidence)

    # -- held-out batches, and what they and the steps cost -----------------------------------

    @property
    def _typical_batch(self) -> Any:
        """A batch like those to come."""
        return self.state.batches[-1] if self.state.batches else self.leader.ask().batch

    def _samples_of(self, batch: Any) -> int:
        return int(self._price([Purchase(batch, 0, 1)])["target_samples"])

    def _plan(self, batch: Any, *, ahead: int = 0, on_the_way: bool = False) -> tuple[int, int]:
        """Return how many held-out batches a comparison takes, and how many of them are new.

        The comparison is the last one, after some more steps, or one on the way.
        """
        if batch is None:
            # Of exact gradients there is but one, and no sample of it is new.
            return 1, 0
        size = max(1, self._samples_of(batch))
        allowed = POLICY.most * (self.state.of_run + ahead * size) // 100
        new = max(0, allowed - self.state.of_held_out) // size
        earlier = len(self.state.held_out)
        steps = self.state.steps + ahead - (self.state.last_check if on_the_way else 0)
        used = min(max(POLICY.fewest, math.ceil(POLICY.share * steps)), earlier + new)
        return (used, min(used, new)) if used >= 2 else (0, 0)

    def _points_at_end(self, batch: Any) -> int:
        """Return at how many points held-out batches will be evaluated at the end."""
        return len(NODES) * (len(self._going) - 1 + has_rows(self.problem.objective, batch))

    def _draw_held_out(self, points: int, *, on_the_way: bool = False) -> list[Any]:
        """Return batches to compare at some points, as many as can be paid; charge new samples.

        On the way the last comparisons stay affordable.
        """
        like = self._typical_batch
        used, new = self._plan(like, on_the_way=on_the_way) if self.state.steps else (0, 0)
        kept = self._plan(like)[0] * self._points_at_end(like) if on_the_way else 0
        purchases = [Purchase(like, kept, 0)]
        if like is None:
            purchases.append(Purchase(like, points, 0))
            return [None] if used and not self._too_dear(purchases) else []
        earlier, drawn = list(self.state.held_out)[::-1][: used - new], list[Any]()
        samples = self.state.of_held_out
        for batch in [*earlier, *[None] * new]:
            fresh = batch is None
            if fresh:
                batch = copy_tree(self.problem.objective.sample(rng := self.rival.rng))
                self.rival.state = replace(self.rival.state, rng=rng.bit_generator.state)
                samples += self._samples_of(batch)
            purchases.append(Purchase(batch, points, int(fresh)))
            # Batches differ in size: the next may be larger than those that were planned with.
            if self._too_dear(purchases) or 100 * samples > POLICY.most * self.state.of_run:
                break
            drawn.append((batch, fresh))
        if len(drawn) < 2:
            return []
        bought, held_out = [batch for batch, fresh in drawn if fresh], self.state.held_out
        paid = sum(map(self._samples_of, bought))
        self.ledger.target_samples += paid
        self._note(of_held_out=self.state.of_held_out + paid, held_out=held_out.append(*bought))
        return [*bought, *(batch for batch, fresh in drawn if not fresh)]

    def _earlier_check(self, arm: str, rival: str) -> Check | None:
        """Return what was found when these two were compared as they are now."""
        now = self.state.steps, arm, rival
        return next((c for c in self.state.checks if (c.step, c.arm, c.rival) == now), None)

    def _compare(
        self, arm: str, a: Vector, rival: str, b: Vector, held_out: list[Any]
    ) -> Check | None:
        if not held_out:
            return None
        gap, spread, needed = self._held_out_gap(a, b, held_out)
        start, steps = self.run.start, self.state.steps
        blur = rounding(a) * self.state.slope * max(norm(a - start), norm(b - start))
        check = Check(steps, arm, rival, gap, spread, len(held_out), blur, needed)
        self._note(checks=self.state.checks.append(check))
        return check

    def _fit_rows_seen(self, start: Vector) -> Vector | None:
        """Return the minimiser on all rows of the batches; None without rows, or if it fails."""
        objective, batches = self.problem.objective, list(self.state.batches)
        if not batches or not all(has_rows(objective, batch) for batch in batches):
            return None
        seen, counts = np.unique(np.concatenate(batches), return_counts=True)
        rows: Any = facts_of(objective).rows
        loss, penalty = rows(seen, counts), self.problem.penalty
        try:
            return minimise_exactly(loss, start, tol=1e-10, relative=1e-9, penalty=penalty)
        except (NonFiniteError, ValueError):
            return None

    def _price(self, purchases: list[Purchase]) -> dict[str, float]:
        return price(self.problem.objective, self.ledger, purchases)

    def _too_dear(self, purchases: list[Purchase]) -> bool:
        """Tell whether some gradients together would exceed a limit, by what is known before."""
        ahead = {} if self._limits is None else self._price(purchases)
        limits = {name: getattr(self._limits, name) or math.inf for name in ahead}
        return any(getattr(self.ledger, n) + ahead[n] > limit for n, limit in limits.items())

    def _answer(self, query: Query) -> Told:
        """Return the target's answer, charged, on a batch whose samples are paid for."""
        charge(self.ledger, self._price([Purchase(query.batch, len(query.points), 0)]))
        told = answer_query(self.problem.objective, query)
        charge(self.ledger, told.extra)
        return told

    def _held_out_gap(self, a: Vector, b: Vector, batches: list[Any]) -> tuple[float, float, float]:
        """Return an estimate of ``L(a) + ψ(a) − L(b) − ψ(b)``, its error and what is clear."""
        objective, gaps = self.problem.objective, []
        for batch in batches:
            halves = copy_tree(halves_of(facts_of(objective), batch))
            at_nodes = []
            for t in NODES:
                told = self._answer(Query(batch, (b + t * (a - b),), halves))
                answers = told.gradients if told.halves is None else told.halves[0]
                at_nodes.append([dot(gradient, a - b) for gradient in answers])
            gaps += list(np.mean(at_nodes, axis=0))
        gap, count = float(np.mean(gaps)), len(gaps)
        if self.problem.penalty is not None:
            penalty = copying(self.problem.penalty)
            gap += float(penalty.value(a)) - float(penalty.value(b))
        if count == 1:
            return gap, 0.0, 0.0
        needed = float(scipy.special.stdtrit(count - 1, POLICY.probability))
        return gap, float(np.std(gaps, ddof=1)) / math.sqrt(count), needed

    def _verdict(self, chosen: str, decided: Sequence[Check] = ()) -> str:
        """Return the choice in words, given the comparisons that decided it."""
        dropped = ""
        if self.state.dropped_at is not None:
            steps = count_words(self.state.dropped_at, "step")
            dropped = f"The proxy was dropped after {steps}: {self.state.reason}."
            if chosen != "ERM":
                return dropped
        if not self.state.checks:
            return (
                "The proxy's answer is returned: nothing was compared. Two held-out batches, the "
                f"least that give a standard error, must be at most {POLICY.most} % of the steps' "
                "samples and within the budget: take 14 steps or more."
            )
        answers = {"proxy": "The proxy's answer", "ERM": "ERM on the rows seen"}
        found = "; ".join(check.finding for check in decided) or "no rival did better before"
        whose = answers.get(chosen, f"{chosen}'s answer")
        return f"{dropped} {whose} is returned: {found}.".lstrip()
