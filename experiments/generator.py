"""A class-conditional diffusion model of a few real images, whose images may serve as a proxy.

A U-Net of two levels learns to take noise from images (Ho et al., 2020), with a cosine schedule of
the noise and classes dropped in a tenth of the batches; images are drawn by 50 steps of DDIM (Song
et al., 2021) with guidance. ``python -m experiments.networks`` runs it.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

CLASSES, NOTHING = 10, 10
"""How many classes there are, and the number that stands for none."""


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions around what is known of time and class."""

    def __init__(self, before: int, after: int, known: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1)
        )
        self.known = nn.Linear(known, after)
        self.second = nn.Sequential(
            nn.GroupNorm(8, after), nn.SiLU(), nn.Conv2d(after, after, 3, padding=1)
        )
        self.around: Any = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Any, known: Any) -> Any:
        """Return the block's output."""
        y = self.first(x) + self.known(known)[:, :, None, None]
        return self.second(y) + self.around(x)


class Denoiser(nn.Module):  # type: ignore[misc]
    """The noise in images, by the time and the class."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        known = 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, known), nn.SiLU(), nn.Linear(known, known))
        self.kind = nn.Embedding(CLASSES + 1, known)
        self.begin = nn.Conv2d(3, width, 3, padding=1)
        sizes = [(width, width), (width, 2 * width), (2 * width, 2 * width)]
        self.down = nn.ModuleList(Residual(a, b, known) for a, b in sizes)
        self.middle = Residual(2 * width, 2 * width, known)
        self.up = nn.ModuleList(
            Residual(a + b, a, known)
            for a, b in ((2 * width, 2 * width), (width, 2 * width), (width, width))
        )
        self.narrow = nn.ModuleList(
            nn.Conv2d(a, b, 1) for a, b in ((2 * width, width), (width, width))
        )
        self.end = nn.Sequential(
            nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, x: Any, share: Any, labels: Any) -> Any:
        """Return the noise; `share` is the time in [0, 1]."""
        waves = torch.exp(torch.linspace(0, math.log(1000), self.width // 2, device=x.device))
        angles = share[:, None] * waves
        known = functional.silu(
            self.time(torch.cat([angles.sin(), angles.cos()], 1)) + self.kind(labels)
        )
        x, kept = self.begin(x), []
        for block in self.down:
            x = block(x, known)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.middle(x, known)
        for i, block in enumerate(self.up):
            x = functional.interpolate(x, scale_factor=2)
            x = block(torch.cat([x, kept.pop()], 1), known)
            x = self.narrow[i](x) if i < len(self.narrow) else x
        return self.end(x)


def signal(share: Any) -> Any:
    """Return the share of the signal's variance at a time, a squared cosine."""
    return torch.cos(share * 0.99 * math.pi / 2) ** 2


def fit(images: Any, labels: Any, *, steps: int, width: int, batch: int, seed: int = 0) -> Any:
    """Return a denoiser with averaged weights."""
    torch.manual_seed(seed)
    model = Denoiser(width).to(images.device)
    averaged = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    for step in range(steps):
        rows = torch.randint(len(images), (batch,), device=images.device)
        x = images[rows].permute(0, 3, 1, 2).float() / 127.5 - 1
        x = torch.where(torch.rand(batch, 1, 1, 1, device=x.device) < 0.5, x.flip(3), x)
        kinds = torch.where(torch.rand(batch, device=x.device) < 0.1, NOTHING, labels[rows])
        share, noise = torch.rand(batch, device=x.device), torch.randn_like(x)
        a = signal(share)[:, None, None, None]
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            found = model(a.sqrt() * x + (1 - a).sqrt() * noise, share, kinds)
        loss = functional.mse_loss(found.float(), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay = min(0.999, (step + 1) / (step + 10))
        with torch.no_grad():
            for mean, p in zip(averaged.parameters(), model.parameters(), strict=True):
                mean.lerp_(p, 1 - decay)
    return averaged


@torch.no_grad()  # type: ignore[untyped-decorator]
def draw(model: Any, labels: Any, *, steps: int = 50, guidance: float = 1.5) -> Any:
    """Return images of these classes, uint8."""
    x = torch.randn(len(labels), 3, 32, 32, device=labels.device)
    times = torch.linspace(1, 0, steps + 1, device=labels.device)
    nothing = torch.full_like(labels, NOTHING)
    for now, then in itertools.pairwise(times):
        share = now.expand(len(labels))
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            own, plain = model(x, share, labels).float(), model(x, share, nothing).float()
        noise = plain + guidance * (own - plain)
        a, b = signal(now), signal(then)
        clean = ((x - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
        x = b.sqrt() * clean + (1 - b).sqrt() * noise
    return ((x.permute(0, 2, 3, 1) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def generate(
    images: Any, labels: Any, *, steps: int, count: int, tiny: bool, device: str
) -> tuple[Any, Any]:
    """Return generated images and their classes, made of real ones, as arrays."""
    real, kinds = torch.as_tensor(images).to(device), torch.as_tensor(labels).long().to(device)
    size = {"width": 8, "batch": 8} if tiny else {"width": 96, "batch": 128}
    model = fit(real, kinds, steps=steps, **size)
    wanted = torch.arange(count, device=device) % CLASSES
    parts = wanted.split(16 if tiny else 1000)
    made = [draw(model, some, steps=3 if tiny else 50).cpu().numpy() for some in parts]
    return np.concatenate(made), wanted.cpu().numpy()
