"""choose_way: what it trains, for how long, what it keeps, and what it refuses."""

import math

import pytest
import torch

from proxyprox.torch import choose_way


def test_three_runs_are_enough_and_the_best_wins():
    shares = []

    def train(candidate, share):
        shares.append(share)
        good = candidate.name == "growing" and candidate.confusion
        gain = 0.5 * good + 0.2 * (candidate.lr == 0.1)
        return torch.tensor([1.0, 1.2], requires_grad=True) - gain

    def elsewhere(function, *given):  # processes return no tensors with a graph
        for found in map(function, *given):
            assert type(found) is list
            yield found

    given = {"proxy_steps": (2, 8), "confusion": True, "map": elsewhere}
    choice = choose_way(train, [0.1, 0.2, 0.4], **given)
    assert sum(shares) <= 3 + 1e-9
    assert max(shares) > 0.3
    assert str(choice.candidate) == "growing, lr 0.1, 2 proxy steps, confusion"
    # Without proxy steps there is nothing to correct. Two ways are left for two more rates.
    assert sorted(map(shares.count, set(shares))) == [2, 6 + 2 * 2, 4 * 2 * 2 + 1]


def test_the_default_stays_unless_another_is_better_by_a_standard_error():
    def train(candidate, share):
        late = candidate.name == "late"
        return [0.50, 0.70] if late else [0.55, 0.60]

    choice = choose_way(train, [0.1], ["late", "growing"])
    assert choice.candidate.name == "late"
    assert choice.losses["growing, lr 0.1, 8 proxy steps"] < choice.losses[choice.way]


def test_finished_runs_are_kept(tmp_path):
    path, trained = tmp_path / "ways.json", []

    def train(candidate, share):
        trained.append(candidate.name)
        with pytest.raises(OSError, match="being written"):
            choose_way(lambda candidate, share: [1.0], [0.1], path=path)
        if candidate.name == "fine-tuned":
            raise KeyboardInterrupt
        return [1.0, math.nan] if candidate.name == "growing" else [1.0, 1.0]

    names = ["late", "growing", "fine-tuned"]
    with pytest.raises(KeyboardInterrupt):
        choose_way(train, [0.1], names, path=path)
    again = []
    choice = choose_way(
        lambda candidate, share: again.append(candidate.name) or [0.5, 0.5], [0.1], names, path=path
    )
    assert trained == names
    assert again == ["fine-tuned", "late", "fine-tuned"]
    assert choice.candidate.name == "late"
    path.write_text("no JSON")
    with pytest.raises(ValueError, match="path"):
        choose_way(train, [0.1], names, path=path)


def test_wrong_losses_and_arguments_are_refused():
    wrong = [
        (lambda candidate, share: [1.0] * len(candidate.name), "held-out"),
        (lambda candidate, share: [], "train"),
        (lambda candidate, share: torch.nn.Linear(1, 1), "train"),
        (lambda candidate, share: [math.nan, 1.0], "diverged"),
    ]
    for train, word in wrong:
        with pytest.raises((TypeError, ValueError), match=word):
            choose_way(train, [0.1])
    for name, options in {"ways": {"ways": []}, "way": {"ways": ["x"]}, "lrs": {"lrs": []}}.items():
        with pytest.raises(ValueError, match=name):
            choose_way(wrong[0][0], **{"lrs": [0.1], **options})
