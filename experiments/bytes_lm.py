"""Byte-level text: a small transformer, few gradients of one kind of text, many of another.

    python -m experiments.bytes_lm corpus.npz

Three cases for ``python -m experiments.networks``: *text-reused*, 200 kB of C headers are the
target, used again and again, and Python sources the proxy; *text-part*, every target batch is of
new Python sources, and 500 kB of them are the proxy; *text-other*, the same target, and C headers
the proxy. The loss is in nats a byte, on text that is not trained on. *bytes-reused*, *bytes-part*
and *bytes-other* are the same in small, for ``python -m experiments.ways`` on a CPU; 3,700 bytes
are then the target that is used again and again.
"""

from __future__ import annotations

import random
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

CONTEXT, ROWS = 192, 48
LONGEST = 60_000
HELD_OUT = 600_000


def pack(path: str | Path, python_bytes: int = 28_000_000, c_bytes: int = 8_000_000) -> None:
    """Write two corpora as compressed arrays: the standard library, and the system's headers."""
    library = Path(sysconfig.get_paths()["stdlib"])
    python = (p for p in library.rglob("*.py") if "site-packages" not in p.parts)
    headers = Path("/usr/include").rglob("*.h")
    np.savez_compressed(path, python=read(python, python_bytes), c=read(headers, c_bytes))


def read(paths: Iterable[Path], limit: int) -> Any:
    """Return the beginnings of files in a random order, up to a number of bytes."""
    files = sorted(p for p in paths if p.is_file())
    random.Random(0).shuffle(files)
    parts, size = [], 0
    for file in files:
        parts.append(file.read_bytes()[:LONGEST])
        size += len(parts[-1])
        if size >= limit:
            break
    return np.frombuffer(b"".join(parts)[:limit], np.uint8)


class Block(nn.Module):  # type: ignore[misc]
    """Causal attention and two layers, each normalised first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """Return the block's output."""
        parts = self.mix(self.first(x)).chunk(3, dim=-1)
        query, key, value = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class ByteTransformer(nn.Module):  # type: ignore[misc]
    """Scores of the next byte; 3 million weights by default."""

    def __init__(self, width: int = 256, layers: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, width)
        self.position = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, x: Any) -> Any:
        """Return the scores after every byte."""
        return self.head(self.norm(self.blocks(self.embed(x) + self.position[: x.shape[1]])))


class Text:
    """Random pieces of a text."""

    def __init__(self, text: Any, seed: int, rows: int = ROWS, context: int = CONTEXT) -> None:
        self.text, self.rows, self.context = text, rows, context
        self.generator = torch.Generator(device=text.device).manual_seed(seed)
        self.offsets = torch.arange(context + 1, device=text.device)

    def next(self) -> Any:
        """Return a batch of bytes."""
        last = len(self.text) - self.context - 1
        start = torch.randint(last, (self.rows,), generator=self.generator, device=self.text.device)
        return self.text[start[:, None] + self.offsets].long()


def row_losses(model: Any, batch: Any) -> Any:
    """Return the mean loss of each row, in nats a byte."""
    half = torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.is_cuda)
    with half:
        scores = model(batch[:, :-1])
    each = functional.cross_entropy(
        scores.float().flatten(0, 1), batch[:, 1:].flatten(), reduction="none"
    )
    return each.view(len(batch), -1).mean(1)


def texts(case: str, path: str | Path, device: Any) -> dict[str, Any]:
    """Return the texts of a case: target, proxy, and two parts that are held out."""
    corpus = np.load(path)
    python, c = (torch.tensor(corpus[name], device=device) for name in ("python", "c"))
    reused = case.endswith("-reused")
    target, other = (c, python) if reused else (python, c)
    held, target = target[-HELD_OUT:], target[:-HELD_OUT]
    proxy = target[:500_000] if case.endswith("-part") else other
    if reused:  # in small, too, some eighteen passes
        target = target[: 200_000 if case.startswith("text") else 3700]
    half = HELD_OUT // 2
    return {"target": target, "proxy": proxy, "validation": held[:half], "test": held[half:]}


if __name__ == "__main__":
    pack(sys.argv[1])
