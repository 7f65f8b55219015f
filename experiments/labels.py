"""Few labels, many inputs: test loss against the number of labels, with and without a teacher."""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.special
import scipy.stats
import typer
from rich.table import Table
from sklearn import datasets as built_in
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from experiments import datasets as libsvm
from experiments.compare import Curve, Job
from experiments.comparison import run_experiment
from experiments.figures import save_figures
from experiments.records import publish
from experiments.report.page import write_report
from experiments.report.summary import Point, Row, summarise, write_json
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
    start,
)
from proxyprox import (
    SGD,
    Problem,
    ProxyProx,
    logistic_regression,
    minimize,
    softmax_regression,
)
from proxyprox._util.validation import message, whole
from proxyprox.sklearn import ProxyLogisticRegression
from proxyprox_app.cli.console import command_line, emit, output_folder, plain, say, stdout

OURS = "ProxyLogisticRegression"
BASELINE = "LogisticRegressionCV"
BY_LOSS = "LogisticRegressionCV, by log-loss"
PLAIN = "LogisticRegression()"
SELF = "SelfTrainingClassifier"
ONE_PASS_SGD = "SGD, one pass"
ONE_PASS = "ProxyProx, one pass"
OURS_TAUGHT = "ProxyLogisticRegression with teacher"
DISTILLED = "the teacher's answers alone"
PPI_TUNED = "ppi_py, tuned power"

ALONE = (
    (OURS, 3.0), (PLAIN, 0.1), (BASELINE, 1.0), (BY_LOSS, 1.0), (SELF, 1.0),
    (ONE_PASS_SGD, 0.5), (ONE_PASS, 4.0),
)  # fmt: skip
"""Methods without a teacher, with their rough cost."""

TAUGHT = ((OURS_TAUGHT, 6.0), (OURS, 3.0), (BASELINE, 1.0), (BY_LOSS, 1.0), (DISTILLED, 1.0))
PPI = ((PPI_TUNED, 4.0),)

ONE_PASS_BATCH = 5
ETAS = {ONE_PASS_SGD: np.geomspace(0.03, 30, 5), ONE_PASS: np.geomspace(0.1, 1e3, 5)}
"""Step sizes tried by the one-pass methods, in units of 1/H, on a fifth of the labels."""

TRIAL = 400
"""Labels of a pass that tries a step size, at most."""

RANK_TOLERANCE = 1e-6
"""Share of the largest moment below which a direction counts as absent, for ppi_py."""

WORST = 50.0
"""Log-loss recorded for a model that is certain and wrong, instead of infinity."""

Array = Any


def loss_of(method: str, drawn: Any, *, seed: int) -> float:
    """Fit a method and return its test log-loss; NaN if it has no answer.

    Parameters
    ----------
    method : str
        One of the names above.
    drawn : Draw
        The rows.
    seed : int
        Randomness of the fit.
    """
    with warnings.catch_warnings():
        # Baselines that stop at their iteration limit are scored as they are.
        warnings.simplefilter("ignore")
        probabilities = _probabilities(method, drawn, seed)
    smallest = math.exp(-WORST)
    clipped = np.clip(probabilities, smallest, None)
    clipped = clipped / clipped.sum(axis=1, keepdims=True)
    codes = np.searchsorted(drawn.classes, drawn.y_test)
    return float(-np.mean(np.log(clipped[np.arange(len(codes)), codes])))


def _probabilities(method: str, drawn: Any, seed: int) -> Array:
    X, y, X_test = drawn.X, drawn.y, drawn.X_test
    if method == OURS:
        model: Any = ProxyLogisticRegression(random_state=seed).fit(X, y, X_proxy=drawn.X_proxy)
    elif method == OURS_TAUGHT:
        model = ProxyLogisticRegression(random_state=seed)
        model.fit(X, y, X_proxy=drawn.X_proxy, y_proxy=drawn.answers)
    elif method in (BASELINE, BY_LOSS):
        scoring = "neg_log_loss" if method == BY_LOSS else None
        folds = min(5, int(np.min(np.unique(y, return_counts=True)[1])))
        model = LogisticRegressionCV(cv=folds, scoring=scoring, max_iter=1000).fit(X, y)
    elif method == PLAIN:
        model = LogisticRegression(max_iter=1000).fit(X, y)
    elif method == SELF:
        model = SelfTrainingClassifier(LogisticRegression(max_iter=1000))
        model.fit(*_with_unknown(drawn))
    elif method == DISTILLED:
        model = LogisticRegression(max_iter=1000)
        model.fit(drawn.X_proxy, drawn.answers[len(y) :])
    elif method == PPI_TUNED:
        return _ppi(drawn)
    else:
        return _one_pass(method, drawn, seed)
    return model.predict_proba(X_test)


def _with_unknown(drawn: Any) -> tuple[Any, Array]:
    codes = np.searchsorted(drawn.classes, drawn.y)
    unknown = np.full(drawn.X_proxy.shape[0], -1)
    return _stack(drawn.X, drawn.X_proxy), np.concatenate([codes, unknown])


def _stack(*parts: Any) -> Any:
    if hasattr(parts[0], "tocsr"):
        import scipy.sparse

        return scipy.sparse.vstack(parts).tocsr()
    return np.vstack(parts)


def _ppi(drawn: Any) -> Array:
    """Return prediction-powered probabilities, or NaN if there is no unregularised estimate."""
    ppi_py = importlib.import_module("ppi_py")
    X, proxy, test = (_dense(part) for part in (drawn.X, drawn.X_proxy, drawn.X_test))
    n = len(drawn.y)
    # It inverts a Hessian: columns that are sums of others (one-hot tables) must go first. An
    # unregularised estimate does not depend on the coordinates.
    values, vectors = np.linalg.eigh(proxy.T @ proxy / len(proxy))
    kept = values > RANK_TOLERANCE * values[-1]
    turn = vectors[:, kept] / np.sqrt(values[kept])
    nothing = np.full((len(test), 2), np.nan)
    if n < 2 * turn.shape[1]:
        return nothing
    y, f = (np.searchsorted(drawn.classes, part).astype(float) for part in (drawn.y, drawn.answers))
    try:
        w = ppi_py.ppi_logistic_pointestimate(X @ turn, y, f[:n], proxy @ turn, f[n:])
    except np.linalg.LinAlgError:
        # Separable labels: there is no unregularised estimate to tune the power of.
        return nothing
    positive = scipy.special.expit(test @ turn @ w)
    return np.stack([1 - positive, positive], axis=1)


def _dense(X: Any) -> Array:
    X = X.toarray() if hasattr(X, "toarray") else X
    return np.hstack([X, np.ones((len(X), 1))])


class _OnePass:
    """A loss whose batches go through the rows once, in order."""

    def __init__(self, loss: Any, rows: int) -> None:
        self.loss, self.rows, self.dim, self.zeros = loss, rows, loss.dim, loss.zeros
        self._next = 0

    def sample(self, rng: np.random.Generator) -> Array:
        start = self._next
        self._next = (start + ONE_PASS_BATCH) % self.rows
        return np.arange(start, min(start + ONE_PASS_BATCH, self.rows))

    def gradient(self, w: Array, batch: Array) -> Array:
        return self.loss.gradient(w, batch)


def _one_pass(method: str, drawn: Any, seed: int) -> Array:
    """Choose the step size on the last fifth of the labels, then pass once over all of them."""
    classes = tuple(drawn.classes.tolist())
    build = logistic_regression if len(classes) == 2 else softmax_regression
    target = build(drawn.X, drawn.y, classes=classes, intercept=True)
    proxy = target.label_free(_stack(drawn.X, drawn.X_proxy))
    n = len(drawn.y)
    cut = n - max(1, n // 5)
    first, last = np.arange(min(cut, TRIAL)), np.arange(cut, n)
    check = target.rows(last)

    def one_pass(eta: float, rows: Array) -> Array:
        loss = _OnePass(target.rows(rows), len(rows))
        rule: Any = SGD(eta) if method == ONE_PASS_SGD else ProxyProx(eta)
        problem = Problem(loss) if method == ONE_PASS_SGD else Problem(loss, proxy)
        steps = max(1, len(rows) // ONE_PASS_BATCH)
        return minimize(problem, method=rule, steps=steps, rng=seed).last

    unit = 1 / target.smoothness
    best = min(ETAS[method], key=lambda eta: _finite(check.value(one_pass(eta * unit, first))))
    w = one_pass(best * unit, np.arange(n)).reshape(target.design.width, -1)
    z = np.asarray(drawn.X_test @ w[:-1]) + w[-1]
    if z.shape[1] == 1:
        return np.hstack([scipy.special.expit(-z), scipy.special.expit(z)])
    return scipy.special.softmax(z, axis=1)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf


BUILT_IN = ("breast_cancer", "wine", "digits")
TEACHERS = {"good": 0.05, "mediocre": 0.25, "bad": 0.5}
"""Teachers, by the share of wrong answers they give; at one half they know nothing."""

MOST_TAUGHT = 1000
"""Labels up to which teachers are tried: with more there is little left to teach."""


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


def curves(config: Config) -> list[Curve]:
    """Return the curves of all panels."""
    found: list[Curve] = []
    for name in config.datasets:
        found += [Curve(name, method, None, (None,), effort) for method, effort in ALONE]
    for name in config.taught:
        if len(np.unique(_data(name)[1])) != 2:
            raise ValueError(message("taught", name, "a set of two classes"))
        with_ppi = [*TAUGHT, *(PPI if find_spec("ppi_py") else ())]
        for teacher in TEACHERS:
            panel = f"{name}, {teacher} teacher"
            found += [Curve(panel, method, None, (None,), effort) for method, effort in with_ppi]
    return found


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
        # A method without an answer leaves a gap, not a number.
        known = loss if math.isfinite(loss) else None
        points.append({"labels": labels, "test_loss": known, "seconds": seconds})
    return points


def usable(labels: Sequence[int], rows: int) -> list[int]:
    """Return the numbers of labels that leave at least as many rows without one."""
    return [number for number in sorted(labels) if number <= rows // 3]


def draw(name: str, labels: int, seed: int, flip: float | None = None) -> Draw:
    """Draw test rows (a third), labelled rows and the proxy's rows.

    The labelled rows of a smaller number are among those of a larger one, and every class has two
    labels at least, because without them the baselines cannot cross-validate.

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
    labelled = pool[: max(labels, len(first))]
    rest = pool[len(labelled) :]
    answers = None
    if flip is not None:
        rows = np.concatenate([labelled, rest])
        wrong = rng.random(len(y))[rows] < flip
        answers = np.where(wrong, classes.sum() - y[rows], y[rows])
    return Draw(X[labelled], y[labelled], answers, X[rest], X[test], y[test], classes)


def facts(config: Config) -> dict[str, str]:
    """Return the size of each data set."""
    names = dict.fromkeys((*config.datasets, *config.taught))
    return {n: "{} rows, {} columns".format(*_data(n)[0].shape) for n in names}


def fetch(config: Config, *, download: bool, progress: bool) -> None:
    """Find every set before there are workers, so that one that is missing is one message."""
    for name in dict.fromkeys((*config.datasets, *config.taught)):
        if name not in BUILT_IN:
            libsvm.load(name, download=download, progress=progress)


@lru_cache(maxsize=2)
def _data(name: str) -> tuple[Any, Array]:
    if name in BUILT_IN:
        X, y = getattr(built_in, f"load_{name}")(return_X_y=True)
        # Scaled by all inputs, which cost no labels.
        return StandardScaler().fit_transform(X), y
    data = libsvm.load(name)
    return data.X, np.unique(data.y, return_inverse=True)[1]


WORDS = {"labels": "labels bought", "test_loss": "test log-loss", "seconds": "seconds of a fit"}
AXES = ("labels", "seconds")
DIFFERENCES = (
    "Mean test log-loss of ours (with the teacher, if there is one) and of each other method, "
    "and the mean of their differences seed by seed with its 95 % interval."
)
NOTES = (
    "A third of the rows is the test set; of the others some are labelled, the same for every "
    "method, and the rest is the proxy. Every class has two labels at least.",
    "Nothing is tuned on test rows: step sizes of the one-pass methods are chosen on a fifth of "
    "their labels, all other choices by cross-validation on the labels.",
    "LogisticRegressionCV chooses C by accuracy unless it is told to use the log-loss; both are "
    "shown. ppi_py does not regularise: with fewer than two labels a column, or with labels that "
    "a plane separates, it has no answer and no point here.",
)


def differences(records: Sequence[Point]) -> list[Row]:
    """Return paired differences of test losses, ours minus each baseline's, with 95 % intervals.

    Parameters
    ----------
    records : sequence of points
        Points of all methods and seeds.
    """
    table: dict[tuple[str, int, str], dict[int, float]] = {}
    for point in records:
        key = (point["panel"], point["labels"], point["method"])
        table.setdefault(key, {})[point["seed"]] = point["test_loss"]
    rows: list[Row] = []
    for (panel, labels, method), theirs in table.items():
        ours = OURS_TAUGHT if (panel, labels, OURS_TAUGHT) in table else OURS
        if method == ours:
            continue
        mine = table[panel, labels, ours]
        seeds = sorted(mine.keys() & theirs.keys())
        gaps = np.array([mine[seed] - theirs[seed] for seed in seeds])
        half = _half_width(gaps)
        rows.append(
            {
                "panel": panel,
                "labels": labels,
                "method": method,
                "ours": float(np.mean([mine[seed] for seed in seeds])),
                "theirs": float(np.mean([theirs[seed] for seed in seeds])),
                "difference": float(gaps.mean()),
                "low": float(gaps.mean() - half),
                "high": float(gaps.mean() + half),
                "seeds": len(seeds),
            }
        )
    return rows


def sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, for each panel, where ours is lower, higher or not told apart from a baseline."""
    texts = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        against = (OURS, BASELINE) if "teacher" in panel else (BASELINE, BY_LOSS)
        for method in against:
            here = [row for row in rows if row["panel"] == panel and row["method"] == method]
            lower = [str(row["labels"]) for row in here if row["high"] < 0]
            higher = [str(row["labels"]) for row in here if row["low"] > 0]
            equal = [str(row["labels"]) for row in here if row["low"] <= 0 <= row["high"]]
            parts = [
                f"{word} at {', '.join(found)} labels"
                for word, found in (
                    ("lower", lower),
                    ("higher", higher),
                    ("not told apart", equal),
                )
                if found
            ]
            name = "labels alone" if method == OURS else method
            texts.append(
                f"{panel}: mean test loss against {name}: {'; '.join(parts)} (95 % intervals)."
            )
    return texts


def write_results(
    folder: Path, records: Sequence[Point], command: str, config: Mapping[str, Any]
) -> tuple[list[Row], list[str]]:
    """Write ``summary.json``, figures and ``report.html``; return the differences and sentences."""
    records = [point for point in records if point["test_loss"] is not None]
    rows = summarise(records, metric="test_loss", x="labels", costs=("seconds",))
    gaps = differences(records)
    texts = sentences(gaps)
    found = {"command": command, "config": dict(config), "differences": gaps, "findings": texts}
    write_json(folder / "summary.json", {**found, "rows": rows})
    save_figures(folder, rows, metric="test_loss", x_axes=AXES[:1], log_x=True, labels=WORDS)
    write_report(
        folder,
        title="Few labels, many inputs",
        lead=texts,
        command=command,
        config=config,
        rows=rows,
        costs=gaps,
        notes=NOTES,
        metric="test_loss",
        x_axes=AXES,
        log_x=True,
        labels=WORDS,
        costs_heading="Paired differences",
        costs_caption=DIFFERENCES,
    )
    return gaps, texts


def _half_width(gaps: Any) -> float:
    if len(gaps) < 2:
        return float("inf")
    t = scipy.stats.t.ppf(0.975, len(gaps) - 1)
    return float(t * gaps.std(ddof=1) / np.sqrt(len(gaps)))


@guarded
def labels(
    context: typer.Context,
    output: Output = None,
    seeds: Seeds = 10,
    datasets: Annotated[
        str, typer.Option(help="Sets without a teacher: scikit-learn's or LIBSVM's, or none.")
    ] = "breast_cancer,wine,digits,mushrooms,a9a",
    taught: Annotated[
        str, typer.Option(help="Sets of two classes with three teachers each, or none.")
    ] = "a9a",
    numbers: Annotated[
        str, typer.Option("--labels", help="Numbers of labels.")
    ] = "20,50,200,1000,5000",
    no_download: NoDownload = False,
    workers: Workers = None,
    record: Record = False,
    as_json: Json = False,
) -> None:
    """Test loss against the number of labels: our estimators, scikit-learn's and others.

    The same labels for every method, paired differences with intervals over seeds, and teachers
    that are good, mediocre and useless. About ten minutes on one core, five on two.

    Examples
    --------
    python -m experiments.labels
    python -m experiments.labels --datasets breast_cancer,wine --taught none --seeds 3
    python -m experiments.labels --datasets none --taught a9a --labels 50,200,1000

    Ctrl-C keeps what is finished; the same command resumes.
    """
    config = Config(
        datasets=listed(str, "names")(datasets),
        taught=listed(str, "names")(taught),
        labels=listed(int, "whole numbers")(numbers),
        seeds=seeds,
    )
    folder, command = output or Path("runs") / "labels", command_line(context)
    with output_folder(folder, command):
        fetch(config, download=not no_download, progress=sys.stderr.isatty())
        experiment = Experiment(
            title="Few labels, many inputs",
            config=config,
            curves=curves(config),
            run_job=run_job,
            seeds=seeds,
            tuning_budget=1,
            budget=max(config.labels),
            shown={**asdict(config), "data": facts(config)},
            metric="test_loss",
        )
        outcome = run_experiment(experiment, folder=folder, workers=workers, as_json=as_json)
        gaps, texts = write_results(folder, outcome.records, command, experiment.shown)
    if record:
        publish(folder, "labels", measures=["src/proxyprox/sklearn"])
    if as_json:
        emit({"folder": str(folder), "differences": gaps, "findings": texts})
        return
    print_differences(gaps)
    for text in texts:
        say(stdout(), text)
    say(stdout(), f"Report: {folder / 'report.html'}", style="bold")


def panels_table(path: Path) -> str:
    """Return the tables of the page, one a panel."""
    lines = list[str]()
    for row in json.loads(path.read_text("utf-8"))["differences"]:
        heading = f"## {row['panel']}"
        if heading not in lines:
            lines += ["", heading, "", "| labels | against | ours | theirs | ours − theirs |"]
            lines.append("|---|---|---|---|---|")
        gap = f"{row['difference']:+.4f} ({row['low']:+.4f}, {row['high']:+.4f})"
        cells = (row["labels"], row["method"], f"{row['ours']:.4f}", f"{row['theirs']:.4f}", gap)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines[1:])


def print_differences(gaps: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each panel of what :func:`differences` returns."""
    for panel in dict.fromkeys(row["panel"] for row in gaps):
        table = Table(title=plain(panel), title_justify="left", box=None)
        for heading in ("against", "labels", "ours", "theirs", "ours − theirs, 95 %"):
            table.add_column(heading, justify="left" if heading == "against" else "right")
        for row in (row for row in gaps if row["panel"] == panel):
            table.add_row(
                plain(row["method"]),
                f"{row['labels']:,}",
                f"{row['ours']:.4f}",
                f"{row['theirs']:.4f}",
                f"{row['difference']:+.4f} ({row['low']:+.4f}, {row['high']:+.4f})",
            )
        stdout().print(table)


if __name__ == "__main__":
    start(labels)
