"""Private rows, public proxy: test loss at equal ε of our estimators and of their rivals.

The strong rival is ten lines by hand (:func:`metric_descent`): DP-GD in the metric of the public
Hessian with an average of the last iterates. It, plain DP-GD and DP-SGD, from the public fit or
from zero, and diffprivlib take the best settings on the *test sets* of splits 1000 to 1005 of the
same table (1000 and 1001 with 20,000 rows), and are then frozen. Clip and rate are looked for on a
lattice without an end, step by step around the best so far, for each number of steps in ``STEPS``;
the costly ones are tried if fewer steps are not better. Ours has one setting for all lines.

Reported tables and splits, named before the first run on them: a9a, mushrooms and 4 × 4 pixels of
CIFAR-10 (animals against vehicles), splits 5000 to 5019; ``skewed`` against ``scaled by hand`` for
columns. With 20,000 rows there are eight splits, so that a run fits into a quarter of an hour.
The constants of the default were chosen on the tables ``categories``, ``normal`` and ``factor``,
splits 1000 to 1015. Earlier versions had been run on other splits of the reported tables.

Two commands, which may run side by side, some twenty minutes of one core each::

    python -m experiments.private --rows few --record docs/results/private/fresh.json
    python -m experiments.private --rows many --record docs/results/private/fresh_20000.json
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import types
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.records import write_record  # first: it starts the clock
from proxyprox.inner.exact import minimise_exactly
from proxyprox.private import PrivateLogisticRegression, PrivatePoissonRegressor, PrivateRidge
from proxyprox.private.accounting import gaussian_mu
from proxyprox.private.estimators import choose_strength
from proxyprox.private.policy import PRIVATE
from proxyprox.private.reading import Scaling
from proxyprox.problems.families import Linear, Logistic, Poisson
from proxyprox.problems.glm import GLM

Array = Any

DELTA, EPSILONS = 1e-5, (0.3, 1.0, 3.0)
FEMALE = 71
"""The column of a9a that says that a person is a woman."""
FOLDER = Path("runs/tables")
TUNING, FRESH = {"few": range(1000, 1006), "many": range(1000, 1002)}, range(5000, 5020)
SPLITS = {"few": 20, "many": 8}

ENDS = ("public", "ceiling", "ceiling of private rows", "ceiling with public cuts")
FAMILIES = {"logistic": Logistic((0, 1)), "ridge": Linear(), "poisson": Poisson()}
ESTIMATORS = {
    "logistic": PrivateLogisticRegression, "ridge": PrivateRidge,
    "poisson": PrivatePoissonRegressor,
}  # fmt: skip


# -- tables and splits ----------------------------------------------------------------------------


def make_table(name: str) -> tuple[Array, Array]:
    """Return inputs and labels of a table."""
    if name == "pixels":
        return pixels()
    if name in ("skewed", "scaled by hand"):
        return skewed(by_hand=name != "skewed")
    if name in ("categories", "normal", "factor"):
        return drawn(name)
    from experiments import datasets

    found = datasets.load(name)
    X, y = found.X.toarray(), (found.y > found.y.mean()).astype(float)
    # a9a has at most 14 ones a row, mushrooms 21.
    return X / np.sqrt({"a9a": 15.0}.get(name, float((X**2).sum(axis=1).max()))), y


def pixels() -> tuple[Array, Array]:
    """Return CIFAR-10 at 4 × 4 pixels, rows of norm at most one; 1 is an animal."""
    import io
    import tarfile

    from PIL import Image

    found, animals = [], []
    with tarfile.open(Path(os.environ["PROXYPROX_DATA"]) / "cifar10-jpeg75.tar.xz") as archive:
        for entry in archive:
            if entry.isfile():
                image = Image.open(io.BytesIO(archive.extractfile(entry).read()))  # type: ignore[union-attr]
                image.draft("RGB", (4, 4))
                found.append(np.asarray(image.convert("RGB"), dtype=np.float32).ravel())
                vehicles = ("airplane", "automobile", "ship", "truck")
                animals.append(entry.name.split("/")[-2] not in vehicles)
    X = np.array(found) / 255 - 0.5
    return X / np.sqrt((X**2).sum(axis=1).max()), np.array(animals, dtype=float)


def skewed(*, by_hand: bool, rows: int = 40_000) -> tuple[Array, Array]:
    """Return log-normal and heavy-tailed columns, raw, or cut and standardised by hand."""
    rng = np.random.default_rng(11)
    z = rng.normal(size=(rows, 20)) @ (np.eye(20) + 0.15 * rng.normal(size=(20, 20)))
    sizes = 10.0 ** rng.uniform(-3, 4, 20)
    tails = z[:, 12:] / np.sqrt(rng.chisquare(3, size=(rows, 8)) / 3)
    raw = np.hstack([np.exp(np.linspace(0.5, 1.6, 12) * z[:, :12]), tails + 3]) * sizes
    cut = np.clip(raw, *np.quantile(raw, [0.005, 0.995], axis=0))
    scaled = (cut - cut.mean(axis=0)) / cut.std(axis=0)
    y = (scaled @ rng.normal(0, 0.5, 20) + rng.logistic(size=rows) > 0).astype(float)
    return (scaled if by_hand else raw), y


def drawn(name: str, rows: int = 40_000) -> tuple[Array, Array]:
    """Return a table on which constants were chosen; its labels follow no linear rule."""
    rng = np.random.default_rng(5 if name == "categories" else 6)
    if name == "categories":
        z, columns, sizes = rng.normal(size=(rows, 4)), [], [2, 2, 5, 7, 9, 16, 6, 5, 40, 4]
        for size in sizes:
            scores = z @ (0.8 * rng.normal(size=(4, size))) - 1.5 * abs(rng.normal(size=size))
            columns.append(np.eye(size)[(scores + rng.gumbel(size=(rows, size))).argmax(1)])
        X = np.hstack(columns) / np.sqrt(len(sizes))
        score = X @ (3 * rng.normal(size=X.shape[1])) + 1.2 * z[:, 0] * (z[:, 1] > 0)
        score = score - 0.4 * z[:, 2] ** 2 - 1.2
        return X, (score - np.median(score) - 1 + rng.logistic(size=rows) > 0).astype(float)
    if name == "factor":
        common = rng.normal(size=(rows, 2)) @ np.vstack([np.ones(60), rng.normal(size=60)])
        X = common + rng.normal(size=(rows, 60))
        X = X / np.sqrt((X**2).sum(axis=1).max())
        z = 6 * X @ rng.normal(size=60) + 0.5
        return X, (z + rng.logistic(size=rows) > 0).astype(float)
    shape = rng.normal(size=(40, 40)) / np.sqrt(40) @ np.diag(np.linspace(1.5, 0.1, 40))
    X = rng.normal(size=(rows, 40)) @ shape
    X = X / np.sqrt((X**2).sum(axis=1).max())
    z = X @ rng.normal(size=40)
    z = z / z.std()
    return X, (1.8 * z + 0.4 * z**2 - 0.4 + rng.logistic(size=rows) > 0).astype(float)


@lru_cache(maxsize=8)
def table(name: str, family: str = "logistic") -> tuple[Array, Array]:
    """Return a table from its file, which is made at the first time."""
    path = FOLDER / f"{name.replace(' ', '_')}.npz"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        X, y = make_table(name)
        np.savez_compressed(path, X=X.astype(np.float32), y=y.astype(np.float32))
    with np.load(path) as parts:
        X, y = parts["X"].astype(np.float64), parts["y"].astype(np.float64)
    if family == "logistic":
        return X, y
    # Labels of known coefficients that predict the real label, with noise that none can explain.
    w = np.linalg.lstsq(X, y - y.mean(), rcond=None)[0]
    rng, z = np.random.default_rng(7), X @ w
    if family == "ridge":
        return X, 4 * z + rng.normal(size=len(z))
    return X, rng.poisson(np.exp(3 * z)).astype(float)


class Split:
    """Public, private and test rows of one seed; a third of the table is for testing."""

    def __init__(self, case: dict[str, Any], seed: int) -> None:
        family = case.get("family", "logistic")
        X, y = table(case["data"], family)
        order = np.random.default_rng(seed).permutation(len(y))
        test, rest = np.split(order, [int(0.3532 * len(y))])
        women = rest[X[rest, FEMALE] > 0] if case.get("women") else rest
        chosen = women[: case["public"]]
        others = np.setdiff1d(rest, chosen, assume_unique=True)
        others = np.random.default_rng([seed, 1]).permutation(others)[: case["private"]]
        self.family = FAMILIES[family]
        self.public, self.private, self.test = (
            (X[rows], y[rows]) for rows in (chosen, others, test)
        )

    def loss(self, w: Array, X: Array | None = None) -> float:
        """Return the test loss of coefficients with the intercept last, perhaps of other inputs."""
        X, y = self.test[0] if X is None else X, self.test[1]
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(self.family.loss(X @ w[:-1] + w[-1], y).mean())
        return found if np.isfinite(found) else 1e9


def fit_rows(family: Any, X: Array, y: Array) -> tuple[GLM, Array]:
    """Return the loss with the penalty that cross-validation picks, and its minimum."""
    loss = choose_strength(GLM(X, y, family, intercept=True))
    return loss, minimise_exactly(loss, loss.zeros(), tol=1e-9)


def with_ones(X: Array) -> Array:
    """Return rows with the constant that the intercept multiplies."""
    return np.hstack([X, np.ones((len(X), 1))])


# -- rivals ---------------------------------------------------------------------------------------


def metric_descent(
    X: Array, y: Array, w: Array, hessian: Array, *, mu: float, steps: int, clip: float,
    rate: float, rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Return the ten lines by hand: DP-GD for logistic loss in the public Hessian's metric.

    The clip is in units of the metric; the last half of the iterates is averaged.
    """
    values, vectors = np.linalg.eigh(hessian + 1e-3 * np.eye(len(w)))
    M = vectors / np.sqrt(values)
    Z, u, total = with_ones(X) @ M, np.zeros(len(w)), np.zeros(len(w))
    start, most = with_ones(X) @ w, clip / np.linalg.norm(Z, axis=1)
    for k in range(steps):
        slopes = np.clip(1 / (1 + np.exp(-(start + Z @ u))) - y, -most, most)
        noise = np.sqrt(steps) / mu * clip * rng.normal(size=len(w))
        u = u - rate * (Z.T @ slopes + noise) / len(y)
        total += u * (k >= steps // 2)
    return w + M @ total / (steps - steps // 2)


# What a rival descends in, from where, and the numbers of steps that are tried.
STEPS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
# Rows that a descent reads: of costly ones, and of those that are not tried.
COSTLY, MOST_READ = 1e7, 6e7
RIVALS: dict[str, tuple[str, bool, tuple[int, ...]]] = {
    "metric DP-GD": ("metric", True, STEPS), "DP-GD": ("plain", True, STEPS),
    "DP-SGD": ("sgd", True, STEPS[1:]), "DP-GD from zero": ("plain", False, STEPS[2:]),
    "DP-SGD from zero": ("sgd", False, STEPS[1:]),
}  # fmt: skip
BATCH = 256
AVERAGES = ("last", "tail")
# A setting: ε, steps, and the places in the lattice of clip and of rate times steps.
Setting = tuple[float, int, int, int]


def clip_and_rate(setting: Setting) -> tuple[float, float]:
    """Return the clip, in units of public rows' usual gradient, and the rate."""
    return 2.0 ** (setting[2] / 2), 2.0 ** setting[3] / setting[1]


@lru_cache
def noise_multiplier(kind: str, epsilon: float, steps: int, rows: int) -> float:
    """Return σ: exact for all rows, by Opacus' RDP accountant for sampled ones."""
    if kind != "sgd":
        return math.sqrt(steps) / gaussian_mu(epsilon, DELTA)
    from opacus.accountants.utils import get_noise_multiplier  # type: ignore[import-untyped]

    return float(get_noise_multiplier(
        target_epsilon=epsilon, target_delta=DELTA, sample_rate=BATCH / rows, steps=steps,
        accountant="rdp",
    ))  # fmt: skip


def descend(
    split: Split, ready: dict[str, Any], rival: str, settings: Sequence[Setting], seed: int
) -> dict[str, list[float]]:
    """Return test losses of DP descents of one number of steps: last iterates and tail averages.

    ``metric`` is :func:`metric_descent` for many settings at once, with the same noise; ``plain``
    has an isotropic metric, ``sgd`` samples rows, too.
    """
    (kind, warm, _), steps = RIVALS[rival], settings[0][1]
    rng, X, y = np.random.default_rng(seed), *split.private
    w = np.asarray(ready["w"])
    begin = w if warm else np.zeros(len(w))
    values, vectors = np.linalg.eigh(ready["hessian"] + 1e-3 * np.eye(len(w)))
    M = vectors / np.sqrt(values) if kind == "metric" else np.eye(len(w)) / values[-1] ** 0.5
    public = with_ones(split.public[0])
    slopes = split.family.mean(public @ begin) - split.public[1]
    usual = np.sqrt(np.mean(slopes**2 * ((public @ M) ** 2).sum(axis=1)))
    Z = np.ascontiguousarray(with_ones(X) @ M, dtype=np.float32)
    start, targets = ((v.astype(np.float32)[:, None]) for v in (with_ones(X) @ begin, y))
    found = np.array([clip_and_rate(setting) for setting in settings])
    clips, rates = (found[:, 0] * usual).astype(np.float32), found[:, 1].astype(np.float32)
    most = clips / np.linalg.norm(Z, axis=1, keepdims=True)
    share = BATCH / len(y) if kind == "sgd" else 1.0
    sigmas = [noise_multiplier(kind, setting[0], steps, len(y)) for setting in settings]
    noises = (np.array(sigmas) * clips).astype(np.float32)
    u = np.zeros((len(w), len(settings)), dtype=np.float32)
    total = np.zeros_like(u)
    part, limit, began, labels = Z, most, start, targets
    with np.errstate(all="ignore"):
        for k in range(steps):
            if share < 1:
                rows = np.flatnonzero(rng.random(len(y)) < share)
                part, limit, began, labels = Z[rows], most[rows], start[rows], targets[rows]
            slopes = 1 / (1 + np.exp(-(began + part @ u))) - labels
            np.clip(slopes, -limit, limit, out=slopes)
            noise = rng.standard_normal((len(w), 1), dtype=np.float32)
            u = u - rates * (part.T @ slopes + noises * noise) / np.float32(share * len(y))
            if k >= steps // 2:
                total += u
    ends = (u, total / (steps - steps // 2))
    points = [begin[:, None] + M @ end.astype(np.float64) for end in ends]
    return {
        average: [split.loss(point) for point in both.T]
        for average, both in zip(AVERAGES, points, strict=True)
    }


def tune(
    rival: str, splits: Sequence[tuple[int, Split, dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Return the best settings by average and ε, on the mean of some splits."""
    tried: dict[str, dict[Setting, float]] = {average: {} for average in AVERAGES}

    def measure(settings: Sequence[Setting]) -> None:
        new = [setting for setting in dict.fromkeys(settings) if setting not in tried["last"]]
        if new:
            found = [descend(split, ready, rival, new, seed) for seed, split, ready in splits]
            for average in AVERAGES:
                means = np.mean([losses[average] for losses in found], axis=0)
                tried[average] |= dict(zip(new, means.tolist(), strict=True))

    def best(average: str, epsilon: float, steps: int | None = None) -> Setting:
        own = (s for s in tried[average] if s[0] == epsilon and steps in (None, s[1]))
        return min(own, key=tried[average].__getitem__)

    rows = len(splits[0][1].private[1])
    order = [steps for steps in RIVALS[rival][2] if steps * rows <= MOST_READ]
    order.sort(key=lambda steps: abs(math.log(steps / 30)))
    measure([(e, order[0], *place) for e in EPSILONS
             for place in product(range(-4, 7, 2), range(0, 10, 2))])  # fmt: skip
    for k, steps in enumerate(order):
        centres = [best(average, e) for average in AVERAGES for e in EPSILONS]
        if steps * rows > COSTLY and max(order[:k]) not in {setting[1] for setting in centres}:
            continue
        for _ in range(6):
            known = len(tried["last"])
            measure([(e, steps, clip + i, rate + j) for e, _, clip, rate in centres
                     for i, j in product((-1, 0, 1), repeat=2)])  # fmt: skip
            centres = [best(average, e, steps) for average in AVERAGES for e in EPSILONS]
            if len(tried["last"]) == known:
                break
    # One step is the least there is.
    edges = {min(order), max(order)} - {1}
    return {
        f"{rival}, {average} {e:g}": {
            "frozen": (setting := best(average, e)), "tuning loss": tried[average][setting],
            **dict(zip(("clip", "rate"), clip_and_rate(setting), strict=True)),
            "edge": setting[1] in edges,
        }
        for average in AVERAGES for e in EPSILONS
    }  # fmt: skip


STRENGTHS = tuple((10.0 ** np.arange(-5, 4)).tolist())


def diffprivlib_losses(
    split: Split, epsilon: float, seed: int, strengths: Sequence[float] = STRENGTHS
) -> list[float]:
    """Return test losses of diffprivlib's logistic regression for each strength.

    It knows no public rows; it is ε-differentially private (δ = 0) for tables in which one row was
    exchanged. Its forests and classes do not load beside new versions of scikit-learn: forests are
    left out, and its function for one class against the rest is called.
    """
    forest: Any = types.ModuleType("diffprivlib.models.forest")
    forest.RandomForestClassifier = forest.DecisionTreeClassifier = None
    sys.modules.setdefault(forest.__name__, forest)
    fit = importlib.import_module("diffprivlib.models.logistic_regression")
    X, y = split.private
    points, _, _ = vars(fit)["_logistic_regression_path"](
        X, y, epsilon=epsilon, data_norm=float(np.sqrt((X**2).sum(axis=1).max())), pos_class=1.0,
        Cs=list(strengths), random_state=seed, check_input=False,
    )  # fmt: skip
    return [split.loss(np.ravel(w)) for w in points]


# -- ours -----------------------------------------------------------------------------------------


def prepare(split: Split) -> dict[str, Any]:
    """Return the public fit and the losses without private rows and without noise."""
    public, w = fit_rows(split.family, *split.public)
    both = [np.concatenate(pair) for pair in zip(split.public, split.private, strict=True)]
    ends = {"public": split.loss(w)}
    plain, cut = Scaling(), Scaling.of(split.public[0], None, PRIVATE.tail)
    cases = zip(ENDS[1:], (both, split.private, both), (plain, plain, cut), strict=True)
    for name, rows, scaling in cases:
        own, _ = fit_rows(split.family, scaling(split.public[0]), split.public[1])
        # The penalty of the public rows, as weak as the rows are many.
        l2 = own.l2 * len(split.public[1]) / len(rows[1])
        loss = GLM(scaling(rows[0]), rows[1], split.family, l2=l2, intercept=True)
        ends[name] = split.loss(
            minimise_exactly(loss, loss.zeros(), tol=1e-9), scaling(split.test[0])
        )
    return {"w": w, "hessian": np.asarray(public.hessian(w)), **ends}


def fit_ours(case: dict[str, Any], split: Split, method: str, epsilon: float) -> float:
    """Return the test loss of our estimator."""
    family = case.get("family", "logistic")
    X, y = split.public
    options: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "n_nominal": case["private"]}
    options |= case.get("options", {})
    options |= {"classes": (0, 1)} if family == "logistic" else {}
    model = ESTIMATORS[family](**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method.startswith("ours, no public rows"):
            bound = float(np.sqrt((table(case["data"])[0] ** 2).sum(axis=1).max()))
            model.set_params(bound=bound)
            if "all on gradients" in method:
                model.set_params(moments=0.0)
            model.fit(*split.private)
        else:
            model.fit(*split.private, X, y if method == "ours" else None)
    # Predictions cut entries as the fit did.
    X, y = split.test
    found = model.decision_function(X) if family == "logistic" else model.predict(X)
    z = np.log(found) if family == "poisson" else found
    return float(split.family.loss(z, y).mean())


# -- the comparison -------------------------------------------------------------------------------

BLIND = ("ours, no public rows", "ours, no public rows, all on gradients")
OWN = ("ours", "ours, no public labels", *BLIND)
WARM = ("metric DP-GD", "DP-GD", "DP-SGD")
ZERO = ("DP-GD from zero", "DP-SGD from zero", "diffprivlib")
# The slowest rivals are left to few rows, or to fewer splits; mushrooms has no 20,000 rows.
CASES: dict[str, list[dict[str, Any]]] = {
    "few": [
        {"data": "a9a", "public": 1000, "private": 2000, "rivals": (*WARM, *ZERO), "own": OWN},
        {"data": "pixels", "public": 1000, "private": 2000, "rivals": WARM},
        {"data": "mushrooms", "public": 500, "private": 2000, "rivals": WARM},
        {"data": "skewed", "public": 1000, "private": 2000},
        {"data": "scaled by hand", "public": 1000, "private": 2000, "options": {"scale": None}},
        {"data": "a9a", "public": 1000, "private": 2000, "women": True},
        {"data": "a9a", "public": 1000, "private": 2000, "family": "ridge"},
        {"data": "a9a", "public": 1000, "private": 2000, "family": "poisson"},
    ],
    "many": [
        {"data": "a9a", "public": 1000, "private": 20_000, "rivals": (*WARM, *ZERO), "own": OWN},
        {"data": "pixels", "public": 1000, "private": 20_000, "rivals": WARM[:1]},
        {"data": "a9a", "public": 200, "private": 20_000},
        {"data": "skewed", "public": 1000, "private": 20_000},
        {"data": "scaled by hand", "public": 1000, "private": 20_000, "options": {"scale": None}},
    ],
}
MEASURES = [f"src/proxyprox/private/{n}.py" for n in ("estimators", "mechanism", "policy")]


def key(case: dict[str, Any]) -> str:
    """Return the name of a case."""
    parts = [case["data"], f"{case['public']}/{case['private']}", case.get("family", ""),
             "women" * bool(case.get("women"))]  # fmt: skip
    return " ".join(part for part in parts if part)


def compare(
    case: dict[str, Any], tuning: Sequence[int], fresh: Sequence[int]
) -> list[dict[str, Any]]:
    """Return a line for each ε: mean losses, paired differences to ours, and frozen settings."""
    losses: dict[str, list[float]] = {}
    frozen: dict[str, dict[str, Any]] = {}
    rivals = case.get("rivals", ())
    splits = [(seed, Split(case, seed)) for seed in (tuning if rivals else ())]
    known = [(seed, split, prepare(split)) for seed, split in splits]
    for rival in rivals:
        if rival in RIVALS:
            frozen |= tune(rival, known)
            continue
        for e in EPSILONS:
            means = np.mean([diffprivlib_losses(s, e, seed) for seed, s, _ in known], axis=0)
            place = int(means.argmin())
            frozen[f"{rival} {e:g}"] = {
                "frozen": place, "tuning loss": means[place], "C": STRENGTHS[place],
                "edge": place in (0, len(STRENGTHS) - 1),
            }  # fmt: skip
    for seed in fresh:
        split = Split(case, seed)
        ready = prepare(split)
        for name in ENDS:
            losses.setdefault(name, []).append(ready[name])
        for method, e in product(case.get("own", OWN[:1]), EPSILONS):
            losses.setdefault(f"{method} {e:g}", []).append(fit_ours(case, split, method, e))
        for name, loss in frozen_losses(frozen, split, ready, seed).items():
            losses.setdefault(name, []).append(loss)
        print(key(case), seed, flush=True)  # noqa: T201
    lines = []
    for e in EPSILONS:
        own = {m: m for m in ENDS}
        own |= {m.removesuffix(f" {e:g}"): m for m in losses if m.endswith(f" {e:g}")}
        lines.append({
            "case": key(case), "epsilon": e, "splits": len(fresh),
            "loss": {m: float(np.mean(losses[k])) for m, k in own.items()},
            "ours minus": {
                m: paired(losses[f"ours {e:g}"], losses[k]) for m, k in own.items() if m != "ours"
            },
            "frozen settings": {m: told for m, told in frozen.items() if m.endswith(f" {e:g}")},
        })  # fmt: skip
    return lines


def frozen_losses(
    frozen: dict[str, dict[str, Any]], split: Split, ready: dict[str, Any], seed: int
) -> dict[str, float]:
    """Return the test losses of frozen settings; those of one number of steps run together."""
    losses, groups = {}, dict[tuple[str, int], list[tuple[str, str, Setting]]]()
    for name, told in frozen.items():
        method, _, e = name.rpartition(" ")
        rival, _, average = method.partition(", ")
        if rival in RIVALS:
            group = groups.setdefault((rival, told["frozen"][1]), [])
            group.append((name, average, told["frozen"]))
        else:
            losses[name] = diffprivlib_losses(split, float(e), seed, [told["C"]])[0]
    for (rival, _), group in groups.items():
        found = descend(split, ready, rival, [setting for _, _, setting in group], seed)
        for place, (name, average, _) in enumerate(group):
            losses[name] = found[average][place]
    return losses


def paired(one: list[float], other: list[float]) -> dict[str, float]:
    """Return the mean of paired differences, its standard error and the worst."""
    gaps = np.subtract(one, other)
    error = float(gaps.std(ddof=1) / len(gaps) ** 0.5) if len(gaps) > 1 else math.nan
    return {"mean": float(gaps.mean()), "se": error, "worst": float(gaps.max())}


def fresh_table(path: Path) -> str:
    """Return the table of ours against frozen rivals, in ten-thousandths of log-loss."""
    rivals = {"public": "public only", **{f"{rival}, tail": rival for rival in WARM}}
    head = " | ".join(["rows", "splits", "ε", *rivals.values()])
    text = f"| {head} |\n|---|---|---|{'---|' * len(rivals)}\n"
    for line in json.loads(path.read_text()):
        if "metric DP-GD, tail" in line["ours minus"]:
            gaps = [line["ours minus"].get(rival) for rival in rivals]
            cells = [f"{1e4 * g['mean']:+.0f} ± {1e4 * g['se']:.0f}" if g else "" for g in gaps]
            first = f"{line['case']} | {line['splits']} | {line['epsilon']:g}"
            text += f"| {first} | {' | '.join(cells)} |\n"
    return text


def blind_table(path: Path) -> str:
    """Return the table of losses without public rows or without public labels."""
    names = {
        "DP-GD from zero, tail": "DP-GD", "DP-SGD from zero, tail": "DP-SGD",
        "diffprivlib": "diffprivlib", BLIND[0]: "ours", BLIND[1]: "no moments",
        OWN[1]: "unlabelled public rows", "ceiling of private rows": "no noise",
    }  # fmt: skip
    text = f"| rows | ε | {' | '.join(names.values())} |\n|---|---|{'---|' * len(names)}\n"
    for line in json.loads(path.read_text()):
        if BLIND[0] in line["loss"]:
            losses = [line["loss"].get(name) for name in names]
            cells = ["" if loss is None else f"{loss:.4f}" for loss in losses]
            text += f"| {line['case']} | {line['epsilon']:g} | {' | '.join(cells)} |\n"
    return text


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Private rows, public proxy.")
    parser.add_argument("--rows", choices=tuple(CASES), required=True, help="few: 2,000")
    parser.add_argument("--record", type=Path, help="write the record there")
    parser.add_argument("--splits", type=int, help="fewer splits, for a trial")
    parser.add_argument("--only", default="", help="the case of this name alone")
    given = parser.parse_args()
    lines = []
    for case in CASES[given.rows]:
        if given.only in ("", key(case)):
            fresh = FRESH[: given.splits or SPLITS[given.rows]]
            lines += compare(case, TUNING[given.rows], fresh)
    if given.record:
        write_record(given.record, lines, measures=MEASURES)
    else:
        print(json.dumps(lines, indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
