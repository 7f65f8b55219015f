"""
A network with few target gradients
===================================

Each gradient of the loss that you want is expensive; other data of the same kind are cheap: a
subset, old, synthetic data. ``ProxyAdamW`` goes where AdamW goes, and also steps on the cheap data.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from proxyprox.torch import Proxy, ProxyAdamW

SEEDS = 3
STEPS = 60

# %%
# Digits. The cheap data are 150 of the images, shifted by a pixel and noisy: an old scanner.
X, y = map(torch.tensor, load_digits(return_X_y=True))
X = X.float() / 16
generator = torch.Generator().manual_seed(0)
cheap = torch.randperm(len(y), generator=generator)[:150]
old = torch.roll(X[cheap].reshape(-1, 8, 8), 1, 2).reshape(-1, 64)
old = old + 0.1 * torch.randn(old.shape, generator=generator)


def network(seed):
    """Return a small network."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def batches(size):
    """Return the cheap data in batches."""
    return list(zip(old.split(size), y[cheap].split(size), strict=True))


def train(model, optimizer, seed, between=0):
    """Take the steps; return the loss on all images on the way."""
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    draw, losses = torch.Generator().manual_seed(seed), []
    for k in range(STEPS):
        rows = torch.randint(len(y), (64,), generator=draw)
        optimizer.zero_grad()
        cross_entropy(model(X[rows]), y[rows]).backward()  # one target gradient
        optimizer.step()
        for i in range(between):  # the rival that mixes by hand
            inputs, labels = batches(50)[i % 3]
            optimizer.zero_grad()
            cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        scheduler.step()
        if k % 5 == 4:
            with torch.no_grad():
                losses.append(cross_entropy(model(X), y).item())
    return losses


# %%
# Ours: an ordinary loop, one argument more. Every method has the best of its learning rates.
def ours(seed, rate):
    """Train with corrected steps on the cheap data."""
    model = network(seed)
    proxy = Proxy(batches(50), lambda batch: cross_entropy(model(batch[0]), batch[1]))
    optimizer = ProxyAdamW(model.parameters(), lr=rate, proxy=proxy, way="corrected", model=model)
    return train(model, optimizer, seed)


def adamw(seed, rate, between=0):
    """Train with AdamW, with steps on the cheap data in between or without."""
    model = network(seed)
    return train(model, torch.optim.AdamW(model.parameters(), lr=rate), seed, between)


rivals = {
    "proxyprox": ("#0072B2", ours),
    "AdamW": ("#737373", adamw),
    "AdamW, cheap batches in between": ("#D55E00", lambda s, r: adamw(s, r, between=8)),
}
paid = np.arange(5, STEPS + 1, 5)
for name, (colour, method) in rivals.items():
    tries = [np.array([method(s, rate) for s in range(SEEDS)]) for rate in (0.003, 0.01, 0.03)]
    best = min(tries, key=lambda losses: losses[:, -1].mean())
    plt.fill_between(paid, best.min(0), best.max(0), color=colour, alpha=0.15, lw=0)
    plt.semilogy(paid, best.mean(0), "o-", ms=3, color=colour, label=name)
plt.xlabel("target gradients (64 images each)")
plt.ylabel("loss on all images: mean, range of seeds")
plt.legend()
plt.show()

# %%
# A step of ``ProxyAdamW`` also takes eight proxy gradients: where those cost as much as the
# target's, plain AdamW is the better choice. :doc:`/torch` has nine such cases, and teachers.
