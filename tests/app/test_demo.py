import html
import importlib
import json
import socket

import pytest

from proxyprox_app import demo

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.fixture
def tiny(monkeypatch):
    """Make the demonstration short, and keep it from the network."""

    def unreachable(*_):
        raise AssertionError("the demo used the network")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    for name, value in {"ROUNDS": 8, "ROWS": 2000, "COLUMNS": 5}.items():
        monkeypatch.setattr(demo, name, value)
    # The drawing takes longer than the runs.
    monkeypatch.setattr(demo, "curves_svg", lambda *_: "")


def test_words_and_files(invoke, tiny, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    result = invoke("demo", "--output", folder, "--seeds", "2")
    assert max(map(len, result.stdout.splitlines())) <= 80 + len(str(folder))
    assert "\x1b" not in result.stdout
    text, page = (
        " ".join(result.stdout.split()),
        html.unescape((folder / "report.html").read_text()),
    )
    for name in demo.PARTS:
        for words in (demo.TEXTS[name]["heading"], demo.TEXTS[name]["who"]):
            assert words in text
            assert words in page
    assert text.count("of 2 draws") == len(demo.PARTS)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["command"] == f"proxyprox demo --output {folder} --seeds 2"
    assert [part["heading"] for part in summary["parts"]] == [
        demo.TEXTS[name]["heading"] for name in demo.PARTS
    ]

    real = importlib.import_module
    monkeypatch.setattr(
        importlib, "import_module",
        lambda name, *rest: real("no_such_module" if name == "jinja2" else name, *rest),
    )  # fmt: skip
    result = invoke("demo", "--output", folder, "--seeds", "1", code=2)
    assert 'pip install "proxyprox[app]"' in " ".join(result.stderr.split())


def test_the_proxy_saves_rounds():
    gaps = {p["method"]: p["gap"] for p in demo.rounds(0) if p["rounds"] == demo.ROUNDS}
    ours = gaps.pop(demo.OURS)
    assert ours < min(gap for method, gap in gaps.items() if not method.startswith("Newton"))
