"""What releases cost together, and a journalled budget that refuses the one too many.

Gaussian releases of all rows compose exactly: ``K`` of them with noise ``σ_i`` times their
sensitivity are one with ``μ² = Σ 1/σ_i²`` (Gaussian differential privacy). Neighbouring tables
differ by one row, added or removed.
"""

from __future__ import annotations

import getpass
import json
import math
import os
import platform
import secrets
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from proxyprox import __version__
from proxyprox._util import validation as check
from proxyprox._util.files import is_locked, locked
from proxyprox._util.journal import REMEDY, Event, Journal
from proxyprox._util.text import printable
from proxyprox._util.validation import message

Array = np.ndarray[Any, Any]

# A whole plan is calibrated to the budget: its last release may exceed it by rounding alone.
ROUNDING = 1e-9
NEIGHBOURS, ACCOUNTANT = "add or remove one row", "exact Gaussian DP"


class PrivacyBudgetError(RuntimeError):
    """A release would overspend the budget, or does not belong to what its journal holds."""


# -- curves ---------------------------------------------------------------------------------------

# Beyond it ε, which grows as μ²/2, is no float any more.
LARGEST_MU = 1e150
# Each release is a line of a journal.
MOST_RELEASES = 1_000_000


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return δ(ε) of μ-Gaussian differential privacy."""
    epsilon, mu = check.nonnegative("epsilon", epsilon), check.nonnegative("mu", mu)
    if mu == 0 or math.isinf(epsilon / mu):
        return 0.0
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    first = log_ndtr(-near)
    if near > -20:
        # Φ(−x) = erfcx(x/√2)·exp(−x²/2)/2, and the exponents differ by ε: nothing cancels.
        ratio = float(erfcx(far / math.sqrt(2)) / erfcx(near / math.sqrt(2)))
        return float(np.exp(first) * (1 - ratio))
    return float(-np.exp(first) * np.expm1(min(epsilon + log_ndtr(-far) - first, 0.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return ε at δ of μ-Gaussian differential privacy, exactly.

    Parameters
    ----------
    mu : float
        ``√(Σ 1/σ²)`` over the releases, each with noise σ times its sensitivity.
    delta : float
        δ in (0, 1).

    Examples
    --------
    >>> round(gaussian_epsilon(0.2681, 1e-5), 3)
    1.0
    """
    mu, delta = check.nonnegative("mu", mu), require_delta(delta)
    if mu > LARGEST_MU:
        return math.inf
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    # δ is at most Φ(μ/2 − ε/μ), and no float beyond 40 standard deviations.
    high = mu**2 / 2 + 40 * mu
    return float(brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, high, xtol=1e-13))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ whose ε at δ is no more than the one given."""
    epsilon, delta = check.nonnegative("epsilon", epsilon), require_delta(delta)
    if gaussian_delta(epsilon, LARGEST_MU) <= delta:
        return LARGEST_MU
    ends = np.log([np.finfo(float).tiny, LARGEST_MU])
    found = brentq(lambda t: gaussian_delta(epsilon, math.exp(t)) - delta, *ends, xtol=1e-15)
    return math.exp(found)


def total_mu(sigmas: Iterable[float]) -> float:
    """Return μ of all the releases together, each with noise σ times its sensitivity."""
    return math.hypot(*(1 / check.positive("sigma", sigma) for sigma in sigmas))


def total_epsilon(sigmas: Iterable[float], delta: float) -> float:
    """Return ε at δ of all the releases together; infinite if there is hardly any noise."""
    mu, delta = total_mu(sigmas), require_delta(delta)
    return gaussian_epsilon(mu, delta) if mu <= LARGEST_MU else math.inf


def noise_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """Return the σ for which a number of releases together cost ε at δ.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    releases : int
        Gaussian releases, each with noise σ times its sensitivity.

    Examples
    --------
    >>> round(noise_multiplier(1.0, 1e-5, releases=4), 2)
    7.46
    """
    mu = gaussian_mu(check.positive("epsilon", epsilon), delta)
    return math.sqrt(check.whole("releases", releases)) / mu


def require_delta(delta: Any, rows: int | None = None) -> float:
    """Return δ if it is in (0, 1), and below one over the number of rows if that is known."""
    allowed = "a number in (0, 1)" if rows is None else f"in (0, 1/n_nominal) = (0, {1 / rows:.3g})"
    number = check.positive("delta", delta)
    if number >= (1.0 if rows is None else 1 / rows):
        remedy = "With a larger one a mechanism may publish a whole row."
        raise ValueError(message("delta", delta, allowed, remedy))
    return number


@dataclass(frozen=True)
class Guarantee:
    """What some releases cost together, with all that an ε means nothing without.

    Attributes
    ----------
    epsilon, delta : float
        ε at δ.
    releases : int
        Releases made.
    note : str
        What the numbers do not cover, printed below them.

    Examples
    --------
    >>> print(Guarantee.of([5.0], delta=1e-5))
    ε = 0.726 at δ = 1e-05, add or remove one row; full batch, 1 release; exact Gaussian DP
    """

    epsilon: float
    delta: float
    releases: int
    note: str = ""

    @classmethod
    def of(cls, sigmas: Sequence[float], delta: float) -> Guarantee:
        """Return the guarantee of some releases."""
        return cls(total_epsilon(sigmas, delta), delta, len(sigmas))

    def __str__(self) -> str:
        count = f"full batch, {self.releases} release{'s' * (self.releases != 1)}"
        cost = f"ε = {self.epsilon:.3g} at δ = {self.delta:.3g}"
        note = f"\n{self.note}" if self.note else ""
        return f"{cost}, {NEIGHBOURS}; {count}; {ACCOUNTANT}{note}"


class FitPage(dict[str, Any]):
    """What a privacy officer signs, a dict of JSON values: what one fit released and guarantees.

    Estimator, data, date and version; ε, δ, neighbours and accountant; mechanism, how many releases
    there are of each σ, clip, metric and n_nominal; budget, plan, and what is not covered. Printed
    it is a page.
    """

    def __str__(self) -> str:
        return show({**self, "signed": "_" * 40})


# -- the budget -----------------------------------------------------------------------------------

MECHANISM = "Gaussian noise, σ times the sensitivity, on sums of clipped rows"


class _Charge(NamedTuple):
    """One release that was paid for; its vector is event `released` of the journal."""

    number: int
    sigma: float
    point: str
    time: str
    released: int | None = None


@dataclass
class _Plan:
    """Releases that belong together; who opened them holds a token: they are reserved meanwhile."""

    number: int
    sigmas: list[float]
    settings: Any
    openings: dict[str, tuple[str, str]] = field(default_factory=dict)
    charges: dict[int, _Charge] = field(default_factory=dict)

    @property
    def ahead(self) -> list[float]:
        """σ of the releases that are not paid for yet."""
        return [sigma for k, sigma in enumerate(self.sigmas) if k not in self.charges]


class PrivacyBudget:
    """One (ε, δ) for fits, their clones and several processes, with a journal of what was spent.

    A plan's releases are reserved when it is opened, and refused at once if spent and reserved
    ones leave no room; what a plan that has ended or whose process has died did not use is free
    again. A charge is on disk before its noise is drawn, and the released vector before anyone
    sees it. A run that was killed goes on by the same name: what was released is read again, at no
    cost; what was charged and never released is drawn for that charge.

    A file that is damaged, lost or replaced is refused: it never counts as less spent. Malice is
    not kept out, nor is an older copy that is put back while nobody has the file open.
    ``print(budget)`` is a page for a privacy officer.

    Parameters
    ----------
    path : path-like, optional
        The journal, an SQLite file that several processes may share; without one the budget lives
        in this process only. It holds released vectors, settings and who opened a plan (user, host,
        process), no rows and no noise. While a plan is open, a hidden file beside it is locked.
    epsilon, delta : float
        What may be spent in all. A file that exists must have the same.

    Examples
    --------
    >>> budget = PrivacyBudget(epsilon=3.0, delta=1e-5)
    >>> print(budget.spent)
    ε = 0 at δ = 1e-05, add or remove one row; full batch, 0 releases; exact Gaussian DP
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, epsilon: float, delta: float
    ) -> None:
        epsilon, delta = check.positive("epsilon", epsilon), require_delta(delta)
        place = None if path is None else Path(os.path.realpath(check.file_path("path", path)))
        if place is not None and not place.parent.is_dir():
            remedy = "Make the folder first: a mistyped path would be a second budget."
            raise ValueError(message("path", str(place), "in a folder that exists", remedy))
        self.open_journal(place, [Event("limit", content={"epsilon": epsilon, "delta": delta})])
        if (self.epsilon, self.delta) != (epsilon, delta):
            raise PrivacyBudgetError(
                f"{self.path} is a budget of epsilon={self.epsilon:g}, delta={self.delta:g}, not "
                f"of epsilon={epsilon:g}, delta={delta:g}. Open it as it was made."
            )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> PrivacyBudget:
        """Return the budget of a file, to be looked at: it opens no plans and changes nothing.

        Parameters
        ----------
        path : path-like
            The journal.
        """
        budget = cls.__new__(cls)
        budget.open_journal(Path(os.path.realpath(check.file_path("path", path))), readonly=True)
        return budget

    def open_journal(
        self, path: Path | None, first: Sequence[Event] = (), *, readonly: bool = False
    ) -> None:
        """Take over what a journal says was spent; the constructor and :meth:`read` call it."""
        self.path, self._process = path, os.getpid()
        self._plans: dict[str, _Plan] = {}
        # What this process holds, by token; without a file nobody else looks.
        self._held: dict[str, ExitStack] = {}
        self.epsilon = self.delta = math.nan
        self._journal = Journal(
            path, "privacy budget", PrivacyBudgetError, self._replay,
            first=first, readonly=readonly,
        )  # fmt: skip
        if not self.epsilon > 0:
            raise PrivacyBudgetError(f"The privacy budget {path} has no limit. {REMEDY}")
        self.id = self._journal.identity

    def _replay(self, event: Event) -> None:
        content = event.content
        match event.kind:
            case "limit":
                self.epsilon, self.delta = content["epsilon"], content["delta"]
            case "plan":
                plan = _Plan(event.number, content["sigmas"], content["settings"])
                self._plans.setdefault(event.key, plan)
            case "open":
                self._plans[event.key].openings[content["token"]] = (event.time, content["by"])
            case "charge":
                charge = _Charge(event.number, content["sigma"], content["point"], event.time)
                self._plans[event.key].charges.setdefault(content["k"], charge)
            case "release":
                charges = self._plans[event.key].charges
                ((k, charge),) = ((k, c) for k, c in charges.items() if c.number == event.refers)
                charges[k] = charge._replace(released=event.number)
            case _:
                raise ValueError(event.kind)

    def __repr__(self) -> str:
        where = "" if self.path is None else f"{str(self.path)!r}, "
        return f"PrivacyBudget({where}epsilon={self.epsilon}, delta={self.delta})"

    # A copy would be a second purse: clones of estimators share this one.
    def __copy__(self) -> PrivacyBudget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyBudget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise PrivacyBudgetError(
                "A PrivacyBudget without a file cannot be shared between processes. "
                "Give it one: PrivacyBudget('budget.sqlite', epsilon=..., delta=...)."
            )
        if self._journal.readonly:
            return PrivacyBudget.read, (str(self.path),)
        return _reopen, (str(self.path), self.epsilon, self.delta, self.id)

    # -- what was spent -----------------------------------------------------------------------

    @property
    def spent(self) -> Guarantee:
        """What all charges so far cost together."""
        with self._transaction():
            return self._guarantee(self._plans.values())

    def guarantee(self, plan: str) -> Guarantee:
        """Return what the charges of one plan cost."""
        with self._transaction():
            return self._guarantee([self._known(plan)])

    @property
    def left(self) -> float:
        """The ε of the largest plan that may still be opened."""
        with self._transaction():
            taken = [*self._charged(), *(s for plan, _ in self._reserved() for s in plan.ahead)]
        rest = gaussian_mu(self.epsilon, self.delta) ** 2 - total_mu(taken) ** 2
        return gaussian_epsilon(math.sqrt(max(rest, 0.0)), self.delta)

    def report(self) -> dict[str, Any]:
        """Return who spent what and when, as JSON values; ``print(budget)`` shows the same.

        Spent, reserved, left and planned are ε at the budget's δ. What is left is for one more
        plan: its ε and what is spent compose, which is less than adding.
        """
        left = self.left
        with self._transaction():
            reserved = [plan for plan, _ in self._reserved()]
            ahead = [sigma for plan in reserved for sigma in plan.ahead]
            spent = self._guarantee(self._plans.values())
            total = total_epsilon([*self._charged(), *ahead], self.delta)
            plans = [
                self._reported(name, plan, plan in reserved) for name, plan in self._plans.items()
            ]
        return {
            "file": None if self.path is None else str(self.path), "id": self.id,
            "epsilon": self.epsilon, "delta": self.delta, "neighbours": NEIGHBOURS,
            "mechanism": MECHANISM, "accountant": ACCOUNTANT, "spent": spent.epsilon,
            "releases": spent.releases, "reserved": total - spent.epsilon, "left": left,
            "plans": plans,
        }  # fmt: skip

    def _reported(self, name: str, plan: _Plan, reserved: bool) -> dict[str, Any]:
        state = "open" if reserved else "ended" if plan.ahead or not plan.sigmas else "complete"
        times = [one.time for one in plan.charges.values()]
        return {
            "name": name, "state": state, "spent": self._guarantee([plan]).epsilon,
            "planned": total_epsilon(plan.sigmas, self.delta), "releases": len(times),
            "planned_releases": len(plan.sigmas), "sigma": sorted(set(plan.sigmas)),
            "settings": plan.settings,
            "opened": [f"{time} UTC by {by}" for time, by in plan.openings.values()],
            "charged": " to ".join(times[:1] + times[1:][-1:]),
        }  # fmt: skip

    def __str__(self) -> str:
        return page(self.report())

    # -- plans --------------------------------------------------------------------------------

    def open(
        self, plan: str | None, sigmas: Sequence[float], settings: dict[str, Any],
        holder: object = None,
    ) -> str:  # fmt: skip
        """Enter a plan and reserve its releases, which must fit into what is left.

        Parameters
        ----------
        plan : str, optional
            A name by which a killed run is resumed; by default one that is used once.
        sigmas : sequence of float
            Noise over the sensitivity of what will be released, in order.
        settings : dict
            What must be the same to resume it, as JSON values.
        holder : object, optional
            The reservation ends with this object, by default the budget, if not by :meth:`end`.

        Returns
        -------
        name : str
            The plan's name, for :meth:`charge`.
        """
        name = secrets.token_hex(8) if plan is None else plan
        check.instance("name", name, str, "text, or None")
        content = json.loads(json.dumps({"sigmas": list(sigmas), "settings": settings}))
        token = secrets.token_hex(8)
        try:
            with self._transaction() as append:
                known = self._plans.get(name)
                if known is not None and any(getattr(known, n) != content[n] for n in content):
                    raise PrivacyBudgetError(
                        f"name={name!r} is another plan in {self!r}: its ε, δ, releases, clip, "
                        "metric or n_nominal differ. Repeat its settings, or choose another name."
                    )
                self._require_room(sigmas if known is None else known.ahead, but=name)
                number = append("plan", name, content) if known is None else known.number
                self._hold(token)
                append("open", name, {"token": token, "by": _who()}, refers=number)
        except BaseException:
            _let_go(self._held, token)
            raise
        weakref.finalize(self if holder is None else holder, _let_go, self._held, token)
        return name

    def end(self, plan: str) -> None:
        """End a plan of this process: what it reserved and did not use is free again.

        Parameters
        ----------
        plan : str
            The name that :meth:`open` returned. It may be opened again.
        """
        with self._transaction():
            mine = [token for token in self._known(plan).openings if token in self._held]
        for token in mine:
            _let_go(self._held, token)

    def charge(self, plan: str, k: int, sigma: float, point: str) -> Array | None:
        """Pay for release k of a plan; return the released vector if it was made already.

        Parameters
        ----------
        plan : str
            The name that :meth:`open` returned.
        k : int
            Which of its releases.
        sigma : float
            Its noise over its sensitivity.
        point : str
            A digest of the question, so that one charge answers one question only.
        """
        with self._transaction() as append:
            known = self._known(plan)
            if k not in known.charges:
                self._require_room([sigma], but=plan)
                content = {"k": k, "sigma": sigma, "point": point}
                append("charge", plan, content, refers=known.number)
                return None
            charge = known.charges[k]
            if charge.point != point:
                raise PrivacyBudgetError(
                    f"Release {k} of {plan!r} was paid for at another point: a charge answers one "
                    "question. Resume with the settings of the first run, or choose another name."
                )
            return None if charge.released is None else self._vector(charge.released)

    def enter_release(self, plan: str, k: int, released: Array) -> Array:
        """Note a vector before anyone sees it; return the one that counts, which is the first."""
        data = np.asarray(released, dtype=np.float64).tobytes()
        with self._transaction() as append:
            charge = self._known(plan).charges.get(k)
            if charge is None:
                raise PrivacyBudgetError(f"Release {k} of {plan!r} was not paid for. Charge first.")
            if charge.released is not None:
                return self._vector(charge.released)
            append("release", plan, data=data, refers=charge.number)
        return np.frombuffer(data, dtype=np.float64).copy()

    # -- internals ----------------------------------------------------------------------------

    def _transaction(self) -> AbstractContextManager[Callable[..., int]]:
        """Return a transaction of the journal, which has replayed what others did."""
        if self.path is None and os.getpid() != self._process:
            raise PrivacyBudgetError(
                "This PrivacyBudget lives in another process. Give it a file to share it."
            )
        return self._journal.transaction()

    def _known(self, plan: str) -> _Plan:
        if plan not in self._plans:
            raise PrivacyBudgetError(f"{plan!r} is no plan of {self!r}. Open it first.")
        return self._plans[plan]

    def _vector(self, number: int) -> Array:
        (event,) = self._journal.read([number])
        return np.frombuffer(event.data or b"", dtype=np.float64).copy()

    def _charged(self, plans: Iterable[_Plan] | None = None) -> list[float]:
        plans = self._plans.values() if plans is None else plans
        return [one.sigma for plan in plans for one in plan.charges.values()]

    def _guarantee(self, plans: Iterable[_Plan]) -> Guarantee:
        return Guarantee.of(self._charged(plans), self.delta)

    def _hold(self, token: str) -> None:
        """Reserve: the lock is the operating system's, which forgets it with the process."""
        held = self._held[token] = ExitStack()
        if self.path is not None:
            held.enter_context(locked(f"{self.path}.{token}"))

    def _reserved(self, but: str | None = None) -> list[tuple[_Plan, str]]:
        """Return the plans with releases ahead that somebody alive holds, and who."""
        found = []
        for name, plan in self._plans.items():
            for token, (_, by) in plan.openings.items() if name != but and plan.ahead else ():
                if is_locked(f"{self.path}.{token}") if self.path else token in self._held:
                    found.append((plan, f"{len(plan.ahead)} of {name!r} by {by}"))
                    break
        return found

    def _require_room(self, ahead: Sequence[float], but: str) -> None:
        """Refuse releases for which what is spent and reserved leaves no room."""
        spent, held = self._charged(), self._reserved(but)
        others = [sigma for plan, _ in held for sigma in plan.ahead]
        needed = total_epsilon([*spent, *others, *ahead], self.delta) if ahead else 0.0
        if needed > self.epsilon + ROUNDING * max(self.epsilon, 1.0):
            text = "; ".join(["releases " + by for _, by in held] or ["nothing"])
            raise PrivacyBudgetError(
                f"The budget would be overspent: ε = {needed:.4g} of {self.epsilon:g} at "
                f"δ = {self.delta:g}. Spent so far: {Guarantee.of(spent, self.delta)}. Reserved: "
                f"{text}. Nothing was released."
            )


def _let_go(held: dict[str, ExitStack], token: str) -> None:
    """End a reservation without a transaction: garbage may be collected within one."""
    held.pop(token, ExitStack()).close()


def _who() -> str:
    """Return user, host, process and version."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without a name
        user = "unknown"
    return f"{user} on {platform.node()}, process {os.getpid()}, proxyprox {__version__}"


def page(report: dict[str, Any]) -> str:
    """Return what a privacy officer wants to know, from :meth:`PrivacyBudget.report`."""
    budget = {name: value for name, value in report.items() if name != "plans"}
    return "\n\n".join(show(part) for part in (budget, *report["plans"]))


def show(values: dict[str, Any]) -> str:
    """Return a line for each value; several of one are parted by commas."""
    lines = []
    for name, value in values.items():
        parts = value if isinstance(value, list) else [value]
        text = ", ".join(f"{part:.4g}" if isinstance(part, float) else str(part) for part in parts)
        lines.append(f"{name:16} {printable(text)}")
    return "\n".join(lines)


def _reopen(path: str, epsilon: float, delta: float, own: str) -> PrivacyBudget:
    """Return the budget of a pickle; a file that is gone, or another, would be a full one."""
    if not Path(path).is_file():
        raise PrivacyBudgetError(f"The budget's file {path} is gone: bring it back first.")
    budget = PrivacyBudget(path, epsilon=epsilon, delta=delta)
    if budget.id != own:
        raise PrivacyBudgetError(f"{path} is another budget than the one that was pickled.")
    return budget
