"""The paper's statements as plain functions: guarantees, plans, step counts, comparisons.

==================================  ==========================================================
question                            function
==================================  ==========================================================
how large may η be?                 :func:`largest_step_size`
how accurate after K steps?         :func:`guarantee`, :func:`nonconvex_guarantee`
the same, of its relatives?         :func:`svrp_guarantee`, :func:`saga_guarantee`,
                                    :func:`page_guarantee`
which η and K for accuracy ε?       :func:`plan_run`
which of them does the paper give?  :func:`corollary_plan`
how many rounds if σ = 0?           :func:`exact_rounds`
how many inner steps?               :func:`inner_steps_sgd`,
                                    :func:`inner_steps_gradient_descent`,
                                    :func:`inner_steps_nesterov`
is it fewer than SGD, than any?     :func:`sgd_steps`, :func:`proxyprox_steps`,
                                    :func:`lower_bound`, :func:`similarity_threshold`
==================================  ==========================================================

``mu=0``, the default where it has one, asks for convex losses, a positive ``mu`` for strongly
convex ones. If a printed constant does not follow from its proof, the function gives the one
that does and its docstring says so.
"""

from proxyprox.theory.complexity import (
    exact_rounds,
    inner_steps_gradient_descent,
    inner_steps_nesterov,
    inner_steps_sgd,
    lower_bound,
    proxyprox_steps,
    sgd_steps,
    similarity_threshold,
)
from proxyprox.theory.guarantees import (
    Plan,
    convex_regularization,
    corollary_plan,
    guarantee,
    largest_step_size,
    nonconvex_guarantee,
    page_guarantee,
    plan_run,
    saga_guarantee,
    svrp_guarantee,
)

__all__ = [
    "Plan", "convex_regularization", "corollary_plan", "exact_rounds", "guarantee",
    "inner_steps_gradient_descent", "inner_steps_nesterov", "inner_steps_sgd", "largest_step_size",
    "lower_bound", "nonconvex_guarantee", "page_guarantee", "plan_run",
    "proxyprox_steps", "saga_guarantee", "sgd_steps", "similarity_threshold", "svrp_guarantee",
]  # fmt: skip
