"""H and μ: the largest and the smallest eigenvalue of the target's Hessian."""

from __future__ import annotations

from proxyprox.diagnostics._spectrum import Spectrum
from proxyprox.diagnostics.interval import Interval


def smoothness(target: Spectrum) -> Interval:
    """Return H, the largest eigenvalue of the target's Hessian at a point (never below 0).

    Parameters
    ----------
    target : Spectrum
        The spectrum of the target's Hessian.
    """
    met = float(target.values[-1])
    return Interval(met, met - target.error, target.above + target.error).at_least(0.0)


def strong_convexity(target: Spectrum, certified: float | None = None) -> Interval:
    """Return μ, the smallest eigenvalue of the target's Hessian at a point.

    Parameters
    ----------
    target : Spectrum
        The spectrum of the target's Hessian.
    certified : float, optional
        A lower limit the loss itself states; 0 for a loss known to be convex. Left out, μ may
        turn out negative: the loss is then not convex there.
    """
    met = float(target.values[0])
    found = Interval(met, target.below - target.error, met + target.error)
    # The stated limit is compared with computed eigenvalues: allow for their rounding.
    slack = target.error + 1e-12 * abs(target.above)
    # A limit that the measurement contradicts is not one: some losses say 0 for "unknown".
    known = certified is not None and found.high >= certified - slack
    return found.at_least(certified - slack) if known and certified is not None else found
