"""SVRP, PAGE and SAGA as methods of one's own: estimates of ∇L without a noise floor.

They are for finite sums and many passes. A batch's gradient is noisy at w*: a constant η leaves a
floor of order ησ². These use batches for *changes* of the gradient only, which vanish as the
iterates settle. SVRP is ahead of PAGE in the record (docs/results/no_floor), whose guarantee needs
no convexity; SAGA never takes a full gradient, and is ahead where batches are few in a pass.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import proxyprox as pp


@dataclass(frozen=True)
class SVRPState(pp.methods.State):
    """The iterate, the reference with loss and full gradient, η, and what is asked next.

    ``calm`` tells that no step was taken back since the reference before.
    """

    point: Any = None
    gradient: Any = None
    value: float | None = None
    everything: bool = True
    p: float = 0.0
    samples: int = 1
    eta: float | None = None
    calm: bool = True


@dataclass(frozen=True)
class SVRP(pp.Method):
    """``g_k = g_B(w_k) − g_B(w̃) + ∇L(w̃)``; w̃ becomes w_k with probability p.

    Khaled and Jin, ICLR 2023; with one fixed proxy it is SVRS (Lin, Han, Ye and Zhang, NeurIPS
    2023). ``η ≤ min{1/(2δ), √p/(4 δ_B)}`` for the guarantee in docs/proofs.md, far more in
    practice. Without ``p`` it is the batch's share of the data.

    Without ``eta`` it is measured: it begins with 10/H of the proxy, is halved if the loss seems to
    have grown since w̃, to which the run then returns, and is four times as long after a reference
    since which that never happened. So L(w̃) never grows, for convex L if values are not known; no
    rate is proven. It takes no penalty then: with one the gradient does not vanish at the minimum.
    """

    eta: Any = None
    p: float | None = None

    needs = ("everything",)
    two_points = True

    def init(self, w0, problem):
        if self.eta is None and problem.penalty is not None:
            raise ValueError("eta must be a number if there is a penalty")
        if self.p is not None:
            return SVRPState(w0, p=self.p)
        rows = problem.objective
        return SVRPState(w0, samples=int(rows.samples(rows.everything())))

    def ask(self, state):
        if state.everything:
            return pp.methods.Request((state.w,), everything=True, value=self.eta is None)
        return pp.methods.Request((state.w, state.point))

    def tell(self, state, answers, step):
        estimate, *others = answers.gradients
        if others:
            estimate = estimate - others[0] + state.gradient
        if self.eta is None:
            state, estimate = self.review(state, estimate, answers, step)
        linear = estimate - step.proxy.gradient(state.w)
        w = step.solve(linear=linear, centre=state.w, eta=state.eta)
        point, gradient = (state.point, state.gradient) if others else (state.w, estimate)
        p = state.p
        if others and self.p is None:
            p = min(1.0, len(answers.batch) / state.samples)
        return replace(
            state, w=w, k=state.k + 1, point=point, gradient=gradient, p=p,
            everything=bool(step.rng.random() < p),
        )  # fmt: skip

    def review(self, state, estimate, answers, step):
        """Return to the reference, with half of η, if the loss seems to have grown."""
        if state.eta is None:
            return replace(state, eta=10 / step.proxy.smoothness, value=answers.value), estimate
        full, away, known = len(answers.gradients) == 1, state.w - state.point, state.gradient
        if not full:
            # The trapezoidal rule for L(w_k) − L(w̃), with noise of mean zero.
            grown = np.linalg.norm(estimate) > 2 * np.linalg.norm(known)
            grown = grown or (known + estimate) @ away > 0
        elif answers.value is None:
            # For convex L this is at least L(w_k) − L(w̃).
            grown = estimate @ away > 0
        else:
            grown = answers.value > state.value
        if grown:
            return replace(state, w=state.point, eta=state.eta / 2, calm=False), known
        if full:
            eta = 4 * state.eta if state.calm else state.eta
            state = replace(state, eta=eta, calm=True, value=answers.value)
        return state, estimate


@dataclass(frozen=True)
class PAGEState(pp.methods.State):
    """The iterate, the one before, the estimate of ∇L there, and whether all rows come next."""

    before: Any = None
    gradient: Any = None
    everything: bool = True


@dataclass(frozen=True)
class PAGE(pp.Method):
    """``g_k = ∇L(w_k)`` with probability p, else ``g_{k−1} + g_B(w_k) − g_B(w_{k−1})``.

    Li, Bao, Zhang and Richtárik, ICML 2021. ``η ≤ min{1/(4δ), √(p/(24(1 − p)))/δ_B}`` for
    the guarantee in docs/proofs.md.
    """

    eta: Any
    p: float

    needs = ("everything",)
    two_points = True

    def init(self, w0, problem):
        return PAGEState(w0)

    def ask(self, state):
        if state.everything:
            return pp.methods.Request((state.w,), everything=True)
        return pp.methods.Request((state.w, state.before))

    def tell(self, state, answers, step):
        gradient, *others = answers.gradients
        if others:
            gradient = gradient - others[0] + state.gradient
        w = step.solve(linear=gradient - step.proxy.gradient(state.w), centre=state.w)
        return PAGEState(w, state.k + 1, state.w, gradient, bool(step.rng.random() < self.p))


@dataclass(frozen=True)
class SAGAState(pp.methods.State):
    """The iterate, the newest ``∇f_i − ∇L̂`` of every row, and the mean of these."""

    table: Any = None
    mean: Any = None


@dataclass(frozen=True)
class SAGA(pp.Method):
    """``d_i − t_i + mean(t)`` in place of ``∇L − ∇L̂``, for batches of one row; t_i becomes d_i.

    Defazio, Bach and Lacoste-Julien, NeurIPS 2014. ``η ≤ min{1/(2δ), μ/(16 δ_B²)}`` for
    the guarantee in docs/proofs.md, far more in practice.
    """

    eta: Any

    needs = ("everything", "samples")

    def init(self, w0, problem):
        rows = problem.objective.samples(problem.objective.everything())
        return SAGAState(w0, 0, [0 * w0] * rows, 0 * w0)

    def tell(self, state, answers, step):
        # A batch of more than one row is an error here.
        (row,), (gradient,) = answers.batch, answers.gradients
        difference = gradient - step.proxy.gradient(state.w)
        change = difference - state.table[row]
        w = step.solve(linear=change + state.mean, centre=state.w)
        table = [difference if i == row else known for i, known in enumerate(state.table)]
        return SAGAState(w, state.k + 1, table, state.mean + change / len(table))
