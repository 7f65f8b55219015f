"""Gradients replayed from CUDA graphs, and a proxy made of them.

Launching the few hundred kernels of a small network costs more time than running them. A CUDA
graph launches them all at once; off CUDA the same classes evaluate eagerly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from proxyprox._checks import message
from proxyprox.torch._modes import proxy_mode
from proxyprox.torch.device_data import Plans


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
            found = [_laid_out_like(g, p) for g, p in zip(found, self.params, strict=True)]
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


def _laid_out_like(gradient: Any, p: Any) -> Any:
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
    ) -> None:
        full_batch = plans.batch_size if full_batch is None else full_batch
        if len(plans.indices) % full_batch:
            allowed = f"a divisor of the proxy's size, {len(plans.indices)}"
            raise ValueError(message("full_batch", full_batch, allowed))
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
        self._partial = self._captured(self._example)
        self._total = self._partial.gradients or [torch.zeros_like(p) for p in self.params]
        chunks = len(plans.indices) // full_batch
        self._full = self._captured(
            plans.data.plain_plan(sample.repeat(full_batch)), into=self._total, scale=1 / chunks
        )
        self._subtract: dict[float, CapturedGradient] = {}

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

        The batches are drawn anew, as those of the inner steps are: with BatchNorm, who shares a
        batch with whom is part of the loss.
        """
        torch._foreach_zero_(self._total)
        plans = self.plans.everything(self.full_batch, shuffled=True)
        value: Any = 0.0
        for plan in plans:
            value = value + self._full(plan)
        self._hand_out(params, self._total)
        return value / len(plans)

    def sample(self) -> Any:
        """Draw the next minibatch's plan."""
        return self.plans.next()

    def partial(self, batch: Any, params: Sequence[Any]) -> Any:
        """Set ``.grad`` to the minibatch's gradient and return its loss, detached."""
        value = self._partial(batch)
        self._hand_out(params, self._partial.gradients)
        return value

    def subtract(self, batch: Any, params: Sequence[Any], weight: float) -> None:
        """Subtract ``weight`` times the minibatch's gradient from ``.grad``."""
        if self._partial._graph is None:
            eager = CapturedGradient(
                self.loss_of, params, batch, graph=False,
                into=[p.grad for p in params], scale=-weight,
            )  # fmt: skip
            eager(batch)
            return
        if weight not in self._subtract:
            # Capturing evaluates: what is being built up in the gradients is put back after it.
            self._subtract[weight] = self._captured(
                self._example, into=self._total, scale=-weight, keep=self._total
            )
        self._subtract[weight](batch)

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

    def _captured(
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

    def _hand_out(self, params: Sequence[Any], found: Sequence[Any]) -> None:
        if len(params) == len(self.params):
            for p, g in zip(params, found, strict=True):
                p.grad = g
            return
        by_parameter = dict(zip(self.params, found, strict=True))
        for p in params:
            p.grad = by_parameter[p]
