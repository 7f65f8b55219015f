"""Objectives and proxies made of plain Python functions, on NumPy arrays or torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector
from proxyprox._util.validation import message
from proxyprox.problems.protocols import Batch, Facts, Summable


def no_batch() -> None:
    """Stand for the one batch there is; named, because a lambda cannot be pickled."""


class FunctionObjective(Summable):
    """An expensive loss given by functions.

    Parameters
    ----------
    gradient : callable
        ``gradient(w)`` for an exact gradient, or ``gradient(w, batch)`` when ``sample`` is given.
    value : callable, optional
        ``value(w)``; only used to report, never needed to minimise.
    sample : callable, optional
        ``sample(rng)`` draws the batch that ``gradient`` is handed.
    repeatable : bool
        Whether a batch may be evaluated at a second point. A robot's rollout may not.
    samples : callable, optional
        ``samples(batch)``: how many target samples a batch holds (default: its length, or 1).
    cost : callable, optional
        ``cost(batch)``: what one gradient costs, in a unit of your own.
    everything : callable, optional
        ``everything()`` returns the batch whose gradient is exact; lets DANE run where ``sample``
        is given. Without ``sample`` every gradient is exact.
    hvp : callable, optional
        ``hvp(w, v)``: the exact Hessian times v; an audit measures curvature with it.
    value_and_gradient : callable, optional
        Both at once, as a pair, with the arguments of ``gradient``: for methods that use values,
        where one computation gives both.

    Examples
    --------
    >>> import numpy as np
    >>> noisy = FunctionObjective(lambda w, noise: w + noise, sample=lambda rng: rng.normal(size=2))
    >>> noisy.gradient(np.zeros(2), np.ones(2))
    array([1., 1.])
    """

    # The arguments that give it what methods may need.
    facts = Facts(
        options={
            "everything": "everything=, which returns the batch of all data",
            "samples": "samples=, which counts a batch (samples=len)",
        }
    )

    def __init__(
        self,
        gradient: Callable[..., Vector],
        *,
        value: Callable[[Vector], float] | None = None,
        sample: Callable[[np.random.Generator], Batch] | None = None,
        repeatable: bool = True,
        samples: Callable[[Batch], int] | None = None,
        cost: Callable[[Batch], float] | None = None,
        everything: Callable[[], Batch] | None = None,
        hvp: Callable[[Vector, Vector], Vector] | None = None,
        value_and_gradient: Callable[..., tuple[float, Vector]] | None = None,
    ) -> None:
        alone = sample is None
        both = ("w",) if alone else ("w", "batch")
        for name, function, arguments in (
            ("samples", samples, ("batch",)), ("cost", cost, ("batch",)), ("value", value, ("w",)),
            ("sample", sample, ("rng",)), ("everything", everything, ()), ("hvp", hvp, ("w", "v")),
            ("value_and_gradient", value_and_gradient, both),
        ):  # fmt: skip
            check.require_takes(name, function, arguments)
        if not callable(gradient) or not check.takes(gradient, 1 if alone else 2):
            allowed = f"a function of w {'alone' if alone else 'and a batch'}"
            remedy = "With sample=... it is handed what sample(rng) drew; without it, w alone."
            raise TypeError(message("gradient", gradient, allowed, remedy))
        if alone and everything is not None:
            remedy = "Without sample= there is but one batch, and every gradient is exact."
            raise TypeError(message("everything", everything, "left out", remedy))
        self._gradient, self._sample = gradient, sample
        self.value, self.hvp, self.samples, self.cost = value, hvp, samples, cost
        self.exact, self._both = alone, value_and_gradient
        self.value_and_gradient = None if self._both is None else self._value_and_gradient
        self.repeatable = check.flag("repeatable", repeatable)
        # Without a sampler the function is the exact gradient: there is only one batch.
        self.everything = no_batch if alone else everything

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw a batch (None when the gradient is exact)."""
        return None if self._sample is None else self._sample(rng)

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return the user's gradient."""
        return self._gradient(w) if self._sample is None else self._gradient(w, batch)

    def _value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        both: Any = self._both
        value, gradient = both(w) if self._sample is None else both(w, batch)
        return value, gradient


class FunctionProxy(Summable):
    """A cheap loss given by functions.

    Parameters
    ----------
    value, gradient : callable
        ``value(w)`` and ``gradient(w)``.
    hvp : callable, optional
        ``hvp(w, v)``; lets Newton-CG run.
    hessian : callable, optional
        ``hessian(w)``; lets Newton's method run.
    smoothness : float, optional
        A bound H on the Hessian; lets gradient descent choose its step.
    strong_convexity : float, optional
        A bound μ ≥ 0 on the Hessian's smallest eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> proxy = FunctionProxy(lambda w: float(w @ w) / 2, lambda w: w, smoothness=1.0)
    >>> proxy.value(np.ones(4))
    2.0
    """

    def __init__(
        self,
        value: Callable[[Vector], float],
        gradient: Callable[[Vector], Vector],
        *,
        hvp: Callable[[Vector, Vector], Vector] | None = None,
        hessian: Callable[[Vector], Matrix] | None = None,
        smoothness: float | None = None,
        strong_convexity: float = 0.0,
    ) -> None:
        for name, function in {"value": value, "gradient": gradient}.items():
            if not callable(function) or not check.takes(function, 1):
                remedy = "A proxy is cheap: give it exact values and gradients."
                raise TypeError(message(name, function, "a function of w alone", remedy))
        check.require_takes("hvp", hvp, ("w", "v"))
        check.require_takes("hessian", hessian, ("w",))
        self._value, self._gradient = value, gradient
        self.hvp, self.hessian = hvp, hessian
        self.smoothness = None if smoothness is None else check.positive("smoothness", smoothness)
        self.strong_convexity = check.nonnegative("strong_convexity", strong_convexity)

    def value(self, w: Vector) -> float:
        """Return L̂(w)."""
        return check.scalar("the proxy's value", self._value(w))

    def gradient(self, w: Vector) -> Vector:
        """Return ∇L̂(w)."""
        return self._gradient(w)
