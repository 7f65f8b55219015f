"""Finite sums, many passes: estimates of ∇L whose noise vanishes at the minimiser.

A batch's gradient is noisy at w*: a constant η leaves a floor of order ησ². The methods here
use batches for *changes* of the gradient only, which vanish as the iterates settle, and take the
step of ProxyProx with that estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, dot, norm
from proxyprox._util.validation import Words, fraction, has, message
from proxyprox.methods.base import Answers, Method, OuterStep, Request
from proxyprox.problems.problem import facts_of
from proxyprox.stepsizes.auto import AutoStep, as_step_size, fixed_step_size
from proxyprox.stepsizes.base import Constant, Eta, StepSize

# A measured η: the first one in units of 1/H of the proxy, the factor after references at which all
# went well, and how much longer than the full gradient at the reference an estimate may be.
FIRST, GROW, SLACK = 10.0, 4.0, 2.0
# Why a measured η is refused.
RAW = "A measured η would shrink with the noise of the raw batches. SVRP has its own."


def count_samples(objective: Any, name: str) -> int:
    """Return the number n of samples of a finite sum; ``name`` is the argument that needs it."""
    count = getattr(objective, "samples", None)
    if count is None:
        remedy = "Give a number in (0, 1], or an objective with samples(batch)."
        raise ValueError(message(name, None, "given where samples are not counted", remedy))
    return int(count(objective.everything()))


@dataclass(frozen=True)
class RenewedState:
    """The iterate, the point to compare with, the estimate of ∇L there, and what is asked next."""

    w: Vector
    k: int = 0
    point: Vector | None = None
    gradient: Vector | None = None
    everything: bool = True
    p: float = 0.0
    samples: int = 0
    # Of an η that is measured: its value, and whether no step was taken back with it.
    eta: float | None = None
    calm: bool = True
    value: float | None = None


@dataclass(frozen=True)
class RenewedMethod(Method):
    """Full gradients with probability p, in between changes on one batch; abstract."""

    eta: Eta
    p: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("everything",)
    two_points: ClassVar[bool] = True  # type: ignore[misc]
    # What is said of an η that is refused.
    limit: ClassVar[str]

    def __post_init__(self) -> None:
        """Check η and p."""
        self.step_size  # noqa: B018  checks η
        if self.p is not None:
            fraction("p", self.p)

    @property
    def step_size(self) -> StepSize:
        """The rule that ``eta`` stands for."""
        return fixed_step_size(self.eta, self.limit, RAW)

    def init(self, w0: Vector, problem: Any) -> RenewedState:
        """Start at w0, where the full gradient is asked for."""
        if self.p is not None:
            return RenewedState(w0, p=self.p)
        return RenewedState(w0, samples=count_samples(problem.objective, "p"))

    def ask(self, state: RenewedState) -> Request:
        """Ask for everything at w_k, or for a batch at w_k and at the point to compare with."""
        if state.everything or state.point is None:
            return Request((state.w,), everything=True)
        return Request((state.w, state.point))

    def tell(self, state: RenewedState, answers: Answers, step: OuterStep) -> RenewedState:
        """Take the step with the estimate ``g_B(w_k) − g_B(point) + gradient``."""
        estimate, *others = answers.gradients
        if others:
            estimate = estimate - others[0] + state.gradient
        state, estimate = self.review(state, estimate, answers, step)
        linear = estimate - step.proxy.gradient(state.w)
        w = step.solve(linear=linear, centre=state.w, eta=state.eta)
        point, gradient = self.compare_next(state, estimate) if others else (state.w, estimate)
        p = state.p
        if others and self.p is None:
            rows = len(answers.batch) if hasattr(answers.batch, "__len__") else 1
            p = min(1.0, rows / state.samples)
        renew = bool(step.rng.random() < p)
        return replace(
            state, w=w, k=state.k + 1, point=point, gradient=gradient, everything=renew, p=p
        )

    def review(
        self, state: RenewedState, estimate: Vector, answers: Answers, step: OuterStep
    ) -> tuple[RenewedState, Vector]:
        """Return where the step starts and with which estimate; by default as asked."""
        return state, estimate

    def compare_next(self, state: RenewedState, estimate: Vector) -> tuple[Any, Any]:
        """Return the point that the next batch is compared at, and the estimate of ∇L there."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} must define compare_next(state, estimate)")


@dataclass(frozen=True)
class SVRP(RenewedMethod):
    r"""ProxyProx with the variance-reduced gradient of SVRG, for finite sums.

    .. math:: g_k = g_B(w_k) - g_B(\tilde w) + \nabla L(\tilde w), \qquad
              w_{k+1} \approx \arg\min_w\; \hat L(w) + \langle g_k - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    Before each step the reference :math:`\tilde w` becomes w_k with probability p, and g_k the full
    gradient. There is no σ² floor: :func:`proxyprox.theory.svrp_guarantee`.

    Parameters
    ----------
    eta : float, callable or "auto"
        Step size η > 0, or a function of the outer step; at most ``min{1/(2δ), √p/(4 δ_B)}`` for
        the guarantee, where ``E‖∇h_B(u) − ∇h_B(v)‖² ≤ δ_B²‖u − v‖²``; far more is often better.
        "auto", the default, begins with 10/H of the proxy. It returns to :math:`\tilde w`, whose
        full gradient is known, with half of η when the estimates tell that L has grown since
        (``‖g_k‖ > 2‖∇L(w̃)‖``, or ``⟨∇L(w̃) + g_k, w_k − w̃⟩ > 0``), and when L at a new reference is
        above that at the last (where values are not known: ``⟨∇L(w_k), w_k − w̃⟩ > 0``); η
        quadruples after a reference since which no step was taken back. So L(w̃) never grows, for
        convex L where values are not known; no rate is proven. It takes no penalty.
    p : float, optional
        Probability of a full gradient, in (0, 1]; by default the batch's share of the data, known
        from the first batch on, so that full gradients cost half as much as batches.

    Notes
    -----
    A step without a full gradient costs two target gradients of one batch. SVRP as published takes
    the proximal step on the sampled loss; with one fixed proxy, as here, it is SVRS.

    References
    ----------
    Khaled and Jin, "Faster federated optimization under second-order similarity", ICLR 2023 (SVRP);
    Lin, Han, Ye and Zhang, "Stochastic distributed optimization under average second-order
    similarity: algorithms and analysis", NeurIPS 2023 (SVRS).

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import SVRP, Problem, logistic_regression, minimize
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X.sum(1) + rng.normal(size=200) > 0
    >>> target = logistic_regression(X, y, l2=0.1, batch_size=10)
    >>> problem = Problem(target, target.label_free())
    >>> result = minimize(problem, method=SVRP(), steps=200, rng=0)
    >>> bool(np.linalg.norm(target.gradient(result.w)) < 1e-5)
    True
    """

    eta: Eta = "auto"

    limit: ClassVar[str] = "Left out, it is measured; the theory allows min{1/(2δ), √p/(4 δ_B)}."

    @property
    def measured(self) -> bool:
        """Whether η is found on the way."""
        return isinstance(as_step_size(self.eta, remedy=self.limit), AutoStep)

    @property
    def step_size(self) -> StepSize:
        """The rule that ``eta`` stands for; where it is measured, each step passes its own."""
        if self.measured:
            return Constant(math.nan)
        return fixed_step_size(self.eta, self.limit, RAW)

    def init(self, w0: Vector, problem: Any) -> RenewedState:
        """Start at w0, where the full gradient is asked for."""
        if self.measured and problem.penalty is not None:
            remedy = "With a penalty the gradient does not vanish at the minimum."
            raise ValueError(message("eta", self.eta, "a number if there is a penalty", remedy))
        return super().init(w0, problem)

    def ask(self, state: RenewedState) -> Request:
        """Ask as any such method; a measured η can use the loss at a new reference."""
        request = super().ask(state)
        return replace(request, value=request.everything and self.measured)

    def compare_next(self, state: RenewedState, estimate: Vector) -> tuple[Any, Any]:
        """Keep the reference."""
        return state.point, state.gradient

    def review(
        self, state: RenewedState, estimate: Vector, answers: Answers, step: OuterStep
    ) -> tuple[RenewedState, Vector]:
        """Return to the reference, with half of a measured η, if the loss seems to have grown."""
        if not self.measured:
            return state, estimate
        value, known = answers.value, state.gradient
        if known is None or state.eta is None:
            eta = _first_step_size(state.w, estimate, step.proxy)
            return replace(state, eta=eta, value=value), estimate
        full, away = len(answers.gradients) == 1, state.w - state.point
        if not full:
            # The trapezoidal rule for L(w_k) − L(w̃), with noise of mean zero.
            rose = norm(estimate) > SLACK * norm(known) or dot(known + estimate, away) > 0
        elif value is None or state.value is None:
            # For convex L this is at least L(w_k) − L(w̃).
            rose = dot(estimate, away) > 0
        else:
            rose = value > state.value
        if rose:
            return replace(state, w=state.point, eta=state.eta / 2, calm=False), known
        if full:
            eta = GROW * state.eta if state.calm else state.eta
            state = replace(state, eta=eta, calm=True, value=value)
        return state, estimate


def _first_step_size(w: Vector, gradient: Vector, proxy: Any) -> float:
    """Return 10/H, or η for a step without a proxy as long as w where H is not known."""
    if has(proxy, "smoothness") and proxy.smoothness > 0:
        return float(FIRST / proxy.smoothness)
    size = norm(gradient)
    return max(1.0, norm(w)) / size if size > 0 else 1.0


@dataclass(frozen=True)
class PAGE(RenewedMethod):
    r"""ProxyProx with PAGE's recursive gradient, for finite sums, convex or not.

    .. math:: g_k = \nabla L(w_k) \text{ with probability } p, \text{ else }
              g_{k-1} + g_B(w_k) - g_B(w_{k-1})

    and the proximal step on the proxy with that :math:`g_k`. There is no σ² floor:
    :func:`proxyprox.theory.page_guarantee`.

    Parameters
    ----------
    eta : float or callable
        Step size η > 0, or a function of the outer step; at most
        ``min{1/(4δ), √(p/(24(1 − p)))/δ_B}`` for the guarantee. "auto" is refused: it would shrink
        with the noise of the raw batches, which is removed here.
    p : float, optional
        Probability of a full gradient, in (0, 1]; by default the batch's share of the data.

    References
    ----------
    Li, Bao, Zhang and Richtárik, "PAGE: a simple and optimal probabilistic gradient estimator for
    nonconvex optimization", ICML 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, linear_regression, minimize
    >>> from proxyprox.methods import PAGE
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> target = linear_regression(X, X.sum(1) + np.sin(9 * X[:, 0]), batch_size=5)
    >>> problem = Problem(target, target.subsample(30, rng=0))
    >>> result = minimize(problem, method=PAGE(eta=0.3), steps=300, rng=0)
    >>> bool(np.linalg.norm(target.gradient(result.w)) < 1e-5)
    True
    """

    limit: ClassVar[str] = "The theory allows eta up to min{1/(4δ), √(p/(24(1 − p)))/δ_B}."

    def compare_next(self, state: RenewedState, estimate: Vector) -> tuple[Any, Any]:
        """Go on from the newest estimate."""
        return state.w, estimate


@dataclass(frozen=True)
class SAGAState:
    """The iterate, the newest difference ``∇f_i − ∇L̂`` of every row, and the mean of these."""

    w: Vector
    table: list[Vector]
    mean: Vector
    k: int = 0


@dataclass(frozen=True)
class SAGA(Method):
    r"""ProxyProx with SAGA's table, for batches of one row: never a full gradient.

    .. math:: m_k = d_i - t_i + \frac1n\sum_j t_j, \qquad t_i \leftarrow d_i
              = \nabla f_i(w_k) - \nabla\hat L(w_k), \qquad
              w_{k+1} \approx \arg\min_w\; \hat L(w) + \langle m_k, w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    The table holds differences, not gradients: where the proxy is good they age slowly. It starts
    at zero and takes n vectors of memory. There is no σ² floor:
    :func:`proxyprox.theory.saga_guarantee`.

    Parameters
    ----------
    eta : float or callable
        Step size η > 0, or a function of the outer step; at most ``min{1/(2δ), μ/(16 δ_B²)}`` for
        the guarantee, far more in practice. "auto" is refused, as for :class:`PAGE`.

    Notes
    -----
    A step costs one target gradient of one row. For batches of more rows, whose single gradients
    are not told apart, use :class:`SVRP` or :class:`PAGE`.

    References
    ----------
    Defazio, Bach and Lacoste-Julien, "SAGA: a fast incremental gradient method with support for
    non-strongly convex composite objectives", NeurIPS 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, linear_regression, minimize
    >>> from proxyprox.methods import SAGA
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> target = linear_regression(X, X.sum(1) + np.sin(9 * X[:, 0]), batch_size=1)
    >>> problem = Problem(target, target.label_free())
    >>> result = minimize(problem, method=SAGA(eta=0.03), steps=900, rng=0)
    >>> bool(np.linalg.norm(target.gradient(result.w)) < 1e-5)
    True
    """

    eta: Eta

    needs: ClassVar[tuple[str, ...]] = ("everything", "samples")

    def __post_init__(self) -> None:
        """Check η."""
        limit = "The theory allows eta up to min{1/(2δ), μ/(16 δ_B²)}, practice far more."
        fixed_step_size(self.eta, limit, RAW)

    def init(self, w0: Vector, problem: Any) -> SAGAState:
        """Start at w0 with a table of zeros."""
        _require_one_row(facts_of(problem.objective).settings.get("batch_size", 1))
        return SAGAState(w0, [0 * w0] * count_samples(problem.objective, "objective"), 0 * w0)

    def tell(self, state: SAGAState, answers: Answers, step: OuterStep) -> SAGAState:
        """Take the step with the row's change, and enter its difference in the table."""
        _require_one_row(len(answers.batch) if hasattr(answers.batch, "__len__") else None)
        row, difference = int(answers.batch[0]), answers.gradients[0] - step.proxy.gradient(state.w)
        change = difference - state.table[row]
        w = step.solve(linear=change + state.mean, centre=state.w)
        # A new list, of the old vectors: a step that is undone finds the old one.
        table = state.table.copy()
        table[row] = difference
        return replace(
            state, w=w, table=table, mean=state.mean + change / len(table), k=state.k + 1
        )


def _require_one_row(rows: int | None) -> None:
    if rows != 1:
        got = Words("no list of rows" if rows is None else f"{rows} rows")
        remedy = "Set batch_size=1, or draw one row in sample; for more rows use SVRP or PAGE."
        raise ValueError(message("batches of SAGA", got, "of one row, [i]", remedy))
