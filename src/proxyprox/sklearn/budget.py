"""Buying labels: ask for the next rows, tell their labels, stop when more would not pay."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from proxyprox._checks import file_path, fraction, instance, message, positive, require_takes, whole
from proxyprox._digests import data_digest
from proxyprox._isolation import copied_tree
from proxyprox.sklearn._bought import fitted, last_step, pool_of, reachable
from proxyprox.sklearn._criteria import NAMED, criterion_of, probabilities
from proxyprox.sklearn._journal import Answer, Draw, Journal
from proxyprox.sklearn._told import answers_of, label_fault

Array = Any


class LabelBudget:
    r"""The labels of a pool of rows, bought in batches.

    Rows are drawn uniformly without replacement, or with probabilities ``q_i`` from a criterion;
    a drawn row then counts ``1/(N q_i)`` in the fit, so that its gradient stays unbiased for the
    whole pool. Such rows are drawn with replacement, and one that is drawn again counts more but
    is not asked about again: a batch may therefore come out smaller than ``batch_size``.

    Parameters
    ----------
    estimator : estimator
        One of this package's, or a Pipeline that ends in one; it is cloned. A Pipeline's other
        steps are fitted to the whole pool, those that need labels to the bought rows.
    X : array, DataFrame or sparse matrix of shape (N, p)
        The pool, all of it serving as proxy.
    budget : int
        Labels that may be bought; more than N buy all N rows.
    batch_size : int
        Rows drawn at a time; with a criterion repeats among them are not asked about again.
    criterion : str or callable
        "uniform", "uncertainty" (classifiers), "leverage", or a function of the fitted estimator
        and X that returns a score ≥ 0 for each row.
    floor : float
        Share of uniform draws in a criterion's, in (0, 1]: no weight exceeds ``1/floor``.
    least_gain : float, optional
        Stop when ``ahead`` more labels are expected to lower the loss by less than this.
    ahead : int
        The labels meant in ``least_gain``.
    path : path-like, optional
        File of all draws and answers, an SQLite database; every answer is on disk before it
        counts, and an existing file is resumed. One process has it at a time, until `close`, the
        end of a ``with`` block or of the process; another one is refused. In one process a newer
        budget with the same path takes over. A journal of version 0.1 (JSON lines) stays as it
        is: its answers are copied once to a file with ".sqlite" behind the name.
    rng : int
        Seed of the draws.
    about : mapping, optional
        What else must agree for the answers of ``path`` to be usable, as JSON values. A digest of
        X is among them, under the name "data"; an entry of that name takes its place and that of
        the number of columns. An entry "classes" lists the labels that are allowed.

    Attributes
    ----------
    labels : dict
        The labels bought, by row number. An error in ``run`` or ``fit`` has them, too, as its
        attribute of that name.
    declined : set of int
        Rows that were answered by None, NaN or, for classifiers, an empty string or the
        estimator's mark of unlabelled rows: they are not asked again and cost nothing.
    path : Path or None
        Where the answers are.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> truth = (X[:, 0] + rng.normal(size=500) > 0).astype(int)
    >>> budget = LabelBudget(ProxyLogisticRegression(), X, budget=60, batch_size=20)
    >>> model = budget.run(lambda rows: truth[rows])
    >>> budget.spent, bool(model.score(X, truth) > 0.6)
    (60, True)
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        *,
        budget: int,
        batch_size: int = 25,
        criterion: Any = "uniform",
        floor: float = 0.25,
        least_gain: float | None = None,
        ahead: int = 100,
        path: str | os.PathLike[str] | None = None,
        rng: int = 0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        if path is not None:
            file_path("path", path)
        if about is not None:
            instance("about", about, Mapping, "a mapping of names to values, or None")
        self.estimator = estimator
        self.X = pool_of(X, estimator)
        self.rows = int(self.X.shape[0])
        self._wanted = whole("budget", budget)
        self.budget = min(self._wanted, self.rows)
        self.batch_size = whole("batch_size", batch_size)
        self.criterion = criterion_of(criterion)
        self.floor = fraction("floor", floor)
        self.least_gain = None if least_gain is None else positive("least_gain", least_gain)
        self.ahead = whole("ahead", ahead)
        self.labels: dict[int, Any] = {}
        self.declined: set[int] = set()
        self.weights = np.zeros(self.rows)
        self._draws = 0
        self._open: list[int] = []
        self._fitted: tuple[int, Any] | None = None
        name = criterion if isinstance(criterion, str) else getattr(criterion, "__name__", "own")
        header: dict[str, Any] = {"rows": self.rows, "criterion": name}
        header |= {"seed": whole("rng", rng, 0), "floor": self.floor, **(about or {})}
        self._classes = header.get("classes")
        if path is not None and "data" not in header:
            header |= {"data": data_digest(self.X), "columns": int(np.prod(self.X.shape[1:]))}
        # Files of the first version have no digest of the data.
        optional = ("data", "columns")
        self._journal = Journal(path, header, label_fault=self._label_fault, optional=optional)
        self.path = self._journal.path
        self._seed = rng
        for draw in self._journal.draws:
            self._enter_draw(draw)
        for answer in self._journal.answers:
            self._enter_answer(answer)

    def close(self) -> None:
        """Let another process have the file of answers; this object buys no more of them."""
        self._journal.close()

    def __enter__(self) -> LabelBudget:
        """Return the budget, whose file another process may have when the block ends."""
        return self

    def __exit__(self, *error: object) -> None:
        """Let another process have the file of answers."""
        self.close()

    # -- ask and tell -----------------------------------------------------------------------

    @property
    def spent(self) -> int:
        """Labels bought so far."""
        return len(self.labels)

    def ask(self) -> Array:
        """Return the rows whose labels are wanted; asking again does not change them."""
        if not self._open and self.finished is None:
            # Rows that a criterion draws again cost nothing, so a batch may come out empty.
            while not self._open:
                self._draw()
        # A draw made under a larger budget may leave more rows open than this one pays for.
        return np.array(self._open[: max(self.budget - self.spent, 0)], dtype=int)

    def tell(self, rows: Sequence[int] | Array | int, labels: Any) -> None:
        """Give labels of rows that were asked for, all or some of them.

        A row told again is a correction: the last answer counts. None is no answer: the row is
        noted as declined and not asked again.

        Parameters
        ----------
        rows : int or sequence of int
            Row numbers.
        labels : label or sequence of labels
            One for each, or None where there is no answer.
        """
        numbers = np.atleast_1d(np.asarray(rows)).tolist()
        answers = answers_of(labels, last_step(self.estimator))
        if len(numbers) != len(answers):
            got = f"{len(answers)} labels"
            raise ValueError(message("labels", got, f"one for each of the {len(numbers)} rows"))
        known = self.labels.keys() | self.declined | set(self._open)
        strange = [row for row in numbers if row not in known]
        if strange:
            allowed = f"rows that were asked for, {self._open[:8]}"
            raise ValueError(message("rows", strange[0], allowed))
        for label in answers:
            fault = None if label is None else self._label_fault(label)
            if fault is not None:
                raise ValueError(
                    f"labels has {label!r}, {fault}. Answer None if there is no label."
                )
        told = [Answer(int(row), label) for row, label in zip(numbers, answers, strict=True)]
        self._journal.add_answers(told)
        for answer in told:
            self._enter_answer(answer)

    @property
    def finished(self) -> str | None:
        """Why no more labels are wanted; None while some are."""
        if self._wanted <= self.rows and self.spent >= self.budget:
            return f"The budget of {self.budget} labels is spent."
        if self._open:
            return None
        if self.spent + len(self.declined) >= self.rows:
            return f"All {self.rows} rows have been asked for (the budget was {self._wanted})."
        if self.least_gain is not None and self.spent:
            gain = self.expected_gain()
            if gain < self.least_gain:
                return (
                    f"Another {self.ahead} labels are expected to lower the loss by {gain:.2g}, "
                    f"less than {self.least_gain:.2g}."
                )
        return None

    def run(self, oracle: Callable[[Array], Any]) -> Any:
        """Buy labels from a function until finished, and return the fitted estimator.

        Parameters
        ----------
        oracle : callable
            Returns the labels of an array of row numbers.
        """
        if not callable(oracle):
            raise TypeError(message("oracle", oracle, "a function of an array of row numbers"))
        require_takes("oracle", oracle, ("rows",))
        with reachable(self.labels):
            while self.finished is None:
                rows = self.ask()
                self.tell(rows, oracle(np.array(rows)))
            return self.fit()

    # -- what the labels say ------------------------------------------------------------------

    def fit(self) -> Any:
        """Return the estimator fitted to all labels so far, the rest of the pool as proxy."""
        known = self._fitted
        if known is not None and known[0] == self.spent:
            return known[1]
        bought = np.array(sorted(self.labels), dtype=int)
        if not len(bought):
            raise ValueError(message("labels", "none", "at least one", "Tell some first."))
        y = np.array([self.labels[int(row)] for row in bought])
        weights = None if self.criterion is None else self.weights[bought]
        with reachable(self.labels):
            model = fitted(self.estimator, self.X, bought, y, weights)
        self._fitted = (self.spent, model)
        return model

    def expected_gain(self, labels: int | None = None) -> float:
        r"""Return by how much more labels are expected to lower the loss.

        An unregularised fit to n labels lies ``tr(H C)/2 ∝ 1/n`` above the best linear model, C
        the covariance of its parameters; ``m`` more labels take ``m/(n + m)`` of that away. A
        regularised fit lies lower, so the estimate errs towards buying. Infinite while the
        labels do not determine the fit.

        Parameters
        ----------
        labels : int, optional
            Labels to come; ``ahead`` by default.
        """
        more = self.ahead if labels is None else whole("labels", labels)
        try:
            model = last_step(self.fit())
        except ValueError:
            # Labels of one class only: anything may still be learned.
            return float("inf")
        return float(model.excess_ * more / (model.n_labels_ + more))

    # -- internals --------------------------------------------------------------------------

    def _draw(self) -> None:
        # Each batch has randomness of its own: a resumed budget draws what it would have drawn.
        rng = np.random.default_rng([self._seed, self._draws])
        wanted = min(self.batch_size, self.budget - self.spent)
        scores = None if self.criterion is None else self._scores()
        if scores is None and self.criterion is None:
            left = np.setdiff1d(np.arange(self.rows), [*self.labels, *self.declined])
            wanted = min(wanted, len(left))
            rows, weights = rng.choice(left, wanted, replace=False), np.ones(wanted)
        else:
            q = np.full(self.rows, 1 / self.rows) if scores is None else scores
            rows = rng.choice(self.rows, wanted, p=q)
            weights = 1 / (self.rows * q[rows])
        draw = Draw(rows.tolist(), weights.tolist())
        self._journal.add_draw(draw)
        self._enter_draw(draw)

    def _scores(self) -> Array | None:
        assert self.criterion is not None
        try:
            model = self.fit()
        except ValueError:
            return None
        named = any(self.criterion is known for known in NAMED.values())
        X = self.X if named else copied_tree(self.X)
        return probabilities(self.criterion(model, X), self.rows, self.floor)

    def _label_fault(self, label: Any) -> str | None:
        return label_fault(label, last_step(self.estimator), self._classes)

    def _enter_draw(self, draw: Draw) -> None:
        self._draws += 1
        np.add.at(self.weights, np.array(draw.rows, dtype=int), draw.weights)
        known = self.labels.keys() | self.declined
        self._open = list(dict.fromkeys(row for row in draw.rows if row not in known))

    def _enter_answer(self, answer: Answer) -> None:
        row, label = answer
        if label is None:
            self.labels.pop(row, None)
            self.declined.add(row)
        else:
            self.labels[row] = label
            self.declined.discard(row)
        self._fitted = None
        self._open = [other for other in self._open if other != row]
