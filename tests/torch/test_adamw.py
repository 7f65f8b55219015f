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

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tanh(X @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]]))
OPTIONS = {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}
CHEAP, TARGET = ([(X[i : i + 8], Y[i : i + 8]) for i in range(at, at + 32, 8)] for at in (0, 32))


def network(*, normalised=False):
    torch.manual_seed(1)
    middle = [torch.nn.BatchNorm1d(8)] if normalised else []
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), *middle, torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )


def parts(way="mixed", model=None, **options):
    model = model or network()

    def loss(batch):
        return mse_loss(model(batch[0]), batch[1])

    given = {"proxy": Proxy(CHEAP, loss), "way": way, "model": model, **OPTIONS}
    given |= {"proxy_steps": 3, "target_weight": 2.5, **options}
    return model, loss, ProxyAdamW(model.parameters(), **given)


def factor(k):
    return (k + 1) / 5 if k < 4 else (1 + math.cos(math.pi * min(1.0, k / 16))) / 2


def train(loss, optimizer, steps, start=0, scheduler=None):
    scheduler = scheduler or LambdaLR(optimizer, factor)
    for k in range(start, start + steps):
        optimizer.zero_grad()
        loss(TARGET[k % 4]).backward()
        optimizer.step()
        scheduler.step()
    return scheduler


def weights(model):
    return torch.cat([v.detach().double().flatten() for v in model.state_dict().values()])


def by_hand(way, steps, theta=0.3, a=0.2):
    model = network()
    params, adamw = list(model.parameters()), torch.optim.AdamW(model.parameters(), **OPTIONS)
    scheduler, cheap, estimate, peak = LambdaLR(adamw, factor), 0, None, 0.0

    def gradient(batch):
        return torch.autograd.grad(mse_loss(model(batch[0]), batch[1]), params)

    def step(found):
        for p, g in zip(params, found, strict=True):
            p.grad = g
        adamw.step()

    for k in range(steps):
        lr = adamw.param_groups[0]["lr"]
        peak = max(peak, lr)
        fewer = round(3 * max(0.0, 2 * lr / peak - 1))
        inner = {"corrected": 3, "mixed": 3, "fine-tuned": fewer, "target alone": 0}[way]
        g = gradient(TARGET[k % 4])
        if way == "corrected":
            new = [x - y for x, y in zip(g, gradient(CHEAP[cheap % 4]), strict=True)]
            cheap += 1
            old = new if estimate is None else estimate
            estimate = [(1 - a) * m + a * d for m, d in zip(old, new, strict=True)]
        step([2.5 * x for x in g] if way in ("mixed", "corrected") else g)
        for _ in range(inner):
            g = gradient(CHEAP[cheap % 4])
            cheap += 1
            step([x + theta * m for x, m in zip(g, estimate, strict=True)] if estimate else g)
        scheduler.step()
    return weights(model)


@pytest.mark.parametrize("way", ["mixed", "corrected", "fine-tuned", "target alone"])
def test_each_way_is_what_it_says(way):
    model, loss, optimizer = parts(way)
    train(loss, optimizer, 12)
    expected = by_hand(way, 12)
    torch.testing.assert_close(weights(model), expected, rtol=1e-5, atol=1e-6)
    assert way != "target alone" or torch.equal(weights(model), expected)
    found, inner = optimizer.metrics(), {"mixed": 36, "corrected": 48, "target alone": 0}
    assert found["target_gradients"] == 12
    assert found["proxy_sampled_gradients"] == inner.get(way, 21)
    share = {"mixed": 2.5 / 5.5, "corrected": (2.5 + 0.3 * 3) / 5.5}
    assert found["theta"] == pytest.approx(share.get(way, 1.0))
    assert found["displacement"] > 0


def test_the_way_of_least_held_out_loss(tmp_path):
    path, trained = tmp_path / "ways.json", []

    def train_once(way):
        trained.append(way)
        with pytest.raises(OSError, match="being written"):
            choose_way(lambda way: [1.0], path=path)
        if way == "fine-tuned":
            raise KeyboardInterrupt
        return [float(len(way)), math.nan if way == "corrected" else 1.0]

    with pytest.raises(KeyboardInterrupt):
        choose_way(train_once, path=path)
    found = choose_way(lambda way: torch.tensor([1.0, 2.0], requires_grad=True), path=path)
    assert trained == ["mixed", "corrected", "fine-tuned"]
    assert (found.way, found.losses["mixed"], found.losses["corrected"]) == (
        "fine-tuned", 3.0, math.inf,
    )  # fmt: skip
    assert found.errors["mixed"] == pytest.approx(2.5)
    assert found.rivals == ["mixed", "target alone"]
    assert "corrected diverged" in str(found)
    assert "mixed +1.5 ± 2.5" in str(found)
    alone = str(choose_way(lambda way: 0.1 * len(way), ["mixed", "corrected"]))
    assert "nan" not in alone
    assert "standard error" not in alone
    path.write_text("no JSON")
    with pytest.raises(ValueError, match="path"):
        choose_way(lambda way: [1.0], path=path)


@pytest.mark.parametrize(
    ("returned", "word"),
    [
        (lambda way: [1.0] * len(way), "held-out"),
        (lambda way: [], "train"),
        (lambda way: torch.nn.Linear(1, 1), "train"),
        (lambda way: [math.nan, 1.0], "diverged"),
    ],
)
def test_wrong_losses_are_refused(returned, word):
    with pytest.raises((TypeError, ValueError), match=word):
        choose_way(returned)
    for ways in (["both"], []):
        with pytest.raises(ValueError, match="ways"):
            choose_way(lambda way: [1.0], ways)


@pytest.mark.parametrize(("way", "stop"), [("mixed", 1), ("corrected", 6), ("fine-tuned", 9)])
def test_resumed_runs_are_the_same_bit_for_bit(way, stop):
    model, loss, optimizer = parts(way, network(normalised=True))
    scheduler = train(loss, optimizer, stop)
    file = io.BytesIO()
    saved = (model.state_dict(), optimizer.state_dict(), scheduler.state_dict())
    torch.save(copy.deepcopy(saved), file)
    train(loss, optimizer, 14 - stop, stop, scheduler)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other, loss, again = parts(way, network(normalised=True))
    scheduler = LambdaLR(again, factor)
    for part, state in zip((other, again, scheduler), saved, strict=True):
        part.load_state_dict(state)
    train(loss, again, 14 - stop, stop, scheduler)
    assert torch.equal(weights(model), weights(other))
    assert again.ledger.target_gradients == 14


@pytest.mark.parametrize(("lr", "warned"), [(30.0, True), (0.02, False)])
def test_too_long_proxy_steps_are_said(lr, warned):
    given = {"lr": lr, "proxy_steps": 8, "weight_decay": 0.0, "betas": (0.9, 0.999)}
    _, loss, optimizer = parts("mixed", torch.nn.Linear(4, 1), **given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(loss, optimizer, 77, scheduler=LambdaLR(optimizer, lambda k: 1.0))
    assert [one.category for one in caught] == [ProxyStepWarning] * warned


def test_a_proxy_that_is_not_finite_leaves_the_weights():
    model, loss, optimizer = parts()
    train(loss, optimizer, 3)
    before, sound = weights(model), optimizer.proxy.loss_of
    optimizer.proxy.loss_of = lambda batch: loss(batch) * math.nan
    loss(TARGET[0]).backward()
    with pytest.raises(NonFiniteError):
        optimizer.step()
    assert torch.equal(weights(model), before)
    optimizer.proxy.loss_of = sound
    train(loss, optimizer, 3)
    assert torch.isfinite(weights(model)).all()


def test_groups_and_closures():
    model, loss, _ = parts()
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}]
    optimizer = ProxyAdamW(groups, 0.01, proxy=Proxy(CHEAP, loss), model=model, weight_decay=0.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.01]

    def closure():
        optimizer.zero_grad()
        value = loss(TARGET[0])
        value.backward()
        return value

    losses = [optimizer.step(closure).item() for _ in range(10)]
    assert losses[-1] < losses[0]


def test_wrong_arguments_are_named():
    model, loss, _ = parts()
    given = {"params": list(model.parameters()), "proxy": Proxy(CHEAP, loss), "model": model}
    wrong = {"proxy": None, "way": "both", "proxy_steps": 0, "correction_weight": 1.5}
    wrong |= {"averaging": 0, "target_weight": 0, "model": torch.nn.Linear(2, 2)}
    for name, value in {**wrong, "proxy_mode": "still"}.items():
        with pytest.raises((TypeError, ValueError), match=name):
            ProxyAdamW(**{**given, name: value})
    with pytest.raises(TypeError, match=r"choice\.way"):
        parts(choose_way(lambda way: [1.0]))


def test_states_of_others_are_refused_or_warned_of():
    model, loss, optimizer = parts("corrected")
    train(loss, optimizer, 2)
    with pytest.raises(ValueError, match="state_dict"):
        optimizer.load_state_dict(torch.optim.AdamW(model.parameters()).state_dict())
    with pytest.warns(UserWarning, match="way"):
        parts("mixed")[2].load_state_dict(optimizer.state_dict())
