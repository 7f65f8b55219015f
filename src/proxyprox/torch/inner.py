"""The subproblem on lists of tensors, inner steps on it, and the loop that takes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from proxyprox._util.validation import message, positive, require_takes
from proxyprox.inner.base import NonFiniteError
from proxyprox.torch.checks import probe_proxy
from proxyprox.torch.distributed import full_value
from proxyprox.torch.proxy import Tensors, clear, gradients

if TYPE_CHECKING:
    from proxyprox.torch.optimizer import ProxyProx

# Below it η counts as 0 (the end of a schedule): its inverse would overflow.
SMALLEST_ETA = 1e-30
INNER = "an ImplicitStep, or a function from parameters to a torch.optim.Optimizer"


@dataclass
class Block:
    """Parameters of one group that have a gradient, and their share of the subproblem.

    ``φ(w) = L̂(w) + θ⟨m, w − c⟩ + ‖w − c‖²/(2η)``, with θ in ``weight`` and m in ``correction``.
    Either all of the parameters have an estimate from earlier steps or none has. ``target`` is g_k.
    Coupled decay belongs into g_k; decoupled decay, here times η, is the share of the weights that
    is subtracted after the step.
    """

    params: list[Any]
    target: Tensors
    states: list[dict[str, Any]]
    eta: float
    coupled_decay: float
    decoupled_decay: float
    correction: Tensors = field(default_factory=list)
    centre: Tensors = field(default_factory=list)
    weight: float = 1.0

    @property
    def moves(self) -> bool:
        """Whether η is large enough to move at all."""
        return self.eta > SMALLEST_ETA

    def implicit_step(self, gamma: float) -> None:
        """Move to ``(w/γ + c/η − [∇L̂(w) + m]) / (1/γ + 1/η)``, with ∇L̂(w) in ``.grad``.

        Written as ``w + s/η (c − w) − s [∇L̂(w) + m]``, ``s = 1/(1/γ + 1/η)``: nothing in it grows
        when η goes to 0 or to infinity.
        """
        relative = gamma / self.eta
        step = gamma / (1 + relative)
        if relative > 0:
            torch._foreach_lerp_(self.params, self.centre, relative / (1 + relative))
        torch._foreach_add_(self.params, gradients(self.params), alpha=-step)
        torch._foreach_add_(self.params, self.correction, alpha=-step * self.weight)

    def complete_gradient(self, *, at_centre: bool) -> None:
        """Turn ∇L̂(w) in ``.grad`` into ∇φ(w), in place."""
        found = gradients(self.params)
        torch._foreach_add_(found, self.correction, alpha=self.weight)
        pull = 1 / self.eta
        if pull > 0 and not at_centre:
            # Two scaled additions need no copy of w − c. They round like w itself does in a step
            # that is stable, one with γ/η ≤ 2.
            torch._foreach_add_(found, self.params, alpha=pull)
            torch._foreach_add_(found, self.centre, alpha=-pull)


def copy_tensors(tensors: Tensors) -> list[Any]:
    """Return a copy of every tensor, strides and signs of zero included."""
    return list(torch._foreach_mul(tensors, 1.0))


@dataclass(frozen=True)
class ImplicitStep:
    """``w ← (w/γ + w_k/η − [∇L̂(w) + m]) / (1/γ + 1/η)``: stable for every η.

    The proximal term is taken exactly, so that γ need only suit the proxy, and an annealed η
    (the optimiser's ``lr``) anneals the inner steps with it.

    Parameters
    ----------
    step_size : float or callable
        γ > 0, or a function of the outer step; as a learning rate for the proxy alone.

    Examples
    --------
    >>> ImplicitStep(0.05)
    ImplicitStep(step_size=0.05)
    """

    step_size: float | Callable[[int], float] = 0.01

    def __post_init__(self) -> None:
        """Check γ."""
        if callable(self.step_size):
            require_takes("step_size", self.step_size, ("k",))
        else:
            positive("step_size", self.step_size)


class Stepper:
    """Takes the implicit step on every block; another one overrides it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.gamma = 0.0

    def begin(self, k: int, groups: Iterable[Any]) -> None:
        """Prepare for outer step k on the parameters of some groups."""
        gamma = self.inner.step_size
        self.gamma = positive(f"step_size({k})", gamma(k)) if callable(gamma) else gamma

    def step(self, blocks: Sequence[Block], t: int) -> None:
        """Take inner step t, with ∇L̂(w) (or its estimate) in ``.grad``."""
        for block in blocks:
            block.implicit_step(self.gamma)


class TorchStepper(Stepper):
    """Takes the steps of a torch optimiser on ∇φ, with a learning rate of at most η/2.

    The proximal term's curvature is 1/η: with longer steps it alone would overshoot, and at the end
    of a schedule, where η goes to 0, diverge.
    """

    def begin(self, k: int, groups: Iterable[Any]) -> None:
        """Make a new optimiser: momentum belongs to one subproblem."""
        self.optimizer = made = self.inner([{"params": list(g["params"])} for g in groups])
        if not isinstance(made, torch.optim.Optimizer) or isinstance(made, torch.optim.LBFGS):
            remedy = "LBFGS needs a closure, which inner steps have not."
            raise TypeError(message("inner", made, INNER, remedy))

    def step(self, blocks: Sequence[Block], t: int) -> None:
        """Complete the gradient and step."""
        own = self.optimizer.param_groups
        groups = [group for group in own if group.get("lr") is not None]
        rates = [group["lr"] for group in groups]
        halves = {id(p): block.eta / 2 for block in blocks for p in block.params}
        # Backward passes of FSDP reach parameters that are to stay, too.
        clear([p for group in own for p in group["params"] if id(p) not in halves])
        for block in blocks:
            block.complete_gradient(at_centre=t == 0)
        try:
            for group in groups:
                limits = (halves.get(id(p), math.inf) for p in group["params"])
                group["lr"] = min(group["lr"], *limits)
            self.optimizer.step()
        finally:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate


def as_stepper(inner: Any) -> Stepper:
    """Accept an ImplicitStep, or a factory of torch optimisers."""
    if isinstance(inner, ImplicitStep):
        return Stepper(inner)
    if callable(inner) and inner is not ImplicitStep:
        return TorchStepper(inner)
    remedy = "Write ImplicitStep(0.01), or functools.partial(torch.optim.SGD, lr=0.01)."
    raise TypeError(message("inner", inner, INNER, remedy))


@dataclass(frozen=True)
class OuterStep:
    """Step ``k`` of an optimiser; ``keeps`` says that the estimate of ∇L − ∇L̂ is kept."""

    optimizer: ProxyProx
    k: int
    steps: int
    stepper: Stepper
    keeps: bool
    probe: bool


def solve(blocks: Sequence[Block], outer: OuterStep) -> tuple[float, float]:
    """Take the inner steps; return ‖∇φ‖ where they end and how far they went, NaN if unmeasured.

    The whole proxy's gradient at w_k is in ``.grad``.
    """
    optimizer, params = outer.optimizer, [p for block in blocks for p in block.params]
    proxy: Any = optimizer.proxy
    for t in range(outer.steps):
        if proxy.sampled:
            batch = proxy.sample()
            if t == outer.k == 0 and outer.probe:
                probe_proxy(proxy, batch)
            proxy.partial(batch, params)
            optimizer.ledger.proxy_sampled_gradients += 1
        elif t:
            proxy.full(params)
            optimizer.ledger.proxy_gradients += 1
        outer.stepper.step(blocks, t)
        torch.clear_autocast_cache()
    if not optimizer.measure_residual:
        return math.nan, math.nan
    proxy.full(params)
    optimizer.ledger.proxy_gradients += 1
    return measure(blocks, optimizer.correction_weight)


def measure(blocks: Sequence[Block], weight: float) -> tuple[float, float]:
    """Return ‖∇φ(w)‖ and ‖w − c‖, with ∇L̂(w) in ``.grad``.

    One parameter at a time, in double precision: the temporary is then one layer, not a fourth copy
    of the network, and squares of single-precision numbers neither over- nor underflow.
    """
    residuals, moves = list[Any](), list[Any]()

    def real(x: Any) -> Any:
        return torch.view_as_real(x) if x.is_complex() else x

    for block in blocks:
        for p, c, m in zip(block.params, block.centre, map(real, block.correction), strict=True):
            away = real(p).to(torch.float64, copy=True).sub_(real(c))
            moves.append(torch.sum(away * away))
            away.mul_(1 / block.eta).add_(m, alpha=weight)  # now the gradient of φ
            if p.grad is not None:
                away.add_(real(p.grad))
            residuals.append(torch.sum(away * away))
    residual, moved = (math.sqrt(total(terms)) for terms in (residuals, moves))
    if not (math.isfinite(residual) and math.isfinite(moved)):
        raise NonFiniteError("the proxy's gradient is not finite at a trial point")
    return residual, moved


def total(terms: Sequence[Any]) -> Any:
    """Return the sum of numbers that may lie on several devices or ranks."""
    return full_value(sum(term.to(terms[0].device) for term in terms))
