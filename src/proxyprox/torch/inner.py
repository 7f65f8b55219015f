"""Inner steps: plain, implicit, or a torch optimiser's."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from proxyprox._util.arrays import LEAST_SQUARE, norm
from proxyprox._util.validation import message, positive
from proxyprox.result import Ledger, StepRecord
from proxyprox.stopping import Criterion, Progress, Steps
from proxyprox.subproblem import NonFiniteError
from proxyprox.torch.checks import depends, probe
from proxyprox.torch.corrections import Tensors
from proxyprox.torch.parameters import Block, forget_casts, swap
from proxyprox.torch.proxy import Oracle

StepSize = float | Callable[[int], float]
"""A number, or a function of the outer step k = 0, 1, …"""


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

    step_size: StepSize = 0.01

    def __post_init__(self) -> None:
        """Check γ."""
        if not callable(self.step_size):
            positive("step_size", self.step_size)


class Stepper(Protocol):
    """An inner step in use."""

    name: str
    """The settings as text, to recognise them in a saved state."""

    def begin(self, k: int) -> None:
        """Prepare for outer step k."""

    def step(self, blocks: Sequence[Block], t: int) -> None:
        """Take inner step t, with ∇L̂(w) (or its estimate) in ``.grad``."""

    def add_params(self, params: Sequence[Any]) -> None:
        """Take a new parameter group in."""

    def state_dict(self) -> dict[str, Any]:
        """Return what is kept from one outer step to the next."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""


class ImplicitStepper:
    """Takes the implicit step on every block."""

    def __init__(self, inner: ImplicitStep) -> None:
        self.inner = inner
        self.name = described(inner)
        self.gamma = 0.0

    def begin(self, k: int) -> None:
        """Look the step size up."""
        gamma = self.inner.step_size
        self.gamma = positive(f"step_size({k})", gamma(k)) if callable(gamma) else gamma

    def step(self, blocks: Sequence[Block], t: int) -> None:
        """Step."""
        for block in blocks:
            block.implicit_step(self.gamma)

    def add_params(self, params: Sequence[Any]) -> None:
        """Do nothing: the blocks carry the parameters."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Do nothing."""


class TorchStepper:
    """Takes the steps of a torch optimiser on ∇φ, with a learning rate of at most η/2.

    The proximal term's curvature is 1/η: with longer steps it alone would overshoot, and at the end
    of a schedule, where η goes to 0, run away.

    Parameters
    ----------
    factory : callable
        Makes the optimiser from parameter groups.
    groups : iterable of lists
        Parameters of each group.
    fresh : bool
        Forget momentum and the like at the start of every subproblem.
    """

    def __init__(
        self, factory: Callable[..., Any], groups: Iterable[Sequence[Any]], *, fresh: bool
    ) -> None:
        self.optimizer = factory([{"params": list(params)} for params in groups])
        if not isinstance(self.optimizer, torch.optim.Optimizer):
            allowed = "an ImplicitStep, or a function from parameters to a torch.optim.Optimizer"
            raise TypeError(message("inner", self.optimizer, allowed))
        if isinstance(self.optimizer, torch.optim.LBFGS):
            raise TypeError(
                message("inner", factory, "an optimiser that needs no closure", "Use SGD or Adam.")
            )
        self.fresh = fresh
        # Some optimisers (Adagrad before torch 2.13) make their state here and nowhere else.
        self._initial = _copied(self.optimizer.state)
        self._factory = factory
        self.name = described(factory, type(self.optimizer).__name__)
        self._pulls: list[float] = []

    def begin(self, k: int) -> None:
        """Go back to the state of a new optimiser, if that is wanted."""
        if self.fresh:
            self.optimizer.state.clear()
            self.optimizer.state.update(_copied(self._initial))

    def step(self, blocks: Sequence[Block], t: int) -> None:
        """Complete the gradient, step."""
        if t == 0:
            self._pulls = self._pull_of_groups(blocks)
        for block in blocks:
            block.complete_gradient(at_centre=t == 0)
        rates = [group.get("lr") for group in self.optimizer.param_groups]
        try:
            self._set_rates(
                rate if rate is None or 2 * rate * pull <= 1 else 1 / (2 * pull)
                for rate, pull in zip(rates, self._pulls, strict=True)
            )
            self.optimizer.step()
        finally:
            self._set_rates(rates)

    def _set_rates(self, rates: Iterable[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate

    def _pull_of_groups(self, blocks: Sequence[Block]) -> list[float]:
        """Return 1/η of each of the optimiser's groups; the largest where one has several."""
        pulls = {id(p): block.pull for block in blocks for p in block.params}
        return [
            max((pulls.get(id(p), 0.0) for p in group["params"]), default=0.0)
            for group in self.optimizer.param_groups
        ]

    def add_params(self, params: Sequence[Any]) -> None:
        """Give the inner optimiser a new group too."""
        self.optimizer.add_param_group({"params": list(params)})
        if self._initial:  # add_param_group makes no state; a new optimiser does
            made = _copied(self._factory([{"params": list(params)}]).state)
            self._initial.update(made)
            for p, state in _copied(made).items():
                self.optimizer.state.setdefault(p, state)

    def state_dict(self) -> dict[str, Any]:
        """Return the inner optimiser's state, unless every subproblem starts without."""
        return {} if self.fresh else dict(self.optimizer.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the inner optimiser."""
        if state:
            self.optimizer.load_state_dict(dict(state))


def _copied(state: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a copy of an optimiser's state; the parameters that are its keys stay the same."""
    return {p: copy.deepcopy(of_p) for p, of_p in state.items()}


def described(setting: Any, otherwise: str = "a function") -> str:
    """Return a setting as text that is the same in every process."""
    text = repr(setting)
    if " at 0x" not in text:
        return text
    # A function, or has one in it: its name and address tell nothing.
    return otherwise if inspect.isroutine(setting) else f"{type(setting).__name__} of {otherwise}"


def as_stepper(inner: Any, groups: Iterable[Sequence[Any]], *, fresh: bool) -> Stepper:
    """Accept an ImplicitStep, or a factory of torch optimisers."""
    if isinstance(inner, ImplicitStep):
        return ImplicitStepper(inner)
    if inner is ImplicitStep:
        remedy = "Add parentheses to make an instance: ImplicitStep(0.01)."
        raise TypeError(message("inner", inner, "an ImplicitStep or a factory", remedy))
    if isinstance(inner, torch.optim.Optimizer):
        remedy = "Pass functools.partial(torch.optim.SGD, lr=0.01), not the optimiser itself."
        raise TypeError(message("inner", inner, "an ImplicitStep or a factory", remedy))
    if not callable(inner):
        allowed = "an ImplicitStep, or a function from parameters to a torch.optim.Optimizer"
        number = isinstance(inner, (int, float)) and not isinstance(inner, bool)
        remedy = f"Write ImplicitStep({inner})." if number else ""
        raise TypeError(message("inner", inner, allowed, remedy))
    return TorchStepper(inner, groups, fresh=fresh)


def progress(
    blocks: Sequence[Block],
    corrections: Sequence[Sequence[Any]],
    weight: float,
    steps: int,
    start_residual: float | None,
    proxy_decrease: Callable[[], float],
) -> Progress:
    """Measure, with the full ∇L̂(w) in ``.grad``.

    One parameter at a time: the temporary is then one layer, not a fourth copy of the network.

    Parameters
    ----------
    blocks : list of Block
        The subproblem.
    corrections : list of lists of tensors
        m on each block; unlike ``Block.linear`` it is relative to the full ∇L̂(w_k).
    weight : float
        Weight of the correction.
    steps : int
        Inner steps taken.
    start_residual : float, optional
        The residual of the start; this one's if it is the start.
    proxy_decrease : callable
        Returns L̂(w_k) − L̂(w).
    """
    residual, displacement, slope = _sums(blocks, corrections, weight)
    squares = float(residual), float(sum(displacement))
    size, moved = (math.sqrt(square) for square in squares)
    if not (_safe(squares[0]) and (_safe(squares[1]) or _unmoved(blocks))):
        size, moved = _sizes(blocks, corrections, weight)
    if not (math.isfinite(size) and math.isfinite(moved)):
        raise NonFiniteError("the proxy's gradient is not finite at a trial point")

    def decrease() -> float:
        quadratic = sum(
            block.pull / 2 * float(square)
            for block, square in zip(blocks, displacement, strict=True)
        )
        return proxy_decrease() - weight * float(slope) - quadratic

    return Progress(
        steps=steps,
        residual=size,
        displacement=moved,
        # Several step sizes: the largest makes every rule stricter, never laxer.
        eta=max(block.eta for block in blocks),
        start_residual=size if start_residual is None else start_residual,
        decrease=decrease,
    )


def step_record(
    k: int, eta: float, steps: int, seen: Progress | None, rule: Criterion, ledger: Ledger
) -> StepRecord:
    """Return an outer step's numbers; NaN and None where nothing was measured."""
    bound = None if seen is None else rule.threshold(seen)
    verdict = None if seen is None else rule.holds(seen)
    return StepRecord(
        k=k,
        eta=eta,
        residual=math.nan if seen is None else seen.residual,
        threshold=math.nan if bound is None else bound,
        held=verdict,
        inner_steps=steps,
        displacement=math.nan if seen is None else seen.displacement,
        target_gradients=ledger.target_gradients,
        proxy_gradients=ledger.proxy_gradients,
        seconds=ledger.seconds,
    )


def _sums(
    blocks: Sequence[Block], corrections: Sequence[Sequence[Any]], weight: float
) -> tuple[Any, list[Any], Any]:
    """Return ‖∇φ(w)‖², each block's ‖w − c‖², and ⟨m, w − c⟩, in double precision."""
    residual: Any = 0.0
    slope: Any = 0.0
    displacement: list[Any] = []
    for block, correction in zip(blocks, corrections, strict=True):
        square: Any = 0.0
        for p, c, m in zip(block.params, block.centre, correction, strict=True):
            away = p - c
            slope = _plus(slope, _dot(m, away))
            square = _plus(square, _dot(away, away))
            gradient = away.mul_(block.pull).add_(m, alpha=weight)
            if p.grad is not None:
                gradient.add_(p.grad)
            residual = _plus(residual, _dot(gradient, gradient))
        displacement.append(square)
    return residual, displacement, slope


def _safe(square: float) -> bool:
    """Tell whether a square in single precision has neither under- nor overflowed."""
    return LEAST_SQUARE <= square < math.inf


def _unmoved(blocks: Sequence[Block]) -> bool:
    """Tell whether w is the centre, as it is at the start of every solve."""
    return all(
        torch.equal(p, c)
        for block in blocks
        for p, c in zip(block.params, block.centre, strict=True)
    )


def _sizes(
    blocks: Sequence[Block], corrections: Sequence[Sequence[Any]], weight: float
) -> tuple[float, float]:
    """Return ‖∇φ(w)‖ and ‖w − c‖, right for all finite numbers, in double precision."""
    residuals, moves = [0.0], [0.0]
    for block, correction in zip(blocks, corrections, strict=True):
        for p, c, m in zip(block.params, block.centre, correction, strict=True):
            away = _double(p) - _double(c)
            moves.append(norm(away))
            gradient = away.mul_(block.pull).add_(_double(m), alpha=weight)
            if p.grad is not None:
                gradient.add_(_double(p.grad))
            residuals.append(norm(gradient))
    return math.hypot(*residuals), math.hypot(*moves)


def _double(x: Any) -> Any:
    x = x.detach()
    return (torch.view_as_real(x) if x.is_complex() else x).double().reshape(-1)


def _dot(x: Any, y: Any) -> Any:
    if x.is_complex():  # pairs of real numbers, as torch's gradients have it
        x, y = torch.view_as_real(x), torch.view_as_real(y)
    if x.dtype not in (torch.float32, torch.float64):
        x, y = x.float(), y.float()  # products of half-precision numbers overflow
    return torch.sum(x * y, dtype=torch.float64)


def _plus(total: Any, term: Any) -> Any:
    # Layers may lie on several devices; on one, nothing waits for the device here.
    return total + (term.to(total.device) if isinstance(total, torch.Tensor) else term)


@dataclass(frozen=True)
class Rules:
    """The settings that an inner solve obeys.

    Attributes
    ----------
    stop : Criterion
        When it is good enough; a random rule is drawn already.
    max_steps : int
        When to give up.
    check_every : int
        Inner steps between two looks at the residual, for rules that ask for it.
    measure : bool
        Measure the residual at the end even if no rule asks for it.
    weight : float
        Weight of the correction.
    paired : bool
        Evaluate every minibatch at w_k too.
    pair_weight : float
        How much of that second gradient is subtracted.
    probe : bool
        Look once whether the proxy is deterministic and finite.
    first : bool
        The first inner gradient is the first of all: look whether it reaches the parameters.
    """

    stop: Criterion
    max_steps: int
    check_every: int
    measure: bool
    weight: float
    paired: bool = False
    pair_weight: float = 1.0
    probe: bool = False
    first: bool = False


class InnerSolve:
    """The minimisation of one subproblem by a stepper, counted in a ledger.

    Parameters
    ----------
    blocks : list of Block
        The groups that move, at their centres.
    corrections : list of lists of tensors
        m on each block, for measuring.
    oracle : Oracle
        The proxy.
    stepper : Stepper
        Takes the steps.
    rules : Rules
        When to stop, what to measure.
    ledger : Ledger
        Counts the proxy's gradients.
    anchor_value : tensor, optional
        L̂(w_k), if the full gradient at w_k is in ``.grad`` already.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        corrections: Sequence[Tensors],
        oracle: Oracle,
        stepper: Stepper,
        rules: Rules,
        ledger: Ledger,
        anchor_value: Any | None,
    ) -> None:
        self.blocks = blocks
        self.corrections = corrections
        self.oracle = oracle
        self.stepper = stepper
        self.rules = rules
        self.ledger = ledger
        self.params = [p for block in blocks for p in block.params]
        self.centre = [c for block in blocks for c in block.centre]
        self._anchor_value = anchor_value
        self._value = anchor_value
        self._full_at = 0 if anchor_value is not None else -1
        self._first: float | None = None

    def run(self) -> tuple[int, Progress | None]:
        """Solve; return the number of steps and, where it was measured, the end's progress."""
        fixed = self.rules.stop.steps if isinstance(self.rules.stop, Steps) else None
        seen: Progress | None = None
        t = 0
        while t < (self.rules.max_steps if fixed is None else fixed):
            if fixed is None and t % self.rules.check_every == 0:
                seen = self.measure(t)
                if self.rules.stop(seen):
                    return t, seen
            self._gradient(t)
            self.stepper.step(self.blocks, t)
            forget_casts()
            t += 1
        if self.rules.measure or fixed is None:
            seen = self.measure(t)
        return t, seen

    def measure(self, t: int) -> Progress:
        """Measure ‖∇φ(w)‖ with the whole proxy."""
        self._full_gradient(t)
        seen = progress(
            self.blocks, self.corrections, self.rules.weight, t, self._first, self._proxy_decrease
        )
        self._first = seen.start_residual
        return seen

    def _gradient(self, t: int) -> None:
        if not self.oracle.sampled:
            self._full_gradient(t)
            self._full_at = -1  # the step may overwrite it
            return
        batch = self.oracle.sample()
        if self.rules.probe and t == 0:
            probe(self.oracle, batch)
        self._full_at = -1
        self.oracle.partial(batch, self.params)
        if self.rules.first and t == 0:
            depends(self.params)
        self.ledger.proxy_sampled_gradients += 1
        if self.rules.paired:
            swap(self.params, self.centre)
            try:
                self.oracle.subtract(batch, self.params, self.rules.pair_weight)
            finally:
                swap(self.params, self.centre)
            self.ledger.proxy_sampled_gradients += 1

    def _full_gradient(self, t: int) -> None:
        if self._full_at == t:
            return
        self._value = self.oracle.full(self.params)
        self.ledger.proxy_gradients += 1
        self._full_at = t

    def _proxy_decrease(self) -> float:
        if self._anchor_value is None or self._value is None:
            return math.nan
        return float(self._anchor_value) - float(self._value)
