"""One outer step: the target's gradients, the correction, the inner solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from proxyprox._util.validation import message
from proxyprox.corrections import Correction
from proxyprox.inner.base import NonFiniteError
from proxyprox.stopping import Progress
from proxyprox.torch import checks
from proxyprox.torch.distributed import copy_into, local_parts, parameters_of, set_gradients
from proxyprox.torch.inner import Block, InnerSolve, OuterStep, copy_tensors, swap
from proxyprox.torch.proxy import clear, gradients, proxy_mode

if TYPE_CHECKING:
    from proxyprox.torch.optimizer import ProxyProx


def target_gradients(
    closure: Callable[[], Any] | None, optimizer: ProxyProx
) -> tuple[Any, dict[Any, Any]]:
    """Call the closure, and again at w_{k−1} if the correction compares two points.

    Returns the closure's loss, and the batch's gradient at w_{k−1} by parameter.
    """
    correction, state = optimizer.correction, optimizer.state
    if not correction.two_points:
        with torch.enable_grad():
            return None if closure is None else closure(), {}
    if closure is None:
        needed = f"step() with correction={correction!r} needs a closure, which it calls twice"
        raise TypeError(f"{needed}: call step(closure), or use EMA(), which needs none.")
    params = parameters_of(optimizer)
    # Asking an uninitialised CUDA for its state would initialise it.
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    random_state = torch.get_rng_state()
    with torch.enable_grad(), collect_additions(params) as added:
        loss = closure()
    if added:
        raise RuntimeError(
            f"step(closure) with correction={correction!r} needs the whole gradient, got a closure "
            "that added to .grad. Call zero_grad() in the closure; to accumulate gradients, loop "
            "over the micro-batches in it, or use EMA()."
        )
    known = [p for p in params if p.grad is not None and "previous" in state[p]]
    if not known:
        return loss, {}
    found, previous = [p.grad for p in params], [state[p]["previous"] for p in known]
    swap(known, previous)
    clear(params)
    try:
        # Dropout masks and augmentation are those of the first call; running statistics see the
        # batch only once.
        frozen = proxy_mode(optimizer.model, "frozen")
        with checks.preserve_random_state(), frozen, torch.enable_grad():
            torch.set_rng_state(random_state)
            torch.cuda.set_rng_state_all(cuda_states)
            closure()
        pairs = [
            local_parts((p.grad, g))
            for p, g in zip(params, found, strict=True)
            if p.grad is not None and g is not None
        ]
        if any(g.numel() and g.data_ptr() == h.data_ptr() for h, g in pairs):
            raise RuntimeError(
                "step(closure) needs the batch's gradients at two points, got a closure that puts "
                "both into the same memory (as replayed CUDA graphs and DistributedDataParallel "
                "with gradient_as_bucket_view=True do). Put clones into .grad."
            )
        return loss, {p: torch.zeros_like(p) if p.grad is None else p.grad for p in known}
    finally:
        swap(known, previous)
        set_gradients(params, found)


@contextmanager
def collect_additions(params: list[Any]) -> Iterator[list[Any]]:
    """Collect the parameters whose first backward pass in the block adds to a gradient from before.

    Had it been zeroed in place, its version would have grown by more than the addition.
    """
    added: list[Any] = []
    first = {id(p): (p.grad, p.grad._version) for p in params if p.grad is not None}

    def after_backward(p: Any) -> None:
        gradient, version = first.pop(id(p), (None, 0))
        if gradient is not None and p.grad is gradient and gradient._version == version + 1:
            added.append(p)

    with ExitStack() as hooks:
        for p in (p for p in params if id(p) in first):
            hooks.enter_context(p.register_post_accumulate_grad_hook(after_backward))
        yield added


def make_blocks(optimizer: ProxyProx, before: Mapping[Any, Any]) -> list[Block]:
    """Return the parameters that have a gradient; the others are left alone, as torch does."""
    blocks, state = [], optimizer.state
    for group in optimizer.param_groups:
        params = [p for p in group["params"] if p.grad is not None]
        checks.check_dense(params)
        eta, decay = float(group["lr"]), float(group["weight_decay"])
        if params and not eta >= 0:
            raise ValueError(message("lr", eta, "0 or a positive number", "Check the schedule."))
        decoupled = group["decoupled_weight_decay"] and decay > 0
        decays = (0.0, eta * decay) if decoupled else (decay, 0.0)
        for known in (True, False):
            members = [p for p in params if ("estimate" in state[p]) == known]
            if members:
                found = [before[p] for p in members] if members[0] in before else None
                target, states = [p.grad for p in members], [state[p] for p in members]
                blocks.append(Block(members, target, states, eta, *decays, found))
    return blocks


def coefficients(correction: Correction, k: int, *, started: bool) -> list[float]:
    """Return d, b and e of a correction ``m ← d·(g − a) + b·(g′ − a′) + e·m``.

    They are read off its values at three unit vectors, and applied in place to all parameters at
    once, with no temporary copy of the network. ``started`` says that there is an estimate (and a
    previous point) already.

    Examples
    --------
    >>> from proxyprox.corrections import EMA
    >>> coefficients(EMA(a=0.25), k=3, started=True)
    [0.25, 0.0, 0.75]
    """
    two_points = started and correction.two_points

    def value_at(vectors: Any) -> Any:
        new, before, kept = vectors.copy()
        return correction(new, before if two_points else None, kept if started else None, k)

    try:
        parts = value_at(np.eye(3))
        others = np.array([[130.0, -7.0, 0.4], [-0.3, 210.0, 35.0], [50.0, 0.9, -170.0]])
        if not np.allclose(value_at(others), parts @ others, rtol=1e-9):
            raise ValueError("other vectors are combined in another way")
        return [float(part) for part in parts]
    except (TypeError, AttributeError, ValueError) as error:
        raise TypeError(
            "correction must be linear in the differences (additions, and products with numbers), "
            f"got {correction!r}. Use Plain, EMA, Mean or Storm, or proxyprox.minimize on arrays."
        ) from error


def keeps_estimate(correction: Correction) -> bool:
    """Tell whether the estimate must be kept from step to step."""
    first, _, _ = coefficients(correction, 0, started=False)
    of_new, of_before, of_kept = coefficients(correction, 1, started=True)
    if correction.two_points and (first * of_new == 0 or (of_before and not of_kept)):
        allowed = "one that uses the newest difference, and the estimate with the one before"
        raise TypeError(message("correction", correction, allowed))
    return correction.two_points or of_kept != 0


def join_points(block: Block, outer: OuterStep) -> None:
    """Replace g_k by the next estimate of a two-point correction, except for the proxy's share.

    That is ``d·g_k + b·g′ + e·m``, in the memory of g′, the batch's gradient at w_{k−1}.
    """
    kept, decay = block.read_state("estimate"), block.coupled_decay
    correction = outer.optimizer.correction
    of_new, of_before, of_kept = coefficients(correction, outer.k, started=kept is not None)
    joint: Any = block.before
    if kept is None:
        joint = torch._foreach_mul(block.target, of_new)
    else:
        torch._foreach_mul_(joint, of_before)
        torch._foreach_add_(joint, block.target, alpha=of_new)
        torch._foreach_add_(joint, kept, alpha=of_kept)
        if decay:
            torch._foreach_add_(joint, block.read_state("previous"), alpha=decay * of_before)
    if decay:
        torch._foreach_add_(joint, block.params, alpha=decay * of_new)
    block.target, block.before = joint, None
    block.shares = (1.0, of_new)
    clear(block.params)


def update_correction(block: Block, outer: OuterStep) -> None:
    """Set ``block.correction`` to the new estimate of ∇L − ∇L̂, in the memory of the old one.

    With a full pass, ∇L̂(w_k) is in ``.grad``; a two-point correction has been through
    :func:`join_points`.
    """
    correction, target = outer.optimizer.correction, block.target
    estimate: Any = block.read_state("estimate")
    if correction.two_points:
        estimate, of_new = block.copy_to_state("estimate", target), block.shares[1]
        block.copy_to_state("previous", block.params)
    else:
        of_new, _, of_kept = coefficients(correction, outer.k, started=estimate is not None)
        if estimate is None:
            estimate = torch._foreach_mul(target, of_new)
        else:
            torch._foreach_mul_(estimate, of_kept)
            torch._foreach_add_(estimate, target, alpha=of_new)
    if outer.full:
        torch._foreach_add_(estimate, [p.grad for p in block.params], alpha=-of_new)
    if block.coupled_decay and not correction.two_points:
        torch._foreach_add_(estimate, block.params, alpha=block.coupled_decay * of_new)
    block.correction = estimate
    if outer.keeps:
        block.write_state("estimate", estimate)


def prepare_estimate(block: Block, outer: OuterStep) -> None:
    """Make the estimate of a two-point correction ready for the next step.

    That step needs ``e·m + b·(g′ − ∇L̂(w_k))``, so ``m − (b/e) ∇L̂(w_k)`` is all there is to keep.
    For STORM, b = −e, that is an estimate of ∇L(w_k) itself: it outlives the proxy.
    """
    of_correction, of_anchor = block.shares
    _, of_before, of_kept = coefficients(outer.optimizer.correction, outer.k + 1, started=True)
    share = (-of_before / of_kept if of_before else 0.0) / of_anchor
    torch._foreach_mul_(block.correction, 1 - share * of_correction)
    torch._foreach_add_(block.correction, block.target, alpha=share)


def take_step(blocks: list[Block], outer: OuterStep) -> tuple[int, Progress | None]:
    """Move the parameters; ``.grad`` is afterwards what each block has as its target's gradient.

    Returns the number of inner steps and, if it was measured, where the solve ended.
    """
    optimizer, probe = outer.optimizer, outer.probe and outer.k == 0
    if optimizer.proxy is None:
        explicit_step(blocks, outer)
        return 0, None
    params = [p for block in blocks for p in block.params]
    try:
        with checks.watched_passes(optimizer, params, outer.k, outer.probe):
            if probe and not outer.paired:
                checks.check_full_batches(optimizer.proxy, optimizer.model)
            return proximal_step(blocks, outer)
    finally:
        for block in blocks:
            set_gradients(block.params, block.target)


def explicit_step(blocks: list[Block], outer: OuterStep) -> None:
    """Minimise ``θ⟨m, w⟩ + ‖w − w_k‖²/(2η)``: without a proxy the plain method is SGD."""
    for block in blocks:
        if outer.optimizer.correction.two_points:
            join_points(block, outer)
        update_correction(block, outer)
        if block.decoupled_decay:
            torch._foreach_mul_(block.params, 1 - block.decoupled_decay)
        alpha = -block.eta * outer.optimizer.correction_weight
        torch._foreach_add_(block.params, block.correction, alpha=alpha)


def proximal_step(blocks: list[Block], outer: OuterStep) -> tuple[int, Progress | None]:
    """Estimate ∇L − ∇L̂ and minimise the proxy with that correction around w_k.

    The parameters change in place, or not at all if anything fails on the way; ``.grad`` is used
    for the proxy's gradients.
    """
    moving = [block for block in blocks if block.moves]
    value = correct(blocks, outer)
    try:
        for block in moving:
            prepare_subproblem(block, outer)
        outer.stepper.begin(outer.k)
        steps, seen = InnerSolve(moving, outer, value).run() if moving else (0, None)
        if outer.probe and moving:
            params = [p for block in moving for p in block.params]
            target = [g for block in moving for g in block.target]
            checks.check_end(outer.optimizer.proxy, params, target, outer.k, steps)
    except BaseException as error:
        for block in (block for block in moving if block.centre):
            copy_into(block.params, block.centre)
        torch.clear_autocast_cache()
        if isinstance(error, NonFiniteError):
            for state in (state for block in blocks for state in block.states):
                state.pop("estimate", None)  # what is not finite may be in it
                state.pop("previous", None)
        raise
    finally:
        if outer.optimizer.correction.two_points:
            for block in blocks:
                prepare_estimate(block, outer)
    for block in moving:
        if block.decoupled_decay:
            torch._foreach_add_(block.params, block.centre, alpha=-block.decoupled_decay)
    return steps, seen


def correct(blocks: list[Block], outer: OuterStep) -> Any | None:
    """Update the corrections, and return L̂(w_k) if its gradient is still in ``.grad``."""
    optimizer, probe = outer.optimizer, outer.probe and outer.k == 0
    proxy: Any = optimizer.proxy
    value = None
    if optimizer.correction.two_points:
        for block in blocks:
            join_points(block, outer)
    if probe and not proxy.sampled:
        checks.probe_proxy(proxy)
    if outer.full:
        params = [p for block in blocks for p in block.params]
        value = proxy.full(params)
        if outer.k == 0:
            checks.check_dependence(params)
        found = gradients(params)
        if probe:
            checks.check_loss(value)
            target = [g for block in blocks for g in block.target]
            checks.compare_lengths(checks.length(found), checks.length(target))
        optimizer.ledger.proxy_gradients += 1
    for block in blocks:
        update_correction(block, outer)
        if not block.moves:
            clear(block.params)  # or a torch inner optimiser would move it
    return None if outer.paired else value


def prepare_subproblem(block: Block, outer: OuterStep) -> None:
    """Set centre and linear term."""
    optimizer = outer.optimizer
    # A correction that compares two points has w_k in its memory already.
    point = block.read_state("previous") if optimizer.correction.two_points else None
    block.centre = copy_tensors(block.params) if point is None else point
    block.linear, block.weight = block.correction, optimizer.correction_weight
    if outer.paired and outer.full:
        # The pairs cancel ∇L̂(w_k) on average: it comes back in the linear term.
        block.linear = [p.grad for p in block.params]
        if getattr(optimizer.proxy, "static", False):
            block.linear = copy_tensors(block.linear)  # the next gradient lies in the same memory
        torch._foreach_add_(block.linear, block.correction, alpha=block.weight)
        clear(block.params)
        block.target, block.shares, block.weight = block.linear, (block.weight, 1.0), 1.0
