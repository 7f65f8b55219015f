r"""How many steps a method takes on the quadratic model of the target, in closed form.

With the target's Hessian A, the proxy's P and the gradient noise ξ, an exact ProxyProx step on
quadratics is

.. math:: e_{k+1} = e_k - N^{-1}(A e_k + \xi_k), \qquad N = P + I/\eta,

and SGD is the case P = 0. In the coordinates of the pencil :math:`Au = \theta Nu`,
:math:`U^\top NU = I`, every component goes its own way, and so does its share of the expected
suboptimality:

.. math:: \tfrac12\theta\Bigl[f_0^2 q^{2K} + s^2\,\frac{1-q^{2K}}{1-q^2}\Bigr], \qquad
          q = 1-\theta, \quad s^2 = \mathbb{E}(u^\top\xi)^2.

The mean of the iterates, which the theorems return, has the bias
:math:`f_0q(1-q^K)/(K\theta)` and the variance
:math:`\frac{s^2}{K^2\theta^2}\sum_{m\le K}(1-q^m)^2`, summed in closed form; the better of the two
counts, as it would for a user who tries both.

The theorems bound the worst case over all losses with one δ; this is the case at hand, noise
along its own directions, and the step size that would be found by tuning.

Noise grows with the distance: a batch's Hessian is not the target's. For Gaussian rows the part
that is added at an excess V has the covariance :math:`2\kappa VA`, :math:`\kappa\approx1/b` for
batches of b rows. The components' excesses x are then coupled,

.. math:: x_{k+1} = (\mathrm{diag}(q^2) + \kappa\theta^2 1^\top)x_k + \tfrac12\theta s^2,

and the eigenvalues of that matrix take the place of q²: steps so long that one is 1 or more
diverge, however little noise there is at the minimum. The mean of the iterates meets the noise of
its average excess. If A was only met on a subspace, which holds a small part of its trace, that
noise is taken to have the shape of the noise at the minimum, which is known as a whole.

A loss that is not quadratic bends: iterates that noise scatters over an excess v have a mean that
is off by a shift of order v, hence by an excess of order :math:`v^2/v_0`, where v₀ is the excess
at which the model fails altogether. The start's excess is taken for v₀ and the share by which H
changed on the way from there, squared, for the constant; steps that scatter further are ruled out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # not scipy.linalg, which is slow: SciPy imports it when it is used

Matrix = np.ndarray[Any, Any]

# Numbers of steps considered: 9 % apart, from 1 to ten million.
STEPS = np.unique(np.round(np.geomspace(1, 1e7, 180)).astype(np.int64))


@dataclass(frozen=True)
class AuditPolicy:
    """Thresholds of audits and plans.

    The record is ``docs/results/audit``. ``benchmarks/audit_verdicts.py`` set the numbers of the
    verdict, ``benchmarks/audit_functions.py`` those of the doubts and of the path, and
    ``benchmarks/plan_cases.py`` those of the model and of rough plans.

    Attributes
    ----------
    gain : float
        How many times fewer target gradients a proxy must need to be worth its trouble.
    half : float
        δ/H up to which a proxy must only not be worse. If half of a gradient's change along the
        path is not explained by curvature, the audit is unsure. A step of the path is long enough
        if the slope has halved.
    little : float
        Share of H by which a target may curve downwards and still be rehearsed as a convex one.
    other_units : float
        Factor in curvature beyond which other units are suspected.
    accuracy : float
        The default ε, as a share of the start's suboptimality, and the share of H that is added to
        the curvature of a step of the path.
    probes : int
        Target gradients for the length of each step of the path, if the budget allows.
    least_steps : int
        Lanczos steps below which the upper limit says next to nothing.
    heavy : float
        How many times as much as Gaussian noise that of batches may vary before a plan is rough.
    """

    gain: float = 1.3
    half: float = 0.5
    little: float = 0.05
    other_units: float = 10.0
    accuracy: float = 1e-2
    probes: int = 24
    least_steps: int = 6
    heavy: float = 2.5


POLICY = AuditPolicy()


@dataclass(frozen=True)
class Rehearsal:
    """A tuned method on the model.

    Attributes
    ----------
    eta : float
        The step size.
    steps : float
        Steps to the accuracy; infinite when no step size gets there within ten million.
    excess : float
        Suboptimality expected then.
    averaged : bool
        Whether the mean of the iterates is the better answer, not the last.
    """

    eta: float
    steps: float
    excess: float
    averaged: bool = False


@dataclass(frozen=True)
class QuadraticModel:
    """The target around a point, as far as it was measured.

    Attributes
    ----------
    A : array of shape (m, m)
        The target's Hessian.
    gradient : array of shape (m,)
        The target's gradient at the point.
    walked : array of shape (m,)
        The start minus the point; the start's gradient on the model is ``A walked + gradient``.
    residuals : array of shape (n, m)
        Gradients of single batches minus their mean: ``Σ ≈ residualsᵀ residuals / (n − 1)``. On a
        subspace, rows that stand for the noise outside as well.
    averaged : int
        Batches in ``gradient``; 0 when it is exact.
    growth : float
        How fast the noise grows with the excess V, 0 for noise that is the same everywhere: its
        covariance grows by 2 κ V A, or by κ V Σ on a subspace.
    bend : float
        Share by which H differs between the start and the point; 0 for a quadratic.
    subspace : bool
        Whether A is the projection on a part of the space.
    tail : float
        How much more the sizes of batches' noise vary than those of Gaussian noise, at the point or
        on the way there; about 1 if no row stands out.
    """

    A: Matrix
    gradient: Matrix
    walked: Matrix
    residuals: Matrix
    averaged: int = 0
    growth: float = 0.0
    bend: float = 0.0
    subspace: bool = False
    tail: float = 1.0

    @property
    def start_excess(self) -> float:
        """The suboptimality of the start, ``½ gᵀA⁺g``."""
        return float(ErrorCurve.of(self).start.sum())


def rehearse(
    model: QuadraticModel, P: Sequence[Matrix] | None, epsilon: float, steps: int | None = None
) -> Rehearsal:
    """Return the η that reaches ε in the fewest steps, or is best after ``steps`` of them.

    Parameters
    ----------
    model : QuadraticModel
        The target.
    P : sequence of arrays of shape (m, m), optional
        The proxy's Hessians; None for SGD. Of several, each step size and number of steps counts
        with the worst: what a proxy needs whose Hessian changes on the way.
    epsilon : float
        Wanted suboptimality.
    steps : int, optional
        Compare step sizes by the excess after this many steps instead.

    Examples
    --------
    >>> model = QuadraticModel(np.diag([1.0, 100.0]), np.ones(2), np.zeros(2), np.zeros((2, 2)))
    >>> rehearse(model, [np.diag([1.0, 99.0])], 1e-6).steps < rehearse(model, None, 1e-6).steps / 50
    True
    """
    H = max(float(np.linalg.eigvalsh(model.A)[-1]), 1e-300)
    grid = np.geomspace(1e-4, 1.99, 44) if P is None else np.geomspace(1e-2, 1e7, 64)
    found, sgd = list[Rehearsal](), ErrorCurve.of(model)
    limit = epsilon if steps is None else np.finfo(np.float64).max
    for eta in (grid / H).tolist():
        # If the sum is not positive definite, the subproblem has no minimiser at this η.
        with contextlib.suppress(np.linalg.LinAlgError):
            sums = [] if P is None else [each + np.eye(len(each)) / eta for each in P]
            curves = [ErrorCurve.of(model, each).excess(1.0) for each in sums]
            for averaged, curve in enumerate(np.max(curves or [sgd.excess(eta)], axis=0)):
                first = np.argmax(curve <= epsilon) if steps is None else STEPS.searchsorted(steps)
                at = min(int(first), len(STEPS) - 1)
                if curve[at] <= limit:
                    taken, left = float(steps or STEPS[at]), float(curve[at])
                    found.append(Rehearsal(eta, taken, left, bool(averaged)))
    none = Rehearsal(math.nan, math.inf, math.inf)
    return min(found, key=lambda outcome: (outcome.steps, outcome.excess), default=none)


@dataclass(frozen=True)
class ErrorCurve:
    """Components of the error: rates θ, shares of the start's excess, noise; growth and bend.

    The growth is the noise that each component meets at an excess of 1.
    """

    theta: Matrix
    start: Matrix
    noise: Matrix
    growth: Matrix
    bend: float

    @classmethod
    def of(cls, model: QuadraticModel, N: Matrix | None = None) -> ErrorCurve:
        """Return the components in the pencil of A and N; of A alone for SGD."""
        theta, U = np.linalg.eigh(model.A) if N is None else scipy.linalg.eigh(model.A, N)
        # Less curvature than rounding leaves of H holds no suboptimality to win.
        kept = theta > 1e5 * np.finfo(np.float64).eps * max(theta[-1], 0.0)
        theta, U = theta[kept], U[:, kept]
        noise = np.sum((model.residuals @ U) ** 2, axis=0) / max(len(model.residuals) - 1, 1)
        left = model.gradient @ U
        if model.averaged:
            # The mean's own noise would look like a long way to go along flat directions.
            seen = np.maximum(left**2 - noise / model.averaged, 0.0)
            left = np.sign(left) * np.sqrt(seen)
        pull = (model.A @ model.walked) @ U + left
        growth = model.growth * (noise if model.subspace else 2 * theta)
        return cls(theta, pull**2 / (2 * theta), noise, growth, model.bend)

    def excess(self, eta: float) -> Matrix:
        """Return the expected suboptimality of last and mean iterate after each of ``STEPS``."""
        theta = eta * self.theta
        if len(theta) and theta[-1] >= 2:
            return np.full((2, len(STEPS)), math.inf)
        K = STEPS[:, None].astype(np.float64)
        q = 1 - theta[None, :]
        power = np.sign(q) ** (K % 2) * _power(np.abs(q), K)
        start, (scatter, bias) = float(self.start.sum()), self._scatter_and_bias(eta, power)
        last = bias + scatter
        if math.isinf(last[-1]):
            return np.stack([last, last])
        left = q * (1 - power) / (K * theta)
        summed = K - 2 * q * (1 - power) / theta + q**2 * (1 - power**2) / (theta * (2 - theta))
        # For θK ≪ 1 the sum cancels to its leading term.
        summed = np.where(K * theta < 1e-3, theta**2 * K**3 / 3, summed) / K**2
        mean = left**2 @ self.start + summed @ (eta * self.noise / (2 * theta))
        if self.growth.any():
            # The mean excess of the steps before, by trapezoids.
            k, values = np.append(0.0, STEPS), np.append(start, last)
            area = np.cumsum(np.diff(k) * (values[1:] + values[:-1]) / 2)
            average = (area + (start - last) / 2) / STEPS
            mean = mean + average * (summed @ (eta * self.growth / (2 * theta)))
        if self.bend > 0:
            fails = max(start, 1e-300)
            mean = mean + (2 * self.bend * scatter) ** 2 / fails
            lost = ~(self.bend * np.maximum.accumulate(last) <= fails)
            last, mean = np.where(lost, math.inf, last), np.where(lost, math.inf, mean)
        return np.stack([last, mean])

    def _scatter_and_bias(self, eta: float, power: Matrix) -> tuple[Matrix, Matrix]:
        """Return what the noise and what the start leave in the last iterate's excess."""
        theta = eta * self.theta
        if not self.growth.any():
            # θ(2 − θ) is 1 − q² without the cancellation at small θ.
            settled = eta * self.noise / (2 * (2 - theta))
            return (1 - power**2) @ settled, power**2 @ self.start
        # The coupling is symmetric in the coordinates x/root.
        root = np.sqrt(theta * eta * self.growth / 2)
        root = np.maximum(root, 1e-6 * root.max())
        coupled = np.diag((1 - theta) ** 2) + np.outer(root, root)
        rates, Q = np.linalg.eigh(coupled)
        if rates[-1] >= 1:
            return np.full(len(STEPS), math.inf), np.full(len(STEPS), math.inf)
        shares, kept = root @ Q, _power(rates, STEPS[:, None].astype(np.float64))
        noise = shares * (theta * eta * self.noise / 2 / root @ Q) / (1 - rates)
        return (1 - kept) @ noise, kept @ (shares * (self.start / root @ Q))


def _power(base: Matrix, exponent: Matrix) -> Matrix:
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(np.log(np.maximum(base, 1e-300)) * exponent))
