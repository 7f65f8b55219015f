"""At most three extra copies of the parameters, and no second network."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from proxyprox.torch import (
    EMA,
    ImplicitStep,
    Proxy,
    ProxyAdamW,
    ProxyProx,
)

WIDTH = 64


class Live(TorchDispatchMode):
    """Follows every storage that operations make, and the largest total alive at once."""

    def __init__(self):
        super().__init__()
        self.known, self.bytes, self.peak = {}, 0, 0

    def _gone(self, key):
        self.bytes -= self.known.pop(key)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                key = storage._cdata
                if key not in self.known:
                    self.known[key] = storage.nbytes()
                    self.bytes += storage.nbytes()
                    weakref.finalize(storage, self._gone, key)
        self.peak = max(self.peak, self.bytes)
        return result


@pytest.fixture(autouse=True, scope="module")
def small_heap():
    """Everything imported so far is left out of the collections below, which would be slow."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(12)]
    return torch.nn.Sequential(*layers)


OPTIONS = {
    "decay": {"correction": EMA(0.2), "weight_decay": 0.1, "decoupled_weight_decay": True},
    "measured": {"correction": EMA(0.2), "measure_residual": True},
    "sgd": {"correction": EMA(0.2), "inner": functools.partial(torch.optim.SGD, lr=0.01)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_extra_copies_of_the_parameters(name):
    model, options = network(), OPTIONS[name]
    x = torch.randn(2, WIDTH)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    one_layer = size / 12

    def loss(batch):
        return model(batch).square().mean()

    proxy = Proxy([x[:1], x[1:]], loss)
    given = {"inner": ImplicitStep(0.01), "stop": 3, **options}
    optimizer = ProxyProx(model.parameters(), 0.1, proxy=proxy, probe=False, **given)

    def closure():
        optimizer.zero_grad(set_to_none=False)
        value = loss(x)
        value.backward()
        return value

    with Live() as live:
        for _ in range(3):
            closure()
            gc.collect()
            before, live.peak = live.bytes, live.bytes
            optimizer.step()
            kept = sum(t.untyped_storage().nbytes() for s in optimizer.state.values()
                       for t in s.values())  # fmt: skip
            # What the step adds at its worst moment, with what it carries from the step before.
            carried = kept if optimizer.record.k > 0 else 0
            assert live.peak - before + carried <= 3 * size + 5 * one_layer
    gc.collect()
    assert kept <= size


@pytest.mark.parametrize("way", ["interleaved", "corrected"])
def test_adamw_with_a_proxy_needs_three_copies_and_its_moments(way):
    model, x = network(), torch.randn(2, WIDTH)
    size = sum(p.numel() * p.element_size() for p in model.parameters())

    def loss(batch):
        return model(batch).square().mean()

    proxy = Proxy([x[:1], x[1:]], loss)
    optimizer = ProxyAdamW(
        model.parameters(), 0.01, proxy=proxy, way=way, proxy_steps=3, fused=True, probe=False
    )
    with Live() as live:
        for k in range(3):
            optimizer.zero_grad(set_to_none=False)
            loss(x).backward()
            gc.collect()
            before, live.peak = live.bytes, live.bytes
            optimizer.step()
            # The first step makes the two moments; from the second on m_k is carried.
            carried = size if k and way == "corrected" else 0
            moments = 0 if k else 2 * size
            assert live.peak - before + carried - moments <= 3 * size + size / 3
