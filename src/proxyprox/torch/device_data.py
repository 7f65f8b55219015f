"""Data that live on the device: tensors, and images that are cropped and flipped there.

A *plan* says what a batch is made of: a number for each sample, or for an image the four integers
(image, top, left, flipped). Plans are drawn a pass at a time, so that a training step copies a few
kilobytes and draws nothing, and the same plan makes the same batch again, at another point.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from proxyprox._checks import Words, message, whole


def image_layout(device: Any) -> Any:
    """Return the memory format for images and convolutions: channels last on CUDA only.

    It is the fast one there. On a CPU torch 2.13's oneDNN writes past its buffers in the backward
    pass of narrow channels-last convolutions (1×1, stride 2, fewer than 8 channels, no AVX-512),
    which kills the process.
    """
    cuda = torch.device(device).type == "cuda"
    return torch.channels_last if cuda else torch.contiguous_format


class DeviceTensors:
    """Tensors on a device, one row for each sample, from which plans make batches.

    Parameters
    ----------
    *tensors : tensors or arrays
        Inputs, labels and whatever else a loss needs; all have as many rows.
    device : torch.device or str
        Where they live.

    Examples
    --------
    >>> data = DeviceTensors(torch.arange(6).reshape(3, 2), torch.tensor([0, 1, 2]))
    >>> x, y = data.batch(data.plain_plan(torch.tensor([2, 0])))
    >>> x.tolist(), y.tolist()
    ([[4, 5], [0, 1]], [2, 0])
    """

    def __init__(self, *tensors: Any, device: Any = "cpu") -> None:
        self.tensors = tuple(torch.as_tensor(t).to(device) for t in tensors)
        rows = [t.shape[0] if t.ndim else 0 for t in self.tensors]
        if len(set(rows)) != 1:
            allowed = "one or more, of as many rows each"
            raise ValueError(message("tensors", Words(f"ones of {rows} rows"), allowed))
        self.device = self.tensors[0].device

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def plain_plan(self, indices: Any) -> Any:
        """Return the plan of the rows with these indices: the indices."""
        return indices.to(self.device)

    def random_plan(self, indices: Any, generator: Any) -> Any:
        """Refuse: only images are augmented here."""
        remedy = "Augment in the loss, or use DeviceImages."
        raise ValueError(message("augment", True, "False for DeviceTensors", remedy))

    def batch(self, plan: Any) -> tuple[Any, ...]:
        """Return these rows of every tensor."""
        return tuple(t[plan] for t in self.tensors)


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
        """Return normalised images, in the device's :func:`image_layout`, and labels."""
        image, top, left, flipped = plan.unbind(1)
        across = torch.where(flipped[:, None] == 1, self.width - 1 - self._right, self._right)
        pixels = self._padded[
            image[:, None, None],
            (top[:, None] + self._down)[:, :, None],
            (left[:, None] + across)[:, None, :],
        ]
        x = (pixels * self._scale + self._shift).to(self.dtype)
        x = x.permute(0, 3, 1, 2)
        return x.contiguous(memory_format=image_layout(self.device)), self.labels[image]


class Plans:
    """Minibatch plans over a subset of the samples, pass after pass, with a position to save.

    Parameters
    ----------
    data : DeviceTensors or DeviceImages
        The samples.
    indices : sequence of int or integer tensor
        The subset; a pass goes over it once, in random order, without the incomplete last batch.
    batch_size : int
        Samples in a minibatch.
    augment : bool
        Crop and flip images at random.
    seed : int
        Of the order and the augmentation.
    """

    def __init__(
        self,
        data: DeviceTensors | DeviceImages,
        indices: Any,
        batch_size: int,
        *,
        augment: bool = False,
        seed: int = 0,
    ) -> None:
        self.data = data
        self.indices = torch.as_tensor(indices).long().to(data.device)
        self.batch_size = whole("batch_size", batch_size)
        if len(self.indices) < batch_size:
            allowed = f"at most the number of samples, {len(self.indices)}"
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
            self._pass = self._plan(used).unflatten(0, (self.per_pass, self.batch_size))
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
