"""Calls of a fine model until its fit is good: ours, SciPy's, DFO-LS, BOBYQA and methods by hand.

``python benchmarks/simulators.py --output docs/results/simulators``; ``--slow`` for methods that
see values alone, ``--noise`` for outputs with noise of 1 %. The simulators of
:mod:`experiments.calibration` chose no constant, nor did these seeds. Every method is counted by
one wrapper, which raises after ``LIMIT`` calls. The least loss is the least that anyone found, the
truth as start included. Rivals of the coarse model's minimum are given it for nothing, as ours
finds it itself.
"""

from __future__ import annotations

import argparse
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
from experiments.records import write_record

LIMIT = 200
FIRST_SEED = 100
MEASURES = ["src/proxyprox/methods/mapping.py", "src/proxyprox/problems/least_squares.py"]
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
    while True:
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


def measure(system: Any, seed: int, *, slow: bool) -> dict[str, Any]:
    """Return the calls of all methods on one fit."""
    fit, paths, ends = system.fit(seed), {}, {}
    for name, work in attempts(fit).items():
        if (name in SLOW) is not slow and name not in ("ours", *SCIPY):
            continue
        if name == "GP" and len(fit.w0) > 6:
            continue
        counted, begun = Counted(fit.fine), time.process_time()
        try:
            result = work(counted)
            if name == "ours":
                ends["status"] = result.status.name
        except (SpentError, pp.OracleError, ValueError, np.linalg.LinAlgError) as error:
            ends.setdefault("errors", {})[name] = type(error).__name__
        paths[name] = counted.losses
        ends.setdefault("seconds", {})[name] = round(time.process_time() - begun, 2)
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


def report_noisy(rows: list[dict[str, Any]]) -> str:
    """Return the table of fits with noise, a row for each simulator."""
    titles = ("problem", "ours: loss at the end / least", "calls until then", "in all",
              "COBYQA to it, better start", "COBYQA's loss after 200")  # fmt: skip
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for problem in dict.fromkeys(row["problem"] for row in rows):
        some = [row for row in rows if row["problem"] == problem]
        rival = [min(row["COBYQA w0"], row["COBYQA ĉ"]) for row in some]
        ends = [min(row["COBYQA w0, end"], row["COBYQA ĉ, end"]) for row in some]
        ends, own = sorted(ends), sorted(row["end"] for row in some)
        until, total = ([row[key] for row in some] for key in ("ours", "total"))
        cells = f"{median(own):.3f} (worst {own[-1]:.3g})", *map(text_of, (until, total, rival))
        lines.append(f"| {problem} | " + " | ".join(cells) + f" | {median(ends):.3f} |")
    return "\n".join(lines) + "\n"


def text_of(calls: list[float]) -> str:
    if not calls:
        return ""
    middle = median(calls)
    return "–" if math.isinf(middle) else f"{middle:g}"


def report(rows: list[dict[str, Any]]) -> str:
    """Return the table: medians over the seeds, and the worst seed of ours."""
    names = ["ours", "prototype", "Broyden", "output", "SciPy", "DFO-LS ĉ", "ours, values", "BFGS"]
    names += ["COBYQA ĉ", "Py-BOBYQA ĉ", "consistent", "GP"]
    # A column for each method that was run.
    run = {*rows[0]["calls"], "SciPy", *(["BFGS"] if "BFGS w0" in rows[0]["calls"] else [])}
    names = [name for name in names if name in run]
    lines = []
    for level, title in enumerate(("1 %", "1e-4", "1e-6")):
        lines += [f"\n## Fine calls to {title} above the least loss\n"]
        lines += ["| problem | d | " + " | ".join(names) + " | worst seed: ours, SciPy |"]
        lines += ["|---" * (len(names) + 3) + "|"]
        for problem in dict.fromkeys(row["problem"] for row in rows):
            some = [row for row in rows if row["problem"] == problem]
            cells = []
            for name in names:
                each = []
                for row in some:
                    calls = row["calls"]
                    group = SCIPY if name == "SciPy" else (name,)
                    group = ("BFGS w0", "BFGS ĉ") if name == "BFGS" else group
                    if any(k in calls for k in group):
                        each.append(min(calls[k][level] for k in group if k in calls))
                cells.append(text_of(each))
            pairs = [
                (row["calls"]["ours"][level], min(row["calls"][k][level] for k in SCIPY))
                for row in some
            ]
            worst = max(pairs, key=lambda p: (p[0] / p[1] if math.isfinite(p[1]) else 0, p[0]))
            cells.append("{:g}, {:g}".format(*worst).replace("inf", "–"))
            lines.append(f"| {problem} | {some[0]['d']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--slow", action="store_true", help="methods of values alone")
    parser.add_argument("--noise", action="store_true", help="outputs with noise of 1 %%")
    parser.add_argument("--only", nargs="*", default=None)
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
                else measure(system, seed, slow=given.slow)
            )
            rows.append(measured)
            print(system.name, seed, measured.get("calls", measured), flush=True)
        write_record(given.output / f"{name}.json", rows, measures=MEASURES)
        text = NOISY + report_noisy(rows) if given.noise else HEAD + report(rows)
        (given.output / f"{name}.md").write_text(text, encoding="utf-8")


NOISY = """# Fits of simulators whose outputs have noise of 1 %

`python benchmarks/simulators.py --output docs/results/simulators --noise`: exact losses of the
point that a method holds for its best, over the least one; calls until the loss at the end of ours
is reached. – is more than 200 calls. Medians over the seeds, and the worst one.

"""

HEAD = """# Fits of simulators: calls of the fine model

`python benchmarks/simulators.py --output docs/results/simulators` (with `--slow` for methods that
see values alone): medians over the seeds. ĉ is the coarse model's minimum, which costs no fine
call. SciPy is the better one of `least_squares` (lm, trf) from w0 and from ĉ, seed by seed; BFGS
likewise. – is more than 200 calls. By hand: "prototype" is manifold mapping from ĉ, "Broyden" and
"output" the same steps with other mappings, none with an end of its own; "consistent" is a trust
region on the coarse loss made right to first order by differences (AMMO, TRMM); "GP" a Gaussian
process for the ratio of both losses.
"""

if __name__ == "__main__":
    main()
