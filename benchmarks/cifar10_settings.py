"""Settings for ``cifar10_search.py``: every method with its knobs, tuned alike.

    python benchmarks/cifar10_search.py --clean 500 2000 8000 --noise pair uniform --workers 4
    python benchmarks/cifar10_search.py --subset --seeds 3 --workers 4

The first are few right labels among wrong ones, at equal numbers of gradients; the second the
proxy of 2,560 images, at equal numbers of target gradients: 5 passes, and 25 with one seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

COMMON = {"weight_decay": 0.1, "warmup": 0.15, "average": 0.98, "refresh": 20, "augment": True,
          "proxy_augment": True, "label_smoothing": 0.1}  # fmt: skip
ALONE = {"optimizer": "adamw", **COMMON}
OURS = {"optimizer": "proxyadamw", "a": 0.2, "inner_steps": 8, "correction_weight": 0.3, **COMMON}
RATES = {"pair": 0.45, "uniform": 0.6}

Setting = dict[str, Any]


def grid(name: str, base: Setting, **values: list[Any]) -> list[Setting]:
    """Return a setting for every combination of values, named by them."""
    found = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        found.append({"name": f"{name}: {', '.join(map(str, combination))}", **base, **chosen})
    return found


def wrong_labels(lr: list[float]) -> list[Setting]:
    mixed, tuned = {"source": "mixed", **ALONE}, {"source": "fine-tuned", **ALONE}
    return [
        *grid("ours", OURS, lr=lr, corrected=[False, True]),
        *grid("ours, confusion", {"forward": True, **OURS}, lr=lr),
        *grid("clean alone", ALONE, lr=lr),
        *grid("noisy alone", {"source": "proxy", **ALONE}, lr=lr),
        *grid("fine-tuned", tuned, lr=lr, pretrain=[0.8], tune_lr=[2e-4, 1e-3]),
        *grid("mixed", mixed, lr=lr, mix=[0.1, 0.25]),
        *grid("mixed, forward", {"forward": True, **mixed}, lr=lr, mix=[0.25]),
    ]


def subset_settings(lr: list[float]) -> list[Setting]:
    by_hand, more = {**ALONE, "optimizer": "interleaved"}, {"inner_steps": 16, "target_weight": 6.0}
    long = {"config": {"passes": 25}, "seeds": 1}
    return [
        *grid("ProxyAdamW", {**OURS, **long}, lr=lr),
        *grid("interleaved", {**by_hand, **long}, lr=lr, interleave=[5]),
        *grid("AdamW", {**ALONE, **long}, lr=lr),
        *grid("interleaved", by_hand, lr=lr, interleave=[5]),
        *grid("ProxyAdamW", OURS, lr=lr, corrected=[False, True]),
        *grid("ProxyAdamW, 16 batches", {**OURS, **more}, lr=lr),
        *grid("AdamW", ALONE, lr=lr),
    ]


def settings(
    *,
    subset: bool,
    clean: Sequence[int],
    noise: Sequence[str],
    passes: float | None = None,
    lr: Sequence[float] = (2e-3,),
) -> list[Setting]:
    """Return the settings of a subset, or of few right labels among wrong ones.

    The passes are 5 and 10, wrong labels 45 % in pairs and 60 % uniform.
    """
    if subset:
        return [{"config": {"passes": passes or 5}, **s} for s in subset_settings([*lr])]
    found = []
    for number, kind in itertools.product(clean, noise):
        config = {"clean": number, "noise": kind, "noise_rate": RATES[kind],
                  "passes": passes or 10}  # fmt: skip
        found += [{**setting, "config": config} for setting in wrong_labels([*lr])]
    return found
