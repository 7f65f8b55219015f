"""A small LIBSVM set, and figures that are not drawn."""

import numpy as np
import pytest


def table(rows, seed=0):
    """Return inputs and noisy binary labels: two classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 5.0, 1.0, -2.0]
    y = (X[:, 0] - (X[:, 1] - 5) / 10 + rng.standard_normal(rows) > 0).astype(int)
    return X, y


@pytest.fixture
def no_figures(monkeypatch):
    """Skip the drawing, which takes longer than the runs; tests of the reports draw."""
    monkeypatch.setattr("experiments.figures.save_figures", lambda *_, **__: [])
    for name in ("plot_svg", "glyph"):
        monkeypatch.setattr(f"experiments.report.figures.{name}", lambda *_: "")


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """Return a folder, named by PROXYPROX_DATA, with the set ``tiny`` and nothing to download."""
    X, y = table(160)
    lines = [
        f"{label + 1} " + " ".join(f"{j + 1}:{value:.6g}" for j, value in enumerate(row))
        for row, label in zip(X, y, strict=True)
    ]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "tiny.svm").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PROXYPROX_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder
