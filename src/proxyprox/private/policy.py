"""What the private estimators judge by: nothing of it is tuned on the rows at hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Setting:
    """What a fit does, from public numbers.

    Attributes
    ----------
    name : str
        "robust", "same support", "no public labels" or "no public rows".
    releases : int
        Gradients that are released.
    clip : float
        C over the root mean square of public rows' whitened gradients.
    growth : float
        Differences weigh ``(k + 1)^growth`` in their mean.
    moments : float
        Share of μ² for the private second moments.
    """

    name: str
    releases: int
    clip: float
    growth: float = 0.0
    moments: float = 0.0


@dataclass(frozen=True)
class PrivatePolicy:
    """How a private fit is planned.

    Set on synthetic tables, see docs/results/private/about.json and its note, except if an entry
    says "no record: a judgement". With labels, for a ratio r of the privacy noise's variance to
    that of sampling: C = clip·r^(−1/6), releases·r^(−1/4) gradients, and the growth of their
    weights is −log₁₀ r − 1, each within its range.

    Attributes
    ----------
    clip, clip_range, releases, most_releases, most_growth
        The constants of those rules.
    damping : float
        The least that is added to the metric's Hessian.
    moments : float
        Share of μ² for the second moments of private columns, if public rows may differ.
    proximal : float
        1/η of the proximal term.
    rise : float
        The greatest rise of the public loss, in units of ``tr H(H + λ)⁻¹/m`` for m public rows: the
        best point for the population is expected to cost half of that. A fit that goes beyond is
        drawn back towards the public one.
    free_releases, blind_releases : int
        Gradients without public labels, and without public rows; the later half of the points is
        averaged.
    free_damping : float
        The damping there, in units of ``1/(μ√n)``.
    blind_moments, most_blind_moments : float
        Without public rows: the share of μ² for second moments, in units of columns times μ², and
        the greatest one.
    least_reach : float
        The least ``μ²n`` for which second moments are bought.
    stable : float
        The damping there over the largest eigenvalue that noise on second moments may hide.
    blind_rows : int
        Synthetic rows that are drawn.
    extra_curvature : float
        Curvature added for a second moment that public rows lack, over its expected size.
    tail : float
        Share of a public column's entries, at each end, at which private ones are cut.
    strengths : tuple of float
        L2 strengths that cross-validation on public rows tries.
    clear : float
        Standard deviations by which differences must be longer than public rows explain.
    count : float
        Share of μ² for the noisy number of rows.
    sure_count, known_count, far_count : float
        Standard deviations by which that number must differ from n_nominal to take its place,
        those that it must at least have, and the factor from which on n_nominal is called far
        off. No record: a judgement.
    worth : float
        Share of the public rows that private ones must count for to be expected to pay. No
        record: a judgement.
    """

    clip: float = 1.1
    clip_range: tuple[float, float] = (0.75, 4.0)
    releases: int = 12
    most_releases: float = 4.0
    most_growth: float = 2.0
    damping: float = 3e-4
    moments: float = 0.05
    proximal: float = 3e-4
    rise: float = 0.5
    free_releases: int = 12
    blind_releases: int = 20
    free_damping: float = 0.17
    blind_moments: float = 1 / 80
    most_blind_moments: float = 0.1
    least_reach: float = 50.0
    stable: float = 1 / 8
    blind_rows: int = 1000
    extra_curvature: float = 4.0
    tail: float = 0.005
    strengths: tuple[float, ...] = tuple(np.geomspace(1e-6, 1e-1, 11).tolist())
    clear: float = 2.0
    count: float = 0.01
    sure_count: float = 3.0
    known_count: float = 30.0
    far_count: float = 2.5
    worth: float = 0.25

    def labelled(self, noise: float, *, same_support: bool) -> Setting:
        """Return the setting for public rows with labels.

        Parameters
        ----------
        noise : float
            ``tr H(H + λ)⁻¹/(μ²n)``: the variance of the privacy noise over that of sampling, for
            a clip of one.
        same_support : bool
            Whether public rows are asserted to be of the private rows' population.
        """
        clip = float(np.clip(self.clip * noise ** (-1 / 6), *self.clip_range))
        releases = round(self.releases * float(np.clip(noise**-0.25, 1.0, self.most_releases)))
        growth = float(np.clip(-np.log10(noise) - 1, 0.0, self.most_growth))
        name, moments = ("same support", 0.0) if same_support else ("robust", self.moments)
        return Setting(name, releases, clip, growth, moments)

    def label_free(self, noise: float, columns: int = 0, mu: float = 0.0, rows: int = 0) -> Setting:
        """Return the setting without public labels, or without public rows.

        Parameters
        ----------
        noise : float
            As above.
        columns : int
            Columns of the private rows if there are no public ones, else 0.
        mu, rows : float, int
            What may be spent, and n_nominal.
        """
        clip = float(np.clip(self.clip * noise ** (-1 / 6), 1.0, self.clip_range[1]))
        if not columns:
            return Setting("no public labels", self.free_releases, clip)
        share = min(self.blind_moments * columns * mu**2, self.most_blind_moments)
        share = share if mu**2 * rows >= self.least_reach else 0.0
        return Setting("no public rows", self.blind_releases, clip, moments=share)


# ‖aaᵀ‖ of a row of length one with ½ beside it for the mean: 1 + ¼.
LARGEST_MOMENT = 1.25
PRIVATE = PrivatePolicy()
