"""Little of the right data, much of other data: synthetic rows, drift, biased samples, other tasks.

Two currencies. *Labels*: few labelled rows of the target and many of something else, test loss
against the number of labels. *Rounds*: exact gradients of the target's loss, other data as proxy.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.special
import typer
from sklearn import datasets as built_in
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

import proxyprox as pp
from experiments import datasets as libsvm
from experiments.compare import Curve, Job
from experiments.comparison import run_experiment
from experiments.figures import save_figure, save_figures
from experiments.labels import differences, print_differences
from experiments.records import publish
from experiments.report.figures import in_order, styles
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
from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.validation import message, whole
from proxyprox.inner.exact import minimise_exactly
from proxyprox.sklearn import ProxyLogisticRegression
from proxyprox_app.cli.console import command_line, emit, output_folder, say, stdout

Array = Any

OURS = "ProxyLogisticRegression"
TARGET = "target alone"
PROXY = "proxy alone"
FINE_TUNED = "fine-tuned"
MIXED = "mixed"
IMPORTANCE = "importance weighted"
NEW_INPUTS = "ours, new inputs without labels"
OLD_MODEL = "ours, the old model's answers on new inputs"

RIVALS = (TARGET, PROXY, FINE_TUNED, MIXED, IMPORTANCE)
WITH_NEW_INPUTS = (NEW_INPUTS, OLD_MODEL)
EFFORT = {OURS: 3.0, OLD_MODEL: 3.0}
"""Rough cost of a fit, for the estimate of the time left; 1 for the others."""

PROXY_ROWS = 2000
TEST_ROWS = 4000
FOLDS = 5
STRENGTHS = (0.003, 0.03, 0.3, 3.0)
"""scikit-learn's C of methods that tune something else, too: four by four settings."""

FINE_STRENGTHS = tuple(np.geomspace(1e-3, 30, 16).tolist())
"""The sixteen values of methods that tune C alone."""

WEIGHTS = (0.01, 0.05, 0.25, 1.0)
"""Weight of a proxy row beside a target row's, when mixed."""

POWERS = (0.0, 1 / 3, 2 / 3, 1.0)
"""Powers of the density ratio, which tame it."""


@dataclass(frozen=True)
class Draw:
    """Rows of one seed: few of the target, many of the proxy, and those of the test.

    ``X_new`` are inputs of the target without labels, ``spent`` rows of the target that the proxy
    was made from: the target alone may use them.
    """

    X: Any
    y: Array
    X_proxy: Any
    y_proxy: Array
    X_test: Any
    y_test: Array
    X_new: Any = None
    spent: tuple[Any, Array] | None = None


def fit_and_score(method: str, drawn: Draw, seed: int) -> tuple[float, str | None]:
    """Fit a method; return its test log-loss and, of ours, what it chose.

    Parameters
    ----------
    method : str
        One of the names above.
    drawn : Draw
        The rows.
    seed : int
        Randomness of the split.
    """
    choice = None
    with warnings.catch_warnings():
        # Fits that stop at their iteration limit are scored as they are.
        warnings.simplefilter("ignore")
        if method in (OURS, *WITH_NEW_INPUTS):
            model = _fit_ours(method, drawn, seed)
            z = model.decision_function(drawn.X_test)
            found = getattr(model, "choice_", None)
            choice = None if found is None else found.way
        else:
            z = _RIVALS[method](drawn, seed)
    return _log_loss(drawn.y_test, z), choice


def _log_loss(y: Array, z: Array) -> float:
    """Return the mean log-loss of labels 0 and 1 with these logits."""
    return float(np.mean(np.logaddexp(0, np.where(y > 0, -z, z))))


def _fit_ours(method: str, drawn: Draw, seed: int) -> Any:
    model = ProxyLogisticRegression(random_state=seed)
    if method == OURS:
        return model.fit(drawn.X, drawn.y, X_proxy=drawn.X_proxy, y_proxy=drawn.y_proxy)
    if method == NEW_INPUTS:
        return model.fit(drawn.X, drawn.y, X_proxy=drawn.X_new)
    old = LogisticRegression(C=0.3, max_iter=1000).fit(drawn.X_proxy, drawn.y_proxy)
    answers = old.predict_proba(_stack(drawn.X, drawn.X_new))[:, 1]
    return model.fit(drawn.X, drawn.y, X_proxy=drawn.X_new, y_proxy=answers)


# -- rivals: each tries sixteen settings on the same five folds of the target's rows --------------

Fit = Callable[[Array, Any], Array]
"""Fits target rows (their indices) with a setting; returns coefficients, the intercept last."""


def _tuned(drawn: Draw, seed: int, settings: Iterable[Any], fit: Fit) -> Array:
    """Return test logits of the setting with the least held-out loss."""
    folds = _folds(drawn.y, seed)

    def held_out(setting: Any) -> float:
        losses = [
            _log_loss(drawn.y[out], _logits(drawn.X[out], fit(kept, setting)))
            for kept, out in folds
        ]
        return float(np.mean(losses))

    return _logits(drawn.X_test, fit(np.arange(len(drawn.y)), min(settings, key=held_out)))


def _folds(y: Array, seed: int) -> list[tuple[Array, Array]]:
    number = max(2, min(FOLDS, int(np.bincount(y).min())))
    split = StratifiedKFold(number, shuffle=True, random_state=seed)
    return list(split.split(np.zeros((len(y), 1)), y))


def _logits(X: Any, w: Array) -> Array:
    return np.asarray(X @ w[:-1]).ravel() + w[-1]


def _coefficients(X: Any, y: Array, C: float, weights: Array | None = None) -> Array:
    model = LogisticRegression(C=C, tol=1e-3, max_iter=300).fit(X, y, sample_weight=weights)
    return np.append(model.coef_.ravel(), model.intercept_)


def _target_alone(drawn: Draw, seed: int) -> Array:
    if drawn.spent is not None:
        X, y = drawn.spent
        drawn = replace(drawn, X=_stack(drawn.X, X), y=np.append(drawn.y, y), spent=None)

    def fit(rows: Array, C: float) -> Array:
        return _coefficients(drawn.X[rows], drawn.y[rows], C)

    return _tuned(drawn, seed, FINE_STRENGTHS, fit)


def _proxy_alone(drawn: Draw, seed: int) -> Array:
    fits = {C: _coefficients(drawn.X_proxy, drawn.y_proxy, C) for C in FINE_STRENGTHS}
    return _tuned(drawn, seed, fits, lambda rows, C: fits[C])


def _fine_tuned(drawn: Draw, seed: int) -> Array:
    """Shrink to the proxy's fit instead of to zero; both strengths by cross-validation."""
    fits = {C: _coefficients(drawn.X_proxy, drawn.y_proxy, C) for C in STRENGTHS}

    def fit(rows: Array, setting: tuple[float, float]) -> Array:
        begin, C = fits[setting[0]], setting[1]
        X, signs = drawn.X[rows], 2.0 * drawn.y[rows] - 1
        offset = _logits(X, begin)

        def loss(move: Array) -> tuple[float, Array]:
            margins = signs * (offset + _logits(X, move))
            slopes = -C * signs * scipy.special.expit(-margins)
            gradient = np.append(X.T @ slopes, slopes.sum())
            # The intercept is not shrunk, as in scikit-learn.
            gradient[:-1] += move[:-1]
            value = C * np.logaddexp(0, -margins).sum() + move[:-1] @ move[:-1] / 2
            return value, gradient

        found = scipy.optimize.minimize(loss, np.zeros_like(begin), jac=True, method="L-BFGS-B")
        return begin + found.x

    return _tuned(drawn, seed, [(c, d) for c in STRENGTHS for d in (1e-3, 1e-2, 0.1, 1.0)], fit)


def _mixed(drawn: Draw, seed: int) -> Array:
    ones = np.ones(len(drawn.y_proxy))
    return _pooled(drawn, seed, {weight: weight * ones for weight in WEIGHTS})


def _importance_weighted(drawn: Draw, seed: int) -> Array:
    """Weight proxy rows by how much likelier their inputs are among the target's."""
    target = drawn.X if drawn.X_new is None else _stack(drawn.X, drawn.X_new)
    both = _stack(target, drawn.X_proxy)
    new = np.repeat([1, 0], [target.shape[0], len(drawn.y_proxy)])
    tell = LogisticRegression(C=0.1, max_iter=300).fit(both, new)
    ratio = np.exp(np.clip(tell.decision_function(drawn.X_proxy), -10, 10))
    found = {}
    for power in POWERS:
        weights = ratio**power
        found[power] = weights / weights.mean()
    return _pooled(drawn, seed, found)


def _pooled(drawn: Draw, seed: int, weights: Mapping[float, Array]) -> Array:
    """Fit both tables together; the proxy rows' weights and C by cross-validation."""

    def fit(rows: Array, setting: tuple[float, float]) -> Array:
        both = _stack(drawn.X[rows], drawn.X_proxy), np.append(drawn.y[rows], drawn.y_proxy)
        of_rows = np.append(np.ones(len(rows)), weights[setting[0]])
        return _coefficients(*both, setting[1], of_rows)

    return _tuned(drawn, seed, [(w, C) for w in weights for C in STRENGTHS], fit)


_RIVALS: dict[str, Callable[[Draw, int], Array]] = {
    TARGET: _target_alone,
    PROXY: _proxy_alone,
    FINE_TUNED: _fine_tuned,
    MIXED: _mixed,
    IMPORTANCE: _importance_weighted,
}


def _stack(*parts: Any) -> Any:
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.vstack(parts).tocsr()
    return np.vstack(parts)


# -- the cases ------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def table(name: str) -> tuple[Any, Array]:
    """Return inputs and labels 0 and 1; digits are asked whether they are 5 or more."""
    if name in ("breast_cancer", "digits"):
        X, y = getattr(built_in, f"load_{name}")(return_X_y=True)
        return StandardScaler().fit_transform(X), y if name == "breast_cancer" else (y >= 5) * 1
    data = libsvm.load(name)
    return data.X, np.unique(data.y, return_inverse=True)[1]


@lru_cache(maxsize=2)
def fitted_logits(name: str) -> Array:
    """Return the logits of a table's own fit."""
    X, y = table(name)
    return LogisticRegression(C=1.0, max_iter=1000).fit(X, y).decision_function(X)


def drifted_labels(name: str, degrees: float, rng: np.random.Generator) -> Array:
    """Draw old labels from a logistic model whose logits are turned by an angle.

    With z the logits of the table's own fit and u logits of random coefficients, made uncorrelated
    with z and as spread, old labels have the logits ``mean(z) + cos φ (z − mean(z)) + sin φ u``:
    cos φ is the correlation of old and new logits. 0° is no drift, 180° the opposite.
    """
    X, _ = table(name)
    z = fitted_logits(name)
    centred, u = z - z.mean(), X @ rng.normal(size=X.shape[1])
    u = u - u.mean()
    u -= centred * (u @ centred) / (centred @ centred)
    u *= np.linalg.norm(centred) / np.linalg.norm(u)
    turned = np.cos(np.radians(degrees)) * centred + np.sin(np.radians(degrees)) * u
    return (rng.random(len(z)) < scipy.special.expit(z.mean() + turned)).astype(int)


def _split(rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return test rows, a third at most, and the others."""
    order = rng.permutation(rows)
    cut = min(TEST_ROWS, rows // 3)
    return order[:cut], order[cut:]


def _labelled(pool: Array, y: Array, labels: int) -> tuple[Array, Array]:
    """Return the labelled rows, two of each class at least, and the rest of the pool."""
    first = np.concatenate([pool[y[pool] == c][:2] for c in (0, 1)])
    pool = np.concatenate([first, pool[~np.isin(pool, first)]])
    return pool[:labels], pool[labels:]


def synthetic(name: str, labels: int, rng: np.random.Generator) -> Draw:
    """Draw proxy rows from a generator fitted to the few real rows."""
    X, y = table(name)
    test, pool = _split(len(y), rng)
    few, _ = _labelled(pool, y, labels)
    return Draw(X[few], y[few], *generated_rows(X[few], y[few], rng), X[test], y[test])


def synthetic_from_half(name: str, labels: int, rng: np.random.Generator) -> Draw:
    """Fit the generator to half of the few real rows; they and its rows are the proxy."""
    X, y = table(name)
    test, pool = _split(len(y), rng)
    first, rest = _labelled(pool, y, labels // 2)
    few, _ = _labelled(rest, y, labels - len(first))
    made, answers = generated_rows(X[first], y[first], rng)
    proxy = _stack(X[first], made), np.append(y[first], answers)
    return Draw(X[few], y[few], *proxy, X[test], y[test], spent=(X[first], y[first]))


def generated_rows(X: Any, y: Array, rng: np.random.Generator) -> tuple[Any, Array]:
    """Return rows of Gaussian mixtures, one for each class, their shapes chosen by BIC."""
    parts = []
    for c in (0, 1):
        own = _dense(X[y == c])
        shapes = [(1, "diag"), (1, "full"), (2, "diag")][: 3 if len(own) > 2 else 1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [
                GaussianMixture(
                    k, covariance_type=kind, reg_covar=1e-2, random_state=int(rng.integers(2**31))
                ).fit(own)
                for k, kind in shapes
            ]
        best = min(models, key=lambda model: model.bic(own))
        parts.append(best.sample(max(1, round(PROXY_ROWS * len(own) / len(y))))[0])
    made: Any = np.vstack(parts)
    answers = np.repeat([0, 1], [len(part) for part in parts])
    return scipy.sparse.csr_matrix(made) if scipy.sparse.issparse(X) else made, answers


def _dense(X: Any) -> Array:
    return X.toarray() if scipy.sparse.issparse(X) else X


def label_drift(degrees: float) -> Callable[[str, int, np.random.Generator], Draw]:
    """Return the draw of a table whose old labels followed another model."""

    def draw(name: str, labels: int, rng: np.random.Generator) -> Draw:
        X, y = table(name)
        then = drifted_labels(name, degrees, rng)
        test, pool = _split(len(y), rng)
        few, rest = _labelled(pool, y, labels)
        old, new = rest[:PROXY_ROWS], rest[PROXY_ROWS : 2 * PROXY_ROWS]
        return Draw(X[few], y[few], X[old], then[old], X[test], y[test], X[new])

    return draw


def input_drift(name: str, labels: int, rng: np.random.Generator) -> Draw:
    """Draw old rows mostly where the label 1 is rare; labels given inputs are the same."""
    X, y = table(name)
    test, pool = _split(len(y), rng)
    few, rest = _labelled(pool, y, labels)
    chance = input_selection(name)[rest]
    old = rng.choice(rest, min(PROXY_ROWS, len(rest) // 3), replace=False, p=chance / chance.sum())
    new = rest[~np.isin(rest, old)][:PROXY_ROWS]
    return Draw(X[few], y[few], X[old], y[old], X[test], y[test], X[new])


def input_selection(name: str) -> Array:
    """Return each row's weight among the old inputs: ``exp(−1.5 z)``, z its standardised logit."""
    z = fitted_logits(name)
    return np.exp(-1.5 * (z - z.mean()) / z.std())


def other_scanner(name: str, labels: int, rng: np.random.Generator) -> Draw:
    """Draw old images one pixel farther to the right than the new ones."""
    _, y = table(name)
    images = built_in.load_digits().images
    scale = StandardScaler().fit(images.reshape(len(y), -1))
    moved = np.concatenate([np.zeros((len(y), 8, 1)), images[:, :, :-1]], axis=2)
    X, X_old = (scale.transform(part.reshape(len(y), -1)) for part in (images, moved))
    test, pool = _split(len(y), rng)
    few, rest = _labelled(pool, y, labels)
    old, new = rest[: len(rest) * 2 // 3], rest[len(rest) * 2 // 3 :]
    return Draw(X[few], y[few], X_old[old], y[old], X[test], y[test], X[new])


RARE_COLUMN = 7
"""Column of a9a that names the rare group: 3.4 % of the rows."""


def rare_group(name: str, labels: int, rng: np.random.Generator) -> Draw:
    """Draw a target of which half is the group; the proxy has it as rare as it is."""
    X, y = table(name)
    member = _dense(X[:, [RARE_COLUMN]]).ravel() > 0
    test, pool = _split(len(y), rng)
    parts = [_labelled(pool[member[pool] == one], y, labels // 2) for one in (True, False)]
    few = np.concatenate([part[0] for part in parts])
    left = np.concatenate([part[1] for part in parts])
    # As sampled: the members left, at the share that they have.
    share = len(parts[0][1]) / len(left)
    inside = rng.choice(parts[0][1], int(PROXY_ROWS * min(share, member.mean())), replace=False)
    proxy = np.concatenate([inside, rng.choice(parts[1][1], PROXY_ROWS - len(inside), False)])
    # The same number of test rows of both: a mean over them has the target's weights.
    ones = test[member[test]]
    tested = np.concatenate([ones, test[~member[test]][: len(ones)]])
    return Draw(X[few], y[few], X[proxy], y[proxy], X[tested], y[tested])


def survey(name: str, labels: int, rng: np.random.Generator) -> Draw:
    """Draw a large sample that chose itself by something that is not in the table.

    The column most correlated with the label decides: rows with it take part nine times as often.
    It and the columns that tell much of it (correlation above 0.3) are not in the table.
    """
    X, y = table(name)
    hidden, visible = hidden_column(name)
    X = X[:, visible]
    test, pool = _split(len(y), rng)
    few, rest = _labelled(pool, y, labels)
    chance = np.where(hidden[rest] > 0, 0.9, 0.1)
    proxy = rng.choice(rest, PROXY_ROWS, replace=False, p=chance / chance.sum())
    return Draw(X[few], y[few], X[proxy], y[proxy], X[test], y[test])


@lru_cache(maxsize=1)
def hidden_column(name: str) -> tuple[Array, Array]:
    """Return the column that decides who takes part, and the indices of those in the table."""
    X, y = table(name)
    X = _dense(X)
    kept = np.flatnonzero(X.std(axis=0) > 0.05)
    alike = np.corrcoef(np.column_stack([X[:, kept], y]), rowvar=False)
    most = int(np.argmax(abs(alike[-1, :-1])))
    return X[:, kept[most]], kept[abs(alike[most, :-1]) < 0.3]


TASKS, TASK_ROWS, TASK_COLUMNS = 10, 200, 20


def made_tasks(spread: float) -> Callable[[str, int, np.random.Generator], Draw]:
    """Return the draw of a new task and ten old ones: coefficients ``common + spread × own``."""

    def draw(_: str, labels: int, rng: np.random.Generator) -> Draw:
        common = rng.normal(size=TASK_COLUMNS) * 2 / np.sqrt(TASK_COLUMNS)

        def task(rows: int) -> tuple[Array, Array]:
            own = rng.normal(size=TASK_COLUMNS) * 2 / np.sqrt(TASK_COLUMNS)
            X = rng.normal(size=(rows, TASK_COLUMNS))
            chance = scipy.special.expit(X @ (common + spread * own))
            return X, (rng.random(rows) < chance).astype(int)

        old = [task(TASK_ROWS) for _ in range(TASKS)]
        X, y = task(TEST_ROWS + labels + 200)
        few, _ = _labelled(np.arange(TEST_ROWS, len(y)), y, labels)
        others = np.vstack([part[0] for part in old]), np.concatenate([part[1] for part in old])
        return Draw(X[few], y[few], *others, X[:TEST_ROWS], y[:TEST_ROWS])

    return draw


DIGIT_TASKS = ((6, 5), (0, 7), (9, 4))
"""Old tasks that seem alike: the first digit has a closed loop. The new one is 8 against 3."""


def digit_tasks(_: str, labels: int, rng: np.random.Generator) -> Draw:
    """Draw 8 against 3 as the new task, and other pairs of digits as the old ones."""
    X, digit = built_in.load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    new = rng.permutation(np.flatnonzero((digit == 8) | (digit == 3)))
    y = (digit == 8).astype(int)
    test, pool = new[: len(new) // 2], new[len(new) // 2 :]
    few, _rest = _labelled(pool, y, labels)
    old = np.flatnonzero(np.isin(digit, np.ravel(DIGIT_TASKS)))
    answers = np.isin(digit[old], [first for first, _ in DIGIT_TASKS]).astype(int)
    return Draw(X[few], y[few], X[old], answers, X[test], y[test])


CASES: dict[str, tuple[str, Callable[[str, int, np.random.Generator], Draw], int]] = {
    "synthetic rows, breast_cancer": ("breast_cancer", synthetic, 300),
    "synthetic rows, a9a": ("a9a", synthetic, 800),
    "synthetic rows from half, a9a": ("a9a", synthetic_from_half, 800),
    "old labels 30° off, a9a": ("a9a", label_drift(30), 800),
    "old labels 75° off, a9a": ("a9a", label_drift(75), 800),
    "old labels opposite, a9a": ("a9a", label_drift(180), 800),
    "old inputs, a9a": ("a9a", input_drift, 800),
    "old scanner, digits": ("digits", other_scanner, 300),
    "rare group, a9a": ("a9a", rare_group, 800),
    "self-chosen sample, a9a": ("a9a", survey, 800),
    "ten related tasks": ("", made_tasks(0.4), 800),
    "other pairs of digits": ("digits", digit_tasks, 50),
}
"""Panels: the table, its draw, and the most labels that leave enough other rows."""

NEW_INPUTS_TOO = ("old labels 30° off, a9a", "old inputs, a9a")
"""Cases in which new inputs without labels are tried as a proxy, too."""


@lru_cache(maxsize=16)
def draw(case: str, labels: int, seed: int) -> Draw:
    """Draw the rows of a case; every number of labels has draws of its own."""
    name, make, _ = CASES[case]
    return make(name, labels, np.random.default_rng([seed, labels]))


# -- rounds: exact gradients of the target, the other data's loss as proxy ------------------------

MINIMIZE = "minimize(Problem(target, proxy))"
LBFGS = "L-BFGS"
LBFGS_FROM_PROXY = "L-BFGS from the proxy's minimum"
NESTEROV = "Nesterov"
SOLVERS = (MINIMIZE, LBFGS, LBFGS_FROM_PROXY, NESTEROV)

RANGE_OF_ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 50, 80, 120)
L2 = 1e-4
EXCESS = 0.01
"""A fit is good enough when its loss is so much of the least loss above it."""


@dataclass(frozen=True)
class Losses:
    """The target's loss, its minimum, and the proxy's loss."""

    target: Any
    optimum: float
    proxy: Any


@lru_cache(maxsize=8)
def losses(case: str, seed: int) -> Losses:
    """Return the two losses of a case: half of a9a is the target, the other half the proxy."""
    rng = np.random.default_rng([seed, 7])
    X, y = table("a9a")
    order = rng.permutation(len(y))
    new, old = order[: len(y) // 2], order[len(y) // 2 :]
    X_old, y_old, weights = X[old], y[old], None
    if "labels" in case:
        y_old = drifted_labels("a9a", DEGREES[case], rng)[old]
    elif case == "old inputs":
        chance = input_selection("a9a")[old]
        kept = rng.choice(len(old), len(old) // 3, replace=False, p=chance / chance.sum())
        X_old, y_old = X_old[kept], y_old[kept]
    elif case == "rare group":
        member = _dense(X[new][:, [RARE_COLUMN]]).ravel() > 0
        weights = np.where(member, 0.5 / member.mean(), 0.5 / (1 - member.mean()))
    elif case == "other columns":
        X_old = X_old[:, rng.permutation(X.shape[1])]
    else:
        X_old = X_old * UNITS
    settings: dict[str, Any] = {"l2": L2, "intercept": True, "classes": (0, 1)}
    target = pp.logistic_regression(X[new], y[new], sample_weight=weights, **settings)
    optimum = target.value(minimise_exactly(target, target.zeros()))
    return Losses(target, optimum, pp.logistic_regression(X_old, y_old, **settings))


UNITS = 30.0
DEGREES = {"old labels 30° off": 30, "old labels 75° off": 75, "old labels opposite": 180}
ROUND_CASES = (*DEGREES, "old inputs", "rare group", "other columns", "other units")
"""The last two are useless: columns permuted, columns 30 times as large."""


class _Enough(Exception):  # noqa: N818
    """The last round that is looked at is over."""


class _Rounds:
    """A loss that notes its value and the time at each point it was asked about."""

    def __init__(self, given: Losses) -> None:
        self.given, self.begun = given, time.process_time()
        self.seen: list[tuple[float, float]] = []

    def __call__(self, w: Array) -> tuple[float, Array]:
        value, gradient = self.given.target.value(w), self.given.target.gradient(w)
        self.note(value)
        return value, gradient

    def note(self, value: float) -> None:
        excess = value / self.given.optimum - 1
        self.seen.append((excess, time.process_time() - self.begun))
        if len(self.seen) >= RANGE_OF_ROUNDS[-1]:
            raise _Enough


def count_rounds(solver: str, given: Losses) -> list[Point]:
    """Return the least excess loss after some numbers of rounds.

    A round is one value and gradient of the target at one point, rejected trials included.

    Parameters
    ----------
    solver : str
        One of :data:`SOLVERS`.
    given : Losses
        The case.
    """
    rounds = _Rounds(given)
    target, begin = given.target, given.target.zeros()
    if solver == LBFGS_FROM_PROXY:
        begin = minimise_exactly(given.proxy, begin)
    try:
        if solver == MINIMIZE:
            problem = pp.Problem(target, given.proxy)
            pp.minimize(
                problem,
                steps=RANGE_OF_ROUNDS[-1],
                callback=lambda step: rounds.note(step.value),
                rng=0,
            )
        elif solver in (LBFGS, LBFGS_FROM_PROXY):
            options = {"ftol": 0, "gtol": 0, "maxiter": 10_000, "maxfun": 10_000}
            scipy.optimize.minimize(rounds, begin, jac=True, method="L-BFGS-B", options=options)
        else:
            _nesterov(rounds, begin, target.smoothness)
    except _Enough:
        pass
    excess, seconds = np.array(rounds.seen).T
    excess = np.minimum.accumulate(excess)
    reached = excess <= EXCESS
    notes = {
        "to_one_per_cent": int(np.argmax(reached)) + 1 if reached.any() else None,
        "seconds_to_one_per_cent": float(seconds[np.argmax(reached)]) if reached.any() else None,
    }
    return [
        {"rounds": k, "excess": max(float(excess[min(k, len(excess)) - 1]), 0.0), "seconds": None}
        | notes
        for k in RANGE_OF_ROUNDS
    ]


def _nesterov(loss: Callable[[Array], tuple[float, Array]], w: Array, H: float) -> None:
    """Nesterov's method with steps 1/H, restarted whenever the loss rises."""
    ahead, t, least = w, 1.0, math.inf
    while True:
        value, gradient = loss(ahead)
        if value > least:
            t = 1.0
        least = value
        after = ahead - gradient / H
        t, before = (1 + math.sqrt(1 + 4 * t * t)) / 2, t
        ahead, w = after + (before - 1) / t * (after - w), after


# -- the experiment -------------------------------------------------------------------------------

ROUNDS = "rounds: "
"""Beginning of the panels that count rounds."""


@dataclass(frozen=True)
class Config:
    """Settings of the experiment.

    Attributes
    ----------
    cases : tuple of str
        Beginnings of the names of the cases to run, e.g. "old labels"; empty for all.
    labels : tuple of int
        Numbers of target labels.
    rounds : bool
        Whether rounds are counted, too.
    seeds : int
        Draws of everything; two at least, for intervals.
    """

    cases: tuple[str, ...] = ()
    labels: tuple[int, ...] = (50, 300)
    rounds: bool = True
    seeds: int = 5

    def __post_init__(self) -> None:
        """Check the names and numbers."""
        whole("seeds", self.seeds, 2)
        for number in self.labels:
            whole("labels", number, 20)
        for name in self.cases:
            if not any(case.startswith(name) for case in (*CASES, *ROUND_CASES)):
                raise ValueError(message("cases", name, f"the beginning of: {'; '.join(CASES)}"))

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Return the names of cases to run."""
        return [n for n in names if not self.cases or n.startswith(self.cases)]


def curves(config: Config) -> list[Curve]:
    """Return the curves of all panels."""
    found = []
    for case in config.chosen(CASES) if config.labels else ():
        methods = (*RIVALS, OURS, *(WITH_NEW_INPUTS if case in NEW_INPUTS_TOO else ()))
        found += [Curve(case, m, None, (None,), EFFORT.get(m, 1.0)) for m in methods]
    for case in config.chosen(ROUND_CASES) if config.rounds else ():
        found += [Curve(ROUNDS + case, solver, None, (None,), 1.0) for solver in SOLVERS]
    return found


def run_job(config: Config, job: Job) -> list[Point]:
    """Fit one method to growing numbers of labels, or count the rounds of one solver."""
    if job.panel.startswith(ROUNDS):
        return count_rounds(job.method, losses(job.panel.removeprefix(ROUNDS), job.seed))
    points = []
    for labels in sorted(config.labels):
        if labels > CASES[job.panel][2]:
            break
        drawn = draw(job.panel, labels, job.seed)
        begun = time.process_time()
        loss, choice = fit_and_score(job.method, drawn, job.seed)
        seconds = time.process_time() - begun
        points.append({"labels": labels, "test_loss": loss, "seconds": seconds, "choice": choice})
    return points


def fetch(config: Config, *, download: bool, progress: bool) -> None:
    """Find a9a before there are workers, so that one that is missing is one message."""
    names = [CASES[case][0] for case in config.chosen(CASES)]
    if "a9a" in names or config.rounds:
        libsvm.load("a9a", download=download, progress=progress)


WORDS = {
    "labels": "labels of the target", "test_loss": "test log-loss", "seconds": "seconds of a fit",
    "rounds": "rounds", "excess": "excess loss (L − L*) / L*",
}  # fmt: skip
NOTES = (
    "Every rival tries sixteen settings by five-fold cross-validation on the target's labels, by "
    "log-loss: target alone and proxy alone C; fine-tuned C of the proxy's fit and the strength of "
    "shrinking to it; mixed C and the weight of proxy rows; importance weighted C and the power of "
    "the density ratio. Ours has no settings.",
    "Seconds are processor time of a whole fit with its tuning.",
    "A round is one value and gradient of the target at one point; rejected trials count.",
)


def compare_with_rivals(records: Sequence[Point]) -> list[Row]:
    """Return, for each case and number of labels, means, worst seeds and seconds of each method.

    Parameters
    ----------
    records : sequence of points
        Points of all methods and seeds.

    Returns
    -------
    rows : list of dict
        ``mean``; ``worst``, the largest ratio over the seeds of the loss to that of the target
        alone; ``above_best``, the ratio of means to that of the best rival, minus 1.
    """
    losses: dict[tuple[str, int], dict[str, dict[int, Point]]] = {}
    for point in records:
        case = losses.setdefault((point["panel"], point["labels"]), {})
        case.setdefault(point["method"], {})[point["seed"]] = point
    rows: list[Row] = []
    for (panel, labels), methods in losses.items():
        means = {m: np.mean([p["test_loss"] for p in at.values()]) for m, at in methods.items()}
        best = min(means[m] for m in RIVALS)
        for method, at in methods.items():
            alone = methods[TARGET]
            chosen = [p["choice"] for p in at.values() if p.get("choice")]
            rows.append(
                {
                    "panel": panel,
                    "labels": labels,
                    "method": method,
                    "mean": float(means[method]),
                    "above_best": float(means[method] / best - 1),
                    "worst": float(
                        max(at[s]["test_loss"] / alone[s]["test_loss"] for s in at.keys() & alone)
                    ),
                    "seconds": float(np.median([p["seconds"] for p in at.values()])),
                    "choices": {c: chosen.count(c) for c in dict.fromkeys(chosen)},
                }
            )
    return rows


def rounds_table(records: Sequence[Point]) -> list[Row]:
    """Return the median rounds and seconds to one per cent."""
    found: dict[tuple[str, str], list[Point]] = {}
    for point in records:
        if point["rounds"] == RANGE_OF_ROUNDS[0]:
            found.setdefault((point["panel"], point["method"]), []).append(point)
    rows: list[Row] = []
    for (panel, method), points in found.items():
        row: Row = {"panel": panel.removeprefix(ROUNDS), "method": method}
        for field in ("to_one_per_cent", "seconds_to_one_per_cent"):
            known = [math.inf if p[field] is None else p[field] for p in points]
            middle, worst = float(np.median(known)), float(max(known))
            row[field] = middle if math.isfinite(middle) else None
            row[f"worst_{field}"] = worst if math.isfinite(worst) else None
        rows.append(row)
    return rows


def sentences(rows: Sequence[Mapping[str, Any]], gaps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, case by case, ours against the best rival, and the rivals that were lower.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of :func:`compare_with_rivals`.
    gaps : sequence of mappings
        Paired differences with intervals.
    """
    texts = []
    for row in rows:
        if row["method"] != OURS:
            continue
        where = (row["panel"], row["labels"])
        rivals = [r for r in rows if (r["panel"], r["labels"]) == where and r["method"] in RIVALS]
        best = min(rivals, key=lambda r: float(r["mean"]))
        surely = [
            gap["method"]
            for gap in gaps
            if (gap["panel"], gap["labels"]) == where and gap["low"] > 0 and gap["method"] in RIVALS
        ]
        side = "above" if row["above_best"] > 0 else "below"
        text = (
            f"{row['panel']}, {row['labels']} labels: ours {abs(row['above_best']):.1%} {side} the "
            f"best rival ({best['method']}, {best['mean']:.3f})"
        )
        texts.append(text + (f"; surely above {', '.join(surely)}." if surely else "."))
    return texts


def markdown(
    rows: Sequence[Mapping[str, Any]],
    gaps: Sequence[Mapping[str, Any]],
    rounds: Sequence[Mapping[str, Any]],
    command: str,
    seeds: int,
) -> str:
    """Return the tables of a run as a page.

    Parameters
    ----------
    rows, gaps, rounds : sequences of mappings
        Of :func:`compare_with_rivals`, of the paired differences, of :func:`rounds_table`.
    command : str
        Command that makes it again.
    seeds : int
        Draws.
    """
    lines = [
        "# Little of the right data, much of other data: a recorded run", "",
        f"`{command}`: {seeds} seeds. Mean test log-loss; ours minus it, paired, with its 95 % "
        "interval; the worst seed's ratio to the target alone of that seed; processor seconds of a "
        "fit with its tuning. The least loss of a table is bold.", "",
        *(f"- {note}" for note in NOTES), "",
    ]  # fmt: skip
    if rows:
        lines += ["![Test loss over that of the target alone](figure_labels.png)", ""]
    ours = {(g["panel"], g["labels"], g["method"]): g for g in gaps}
    for panel, labels in dict.fromkeys((r["panel"], r["labels"]) for r in rows):
        here = [r for r in rows if (r["panel"], r["labels"]) == (panel, labels)]
        least = min(r["mean"] for r in here)
        lines += [
            f"## {panel}, {labels} labels", "",
            "| method | test loss | ours − it | worst seed / target alone | seconds |",
            "|---|---|---|---|---|",
        ]  # fmt: skip
        for r in here:
            gap = ours.get((panel, labels, r["method"]))
            paired = gap and f"{gap['difference']:+.4f} ({gap['low']:+.4f}, {gap['high']:+.4f})"
            mean = f"**{r['mean']:.4f}**" if r["mean"] == least else f"{r['mean']:.4f}"
            cells = (r["method"], mean, paired or "", f"{r['worst']:.2f}", f"{r['seconds']:.1f}")
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
        for r in here:
            if r["choices"]:
                chosen = ", ".join(f"{way} {times}" for way, times in r["choices"].items())
                lines += [f"{r['method']} chose: {chosen}.", ""]
    if rounds:
        lines += [
            "## Rounds to one per cent above the least loss", "",
            "Medians over the seeds, the worst seed in brackets, – not within "
            f"{RANGE_OF_ROUNDS[-1]} rounds; processor seconds until then, with all of the proxy's "
            "work.", "",
            "![Excess loss against rounds](figure_rounds.png)", "",
            "| case | method | rounds | seconds |",
            "|---|---|---|---|",
        ]  # fmt: skip
        for r in rounds:
            words = ("to_one_per_cent", "worst_to_one_per_cent", "seconds_to_one_per_cent")
            middle, worst, seconds = ("–" if r[f] is None else f"{r[f]:.3g}" for f in words)
            lines.append(f"| {r['panel']} | {r['method']} | {middle} ({worst}) | {seconds} |")
        lines.append("")
    return "\n".join(lines)


def cases_table(path: Path) -> str:
    """Return the table of all cases: a line each, the least loss bold."""
    rows = json.loads(path.read_text("utf-8"))["methods"]
    shown = [*RIVALS, OURS]
    lines = [
        f"| case | labels | {' | '.join(shown)} | ours chose |",
        "|---" * (len(shown) + 3) + "|",
    ]
    for panel, labels in dict.fromkeys((row["panel"], row["labels"]) for row in rows):
        here = {r["method"]: r for r in rows if (r["panel"], r["labels"]) == (panel, labels)}
        least = min(here[method]["mean"] for method in shown)
        cells = [f"{here[method]['mean']:.3f}" for method in shown]
        bold = [
            f"**{c}**" * (here[m]["mean"] == least) or c for c, m in zip(cells, shown, strict=True)
        ]
        chose = ", ".join(f"{way} {times}" for way, times in here[OURS]["choices"].items())
        lines.append(f"| {panel} | {labels} | {' | '.join(bold)} | {chose} |")
    return "\n".join(lines)


def behind_table(path: Path) -> str:
    """Return the table of the cases in which the best rival is more than 1 % below ours."""
    rows = json.loads(path.read_text("utf-8"))["methods"]
    lines = ["| case | use instead | ours is above it by | worst seed / target alone |"]
    lines.append("|---" * 4 + "|")
    for ours in (row for row in rows if row["method"] == OURS):
        rivals = [row for row in rows if row["method"] in RIVALS
                  and (row["panel"], row["labels"]) == (ours["panel"], ours["labels"])]  # fmt: skip
        best = min(rivals, key=lambda row: row["mean"])
        if (above := ours["mean"] / best["mean"] - 1) > 0.01:
            case = f"{ours['panel']}, {ours['labels']} labels"
            lines.append(f"| {case} | {best['method']} | {above:.0%} | {ours['worst']:.2f} |")
    return "\n".join(lines)


def draw_ratios(records: Sequence[Point]) -> Any:
    """Draw each method's loss over that of the target alone: means, and the range over seeds.

    Parameters
    ----------
    records : sequence of points
        Points of all methods and seeds.
    """
    figures = require("matplotlib.figure", extra="app", purpose="drawing figures")
    loss = {(p["panel"], p["labels"], p["method"], p["seed"]): p["test_loss"] for p in records}
    cases, looks = in_order(records, "panel")[::-1], styles(records)
    numbers = sorted({p["labels"] for p in records})
    figure = figures.Figure(
        figsize=(4.6 * len(numbers) + 2, 0.62 * len(cases) + 1.6), dpi=150, layout="constrained"
    )
    axes = figure.subplots(1, len(numbers), sharey=True, squeeze=False)[0]
    handles: dict[str, Any] = {}
    for axis, labels in zip(axes, numbers, strict=True):
        for j, (method, look) in enumerate(looks.items()):
            for row, case in enumerate(cases):
                ratios = [
                    value / loss[case, labels, TARGET, key[3]]
                    for key, value in loss.items()
                    if key[:3] == (case, labels, method)
                ]
                if ratios:
                    at = row + 0.38 - 0.76 * j / max(1, len(looks) - 1)
                    axis.plot([min(ratios), max(ratios)], [at, at], color=look.colour, lw=1.2)
                    mean = float(np.mean(ratios))
                    (dot,) = axis.plot(mean, at, look.marker, color=look.colour, ms=4.5)
                    handles.setdefault(method, dot)
        for row in range(len(cases) - 1):
            axis.axhline(row + 0.5, color="0.9", lw=0.6)
        axis.axvline(1, color="0.5", lw=0.8)
        axis.set_xscale("log")
        ticks = (0.5, 0.7, 1, 1.5, 2, 4, 8)
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.set(title=f"{labels} labels", xlabel="test loss / that of the target alone")
        axis.set_yticks(range(len(cases)), cases)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False
    )
    return figure


def write_results(
    folder: Path, records: Sequence[Point], command: str, config: Mapping[str, Any]
) -> tuple[list[Row], list[str]]:
    """Write summary, figures and reports; return the paired differences and the sentences.

    Parameters
    ----------
    folder : Path
        Where everything goes.
    records : sequence of points
        Points of all curves.
    command : str
        Command that makes it again.
    config : mapping
        Settings, for the reports.
    """
    by_rounds = [p for p in records if p["panel"].startswith(ROUNDS)]
    by_labels = [p for p in records if not p["panel"].startswith(ROUNDS)]
    gaps = differences(by_labels)
    methods, rounds = compare_with_rivals(by_labels), rounds_table(by_rounds)
    texts = sentences(methods, gaps)
    rows = summarise(by_labels, metric="test_loss", x="labels", costs=("seconds",))
    excess = summarise(by_rounds, metric="excess", x="rounds", costs=())
    found: dict[str, Any] = {"command": command, "config": dict(config), "findings": texts}
    found |= {"methods": methods, "differences": gaps, "rounds": rounds}
    write_json(folder / "summary.json", found)
    page = markdown(methods, gaps, rounds, command, config["seeds"])
    atomic_write_text(folder / "report.md", page)
    if rows:
        save_figure(folder / "figure_labels", draw_ratios(by_labels))
    if excess:
        save_figures(folder, excess, metric="excess", x_axes=("rounds",), log_x=True, labels=WORDS)
    if rows:
        write_report(
            folder, title=TITLE, lead=texts, command=command, config=config, rows=rows, costs=gaps,
            notes=NOTES, metric="test_loss", x_axes=("labels", "seconds"), log_x=True,
            labels=WORDS, costs_heading="Paired differences",
            costs_caption="Ours minus each other method, seed by seed, with 95 % intervals.",
        )  # fmt: skip
    return gaps, texts


MEASURES = ("src/proxyprox/sklearn", "src/proxyprox/methods/quasi_newton.py")
TITLE = "Little of the right data, much of other data"


@guarded
def other_data(
    context: typer.Context,
    output: Output = None,
    seeds: Seeds = 5,
    cases: Annotated[
        str, typer.Option(help="Beginnings of names of cases, or none for all of them.")
    ] = "none",
    numbers: Annotated[
        str, typer.Option("--labels", help="Numbers of target labels, or none.")
    ] = "50,300",
    rounds: Annotated[bool, typer.Option(help="Count rounds of exact gradients, too.")] = True,
    no_download: NoDownload = False,
    workers: Workers = None,
    record: Record = False,
    as_json: Json = False,
) -> None:
    """Few target labels and much other data: synthetic, old, biased or other tasks' rows.

    Each case with the target alone, the proxy alone, fine-tuning, mixing and importance weighting,
    tuned alike; then rounds of exact gradients with old data as proxy. About ten minutes.

    Examples
    --------
    python -m experiments.other_data
    python -m experiments.other_data --cases "old labels,rare group" --seeds 3
    python -m experiments.other_data --labels none

    Ctrl-C keeps what is finished; the same command resumes.
    """
    config = Config(
        cases=listed(str, "names")(cases),
        labels=listed(int, "whole numbers")(numbers),
        rounds=rounds,
        seeds=seeds,
    )
    folder, command = output or Path("runs") / "other_data", command_line(context)
    with output_folder(folder, command):
        fetch(config, download=not no_download, progress=sys.stderr.isatty())
        experiment = Experiment(
            title=TITLE,
            config=config,
            curves=curves(config),
            run_job=run_job,
            seeds=seeds,
            tuning_budget=1,
            budget=max(config.labels, default=1),
            shown=asdict(config),
            metric="test_loss",
        )
        outcome = run_experiment(experiment, folder=folder, workers=workers, as_json=as_json)
        gaps, texts = write_results(folder, outcome.records, command, experiment.shown)
    if record:
        publish(folder, "other_data", measures=MEASURES)
    if as_json:
        emit({"folder": str(folder), "differences": gaps, "findings": texts})
        return
    print_differences(gaps)
    for text in texts:
        say(stdout(), text)
    say(stdout(), f"Report: {folder / 'report.md'}", style="bold")


if __name__ == "__main__":
    start(other_data)
