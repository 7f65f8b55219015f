"""What the private estimators judge by: nothing of it is tuned on the rows at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Setting:
    """The constants of a fit: none of them is tuned on the rows at hand."""

    name: str
    # Gradients that are released.
    releases: int
    # C over the root mean square of public rows' whitened gradients.
    clip: float
    # Share of μ² for the private second moments.
    moments: float
    # 1/η of the proximal term, in units where the longest public row has length one.
    proximal: float

    def adapt(self, noise: float) -> Setting:
        """Return the setting for a ratio of the privacy noise's variance to that of sampling.

        If there is little noise, clipping and the number of steps are what limits the fit.
        """
        clip = self.clip * float(np.clip(noise ** (-1 / 8), *PRIVATE.clip_range))
        factor = float(np.clip(noise ** (-1 / 4), *PRIVATE.releases_range))
        return replace(self, clip=clip, releases=round(self.releases * factor))


@dataclass(frozen=True)
class PrivatePolicy:
    """How a private fit is planned.

    Set by docs/results/private/summary.json, except where an entry says "no record: a judgement".

    Attributes
    ----------
    robust, same_support, label_free : Setting
        The settings for public rows that may differ, are alike, or have no labels.
    clip_range, releases_range : pair of float
        How far the noise may change the clip and the number of releases.
    extra_curvature : float
        Curvature added for a second moment that public rows lack, over its expected size.
    distance : float
        A guess at ‖w*‖, in units where the longest public row has length one, for the damping if
        there are no public labels.
    strengths : tuple of float
        L2 strengths that cross-validation on public rows tries.
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

    robust: Setting = Setting("robust", 6, clip=2.0, moments=0.05, proximal=1e-4)
    same_support: Setting = Setting("same support", 6, clip=2.0, moments=0.0, proximal=1e-6)
    label_free: Setting = Setting("no public labels", 8, clip=1.0, moments=0.0, proximal=1e-3)
    clip_range: tuple[float, float] = (0.75, 1.75)
    releases_range: tuple[float, float] = (2 / 3, 2.0)
    extra_curvature: float = 4.0
    distance: float = 5.0
    strengths: tuple[float, ...] = tuple(np.geomspace(1e-6, 1e-1, 11).tolist())
    count: float = 0.01
    sure_count: float = 3.0
    known_count: float = 30.0
    far_count: float = 2.5
    worth: float = 0.25

    @property
    def damping(self) -> float:
        """The least that is added to the metric's Hessian: without labels 1/η, and so for all."""
        return self.label_free.proximal


PRIVATE = PrivatePolicy()
