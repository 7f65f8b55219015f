"""How many small changes of the code a folder's tests notice.

``python benchmarks/mutants.py src/proxyprox/inner/newton.py --tests tests/inner --count 20``

A mutant changes one comparison, sum, product, number, truth value, sign or returned value. Each
runs in a fork in which the libraries are imported already, with the tests of one folder, which
stop at the first failure. A mutant that takes more than a minute of processor time is caught, too.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
LIBRARIES = (
    "numpy", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "array_api_compat", "torch",
    "array_api_compat.torch", "sklearn.linear_model", "pytest",
)  # fmt: skip
SECONDS = 60


def sites(tree: ast.AST) -> list[ast.AST]:
    """Return the places that can be changed, but for annotations and the text of errors."""
    found: list[ast.AST] = []

    def visit(node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child)
        constant = isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float))
        compared = isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS
        joined = isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS
        signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub))
        answer = isinstance(node, ast.Return) and node.value is not None
        if constant or compared or joined or signed or answer:
            found.append(node)

    visit(tree)
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


def is_caught(source: Path, tests: list[str]) -> bool:
    """Run the tests in a fork, on the package below ``source``."""
    sys.dont_write_bytecode = True  # mutants of one second would share it
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.path.insert(0, str(source))
        options = ["-q", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
        os._exit(int(import_module("pytest").main([*options, *tests]) != 0))
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+", type=Path, help="below src/")
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--count", type=int, default=20, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    # Libraries import `outcome`, the name of a script beside this one.
    sys.path.remove(str(Path(__file__).resolve().parent))
    for name in LIBRARIES:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree("src", source)
        if is_caught(source, given.tests):
            sys.exit("The tests fail on the code as it is.")
        for module in given.modules:
            place = source / module.relative_to("src")
            text = place.read_text()
            tree = ast.parse(text)
            places = range(len(sites(tree)))
            chosen = random.Random(f"{given.seed} {module.name}").sample(
                places, min(given.count, len(places))
            )
            left = []
            for which in sorted(chosen):
                mutant = copy.deepcopy(tree)
                node: Any = sites(mutant)[which]
                before = ast.unparse(node)
                change(node)
                place.write_text(ast.unparse(mutant))
                if not is_caught(source, given.tests):
                    left.append(f"  {module}:{node.lineno}: {before} → {ast.unparse(node)}")
            place.write_text(text)
            print(f"{module}: {len(left)} of {len(chosen)} survive", *left, sep="\n", flush=True)


if __name__ == "__main__":
    main()
