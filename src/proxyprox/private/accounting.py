"""What releases cost together, and a journalled budget that refuses the one too many.

Full-batch Gaussian releases compose exactly: ``K`` of them with noise ``σ_i`` times their
sensitivity are one with ``μ² = Σ 1/σ_i²`` (Gaussian differential privacy). Poisson-sampled ones
are composed by Opacus' RDP accountant. Neighbouring tables differ by one row, added or removed.
"""

from __future__ import annotations

import functools
import json
import math
import os
import secrets
import sqlite3
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from proxyprox._util import validation as check
from proxyprox._util.extras import require
from proxyprox._util.validation import message

Array = np.ndarray[Any, Any]

# A whole plan is calibrated to the budget: its last release may exceed it by rounding alone.
ROUNDING, TINY = 1e-9, 1e-12
NEIGHBOURS = "add or remove one row"


class PrivacyBudgetError(RuntimeError):
    """A release would overspend the budget, or does not belong to what its journal holds."""


class NotPrivateWarning(UserWarning):
    """The noise is seeded: whoever knows the seed can subtract it."""


class Release(NamedTuple):
    """One Gaussian release: noise over sensitivity, and the share of rows that it sampled."""

    sigma: float
    rate: float = 1.0


# -- curves ---------------------------------------------------------------------------------------

# Beyond it ε, which grows as μ²/2, is no float any more.
LARGEST_MU = 1e150
# Each release is a line of a journal.
MOST_RELEASES = 1_000_000
# Between them the series of Opacus' RDP accountant is taken: its rounding errors exceed its terms
# at larger σ, and its exponentials overflow at smaller ones.
LEAST_SIGMA, LARGEST_SIGMA = 1e-3, 1e4


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return δ(ε) of μ-Gaussian differential privacy."""
    return _delta(check.nonnegative("epsilon", epsilon), check.nonnegative("mu", mu))


def _delta(epsilon: float, mu: float) -> float:
    if mu == 0:
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
    if _delta(0.0, mu) <= delta:
        return 0.0
    high = 1.0
    while _delta(high, mu) > delta:
        high *= 2
    low = high / 2 if high > 1 else 0.0
    return float(brentq(lambda e: _delta(e, mu) - delta, low, high, xtol=1e-13))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ whose ε at δ is no more than the one given."""
    epsilon, delta = check.nonnegative("epsilon", epsilon), require_delta(delta)
    low = 1.0
    while _delta(epsilon, low) > delta:
        low /= 2
    while low < LARGEST_MU and _delta(epsilon, 2 * low) <= delta:
        low *= 2
    if low >= LARGEST_MU:
        return LARGEST_MU
    return float(brentq(lambda mu: _delta(epsilon, mu) - delta, low, 2 * low, xtol=1e-14))


# Rényi orders, those of Google's dp-accounting.
ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)


def total_epsilon(releases: Sequence[Release] | Mapping[Release, int], delta: float) -> float:
    """Return ε at δ of all the releases together, which may be given with how often each is made.

    Infinite if the noise is so small that no bound is known.
    """
    counts, delta = Counter(releases), require_delta(delta)
    for release in counts:
        check.positive("sigma", release.sigma)
        check.fraction("sample_rate", release.rate)
    if all(release.rate == 1.0 for release in counts):
        squares = sum(count * (1 / r.sigma) * (1 / r.sigma) for r, count in counts.items())
        mu = math.sqrt(squares)
        return gaussian_epsilon(mu, delta) if mu <= LARGEST_MU else math.inf
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # The best order is the last one, or some orders overflow: ε is then larger than need be.
        warnings.simplefilter("ignore")
        divergence = sum(count * _renyi(*release) for release, count in counts.items())
        found = _opacus("analysis.rdp").get_privacy_spent(
            orders=ORDERS, rdp=divergence, delta=delta
        )  # fmt: skip
    epsilon = float(found[0])
    return math.inf if math.isnan(epsilon) else max(epsilon, 0.0)


def sampled_epsilon(
    sigma: float, sample_rate: float, releases: int, delta: float, accountant: str = "rdp"
) -> float:
    """Return ε at δ of Poisson-sampled Gaussian releases, by one of Opacus' accountants.

    Parameters
    ----------
    sigma, sample_rate : float
        Noise over sensitivity, and share of the rows, of each release.
    releases : int
        How many.
    delta : float
        δ in (0, 1).
    accountant : {"rdp", "prv"}
        "rdp" is what budgets are charged by; "prv" is tighter and takes longer.

    Examples
    --------
    >>> round(sampled_epsilon(1.0, 0.01, 1000, 1e-5), 2)  # doctest: +SKIP
    2.1
    """
    sigma, rate = check.positive("sigma", sigma), check.fraction("sample_rate", sample_rate)
    releases, delta = check.whole("releases", releases), require_delta(delta)
    check.one_of("accountant", accountant, ("rdp", "prv"))
    if accountant == "rdp":
        return total_epsilon({Release(sigma, rate): releases}, delta)
    prv = _opacus("prv").PRVAccountant()
    prv.history = [(sigma, rate, releases)]
    return float(prv.get_epsilon(delta=delta))


@functools.lru_cache(maxsize=256)
def _renyi(sigma: float, rate: float) -> Array:
    """Return the Rényi divergences of one release; infinite if no bound is known."""
    orders = np.array(ORDERS)
    if sigma > LARGEST_SIGMA:
        # That of the full batch, which no sampling exceeds.
        return orders / (2 * sigma) / sigma
    if sigma < LEAST_SIGMA:
        return np.full(len(orders), math.inf)
    found = _opacus("analysis.rdp").compute_rdp(
        q=rate, noise_multiplier=sigma, steps=1, orders=ORDERS
    )
    return np.nan_to_num(np.asarray(found, dtype=np.float64), nan=math.inf, posinf=math.inf)


def _opacus(module: str) -> Any:
    purpose = "accounting for Poisson sampling"
    return require(f"opacus.accountants.{module}", extra="private", purpose=purpose)


def noise_multiplier(
    epsilon: float, delta: float, releases: int, sample_rate: float = 1.0
) -> float:
    """Return the σ for which so many releases together cost ε at δ.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    releases : int
        Gaussian releases, each with noise σ times its sensitivity.
    sample_rate : float
        Share of the rows in each, by Poisson sampling; 1 for all of them.

    Examples
    --------
    >>> round(noise_multiplier(1.0, 1e-5, releases=4), 2)
    7.46
    """
    epsilon, delta = check.positive("epsilon", epsilon), require_delta(delta)
    releases, rate = check.whole("releases", releases), check.fraction("sample_rate", sample_rate)
    full = math.sqrt(releases) / gaussian_mu(epsilon, delta)
    if rate == 1.0:
        return full

    def excess(log_sigma: float) -> float:
        made = {Release(math.exp(log_sigma), rate): releases}
        # Finite, for the search of a root.
        return min(total_epsilon(made, delta), 1e300) - epsilon

    # RDP is loose: at rates near one it asks for more noise than the full batch needs.
    low, high = math.log(full * rate / 64), math.log(2 * full)
    least = excess(high + 30.0) + epsilon
    if least > epsilon:
        remedy = "Take all rows in each release (sample_rate=1), or a larger delta."
        allowed = f"at least {least:.2g}, below which RDP accountants show nothing at this delta"
        raise ValueError(message("epsilon", epsilon, allowed, remedy))
    while excess(high) > 0:
        high += 1.0
    while excess(low) <= 0:
        high, low = low, low - 1.0
        if low < math.log(LEAST_SIGMA):
            return math.exp(high)
    root = float(brentq(excess, low, high, xtol=1e-6))
    return math.exp(root + 2e-6)


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
        ε is infinite where the noise was seeded.
    releases : int
        Releases made.
    sampling, accountant, neighbours : str
        How rows were sampled, how the releases were composed, and which tables are neighbours.
    private : bool
        False where the noise was seeded, which a test may do.
    note : str
        What the numbers do not cover, printed below them.

    Examples
    --------
    >>> print(Guarantee.of([Release(5.0)], delta=1e-5, private=False))  # doctest: +ELLIPSIS
    NOT PRIVATE: the noise was seeded (without the seed: ε = 0.7..., δ = 1e-05, add or remove ...)
    """

    epsilon: float
    delta: float
    releases: int
    sampling: str
    accountant: str
    neighbours: str = NEIGHBOURS
    private: bool = True
    unseeded_epsilon: float = 0.0
    note: str = ""

    @classmethod
    def of(cls, releases: Sequence[Release], delta: float, *, private: bool = True) -> Guarantee:
        """Return the guarantee of some releases."""
        delta, private = require_delta(delta), check.flag("private", private)
        rates = sorted({release.rate for release in releases})
        full = rates in ([], [1.0])
        shares = ", ".join(f"{rate:g}" for rate in rates)
        sampling = "full batch" if full else f"Poisson sampling at rate {shares}"
        accountant = "exact Gaussian DP" if full else "Opacus' RDP accountant"
        spent = total_epsilon(releases, delta) if releases else 0.0
        epsilon = spent if private else math.inf
        return cls(epsilon, delta, len(releases), sampling, accountant, private=private,
                   unseeded_epsilon=spent)  # fmt: skip

    def __str__(self) -> str:
        count = f"{self.releases} release{'s' * (self.releases != 1)}"
        rest = f"{self.neighbours}; {self.sampling}, {count}; {self.accountant}"
        note = f"\n{self.note}" if self.note else ""
        if self.private:
            return f"ε = {self.epsilon:.3g} at δ = {self.delta:.3g}, {rest}{note}"
        spent = f"without the seed: ε = {self.unseeded_epsilon:.3g}, δ = {self.delta:.3g}, {rest}"
        return f"NOT PRIVATE: the noise was seeded ({spent}){note}"


# -- the budget -----------------------------------------------------------------------------------

TABLES = """
CREATE TABLE about (id TEXT, epsilon REAL, delta REAL);
CREATE TABLE plans (name TEXT PRIMARY KEY, settings TEXT NOT NULL, private INTEGER NOT NULL);
CREATE TABLE charges (
    plan TEXT NOT NULL REFERENCES plans(name), k INTEGER NOT NULL, sigma REAL NOT NULL,
    rate REAL NOT NULL, point TEXT NOT NULL, released BLOB,
    time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (plan, k)
);
"""


class PrivacyBudget(AbstractContextManager["PrivacyBudget"]):
    """One (ε, δ) for fits, their clones and several processes, with a journal of what was spent.

    A charge is on disk before its noise is drawn, and the released vector with it before anyone
    sees it. A run that was killed goes on by the same name: what was released is read again, at no
    cost; what was charged and never released is drawn for that charge.

    Parameters
    ----------
    path : path-like, optional
        The journal, an SQLite file that several processes may share; without one the budget lives
        in this process only. It holds released vectors and settings, no rows and no noise.
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
        self.epsilon = check.positive("epsilon", epsilon)
        self.delta = require_delta(delta)
        self.path = None if path is None else Path(os.path.realpath(check.file_path("path", path)))
        self._lock, self._process = threading.RLock(), os.getpid()
        self._memory = None
        if self.path is None:
            self._memory = sqlite3.connect(":memory:", check_same_thread=False)
            weakref.finalize(self, self._memory.close)
        else:
            if not self.path.parent.is_dir():
                remedy = "Make the folder first: a mistyped path would be a second budget."
                raise ValueError(message("path", str(self.path), "in a folder that exists", remedy))
            self.path.touch()
        with self._transaction() as database:
            self.id = self._begin(database)

    def __exit__(self, *_: object) -> None:
        """Keep the file; there is nothing to close."""

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
        return _reopen, (str(self.path), self.epsilon, self.delta, self.id)

    @property
    def spent(self) -> Guarantee:
        """What all charges so far cost together."""
        with self._transaction() as database:
            return self._guarantee(database)

    def guarantee(self, plan: str) -> Guarantee:
        """Return what the charges of one plan cost."""
        with self._transaction() as database:
            return self._guarantee(database, plan)

    def open(
        self, plan: str | None, releases: Sequence[Release], settings: dict[str, Any], *,
        private: bool,
    ) -> str:  # fmt: skip
        """Enter a plan, whose releases must all fit into what is left; return its name.

        Parameters
        ----------
        plan : str, optional
            A name by which a killed run is resumed; by default one that is used once.
        releases : sequence of Release
            What will be released, in order.
        settings : dict
            What must be the same to resume it, as JSON values.
        private : bool
            False where the noise is seeded.
        """
        text = json.dumps([[list(release) for release in releases], settings], sort_keys=True)
        name = secrets.token_hex(8) if plan is None else plan
        with self._transaction() as database:
            known = database.execute(
                "SELECT settings, private FROM plans WHERE name = ?", (name,)
            ).fetchone()
            if known is not None and known != (text, int(private)):
                raise PrivacyBudgetError(
                    f"name={name!r} is another plan in {self!r}: its ε, δ, releases, clip, metric "
                    "or n_nominal differ. Repeat its settings, or choose another name."
                )
            done = database.execute("SELECT k FROM charges WHERE plan = ?", (name,)).fetchall()
            ahead = [r for k, r in enumerate(releases) if (k,) not in done]
            self._require_room(database, ahead)
            if known is None:
                database.execute("INSERT INTO plans VALUES (?, ?, ?)", (name, text, int(private)))
        return name

    def charge(self, plan: str, k: int, release: Release, point: str) -> Array | None:
        """Pay for release k of a plan; return the released vector if it was made already.

        Parameters
        ----------
        plan : str
            The name that :meth:`open` returned.
        k : int
            Which of its releases.
        release : Release
            Its noise and sampling rate.
        point : str
            A digest of the question, so that one charge answers one question only.
        """
        with self._transaction() as database:
            row = database.execute(
                "SELECT point, released FROM charges WHERE plan = ? AND k = ?", (plan, k)
            ).fetchone()
            if row is None:
                self._require_room(database, [release])
                database.execute(
                    "INSERT INTO charges (plan, k, sigma, rate, point) VALUES (?, ?, ?, ?, ?)",
                    (plan, k, *release, point),
                )
                return None
        if row[0] != point:
            raise PrivacyBudgetError(
                f"Release {k} of {plan!r} was paid for at another point: a charge answers one "
                "question. Resume with the settings of the first run, or choose another name."
            )
        return None if row[1] is None else np.frombuffer(row[1], dtype=np.float64).copy()

    def enter_release(self, plan: str, k: int, released: Array) -> Array:
        """Note a vector before anyone sees it; return the one that counts, which is the first."""
        with self._transaction() as database:
            database.execute(
                "UPDATE charges SET released = ? WHERE plan = ? AND k = ? AND released IS NULL",
                (np.asarray(released, dtype=np.float64).tobytes(), plan, k),
            )
            row = database.execute(
                "SELECT released FROM charges WHERE plan = ? AND k = ?", (plan, k)
            ).fetchone()
        return np.frombuffer(row[0], dtype=np.float64).copy()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Yield the database; what is done to it is on disk when the block ends, or not at all."""
        if self._memory is not None and os.getpid() != self._process:
            raise PrivacyBudgetError(
                "This PrivacyBudget lives in another process. Give it a file to share it."
            )
        try:
            with self._lock:
                if self._memory is not None:
                    with self._memory:
                        yield self._memory
                    return
                address = f"{self.path.as_uri()}?mode=rw" if self.path else ""
                with closing(sqlite3.connect(address, uri=True, timeout=60)) as database, database:
                    database.execute("PRAGMA synchronous = EXTRA")
                    database.execute("BEGIN IMMEDIATE")
                    yield database
        except sqlite3.Error as error:
            text = f"{self.path} is no privacy budget, is damaged or cannot be written ({error})"
            raise PrivacyBudgetError(f"{text}. Restore a copy, or choose another file.") from error

    def _begin(self, database: Any) -> str:
        if not database.execute("SELECT name FROM sqlite_master").fetchall():
            for statement in TABLES.split(";")[:-1]:
                database.execute(statement)
            about = secrets.token_hex(16), self.epsilon, self.delta
            database.execute("INSERT INTO about VALUES (?, ?, ?)", about)
        own, epsilon, delta = database.execute("SELECT id, epsilon, delta FROM about").fetchone()
        if (epsilon, delta) != (self.epsilon, self.delta):
            raise PrivacyBudgetError(
                f"{self.path} is a budget of epsilon={epsilon:g}, delta={delta:g}, not of "
                f"epsilon={self.epsilon:g}, delta={self.delta:g}. Open it as it was made."
            )
        return str(own)

    def _guarantee(self, database: Any, plan: str | None = None) -> Guarantee:
        found = database.execute(
            "SELECT sigma, rate, private FROM charges JOIN plans ON plan = name "
            "WHERE ? IS NULL OR plan = ?", (plan, plan),
        ).fetchall()  # fmt: skip
        private = all(row[2] for row in found)
        return Guarantee.of([Release(*row[:2]) for row in found], self.delta, private=private)

    def _require_room(self, database: Any, ahead: Sequence[Release]) -> None:
        """Refuse releases that would overspend."""
        rows = database.execute("SELECT sigma, rate FROM charges").fetchall()
        spent = [Release(*row) for row in rows]
        needed = total_epsilon([*spent, *ahead], self.delta) if ahead else 0.0
        if needed > self.epsilon * (1 + ROUNDING) + TINY:
            before = Guarantee.of(spent, self.delta)
            raise PrivacyBudgetError(
                f"The budget would be overspent: ε = {needed:.4g} of {self.epsilon:g} at "
                f"δ = {self.delta:g}. Spent so far: {before}. Nothing was released."
            )


def _reopen(path: str, epsilon: float, delta: float, own: str) -> PrivacyBudget:
    """Return the budget of a pickle; a file that is gone, or another, would be a full one."""
    if not Path(path).is_file():
        raise PrivacyBudgetError(f"The budget's file {path} is gone: bring it back first.")
    budget = PrivacyBudget(path, epsilon=epsilon, delta=delta)
    if budget.id != own:
        raise PrivacyBudgetError(f"{path} is another budget than the one that was pickled.")
    return budget
