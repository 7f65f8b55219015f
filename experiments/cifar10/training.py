"""One competitor's run: build, train, evaluate along the way, survive interruptions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.cifar10.config import Config, Recipe
from experiments.cifar10.methods import METHODS, Parts
from experiments.cifar10.model import Network, WeightAverage, evaluate
from experiments.cifar10.task import Task
from experiments.cuda_graphs import DeviceImages
from experiments.report.summary import Point
from proxyprox._util.files import atomic_output
from proxyprox._util.signals import critical, ending_signals

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
    network : Network, optional
        One to train anew, so that it is not compiled again: what was trained with it before is
        lost.
    """

    def __init__(
        self,
        config: Config,
        recipe: Recipe,
        seed: int,
        train: DeviceImages,
        test: DeviceImages,
        network: Network | None = None,
    ) -> None:
        self.config, self.recipe, self.seed = config, recipe, seed
        device, self.test = train.device, test
        self.task = task = Task(config, recipe, seed, train)
        kind = METHODS[recipe.optimizer]
        # With few clean images all gradients count, else those of the target.
        images, a_pass = float(recipe.batch_size), len(train) - len(task.validation)
        if config.clean is not None:
            images, a_pass = kind.images_per_step(recipe, len(task.proxy)), len(train)
        self._a_pass = a_pass
        self.total = max(1, round(config.passes * a_pass / images))
        self.step, self.seconds = 0, 0.0
        self.points: list[Point] = []
        network = network or Network(config.width, device, compiled=config.compile)
        network.restart(seed)
        self.model = network.model
        parts = Parts(config, recipe, seed, task, network, self.total)
        self.params = parts.params
        self.method = kind(parts)
        self.average = WeightAverage(self.params, recipe.average) if recipe.average else None
        self._evaluated = {"train": (task.data, self._part(task.target, config.train_evaluation))}
        if len(task.validation):
            self._evaluated["validation"] = (task.data, task.validation.to(device))
        self._evaluated["test"] = (test, torch.arange(len(test), device=device))

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
            written.
        """
        marks, saved = self._marks(), time.monotonic()
        with ending_signals(), critical() as asked:
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

    def _marks(self) -> set[int]:
        count = max(1, round(self.config.passes * self.config.points_per_pass))
        return {max(1, round(self.total * j / count)) for j in range(1, count + 1)}

    def _advance(self, *, measured: bool) -> None:
        begun = time.perf_counter()
        self.method.step(self.step, measured=measured)
        self.method.scheduler.step()
        if self.average is not None:
            self.average.update()
        self.step += 1
        if measured and self.test.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - begun

    def _note(self) -> None:
        recipe, method = self.recipe, self.method
        refresh = (method.plans["proxy"], recipe.refresh) if recipe.refresh else None
        scores = evaluate(self.model, self._evaluated, average=self.average, refresh=refresh)
        images = method.images
        counted = images["target"]
        if self.config.clean is not None or recipe.source == "proxy":
            counted += images["proxy"]  # gradients of either kind: as many as the others have
        self.points.append(
            {
                "method": recipe.name,
                "seed": self.seed,
                "passes": round(counted / self._a_pass, 6),
                "target_samples": images["target"],
                "proxy_samples": images["proxy"],
                **method.counts,
                "seconds": self.seconds,
                **method.measurements(),
                "device": device_name(self.test.device),
                **scores,
            }
        )

    def _part(self, indices: Any, size: int) -> Any:
        chosen = torch.randperm(len(indices), generator=torch.Generator().manual_seed(0))
        return indices[chosen[:size]].to(self.test.device)

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
                    "method": self.method.state_dict(),
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
        self.method.load_state_dict(saved["method"])
        if self.average is not None:
            self.average.load_state_dict(saved["average"])
        return True

    def _identity(self) -> str:
        return f"{self.recipe!r}, seed {self.seed}, {self.config.task!r}"
