"""How one inner step is taken: the implicit step, or any of torch's optimisers."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from proxyprox._checks import message, positive
from proxyprox.torch._block import Block

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
