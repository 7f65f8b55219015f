"""Search for better settings of the CIFAR-10 experiment on one GPU, within a time limit.

    PROXYPROX_DATA=... PYTHONPATH=src python benchmarks/cifar10_search.py \
        --minutes 8 --json search.json [--only ema,resample] [--seeds 1] [--passes 5]

Runs a list of settings one after the other until the time is over, and prints a table after each:
test accuracy after 1, 3 and 5 passes (or the nearest points), seconds and proxy gradients. What
ran out of time is listed. ``--settings file.json`` replaces the list by one's own: a list of
objects with a ``name`` and fields of ``Recipe``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from experiments.cifar10 import TINY, Config, Recipe
from experiments.cifar10.run import device_data
from experiments.cifar10.training import Training

EMA = Recipe("ema", correction="ema", a=0.1, lr=0.25, inner_steps=20, inner_lr=0.01)


def ema(name: str, **changes: Any) -> Recipe:
    return replace(EMA, name=name, **changes)


SETTINGS = [
    EMA,
    ema("ema anchor512", anchor_batch=512),
    ema("ema refresh", refresh=20),
    ema("ema average .98 refresh", average=0.98, refresh=20),
    ema("ema proxy aug", proxy_augment=True, refresh=20),
    ema("ema both aug", proxy_augment=True, augment=True, refresh=20),
    ema("ema aug average", proxy_augment=True, augment=True, average=0.98, refresh=20),
    ema("ema smoothing .1", label_smoothing=0.1, refresh=20),
    ema("ema resample 100", resample_every=100, refresh=20),
    ema("ema resample 20", resample_every=20, refresh=20),
    ema("ema resample 20 aug", resample_every=20, proxy_augment=True, augment=True, refresh=20),
    ema("ema resample 5 lr.02", resample_every=5, inner_lr=0.02, refresh=20),
    ema("ema resample 20 momentum", resample_every=20, inner_momentum=0.9, inner_lr=0.005,
        refresh=20),
    ema("ema resample 20 average", resample_every=20, average=0.98, refresh=20),
    ema("ema inner lr .02→.002", inner_lr=0.02, inner_lr_end=0.002, refresh=20),
    ema("ema inner 20→5", inner_steps_end=5, refresh=20),
    ema("ema batch 256", batch_size=256, refresh=20),
    ema("ema batch 64", batch_size=64, refresh=20),
    ema("ema eta 1", lr=1.0, refresh=20),
    ema("ema eta .1", lr=0.1, refresh=20),
    ema("ema paired", anchor="paired", refresh=20),
    Recipe("plain paired", anchor="paired", refresh=20),
    Recipe("plain resample 20", resample_every=20, refresh=20),
    ema("ema decay 1e-3", weight_decay=1e-3, refresh=20),
    ema("ema .05 resample 20", a=0.05, resample_every=20, refresh=20),
    ema("ema .3 resample 20", a=0.3, resample_every=20, refresh=20),
    Recipe("SGD", "sgd", lr=0.1),
    Recipe("SGD Nesterov", "sgd", lr=0.05, momentum=0.9),
    Recipe("AdamW", "adamw", lr=1e-3, weight_decay=0.1),
]  # fmt: skip
"""One thing changed at a time from the best known, then the combinations that seem worth it."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--passes", type=float, default=5.0)
    parser.add_argument("--until", type=float, help="stop each run after so many passes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--settings", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="synthetic images, for a CPU")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def chosen(given: argparse.Namespace) -> list[Recipe]:
    settings = SETTINGS
    if given.settings:
        settings = [Recipe(**item) for item in json.loads(given.settings.read_text())]
    words = [word.strip() for word in given.only.split(",") if word.strip()]
    return [r for r in settings if not words or any(word in r.name for word in words)]


def accuracy_at(points: list[dict[str, Any]], passes: float) -> float | None:
    near = [p for p in points if abs(p["passes"] - passes) < 0.02]
    return near[-1]["test_accuracy"] if near else None


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'setting':32s} seed     1      3      5     end    train  seconds  ms/step  proxy"]
    for row in rows:
        shown = [f"{a:.4f}" if a is not None else "  –   " for a in row["accuracy"]]
        lines.append(
            f"{row['name']:32s} {row['seed']:4d}  {'  '.join(shown)} {row['end']:.4f} "
            f"{row['train_loss']:7.4f} {row['seconds']:8.1f} {row['ms_per_step']:8.1f} "
            f"{row['proxy_sampled_gradients']:7d}"
        )
    return "\n".join(lines)


def main() -> None:
    given = options()
    deadline = time.monotonic() + 60 * given.minutes
    recipes = chosen(given)
    base = TINY if given.tiny else Config()
    config = replace(
        base, recipes=tuple(recipes), passes=given.passes, seeds=given.seeds,
        compile=not given.no_compile, graphs=not given.no_graphs,
        points_per_pass=2 if given.tiny else 1,
    )  # fmt: skip
    if given.tiny:
        small = {"batch_size": 32, "proxy_size": 128, "inner_steps": 2}
        recipes = [replace(r, **small) for r in recipes]
    # Every batch size and mode is a graph of its own to the compiler.
    torch._dynamo.config.recompile_limit = 64
    torch.backends.cudnn.benchmark = True
    train, test, source = device_data(config, given.device, given.data)
    device = torch.cuda.get_device_name() if train.device.type == "cuda" else "cpu"
    print(f"{source}: {len(train)} + {len(test)} images on {device}", flush=True)
    rows: list[dict[str, Any]] = []
    left: list[str] = []
    slowest = 0.0
    for seed in range(given.seeds):
        for recipe in recipes:
            begun = time.monotonic()
            if begun + slowest > deadline:
                left.append(f"{recipe.name}, seed {seed}")
                continue
            try:
                training = Training(config, recipe, seed, train, test)
            except (RuntimeError, ValueError, TypeError) as error:
                print(f"{recipe.name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            ready = time.monotonic()
            until = given.until or given.passes
            end = round(until * len(train) / recipe.batch_size)
            training.run(stop=lambda t=training, e=end: t.step >= e or time.monotonic() > deadline)
            last = training.points[-1]
            rows.append(
                {
                    "name": recipe.name,
                    "seed": seed,
                    "accuracy": [accuracy_at(training.points, n) for n in (1, 3, 5)],
                    "end": last["test_accuracy"],
                    "train_loss": last["train_loss"],
                    "passes": last["passes"],
                    "seconds": last["seconds"],
                    "ms_per_step": 1e3 * last["seconds"] / max(1, training.step),
                    "setup_seconds": ready - begun,
                    "proxy_gradients": last["proxy_gradients"],
                    "proxy_sampled_gradients": last["proxy_sampled_gradients"],
                    "recipe": asdict(recipe),
                    "points": training.points,
                }
            )
            slowest = max(slowest, time.monotonic() - ready)
            print(table(rows[-1:]), flush=True)
            if given.json:
                result = {"device": device, "torch": torch.__version__, "source": source,
                          "passes": given.passes, "rows": rows, "left": left}  # fmt: skip
                given.json.write_text(json.dumps(result, indent=1) + "\n")
            del training
    print("\n" + table(sorted(rows, key=lambda row: -row["end"])))
    if left:
        print(f"no time for: {'; '.join(left)}")


if __name__ == "__main__":
    main()
