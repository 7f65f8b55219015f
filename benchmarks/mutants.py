"""How many small changes of the code are noticed by the tests of its folder.

    python benchmarks/mutants.py                        # 100 mutants of each folder
    python benchmarks/mutants.py --only inner --count 5
    python benchmarks/mutants.py --tree ../before --write

A mutant changes one comparison, sum, product, number, truth value, sign or returned value in the
body of a function; a seed draws the places. Defaults are not changed: they are choices.

The tests are collected once. Each mutant gets a fork, in which the changed function's code takes
the place of the old one; there, the tests that reach the changed statement run, the shortest first
and no more than take ``SECONDS`` in all, until one fails or takes ten times as long as it did.
(What a test starts as a process of its own runs the code as it is.) ``--write`` records the shares,
beside those of the other tree.
"""

from __future__ import annotations

import argparse
import ast
import collections
import gc
import inspect
import itertools
import json
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

HOME = Path(__file__).resolve().parent.parent
RECORD = "docs/results/mutants/mutants.json"
# Tests and code of a folder that lie beside it.
BESIDE = {
    "inner": ("tests/test_scales.py", "tests/test_stopping.py", "tests/test_subproblem.py"),
    "methods": ("tests/test_equivalences.py",),
    "problems": ("tests/test_value_functions.py",),
}
RULES = {"inner": ["src/proxyprox/stopping.py"]}
# Tests in no folder that are about runs.
OF_RUNS = [f"tests/test_{part}.py" for part in (
    "bad_oracles", "convergence", "minimize", "nonfinite_proxy", "observers", "outcome",
    "recorded_criterion", "result", "run", "run_state", "safeguard", "start", "stopping",
    "user_code", "values",
)]  # fmt: skip
# What is changed, and the tests that are to notice.
FOLDERS = {
    "run": (["src/proxyprox/run.py"], ["tests/checkpoint", "tests/contract", *OF_RUNS]),
    **{part: ([f"src/proxyprox/{part}", *RULES.get(part, [])],
              [f"tests/{part}", *BESIDE.get(part, ())])
       for part in ("methods", "inner", "problems")},
}  # fmt: skip
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
# Processor time of the tests of one mutant.
SECONDS = 4
# The function that notes which statements a test reaches.
MARK = "__reached__"
# Arguments of NumPy and SciPy that only save time or memory.
SPEED = {"check_finite", "copy", "out", "overwrite_a", "overwrite_b"}
# Imported before the forks, each of which would import them again.
LIBRARIES = (
    "numpy", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "array_api_compat", "torch",
    "array_api_compat.torch", "sklearn.linear_model", "pytest",
)  # fmt: skip


def sites(tree: ast.AST) -> list[tuple[Any, int]]:
    """Return the places that can be changed, each with the line of its statement."""
    found: list[tuple[Any, int]] = []

    def visit(node: Any, line: int) -> None:
        function = isinstance(node, (ast.FunctionDef, ast.Lambda))
        if line and isinstance(node, ast.stmt):
            line = node.lineno
        if line and changeable(node):
            found.append((node, line))
        if function and not line:
            line = node.lineno
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or (name == "args" and function):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not unnoticed(child):
                    visit(child, line)

    visit(tree, 0)
    return found


def unnoticed(node: ast.AST) -> bool:
    """Return whether a part only makes a message or saves time."""
    saves = isinstance(node, ast.keyword) and node.arg in SPEED
    return saves or isinstance(node, (ast.Raise, ast.JoinedStr))


def changeable(node: Any) -> bool:
    """Return whether `change` makes of a node what a test could notice.

    Tolerances below 1e-3 and caps of 20 or more are left out: they say how long to go on.
    """
    if isinstance(node, ast.Constant):
        number = isinstance(node.value, (int, float))
        return number and (node.value == 0 or 1e-3 <= node.value < 20)
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in SWAPS
    if isinstance(node, (ast.BinOp, ast.BoolOp)):
        return type(node.op) in SWAPS
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.Not, ast.USub))
    # A function that returns nothing, or None, already does what the change makes it do.
    returns = isinstance(node, ast.Return) and node.value
    return bool(returns) and getattr(node.value, "value", node) is not None


def change(node: Any) -> None:
    """Change one place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, (ast.BinOp, ast.BoolOp)):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else node.op
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Return):
        # The value stays in the code, and with it the variables that the function closes over.
        node.value = ast.IfExp(ast.Constant(True), ast.Constant(None), node.value)
    elif isinstance(node.value, bool):
        node.value = not node.value
    else:
        node.value = node.value + 1 if isinstance(node.value, int) else 2 * node.value + 1e-3


def functions(code: CodeType) -> list[CodeType]:
    """Return the code of a module's functions and methods."""
    found = []
    for part in code.co_consts:
        if isinstance(part, CodeType):
            found += [part] if part.co_flags & inspect.CO_OPTIMIZED else functions(part)
    return found


def in_fork(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns in a fork, or None if the fork dies, and its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile("w+") as file:
        child = os.fork()
        if child == 0:
            try:
                json.dump(work(), file)
                file.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        file.seek(0)
        text = file.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(text) if text else None, seconds


class Mutants:
    """A plugin of pytest: in place of the tests themselves, it tries mutants with them."""

    def __init__(self, modules: list[str], count: int, seed: int, end: float) -> None:
        found = [path for name in modules for path in [Path(name), *Path(name).glob("*.py")]]
        # Read once: whoever edits the tree meanwhile does not disturb.
        self.texts = {path.resolve(): path.read_text() for path in found if path.suffix == ".py"}
        self.count, self.seed, self.end = count, seed, end
        self.outcomes: list[tuple[bool, float, str]] = []
        self.shown = os.fdopen(os.dup(2), "w", buffering=1)  # pytest captures the other one

    def pytest_runtestloop(self, session: Any) -> bool:
        live = collections.defaultdict(list)
        for thing in gc.get_objects():
            if type(thing) is FunctionType:  # some things answer `isinstance` with a warning
                live[thing.__code__.co_filename].append(thing)
        reached, durations = in_fork(partial(observed, session, self.texts, live))[0]
        places = [
            (path, at)
            for path, text in sorted(self.texts.items())
            for at in range(len(sites(ast.parse(text))))
        ]
        random.Random(self.seed).shuffle(places)
        for path, at in places[: self.count]:
            if time.monotonic() > self.end:
                break
            original, tree = (ast.parse(self.texts[path]) for _ in range(2))
            node, line = sites(tree)[at]
            before = ast.unparse(node)
            change(node)
            codes = codes_of(path, original, tree)
            tests = reached.get(f"{path}:{line}", ())
            order = [(test, durations[test]) for test in sorted(tests, key=durations.__getitem__)]
            ends = itertools.accumulate(seconds for _, seconds in order)
            order = [one for one, end in zip(order, ends, strict=True) if end < SECONDS]
            left, seconds = in_fork(partial(survives, session, live[str(path)], codes, order))
            after = "return None" if isinstance(node, ast.Return) else ast.unparse(node)
            what = f"{path.relative_to(Path.cwd())}:{node.lineno}: {before} → {after}"
            self.outcomes.append((bool(left), seconds, what))
            print(f"{len(self.outcomes)} {seconds:.1f} s{', survives' * bool(left)}: {what}",
                  file=self.shown)  # fmt: skip
        return True


def survives(
    session: Any,
    live: list[FunctionType],
    codes: dict[CodeType, CodeType],
    tests: list[tuple[int, float]],
) -> bool:
    """Return whether tests, each with its usual seconds, pass with other code of functions."""
    for function in live:
        function.__code__ = codes.get(function.__code__, function.__code__)
    return all(passes(session, test, 2 + 10 * seconds) for test, seconds in tests)


def codes_of(path: Path, *trees: ast.Module) -> dict[CodeType, CodeType]:
    """Return the code of the functions of a module, by that of the same ones in another."""
    old, new = (
        functions(compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True))
        for tree in trees
    )
    return dict(zip(old, new, strict=True))


def passes(session: Any, test: int, seconds: float) -> bool:
    """Run a test; it ends the process when it takes more processor time, or waits 15 times that."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 15 * seconds)
    item = session.items[test]
    session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return not session.testsfailed


def observed(
    session: Any, texts: dict[Path, str], live: dict[str, list[FunctionType]]
) -> tuple[dict[str, list[int]], list[float]]:
    """Return which tests reach each statement, and the seconds of each test."""
    seen: set[str] = set()
    for path, text in texts.items():
        codes = codes_of(path, ast.parse(text), marked(ast.parse(text), path))
        for function in live[str(path)]:
            function.__globals__[MARK] = seen.add
            function.__code__ = codes.get(function.__code__, function.__code__)
    reached, durations = collections.defaultdict(list), []
    for test in range(len(session.items)):
        seen.clear()
        begun = time.process_time()
        if not passes(session, test, 600):
            os._exit(1)
        durations.append(time.process_time() - begun)
        for place in seen:
            reached[place].append(test)
    return reached, durations


def marked(tree: ast.Module, path: Path) -> ast.Module:
    """Return a module in which each statement of a function, and each lambda, is noted first."""
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(part): part for function in whole for part in ast.walk(function)}

    def note(node: Any) -> Any:
        return ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(f"{path}:{node.lineno}")], [])

    for node in inside.values():
        for name in ("body", "orelse", "finalbody"):
            parts = getattr(node, name, None)
            if isinstance(parts, list):
                parts[:] = [each for part in parts for each in (ast.Expr(note(part)), part)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and id(node) not in inside:
            both = ast.Tuple([note(node), node.body], ast.Load())
            node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
    return tree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=HOME, help="another checkout")
    parser.add_argument("--only", choices=FOLDERS, nargs="+", default=list(FOLDERS))
    parser.add_argument("--count", type=int, default=100, help="mutants of each folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no mutant after")
    parser.add_argument("--write", action="store_true", help=f"write {RECORD}")
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    # Libraries import `outcome`, the name of a script beside this one.
    sys.path.remove(str(Path(__file__).resolve().parent))
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != HOME / "src"]
    os.chdir(given.tree)
    sys.path[:0] = [str(Path("src").resolve()), str(Path.cwd())]
    for name in LIBRARIES:
        import_module(name)
    for folder in given.only:
        row = in_fork(partial(tried, folder, given.count, given.seed, end))[0]
        if row is None:
            sys.exit(f"{folder}: its tests fail on the code as it is.")
        print(f"{folder}: {row['survive']} of {row['mutants']} survive, {row['cpu_seconds']} s",
              *row["survivors"], sep="\n  ", flush=True)  # fmt: skip
        if given.write and row["mutants"]:
            write({"tree": "this" if given.tree == HOME else "before", **row})


def tried(folder: str, count: int, seed: int, end: float) -> dict[str, Any] | None:
    """Return the row of a folder's mutants."""
    modules, tests = FOLDERS[folder]
    mutants = Mutants(modules, count, seed, end)
    with tempfile.TemporaryDirectory() as temporary:
        without = [f"-pno:{plugin}" for plugin in ("cacheprovider", "terminal", "faulthandler")]
        options = ["-x", *without, "--basetemp", f"{temporary}/base"]
        # An older tree has no such mark.
        options += ["-m", "not slow"] if "slow:" in Path("pyproject.toml").read_text() else []
        options += [name for name in tests if Path(name).exists()]
        if import_module("pytest").main(options, plugins=[mutants]):
            return None
    left = sorted(what for survives, _, what in mutants.outcomes if survives)
    return {
        "folder": folder, "seed": seed, "mutants": len(mutants.outcomes), "survive": len(left),
        "survivors": left, "cpu_seconds": round(sum(took for _, took, _ in mutants.outcomes)),
    }  # fmt: skip


def write(row: dict[str, Any]) -> None:
    """Put a row into the record, in place of the one of the same tree, folder and seed."""
    child = os.fork()
    if child:
        # In a fork: the package that writes must not be imported when the next mutants are tried.
        os.waitpid(child, 0)
        return
    os.chdir(HOME)
    sys.path[:0] = [str(HOME / "src"), str(HOME)]
    from experiments.records import write_record

    file, keys = Path(RECORD), ("folder", "tree", "seed")
    known = json.loads(file.read_text()) if file.exists() else []
    rows = [one for one in known if any(one[key] != row[key] for key in keys)] + [row]
    rows.sort(key=lambda one: [str(one[key]) for key in keys])
    measures = [name for part in FOLDERS.values() for name in part[0]]
    note = "The rows of several seeds add up; --seconds ends one before its count."
    write_record(RECORD, rows, measures=measures, note=note)
    os._exit(0)


if __name__ == "__main__":
    main()
