"""At most three extra copies of the parameters, and no second network."""

import functools
import gc
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from proxyprox.torch import EMA, ImplicitStep, Proxy, ProxyAdamW, ProxyProx

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


def proxyprox(params, proxy, **options):
    given = {"inner": ImplicitStep(0.01), "stop": 3, "correction": EMA(0.2), **options}
    return ProxyProx(params, 0.1, proxy=proxy, probe=False, **given)


def adamw(params, proxy, way):
    given = {"way": way, "proxy_steps": 3, "fused": True}
    return ProxyAdamW(params, 0.01, proxy=proxy, probe=False, **given)


CASES = {
    "decay": (proxyprox, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "measured": (proxyprox, {"measure_residual": True}),
    "sgd": (proxyprox, {"inner": functools.partial(torch.optim.SGD, lr=0.01)}),
    "interleaved": (adamw, {"way": "interleaved"}),
    "corrected": (adamw, {"way": "corrected"}),
}


@pytest.mark.parametrize("name", CASES)
def test_three_extra_copies_of_the_parameters_and_moments(name):
    model, x, (make, options) = network(), torch.randn(2, WIDTH), CASES[name]
    size = sum(p.numel() * p.element_size() for p in model.parameters())

    def loss(batch):
        return model(batch).square().mean()

    optimizer = make(model.parameters(), Proxy([x[:1], x[1:]], loss), **options)
    with Live() as live:
        for k in range(3):
            optimizer.zero_grad(set_to_none=False)
            loss(x).backward()
            gc.collect()
            kept = sum(state[n].untyped_storage().nbytes() for state in optimizer.state.values()
                       for n in ("estimate", "correction") if n in state)  # fmt: skip
            before, live.peak = live.bytes, live.bytes
            optimizer.step()
            # The first step makes AdamW's two moments; later ones carry the mean of ∇L − ∇L̂.
            moments = 2 * size if make is adamw and k == 0 else 0
            assert live.peak - before + kept - moments <= 3 * size + 5 / 12 * size
            assert kept <= size
