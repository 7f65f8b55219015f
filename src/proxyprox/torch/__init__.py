"""ProxyProx for people who train networks: one optimiser, an ordinary training loop.

>>> import torch
>>> from torch.nn.functional import mse_loss
>>> from proxyprox.torch import EMA, ProxyProx, Proxy
>>> _ = torch.manual_seed(0)
>>> model = torch.nn.Linear(3, 1)
>>> x = torch.randn(64, 3)
>>> y = x.sum(1, keepdim=True)
>>> cheap = [(x[i : i + 8], y[i : i + 8]) for i in (0, 8)]
>>> proxy = Proxy(cheap, lambda batch: mse_loss(model(batch[0]), batch[1]))
>>> optimizer = ProxyProx(model.parameters(), lr=0.5, proxy=proxy, correction=EMA(0.2), model=model)
>>> for _ in range(40):
...     optimizer.zero_grad()
...     loss = mse_loss(model(x), y)
...     loss.backward()
...     optimizer.step()
>>> bool(loss < 1e-2)
True
"""

from proxyprox._util.extras import require

require("torch", extra="torch", purpose="proxyprox.torch")

from proxyprox.corrections import EMA, Mean, Plain
from proxyprox.inner.base import NonFiniteError
from proxyprox.torch.base import read_metrics
from proxyprox.torch.checks import BatchStatisticsWarning, ProxyScaleWarning, RandomProxyWarning
from proxyprox.torch.choosing import Candidate, WayChoice, choose_way
from proxyprox.torch.fisher import FisherProxy
from proxyprox.torch.inner import ImplicitStep
from proxyprox.torch.optimizer import ProxyProx
from proxyprox.torch.proxied import Proxied, ProxyAdamW, ProxyStepWarning
from proxyprox.torch.proxy import Proxy, refreshed_batchnorm
from proxyprox.torch.teacher import TeacherLoss, UselessAnswersWarning, estimate_confusion
from proxyprox.torch.ways import WAYS, Way, default_way

__all__ = [
    "EMA",
    "WAYS",
    "BatchStatisticsWarning",
    "Candidate",
    "FisherProxy",
    "ImplicitStep",
    "Mean",
    "NonFiniteError",
    "Plain",
    "Proxied",
    "Proxy",
    "ProxyAdamW",
    "ProxyProx",
    "ProxyScaleWarning",
    "ProxyStepWarning",
    "RandomProxyWarning",
    "TeacherLoss",
    "UselessAnswersWarning",
    "Way",
    "WayChoice",
    "choose_way",
    "default_way",
    "estimate_confusion",
    "read_metrics",
    "refreshed_batchnorm",
]
