"""The whole experiment: every recipe and seed, its records, figures and report."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proxyprox._util.files import locked
from proxyprox._util.signals import ending_signals
from proxyprox.experiments.cifar10 import data as cifar10
from proxyprox.experiments.cifar10.config import Config, Recipe
from proxyprox.experiments.cifar10.figures import COSTS, METRICS, panel_rows, save_panels
from proxyprox.experiments.cifar10.training import Training
from proxyprox.experiments.page import write_report
from proxyprox.experiments.records import Point, RecordStore
from proxyprox.experiments.summary import Row, end_points, write_summary
from proxyprox.torch.device import DeviceImages

KEY = ("method", "seed")


def run(
    config: Config,
    output: str | os.PathLike[str],
    *,
    device: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    command: str = "proxyprox reproduce cifar10",
    report: bool = True,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Point]:
    """Run every recipe and seed that is not finished yet, and write the output folder.

    Parameters
    ----------
    config : Config
        The experiment.
    output : path-like
        Folder for ``records.jsonl``, ``summary.json``, the figures and ``report.html``. A folder
        of an interrupted run of the same configuration is gone on with.
    device : str, optional
        ``"cuda"`` or ``"cpu"``; by default CUDA where there is one.
    folder : path-like, optional
        Where CIFAR-10 is; by default ``PROXYPROX_DATA`` and the user's cache.
    command : str
        Command that makes the report again.
    report : bool
        Write figures and report, which need the ``report`` extra.
    progress : callable
        Is told a line for every finished run.

    Returns
    -------
    records : list of dict
        All points of all runs.

    Raises
    ------
    LockedError
        When another process writes the folder.
    """
    place = Path(output)
    place.mkdir(parents=True, exist_ok=True)
    with ending_signals(), locked(place, again=True):
        store = RecordStore(place / "records.jsonl", key=KEY, config=config.as_dict())
        jobs = config.jobs()
        plan = [{"method": recipe.name, "seed": seed} for recipe, seed in jobs]
        if any(job not in store for job in plan):
            train, test, _ = device_data(config, device, folder)
            for (recipe, seed), job in zip(jobs, plan, strict=True):
                if job in store:
                    continue
                points = run_one(config, recipe, seed, train, test, place / "checkpoint.pt")
                store.append(points)
                (place / "checkpoint.pt").unlink(missing_ok=True)
                last = points[-1]
                progress(
                    f"{recipe.name}, seed {seed}: test accuracy {last['test_accuracy']:.4f} after "
                    f"{last['passes']:g} passes, {last['seconds']:.0f} s"
                )
        store.finalise(plan)
        records = store.points()
        if report:
            publish(place, config, records, command=command)
        return records


def run_one(
    config: Config,
    recipe: Recipe,
    seed: int,
    train: DeviceImages,
    test: DeviceImages,
    checkpoint: Path | None = None,
) -> list[Point]:
    """Run one recipe with one seed, going on from the checkpoint if it is of this very run."""
    # Each run compiles its own network, for a few batch sizes; what earlier ones left would soon
    # count as too many variants, and the compiler would silently give up.
    torch.compiler.reset()
    if train.device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    training = Training(config, recipe, seed, train, test)
    if checkpoint is not None and checkpoint.is_file():
        training.load(checkpoint)
    return training.run(checkpoint)


def device_data(
    config: Config, device: str | None = None, folder: str | os.PathLike[str] | None = None
) -> tuple[DeviceImages, DeviceImages, str]:
    """Return training and test images on the device, and where they came from."""
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
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


def publish(folder: Path, config: Config, records: list[Point], *, command: str) -> None:
    """Write ``summary.json``, the figures and the report."""
    rows: list[Row] = []
    for metric, (title, _) in METRICS.items():
        rows += [{"panel": title, **row} for row in panel_rows(records, metric)]
    write_summary(folder / "summary.json", rows, command=command, config=config.as_dict())
    save_panels(folder, records)
    settings: dict[str, Any] = config.as_dict()
    settings["recipes"] = {recipe["name"]: recipe for recipe in settings["recipes"]}
    write_report(
        folder,
        title="ResNet-18 on CIFAR-10: training with a proxy of a few images",
        lead=sentences(records),
        command=command,
        config=settings,
        rows=_smaller_is_better(records),
        ledger_rows=_ledger(records),
        notes=notes(config, records),
        metric="value",
        x_axes=("passes", "seconds", "proxy_sampled_gradients"),
        log_y=True,
        labels={"passes": "passes over the target data", "value": "value"},
    )


def sentences(records: list[Point]) -> list[str]:
    """Say where each method stood at the end, the best first."""
    ends = _ends(records, "test_accuracy")
    ends.sort(key=lambda row: -(row["test_accuracy_median"] or 0.0))
    # Batches of different sizes end at slightly different fractions of a pass.
    end = max(round(row["passes"], 2) for row in ends)

    def standing(row: Row) -> str:
        passes = round(row["passes"], 2)
        early = "" if passes == end else f" (after {passes:g})"
        return f"{row['method']} {row['test_accuracy_median']:.3f}{early}"

    return [
        f"After {end:g} passes over the target data the median test accuracy is: "
        f"{'; '.join(map(standing, ends))}.",
        "The x axis that counts is passes over the target data; the methods with a proxy pay "
        "for them with passes over the proxy, which the ledger shows, and with time.",
    ]


def notes(config: Config, records: list[Point]) -> list[str]:
    """Return what is to be read with the numbers."""
    devices = sorted({point["device"] for point in records})
    found = [
        f"Trained on {', '.join(devices)}; seconds are those of the training steps, without the "
        "evaluations.",
        *(
            f"{recipe.name}: {recipe.seeds} of {config.seeds} seeds, because it is long."
            for recipe in config.recipes
            if recipe.seeds is not None and recipe.seeds < config.seeds
        ),
        "The report shows 1 − test accuracy, so that less is better in every panel; the figures "
        "show the accuracy.",
        "‖∇φₖ(wₖ₊₁)‖ is measured with the whole proxy, after the inner solve.",
    ]
    if config.data == "cifar10":
        found.append(
            "If the images come from cifar10-jpeg75.tar.xz they are JPEG of quality 75, slightly "
            "lossy: accuracies are then not exactly those of the original set."
        )
    return found


def _ends(records: list[Point], metric: str) -> list[Row]:
    rows = [{"panel": metric, **row} for row in panel_rows(records, metric)]
    return end_points(rows, x="passes")


def _smaller_is_better(records: list[Point]) -> list[Row]:
    errors = [{**p, "test_error": 1 - p["test_accuracy"]} for p in records]
    rows: list[Row] = []
    for metric, title in (
        ("train_loss", "train loss"),
        ("test_error", "1 − test accuracy"),
        ("residual", METRICS["residual"][0]),
    ):
        for row in panel_rows(errors, metric):
            renamed = {k.replace(metric, "value"): v for k, v in row.items()}
            rows.append({"panel": title, **renamed})
    return rows


def _ledger(records: list[Point]) -> list[Row]:
    return [
        {name: row[name] for name in ("method", "passes", *COSTS)}
        for row in _ends(records, "test_accuracy")
    ]
