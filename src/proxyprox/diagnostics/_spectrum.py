"""What is known of a symmetric operator's spectrum: values met, and limits beyond them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from proxyprox.diagnostics._lanczos import Krylov, spectrum_limits


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues or Ritz values, with limits that hold at the confidence asked for.

    Attributes
    ----------
    values : array
        Eigenvalues (all of them when the operator was seen in full) or Ritz values, ascending.
    below, above : float
        Limits below the smallest and above the largest eigenvalue.
    error : float
        Largest error of the operator itself, to be added on either side.
    """

    values: np.ndarray[Any, Any]
    below: float
    above: float
    error: float = 0.0

    def with_error(self, error: float) -> Spectrum:
        """Return the spectrum of an operator known up to a norm of ``error``."""
        return replace(self, error=error)


def spectrum_of_matrix(matrix: np.ndarray[Any, Any], error: float = 0.0) -> Spectrum:
    """Return the spectrum of a symmetric matrix: nothing to guess."""
    values = np.linalg.eigvalsh(matrix)
    return Spectrum(values, float(values[0]), float(values[-1]), error)


def spectrum_of_space(space: Krylov, size: int, failure: float, error: float = 0.0) -> Spectrum:
    """Return what a Krylov space from a random start tells of a spectrum of ``size`` values."""
    below, above = spectrum_limits(space, size, failure)
    return Spectrum(space.ritz, below, above, error)
