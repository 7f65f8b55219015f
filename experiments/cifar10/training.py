"""One competitor's run: build, train, evaluate along the way, survive interruptions."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR

from experiments.cifar10.config import Config, Recipe
from experiments.cifar10.model import ResNet18, evaluate, half_precision
from experiments.cuda_graphs import (
    CapturedGradient,
    DeviceImages,
    GraphedProxy,
    Plans,
    image_layout,
)
from proxyprox._util.files import atomic_output
from proxyprox._util.signals import critical, ending_signals, step_first
from proxyprox.corrections import Correction
from proxyprox.report.records import Point
from proxyprox.torch import EMA, ImplicitStep, Mean, Plain, ProxyProx, WeightAverage

SAVE_SECONDS = 60.0


def device_name(device: torch.device) -> str:
    """Return what to call the device that a run is made on."""
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else device.type


class Training:
    """The state of one run, which can be saved at any step and resumed.

    Parameters
    ----------
    config : Config
        The experiment.
    recipe : Recipe
        The competitor.
    seed : int
        Of weights, order, proxy and augmentation.
    train, test : DeviceImages
        The data, on the device to train on.
    """

    def __init__(
        self, config: Config, recipe: Recipe, seed: int, train: DeviceImages, test: DeviceImages
    ) -> None:
        self.config, self.recipe, self.seed = config, recipe, seed
        self.train, self.test = train, test
        device, count = train.device, len(train)
        self.total = max(1, round(config.passes * count / recipe.batch_size))
        self.step, self.seconds = 0, 0.0
        self.points: list[Point] = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = ResNet18(config.width)
        self.model.to(device=device, memory_format=image_layout(device))
        self.params = list(self.model.parameters())
        fast = device.type == "cuda"
        # Fixed shapes: kernels for any batch size are slower, and there are three sizes at most.
        network = (
            torch.compile(self.model, dynamic=False) if fast and config.compile else self.model
        )
        smoothing = recipe.label_smoothing

        def loss(plan: Any) -> Any:
            x, y = train.batch(plan)
            with half_precision(device):
                scores = network(x)
            return cross_entropy(scores.float(), y, label_smoothing=smoothing)

        everyone = torch.arange(count)
        self._chooser = torch.Generator().manual_seed(1000 + seed)
        self.batches = Plans(
            train, everyone, recipe.batch_size, augment=recipe.augment, seed=2000 + seed
        )
        subset = self._subset()
        self.proxy_plans = Plans(
            train, subset, recipe.inner_batch,
            augment=recipe.proxy_augment, seed=3000 + seed,
        )  # fmt: skip
        # Captured before the proxy's, so that the weights' first use is in training mode.
        self.target = CapturedGradient(
            loss, self.params, train.plain_plan(everyone[: recipe.batch_size]),
            graph=config.graphs, buffers=list(self.model.buffers()),
        )  # fmt: skip
        self.optimizer = self._optimizer(loss)
        self.scheduler = LambdaLR(self.optimizer, self._factor)
        self.average = WeightAverage(self.params, recipe.average) if recipe.average else None
        chosen = torch.randperm(count, generator=torch.Generator().manual_seed(0))
        self._train_indices = chosen[: config.train_evaluation].to(device)

    # -- running ----------------------------------------------------------------------------

    def run(
        self, checkpoint: Path | None = None, stop: Callable[[], bool] = lambda: False
    ) -> list[Point]:
        """Train to the end, or until asked to stop, and return the points so far.

        The checkpoint is written every minute and where training stops short of the end.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, SIGTERM or SIGHUP: at the end of the step, and when the checkpoint is
            written. A second one breaks off at once; the last checkpoint then stays.
        """
        marks = self._marks()
        saved = time.monotonic()
        with ending_signals(), step_first(patience=None) as asked:
            if self.step == 0 and not self.points:
                self._note()
            while self.step < self.total and not (stop() or asked()):
                self._advance(measured=self.step + 1 in marks)
                if self.step in marks:
                    self._note()
                if checkpoint is not None and time.monotonic() - saved > SAVE_SECONDS:
                    self.save(checkpoint)
                    saved = time.monotonic()
            if checkpoint is not None and (self.step < self.total or asked()):
                self.save(checkpoint)
        return self.points

    def _advance(self, *, measured: bool) -> None:
        begun = time.perf_counter()
        every = self.recipe.resample_every
        if isinstance(self.optimizer, ProxyProx):
            if every and self.step and self.step % every == 0:
                self._resample()
            self.optimizer.measure_residual = measured
        self.target.backward(self.batches.next())
        self.optimizer.step()
        self.scheduler.step()
        if self.average is not None:
            self.average.update()
        self.step += 1
        if measured and self.train.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - begun

    def _note(self) -> None:
        recipe = self.recipe
        refresh = (self.proxy_plans, recipe.refresh) if recipe.refresh else None
        scores = evaluate(
            self.model, self.train, self._train_indices, self.test,
            average=self.average, refresh=refresh,
        )  # fmt: skip
        ours = self.optimizer if isinstance(self.optimizer, ProxyProx) else None
        record = None if ours is None else ours.record
        ledger = None if ours is None else ours.ledger
        samples = self.step * recipe.batch_size
        self.points.append(
            {
                "method": recipe.name,
                "seed": self.seed,
                "passes": round(samples / len(self.train), 6),
                "target_gradients": self.step,
                "target_samples": samples,
                "proxy_gradients": 0 if ledger is None else ledger.proxy_gradients,
                "proxy_sampled_gradients": 0 if ledger is None else ledger.proxy_sampled_gradients,
                "seconds": self.seconds,
                "residual": None if record is None else record.residual,
                "device": device_name(self.train.device),
                **scores,
            }
        )

    def _marks(self) -> set[int]:
        count = max(1, round(self.config.passes * self.config.points_per_pass))
        return {max(1, round(self.total * j / count)) for j in range(1, count + 1)}

    # -- parts ------------------------------------------------------------------------------

    def _optimizer(self, loss: Callable[[Any], Any]) -> Any:
        recipe = self.recipe
        if recipe.optimizer == "sgd":
            return torch.optim.SGD(
                self.params, lr=recipe.lr, momentum=recipe.momentum,
                nesterov=recipe.momentum > 0, weight_decay=recipe.weight_decay,
            )  # fmt: skip
        if recipe.optimizer == "adamw":
            return torch.optim.AdamW(self.params, lr=recipe.lr, weight_decay=recipe.weight_decay)
        proxy = GraphedProxy(
            self.proxy_plans, loss, self.params, full_batch=recipe.anchor_batch,
            model=self.model, mode=recipe.proxy_mode, graph=self.config.graphs,
        )  # fmt: skip
        corrections: dict[str, Correction] = {
            "plain": Plain(),
            "ema": EMA(recipe.a),
            "mean": Mean(),
        }
        steps = self._between(recipe.inner_steps, recipe.inner_steps_end)
        size = self._between(recipe.inner_lr, recipe.inner_lr_end)
        inner: Any = ImplicitStep(size)
        if recipe.inner_momentum:
            inner = functools.partial(
                torch.optim.SGD, lr=recipe.inner_lr, momentum=recipe.inner_momentum
            )
        return ProxyProx(
            self.params,
            recipe.lr,
            proxy=proxy,
            correction=corrections[recipe.correction],
            correction_weight=recipe.correction_weight,
            inner=inner,
            stop=lambda k: max(1, round(steps(k))),
            anchor=recipe.anchor,
            weight_decay=recipe.weight_decay,
            decoupled_weight_decay=True,
            model=self.model,
            proxy_mode=recipe.proxy_mode,
            probe=False,
        )

    def _between(self, begin: float, end: float | None) -> Callable[[int], float]:
        last = begin if end is None else end
        return lambda k: begin + (last - begin) * min(1.0, k / max(1, self.total - 1))

    def _factor(self, k: int) -> float:
        progress = min(1.0, k / self.total)
        if self.recipe.warmup and progress < self.recipe.warmup:
            return (k + 1) / (self.recipe.warmup * self.total + 1)
        if self.recipe.schedule == "cosine":
            return (1 + math.cos(math.pi * progress)) / 2
        return 1 - progress if self.recipe.schedule == "linear" else 1.0

    def _subset(self) -> Any:
        return torch.randperm(len(self.train), generator=self._chooser)[: self.recipe.proxy_size]

    def _resample(self) -> None:
        old = self.optimizer.proxy
        new = old.on(self._subset())
        self.optimizer.swap_proxy(new)
        self.proxy_plans = new.plans

    # -- saving -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, whole or not at all."""
        with critical(), atomic_output(path) as file:
            torch.save(
                {
                    "run": self._identity(),
                    "step": self.step,
                    "seconds": self.seconds,
                    "points": self.points,
                    "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "scheduler": self.scheduler.state_dict(),
                    "batches": self.batches.state_dict(),
                    "chooser": self._chooser.get_state(),
                    "average": None if self.average is None else self.average.state_dict(),
                },
                file,
            )

    def load(self, path: str | os.PathLike[str]) -> bool:
        """Resume from a file, if it is of this very run; return whether it was."""
        saved = torch.load(path, map_location="cpu", weights_only=True)
        if saved["run"] != self._identity():
            return False
        self.step, self.seconds = saved["step"], saved["seconds"]
        self.points = saved["points"]
        self.model.load_state_dict(saved["model"])
        self.scheduler.load_state_dict(saved["scheduler"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.batches.load_state_dict(saved["batches"])
        self._chooser.set_state(saved["chooser"])
        if self.average is not None:
            self.average.load_state_dict(saved["average"])
        return True

    def _identity(self) -> str:
        return f"{self.recipe!r}, seed {self.seed}"
