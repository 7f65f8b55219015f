"""Private rows, public proxy: test loss at equal ε of our estimators and of tuned baselines.

The baselines are favoured: DP-GD and DP-SGD start at the public fit and take the best of a wide
grid *on the test set*, at no cost of privacy. Ours has one setting, which is never tuned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from experiments import datasets
from experiments.report.summary import machine, write_json
from experiments.runs import Records, read_records
from experiments.shared import guarded, listed, start
from proxyprox._util.extras import require
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
from proxyprox_app.cli.console import say, stdout

Array = Any

DELTA = 1e-5
FEMALE = 71
"""The column of a9a that says that a person is a woman."""

STEPS = (5, 20, 100, 300)
SGD_STEPS, BATCH = (100, 500, 1500), 256
# In units of 1/H, for the largest curvature H of the public loss at its minimum.
RATES = tuple(2.0 ** np.arange(-5, 6))
# In units of the root mean square of public rows' gradients there.
CLIPS = (0.125, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0)
GRID = ("steps", "clip", "rate", "penalty")

PUBLIC, CEILING, OURS, LABEL_FREE = "public only", "ceiling", "ours", "ours, no public labels"
GD, SGD, GD_FROM_ZERO = "DP-GD, tuned", "DP-SGD, tuned", "DP-GD from zero, tuned"
LIBRARY = "diffprivlib, tuned"
METHODS = (CEILING, GD, SGD, GD_FROM_ZERO, OURS, LABEL_FREE)

FAMILIES: dict[str, Family] = {
    "logistic": Logistic((0, 1)), "ridge": Linear(), "poisson": Poisson(),
}  # fmt: skip
ESTIMATORS: dict[str, type[PrivateGLM]] = {
    "logistic": PrivateLogisticRegression,
    "ridge": PrivateRidge,
    "poisson": PrivatePoissonRegressor,
}


@lru_cache(maxsize=4)
def table(data: str, family: str) -> tuple[Array, Array]:
    """Return rows of norm at most one; ridge and Poisson labels are drawn on the inputs."""
    found = datasets.load(data)
    X, y = found.X.toarray(), (found.y > found.y.mean()).astype(float)
    # a9a has at most 14 ones a row, mushrooms 21.
    X = X / np.sqrt({"a9a": 15.0}.get(data, float((X**2).sum(axis=1).max())))
    if family == "logistic":
        return X, y
    # Of known coefficients that predict the real label, with noise that no model can explain.
    w = np.linalg.lstsq(X, y - y.mean(), rcond=None)[0]
    rng, z = np.random.default_rng(7), X @ w
    if family == "ridge":
        return X, 4 * z + rng.normal(size=len(z))
    return X, rng.poisson(np.exp(3 * z)).astype(float)


class Split:
    """Public, private and test rows of one seed; a third of the table is for testing."""

    def __init__(
        self, data: str, family: str, seed: int, public: int, private: int, shift: bool
    ) -> None:
        X, y = table(data, family)
        order = np.random.default_rng(seed).permutation(len(y))
        test, rest = np.split(order, [int(0.3532 * len(y))])
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


def fit_rows(family: Family, X: Array, y: Array) -> tuple[GLM, Array]:
    """Return the loss with the penalty that cross-validation picks, and its minimum."""
    loss = choose_strength(GLM(X, y, family, intercept=True))
    return loss, minimise_exactly(loss, loss.zeros(), tol=1e-9)


def with_ones(X: Array) -> Array:
    """Return rows with the constant that the intercept multiplies."""
    return np.hstack([X, np.ones((len(X), 1))])


def descend(
    split: Split,
    begin: Array,
    settings: Sequence[Mapping[str, float]],
    *,
    steps: int,
    sample_rate: float,
    seed: int,
    device: str,
) -> Array:
    """Return the ends of DP gradient descents that differ in clip, rate, noise and penalty."""
    torch = require("torch", extra="private", purpose="the baselines")
    generator = torch.Generator(device).manual_seed(1000 * seed + steps)

    def tensor(values: Any) -> Any:
        return torch.as_tensor(np.asarray(values, dtype=np.float64), device=device)

    X, y = tensor(with_ones(split.private[0])), tensor(split.private[1])[:, None]
    lengths = torch.linalg.norm(X, dim=1, keepdim=True)
    clips, rates, sigmas, strengths = (
        tensor([s[name] for s in settings]) for name in ("clip", "rate", "sigma", "l2")
    )
    W = tensor(begin)[:, None].repeat(1, len(settings))
    penalised = torch.ones_like(W[:, :1])
    penalised[-1] = 0.0
    rows: Any = slice(None)
    for _ in range(steps):
        if sample_rate < 1:
            rows = torch.rand(len(X), generator=generator, device=device) < sample_rate
        slopes = torch.nan_to_num(split.family.mean(X[rows] @ W) - y[rows], posinf=1e9, neginf=-1e9)
        most = clips / lengths[rows]
        total = X[rows].T @ torch.clamp(slopes, -most, most)
        noise = torch.randn(W.shape, generator=generator, device=device, dtype=W.dtype)
        mean = (total + sigmas * clips * noise) / (sample_rate * len(X))
        W = torch.clamp(torch.nan_to_num(W - rates * (mean + strengths * penalised * W)), -1e6, 1e6)
    return W.cpu().numpy()


def run_grid(
    split: Split, public: GLM, w: Array, begin: Array, epsilons: Sequence[float], *,
    sampled: bool, seed: int, device: str,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield ε, setting and test loss of every setting of the grid."""
    n, X = len(split.private[1]), with_ones(split.public[0])
    slopes = split.family.mean(X @ w) - split.public[1]
    usual = float(np.sqrt(np.mean(slopes**2 * (X**2).sum(axis=1))))
    curvature = float(np.linalg.eigvalsh(public.hessian(w))[-1])
    sample_rate = min(1.0, BATCH / n) if sampled else 1.0
    for steps in SGD_STEPS if sampled else STEPS:
        sigmas = {e: noise_multiplier(e, DELTA, steps, sample_rate) for e in epsilons}
        grid = list(product(epsilons, CLIPS, RATES, (False, True)))
        settings = [
            {"clip": clip * usual, "rate": rate / curvature, "sigma": sigmas[e],
             "l2": public.l2 if penalty else 0.0}
            for e, clip, rate, penalty in grid
        ]  # fmt: skip
        ends = descend(
            split, begin, settings, steps=steps, sample_rate=sample_rate, seed=seed, device=device
        )
        for (e, clip, rate, penalty), loss in zip(grid, split.loss(ends), strict=True):
            setting = dict(zip(GRID, (steps, clip, rate, penalty), strict=True))
            yield {"epsilon": e, **setting, "loss": float(loss)}


def run_ours(
    split: Split, family: str, epsilons: Sequence[float], *, labels: bool, shift: bool
) -> Iterator[dict[str, Any]]:
    """Yield ε and test loss of our estimator, which has one setting."""
    X, y = split.public
    constant = ((X.min(axis=0) == X.max(axis=0)) & (X[0] != 0)).any()
    options: dict[str, Any] = {"same_support": False if shift or constant else None}
    if family == "logistic":
        options["classes"] = (0, 1)
    elif not labels:
        options["label_bound"] = float(np.abs(y).max())
    for epsilon in epsilons:
        model = ESTIMATORS[family](
            epsilon=epsilon, delta=DELTA, n_nominal=len(split.private[1]), **options
        ).fit(*split.private, X_public=X, y_public=y if labels else None)
        w = np.append(np.ravel(model.coef_), model.intercept_)
        yield {"epsilon": epsilon, "loss": float(split.loss(w[:, None])[0])}


def run_method(
    run: Mapping[str, Any], split: Split, epsilons: Sequence[float], device: str
) -> Iterator[dict[str, Any]]:
    """Yield the points of one method on one split."""
    method, family = run["method"], run["family"]
    if method in (OURS, LABEL_FREE):
        yield from run_ours(split, family, epsilons, labels=method == OURS, shift=run["shift"])
        return
    if method == CEILING:
        both = [np.concatenate(pair) for pair in zip(split.public, split.private, strict=True)]
        yield {"loss": float(split.loss(fit_rows(split.family, *both)[1][:, None])[0])}
        return
    public, w = fit_rows(split.family, *split.public)
    if method == PUBLIC:
        yield {"loss": float(split.loss(w[:, None])[0])}
        return
    begin = np.zeros_like(w) if method == GD_FROM_ZERO else w
    yield from run_grid(
        split, public, w, begin, epsilons, sampled=method == SGD, seed=run["seed"], device=device
    )


CASE = ("data", "family", "private", "shift", "public")
RIVALS = {"public": PUBLIC, "gd": GD, "sgd": SGD, "gd_from_zero": GD_FROM_ZERO}


def best_of_grids(
    points: Sequence[Mapping[str, Any]],
) -> dict[tuple[Any, ...], tuple[dict[str, Any], dict[int, float]]]:
    """Return the setting and its losses by seed, for each case, method and ε.

    Of a grid it is the setting whose mean over the seeds is the least.
    """
    by_setting: dict[tuple[Any, ...], dict[int, float]] = {}
    for p in points:
        case = (*(p[name] for name in CASE), p["method"], p.get("epsilon"))
        setting = tuple((name, p[name]) for name in GRID if name in p)
        by_setting.setdefault((case, setting), {})[p["seed"]] = p["loss"]
    best: dict[tuple[Any, ...], tuple[dict[str, Any], dict[int, float]]] = {}
    for (case, setting), losses in by_setting.items():
        mean = np.mean(list(losses.values()))
        if case not in best or mean < np.mean(list(best[case][1].values())):
            best[case] = (dict(setting), losses)
    return best


def compare(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each method: its mean loss, and paired differences with standard errors."""
    best, lines = best_of_grids(points), []
    for (*place, method, epsilon), (setting, losses) in best.items():
        found = np.array(list(losses.values()))
        line = dict(zip(CASE, place, strict=True))
        line |= {"method": method, "epsilon": epsilon, "splits": len(found)}
        line |= {"loss": float(found.mean()), "setting": setting}
        for name, rival in RIVALS.items():
            of_rival = (*place, rival, None if rival == PUBLIC else epsilon)
            others = best.get(of_rival, ({}, {}))[1]
            gaps = np.array([loss - others[s] for s, loss in losses.items() if s in others])
            if len(gaps) and rival != method:
                line[f"minus_{name}"] = float(gaps.mean())
                line[f"minus_{name}_worst"] = float(gaps.max())
                line[f"minus_{name}_splits"] = len(gaps)
                if len(gaps) > 1:
                    line[f"minus_{name}_se"] = float(gaps.std(ddof=1) / len(gaps) ** 0.5)
        ends = [best.get((*place, end, None), ({}, {}))[1] for end in (PUBLIC, CEILING)]
        if all(ends):
            public, ceiling = (np.mean([end[s] for s in losses]) for end in ends)
            line["share_of_gap"] = float((public - found.mean()) / (public - ceiling))
        lines.append(line)
    return lines


COLOURS = {
    OURS: "C3", LABEL_FREE: "C1", GD: "C0", SGD: "C2", GD_FROM_ZERO: "C4", LIBRARY: "C5",
}  # fmt: skip


def draw(lines: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Save a figure: test loss against ε, a panel for each case."""
    plt = require("matplotlib.pyplot", extra="app", purpose="drawing figures")
    cases = list(dict.fromkeys(tuple(r[name] for name in CASE) for r in lines))
    columns = min(3, len(cases))
    size = (4.2 * columns, 3.4 * -(-len(cases) // columns))
    figure, panels = plt.subplots(-(-len(cases) // columns), columns, figsize=size, squeeze=False)
    for panel in panels.flat[len(cases) :]:
        panel.set_axis_off()
    for panel, case in zip(panels.flat, cases, strict=False):
        own = [r for r in lines if tuple(r[name] for name in CASE) == case]
        for r in own:
            if r["epsilon"] is None:
                style = ":" if r["method"] == CEILING else "--"
                panel.axhline(r["loss"], ls=style, color="0.4", label=r["method"])
        for method, colour in COLOURS.items():
            curve = sorted((r["epsilon"], r["loss"]) for r in own
                           if r["method"] == method and r["epsilon"])  # fmt: skip
            if curve:
                panel.plot(*zip(*curve, strict=True), marker="o", color=colour, label=method)
        levels = {r["method"]: r["loss"] for r in own if r["epsilon"] is None}
        if len(levels) == 2:
            gap = levels[PUBLIC] - levels[CEILING]
            panel.set_ylim(levels[CEILING] - 0.1 * gap, levels[PUBLIC] + 0.4 * gap)
        data, family, private, shift, public = case
        panel.set(xscale="log", xlabel="ε", ylabel="test loss")
        panel.set_xticks(sorted({r["epsilon"] for r in own if r["epsilon"]}))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.minorticks_off()
        other = ", women" if shift else ""
        title = f"{data}, {family}: {private:,} private rows, {public:,} public{other}"
        panel.set_title(title, fontsize=9)
    handles: dict[str, Any] = {}
    for panel in panels.flat:
        drawn, labels = panel.get_legend_handles_labels()
        handles |= dict(zip(labels, drawn, strict=True))
    figure.tight_layout()
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=4, fontsize=8,
                  bbox_to_anchor=(0.5, 0.0))  # fmt: skip
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


@guarded
def private_rows(
    output: Annotated[Path, typer.Option(help="Folder of runs, summary and figure.")] = Path(
        "runs/private"
    ),
    splits: Annotated[int, typer.Option(min=1, help="Paired splits.")] = 10,
    first: Annotated[int, typer.Option(help="The first seed; constants were chosen on 1000…")] = 10,
    private: Annotated[str, typer.Option(help="Numbers of private rows.")] = "2000,20000",
    public: Annotated[int, typer.Option(help="Public rows.")] = 1000,
    epsilons: Annotated[str, typer.Option(help="Values of ε.")] = "0.3,1,3",
    data: Annotated[str, typer.Option(help="a9a or mushrooms.")] = "a9a",
    family: Annotated[str, typer.Option(help="logistic, ridge or poisson.")] = "logistic",
    methods: Annotated[
        str, typer.Option(help=f"Separated by semicolons: {'; '.join(METHODS)}; or all.")
    ] = "all",
    shift: Annotated[bool, typer.Option(help="Public rows are women only.")] = False,
    device: Annotated[str, typer.Option(help="Where baselines run: cpu or cuda.")] = "cpu",
    write_splits: Annotated[
        Path | None, typer.Option(help="Only write the splits there, for other libraries.")
    ] = None,
) -> None:
    """Compare at equal ε; finished runs in the folder are kept, summary and figure are of all."""
    chosen = METHODS if methods == "all" else tuple(part.strip() for part in methods.split(";"))
    if family not in FAMILIES or data not in ("a9a", "mushrooms") or set(chosen) - set(METHODS):
        raise typer.BadParameter("see --help for the names of data, families and methods")
    budgets = listed(float, "numbers")(epsilons)
    cases = [
        {"data": data, "family": family, "private": rows, "shift": shift, "public": public,
         "seed": seed, "epsilons": epsilons}
        for rows in listed(int, "whole numbers")(private) for seed in range(first, first + splits)
    ]  # fmt: skip

    def split_of(case: Mapping[str, Any]) -> Split:
        return Split(data, family, case["seed"], public, case["private"], shift)

    if write_splits is not None:
        write_splits.mkdir(parents=True, exist_ok=True)
        for case in cases:
            split = split_of(case)
            parts = {f"{name}_{part}": array for name in ("private", "test")
                     for part, array in zip("Xy", getattr(split, name), strict=True)}  # fmt: skip
            np.savez(write_splits / f"{case['private']}-{case['seed']}.npz", **parts)
        return
    settings = {"delta": DELTA, "neighbours": "add/remove one", "clips": CLIPS, "rates": RATES,
                "steps": STEPS, "sgd_steps": SGD_STEPS, "batch": BATCH}  # fmt: skip
    with Records(output, settings) as records:
        for case in cases:
            for method in (PUBLIC, *chosen):
                run = {**case, "method": method}
                if run not in records:
                    records.add(run, run_method(run, split_of(case), budgets, device))
        points = records.everything()
    other = output / "diffprivlib.jsonl"  # benchmarks/private_diffprivlib.py writes it
    lines = compare(points + (read_records(other) if other.exists() else []))
    write_json(
        output / "summary.json", {"settings": settings, "machine": machine(), "lines": lines}
    )
    draw(lines, output / "figure.png")
    for r in lines:
        shown = [name for name in r if name in ("share_of_gap", *(f"minus_{m}" for m in RIVALS))]
        gaps = "  ".join(f"{name} {r[name]:+.4f}" for name in shown)
        place = f"{r['data']} {r['family']} {r['public']}/{r['private']}{' shift' * r['shift']}"
        say(stdout(), f"{place} ε={r['epsilon']} {r['method']:24} {r['loss']:.4f}  {gaps}")


if __name__ == "__main__":
    start(private_rows)
