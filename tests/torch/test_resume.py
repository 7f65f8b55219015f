"""A run that is stopped, even by kill −9, resumes bit for bit."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import proxyprox as pp
from proxyprox.torch import EMA, ImplicitStep, Mean, Plain, Proxy, ProxyProx, Storm

SETTINGS = {
    "plain": {"correction": Plain()},
    "ema": {"correction": EMA(0.2)},
    "mean": {"correction": Mean()},
    "storm": {"correction": Storm(0.2)},
    "random steps": {"correction": EMA(0.2), "stop": pp.stopping.RandomSteps(0.3)},
    "paired": {"correction": Plain(), "anchor": "paired"},
    "kept momentum": {
        "correction": EMA(0.2),
        "inner": functools.partial(torch.optim.SGD, lr=0.02, momentum=0.9),
        "keep_inner_state": True,
    },
}


def shuffled(toy, *, own_generator: bool):
    generator = torch.Generator().manual_seed(7) if own_generator else None
    return DataLoader(
        TensorDataset(toy.x[:8], toy.y[:8]), batch_size=3, shuffle=True, generator=generator
    )


def build(toy, settings, *, own_generator=True):
    proxy = Proxy(shuffled(toy, own_generator=own_generator), toy.batch_loss)
    given = {"inner": ImplicitStep(0.05), "stop": 4, **settings}
    optimizer = ProxyProx(toy.params, 0.3, proxy=proxy, **given)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)


def advance(toy, optimizer, scheduler, first, steps):
    for k in range(first, first + steps):
        toy.train(optimizer, 1, first=k, closure=optimizer.correction.two_points)
        scheduler.step()


@pytest.mark.parametrize("own_generator", [True, False], ids=["generator", "global"])
@pytest.mark.parametrize("name", SETTINGS)
def test_resume_is_bit_exact(make_toy, tmp_path, name, own_generator):
    torch.manual_seed(1)
    toy = make_toy()
    optimizer, scheduler = build(toy, SETTINGS[name], own_generator=own_generator)
    advance(toy, optimizer, scheduler, 0, 5)
    torch.save(
        {
            "model": toy.model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "rng": torch.get_rng_state(),
        },
        tmp_path / "checkpoint.pt",
    )
    advance(toy, optimizer, scheduler, 5, 6)

    torch.manual_seed(99)
    other = make_toy(seed=5)
    other.x, other.y = toy.x, toy.y
    again, schedule = build(other, SETTINGS[name], own_generator=own_generator)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    other.model.load_state_dict(saved["model"])
    schedule.load_state_dict(saved["scheduler"])
    torch.set_rng_state(saved["rng"])
    again.load_state_dict(saved["optimizer"])
    advance(other, again, schedule, 5, 6)
    assert torch.equal(other.flat(), toy.flat())
    ours, theirs = again.ledger.as_dict(), optimizer.ledger.as_dict()
    assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}


class Stateful:
    """A loader that can save itself, as some libraries' loaders do."""

    def __init__(self, batches):
        self.items, self.at = batches, 0

    def __iter__(self):
        while self.at < len(self.items):
            self.at += 1
            yield self.items[self.at - 1]
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def test_a_loader_that_saves_itself_is_asked_to(make_toy):
    toy = make_toy()
    proxy = Proxy(Stateful(toy.batches(2)), toy.batch_loss, full=toy.batches())
    first = [proxy.sample() for _ in range(6)]
    saved = proxy.state_dict()
    expected = [proxy.sample() for _ in range(3)]
    again = Proxy(Stateful(toy.batches(2)), toy.batch_loss, full=toy.batches())
    again.load_state_dict(saved)
    found = [again.sample() for _ in range(3)]
    assert len(first) == 6
    assert all(torch.equal(a[0], b[0]) for a, b in zip(found, expected, strict=True))


KILLED = """
import os, signal, sys, time, torch
import torch._dynamo  # which every optimiser imports when it is made
from torch.utils.data import DataLoader, TensorDataset
from proxyprox._util.files import atomic_output
from proxyprox.torch import EMA, ImplicitStep, Proxy, ProxyProx

folder, STEPS = sys.argv[1], 12
torch.set_num_threads(1)

def work(path, pause):
    torch.manual_seed(0)
    x, y = torch.randn(40, 4), torch.randn(40, 1)
    layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1)
    model = torch.nn.Sequential(*layers)
    def loss_of(batch):
        return ((model(batch[0]) - batch[1]) ** 2).mean()
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(x[:16], y[:16]), 4, shuffle=True, generator=generator)
    optimizer = ProxyProx(model.parameters(), 0.2, proxy=Proxy(loader, loss_of), stop=3,
                          correction=EMA(0.2), inner=ImplicitStep(0.05), model=model)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
    start = 0
    if os.path.exists(path):
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"]); scheduler.load_state_dict(saved["scheduler"])
        optimizer.load_state_dict(saved["optimizer"]); start = saved["k"]
    for k in range(start, STEPS):
        rows = slice(8 * (k % 5), 8 * (k % 5) + 8)
        optimizer.zero_grad()
        loss_of((x[rows], y[rows])).backward()
        optimizer.step()
        scheduler.step()
        with atomic_output(path) as file:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "scheduler": scheduler.state_dict(), "k": k + 1}, file)
        time.sleep(pause if k < 8 else 4000 * pause)  # it never ends before it is killed

def start(name, pause):
    # A fork shares the imports, which take most of the time, and nothing else is done before it.
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(os.path.join(folder, name), pause)
            status = 0
        finally:
            os._exit(status)
    return child

whole, killed = start("whole.pt", 0), start("killed.pt", 0.15)
end = time.monotonic() + 300
while not os.path.exists(os.path.join(folder, "killed.pt")):
    assert time.monotonic() < end
    time.sleep(0.02)
time.sleep(0.2)
os.kill(killed, signal.SIGKILL)
assert os.WTERMSIG(os.waitpid(killed, 0)[1]) == signal.SIGKILL
done = torch.load(os.path.join(folder, "killed.pt"), weights_only=True)["k"]
assert 0 < done < STEPS, done
for child in (whole, start("killed.pt", 0)):
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_resume_after_kill_9(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True)
    whole, resumed = (
        torch.load(tmp_path / name, weights_only=True) for name in ("whole.pt", "killed.pt")
    )
    assert whole["k"] == resumed["k"] == 12
    for name, value in whole["model"].items():
        assert torch.equal(resumed["model"][name], value), name


def saved(toy, **options):
    optimizer = ProxyProx(toy.params, 0.1, proxy=toy.proxy, **options)
    toy.train(optimizer, 2)
    return optimizer.state_dict()


@pytest.mark.parametrize(
    ("one", "other"), [(Plain(), EMA(0.1)), (EMA(0.1), Plain()), (EMA(0.1), Mean())]
)
def test_a_state_of_another_correction_is_refused(make_toy, one, other):
    state, toy = saved(make_toy(), correction=one), make_toy()
    optimizer = ProxyProx(toy.params, 0.7, proxy=toy.proxy, correction=other)
    name = type(one).__name__
    with pytest.raises(ValueError, match=rf"correction=.*\(saved with {name}"):
        optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.7
    assert optimizer.ledger.target_gradients == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inner": ImplicitStep(0.5)}, r"inner=.*0\.5\) \(saved with .*0\.01\)"),
        ({"inner": functools.partial(torch.optim.SGD, lr=0.1)}, r"inner=.*SGD.*ImplicitStep"),
        ({"inner": lambda p: torch.optim.SGD(p, lr=0.1)}, r"inner=SGD \("),
        ({"stop": 5}, r"stop=Steps\(steps=5\)"),
        ({"stop": lambda k: 20}, r"stop=a function"),
        ({"correction_weight": 0.5}, r"correction_weight=0\.5"),
        ({"correction": EMA(0.2)}, r"correction=EMA\(a=0\.2\) \(saved with EMA\(a=0\.1\)\)"),
    ],
)
def test_other_settings_are_warned_of(make_toy, options, words):
    state, toy = saved(make_toy(), correction=EMA(0.1)), make_toy()
    optimizer = ProxyProx(toy.params, 0.1, proxy=toy.proxy, **{"correction": EMA(0.1), **options})
    with pytest.warns(UserWarning, match=words):
        optimizer.load_state_dict(state)
    assert optimizer.ledger.target_gradients == 2


def test_equal_settings_pass_in_silence(make_toy):
    functions = {"inner": lambda p: torch.optim.SGD(p, lr=0.1), "stop": lambda k: 3}
    state, toy = saved(make_toy(), **functions), make_toy()
    functions = {"inner": lambda p: torch.optim.SGD(p, lr=0.1), "stop": lambda k: 3}
    optimizer = ProxyProx(toy.params, 0.1, proxy=toy.proxy, **functions)
    optimizer.load_state_dict(pickle.loads(pickle.dumps(state)))
    twenty = ProxyProx(toy.params, 0.1, proxy=toy.proxy, stop=20)
    twenty.load_state_dict(saved(make_toy()))
