"""Logistic regression with a proxy that has no labels: the paper's Figure 1, and the demo."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from proxyprox import GLM, Problem, datasets, logistic_regression
from proxyprox._util.validation import fraction, message, positive, whole
from proxyprox.experiments.contest import exact, marks, named, play, published, yardstick
from proxyprox.experiments.records import Point
from proxyprox.experiments.tournament import Entry, Job
from proxyprox.inner.exact import minimise_exactly

SUBSAMPLED = "subsampled proxy"
BUILT_IN = "breast_cancer"
"""The set that ships with scikit-learn; any other name is looked up in `proxyprox.datasets`."""


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the defaults are the paper's.

    Attributes
    ----------
    dataset : str
        ``"breast_cancer"``, or the name of a LIBSVM set with two classes.
    batch_sizes : tuple of int
        Rows of a stochastic gradient; one panel each, with the label-free proxy.
    fractions : tuple of float
        Sizes of the subsampled proxies of the last panel, as shares of the rows; empty for none.
    subsample_batch : int or None
        Rows of a stochastic gradient in that panel; None for full gradients.
    relative_l2 : float
        L2 strength in units of the loss's smoothness H.
    inner_steps : int
        Gradient-descent steps of the methods as published.
    budget : int
        Target gradients of a run.
    tuning_budget : int
        Target gradients of a grid run.
    seeds : int
        Runs of each method.
    """

    dataset: str = "mushrooms"
    batch_sizes: tuple[int, ...] = (1024, 256)
    fractions: tuple[float, ...] = (0.01, 0.05, 0.2, 0.5)
    subsample_batch: int | None = 256
    relative_l2: float = 1e-6
    inner_steps: int = 20
    budget: int = 1000
    tuning_budget: int = 250
    seeds: int = 5

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("inner_steps", "budget", "tuning_budget", "seeds"):
            whole(name, getattr(self, name))
        if not self.batch_sizes:
            raise ValueError(message("batch_sizes", self.batch_sizes, "one size at least"))
        for size in self.batch_sizes:
            whole("batch_sizes", size)
        for share in self.fractions:
            fraction("fractions", share)
        positive("relative_l2", self.relative_l2)


DEMO = Config(
    dataset=BUILT_IN,
    batch_sizes=(256,),
    fractions=(0.1, 0.3),
    subsample_batch=None,
    relative_l2=1e-4,
    budget=200,
    tuning_budget=50,
)
"""The same comparison in miniature, on data that is always there."""


def fetch(config: Config, *, download: bool = True, progress: bool = False) -> None:
    """Make sure that the data is on this machine, before any run asks for it.

    Parameters
    ----------
    config : Config
        The experiment.
    download : bool
        False: never use the network.
    progress : bool
        Show a progress bar while downloading.

    Raises
    ------
    DatasetError
        When the set cannot be had; the message says where it was looked for.
    """
    if config.dataset != BUILT_IN:
        datasets.load(config.dataset, download=download, progress=progress)


def entries(config: Config) -> list[Entry]:
    """Return the curves of all panels."""
    H = _target(config).smoothness
    lineup = (*published(config.inner_steps), *exact())
    honest = yardstick()
    curves: list[Entry] = []
    for size in config.batch_sizes:
        panel = f"batch {size}"
        curves += [Entry(panel, c.name, size, c.etas(H), c.effort) for c in lineup]
        curves.append(Entry(panel, honest.name, size, (None,), honest.effort))
    if config.fractions:
        sgd, solved, batch = published(1)[0], exact()[0], config.subsample_batch
        base = "SGD" if batch else _GD
        curves.append(Entry(SUBSAMPLED, base, batch, sgd.etas(H), sgd.effort))
        names = [_share_name(share) for share in config.fractions]
        # At full gradients the label-free proxy is solved in one step: nothing to draw.
        names += [_LABEL_FREE] if batch else []
        curves += [Entry(SUBSAMPLED, name, batch, solved.etas(H), 0.7) for name in names]
    return curves


_LABEL_FREE = "ProxyProx, all inputs, no labels"
_GD = "gradient descent"


def _share_name(share: float) -> str:
    return f"ProxyProx, {share:.0%} of the rows"


def run_job(config: Config, job: Job) -> list[Point]:
    """Run one job; what :func:`~proxyprox.experiments.tournament.hold` calls in its workers."""
    target = _target(config)
    if job.panel == SUBSAMPLED:
        contender = published(1)[0] if job.method in ("SGD", _GD) else exact()[0]
        proxy = _subsampled(config, job, target)
    else:
        contender, proxy = named(job.method, config.inner_steps), _label_free(target, job.seed)
    return play(
        contender,
        job.eta,
        Problem(target.with_batch_size(job.batch_size), proxy),
        optimum=_optimum(config),
        budget=job.budget,
        seed=job.seed,
        at=marks(job.budget),
    )


def facts(config: Config) -> dict[str, Any]:
    """Return what a reader of the results needs to know about the data."""
    target = _target(config)
    return {
        "rows": target.design.rows,
        "columns": target.design.columns,
        "smoothness H": target.smoothness,
        "l2": target.l2,
        "optimal loss": _optimum(config),
    }


def _label_free(target: GLM, seed: int) -> GLM:
    # Random labels, as in the paper; which ones cannot matter, and a test shows it.
    return target.label_free(rng=np.random.default_rng([seed, 1]))


def _subsampled(config: Config, job: Job, target: GLM) -> GLM:
    for share in config.fractions:
        if job.method == _share_name(share):
            rows = max(1, round(share * target.design.rows))
            return target.subsample(rows, rng=np.random.default_rng([job.seed, 2]))
    return _label_free(target, job.seed)


def _target(config: Config) -> GLM:
    return _built(config.dataset, config.relative_l2)


def _optimum(config: Config) -> float:
    return _best_value(config.dataset, config.relative_l2)


@lru_cache(maxsize=1)
def _built(dataset: str, relative_l2: float) -> GLM:
    built_in = dataset == BUILT_IN
    if built_in:
        X, y = load_breast_cancer(return_X_y=True)
        X = StandardScaler().fit_transform(X)
    else:
        data = datasets.load(dataset)
        X, y = data.X, data.y
    # One thread, as in the workers: sums in another order would differ in their last digits.
    with threadpool_limits(1):
        H = logistic_regression(X, y, intercept=built_in).smoothness
        target = logistic_regression(X, y, intercept=built_in, l2=relative_l2 * H)
        target.smoothness  # noqa: B018 (computed now, and kept)
    return target


@lru_cache(maxsize=1)
def _best_value(dataset: str, relative_l2: float) -> float:
    target = _built(dataset, relative_l2)
    with threadpool_limits(1):
        return target.value(minimise_exactly(target, target.zeros()))
