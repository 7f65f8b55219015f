"""A run that is stopped resumes bit for bit; copies and failures."""

import copy
import pickle

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from proxyprox.torch import EMA, ImplicitStep, Mean, Plain, Proxy, ProxyProx

SETTINGS = {
    "plain": {"correction": Plain()},
    "mean": {"correction": Mean()},
    "adamw inside": {"inner": lambda p: torch.optim.AdamW(p, lr=0.05)},
}


def shuffled(toy, *, own_generator):
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
        toy.train(optimizer, 1, first=k)
        scheduler.step()


@pytest.mark.parametrize(
    ("name", "own_generator"), [*((name, True) for name in SETTINGS), ("plain", False)]
)
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
    for _ in range(6):
        proxy.sample()
    saved = proxy.state_dict()
    expected = [proxy.sample() for _ in range(3)]
    again = Proxy(Stateful(toy.batches(2)), toy.batch_loss, full=toy.batches())
    again.load_state_dict(saved)
    found = [again.sample() for _ in range(3)]
    assert all(torch.equal(a[0], b[0]) for a, b in zip(found, expected, strict=True))


def test_other_corrections_are_refused(make_toy):
    toy, other = make_toy(), make_toy()
    optimizer = toy.optimizer(correction=EMA(0.1))
    toy.train(optimizer, 2)
    again = other.optimizer(correction=EMA(0.2))
    again.load_state_dict(optimizer.state_dict())
    assert again.ledger.target_gradients == 2
    other = make_toy().optimizer(correction=Plain())
    with pytest.raises(ValueError, match="correction"):
        other.load_state_dict(optimizer.state_dict())
    assert other.ledger.target_gradients == 0


def test_deepcopy_and_pickle(toy):
    optimizer = ProxyProx(
        toy.params, 0.1, proxy=Proxy(toy.batches(), toy.batch_loss), correction=EMA(0.3)
    )
    toy.train(optimizer, 3)
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert again.ledger == optimizer.ledger
        for p in again.param_groups[0]["params"]:
            p.grad = torch.ones_like(p)
        again.step()
        assert again.ledger.target_gradients == 4
    assert "lr: 0.1" in repr(optimizer)


def test_a_failing_proxy_leaves_parameters_and_gradients(toy):
    calls = []

    def proxy():
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return toy.proxy()

    optimizer = toy.optimizer(proxy=proxy, probe=False)
    toy.loss().backward()
    held = [p.grad for p in toy.params]
    optimizer.step()  # takes five of the proxy's gradients
    start = toy.flat()
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    assert torch.equal(toy.flat(), start)
    assert all(p.grad is g for p, g in zip(toy.params, held, strict=True))


def test_a_copy_in_the_middle_of_a_pass_goes_on_alike(toy):
    rows = list(zip(toy.x[:8], toy.y[:8], strict=True))
    drawn = torch.Generator().manual_seed(4)
    loader = torch.utils.data.DataLoader(rows, 2, shuffle=True, generator=drawn)
    proxy = Proxy(loader, toy.batch_loss)
    for _ in range(3):
        proxy.sample()
    twin = copy.deepcopy(proxy)
    for batch in [proxy.sample()[0] for _ in range(6)]:
        assert torch.equal(twin.sample()[0], batch)
