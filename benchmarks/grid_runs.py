"""All constant step sizes of a grid at once: the same batches, exact solves, one matrix product.

A grid of ten step sizes costs little more than one run this way where the problem is small and
smooth; elsewhere the library's inner solver solves every subproblem. It serves the comparison only;
each column is the run that :func:`proxyprox.minimize` makes with the same η and seed, up to the
accuracy of the inner solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import proxyprox as pp
from proxyprox.inner import Auto
from proxyprox.inner.base import NonFiniteError, Subproblem
from proxyprox.stopping import Residual

SMALL = 300
"""Parameters up to which dense inverses are kept."""

EXACT, ROUGH = 1e-7, 1e-5
"""``‖∇φ‖`` to which the subproblems of small and of large problems are solved."""


class Grid:
    """ProxyProx, or SGD without a proxy, for several η on the same stream of batches."""

    def __init__(self, target: Any, proxy: Any | None, etas: Any, seed: int) -> None:
        self.target, self.proxy, self.etas = target, proxy, np.asarray(etas, dtype=float)
        self.rng = np.random.default_rng(seed)
        self.W = np.zeros((target.dim, len(etas)))
        self.average, self.k = self.W, 0
        self.alive = np.ones(len(etas), dtype=bool)
        if proxy is None:
            return
        dense = target.dim <= SMALL and np.isfinite(target.smoothness)
        self._accuracy = Residual(EXACT if dense else ROUGH)
        self._solver = Auto().choose(proxy, None, target.dim).solver
        self._memories: list[dict[str, Any]] = [{} for _ in etas]
        self._together = dense and hasattr(proxy, "design")
        if self._together:
            self._inverse = np.zeros((len(etas), target.dim, target.dim))
            self._known = np.zeros(len(etas), dtype=bool)

    def step(self) -> None:
        """Take one outer step with every η."""
        batch = self.target.sample(self.rng)
        G = gradients(self.target, self.W, batch)
        with np.errstate(all="ignore"):
            if self.proxy is None:
                self.W = self.W - self.etas * G
            else:
                self.W = self._solved(G, G - self._anchors(self.W, self.alive))
        self.k += 1
        self.alive &= np.isfinite(self.W).all(axis=0) & (np.abs(self.W).max(axis=0) < 1e8)
        # A run that is lost stays where it is worst: at the start, with the value counted as inf.
        self.W = np.where(self.alive, self.W, 0.0)
        self.average = self.average + (self.W - self.average) / self.k

    def drop_lost(self) -> None:
        """Give up the runs that stand far above where they began: their solves cost the most."""
        start = float(self.target.value(self.target.zeros()))
        self.alive &= ~(self._losses(self.W) > 2 * abs(start) + start)

    def values(self) -> Any:
        """Return the losses of the last iterates and of the means; infinite for lost runs."""
        return np.where(self.alive, [self._losses(self.W), self._losses(self.average)], np.inf)

    def _losses(self, W: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.array([float(self.target.value(np.ascontiguousarray(w))) for w in W.T])

    def _anchors(self, V: Any, wanted: Any) -> Any:
        """Return the proxy's gradients at the wanted columns; zero at the others."""
        found = np.zeros_like(V)
        found[:, wanted] = gradients(self.proxy, V[:, wanted], None)
        return found

    def _solved(self, G: Any, M: Any) -> Any:
        """Minimise L̂ + ⟨m, ·⟩ + ‖· − w‖²/(2η) by Newton steps with kept, mended inverses.

        ``G``, the target's gradients, are the subproblems' own at their centres.
        """
        if not self._together:
            return np.column_stack([self._alone(r, M[:, r]) for r in range(len(self.etas))])
        centre, W = self.W, self.W
        residual = np.linalg.norm(G, axis=0)
        active = self.alive & (residual > EXACT)
        for r in np.flatnonzero(active & ~self._known):
            self._rebuild(r, W[:, r])
        fresh = np.zeros(len(self.etas), dtype=bool)
        for _ in range(20):
            if not active.any():
                return W
            S = -np.einsum("rij,jr->ir", self._inverse, G) * active
            V = W + S
            G_new = self._anchors(V, active) + M + (V - centre) / self.etas
            residual_new = np.linalg.norm(G_new, axis=0)
            good = active & (residual_new <= residual / 3)
            W, Y, G = np.where(good, V, W), G_new - G, np.where(good, G_new, G)
            self._mend(good, S, Y)
            residual = np.where(good, residual_new, residual)
            stuck = active & ~good
            for r in np.flatnonzero(stuck & ~fresh):
                self._rebuild(r, W[:, r])
            lost = stuck & fresh
            if lost.any():
                W = W.copy()
                for r in np.flatnonzero(lost):
                    W[:, r] = self._alone(r, M[:, r], W[:, r])
            fresh |= stuck
            active = active & ~lost & (residual > EXACT)
        return W

    def _alone(self, r: int, m: Any, start: Any = None) -> Any:
        centre = self.W[:, r].copy()
        if not self.alive[r]:
            return centre
        phi = Subproblem(self.proxy, m, centre, float(self.etas[r]))
        begin = centre.copy() if start is None else start.copy()
        try:
            return self._solver.solve(phi, begin, self._accuracy, self._memories[r], self.rng).w
        except (NonFiniteError, ValueError):
            return centre * np.nan

    def _rebuild(self, r: int, w: Any) -> None:
        if not np.isfinite(w).all():
            return
        shifted = self.proxy.hessian(np.ascontiguousarray(w))
        shifted = shifted + np.eye(len(w)) / self.etas[r]
        self._inverse[r] = np.linalg.inv(shifted)
        self._known[r] = True

    def _mend(self, good: Any, S: Any, Y: Any) -> None:
        """Update the inverses by BFGS, so that they map each Y to its S."""
        curvature = (S * Y).sum(axis=0)
        size = np.linalg.norm(S, axis=0) * np.linalg.norm(Y, axis=0)
        for r in np.flatnonzero(good & (curvature > 1e-10 * size)):
            s, y, B = S[:, r], Y[:, r], self._inverse[r]
            By = B @ y
            u = ((1 + y @ By / curvature[r]) / 2 * s - By) / curvature[r]
            B += np.outer(s, u) + np.outer(u, s)


def gradients(loss: Any, W: Any, batch: Any) -> Any:
    """Return the gradients of a loss at every column of W, on one batch (None: all rows)."""
    several = isinstance(loss, pp.GLM) and len(W) != loss.design.X.shape[1]  # an intercept, classes
    if not isinstance(loss, pp.GLM) or several or loss._weights is not None:
        columns = [np.ascontiguousarray(w) for w in W.T]
        answers = [loss.gradient(w) if batch is None else loss.gradient(w, batch) for w in columns]
        return np.column_stack(answers)
    X = loss.design.X if batch is None else loss.design.X[batch]
    means = loss.family.mean(X @ W)
    if batch is None:
        return X.T @ means / X.shape[0] - loss._pulled[:, None] + loss.l2 * W
    answers = np.asarray(loss.family.neutral if loss.targets is None else loss.targets[batch])
    return X.T @ (means - answers.reshape(-1, 1)) / X.shape[0] + loss.l2 * W
