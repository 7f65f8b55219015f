"""When an inner solve is good enough: the paper's three inexactness rules, and plainer ones.

Rules compose: ``StronglyConvex(mu=1e-3) | Steps(100)`` stops at whichever comes first.
"""

from proxyprox.inner.base import (
    AllOf,
    AnyOf,
    Convex,
    Criterion,
    NonConvex,
    Progress,
    RandomSteps,
    Relative,
    Residual,
    SDane,
    Steps,
    StronglyConvex,
)

__all__ = [
    "AllOf", "AnyOf", "Convex", "Criterion", "NonConvex", "Progress", "RandomSteps", "Relative",
    "Residual", "SDane", "Steps", "StronglyConvex",
]  # fmt: skip
