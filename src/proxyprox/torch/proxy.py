"""The proxy of a network: a function or batches, its modes, and where it stands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from proxyprox._util.isolation import copied_tree
from proxyprox._util.validation import Words, message, takes
from proxyprox.torch.corrections import Tensors

MODES = {
    "frozen": "as the model is, but running statistics are not updated",
    "no_dropout": "as frozen, with everything but normalisation in evaluation mode",
    "eval": "every module in evaluation mode: running statistics used, no dropout",
    "train": "as the model is, running statistics included",
}
"""The policies, and what each means."""


@contextmanager
def proxy_mode(model: Any | None, mode: str) -> Iterator[None]:
    """Put a model into the state in which proxy passes run, and back.

    Parameters
    ----------
    model : torch.nn.Module or None
        The network; without it nothing can be switched.
    mode : str
        One of :data:`MODES`.

    Notes
    -----
    "frozen" keeps batch statistics in the forward pass, as training has them, and leaves
    ``running_mean``, ``running_var`` and ``num_batches_tracked`` bit for bit as they were: an
    outer step makes tens of passes over proxy data, which would otherwise replace the target's
    statistics by the proxy's. "no_dropout" does so too, and makes the proxy a fixed function of a
    batch. "eval" makes it one of a sample, but another than the target's, which normalises by the
    batch: with BatchNorm it is stable for small step sizes only.
    """
    saved: list[tuple[Any, str, Any]] = []

    def switch(module: Any, name: str, value: Any) -> None:
        saved.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    try:
        for module in [] if model is None or mode == "train" else model.modules():
            if mode == "eval":
                switch(module, "training", False)
            elif isinstance(module, _BatchNorm) and module.training:
                # In training, a BatchNorm that tracks nothing still normalises by the batch.
                switch(module, "track_running_stats", False)
            elif isinstance(module, _InstanceNorm) and module.training:
                switch(module, "momentum", 0.0)
            elif mode == "no_dropout":
                switch(module, "training", False)
        yield
    finally:
        for module, name, value in saved:
            setattr(module, name, value)


class Position:
    """Batches one after the other, over and over, with a position that can be saved.

    Parameters
    ----------
    batches : iterable
        A loader. If it has ``state_dict`` and ``load_state_dict`` these are used; otherwise the
        random state at the start of the pass is kept and the pass is replayed up to the position.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = batches
        self.count = 0
        self._iterator: Iterator[Any] | None = None
        self._start: Any | None = None

    def next(self) -> Any:
        """Return the next batch, starting a new pass where one ends."""
        if self._iterator is not None:
            try:
                batch = next(self._iterator)
            except StopIteration:
                self._iterator = None
            else:
                self.count += 1
                return batch
        self._start = self._random_state()
        self._iterator, self.count = iter(self.batches), 1
        try:
            return next(self._iterator)
        except StopIteration:
            allowed = "at least one batch, not empty"
            raise ValueError(message("batches", self.batches, allowed)) from None

    def __getstate__(self) -> dict[str, Any]:
        # A running iterator cannot be copied: the copy replays the pass instead.
        return {"batches": self.batches, "position": self.state_dict()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        Position.__init__(self, state["batches"])
        self.load_state_dict(state["position"])

    def state_dict(self) -> dict[str, Any]:
        """Return the position as numbers and tensors."""
        if hasattr(self.batches, "state_dict"):
            return {"loader": self.batches.state_dict()}
        if self._iterator is None:
            return {"count": 0}
        return {"count": self.count, "start": self._start, "now": self._random_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replay the pass up to a saved position."""
        self._iterator, self.count = None, 0
        if "loader" in state:
            self.batches.load_state_dict(state["loader"])  # type: ignore[attr-defined]
            return
        if not state.get("count"):
            return
        outside = self._random_state()
        self._set_random_state(state["start"])
        for _ in range(int(state["count"])):
            self.next()
        # A loader's own generator goes on from where it was; the global one is not ours to move.
        own = self._generator() is not None
        self._set_random_state(state["now"] if own else outside)
        self._start = _on_cpu(state["start"])

    def _generator(self) -> Any | None:
        loader: Any = self.batches
        found = getattr(loader, "generator", None)
        return found or getattr(getattr(loader, "sampler", None), "generator", None)

    def _random_state(self) -> Any:
        generator = self._generator()
        return torch.get_rng_state() if generator is None else generator.get_state()

    def _set_random_state(self, state: Any) -> None:
        generator = self._generator()
        if generator is None:
            torch.set_rng_state(_on_cpu(state))
        else:
            generator.set_state(_on_cpu(state))


def _on_cpu(state: Any) -> Any:
    # Launchers move whole state dicts to the accelerator; random states must come back.
    return state.detach().cpu().clone()


class Oracle(Protocol):
    """What a step asks of a proxy; gradients are left in the parameters' ``.grad``."""

    sampled: bool
    """Whether inner steps see minibatches; otherwise every gradient is full."""

    def full(self, params: Tensors) -> Any:
        """Set ``.grad`` to ∇L̂(w) and return L̂(w), detached."""

    def sample(self) -> Any:
        """Draw a minibatch."""

    def partial(self, batch: Any, params: Tensors) -> Any:
        """Set ``.grad`` to the minibatch's gradient and return its loss, detached."""

    def subtract(self, batch: Any, params: Tensors, weight: float) -> None:
        """Subtract ``weight`` times the minibatch's gradient from ``.grad``."""

    def loss(self, batch: Any) -> Any:
        """Return a loss without its gradient, of a batch or (for None) of everything."""

    def state_dict(self) -> dict[str, Any]:
        """Return where the sampling stands."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


class Proxy:
    """A cheap loss given by batches of data and a function.

    Parameters
    ----------
    batches : iterable
        A ``DataLoader`` or anything that can be iterated over again and again.
    loss : callable
        ``loss(batch)`` returns the batch's mean loss as a scalar tensor, e.g.
        ``lambda batch: F.cross_entropy(model(batch[0]), batch[1])``. Device transfer and autocast
        belong in it; under distributed training use the unwrapped module.
    full : iterable, optional
        What a full pass goes over, such as the same data in larger batches; by default
        ``batches``, rows that ``drop_last`` leaves out excepted. Leave it out for networks with
        BatchNorm, see the notes.
    size : callable, optional
        ``size(batch)``, the batch's weight in the mean; by default its number of rows.
    sampled : bool
        Let inner steps use one batch each; if False they use full passes.

    Notes
    -----
    BatchNorm makes the loss depend on who shares a batch, so that other batches in the full pass
    than in the inner steps are another function L̂_full. The method then minimises
    ``L + (L̂ − L̂_full)``: slowly at first, it raises the loss on the full pass's batches, and
    training falls apart. The optimiser warns of it if it knows the ``model``.

    The position in ``batches`` is part of the optimiser's ``state_dict``. It is restored exactly
    for loaders with a ``state_dict`` of their own, and for a ``DataLoader`` by replaying its
    shuffling up to there: give it a ``generator``, since without one the order comes from
    torch's global generator, which is the user's to save.
    """

    def __init__(
        self,
        batches: Iterable[Any],
        loss: Callable[[Any], Any],
        *,
        full: Iterable[Any] | None = None,
        size: Callable[[Any], float] | None = None,
        sampled: bool = True,
    ) -> None:
        for name, given in (("batches", batches), ("full", full)):
            if given is not None and (not isinstance(given, Iterable) or _one_shot(given)):
                allowed = "iterable again and again, such as a DataLoader or a list of batches"
                raise TypeError(message(name, given, allowed, "Wrap a generator into list()."))
        if _one_batch(batches):
            got = Words("a tuple of tensors, which would be one batch after the other")
            remedy = (
                "For inputs and labels write DataLoader(TensorDataset(X, y), 32, shuffle=True)."
            )
            raise TypeError(message("batches", got, "a loader or a list of batches", remedy))
        if not callable(loss):
            raise TypeError(message("loss", loss, "a function of a batch"))
        if not takes(loss, 1):
            remedy = "Write lambda batch: ... with batch[0] and batch[1]."
            allowed = "a function of one argument, the whole batch as the loader returns it"
            raise TypeError(message("loss", loss, allowed, remedy))
        self.batches = batches
        self.full_batches: Iterable[Any] = batches if full is None else full
        self.loss_of = loss
        self.size = size or rows
        self.sampled = sampled
        self.mixed = sampled and full is not None
        self._position = Position(batches)

    def full(self, params: Tensors) -> Any:
        """Set ``.grad`` to ∇L̂(w) and return L̂(w), detached."""
        total, value = 0.0, 0.0
        clear(params)
        for batch in self.full_batches:
            weight = self.size(batch)
            total, value = total + weight, value + backward(self._loss(batch), params, weight)
        if total == 0:
            raise ValueError(message("batches", self.full_batches, "at least one batch, not empty"))
        found = [p.grad for p in params if p.grad is not None]
        if found:
            torch._foreach_div_(found, total)
        return value / total

    # A minibatch may be evaluated twice, at w and at w_k: a loss that normalises it in place would
    # see two different ones. So the loss gets copies.

    def sample(self) -> Any:
        """Draw the next minibatch, starting over at the end."""
        return self._position.next()

    def partial(self, batch: Any, params: Tensors) -> Any:
        """Set ``.grad`` to the minibatch's gradient and return its loss, detached."""
        clear(params)
        return backward(self._loss(copied_tree(batch)), params)

    def subtract(self, batch: Any, params: Tensors, weight: float) -> None:
        """Subtract ``weight`` times the minibatch's gradient from ``.grad``."""
        backward(self._loss(copied_tree(batch)), params, -weight)

    def loss(self, batch: Any) -> Any:
        """Return a minibatch's loss, or for None the whole proxy's, without gradient."""
        with torch.no_grad():
            if batch is not None:
                return scalar(self.loss_of(copied_tree(batch)))
            weighed = [(self.size(b), scalar(self.loss_of(b))) for b in self.full_batches]
            return sum(n * value for n, value in weighed) / sum(n for n, _ in weighed)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the batches."""
        return self._position.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position."""
        self._position.load_state_dict(state)

    def _loss(self, batch: Any) -> Any:
        with torch.enable_grad():
            return self.loss_of(batch)


class FunctionProxy:
    """A cheap loss given by one function, without arguments, of the whole proxy."""

    sampled = False

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def full(self, params: Tensors) -> Any:
        """Set ``.grad`` to ∇L̂(w) and return L̂(w), detached."""
        clear(params)
        with torch.enable_grad():
            value = self.function()
        return backward(value, params)

    def sample(self) -> Any:
        """Refuse: there are no minibatches; a step never asks, as ``sampled`` is False."""
        raise NotImplementedError

    def partial(self, batch: Any, params: Tensors) -> Any:
        """Refuse, as :meth:`sample`."""
        raise NotImplementedError

    def subtract(self, batch: Any, params: Tensors, weight: float) -> None:
        """Refuse, as :meth:`sample`."""
        raise NotImplementedError

    def loss(self, batch: Any) -> Any:
        """Return the loss without its gradient."""
        with torch.no_grad():
            return scalar(self.function())

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: a function has no position."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing."""


def as_oracle(proxy: Any) -> Oracle | None:
    """Accept a proxy, a function, or None for no proxy (which is SGD)."""
    methods = ("full", "sample", "partial", "subtract", "loss")
    if proxy is None or all(callable(getattr(proxy, name, None)) for name in methods):
        return proxy  # type: ignore[no-any-return]
    if callable(proxy) and not isinstance(proxy, type) and not isinstance(proxy, torch.nn.Module):
        if not takes(proxy, 0):
            allowed = "a function without arguments that returns the proxy loss"
            raise TypeError(message("proxy", proxy, allowed, "Write proxy=Proxy(loader, loss)."))
        return FunctionProxy(proxy)
    allowed = "a function that returns the proxy loss, a Proxy(batches, loss), or None"
    remedy = (
        "Write proxy=lambda: loss(model(x), y)."
        if isinstance(proxy, torch.nn.Module)
        else "Write proxy=Proxy(loader, loss)."
    )
    raise TypeError(message("proxy", proxy, allowed, remedy))


def rows(batch: Any) -> int:
    """Return the number of rows of a batch: of its first tensor, however it is wrapped."""
    found = batch
    while not isinstance(found, torch.Tensor):
        parts: Iterator[Any] = iter(
            found.values() if isinstance(found, Mapping) else found
            if isinstance(found, (list, tuple)) else ()
        )  # fmt: skip
        found = next(parts, None)
        if found is None:
            raise TypeError(
                message("batch", batch, "a tensor, or a tuple, list or dict of them")
                + " Give Proxy(..., size=...) for other batches."
            )
    return int(found.shape[0]) if found.ndim else 1


def clear(params: Tensors) -> None:
    """Drop the gradients, so that the next backward pass writes instead of adding."""
    for p in params:
        p.grad = None


def gradients(params: Tensors) -> list[Any]:
    """Return the gradients; zeros where the proxy does not depend on a parameter."""
    for p in params:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    return [p.grad for p in params]


def scalar(loss: Any) -> Any:
    """Return a loss if it is a scalar tensor."""
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return loss
    got, remedy = loss, "Return the tensor itself, without .item() or float()."
    if loss is None:
        got, remedy = Words("nothing"), "Return it from the function."
    elif hasattr(loss, "shape"):
        got, remedy = Words(f"a tensor of shape {tuple(loss.shape)}"), "Take its mean."
    raise TypeError(message("the proxy's loss", got, "a scalar tensor", remedy))


def backward(loss: Any, params: Tensors, weight: float = 1.0) -> Any:
    """Add ``weight`` times the gradient of a loss to ``.grad`` and return the weighted loss."""
    if not scalar(loss).requires_grad:
        raise ValueError(
            "the proxy's loss must depend on the parameters through autograd, got one without a "
            "graph. Do not detach it; for no proxy at all, pass proxy=None."
        )
    with torch.enable_grad():
        weighted = loss if weight == 1.0 else weight * loss
        weighted.backward(inputs=list(params))
    return weighted.detach()


def _one_batch(batches: Any) -> bool:
    """Tell whether this is inputs and labels rather than batches of either."""
    if not isinstance(batches, tuple) or len(batches) < 2:
        return False
    if not all(isinstance(part, torch.Tensor) and part.ndim for part in batches):
        return False
    kinds = {(part.dtype, part.ndim) for part in batches}
    return len(kinds) > 1 and len({part.shape[0] for part in batches}) == 1


def _one_shot(iterable: Any) -> bool:
    return isinstance(iterable, Iterator)
