"""A proxy that has a proxy of its own: ``Problem(fine, Problem(medium, coarse))``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import Words, has, message
from proxyprox.problems.identity import combined_fingerprint
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Facts


class Ladder:
    """The medium model of a problem, as the proxy of a finer one.

    Its subproblems are solved as the problem would be: with few gradients of the medium model, by
    leaning on the coarse one. If a Hessian is asked for, it is the coarse one's, corrected by the
    changes of the medium gradients that are known already.

    Parameters
    ----------
    problem : Problem
        The medium model, whose gradients are exact, and its proxy.
    """

    def __init__(self, problem: Any) -> None:
        medium, self.coarse = problem.objective, problem.proxy
        exact = getattr(medium, "exact", False) or has(medium, "everything")
        if not (exact and has(medium, "value")) or problem.penalty is not None:
            got = Words(f"a Problem of a {type(medium).__name__}")
            allowed = "one whose objective has values and full gradients, without a penalty"
            raise TypeError(message("proxy", got, allowed, "Give penalty and bounds to the outer."))
        self.medium, self.dim, self.value = medium, problem.dim, medium.value
        for name in ("hvp", "smoothness", "strong_convexity", "cost", "evaluations"):
            if getattr(medium, name, None) is not None:
                setattr(self, name, getattr(medium, name))
        self.levels = (medium, *(facts_of(self.coarse).levels or (self.coarse,)))

    def gradient(self, w: Vector) -> Vector:
        """Return the medium model's gradient."""
        medium = self.medium
        batch = medium.everything() if has(medium, "everything") else None
        answer: Vector = medium.gradient(w, batch)
        return answer

    @property
    def facts(self) -> Facts:
        """What is known of the medium model, and its helper."""
        known = replace(facts_of(self.medium), work=None, sampled_hessian=None, rows=None)
        return replace(known, helper=self.coarse, levels=self.levels)

    def fingerprint(self) -> str | None:
        """Return a text that only equal ladders share."""
        return combined_fingerprint("ladder", self.levels)
