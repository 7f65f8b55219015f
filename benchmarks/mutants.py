"""How many small changes of the code are noticed by the tests of its folder.

    python benchmarks/mutants.py                        # 40 mutants of each folder
    python benchmarks/mutants.py --only inner --count 5
    python benchmarks/mutants.py --tree ../before --write

A mutant changes one comparison, sum, product, number, truth value, sign or returned value; which
places are changed is drawn with a seed. Each mutant runs in a fork in which the libraries are
imported already, with those test files of its folder that call the changed function, the shortest
first, and ends at the first failure. One that takes more than ``SECONDS`` of processor time is
caught, too. ``--write`` records the shares; a run with ``--tree`` adds those of another checkout.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent.parent
RECORD = "docs/results/mutants/mutants.json"
# Tests and code of a folder that lie beside it: those of the rules and of the subproblem.
BESIDE = {"inner": ("tests/test_stopping.py", "tests/test_subproblem.py")}
RULES = {"inner": ["src/proxyprox/stopping.py"]}
# Tests in no folder that are about runs.
OF_RUNS = [f"tests/test_{part}.py" for part in (
    "bad_oracles", "convergence", "minimize", "nonfinite_proxy", "observers", "outcome",
    "recorded_criterion", "result", "run", "run_state", "safeguard", "scales", "start", "stopping",
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
LIBRARIES = (
    "numpy", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "array_api_compat", "torch",
    "array_api_compat.torch", "sklearn.linear_model", "pytest",
)  # fmt: skip
SECONDS = 40


def sites(tree: ast.AST) -> list[tuple[Any, int]]:
    """Return the places that can be changed, each with the line of its function, or 0.

    Annotations, the text of errors, and defaults of arguments that only name a choice are left out.
    """
    found: list[tuple[Any, int]] = []

    def visit(node: ast.AST, function: int) -> None:
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and not function:
            first = getattr(node, "decorator_list", [])[:1] or [node]
            function = first[0].lineno  # type: ignore[attr-defined]
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, function)
        constant = isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float))
        compared = isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS
        joined = isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS
        signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub))
        answer = isinstance(node, ast.Return) and node.value is not None
        if constant or compared or joined or signed or answer:
            found.append((node, function))

    visit(tree, 0)
    return found


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
        node.value = ast.Constant(None)
    elif isinstance(node.value, bool):
        node.value = not node.value
    else:
        node.value = node.value + 1 if isinstance(node.value, int) else 2 * node.value + 1e-3


class Calls:
    """A plugin of pytest: which functions each test file calls, and how long the file takes."""

    def __init__(self, source: Path) -> None:
        self.source, self.seconds = str(source), collections.Counter[str]()
        self.files: dict[str, set[str]] = collections.defaultdict(set)

    def pytest_runtest_protocol(self, item: Any) -> None:
        file = item.nodeid.partition("::")[0]
        seen = self.files[file]
        self.now = file, time.process_time()

        def called(frame: Any, event: str, argument: Any) -> None:
            code = frame.f_code
            if code.co_filename.startswith(self.source):
                seen.add(f"{code.co_filename}:{code.co_firstlineno}")

        sys.settrace(called)

    def pytest_runtest_logfinish(self) -> None:
        sys.settrace(None)
        file, begun = self.now
        self.seconds[file] += time.process_time() - begun  # type: ignore[assignment]


def in_fork(source: Path, seconds: float, work: Callable[[Any], int]) -> tuple[int, float]:
    """Call a function in a fork with the package below ``source``; return status and CPU time."""
    sys.dont_write_bytecode = True  # mutants of one second would share it
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.path[:0] = [str(source)]
        os._exit(work(import_module("pytest")))
    status = os.waitpid(child, 0)[1]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


OPTIONS = ["-q", "-x", "-p", "no:cacheprovider"]


def mutants(
    source: Path, modules: list[str], tests: list[str], count: int, seed: int
) -> Iterator[tuple[bool, float, str]]:
    """Yield of each mutant whether the tests notice it, its seconds, and what it is."""
    calls, found = Calls(source), source / "calls.json"

    def as_it_is(pytest: Any) -> int:
        failed = int(pytest.main([*OPTIONS, *tests], plugins=[calls]))
        files = {file: sorted(seen) for file, seen in calls.files.items()}
        found.write_text(json.dumps([files, calls.seconds]))
        return int(failed != 0)

    tests = [name for name in tests if Path(name).exists()]
    if in_fork(source, 600, as_it_is)[0]:
        sys.exit(f"{tests} fail on the code as it is.")
    files, seconds = json.loads(found.read_text())
    order = sorted(files, key=lambda file: seconds[file])
    paths = [p for name in modules for p in sorted([*Path(name).glob("*.py"), Path(name)])]
    paths = [path for path in paths if path.suffix == ".py"]
    trees = {path: ast.parse(path.read_text()) for path in paths}
    places = [(path, at) for path in paths for at in range(len(sites(trees[path])))]
    chosen = random.Random(seed).sample(places, min(count, len(places)))
    for path, at in sorted(chosen):
        mutant, place = copy.deepcopy(trees[path]), source / path.relative_to("src")
        node, function = sites(mutant)[at]
        before = ast.unparse(node)
        change(node)
        place.write_text(ast.unparse(mutant))
        # Line numbers are those of the file as it was.
        using = [file for file in order if not function or f"{place}:{function}" in files[file]]
        work = lambda pytest, using=using: int(pytest.main([*OPTIONS, *using]) != 0)  # noqa: E731
        status, took = in_fork(source, SECONDS, work) if using else (0, 0.0)
        shutil.copy(path, place)
        what = f"{path}:{node.lineno}: {before} → {ast.unparse(node)}"
        yield bool(status), took, what


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=HOME, help="another checkout")
    parser.add_argument("--only", choices=FOLDERS, nargs="+", default=list(FOLDERS))
    parser.add_argument("--count", type=int, default=40, help="mutants of each folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"write {RECORD}")
    given = parser.parse_args()
    # Libraries import `outcome`, the name of a script beside this one.
    sys.path.remove(str(Path(__file__).resolve().parent))
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != HOME / "src"]
    os.chdir(given.tree)
    sys.path.insert(0, str(given.tree.resolve()))
    if "slow:" in Path("pyproject.toml").read_text():
        OPTIONS.extend(["-m", "not slow"])
    for name in LIBRARIES:
        import_module(name)
    for folder in given.only:
        left, total, number = [], 0.0, 0
        with tempfile.TemporaryDirectory() as temporary:
            source = Path(temporary).resolve() / "src"
            shutil.copytree("src", source)
            for caught, took, what in mutants(source, *FOLDERS[folder], given.count, given.seed):
                number, total = number + 1, total + took
                left += [] if caught else [what]
        print(f"{folder}: {len(left)} of {number} survive, {total:.0f} s", *left, sep="\n  ",
              flush=True)  # fmt: skip
        row = {"folder": folder, "seed": given.seed, "mutants": number, "survive": len(left)}
        row |= {"survivors": left, "cpu_seconds": round(total, 1)}
        if given.write:
            write({"tree": "this" if given.tree == HOME else "before", **row})


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
    write_record(RECORD, rows, measures=[name for part in FOLDERS.values() for name in part[0]])
    os._exit(0)


if __name__ == "__main__":
    main()
