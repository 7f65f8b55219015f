"""Schedules by hand and the library's ways, in miniature."""

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from experiments.generator import generate
from experiments.networks import SELECT, plan
from experiments.ways import cases
from experiments.ways.jobs import REPORTED, best, report, small
from experiments.ways.pool import key, read
from experiments.ways.recipes import HAND, by_hand, run


@pytest.mark.parametrize("kind", HAND)
def test_schedules_by_hand_spend_what_they_say(kind):
    steps, k = 20, 4
    found = list(by_hand(kind, steps, k))
    target, proxy = sum(step[0] for step in found), sum(step[1] for step in found)
    assert target == steps
    assert proxy == (0 if kind == "adamw" else steps * k)
    rates = [step[2] for step in found]
    assert max(rates) <= 1
    assert rates[-1] < 0.05


def test_images_in_miniature():
    job = {"case": "cifar-1", "lr": 1e-3, "k": 2, "seed": 0, "validation": True}
    for recipe in ("hand:late2*2", "ours:default"):
        found = run({**job, "recipe": recipe}, "cpu", tiny=True)
        assert 0 < found["validation_loss"] < 10
        assert 0 <= found["test_accuracy"] <= 1


def test_settings_are_chosen_on_held_out_rows():
    rows = [
        {"case": "a", "k": 8, "recipe": f"hand:{r}", "lr": 0.1, "seed": 1, "validation_loss": loss}
        for r, loss in (("x", 1.0), ("y", 0.5))
    ]
    assert best(rows, "hand")["a", 8]["recipe"] == "hand:y"
    tried = small()
    assert {job["seed"] for job in tried} == {SELECT}
    found = report([{**job, "validation_loss": job["lr"]} for job in tried])
    assert {job["seed"] for job in found} == {*REPORTED}
    assert {(job["case"], job["k"]) for job in found} == {(job["case"], job["k"]) for job in tried}
    labels = cases.torch.arange(1000) % 10
    wrong = (cases.wrong_labels(labels, "pair", 0.45, 0) != labels).float().mean()
    assert 0.4 < float(wrong) < 0.5


def test_what_a_gpu_is_asked_for():
    rows = []
    while todo := plan(rows):
        assert all(job["seed"] in (0, 1, 2, SELECT) for job in todo)
        rows += [{**job, "validation_loss": len(job["recipe"])} for job in todo]
    tried = [row for row in rows if row.get("validation")]
    assert {row["seed"] for row in tried} == {SELECT}
    reported = {row["case"] for row in rows if row["seed"] in (0, 1, 2)}
    assert {"cifar-5", "cifar-500-uniform-matrix", "text-part"} <= reported


def test_images_of_a_generator():
    pixels = np.zeros((20, 32, 32, 3), dtype=np.uint8)
    images, labels = generate(
        pixels, np.arange(20) % 10, steps=3, count=12, tiny=True, device="cpu"
    )
    assert images.shape == (12, 32, 32, 3)
    assert labels.tolist() == [*range(10), 0, 1]


@pytest.mark.slow
def test_the_command_in_miniature_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "experiments.networks", str(path), "--tiny", "--seconds", "20"]
    before = 0
    for _ in range(2):
        subprocess.run(command, capture_output=True, text=True, check=True)
        found = read(path)
        assert len(found) == len(set(map(key, found))) > before
        before = len(found)
