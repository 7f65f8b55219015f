"""The choice of a way, a learning rate and a number of proxy steps, by held-out rows."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from proxyprox._util.files import atomic_output, locked
from proxyprox._util.validation import Words, message, positive
from proxyprox.advice.choice import Choice
from proxyprox.torch.ways import Way, as_way


@dataclass(frozen=True)
class HalvingPolicy:
    """How much ``choose_way`` may cost. The price is the one promised to users.

    Attributes
    ----------
    runs : float
        Full runs in all.
    factor : int
        By what the number of candidates is divided in every round, down to fewer than this.
    """

    runs: float = 3.0
    factor: int = 3


HALVING = HalvingPolicy()


@dataclass(frozen=True)
class Candidate:
    """A way to train: what ``train`` of :func:`choose_way` is called with.

    Attributes
    ----------
    name : str
        The name of the way.
    way : Way
        With the number of proxy steps.
    lr : float
        The learning rate.
    confusion : bool
        Whether wrong labels are corrected by what :func:`estimate_confusion` returns.
    """

    name: str
    way: Way
    lr: float
    confusion: bool = False

    def __str__(self) -> str:
        """Return name, learning rate and proxy steps."""
        steps = f", {self.way.proxy_steps} proxy steps" if self.way.proxy_steps else ""
        return f"{self.name}, lr {self.lr:g}{steps}{', confusion' * self.confusion}"


@dataclass(frozen=True)
class WayChoice(Choice):
    """The candidate that held-out rows preferred, and how the others of the last round compare."""

    candidate: Candidate | None = None


def choose_way(
    train: Callable[[Candidate, float], Any],
    lrs: Sequence[float],
    ways: Sequence[str] = ("late", "growing", "fine-tuned", "corrected", "target alone"),
    *,
    proxy_steps: Sequence[int] = (8,),
    confusion: bool = False,
    path: str | os.PathLike[str] | None = None,
    map: Callable[..., Iterable[Any]] = map,
) -> WayChoice:
    """Train candidates for longer and longer and return the one that held-out rows prefer.

    All ways are trained at the middle learning rate for a small part of a run, the best third of
    them for three times as long, and so on, until two are left: the first one, and the best of the
    others. Each of these gets the learning rate that is best for it, and a longer run. All of it
    costs at most three full runs. Another way than the first must be better by a standard error.

    Parameters
    ----------
    train : callable
        ``train(candidate, share)`` trains a new network with ``way=candidate.way`` and
        ``lr=candidate.lr``, for ``target_steps=round(share * T)``, and returns the loss of each
        held-out row of the target (or of each batch): a tensor, an array or a list.
    lrs : sequence of float
        Learning rates to compare.
    ways : sequence of str
        Names of ways; the first is the default, see :func:`default_way`.
    proxy_steps : sequence of int
        Numbers of proxy steps for each target step; the first is the default.
    confusion : bool
        Compare every candidate with and without a confusion matrix: ``candidate.confusion``.
    path : path-like, optional
        JSON file in which finished runs are kept at once; a second call trains the others only.
        Take another file for other data or settings, which it does not know.
    map : callable
        Like the built-in ``map``: ``ProcessPoolExecutor().map`` trains several at once.

    Returns
    -------
    WayChoice
        ``candidate``, and how far behind the others are.

    Examples
    --------
    >>> def train(candidate, share):
    ...     loss = candidate.lr + candidate.way.proxy_steps
    ...     return [loss, 2 * loss]
    >>> choice = choose_way(train, [0.1, 0.2, 0.4], ["late", "target alone"])
    >>> print(choice.candidate)
    target alone, lr 0.1
    """
    every = list_candidates(lrs, ways, proxy_steps, confusion)
    left = [c for c in every if c.lr == every[0].lr]
    sizes, several = round_sizes(len(left)), len(left) < len(every)
    rounds = len(sizes) + several
    # Another process that trains the same candidates would only repeat them.
    with nullcontext() if path is None else locked(path):
        known = read_losses(path)
        run = partial(train_candidates, train, rounds=rounds, known=known, path=path, map=map)
        for size in sizes[1:]:
            losses = run(left)
            others = sorted(left[1:], key=lambda c: np.mean(losses[str(c)]))
            left = [left[0], *others][:size]
        if several:
            tried = [[c for c in every if replace(c, lr=way.lr) == way] for way in left]
            losses = run([c for rates in tried for c in rates])
            left = [min(rates, key=lambda c: np.mean(losses[str(c)])) for rates in tried]
        return decide(left, run(left))


def list_candidates(
    lrs: Sequence[float], ways: Sequence[str], proxy_steps: Sequence[int], confusion: bool
) -> list[Candidate]:
    """Return all combinations, the default first."""
    for name, given in (("lrs", lrs), ("ways", ways), ("proxy_steps", proxy_steps)):
        if isinstance(given, str) or not list(given):
            raise ValueError(message(name, given, "one or more, in a list"))
    rates = sorted(positive("lrs", lr) for lr in lrs)
    middle = rates.pop(len(rates) // 2)
    every = itertools.product(
        ways, proxy_steps, [middle, *rates], (True, False) if confusion else (False,)
    )
    # Without proxy steps some combinations are equal.
    found = (
        Candidate(name, way := as_way(name, n), lr, confused and way.proxy_steps > 0)
        for name, n, lr, confused in every
    )
    return list(dict.fromkeys(found))


def round_sizes(count: int) -> list[int]:
    """Return how many candidates each round has: at last one beside the default."""
    sizes = [count]
    while sizes[-1] >= HALVING.factor:
        sizes.append(max(2, math.ceil(sizes[-1] / HALVING.factor)))
    return sizes


def read_losses(path: str | os.PathLike[str] | None) -> dict[str, list[float]]:
    """Return the losses that a file holds."""
    if path is None or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            return dict(json.load(file))
        except (ValueError, TypeError) as error:
            remedy = "Choose another path, or remove the file."
            raise ValueError(message("path", path, "a file of choose_way", remedy)) from error


def train_candidates(
    train: Callable[[Candidate, float], Any],
    candidates: Sequence[Candidate],
    *,
    rounds: int,
    known: dict[str, list[float]],
    path: str | os.PathLike[str] | None,
    map: Callable[..., Iterable[Any]],
) -> dict[str, list[float]]:
    """Return the held-out losses of each candidate; those that are known are not trained again."""
    share = min(1.0, HALVING.runs / rounds / len(candidates))
    keys = {c: f"{c}: {share:.4f}" for c in candidates}
    missing = [c for c in candidates if keys[c] not in known]
    found = map(partial(held_out, train), missing, [share] * len(missing))
    for candidate, numbers in zip(missing, found, strict=True):
        known[keys[candidate]] = numbers
        if path is not None:
            with atomic_output(path) as output:
                output.write(json.dumps(known).encode())
    losses = {str(c): known[keys[c]] for c in candidates}
    if len({len(found) for found in losses.values()}) > 1:
        counts = {name: len(found) for name, found in losses.items()}
        raise ValueError(message("numbers of held-out losses", counts, "equal, of the same rows"))
    return losses


def held_out(train: Callable[..., Any], candidate: Candidate, share: float) -> list[float]:
    """Train; return the losses as numbers, which tensors with a graph would not let pass to us.

    A run that diverged is worse than others.
    """
    returned = train(candidate, share)
    if isinstance(returned, torch.Tensor):
        returned = returned.detach().cpu().double()
    name, allowed = f"what train({candidate}) returns", "the losses of held-out rows, in one row"
    try:
        found = np.atleast_1d(np.asarray(returned, dtype=float))
    except (TypeError, ValueError) as error:
        raise TypeError(message(name, returned, allowed)) from error
    if found.ndim != 1 or not found.size:
        raise ValueError(message(name, Words(f"an array of shape {found.shape}"), allowed))
    return list(np.where(np.isfinite(found), found, math.inf).tolist())


def decide(candidates: Sequence[Candidate], losses: dict[str, list[float]]) -> WayChoice:
    """Return the default, or the best of the others if it is better by a standard error."""
    means = {name: float(np.mean(found)) for name, found in losses.items()}
    best = min(candidates, key=lambda c: means[str(c)])
    if not math.isfinite(means[str(best)]):
        got, remedy = Words("no finite loss in any way"), "Lower the learning rates."
        raise ValueError(message("train", got, "a network that has not diverged", remedy))
    default = str(candidates[0])
    gap = means[default] - means[str(best)]
    error = standard_error(np.subtract(losses[default], losses[str(best)]))
    chosen = candidates[0] if gap <= error else best
    name = str(chosen)
    errors = {n: standard_error(np.subtract(losses[n], losses[name])) for n in losses}
    meaning = f"{chosen.way!r}. The losses are those of the last round."
    return WayChoice(name, math.nan, means, errors, meaning, candidate=chosen)


def standard_error(gaps: Any) -> float:
    """Return the standard error of a mean of numbers; NaN if it is not known."""
    known = len(gaps) > 1 and np.isfinite(gaps).all()
    return float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if known else math.nan
