"""A network on private digits, with 150 public ones: Opacus' optimisers, and ProxyProx inside them.

All begin at the network that was trained on the public digits, and have the same budget. Opacus
clips, adds noise and counts; what it wraps is SGD, Adam, ``ProxyProx`` or ``ProxyAdamW``, whose
passes over the public digits cost nothing and stay out of the per-sample gradients. The last layer
alone is a logistic regression on the network's features, which ``PrivateLogisticRegression`` fits
without a setting to tune.

    python examples/private_network.py               # the table, a few minutes on a CPU
    python examples/private_network.py --tune FILE   # how the settings below were found

The noise follows from a seed here, so that the table can be repeated: never seed a run on rows that
are private. Settings are chosen on test rows of other splits, which a user could not do: the same
favour for all. The page on private networks has the table and what to make of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from proxyprox.private import PrivateLogisticRegression, noise_multiplier
from proxyprox.torch import ImplicitStep, Mean, Proxy, ProxyAdamW, ProxyProx, Way

DELTA, PUBLIC, TEST = 1e-5, 150, 397
PRIVATE = 1797 - PUBLIC - TEST

# Full batches: K Poisson samples of a quarter of the rows need 13 % more noise on their mean.
GRIDS = {
    "DP-SGD": {"lr": [0.3, 1.0, 3.0, 10.0], "clip": [0.3, 1.0, 3.0, 10.0], "steps": [20, 80]},
    "DP-Adam": {"lr": [0.003, 0.01, 0.03, 0.1], "clip": [0.1, 0.3, 1.0, 3.0], "steps": [20, 80]},
    "ProxyProx": {"lr": [1.0, 3.0, 10.0, 30.0], "clip": [0.3, 1.0, 3.0, 10.0], "steps": [20, 80]},
    "ProxyAdamW": {"lr": [0.003, 0.01, 0.03, 0.1], "clip": [0.1, 0.3, 1.0, 3.0], "steps": [20, 80]},
}
SETTINGS: dict[str, dict[float, Any]] = {
    "DP-SGD": {
        1.0: {"lr": 3.0, "clip": 0.3, "steps": 80},
        3.0: {"lr": 3.0, "clip": 1.0, "steps": 80},
    },
    "DP-Adam": {
        1.0: {"lr": 0.03, "clip": 0.1, "steps": 80},
        3.0: {"lr": 0.03, "clip": 0.3, "steps": 80},
    },
    "ProxyProx": {
        1.0: {"lr": 10.0, "clip": 0.3, "steps": 80},
        3.0: {"lr": 10.0, "clip": 1.0, "steps": 80},
    },
    "ProxyAdamW": {
        1.0: {"lr": 0.03, "clip": 0.3, "steps": 80},
        3.0: {"lr": 0.03, "clip": 0.3, "steps": 80},
    },
}


def split(seed: int) -> list[tuple[Any, Any]]:
    """Return public, private and test rows."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = torch.tensor(X[order] / 16).float(), torch.tensor(y[order])
    sizes = [PUBLIC, PRIVATE, TEST]
    return list(zip(X.split(sizes), y.split(sizes), strict=True))


def network() -> Any:
    """Return the network, not yet trained."""
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))


def train(model: Any, rows: tuple[Any, Any], steps: int = 400) -> Any:
    """Train without privacy."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy(model(rows[0]), rows[1]).backward()
        optimizer.step()
        schedule.step()
    return model


def make_optimizer(method: str, model: Any, public: tuple[Any, Any], lr: float) -> Any:
    """Return what Opacus will wrap."""
    params = list(model.parameters())
    if method == "DP-SGD":
        return torch.optim.SGD(params, lr)
    if method == "DP-Adam":
        return torch.optim.Adam(params, lr)
    proxy = Proxy([public], lambda batch: cross_entropy(model(batch[0]), batch[1]))
    if method == "ProxyAdamW":
        way = Way(proxy_steps=2, weight=3.0)
        return ProxyAdamW(params, lr, proxy=proxy, way=way, weight_decay=0, model=model)
    return ProxyProx(
        params, lr, proxy=proxy, correction=Mean(), inner=ImplicitStep(0.3), stop=10, model=model
    )


def train_privately(
    method: str, model: Any, public: Any, private: Any, *, epsilon: float, lr: float, clip: float,
    steps: int,
) -> Any:  # fmt: skip
    """Train from the public weights on private rows, with Opacus."""
    optimizer = make_optimizer(method, model, public, lr)
    engine = PrivacyEngine(accountant="rdp")
    loader = DataLoader(TensorDataset(*private), batch_size=len(private[1]))
    module, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, max_grad_norm=clip,
        noise_multiplier=noise_multiplier(epsilon, DELTA, steps),
    )  # fmt: skip
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for k, (inputs, labels) in enumerate(itertools.islice(batches, steps)):
        optimizer.param_groups[0]["lr"] = lr * (1 - k / steps)
        optimizer.zero_grad()
        cross_entropy(module(inputs), labels).backward()
        optimizer.step()
    module.remove_hooks()
    return model


def evaluate(outputs: Any, labels: Any) -> tuple[float, float]:
    """Return log-loss and accuracy."""
    right = (outputs.argmax(1) == labels).float().mean()
    return float(cross_entropy(outputs.detach(), labels)), float(right)


def fit_last_layer(model: Any, public: Any, private: Any, test: Any, epsilon: float) -> Any:
    """Return log-loss and accuracy of a private logistic regression on the network's features."""
    features = [model[:2](rows[0]).detach().double().numpy() for rows in (public, private, test)]
    regression = PrivateLogisticRegression(
        epsilon=epsilon, delta=DELTA, classes=list(range(10)), n_nominal=PRIVATE, bound=6.0,
        moments=0.0,
    )  # fmt: skip
    regression.fit(features[1], private[1].numpy(), features[0], public[1].numpy())
    logits = np.log(np.maximum(regression.predict_proba(features[2]), 1e-12))
    return evaluate(torch.tensor(logits), test[1])


def start(seed: int) -> tuple[Any, ...]:
    """Return the network trained on the public rows, and the rows."""
    torch.manual_seed(seed)
    public, private, test = split(seed)
    return train(network(), public), public, private, test


def copy_of(model: Any) -> Any:
    """Return a copy of a network."""
    fresh = network()
    fresh.load_state_dict(model.state_dict())
    return fresh


def tune(path: Path, methods: list[str], epsilons: list[float], seeds: list[int]) -> None:
    """Write, for each method, the setting of least log-loss on test rows."""
    ready = [start(seed) for seed in seeds]
    for method, epsilon in itertools.product(methods, epsilons):
        found = []
        for values in itertools.product(*GRIDS[method].values()):
            setting = dict(zip(GRIDS[method], values, strict=True))
            losses = []
            for model, public, private, test in ready:
                trained = copy_of(model)
                try:
                    train_privately(method, trained, public, private, epsilon=epsilon, **setting)
                    losses.append(evaluate(trained(test[0]), test[1])[0])
                except ArithmeticError:
                    losses.append(np.inf)
            found.append((float(np.mean(losses)), setting))
        found.sort(key=lambda pair: pair[0])
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([method, epsilon, found]) + os.linesep)
        print(f"{method}, ε = {epsilon:g}: {found[0]}", flush=True)  # noqa: T201


def compare(epsilons: list[float], seeds: list[int], record: Path | None) -> None:
    """Print means over splits, and gaps to the public network and to DP-SGD with their errors."""
    losses: dict[Any, list[tuple[float, float]]] = {}
    for seed in seeds:
        model, public, private, test = start(seed)
        both = [torch.cat(parts) for parts in zip(public, private, strict=True)]
        for epsilon in epsilons:
            scores = {
                "public digits only": evaluate(model(test[0]), test[1]),
                "the last layer, untuned": fit_last_layer(model, public, private, test, epsilon),
                "no privacy": evaluate(train(copy_of(model), both)(test[0]), test[1]),
            }
            for method in GRIDS:
                trained, setting = copy_of(model), SETTINGS[method][epsilon]
                train_privately(method, trained, public, private, epsilon=epsilon, **setting)
                scores[method] = evaluate(trained(test[0]), test[1])
            for method, score in scores.items():
                losses.setdefault((method, epsilon), []).append(score)
    lines = []
    for (method, epsilon), found in losses.items():
        loss, right = np.mean(found, axis=0)
        line = {"method": method, "epsilon": epsilon, "splits": len(found), "loss": loss}
        line |= {"accuracy": right, "worst": max(found)[0], "losses": [pair[0] for pair in found]}
        for rival in ("public digits only", "DP-SGD"):
            gaps = np.subtract(found, losses[rival, epsilon])[:, 0]
            line[f"against {rival}"] = gaps.mean(), gaps.std(ddof=1) / np.sqrt(len(gaps))
        lines.append(line)
        gaps = "  ".join(f"{v[0]:+.3f} ± {v[1]:.3f}" for k, v in line.items() if "against" in k)
        print(f"ε = {epsilon:g}  {method:24} {loss:.3f}  {right:.3f}  {gaps}")  # noqa: T201
    if record:
        from experiments.records import write_record

        measures = ["src/proxyprox/private", "src/proxyprox/torch"]
        write_record(record, {"settings": SETTINGS, "lines": lines}, measures=measures)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Private digits, public digits as the proxy.")
    parser.add_argument("--tune", type=Path, metavar="FILE", help="tune, and add what is found")
    parser.add_argument("--settings", type=Path, metavar="FILE", help="what --tune has found")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the table as JSON")
    parser.add_argument("--methods", nargs="*", default=list(GRIDS), choices=list(GRIDS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--seeds", nargs="*", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="Secure RNG|Full backward hook|Optimal order")
    if given.tune:
        tune(given.tune, given.methods, given.epsilons, given.seeds or [100, 101, 102])
    else:
        for line in given.settings.read_text().splitlines() if given.settings else ():
            method, epsilon, found = json.loads(line)
            SETTINGS[method][epsilon] = found[0][1]
        compare(given.epsilons, given.seeds or list(range(12)), given.record)


if __name__ == "__main__":
    main()
