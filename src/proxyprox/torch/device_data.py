"""Images that live on the device: gathered, cropped, flipped and normalised there.

A *plan* says what a batch is made of: one row (image, top, left, flipped) for each sample, four
integers. Plans are drawn a pass at a time, so that a training step copies a few kilobytes and
draws nothing, and the same plan makes the same batch again, at another point.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from proxyprox._checks import message, whole


class DeviceImages:
    """Images and labels on a device, from which plans make normalised batches.

    Parameters
    ----------
    images : uint8 tensor or array, (n, height, width, channels)
        All images.
    labels : integer tensor or array, (n,)
        Their classes.
    pad : int
        Pixels by which a crop may shift; the border is mirrored.
    mean, std : sequence of float, optional
        Of each channel, in [0, 1]; by default those of the images.
    device : torch.device or str
        Where they live.
    dtype : torch.dtype
        Of the batches.

    Examples
    --------
    >>> data = DeviceImages(torch.arange(96).reshape(2, 4, 4, 3).byte(), [0, 1], pad=1)
    >>> x, y = data.batch(data.plain_plan(torch.tensor([1, 0])))
    >>> tuple(x.shape), y.tolist()
    ((2, 3, 4, 4), [1, 0])
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        *,
        pad: int = 4,
        mean: Any | None = None,
        std: Any | None = None,
        device: Any = "cpu",
        dtype: Any = torch.float32,
    ) -> None:
        pixels = torch.as_tensor(images)
        if pixels.ndim != 4 or pixels.dtype != torch.uint8:
            got = f"shape {tuple(pixels.shape)} and dtype {pixels.dtype}"
            raise ValueError(message("images", got, "uint8 of shape (n, height, width, channels)"))
        self.height, self.width = int(pixels.shape[1]), int(pixels.shape[2])
        self.pad = whole("pad", pad, least=0)
        pixels = pixels.to(device)
        if mean is None or std is None:
            whole_range = pixels.reshape(-1, pixels.shape[-1]).double() / 255
            mean, std = whole_range.mean(0).tolist(), whole_range.std(0).tolist()
        self.mean, self.std = tuple(mean), tuple(std)
        self.labels = torch.as_tensor(labels).long().to(device)
        self.device, self.dtype = pixels.device, dtype
        # One multiplication and one addition: x/255 normalised.
        deviation = torch.tensor(self.std, dtype=torch.float32, device=device)
        self._scale = 1 / (255 * deviation)
        self._shift = -torch.tensor(self.mean, dtype=torch.float32, device=device) / deviation
        rows, columns = _mirrored(self.height, pad, device), _mirrored(self.width, pad, device)
        self._padded = pixels[:, rows][:, :, columns].contiguous()
        self._down = torch.arange(self.height, device=device)
        self._right = torch.arange(self.width, device=device)

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def plain_plan(self, indices: Any) -> Any:
        """Return the plan of whole, unshifted images."""
        plan = torch.full((len(indices), 4), self.pad, dtype=torch.long, device=self.device)
        plan[:, 0] = indices.to(self.device)
        plan[:, 3] = 0
        return plan

    def random_plan(self, indices: Any, generator: Any) -> Any:
        """Return a plan of random crops and flips of the images with these indices."""
        plan = torch.randint(
            0, 2 * self.pad + 1, (len(indices), 4), generator=generator, device=self.device
        )
        plan[:, 0] = indices
        plan[:, 3] = torch.randint(0, 2, (len(indices),), generator=generator, device=self.device)
        return plan

    def batch(self, plan: Any) -> tuple[Any, Any]:
        """Return normalised images, channels last in memory, and labels."""
        image, top, left, flipped = plan.unbind(1)
        across = torch.where(flipped[:, None] == 1, self.width - 1 - self._right, self._right)
        pixels = self._padded[
            image[:, None, None],
            (top[:, None] + self._down)[:, :, None],
            (left[:, None] + across)[:, None, :],
        ]
        x = (pixels * self._scale + self._shift).to(self.dtype)
        return x.permute(0, 3, 1, 2), self.labels[image]


class Plans:
    """Minibatch plans over a subset of images, pass after pass, with a position to save.

    Parameters
    ----------
    data : DeviceImages
        The images.
    indices : integer tensor
        The subset; a pass goes over it once, in random order, without the incomplete last batch.
    batch_size : int
        Images in a minibatch.
    augment : bool
        Crop and flip at random.
    seed : int
        Of the order and the augmentation.
    """

    def __init__(
        self, data: DeviceImages, indices: Any, batch_size: int, *, augment: bool, seed: int
    ) -> None:
        self.data = data
        self.indices = torch.as_tensor(indices).long().to(data.device)
        self.batch_size = whole("batch_size", batch_size)
        if len(self.indices) < batch_size:
            allowed = f"at most the number of images, {len(self.indices)}"
            raise ValueError(message("batch_size", batch_size, allowed))
        self.augment = augment
        self.generator = torch.Generator(device=data.device).manual_seed(seed)
        self.at = 0
        self._pass: Any = None

    @property
    def per_pass(self) -> int:
        """Minibatches in a pass."""
        return len(self.indices) // self.batch_size

    def next(self) -> Any:
        """Return the plan of the next minibatch."""
        if self._pass is None or self.at == self.per_pass:
            used = self._shuffled()[: self.per_pass * self.batch_size]
            self._pass = self._plan(used).reshape(self.per_pass, self.batch_size, 4)
            self.at = 0
        self.at += 1
        return self._pass[self.at - 1]

    def everything(self, batch_size: int, *, shuffled: bool = False) -> list[Any]:
        """Return plans that cover the subset once, in its order or in a random one."""
        used = self._shuffled() if shuffled else self.indices
        return list(self._plan(used).split(batch_size))

    def on(self, indices: Any) -> Plans:
        """Return plans over another subset, which go on drawing from the same generator."""
        other = copy.copy(self)
        other.indices = torch.as_tensor(indices).long().to(self.data.device)
        other._pass, other.at = None, 0
        return other

    def state_dict(self) -> dict[str, Any]:
        """Return subset, position and random state."""
        return {
            "indices": self.indices.cpu(),
            "at": self.at,
            "pass": None if self._pass is None else self._pass.cpu(),
            "generator": self.generator.get_state().cpu(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position."""
        device = self.data.device
        self.indices, self.at = state["indices"].to(device), int(state["at"])
        self._pass = None if state["pass"] is None else state["pass"].to(device)
        self.generator.set_state(state["generator"].cpu())

    def _shuffled(self) -> Any:
        size, device = len(self.indices), self.data.device
        return self.indices[torch.randperm(size, generator=self.generator, device=device)]

    def _plan(self, indices: Any) -> Any:
        if self.augment:
            return self.data.random_plan(indices, self.generator)
        return self.data.plain_plan(indices)


def _mirrored(size: int, pad: int, device: Any) -> Any:
    """Return indices that mirror a border of ``pad`` around ``size`` pixels."""
    positions = torch.arange(-pad, size + pad, device=device).abs()
    return torch.where(positions < size, positions, 2 * (size - 1) - positions)
