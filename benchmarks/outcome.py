"""What a run says of its own end, against the true loss: false alarms and missed divergences.

Run ``python benchmarks/outcome.py [--cases 1500] [--seed 0] [--output RECORD]``. Random losses,
proxies, methods, step sizes (a third of them too large), batches and lengths; each is run with the
loss's values and without. A run "fell" if its answer's true loss is not above that of its start,
"rose" if it is,
"diverged" if it is above by more than ten times what there was to gain. Runs that fell must be
successes; of the others, those with values must not be, and of the diverged ones without values
all but a few. ``tests/test_outcome.py`` runs a sample of them.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import proxyprox as pp
from experiments.records import write_record

ETAS = (0.01, 0.1, 1.0, "auto", "auto", 10.0, 1000.0)
"""Step sizes, in units of one over the target's curvature at the start."""


@dataclass
class Loss:
    """A target, its proxy, a start, and what there is to gain from there."""

    kind: str
    target: Any
    proxy: Any
    w0: Any
    curvature: float
    exact_only: bool = False
    penalty: Any = None
    mu: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)


def spectrum(rng: np.random.Generator, d: int) -> np.ndarray:
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (basis * np.geomspace(1, 10.0 ** rng.uniform(0, 4), d)) @ basis.T


def quadratic(rng: np.random.Generator) -> Loss:
    d = int(rng.integers(2, 12))
    A = spectrum(rng, d)
    error = rng.normal(size=(d, d))
    proxy = A * rng.choice([0.3, 1.0, 3.0]) + 0.05 * (error + error.T)
    proxy += max(0.0, 1e-3 - np.linalg.eigvalsh(proxy)[0]) * np.eye(d)
    noise = float(rng.choice([0.0, 0.0, 0.1, 3.0]))
    target = pp.Quadratic(A, b=rng.normal(size=d), noise=noise)
    start = rng.normal(size=d) * 10.0 ** rng.uniform(-1, 2)
    if rng.random() < 0.1 and not noise:
        start = -np.linalg.solve(A, target.b)
    if rng.random() < 0.2:
        A, proxy, start, b = (part.astype(np.float32) for part in (A, proxy, start, target.b))
        target = pp.Quadratic(A, b=b, noise=noise)
    mu = float(np.linalg.eigvalsh(A)[0])
    return Loss("quadratic", target, pp.Quadratic(proxy), start, float(np.linalg.norm(A, 2)), mu=mu)


def rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n, d = int(rng.integers(50, 200)), int(rng.integers(2, 15))
    X = rng.normal(size=(n, d)) if rng.random() < 0.6 else 0.5 * rng.standard_t(4, size=(n, d))
    if rng.random() < 0.3:
        X = X * np.geomspace(1, 0.03, d)
    return X, X @ rng.normal(size=d) / math.sqrt(d) * 10.0 ** rng.uniform(-0.5, 0.8)


def glm(rng: np.random.Generator) -> Loss:
    X, score = rows(rng)
    n = len(X)
    name = str(rng.choice(["linear", "logistic", "poisson", "softmax"]))
    batch = [None, 1, 2, 4, 16, 64][int(rng.integers(6))]
    l2 = float(rng.choice([0.0, 1e-4, 1e-2]))
    family = getattr(pp, f"{name}_regression")
    if name == "linear":
        y: Any = score + rng.normal(size=n) * 10.0 ** rng.uniform(-2, 1)
    elif name == "logistic":
        y = (score + rng.logistic(size=n) * rng.choice([0.0, 1.0]) > 0).astype(int)
        y[:2] = 0, 1
    elif name == "poisson":
        X = X * 0.6
        y = rng.poisson(np.exp(np.clip(0.6 * score, -5, 4)))
    else:
        y = (np.digitize(score + rng.normal(size=n), [-0.5, 0.5])).astype(int)
        y[:3] = 0, 1, 2
    target = family(X, y, l2=l2, batch_size=batch)
    draw = int(rng.integers(3))
    if draw == 0:
        proxy = target.label_free()
    else:
        kept = rng.permutation(n)[: max(8, n // (5 if draw == 1 else 20))]
        if name in ("logistic", "softmax"):
            kept = np.unique(np.r_[0, 1, 2, kept])
        proxy = family(X[kept], y[kept], l2=max(l2, 1e-3))
    w0 = target.zeros()
    if rng.random() < 0.3:
        w0 = w0 + rng.normal(size=w0.shape) * 10.0 ** rng.uniform(-1, 0.5) / math.sqrt(len(w0))
    penalty = pp.L1(float(rng.choice([1e-3, 0.03]))) if rng.random() < 0.15 else None
    return Loss(name, target, proxy, w0, _curvature(target, w0), penalty=penalty, mu=l2)


def _curvature(target: Any, w: np.ndarray) -> float:
    v = np.random.default_rng(0).normal(size=w.shape)
    for _ in range(50):
        u = target.hvp(w, v)
        size = float(np.linalg.norm(u))
        v = u / max(size, 1e-300)
    return max(size, 1e-12)


def rosenbrock(rng: np.random.Generator) -> Loss:
    def value(w: Any) -> float:
        return float(100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2)

    def slope(w: Any) -> Any:
        inner = w[1] - w[0] ** 2
        return np.array([-400 * w[0] * inner - 2 * (1 - w[0]), 200 * inner])

    start = np.array([-1.2, 1.0]) + rng.normal(size=2) * 0.3
    target = pp.FunctionObjective(slope, value=value)
    return Loss("rosenbrock", target, pp.Quadratic(np.eye(2)), start, 1000.0, exact_only=True)


def network(rng: np.random.Generator) -> Loss:
    """Two layers, started near the saddle at zero: gradients grow at first in a healthy run."""
    n, d, h = 80, 4, 3
    X = rng.normal(size=(n, d))
    y = np.tanh(X @ rng.normal(size=(d, h))) @ rng.normal(size=h)

    def value(w: Any) -> float:
        error = np.tanh(X @ w[: d * h].reshape(d, h)) @ w[d * h :] - y
        return float(error @ error / 2 / n)

    def slope(w: Any, batch: Any) -> Any:
        at = slice(None) if batch is None else batch
        W, v = w[: d * h].reshape(d, h), w[d * h :]
        hidden = np.tanh(X[at] @ W)
        error = (hidden @ v - y[at]) / len(hidden)
        inner = (error[:, None] * v) * (1 - hidden**2)
        return np.concatenate([(X[at].T @ inner).ravel(), hidden.T @ error])

    batch = [None, 1, 8, 32][int(rng.integers(4))]
    sample = None if batch is None else (lambda rng: rng.integers(n, size=batch))
    gradient = (lambda w: slope(w, None)) if sample is None else slope
    target = pp.FunctionObjective(gradient, value=value, sample=sample)
    start = rng.normal(size=d * h + h) * 10.0 ** rng.uniform(-3, 0)
    weight = float(10.0 ** rng.uniform(-3, 0))
    proxy = pp.Quadratic(weight * np.eye(d * h + h))
    return Loss("network", target, proxy, start, 3.0, exact_only=batch is None)


def kinks(rng: np.random.Generator) -> Loss:
    """Absolute deviations or hinges: gradients of one size wherever one is."""
    X, score = rows(rng)
    n, d = X.shape
    y = score + rng.normal(size=n)
    hinge = rng.random() < 0.5

    def value(w: Any) -> float:
        loss = np.maximum(0, 1 - np.sign(y) * (X @ w)) if hinge else np.abs(X @ w - y)
        return float(loss.mean())

    def slope(w: Any, at: Any) -> Any:
        z = X[at] @ w
        weight = -np.sign(y[at]) * (np.sign(y[at]) * z < 1) if hinge else np.sign(z - y[at])
        return X[at].T @ weight / len(z)

    batch = [None, 1, 16][int(rng.integers(3))]
    sample = None if batch is None else (lambda rng: rng.integers(n, size=batch))
    gradient = (lambda w: slope(w, slice(None))) if sample is None else slope
    target = pp.FunctionObjective(gradient, value=value, sample=sample)
    proxy = pp.Quadratic(0.3 * X.T @ X / n + 1e-3 * np.eye(d))
    curvature = float(np.linalg.norm(X, 2) ** 2 / n)
    return Loss("kinks", target, proxy, rng.normal(size=d), curvature, exact_only=batch is None)


def quartic(rng: np.random.Generator) -> Loss:
    d = int(rng.integers(1, 8))
    c = rng.normal(size=d)
    target = pp.FunctionObjective(
        lambda w: (w - c) ** 3 + 0.1 * (w - c), value=lambda w: float(((w - c) ** 4 / 4).sum()
                                                                      + 0.05 * ((w - c) ** 2).sum())
    )  # fmt: skip
    start = c + rng.normal(size=d) * 10.0 ** rng.uniform(-0.5, 0.7)
    curvature = 0.1 + 3 * float(((start - c) ** 2).max())
    proxy = pp.Quadratic(float(rng.choice([0.1, 1.0])) * np.eye(d))
    return Loss("quartic", target, proxy, start, curvature, exact_only=True)


KINDS = (quadratic, quadratic, glm, glm, glm, glm, rosenbrock, network, kinks, quartic)


def method_of(rng: np.random.Generator, loss: Loss) -> tuple[str, Any]:
    eta: Any = ETAS[int(rng.integers(len(ETAS)))]
    if eta != "auto":
        eta = float(eta / loss.curvature)
        if rng.random() < 0.2:
            top = eta
            eta = lambda k: top / math.sqrt(k + 1)  # noqa: E731
    convex = loss.kind not in ("network", "rosenbrock")
    draw = int(rng.integers(12))
    if draw == 0:
        return "SGD", pp.SGD(eta)
    if draw in (1, 3):
        return "EMA", pp.ProxyProx(eta, pp.corrections.EMA(0.3))
    if draw in (2, 4):
        return "Storm", pp.ProxyProx(eta, pp.corrections.Storm(0.3))
    if draw == 5:
        return "Mean", pp.ProxyProx(eta, pp.corrections.Mean())
    if draw in (6, 7) and convex:
        return "DANE", pp.DANE(eta) if rng.random() < 0.7 else pp.DANE()
    return "ProxyProx", pp.ProxyProx(eta)


def blind(target: Any) -> Any:
    """Return the same target without its values."""
    if isinstance(target, pp.FunctionObjective):
        if target.sample(np.random.default_rng(0)) is None:
            return pp.FunctionObjective(lambda w: target.gradient(w, None))
        return pp.FunctionObjective(target.gradient, sample=target.sample)
    if target.sample(np.random.default_rng(0)) is None:
        return pp.FunctionObjective(lambda w: target.gradient(w, None))
    everything = target.everything
    return pp.FunctionObjective(target.gradient, sample=target.sample, everything=everything)


@dataclass
class Case:
    """One random run: its result, and the true loss at its start and its answer."""

    seed: int
    label: str
    truth: str
    first: float
    last: float
    sampled: bool
    result: pp.Result


def cases(seed: int) -> dict[str, Case]:
    """Return a random run with values and without, or nothing if it cannot be set up."""
    rng = np.random.default_rng(seed)
    loss = KINDS[int(rng.integers(len(KINDS)))](rng)
    name, method = method_of(rng, loss)
    if method.exact and not loss.exact_only and isinstance(loss.target, pp.FunctionObjective):
        return {}
    steps = int(rng.choice([1, 2, 3, 5, 10, 20, 40, 100]))
    call: dict[str, Any] = {"method": method, "steps": steps, "rng": seed, "w0": loss.w0}
    if rng.random() < 0.15:
        call["averaging"] = pp.averaging.Uniform()
    if rng.random() < 0.06 and not method.exact:
        call["safeguard"] = True
    if rng.random() < 0.1:
        call["callback"] = lambda step: step.record.k >= steps // 2
    if name.startswith("Aux") and math.isinf(method.step_size.eta(None, 0)):
        return {}
    label = f"{loss.kind} {name} {getattr(method, 'eta', None)} steps {steps}"
    full = pp.Problem(loss.target, loss.proxy, loss.penalty)
    sampled = not method.exact and loss.target.sample(np.random.default_rng(0)) is not None
    found = {}
    for how, target in (("values", loss.target), ("no values", blind(loss.target))):
        problem = pp.Problem(target, loss.proxy, loss.penalty)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = pp.minimize(problem, **call)
                # An answer above its start was exchanged for the start.
                rose = result.values is not None and not result.success
                reached = result.last if rose else result.w
                first, last = (float(full.value(w)) for w in (loss.w0, reached))
        except (pp.OracleError, ValueError, TypeError, ArithmeticError):
            return {}
        found[how] = Case(seed, label, _truth(first, last, loss), first, last, sampled, result)
    return found


def _truth(first: float, last: float, loss: Loss) -> str:
    if not math.isfinite(last):
        return "diverged"
    rounding = 1e-9 if loss.w0.dtype == np.float64 else 1e-5
    if last <= first + rounding * max(abs(first), abs(last)) + 1e-12:
        return "fell"
    lowest = min(first, _reference(loss, first))
    gain = max(first - lowest, 1e-3 * abs(first), 1e-12)
    if not last - first <= 10 * gain:
        return "diverged"
    return "rose"


def _reference(loss: Loss, first: float) -> float:
    """Return a low value of the loss, for how much there was to gain."""
    import scipy.optimize

    full = pp.Problem(loss.target, loss.proxy, loss.penalty)

    def gradient(w: Any) -> Any:
        if loss.exact_only:
            return loss.target.gradient(w, None)
        if hasattr(loss.target, "everything") and loss.target.everything is not None:
            return loss.target.gradient(w, loss.target.everything())
        return None

    with np.errstate(all="ignore"):
        if gradient(loss.w0) is None:
            return 0.0
        found = scipy.optimize.minimize(full.value, loss.w0, jac=gradient, method="L-BFGS-B")
    return float(found.fun) if math.isfinite(found.fun) else first


def outcome_table(file: Path) -> str:
    """Return how many runs of each kind were not called a success, with values and without."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for line in json.loads(file.read_text(encoding="utf-8")):
        values, gradients = line["run"].rsplit(", ", 1)
        counts = found.setdefault((line["truth"], gradients), Counter())
        counts[values] += line["runs"]
        counts[f"{values}, no success"] += line["runs"] * (not line["success"])
    rows = [
        "| the true loss | gradients | no success, with values | without |",
        "|---|---|---|---|",
    ]
    for (truth, gradients), n in found.items():
        shares = [f"{n[f'{v}, no success']} of {n[v]}" for v in ("values", "no values")]
        rows.append(f"| {truth} | {gradients} | {' | '.join(shares)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--output", type=Path, help="Where to keep the record.")
    given = parser.parse_args()
    counts: Counter[tuple[str, str, str]] = Counter()
    for seed in range(given.seed, given.seed + given.cases):
        for how, found in cases(seed).items():
            kind = f"{how}, {'sampled' if found.sampled else 'exact'}"
            length = "under 4 steps" if found.result.steps < 4 else ""
            truth = f"{found.truth} {length}".strip() if found.truth != "fell" else found.truth
            counts[truth, kind, found.result.status.name] += 1
            wrong = found.result.success != (found.truth == "fell")
            if wrong and (given.show or found.truth == "fell" or how == "values"):
                print(
                    f"{found.seed} {found.label}: {found.truth} "
                    f"({found.first:.4g} -> {found.last:.4g}), {kind}: {found.result.message}"
                )
    if given.output is not None:
        lines = [
            {"truth": truth, "run": kind, "status": status, "runs": runs,
             "success": pp.Status[status].success}
            for (truth, kind, status), runs in sorted(counts.items())
        ]  # fmt: skip
        write_record(given.output, lines, measures=["src/proxyprox/advice/outcome.py"])
    print(f"{'the true loss':24}{'the run had':20}{'runs':>6}{'not a success':>15}  said")
    for truth in sorted({truth for truth, _, _ in counts}):
        for kind in sorted({kind for _, kind, _ in counts}):
            said = {s: c for (t, k, s), c in counts.items() if (t, k) == (truth, kind)}
            if said:
                bad = sum(c for s, c in said.items() if not pp.Status[s].success)
                words = ", ".join(f"{s} {c}" for s, c in sorted(said.items()))
                print(f"{truth:24}{kind:20}{sum(said.values()):6}{bad:15}  {words}")


if __name__ == "__main__":
    main()
