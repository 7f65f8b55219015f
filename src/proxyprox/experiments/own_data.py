"""A run on one's own data: a model, target rows, a proxy, a method, and what to compare with."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse.linalg
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from proxyprox import (
    GLM,
    L1,
    Budget,
    Problem,
    Zero,
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)
from proxyprox._arrays import Vector, norm
from proxyprox.datasets import Table
from proxyprox.experiments._exact import minimiser
from proxyprox.experiments.contenders import ERM
from proxyprox.experiments.contest import fit_rows_seen, marks, play_and_keep
from proxyprox.experiments.own_config import Config
from proxyprox.experiments.own_fit import fit_file, keep_result, keep_rows_seen
from proxyprox.experiments.own_methods import lineup
from proxyprox.experiments.own_tables import classes_of, digests, read_tables
from proxyprox.experiments.records import Point
from proxyprox.experiments.tournament import Entry, Job

PANEL = "your data"

_ROUGH = 1e-6
"""A reference is said to be rough if its gradient, or that relative to the one at zero if that is
above 1, is larger than this."""


@dataclass(frozen=True)
class Study:
    """The problem that a configuration describes, built from its files."""

    target: GLM
    other: GLM | None
    penalty: L1 | None
    optimum: float
    reference_residual: float
    curvature: float
    centre: Vector
    scale: Vector
    names: tuple[str, ...]
    classes: tuple[Any, ...]


def prepare(config: Config, base: Path) -> Config:
    """Read the data, so that its mistakes show at once, and return the settings with digests.

    Parameters
    ----------
    config : Config
        The settings.
    base : Path
        Folder that file names are relative to.

    Raises
    ------
    DataError
        For a file that cannot be used.
    """
    complete = replace(config, data=digests(config, base))
    study(complete, base)
    return complete


def entries(config: Config, base: Path) -> list[Entry]:
    """Return the curves: the method of the configuration first."""
    built = study(config, base)
    curves = []
    for position, contender in enumerate(lineup(config)):
        full = contender.name in ("DANE", "gradient descent")
        etas: tuple[float | str | None, ...] = contender.etas(built.curvature)
        if contender.name == ERM:
            etas = (None,)
        elif config.method.eta == "auto":
            # Equal effort: where one's own method is not tuned, the others are not either.
            etas = ("auto",)
        elif position == 0 and config.method.eta is not None:
            etas = tuple(dict.fromkeys(config.method.eta))
        size = None if full else config.method.batch_size
        curves.append(Entry(PANEL, contender.name, size, etas, contender.effort))
    return curves


def run_job(config: Config, job: Job, *, base: Path, keep: Path | None = None) -> list[Point]:
    """Run one job; the first final run of each method leaves its answer in folder `keep`."""
    built = study(config, base)
    contender = next(c for c in lineup(config) if c.name == job.method)
    problem = Problem(
        built.target.with_batch_size(job.batch_size), _proxy(config, built, job), built.penalty
    )
    seed = np.random.SeedSequence([config.run.seed, job.seed])
    at = marks(job.budget)
    path = None
    if keep is not None and job.seed == 0:
        path = fit_file(keep, job.method, main=job.method == main_name(config))
    if contender.name == ERM:
        points, w, ledger = fit_rows_seen(problem, optimum=built.optimum, seed=seed, at=at)
        if path is not None:
            keep_rows_seen(path, job, w, problem.value(w) - built.optimum, ledger)
        return points
    assert job.eta is not None
    points, result = play_and_keep(
        contender,
        job.eta,
        problem,
        optimum=built.optimum,
        budget=Budget(target_gradients=job.budget, seconds=config.run.seconds),
        seed=seed,
        at=at,
    )
    if path is not None:
        keep_result(path, job, result, problem.value(result.w) - built.optimum)
    return points


def problem(config: Config, base: Path) -> Problem:
    """Return the problem of the first final run: target, proxy and penalty."""
    built, size = study(config, base), config.method.batch_size
    job = Job(PANEL, main_name(config), size, None, 0, config.run.target_gradients, 1.0)
    return Problem(built.target.with_batch_size(size), _proxy(config, built, job), built.penalty)


def main_name(config: Config) -> str:
    """Return the name of the configuration's own method, as in the figures."""
    return lineup(config)[0].name


def facts(config: Config, base: Path) -> dict[str, Any]:
    """Return what a reader of the results needs to know about the data."""
    built = study(config, base)
    known: dict[str, Any] = {
        "rows": built.target.design.rows,
        "columns": built.target.design.columns,
        "curvature": built.curvature,
        "optimal loss": built.optimum,
    }
    if built.other is not None:
        known["proxy rows"] = built.other.design.rows
    if built.classes:
        known["classes"] = [str(value) for value in built.classes]
    return known


def notes(config: Config, base: Path) -> list[str]:
    """Return what should be read with the numbers."""
    said = []
    built = study(config, base)
    if built.reference_residual > _ROUGH:
        said.append(
            "The optimum was found only to a gradient of relative norm "
            f"{built.reference_residual:.1e}, so small suboptimalities mean little."
        )
        if built.classes:
            said[-1] += (
                " If two classes can be told apart perfectly there is no optimum: a larger l2 "
                "makes one."
            )
    if config.run.seconds is not None:
        said.append(
            f"Runs end after {config.run.seconds:g} s: later points repeat the last answer, and "
            "a repetition may differ."
        )
    return said


@lru_cache(maxsize=1)
def study(config: Config, base: Path) -> Study:
    """Build the problem; the last one is kept for the next job of this process."""
    # One thread, as in the workers: sums in another order would differ in their last digits.
    with threadpool_limits(1):
        table, rows = read_tables(config, base)
        centre, scale = _scaling(config, table)
        target = _loss(config, table, table, centre, scale)
        other = None if rows is None else _loss(config, rows, table, centre, scale)
        penalty = _penalty(config, target)
        start = target.zeros()
        # The proximal gradient method is not worth pushing to the last digit.
        best = minimiser(target, start, tol=1e-12 if penalty is None else 1e-9, penalty=penalty)
        slope = target.gradient(best)
        residual = norm(slope) if penalty is None else penalty.distance(best, slope)
        # Labels of 40,000 make gradients of 40,000, and rounding as much larger.
        residual /= max(1.0, norm(target.gradient(start)))
        known = target.smoothness
        curvature = known if math.isfinite(known) else _curvature(target, best)
        classed = config.model.family in ("logistic", "softmax")
        return Study(
            target=target,
            other=other,
            penalty=penalty,
            optimum=Problem(target, Zero(), penalty).value(best),
            reference_residual=float(residual),
            curvature=curvature,
            centre=centre,
            scale=scale,
            names=table.feature_names,
            classes=classes_of(config, table.y) if classed else (),
        )


def _scaling(config: Config, table: Table) -> tuple[Vector, Vector]:
    width = len(table.feature_names)
    if not config.model.standardize:
        return np.zeros(width), np.ones(width)
    # Without an intercept a shift cannot be undone, and a sparse table would fill up.
    shifted = config.model.intercept and not scipy.sparse.issparse(table.X)
    scaler = StandardScaler(with_mean=shifted).fit(table.X, sample_weight=table.sample_weight)
    return (scaler.mean_ if shifted else np.zeros(width)), scaler.scale_


def _loss(config: Config, table: Table, target: Table, centre: Vector, scale: Vector) -> GLM:
    sparse = scipy.sparse.issparse(table.X)
    X = table.X.multiply(1 / scale).tocsr() if sparse else (table.X - centre) / scale
    options: dict[str, Any] = {
        "l2": config.model.l2,
        "intercept": config.model.intercept,
        "sample_weight": table.sample_weight,
    }
    labels = None if table is not target and config.proxy.kind == "label-free" else table.y
    if config.model.family == "linear":
        return linear_regression(X, labels, **options)
    if config.model.family == "poisson":
        return poisson_regression(X, labels, **options)
    classes: Any = classes_of(config, target.y)
    build = logistic_regression if config.model.family == "logistic" else softmax_regression
    return build(X, labels, classes=classes, **options)


def _penalty(config: Config, target: GLM) -> L1 | None:
    if not config.model.l1:
        return None
    strength = np.full((target.design.width, target.family.outputs), config.model.l1)
    if target.design.intercept:
        strength[-1] = 0.0
    return L1(strength.ravel())


def _curvature(target: GLM, w: Vector) -> float:
    """Return the largest curvature at a point, where no bound holds everywhere."""
    if target.dim < 3:
        return float(np.linalg.eigvalsh(target.hessian(w))[-1])
    operator = scipy.sparse.linalg.LinearOperator(
        (target.dim, target.dim), matvec=lambda v: target.hvp(w, v.ravel()), dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(target.dim)
    return float(scipy.sparse.linalg.eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])


def _proxy(config: Config, built: Study, job: Job) -> Any:
    kind = config.proxy.kind
    if kind == "none":
        return Zero()
    if built.other is not None:
        return built.other
    if kind == "label-free":
        return built.target.label_free()
    rows = config.proxy.rows or round((config.proxy.fraction or 0) * built.target.design.rows)
    rng = np.random.default_rng([config.run.seed, job.seed, 1])
    return built.target.subsample(max(1, rows), rng=rng)


def fit(
    config: Config, base: Path, folder: Path, entry: Entry, eta: float | str | None
) -> dict[str, Any]:
    """Return the answer that an entry left in `folder`; run it again if it is not there."""
    path = fit_file(folder, entry.method, main=entry.method == main_name(config))
    if not path.exists():
        budget = config.run.target_gradients
        job = Job(PANEL, entry.method, entry.batch_size, eta, 0, budget, entry.effort)
        run_job(config, job, base=base, keep=folder)
    answer: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return answer
