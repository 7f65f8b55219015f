"""A run that is stopped, even by kill −9, goes on bit for bit."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import time

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
    "random steps": {"correction": EMA(0.2), "stop": pp.RandomSteps(0.3)},
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


WORKER = """
import os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
from proxyprox._util.files import atomic_output
from proxyprox.torch import EMA, ImplicitStep, Proxy, ProxyProx

path, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(40, 4)
y = torch.randn(40, 1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
def loss_of(batch):
    return ((model(batch[0]) - batch[1]) ** 2).mean()
generator = torch.Generator().manual_seed(3)
loader = DataLoader(TensorDataset(x[:16], y[:16]), batch_size=4, shuffle=True, generator=generator)
optimizer = ProxyProx(model.parameters(), 0.2, proxy=Proxy(loader, loss_of), correction=EMA(0.2),
                      inner=ImplicitStep(0.05), stop=3, model=model)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
start = 0
if os.path.exists(path):
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"]); scheduler.load_state_dict(saved["scheduler"])
    optimizer.load_state_dict(saved["optimizer"]); start = saved["k"]
for k in range(start, steps):
    rows = slice(8 * (k % 5), 8 * (k % 5) + 8)
    optimizer.zero_grad()
    loss_of((x[rows], y[rows])).backward()
    optimizer.step()
    scheduler.step()
    with atomic_output(path) as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "k": k + 1}, file)
    time.sleep(pause)
print([float(v).hex() for p in model.state_dict().values() for v in p.reshape(-1)])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system knows no kill -9")
def test_resume_after_kill_9(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))

    def start(checkpoint, pause):
        command = [sys.executable, str(script), str(checkpoint), "12", str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ, text=True)

    whole = start(tmp_path / "whole.pt", 0)
    killed = start(tmp_path / "killed.pt", 0.15)
    deadline = time.monotonic() + 300
    while not (tmp_path / "killed.pt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.4)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    done = torch.load(tmp_path / "killed.pt", weights_only=True)["k"]
    assert 0 < done < 12
    resumed = start(tmp_path / "killed.pt", 0)
    assert resumed.communicate()[0] == whole.communicate()[0]
    assert resumed.returncode == whole.returncode == 0
