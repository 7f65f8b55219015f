"""The same batch at the previous point, for corrections that compare the two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from proxyprox.corrections import Correction
from proxyprox.torch._block import swap
from proxyprox.torch._modes import proxy_mode
from proxyprox.torch._proxy import clear


class Replay:
    """Random states around a closure, so that its second call draws what the first one drew."""

    def __init__(self) -> None:
        self.begin = _random_states()
        self.end = self.begin

    def finish(self) -> None:
        """Note the states after the first call."""
        self.end = _random_states()

    def rewind(self) -> None:
        """Go back to before the first call."""
        _set_random_states(self.begin)

    def forward(self) -> None:
        """Go to after the first call."""
        _set_random_states(self.end)


def target_gradients(
    closure: Callable[[], Any] | None,
    correction: Correction,
    groups: Iterable[Mapping[str, Any]],
    state: Mapping[Any, Mapping[str, Any]],
    model: Any | None,
) -> tuple[Any, dict[Any, Any]]:
    """Call the closure, if there is one, and again at the previous point if that is asked for.

    Returns
    -------
    loss : tensor or None
        What the closure returned.
    before : dict
        The batch's gradient at w_{k−1} by parameter; empty where it is not asked for.
    """
    if closure is None:
        if correction.two_points:
            raise TypeError(
                f"step() with correction={correction!r} needs a closure, since the same batch is "
                "evaluated at the previous point too: call step(closure), or use EMA(), which "
                "needs none."
            )
        return None, {}
    if not correction.two_points:
        with torch.enable_grad():
            return closure(), {}
    params = [p for group in groups for p in group["params"]]
    replay = Replay()
    with torch.enable_grad(), _additions(params) as added:
        loss = closure()
    replay.finish()
    if added:
        raise RuntimeError(
            f"step(closure) with correction={correction!r} needs a closure that computes the whole "
            "gradient, got one that added to what was in .grad already: at the previous point "
            "that part cannot be computed again. Call zero_grad() in the closure; to accumulate "
            "gradients, loop over the micro-batches in it, or use EMA()."
        )
    return loss, gradients_at_previous(closure, state, params, replay, model)


def gradients_at_previous(
    closure: Callable[[], Any],
    state: Mapping[Any, Mapping[str, Any]],
    params: list[Any],
    replay: Replay,
    model: Any | None,
) -> dict[Any, Any]:
    """Return the batch's gradient at w_{k−1} by parameter; w and ``.grad`` stay as they are.

    Dropout masks and augmentation are drawn as in the first call, and the running statistics of
    ``model`` see the batch only once.
    """
    known = [p for p in params if p.grad is not None and "previous" in state[p]]
    if not known:
        return {}
    found, previous = [p.grad for p in params], [state[p]["previous"] for p in known]
    swap(known, previous)
    clear(params)
    replay.rewind()
    try:
        with proxy_mode(model, "frozen"), torch.enable_grad():
            closure()
        if any(_same_memory(p.grad, gradient) for p, gradient in zip(params, found, strict=True)):
            raise RuntimeError(
                "step(closure) needs the batch's gradients at two points, got a closure that puts "
                "both into the same memory (as replayed CUDA graphs do). Put clones into .grad."
            )
        return {p: torch.zeros_like(p) if p.grad is None else p.grad for p in known}
    finally:
        replay.forward()
        swap(known, previous)
        for p, gradient in zip(params, found, strict=True):
            p.grad = gradient


def _same_memory(one: Any | None, other: Any | None) -> bool:
    if one is None or other is None or not one.numel():
        return False
    return bool(one.data_ptr() == other.data_ptr())


@contextmanager
def _additions(params: list[Any]) -> Iterator[list[Any]]:
    """Collect the parameters whose first backward pass in the block adds to a gradient from before.

    Had it been zeroed in place, its version would have grown by more than the addition.
    """
    added: list[Any] = []
    first = {id(p): (p.grad, p.grad._version) for p in params if p.grad is not None}

    def after_backward(p: Any) -> None:
        gradient, version = first.pop(id(p), (None, 0))
        if gradient is not None and p.grad is gradient and gradient._version == version + 1:
            added.append(p)

    hooks = [p.register_post_accumulate_grad_hook(after_backward) for p in params if id(p) in first]
    try:
        yield added
    finally:
        for hook in hooks:
            hook.remove()


def _random_states() -> tuple[Any, list[Any]]:
    # Asking an uninitialised CUDA for its state would initialise it.
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), cuda


def _set_random_states(states: tuple[Any, list[Any]]) -> None:
    cpu, cuda = states
    torch.set_rng_state(cpu)
    if cuda:
        torch.cuda.set_rng_state_all(cuda)
