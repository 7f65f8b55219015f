"""PAGE and SAGA as methods of one's own: estimates of ∇L without a noise floor, for finite sums.

SVRP is ahead of PAGE in the record (docs/results/no_floor), whose guarantee needs no convexity;
SAGA never takes a full gradient, and is ahead where batches are few in a pass.
"""

from dataclasses import dataclass
from typing import Any

import proxyprox as pp


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
