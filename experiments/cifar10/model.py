"""ResNet-18 for small images, and its loss and accuracy on images that live on the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from experiments.cuda_graphs import DeviceImages, Plans, image_layout
from proxyprox.torch import refreshed_batchnorm

LARGE = 2000
"""Images of an evaluation batch."""


class Residual(nn.Module):  # type: ignore[misc]
    """Two 3×3 convolutions with normalisation, and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.around: Any = nn.Identity()
        if stride != 1 or before != after:
            self.around = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Any) -> Any:
        """Return the block's output."""
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.around(x))


class ResNet18(nn.Module):  # type: ignore[misc]
    """The network of He et al. with a stem for 32 × 32 images: one 3×3 convolution, no pooling.

    Parameters
    ----------
    width : int
        Channels of the first stage; 64 is the published network, with 11.2 million weights.
    classes : int
        Outputs.
    """

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(width)
        blocks, before = [], width
        for stage in range(4):
            for position in range(2):
                after = width * 2**stage
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(Residual(before, after, stride))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Any) -> Any:
        """Return the class scores."""
        y = functional.relu(self.stem_norm(self.stem(x)))
        return self.head(self.blocks(y).mean(dim=(2, 3)))


class Network:
    """A network to train again and again: new weights in the old memory, compiled once.

    Parameters
    ----------
    width : int
        Of :class:`ResNet18`.
    device : torch.device
        Where it lives.
    compiled : bool
        Compile it; ignored off CUDA.

    Attributes
    ----------
    model : ResNet18
        The weights, and evaluation as it is written.
    forward : callable
        Evaluation for training.
    """

    def __init__(self, width: int, device: Any, *, compiled: bool = True) -> None:
        self.width = width
        self.model = ResNet18(width).to(device=device, memory_format=image_layout(device))
        self.forward: Any = self.model
        if compiled and device.type == "cuda":
            # What an earlier network left would count as variants of this one; with too many, the
            # compiler would silently give up.
            torch.compiler.reset()
            torch._dynamo.config.recompile_limit = 64
            # Fixed shapes: kernels for any batch size are slower, and there are few sizes.
            self.forward = torch.compile(self.model, dynamic=False)

    def restart(self, seed: int) -> None:
        """Draw new weights, the same for the same seed, and forget statistics and gradients."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = ResNet18(self.width)
        self.model.load_state_dict(fresh.state_dict())
        self.model.zero_grad(set_to_none=True)
        self.model.train()


def half_precision(device: Any) -> Any:
    """Return bf16 autocast on CUDA, and nothing elsewhere."""
    enabled = device.type == "cuda"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled, cache_enabled=False)


class WeightAverage:
    """``v ← v + (1 − decay)(w − v)``: smoother weights, for one more copy of them."""

    def __init__(self, params: Iterable[Any], decay: float) -> None:
        self.params, self.decay = list(params), decay
        self.values = [p.detach().clone() for p in self.params]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self) -> None:
        """Include the present weights."""
        torch._foreach_lerp_(self.values, self.params, 1 - self.decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the parameters for the time of a block."""
        before = [p.detach().clone() for p in self.params]
        self._copy(self.params, self.values)
        try:
            yield
        finally:
            self._copy(self.params, before)

    def state_dict(self) -> dict[str, Any]:
        """Return the average."""
        return {"values": list(self.values)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the average."""
        self._copy(self.values, list(state["values"]))

    @staticmethod
    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _copy(tensors: list[Any], values: list[Any]) -> None:
        torch._foreach_copy_(tensors, values)


def evaluate(
    model: Any,
    parts: Mapping[str, tuple[DeviceImages, Any]],
    *,
    average: WeightAverage | None = None,
    refresh: tuple[Plans, int] | None = None,
) -> dict[str, float]:
    """Return ``<part>_loss`` and ``<part>_accuracy`` of every part, in evaluation mode.

    Parameters
    ----------
    model : torch.nn.Module
        The network; left as it was.
    parts : mapping of str to (DeviceImages, tensor)
        Images, and the indices of those to evaluate.
    average : WeightAverage, optional
        Evaluate these weights.
    refresh : (Plans, int), optional
        Measure BatchNorm's statistics on this many batches of these first.
    """
    found: dict[str, float] = {}
    with ExitStack() as stack:
        if average is not None:
            stack.enter_context(average.applied())
        if refresh is not None:
            plans, count = refresh
            batches = plans.everything(plans.batch_size)[:count]

            def forward(plan: Any) -> Any:
                with half_precision(plans.data.device):
                    return model(plans.data.batch(plan)[0])

            stack.enter_context(refreshed_batchnorm(model, batches, forward))
        training = model.training
        model.eval()
        try:
            for name, (data, indices) in parts.items():
                found[f"{name}_loss"], found[f"{name}_accuracy"] = _mean(model, data, indices)
        finally:
            model.train(training)
    return found


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
