"""Calls of a fine model until its fit is good: ours, SciPy's, DFO-LS, COBYQA and methods by hand.

``python benchmarks/simulators.py --output docs/results/simulators --seeds 5``. The simulators of
:mod:`experiments.calibration` chose no constant. Every method is counted by one wrapper, which
raises after ``LIMIT`` calls. The least loss is the least that anyone found, the truth as start
included. Rivals of the coarse model's minimum are given it for nothing, as ours finds it itself.
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
LARGE = 3
MEASURES = ["src/proxyprox/methods/mapping.py", "src/proxyprox/problems/least_squares.py"]
LEVELS = (1e-2, 1e-4, 1e-6)
SCIPY = ("lm w0", "lm ĉ", "trf w0", "trf ĉ")

# Far behind wherever they were looked at: by --slow.
SLOW = ("consistent", "COBYQA ĉ", "ours, values", "BFGS w0", "BFGS ĉ")


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


def prototype(fine: Any, coarse: Any, w: Any) -> None:
    """Run manifold mapping as one writes it by hand: no scales, no bounds, no end of its own."""
    d, radius, dF, dC = len(w), 1.0, [], []
    r, c = fine(w), coarse(w)
    best = (float(r @ r), w, r, c)
    for _ in range(80):
        _, w, r, c = best
        F, C = np.array(dF).reshape(-1, len(r)).T, np.array(dC).reshape(-1, len(r)).T
        S = (F - C) @ np.linalg.pinv(C, rcond=1e-6)

        def model(x: Any, r: Any = r, c: Any = c, S: Any = S) -> Any:
            return r + (change := coarse(x) - c) + S @ change

        x = scipy.optimize.least_squares(model, w, bounds=(w - radius, w + radius), max_nfev=12).x
        new, new_c = fine(x), coarse(x)
        dF, dC = [*dF, new - r][-d:], [*dC, new_c - c][-d:]
        if new @ new < best[0]:
            best, radius = (float(new @ new), x, new, new_c), 1.5 * radius
        else:
            radius = max(radius / 3, 1e-7)


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
        "prototype": lambda f: prototype(f, fit.coarse, start),
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
    except ImportError:
        pass
    return found


def calls_to(losses: list[float], level: float) -> float:
    return next((n for n, loss in enumerate(losses, 1) if loss <= level), math.inf)


def measure(system: Any, seed: int, *, slow: bool) -> dict[str, Any]:
    """Return the calls of all methods on one fit."""
    fit, paths, ends = system.fit(seed), {}, {}
    for name, work in attempts(fit).items():
        if not slow and name in SLOW:
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


def text_of(calls: list[float]) -> str:
    if not calls:
        return ""
    middle = median(calls)
    return "–" if math.isinf(middle) else f"{middle:g}"


def report(rows: list[dict[str, Any]]) -> str:
    """Return the table: medians over the seeds, and the worst seed of ours."""
    names = [
        "ours",
        "prototype",
        "SciPy",
        "DFO-LS ĉ",
        "COBYQA ĉ",
        "consistent",
        "BFGS",
        "ours, values",
    ]
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
    parser.add_argument("--name", default="calls.json")
    parser.add_argument("--slow", action="store_true", help="methods of values alone, too")
    parser.add_argument("--only", nargs="*", default=None)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    given.output.mkdir(parents=True, exist_ok=True)
    rows = []
    systems = [*calibration.faithful(), *calibration.misleading(), calibration.chaotic()]
    chosen = [system for system in systems if not given.only or system.name in given.only]
    for seed in range(given.seeds):
        for system in chosen:
            # The two large ones are slow: fewer seeds.
            if len(system.truth) >= 20 and seed >= LARGE:
                continue
            rows.append(measure(system, seed, slow=given.slow))
            print(system.name, seed, rows[-1]["calls"], flush=True)
            write_record(given.output / given.name, rows, measures=MEASURES)
            (given.output / given.name).with_suffix(".md").write_text(
                HEAD + report(rows), encoding="utf-8"
            )


HEAD = """# Fits of simulators: calls of the fine model

`python benchmarks/simulators.py --output docs/results/simulators`: medians over the seeds. ĉ is the
coarse model's minimum, which costs no fine call. SciPy is the better one of `least_squares` (lm,
trf) from w0 and from ĉ, seed by seed; BFGS likewise. – is more than 200 calls. "consistent" is a
trust region on the coarse loss made right to first order by differences (AMMO, TRMM), by hand; the
prototype is thirty lines of manifold mapping from ĉ, which have no end of their own.
"""

if __name__ == "__main__":
    main()
