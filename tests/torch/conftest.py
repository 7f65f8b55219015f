"""Small problems shared by the tests of the torch optimiser."""

import pytest
import torch

from proxyprox.torch import ImplicitStep, ProxyProx

collect_ignore = [] if torch.distributed.is_available() else ["ranks.py", "test_distributed.py"]


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tensors of a few numbers gain nothing from threads, and busy machines lose much by them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Toy:
    """A linear model with a target loss and a cheaper proxy on part of the data."""

    def __init__(self, seed=0, dtype=None, rows=24):
        generator = torch.Generator().manual_seed(seed)
        dtype = dtype or torch.float64
        self.x = torch.randn(rows, 3, generator=generator, dtype=dtype)
        self.y = self.x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=dtype) + 0.3
        self.model = torch.nn.Linear(3, 1, dtype=dtype)
        with torch.no_grad():
            for p in self.model.parameters():
                p.copy_(torch.randn(p.shape, generator=generator, dtype=dtype))

    @property
    def params(self):
        return list(self.model.parameters())

    def loss(self, rows=slice(None)):
        return ((self.model(self.x[rows]) - self.y[rows]) ** 2).mean()

    def proxy(self):
        return self.loss(slice(0, 8))

    def optimizer(self, **options):
        given = {"lr": 0.3, "proxy": self.proxy, "inner": ImplicitStep(0.05), "stop": 5, **options}
        return ProxyProx(self.params, **given)

    def batches(self, size=4):
        return [(self.x[i : i + size], self.y[i : i + size]) for i in range(0, 8, size)]

    def batch_loss(self, batch):
        return ((self.model(batch[0]) - batch[1]) ** 2).mean()

    def train(self, optimizer, steps, first=0, closure=False):
        for k in range(first, first + steps):
            rows = slice(4 * (k % 6), 4 * (k % 6) + 4)

            def evaluate(rows=rows):
                optimizer.zero_grad()
                loss = self.loss(rows)
                loss.backward()
                return loss

            if closure:
                optimizer.step(evaluate)
            else:
                evaluate()
                optimizer.step()
        return self.flat()

    def flat(self):
        return torch.cat([p.detach().reshape(-1) for p in self.model.parameters()]).clone()


@pytest.fixture
def toy():
    return Toy()


@pytest.fixture
def make_toy():
    return Toy
