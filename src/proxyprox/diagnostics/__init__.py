"""Is my proxy any good? Similarity, noise, a verdict and a plan, before anything is spent."""

from proxyprox.diagnostics._bill import Bill
from proxyprox.diagnostics._path import Segment
from proxyprox.diagnostics._report import Audit, CostRatio, PointAudit, Suggestion
from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.interval import Interval
from proxyprox.diagnostics.noise import noise_level
from proxyprox.diagnostics.planner import RunPlan, WhatIf, plan
from proxyprox.diagnostics.prediction import Prediction
from proxyprox.diagnostics.rehearsal import QuadraticModel, Rehearsal, rehearse
from proxyprox.diagnostics.scaling import best_weights
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
