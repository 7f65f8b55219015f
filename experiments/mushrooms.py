"""Figure 1 of the paper: logistic regression with a proxy that has no labels."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import proxyprox as pp
from experiments import datasets
from experiments.compare import (
    LEDGER_FIELDS,
    ROWS_SEEN,
    Candidate,
    Curve,
    Job,
    evaluation_points,
    run_candidate,
)
from experiments.records import publish
from experiments.report.summary import Point
from experiments.rivals import Momentum
from experiments.shared import (
    Experiment,
    Json,
    NoDownload,
    Output,
    Record,
    Seeds,
    Workers,
    guarded,
    listed,
    run_and_report,
    start,
)
from proxyprox._util.validation import fraction, message, positive, whole
from proxyprox.inner.exact import minimise_exactly

EXACT = 1e-8
"""‖∇φ_k‖ to which an "exact" subproblem is solved."""
SUBSAMPLED = "subsampled proxy"
LABEL_FREE = "ProxyProx, all inputs, no labels"
ONE_GRADIENT = "DANE(η = ∞), one full gradient"
BUILT_IN = "breast_cancer"
"""The set that ships with scikit-learn; any other name is looked up in `experiments.datasets`."""


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


def rivals() -> tuple[Candidate, ...]:
    """Return the methods without a proxy, each with nine step sizes and the usual momenta."""
    return (
        Candidate("SGD", lambda eta: {"method": pp.SGD(eta)}, 0.1, 2.5, 0.2),
        Candidate("heavy ball", lambda eta: {"method": Momentum(eta)}, 0.025, 2.5, 0.2),
        Candidate(
            "Nesterov",
            lambda eta: {"method": Momentum(eta, nesterov=True)},
            0.025,
            2.5,
            0.2,
        ),
        Candidate("Adam", lambda eta: {"method": pp.Adam(eta)}, 0.01, 2.5, 0.2),
    )


def published_methods(inner_steps: int) -> tuple[Candidate, ...]:
    """Return the three methods of the paper's figure with gradient-descent inner steps."""
    stop = pp.stopping.Steps(inner_steps)
    note = f"{inner_steps} GD steps"

    def proxyprox(eta: float) -> dict[str, Any]:
        # T steps of size η/T, implicit in the quadratic, cover the proximal step: one number to
        # tune, as for the others. Such a step is an explicit one of size 1/(T/η + 1/η).
        inner = pp.inner.GradientDescent(step_size=eta / (inner_steps + 1))
        return {"method": pp.ProxyProx(eta), "inner": inner, "stop": stop}

    def auxmom(gamma: float) -> dict[str, Any]:
        return {
            "method": pp.ProxyProx(math.inf, pp.corrections.EMA(0.1)),
            "inner": pp.inner.GradientDescent(gamma),
            "stop": stop,
        }

    def auxmvr(gamma: float) -> dict[str, Any]:
        return {
            "method": pp.ProxyProx(math.inf, pp.corrections.Storm(0.1)),
            "inner": pp.inner.GradientDescent(gamma),
            "stop": stop,
        }

    return (
        Candidate(f"ProxyProx, {note}", proxyprox, 0.25, 3.0, inner_steps / 4),
        Candidate(f"AuxMom, {note}", auxmom, 0.05, 2.5, inner_steps / 4),
        Candidate(f"AuxMVR, {note}", auxmvr, 0.05, 2.5, inner_steps / 8),
    )


def exact_methods() -> tuple[Candidate, ...]:
    """Return ProxyProx with solved subproblems and three corrections: beyond the paper."""
    grids: dict[str, tuple[Any, float, float, float]] = {
        "ProxyProx, exact": (pp.corrections.Plain(), 1.0, 4.0, 1.0),
        "ProxyProx, exact, EMA": (pp.corrections.EMA(0.1), 0.25, 8.0, 1.5),
        "ProxyProx, exact, running mean": (pp.corrections.Mean(), 0.25, 8.0, 1.0),
    }

    def candidate(name: str, correction: Any, *grid: float) -> Candidate:
        def build(eta: float) -> dict[str, Any]:
            return {"method": pp.ProxyProx(eta, correction), "stop": pp.stopping.Residual(EXACT)}

        return Candidate(name, build, *grid)

    return tuple(candidate(name, *settings) for name, settings in grids.items())


def all_methods(inner_steps: int) -> tuple[Candidate, ...]:
    """Return every method of the panels with a label-free proxy."""
    own = Candidate(ONE_GRADIENT, None, math.nan, math.nan, 0.1)
    return (*rivals(), *published_methods(inner_steps), *exact_methods(), ROWS_SEEN, own)


def curves(config: Config) -> list[Curve]:
    """Return the curves of all panels."""
    H = target_loss(config).smoothness
    found = [
        Curve(f"batch {size}", method.name, size, method.etas(H), method.effort)
        for size in config.batch_sizes
        for method in all_methods(config.inner_steps)
    ]
    if config.fractions:
        sgd, *_, adam = rivals()
        exact, batch = exact_methods()[0], config.subsample_batch
        base = "SGD" if batch else "gradient descent"
        found.append(Curve(SUBSAMPLED, base, batch, sgd.etas(H), sgd.effort))
        found.append(Curve(SUBSAMPLED, adam.name, batch, adam.etas(H), adam.effort))
        names = [_share_name(share) for share in config.fractions]
        # At full gradients the label-free proxy is solved in one step: nothing to draw.
        names += [LABEL_FREE] if batch else []
        found += [Curve(SUBSAMPLED, name, batch, exact.etas(H), 0.7) for name in names]
    return found


def _share_name(share: float) -> str:
    return f"ProxyProx, {share:.0%} of the rows"


def run_job(config: Config, job: Job) -> list[Point]:
    """Run one job, in a worker process."""
    if job.method == ONE_GRADIENT:
        return one_full_gradient(config, job)
    target = target_loss(config)
    # Random labels, as in the paper; which ones cannot matter, and a test shows it.
    labels = np.random.default_rng([job.seed, 1]).integers(2, size=target.design.rows)
    proxy = pp.logistic_regression(target.design.X, labels, classes=(0, 1), l2=target.l2)
    if job.panel == SUBSAMPLED:
        sgd, *_, adam = rivals()
        candidate = adam if job.method == adam.name else sgd
        if job.method.startswith("ProxyProx"):
            candidate = exact_methods()[0]
        shares = {_share_name(share): share for share in config.fractions}
        if job.method in shares:
            rows = max(1, round(shares[job.method] * target.design.rows))
            proxy = target.subsample(rows, rng=np.random.default_rng([job.seed, 2]))
    else:
        candidate = next(m for m in all_methods(config.inner_steps) if m.name == job.method)
    points, _ = run_candidate(
        candidate,
        job.eta,
        pp.Problem(target.with_batch_size(job.batch_size), proxy),
        optimum=_best_value(config.dataset, config.relative_l2),
        budget=pp.Budget(target_gradients=job.budget),
        seed=job.seed,
        at=evaluation_points(job.budget),
    )
    return points


def one_full_gradient(config: Config, job: Job) -> list[Point]:
    """Return the start, and from the price of one full gradient on what DANE makes of it.

    The price is that of all rows in minibatches of the panel's size.
    """
    target = target_loss(config)
    problem = pp.Problem(target.with_batch_size(None), target.label_free())
    stop = pp.stopping.Residual(1e-12)
    result = pp.minimize(problem, method=pp.DANE(eta=math.inf), steps=1, stop=stop)
    price = math.ceil(target.design.rows / (job.batch_size or target.design.rows))
    # The place of the fall is shown exactly, between two of the usual points.
    at = sorted(
        {*evaluation_points(job.budget), min(price, job.budget), min(price, job.budget) - 1}
    )
    points: list[Point] = []
    for spent in at:
        paid = spent >= price
        w, ledger = (result.w, result.ledger.as_dict()) if paid else (target.zeros(), {})
        value = target.value(w) - _best_value(config.dataset, config.relative_l2)
        known = {name: ledger.get(name, 0) for name in LEDGER_FIELDS}
        points.append({"target_gradients": spent, **known, "suboptimality": value})
    return points


def page_table(record: Path) -> str:
    """Return the suboptimality after 1000 gradients, and when the exact method was as low.

    Parameters
    ----------
    record : Path
        ``summary.json`` of a run.
    """
    panels, last, ours = ("batch 1024", "batch 256"), 1000, "ProxyProx, exact"
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in json.loads(record.read_text(encoding="utf-8"))["rows"]:
        found.setdefault((row["method"], row["panel"]), {})[row["target_gradients"]] = row[
            "suboptimality_median"
        ]
    lines = ["| method | batch 1024 | as low after | batch 256 | as low after |", "|" + "---|" * 5]
    for method in dict.fromkeys(name for name, panel in found if panel == panels[0]):
        cells = [method]
        for panel in panels:
            end = found[method, panel][last]
            path = sorted(found[ours, panel].items())
            reached = next((k for k, value in path if k < last and value <= end), None)
            cells += [f"{abs(end):.1e}", "" if reached is None else str(reached)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def facts(config: Config) -> dict[str, Any]:
    """Return what a reader of the results needs to know about the data."""
    target = target_loss(config)
    return {
        "rows": target.design.rows,
        "columns": target.design.columns,
        "smoothness H": target.smoothness,
        "l2": target.l2,
        "optimal loss": _best_value(config.dataset, config.relative_l2),
    }


def target_loss(config: Config) -> pp.GLM:
    """Return the loss on all rows and labels."""
    return _loss(config.dataset, config.relative_l2)


@lru_cache(maxsize=1)
def _loss(dataset: str, relative_l2: float) -> pp.GLM:
    built_in = dataset == BUILT_IN
    if built_in:
        X, y = load_breast_cancer(return_X_y=True)
        X = StandardScaler().fit_transform(X)
    else:
        data = datasets.load(dataset)
        X, y = data.X, data.y
    # One thread, as in the workers: sums in another order would differ in their last digits.
    with threadpool_limits(1):
        H = pp.logistic_regression(X, y, intercept=built_in).smoothness
        target = pp.logistic_regression(X, y, intercept=built_in, l2=relative_l2 * H)
        target.smoothness  # noqa: B018 (computed now, and kept)
    return target


@lru_cache(maxsize=1)
def _best_value(dataset: str, relative_l2: float) -> float:
    target = _loss(dataset, relative_l2)
    with threadpool_limits(1):
        return target.value(minimise_exactly(target, target.zeros()))


@guarded
def mushrooms(
    context: typer.Context,
    output: Output = None,
    seeds: Seeds = 5,
    budget: Annotated[int, typer.Option(min=1, help="Target gradients of a run.")] = 1000,
    tuning_budget: Annotated[
        int, typer.Option(min=1, help="Target gradients of a run that tries a step size.")
    ] = 250,
    inner_steps: Annotated[
        int, typer.Option(min=1, help="Gradient-descent steps of the methods as published.")
    ] = 20,
    batch_sizes: Annotated[
        str, typer.Option(help="Rows of a target gradient; one panel each.")
    ] = "1024,256",
    fractions: Annotated[
        str, typer.Option(help="Shares of the rows in the subsampled proxies, or none.")
    ] = "0.01,0.05,0.2,0.5",
    dataset: Annotated[
        str, typer.Option(help="Another LIBSVM set of two classes, such as a9a.")
    ] = "mushrooms",
    no_download: NoDownload = False,
    workers: Workers = None,
    record: Record = False,
    as_json: Json = False,
) -> None:
    """Logistic regression with a proxy that has no labels: the paper's Figure 1.

    Three panels (batch 1024, batch 256, and proxies made of a part of the rows), every step size
    tuned on a grid of nine, those of the rivals without a proxy as well, median and quartiles over
    seeds. Finished runs found in the folder are used.

    Examples
    --------
    python -m experiments.mushrooms
    python -m experiments.mushrooms --output runs/quick --seeds 3 --budget 300
    python -m experiments.mushrooms --dataset a9a --output runs/a9a
    PROXYPROX_DATA=~/data python -m experiments.mushrooms --no-download

    Ctrl-C keeps what is finished; the same command resumes.
    """
    config = Config(
        dataset=dataset,
        batch_sizes=listed(int, "whole numbers")(batch_sizes),
        fractions=listed(float, "numbers")(fractions),
        inner_steps=inner_steps,
        budget=budget,
        tuning_budget=tuning_budget,
        seeds=seeds,
    )
    folder = output or Path("runs") / dataset
    # Once, before there are workers: a missing set is one message.
    if dataset != BUILT_IN:
        datasets.load(dataset, download=not no_download, progress=sys.stderr.isatty())
    experiment = Experiment(
        title=f"Logistic regression on {dataset} with a proxy that has no labels",
        config=config,
        curves=curves(config),
        run_job=run_job,
        seeds=seeds,
        tuning_budget=tuning_budget,
        budget=budget,
        shown={**asdict(config), "data": facts(config)},
    )
    run_and_report(experiment, context, folder=folder, workers=workers, as_json=as_json)
    if record:
        parts = ("methods", "inner", "stepsizes")
        publish(folder, "mushrooms", measures=[f"src/proxyprox/{part}" for part in parts])


if __name__ == "__main__":
    start(mushrooms)
