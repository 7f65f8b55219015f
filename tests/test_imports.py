"""Imports point one way, and `import proxyprox` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import proxyprox

ROOT = Path(proxyprox.__file__).parent

# From the ground up: a module may import from its own layer and from those before it.
LAYERS = [
    ["_arrays", "_files", "_extras"],
    ["_checks", "_code"],
    [
        "problems",
        "penalties",
        "corrections",
        "stopping",
        "averaging",
        "theory",
        "_ledger",
        "_trace",
    ],
    ["_subproblem", "stepsizes"],
    ["inner"],
    ["methods"],
    ["_config", "_pack", "_oracles", "_door", "_result", "_exchange", "_restored", "_evidence"],
    ["_identity", "_rng_state", "_faults"],
    ["_outcome"],
    ["_checkpoint"],
    ["_run"],
    ["_guard_state"],
    ["_erm", "_gap", "_progress", "_purse", "_safeguard"],
    ["_minimize"],
    ["_scipy"],
    ["sklearn", "privacy", "diagnostics", "torch", "simulation", "datasets"],
    ["experiments"],
    ["cli", "__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# Side by side in one layer, and yet to be kept apart.
APART = [
    ("problems", "stopping"), ("problems", "theory"), ("penalties", "problems"),
    ("corrections", "problems"), ("stopping", "problems"), ("theory", "problems"),
    ("datasets", "torch"), ("torch", "datasets"),
]  # fmt: skip
FORBIDDEN = ("torch", "matplotlib", "plotly", "pandas", "pyarrow", "rich", "typer")


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path):
    """Yield the package's own parts that a file imports, leaving out what only types need."""
    tree = ast.parse(path.read_text())
    skipped = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if node.module == "proxyprox":
                yield from (alias.name for alias in node.names)
            elif (node.module or "").startswith("proxyprox."):
                yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("proxyprox."):
                    yield alias.name.split(".")[1]


FILES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    here = part_of(path)
    assert here in RANK, f"{here} has no place in the layers: give it one"
    for other in imported(path):
        if other not in RANK:
            # A public name of the package: only the parts above the driver take those.
            assert other in proxyprox.__all__ or other == "__version__", other
            assert RANK[here] > RANK["_scipy"], f"{here} imports the package itself"
            continue
        assert RANK[other] <= RANK[here], f"{here} imports {other}, which is built on it"
        assert (here, other) not in APART


def test_the_check_sees_an_import_that_points_back(tmp_path):
    wrong = tmp_path / "x.py"
    wrong.write_text("def f():\n    from proxyprox._run import Run\n    import proxyprox.cli\n")
    assert list(imported(wrong)) == ["_run", "cli"]


def test_import_is_light():
    code = (
        "import sys, proxyprox\n"
        f"loaded = [m for m in {FORBIDDEN!r} if m in sys.modules]\n"
        "sys.exit(','.join(loaded) or 0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT.parent)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def test_every_public_name_exists_and_is_listed_in_order():
    for name in proxyprox.__all__:
        assert hasattr(proxyprox, name), name
    assert len(set(proxyprox.__all__)) == len(proxyprox.__all__)
