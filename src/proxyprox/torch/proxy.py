"""Losses of networks: the proxy, and in which mode it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parallel import DistributedDataParallel

from proxyprox._util.arrays import copy_tree
from proxyprox._util.validation import Words, flag, message, offers, require_takes, takes
from proxyprox.torch.distributed import Ranks, is_sharded, set_gradients_aside

# A list of tensors, one for each parameter.
Tensors = Sequence[Any]

MODES = ("frozen", "no_dropout", "eval", "train")


def proxy_mode(model: Any | None, mode: str) -> AbstractContextManager[None]:
    """Return a context manager that puts a model into the mode of proxy passes, and back.

    Parameters
    ----------
    model : torch.nn.Module or None
        The network; without it nothing can be switched.
    mode : {"frozen", "no_dropout", "eval", "train"}
        "frozen" keeps batch statistics in the forward pass, as training has them, and leaves
        ``running_mean``, ``running_var`` and ``num_batches_tracked`` bit for bit as they were: an
        outer step makes tens of passes over proxy data, which would otherwise replace the target's
        statistics by the proxy's. "no_dropout" does so too, and makes the proxy a fixed function
        of a batch. "eval" makes it one of a sample, but another than the target's, which
        normalises by the batch: with BatchNorm it is stable for small step sizes only. "train"
        switches nothing.
    """
    changes: list[tuple[Any, str, Any]] = []
    for module in [] if model is None or mode == "train" else model.modules():
        if mode != "eval" and isinstance(module, _BatchNorm) and module.training:
            # In training, a BatchNorm that tracks nothing still normalises by the batch.
            changes.append((module, "track_running_stats", False))
        elif mode != "eval" and isinstance(module, _InstanceNorm) and module.training:
            changes.append((module, "momentum", 0.0))
        elif mode != "frozen":
            changes.append((module, "training", False))
    return set_attributes(changes)


@contextmanager
def proxy_passes(optimizer: Any, proxy: Any, params: Tensors, k: int) -> Iterator[None]:
    """Prepare for an optimiser's proxy passes of outer step k: modes, ranks, random numbers."""
    model = optimizer.model
    with ExitStack() as contexts:
        contexts.enter_context(proxy_mode(model, optimizer.proxy_mode))
        contexts.enter_context(pause_sample_hooks(model, proxy, params))
        contexts.enter_context(set_gradients_aside(optimizer, params))
        if isinstance(model, DistributedDataParallel):
            # Every rank computes the whole gradient: there is nothing to reduce.
            contexts.enter_context(model.no_sync())
        for one in meeting(proxy):
            one.meet_ranks()
            contexts.enter_context(one.ranks.same_random_numbers(k))
        yield


def each_of(proxy: Any) -> list[Any]:
    """Return the proxies of a list of them, or the one that there is."""
    return getattr(proxy, "proxies", [proxy])


def meeting(proxy: Any) -> list[Any]:
    """Return the proxies whose batches are to be the same on all ranks."""
    return [one for one in each_of(proxy) if hasattr(one, "ranks")]


@contextmanager
def pause_sample_hooks(model: Any | None, proxy: Any, params: Tensors) -> Iterator[None]:
    """Switch the hooks off by which Opacus adds every backward pass to ``grad_sample``."""
    if not any(hasattr(p, "grad_sample") for p in params):
        yield
        return
    if model is None:
        remedy = "Its per-sample gradients must not be taken of the proxy's passes."
        raise ValueError(message("model", None, "the network, where Opacus is used", remedy))
    for one in each_of(proxy):
        if isinstance(one, Proxy):
            one.private = True
    owners = {id(owner): owner for owner in sample_hook_owners(model)}.values()
    paused = [owner for owner in owners if owner.hooks_enabled]
    try:
        for owner in paused:
            owner.disable_hooks()
        yield
    finally:
        for owner in paused:
            owner.enable_hooks()


def sample_hook_owners(model: Any) -> Iterator[Any]:
    """Yield what Opacus has hooked into a network, which knows nothing of its wrapper."""
    for module in model.modules():
        for handle in getattr(module, "autograd_grad_sample_hooks", ()):
            hook = handle.hooks_dict_ref().get(handle.id)
            owner = getattr(hook, "__self__", None)
            if offers(owner, "disable_hooks", "enable_hooks"):
                yield owner


@contextmanager
def set_attributes(changes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Set attributes of modules, each as (module, name, value), for the time of a block."""
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


@contextmanager
def refreshed_batchnorm(
    model: Any, batches: Iterable[Any], forward: Callable[[Any], Any]
) -> Iterator[None]:
    """Give BatchNorm the statistics of the present weights for the time of a block.

    Running statistics lag behind weights that move fast, and mean nothing for averaged ones. They
    are replaced by the plain mean over the batches, and put back afterwards.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    batches : iterable
        Data to measure on; the proxy's costs nothing.
    forward : callable
        ``forward(batch)`` runs the network on a batch.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> model = torch.nn.BatchNorm1d(1)
    >>> with refreshed_batchnorm(model, [x], model):
    ...     model.running_mean.item()
    2.0
    >>> model.running_mean.item()
    0.0
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    saved = [(buffer, buffer.clone()) for layer in layers for buffer in layer.buffers()]
    changes: list[tuple[Any, str, Any]]
    changes = [(module, "training", True) for module in model.modules()]
    # Without momentum the running statistics are a cumulative mean.
    changes += [(layer, "momentum", None) for layer in layers]
    try:
        with torch.no_grad(), set_attributes(changes):
            for layer in layers:
                layer.reset_running_stats()
            for batch in batches:
                forward(batch)
        yield
    finally:
        for buffer, value in saved:
            buffer.copy_(value)


class Proxy:
    """A cheap loss given by batches of data and a function.

    Parameters
    ----------
    batches : iterable
        A ``DataLoader`` or anything that can be iterated over again and again.
    loss : callable
        ``loss(batch)`` returns the batch's mean loss as a scalar tensor, e.g.
        ``lambda batch: F.cross_entropy(model(batch[0]), batch[1])``. Device transfer and autocast
        belong in it. Under DistributedDataParallel, call the module that it wraps.
    full : iterable, optional
        What a full pass goes over, such as the same data in larger batches; by default
        ``batches``, rows that ``drop_last`` leaves out excepted. Leave it out for networks with
        BatchNorm, see the notes.
    size : callable, optional
        ``size(batch)``, the batch's weight in the mean; by default its number of rows.
    sampled : bool
        Let inner steps use one batch each; if False they use full passes.
    across_ranks : {"replicated", "shared", "independent"}
        Under ``torchrun``, where every rank must have all of the proxy's data: each computes every
        batch, without communication under DistributedDataParallel; each computes its rows of
        every batch, and the gradients are averaged; or ranks know nothing of each other.
    group : ProcessGroup, optional
        The ranks that train one network; by default all of them.

    Notes
    -----
    BatchNorm makes the loss depend on who shares a batch, so that other batches in the full pass
    than in the inner steps are another function L̂_full. The method then minimises
    ``L + (L̂ − L̂_full)``: slowly at first, it raises the loss on the full pass's batches, and
    training diverges. The optimiser warns of it if it knows the ``model``.

    The position in ``batches`` is part of the optimiser's ``state_dict``. It is restored exactly
    for loaders with a ``state_dict`` of their own, and for a ``DataLoader`` by replaying its
    shuffling up to there: give it a ``generator``, since without one the order comes from
    torch's global generator, which is the user's to save.

    Beside gradients made private by Opacus, nothing is saved that tells of torch's global
    generator, from which Opacus draws its noise: without a ``generator`` of the loader's own, a
    resumed run begins a new pass.

    Any object with these methods and the attribute ``sampled`` can serve as a proxy. Another
    attribute is optional: ``mixed``, that full passes use other batches than inner steps.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> proxy = Proxy(rows.split(2), lambda x: (x @ w - 1).square().mean())
    >>> proxy.full([w]), w.grad
    (tensor(1.), tensor([-1.3333, -1.3333]))
    """

    def __init__(
        self,
        batches: Iterable[Any],
        loss: Callable[[Any], Any],
        *,
        full: Iterable[Any] | None = None,
        size: Callable[[Any], float] | None = None,
        sampled: bool = True,
        across_ranks: str = "replicated",
        group: Any = None,
    ) -> None:
        full_batches = batches if full is None else full
        for name, given in (("batches", batches), ("full", full_batches)):
            if not isinstance(given, Iterable) or isinstance(given, (Iterator, str, bytes)):
                allowed = "iterable again and again, such as a DataLoader or a list of batches"
                raise TypeError(message(name, given, allowed, "Wrap a generator into list()."))
        parts = batches if isinstance(batches, tuple) else ()
        if len({(part.dtype, part.ndim) for part in parts if isinstance(part, torch.Tensor)}) > 1:
            got = Words("a tuple of inputs and labels, which would be one batch after the other")
            remedy = "Write DataLoader(TensorDataset(X, y), 32, shuffle=True)."
            raise TypeError(message("batches", got, "a loader or a list of batches", remedy))
        if not callable(loss) or not takes(loss, 1):
            allowed = "a function of one argument, the whole batch as the loader returns it"
            remedy = "Write lambda batch: ... with batch[0] and batch[1]."
            raise TypeError(message("loss", loss, allowed, remedy))
        self.batches = batches
        self.full_batches = full_batches
        self.loss_of = loss
        require_takes("size", size, ("batch",))
        self.size = size or rows
        self.sampled = flag("sampled", sampled)
        self.ranks = Ranks(across_ranks, group)
        self.mixed = sampled and full is not None
        self.private = False
        self._count = 0
        self._iterator: Iterator[Any] | None = None
        self._start: Any = None

    def full(self, params: Tensors) -> Any:
        """Set ``.grad`` to ∇L̂(w) and return L̂(w), detached."""
        total, value = 0.0, 0.0
        clear(params)
        for batch in self.full_batches:
            weight = self.size(batch)
            self.ranks.note(batch)
            total, value = total + weight, value + self._backward(batch, params, weight)
        if total == 0:
            raise ValueError(message("batches", self.full_batches, "at least one batch, not empty"))
        value = self.ranks.join(params, value)
        found = [p.grad for p in params if p.grad is not None]
        if found and total != 1:
            torch._foreach_div_(found, total)
        return value / total

    # A minibatch may be evaluated twice: a loss that normalises it in place would see two different
    # ones. So the loss gets copies.

    def sample(self) -> Any:
        """Draw the next minibatch, starting a new pass where one ends."""
        for _ in range(2):
            if self._iterator is None:
                self._start = self._generator().get_state()
                self._iterator, self._count = iter(self.batches), 0
            for batch in self._iterator:
                self._count += 1
                self.ranks.note(batch)
                return batch
            self._iterator = None
        raise ValueError(message("batches", self.batches, "at least one batch, not empty"))

    def partial(self, batch: Any, params: Tensors) -> Any:
        """Set ``.grad`` to the minibatch's gradient and return its loss, detached."""
        clear(params)
        return self.ranks.join(params, self._backward(copy_tree(batch), params, 1.0))

    def loss(self, batch: Any) -> Any:
        """Return a minibatch's loss, or for None the whole proxy's, without gradient."""
        with torch.no_grad():
            if batch is not None:
                return self.ranks.join((), self._part_loss(copy_tree(batch)))
            parts = [(self.size(b), self._part_loss(b)) for b in self.full_batches]
            total = sum(n * value for n, value in parts) / sum(n for n, _ in parts)
            return self.ranks.join((), total)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the batches as numbers and tensors."""
        # A private run must not save what its noise could be computed from.
        seed = {} if self.ranks.seed is None or self.private else {"seed": self.ranks.seed}
        if hasattr(self.batches, "state_dict"):
            return {**seed, "loader": self.batches.state_dict()}
        if self._iterator is None or (self.private and own_generator(self.batches) is None):
            return {**seed, "count": 0}
        now = self._generator().get_state()
        return {**seed, "count": self._count, "start": self._start, "now": now}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a position: by the loader itself, or by replaying the pass up to there."""
        self._iterator, self._count = None, 0
        self.ranks.seed = state.get("seed")
        if "loader" in state:
            self.batches.load_state_dict(state["loader"])  # type: ignore[attr-defined]
        elif state.get("count"):
            generator = self._generator()
            # Launchers move whole state dicts to the accelerator; random states must come back.
            start, now = (state[name].detach().cpu().clone() for name in ("start", "now"))
            if generator is torch.default_generator:
                now = generator.get_state()  # the global generator is not ours to move
            generator.set_state(start)
            for _ in range(int(state["count"])):
                self.sample()
            generator.set_state(now)
            self._start = start

    def meet_ranks(self) -> None:
        """Let all ranks begin with the same order of the batches."""
        loaders = {"batches": self.batches, "full": self.full_batches}
        found = {id(g): g for g in map(own_generator, loaders.values()) if g is not None}
        self.ranks.meet(loaders, found.values())

    def __getstate__(self) -> dict[str, Any]:
        # A running iterator cannot be copied: the copy replays the pass instead.
        return {**self.__dict__, "_iterator": None, "_start": None, "position": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        position = state.pop("position")
        self.__dict__.update(state)
        self.load_state_dict(position)

    def _generator(self) -> Any:
        """Return the generator that shuffles: the loader's own, or torch's global one."""
        return own_generator(self.batches) or torch.default_generator

    def _part_loss(self, batch: Any) -> Any:
        """Return the loss of this rank's rows of a batch, as a share of the batch's."""
        part, share = self.ranks.part_of(batch, self.size, rows)
        loss = scalar(self.loss_of(part))
        return loss if share == 1.0 else share * loss

    def _backward(self, batch: Any, params: Tensors, weight: float) -> Any:
        """Add ``weight`` times the gradient of a batch's loss and return the weighted loss."""
        with torch.enable_grad():
            loss = self._part_loss(batch)
            if not loss.requires_grad:
                got, remedy = Words("one without a graph"), "Do not detach it."
                raise ValueError(message("the proxy's loss", got, "differentiable", remedy))
            loss = loss if weight == 1.0 else weight * loss
            if is_sharded(params):
                # FSDP takes the mean over the ranks, of what may be parts of a sum; parameters in
                # the graph are not these, so that the pass cannot be restricted to them.
                count = self.ranks.count if self.ranks.shared else 1
                (count * loss).backward()
            else:
                loss.backward(inputs=list(params))
        return loss.detach()


class FunctionProxy(Proxy):
    """A cheap loss given by one function, without arguments, of the whole proxy."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__([torch.zeros(())], lambda batch: function(), sampled=False)


def own_generator(loader: Any) -> Any | None:
    """Return the generator that shuffles a loader, unless it is torch's global one."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    holders = (loader, getattr(loader, "sampler", None), getattr(batch_sampler, "sampler", None))
    found = (getattr(holder, "generator", None) for holder in holders)
    return next((g for g in found if isinstance(g, torch.Generator)), None)


def as_proxy(proxy: Any) -> Proxy:
    """Accept a proxy, or a function."""
    if offers(proxy, "full", "sample", "partial", "loss"):
        return proxy  # type: ignore[no-any-return]
    if not isinstance(proxy, (type, torch.nn.Module)) and callable(proxy) and takes(proxy, 0):
        return FunctionProxy(proxy)
    remedy = "Write proxy=Proxy(loader, loss), or proxy=lambda: loss(model(x), y)."
    if proxy is None:
        remedy = "Without a proxy, use an optimiser of torch."
    allowed = "a function without arguments that returns the proxy loss, or a Proxy"
    raise TypeError(message("proxy", proxy, allowed, remedy))


def rows(batch: Any) -> int:
    """Return the number of rows of a batch: of its first tensor, however it is wrapped."""
    found = batch
    while isinstance(found, (Mapping, list, tuple)) and found:
        found = next(iter(found.values() if isinstance(found, Mapping) else found))
    if not isinstance(found, torch.Tensor):
        allowed = "a tensor, or a tuple, list or dict of them"
        remedy = "Give Proxy(..., size=...) for other batches."
        raise TypeError(message("batch", batch, allowed, remedy))
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
    remedy = "Return the tensor itself, or its mean, without .item() or float()."
    raise TypeError(message("the proxy's loss", loss, "a scalar tensor", remedy))
