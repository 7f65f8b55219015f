"""One outer step: the target's gradients, the correction, the inner solve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from proxyprox._util.validation import message
from proxyprox.corrections import Correction
from proxyprox.result import Ledger
from proxyprox.stopping import Criterion, Progress, Steps
from proxyprox.subproblem import NonFiniteError
from proxyprox.torch.checks import depends, finite, probe, same_units, still_finite
from proxyprox.torch.corrections import Tensors, anchor_share, coefficients, combine, difference
from proxyprox.torch.inner import InnerSolve, Rules, Stepper
from proxyprox.torch.parameters import Block, copy_of, forget_casts, swap
from proxyprox.torch.proxy import Oracle, clear, gradients, proxy_mode


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


SMALLEST_ETA = 1e-30
"""Below this a step size counts as 0 (the end of a schedule): its inverse would overflow."""


@dataclass
class Part:
    """Parameters of one group that have a gradient, with what belongs to them.

    Either all of them have an estimate from earlier steps or none has. ``target`` is g_k; where a
    fourth copy of the parameters would be needed otherwise, it becomes ``x·m + y·∇L̂(w_k)`` with
    ``shares = (x, y)``, and the memory of g_k is free.
    """

    params: list[Any]
    target: Tensors
    states: list[dict[str, Any]]
    eta: float
    weight_decay: float
    decoupled: bool
    before: list[Any] | None = None
    correction: Tensors = field(default_factory=list)
    shares: tuple[float, float] = (0.0, 0.0)

    @property
    def moves(self) -> bool:
        """Whether the step size lets the group move at all."""
        return self.eta > SMALLEST_ETA

    @property
    def coupled_decay(self) -> float:
        """The weight decay that belongs into the target's gradient."""
        return 0.0 if self.decoupled else self.weight_decay

    def remembered(self, name: str) -> list[Any] | None:
        """Return what the state holds under a name, if it does."""
        return [state[name] for state in self.states] if name in self.states[0] else None

    def remember(self, name: str, values: Tensors) -> None:
        """Put tensors into the state."""
        for state, value in zip(self.states, values, strict=True):
            state[name] = value

    def forget(self) -> None:
        """Start the estimate anew at the next step."""
        for state in self.states:
            state.pop("estimate", None)
            state.pop("previous", None)

    def remember_point(self) -> None:
        """Put w_k into the state, in the memory of w_{k−1}."""
        kept = self.remembered("previous")
        if kept is None:
            self.remember("previous", copy_of(self.params))
        else:
            torch._foreach_copy_(kept, self.params)


def gather(
    groups: Iterable[Mapping[str, Any]],
    state: Mapping[Any, dict[str, Any]],
    before: Mapping[Any, Any],
) -> list[Part]:
    """Collect the parameters that have a gradient; the others are left alone, as torch does.

    Parameters
    ----------
    groups : iterable of mappings
        The optimiser's parameter groups.
    state : mapping
        Its state by parameter.
    before : mapping
        The batch's gradient at w_{k−1} by parameter, where there is one.
    """
    parts: list[Part] = []
    for group in groups:
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if p.grad.is_sparse:
                raise RuntimeError(
                    "ProxyProx does not support sparse gradients: the proxy's gradient is dense. "
                    "Use nn.Embedding(..., sparse=False), or another optimiser for that group."
                )
        eta = float(group["lr"])
        if params and not eta >= 0:
            raise ValueError(message("lr", eta, "0 or a positive number", "Look at the schedule."))
        known = [p for p in params if "estimate" in state[p]]
        fresh = [p for p in params if "estimate" not in state[p]]
        parts += [
            Part(
                params=members,
                target=[p.grad for p in members],
                states=[state[p] for p in members],
                eta=eta,
                weight_decay=float(group["weight_decay"]),
                decoupled=bool(group["decoupled_weight_decay"]),
                before=[before[p] for p in members] if members[0] in before else None,
            )
            for members in (known, fresh)
            if members
        ]
    return parts


def update_correction(
    part: Part, correction: Correction, k: int, *, anchor: bool, keep: bool
) -> None:
    """Set ``part.correction`` to the new estimate of ∇L − ∇L̂.

    Parameters
    ----------
    part : Part
        A group's tensors; with an anchor, ∇L̂(w_k) is in their ``.grad``.
    correction : Correction
        How differences become an estimate; for one that compares two points,
        :func:`join_points` has been called before.
    k : int
        Outer step.
    anchor : bool
        Whether ``.grad`` holds ∇L̂(w_k); otherwise it counts as zero.
    keep : bool
        Whether the estimate is part of the state.
    """
    estimate = part.remembered("estimate")
    minus = [p.grad for p in part.params] if anchor else None
    if correction.two_points:
        part.correction = difference(estimate, part.target, minus, part.shares[1])
        part.remember_point()
    else:
        numbers = coefficients(correction, k, started=estimate is not None)
        part.correction = combine(numbers, estimate, part.target, minus)
        if part.coupled_decay:
            alpha = part.coupled_decay * numbers.difference
            torch._foreach_add_(part.correction, part.params, alpha=alpha)
    if keep:
        part.remember("estimate", part.correction)


def join_points(part: Part, correction: Correction, k: int) -> None:
    """Replace g_k by all of a two-point correction's next estimate but the proxy's share.

    That is ``d·g_k + b·g′ + e·kept``, in the memory of g′, the batch's gradient at w_{k−1}.
    """
    kept = part.remembered("estimate")
    numbers = coefficients(correction, k, started=kept is not None)
    if numbers.difference == 0:
        raise TypeError(
            "a correction that compares two points must use the newest difference, got "
            f"{correction!r} which drops it at step {k}."
        )
    decay = part.coupled_decay
    joint: Tensors = part.before or torch._foreach_mul(part.target, numbers.difference)
    if kept is not None:
        torch._foreach_mul_(joint, numbers.before)
        torch._foreach_add_(joint, part.target, alpha=numbers.difference)
        torch._foreach_add_(joint, kept, alpha=numbers.estimate)
        if decay:
            previous = part.remembered("previous")
            torch._foreach_add_(joint, previous, alpha=decay * numbers.before)
    if decay:
        torch._foreach_add_(joint, part.params, alpha=decay * numbers.difference)
    part.target, part.before = joint, None
    part.shares = (1.0, numbers.difference)
    clear(part.params)


def anchor_estimate(part: Part, correction: Correction, k: int) -> None:
    """Make the estimate of a two-point correction ready for the next step.

    The next step needs ``e·m + b·(g′ − ∇L̂(w_k))``, so that ``m − (b/e) ∇L̂(w_k)`` is all there is
    to keep. For STORM, b = −e, that is an estimate of ∇L(w_k) itself: it outlives the proxy.
    """
    of_estimate, of_anchor = part.shares
    share = anchor_share(correction, k + 1) / of_anchor
    torch._foreach_mul_(part.correction, 1 - share * of_estimate)
    torch._foreach_add_(part.correction, part.target, alpha=share)


def shift_estimates(
    params: list[Any],
    state: Mapping[Any, dict[str, Any]],
    old: Oracle,
    new: Oracle,
    ledger: Ledger,
    model: Any | None,
    mode: str,
) -> None:
    """Carry estimates of ∇L − ∇L̂ over to a new proxy: add ∇L̂_old(w) − ∇L̂_new(w)."""
    held = [p.grad for p in params]
    estimates = [state[p]["estimate"] for p in params]
    try:
        with proxy_mode(model, mode):
            for oracle, sign in ((old, 1.0), (new, -1.0)):
                oracle.full(params)
                ledger.proxy_gradients += 1
                torch._foreach_add_(estimates, gradients(params), alpha=sign)
    finally:
        for p, g in zip(params, held, strict=True):
            p.grad = g


@dataclass(frozen=True)
class Settings:
    """What stays the same from step to step; see the optimiser's parameters."""

    correction: Correction
    weight: float
    keeps: bool
    paired: bool
    measure: bool
    max_steps: int
    check_every: int
    watch: bool


def explicit_step(parts: list[Part], k: int, settings: Settings) -> None:
    """Minimise ``θ⟨m, w⟩ + ‖w − w_k‖²/(2η)``: without a proxy the plain method is SGD."""
    for part in parts:
        if settings.correction.two_points:
            join_points(part, settings.correction, k)
        update_correction(part, settings.correction, k, anchor=False, keep=settings.keeps)
        if part.decoupled and part.weight_decay:
            torch._foreach_mul_(part.params, 1 - part.eta * part.weight_decay)
        alpha = -part.eta * settings.weight
        torch._foreach_add_(part.params, part.correction, alpha=alpha)


def proximal_step(
    parts: list[Part],
    k: int,
    oracle: Oracle,
    stepper: Stepper,
    rule: Criterion,
    settings: Settings,
    ledger: Ledger,
    *,
    look: bool,
) -> tuple[int, Progress | None]:
    """Estimate ∇L − ∇L̂ and minimise the proxy with that correction around w_k.

    Parameters
    ----------
    parts : list of Part
        The parameters with their target gradients; changed in place, or not at all if anything
        fails on the way. ``.grad`` is used for the proxy's gradients.
    k : int
        Outer step.
    oracle, stepper, rule, settings
        The proxy, how inner steps are taken, when they end, and the rest.
    ledger : Ledger
        Counts the proxy's gradients.
    look : bool
        Probe the proxy first.

    Returns
    -------
    steps : int
        Inner steps taken.
    seen : Progress or None
        Where the solve ended, if it was measured.
    """
    moving = [part for part in parts if part.moves]
    value = _correct(parts, k, oracle, rule, settings, ledger, look=look)
    blocks: list[Block] = []
    try:
        blocks += [_block(part, oracle, rule, settings) for part in moving]
        if not moving:
            return 0, None
        rules = Rules(
            stop=rule,
            max_steps=settings.max_steps,
            check_every=settings.check_every,
            measure=settings.measure,
            weight=settings.weight,
            paired=settings.paired,
            pair_weight=1.0 if _needs_full(rule, settings) else settings.weight,
            probe=look,
            first=k == 0 and len(moving) == len(parts) and not _needs_full(rule, settings),
        )
        stepper.begin(k)
        corrections = [part.correction for part in moving]
        solve = InnerSolve(blocks, corrections, oracle, stepper, rules, ledger, value)
        steps, seen = solve.run()
        if settings.watch:
            for part in moving:
                still_finite(part.params, part.target, k)
    except BaseException as error:
        for block in blocks:
            torch._foreach_copy_(block.params, block.centre)
        forget_casts()
        if isinstance(error, NonFiniteError):
            for part in parts:
                part.forget()  # what is not finite may be in the estimate
        raise
    finally:
        if settings.correction.two_points:
            for part in parts:
                anchor_estimate(part, settings.correction, k)
    for part, block in zip(moving, blocks, strict=True):
        if part.decoupled and part.weight_decay:
            torch._foreach_add_(part.params, block.centre, alpha=-part.eta * part.weight_decay)
    return steps, seen


def _needs_full(rule: Criterion, settings: Settings) -> bool:
    """Tell whether ∇L̂(w_k) is wanted as a whole."""
    measured = settings.measure or not isinstance(rule, Steps)
    return not settings.paired or settings.keeps or measured


def _correct(
    parts: list[Part],
    k: int,
    oracle: Oracle,
    rule: Criterion,
    settings: Settings,
    ledger: Ledger,
    *,
    look: bool,
) -> Any | None:
    """Update the corrections, and return L̂(w_k) if its gradient is still in ``.grad``."""
    full, value = _needs_full(rule, settings), None
    if settings.correction.two_points:
        for part in parts:
            join_points(part, settings.correction, k)
    if look and not oracle.sampled:
        probe(oracle)
    if full:
        params = [p for part in parts for p in part.params]
        value = oracle.full(params)
        if k == 0:
            depends(params)
        found = gradients(params)
        if look:
            finite(value)
            same_units(found, [g for part in parts for g in part.target])
        ledger.proxy_gradients += 1
    for part in parts:
        update_correction(part, settings.correction, k, anchor=full, keep=settings.keeps)
        if not part.moves:
            clear(part.params)  # or a torch inner optimiser would move it
    return None if settings.paired else value


def _block(part: Part, oracle: Oracle, rule: Criterion, settings: Settings) -> Block:
    """Return one part's share of φ_k, at its centre."""
    # A correction that compares two points has w_k in its memory already.
    point = part.remembered("previous") if settings.correction.two_points else None
    centre = copy_of(part.params) if point is None else point
    linear, weight = part.correction, settings.weight
    if settings.paired and _needs_full(rule, settings):
        # The pairs cancel ∇L̂(w_k) on average: it comes back in the linear term.
        linear, weight = [p.grad for p in part.params], 1.0
        if getattr(oracle, "static", False):
            linear = copy_of(linear)  # the next gradient will lie in the same memory
        torch._foreach_add_(linear, part.correction, alpha=settings.weight)
        clear(part.params)
        part.target, part.shares = linear, (settings.weight, 1.0)
    return Block(part.params, centre, linear, weight, part.eta)
