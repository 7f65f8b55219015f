"""ProxyProx and its relatives: one corrected proximal step, several estimates of ∇L − ∇L̂.

SVRP is for finite sums and many passes. A batch's gradient is noisy at w*: a constant η leaves a
floor of order ησ². SVRP uses batches for *changes* of the gradient only, which vanish as the
iterates settle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, dot, norm
from proxyprox._util.validation import fraction, has, message, require_takes
from proxyprox.corrections import Correction, Plain
from proxyprox.methods.base import Answers, CorrectedMethod, Method, OuterStep, Request, State
from proxyprox.stepsizes.auto import AutoStep, as_step_size, fixed_step_size
from proxyprox.stepsizes.base import Constant, Eta, StepSize

PLAIN = Plain()
# A measured η: the first one in units of 1/H of the proxy, the factor after references at which all
# went well, and how much longer than the full gradient at the reference an estimate may be.
FIRST, GROW, SLACK = 10.0, 4.0, 2.0
# What is said of an η of SVRP that is refused.
LIMIT = "Left out, it is measured; the theory allows min{1/(2δ), √p/(4 δ_B)}."


@dataclass(frozen=True)
class ProxyProx(CorrectedMethod):
    r"""Algorithm 1 of the paper, with a choice of correction.

    .. math:: w_{k+1} \approx \arg\min_w\; \hat L(w)
              + \langle g_k - \nabla\hat L(w_k), w - w_k\rangle + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size η > 0, or a function of the outer step. The theory allows ``η ≤ 1/(4δ)``.
        "auto" measures it during the run, with 10 % more target gradients at no new samples; see
        :mod:`proxyprox.stepsizes.auto`. It is the default. With a correction other than the plain
        one it may be infinite, which leaves out the proximal term.
    correction : Correction
        How ``g_k − ∇L̂(w_k)`` is estimated; :class:`~proxyprox.corrections.Plain` is the paper's.
        With ``eta="auto"`` the plain correction becomes a mean of all differences, weighed by
        their expected errors; ``EMA(1.0)`` keeps the newest alone.

    Notes
    -----
    AuxMom is ``ProxyProx(math.inf, EMA(a))`` with ``inner=GradientDescent(γ)`` and
    ``stop=Steps(20)``; AuxMVR has ``Storm(a)`` in place of ``EMA(a)``.

    References
    ----------
    Woodworth, Mishchenko and Bach, "Two Losses Are Better Than One: Faster Optimization Using a
    Cheaper Proxy", ICML 2023; Chayti and Karimireddy, "Optimization with access to auxiliary
    information", for AuxMom and AuxMVR.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, minimize
    >>> target = Quadratic(np.diag([1.0, 100.0]), b=np.array([-1.0, -1.0]))
    >>> proxy = Quadratic(np.diag([1.0, 99.0]))
    >>> result = minimize(Problem(target, proxy), method=ProxyProx(eta=0.25), steps=100)
    >>> result.w.round(6)
    array([1.  , 0.01])
    """

    eta: Eta = "auto"
    correction: Correction = PLAIN

    def __post_init__(self) -> None:
        """Check η and the correction."""
        super().__post_init__()
        if isinstance(self.correction, type) or not hasattr(self.correction, "two_points"):
            allowed = "a correction, such as Plain() or EMA(0.1)"
            remedy = "Your own has two_points and __call__(difference, before, memory, k)."
            raise TypeError(message("correction", self.correction, allowed, remedy))
        require_takes("correction", self.correction, ("difference", "before", "memory", "k"))


@dataclass(frozen=True)
class DANE(CorrectedMethod):
    r"""Full-gradient use of the proxy, as between one machine and the average of all.

    .. math:: w_{k+1} = \arg\min_w\; \hat L(w)
              + \langle \nabla L(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size; DANE's regularisation is 1/η. Infinite, DANE's default, means none.

    References
    ----------
    Shamir, Srebro and Zhang, "Communication-efficient distributed optimization using an
    approximate Newton-type method".
    """

    eta: Eta = math.inf

    correction: ClassVar[Plain] = PLAIN  # type: ignore[misc]
    exact: ClassVar[bool] = True

    def models_target(self, problem: Any) -> bool:
        """Tell whether L − L̂ is known to be linear: then ∇φ is ∇L."""
        return bool(problem.same_curvature)


@dataclass(frozen=True)
class SVRPState(State):
    """The iterate, the reference, the full gradient there, and what is asked next.

    ``value`` is the loss at the reference. If η is measured, ``eta`` is its value and ``calm``
    tells that no step was taken back with it.
    """

    point: Vector | None = None
    gradient: Vector | None = None
    everything: bool = True
    p: float = 0.0
    samples: int = 0
    eta: float | None = None
    calm: bool = True
    value: float | None = None


@dataclass(frozen=True)
class SVRP(Method):
    r"""ProxyProx with the variance-reduced gradient of SVRG, for finite sums.

    .. math:: g_k = g_B(w_k) - g_B(\tilde w) + \nabla L(\tilde w), \qquad
              w_{k+1} \approx \arg\min_w\; \hat L(w) + \langle g_k - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    Before each step the reference :math:`\tilde w` becomes w_k with probability p, and g_k the full
    gradient. There is no σ² floor: docs/proofs.md has the guarantee.

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
    p: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("everything",)
    two_points: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        """Check η and p."""
        self.step_size  # noqa: B018  checks η
        if self.p is not None:
            fraction("p", self.p)

    @property
    def measured(self) -> bool:
        """Whether η is found on the way."""
        return isinstance(as_step_size(self.eta, remedy=LIMIT), AutoStep)

    @property
    def step_size(self) -> StepSize:
        """The rule that ``eta`` stands for; where it is measured, each step passes its own."""
        return Constant(math.nan) if self.measured else fixed_step_size(self.eta, LIMIT, LIMIT)

    def init(self, w0: Vector, problem: Any) -> SVRPState:
        """Start at w0, where the full gradient is asked for."""
        if self.measured and problem.penalty is not None:
            remedy = "With a penalty the gradient does not vanish at the minimum."
            raise ValueError(message("eta", self.eta, "a number if there is a penalty", remedy))
        if self.p is not None:
            return SVRPState(w0, p=self.p)
        count = getattr(problem.objective, "samples", None)
        if count is None:
            remedy = "Give a number in (0, 1], or an objective with samples(batch)."
            raise ValueError(message("p", None, "given where samples are not counted", remedy))
        return SVRPState(w0, samples=int(count(problem.objective.everything())))

    def ask(self, state: SVRPState) -> Request:
        """Ask for everything at w_k, or for a batch at w_k and at the reference."""
        if state.everything or state.point is None:
            return Request((state.w,), everything=True, value=self.measured)
        return Request((state.w, state.point))

    def tell(self, state: SVRPState, answers: Answers, step: OuterStep) -> SVRPState:
        """Take the step with the estimate ``g_B(w_k) − g_B(w̃) + ∇L(w̃)``."""
        estimate, *others = answers.gradients
        if others:
            estimate = estimate - others[0] + state.gradient
        if self.measured:
            state, estimate = self._review(state, estimate, answers, step)
        linear = estimate - step.proxy.gradient(state.w)
        w = step.solve(linear=linear, centre=state.w, eta=state.eta)
        point, gradient = (state.point, state.gradient) if others else (state.w, estimate)
        p = state.p
        if others and self.p is None:
            rows = len(answers.batch) if hasattr(answers.batch, "__len__") else 1
            p = min(1.0, rows / state.samples)
        renew = bool(step.rng.random() < p)
        return replace(
            state, w=w, k=state.k + 1, point=point, gradient=gradient, everything=renew, p=p
        )

    def _review(
        self, state: SVRPState, estimate: Vector, answers: Answers, step: OuterStep
    ) -> tuple[SVRPState, Vector]:
        """Return to the reference, with half of η, if the loss seems to have grown."""
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
