"""The paper's statements as plain functions: guarantees, plans, step counts, comparisons.

==================================  ==========================================================
question                            function
==================================  ==========================================================
how large may η be?                 :func:`largest_step_size`
how accurate after K steps?         :func:`guarantee`, :func:`nonconvex_guarantee`
which η and K for accuracy ε?       :func:`plan_run`, the paper's :func:`corollary_plan`
how many rounds if σ = 0?           :func:`exact_rounds`
when are they fewer than any?       :func:`similarity_threshold`
==================================  ==========================================================

``mu=0``, the default where it has one, asks for convex losses, a positive ``mu`` for strongly
convex ones. If a printed constant does not follow from its proof, the function gives the one
that does and its docstring says so.
"""

from proxyprox.theory.complexity import exact_rounds, similarity_threshold
from proxyprox.theory.guarantees import (
    Plan,
    corollary_plan,
    guarantee,
    largest_step_size,
    nonconvex_guarantee,
    plan_run,
)

__all__ = [
    "Plan", "corollary_plan", "exact_rounds", "guarantee", "largest_step_size",
    "nonconvex_guarantee", "plan_run", "similarity_threshold",
]  # fmt: skip
