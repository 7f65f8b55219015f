"""The methods of the label experiment: ours, scikit-learn's, the paper's and ppi_py's."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import numpy as np
import scipy.special
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.semi_supervised import SelfTrainingClassifier

from proxyprox import SGD, Problem, ProxyProx, logistic_regression, minimize, softmax_regression
from proxyprox.sklearn import ProxyLogisticRegression

OURS = "ProxyLogisticRegression"
YARDSTICK = "LogisticRegressionCV"
BY_LOSS = "LogisticRegressionCV, by log-loss"
SELF = "SelfTrainingClassifier"
ONE_PASS_SGD = "SGD, one pass"
ONE_PASS = "ProxyProx, one pass"
OURS_TAUGHT = "ProxyLogisticRegression with teacher"
DISTILLED = "the teacher's answers alone"
PPI_TUNED = "ppi_py, tuned power"

ALONE = (
    (OURS, 3.0), (YARDSTICK, 1.0), (BY_LOSS, 1.0), (SELF, 1.0), (ONE_PASS_SGD, 0.5),
    (ONE_PASS, 4.0),
)  # fmt: skip
"""Methods without a teacher, with their rough cost."""

TAUGHT = ((OURS_TAUGHT, 6.0), (OURS, 3.0), (YARDSTICK, 1.0), (BY_LOSS, 1.0), (DISTILLED, 1.0))
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
    """Fit a method and return its test log-loss; NaN where it has no answer.

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
        # Yardsticks that stop at their iteration limit are scored as they are.
        warnings.simplefilter("ignore")
        probabilities = _fitted(method, drawn, seed)
    smallest = math.exp(-WORST)
    clipped = np.clip(probabilities, smallest, None)
    clipped = clipped / clipped.sum(axis=1, keepdims=True)
    codes = np.searchsorted(drawn.classes, drawn.y_test)
    return float(-np.mean(np.log(clipped[np.arange(len(codes)), codes])))


def _fitted(method: str, drawn: Any, seed: int) -> Array:
    X, y, X_test = drawn.X, drawn.y, drawn.X_test
    if method == OURS:
        model: Any = ProxyLogisticRegression(random_state=seed).fit(X, y, X_proxy=drawn.X_proxy)
    elif method == OURS_TAUGHT:
        model = ProxyLogisticRegression(random_state=seed)
        model.fit(X, y, X_proxy=drawn.X_proxy, y_proxy=drawn.answers)
    elif method in (YARDSTICK, BY_LOSS):
        scoring = "neg_log_loss" if method == BY_LOSS else None
        folds = min(5, int(np.min(np.unique(y, return_counts=True)[1])))
        model = LogisticRegressionCV(cv=folds, scoring=scoring, max_iter=1000).fit(X, y)
    elif method == SELF:
        model = SelfTrainingClassifier(LogisticRegression(max_iter=1000))
        model.fit(*_marked(drawn))
    elif method == DISTILLED:
        model = LogisticRegression(max_iter=1000)
        model.fit(drawn.X_proxy, drawn.answers[len(y) :])
    elif method == PPI_TUNED:
        return _ppi(drawn)
    else:
        return _one_pass(method, drawn, seed)
    return model.predict_proba(X_test)


def _marked(drawn: Any) -> tuple[Any, Array]:
    codes = np.searchsorted(drawn.classes, drawn.y)
    unknown = np.full(drawn.X_proxy.shape[0], -1)
    return _stacked(drawn.X, drawn.X_proxy), np.concatenate([codes, unknown])


def _stacked(*parts: Any) -> Any:
    if hasattr(parts[0], "tocsr"):
        import scipy.sparse

        return scipy.sparse.vstack(parts).tocsr()
    return np.vstack(parts)


def _ppi(drawn: Any) -> Array:
    """Return prediction-powered probabilities, or NaN where there is no unregularised estimate."""
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
    proxy = target.label_free(_stacked(drawn.X, drawn.X_proxy))
    n = len(drawn.y)
    cut = n - max(1, n // 5)
    first, held = np.arange(min(cut, TRIAL)), np.arange(cut, n)
    check = target.rows(held)

    def passed(eta: float, rows: Array) -> Array:
        loss = _OnePass(target.rows(rows), len(rows))
        rule: Any = SGD(eta) if method == ONE_PASS_SGD else ProxyProx(eta)
        problem = Problem(loss) if method == ONE_PASS_SGD else Problem(loss, proxy)
        steps = max(1, len(rows) // ONE_PASS_BATCH)
        return minimize(problem, method=rule, steps=steps, rng=seed).last

    unit = 1 / target.smoothness
    best = min(ETAS[method], key=lambda eta: _finite(check.value(passed(eta * unit, first))))
    w = passed(best * unit, np.arange(n)).reshape(target.design.width, -1)
    z = np.asarray(drawn.X_test @ w[:-1]) + w[-1]
    if z.shape[1] == 1:
        return np.hstack([scipy.special.expit(-z), scipy.special.expit(z)])
    return scipy.special.softmax(z, axis=1)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf
