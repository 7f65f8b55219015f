"""SGD with momentum, as a method of one's own: a rival in Figure 1 and for the safeguard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import proxyprox as pp


@dataclass(frozen=True)
class Velocity(pp.methods.State):
    """The iterate and the decaying sum of gradients."""

    velocity: Any = None


@dataclass(frozen=True)
class Momentum(pp.Method):
    """The heavy ball, or Nesterov's: ``v ← βv + g``, then ``w − ηv`` or ``w − η(g + βv)``.

    As in ``torch.optim.SGD``. A step size that is measured is that of the sum of what one gradient
    adds to all later steps, ``η/(1 − β)``.
    """

    eta: Any = "auto"
    beta: float = 0.9
    nesterov: bool = False

    uses_proxy: ClassVar[bool] = False

    def init(self, w0: Any, problem: Any) -> Velocity:
        """Start at rest."""
        return Velocity(w0, 0, 0 * w0)

    def tell(self, state: Any, answers: Any, step: Any) -> Velocity:
        """Add the gradient to the velocity and move along it."""
        centre, gradient, past = state.w, answers.gradients[0], state.velocity
        if step.restart is not None:
            # The step that is undone is not remembered either.
            centre, gradient, past = step.restart.centre, step.restart.difference, 0 * past
        velocity = self.beta * past + gradient
        direction = gradient + self.beta * velocity if self.nesterov else velocity
        if self.step_size.measures:
            direction = (1 - self.beta) * direction
        return Velocity(step.solve(linear=direction, centre=centre), state.k + 1, velocity)
