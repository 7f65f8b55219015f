"""δ, the similarity: the largest absolute eigenvalue of the Hessians' difference."""

from __future__ import annotations

from proxyprox.diagnostics._spectrum import Spectrum
from proxyprox.diagnostics.interval import Interval


def similarity(difference: Spectrum) -> Interval:
    r"""Return δ from the spectrum of ``∇²L − s∇²L̂``.

    .. math:: \delta = \max(|\lambda_{\min}|, |\lambda_{\max}|)

    Ritz values never exceed it, which gives the lower limit; the upper one is the limit of the
    random-start Lanczos bound, or nothing but rounding when the operator was seen in full.

    Parameters
    ----------
    difference : Spectrum
        The spectrum of the difference at one point.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.diagnostics._spectrum import spectrum_of_matrix
    >>> print(similarity(spectrum_of_matrix(np.diag([-3.0, 1.0]))))
    3 [3, 3]
    """
    met = max(abs(float(difference.values[0])), abs(float(difference.values[-1])))
    limit = max(abs(difference.below), abs(difference.above))
    return Interval(met, max(met - difference.error, 0.0), limit + difference.error)
