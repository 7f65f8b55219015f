"""Every public part is in the contract's case list, and is a frozen configuration."""

from __future__ import annotations

import dataclasses

import pytest

import accelerated_sliding
import fedred
import finite_sums
import own_methods
import spam
import stabilized_dane
from experiments import rivals
from proxyprox import averaging as averaging_module
from proxyprox import corrections, methods, stopping
from proxyprox import inner as inner_package

PROTOCOLS = {
    "Answers", "Defaults", "Method", "OuterStep", "Request", "State", "InnerSolver", "InnerResult",
    "Correction", "Averaging", "Criterion", "NonFiniteError", "Subproblem",
}  # fmt: skip


def public(module):
    names = getattr(module, "__all__", None) or [
        name
        for name, item in vars(module).items()
        if isinstance(item, type) and item.__module__ == module.__name__ and name[0] != "_"
    ]
    return {getattr(module, name) for name in names if name not in PROTOCOLS}


@pytest.mark.parametrize(
    ("part", "module"),
    [
        ("methods", methods),
        ("inner", inner_package),
        ("corrections", corrections),
        ("criteria", stopping),
        ("averaging", averaging_module),
    ],
)
def test_every_public_part_has_a_case(registry, part, module):
    # The mappings ask for outputs or values: tests/methods/test_mapping.py.
    mappings = {methods.ManifoldMapping, methods.ValueMapping}
    found = public(module) - {stopping.Progress, *mappings}
    assert found, module
    assert found == {type(item) for item in registry[part].values()} - own_classes()


def own_classes():
    files = (own_methods, rivals, spam, fedred, finite_sums, stabilized_dane, accelerated_sliding)
    return {item for file in files for item in vars(file).values() if isinstance(item, type)}


def every_part(registry):
    return [(f"{part}/{name}", item) for part in registry for name, item in registry[part].items()]


def test_every_part_is_frozen(registry):
    for name, item in every_part(registry):
        setting = next((f.name for f in dataclasses.fields(item)), "anything")
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(item, setting, 1)
        assert hash(item) == hash(item), name
