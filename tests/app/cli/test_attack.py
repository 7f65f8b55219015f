from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Invoke = Callable[..., Any]
MECHANISM = """
import random
rng = random.Random(0)

def release(present):
    return present + {noise} * rng.gauss(0, 1)

constant = 1.0
"""


@pytest.fixture
def mechanism(tmp_path: Path) -> Callable[[float], str]:
    def write(noise: float) -> str:
        path = tmp_path / "mine.py"
        path.write_text(MECHANISM.format(noise=noise))
        return f"{path}:release"

    return write


def test_a_mechanism_with_too_little_noise_is_refuted(invoke, mechanism) -> None:
    result = invoke("attack", mechanism(0.5), "--epsilon", "1", "--runs", "400")
    assert result.exit_code == 1
    assert "REFUTED" in result.stdout
    found = json.loads(invoke("attack", mechanism(0.5), "--runs", "400", "--json").stdout)
    assert found["refutes_claim"]
    assert found["epsilon"] > found["claimed"] == 3


def test_a_sound_mechanism_stands(invoke, mechanism) -> None:
    result = invoke("attack", mechanism(4.0), "--epsilon", "1", "--runs", "400", "--no-gaussian")
    assert result.exit_code == 0
    assert "no proof" in " ".join(result.stdout.split())


def test_the_packages_own_mechanism_stands(invoke) -> None:
    # Its noise cannot be seeded; a confidence this high makes false alarms impossible to meet.
    result = invoke("attack", "--runs", "60", "--confidence", "0.999999999", "--json")
    assert result.exit_code == 0
    assert not json.loads(result.stdout)["refutes_claim"]


@pytest.mark.parametrize("place", ["nowhere.py:release", "release", "{}:nothing", "{}:constant"])
def test_what_is_no_function_is_named(invoke, mechanism, place) -> None:
    file = mechanism(1.0).rpartition(":")[0]
    result = invoke("attack", place.format(file))
    assert result.exit_code == 2
    assert "function" in " ".join(result.stderr.split()).lower()
