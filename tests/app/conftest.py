"""Commands run inside this process, a small LIBSVM set and a small CSV of our own."""

import pytest
from typer.testing import CliRunner

from proxyprox_app.cli import app
from tests.experiments.conftest import table


@pytest.fixture
def invoke(monkeypatch):
    """Return a function that runs a command and requires its exit code, any if None is given."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PROXYPROX_DEBUG", raising=False)

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args], prog_name="proxyprox")
        assert code in (None, done.exit_code), (args, done.output)
        return done

    return call


@pytest.fixture
def csv(tmp_path):
    X, y = table(80)
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
