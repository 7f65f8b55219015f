"""Data and gradients that stay on the device: batches without copies, CUDA graphs.

Data that live on the device: tensors, and images that are cropped and flipped there.

A *plan* says what a batch is made of: a number for each sample, or for an image the four integers
(image, top, left, flipped). Plans are drawn a pass at a time, so that a training step copies a few
kilobytes and draws nothing, and the same plan makes the same batch again, at another point.

Gradients replayed from CUDA graphs, and a proxy made of them.

Launching the few hundred kernels of a small network costs more time than running them. A CUDA
graph launches them all at once; off CUDA the same classes evaluate eagerly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from proxyprox._util.validation import Words, message, whole
from proxyprox.torch.proxy import proxy_mode


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
        rows, columns = (
            mirror_indices(self.height, pad, device),
            mirror_indices(self.width, pad, device),
        )
        self._padded = pixels[:, rows][:, :, columns].contiguous()
        self._down = torch.arange(self.height, device=device)
        self._right = torch.arange(self.width, device=device)

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def with_labels(self, labels: Any) -> DeviceImages:
        """Return the same images with other labels; the pixels are shared."""
        given = torch.as_tensor(labels).long().to(self.device)
        if given.shape != self.labels.shape:
            allowed = f"one for each image, {len(self)}"
            raise ValueError(message("labels", Words(f"{tuple(given.shape)}"), allowed))
        other = copy.copy(self)
        other.labels = given
        return other

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
            used = self._shuffle()[: self.per_pass * self.batch_size]
            self._pass = self._plan(used).unflatten(0, (self.per_pass, self.batch_size))
            self.at = 0
        self.at += 1
        return self._pass[self.at - 1]

    def __iter__(self) -> Iterator[Any]:
        """Return the next pass's plans, for a ``Proxy`` on them."""
        return (self.next() for _ in range(self.per_pass))

    def everything(self, batch_size: int, *, shuffled: bool = False) -> list[Any]:
        """Return plans that cover the subset once, in its order or in a random one."""
        used = self._shuffle() if shuffled else self.indices
        return list(self._plan(used).split(batch_size))

    def on(self, indices: Any) -> Plans:
        """Return plans over another subset, which continue to draw from the same generator."""
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

    def _shuffle(self) -> Any:
        size, device = len(self.indices), self.data.device
        return self.indices[torch.randperm(size, generator=self.generator, device=device)]

    def _plan(self, indices: Any) -> Any:
        if self.augment:
            return self.data.random_plan(indices, self.generator)
        return self.data.plain_plan(indices)


def mirror_indices(size: int, pad: int, device: Any) -> Any:
    """Return indices that mirror a border of ``pad`` around ``size`` pixels."""
    positions = torch.arange(-pad, size + pad, device=device).abs()
    return torch.where(positions < size, positions, 2 * (size - 1) - positions)


class CapturedGradient:
    """The value and gradient of a loss of one fixed-size input, captured once and replayed.

    Parameters
    ----------
    loss : callable
        ``loss(input)`` returns a scalar; all randomness must be in the input.
    params : sequence of tensors
        What to differentiate with respect to.
    example : tensor
        An input; later ones have its shape, dtype and device.
    graph : bool
        Capture a CUDA graph; ignored off CUDA.
    into : list of tensors, optional
        Add ``scale`` times the gradient to these instead of keeping it.
    scale : float
        See ``into``.
    buffers : sequence of tensors
        State that the loss changes, such as running statistics: put back after the warm-up.
    pool : optional
        Memory pool to share with graphs that never need each other's intermediate results.
    warmup : int
        Evaluations before the capture, for compilers and autotuners to finish.

    Attributes
    ----------
    gradients : list of tensors
        Of the last call; with a graph always the same memory.
    """

    def __init__(
        self,
        loss: Callable[[Any], Any],
        params: Sequence[Any],
        example: Any,
        *,
        graph: bool = True,
        into: list[Any] | None = None,
        scale: float = 1.0,
        buffers: Sequence[Any] = (),
        pool: Any | None = None,
        warmup: int = 3,
    ) -> None:
        self.loss = loss
        self.params = list(params)
        self.into = into
        self.scale = scale
        self.gradients: list[Any] = []
        self.value: Any = None
        self._graph: Any | None = None
        self._input = example.clone()
        if graph and example.is_cuda:
            self._capture(list(buffers), pool, warmup)

    @property
    def replays(self) -> bool:
        """Whether a graph was captured; otherwise every call evaluates eagerly."""
        return self._graph is not None

    def __call__(self, batch: Any) -> Any:
        """Evaluate; return the loss, valid until the next call."""
        if self._graph is None:
            self._evaluate(batch)
        else:
            self._input.copy_(batch)
            self._graph.replay()
        return self.value

    def backward(self, batch: Any) -> Any:
        """Evaluate and put the gradient into ``.grad``; return the loss, until the next call."""
        value = self(batch)
        for p, gradient in zip(self.params, self.gradients, strict=True):
            p.grad = gradient
        return value

    def _evaluate(self, batch: Any) -> None:
        with torch.enable_grad():
            value = self.loss(batch)
            found = list(torch.autograd.grad(value, self.params))
        self.value = value.detach()
        with torch.no_grad():
            found = [match_layout(g, p) for g, p in zip(found, self.params, strict=True)]
            if self.into is None:
                self.gradients = found
            else:
                torch._foreach_add_(self.into, found, alpha=self.scale)
                self.gradients = self.into

    def _capture(self, buffers: list[Any], pool: Any | None, warmup: int) -> None:
        held = [b.clone() for b in buffers]
        side, current = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(warmup):
                self._evaluate(self._input)
        current.wait_stream(side)
        self.gradients = []  # the warm-up's memory is not the graph's
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._evaluate(self._input)
        self._graph = graph
        with torch.no_grad():
            for buffer, value in zip(buffers, held, strict=True):
                buffer.copy_(value)


def match_layout(gradient: Any, p: Any) -> Any:
    """Return a gradient with the strides of its parameter."""
    # The fused updates of all parameters at once need equal strides; compilers choose their own.
    if gradient.stride() == p.stride():
        return gradient
    return torch.empty_like(p).copy_(gradient)


class GraphedProxy:
    """A proxy on data that live on the device, its gradients replayed from CUDA graphs.

    Parameters
    ----------
    plans : Plans
        Minibatches of the proxy.
    loss : callable
        ``loss(plan)`` makes the batch, runs the network and returns the mean loss.
    params : iterable of tensors
        The optimiser's parameters.
    full_batch : int, optional
        Samples in each batch of a full pass, which must divide the proxy's size; by default as
        many as in an inner step, as networks with BatchNorm need it (see :class:`Proxy`). Without
        BatchNorm larger batches are faster and change nothing.
    model : torch.nn.Module, optional
        The network, for ``mode``.
    mode : str
        As the optimiser's ``proxy_mode``; fixed at capture.
    graph : bool
        Capture graphs; ignored off CUDA.
    full : bool
        Capture the full pass at once. If False it is captured at the first one, and the proxy's
        size may be any number as long as there is none.
    """

    sampled = True
    static = True

    def __init__(
        self,
        plans: Plans,
        loss: Callable[[Any], Any],
        params: Any,
        *,
        full_batch: int | None = None,
        model: Any | None = None,
        mode: str = "frozen",
        graph: bool = True,
        full: bool = True,
    ) -> None:
        full_batch = plans.batch_size if full_batch is None else full_batch
        self.plans = plans
        self.loss_of = loss
        self.params = list(params)
        self.full_batch = full_batch
        self.mixed = full_batch != plans.batch_size
        self.model, self.mode, self.graph = model, mode, graph
        captured = graph and plans.data.device.type == "cuda"
        self._pool = torch.cuda.graph_pool_handle() if captured else None
        sample = plans.indices[:1]
        self._example = plans.data.plain_plan(sample.repeat(plans.batch_size))
        self._partial = self._capture_gradient(self._example)
        self._total = self._partial.gradients
        self._full: CapturedGradient | None = None
        if full:
            self._full = self._capture_full_pass()

    def on(self, indices: Any) -> GraphedProxy:
        """Return the same proxy on another subset of as many samples; the graphs are shared."""
        if len(indices) != len(self.plans.indices):
            allowed = f"as many as before, {len(self.plans.indices)}"
            raise ValueError(message("indices", f"{len(indices)} of them", allowed))
        other = copy.copy(self)
        other.plans = self.plans.on(indices)
        return other

    def full(self, params: Sequence[Any]) -> Any:
        """Set ``.grad`` to ∇L̂(w) and return L̂(w), detached.

        The batches are drawn anew, as those of the inner steps are: with BatchNorm the rows
        that share a batch are part of the loss.
        """
        if self._full is None:
            self._full = self._capture_full_pass()
        torch._foreach_zero_(self._total)
        plans = self.plans.everything(self.full_batch, shuffled=True)
        value: Any = 0.0
        for plan in plans:
            value = value + self._full(plan)
        self._set_gradients(params, self._total)
        return value / len(plans)

    def sample(self) -> Any:
        """Draw the next minibatch's plan."""
        return self.plans.next()

    def partial(self, batch: Any, params: Sequence[Any]) -> Any:
        """Set ``.grad`` to the minibatch's gradient and return its loss, detached."""
        value = self._partial(batch)
        self._set_gradients(params, self._partial.gradients)
        return value

    def loss(self, batch: Any) -> Any:
        """Return a minibatch's loss, or for None the whole proxy's, without gradient."""
        with torch.no_grad():
            if batch is not None:
                return self.loss_of(batch)
            plans = self.plans.everything(self.full_batch, shuffled=True)
            return sum(self.loss_of(plan) for plan in plans) / len(plans)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the minibatches."""
        return self.plans.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position."""
        self.plans.load_state_dict(state)

    def _capture_full_pass(self) -> CapturedGradient:
        size = len(self.plans.indices)
        if size % self.full_batch:
            allowed = f"a divisor of the proxy's size, {size}"
            raise ValueError(message("full_batch", self.full_batch, allowed))
        self._total = self._total or [torch.zeros_like(p) for p in self.params]
        example = self.plans.data.plain_plan(self.plans.indices[:1].repeat(self.full_batch))
        scale = self.full_batch / size
        return self._capture_gradient(example, into=self._total, scale=scale)

    def _capture_gradient(
        self,
        example: Any,
        *,
        into: list[Any] | None = None,
        scale: float = 1.0,
        keep: Sequence[Any] = (),
    ) -> CapturedGradient:
        # Capturing evaluates: running statistics that proxy passes may move are put back too.
        statistics = [] if self.model is None else list(self.model.buffers())
        with proxy_mode(self.model, self.mode):
            return CapturedGradient(
                self.loss_of, self.params, example, graph=self.graph, into=into, scale=scale,
                buffers=[*keep, *statistics], pool=self._pool,
            )  # fmt: skip

    def _set_gradients(self, params: Sequence[Any], found: Sequence[Any]) -> None:
        if len(params) == len(self.params):
            for p, g in zip(params, found, strict=True):
                p.grad = g
            return
        by_parameter = dict(zip(self.params, found, strict=True))
        for p in params:
            p.grad = by_parameter[p]
