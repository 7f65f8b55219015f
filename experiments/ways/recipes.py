"""How a run is trained: schedules by hand, and the library's ways."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from experiments.ways.cases import CapturedProxy, Case, make, make_images
from proxyprox.torch import WAYS, Candidate, Proxied, Way, choose_way, default_way

HAND = ("adamw", "interleaved", "late1", "late2", "late3", "growing", "fine-tuned", "joint")
Step = tuple[bool, bool, float]


def cosine(share: float) -> float:
    """Return half a cosine's fall from 1 to 0."""
    return (1 + math.cos(math.pi * min(1.0, share))) / 2


def by_hand(kind: str, steps: int, k: int) -> Iterator[Step]:
    """Yield for every step whether it is on the target, on the proxy, and the rate's factor.

    A run has ``steps`` gradients of the target and k times as many of the proxy, each in a step of
    its own; in *joint*, those of the target come with one of the proxy.

    *late1*: the proxy at a constant rate, then the target, the rate falling. *late2*, *late3*: in
    the second part every second, or third, step is on the target. *growing*: the share of target
    steps grows like the square of the progress. *fine-tuned*: the proxy with a rate that falls,
    then the target with half of the rate, falling. *joint*: every k-th step has both.
    """
    n = steps if kind == "adamw" else steps * k if kind == "joint" else steps * (k + 1)
    if kind == "proxy alone":
        n = steps * k
    every = int(kind[4:]) if kind.startswith("late") else 1
    first = n - min(n, every * steps) if kind.startswith("late") else 0
    grown = {round(n * ((i + 1) / steps) ** (1 / 3)) - 1 for i in range(steps)}
    for s in range(n):
        warm = min(1.0, (s + 1) / (0.05 * n))
        if kind == "adamw":
            yield True, False, warm * cosine(s / n)
        elif kind == "proxy alone":
            yield False, True, warm * cosine(s / n)
        elif kind == "interleaved":
            yield s % (k + 1) == 0, s % (k + 1) != 0, warm * cosine(s / n)
        elif kind == "growing":
            yield s in grown, s not in grown, warm * cosine(s / n)
        elif kind == "joint":
            yield s % k == 0, True, warm * cosine(s / n)
        elif kind == "fine-tuned":
            early = s < n - steps
            fall = cosine(s / (n - steps)) if early else 0.5 * cosine((s - n + steps) / steps)
            yield not early, early, warm * fall
        else:
            late = s >= first
            target = late and (s - first) % every == every - 1
            yield target, not target, warm * (cosine((s - first) / (n - first)) if late else 1.0)


def adamw(case: Case, lr: float) -> Any:
    """Return the optimiser of every competitor."""
    fused = case.params[0].is_cuda or None
    return torch.optim.AdamW(case.params, lr=lr, weight_decay=case.decay, fused=fused)


def train_by_hand(case: Case, kind: str, lr: float, k: int, steps: int) -> None:
    """Train with a schedule by hand; "late2*3" multiplies the target's gradient by 3."""
    optimizer = adamw(case, lr)
    kind, _, weight = kind.partition("*")
    for target, proxy, factor in by_hand(kind, steps, k):
        optimizer.param_groups[0]["lr"] = lr * factor
        if target:
            case.backward("target", case.target())
            if weight:
                torch._foreach_mul_([p.grad for p in case.params], float(weight))
            kept = [p.grad.clone() for p in case.params] if proxy else []
        if proxy:
            case.backward("proxy", case.proxy())
            for p, g in zip(case.params, kept if target else (), strict=False):
                p.grad = p.grad + g
        optimizer.step()


def train_ours(case: Case, way: Way, lr: float, steps: int) -> None:
    """Train with a way of the library."""
    optimizer = Proxied(
        adamw(case, lr), proxy=CapturedProxy(case), way=way, target_steps=steps, probe=False
    )
    optimizer.pretrain()
    for _ in range(steps):
        case.backward("target", case.target())
        optimizer.step()


def way_of(recipe: str, case: Case, k: int) -> Way:
    """Return a way by its name, by its fields, or what the library takes by default."""
    if recipe == "default":
        return default_way(**case.kind, proxy_steps=k)
    if recipe in WAYS:
        found = WAYS[recipe]
        return replace(found, proxy_steps=k) if found.proxy_steps else found
    return Way(proxy_steps=k, **json.loads(recipe))


def run(job: dict[str, Any], device: str, *, tiny: bool = False) -> dict[str, Any]:
    """Train and measure; the job has ``case``, ``recipe``, ``lr``, ``k``, ``seed``, ``validation``.

    Recipes are ``hand:<kind>[*weight]``, ``ours:<way, fields as JSON, or default>`` and ``chosen``.
    """
    begun = time.perf_counter()
    torch.set_num_threads(1)
    if job["case"] == "generator":
        make_images(device, tiny=tiny)
        return {**job, "seconds": round(time.perf_counter() - begun, 1)}
    owner, _, recipe = job["recipe"].partition(":")
    validation = job.get("validation", False)
    found: dict[str, Any] = {}

    def new(held_out: bool) -> Case:
        return make(job["case"], job["seed"], device, validation=held_out, tiny=tiny)

    if owner == "chosen":
        way, lr, found = choose(new, job)
    case = new(validation)
    if owner == "hand":
        train_by_hand(case, recipe, job["lr"], job["k"], case.steps)
    else:
        if owner == "ours":
            way, lr = way_of(recipe, case, job["k"]), job["lr"]
        train_ours(case, way, lr, case.steps)
    for part in ("validation", "test"):
        losses, accuracy = case.rows(part)
        found |= {f"{part}_loss": float(losses.mean()), f"{part}_accuracy": accuracy}
    return {**job, **found, "seconds": round(time.perf_counter() - begun, 1)}


def choose(new: Any, job: dict[str, Any]) -> tuple[Way, float, dict[str, Any]]:
    """Let ``choose_way`` find a way and a learning rate on held-out rows."""

    def train(candidate: Candidate, share: float) -> Any:
        case = new(True)
        train_ours(case, candidate.way, candidate.lr, max(2, round(share * case.steps)))
        return case.rows("validation")[0]

    kind = new(True).kind
    default = default_way(**kind)
    first = next(name for name, way in WAYS.items() if way == default)
    third = "corrected" if kind["target_rows"] == "fresh" else "fine-tuned"
    ways = list(dict.fromkeys([first, "late", "growing", third, "target alone"]))
    rates = [job["lr"] / 2, job["lr"], job["lr"] * 2]
    choice = choose_way(train, rates, ways, proxy_steps=job.get("ks", [job["k"]]))
    chosen = choice.candidate
    assert chosen is not None
    return chosen.way, chosen.lr, {"chosen": str(chosen)}
