"""What rivals and networks of the arm and the cart-pole need: evolution strategies, a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.validation import message
from proxyprox.simulation import Policy, RolloutRequest, Task, Trajectory

Array = Any
Requests = Sequence[RolloutRequest]
Answers = Sequence[Trajectory]


@dataclass(frozen=True)
class Antithetic:
    """Evolution strategies: ``(c(w + σε) − c(w − σε)) ε / (2σ)``, averaged over directions.

    Unbiased for the smoothed cost ``E c(w + σε)``. It needs costs alone, and many of them.

    Parameters
    ----------
    pairs : int
        Directions of a gradient; each takes two rollouts.
    sigma : float
        Length of the perturbation of a parameter.
    orthogonal : bool
        Make directions orthogonal, in blocks of as many as there are parameters.

    """

    pairs: int
    sigma: float
    orthogonal: bool = True
    biased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        check.whole("pairs", self.pairs)
        check.positive("sigma", self.sigma)
        check.flag("orthogonal", self.orthogonal)

    @property
    def rollouts(self) -> int:
        """Rollouts of one gradient."""
        return 2 * self.pairs

    def directions(self, dim: int, seeds: Array) -> Array:
        """Return the directions of a batch, one a row."""
        rng = np.random.default_rng([int(seeds[0]), 2])
        blocks = []
        for at in range(0, self.pairs, dim if self.orthogonal else self.pairs):
            count = min(self.pairs - at, dim) if self.orthogonal else self.pairs
            drawn = rng.standard_normal((count, dim))
            if self.orthogonal:
                # Of a Gaussian's rows only the angles change.
                rows = np.linalg.qr(rng.standard_normal((dim, dim)))[0][:count]
                drawn = rows * np.linalg.norm(drawn, axis=1, keepdims=True)
            blocks.append(drawn)
        return np.concatenate(blocks)

    def requests(self, task: Task, w: Array, seeds: Array) -> list[RolloutRequest]:
        """Return both ends of every direction, on one seed each pair."""
        return [
            RolloutRequest(task, w + sign * self.sigma * direction, int(seed))
            for direction, seed in zip(self.directions(len(w), seeds), seeds[::2], strict=True)
            for sign in (1.0, -1.0)
        ]

    def gradient(self, task: Task, w: Array, requests: Requests, answers: Answers) -> Array:
        """Return the mean over directions."""
        costs = np.array([task.total(one) for one in answers]).reshape(-1, 2)
        moved = np.stack([request.w for request in requests[::2]]) - w
        weights = (costs[:, 0] - costs[:, 1]) / (2 * self.sigma**2)
        return weights @ moved / self.pairs


class NetworkPolicy(Policy):
    """A small tanh network, ``a = scale · (W_2 tanh(W_1 o + b_1) + b_2)`` with any hidden layers.

    Parameters
    ----------
    sizes : sequence of int
        Entries of an observation, of the hidden layers and of an action.
    scale : float
        Of the actions.

    """

    def __init__(self, sizes: Sequence[int], scale: float = 1.0) -> None:
        given = check.as_list("sizes", sizes, "a list of whole numbers")
        self.sizes = tuple(check.whole("sizes", size) for size in given)
        if len(self.sizes) < 2:
            raise ValueError(message("sizes", sizes, "those of observations and actions at least"))
        self.scale = check.positive("scale", scale)
        dim = sum((a + 1) * b for a, b in zip(self.sizes, self.sizes[1:], strict=False))
        super().__init__(self._evaluate, dim, self.sizes[-1])

    def start(self, seed: int) -> Array:
        """Return random weights of the usual size, biases and the last layer's weights small."""
        rng, layers = np.random.default_rng(seed), []
        for a, b in zip(self.sizes, self.sizes[1:], strict=False):
            weights = rng.normal(size=(b, a + 1)) / math.sqrt(a)
            weights[:, -1] = 0.0
            layers.append(weights)
        layers[-1] *= 0.1
        return np.concatenate([layer.ravel() for layer in layers])

    def _layers(self, w: Array) -> list[Array]:
        """Return the layers' weights, the bias in the last column, with w's leading axis."""
        found, at = [], 0
        for a, b in zip(self.sizes, self.sizes[1:], strict=False):
            found.append(w[:, at : at + b * (a + 1)].reshape(len(w), b, a + 1))
            at += b * (a + 1)
        return found

    def _forward(self, w: Array, observations: Array) -> list[Array]:
        """Return the activations of every layer, the observations first."""
        layers, kept = self._layers(w), [observations]
        for depth, layer in enumerate(layers):
            if len(w) == 1:
                made = kept[-1] @ layer[0, :, :-1].T + layer[0, :, -1]
            else:
                made = np.einsum("nij,nj->ni", layer[:, :, :-1], kept[-1]) + layer[:, :, -1]
            kept.append(np.tanh(made) if depth < len(layers) - 1 else made)
        return kept

    def _evaluate(self, w: Array, observations: Array, t: Array) -> Array:
        return self.scale * self._forward(w, observations)[-1]

    def jacobians(self, w: Array, observations: Array, t: Array) -> tuple[Array, Array]:
        """Return both derivatives by back-propagation."""
        kept, layers = self._forward(w[None], observations), self._layers(w[None])
        n = len(observations)
        slopes: list[Array] = []
        back = np.tile(self.scale * np.eye(self.actions), (n, 1, 1))
        for depth in reversed(range(len(layers))):
            if depth < len(layers) - 1:
                back = back * (1 - kept[depth + 1] ** 2)[:, None]
            inputs = np.hstack([kept[depth], np.ones((n, 1))])
            slopes.insert(0, (back[..., None] * inputs[:, None, None]).reshape(n, self.actions, -1))
            back = back @ layers[depth][0, :, :-1]
        return np.concatenate(slopes, axis=2), back
