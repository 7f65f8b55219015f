"""Imports point one way, and nothing slow is imported before it is used."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import proxyprox
import proxyprox_app

ROOT = Path(proxyprox.__file__).parent
APP = Path(proxyprox_app.__file__).parent

# From the ground up: a module may import from its own layer and from those before it.
LAYERS = [
    ["_util"],
    ["problems", "penalties", "corrections", "averaging", "theory"],
    ["result"],
    ["stopping"],
    ["inner"],
    ["stepsizes"],
    ["methods"],
    ["oracle"],
    ["checkpoint", "learning"],
    ["advice"],
    ["run"],
    ["observers"],
    ["minimization"],
    ["testing"],
    ["sklearn", "diagnostics", "torch", "dask"],
    ["private", "simulation"],
    ["_public"],
    # The application, built on the library.
    ["proxyprox_app.page", "proxyprox_app.tables"],
    ["proxyprox_app.columns", "proxyprox_app.demo"],
    ["proxyprox_app.fit", "proxyprox_app.problem"],
    ["proxyprox_app.model"],
    ["proxyprox_app.cli"],
    ["__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# Side by side in one layer, and yet to be kept apart.
APART = [
    ("problems", "stopping"), ("problems", "theory"), ("penalties", "problems"),
    ("corrections", "problems"), ("stopping", "problems"), ("theory", "problems"),
]  # fmt: skip
SLOW = {
    "numpy", "scipy", "scipy.sparse", "scipy.special", "scipy.linalg", "scipy.optimize",
    "scipy.stats", "scipy.spatial", "sklearn", "array_api_compat", "threadpoolctl", "torch",
    "matplotlib", "jinja2", "pandas", "pyarrow", "rich", "typer", "pydantic", "asyncio",
    "proxyprox._public", "proxyprox.diagnostics.audit", "proxyprox_app.page",
    "proxyprox.sklearn", "experiments.compare", "dask", "distributed", "skrub", "skops",
    "openpyxl",
}  # fmt: skip


def part_of(path):
    """Return the part of the library or, with the package's name before it, of the application."""
    if path.is_relative_to(APP):
        return f"proxyprox_app.{path.relative_to(APP).parts[0].removesuffix('.py')}"
    return own_part(".".join(["proxyprox", *path.relative_to(ROOT).with_suffix("").parts]))


def own_part(module):
    """Return the part that a dotted name is in, or None if it is not ours."""
    package, _, inside = module.partition(".")
    part = inside.partition(".")[0]
    return {"proxyprox": part, "proxyprox_app": f"proxyprox_app.{part}"}.get(package)


def imported(path):
    """Yield our own parts that a file imports, leaving out what only types need."""
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
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if "." in alias.name]
        else:
            names = []
        # One statement may name several things of one part.
        yield from dict.fromkeys(part for part in map(own_part, names) if part)


FILES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")
FILES += sorted(p for p in APP.rglob("*.py") if p != APP / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT.parent)))
def test_imports_point_one_way(path):
    here = part_of(path)
    assert here in RANK, f"{here} has no place in the layers: give it one"
    for other in imported(path):
        if other not in RANK:
            # A public name of the package: only the parts above the driver take those.
            assert other in proxyprox.__all__ or other == "__version__", other
            assert RANK[here] > RANK["testing"], f"{here} imports the package itself"
            continue
        assert RANK[other] <= RANK[here], f"{here} imports {other}, which is built on it"
        assert (here, other) not in APART


def in_new_interpreter(code: str, *arguments: str) -> str:
    """Run code where nothing is imported yet; return what it printed."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True, text=True, encoding="utf-8", check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent), "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def slow_modules_after(code: str) -> set[str]:
    end = f"\nimport json, sys\nprint(json.dumps([m for m in {sorted(SLOW)} if m in sys.modules]))"
    return set(json.loads(in_new_interpreter(code + end).splitlines()[-1]))


def test_importing_the_package_imports_no_library():
    assert slow_modules_after("import proxyprox") == slow_modules_after("pass")


def test_public_names_need_only_the_array_libraries():
    libraries = "import numpy, scipy.sparse, scipy.special, array_api_compat"
    found = slow_modules_after("import proxyprox\nproxyprox.minimize")
    own = {"proxyprox._public", "proxyprox.diagnostics.audit"}
    assert found - own == slow_modules_after(libraries)


RUN_COMMANDS = """
import contextlib, io, sys
from proxyprox_app.cli import main
for words in {commands}:
    sys.argv = ["proxyprox", *words]
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        main()
    assert shown.getvalue().strip(), words
"""


def test_help_of_every_command_is_printed_without_its_implementation():
    from typer.main import get_command

    from proxyprox_app.cli import app

    def paths(command, words):
        yield [*words, "--help"]
        for name, below in getattr(command, "commands", {}).items():
            if not below.hidden:
                yield from paths(below, [*words, name])

    commands = list(paths(get_command(app), []))
    assert ["run", "--help"] in commands
    found = slow_modules_after(RUN_COMMANDS.format(commands=commands))
    assert found <= slow_modules_after("import typer") | {"typer", "rich", "pydantic", "asyncio"}


WITHOUT = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
EXTRAS = ["sklearn", "threadpoolctl", "rich", "typer", "matplotlib", "pandas", "pyarrow", "jinja2",
          "torch", "jax", "dask", "distributed", "opacus", "gymnasium", "mujoco"]  # fmt: skip


def test_the_library_needs_none_of_the_extras():
    code = """
import numpy as np, proxyprox as pp
target = pp.Quadratic(np.diag([1.0, 50.0]), b=np.array([-1.0, -1.0]), noise=0.01)
print(pp.minimize(pp.Problem(target, pp.Quadratic(np.eye(2))), steps=20, rng=0).steps)
for name in pp.__all__:
    getattr(pp, name)
import proxyprox.testing, proxyprox.simulation
assert "proxyprox_app" not in sys.modules
"""
    assert in_new_interpreter(WITHOUT.format(missing=EXTRAS) + code).strip() == "20"


@pytest.mark.parametrize("extra", ["sklearn", "torch", "dask", "private"])
def test_a_part_without_its_extra_says_what_to_install(extra):
    code = f"""
try:
    import proxyprox.{extra}
except ImportError as error:
    print(error)
"""
    shown = in_new_interpreter(WITHOUT.format(missing=EXTRAS) + code)
    assert shown.startswith(f"proxyprox.{extra} needs")
    assert f'pip install "proxyprox[{extra}]"' in shown


SCIKIT = ["sklearn", "threadpoolctl"]
# What each extra brings, with what that needs, and what it is for.
ALONE = {
    "sklearn": (SCIKIT, "import proxyprox.sklearn as part"),
    "plot": (["matplotlib"], "import proxyprox as part, matplotlib.pyplot"),
    "torch": (["torch", "jinja2"], "import proxyprox.torch as part"),
    "dask": (
        [*SCIKIT, "dask", "distributed", "pandas", "pyarrow", "jinja2"],
        "import proxyprox.dask as part",
    ),
    "private": ([*SCIKIT, "opacus", "torch", "jinja2"], "import proxyprox.private as part"),
    "sim": (
        ["gymnasium", "mujoco"],
        "import proxyprox.simulation as part, proxyprox.simulation.robots",
    ),
    "app": (
        [*SCIKIT, "matplotlib", "typer", "rich", "pandas", "pyarrow", "jinja2", "pydantic"],
        "import proxyprox.sklearn as part, proxyprox_app.cli, proxyprox_app.page\n"
        "import proxyprox_app.fit, proxyprox_app.problem, proxyprox_app.demo",
    ),
}


@pytest.mark.parametrize("extra", ALONE)
def test_each_extra_is_enough_alone(extra):
    """In a process that finds nothing of the other extras, every public name of a part is there."""
    brought, code = ALONE[extra]
    for package in brought:
        pytest.importorskip(package)
    hidden = WITHOUT.format(missing=[name for name in EXTRAS if name not in brought])
    in_new_interpreter(f"{hidden}{code}\nfor name in part.__all__:\n    getattr(part, name)")


BY_SCRIPT = "import proxyprox.__main__ as entry; entry.main()"
BY_MODULE = "import runpy; runpy.run_module('proxyprox', run_name='__main__')"


@pytest.mark.parametrize("start", [BY_SCRIPT, BY_MODULE])
def test_the_command_without_its_extra_says_what_to_install(start):
    code = f"""
sys.stderr = sys.stdout
try:
    {start}
except SystemExit as end:
    print(end.code)
"""
    shown = in_new_interpreter(WITHOUT.format(missing=EXTRAS) + code).splitlines()
    assert shown == [
        'The command proxyprox needs typer, which is not installed: pip install "proxyprox[app]"',
        "2",
    ]


def test_every_public_name_exists_and_is_listed():
    for name in proxyprox.__all__:
        assert hasattr(proxyprox, name), name
    assert len(set(proxyprox.__all__)) == len(proxyprox.__all__) <= 40
    assert set(proxyprox.__all__) <= set(dir(proxyprox))
    assert "__version__" in dir(proxyprox)


def test_a_misspelt_name_is_an_error():
    with pytest.raises(AttributeError, match="minimise"):
        proxyprox.minimise  # noqa: B018
    with pytest.raises(ImportError, match="minimise"):
        from proxyprox import minimise  # noqa: F401
    for private in ("_minimise", "__wrapped__"):
        assert not hasattr(proxyprox, private)
