"""The paper's statements as plain functions: guarantees, plans, step counts, comparisons.

==================================  ==========================================================
question                            function
==================================  ==========================================================
how large may η be?                 :func:`largest_step_size`
how accurate after K steps?         :func:`strongly_convex_guarantee`, :func:`convex_guarantee`,
                                    :func:`nonconvex_guarantee`
which η and K for accuracy ε?       :func:`plan_strongly_convex`, :func:`plan_convex`
how many inner steps?               :func:`inner_steps_sgd`,
                                    :func:`inner_steps_gradient_descent`,
                                    :func:`inner_steps_nesterov`
is it fewer than SGD, than any?     ``sgd_steps_*``, ``proxyprox_steps_*``, ``lower_bound_*``,
                                    ``similarity_threshold_*``
what does it cost in computation?   :func:`total_work`
==================================  ==========================================================

Where a printed constant does not follow from its proof, the function gives the one that does
and its docstring says so.
"""

from proxyprox.theory.complexity import (
    Work,
    inner_steps_gradient_descent,
    inner_steps_nesterov,
    inner_steps_sgd,
    lower_bound_convex,
    lower_bound_strongly_convex,
    proxyprox_steps_convex,
    proxyprox_steps_strongly_convex,
    sgd_steps_convex,
    sgd_steps_strongly_convex,
    similarity_threshold_convex,
    similarity_threshold_strongly_convex,
    total_work,
)
from proxyprox.theory.guarantees import (
    convex_guarantee,
    convex_regularization,
    largest_step_size,
    nonconvex_guarantee,
    nonconvex_guarantee_as_printed,
    nonconvex_noise_factor,
    strongly_convex_guarantee,
)
from proxyprox.theory.plans import Plan, plan_convex, plan_strongly_convex

__all__ = [
    "Plan",
    "Work",
    "convex_guarantee",
    "convex_regularization",
    "inner_steps_gradient_descent",
    "inner_steps_nesterov",
    "inner_steps_sgd",
    "largest_step_size",
    "lower_bound_convex",
    "lower_bound_strongly_convex",
    "nonconvex_guarantee",
    "nonconvex_guarantee_as_printed",
    "nonconvex_noise_factor",
    "plan_convex",
    "plan_strongly_convex",
    "proxyprox_steps_convex",
    "proxyprox_steps_strongly_convex",
    "sgd_steps_convex",
    "sgd_steps_strongly_convex",
    "similarity_threshold_convex",
    "similarity_threshold_strongly_convex",
    "strongly_convex_guarantee",
    "total_work",
]
