"""ProxyAdamW: its steps against steps written by hand, its comparison, its saved state."""

from __future__ import annotations

import copy
import io
import math
import warnings

import pytest
import torch
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import LambdaLR

from proxyprox.torch import NonFiniteError, Proxy, ProxyAdamW, ProxyStepWarning, choose_way

torch.set_num_threads(1)
X = torch.randn(96, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tanh(X @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]]))
WAYS = ("mixed", "corrected", "fine-tuned", "target alone")
OPTIONS = {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}


def network(*, normalised=False):
    torch.manual_seed(1)
    middle = [torch.nn.BatchNorm1d(8)] if normalised else []
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), *middle, torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )


def batches(first, last, labels=Y, size=8):
    return [(X[i : i + size], labels[i : i + size]) for i in range(first, last, size)]


def parts(way="mixed", *, labels=Y, normalised=False, **options):
    model = network(normalised=normalised)

    def loss(batch):
        return mse_loss(model(batch[0]), batch[1])

    proxy = Proxy(batches(0, 32, labels), loss)
    chosen = {**OPTIONS, "proxy_steps": 3, "target_weight": 2.5, **options}
    optimizer = ProxyAdamW(model.parameters(), proxy=proxy, way=way, model=model, **chosen)
    return model, loss, optimizer


def factor(k):
    return (k + 1) / 5 if k < 4 else (1 + math.cos(math.pi * min(1.0, k / 40))) / 2


def train(model, loss, optimizer, steps, start=0, scheduler=None):
    scheduler = scheduler or LambdaLR(optimizer, factor)
    target = batches(32, 64)
    for k in range(start, start + steps):
        optimizer.zero_grad()
        loss(target[k % 4]).backward()
        optimizer.step()
        scheduler.step()
    return scheduler


def weights(model):
    return torch.cat([v.detach().double().flatten() for v in model.state_dict().values()])


def by_hand(way, steps, theta=0.3, a=0.2):
    model = network()

    def loss(batch):
        return mse_loss(model(batch[0]), batch[1])

    params, adamw = list(model.parameters()), torch.optim.AdamW(model.parameters(), **OPTIONS)
    scheduler, cheap = LambdaLR(adamw, factor), 0
    estimate, peak = None, 0.0

    def gradient(batch):
        return torch.autograd.grad(loss(batch), params)

    def step(found):
        for p, g in zip(params, found, strict=True):
            p.grad = g
        adamw.step()

    for k in range(steps):
        lr = adamw.param_groups[0]["lr"]
        peak = max(peak, lr)
        share = lr / peak
        inner = {"corrected": 3, "mixed": 3, "fine-tuned": round(3 * max(0.0, 2 * share - 1))}
        inner = inner.get(way, 0)
        g = gradient(batches(32, 64)[k % 4])
        if way == "corrected":
            new = [x - y for x, y in zip(g, gradient(batches(0, 32)[cheap % 4]), strict=True)]
            cheap += 1
            estimate = new if estimate is None else [
                (1 - a) * m + a * d for m, d in zip(estimate, new, strict=True)
            ]  # fmt: skip
        step([2.5 * x for x in g] if way in ("mixed", "corrected") else g)
        for _ in range(inner):
            g = gradient(batches(0, 32)[cheap % 4])
            cheap += 1
            step(
                g if estimate is None else [x + theta * m for x, m in zip(g, estimate, strict=True)]
            )
        scheduler.step()
    return model


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_what_it_says(way):
    model, loss, optimizer = parts(way)
    train(model, loss, optimizer, 30)
    torch.testing.assert_close(weights(model), weights(by_hand(way, 30)), rtol=1e-5, atol=1e-6)
    assert optimizer.ledger.target_gradients == 30


def test_target_alone_is_adamw_bit_for_bit():
    model, loss, optimizer = parts("target alone")
    train(model, loss, optimizer, 12)
    assert torch.equal(weights(model), weights(by_hand("target alone", 12)))


def held_out_losses(way, labels, steps=40):
    model, loss, optimizer = parts(way, labels=labels, lr=0.05)
    train(model, loss, optimizer, steps)
    with torch.no_grad():
        return [loss(batch).item() for batch in batches(64, 96, size=4)]


def test_held_out_rows_refuse_a_useless_proxy_and_prefer_a_good_one():
    useless = choose_way(lambda way: held_out_losses(way, -3 * Y))
    assert useless.way == "target alone"
    assert useless.gaps["corrected"][0] > 2 * useless.gaps["corrected"][1]
    good = choose_way(lambda way: held_out_losses(way, Y), ["target alone", "mixed", "corrected"])
    assert good.way in ("corrected", "mixed")
    assert "target alone +" in str(good)


def test_held_out_losses_may_be_tensors_with_a_graph():
    losses = torch.ones(3, requires_grad=True)
    found = choose_way(lambda way: losses * len(way), ["mixed", "corrected"])
    assert (found.way, found.gaps["corrected"]) == ("mixed", (4.0, 0.0))


def test_finished_ways_are_not_trained_again(tmp_path):
    path, trained = tmp_path / "ways.json", []

    def train_once(way):
        trained.append(way)
        if way == "fine-tuned":
            raise KeyboardInterrupt
        return [float(len(way)), math.nan if way == "corrected" else 1.0]

    with pytest.raises(KeyboardInterrupt):
        choose_way(train_once, path=path)
    found = choose_way(lambda way: [1.0, 2.0], path=path)
    assert trained == ["mixed", "corrected", "fine-tuned"]
    assert found.losses["mixed"] == 3.0
    assert found.losses["corrected"] > 1e9  # one loss was not finite
    assert found.way == "fine-tuned"


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "ways.json"
    path.write_text("no JSON")
    with pytest.raises(ValueError, match="path"):
        choose_way(lambda way: [1.0], path=path)


def test_a_file_of_ways_has_one_writer(tmp_path):
    path = tmp_path / "ways.json"

    def train(way):
        with pytest.raises(OSError, match="being written"):
            choose_way(lambda way: [1.0], path=path)
        return [1.0]

    assert choose_way(train, path=path).way == "mixed"


def test_wrong_losses_and_ways_are_refused():
    with pytest.raises(ValueError, match="ways"):
        choose_way(lambda way: [1.0], ["both"])
    with pytest.raises(ValueError, match="held-out"):
        choose_way(lambda way: [1.0] * len(way))
    with pytest.raises(ValueError, match="train"):
        choose_way(lambda way: [])
    with pytest.raises(TypeError, match="held-out rows"):
        choose_way(lambda way: torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match="diverged"):
        choose_way(lambda way: [math.nan, 1.0])
    chosen = choose_way(lambda way: [1.0])
    with pytest.raises(TypeError, match=r"choice\.way"):
        ProxyAdamW([torch.zeros(1)], proxy=lambda: None, way=chosen)


def test_a_way_that_diverged_and_a_single_loss_are_told_as_such():
    found = choose_way(lambda way: [0.5, math.nan if way == "mixed" else 0.6])
    assert found.way != "mixed"
    assert "mixed diverged" in str(found)
    alone = str(choose_way(lambda way: 0.1 * len(way), ["mixed", "corrected"]))
    assert "nan" not in alone
    assert "standard error" not in alone


@pytest.mark.parametrize("stop", [1, 6, 25])
@pytest.mark.parametrize("way", WAYS[:3])
def test_resumed_runs_are_the_same_bit_for_bit(way, stop):
    model, loss, optimizer = parts(way, normalised=True)
    scheduler = train(model, loss, optimizer, stop)
    file = io.BytesIO()
    saved = (model.state_dict(), optimizer.state_dict(), scheduler.state_dict())
    torch.save(copy.deepcopy(saved), file)
    train(model, loss, optimizer, 40 - stop, stop, scheduler)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other, loss, again = parts(way, normalised=True)
    scheduler = LambdaLR(again, factor)
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    scheduler.load_state_dict(saved[2])
    train(other, loss, again, 40 - stop, stop, scheduler)
    assert torch.equal(weights(model), weights(other))
    assert again.ledger.target_gradients == 40


def test_too_long_proxy_steps_are_said():
    model = torch.nn.Linear(4, 1)
    proxy = Proxy(batches(0, 32), lambda b: mse_loss(model(b[0]), b[1]))
    optimizer = ProxyAdamW(model.parameters(), lr=30.0, proxy=proxy, model=model, way="mixed")
    target = batches(32, 64)

    def run():
        for k in range(101):
            optimizer.zero_grad()
            mse_loss(model(target[k % 4][0]), target[k % 4][1]).backward()
            optimizer.step()

    with pytest.warns(ProxyStepWarning, match="lr"):
        run()


def test_sound_proxy_steps_are_not_warned_of():
    model, loss, optimizer = parts("corrected")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ProxyStepWarning)
        train(model, loss, optimizer, 160)


def test_a_proxy_that_is_not_finite_leaves_the_weights():
    model, loss, optimizer = parts("mixed")
    train(model, loss, optimizer, 3)
    before = weights(model)
    optimizer.proxy.loss_of = lambda batch: loss(batch) * math.nan
    loss(batches(32, 64)[0]).backward()
    with pytest.raises(NonFiniteError):
        optimizer.step()
    assert torch.equal(weights(model), before)


def test_metrics():
    model, loss, optimizer = parts("corrected")
    train(model, loss, optimizer, 3)
    found = optimizer.metrics()
    assert found["theta"] == pytest.approx((2.5 + 0.3 * 3) / 5.5)
    assert found["displacement"] > 0
    assert found["residual"] > 0
    assert found["proxy_sampled_gradients"] == 12


def test_groups_and_closures():
    model, loss, _ = parts()
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}]
    proxy = Proxy(batches(0, 32), loss)
    optimizer = ProxyAdamW(groups, 0.01, proxy=proxy, model=model, weight_decay=0.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.01]

    def closure():
        optimizer.zero_grad()
        value = loss(batches(32, 64)[0])
        value.backward()
        return value

    losses = [optimizer.step(closure).item() for _ in range(20)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"proxy": None}, "proxy"),
        ({"way": "both"}, "way"),
        ({"proxy_steps": 0}, "proxy_steps"),
        ({"correction_weight": 1.5}, "correction_weight"),
        ({"averaging": 0}, "averaging"),
        ({"target_weight": 0}, "target_weight"),
        ({"model": torch.nn.Linear(2, 2)}, "model"),
        ({"proxy_mode": "still"}, "proxy_mode"),
    ],
)
def test_wrong_arguments_are_named(options, word):
    model = network()
    proxy = Proxy(batches(0, 32), lambda b: mse_loss(model(b[0]), b[1]))
    with pytest.raises((TypeError, ValueError), match=word):
        ProxyAdamW(model.parameters(), **{"proxy": proxy, **options})


def test_a_state_of_another_optimiser_is_refused():
    model, _, optimizer = parts()
    with pytest.raises(ValueError, match="state_dict"):
        optimizer.load_state_dict(torch.optim.AdamW(model.parameters()).state_dict())


def test_a_state_of_another_way_is_warned_of():
    model, loss, optimizer = parts("corrected")
    train(model, loss, optimizer, 2)
    _, _, other = parts("mixed")
    with pytest.warns(UserWarning, match="way"):
        other.load_state_dict(optimizer.state_dict())
