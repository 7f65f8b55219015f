"""How many bytes collectives carry, for ``distributed_training.py``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from proxyprox.torch.distributed import tensors_in


class CollectiveBytes(TorchDispatchMode):  # type: ignore[misc]
    """Counts what collectives carry: the bytes reduced, gathered or scattered, as this rank sees.

    A gather counts as what it makes, a reduction as what goes into it: for a network of P bytes,
    an all-reduce of its gradient is P, and so is an all-gather of its parameters.

    Attributes
    ----------
    by_collective : Counter
        Bytes by the name of the collective.

    Examples
    --------
    >>> with CollectiveBytes() as counted:
    ...     _ = torch.ones(3).sum()
    >>> counted.total
    0
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_collective: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(self.by_collective.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count a collective; leave sharded tensors to their own rules, which call collectives."""
        if any(hasattr(kind, "full_tensor") for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        name = func.name().split("::")[-1].split(".")[0]
        carriers = ("reduce", "gather", "scatter", "broadcast", "alltoall", "all_to_all")
        if func.namespace in ("c10d", "_c10d_functional") and any(w in name for w in carriers):
            parts = [tensors_in(part) for part in (*args, result)]
            sizes = [sum(t.numel() * t.element_size() for t in part) for part in parts]
            self.by_collective[name.strip("_")] += max(sizes)
        return result
