"""The demonstration: a few situations, each with the default of this package and its rivals.

Nothing is downloaded: the images are scikit-learn's, the large table is drawn. What is said about
each situation is in ``demo.toml``. A situation is a function that yields the points of one draw.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib import resources
from statistics import median
from typing import Any

import numpy as np
import scipy.optimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import MixedProxy
from proxyprox_app.page import curves_svg

TEXTS: dict[str, Any] = tomllib.loads(
    resources.files("proxyprox_app").joinpath("demo.toml").read_text("utf-8")
)
Point = dict[str, Any]

OURS = "proxyprox"
ROUNDS = 20

# Asks for the loss and its gradient; every call is a round.
Ask = Callable[[Any], tuple[float, Any]]


def run_parts(seeds: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Run all situations, and return the parts of the page.

    Parameters
    ----------
    seeds : int
        Draws of each situation.
    progress : callable
        Told what is being done.
    """
    found = []
    for name, run in PARTS.items():
        story, points = TEXTS[name], list[Point]()
        for seed in range(seeds):
            progress(f"{story['heading']}: draw {seed + 1} of {seeds}")
            points += [{"seed": seed, **point} for point in run(seed)]
        x, curves, rows = story["x"], {}, []
        for method in dict.fromkeys(point["method"] for point in points):
            mine = [point for point in points if point["method"] == method]
            gaps = np.array([point["gap"] for point in mine]).reshape(seeds, -1)
            curves[method] = ([point[x] for point in mine[: gaps.shape[1]]], gaps)
            low, middle, high = np.quantile(gaps[:, -1], (0, 0.5, 1)).tolist()
            rows.append({"method": method, "median": middle, "lowest": low, "highest": high})
        found.append(
            {
                "heading": story["heading"],
                "text": f"{_say(points, x, story.get('apart', ''))} {story['remark']}",
                "about": {"Who should care": story["who"]}
                | {key: text.format(seeds=seeds) for key, text in story["about"].items()},
                "svg": curves_svg(story["heading"], curves, x, story["gap"], x == "seconds"),
                "rows": rows,
            }
        )
    return found


def _say(points: Sequence[Point], x: str, apart: str) -> str:
    """Say what each method needed to come close, and on how many draws ours was the first."""
    level, needed = 1e-6, dict[str, list[float]]()
    for (method, _), run in itertools.groupby(points, key=lambda p: (p["method"], p["seed"])):
        there = (point[x] for point in run if point["gap"] <= level)
        needed.setdefault(method, []).append(next(there, math.inf))
    ours = needed.pop(OURS)
    rivals = np.min([counts for method, counts in needed.items() if method != apart], axis=0)
    wins, ties = int((ours < rivals).sum()), int((ours == rivals).sum())

    def words(counts: Sequence[float]) -> str:
        middle = median(counts)
        return f"{middle:.3g} {x}" if math.isfinite(middle) else "more than were run"

    listed = "; ".join(f"{method} {words(counts)}" for method, counts in needed.items())
    who = f"Not counting “{apart}”, ours" if apart else "Ours"
    first = f"{who} is first in {wins} of {len(ours)} draws{f', level in {ties}' * bool(ties)}."
    text = f"To come within {level:g} of the lowest loss ours needs {words(ours)} (median)"
    return f"{text}; {listed}. {first}"


# -- rounds of exact gradients --------------------------------------------------------------------


@lru_cache(maxsize=1)
def _images() -> tuple[pp.GLM, float]:
    """Return the loss of odd digits against even ones, and its lowest value."""
    X, digits = load_digits(return_X_y=True)
    loss = pp.logistic_regression(X / 16, digits % 2, l2=1e-4, intercept=True)
    return loss, loss.value(minimise_exactly(loss, loss.zeros(), tol=1e-12))


class _SpentError(Exception):
    """All rounds are spent."""


def _count_rounds(
    loss: pp.GLM, lowest: float, methods: Mapping[str, Callable[[Ask], None]]
) -> Iterator[Point]:
    """Yield, for each method, the lowest loss seen after each of its first rounds."""
    for name, run in methods.items():
        gaps: list[float] = []

        def ask(w: Any, gaps: list[float] = gaps) -> tuple[float, Any]:
            if len(gaps) >= ROUNDS:
                raise _SpentError
            value, gradient = loss.value_and_gradient(np.asarray(w))
            gaps.append(min([value - lowest, *gaps[-1:]]))
            return value, gradient

        with contextlib.suppress(_SpentError):
            run(ask)
        gaps += [gaps[-1]] * (ROUNDS - len(gaps))
        yield from ({"method": name, "rounds": k, "gap": gap} for k, gap in enumerate(gaps, 1))


def _ours(loss: pp.GLM, proxy: Any, ask: Ask) -> None:
    target = pp.FunctionObjective(lambda w: ask(w)[1], value_and_gradient=ask)
    pp.minimize(pp.Problem(target, proxy), loss.zeros(), tol=1e-9, budget=ROUNDS)


def _lbfgs(start: Any, back: Any, ask: Ask) -> None:
    """Run SciPy's L-BFGS in other variables: w = start + back u."""

    def asked(u: Any) -> tuple[float, Any]:
        value, gradient = ask(start + back @ u)
        return value, back.T @ gradient

    options = {"maxcor": 50, "ftol": 0, "gtol": 0, "maxfun": ROUNDS}
    scipy.optimize.minimize(asked, 0 * start, jac=True, method="L-BFGS-B", options=options)


def _newton(loss: pp.GLM, w: Any, ask: Ask) -> None:
    value, gradient = ask(w)
    while True:
        step = np.linalg.solve(loss.hessian(w), gradient)
        there = ask(w - step)
        while there[0] > value:  # too long: a round is lost
            step = step / 4
            there = ask(w - step)
        w, (value, gradient) = w - step, there


def _metric(proxy: Any, loss: pp.GLM) -> tuple[Any, Any]:
    """Return a proxy's minimum, and variables in which the proxy is round there."""
    start = minimise_exactly(proxy, loss.zeros(), tol=1e-9)
    return start, np.linalg.inv(np.linalg.cholesky(proxy.hessian(start))).T


def rounds(seed: int) -> Iterator[Point]:
    """Yield the points of a draw: the data are elsewhere, a sample of a tenth of them is here."""
    loss, lowest = _images()
    proxy = loss.subsample(loss.design.rows // 10, rng=seed)
    start, metric = _metric(proxy, loss)
    methods = {
        OURS: partial(_ours, loss, proxy),
        "L-BFGS": partial(_lbfgs, start, np.eye(loss.dim)),
        "L-BFGS in the sample's metric": partial(_lbfgs, start, metric),
        "Newton, which sends matrices": partial(_newton, loss, start),
    }
    yield from _count_rounds(loss, lowest, methods)


# -- a large table in seconds ---------------------------------------------------------------------

ROWS, COLUMNS = 150_000, 60


def seconds(seed: int) -> Iterator[Point]:
    """Yield the points of a draw: all rows are here, and there are many of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, COLUMNS)) @ (
        rng.standard_normal((COLUMNS, COLUMNS)) / math.sqrt(COLUMNS)
    )
    X *= np.geomspace(1, 0.1, COLUMNS)
    y = X @ rng.standard_normal(COLUMNS) + rng.logistic(size=ROWS) > 0
    runs: dict[str, list[tuple[float, Any]]] = {OURS: [], "SciPy, L-BFGS-B": []}
    # What each of them loads is not timed.
    pp.minimize(pp.logistic_regression(X[:500], y[:500], l2=1e-4))
    LogisticRegression(solver="newton-cholesky").fit(X[:500], y[:500])
    begun = time.process_time()
    loss = pp.logistic_regression(X, y, l2=1e-4)

    def keep(w: Any, method: str = OURS) -> None:
        runs[method].append((time.process_time() - begun, w.copy()))

    keep(pp.minimize(loss, callback=lambda step: keep(step.answer)).w)
    begun = time.process_time()
    scipy.optimize.minimize(
        loss.value_and_gradient, loss.zeros(), jac=True, method="L-BFGS-B",
        options={"gtol": 1e-9}, callback=partial(keep, method="SciPy, L-BFGS-B"),
    )  # fmt: skip
    solvers = {"lbfgs": (5, 10, 20, 40, 80), "newton-cholesky": (1, 2, 3, 5, 8)}
    for solver, counts in solvers.items():
        for count in counts:
            model = LogisticRegression(
                C=1 / (loss.l2 * ROWS), fit_intercept=False, solver=solver, max_iter=count, tol=1e-9
            )
            begun = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it stops before its tolerance
                model.fit(X, y)
            reached = time.process_time() - begun, model.coef_[0]
            runs.setdefault(f"scikit-learn, {solver}", []).append(reached)
    lowest = min(loss.value(w) for run in runs.values() for _, w in run)
    latest = max(spent for run in runs.values() for spent, _ in run)
    for name, run in runs.items():
        values = [(spent, loss.value(w) - lowest) for spent, w in run]
        start = loss.value(loss.zeros()) - lowest
        for at in np.geomspace(0.02, latest, 50):
            gap = min([gap for spent, gap in values if spent <= at], default=start)
            yield {"method": name, "seconds": float(at), "gap": float(gap)}


# -- several proxies ------------------------------------------------------------------------------


def proxies(seed: int) -> Iterator[Point]:
    """Yield the points of a draw: five proxies, of which two have nothing to do with the target."""
    loss, lowest = _images()
    rng = np.random.default_rng(seed)
    parts = np.array_split(rng.permutation(loss.design.rows)[:700], 5)
    X, y = load_digits(return_X_y=True)
    X, y = X / 16, y % 2
    inputs, labels = [X[rows] for rows in parts], [y[rows] for rows in parts]
    labels[3], inputs[4] = rng.permutation(labels[3]), rng.permuted(inputs[4], axis=1)
    make = partial(pp.logistic_regression, l2=1e-4, intercept=True)
    losses = list(map(make, inputs, labels))
    good = make(np.concatenate(inputs[:3]), np.concatenate(labels[:3]))
    mean = MixedProxy(losses, [0.2] * 5)
    start, metric = _metric(mean, loss)
    methods = {
        OURS: partial(_ours, loss, losses),
        "their mean": partial(_ours, loss, mean),
        "the first alone": partial(_ours, loss, losses[0]),
        "L-BFGS in their mean's metric": partial(_lbfgs, start, metric),
        TEXTS["proxies"]["apart"]: partial(_ours, loss, good),
    }
    yield from _count_rounds(loss, lowest, methods)


PARTS: dict[str, Callable[[int], Iterator[Point]]] = {
    "rounds": rounds,
    "seconds": seconds,
    "proxies": proxies,
}
