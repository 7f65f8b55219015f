"""The experiment in miniature: from configuration to report, with interruptions."""

import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from experiments.cifar10 import PAPER, TINY, Config, Recipe  # noqa: E402
from experiments.cifar10 import run as experiment  # noqa: E402
from experiments.cifar10.results import COSTS, sentences  # noqa: E402

SMALL = {"batch_size": 16, "proxy_size": 32, "inner_steps": 2}
RECIPES = (
    Recipe("SGD", "sgd", lr=0.1, batch_size=16),
    Recipe("ProxyProx", **SMALL),
    Recipe("interleaved", "interleaved", lr=1e-3, batch_size=16, proxy_size=32, interleave=2),
    Recipe("proxy alone", "sgd", lr=0.1, batch_size=16, proxy_size=32, source="proxy"),
)  # fmt: skip
CONFIG = replace(
    TINY, recipes=RECIPES, passes=1.0, width=4, train_images=96, test_images=32,
    train_evaluation=32, image_size=8,
)  # fmt: skip


def test_from_configuration_to_report(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    lines = []
    records = experiment.run(CONFIG, tmp_path, device="cpu", progress=lines.append)
    assert len(lines) == len(RECIPES)
    for name in ("records.jsonl", "summary.json", "figure_passes.png", "report.html"):
        assert (tmp_path / name).stat().st_size > 500, name
    ends = {p["method"]: p for p in records if p["passes"] == 1.0}
    assert set(ends) == {recipe.name for recipe in RECIPES}
    assert ends["SGD"]["residual"] is None
    assert ends["ProxyProx"]["residual"] > 0
    assert ends["ProxyProx"]["proxy_sampled_gradients"] == 6 * 2
    assert ends["interleaved"]["proxy_sampled_gradients"] == 6 * 2
    assert "validation_loss" not in ends["SGD"]
    assert {name for name, p in ends.items() if p["target_samples"] != 96} == {"proxy alone"}
    rows = json.loads((tmp_path / "summary.json").read_text())["rows"]
    assert {row["panel"] for row in rows} == {"train loss", "test accuracy", "‖∇φₖ(wₖ₊₁)‖"}
    # A second call finds everything done.
    assert experiment.run(CONFIG, tmp_path, device="cpu", report=False) == records


def test_a_run_that_was_cut_short_says_so():
    def point(method, passes, accuracy):
        costs = dict.fromkeys(COSTS, 0)
        return {"method": method, "passes": passes, "seed": 0, "test_accuracy": accuracy, **costs}

    records = [point("A", 4.99968, 0.8), point("B", 5.0, 0.9), point("C", 1.25088, 0.7)]
    assert sentences(records)[0] == (
        "After 5 passes over the target data the median test accuracy is: B 0.900; A 0.800; "
        "C 0.700 (after 1.25)."
    )


def test_configurations_are_checked():
    for make, words in (
        (lambda: Recipe("x", anchor_batch=100), "anchor_batch"),
        (lambda: Recipe("x", "lion"), "optimizer"),
        (lambda: Config(recipes=(PAPER[0], PAPER[0])), "recipes"),
        (lambda: Config(image_size=7), "image_size"),
        (lambda: Config(data="mnist"), "data"),
    ):
        with pytest.raises(ValueError, match=f"^{words} must be"):
            make()
