"""Is my proxy any good? Similarity, noise, a verdict and a plan, before anything is spent."""

from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.evidence import Segment
from proxyprox.diagnostics.planner import Bill, RunPlan, WhatIf, plan
from proxyprox.diagnostics.rehearsal import (
    Prediction,
    QuadraticModel,
    Rehearsal,
    best_weights,
    rehearse,
)
from proxyprox.diagnostics.report import Audit, CostRatio, PointAudit, Suggestion
from proxyprox.diagnostics.sampling import Interval, noise_level
from proxyprox.diagnostics.verdict import Verdict

__all__ = [
    "Audit",
    "Bill",
    "CostRatio",
    "Interval",
    "PointAudit",
    "Prediction",
    "QuadraticModel",
    "Rehearsal",
    "RunPlan",
    "Segment",
    "Suggestion",
    "Verdict",
    "WhatIf",
    "audit",
    "best_weights",
    "noise_level",
    "plan",
    "rehearse",
]
