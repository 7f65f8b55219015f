"""The cases of ``torch_proxies.py``: data, proxies, networks, competitors, and one training run.

Every competitor has a grid of six settings. The target's batches and the initial weights depend on
the seed alone, so all competitors see the same ones (the choice of a way does without the last 100
training rows, so its batches are others).
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.ndimage import rotate, shift
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from proxyprox.inner import NonFiniteError
from proxyprox.torch import (
    EMA,
    ImplicitStep,
    Proxy,
    ProxyAdamW,
    ProxyProx,
    choose_way,
    refreshed_batchnorm,
)

TRAINING, STEPS, TARGET_BATCH, PROXY_BATCH, INNER_STEPS, HELD_OUT = 1497, 60, 64, 50, 20, 100
Setting = dict[str, float]


# -- data and networks ----------------------------------------------------------------------


@functools.cache
def digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    images = (X[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return torch.tensor(images), torch.tensor(y[order])


@functools.cache
def proxy_data(name: str) -> tuple[Any, Any]:
    """Return a tenth of the rows, other images, or 600 rows with other labels."""
    X, y = digits()
    if name in ("wrong labels", "useless"):
        draw = np.random.default_rng(2)
        right, flipped = y[150:750].numpy(), draw.random(600) < 0.45
        pairs = np.where(flipped, (right + 1) % 10, right)
        labels = pairs if name == "wrong labels" else draw.integers(10, size=600)
        return X[150:750], torch.tensor(labels)
    if name == "subset":
        return X[:150], y[:150]
    if name == "old":
        turned = [rotate(x[0], 25, reshape=False, order=1) for x in X[:600].numpy()]
        moved = np.stack([shift(x, (1, 0), order=1) for x in turned])
        return torch.tensor(moved[:, None], dtype=torch.float32), y[:600]
    rng = np.random.default_rng(1)
    drawn = []
    for label in range(10):
        own = X[:300][y[:300] == label].numpy()
        drawn.append(rng.normal(own.mean(0), own.std(0) + 0.05, size=(60, 1, 8, 8)))
    synthetic = torch.tensor(np.concatenate(drawn), dtype=torch.float32)
    return synthetic, torch.arange(10).repeat_interleave(60)


class Transformer(nn.Module):
    """One layer over the eight rows of an image, normalised first, without Dropout."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(torch.randn(8, width) * 0.1)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Any) -> Any:
        return self.head(self.layers(self.embed(images[:, 0]) + self.position).mean(1))


def convolutional(*, normalised: bool) -> nn.Module:
    def norm(channels: int) -> list[nn.Module]:
        return [nn.BatchNorm2d(channels)] if normalised else []

    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), *norm(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), *norm(16), nn.ReLU(), nn.Flatten(),
        *([nn.Dropout(0.2)] if normalised else []), nn.Linear(256, 10),
    )  # fmt: skip


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "cnn": functools.partial(convolutional, normalised=False),
    "batchnorm": functools.partial(convolutional, normalised=True),
    "transformer": Transformer,
}
PROXIES = ("subset", "old", "synthetic")
OTHER_LABELS = ("wrong labels", "useless")


# -- competitors ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Competitor:
    """A way to train; ``inner`` and ``options`` are for ProxyProx, ``way`` for ProxyAdamW."""

    grid: tuple[Setting, ...]
    uses_proxy: bool = True
    everywhere: bool = True
    way: str | None = None
    inner: Callable[[float], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def grid(**values: tuple[float, ...]) -> tuple[Setting, ...]:
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


def momentum(lr: float) -> Any:
    return functools.partial(torch.optim.SGD, lr=lr, momentum=0.9)


def adamw(lr: float) -> Any:
    return functools.partial(torch.optim.AdamW, lr=lr, weight_decay=0, fused=True)


ETAS = (3.0, 10.0, 30.0)
COMPETITORS: dict[str, Competitor] = {
    "sgd": Competitor(grid(lr=(0.02, 0.05, 0.1, 0.2, 0.3, 0.5)), uses_proxy=False),
    "adamw": Competitor(grid(lr=(0.002, 0.005, 0.01, 0.02, 0.03, 0.05)), uses_proxy=False),
    "pretrain": Competitor(grid(proxy_steps=(300, 1200), lr=(0.01, 0.02, 0.04))),
    "weighted": Competitor(grid(weight=(0.5, 0.8), lr=(0.01, 0.02, 0.04))),
    "interleaved": Competitor(grid(proxy_steps=(6, 20), lr=(0.005, 0.015, 0.03))),
    "pp implicit": Competitor(
        grid(inner=(0.05, 0.1), lr=ETAS), inner=ImplicitStep, everywhere=False
    ),
    "pp momentum": Competitor(grid(inner=(0.01, 0.03), lr=ETAS), inner=momentum, everywhere=False),
    "pp adamw": Competitor(grid(inner=(0.001, 0.003), lr=ETAS), inner=adamw, everywhere=False),
    **{
        way: Competitor(grid(lr=(0.003, 0.006, 0.01, 0.015, 0.02, 0.03)), way=way)
        for way in ("mixed", "corrected", "fine-tuned")
    },
}
WAYS = {
    "target alone": "adamw",
    "mixed": "mixed",
    "corrected": "corrected",
    "fine-tuned": "fine-tuned",
}
"""The ways to choose from, and which competitor each is."""
VARIANTS: dict[str, Competitor] = {
    "adamw, EMA": Competitor((), inner=adamw, options={"correction": EMA(0.3)}),
    "adamw, kept": Competitor((), inner=adamw, options={"keep_inner_state": True}),
}
"""Not tuned: they run with the fixed setting of ``"pp adamw"``."""


# -- one run --------------------------------------------------------------------------------


def loader(data: tuple[Any, Any], seed: int) -> Any:
    """Return shuffled batches, taken from the tensors at once rather than row by row."""
    rows = TensorDataset(*data)
    draws = RandomSampler(rows, generator=torch.Generator().manual_seed(seed))
    return DataLoader(rows, batch_size=None, sampler=BatchSampler(draws, PROXY_BATCH, False))


def endless(batches: Any) -> Iterator[Any]:
    while True:
        yield from batches


def train(
    network: str, proxy: str, competitor: str, setting: Setting, seed: int, held_out: int = 0
) -> dict[str, Any]:
    """Train once; return training loss, held-out accuracy, proxy gradients, seconds.

    With ``held_out`` the last of the training rows are not drawn; their losses are returned, too.
    """
    begun = time.perf_counter()
    X, y = digits()
    chosen = {**COMPETITORS, **VARIANTS}[competitor]
    torch.manual_seed(seed)
    model = NETWORKS[network]()
    cheap = proxy_data(proxy) if chosen.uses_proxy else None
    batches = loader(cheap, 1000 + seed) if cheap else None
    used = 0.0

    def loss(batch: Any) -> Any:
        return cross_entropy(model(batch[0]), batch[1])

    def descend(optimizer: Any, batch: Any) -> None:
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()

    if competitor == "sgd":
        optimizer: Any = torch.optim.SGD(
            model.parameters(), setting["lr"], momentum=0.9, nesterov=True
        )
    elif chosen.way is not None:
        optimizer = ProxyAdamW(
            model.parameters(), setting["lr"], proxy=Proxy(batches, loss), way=chosen.way,
            model=model, weight_decay=0, fused=True,
        )  # fmt: skip
    elif chosen.inner is None:
        optimizer = adamw(setting["lr"])(model.parameters())
    else:
        smooth = network != "batchnorm"
        optimizer = ProxyProx(
            model.parameters(), setting["lr"], model=model,
            proxy=Proxy(batches, loss, full=[cheap] if smooth else None),
            inner=chosen.inner(setting["inner"]), stop=INNER_STEPS,
            proxy_mode="frozen" if smooth else "no_dropout", **chosen.options,
        )  # fmt: skip
    stream = endless(batches)
    if competitor == "pretrain":
        first = adamw(0.01)(model.parameters())
        anneal = torch.optim.lr_scheduler.CosineAnnealingLR(first, int(setting["proxy_steps"]))
        for _ in range(int(setting["proxy_steps"])):
            descend(first, next(stream))
            anneal.step()
            used += 1
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    draw = torch.Generator().manual_seed(2000 + seed)
    try:
        for _ in range(STEPS):
            if competitor == "interleaved":
                for _ in range(int(setting["proxy_steps"])):
                    descend(optimizer, next(stream))
                    used += 1
            rows = torch.randint(TRAINING - held_out, (TARGET_BATCH,), generator=draw)
            if competitor == "weighted":
                optimizer.zero_grad()
                weight, used = setting["weight"], used + 1
                right, cheaper = loss((X[rows], y[rows])), loss(next(stream))
                (weight * right + (1 - weight) * cheaper).backward()
                optimizer.step()
            else:
                descend(optimizer, (X[rows], y[rows]))
            schedule.step()
    except NonFiniteError:
        return {"loss": None, "accuracy": None, "proxy_gradients": None, "seconds": None}
    if chosen.way is not None:
        used = optimizer.ledger.proxy_sampled_gradients
    elif cheap and chosen.inner is not None:
        ledger = optimizer.ledger
        full = ledger.proxy_gradients * len(cheap[1]) / PROXY_BATCH
        used = ledger.proxy_sampled_gradients + full
    taken = time.perf_counter() - begun
    with refreshed_batchnorm(model, X[:TRAINING].split(100), model), torch.no_grad():
        model.eval()
        value = float(loss((X[:TRAINING], y[:TRAINING])))
        right = float((model(X[TRAINING:]).argmax(1) == y[TRAINING:]).float().mean())
        kept = slice(TRAINING - held_out, TRAINING)
        rowwise = cross_entropy(model(X[kept]), y[kept], reduction="none").tolist()
    finite = math.isfinite(value)
    return {
        **({"held_out": rowwise} if held_out else {}),
        "loss": value if finite else None,
        "accuracy": right if finite else None,
        "proxy_gradients": used,
        "seconds": taken,
    }


def choose_and_train(network: str, proxy: str, setting: Setting, seed: int) -> dict[str, Any]:
    """Train each way without 100 rows, ask these, and return the run of the chosen one.

    Proxy gradients and seconds are those of all the ways.
    """
    runs: dict[str, Any] = {}

    def held_out_losses(way: str) -> Any:
        prefix = f"{way} "
        own = {key.removeprefix(prefix): setting[key] for key in setting if key.startswith(prefix)}
        runs[way] = train(network, proxy, WAYS[way], own, seed, held_out=HELD_OUT)
        return runs[way].pop("held_out", [math.inf] * HELD_OUT)

    choice = choose_way(held_out_losses, tuple(WAYS))
    paid = {
        name: sum(run[name] or 0 for run in runs.values())
        for name in ("proxy_gradients", "seconds")
    }
    best = choice.losses[choice.way]
    gaps = {way: (loss - best, choice.errors[way]) for way, loss in choice.losses.items()}
    return {**runs[choice.way], **paid, "way": choice.way, "gaps": gaps}
