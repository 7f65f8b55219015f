"""What the optimiser accepts; every refusal names the argument, the value and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch

from proxyprox._checks import Words, fraction, instance, message, nonnegative, positive, whole
from proxyprox.stopping import Criterion, Steps
from proxyprox.torch._modes import MODES
from proxyprox.torch._proxy import Oracle

ANCHORS = ("full", "paired")


def settings(
    correction: Any,
    correction_weight: Any,
    anchor: Any,
    oracle: Oracle | None,
    model: Any,
    proxy_mode: Any,
    max_inner_steps: Any,
    check_every: Any,
) -> None:
    """Check everything that belongs to no parameter group."""
    if isinstance(correction, type) or not (
        callable(correction) and hasattr(correction, "two_points")
    ):
        remedy = "Add parentheses to make an instance." if isinstance(correction, type) else ""
        allowed = "a correction such as Plain(), EMA(0.1), Storm(0.1) or Mean()"
        raise TypeError(message("correction", correction, allowed, remedy))
    if correction_weight != 0:
        remedy = "1 is the method of the paper; less leans towards the proxy."
        fraction("correction_weight", correction_weight, remedy)
    if anchor not in ANCHORS:
        raise ValueError(message("anchor", anchor, 'one of "full", "paired"'))
    if anchor == "paired" and (oracle is None or not oracle.sampled):
        remedy = 'Use Proxy(loader, loss), or anchor="full".'
        raise ValueError(message("anchor", anchor, '"full" for a proxy without batches', remedy))
    if model is not None:
        instance("model", model, torch.nn.Module, "a torch.nn.Module or None")
    if proxy_mode not in MODES:
        allowed = "one of " + ", ".join(f'"{name}" ({what})' for name, what in MODES.items())
        raise ValueError(message("proxy_mode", proxy_mode, allowed))
    if proxy_mode in ("eval", "no_dropout") and model is None:
        remedy = "Pass model=..., the network whose modules are to be switched."
        raise ValueError(message("proxy_mode", proxy_mode, '"frozen" without a model', remedy))
    whole("max_inner_steps", max_inner_steps)
    whole("check_every", check_every)


def group(options: Mapping[str, Any], oracle: Oracle | None) -> None:
    """Check the options of a parameter group, or the defaults of all."""
    if "lr" in options:
        lr = options["lr"]
        if isinstance(lr, torch.Tensor):
            if lr.numel() != 1:
                got = f"a tensor of shape {tuple(lr.shape)}"
                raise ValueError(message("Tensor lr", got, "1-element", "Use groups for several."))
            lr = float(lr)
        remedy = "lr is the step size η; the theory allows up to 1/(4δ)."
        if isinstance(lr, Real) and lr < 0:
            raise ValueError(message("lr", lr, "0 or a positive number", remedy))
        if lr != 0:  # a schedule may start or end there
            positive("lr", lr, remedy, allow_inf=oracle is not None)
    if "weight_decay" in options:
        nonnegative("weight_decay", options["weight_decay"])
    flag = options.get("decoupled_weight_decay", False)
    instance("decoupled_weight_decay", flag, bool, "True or False")
    decay = options.get("weight_decay", 0.0)
    if flag and decay and float(options.get("lr", 0.0)) == float("inf"):
        remedy = "Use coupled weight decay, or a finite lr."
        allowed = "finite where weight decay is decoupled, as η λ w_k is subtracted"
        raise ValueError(message("lr", options["lr"], allowed, remedy))
    if flag and decay * float(options.get("lr", 0.0)) >= 1:
        got = Words(f"lr={float(options['lr']):g} and weight_decay={float(decay):g}")
        remedy = "Here lr is η, often far larger than AdamW's: use a smaller weight_decay."
        allowed = "of a product below 1, as η λ w_k is subtracted from the weights"
        raise ValueError(message("lr and decoupled weight_decay", got, allowed, remedy))


def owner(model: Any | None, groups: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a model that has none of the parameters."""
    if model is None:
        return
    own = {id(p) for p in model.parameters()}
    if not any(id(p) in own for options in groups for p in options["params"]):
        got = Words(f"a {type(model).__name__} with none of the optimiser's parameters")
        allowed = "the network that is trained"
        raise ValueError(message("model", got, allowed, "Pass the one whose parameters these are."))


def parameters(params: Sequence[Any]) -> None:
    """Refuse parameters that are not dense and floating-point, real or complex."""
    for p in params:
        if not (p.is_floating_point() or p.is_complex()) or p.layout != torch.strided:
            got = f"one of dtype {p.dtype} and layout {p.layout}"
            raise TypeError(message("params", got, "dense tensors of a floating-point dtype"))


def rule(stop: Any, k: int) -> Criterion:
    """Return the stopping rule of outer step k from a number, a rule, or a function of k."""
    if callable(stop) and not isinstance(stop, (Criterion, type)):
        stop, name = stop(k), f"stop({k})"
    else:
        name = "stop"
    if isinstance(stop, Criterion):
        return stop
    allowed = "a number of inner steps, a Criterion such as Steps(20), or a function of the step"
    if isinstance(stop, type):
        raise TypeError(message(name, stop, allowed, "Add parentheses to make an instance."))
    if isinstance(stop, bool) or not isinstance(stop, int):
        raise TypeError(message(name, stop, allowed))
    return Steps(whole(name, stop))
