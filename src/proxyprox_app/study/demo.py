"""The demonstration: three situations, each with the default of this package and its rivals.

The data are scikit-learn's 1,797 images of handwritten digits, 8 × 8 pixels each; the question is
whether a digit is odd, the model logistic regression. What is expensive differs: rounds of exact
gradients, labels that are used once, or labels beside another model's answers. What is said about
each is in ``demo.toml``.
"""

from __future__ import annotations

import itertools
import math
import time
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from statistics import median
from typing import Any

import numpy as np
import scipy.optimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from proxyprox.sklearn import ProxyLogisticRegression
from proxyprox_app.report.records import Point
from proxyprox_app.report.summary import ERM, summarise
from proxyprox_app.study.compare import (
    ROWS_SEEN,
    Candidate,
    Curve,
    Eta,
    Experiment,
    Job,
    run_candidate,
)

EXACT, STREAM, TEACHER = "few exact gradients", "one label at a time", "few labels and a teacher"
TEXTS: dict[str, Any] = tomllib.loads(
    resources.files("proxyprox_app.study").joinpath("demo.toml").read_text("utf-8")
)
OURS: dict[str, str] = {panel: TEXTS[panel]["ours"] for panel in (EXACT, STREAM, TEACHER)}
PLAIN, SCALED = "L-BFGS", "L-BFGS in the sample's metric"
ALONE, TAUGHT, MIXED = "labels alone", "teacher alone", "mixed"
UNSEEN = 100
"""Draws from here on: penalty and teacher of the last two situations were chosen on others."""


@dataclass(frozen=True)
class DemoConfig:
    """What the records depend on.

    Attributes
    ----------
    seeds, tuning_draws : int
        Draws that are shown, and others on which the rivals' step sizes are chosen.
    rounds, labels : int
        Budgets of the first two situations.
    few_labels : tuple of int
        Numbers of labels of the third.
    """

    seeds: int = 7
    tuning_draws: int = 3
    rounds: int = 20
    labels: int = 400
    few_labels: tuple[int, int] = (50, 200)


@lru_cache(maxsize=1)
def _images() -> tuple[Any, Any]:
    X, digits = load_digits(return_X_y=True)
    return X / 16, digits % 2


@lru_cache(maxsize=2)
def _loss(l2: float) -> tuple[pp.GLM, float]:
    """Return the loss on all images, and its lowest value."""
    loss = pp.logistic_regression(*_images(), l2=l2, intercept=True)
    return loss, loss.value(minimise_exactly(loss, loss.zeros(), tol=1e-12))


def _run_rounds(config: DemoConfig, job: Job) -> list[Point]:
    """Count questions for the loss and its exact gradient, with a tenth of the rows at hand."""
    loss, optimum = _loss(1e-4)
    proxy = loss.subsample(loss.design.rows // 10, rng=job.seed)
    points: list[Point] = []
    begun = time.perf_counter()

    def ask(w: Any) -> tuple[float, Any]:
        value, gradient = loss.value_and_gradient(np.asarray(w))
        gap = min(value - optimum, points[-1]["gap"] if points else math.inf)
        seconds = time.perf_counter() - begun
        points.append({"rounds": len(points) + 1, "gap": gap, "seconds": seconds})
        return value, gradient

    if job.method == OURS[EXACT]:
        target = pp.FunctionObjective(lambda w: ask(w)[1], value_and_gradient=ask)
        problem = pp.Problem(target, proxy)
        pp.minimize(problem, loss.zeros(), tol=1e-9, budget=config.rounds)
    else:
        start: Any = loss.zeros()
        back: Any = np.eye(loss.dim)
        if job.method == SCALED:
            # In these variables the sample's loss is round at its minimum.
            start = minimise_exactly(proxy, start, tol=1e-9)
            back = np.linalg.inv(np.linalg.cholesky(proxy.hessian(start))).T

        def asked(u: Any) -> tuple[float, Any]:
            value, gradient = ask(start + back @ u)
            return value, back.T @ gradient

        options = {"maxcor": 50, "ftol": 0, "gtol": 0, "maxfun": config.rounds}
        zeros = np.zeros(loss.dim)
        scipy.optimize.minimize(asked, zeros, jac=True, method="L-BFGS-B", options=options)
    points += [{**points[-1], "rounds": k + 1} for k in range(len(points), config.rounds)]
    return points[: config.rounds]


def _averaged(method: Any) -> Candidate:
    averaging = pp.averaging.Uniform()
    build = lambda eta: {"method": method(eta), "averaging": averaging}  # noqa: E731
    return Candidate("", build, 1.0, 1.0, 1.0)


_STREAM = {
    OURS[STREAM]: Candidate("", lambda eta: {"method": pp.ProxyProx(eta)}, 1.0, 1.0, 1.0),
    "Adam, averaged": _averaged(pp.Adam),
    "SGD, averaged": _averaged(pp.SGD),
    ERM: ROWS_SEEN,
}


def _run_stream(config: DemoConfig, job: Job) -> list[Point]:
    """Buy labels one at a time, with all images, but no label, as the proxy."""
    loss, optimum = _loss(1e-2)
    points, _ = run_candidate(
        _STREAM[job.method],
        job.eta,
        pp.Problem(loss.with_batch_size(1), loss.label_free()),
        optimum=optimum,
        budget=pp.Budget(target_gradients=config.labels),
        seed=UNSEEN + job.seed,
        at=np.linspace(0, config.labels, 26, dtype=int).tolist(),
    )
    names = {"target_gradients": "labels", "suboptimality": "gap"}
    kept = (*names, "proxy_gradients", "seconds")
    return [{names.get(name, name): point[name] for name in kept} for point in points]


def _mixed(X: Any, y: Any, Z: Any, answers: Any) -> Any:
    """Fit labels and answers with weights θ and 1 − θ; θ and strength by five folds."""

    def fit(rows: Any, theta: float, strength: float) -> Any:
        both = np.vstack([X[rows], Z, Z])
        classes = np.concatenate([y[rows], np.ones(len(Z)), np.zeros(len(Z))])
        soft = (1 - theta) / len(Z) * np.concatenate([answers, 1 - answers])
        weights = np.concatenate([np.full(len(rows), theta / len(rows)), soft])
        model = LogisticRegression(C=1 / strength, solver="newton-cholesky", max_iter=300)
        return model.fit(both, classes, sample_weight=weights)

    def held_out(choice: tuple[float, float]) -> float:
        models = ((fit(train, *choice), test) for train, test in folds)
        return float(sum(log_loss(y[k], model.predict_proba(X[k])) for model, k in models))

    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    choices = itertools.product((0.03, 0.1, 0.3, 0.7), (1e-4, 1e-3, 1e-2))
    return fit(np.arange(len(y)), *min(choices, key=held_out))


def _run_teacher(config: DemoConfig, job: Job) -> list[Point]:
    """Fit few labels and the answers of a model that sees the upper six of eight lines."""
    X, y = _images()
    order = np.random.default_rng(UNSEEN + job.seed).permutation(len(y))
    test, others, pool = np.split(order, (797, 1297))
    teacher = LogisticRegression().fit(X[others, :48], y[others])
    answers = teacher.predict_proba(X[pool, :48])[:, 1]
    points = []
    for labels in config.few_labels:
        begun, own, rest = time.perf_counter(), pool[:labels], pool[labels:]
        if job.method == TAUGHT:
            chances = teacher.predict_proba(X[test, :48])
        elif job.method == ALONE:
            grid = np.geomspace(1e-2, 1e4, 7)
            rival = LogisticRegressionCV(
                Cs=grid, cv=5, scoring="neg_log_loss", solver="newton-cholesky"
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                chances = rival.fit(X[own], y[own]).predict_proba(X[test])
        elif job.method == MIXED:
            chances = _mixed(X[own], y[own], X[pool], answers).predict_proba(X[test])
        else:
            model = ProxyLogisticRegression()
            model.fit(X[own], y[own], X_proxy=X[rest], y_proxy=answers[labels:])
            chances = model.predict_proba(X[test])
        seconds = time.perf_counter() - begun
        points.append({"labels": labels, "gap": log_loss(y[test], chances), "seconds": seconds})
    return points


def run_job(config: DemoConfig, job: Job) -> list[Point]:
    """Run one method on one draw, in a worker process."""
    runs = {EXACT: _run_rounds, STREAM: _run_stream, TEACHER: _run_teacher}
    return runs[job.panel](config, job)


def experiment(config: DemoConfig) -> Experiment:
    """Return all runs of the demonstration."""
    H = _loss(1e-2)[0].smoothness
    grids: dict[str, tuple[Eta, ...]] = {
        OURS[STREAM]: ("auto",),
        "Adam, averaged": (0.01, 0.03, 0.1, 0.3, 1.0),
    }
    grids["SGD, averaged"] = tuple(step / H for step in (0.03, 0.1, 0.3, 1.0, 3.0))
    curves = [Curve(TEACHER, name, None, (None,)) for name in (OURS[TEACHER], ALONE, TAUGHT, MIXED)]
    curves += [Curve(EXACT, name, None, (None,), 0.1) for name in (OURS[EXACT], PLAIN, SCALED)]
    curves += [Curve(STREAM, name, 1, grids.get(name, (None,)), 0.3) for name in _STREAM]
    return Experiment(
        title="proxyprox: what a cheap proxy is worth",
        config=config,
        curves=curves,
        run_job=run_job,
        seeds=config.seeds,
        tuning_budget=config.labels,
        tuning_draws=config.tuning_draws,
        budget=config.labels,
        shown={},
        metric="gap",
    )


def sections(config: DemoConfig, records: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the arguments of :func:`proxyprox_app.report.page.section` for each situation."""
    found = []
    for panel in OURS:
        story, own = TEXTS[panel], [point for point in records if point["panel"] == panel]
        costs = [name for name in story["x_axes"][1:] if name in own[0]]
        x = story["x_axes"][0]
        ends = [int(end.format(**asdict(config))) for end in story["ends"]]
        about = {name: text.format(**asdict(config)) for name, text in story["about"].items()}
        found.append(
            {
                "rows": summarise(own, metric="gap", x=x, constant=("eta",), costs=costs),
                "metric": "gap",
                "x_axes": story["x_axes"],
                "labels": {"seconds": "seconds of computing", **story["labels"]},
                "heading": story["heading"],
                "text": " ".join([*(_say(own, panel, x, end) for end in ends), story["remark"]]),
                "about": about,
                "log_x": panel == TEACHER,
            }
        )
    return found


def _say(records: Sequence[Point], panel: str, x: str, end: int) -> str:
    """Say where each method was at the end, and on how many draws ours was the lowest."""
    gaps: dict[str, list[float]] = {}
    for point in records:
        if point[x] == end:
            gap = math.inf if point["gap"] is None else float(point["gap"])
            gaps.setdefault(point["method"], []).append(gap)
    ours = gaps.pop(OURS[panel])
    listed = "; ".join(f"{method} at {median(values):.2g}" for method, values in gaps.items())
    rivals = zip(*(values for method, values in gaps.items() if method != ERM), strict=True)
    wins = sum(own < min(others) for own, others in zip(ours, rivals, strict=True))
    text = f"After {end} {x} ours is at {median(ours):.2g} (median), {listed}."
    return f"{text} Ours is the lowest on {wins} of {len(ours)} draws."
