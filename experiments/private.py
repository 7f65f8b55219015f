"""Private rows, public proxy: test loss at equal ε of our estimators and of tuned baselines.

The baselines are favoured: DP-GD and DP-SGD start at the public fit and take the best of a wide
grid *on the test set*, at no cost of privacy. Ours has one setting, which is never tuned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from experiments import datasets
from experiments.shared import guarded, listed, start
from proxyprox._util.extras import require
from proxyprox.cli.console import say, stdout
from proxyprox.inner.exact import minimise_exactly
from proxyprox.private import (
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    noise_multiplier,
)
from proxyprox.private.estimators import PrivateGLM, choose_strength
from proxyprox.problems.families import Family, Linear, Logistic, Poisson
from proxyprox.problems.glm import GLM
from proxyprox.report.summary import write_json

Array = Any

DELTA = 1e-5
TEST_ROWS = 11_500
FEMALE = 71
"""The column of a9a that says that a person is a woman."""

STEPS = (5, 20, 100, 300)
RATES = tuple(np.geomspace(0.125, 64.0, 10))
CLIPS = (0.1, 0.3, 0.6, 1.0)
SGD_STEPS, BATCH = (100, 500), 256

PUBLIC, CEILING, OURS, LABEL_FREE = "public only", "ceiling", "ours", "ours, no public labels"
GD, SGD, GD_FROM_ZERO = "DP-GD, tuned", "DP-SGD, tuned", "DP-GD from zero, tuned"

FAMILIES: dict[str, Family] = {
    "logistic": Logistic((0, 1)), "ridge": Linear(), "poisson": Poisson(),
}  # fmt: skip
ESTIMATORS: dict[str, type[PrivateGLM]] = {
    "logistic": PrivateLogisticRegression,
    "ridge": PrivateRidge,
    "poisson": PrivatePoissonRegressor,
}


@lru_cache(maxsize=4)
def table(family: str) -> tuple[Array, Array]:
    """Return a9a with rows of norm below one; ridge and Poisson labels are drawn on its inputs."""
    data = datasets.load("a9a")
    X, y = data.X.toarray() / np.sqrt(15.0), (data.y > 0).astype(float)
    if family == "logistic":
        return X, y
    # Of known coefficients that predict the real label, with noise that no model can explain.
    w = np.linalg.lstsq(X, y - y.mean(), rcond=None)[0]
    rng, z = np.random.default_rng(7), X @ w
    if family == "ridge":
        return X, 4 * z + rng.normal(size=len(z))
    return X, rng.poisson(np.exp(3 * z)).astype(float)


class Split:
    """Public, private and test rows of one seed."""

    def __init__(self, family: str, seed: int, public: int, private: int, shift: bool) -> None:
        X, y = table(family)
        order = np.random.default_rng(seed).permutation(len(y))
        test, rest = order[:TEST_ROWS], order[TEST_ROWS:]
        women = rest[X[rest, FEMALE] > 0]
        chosen = women[:public] if shift else rest[:public]
        others = np.setdiff1d(rest, chosen, assume_unique=True)
        others = np.random.default_rng([seed, 1]).permutation(others)[:private]
        self.family = FAMILIES[family]
        self.public, self.private, self.test = (
            (X[rows], y[rows]) for rows in (chosen, others, test)
        )

    def loss(self, W: Array) -> Array:
        """Return the test loss of coefficients and intercepts, one model a column."""
        X, y = self.test
        with np.errstate(over="ignore", invalid="ignore"):
            z = X @ W[:-1] + W[-1]
            losses = np.array([self.family.loss(column, y).mean() for column in z.T])
        return np.where(np.isfinite(losses), losses, 1e9)


def fit_public(family: str, X: Array, y: Array) -> tuple[Array, float]:
    """Return the penalised fit of some rows, and the strength that cross-validation picked."""
    loss = choose_strength(GLM(X, y, FAMILIES[family], intercept=True))
    return minimise_exactly(loss, loss.zeros(), tol=1e-9), loss.l2


def descend(
    split: Split,
    start: Array,
    settings: Sequence[Mapping[str, float]],
    steps: int,
    seed: int,
    rate: float,
) -> Array:
    """Return the ends of DP gradient descents that differ in clip, rate, noise and penalty."""
    X, y = split.private
    X = np.hstack([X, np.ones((len(X), 1))])
    lengths, rng = np.linalg.norm(X, axis=1)[:, None], np.random.default_rng([seed, steps, 2])
    clips, rates, sigmas, strengths = (
        np.array([s[name] for s in settings]) for name in ("clip", "rate", "sigma", "l2")
    )
    W = np.repeat(start[:, None], len(settings), axis=1)
    penalised = np.ones((len(W), 1))
    penalised[-1] = 0.0
    for _ in range(steps):
        rows = slice(None) if rate == 1 else np.flatnonzero(rng.random(len(y)) < rate)
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = split.family.mean(X[rows] @ W) - y[rows, None]
        most = clips / lengths[rows]
        total = X[rows].T @ np.clip(np.nan_to_num(slopes, posinf=1e9, neginf=-1e9), -most, most)
        total += sigmas * clips * rng.standard_normal(W.shape)
        W = W - rates * (total / (rate * len(y)) + strengths * penalised * W)
        W = np.clip(np.nan_to_num(W), -1e6, 1e6)
    return W


def tuned(
    split: Split, start: Array, l2: float, epsilons: Sequence[float], seed: int, *, sampled: bool
) -> Iterator[tuple[float, dict[str, float], float]]:
    """Yield ε, setting and test loss of every setting of the grid."""
    n = len(split.private[1])
    for steps in SGD_STEPS if sampled else STEPS:
        rate = min(1.0, BATCH / n) if sampled else 1.0
        settings = [
            {"epsilon": epsilon, "steps": steps, "clip": clip, "rate": step, "l2": strength,
             "sigma": sigma}
            for epsilon in epsilons
            for sigma in [noise_multiplier(epsilon, DELTA, steps, rate)]
            for clip in CLIPS for step in RATES for strength in sorted({0.0, l2})
        ]  # fmt: skip
        losses = split.loss(descend(split, start, settings, steps, seed, rate))
        for setting, loss in zip(settings, losses, strict=True):
            yield setting["epsilon"], setting, float(loss)


def run_split(
    family: str, seed: int, private: int, epsilons: Sequence[float], *, shift: bool, public: int,
    methods: Sequence[str],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield the records of one split."""
    split = Split(family, seed, public, private, shift)
    case = {"family": family, "seed": seed, "private": private, "shift": shift, "public": public}
    w, l2 = fit_public(family, *split.public)
    yield {**case, "method": PUBLIC, "loss": float(split.loss(w[:, None])[0])}
    if CEILING in methods:
        rows = [np.concatenate(pair) for pair in zip(split.public, split.private, strict=True)]
        best = fit_public(family, *rows)[0]
        yield {**case, "method": CEILING, "loss": float(split.loss(best[:, None])[0])}
    zero = np.zeros_like(w)
    for method, begin, sampled in ((GD, w, False), (SGD, w, True), (GD_FROM_ZERO, zero, False)):
        if method in methods:
            for epsilon, setting, loss in tuned(split, begin, l2, epsilons, seed, sampled=sampled):
                yield {**case, "method": method, "epsilon": epsilon, "loss": loss, **setting}
    for method, y_public in ((OURS, split.public[1]), (LABEL_FREE, None)):
        for epsilon in epsilons if method in methods else ():
            options: dict[str, Any] = {"same_support": False if shift else None}
            if family == "logistic":
                options["classes"] = (0, 1)
            elif y_public is None:
                options["label_bound"] = float(np.abs(split.public[1]).max())
            model = ESTIMATORS[family](
                epsilon=epsilon, delta=DELTA, n_nominal=private, **options
            ).fit(*split.private, X_public=split.public[0], y_public=y_public)
            found = np.append(np.ravel(model.coef_), model.intercept_)
            loss = float(split.loss(found[:, None])[0])
            yield {**case, "method": method, "epsilon": epsilon, "loss": loss}


def best_of_grids(records: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], Array]:
    """Return losses by case, method and ε, in the order of the seeds.

    Of a grid it is the setting whose mean over the seeds is the least.
    """
    by_setting: dict[tuple[Any, ...], dict[int, float]] = {}
    grid = ("steps", "clip", "rate")
    for r in records:
        case = (r["family"], r["private"], r["shift"], r["public"], r["method"], r.get("epsilon"))
        # The penalty is by rule: none, or that of the public rows.
        setting = (*(r.get(name) for name in grid), r.get("l2") == 0)
        by_setting.setdefault((case, setting), {})[r["seed"]] = r["loss"]
    best: dict[tuple[Any, ...], Array] = {}
    for (case, _), losses in by_setting.items():
        found = np.array([losses[seed] for seed in sorted(losses)])
        if case not in best or found.mean() < best[case].mean():
            best[case] = found
    return best


def compare(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each method: its mean loss, and paired differences with standard errors."""
    best, lines = best_of_grids(records), []
    for case, losses in best.items():
        *place, method, epsilon = case
        line = dict(zip(("family", "private", "shift", "public"), place, strict=True))
        line |= {"method": method, "epsilon": epsilon, "splits": len(losses)}
        line["loss"] = float(losses.mean())
        rivals = {"against_public": (PUBLIC, None), "against_gd": (GD, epsilon),
                  "against_gd_from_zero": (GD_FROM_ZERO, epsilon)}  # fmt: skip
        for name, rival in rivals.items():
            other = best.get((*place, *rival))
            if other is not None and len(other) == len(losses):
                gap = losses - other
                line[name] = float(gap.mean())
                line[f"{name}_se"] = (
                    float(gap.std(ddof=1) / len(gap) ** 0.5) if len(gap) > 1 else None
                )
        public, ceiling = (best.get((*place, end, None)) for end in (PUBLIC, CEILING))
        if public is not None and ceiling is not None:
            gap = float(public.mean() - ceiling.mean())
            line["share_of_gap"] = (float(public.mean()) - line["loss"]) / gap
        lines.append(line)
    return lines


def draw(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Save a figure: test loss against ε, a panel for each number of private rows."""
    plt = require("matplotlib.pyplot", extra="report", purpose="drawing figures")
    cases = sorted({(r["family"], r["private"], r["shift"]) for r in lines})
    figure, panels = plt.subplots(1, len(cases), figsize=(4 * len(cases), 3.2), squeeze=False)
    for panel, case in zip(panels[0], cases, strict=True):
        own = [r for r in lines if (r["family"], r["private"], r["shift"]) == case]
        for method in dict.fromkeys(r["method"] for r in own):
            points = sorted((r["epsilon"], r["loss"]) for r in own
                            if r["method"] == method and r["epsilon"])  # fmt: skip
            if points:
                panel.plot(*zip(*points, strict=True), marker="o", label=method)
            for r in own:
                if r["method"] == method and not r["epsilon"]:
                    panel.axhline(r["loss"], ls=":" if method == CEILING else "--", color="0.5")
        panel.set(xscale="log", xlabel="ε", ylabel="test loss")
        other = ", public rows: women only" if case[2] else ""
        panel.set_title(f"{case[0]}, {case[1]:,} private rows{other}", fontsize=9)
    panels[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


@guarded
def private_rows(
    output: Annotated[Path, typer.Option(help="Folder of the record and the figure.")] = Path(
        "runs/private"
    ),
    splits: Annotated[int, typer.Option(help="Paired splits.")] = 10,
    first: Annotated[int, typer.Option(help="The first seed; constants were chosen on 1000…")] = 0,
    private: Annotated[str, typer.Option(help="Numbers of private rows.")] = "2000,20000",
    public: Annotated[int, typer.Option(help="Public rows.")] = 1000,
    epsilons: Annotated[str, typer.Option(help="Values of ε.")] = "0.3,1,3",
    family: Annotated[str, typer.Option(help="logistic, ridge or poisson.")] = "logistic",
    methods: Annotated[str, typer.Option(help="Methods, or all.")] = "all",
    shift: Annotated[bool, typer.Option(help="Public rows are women only.")] = False,
) -> None:
    """Compare at equal ε on a9a; writes summary.json and figure.png."""
    every = (CEILING, GD, SGD, GD_FROM_ZERO, OURS, LABEL_FREE)
    chosen = every if methods == "all" else tuple(methods.split(";"))
    records: list[dict[str, Any]] = []
    for rows in listed(int, "whole numbers")(private):
        for seed in range(first, first + splits):
            records += run_split(
                family, seed, rows, listed(float, "numbers")(epsilons), shift=shift, public=public,
                methods=chosen,
            )  # fmt: skip
    lines = compare(records)
    output.mkdir(parents=True, exist_ok=True)
    settings = {"splits": splits, "first": first, "delta": DELTA, "neighbours": "add/remove one"}
    write_json(output / "summary.json", {"settings": settings, "lines": lines})
    draw(lines, output / "figure.png")
    for r in lines:
        shown = [
            name for name in r if name.startswith(("against_", "share")) and name[-3:] != "_se"
        ]
        gaps = "  ".join(f"{name} {r[name]:+.4f}" for name in shown)
        say(stdout(), f"{r['private']:6} ε={r['epsilon']} {r['method']:24} {r['loss']:.4f}  {gaps}")


if __name__ == "__main__":
    start(private_rows)
