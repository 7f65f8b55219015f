"""Calls of a fine model until its fit is good: ours, SciPy's, DFO-LS, BOBYQA and methods by hand.

``python -W ignore benchmarks/simulators.py`` writes docs/results/simulators/calls.json; with
``--slow`` values.json, of methods that see values alone or take long; with ``--noise`` noise.json,
of outputs with noise of 1 %. calls.md has the tables. The simulators of
:mod:`experiments.calibration` chose no constant, nor did these seeds. Every method is counted by
one wrapper, which raises after ``LIMIT`` calls. The least loss is the least that anyone found, the
truth as start included. Rivals of the coarse model's minimum are given it for nothing, as ours
finds it itself.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.optimize

import proxyprox as pp
from experiments import calibration
from experiments.records import kept, write_record

LIMIT = 200
# A process is fitted anew after each call, which becomes slow.
GP_LIMIT = 40
FIRST_SEED = 100
MEASURES = [
    "src/proxyprox/methods/mapping.py", "src/proxyprox/methods/values.py",
    "src/proxyprox/problems/least_squares.py",
]  # fmt: skip
LEVELS = (1e-2, 1e-4, 1e-6)
SCIPY = ("lm w0", "lm ĉ", "trf w0", "trf ĉ")

# Methods of values alone, and others that take long: by --slow.
SLOW = ("consistent", "COBYQA ĉ", "Py-BOBYQA ĉ", "GP", "ours, values", "BFGS w0", "BFGS ĉ")


class SpentError(RuntimeError):
    """The limit of calls is reached."""


class Counted:
    """The fine model, the loss of every call noted."""

    def __init__(self, fine: Callable[[Any], Any]) -> None:
        self.fine, self.losses = fine, []

    def __call__(self, w: Any) -> Any:
        if len(self.losses) >= LIMIT:
            raise SpentError
        with np.errstate(all="ignore"):
            r = self.fine(w)
            value = float(r @ r) / 2
        self.losses.append(value if math.isfinite(value) else math.inf)
        return r

    def value(self, w: Any) -> float:
        self(w)
        return min(self.losses[-1], 1e30)


def by_hand(fine: Any, coarse: Any, w: Any, rule: str) -> None:
    """Run a mapping as one writes it by hand: no scales, no bounds, no end of its own.

    ``rule`` says how coarse changes become fine ones: "mapping" by the last changes of both
    (manifold mapping), "broyden" by a matrix of the parameters that each step corrects, "output" as
    they are (output space mapping).
    """
    d, radius, dF, dC = len(w), 1.0, [], []
    r, c = fine(w), coarse(w)
    best, D = (float(r @ r), w, r, c), np.zeros((len(r), d))
    for _ in range(80):
        _, w, r, c = best
        F, C = np.array(dF).reshape(-1, len(r)).T, np.array(dC).reshape(-1, len(r)).T
        S = (
            (F - C) @ np.linalg.pinv(C, rcond=1e-6)
            if rule == "mapping"
            else np.zeros((len(r), len(r)))
        )

        def model(x: Any, w: Any = w, r: Any = r, c: Any = c, S: Any = S, D: Any = D) -> Any:
            return r + (change := coarse(x) - c) + S @ change + D @ (x - w)

        x = scipy.optimize.least_squares(model, w, bounds=(w - radius, w + radius), max_nfev=12).x
        new, new_c = fine(x), coarse(x)
        dF, dC = [*dF, new - r][-d:], [*dC, new_c - c][-d:]
        if rule == "broyden" and np.isfinite(new).all():
            D = D + np.outer(new - model(x), x - w) / max((x - w) @ (x - w), 1e-300)
        if new @ new < best[0]:
            best, radius = (float(new @ new), x, new, new_c), 1.5 * radius
        else:
            radius = max(radius / 3, 1e-7)


def gaussian_process(fine: Any, coarse: Any, start: Any, w0: Any) -> None:
    """Search by a Gaussian process for the logarithm of fine over coarse loss (multi-fidelity).

    Each call is made where the coarse loss times the process's lower bound is least, among points
    around the best ones.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    rng, d = np.random.default_rng(0), len(start)

    def rough(x: Any) -> float:
        with np.errstate(all="ignore"):
            return float(np.log(np.clip(np.sum(coarse(x) ** 2) / 2, 1e-12, 1e30)))

    points = [start, w0, *(start + 0.2 * rng.normal(size=(d, d)))]
    losses = [np.log(fine.value(x)) for x in points]
    kernel = ConstantKernel(1.0) * RBF(np.ones(d)) + WhiteKernel(1e-6, (1e-9, 1e-2))
    while len(points) < GP_LIMIT:
        ratio = np.array(losses) - [rough(x) for x in points]
        process = GaussianProcessRegressor(kernel, normalize_y=True).fit(np.array(points), ratio)
        best = points[int(np.argmin(losses))]
        sizes = 10.0 ** rng.uniform(-3, 0, (300, 1))
        tried = best + sizes * rng.normal(size=(300, d))
        mean, sd = process.predict(tried, return_std=True)
        bound = np.array([rough(x) for x in tried]) + mean - sd
        points.append(tried[int(np.argmin(bound))])
        losses.append(np.log(fine.value(points[-1])))


def first_order_consistent(fine: Any, coarse: Any, w: Any) -> None:
    """Run a trust region whose model is the coarse loss made right to first order (AMMO, TRMM)."""

    def slope(f: Any, x: Any, value: float) -> Any:
        h = 1.5e-8 * np.maximum(np.abs(x), 1.0)
        return np.array(
            [(f(x + step * e) - value) / step for step, e in zip(h, np.eye(len(x)), strict=True)]
        )

    def rough(x: Any) -> float:
        with np.errstate(all="ignore"):
            r = coarse(x)
            return min(float(np.nan_to_num(r @ r, nan=1e30)) / 2, 1e30)

    radius, value = 1.0, fine.value(w)
    for _ in range(60):
        linear = slope(fine.value, w, value) - slope(rough, w, rough(w))
        while True:
            here = rough(w)
            bounds = list(zip(w - radius, w + radius, strict=True))

            def model(x: Any, w: Any = w, linear: Any = linear) -> float:
                return rough(x) + float(linear @ (x - w))

            x = scipy.optimize.minimize(model, w, method="L-BFGS-B", bounds=bounds).x
            promise = here - rough(x) - linear @ (x - w)
            trial = fine.value(x)
            if value - trial > 0.1 * promise > 0:
                w, value, radius = x, trial, 2 * radius
                break
            radius /= 4
            if radius < 1e-9:
                return


def attempts(fit: Any) -> dict[str, Callable[[Counted], Any]]:
    """Return every method as a function of the counted fine model."""
    least_squares, minimize = scipy.optimize.least_squares, scipy.optimize.minimize
    try:
        start = least_squares(fit.coarse, fit.w0, max_nfev=60).x
    except ValueError:
        start = fit.w0
    found: dict[str, Any] = {
        "ours": lambda f: pp.minimize(
            pp.Problem(pp.LeastSquares(f), pp.LeastSquares(fit.coarse)), fit.w0
        ),
        "prototype": lambda f: by_hand(f, fit.coarse, start, "mapping"),
        "Broyden": lambda f: by_hand(f, fit.coarse, start, "broyden"),
        "output": lambda f: by_hand(f, fit.coarse, start, "output"),
        "GP": lambda f: gaussian_process(f, fit.coarse, start, fit.w0),
        "consistent": lambda f: first_order_consistent(f, fit.coarse, start),
        "COBYQA ĉ": lambda f: minimize(f.value, start, method="COBYQA", options={"maxfev": LIMIT}),
        "ours, values": lambda f: pp.minimize(
            pp.Problem(f.value, lambda w: 0.5 * float(np.sum(fit.coarse(w) ** 2))), fit.w0
        ),
    }
    for name, w in (("w0", fit.w0), ("ĉ", start)):
        for kind in ("lm", "trf"):
            found[f"{kind} {name}"] = lambda f, w=w, kind=kind: least_squares(f, w, method=kind)
        found[f"BFGS {name}"] = lambda f, w=w: minimize(f.value, w, method="BFGS")
    try:
        import dfols

        found["DFO-LS ĉ"] = lambda f: dfols.solve(f, start, maxfun=LIMIT, do_logging=False)
        import pybobyqa

        found["Py-BOBYQA ĉ"] = lambda f: pybobyqa.solve(f.value, start, maxfun=LIMIT)
    except ImportError:
        print("DFO-LS and Py-BOBYQA are left out: pip install DFO-LS Py-BOBYQA")
    return found


def calls_to(losses: list[float], level: float) -> float:
    return next((n for n, loss in enumerate(losses, 1) if loss <= level), math.inf)


def measure(system: Any, seed: int, *, slow: bool, parts: Path | None = None) -> dict[str, Any]:
    """Return the calls of all methods on one fit; what ``parts`` has of them is not run again."""
    fit, paths = system.fit(seed), {}
    ends: dict[str, Any] = {"seconds": {}}
    for name, work in attempts(fit).items():
        if (name in SLOW) is not slow and name not in ("ours", *SCIPY):
            continue
        if name == "GP" and len(fit.w0) > 6:
            continue
        known = kept(parts, f"{system.name} {seed} {name}", lambda work=work: _run(fit, work))
        paths[name], ends["seconds"][name] = known["path"], known["seconds"]
        if name == "ours" and known["status"]:
            ends["status"] = known["status"]
        if known["error"]:
            ends.setdefault("errors", {})[name] = known["error"]
    truth = scipy.optimize.least_squares(fit.fine, fit.truth, xtol=1e-12, ftol=1e-12, max_nfev=40)
    least = min(truth.cost, *(min(path, default=math.inf) for path in paths.values()))
    calls = {
        name: [calls_to(path, (1 + level) * least) for level in LEVELS]
        for name, path in paths.items()
    }
    return {
        "problem": system.name, "seed": seed, "d": len(fit.w0), "least": least, "calls": calls,
        "total": len(paths["ours"]), "path": [float(f"{x:.4g}") for x in paths["ours"]],
        "scipy_path": [float(f"{x:.4g}") for x in _best_path(paths, least)], **ends,
    }  # fmt: skip


def _run(fit: Any, work: Callable[[Counted], Any]) -> dict[str, Any]:
    """Return the losses of a method's calls, its seconds, and how it ended."""
    counted, begun, status, error = Counted(fit.fine), time.process_time(), "", ""
    try:
        status = getattr(getattr(work(counted), "status", None), "name", "")
    except (SpentError, pp.OracleError, ValueError, np.linalg.LinAlgError) as raised:
        error = type(raised).__name__
    seconds = round(time.process_time() - begun, 2)
    return {"path": counted.losses, "seconds": seconds, "status": status, "error": error}


def _best_path(paths: dict[str, list[float]], least: float) -> list[float]:
    return min((paths[name] for name in SCIPY), key=lambda p: calls_to(p, 1.01 * least))


class Noisy:
    """The fine residuals of a fit with noise in the model's outputs; exact losses of the best."""

    def __init__(self, system: Any, seed: int) -> None:
        self.fit, self.rng = system.fit(seed), np.random.default_rng([seed, 99])
        self.outputs = system.fine(system.truth)
        self.lowest, self.exact, self.path = math.inf, math.inf, list[float]()

    def __call__(self, w: Any) -> Any:
        if len(self.path) >= LIMIT:
            raise SpentError
        with np.errstate(all="ignore"):
            r = self.fit.fine(w)
            # Residuals are (outputs − data) / (σ√n), with a prior after them.
            slope = self.fit.slope[: len(self.outputs)]
            noisy = r.copy()
            outputs = self.fit.outputs(w)
            noisy[: len(outputs)] += slope * 0.01 * outputs * self.rng.normal(size=len(outputs))
            seen, exact = float(noisy @ noisy) / 2, float(r @ r) / 2
        if seen < self.lowest:
            self.lowest, self.exact = seen, exact
        self.path.append(self.exact)
        return noisy

    def value(self, w: Any) -> float:
        r = self(w)
        value = float(r @ r) / 2
        return value if math.isfinite(value) else 1e30


def measure_noisy(system: Any, seed: int) -> dict[str, Any]:
    """Return the loss at the end of ours, and the calls until it, of ours and of COBYQA."""
    fit = system.fit(seed)
    least = scipy.optimize.least_squares(fit.fine, fit.truth, max_nfev=40).cost
    try:
        start = scipy.optimize.least_squares(fit.coarse, fit.w0, max_nfev=60).x
    except ValueError:
        start = fit.w0
    ours = Noisy(system, seed)
    try:
        result = pp.minimize(pp.Problem(pp.LeastSquares(ours), pp.LeastSquares(fit.coarse)), fit.w0)
        end = float(np.sum(fit.fine(result.w) ** 2)) / 2
    except (SpentError, pp.OracleError):
        end = ours.path[-1]
    calls = {"ours": calls_to(ours.path, 1.001 * end), "total": len(ours.path)}
    for name, w in (("COBYQA w0", fit.w0), ("COBYQA ĉ", start)):
        rival = Noisy(system, seed)
        try:
            options = {"maxfev": LIMIT}
            scipy.optimize.minimize(rival.value, w, method="COBYQA", options=options)
        except SpentError:
            pass
        calls[name] = calls_to(rival.path, 1.001 * end)
        calls[f"{name}, end"] = rival.path[-1] / least
    return {"problem": system.name, "seed": seed, "end": end / least, **calls}


def noise_table(record: Path) -> str:
    """Return the table of fits with noise, a row for each simulator."""
    titles = ("problem", "ours: loss at the end / least", "calls until then", "in all",
              "COBYQA to it, better start", "COBYQA's loss after 200")  # fmt: skip
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for problem, some in _by_problem(record):
        rival = [min(_calls(row["COBYQA w0"]), _calls(row["COBYQA ĉ"])) for row in some]
        ends = median(min(row["COBYQA w0, end"], row["COBYQA ĉ, end"]) for row in some)
        own = sorted(row["end"] for row in some)
        until, total = ([_calls(row[key]) for row in some] for key in ("ours", "total"))
        cells = f"{median(own):.3f} (worst {own[-1]:.3g})", *map(text_of, (until, total, rival))
        lines.append(f"| {problem} | " + " | ".join(cells) + f" | {ends:.3f} |")
    return "\n".join(lines)


def _by_problem(record: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    rows = json.loads(record.read_text(encoding="utf-8"))
    names = dict.fromkeys(row["problem"] for row in rows)
    return [(name, [row for row in rows if row["problem"] == name]) for name in names]


def _calls(recorded: float | None) -> float:
    return math.inf if recorded is None else recorded


def text_of(calls: list[float]) -> str:
    if not calls:
        return ""
    middle = median(calls)
    return "–" if math.isinf(middle) else f"{middle:g}"


def to_1_percent(record: Path) -> str:
    """Return the calls to 1 % above the least loss: medians over the seeds, and one worst seed."""
    return _table(record, 0)


def to_1e4(record: Path) -> str:
    """Return the calls to 1e-4."""
    return _table(record, 1)


def to_1e6(record: Path) -> str:
    """Return the calls to 1e-6."""
    return _table(record, 2)


def _table(record: Path, level: int) -> str:
    groups: dict[str, tuple[str, ...]] = {
        name: (name,) for name in ("ours", "prototype", "Broyden", "output", "DFO-LS ĉ")
    }
    groups |= {"SciPy": SCIPY, "ours, values": ("ours, values",), "BFGS": ("BFGS w0", "BFGS ĉ")}
    groups |= {name: (name,) for name in ("COBYQA ĉ", "Py-BOBYQA ĉ", "consistent", "GP")}
    problems = _by_problem(record)
    run = problems[0][1][0]["calls"]
    groups = {name: group for name, group in groups.items() if group[0] in run}
    lines = ["| problem | d | " + " | ".join(groups) + " | worst seed: ours, SciPy |"]
    lines += ["|---" * (len(groups) + 3) + "|"]
    for problem, rows in problems:
        least = {
            name: [
                min(_calls(row["calls"][one][level]) for one in group)
                for row in rows
                if group[0] in row["calls"]
            ]
            for name, group in groups.items()
        }
        pairs = zip(least["ours"], least["SciPy"], strict=True)
        worst = max(pairs, key=lambda p: (p[0] / p[1] if math.isfinite(p[1]) else 0, p[0]))
        cells = [text_of(calls) for calls in least.values()]
        cells.append(", ".join(text_of([calls]) for calls in worst))
        lines.append(f"| {problem} | {rows[0]['d']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def good_fits(record: Path) -> str:
    """Return how many fits were within 1e-4 of the least loss in twenty calls."""
    problems = _by_problem(record)
    good = [median(_calls(row["calls"]["ours"][1]) for row in rows) <= 20 for _, rows in problems]
    return f"{sum(good)} of {len(good)}"


def misled(record: Path) -> str:
    """Return the calls to 1 % if the coarse model misleads, and if the system is chaotic."""
    hard = {system.name for system in (*calibration.misleading(), calibration.chaotic())}
    cells = []
    for problem, rows in _by_problem(record):
        if problem in hard:
            ours = text_of([_calls(row["calls"]["ours"][0]) for row in rows])
            rival = [min(_calls(row["calls"][name][0]) for name in SCIPY) for row in rows]
            cells.append(f"{problem}: {ours} ({text_of(rival)})")
    return "; ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/results/simulators"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--slow", action="store_true", help="methods of values alone")
    parser.add_argument("--noise", action="store_true", help="outputs with noise of 1 %%")
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--parts", type=Path, help="a folder of what is not run again")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    given.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    systems = [*calibration.faithful(), *calibration.misleading(), calibration.chaotic()]
    if given.noise:
        systems = [system for system in calibration.faithful() if len(system.truth) <= 6]
    name = "noise" if given.noise else "values" if given.slow else "calls"
    for system in systems:
        if given.only and system.name not in given.only:
            continue
        if given.slow and len(system.truth) > 6:
            continue
        for seed in range(FIRST_SEED, FIRST_SEED + given.seeds):
            measured = (
                measure_noisy(system, seed)
                if given.noise
                else measure(system, seed, slow=given.slow, parts=given.parts)
            )
            rows.append(measured)
            print(system.name, seed, measured.get("calls", measured), flush=True)
        write_record(given.output / f"{name}.json", rows, measures=MEASURES)


if __name__ == "__main__":
    main()
