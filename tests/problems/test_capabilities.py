"""The table of optional capabilities is short, and the library asks for nothing beside it."""

import ast
import re
from pathlib import Path

import proxyprox
from proxyprox.problems import protocols
from proxyprox.problems.problem import facts_of

ROOT = Path(proxyprox.__file__).parent
# How the library calls a loss, as a name or as the last part of one.
LOSSES = {"objective", "proxy", "loss", "oracle", "first", "part", "target"}
# Files in which these names mean something else: networks' optimisers have a protocol of their own
# for proxies, and a part of a table is an array.
ELSEWHERE = ("torch/", "dask/tables.py")
# The parts of a problem in a loop over roles, the penalty included.
PENALTY = {"prox", "distance", "project", "lower", "upper", "separable"}


def table():
    rows = protocols.__doc__.split("\n")
    return {found[1] for row in rows if (found := re.match(r"``(\w+)", row))}


def last_name(node):
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def asked():
    """Return every name that has, offers, getattr or hasattr asks of a loss, with its file."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).as_posix().startswith(ELSEWHERE):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            if last_name(node.func) not in {"has", "offers", "getattr", "hasattr"}:
                continue
            if last_name(node.args[0]) not in LOSSES:
                continue
            for name in node.args[1:]:
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    found.setdefault(name.value, path.name)
    return found


def test_the_table_is_short():
    assert len(table()) == protocols.__doc__.count("\n``") <= 21


def test_nothing_is_asked_that_the_table_does_not_name():
    names = {name: path for name, path in asked().items() if name not in PENALTY | {"gradient"}}
    assert "repeatable" in names
    assert {name: path for name, path in names.items() if name not in table()} == {}


def test_a_need_of_a_method_or_a_solver_is_in_the_table():
    from proxyprox._util.validation import CAPABILITIES

    assert CAPABILITIES.keys() <= table() | {"gradient"}


def test_facts_are_the_default_ones_if_a_loss_states_none():
    assert facts_of(object()) == protocols.Facts()
