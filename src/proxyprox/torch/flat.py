"""A network's loss as a function of one vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from proxyprox._util.validation import message

_NO_BATCH = object()


class FlatLoss:
    """A differentiable function of parameters, with gradients and Hessian-vector products.

    It makes the array side of the package (``audit``, ``minimize``) work on torch models. As an
    objective it needs ``sample``; as a proxy it needs ``full``, or a loss without batches.

    Parameters
    ----------
    loss : callable
        ``loss(params, batch)``, or ``loss(params)`` when neither ``sample`` nor ``full`` is given.
        For a module, write it with ``torch.func.functional_call(model, params, x)``.
    params : mapping of str to tensor, or a flat tensor
        The parameters' names, shapes, dtype and device; their values are the start, ``start``,
        from which ``audit`` and ``minimize`` begin unless they are given another.
    sample : callable, optional
        ``sample(rng)`` draws a batch.
    full : optional
        The batch that is everything: exact values, gradients and products are taken on it.
    samples : callable, optional
        ``samples(batch)``: how many samples a batch holds (default: its length, or 1).

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    >>> zero = {"w": torch.zeros(2, dtype=torch.float64)}
    >>> loss = FlatLoss(lambda p, x: (x @ p["w"] - 1).square().mean(), zero, full=x)
    >>> loss.gradient(loss.start)
    tensor([-4., -6.], dtype=torch.float64)
    >>> loss.hvp(loss.start, torch.tensor([1.0, 0.0], dtype=torch.float64))
    tensor([10., 14.], dtype=torch.float64)
    """

    repeatable = True

    def __init__(
        self,
        loss: Callable[..., Any],
        params: Mapping[str, Any] | Any,
        *,
        sample: Callable[[np.random.Generator], Any] | None = None,
        full: Any = None,
        samples: Callable[[Any], int] | None = None,
    ) -> None:
        if not callable(loss):
            raise TypeError(message("loss", loss, "a function of the parameters (and a batch)"))
        self.loss = loss
        named = {"": params} if isinstance(params, torch.Tensor) else dict(params)
        if not named or not all(isinstance(p, torch.Tensor) for p in named.values()):
            allowed = "a tensor, or a mapping of names to tensors"
            raise TypeError(
                message("params", params, allowed, "Use dict(model.named_parameters()).")
            )
        self._single = isinstance(params, torch.Tensor)
        self._shapes = {name: p.shape for name, p in named.items()}
        self.start = torch.cat([p.detach().reshape(-1) for p in named.values()])
        self._sample = sample
        # Without batches there is one loss, and it is exact.
        self._full = _NO_BATCH if sample is None and full is None else full
        exact = self._full is not None
        self.value = self._value if exact else None
        self.hvp = self._hvp if exact else None
        self.everything = (lambda: None) if exact else None
        self._samples = samples or _length

    def unflatten(self, w: Any) -> Any:
        """Return a flat vector as the parameters it stands for."""
        parts = w.split([shape.numel() for shape in self._shapes.values()])
        shaped = {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
        return shaped[""] if self._single else shaped

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw a batch (None when there is nothing to draw)."""
        return None if self._sample is None else self._sample(rng)

    def samples(self, batch: Any) -> int:
        """Return how many samples a batch, or everything, holds."""
        return self._samples(self._full if batch is None else batch)

    def gradient(self, w: Any, batch: Any = None) -> Any:
        """Return the gradient of a batch's loss, or of everything's."""
        return torch.func.grad(self._of(batch))(_own(w)).detach()

    def _of(self, batch: Any) -> Callable[[Any], Any]:
        given = self._full if batch is None else batch
        if given is None:
            raise ValueError(
                message("batch", None, "a drawn batch", "Pass full= to make exact gradients.")
            )
        if given is _NO_BATCH:
            return lambda w: self.loss(self.unflatten(w))
        return lambda w: self.loss(self.unflatten(w), given)

    def _value(self, w: Any) -> float:
        with torch.no_grad():
            return float(self._of(None)(_own(w)))

    def _hvp(self, w: Any, v: Any) -> Any:
        # Reverse over reverse: forward mode is not implemented for every operator.
        slope = torch.func.grad(self._of(None))
        return torch.func.grad(lambda u: slope(u) @ v)(_own(w)).detach()


def _own(w: Any) -> Any:
    # A loss may write into the parameters it is handed.
    return w.detach().clone()


def _length(batch: Any) -> int:
    return len(batch) if hasattr(batch, "__len__") else 1
