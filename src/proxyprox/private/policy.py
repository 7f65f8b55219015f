"""What the private estimators judge by: nothing of it is tuned on the rows at hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PrivatePolicy:
    """How a private fit is planned.

    Set on synthetic tables, see docs/results/private/about.json and its note, except if an entry
    says "no record: a judgement".

    Attributes
    ----------
    clip, clip_range : float, tuple of float
        C is ``clip·r^(−1/6)`` within the range, for a ratio r of the privacy noise's variance to
        that of sampling, in units of the root mean square of public rows' whitened gradients.
    releases : int
        Gradients that are released; their number costs nothing, as their mean counts.
    damping : float
        The least that is added to the metric's Hessian.
    moments : float
        Share of μ² for the second moments of private columns, if public rows may differ or if
        there are none.
    proximal : float
        1/η of the proximal term.
    prior : float
        The variance of a coefficient that is expected if there are no public labels, for rows of
        length one.
    early : float
        The proximal term of first steps in units of that prior's penalty, where the mean gradient
        is noisier than it will be.
    resolved : float
        All products of columns are bought if noise hides no direction that holds this share of
        rows' squared lengths, else means and squares alone.
    extra_curvature : float
        Curvature added for a second moment that public rows lack, over its expected size.
    tail : float
        Share of a public column's entries, at each end, at which private ones are cut.
    strengths : tuple of float
        L2 strengths that cross-validation on public rows tries.
    surprise : float
        Differences are believed to be another population's if their length has a probability
        below ``exp(−surprise)``: each release is another look, and most looks are of noise.
    clear : float
        Standard deviations by which second moments must exceed what public rows have.
    count : float
        Share of μ² for the noisy number of rows.
    sure_count, far_count : float
        Standard deviations by which that number must differ from n_nominal to take its place, and
        the factor from which on n_nominal is called far off. No record: a judgement.
    worth : float
        Share of the public rows that private ones must count for to be expected to pay. No
        record: a judgement.
    """

    clip: float = 1.1
    clip_range: tuple[float, float] = (0.75, 4.0)
    releases: int = 30
    damping: float = 3e-4
    moments: float = 0.05
    proximal: float = 3e-4
    prior: float = 2.0
    early: float = 3.0
    resolved: float = 0.1
    extra_curvature: float = 4.0
    tail: float = 0.005
    strengths: tuple[float, ...] = tuple(np.geomspace(1e-6, 1e-1, 11).tolist())
    surprise: float = 8.0
    clear: float = 3.0
    count: float = 0.01
    sure_count: float = 3.0
    far_count: float = 2.5
    worth: float = 0.25

    def clip_units(self, noise: float, *, labelled: bool) -> float:
        """Return C in units of the usual length of a row's gradient.

        Parameters
        ----------
        noise : float
            ``tr H(H + λ)⁻¹/(μ²n)``: the variance of the privacy noise over that of sampling, for
            a clip of one.
        labelled : bool
            Whether public rows have labels. If not, gradients at the start are the longest.
        """
        low, high = self.clip_range
        return float(np.clip(self.clip * noise ** (-1 / 6), low if labelled else 1.0, high))


PRIVATE = PrivatePolicy()
