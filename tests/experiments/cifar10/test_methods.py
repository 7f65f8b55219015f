"""Rivals and ours on few clean images with wrong labels around them."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from torch.nn.functional import cross_entropy  # noqa: E402

from experiments.cifar10 import TINY, Recipe  # noqa: E402
from experiments.cifar10 import run as experiment  # noqa: E402
from experiments.cifar10.task import Task  # noqa: E402
from experiments.cifar10.training import Training  # noqa: E402

SMALL = {"lr": 1e-3, "batch_size": 16}
OURS = {**SMALL, "inner_steps": 2, "correction_weight": 0.5}
RECIPES = (
    Recipe("target alone", "adamw", **SMALL),
    Recipe("proxy alone", "adamw", source="proxy", **SMALL),
    Recipe("fine-tuned", "adamw", source="fine-tuned", tune_lr=1e-4, pretrain=0.6, **SMALL),
    Recipe("mixed", "adamw", source="mixed", mix=0.25, mix_weight=0.5, forward=True, **SMALL),
    Recipe("interleaved", "interleaved", interleave=2, momentum=0.9, **SMALL),
    Recipe(
        "AdamW with a proxy",
        "proxyadamw",
        **SMALL,
        inner_steps=2,
        correction_weight=0.5,
        corrected=True,
    ),
    Recipe(
        "everything at once", correction="ema", average=0.5, refresh=2, augment=True,
        proxy_augment=True, label_smoothing=0.1, inner_steps=2, inner_lr_end=0.001,
        inner_steps_end=1, schedule="linear", batch_size=16,
    ),
    Recipe("ours", correction="plain", weight_decay=0.1, warmup=0.2, average=0.5, **OURS),
)  # fmt: skip
CONFIG = replace(
    TINY, recipes=RECIPES, passes=1.0, width=4, train_images=192, test_images=32, clean=40,
    noise="pair", train_evaluation=32, image_size=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def images():
    return experiment.device_data(CONFIG, "cpu")[:2]


def flattened(training):
    return torch.cat([p.detach().flatten() for p in training.params])


# All gradients count: 192 images in batches of 16.
USED = {
    "target alone": (192, 0),
    "proxy alone": (0, 192),
    "fine-tuned": (5 * 16, 7 * 16),
    "mixed": (12 * 4, 12 * 12),
    "interleaved": (4 * 16, 8 * 16),
    # Two proxy steps and a correction.
    "AdamW with a proxy": (3 * 16, 9 * 16),
    "ours": (16, 2 * 16 + 144),
}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.name)
def test_equal_work_and_resumption(tmp_path, images, recipe):
    whole = Training(CONFIG, recipe, 0, *images)
    expected = whole.run()
    last = expected[-1]
    used = last["target_samples"], last["proxy_samples"]
    assert used == USED.get(recipe.name, used)
    assert last["passes"] == pytest.approx(sum(used) / 192, abs=1e-5) == pytest.approx(1, abs=0.2)
    assert 0 <= last["validation_accuracy"] <= 1
    assert last["validation_loss"] > 0
    first = Training(CONFIG, recipe, 0, *images)
    first.run(tmp_path / "c.pt", stop=lambda: first.step >= whole.step // 2)
    second = Training(CONFIG, recipe, 0, *images)
    assert second.load(tmp_path / "c.pt")
    found = second.run()
    assert [{**p, "seconds": 0} for p in found] == [{**p, "seconds": 0} for p in expected]
    assert torch.equal(flattened(second), flattened(whole))
    other = Training(replace(CONFIG, noise="uniform"), recipe, 0, *images)
    assert not other.load(tmp_path / "c.pt"), "another task's checkpoint is not taken"


def test_clean_noisy_and_held_out_images(images):
    train, _ = images
    task, again = (Task(CONFIG, recipe, 3, train) for recipe in RECIPES[:2])
    parts = [set(part.tolist()) for part in (task.target, task.validation, task.proxy)]
    assert [len(part) for part in parts] == [32, 8, 144]
    assert len(set.union(*parts)) == 184, "they are disjoint; the incomplete last batch is left out"
    right, given = train.labels, task.data.labels
    clean = torch.cat([task.target, task.validation])
    assert torch.equal(given[clean], right[clean])
    wrong = (given != right)[task.proxy]
    assert 0.3 < wrong.float().mean() < 0.6
    assert torch.equal(given[task.proxy][wrong], (right[task.proxy][wrong] + 1) % 10)
    assert torch.equal(again.data.labels, given), "every recipe sees the same labels"
    other = Task(CONFIG, RECIPES[0], 4, train)
    assert not torch.equal(other.data.labels, given)
    assert torch.equal(train.labels, right), "the right labels stay"


def test_the_forward_loss_is_the_likelihood_of_the_given_labels(images):
    task = Task(CONFIG, RECIPES[3], 0, images[0])
    target, proxy = task.target[:2], task.proxy[:2]
    plan = task.data.plain_plan(torch.cat([target, proxy]))
    scores, labels = torch.randn(4, 10, generator=torch.Generator().manual_seed(0)), torch.arange(4)
    found = cross_entropy(task.forward(scores, plan), labels, reduction="none")
    torch.testing.assert_close(found[:2], cross_entropy(scores[:2], labels[:2], reduction="none"))
    assert not torch.allclose(found[2:], cross_entropy(scores[2:], labels[2:], reduction="none"))
    everything = task.forward(scores, plan).exp().sum(1)
    torch.testing.assert_close(everything, torch.ones(4))
