"""One's own tables as a problem: rows, model, proxy, methods and the weights that come out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import sklearn.datasets
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import proxyprox as pp
from proxyprox._util.arrays import Vector, norm
from proxyprox._util.digests import file_digest
from proxyprox._util.validation import one_of, short
from proxyprox.diagnostics.plan import RunPlan
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import FAMILIES, ScaledProxy
from proxyprox.stepsizes import as_step_size
from proxyprox_app.report.records import Point
from proxyprox_app.report.summary import height, write_json
from proxyprox_app.study import compare
from proxyprox_app.study.columns import Columns, as_text, yes_or_no
from proxyprox_app.study.compare import ROWS_SEEN, Candidate, Curve, Eta, Job
from proxyprox_app.study.config import (
    INNER_DESCENT,
    SOLVERS,
    WITHOUT_PROXY,
    MethodSettings,
    StudyConfig,
)
from proxyprox_app.study.fit import FittedGLM, TableModel
from proxyprox_app.study.tables import (
    FRAMES,
    DataError,
    Finding,
    Table,
    format_of,
    from_columns,
    load_table,
    no_column,
    numbers,
    read_arrays,
)

PANEL = "your data"
# How the name of a set that ships with scikit-learn begins, in place of a file.
BUILT_IN = "sklearn:"
# ‖∇φ_k‖ to which an "exact" subproblem is solved.
EXACT = 1e-8

# Name, first step size of the grid, ratio and effort of each candidate. Averaged corrections are
# less noisy and allow longer steps.
_GRIDS: dict[str, tuple[Any, ...]] = {
    "sgd": ("SGD", 0.1, 2.5, 0.2),
    "gradient descent": ("gradient descent", 0.1, 2.5, 0.2),
    "momentum": ("heavy ball", 0.025, 2.5, 0.2),
    "adam": ("Adam", 0.01, 2.5, 0.2),
    "auxmom": ("AuxMom", 0.05, 2.5, 5.0),
    "auxmvr": ("AuxMVR", 0.05, 2.5, 5.0),
    "dane": ("DANE", 0.25, 5.0, 1.0),
    "plain": ("ProxyProx", 0.25, 5.0, 1.0),
    "ema": ("ProxyProx, EMA", 0.25, 8.0, 1.0),
    "mean": ("ProxyProx, running mean", 0.25, 8.0, 1.0),
    "storm": ("ProxyProx, STORM", 0.25, 8.0, 1.0),
}
_LOADERS = ("breast_cancer", "diabetes", "digits", "iris", "wine")
# A relative gradient above this makes a reference rough.
_ROUGH = 1e-6


@dataclass(frozen=True)
class Rows:
    """The target's rows, the proxy's, what a table's columns became, and what was odd."""

    target: Table
    proxy: Table | None = None
    columns: Columns | None = None
    findings: Sequence[Finding] = ()


def read_rows(config: StudyConfig, base: Path) -> Rows:
    """Return the target's rows and, if there are any, the proxy's, with the same columns.

    Raises
    ------
    DataError
        For a file that cannot be used, or other columns.
    """
    parts: list[Any] = [config.target, *([config.proxy] if config.proxy.file else [])]
    if any(_is_frame(part) for part in parts):
        return _rows_of_frames(config, base, parts)
    target = _read_arrays(config, base, config.target)
    if config.proxy.file is None:
        return Rows(target)
    proxy = _read_arrays(config, base, config.proxy)
    if scipy.sparse.issparse(target.X) and scipy.sparse.issparse(proxy.X):
        # svmlight leaves zeros out: either file may end before the last column.
        names = max(target.feature_names, proxy.feature_names, key=len)
        for table in (target, proxy):
            table.X.resize((table.rows, len(names)))
        target, proxy = (replace(table, feature_names=names) for table in (target, proxy))
    names, found = target.feature_names, proxy.feature_names
    _check_same(config, names, found)
    order = [found.index(name) for name in names]
    return Rows(target, replace(proxy, X=proxy.X[:, order], feature_names=names))


def _check_same(config: StudyConfig, names: Sequence[str], found: Sequence[str]) -> None:
    if odd := sorted(set(names) ^ set(found)):
        raise DataError(
            f"{config.proxy.file} and {config.target.file} need the same columns, in any order; "
            f"only one has {', '.join(map(repr, odd[:5]))}. [target] features lists those to use."
        )


def _is_frame(part: Any) -> bool:
    """Tell whether rows come as a table of cells, not as an array of numbers."""
    kind = part.format or ("" if part.file.startswith(BUILT_IN) else format_of(Path(part.file)))
    return kind in FRAMES


def _read_arrays(config: StudyConfig, base: Path, part: Any) -> Table:
    """Read the rows of ``[target]`` or ``[proxy]`` where they are numbers."""
    features, labelled = config.target.features, part is config.target or part.kind == "labelled"
    label = (part.label or config.target.label) if labelled else None
    try:
        if part.file.startswith(BUILT_IN):
            table = from_columns(_built_in(part.file), "label", features, None)
        else:
            path, weight = base / Path(part.file).expanduser(), part.weight
            table = read_arrays(path, label, features, weight, part.format)
        if labelled and table.y is None:
            raise DataError(f"{part.file}: no column holds the label.")
        return table if labelled else replace(table, y=None)
    except ValueError as error:
        hint = " Name the column of the label: [target] label." if labelled and not label else ""
        raise DataError(f"{error}{hint}") from error


def _rows_of_frames(config: StudyConfig, base: Path, parts: Sequence[Any]) -> Rows:
    """Read tables of cells, and turn their columns into numbers together."""
    import pandas as pd

    target, findings, frames, extras = config.target, list[Finding](), [], []
    decimals = dict[str, str]()
    for part in parts:
        labelled = part is target or part.kind == "labelled"
        label = part.label or target.label
        if labelled and label is None:
            raise DataError(f"{part.file}: name the column of the label: [target] label.")
        if _is_frame(part):
            path = base / Path(part.file).expanduser()
            options = (target.encoding, target.separator, target.sheet)
            frame, odd, marks = load_table(path, *options, format=part.format)
            findings += odd
            decimals = marks | decimals
        else:
            table = _read_arrays(config, base, part)
            frame = pd.DataFrame(np.asarray(table.X), columns=list(table.feature_names))
            frame = frame if table.y is None else frame.assign(**{str(label): table.y})
        wanted = [label if labelled else None, part.weight, *(target.features or ())]
        for name in filter(None, wanted):
            if name not in frame:
                raise DataError(f"{Path(part.file).name}: {no_column(name, frame)}")
        roles = {label, part.weight, target.weight}
        names = target.features or [name for name in frame if name not in roles]
        if not names:
            raise DataError(f"{Path(part.file).name}: no feature column is left.")
        frames.append(frame[list(names)])
        weights = None
        if part.weight:
            weights = numbers(frame[part.weight], part.weight, "fill it in")
            if (weights < 0).any() or not weights.any():
                raise DataError(f"a weight in {part.weight!r} is negative, or none is positive.")
        extras.append((frame[label] if labelled else None, weights))
    _check_same(config, list(frames[0]), list(frames[-1]))
    both = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    try:
        columns = Columns(dict(target.columns or ()), scale=False).plan(both, decimals=decimals)
        columns.fit(both)
    except DataError as error:
        raise DataError(f"{target.file}: {error}") from error
    made = tuple(columns.feature_names)
    tables = [
        Table(
            columns.transform(frame), None if y is None else _labels(y), made, len(frame), weights
        )
        for frame, (y, weights) in zip(frames, extras, strict=True)
    ]
    whole, proxy = tables[0], tables[1] if len(tables) > 1 else None
    known = _known(whole.y)
    if not known.any():
        raise DataError(f"{target.file}: no row has a label in {target.label!r}.")
    if not known.all():
        used = config.proxy.kind == "label-free" and proxy is None
        what = f"{int((~known).sum()):,} rows without a label are "
        findings.append(
            Finding(str(target.label), what + ("the proxy's." if used else "left out."))
        )
        proxy = replace(whole, y=None) if used else proxy
    other = None if proxy is None else _labelled(proxy)
    return Rows(_labelled(whole), other, columns, [*findings, *columns.findings])


def _labels(cells: Any) -> Any:
    """Return labels as numbers or text in an array of objects, None if there is none."""
    if cells.dtype.kind == "f":
        return np.array([None if math.isnan(cell) else cell for cell in cells], dtype=object)
    return yes_or_no(as_text(cells)).to_numpy(dtype=object)


def _known(labels: Any) -> Any:
    return np.array([label is not None for label in labels], dtype=np.bool_)


def _labelled(table: Table) -> Table:
    """Return the rows that have a label, of a table that has labels."""
    if table.y is None:
        return table
    known = _known(table.y)
    weights = None if table.sample_weight is None else table.sample_weight[known]
    y = np.array(table.y[known].tolist())
    return replace(table, X=table.X[known], y=y, rows=int(known.sum()), sample_weight=weights)


def _built_in(file: str) -> dict[str, Any]:
    """Return the columns of a set that ships with scikit-learn."""
    name = file.removeprefix(BUILT_IN)
    one_of(f"what follows {BUILT_IN}", name, _LOADERS)
    bunch = getattr(sklearn.datasets, f"load_{name}")()
    classes = np.asarray(getattr(bunch, "target_names", [0]))
    y = classes[bunch.target] if classes.dtype.kind == "U" else bunch.target
    return dict(zip(map(str, bunch.feature_names), bunch.data.T, strict=True)) | {"label": y}


class Study:
    """The problem that a configuration describes, built from its files.

    Attributes
    ----------
    target, other : GLM
        The loss on the target's rows and, where the proxy has a file, on its rows.
    penalty : L1 or None
        The non-smooth term.
    optimum, residual : float
        The lowest loss, and the relative norm of the gradient where it was found.
    curvature : float
        The smoothness, or the curvature at the optimum if no bound holds.
    centre, scale : array
        The scaling that the columns went through.
    names, classes : tuple
        The columns, and the classes of the labels.
    columns, findings : Columns or None, and list of Finding
        What a table's columns became, and what was odd about them.
    """

    def __init__(self, config: StudyConfig, base: Path) -> None:
        read = read_rows(config, base)
        table, rows, self.columns, self.findings = vars(read).values()
        model, columns = config.model, len(table.feature_names)
        self.config, self.names = config, table.feature_names
        self.classes = _classes(config, table.y) if FAMILIES[model.family].classifier else ()
        self.centre, self.scale = np.zeros(columns), np.ones(columns)
        if model.standardize:
            # Without an intercept a shift cannot be undone, and a sparse table would fill up.
            shifted = model.intercept and not scipy.sparse.issparse(table.X)
            scaler = StandardScaler(with_mean=shifted)
            self.scale = scaler.fit(table.X, sample_weight=table.sample_weight).scale_
            self.centre = scaler.mean_ if shifted else self.centre
        self.target = target = self._loss(config.target, table)
        self.other = None if rows is None else self._loss(config.proxy, rows)
        self.penalty = None
        if model.l1:
            strength = np.full((target.design.width, target.family.outputs), model.l1)
            strength[columns:] = 0.0  # the intercept
            self.penalty = pp.L1(strength.ravel())
        # The proximal gradient method is not worth pushing to the last digit.
        tol, start = 1e-9 if self.penalty else 1e-12, target.zeros()
        best = minimise_exactly(target, start, tol=tol, penalty=self.penalty)
        slope = target.gradient(best)
        residual = self.penalty.distance(best, slope) if self.penalty else norm(slope)
        # Labels of 40,000 make gradients of 40,000, and rounding as much larger.
        self.residual = float(residual / max(1.0, norm(target.gradient(start))))
        self.optimum = pp.Problem(target, pp.problems.Zero(), self.penalty).value(best)
        known = target.smoothness
        self.curvature = known if math.isfinite(known) else _curvature(target, best)

    def _loss(self, part: Any, table: Table) -> pp.GLM:
        """Return the loss on the rows of ``[target]`` or ``[proxy]``."""
        model, y = self.config.model, table.y
        sparse = scipy.sparse.issparse(table.X)
        X = table.X.multiply(1 / self.scale) if sparse else (table.X - self.centre) / self.scale
        kind: Any = FAMILIES[model.family]
        try:
            if y is not None and not kind.classifier:
                y = numbers(y, part.label or "label", 'use family = "logistic" or "softmax"')
            return pp.GLM(
                X.tocsr() if sparse else X,
                y,
                kind(self.classes) if kind.classifier else kind(),
                sample_weight=table.sample_weight,
                l2=model.l2,
                intercept=model.intercept,
            )
        except (ValueError, TypeError) as error:
            # Rows of arrays are counted from 0, those of files from 1.
            text = re.sub(r"at row (\d+)", lambda m: f"in row {int(m[1]) + 1}", str(error))
            raise DataError(f"{part.file}: label: {text}") from error

    def problem(self, batch_size: int | None, seed: int = 0) -> pp.Problem:
        """Return target, proxy and penalty of a run."""
        target, part = self.target, self.config.proxy
        proxy: Any
        if part.kind == "none":
            proxy = pp.problems.Zero()
        elif self.other is not None:
            proxy = self.other
        elif part.kind == "label-free":
            proxy = target.label_free()
        else:
            rows = part.rows or round((part.fraction or 0) * target.design.rows)
            rng = np.random.default_rng([self.config.run.seed, seed, 1])
            proxy = target.subsample(max(1, rows), rng=rng)
        return pp.Problem(target.with_batch_size(batch_size), proxy, self.penalty)

    def curves(self) -> list[Curve]:
        """Return what is compared: the method of the configuration first."""
        curves = []
        method = self.config.method
        for position, candidate in enumerate(candidates(self.config)):
            etas = candidate.etas(self.curvature)
            # Equal effort: where one's own method is not tuned, the others are not either.
            fixed = position == 0 or (method.measures_step_size and candidate is not ROWS_SEEN)
            if fixed and method.eta is not None:
                etas = tuple(dict.fromkeys(method.eta))
            full = candidate.name in ("DANE", "gradient descent")
            size = None if full else method.batch_size
            curves.append(Curve(PANEL, candidate.name, size, etas, candidate.effort))
        return curves

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the results needs to know about the data."""
        known = {
            "rows": self.target.design.rows,
            "columns": self.target.design.columns,
            "curvature": self.curvature,
            "optimal loss": self.optimum,
            "proxy rows": None if self.other is None else self.other.design.rows,
            "classes": list(map(str, self.classes)) or None,
        }
        return {name: value for name, value in known.items() if value is not None}

    def notes(self) -> list[str]:
        """Return what should be read with the numbers."""
        notes, seconds = list(map(str, self.findings)), self.config.run.seconds
        if self.residual > _ROUGH:
            size = f"a gradient of relative norm {self.residual:.1e}"
            notes.append(f"The optimum was found only to {size}; a larger l2 helps.")
        if seconds is not None:
            notes.append(f"Runs end after {seconds:g} s: later points repeat the last answer.")
        return notes


def prepare(config: StudyConfig, base: Path) -> StudyConfig:
    """Read the data, so that its mistakes show at once, and return the settings with digests."""
    digests = []
    for name in filter(None, dict.fromkeys((config.target.file, config.proxy.file))):
        path = base / Path(name).expanduser()
        digests += [f"{name}: sha256 {file_digest(path)}"] if path.is_file() else []
    config = replace(config, data=tuple(digests))
    load_study(config, base)
    return config


@lru_cache(maxsize=1)
def load_study(config: StudyConfig, base: Path) -> Study:
    """Build the problem; the last one is kept for the next job of this process."""
    # One thread, as in the workers: sums in another order would differ in their last digits.
    with threadpool_limits(1):
        return Study(config, base)


def _classes(config: StudyConfig, y: Any) -> tuple[Any, ...]:
    """Return the classes of the labels: those of the configuration, or those that occur."""
    values = np.unique(y).tolist()
    # The label 1.0 of a text file is written as 1, the way it stands there.
    found = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    classes = config.model.classes or tuple(found)
    if len(found) < 2 or (config.model.family == "logistic" and max(len(found), len(classes)) > 2):
        raise DataError(
            f"{config.target.file}: the labels are of {len(found)} classes, {short(found)}; "
            'logistic takes two: use family = "softmax" for three or more.'
        )
    return classes


def _curvature(target: pp.GLM, w: Vector) -> float:
    """Return the largest curvature at a point, if no bound holds everywhere."""
    if target.dim < 3:
        return float(np.linalg.eigvalsh(target.hessian(w))[-1])
    operator = scipy.sparse.linalg.LinearOperator(
        (target.dim, target.dim), matvec=lambda v: target.hvp(w, v.ravel()), dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(target.dim)
    return float(scipy.sparse.linalg.eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])


def candidates(config: StudyConfig) -> list[Candidate]:
    """Return the method of the configuration, then those it is compared with, each name once."""
    method, found = config.method, dict[str, Candidate]()
    averaging: Any = pp.averaging.Uniform() if method.averaging == "uniform" else None
    if method.averaging == "geometric":
        averaging = pp.averaging.Geometric(config.model.l2)
    rivals = [MethodSettings(name, batch_size=method.batch_size) for name in config.run.compare]
    for settings in (method, *rivals):
        key = (settings.correction or "plain") if settings.name == "proxyprox" else settings.name
        key = "gradient descent" if key == "sgd" and not settings.batch_size else key
        title, *grid = _GRIDS.get(key, (ROWS_SEEN.name,))
        build = partial(_arguments, settings, {"averaging": averaging})
        found.setdefault(title, Candidate(title, build, *grid) if grid else ROWS_SEEN)
    return list(found.values())


def _arguments(settings: MethodSettings, common: dict[str, Any], eta: Any) -> dict[str, Any]:
    """Return the arguments of ``minimize`` for a method of the configuration."""
    a, steps, measures = settings.a or 0.1, settings.inner_steps, as_step_size(eta).measures
    if settings.name in WITHOUT_PROXY:
        kinds: dict[str, Any] = {
            "momentum": pp.methods.Momentum,
            "adam": pp.Adam,
        }
        return {"method": kinds.get(settings.name, pp.SGD)(eta), **common}
    if settings.name in INNER_DESCENT:
        kind: Any = pp.methods.AuxMom if settings.name == "auxmom" else pp.methods.AuxMVR
        stop = pp.stopping.Steps(steps or 20)
        if measures:
            # The proximal term is what is measured; γ then follows from the smoothness.
            return {"method": kind(a=a, eta=eta), "stop": stop, **common}
        return {"method": kind(a=a), "inner": pp.inner.GradientDescent(eta), "stop": stop, **common}
    # Almost exactly unless told otherwise.
    rule: Any = pp.stopping.Residual(settings.inner_tolerance or EXACT)
    if steps is not None:
        rule = (
            rule | pp.stopping.Steps(steps)
            if settings.inner_tolerance
            else pp.stopping.Steps(steps)
        )
    solver = SOLVERS[settings.inner or "auto"]
    inner = None if solver is None else getattr(pp.inner, solver)()
    if settings.inner == "gradient-descent" and steps and not measures:
        # T steps of size η/T cover the proximal step; otherwise the step suits the smoothness.
        inner = pp.inner.GradientDescent(float(eta) / steps, implicit=True)
    corrections: dict[Any, Any] = {
        "ema": pp.corrections.EMA(a),
        "mean": pp.corrections.Mean(),
        "storm": pp.corrections.Storm(a),
    }
    correction = corrections.get(settings.correction, pp.corrections.Plain())
    method = pp.DANE(eta) if settings.name == "dane" else pp.ProxyProx(eta, correction)
    return {"method": method, "inner": inner, "stop": rule, **common}


def run_job(config: StudyConfig, job: Job, *, base: Path) -> list[Point]:
    """Run one job, in a worker process."""
    return _run(load_study(config, base), job)[0]


def _run(study: Study, job: Job) -> tuple[list[Point], compare.Answer]:
    run = study.config.run
    return compare.run_candidate(
        next(c for c in candidates(study.config) if c.name == job.method),
        job.eta,
        study.problem(job.batch_size, job.seed),
        optimum=study.optimum,
        budget=pp.Budget(target_gradients=job.budget, seconds=run.seconds),
        seed=np.random.SeedSequence([run.seed, job.seed]),
        at=compare.evaluation_points(job.budget),
    )


def method_to_write(
    main: str, wanted: str, ends: Sequence[Mapping[str, Any]]
) -> tuple[str, str, str]:
    """Return which method's weights are written, which one ended lowest, and both in a sentence.

    Parameters
    ----------
    main : str
        The configuration's own method.
    wanted : {"method", "lowest"}
        ``[run] weights``.
    ends : sequence of mappings
        Last row of each method: its name and its median suboptimality (None if it diverged).
    """
    found = {end["method"]: end["suboptimality_median"] for end in ends}
    known = {name: float(value) for name, value in found.items() if value is not None}
    # Of several that ended equally low, one's own.
    lowest = min(known, key=lambda name: (known[name], name != main), default=main)
    written = lowest if wanted == "lowest" else main
    if len(ends) < 2 or not known:
        return written, lowest, f"The weights written are those of {main}."
    text = f"{lowest} ended lowest, {height(known[lowest])}"
    if lowest != main:
        text += f" ({main}: {height(known[main]) if main in known else 'broke off'})"
    text += f"; the weights written are {'its own' if written == lowest else f'those of {main}'}."
    if written != lowest:
        text += f' [run] weights = "lowest" writes those of {lowest}.'
    return written, lowest, text


def raw_weights(study: Study, w: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return coefficients and intercepts that apply to unscaled columns.

    Parameters
    ----------
    study : Study
        The problem, with the scaling its columns went through.
    w : array
        Parameters of the scaled model.

    Returns
    -------
    coefficients : array of shape (columns, outputs)
    intercepts : array of shape (outputs,)
        Zeros for a model without intercept.
    """
    outputs, columns = study.target.family.outputs, len(study.names)
    matrix = np.asarray(w, dtype=np.float64).reshape(study.target.design.width, outputs)
    coefficients = matrix[:columns] / study.scale[:, None]
    intercepts = matrix[columns] if study.target.design.intercept else np.zeros(outputs)
    return coefficients, intercepts - study.centre @ coefficients


def prediction_rule(study: Study) -> str:
    """Return how to predict from the weights, with the label and its classes by name."""
    rule = FAMILIES[study.config.model.family].prediction
    label = study.config.target.label or "label"
    second = study.classes[1] if study.classes else ""
    return f"z = intercept + sum of coefficient * column; {rule.format(label=label, second=second)}"


def write_weights(path: Path, study: Study, curve: Curve, eta: Eta) -> compare.Answer:
    """Run a method's first seed again, write its weights, and return how it ended."""
    config, many = study.config, study.target.family.outputs > 1
    with threadpool_limits(1):  # as in the workers
        points, answer = _run(study, curve.job(eta, 0, config.run.target_gradients))
    coefficients, intercepts = raw_weights(study, answer.w)

    def by_class(row: np.ndarray[Any, Any]) -> Any:
        values = row.tolist()
        return dict(zip(map(str, study.classes), values, strict=True)) if many else values[0]

    content = {
        "usable": answer.success,
        "status": answer.message,
        "family": config.model.family,
        "label": config.target.label,
        "predict": prediction_rule(study),
        "intercept": by_class(intercepts),
        "coefficients": dict(zip(study.names, map(by_class, coefficients), strict=True)),
        "method": curve.method,
        "eta": eta,
        "suboptimality": points[-1]["suboptimality"],
        "run": f"the first of {config.run.seeds} seeds; tables show medians over all of them",
        "target_gradients": answer.target_gradients,
        "inner": answer.inner,
        **({"classes": study.classes} if study.classes else {}),
    }
    write_json(path, content)
    return answer


def table_model(study: Study, w: Any, method: str) -> TableModel | None:
    """Return weights with what the table's columns become, for new tables; None for arrays."""
    if study.columns is None:
        return None
    coefficients, intercepts = raw_weights(study, w)
    family, classes = study.config.model.family, list(study.classes)
    task = "classification" if FAMILIES[family].classifier else "regression"
    glm = FittedGLM(family, classes, np.ascontiguousarray(coefficients.T), intercepts)
    return TableModel(study.columns, glm, str(study.config.target.label), task, {"model": method})


def plan_toml(plan: RunPlan, batch_size: int | None) -> str | None:
    """Return ``[method]`` and ``[run]`` with the settings of a plan.

    Parameters
    ----------
    plan : RunPlan
        The plan.
    batch_size : int or None
        Rows of a target gradient, as audited; None for all rows.

    Returns
    -------
    lines : str or None
        TOML; None for what the configuration has no key for: a scaled proxy, ProxyBFGS, an
        infinite step size.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic, audit, plan
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.ones(2), noise=0.1)
    >>> planned = plan(audit(Problem(target, Quadratic(np.diag([1.0, 8.0]))), rng=0))
    >>> print(plan_toml(planned, 64).splitlines()[1])
    name = "proxyprox"
    """
    if isinstance(plan.problem.proxy, ScaledProxy) or plan.method.exact:
        return None
    sgd = isinstance(plan.method, pp.SGD)
    method = {
        "name": "sgd" if sgd else "proxyprox",
        **({} if sgd else {"correction": "plain"}),
        "eta": float(plan.method.eta),
        "batch_size": batch_size or "all",
        "averaging": "uniform" if isinstance(plan.averaging, pp.averaging.Uniform) else "last",
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in method.items()]
    return "\n".join(["[method]", *lines, "", "[run]", f"target_gradients = {plan.steps}"])
