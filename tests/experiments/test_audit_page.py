from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics import Audit, audit, plan
from proxyprox.experiments.figures import path_figure, prediction_figure, spectra_figure
from proxyprox.experiments.page import audit_values, write_audit_page

EVIL = '</script><script>alert("x")</script>&<b>'


@pytest.fixture(scope="module")
def found() -> Audit:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)) * np.geomspace(1, 0.1, 6)
    y = X.sum(axis=1) + rng.logistic(size=200) > 0
    target = pp.logistic_regression(X, y, l2=1e-2, batch_size=32)
    return audit(pp.Problem(target, target.subsample(60, rng=1)), rng=0)


@pytest.fixture(scope="module")
def text(found: Audit, tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("plotly")
    path = write_audit_page(
        tmp_path_factory.mktemp("audit"), found, plan(found), title=f"An audit {EVIL}",
        command=f"proxyprox audit {Path.home()}/x.toml", config={"model": {"name": EVIL}},
    )  # fmt: skip
    assert path.name == "audit.html"
    return path.read_text(encoding="utf-8")


def embedded(text: str) -> Any:
    return json.loads(re.search(r'id="figures-data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_says_what_was_found(text: str, found: Audit) -> None:
    for words in (
        html.escape(found.sentence),
        "Estimates",
        "Point by point",
        "A plan",
        "What the audit cost",
    ):
        assert words in text
    assert text.count('class="plot"') == len(embedded(text)["figures"]) == 3


def test_nothing_is_fetched_and_nothing_is_injected(text: str) -> None:
    assert "default-src 'none'" in text
    assert EVIL not in text
    # The plotting library names addresses that it never asks for.
    assert not re.search(r'(?:src|href)="https?:', text.split("<script>")[0])
    assert str(Path.home()) not in text


def test_figures_hold_the_numbers(found: Audit) -> None:
    spectra = spectra_figure(found)
    assert spectra["traces"][0]["y"][0] == pytest.approx(found.points[-1].H.estimate)
    assert spectra["traces"][1]["y"][0] == pytest.approx(found.points[-1].delta.estimate)
    path = path_figure(found)
    assert len(path["traces"][0]["x"]) == len(found.points)
    assert len(path["traces"][2]["x"]) == len(found.path)
    bars = prediction_figure(found)["traces"][0]
    assert bars["y"][0] == found.prediction.rehearsed_sgd.steps
    assert bars["y"][1] is None


def test_values_are_json(found: Audit) -> None:
    values = json.loads(json.dumps(audit_values(found, plan(found)), allow_nan=False))
    assert values["verdict"] == found.verdict.name
    assert values["delta"]["estimate"] == found.delta.estimate
    assert "plan" not in audit_values(found)
