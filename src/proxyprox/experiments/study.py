"""A run on one's own data: tables, model, proxy, methods, weights.

The methods that a configuration file can name, with the step sizes tried for each.

Every one of them takes a number or "auto" as its step size.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import sklearn.datasets
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from proxyprox import (
    DANE,
    EMA,
    GLM,
    L1,
    LBFGS,
    SGD,
    AuxMom,
    AuxMVR,
    Budget,
    Geometric,
    GradientDescent,
    Mean,
    Nesterov,
    Newton,
    NewtonCG,
    Plain,
    Problem,
    ProximalGradient,
    ProxyProx,
    QuasiNewton,
    Residual,
    Result,
    Steps,
    Storm,
    Uniform,
    Zero,
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)
from proxyprox._util.arrays import Vector, norm
from proxyprox._util.digests import file_digest
from proxyprox._util.files import atomic_output, atomic_write_text
from proxyprox.datasets import DataError, Table, read_table
from proxyprox.diagnostics import RunPlan
from proxyprox.experiments.contest import (
    ERM,
    EXACT,
    Contender,
    fit_rows_seen,
    marks,
    play_and_keep,
    yardstick,
)
from proxyprox.experiments.records import Point
from proxyprox.experiments.study_config import Choice, Config
from proxyprox.experiments.tournament import Entry, Job
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import ScaledProxy

BUILT_IN = "sklearn:"
"""How the name of a set that ships with scikit-learn begins, in place of a file."""

_LOADERS = ("breast_cancer", "diabetes", "digits", "iris", "wine")


def read_tables(config: Config, base: Path) -> tuple[Table, Table | None]:
    """Return the target's rows and, where the proxy has a file, its rows with the same columns.

    Parameters
    ----------
    config : Config
        The settings.
    base : Path
        Folder that file names are relative to.

    Raises
    ------
    DataError
        For a file that cannot be used, labels that do not suit the family, or other columns.
    """
    target = _target_rows(config, base)
    proxy = _proxy_rows(config, base)
    if proxy is None:
        return target, None
    if scipy.sparse.issparse(target.X) and scipy.sparse.issparse(proxy.X):
        # svmlight leaves zeros out: either file may end before the last column.
        names = max(target.feature_names, proxy.feature_names, key=len)
        target, proxy = _widened(target, names), _widened(proxy, names)
    where = str(config.proxy.file)
    proxy = _matched(proxy, target.feature_names, where, config.target.file)
    if config.proxy.kind == "labelled":
        if proxy.y is None:
            raise DataError(f"{where}: which column holds the label? Name it: [proxy] label.")
        check_labels(config, proxy.y, where, classes_of(config, target.y))
    return target, proxy


def _target_rows(config: Config, base: Path) -> Table:
    part = config.target
    try:
        table = _read(part.file, base, part.label, part.features, part.weight, part.format)
    except DataError as error:
        if part.label is not None:
            raise
        hint = "No column was named as the label; if this is it, say so: [target] label."
        raise DataError(f"{error} {hint}") from error
    if table.y is None:
        raise DataError(
            f"{part.file}: which column holds the label? Name it: [target] label. The columns are "
            f"{', '.join(map(repr, table.feature_names[:20]))}."
        )
    check_labels(config, table.y, part.file)
    return table


def _proxy_rows(config: Config, base: Path) -> Table | None:
    part = config.proxy
    if part.file is None:
        return None
    label = part.label or config.target.label if part.kind == "labelled" else None
    if _is_svmlight(part.file, part.format):
        label = None  # its labels have no name
    return _read(part.file, base, label, config.target.features, part.weight, part.format)


def digests(config: Config, base: Path) -> tuple[str, ...]:
    """Return a line for each data file that changes when the file does."""
    lines = []
    for name in (config.target.file, config.proxy.file):
        if name is None or name.startswith(BUILT_IN):
            continue
        try:
            found = file_digest(_place(name, base))
        except OSError:
            continue  # the reader of tables words it
        lines.append(f"{name}: sha256 {found}")
    return tuple(lines)


def classes_of(config: Config, y: Any) -> tuple[Any, ...]:
    """Return the classes of the labels: those of the configuration, or those that occur."""
    if config.model.classes is not None:
        return config.model.classes
    return tuple(value.item() for value in np.unique(y))


def check_labels(config: Config, y: Any, where: str, classes: Sequence[Any] | None = None) -> None:
    """Refuse labels that the family cannot have, naming the first row at fault."""
    family = config.model.family
    if family in ("linear", "poisson"):
        if y.dtype.kind not in "biuf":
            row, value = _first(y, lambda v: not _is_number(v))
            raise DataError(
                f"{where}: row {row}: the label {value!r} is not a number, which family = "
                f'{family!r} needs. For classes use "logistic" or "softmax".'
            )
        if family == "poisson" and (y < 0).any():
            row, value = _first(y, lambda v: v < 0)
            raise DataError(f"{where}: row {row}: the count {value!r} is negative.")
        return
    known = tuple(classes) if classes is not None else classes_of(config, y)
    allowed = set(known)
    if not all(value.item() in allowed for value in np.unique(y)):
        row, value = _first(y, lambda v: v not in allowed)
        quoted = any(isinstance(c, str) for c in known) != isinstance(value, str)
        hint = ' Mind the quotes: 1 is a number, "1" is text.' if quoted else ""
        raise DataError(
            f"{where}: row {row}: the label {value!r} is not one of the classes "
            f"{list(known)}.{hint}"
        )
    if classes is not None:
        return
    found = [value.item() for value in np.unique(y)]
    if len(found) == 1:
        raise DataError(
            f"{where}: every row has the label {found[0]!r}; {family} needs rows of two classes."
        )
    if family == "logistic" and len(found) > 2:
        shown = ", ".join(map(repr, found[:6])) + (", …" if len(found) > 6 else "")
        raise DataError(
            f"{where}: {len(found)} classes ({shown}); logistic takes two: mend the labels, or use "
            'family = "softmax".'
        )


def _read(
    name: str,
    base: Path,
    label: str | None,
    features: Sequence[str] | None,
    weight: str | None,
    format: str | None,
) -> Table:
    if name.startswith(BUILT_IN):
        return _built_in(name, features)
    try:
        return read_table(
            _place(name, base),
            label=label,
            features=features,
            sample_weight=weight,
            format=format,  # type: ignore[arg-type]
        )
    except DataError as error:
        # The reader speaks of its argument; here it is a key of the configuration.
        words = str(error).replace("'features'", "[target] features")
        if words != str(error) and features is None:
            words += " That is the list of columns to use; without it all are used."
        raise DataError(words) from error


def _place(name: str, base: Path) -> Path:
    return base / Path(name).expanduser()


def _is_svmlight(name: str, format: str | None) -> bool:
    if format is not None:
        return format == "svmlight"
    return bool({".svm", ".svmlight", ".libsvm"} & set(Path(name).suffixes))


def _built_in(name: str, features: Sequence[str] | None) -> Table:
    wanted = name.removeprefix(BUILT_IN)
    if wanted not in _LOADERS:
        raise DataError(f"{name!r} is not known: {BUILT_IN} goes with {', '.join(_LOADERS)}.")
    bunch = getattr(sklearn.datasets, f"load_{wanted}")()
    names = tuple(str(column) for column in bunch.feature_names)
    X = np.asarray(bunch.data, dtype=np.float64)
    y = np.asarray(bunch.target)
    y = np.asarray(bunch.target_names)[y].astype(np.str_) if _has_text(bunch) else y.astype(float)
    table = Table(X, y, names, len(X))
    return table if features is None else _matched(table, tuple(features), name, "features")


def _has_text(bunch: Any) -> bool:
    return bool(np.asarray(getattr(bunch, "target_names", [0])).dtype.kind == "U")


def _widened(table: Table, names: tuple[str, ...]) -> Table:
    X = table.X.copy()
    X.resize((table.rows, len(names)))
    return Table(X, table.y, names, table.rows, table.sample_weight)


def _matched(table: Table, wanted: tuple[str, ...], where: str, target: str) -> Table:
    """Put the columns in the wanted order; refuse another set of columns."""
    missing = [name for name in wanted if name not in table.feature_names]
    if missing:
        raise DataError(
            f"{where}: no column {', '.join(map(repr, missing[:5]))}, which {target} has; target "
            "and proxy need the same columns, in any order."
        )
    if target != "features" and (extra := [n for n in table.feature_names if n not in wanted]):
        raise DataError(
            f"{where}: the column {', '.join(map(repr, extra[:5]))} is not in {target}; drop it, "
            "or list the columns to use in [target] features."
        )
    place = {name: index for index, name in enumerate(table.feature_names)}
    order = [place[name] for name in wanted]
    return Table(table.X[:, order], table.y, wanted, table.rows, table.sample_weight)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _first(y: Any, wrong: Any) -> tuple[int, Any]:
    """Return the first label at fault and its row, counted from 1 as the readers do."""
    for row, value in enumerate(y, start=1):
        plain = value.item() if hasattr(value, "item") else value
        if wrong(plain):
            return row, plain
    raise AssertionError("no label is at fault")


StepSize = float | Literal["auto"]

WEIGHT = 0.1
"""The weight a of moving averages, where none is given."""

INNER_STEPS = 20
"""Inner steps of AuxMom and AuxMVR, where none are given."""

_SOLVERS = {
    "newton": Newton,
    "quasi-newton": QuasiNewton,
    "newton-cg": NewtonCG,
    "lbfgs": LBFGS,
    "nesterov": Nesterov,
    "proximal-gradient": ProximalGradient,
}


def lineup(config: Config) -> list[Contender]:
    """Return the method of the configuration, then those it is compared with, each name once."""
    found: dict[str, Contender] = {}
    for name in (None, *config.run.compare):
        if name == "erm":
            contender = yardstick()
        elif name is None:
            contender = _contender(config.method, config)
        else:
            rival = Choice(name, batch_size=config.method.batch_size)
            contender = _contender(rival, config)
        found.setdefault(contender.name, contender)
    return list(found.values())


def _contender(choice: Choice, config: Config) -> Contender:
    build = {
        "proxyprox": _proxyprox,
        "sgd": _sgd,
        "auxmom": _auxiliary,
        "auxmvr": _auxiliary,
        "dane": _dane,
    }[choice.name]
    return build(choice, _averaging(config))


def _sgd(choice: Choice, common: dict[str, Any]) -> Contender:
    name = "SGD" if choice.batch_size else "gradient descent"
    return Contender(name, lambda eta: {"method": SGD(eta), **common}, 0.1, 2.5, 0.2)


def _proxyprox(choice: Choice, common: dict[str, Any]) -> Contender:
    a = WEIGHT if choice.a is None else choice.a
    words = {"plain": "", "ema": ", EMA", "mean": ", running mean", "storm": ", STORM"}
    correction: dict[str, Any] = {
        "plain": Plain(),
        "ema": EMA(a),
        "mean": Mean(),
        "storm": Storm(a),
    }
    kind = choice.correction or "plain"

    def build(eta: StepSize) -> dict[str, Any]:
        return {"method": ProxyProx(eta, correction[kind]), **_inner(choice, eta), **common}

    # Averaged corrections are less noisy and bear longer steps.
    return Contender(f"ProxyProx{words[kind]}", build, 0.25, 5.0 if kind == "plain" else 8.0, 1.0)


def _dane(choice: Choice, common: dict[str, Any]) -> Contender:
    def build(eta: StepSize) -> dict[str, Any]:
        return {"method": DANE(eta), **_inner(choice, eta), **common}

    return Contender("DANE", build, 0.25, 5.0, 1.0)


def _auxiliary(choice: Choice, common: dict[str, Any]) -> Contender:
    a = WEIGHT if choice.a is None else choice.a
    steps = choice.inner_steps or INNER_STEPS
    kind: Any = AuxMom if choice.name == "auxmom" else AuxMVR

    def build(gamma: StepSize) -> dict[str, Any]:
        if gamma == "auto":
            # The proximal term is what is measured; γ then follows from the smoothness.
            return {"method": kind(a=a, eta="auto"), "stop": Steps(steps), **common}
        return {
            "method": kind(a=a),
            "inner": GradientDescent(gamma),
            "stop": Steps(steps),
            **common,
        }

    return Contender(kind.__name__, build, 0.05, 2.5, steps / 4)


def _inner(choice: Choice, eta: StepSize) -> dict[str, Any]:
    """Return solver and rule of the subproblems; solved almost exactly unless told otherwise."""
    stop: Any = None
    if choice.inner_tolerance is not None or choice.inner_steps is None:
        stop = Residual(choice.inner_tolerance or EXACT)
    if choice.inner_steps is not None:
        steps = Steps(choice.inner_steps)
        stop = steps if stop is None else stop | steps
    settings: dict[str, Any] = {"stop": stop}
    if choice.inner == "gradient-descent":
        # T steps of size η/T cover the proximal step; otherwise the step suits the smoothness.
        known = choice.inner_steps is not None and eta != "auto"
        fixed = float(eta) / (choice.inner_steps or 1) if known else None
        settings["inner"] = GradientDescent(step_size=fixed, implicit=fixed is not None)
    elif choice.inner not in (None, "auto"):
        settings["inner"] = _SOLVERS[choice.inner]()
    return settings


def _averaging(config: Config) -> dict[str, Any]:
    kind = config.method.averaging
    if kind == "last":
        return {}
    return {"averaging": Uniform() if kind == "uniform" else Geometric(config.model.l2)}


def fit_file(folder: Path, method: str, *, main: bool) -> Path:
    """Return where a method's answer is kept, beside the records."""
    words = re.sub(r"[^a-z0-9]+", "-", method.lower()).strip("-")
    return folder / ("fit.json" if main else f"fit-{words}.json")


def keep_result(path: Path, job: Job, result: Result, suboptimality: float) -> None:
    """Write the answer of a run.

    Parameters
    ----------
    path : Path
        The file.
    job : Job
        What was run.
    result : Result
        What came out.
    suboptimality : float
        Of the answer.
    """
    _write(
        path,
        job,
        result.w,
        suboptimality,
        status=result.status.name,
        success=result.success,
        message=result.message,
        steps=result.steps,
        ledger=result.ledger.as_dict(),
        inner=result.inner,
    )


def keep_rows_seen(
    path: Path, job: Job, w: Vector, suboptimality: float, ledger: Mapping[str, float]
) -> None:
    """Write the answer of the yardstick, which has no step size and no steps."""
    rows = f"{ledger['target_samples']:,.0f} rows drawn"
    _write(
        path,
        job,
        w,
        suboptimality,
        status="CONVERGED",
        success=True,
        message=f"The {rows}, repetitions counted, were fitted without a proxy.",
        steps=0,
        ledger=dict(ledger),
        inner="",
    )


def whose(main: str, wanted: str, ends: Sequence[Mapping[str, Any]]) -> tuple[str, str, str]:
    """Return whose weights are written, which method ended lowest, and both in a sentence.

    Parameters
    ----------
    main : str
        The configuration's own method.
    wanted : {"method", "lowest"}
        ``[run] weights``.
    ends : sequence of mappings
        Last row of each method: its name, its batch size (None for all rows) and its median
        suboptimality (None if it diverged).
    """
    known = {e["method"]: float(e["suboptimality_median"]) for e in ends if _arrived(e)}
    lowest = min(known, key=lambda name: known[name], default=main)
    # Of several that ended equally low, one's own.
    if main in known and known[main] <= known[lowest]:
        lowest = main
    chosen = lowest if wanted == "lowest" else main
    if len(ends) < 2 or not known:
        return chosen, lowest, f"The weights written are those of {main}."
    said = f"{lowest} ended lowest, {_height(known[lowest])}"
    if lowest != main:
        said += f" ({main}: {_height(known[main]) if main in known else 'broke off'})"
        sizes = {end["method"]: end.get("batch_size") for end in ends}
        if sizes[lowest] is None and sizes.get(main) is not None:
            said += f", with gradients of all rows where {main}'s are of {sizes[main]}"
    if chosen == lowest:
        return chosen, lowest, f"{said}; the weights written are its own."
    hint = f'[run] weights = "lowest" writes those of {lowest}.'
    return chosen, lowest, f"{said}; the weights written are those of {main}. {hint}"


def _arrived(end: Mapping[str, Any]) -> bool:
    return end["suboptimality_median"] is not None


def _height(value: float) -> str:
    return "at the optimum to rounding" if value <= 0 else f"{value:.1e} above the optimum"


def _write(path: Path, job: Job, w: Vector, suboptimality: float, **more: Any) -> None:
    content = {
        "method": job.method,
        "eta": job.eta,
        "suboptimality": suboptimality if math.isfinite(suboptimality) else None,
        **more,
        "w": [float(x) for x in w],
    }
    atomic_write_text(path, json.dumps(content, allow_nan=False) + "\n")


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
        tol = 1e-12 if penalty is None else 1e-9
        best = minimise_exactly(target, start, tol=tol, penalty=penalty)
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


_PREDICT = {
    "linear": "prediction = z",
    "logistic": "P({label} = {second}) = 1 / (1 + exp(-z))",
    "softmax": "P(class) = exp(z of the class) / sum of exp(z) over the classes",
    "poisson": "expected count = exp(z)",
}


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
    outputs = study.target.family.outputs
    matrix = np.asarray(w, dtype=np.float64).reshape(study.target.design.width, outputs)
    columns = len(study.names)
    coefficients = matrix[:columns] / study.scale[:, None]
    intercepts = matrix[columns] if study.target.design.intercept else np.zeros(outputs)
    return coefficients, intercepts - study.centre @ coefficients


def prediction_rule(config: Config, study: Study) -> str:
    """Return how to predict from the weights, with the label and its classes by name."""
    rule = _PREDICT[config.model.family]
    if config.model.family == "logistic":
        second = str(_plain(study.classes[1]))
        rule = rule.format(label=config.target.label or "label", second=second)
    return f"z = intercept + sum of coefficient * column; {rule}"


def write_weights(folder: Path, config: Config, study: Study, fit: Mapping[str, Any]) -> list[Path]:
    """Write ``weights.json`` and ``weights.npz``, and return their paths.

    Parameters
    ----------
    folder : Path
        Existing folder.
    config : Config
        The settings.
    study : Study
        The problem.
    fit : mapping
        What :func:`~proxyprox.experiments.study.fit` returns.
    """
    coefficients, intercepts = raw_weights(study, fit["w"])
    classes = [_plain(value) for value in study.classes]
    many = study.target.family.outputs > 1

    def by_class(row: np.ndarray[Any, Any]) -> Any:
        if not many:
            return float(row[0])
        return {str(c): float(x) for c, x in zip(classes, row, strict=True)}

    content: dict[str, Any] = {
        "usable": fit["success"],
        "status": fit["message"],
        "family": config.model.family,
        "label": config.target.label,
        "predict": prediction_rule(config, study),
        "intercept": by_class(intercepts),
        "coefficients": {
            name: by_class(row) for name, row in zip(study.names, coefficients, strict=True)
        },
        "method": fit["method"],
        "eta": fit["eta"],
        "suboptimality": fit["suboptimality"],
        "run": f"the first of {config.run.seeds} seeds; tables show medians over all of them",
        "target_gradients": fit["ledger"]["target_gradients"],
        "inner": fit["inner"],
    }
    if classes:
        content["classes"] = classes
    as_json, as_arrays = folder / "weights.json", folder / "weights.npz"
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    atomic_write_text(as_json, text + "\n")
    with atomic_output(as_arrays) as file:
        np.savez(
            file,
            coefficients=coefficients if many else coefficients[:, 0],
            intercept=intercepts if many else intercepts[0],
            feature_names=np.array(study.names, dtype=np.str_),
            classes=np.array(classes),
            usable=np.array(fit["success"]),
        )
    return [as_json, as_arrays]


def _plain(value: Any) -> Any:
    """Write the label 1.0 of a text file as 1, the way it stands there."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
        TOML; None for a scaled proxy, which the configuration has no key for.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic, audit, plan
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.ones(2), noise=0.1)
    >>> planned = plan(audit(Problem(target, Quadratic(np.diag([1.0, 8.0]))), rng=0))
    >>> print(plan_toml(planned, 64).splitlines()[1])
    name = "proxyprox"
    """
    if isinstance(plan.problem.proxy, ScaledProxy):
        return None
    plain = isinstance(plan.method, SGD)
    kind = ['name = "sgd"'] if plain else ['name = "proxyprox"', 'correction = "plain"']
    average = "uniform" if isinstance(plan.averaging, Uniform) else "last"
    return "\n".join(
        [
            "[method]",
            *kind,
            f"eta = {float(plan.method.eta)!r}",
            f"batch_size = {batch_size}" if batch_size else 'batch_size = "all"',
            f'averaging = "{average}"',
            "",
            "[run]",
            f"target_gradients = {plan.steps}",
        ]
    )
