"""What other batches in the full pass than in the inner steps do to a network with BatchNorm.

    python benchmarks/batchnorm_anchor.py [--seeds 3] [--steps 300] [--convolutions] [--json FILE]

Digits, a network of four layers with BatchNorm, a proxy of 160 rows, inner steps on batches of 16
(so 10 of them are a pass). The full pass that gives ∇L̂(w_k) goes over

- *alike*: batches drawn as those of the inner steps (``full=`` left out);
- *fixed*: the same batch size, but always the same batches;
- *whole*: all rows in one batch;
- *paired*, *eval*: as *whole*, with ``anchor="paired"`` or ``proxy_mode="eval"``.

``--convolutions`` takes three convolutional layers and longer steps instead (η = 3, ten inner steps
of 0.3, target batches of 100), where weights that are no longer finite end a run.

Prints medians over the seeds: the training loss (BatchNorm's statistics measured on the training
rows), held-out accuracy, and the loss on the *fixed* batches, on the way and at the end.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import warnings
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from proxyprox.inner import NonFiniteError
from proxyprox.torch import (
    EMA,
    BatchStatisticsWarning,
    ImplicitStep,
    Plain,
    Proxy,
    ProxyProx,
    refreshed_batchnorm,
)

TRAINING, PROXY, INNER, TARGET = 1500, 160, 16, 32
KINDS: dict[str, dict[str, Any]] = {
    "alike": {}, "fixed": {}, "whole": {},
    "paired": {"anchor": "paired"}, "eval": {"proxy_mode": "eval"},
}  # fmt: skip


def data() -> tuple[Any, Any]:
    X, y = map(torch.tensor, load_digits(return_X_y=True))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    return X[order].float() / 16, y[order]


def network(seed: int, width: int = 64, depth: int = 4) -> Any:
    torch.manual_seed(seed)
    layers: list[Any] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(64, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))


def convolutions(seed: int, width: int = 16) -> Any:
    torch.manual_seed(seed)
    layers: list[Any] = [torch.nn.Unflatten(1, (1, 8, 8))]
    for channels in (1, width, width):
        layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.BatchNorm2d(width),
                   torch.nn.ReLU()]  # fmt: skip
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(64 * width, 10))


def train(
    kind: str, correction: Any, seed: int, steps: int, *, convolutional: bool
) -> list[dict[str, float]]:
    X, y = data()
    model = (convolutions if convolutional else network)(seed)
    lr, inner, count, rows_drawn = (3.0, 0.3, 10, 100) if convolutional else (0.3, 0.02, 20, TARGET)
    cheap = TensorDataset(X[:PROXY], y[:PROXY])
    order = torch.Generator().manual_seed(100 + seed)
    loader = DataLoader(cheap, INNER, shuffle=True, generator=order)
    fixed = list(DataLoader(cheap, INNER))
    full = {"alike": None, "fixed": fixed}.get(kind, [(X[:PROXY], y[:PROXY])])

    def loss(batch: Any) -> Any:
        return cross_entropy(model(batch[0]), batch[1])

    optimizer = ProxyProx(
        model.parameters(), lr, proxy=Proxy(loader, loss, full=full), correction=correction,
        model=model, inner=ImplicitStep(inner), stop=count, **KINDS[kind],
    )  # fmt: skip
    draw = torch.Generator().manual_seed(200 + seed)
    seen = []
    for k in range(1, steps + 1):
        rows = torch.randint(TRAINING, (rows_drawn,), generator=draw)
        optimizer.zero_grad()
        loss((X[rows], y[rows])).backward()
        try:
            optimizer.step()
        except NonFiniteError:
            lost = {"step": k, "loss": math.nan, "accuracy": math.nan, "fixed": math.nan}
            return [*seen, *[lost] * (3 - len(seen))]
        if k % (steps // 3) == 0:
            with torch.no_grad(), refreshed_batchnorm(model, [X[:TRAINING]], model):
                model.eval()
                value = float(loss((X[:TRAINING], y[:TRAINING])))
                right = (model(X[TRAINING:]).argmax(1) == y[TRAINING:]).float().mean()
                model.train()
                on_fixed = sum(float(loss(batch)) for batch in fixed) / len(fixed)
            seen.append({"step": k, "loss": value, "accuracy": float(right), "fixed": on_fixed})
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--convolutions", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", BatchStatisticsWarning)
    results = []
    print("full pass correction    step      loss  accuracy     fixed")
    for correction in (Plain(), EMA(0.2)):
        for kind in KINDS:
            runs = [
                train(kind, correction, seed, given.steps, convolutional=given.convolutions)
                for seed in range(given.seeds)
            ]
            for points in zip(*runs, strict=True):
                row = {name: statistics.median(p[name] for p in points) for name in points[0]}
                results.append({"kind": kind, "correction": repr(correction), **row})
                print(
                    f"{kind:10s}{correction!r:12s}{row['step']:6.0f}{row['loss']:10.3g}"
                    f"{row['accuracy']:10.3f}{row['fixed']:10.3g}",
                    flush=True,
                )
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
