import json

import pytest

pytest.importorskip("torch")


def test_tiny_writes_the_usual_folder_and_is_reused(invoke, tmp_path):
    command = ["reproduce", "cifar10", "--tiny", "--passes", "0.2", "--json", "-o", str(tmp_path)]
    first = invoke(*command)
    assert first.exit_code == 0, first.stderr
    found = json.loads(first.stdout)["findings"]
    assert "test accuracy" in found[0]
    for name in ("records.jsonl", "summary.json", "report.html"):
        assert (tmp_path / name).stat().st_size > 0
    before = (tmp_path / "records.jsonl").read_bytes()
    again = invoke(*command)
    assert again.exit_code == 0
    # Finished runs are not done again, or their seconds would differ.
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_data_that_is_not_there_is_one_message(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("PROXYPROX_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = invoke("reproduce", "cifar10", "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "CIFAR-10" in result.stderr
    assert "Traceback" not in result.stderr


def test_interrupted_it_says_how_to_go_on(invoke, tmp_path, monkeypatch):
    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("proxyprox.experiments.cifar10.run.run", stopped)
    result = invoke("reproduce", "cifar10", "--tiny", "-o", tmp_path)
    assert result.exit_code == 130
    assert "kept in" in result.stderr
    said = " ".join(result.stderr.split())
    assert "To go on: proxyprox reproduce cifar10" in said
    assert "--tiny" in said
