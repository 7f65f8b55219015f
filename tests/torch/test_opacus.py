"""Private target gradients by Opacus; the proxy is public, and its passes stay out of them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from proxyprox.torch import EMA, Proxy, ProxyAdamW, ProxyProx

opacus = pytest.importorskip("opacus")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
]
GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(80, 4, generator=GENERATOR), torch.arange(80) % 3
PUBLIC = list(zip(torch.randn(12, 4, generator=GENERATOR).split(4), Y[:12].split(4), strict=True))
METHODS = {
    "proxyprox": lambda model, proxy, **o: ProxyProx(
        model.parameters(), 0.5, proxy=proxy, correction=EMA(0.3), stop=3, model=model, **o
    ),
    "adamw": lambda model, proxy, **o: ProxyAdamW(
        model.parameters(), 0.01, proxy=[proxy], way="corrected", proxy_steps=2, model=model, **o
    ),
}


class Setting:
    """A small network with private rows, a public proxy and an optimiser around it."""

    def __init__(self, method="proxyprox", batches=PUBLIC, options=(), **engine):
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
        self.module = self.network
        self.proxy = Proxy(batches, self.loss)
        self.inside = METHODS[method](self.network, self.proxy, **dict(options))
        self.engine = opacus.PrivacyEngine()
        given = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **engine}
        loader = DataLoader(TensorDataset(X, Y), batch_size=20)
        module, self.optimizer, *criterion, self.loader = self.engine.make_private(
            module=self.network, optimizer=self.inside, data_loader=loader, **given
        )
        self.module = module if given.get("wrap_model", True) else self.network
        self.criterion = criterion[0] if criterion else cross_entropy

    def loss(self, batch):
        return cross_entropy(self.module(batch[0]), batch[1])

    def backward(self, rows=slice(0, 10)):
        self.optimizer.zero_grad()
        self.criterion(self.module(X[rows]), Y[rows]).backward()

    def weights(self):
        return torch.cat([p.detach().reshape(-1) for p in self.network.parameters()])


@pytest.mark.parametrize(
    ("method", "engine"),
    [
        ("proxyprox", {}), ("proxyprox", {"wrap_model": False}),
        ("adamw", {"poisson_sampling": False}), ("adamw", {"grad_sample_mode": "functorch"}),
    ],
)  # fmt: skip
def test_proxy_passes_leave_per_sample_gradients_alone(method, engine):
    setting = Setting(method, **engine)
    for inputs, labels in setting.loader:
        setting.optimizer.zero_grad()
        cross_entropy(setting.module(inputs), labels).backward()
        expected = [p.grad_sample.clone() for p in setting.network.parameters()]
        setting.optimizer.step()
        for p, samples in zip(setting.network.parameters(), expected, strict=True):
            assert torch.equal(p.grad_sample, samples)
            assert p.grad_sample.shape[0] == len(inputs)
    history = setting.engine.accountant.history
    assert sum(steps for *_, steps in history) == setting.inside.ledger.target_gradients == 4


@pytest.mark.parametrize(("method", "own"), [("proxyprox", True), ("adamw", False)])
def test_a_saved_state_does_not_tell_of_the_generator_of_the_noise(method, own):
    rows = TensorDataset(X[:12], Y[:12])
    order = torch.Generator().manual_seed(1) if own else None
    batches = DataLoader(rows, batch_size=4, shuffle=True, generator=order)
    setting = Setting(method, batches=batches)
    for _ in range(3):
        setting.backward()
        setting.optimizer.step()
    position = setting.proxy.state_dict()
    assert "seed" not in position
    assert ("start" in position) == ("now" in position) == own
    assert ("start" in copy.copy(setting.proxy).state_dict()) == own
    resumed = Setting(method, batches=batches)
    resumed.optimizer.load_state_dict(setting.optimizer.state_dict())
    resumed.backward()
    resumed.optimizer.step()


def test_what_is_refused_and_what_fails():
    setting = Setting()
    setting.backward()
    setting.proxy.loss_of = lambda batch: 1 / 0
    with pytest.raises(ZeroDivisionError):
        setting.optimizer.step()
    setting.backward()  # the hooks are on again
    assert all(p.grad_sample.shape[0] == 10 for p in setting.network.parameters())
    for method in METHODS:
        setting = Setting(method)
        setting.inside.model = None
        setting.backward()
        with pytest.raises(ValueError, match="model"):
            setting.optimizer.step()
