"""Proxied: its steps against steps written by hand, any optimiser, its state, its warnings."""

import copy
import itertools
import math
import warnings

import pytest
import torch
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import LambdaLR

from proxyprox import torch as pt

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tanh(X @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]]))
OPTIONS = {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}
CHEAP, TARGET = ([(X[i : i + 8], Y[i : i + 8]) for i in range(at, at + 32, 8)] for at in (0, 32))
STEPS = 12


def network(*, normalised=False):
    torch.manual_seed(1)
    middle = [torch.nn.BatchNorm1d(8)] if normalised else []
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), *middle, torch.nn.Tanh(), torch.nn.Linear(8, 1)
    )


def parts(way="late", model=None, make=None, **options):
    model = model or network()

    def loss(batch):
        return mse_loss(model(batch[0]), batch[1])

    optimizer = (make or (lambda p: torch.optim.AdamW(p, **OPTIONS)))(model.parameters())
    given = {"proxy": pt.Proxy(CHEAP, loss), "way": way, "model": model, "target_steps": STEPS}
    return model, loss, pt.Proxied(optimizer, **{**given, "proxy_steps": 3, **options})


def train(loss, optimizer, steps=STEPS, start=0, scheduler=None):
    optimizer.pretrain()
    for k in range(start, start + steps):
        optimizer.zero_grad()
        loss(TARGET[k % 4]).backward()
        optimizer.step()
        if scheduler:
            scheduler.step()


def weights(model):
    return torch.cat([v.detach().double().flatten() for v in model.state_dict().values()])


def by_hand(way):
    """Train in a way, written as one would without the library."""
    model = network()
    params, adamw = list(model.parameters()), torch.optim.AdamW(model.parameters(), **OPTIONS)
    state = {"cheap": 0, "mean": None, "done": 0}

    def gradient(batch):
        return torch.autograd.grad(mse_loss(model(batch[0]), batch[1]), params)

    def cheap():
        state["cheap"] += 1
        return gradient(CHEAP[(state["cheap"] - 1) % 4])

    def step(found):
        s, n = state["done"], STEPS * (1 + way.proxy_steps)
        first = round(way.before * way.proxy_steps * STEPS)
        warm, after = min(1, (s + 1) / (0.05 * n)), (s - first) / (n - first)
        rate = 1.0 if s < first else (1 + math.cos(math.pi * after)) / 2
        if way.restart:
            length = first if s < first else n - first
            at = s if s < first else s - first
            rate = (1 + math.cos(math.pi * at / length)) / 2 * (1 if s < first else way.restart)
            warm = min(1, (at + 1) / (0.05 * length))
        adamw.param_groups[0]["lr"] = OPTIONS["lr"] * rate * warm
        state["done"] += 1
        for p, g in zip(params, found, strict=True):
            p.grad = g
        adamw.step()

    taken = 0
    while taken < round(way.before * way.proxy_steps * STEPS):
        step(cheap())
        taken += 1
    for k in range(STEPS):
        share, every = min(1.0, (k + 1) / (STEPS - 1)), way.proxy_steps * STEPS
        left = STEPS + (1 - way.before) * every
        found = way.before * every + left * share ** (1 / (1 + way.growth)) - STEPS * share
        due = round(min(every, found))
        g = gradient(TARGET[k % 4])
        if way.theta and due > taken:
            new = [x - y for x, y in zip(g, cheap(), strict=True)]
            old = state["mean"] or new
            state["mean"] = [0.8 * m + 0.2 * d for m, d in zip(old, new, strict=True)]
        g = [way.weight * x for x in g]
        if way.joint and due > taken:
            g = [x + y for x, y in zip(g, cheap(), strict=True)]
            taken, state["done"] = taken + 1, state["done"] + 1
        step(g)
        while taken < due:
            g = cheap()
            if way.theta:
                g = [x + way.theta * m for x, m in zip(g, state["mean"], strict=True)]
            step(g)
            taken += 1
    return weights(model), state["cheap"]


@pytest.mark.parametrize("name", list(pt.WAYS))
def test_each_way_is_what_it_says(name):
    model, loss, optimizer = parts(name)
    train(loss, optimizer)
    expected, cheap = by_hand(optimizer.way)
    torch.testing.assert_close(weights(model), expected, rtol=1e-5, atol=1e-6)
    found = optimizer.metrics()
    assert (found["target_gradients"], found["proxy_sampled_gradients"]) == (STEPS, cheap)
    assert found["displacement"] > 0


def test_a_way_without_an_end_steps_evenly_at_the_rate_of_the_optimiser():
    model, loss, optimizer = parts(pt.Way(proxy_steps=2), target_steps=None, proxy_steps=None)
    other = network()
    adamw = torch.optim.AdamW(other.parameters(), **OPTIONS)
    train(loss, optimizer, 4)
    for k in range(4):
        for batch in (TARGET[k], CHEAP[2 * k % 4], CHEAP[(2 * k + 1) % 4]):
            adamw.zero_grad()
            mse_loss(other(batch[0]), batch[1]).backward()
            adamw.step()
    torch.testing.assert_close(weights(model), weights(other), rtol=1e-5, atol=1e-6)


def test_every_optimiser_that_steps_on_gradients():
    makers = {
        "SGD": {"lr": 0.05, "momentum": 0.9}, "Adafactor": {"lr": 0.05}, "RMSprop": {"lr": 0.01},
        "Muon": {"lr": 0.05},
    }  # fmt: skip
    for name in filter(torch.optim.__dict__.__contains__, makers):

        def make(params, name=name):
            matrices = [p for p in params if p.ndim == 2 or name != "Muon"]
            return getattr(torch.optim, name)(matrices, **makers[name])

        for way in ("late", "corrected"):
            _, loss, optimizer = parts(way, make=make)
            before = loss((X, Y)).item()
            train(loss, optimizer)
            assert loss((X, Y)).item() < 0.8 * before, name
    for wrong in (torch.optim.LBFGS, torch.optim.SparseAdam, lambda p: 3):
        with pytest.raises(TypeError, match="optimizer"):
            parts(make=wrong)


@pytest.mark.parametrize(
    ("way", "pretrained", "stop"),
    [("late", 7, 0), ("late", None, 5), ("corrected", None, 6), ("growing", None, 9)],
)
def test_resumed_runs_are_the_same_bit_for_bit(tmp_path, way, pretrained, stop):
    model, loss, optimizer = parts(way, network(normalised=True))
    if pretrained:
        assert optimizer.pretrain(pretrained) == 36 - pretrained
    else:
        train(loss, optimizer, stop)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(loss, optimizer, STEPS - stop, stop)
    torch.save(saved, path := tmp_path / "saved.pt")
    saved = torch.load(path, weights_only=True)
    other, loss, again = parts(way, network(normalised=True))
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    train(loss, again, STEPS - stop, stop)
    assert torch.equal(weights(model), weights(other))
    assert again.ledger.target_gradients == STEPS


def test_pretraining_comes_before_a_closure_is_called():
    _, loss, optimizer = parts("late")
    seen = []

    def closure():
        seen.append(optimizer.ledger.proxy_sampled_gradients)
        optimizer.zero_grad()
        value = loss(TARGET[0])
        value.backward()
        return value

    assert optimizer.step(closure) > 0
    assert seen == [36]
    with pytest.warns(UserWarning, match="target_steps=12"):
        train(loss, optimizer, 12)


def test_a_scheduler_of_the_user_rules_the_rate():
    _, loss, optimizer = parts("late")
    scheduler = LambdaLR(optimizer, lambda k: 0.5**k)
    rates = []
    optimizer._optimizer.register_step_pre_hook(lambda o, *_: rates.append(o.param_groups[0]["lr"]))
    train(loss, optimizer, scheduler=scheduler)
    assert rates[:37] == [0.02] * 37
    assert rates[-1] == pytest.approx(0.02 * 0.5**11)


def test_too_long_proxy_steps_are_said():
    late = {"way": "late", "target_steps": 16, "proxy_steps": 10}
    for lr, options in itertools.product((1.0, 0.001), ({"way": pt.Way(proxy_steps=7)}, late)):
        w = torch.nn.Parameter(torch.tensor([0.1]))
        optimizer = pt.Proxied(
            torch.optim.SGD([w], lr=lr), proxy=lambda w=w: w.abs().sum(), **options
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.pretrain()
            for _ in range(0 if options is late else 77):
                w.grad = torch.zeros(1)
                optimizer.step()
        assert [one.category for one in caught] == [pt.ProxyStepWarning] * (lr == 1.0)


def test_a_sum_beside_a_mean_is_said():
    # Of "late", many steps on the sum have made its gradient short.
    for way, steps in (("interleaved", 8), ("late", 150)):
        model, loss, _ = parts()
        summed = pt.Proxy([(X, Y)], lambda b, m=model: mse_loss(m(b[0]), b[1], reduction="sum"))
        given = {"way": way, "proxy_steps": steps, "target_steps": 4}
        optimizer = pt.ProxyAdamW(model.parameters(), 0.02, proxy=summed, **given)
        optimizer.pretrain()
        loss(TARGET[0]).backward()
        with pytest.warns(pt.ProxyScaleWarning, match="sum over the batch"):
            optimizer.step()
    # Long steps on the proxy change its gradient: that is not another unit.
    sgd = torch.optim.SGD(model.parameters(), lr=3.0)
    optimizer = pt.Proxied(sgd, proxy=pt.Proxy(CHEAP, loss), way="interleaved", target_steps=4)
    loss(TARGET[0]).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pt.ProxyScaleWarning)
        optimizer.step()


def test_a_proxy_that_is_not_finite_leaves_the_weights():
    model, loss, optimizer = parts("interleaved")
    train(loss, optimizer, 3)
    before, sound = weights(model), optimizer.proxy.loss_of
    optimizer.proxy.loss_of = lambda batch: loss(batch) * math.nan
    loss(TARGET[0]).backward()
    with pytest.raises(pt.NonFiniteError):
        optimizer.step()
    assert torch.equal(weights(model), before)
    optimizer.proxy.loss_of = sound
    train(loss, optimizer, 3)
    assert torch.isfinite(weights(model)).all()


def test_wrong_arguments_are_named():
    model, loss, _ = parts()
    given = {"params": list(model.parameters()), "proxy": pt.Proxy(CHEAP, loss), "model": model}
    wrong = [("proxy", None), ("way", "both"), ("way", 3), ("proxy_steps", -1), ("proxy", [])]
    wrong += [("target_steps", 0), ("model", torch.nn.Linear(2, 2)), ("proxy_mode", "still")]
    for name, value in wrong:
        with pytest.raises((TypeError, ValueError), match=name):
            pt.ProxyAdamW(**{**given, "target_steps": 4, name: value})
    with pytest.raises(ValueError, match="target_steps"):
        pt.ProxyAdamW(**given, way="late")
    of_ways = [("before", 2.0), ("growth", -1), ("weight", 0), ("theta", 2), ("averaging", 0)]
    of_kinds = [("target_rows", "old"), ("proxy", "good")]
    for make, given in ((pt.Way, of_ways), (pt.default_way, of_kinds)):
        for name, value in given:
            with pytest.raises(ValueError, match=name):
                make(**{name: value})
    table = torch.nn.Embedding(3, 2, sparse=True)
    given = {"proxy": lambda: table(torch.tensor([0])).sum(), "target_steps": 4}
    with pytest.raises(RuntimeError, match="proxy must be dense"):
        pt.ProxyAdamW(table.parameters(), **given).pretrain()
    table(torch.tensor([0])).sum().backward()
    with pytest.raises(RuntimeError, match="target must be dense"):
        pt.ProxyAdamW(table.parameters(), **given).step()


def test_states_of_others_are_refused_or_warned_of():
    model, loss, optimizer = parts("corrected")
    train(loss, optimizer, 2)
    with pytest.raises(ValueError, match="state_dict"):
        optimizer.load_state_dict(torch.optim.AdamW(model.parameters()).state_dict())
    with pytest.warns(UserWarning, match="way"):
        parts("late")[2].load_state_dict(optimizer.state_dict())


def test_batches_come_from_the_proxy_that_agrees():
    model, loss, _ = parts()
    drawn = {"same": 0, "opposite": 0}

    def counted(name, sign):
        def of(batch):
            drawn[name] += 1
            return mse_loss(model(batch[0]), sign * batch[1])

        return pt.Proxy(CHEAP, of)

    proxies = [counted("same", 1.0), counted("opposite", -1.0)]
    given = {"proxy": proxies, "way": "interleaved", "target_steps": STEPS, "proxy_steps": 4}
    optimizer = pt.ProxyAdamW(model.parameters(), 0.01, **given, probe=False)
    train(loss, optimizer)
    assert drawn["same"] > 5 * drawn["opposite"]
    again = pt.ProxyAdamW(model.parameters(), 0.01, **given)
    again.load_state_dict(optimizer.state_dict())
    assert again.proxy.weights == optimizer.proxy.weights
