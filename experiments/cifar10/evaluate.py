"""Loss and accuracy of a network on images that live on the device."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from proxyprox.torch import WeightAverage, refreshed_batchnorm
from proxyprox.torch.device import DeviceImages, Plans

LARGE = 2000
"""Images of an evaluation batch."""


def half_precision(device: Any) -> Any:
    """Return bf16 autocast on CUDA, and nothing elsewhere."""
    enabled = device.type == "cuda"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled, cache_enabled=False)


def evaluate(
    model: Any,
    train: DeviceImages,
    train_indices: Any,
    test: DeviceImages,
    *,
    average: WeightAverage | None = None,
    refresh: tuple[Plans, int] | None = None,
) -> dict[str, float]:
    """Return train loss, test loss and test accuracy, in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        The network; left as it was.
    train, test : DeviceImages
        The images.
    train_indices : tensor
        Which training images the train loss is measured on.
    average : WeightAverage, optional
        Evaluate these weights.
    refresh : (Plans, int), optional
        Measure BatchNorm's statistics on so many batches of these first.
    """
    with ExitStack() as stack:
        if average is not None:
            stack.enter_context(average.applied())
        if refresh is not None:
            plans, count = refresh
            batches = plans.everything(plans.batch_size)[:count]

            def forward(plan: Any) -> Any:
                with half_precision(train.device):
                    return model(plans.data.batch(plan)[0])

            stack.enter_context(refreshed_batchnorm(model, batches, forward))
        training = model.training
        model.eval()
        try:
            loss, _ = _mean(model, train, train_indices)
            every = torch.arange(len(test), device=test.device)
            test_loss, accuracy = _mean(model, test, every)
        finally:
            model.train(training)
    return {"train_loss": loss, "test_loss": test_loss, "test_accuracy": accuracy}


@torch.no_grad()  # type: ignore[untyped-decorator]
def _mean(model: Any, data: DeviceImages, indices: Any) -> tuple[float, float]:
    loss = torch.zeros((), device=data.device, dtype=torch.float64)
    right = torch.zeros((), device=data.device, dtype=torch.float64)
    for part in indices.split(LARGE):
        x, y = data.batch(data.plain_plan(part))
        with half_precision(data.device):
            scores = model(x).float()
        loss += cross_entropy(scores, y, reduction="sum")
        right += (scores.argmax(1) == y).sum()
    return float(loss) / len(indices), float(right) / len(indices)
