"""Losses of what a model returns: sums of squares, likelihoods, robust fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector, from_numpy, rounding, to_numpy
from proxyprox._util.validation import Words, message
from proxyprox.problems.differences import (
    Array,
    Derivatives,
    ValueObjective,
)
from proxyprox.problems.protocols import Batch, Facts

# Smaller shares of the largest output are as good as zero when a step in outputs is sized.
SMALL_OUTPUT = 1e-3


class Outputs(ValueObjective):
    r"""A loss of a model's outputs, ``ℓ(model(w))``, as an objective or as a proxy.

    If both losses of a problem are of this kind, the coarse model's outputs are mapped to the fine
    one's: :class:`~proxyprox.methods.ManifoldMapping` is then the default, and a step takes one
    call of the fine model. For other methods the gradient is found from the model's Jacobian, which
    takes d + 1 calls by 2-point differences, and the Hessian is Gauss and Newton's.

    Parameters
    ----------
    model : callable
        ``model(w)`` returns a vector of outputs, always of one length.
    loss : callable, optional
        ``loss(outputs)`` returns residuals, of which half the sum of squares is minimised, or the
        loss itself, a number. :func:`weighted`, :func:`huber` and :func:`counts` make residuals.
        Left out, the outputs are the residuals.
    jacobian : callable, optional
        ``jacobian(w)`` returns the matrix of shape (outputs, parameters), such as torch's or
        JAX's; each call counts as one evaluation. Gradients then cost little, and the default is
        :class:`~proxyprox.ProxyBFGS`. Left out, it is found by differences.
    workers, noise, scales, bounds, timeout
        As of :class:`~proxyprox.ValueObjective`; a problem passes on its scales and bounds.

    Examples
    --------
    Two rates are fitted to counts, with Euler's method as the coarse model.

    >>> import numpy as np
    >>> from proxyprox import Outputs, Problem, minimize
    >>> from proxyprox.problems import counts
    >>> t = np.linspace(0, 2, 21)
    >>> loss = counts(np.random.default_rng(0).poisson(30 * np.exp(-0.7 * t)))
    >>> fine = Outputs(lambda w: w[0] * np.exp(-w[1] * t), loss)
    >>> coarse = Outputs(lambda w: w[0] * (1 - 0.1 * w[1]) ** np.arange(21), loss)
    >>> result = minimize(Problem(fine, coarse), np.array([10.0, 0.5]))
    >>> result.w.round(2), result.status.name
    (array([29.55,  0.58]), 'CONVERGED')
    """

    role = "model"

    def __init__(
        self,
        model: Callable[[Any], Any],
        loss: Callable[[Array], Any] | None = None,
        *,
        jacobian: Callable[[Any], Any] | None = None,
        **settings: Any,
    ) -> None:
        check.require_takes("loss", loss, ("outputs",))
        check.require_takes("jacobian", jacobian, ("w",))
        self.loss = loss
        self.derivatives = Derivatives(self.role, model, ndim=1, derivative=jacobian, **settings)
        self._cheap = jacobian is not None

    @property
    def facts(self) -> Facts:
        """What else is known of the loss: Gauss and Newton's Hessian is approximate."""
        source = self.gradient_source
        return Facts(
            convex=False, exact_curvature=False, gradient_source=source,
            cheap_derivatives=self._cheap, noise=self.derivatives.noise,
        )  # fmt: skip

    # -- outputs and the loss of them -----------------------------------------------------------

    def terms(self, outputs: Array) -> Any:
        """Return the residuals as a vector, or the loss as a number."""
        if self.loss is None:
            return outputs
        with np.errstate(all="ignore"):
            found = np.asarray(self.loss(outputs.copy()), dtype=np.float64)
        if found.ndim > 1:
            got = Words(f"an array of shape {found.shape}")
            raise ValueError(message("loss(outputs)", got, "a vector of residuals or a number"))
        return found if found.ndim else float(found)

    def loss_of(self, outputs: Array) -> float:
        """Return the loss of some outputs; NaN if one of them is not finite."""
        return size_of(self.terms(outputs)) if np.isfinite(outputs).all() else math.nan

    def slopes(self, outputs: Array, jacobian: Array) -> tuple[Any, Array]:
        """Return the terms and their derivative by the parameters: a matrix, or a gradient.

        The loss is differentiated along the columns of the model's Jacobian, by central
        differences that move no output by more than a small share of it.
        """
        terms = self.terms(outputs)
        if self.loss is None:
            return terms, jacobian
        size = np.abs(outputs)
        least = np.maximum(size, SMALL_OUTPUT * size.max(initial=0.0)) + math.ulp(0.0)
        columns = []
        for column in jacobian.T:
            with np.errstate(divide="ignore"):
                step = rounding(power=1 / 3) * float(np.min(least / np.abs(column)))
            step = step if math.isfinite(step) and step > 0 else 1.0
            ends = [self.terms(outputs + side * step * column) for side in (1, -1)]
            columns.append((ends[0] - ends[1]) / (2 * step))
        return terms, np.stack(columns, axis=-1)

    # -- an objective like others ---------------------------------------------------------------

    def value(self, w: Vector) -> float:
        """Return the loss."""
        return self.loss_of(self.derivatives.value(w))

    def value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        """Return the loss and its gradient, which share evaluations."""
        outputs, jacobian = self.derivatives.linearise(w)
        with np.errstate(over="ignore", invalid="ignore"):
            terms, slopes = self.slopes(outputs, jacobian)
            return size_of(terms), from_numpy(pulled(terms, slopes), like=w)

    def hessian(self, w: Vector) -> Matrix:
        """Return Gauss and Newton's Hessian."""
        return from_numpy(self.hessian_of(*self.derivatives.linearise(w)), like=w)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return its product with v."""
        return from_numpy(self.hessian_of(*self.derivatives.linearise(w)) @ to_numpy(v), like=w)

    def curvature(self, w: Vector) -> Matrix | None:
        """Return the Hessian at a point whose gradient was asked for lately: it costs no call."""
        jacobian = self.derivatives.known_derivative(w)
        if jacobian is None:
            return None
        return from_numpy(self.hessian_of(self.derivatives.value(w), jacobian), like=w)

    def hessian_of(self, outputs: Array, jacobian: Array) -> Array:
        """Return Gauss and Newton's Hessian from the outputs and their Jacobian."""
        terms, slopes = self.slopes(outputs, jacobian)
        if np.ndim(terms):
            return np.asarray(slopes.T @ slopes)
        # Second differences of the loss along the columns; negative curvature counts as none.
        step = rounding(power=1 / 4) * np.abs(outputs).max()
        step /= np.abs(jacobian).max(initial=math.ulp(0.0))
        moved = [self.slopes(outputs + step * column, jacobian)[1] for column in jacobian.T]
        rows = (np.array(moved) - slopes) / step
        values, vectors = np.linalg.eigh((rows + rows.T) / 2)
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


class LeastSquares(Outputs):
    r"""``½ ‖r(w)‖²`` of a function r that returns residuals: the short form of :class:`Outputs`.

    Parameters
    ----------
    residuals : callable
        ``residuals(w)`` returns a vector: model minus data, over the noise's standard deviation.
    jacobian, workers, noise, scales, bounds, timeout
        As of :class:`Outputs`.

    Examples
    --------
    Two rates are fitted to an exact solution, with Euler's method as the proxy.

    >>> import numpy as np
    >>> from proxyprox import LeastSquares, Problem, minimize
    >>> t = np.linspace(0, 2, 21)
    >>> data = 3 * np.exp(-0.7 * t)
    >>> fine = LeastSquares(lambda w: w[0] * np.exp(-w[1] * t) - data)
    >>> coarse = LeastSquares(lambda w: w[0] * (1 - 0.1 * w[1]) ** np.arange(21) - data)
    >>> minimize(Problem(fine, coarse), np.ones(2)).w.round(3)
    array([3. , 0.7])
    """

    role = "residuals"

    def __init__(self, residuals: Callable[[Any], Any], **settings: Any) -> None:
        super().__init__(residuals, None, **settings)


def size_of(terms: Any) -> float:
    """Return the loss that residuals, or a number, stand for."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(terms @ terms) / 2 if np.ndim(terms) else float(terms)


def pulled(terms: Any, slopes: Array) -> Array:
    """Return the gradient of the loss from the derivative of its terms."""
    return np.asarray(slopes.T @ terms if np.ndim(terms) else slopes)


def _measured(name: str, data: Any) -> Array:
    return np.asarray(check.require_finite(name, check.real_array(name, data, "numbers")), float)


def _beside(outputs: Array, data: Array) -> Array:
    """Return outputs that are as many as the data; one number of data is for all of them."""
    if data.ndim and np.shape(outputs) != data.shape:
        got = Words(f"data of shape {data.shape}")
        allowed = f"one number for each of the model's outputs, of shape {np.shape(outputs)}"
        raise ValueError(message("data", got, allowed, "Return the outputs that were measured."))
    return outputs


def weighted(data: Any, sigma: Any = 1.0) -> Callable[[Array], Array]:
    """Return the residuals ``(outputs − data) / σ`` of outputs.

    Parameters
    ----------
    data : array
        The measurements.
    sigma : float or array
        Their standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> weighted([1.0, 2.0], 0.5)(np.array([2.0, 2.0]))
    array([2., 0.])
    """
    measured, spread = _measured("data", data), _measured("sigma", sigma)
    if not (spread > 0).all():
        raise ValueError(message("sigma", sigma, "positive"))
    if spread.ndim and spread.shape != measured.shape:
        raise ValueError(
            message("sigma", sigma, f"a number, or one for each of the data, {measured.shape}")
        )

    def residuals(outputs: Array) -> Array:
        return np.asarray((_beside(outputs, measured) - measured) / spread)

    return residuals


def huber(data: Any, sigma: Any = 1.0, width: float = 1.345) -> Callable[[Array], Array]:
    """Return residuals whose half squares are Huber's loss: outliers count by their size alone.

    Parameters
    ----------
    data, sigma : array
        The measurements and their standard deviations.
    width : float
        Where squares end, in standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> huber([0.0, 0.0], width=1.0)(np.array([0.5, 5.0]))
    array([0.5, 3. ])
    """
    plain, bend = weighted(data, sigma), check.positive("width", width)

    def residuals(outputs: Array) -> Array:
        r = plain(outputs)
        far = np.sqrt(np.maximum(2 * bend * np.abs(r) - bend**2, 0.0))
        return np.asarray(np.where(np.abs(r) <= bend, r, np.sign(r) * far))

    return residuals


def counts(data: Any) -> Callable[[Array], Array]:
    """Return the deviance residuals of Poisson counts whose means are the outputs.

    Half their sum of squares is the negative log-likelihood, up to a constant.

    Parameters
    ----------
    data : array
        The counts.

    Examples
    --------
    >>> import numpy as np
    >>> counts([0, 4, 4])(np.array([2.0, 4.0, 9.0])).round(3)
    array([2.   , 0.   , 1.874])
    """
    seen = _measured("data", data)
    if (seen < 0).any():
        raise ValueError(message("data", data, "counts, none of them negative"))

    def residuals(means: Array) -> Array:
        means = _beside(means, seen)
        share = np.divide(means - seen, seen, out=np.zeros_like(means), where=seen > 0)
        # t − log(1 + t) loses its digits near zero, where it is t²/2 − t³/3 + t⁴/4.
        near = np.abs(share) < 1e-3
        excess = np.where(near, 0.0, share - np.log1p(np.where(near, 0.0, share)))
        root = np.sqrt(np.maximum(2 * excess, 0.0)) * np.sign(share)
        series = share * np.sqrt(1 - share * (2 / 3 - share / 2))
        some = np.sqrt(seen) * np.where(near, series, root)
        return np.asarray(np.where(seen > 0, some, np.sqrt(2 * means)))

    return residuals


@dataclass(frozen=True)
class Uncertainty:
    """How well a fit determines its parameters, from the residuals' Jacobian at the minimum.

    Attributes
    ----------
    errors : array
        Standard errors, as the roots of the diagonal of ``curve_fit``'s ``pcov``: the residuals'
        own size says how large the noise is. Infinite for what the data do not determine.
    covariance, correlations : array
        Of the parameters.
    known_noise : array
        Standard errors if residuals have a standard deviation of one (``absolute_sigma=True``).
    words : str
        What the data cannot tell apart; empty if there is nothing.
    """

    errors: Array
    covariance: Array
    correlations: Array
    known_noise: Array
    words: str = ""

    def __str__(self) -> str:
        text = "standard errors " + ", ".join(f"{error:.3g}" for error in self.errors)
        return f"{text}. {self.words}".rstrip()


def uncertainty(jacobian: Array, loss: float, fixed: Any = False) -> Uncertainty:
    """Return standard errors and correlations from the residuals' Jacobian at a minimum.

    Parameters
    ----------
    jacobian : array of shape (m, d)
        Of the residuals.
    loss : float
        Half the sum of their squares.
    fixed : array of bool, optional
        Which parameters were not fitted: their errors are zero.

    Examples
    --------
    >>> import numpy as np
    >>> print(uncertainty(np.array([[1.0, 1.0], [1.0, 1.001], [1.0, 0.999]]), 0.5))
    standard errors 707, 707. The data hardly tell w[0] and w[1] apart (correlation -1.000).
    """
    m, d = jacobian.shape
    fixed = np.broadcast_to(fixed, d)
    size = np.linalg.norm(jacobian, axis=0)
    seen = size > 0
    _, s, rows = np.linalg.svd(jacobian / np.where(seen, size, 1.0), full_matrices=False)
    kept = s > rounding() * max(m, d) * s.max(initial=0.0)
    root = rows[kept].T / s[kept] / np.where(seen, size, 1.0)[:, None]
    covariance = root @ root.T
    # What lies along a direction that no residual sees is not determined at all.
    lost = np.sqrt((rows[~kept] ** 2).sum(axis=0)) + (~seen)
    loose = (lost > rounding(power=1 / 2)) & ~fixed
    d -= int(fixed.sum())
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = math.sqrt(2 * loss / (m - d)) if m > d else math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = covariance / np.outer(spread, spread)
        known = np.where(loose, math.inf, spread)
        errors = np.where(loose, math.inf, scale * spread)
        covariance = np.where(np.outer(loose, loose), math.inf, scale**2 * covariance)
    texts = []
    if loose.any():
        names = ", ".join(f"w[{j}]" for j in np.flatnonzero(loose))
        texts.append(f"The data do not determine {names}, or only a combination of them.")
    tied = np.argwhere(
        np.triu(np.abs(correlations) > CLOSE, 1) & ~np.logical_or.outer(loose, loose)
    )
    for i, j in tied[:3]:
        found = f"correlation {correlations[i, j]:.3f}"
        texts.append(f"The data hardly tell w[{i}] and w[{j}] apart ({found}).")
    return Uncertainty(errors, covariance, correlations, known, " ".join(texts))


# Correlations above this are named.
CLOSE = 0.98
