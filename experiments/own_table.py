"""Methods of this package compared on one's own table: python -m experiments.own_table FILE.toml.

The file is that of ``proxyprox audit``, which ``proxyprox audit --example`` prints, with more keys
in ``[run]``: ``methods``, ``target_gradients`` and ``seeds``. What is compared with ProxyProx has
its step size tuned on other draws, in runs of a quarter of the budget.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
import scipy.optimize
import typer
from pydantic import model_validator
from threadpoolctl import threadpool_limits

import proxyprox as pp
from experiments.report.page import write_report
from experiments.report.summary import Point, last_rows, summarise, write_json
from experiments.shared import Json, Output, guarded, start
from proxyprox._util.files import atomic_write_text
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import FAMILIES
from proxyprox_app.cli import console
from proxyprox_app.cli.run import progress_of
from proxyprox_app.study.config import Count, RunSettings, StudyConfig, read_config
from proxyprox_app.study.fit import FittedGLM, TableModel
from proxyprox_app.study.problem import Study, read_study

Method = Literal["proxyprox", "dane", "sgd", "adam", "lbfgs", "erm"]

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


class Runs(RunSettings):
    """``[run]``: what is compared, how much, how often."""

    methods: tuple[Method, ...] = ("proxyprox", "sgd", "erm")
    target_gradients: Count = 200
    seeds: Count = 3

    @model_validator(mode="after")
    def _methods_go_with_the_batch(self) -> Runs:
        """Check that exact methods get exact gradients."""
        exact = {"lbfgs", "dane"} & set(self.methods)
        if exact and self.batch_size != "all":
            text = f'[run] methods: {", ".join(sorted(exact))} goes with batch_size = "all"'
            raise ValueError(f"{text}, got {self.batch_size}.")
        if "erm" in self.methods and self.batch_size == "all":
            raise ValueError('[run] methods: erm needs batches of rows, not batch_size = "all".')
        return self


class OwnTable(StudyConfig):
    """All settings."""

    run: Runs = Runs()


def run_methods(
    study: Study, run: Runs, progress: Callable[[str], None]
) -> Iterator[tuple[Point, Any]]:
    """Run every method with every seed; yield its points, each with the answer it belongs to."""
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


def table_model(study: Study, w: Any, method: str) -> TableModel:
    """Return weights with what the table's columns become, for new tables."""
    family = study.config.model.family
    matrix = np.asarray(w, dtype=np.float64).reshape(study.target.design.width, -1)
    count = len(study.columns.feature_names)
    intercept = matrix[count] if study.config.model.intercept else np.zeros(matrix.shape[1])
    coef = np.ascontiguousarray(matrix[:count].T)
    task = "classification" if FAMILIES[family].classifier else "regression"
    glm = FittedGLM(family, list(study.classes), coef, intercept)
    return TableModel(study.columns, glm, str(study.config.target.label), task, {"model": method})


@guarded
def own_table(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Target, proxy, model, runs.")],
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Compare methods on your own table; write records, a report and the weights of the first.

    Examples
    --------
    proxyprox audit --example > my.toml
    python -m experiments.own_table my.toml
    """
    folder, command = output or Path("runs") / file.stem, console.command_line(context)
    settings = read_config(file, OwnTable)
    kept = "Nothing was written: files are written when all runs have ended."
    with console.output_folder(folder, command, kept), progress_of(as_json) as progress:
        progress(f"reading {settings.target.file}")
        study = read_study(settings, file.parent.absolute())
        with threadpool_limits(1):
            found = list(run_methods(study, settings.run, progress))
        points = [point for point, _ in found]
        first = NAMES[settings.run.methods[0]]
        last = [w for point, w in found if point["method"] == first and point["seed"] == 0][-1]
        rows = summarise(points, constant=("eta", "tried"))
        ends = last_rows(rows)
        notes = list(map(str, study.findings))
        for end in ends:
            tried = STEP_SIZES.get(
                next(key for key, name in NAMES.items() if name == end["method"]), ()
            )
            if end["eta"] in (*tried[:1], *tried[-1:]):
                notes.append(f"{end['method']}: its step size is the first or the last tried.")
        lines = (json.dumps(point, ensure_ascii=False) + "\n" for point in points)
        atomic_write_text(folder / "records.jsonl", "".join(lines))
        table_model(study, last, first).save(folder / "model.json")
        shown: dict[str, Any] = {"command": command, "config": settings.model_dump()}
        report = write_report(
            folder, rows=rows, title=f"proxyprox: {file.name}", lead=[_sentence(ends, first)],
            notes=notes, labels={"tried": "step sizes tried"}, **shown,
        )  # fmt: skip
        done = {**shown, "methods": ends, "notes": notes, "optimum": study.optimum}
        done |= {"model": str(folder / "model.json"), "report": str(report)}
        write_json(folder / "summary.json", done)
    if as_json:
        console.emit(done)
        return
    screen = console.stdout()
    best = min((end["suboptimality_median"] or 0.0 for end in ends), default=0.0)
    cells = [
        (end["method"], _short(end["suboptimality_median"]), f"{end['proxy_gradients']:,.0f}",
         f"{end['seconds']:.2g}", _short(end["eta"]), str(end["tried"]))
        for end in ends
    ]  # fmt: skip
    headings = ("method", "above optimum", "proxy", "seconds", "step size", "tried")
    styles = ["bold" if end["suboptimality_median"] == best else "" for end in ends]
    console.say(screen, f"After {ends[0]['target_gradients']:,} target gradients", "bold")
    console.print_table(screen, headings, cells, styles)
    console.say(screen, f"\n{_sentence(ends, first)}")
    for note in notes:
        console.say(console.stderr(), f"Note: {note}", "yellow")
    console.tell_path(screen, f"Report: {report}")
    console.tell_path(screen, f"To use the weights of {first}:")
    console.tell_path(screen, f"  proxyprox predict {done['model']} NEW_FILE")


def _sentence(ends: list[dict[str, Any]], first: str) -> str:
    """Say which method ended lowest."""
    known = [end for end in ends if end["suboptimality_median"] is not None]
    if not known:
        return "Every method broke off."
    # What is left at the optimum is rounding.
    best = min(known, key=lambda end: max(end["suboptimality_median"], 1e-12))
    text = (
        f"{best['method']} ended lowest, {_short(best['suboptimality_median'])} above the optimum"
    )
    return f"{text} (medians over {best['seeds']} runs). The weights written are those of {first}."


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


if __name__ == "__main__":
    start(own_table)
