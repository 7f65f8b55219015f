"""Few labels, many inputs: test loss against the number of labels, with and without a teacher."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn import datasets as built_in
from sklearn.preprocessing import StandardScaler

from proxyprox import datasets
from proxyprox._checks import message, whole
from proxyprox.experiments.label_methods import ALONE, PPI, TAUGHT, loss_of
from proxyprox.experiments.records import Point
from proxyprox.experiments.tournament import Entry, Job

BUILT_IN = ("breast_cancer", "wine", "digits")
TEACHERS = {"good": 0.05, "mediocre": 0.25, "bad": 0.5}
"""Teachers, by the share of wrong answers they give; at one half they know nothing."""

MOST_TAUGHT = 1000
"""Labels up to which teachers are tried: with more there is little left to teach."""

Array = Any


@dataclass(frozen=True)
class Config:
    """Settings of the experiment.

    Attributes
    ----------
    datasets : tuple of str
        Sets without a teacher, one panel each: "breast_cancer", "wine" and "digits" ship with
        scikit-learn, other names are LIBSVM sets.
    taught : tuple of str
        Sets of two classes with a teacher, one panel for each teacher.
    labels : tuple of int
        Numbers of labels; with a teacher those up to 1000.
    seeds : int
        Draws of test rows, labels and answers.
    """

    datasets: tuple[str, ...] = ("breast_cancer", "wine", "digits", "mushrooms", "a9a")
    taught: tuple[str, ...] = ("a9a",)
    labels: tuple[int, ...] = (20, 50, 200, 1000, 5000)
    seeds: int = 10

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole("seeds", self.seeds)
        if not self.labels or not (self.datasets or self.taught):
            raise ValueError(message("labels and datasets", (), "one of each at least"))
        for number in self.labels:
            whole("labels", number, 4)


@dataclass(frozen=True)
class Draw:
    """Rows of one seed: those with labels first, then the proxy's, and the test rows."""

    X: Any
    y: Array
    answers: Array | None
    X_proxy: Any
    X_test: Any
    y_test: Array
    classes: Array


def entries(config: Config) -> list[Entry]:
    """Return the curves of all panels."""
    curves = []
    for name in config.datasets:
        curves += [Entry(name, method, None, (None,), effort) for method, effort in ALONE]
    for name in config.taught:
        if len(np.unique(_data(name)[1])) != 2:
            raise ValueError(message("taught", name, "a set of two classes"))
        with_ppi = [*TAUGHT, *(PPI if find_spec("ppi_py") else ())]
        for teacher in TEACHERS:
            panel = f"{name}, {teacher} teacher"
            curves += [Entry(panel, method, None, (None,), effort) for method, effort in with_ppi]
    return curves


def run_job(config: Config, job: Job) -> list[Point]:
    """Fit one method to growing numbers of labels of one draw."""
    name, _, teacher = job.panel.partition(", ")
    flip = TEACHERS[teacher.removesuffix(" teacher")] if teacher else None
    points = []
    for labels in usable(config.labels, len(_data(name)[1])):
        if teacher and labels > MOST_TAUGHT:
            break
        drawn = draw(name, labels, job.seed, flip)
        begun = time.process_time()
        loss = loss_of(job.method, drawn, seed=job.seed)
        seconds = time.process_time() - begun
        # A method without an answer (see label_methods) leaves a gap, not a number.
        known = loss if math.isfinite(loss) else None
        points.append({"labels": labels, "test_loss": known, "seconds": seconds})
    return points


def usable(labels: Sequence[int], rows: int) -> list[int]:
    """Return the numbers of labels that leave at least as many rows without one."""
    return [number for number in sorted(labels) if number <= rows // 3]


def draw(name: str, labels: int, seed: int, flip: float | None = None) -> Draw:
    """Draw test rows (a third), labelled rows and the proxy's rows.

    The labelled rows of a smaller number are among those of a larger one, and every class has two
    labels at least, because without them the yardsticks cannot cross-validate.

    Parameters
    ----------
    name : str
        Data set.
    labels : int
        Labelled rows.
    seed : int
        Seed of the draw.
    flip : float, optional
        Share of a teacher's wrong answers; None for no teacher.
    """
    X, y = _data(name)
    rng = np.random.default_rng([seed, 6])
    order = rng.permutation(len(y))
    test, pool = order[: len(y) // 3], order[len(y) // 3 :]
    classes = np.unique(y)
    first = np.concatenate([pool[y[pool] == c][:2] for c in classes])
    pool = np.concatenate([first, pool[~np.isin(pool, first)]])
    bought = pool[: max(labels, len(first))]
    rest = pool[len(bought) :]
    answers = None
    if flip is not None:
        rows = np.concatenate([bought, rest])
        wrong = rng.random(len(y))[rows] < flip
        answers = np.where(wrong, classes.sum() - y[rows], y[rows])
    return Draw(X[bought], y[bought], answers, X[rest], X[test], y[test], classes)


def facts(config: Config) -> dict[str, str]:
    """Return the size of each data set."""
    names = dict.fromkeys((*config.datasets, *config.taught))
    return {n: "{} rows, {} columns".format(*_data(n)[0].shape) for n in names}


def fetch(config: Config, *, download: bool, progress: bool) -> None:
    """Find every set before there are workers, so that one that is missing is one message."""
    for name in dict.fromkeys((*config.datasets, *config.taught)):
        if name not in BUILT_IN:
            datasets.load(name, download=download, progress=progress)


@lru_cache(maxsize=2)
def _data(name: str) -> tuple[Any, Array]:
    if name in BUILT_IN:
        X, y = getattr(built_in, f"load_{name}")(return_X_y=True)
        # Scaled by all inputs, which cost no labels.
        return StandardScaler().fit_transform(X), y
    data = datasets.load(name)
    return data.X, np.unique(data.y, return_inverse=True)[1]
