"""Commands run inside this process, a small LIBSVM set and a small CSV of our own."""

import numpy as np
import pytest
from typer.testing import CliRunner

from proxyprox_app.cli import app


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PROXYPROX_DEBUG", raising=False)

    def call(*args):
        return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="proxyprox")

    return call


def two_classes(rows, seed=0):
    """Return inputs and noisy binary labels: two classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 5.0, 1.0, -2.0]
    y = (X[:, 0] - (X[:, 1] - 5) / 10 + rng.standard_normal(rows) > 0).astype(int)
    return X, y


@pytest.fixture
def no_figures(monkeypatch):
    """Skip the drawing, which takes longer than the runs; tests of the reports draw."""
    monkeypatch.setattr("proxyprox_app.demo.curves_svg", lambda *_: "")


@pytest.fixture
def csv(tmp_path):
    X, y = two_classes(80)
    lines = ["a,b,c,d,bought"] + [
        ",".join(f"{value:.6g}" for value in row) + f",{'yes' if label else 'no'}"
        for row, label in zip(X, y, strict=True)
    ]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


CONFIG = """
[model]
family = "logistic"
l2 = 1e-2
[target]
file = "rows.csv"
label = "bought"
[run]
batch_size = 16
"""


@pytest.fixture
def config(csv):
    path = csv.parent / "mine.toml"
    path.write_text(CONFIG)
    return path
