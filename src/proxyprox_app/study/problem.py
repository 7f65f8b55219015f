"""One's own tables as a problem, and methods run on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.optimize
import sklearn.datasets

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import FAMILIES
from proxyprox_app.report.summary import Point
from proxyprox_app.study.columns import Columns, plain_object, yes_or_no
from proxyprox_app.study.config import StudyConfig
from proxyprox_app.study.fit import FittedGLM, TableModel
from proxyprox_app.study.tables import (
    DataError,
    Finding,
    as_text,
    load_cells,
    no_column,
    to_numbers,
)

# How the name of a set that ships with scikit-learn begins, in place of a file.
BUILT_IN = "sklearn:"
_LOADERS = ("breast_cancer", "diabetes", "digits", "iris", "wine")

# Names of the methods, and the step sizes that are tried of those that need one.
NAMES = {
    "proxyprox": "proxyprox, its default",
    "dane": "DANE",
    "sgd": "SGD",
    "adam": "Adam",
    "lbfgs": "L-BFGS",
    "erm": "ERM on the rows seen",
}
STEP_SIZES: dict[str, Sequence[float]] = {
    "dane": np.geomspace(1e-2, 1e4, 7).tolist(),
    "sgd": np.geomspace(1e-3, 1e2, 11).tolist(),
    "adam": np.geomspace(1e-3, 1e1, 9).tolist(),
}
# Seed of the runs that choose a step size; no final run uses it.
TUNING_SEED = 1_000_000


@dataclass(frozen=True)
class Study:
    """The problem that a configuration describes.

    Attributes
    ----------
    target, other : GLM
        The loss on the target's rows and, if the proxy has rows of its own, on those.
    penalty : L1 or None
        The non-smooth term.
    columns, findings : Columns and list of Finding
        What the table's columns became, and what was odd about them.
    classes : tuple
        The classes of the labels.
    optimum : float
        The lowest loss.
    """

    config: StudyConfig
    target: pp.GLM
    other: pp.GLM | None
    penalty: Any
    columns: Columns
    findings: Sequence[Finding]
    classes: tuple[str, ...]
    optimum: float

    def problem(self, seed: int = 0) -> pp.Problem:
        """Return target, proxy and penalty of a run."""
        run, part = self.config.run, self.config.proxy
        proxy: Any = self.other or self.target.label_free()
        if part.fraction is not None:
            rows = max(1, round(part.fraction * self.target.design.rows))
            proxy = self.target.subsample(rows, rng=np.random.default_rng([run.seed, seed, 1]))
        size = None if run.batch_size == "all" else run.batch_size
        return pp.Problem(self.target.with_batch_size(size), proxy, self.penalty)

    def model(self, w: Any, method: str) -> TableModel:
        """Return weights with what the table's columns become, for new tables."""
        family = self.config.model.family
        matrix = np.asarray(w, dtype=np.float64).reshape(self.target.design.width, -1)
        count = len(self.columns.feature_names)
        intercept = matrix[count] if self.config.model.intercept else np.zeros(matrix.shape[1])
        coef = np.ascontiguousarray(matrix[:count].T)
        task = "classification" if FAMILIES[family].classifier else "regression"
        glm = FittedGLM(family, list(self.classes), coef, intercept)
        return TableModel(self.columns, glm, str(self.config.target.label), task, {"model": method})


def read_study(config: StudyConfig, base: Path) -> Study:
    """Build the problem that a configuration describes from its files.

    Raises
    ------
    DataError
        For a file that cannot be used, or labels that do not suit the family.
    """
    import pandas as pd

    model, target, part = config.model, config.target, config.proxy
    frame, findings, decimal = _read(target.file, config, base)
    frames, names = [frame], [part.label or target.label]
    if part.file:
        frames.append(_read(part.file, config, base)[0])
    roles = {target.label, part.label, target.weight}
    used = target.features or [name for name in frame if name not in roles]
    label = str(target.label)
    for at, (each, file) in enumerate(zip(frames, (target.file, part.file), strict=False)):
        wanted = [*used, *([target.weight] if at == 0 and target.weight else [])]
        wanted += [label] if at == 0 else [str(names[0])] * (part.kind == "labelled")
        for name in wanted:
            if name not in each:
                raise DataError(f"{file}: {no_column(name, each)}")
    both = pd.concat([each[used] for each in frames], ignore_index=True)
    try:
        columns = Columns(target.columns, scale=model.standardize, decimal=decimal).fit(both)
    except DataError as error:
        raise DataError(f"{target.file}: {error}") from error
    y = _labels(frame[label], model.family, label)
    known = np.array([value is not None for value in y])
    if not known.any():
        raise DataError(f"{target.file}: no row has a label in {label!r}.")
    kind: Any = FAMILIES[model.family]
    classes = tuple(sorted(set(y[known]))) if kind.classifier else ()
    if kind.classifier and (len(classes) < 2 or (model.family == "logistic" and len(classes) > 2)):
        raise DataError(
            f"{target.file}: the labels are of {len(classes)} classes, {', '.join(classes[:5])}; "
            'logistic takes two: use family = "softmax" for three or more.'
        )
    weights = None
    if target.weight:
        weights = to_numbers(plain_object(frame[target.weight])).to_numpy()
        if not (weights >= 0).all() or not weights.any():
            raise DataError(f"a weight in {target.weight!r} is negative, missing or no number.")

    def loss(rows: Any, y: Any, weights: Any = None) -> pp.GLM:
        family = kind(classes) if kind.classifier else kind()
        options: dict[str, Any] = {"l2": model.l2, "intercept": model.intercept}
        try:
            return pp.GLM(columns.transform(rows), y, family, sample_weight=weights, **options)
        except (ValueError, TypeError) as error:
            raise DataError(f"label: {error}") from error

    rows = frame if known.all() else frame[known]
    whole = loss(rows, np.array(y[known].tolist()), None if weights is None else weights[known])
    other, findings = None, [*findings, *columns.findings]
    if part.file:
        labelled = part.kind == "labelled"
        old = _labels(frames[1][names[0]], model.family, label) if labelled else None
        there = [True] * len(frames[1]) if old is None else [y is not None for y in old]
        other = loss(frames[1][there], None if old is None else np.array(old[there].tolist()))
    elif not known.all():
        what = f"{int((~known).sum()):,} rows without a label are "
        ours = part.kind == "label-free"
        findings.append(Finding(label, what + ("the proxy's." if ours else "left out.")))
        other = loss(frame, None) if ours else None
    penalty = None
    if model.l1:
        strength = np.full((whole.design.width, whole.family.outputs), model.l1)
        strength[len(columns.feature_names) :] = 0.0  # the intercept
        penalty = pp.L1(strength.ravel())
    # The proximal gradient method is not worth pushing to the last digit.
    best = minimise_exactly(whole, whole.zeros(), tol=1e-9 if penalty else 1e-12, penalty=penalty)
    optimum = pp.Problem(whole, pp.problems.Zero(), penalty).value(best)
    return Study(config, whole, other, penalty, columns, findings, classes, optimum)


def _read(file: str, config: StudyConfig, base: Path) -> Any:
    """Return a table, what was odd about it, and its decimal mark."""
    target = config.target
    if not file.startswith(BUILT_IN):
        if target.label is None:
            raise DataError(f"{file}: name the column of the label: [target] label.")
        path = base / Path(file).expanduser()
        return load_cells(path, target.encoding, target.separator, target.sheet).parse()
    name = file.removeprefix(BUILT_IN)
    if name not in _LOADERS:
        raise DataError(f"{file}: {BUILT_IN} is followed by one of {', '.join(_LOADERS)}.")
    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    classes = np.asarray(getattr(bunch, "target_names", [0]))
    y = classes[bunch.target] if classes.dtype.kind == "U" else bunch.target
    return bunch.data.assign(label=y), [], ""


def _labels(cells: Any, family: str, name: str) -> Any:
    """Return labels as numbers or text in an array of objects, None if there is none."""
    text = as_text(cells)
    if FAMILIES[family].classifier:
        return yes_or_no(text).astype(object).where(text.notna(), None).to_numpy()
    values = to_numbers(plain_object(cells))
    if len(bad := text[values.isna()].dropna()):
        raise DataError(f"label: {bad.iloc[0]!r} in {name!r} is not a number.")
    return values.astype(object).where(values.notna(), None).to_numpy()


# -- methods --------------------------------------------------------------------------------------


def run_methods(study: Study, progress: Callable[[str], None]) -> Iterator[tuple[Point, Any]]:
    """Run every method with every seed; yield its points, each with the answer it belongs to."""
    run = study.config.run
    for method in run.methods:
        steps = STEP_SIZES.get(method, (math.nan,))
        if len(steps) > 1:
            progress(f"{NAMES[method]}: choosing a step size")
        score = partial(_height, study, method, max(1, run.target_gradients // 4))
        eta = min(steps, key=score) if len(steps) > 1 else steps[0]
        for seed in range(run.seeds):
            progress(f"{NAMES[method]}: run {seed + 1} of {run.seeds}")
            for point, w in _run(study, method, eta, seed, run.target_gradients):
                own = {"eta": eta if eta == eta else None, "tried": len(steps), "seed": seed}
                yield {"panel": "your data", "method": NAMES[method], **own, **point}, w


def _height(study: Study, method: str, budget: int, eta: float) -> float:
    """Return the median suboptimality over the last third of a trial run."""
    found = [point["suboptimality"] for point, _ in _run(study, method, eta, TUNING_SEED, budget)]
    return median(math.inf if each is None else each for each in found[-max(1, len(found) // 3) :])


def _run(study: Study, method: str, eta: float, seed: int, budget: int) -> list[tuple[Point, Any]]:
    """Return the points of a run at up to 50 numbers of target gradients, with their answers."""
    problem, begun = study.problem(seed), time.perf_counter()
    rng = np.random.default_rng([study.config.run.seed, seed])
    at = sorted({round(budget * j / 50) for j in range(51)})
    points: list[tuple[Point, Any]] = []

    def add(spent: float, w: Any, proxy_gradients: int = 0) -> None:
        while len(points) < len(at) and at[len(points)] <= spent:
            with np.errstate(all="ignore"):
                value = problem.value(w) - study.optimum
            point: Point = {"target_gradients": at[len(points)]}
            point |= {"proxy_gradients": proxy_gradients}
            point |= {"suboptimality": value if math.isfinite(value) else None}
            points.append((point | {"seconds": time.perf_counter() - begun}, w))

    w0 = study.target.zeros()
    add(0, w0)
    if method == "erm":
        counts = np.zeros(study.target.design.rows)
        for k in at[1:]:
            for _ in range(k - points[-1][0]["target_gradients"]):
                counts += np.bincount(problem.objective.sample(rng), minlength=len(counts))
            seen = np.flatnonzero(counts)
            weights = counts[seen] * study.target.sample_weight[seen]
            part = study.target.rows(seen, sample_weight=weights)
            add(k, minimise_exactly(part, points[-1][1], tol=1e-9, penalty=study.penalty))
        return points
    if method == "lbfgs":
        best, spent = (math.inf, w0), 0

        def ask(w: Any) -> tuple[float, Any]:
            nonlocal best, spent
            value, gradient = study.target.value_and_gradient(w)
            best, spent = min(best, (value, w.copy()), key=lambda pair: pair[0]), spent + 1
            add(spent, best[1])
            return value, gradient

        options: dict[str, Any] = {"maxcor": 50, "ftol": 0, "gtol": 0, "maxfun": budget}
        scipy.optimize.minimize(ask, w0, jac=True, method="L-BFGS-B", options=options)
        add(math.inf, best[1])
        return points
    kinds: dict[str, Any] = {"sgd": pp.SGD, "adam": pp.Adam, "dane": pp.DANE}
    options = {"method": kinds[method](eta)} if method in kinds else {}

    def after_step(step: Any) -> None:
        add(step.ledger.target_gradients, step.answer, step.ledger.proxy_gradients)

    with np.errstate(all="ignore"):
        # A step size that is too large is tried on purpose; its numbers show it.
        result = pp.minimize(
            problem, budget=pp.Budget(target_gradients=budget), rng=rng, callback=after_step,
            **options,
        )  # fmt: skip
        ended = result.success or result.status in (pp.Status.ABOVE_START, pp.Status.STALLED)
        last = result.w if ended else np.full_like(w0, np.nan)
        add(math.inf, last, int(result.ledger.proxy_gradients))
    return points
