"""One network on several ranks: who draws what, what is summed, and whether all agree.

A rank's part of a sharded tensor (a ``DTensor``) says nothing about the whole. Decisions of the
optimisers are taken on what :func:`full_value` returns, which is the same number on every rank:
ranks that decided differently would wait for each other for ever.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from proxyprox._util.validation import Words, message, one_of

# For digests: odd, so that no bit is lost, and modulo 2^64.
FACTOR = 6364136223846793005
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


# -- sharded tensors ----------------------------------------------------------------------------


def is_sharded(tensors: Iterable[Any]) -> bool:
    """Tell whether some are DTensors, of which a rank has a part."""
    # By name: to import the class is slow, and not every build of torch has it.
    return any(hasattr(t, "full_tensor") for t in tensors)


def full_value(x: Any) -> Any:
    """Return a tensor, or the whole of a sharded or partial one; then every rank must call it."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def local_parts(tensors: Iterable[Any]) -> list[Any]:
    """Return the tensors, and of sharded ones this rank's part, in the same memory."""
    return [t.to_local() if hasattr(t, "to_local") else t for t in tensors]


def copy_into(tensors: Sequence[Any], values: Sequence[Any]) -> None:
    """Copy values into tensors that are sharded alike; ``_foreach_copy_`` knows no DTensors."""
    torch._foreach_copy_(local_parts(tensors), local_parts(values))


def parameters_of(optimizer: Any) -> list[Any]:
    """Return the parameters of all groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def set_gradients(params: Iterable[Any], gradients: Iterable[Any]) -> None:
    """Put tensors, or None, into ``.grad``."""
    for p, gradient in zip(params, gradients, strict=True):
        p.grad = gradient


@contextmanager
def kept_gradients(params: Sequence[Any]) -> Iterator[list[Any]]:
    """Put ``.grad`` back after a block, as the same tensors; they are also returned."""
    kept = [p.grad for p in params]
    try:
        yield kept
    finally:
        set_gradients(params, kept)


@contextmanager
def set_gradients_aside(optimizer: Any, params: Sequence[Any]) -> Iterator[None]:
    """Keep the gradients of other parameters from the proxy's passes, where those would add to it.

    FSDP's backward pass cannot be restricted to some parameters.
    """
    others: list[Any] = []
    if is_sharded(params):
        own = {id(p) for p in params}
        every = parameters_of(optimizer)
        every += [] if optimizer.model is None else optimizer.model.parameters()
        others = [p for p in every if id(p) not in own]
    with kept_gradients(others):
        for p in others:
            p.grad = None
        yield


# -- ranks --------------------------------------------------------------------------------------


class Ranks:
    """The ranks that step on one proxy, each on the same batches or on its rows of them."""

    def __init__(self, mode: str, group: Any = None) -> None:
        modes = ("replicated", "shared", "independent")
        self.mode, self.group = one_of("across_ranks", mode, modes), group
        self.seed: int | None = None
        self._met = False
        self._batches: list[Any] = []

    @property
    def count(self) -> int:
        """How many there are; 1 outside of ``torchrun``."""
        if self.mode == "independent" or not (dist.is_available() and dist.is_initialized()):
            return 1
        return int(dist.get_world_size(self.group))

    @property
    def shared(self) -> bool:
        """Whether each rank has its rows of a batch."""
        return self.mode == "shared" and self.count > 1

    def meet(self, loaders: Mapping[str, Any], generators: Iterable[Any]) -> None:
        """Begin an outer step; before the first, give all loaders the first rank's random state."""
        self._batches = []
        if self._met or self.count == 1:
            return
        for name, loader in loaders.items():
            length = operator.length_hint(loader, -1)
            if found := self._differing([torch.tensor(length)]):
                got = Words(f"{length} here and others on ranks {found}")
                remedy = "Give every rank all of the proxy's data, without DistributedSampler."
                raise ValueError(message(f"the length of {name}", got, "the same for all", remedy))
        if self.seed is None:
            mine = torch.tensor(torch.initial_seed() % 2**63)
            self.seed = int(self._broadcast(mine))
        for generator in generators:
            generator.set_state(self._broadcast(generator.get_state()))
        self._met = True

    @contextmanager
    def same_random_numbers(self, k: int) -> Iterator[None]:
        """Let all ranks draw the same numbers, of outer step k alone, from torch's generator."""
        if self.count == 1:
            yield
            return
        # A rank has one device: to ask the others for their state would use their memory.
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(((self.seed or 0) + FACTOR * (k + 1)) % 2**63)
            yield

    def part_of(self, batch: Any, size: Any, rows: Any) -> tuple[Any, float]:
        """Return this rank's rows of a batch and their share in it."""
        if not self.shared:
            return batch, 1.0
        count, rank, length = self.count, dist.get_rank(self.group), rows(batch)
        first, last = length * rank // count, length * (rank + 1) // count
        if first == last:  # fewer rows than ranks; every rank must take part in the pass
            return take_rows(batch, slice(0, 1), length), 0.0
        part = take_rows(batch, slice(first, last), length)
        return part, size(part) / size(batch)

    def join(self, params: Sequence[Any], value: Any) -> Any:
        """Sum the ranks' gradients, if they are of different rows, and return the full loss."""
        count = self.count
        if count == 1 or not ((sharded := is_sharded(params)) or self.shared):
            return value
        if self.shared and not sharded:
            found = [p.grad for p in params if p.grad is not None]
            flat = [gradient.contiguous() for gradient in found]
            waiting = [dist.all_reduce(g, group=self.group, async_op=True) for g in flat]
            for work in waiting:
                work.wait()
            for gradient, whole in zip(found, flat, strict=True):
                if whole is not gradient:
                    gradient.copy_(whole)
        total = torch.as_tensor(value).clone()
        dist.all_reduce(total, group=self.group)
        return total if self.shared else total / count

    def note(self, batch: Any) -> None:
        """Remember which batch was drawn, for :meth:`check_agreement`."""
        if self.count > 1:
            self._batches.append(digest(tensors_in(batch)))

    def check_agreement(self, params: Sequence[Any], k: int, steps: int) -> None:
        """Refuse ranks that drew other batches or have other parameters; this waits for all."""
        if self.count == 1 or not params:
            return
        device = local_parts(params[:1])[0].device
        weights = [] if is_sharded(params) else params
        facts = [torch.tensor(steps), digest(self._batches), digest(weights)]
        if not (found := self._differing(facts, device)):
            return
        if other := self._differing(facts[:2], device):
            raise RuntimeError(
                f"the ranks must draw the same proxy batches, got others on ranks {other} in outer "
                f"step {k}. Give every rank the same data and the loader a generator of its own "
                "(it is made equal at the first step); draw augmentation from torch's generator, "
                'not from other modules\'; or use across_ranks="independent".'
            )
        raise RuntimeError(
            f"the ranks must have the same parameters after outer step {k}, got others on ranks "
            f"{found}. Either .grad differs: wrap the network into DistributedDataParallel; or "
            "proxy passes are not deterministic: torch.use_deterministic_algorithms(True), or "
            'across_ranks="shared", which averages every proxy gradient. Ranks that train networks '
            'of their own have across_ranks="independent".'
        )

    def _differing(self, facts: Sequence[Any], device: Any = None) -> list[int]:
        """Return the ranks whose numbers differ from the first rank's."""
        mine = torch.stack([fact.to(device or self._device()).long() for fact in facts])
        # The largest and, by its complement, the smallest: a few bytes where all agree.
        both = torch.cat([mine, ~mine])
        dist.all_reduce(both, op=dist.ReduceOp.MAX, group=self.group)
        if torch.equal(both[: len(facts)], ~both[len(facts) :]):
            return []
        every = [torch.empty_like(mine) for _ in range(self.count)]
        dist.all_gather(every, mine, group=self.group)
        return [rank for rank, other in enumerate(every) if not torch.equal(other, every[0])]

    def _broadcast(self, mine: Any) -> Any:
        """Return the first rank's tensor, on the host."""
        sent, group = mine.to(self._device()), self.group or dist.group.WORLD
        dist.broadcast(sent, dist.get_process_group_ranks(group)[0], group)
        return sent.cpu()

    def _device(self) -> str:
        return "cuda" if "nccl" in dist.get_backend(self.group) else "cpu"


def tensors_in(batch: Any) -> list[Any]:
    """Return the tensors in a batch, however nested; arrays become tensors."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return [tensor for item in batch for tensor in tensors_in(item)]
    return [torch.as_tensor(batch)] if hasattr(batch, "__array__") else []


def take_rows(batch: Any, rows: slice, length: int) -> Any:
    """Return some rows of every tensor and array in a batch."""
    if isinstance(batch, Mapping):
        return {name: take_rows(item, rows, length) for name, item in batch.items()}
    if isinstance(batch, (list, tuple)):
        items = [take_rows(item, rows, length) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    has_rows = tuple(getattr(batch, "shape", ())[:1]) == (length,)
    return batch[rows] if has_rows else batch


def digest(tensors: Iterable[Any]) -> Any:
    """Return a number of 64 bits that depends on every bit, without waiting for the device."""
    found = torch.zeros((), dtype=torch.int64)
    for tensor in tensors:
        bits = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        bits = bits.detach().contiguous().view(INTEGERS[bits.element_size()])
        # The same rows in another order are another batch: ranks would take other parts of it.
        rows = bits.flatten(1).sum(1, dtype=torch.int64) if bits.ndim > 1 else bits.reshape(-1)
        places = torch.arange(1, len(rows) + 1, device=bits.device)
        found = found.to(bits.device) * FACTOR + (rows * places).sum()
    return found
