"""The whole experiment: every recipe and seed, its records, figures and report."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from experiments.cifar10 import data as cifar10
from experiments.cifar10.config import Config
from experiments.cifar10.model import Network
from experiments.cifar10.results import publish
from experiments.cifar10.training import Training
from experiments.cuda_graphs import DeviceImages
from experiments.report.summary import Point
from experiments.runs import Records
from proxyprox._util.signals import ending_signals


def run(
    config: Config,
    output: str | os.PathLike[str],
    *,
    device: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    command: str = "python -m experiments.cifar10",
    report: bool = True,
    until: float = math.inf,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Point]:
    """Run every recipe and seed that is not finished yet, and write the output folder.

    No other process may write the folder meanwhile.

    Parameters
    ----------
    config : Config
        The experiment.
    output : path-like
        Folder for ``records.jsonl``, ``summary.json``, the figures and ``report.html``. In the
        folder of an interrupted run of the same configuration it resumes.
    device : str, optional
        ``"cuda"`` or ``"cpu"``; by default CUDA if there is one.
    folder : path-like, optional
        Where CIFAR-10 is; by default ``PROXYPROX_DATA`` and the user's cache.
    command : str
        Command that makes the report again.
    until : float
        Time at which to stop, as ``time.time()`` gives it; the same call resumes.
    report : bool
        Write figures and report, which need the ``report`` extra.
    progress : callable
        Called with a line for every finished run.

    Returns
    -------
    records : list of dict
        All points of all runs.
    """
    place = Path(output)
    place.mkdir(parents=True, exist_ok=True)
    with ending_signals(), Records(place, config.as_dict()) as records:
        jobs = {(recipe.name, seed): recipe for recipe, seed in config.jobs()}
        plan = [{"method": name, "seed": seed} for name, seed in jobs]
        if any(job not in records for job in plan):
            train, test, _ = device_data(config, device, folder)
            network = Network(config.width, train.device, compiled=config.compile)
            for ((name, seed), recipe), job in zip(jobs.items(), plan, strict=True):
                if job in records:
                    continue
                training = Training(config, recipe, seed, train, test, network)
                if (place / "checkpoint.pt").is_file():
                    training.load(place / "checkpoint.pt")
                points = training.run(place / "checkpoint.pt", lambda: time.time() > until)
                if training.step < training.total:
                    return points
                records.add(job, points)
                (place / "checkpoint.pt").unlink(missing_ok=True)
                last = points[-1]
                progress(
                    f"{name}, seed {seed}: test accuracy {last['test_accuracy']:.4f} after "
                    f"{last['passes']:g} passes, {last['seconds']:.0f} s"
                )
        found = records.export("records.jsonl", plan)
        if report:
            publish(place, config, found, command=command)
        return found


def device_data(
    config: Config, device: str | None = None, folder: str | os.PathLike[str] | None = None
) -> tuple[DeviceImages, DeviceImages, str]:
    """Return training and test images on the device, and where they came from."""
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if where.type == "cuda":
        torch.backends.cudnn.benchmark = True
    if config.data == "synthetic":
        images = cifar10.synthetic(config.train_images or 5000, config.test_images or 1000)
    else:
        images = cifar10.load(folder)
    thin = 32 // config.image_size
    # A fixed shuffle: image folders come sorted by class, and a part of them must not be.
    order = np.random.default_rng(0).permutation(len(images.train))[: config.train_images]
    test_order = np.random.default_rng(1).permutation(len(images.test))[: config.test_images]
    train = DeviceImages(
        np.ascontiguousarray(images.train[order][:, ::thin, ::thin]),
        images.train_labels[order],
        pad=config.image_size // 8,
        device=where,
    )
    test = DeviceImages(
        np.ascontiguousarray(images.test[test_order][:, ::thin, ::thin]),
        images.test_labels[test_order],
        pad=0,
        mean=train.mean,
        std=train.std,
        device=where,
    )
    return train, test, images.source
