"""Do two versions of the library run alike, bit for bit?

    python benchmarks/same_bits.py                  # this tree against the reference commit
    python benchmarks/same_bits.py --against HEAD   # this tree against another commit
    python benchmarks/same_bits.py --only torch     # the configurations whose name has this word

Every configuration runs twice on this machine, once with the code of the other commit, and the
answer, the trace, the ledger (all but seconds) and the status are compared. Two BLAS builds differ
in the last bit, so nothing is stored: both versions run each time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HOME = Path(__file__).resolve().parent.parent
# The tree before the sizes of all parts were cut.
REFERENCE = "7026e823"
# Times differ from run to run.
TIMES = ("seconds", "target_seconds", "proxy_seconds")

CASES: dict[str, Callable[[], Any]] = {}


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def add(function: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CASES, name
        CASES[name] = function
        return function

    return add


# -- problems -------------------------------------------------------------------------------------


def table(n: int = 300, d: int = 8, dtype: str = "float64") -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d)) * np.geomspace(1, 0.1, d)
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ rng.normal(size=d) * 3))).astype(float)
    return X.astype(dtype), y


def sampled(dtype: str = "float64", batch_size: int = 16, **options: Any) -> Any:
    import proxyprox as pp

    target = pp.logistic_regression(*table(dtype=dtype), l2=1e-3, batch_size=batch_size)
    return pp.Problem(target, target.label_free(), **options)


def exact(share: int = 60, dtype: str = "float64", **options: Any) -> Any:
    import proxyprox as pp

    target = pp.logistic_regression(*table(dtype=dtype), l2=1e-3)
    return pp.Problem(target, target.subsample(share, rng=0), **options)


def quadratic(torch: bool = False, noise: float = 0.0) -> Any:
    import proxyprox as pp

    rng = np.random.default_rng(7)
    basis, tilt = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
    P = basis @ np.diag(np.linspace(1.0, 4.0, 4)) @ basis.T
    Q = P + tilt @ np.diag(0.2 * rng.choice([-1.0, 1.0], size=4)) @ tilt.T
    arrays = [(P + P.T) / 2, (Q + Q.T) / 2, *rng.normal(size=(2, 4))]
    if torch:
        import torch as library

        arrays = [library.tensor(array) for array in arrays]
    P, Q, b, c = arrays
    return pp.Problem(pp.Quadratic(P, b=b, noise=noise), pp.Quadratic(Q, b=c))


def rosenbrock(shift: float) -> tuple[Callable[..., float], Callable[..., Any]]:
    def value(w: Any) -> float:
        return float((1 - w[0]) ** 2 + 5 * (w[1] - shift * w[0] ** 2) ** 2)

    def gradient(w: Any) -> Any:
        away = w[1] - shift * w[0] ** 2
        return np.array([-2 * (1 - w[0]) - 20 * shift * w[0] * away, 10 * away])

    return value, gradient


# -- ways to run ----------------------------------------------------------------------------------


def run(problem: Any, *arguments: Any, **options: Any) -> Any:
    import proxyprox as pp

    options.setdefault("rng", 0)
    return pp.minimize(problem, *arguments, **options)


def resumed(
    problem: Callable[[], Any], *arguments: Any, steps: int = 14, first: int = 6, **options: Any
) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run"
        run(problem(), *arguments, steps=first, checkpoint=path, **options)
        return run(problem(), *arguments, steps=steps, checkpoint=path, **options)


def told_by_hand(problem: Any, steps: int, *, saved: bool = False, **options: Any) -> Any:
    """Answer a run's questions, its half batches too; ``saved`` reloads it before each answer."""
    import proxyprox as pp

    objective, driven = problem.objective, pp.Run(problem, rng=0, **options)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(steps):
            query = driven.ask()
            if saved:
                driven.save(f"{folder}/run")
                driven = pp.Run(problem, rng=0, **options)
                pp.checkpoint.resume(f"{folder}/run", driven)
                query = driven.ask()
            halves = None
            gradients = [objective.gradient(w, query.batch) for w in query.points]
            if query.halves is not None:
                halves = [
                    tuple(objective.gradient(w, half) for half in query.halves)
                    for w in query.points
                ]
                gradients = [(one + other) / 2 for one, other in halves]
            value = objective.value(query.points[0]) if query.value else None
            driven.tell(gradients, halves=halves, value=value)
    return driven.result(pp.Status.STEPS_DONE)


def by_name(*names: str) -> Any:
    """Return the first of some names that the library has, wherever it keeps it."""
    import importlib

    for module in ("proxyprox", "proxyprox.methods", "proxyprox.inner", "proxyprox.problems",
                   "proxyprox.stopping", "proxyprox.averaging", "proxyprox.corrections",
                   "proxyprox.penalties", "proxyprox.stepsizes"):  # fmt: skip
        for name in names:
            with contextlib.suppress(ImportError, AttributeError):
                return getattr(importlib.import_module(module), name)
    raise LookupError(f"this version has none of {', '.join(names)}")


# -- configurations -------------------------------------------------------------------------------

SAMPLED = {
    "ProxyProx": ("ProxyProx", {"eta": 2.0}),
    "ProxyProx EMA": ("ProxyProx", {"eta": 2.0, "correction": ("EMA", 0.3)}),
    "ProxyProx Mean": ("ProxyProx", {"eta": 0.5, "correction": ("Mean",)}),
    "ProxyProx Storm": ("ProxyProx", {"eta": 2.0, "correction": ("Storm", 0.3)}),
    "ProxyProx auto": ("ProxyProx", {"eta": "auto"}),
    "ProxyProx EMA auto": ("ProxyProx", {"eta": "auto", "correction": ("EMA", 0.3)}),
    "SGD": ("SGD", {"eta": 0.5}),
    "SGD auto": ("SGD", {"eta": "auto"}),
    "Adam": ("Adam", {"eta": 0.05}),
}
EXACT = {
    "default": (None, {}),
    "DANE": ("DANE", {"eta": 4.0}),
    "DANE auto": ("DANE", {"eta": "auto"}),
    "ProxyBFGS": ("ProxyBFGS", {}),
    "ProxyProx": ("ProxyProx", {"eta": 4.0}),
}
SOLVERS = {
    "GradientDescent": {}, "LBFGS": {}, "Newton": {}, "NewtonCG": {},
    "ProximalGradient": {}, "QuasiNewton": {},
}  # fmt: skip


def method(entry: tuple[str | None, dict[str, Any]]) -> Any:
    name, settings = entry
    made = {
        key: by_name(value[0])(*value[1:]) if isinstance(value, tuple) else value
        for key, value in settings.items()
    }
    return None if name is None else by_name(name)(**made)


def product() -> None:
    for name, entry in SAMPLED.items():
        case(f"sampled, {name}")(lambda e=entry: run(sampled(), method=method(e), steps=25))
    for name, entry in EXACT.items():
        limits = {} if entry[0] in (None, "ProxyBFGS") else {"steps": 12}
        case(f"exact, {name}")(lambda e=entry, s=limits: run(exact(), method=method(e), **s))
        case(f"exact, {name}, quadratic")(
            lambda e=entry, s=limits: run(quadratic(), method=method(e), **s)
        )
    for name, options in SOLVERS.items():
        case(f"solver {name}")(
            lambda n=name, o=options: run(
                sampled(), method=by_name("ProxyProx")(2.0), inner=by_name(n)(**o), steps=8,
            )
        )  # fmt: skip
    for name in ("ProxyProx", "ProxyProx auto", "SGD auto", "ProxyProx Storm"):
        case(f"resumed, {name}")(lambda n=name: resumed(sampled, method=method(SAMPLED[n])))
    for name in ("ProxyProx", "ProxyProx auto", "ProxyProx Storm"):
        case(f"told by hand, {name}")(
            lambda n=name: told_by_hand(sampled(), 12, method=method(SAMPLED[n]))
        )
    for name in ("ProxyProx", "ProxyProx auto", "SGD auto"):
        case(f"torch, {name}")(
            lambda n=name: run(
                quadratic(torch=True, noise=0.1), method=method(SAMPLED[n]), steps=15
            )
        )
    for name in ("DANE auto", "ProxyBFGS", "default"):
        case(f"torch, exact, {name}")(
            lambda n=name: run(quadratic(torch=True), method=method(EXACT[n]), steps=12)
        )


product()


@case("sampled, one row, default")
def _() -> Any:
    return run(sampled(batch_size=1), steps=40)


@case("penalty, ProxyProx")
def _() -> Any:
    penalised = sampled(penalty=by_name("L1")(1e-2))
    return run(penalised, method=by_name("ProxyProx")(2.0), steps=20)


@case("penalty, SGD auto")
def _() -> Any:
    return run(sampled(penalty=by_name("L1")(1e-2)), method=by_name("SGD")("auto"), steps=25)


@case("penalty, exact default")
def _() -> Any:
    return run(exact(penalty=by_name("L1")(1e-2)))


@case("bounds, exact default")
def _() -> Any:
    return run(exact(penalty=by_name("Box")(-0.2, 0.4)))


@case("bounds, ProxyProx")
def _() -> Any:
    boxed = sampled(penalty=by_name("Box")(-0.2, 0.4))
    return run(boxed, method=by_name("ProxyProx")(2.0), steps=20)


@case("safeguard")
def _() -> Any:
    return run(sampled(), steps=80, safeguard=True)


@case("safeguard, useless proxy")
def _() -> Any:
    import proxyprox as pp

    target = sampled().objective
    return run(pp.Problem(target, pp.Quadratic(50 * np.eye(8), b=np.ones(8))), steps=80,
               safeguard=pp.SGD(0.5))  # fmt: skip


@case("safeguard, resumed")
def _() -> Any:
    return resumed(sampled, steps=60, first=30, safeguard=True)


@case("resumed, exact default")
def _() -> Any:
    return resumed(exact, steps=30, first=4)


@case("told by hand, saved before each answer")
def _() -> Any:
    return told_by_hand(sampled(), 8, saved=True, method=by_name("ProxyProx")("auto"))


@case("told by hand, exact default")
def _() -> Any:
    return told_by_hand(exact(), 8)


@case("told by hand, exact default, saved before each answer")
def _() -> Any:
    return told_by_hand(exact(), 8, saved=True)


@case("least squares")
def _() -> Any:
    return run(curve_fit(), np.ones(2))


@case("least squares, resumed")
def _() -> Any:
    return resumed(curve_fit, np.ones(2), steps=12, first=3)


def curve_fit() -> Any:
    import proxyprox as pp

    times = np.linspace(0.1, 2, 15)
    data = 2.0 * np.exp(-1.3 * times)

    def fine(w: Any) -> Any:
        return w[0] * np.exp(-w[1] * times) - data

    def coarse(w: Any) -> Any:
        return w[0] / (1 + w[1] * times) ** 1.1 - data

    target, proxy = (by_name("LeastSquares")(residuals) for residuals in (fine, coarse))
    return pp.Problem(target, proxy)


@case("values alone")
def _() -> Any:
    import proxyprox as pp

    return run(pp.Problem(rosenbrock(1.0)[0], rosenbrock(0.9)[0]), np.array([0.5, -0.5]))


@case("functions with gradients")
def _() -> Any:
    import proxyprox as pp

    return run(pp.Problem(rosenbrock(1.0), rosenbrock(0.9)), np.array([0.5, -0.5]))


@case("budget")
def _() -> Any:
    return run(sampled(), budget=23, method=by_name("ProxyProx")("auto"))


@case("averages, uniform")
def _() -> Any:
    return run(sampled(), method=by_name("ProxyProx")(0.5), steps=15,
               averaging=by_name("Uniform")())  # fmt: skip


@case("averages, geometric")
def _() -> Any:
    return run(sampled(), method=by_name("ProxyProx")(0.5), steps=15,
               averaging=by_name("Geometric")(mu=1e-2))  # fmt: skip


@case("float32, sampled")
def _() -> Any:
    return run(sampled(dtype="float32"), method=by_name("ProxyProx")("auto"), steps=20)


@case("float32, exact")
def _() -> Any:
    return run(exact(dtype="float32"))


@case("proxy's minimum as the start")
def _() -> Any:
    return run(sampled(), "proxy", method=by_name("ProxyProx")(2.0), steps=10)


@case("classes of a user")
def _() -> Any:
    from own_methods import HalvingStep, WindowMean

    mean = by_name("ProxyProx")(eta=HalvingStep(4.0), correction=WindowMean(2))
    return run(sampled(), method=mean, steps=12)


@case("method of a user")
def _() -> Any:
    from own_methods import HeavyBall

    return run(sampled(), method=HeavyBall(eta="auto"), steps=15)


# -- comparing ------------------------------------------------------------------------------------


def outcome(result: Any) -> dict[str, Any]:
    """Return what is compared, as JSON data; floats by their bits."""
    w = result.w.detach().numpy() if hasattr(result.w, "detach") else np.asarray(result.w)
    columns = result.trace.rows[0]._fields if len(result.trace) else ()
    return {
        "w": [str(w.dtype), w.tobytes().hex()],
        "status": result.status.name,
        "steps": result.steps,
        "ledger": {k: v for k, v in result.ledger.as_dict().items() if k not in TIMES},
        "trace": {
            name: [repr(getattr(row, name)) for row in result.trace.rows]
            for name in columns
            if name not in TIMES
        },
    }


def run_all(word: str) -> dict[str, Any]:
    found = {}
    for name, function in CASES.items():
        if word not in name:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = outcome(function())
        except LookupError as error:
            found[name] = {"left": str(error)}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    return found


def in_tree(source: Path, word: str) -> dict[str, Any]:
    """Run all configurations with the library in a folder."""
    paths = os.pathsep.join([str(source), str(HOME / "examples")])
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--print", "--only", word]
    done = subprocess.run(
        command, env={**os.environ, **threads, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"the configurations did not run with {source}:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return what of a configuration differs, in words; fields that only one side has are left."""
    if "left" in before or "left" in now:
        return []
    if "error" in before or "error" in now:
        same = before.get("error") == now.get("error")
        return (
            [] if same else [f"{before.get('error', 'a result')} → {now.get('error', 'a result')}"]
        )
    words = []
    for part, old in before.items():
        new = now[part]
        if isinstance(old, dict):
            changed = [key for key in old if key in new and old[key] != new[key]]
            if changed:
                words.append(
                    f"{part}: {', '.join(f'{k} {_short(old[k], new[k])}' for k in changed)}"
                )
        elif old != new:
            words.append(f"{part} {'' if part == 'w' else f'{old} → {new}'}".rstrip())
    return words


def _short(old: Any, new: Any) -> str:
    if isinstance(old, list):
        first = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
        return f"from step {min(len(old), len(new)) if first is None else first}"
    return f"{old} → {new}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", default=REFERENCE, metavar="COMMIT")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--print", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.print:
        print(json.dumps(run_all(given.only)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", given.against, "src"], cwd=HOME, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        before = in_tree(Path(folder) / "src", given.only)
        now = in_tree(HOME / "src", given.only)
    found = {name: differences(before[name], now[name]) for name in now}
    for name, words in found.items():
        if words:
            print(f"{name}: {'; '.join(words)}")
    left = [name for name in now if "left" in now[name] or "left" in before[name]]
    broken = [name for name in now if "error" in now[name]]
    for name in broken:
        print(f"{name}: {now[name]['error']}")
    changed = sum(map(bool, found.values()))
    print(f"{len(now)} configurations: {len(now) - changed} alike, {changed} differ, "
          f"{len(left)} not in both, {len(broken)} with an error")  # fmt: skip
    return 1 if changed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
