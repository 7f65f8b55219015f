"""The subproblem on lists of tensors, inner steps on it, and the loop that takes them."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from proxyprox._util.arrays import LEAST_SQUARE, norm
from proxyprox._util.validation import message, positive
from proxyprox.inner.base import NonFiniteError
from proxyprox.result import StepRecord
from proxyprox.stopping import Criterion, Progress, Steps
from proxyprox.torch.checks import PARENTHESES, check_dependence, probe_proxy
from proxyprox.torch.proxy import Tensors, gradients

if TYPE_CHECKING:
    from proxyprox.torch.optimizer import ProxyProx

# Below it η counts as 0 (the end of a schedule): its inverse would overflow.
SMALLEST_ETA = 1e-30
# Parts in which networks are exchanged: few calls, and no third copy of the whole.
SWAPS = 8
INNER = "an ImplicitStep, or a function from parameters to a torch.optim.Optimizer"


@dataclass
class Block:
    """Parameters of one group that have a gradient, and their share of the subproblem.

    ``φ(w) = L̂(w) + weight·⟨linear, w − c⟩ + ‖w − c‖²/(2η)``. Either all of the parameters have an
    estimate from earlier steps or none has. ``target`` is g_k; where a fourth copy of the
    parameters would be needed otherwise, it becomes ``x·m + y·∇L̂(w_k)`` with ``shares = (x, y)``,
    and the memory of g_k is free. Coupled decay belongs into g_k; decoupled decay, here times η,
    is the share of the weights that is subtracted after the step.
    """

    params: list[Any]
    target: Tensors
    states: list[dict[str, Any]]
    eta: float
    coupled_decay: float
    decoupled_decay: float
    before: list[Any] | None = None
    shares: tuple[float, float] = (0.0, 0.0)
    correction: Tensors = field(default_factory=list)
    centre: Tensors = field(default_factory=list)
    linear: Tensors = field(default_factory=list)
    weight: float = 1.0

    @property
    def moves(self) -> bool:
        """Whether η is large enough to move at all."""
        return self.eta > SMALLEST_ETA

    @property
    def pull(self) -> float:
        """1/η."""
        return 1 / self.eta

    def read_state(self, name: str) -> list[Any] | None:
        """Return what the state holds under a name, if it does."""
        return [state[name] for state in self.states] if name in self.states[0] else None

    def write_state(self, name: str, values: Tensors) -> None:
        """Put tensors into the state."""
        for state, value in zip(self.states, values, strict=True):
            state[name] = value

    def implicit_step(self, gamma: float) -> None:
        """Move to ``(w/γ + c/η − [∇L̂(w) + m]) / (1/γ + 1/η)``, with ∇L̂(w) in ``.grad``.

        Written as ``w + s/η (c − w) − s [∇L̂(w) + m]``, ``s = 1/(1/γ + 1/η)``: nothing in it grows
        when η goes to 0 or to infinity.
        """
        relative = gamma * self.pull
        step = gamma / (1 + relative)
        if relative > 0:
            torch._foreach_lerp_(self.params, self.centre, relative / (1 + relative))
        torch._foreach_add_(self.params, gradients(self.params), alpha=-step)
        torch._foreach_add_(self.params, self.linear, alpha=-step * self.weight)

    def complete_gradient(self, *, at_centre: bool) -> None:
        """Turn ∇L̂(w) in ``.grad`` into ∇φ(w), in place."""
        found = gradients(self.params)
        torch._foreach_add_(found, self.linear, alpha=self.weight)
        if self.pull > 0 and not at_centre:
            # Two scaled additions need no copy of w − c. They round like w itself does in a step
            # that is stable, one with γ/η ≤ 2.
            torch._foreach_add_(found, self.params, alpha=self.pull)
            torch._foreach_add_(found, self.centre, alpha=-self.pull)


def copy_tensors(tensors: Tensors) -> list[Any]:
    """Return a copy of every tensor, strides and signs of zero included."""
    return list(torch._foreach_mul(tensors, 1.0))


def swap(first: Tensors, second: Tensors) -> None:
    """Exchange the contents of two lists of tensors, with a copy of a few of them at a time."""
    size = -(-len(first) // SWAPS)
    for at in range(0, len(first), size):
        one, other = first[at : at + size], second[at : at + size]
        kept = copy_tensors(one)
        torch._foreach_copy_(one, other)
        torch._foreach_copy_(other, kept)
        del kept  # before the next ones are copied
    # A step may be inside autocast, whose low-precision copies of the weights live until it ends.
    torch.clear_autocast_cache()


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
        if not callable(self.step_size):
            positive("step_size", self.step_size)


class Stepper:
    """Takes the implicit step on every block; other steppers override it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = describe(inner)
        self.gamma = 0.0

    def begin(self, k: int) -> None:
        """Prepare for outer step k."""
        gamma = self.inner.step_size
        self.gamma = positive(f"step_size({k})", gamma(k)) if callable(gamma) else gamma

    def step(self, blocks: Sequence[Block], t: int) -> None:
        """Take inner step t, with ∇L̂(w) (or its estimate) in ``.grad``."""
        for block in blocks:
            block.implicit_step(self.gamma)

    def add_params(self, params: Sequence[Any]) -> None:
        """Include a new parameter group."""

    def state_dict(self) -> dict[str, Any]:
        """Return what is kept from one outer step to the next."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""


class TorchStepper(Stepper):
    """Takes the steps of a torch optimiser on ∇φ, with a learning rate of at most η/2.

    The proximal term's curvature is 1/η: with longer steps it alone would overshoot, and at the end
    of a schedule, where η goes to 0, diverge.
    """

    def __init__(
        self, factory: Callable[..., Any], groups: Iterable[Sequence[Any]], *, fresh: bool
    ) -> None:
        self.optimizer = factory([{"params": list(params)} for params in groups])
        made, needs_closure = self.optimizer, isinstance(self.optimizer, torch.optim.LBFGS)
        if needs_closure or not isinstance(made, torch.optim.Optimizer):
            remedy = "LBFGS needs a closure: use SGD or Adam." if needs_closure else ""
            raise TypeError(message("inner", made, INNER, remedy))
        self.factory, self.fresh = factory, fresh
        # Some optimisers (Adagrad before torch 2.13) make their state here and nowhere else.
        self.initial = copy_state(self.optimizer.state)
        self.name = describe(factory, type(self.optimizer).__name__)
        self.limits: list[float] = []

    def begin(self, k: int) -> None:
        """Return to the state of a new optimiser, unless momentum is kept."""
        if self.fresh:
            self.optimizer.state.clear()
            self.optimizer.state.update(copy_state(self.initial))

    def step(self, blocks: Sequence[Block], t: int) -> None:
        """Complete the gradient and step."""
        groups = [g for g in self.optimizer.param_groups if g.get("lr") is not None]
        rates = [group["lr"] for group in groups]
        if t == 0:
            pulls = {id(p): block.pull for block in blocks for p in block.params}
            most = [max((pulls.get(id(p), 0.0) for p in g["params"]), default=0.0) for g in groups]
            self.limits = [1 / (2 * pull) if pull else math.inf for pull in most]
        for block in blocks:
            block.complete_gradient(at_centre=t == 0)
        try:
            for group, rate, limit in zip(groups, rates, self.limits, strict=True):
                group["lr"] = min(rate, limit)
            self.optimizer.step()
        finally:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate

    def add_params(self, params: Sequence[Any]) -> None:
        """Give the inner optimiser a new group too."""
        self.optimizer.add_param_group({"params": list(params)})
        if self.initial:  # add_param_group makes no state; a new optimiser does
            made = self.factory([{"params": list(params)}]).state
            self.initial.update(copy_state(made))
            self.optimizer.state.update(copy_state(made))

    def state_dict(self) -> dict[str, Any]:
        """Return the inner optimiser's state, unless every subproblem starts without."""
        return {} if self.fresh else dict(self.optimizer.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the inner optimiser."""
        if state:
            self.optimizer.load_state_dict(dict(state))


def copy_state(state: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a copy of an optimiser's state; the parameters that are its keys stay the same."""
    return {p: copy.deepcopy(of_p) for p, of_p in state.items()}


def describe(setting: Any, otherwise: str = "a function") -> str:
    """Return a setting as text that is the same in every process."""
    text = repr(setting)
    if " at 0x" not in text:
        return text
    # A function, or an object that holds one: its name and address say nothing.
    return otherwise if inspect.isroutine(setting) else f"{type(setting).__name__} of {otherwise}"


def as_stepper(inner: Any, groups: Iterable[Sequence[Any]], *, fresh: bool) -> Stepper:
    """Accept an ImplicitStep, or a factory of torch optimisers."""
    if isinstance(inner, ImplicitStep):
        return Stepper(inner)
    if inner is ImplicitStep:
        remedy = PARENTHESES
    elif isinstance(inner, torch.optim.Optimizer):
        remedy = "Pass functools.partial(torch.optim.SGD, lr=0.01), not the optimiser itself."
    elif callable(inner):
        return TorchStepper(inner, groups, fresh=fresh)
    else:
        remedy = f"Write ImplicitStep({inner})." if isinstance(inner, (int, float)) else ""
    raise TypeError(message("inner", inner, INNER, remedy))


@dataclass(frozen=True)
class OuterStep:
    """Step ``k`` of an optimiser; ``keeps`` says that the estimate of ∇L − ∇L̂ is kept."""

    optimizer: ProxyProx
    k: int
    rule: Criterion
    stepper: Stepper
    keeps: bool
    probe: bool

    @property
    def paired(self) -> bool:
        """Whether every minibatch is evaluated at w_k too."""
        return self.optimizer.anchor == "paired"

    @property
    def full(self) -> bool:
        """Whether ∇L̂(w_k) is needed as a whole."""
        measured = self.optimizer.measure_residual or not isinstance(self.rule, Steps)
        return self.optimizer.proxy is not None and (not self.paired or self.keeps or measured)


@dataclass
class InnerSolve:
    """The minimisation of one subproblem.

    ``anchor_value`` is L̂(w_k) if the full gradient at w_k is in ``.grad`` already; ``all_move``
    says that no block stays where it is.
    """

    blocks: Sequence[Block]
    outer: OuterStep
    anchor_value: Any | None
    all_move: bool

    def __post_init__(self) -> None:
        """Note where the solve starts."""
        self.optimizer = self.outer.optimizer
        self.proxy: Any = self.optimizer.proxy
        self.params = [p for block in self.blocks for p in block.params]
        self.value: Any = self.anchor_value
        self.full_gradient_at = -1 if self.anchor_value is None else 0
        self.start_residual: float | None = None

    def run(self) -> tuple[int, Progress | None]:
        """Solve; return the number of steps and, where it was measured, the end's progress."""
        optimizer, rule = self.optimizer, self.outer.rule
        fixed = rule.steps if isinstance(rule, Steps) else None
        seen: Progress | None = None
        t = 0
        while t < (optimizer.max_inner_steps if fixed is None else fixed):
            if fixed is None and t % optimizer.check_every == 0:
                seen = self.measure(t)
                if rule(seen):
                    return t, seen
            self.compute_gradient(t)
            self.outer.stepper.step(self.blocks, t)
            torch.clear_autocast_cache()
            t += 1
        if optimizer.measure_residual or fixed is None:
            seen = self.measure(t)
        return t, seen

    def compute_gradient(self, t: int) -> None:
        """Put the gradient for inner step t into ``.grad``."""
        outer, proxy, ledger = self.outer, self.proxy, self.optimizer.ledger
        if not proxy.sampled:
            self.compute_full_gradient(t)
            self.full_gradient_at = -1  # the step may overwrite it
            return
        batch = proxy.sample()
        if t == outer.k == 0 and outer.probe:
            probe_proxy(proxy, batch)
        self.full_gradient_at = -1
        proxy.partial(batch, self.params)
        if t == outer.k == 0 and self.all_move and not outer.full:
            check_dependence(self.params)
        ledger.proxy_sampled_gradients += 1
        if outer.paired:
            centre = [c for block in self.blocks for c in block.centre]
            swap(self.params, centre)
            try:
                weight = 1.0 if outer.full else self.optimizer.correction_weight
                proxy.subtract(batch, self.params, weight)
            finally:
                swap(self.params, centre)
            ledger.proxy_sampled_gradients += 1

    def compute_full_gradient(self, t: int) -> None:
        """Put ∇L̂(w) into ``.grad`` unless it is there."""
        if self.full_gradient_at != t:
            self.value = self.proxy.full(self.params)
            self.optimizer.ledger.proxy_gradients += 1
            self.full_gradient_at = t

    def measure(self, t: int) -> Progress:
        """Measure ‖∇φ(w)‖ with the whole proxy."""
        self.compute_full_gradient(t)
        weight = self.optimizer.correction_weight
        residuals, moves, slopes = measure_blocks(self.blocks, weight)
        squares = float(total(residuals)), float(sum(map(total, moves)))
        residual, moved = (math.sqrt(square) for square in squares)
        # Squares in single precision may have under- or overflowed; at the centre w − c is 0.
        in_range = [LEAST_SQUARE <= square < math.inf for square in squares]
        if not (in_range[0] and (in_range[1] or t == 0)):
            norms, lengths, _ = measure_blocks(self.blocks, weight, exact=True)
            residual, moved = math.hypot(*norms), math.hypot(*itertools.chain(*lengths))
        if not (math.isfinite(residual) and math.isfinite(moved)):
            raise NonFiniteError("the proxy's gradient is not finite at a trial point")

        def decrease() -> float:
            if self.anchor_value is None:
                return math.nan
            pairs = zip(self.blocks, moves, strict=True)
            quadratic = sum(block.pull / 2 * float(total(move)) for block, move in pairs)
            drop = float(self.anchor_value) - float(self.value)
            return drop - weight * float(total(slopes)) - quadratic

        if self.start_residual is None:
            self.start_residual = residual
        return Progress(
            steps=t,
            residual=residual,
            displacement=moved,
            # Several step sizes: the largest makes every rule stricter, never laxer.
            eta=max(block.eta for block in self.blocks),
            start_residual=self.start_residual,
            decrease=decrease,
        )


def measure_blocks(
    blocks: Sequence[Block], weight: float, *, exact: bool = False
) -> tuple[list[Any], list[list[Any]], list[Any]]:
    """Return ‖∇φ(w)‖² by parameter, ‖w − c‖² by block and parameter, ⟨m, w − c⟩ by parameter.

    If ``exact``, norms instead of squares, right for all finite numbers. One parameter at a time:
    the temporary is then one layer, not a fourth copy of the network.
    """
    residuals: list[Any] = []
    moves: list[list[Any]] = []
    slopes: list[Any] = []

    def size(x: Any) -> Any:
        return norm(x.reshape(-1)) if exact else dot(x, x)

    for block in blocks:
        moves.append([])
        for p, c, m in zip(block.params, block.centre, block.correction, strict=True):
            away = as_real(p, exact) - as_real(c, exact)
            slopes.append(dot(as_real(m, exact), away))
            moves[-1].append(size(away))
            gradient = away.mul_(block.pull).add_(as_real(m, exact), alpha=weight)
            if p.grad is not None:
                gradient.add_(as_real(p.grad, exact))
            residuals.append(size(gradient))
    return residuals, moves, slopes


def as_real(x: Any, double: bool) -> Any:
    """Return a complex tensor as pairs of real numbers, in double precision on request."""
    x = torch.view_as_real(x) if x.is_complex() else x
    return x.double() if double else x


def dot(x: Any, y: Any) -> Any:
    """Return ⟨x, y⟩ in double precision; products of half-precision numbers would overflow."""
    if x.dtype not in (torch.float32, torch.float64):
        x, y = x.float(), y.float()
    return torch.sum(x * y, dtype=torch.float64)


def total(terms: Iterable[Any]) -> Any:
    """Return the sum of numbers that may lie on several devices, without waiting for any."""
    terms = list(terms)
    return sum(term.to(terms[0].device) for term in terms)


def step_record(eta: float, steps: int, seen: Progress | None, outer: OuterStep) -> StepRecord:
    """Return an outer step's numbers; NaN and None where nothing was measured."""
    bound = None if seen is None else outer.rule.threshold(seen)
    ledger = outer.optimizer.ledger
    return StepRecord(
        k=outer.k,
        eta=eta,
        residual=math.nan if seen is None else seen.residual,
        threshold=math.nan if bound is None else bound,
        held=None if seen is None else outer.rule.holds(seen),
        inner_steps=steps,
        displacement=math.nan if seen is None else seen.displacement,
        target_gradients=ledger.target_gradients,
        proxy_gradients=ledger.proxy_gradients,
        seconds=ledger.seconds,
    )
