"""What is refused, and what is looked at in the first step."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from proxyprox._util.validation import (
    as_list,
    flag,
    fraction,
    message,
    nonnegative,
    one_of,
    positive,
    whole,
)
from proxyprox.inner.base import NonFiniteError
from proxyprox.stopping import Criterion
from proxyprox.torch.distributed import full_value, parameters_of, take_rows, tensors_in
from proxyprox.torch.proxy import MODES, Proxy, Tensors, meeting, proxy_passes

# Relative difference above which two evaluations count as different; rounding stays below.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class ProbePolicy:
    """When a proxy, or steps on it, are warned of. No record: judgements.

    Attributes
    ----------
    look_every : int
        Outer steps between two looks at whether proxy steps lower the loss that they step on, and
        at which of several proxies agrees with the target.
    looks : int
        Looks whose mean is judged: steps that overshoot go up and down in turn.
    rise : float
        Mean relative rise of that loss from which on steps are called too long.
    scale : float
        Length of the proxy's gradient over the target's from which on units are called different.
    """

    look_every: int = 25
    looks: int = 4
    rise: float = 0.25
    scale: float = 30.0


PROBE = ProbePolicy()


class RandomProxyWarning(UserWarning):
    """The proxy's loss differs between two evaluations at the same point."""


class BatchStatisticsWarning(UserWarning):
    """BatchNorm in the proxy's passes sees what it must not: see the message."""


class ProxyScaleWarning(UserWarning):
    """The proxy's gradient is far larger than the target's."""


def check_settings(optimizer: Any) -> None:
    """Check everything that belongs to no parameter group."""
    correction = optimizer.correction
    if isinstance(correction, type) or getattr(correction, "two_points", True):
        allowed = "a correction of one point, such as Plain(), EMA(0.1) or Mean()"
        raise TypeError(message("correction", correction, allowed))
    weight = optimizer.correction_weight
    if not (isinstance(weight, (int, float)) and weight == 0):
        remedy = "1 is the method of the paper; less leans towards the proxy."
        fraction("correction_weight", weight, remedy)


def check_model(optimizer: Any) -> None:
    """Check the network and the mode of its proxy passes."""
    model, mode = optimizer.model, one_of("proxy_mode", optimizer.proxy_mode, MODES)
    if model is not None:
        own = {id(p) for p in model.parameters()} if isinstance(model, torch.nn.Module) else ()
        if not any(id(p) in own for p in parameters_of(optimizer)):
            allowed = "the torch.nn.Module that has the optimiser's parameters, or None"
            raise ValueError(message("model", model, allowed))
    if mode in ("eval", "no_dropout") and model is None:
        remedy = "Pass model=..., the network whose modules are to be switched."
        raise ValueError(message("proxy_mode", mode, '"frozen" without a model', remedy))


def listed_params(params: Any) -> list[Any]:
    """Return the tensors or groups that an optimiser is given."""
    allowed = "an iterable of tensors or of groups, not empty"
    if isinstance(params, torch.Tensor):
        raise TypeError(message("params", params, allowed, "Put one tensor into a list."))
    if not (listed := as_list("params", params, allowed)):
        raise ValueError(message("params", params, allowed))
    return listed


def check_lr(lr: Any, remedy: str = "", *, allow_inf: bool = False) -> float:
    """Return a learning rate, a number or a tensor of one; 0 where a schedule starts or ends."""
    if isinstance(lr, torch.Tensor):
        if lr.numel() != 1:
            got = f"a tensor of shape {tuple(lr.shape)}"
            raise ValueError(message("Tensor lr", got, "1-element", "Use groups for several."))
        lr = float(lr)
    zero = isinstance(lr, (int, float)) and lr == 0
    return 0.0 if zero else positive("lr", lr, remedy, allow_inf=allow_inf)


def check_group(options: Mapping[str, Any]) -> None:
    """Check the options of a parameter group, or the defaults of all."""
    remedy = "lr is the step size η; theory allows up to 1/(4δ), and 0 stops a group."
    lr = check_lr(options["lr"], remedy, allow_inf=True)
    decay = nonnegative("weight_decay", options["weight_decay"])
    decoupled = options["decoupled_weight_decay"]
    if flag("decoupled_weight_decay", decoupled) and decay and lr * decay >= 1:
        allowed = "of a product below 1, as η λ w_k is subtracted from the weights"
        remedy = "Here lr is η, often far larger than AdamW's: use a smaller weight_decay or lr."
        raise ValueError(message("lr and decoupled weight_decay", (lr, decay), allowed, remedy))


def number_of_steps(stop: Any, k: int) -> int:
    """Return the number of inner steps of outer step k, from a number or a function of k."""
    name = "stop"
    if callable(stop) and not isinstance(stop, (Criterion, type)):
        stop, name = stop(k), f"stop({k})"
    return whole(name, stop, remedy="A function of k that returns one is allowed too.")


def preserve_random_state() -> Any:
    """Return a context manager that puts the random state back, on every device in use."""
    # Asking an uninitialised CUDA for its state would initialise it.
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    return torch.random.fork_rng(devices=list(devices))


def probe_proxy(proxy: Proxy, batch: Any = None) -> None:
    """Warn if the proxy's loss on one batch (or on everything) is random; refuse NaN.

    The random state is put back, so that a probed run is the same run.
    """
    with preserve_random_state():
        first, second = float(proxy.loss(batch)), float(proxy.loss(batch))
    check_loss(first)
    check_loss(second)
    if abs(first - second) <= TOLERANCE * max(abs(first), abs(second)):
        return
    function = "A function that draws a minibatch is not a proxy: pass Proxy(loader, loss). "
    warn(
        f"the proxy's loss differs between two evaluations at the same point ({first:.6g} and "
        f"{second:.6g}), by noise that the correction cannot cancel. "
        f"{function if batch is None else ''}Dropout or augmentation is the usual cause: pass "
        'model=... with proxy_mode="no_dropout", or probe=False if it is meant.',
        RandomProxyWarning,
    )


def is_sum(proxy: Any, batch: Any) -> bool:
    """Tell whether a batch's loss is rather the sum than the mean of its halves' losses."""
    lengths = {len(part) for part in tensors_in(batch) if part.ndim}
    if not isinstance(proxy, Proxy) or len(lengths) != 1 or min(lengths) < 4:
        return False
    length, half = max(lengths), max(lengths) // 2
    parts = [batch, *(take_rows(batch, s, length) for s in (slice(half), slice(half, None)))]
    # A loss that refuses a part of its batch is not judged.
    with preserve_random_state(), suppress(Exception):
        whole, *halves = (float(proxy.loss(part)) for part in parts)
        return abs(whole) > 0.75 * abs(sum(halves))
    return False


def compare_lengths(ours: float, theirs: float) -> None:
    """Warn if the proxy's gradient is far longer than the target's, as that of a sum is."""
    if theirs > 0 and math.isfinite(ours) and ours > PROBE.scale * theirs:
        warn(
            f"the proxy's gradient is {ours / theirs:.3g} times as long as the target's at the "
            "first step. Is its loss a sum over the batch and the target's a mean? Steps that suit "
            "one do not suit the other. If it is meant, probe=False.",
            ProxyScaleWarning,
        )


def check_dense(params: Tensors, loss: str = "target") -> None:
    """Refuse sparse gradients."""
    if any(p.grad is not None and p.grad.is_sparse for p in params):
        raise RuntimeError(
            f"gradients of the {loss} must be dense, got sparse ones: target and proxy touch other "
            "rows. Use nn.Embedding(..., sparse=False), or another optimiser for those weights."
        )


@contextmanager
def watch_statistics() -> Iterator[None]:
    """Warn if BatchNorm of a network that the optimiser does not know follows the proxy's data."""
    seen: list[Any] = []

    def before_forward(module: Any, inputs: Any) -> None:
        if isinstance(module, _BatchNorm) and module.training and module.track_running_stats:
            seen.append(module)

    with torch.nn.modules.module.register_module_forward_pre_hook(before_forward):
        yield
    if seen:
        warn(
            "BatchNorm's running statistics follow the proxy's data in every inner step, and "
            "evaluations use them. Pass model=..., the network, so that they see the target's "
            'batches only; with proxy_mode="train" if it is meant.',
            BatchStatisticsWarning,
        )


def check_full_batches(proxy: Proxy, model: Any | None) -> None:
    """Warn if full passes and inner steps normalise by batches of different kinds."""
    modules = [] if model is None else model.modules()
    normalises = any(isinstance(module, _BatchNorm) and module.training for module in modules)
    if normalises and getattr(proxy, "mixed", False):
        warn(
            "BatchNorm normalises by the batch, and the proxy's full passes use other batches "
            "than its inner steps: they differentiate two functions, and long runs diverge. Leave "
            "out full=, so that both draw batches alike.",
            BatchStatisticsWarning,
        )


@contextmanager
def watched_passes(optimizer: Any, params: Tensors, k: int, probe: bool) -> Iterator[None]:
    """Prepare for the proxy passes of outer step k; watch the first, if they are to be probed."""
    watch = watch_statistics() if probe and k == 0 and optimizer.model is None else nullcontext()
    with proxy_passes(optimizer, optimizer.proxy, params, k), watch:
        yield


def check_end(proxy: Any, params: Tensors, target: Tensors, k: int, steps: int) -> None:
    """Refuse weights that are not finite after an outer step, and ranks that differ."""
    check_weights(params, target, k)
    for one in meeting(proxy):
        one.ranks.check_agreement(params, k, steps)


def check_weights(params: Tensors, target: Tensors, k: int) -> None:
    """Refuse weights that are not finite after a step; this waits for the device."""
    # Squares of large finite weights may overflow, so an infinite length is only a hint.
    if math.isfinite(length(params)) or are_finite(params):
        return
    source = "the proxy's" if are_finite(target) else "the target's (.grad)"
    raise NonFiniteError(
        f"the weights must be finite after outer step {k}, got NaN or inf: a gradient of "
        f"{source} was not finite, or the inner steps diverged. The parameters are those before "
        "the step. Look at that loss's data, or use smaller inner steps."
    )


def check_loss(value: Any) -> None:
    """Refuse a loss that is NaN or infinite; this waits for the device."""
    number = float(value)
    if not math.isfinite(number):
        remedy = "Look at the proxy's data and loss; the parameters were not changed."
        raise NonFiniteError(message("the proxy's loss", number, "finite", remedy))


def check_dependence(params: Tensors) -> None:
    """Refuse a proxy whose backward pass has reached none of the parameters, or sparsely."""
    check_dense(params, "proxy")
    if all(p.grad is None for p in params):
        raise ValueError(
            "the proxy's loss must depend on the optimiser's parameters, got one that depends on "
            f"none of the {len(params)} tensors. Evaluate the network that is being trained."
        )


def are_finite(tensors: Tensors) -> bool:
    """Tell whether all entries are finite; this waits for the device."""
    return all(not bool(full_value((~t.isfinite()).sum())) for t in tensors)


def length(tensors: Tensors) -> float:
    """Return the norm of all entries together; this waits for the device."""
    return float(total_norm(tensors))


def total_norm(tensors: Tensors) -> Any:
    """Return the norm of all entries together, in double precision, on all ranks."""
    norms = [size.double() for size in torch._foreach_norm(list(tensors))]
    return full_value(torch.stack([size.to(norms[0].device) for size in norms]).norm())


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line that called into the optimiser, past this package's and torch's own."""
    inside, level, frame = ("proxyprox", "torch", "contextlib"), 2, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in inside:
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
