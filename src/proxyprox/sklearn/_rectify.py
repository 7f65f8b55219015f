"""What the labelled rows say about a mean prediction's error."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyprox import GLM

WRONG = 2.0
"""Wrong answers that a classifier is taken to give on the labelled rows at least."""

Array = Any


def rectifier_of(residuals: Array, loss: GLM) -> Array:
    """Return mean and standard error of the residuals, one column each.

    A classifier that has every label right leaves residuals that hardly vary, though it errs on
    rows like them: few labels do not show errors that are rare. The spread is therefore never
    taken to be less than two wrong answers would make it, as Agresti and Coull (1998) add two
    failures and two successes to a proportion before they draw its interval.

    Parameters
    ----------
    residuals : array of shape (n, C)
        Labels less predictions, held-out ones where there are.
    loss : GLM
        The labelled rows.
    """
    weights = loss.sample_weight
    share = weights / weights.sum()
    mean = share @ residuals
    n = len(weights)
    spread = share**2 @ (residuals - mean) ** 2
    if hasattr(loss.family, "classes"):
        # NaN where the labels were too few to hold any out stays NaN.
        spread = np.maximum(spread, WRONG * float(share @ share) ** 2)
    return np.stack([mean, np.sqrt(spread * (n / max(n - 1, 1)))], axis=1)
