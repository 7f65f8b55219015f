"""Is my proxy any good? Similarity, noise, a verdict and a plan, before anything is spent."""

from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.curvature import Segment, best_weights
from proxyprox.diagnostics.planner import Bill, RunPlan, WhatIf, plan
from proxyprox.diagnostics.rehearsal import Prediction, QuadraticModel, Rehearsal, rehearse
from proxyprox.diagnostics.report import Audit, CostRatio, PointAudit, Suggestion, Verdict
from proxyprox.diagnostics.rounds import RoundAudit
from proxyprox.diagnostics.sampling import noise_level
from proxyprox.intervals import Interval

__all__ = [
    "Audit",
    "Bill",
    "CostRatio",
    "Interval",
    "PointAudit",
    "Prediction",
    "QuadraticModel",
    "Rehearsal",
    "RoundAudit",
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
