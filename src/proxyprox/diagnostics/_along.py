"""The proxy all along the path: a curvature that fades on the way must not be taken for small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._gather import Evidence
from proxyprox.diagnostics._survey import proxy_seen_from

Matrix = np.ndarray[Any, Any]

TOO_LARGE = 1.0
"""δ/H at a point beyond which the rehearsal also takes the proxy as it is there."""


class Along:
    """The weighted proxies at every point visited.

    The rehearsal is made on the target around the end of the path. Inputs in the wrong unit give
    a proxy that is steep at the start and saturated at the end, where it looks harmless: a run
    starts at the start, and stays there.
    """

    def __init__(self, evidence: Evidence, proxies: Sequence[MeteredProxy]) -> None:
        self._stops = evidence.stops
        self._proxies = proxies
        self._seen: dict[tuple[int, int], Matrix] = {}

    def shares(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Return δ/H at every point, for the proxies with these weights."""
        found = []
        for stop, H in zip(self._stops, self._sizes(), strict=True):
            mixed = sum(s * P for s, P in zip(weights, stop.survey.P, strict=False))
            found.append(float(np.linalg.norm(stop.survey.A - mixed, 2)) / H)
        return tuple(found)

    def matrices(self, weights: Sequence[float]) -> tuple[Matrix, ...]:
        """Return the Hessians to rehearse with: at the end, and where δ exceeds H before it.

        The latter are taken relative to the target's H there, which may have changed as well.
        """
        sizes, last = self._sizes(), len(self._stops) - 1
        chosen = [self._mixed(last, weights)]
        for j, share in enumerate(self.shares(weights)[:-1]):
            if share > TOO_LARGE:
                chosen.append(self._mixed(j, weights) * (sizes[last] / sizes[j]))
        return tuple(chosen)

    def _sizes(self) -> list[float]:
        return [max(float(stop.survey.target.values[-1]), 1e-300) for stop in self._stops]

    def _mixed(self, j: int, weights: Sequence[float]) -> Matrix:
        return np.asarray(sum(s * self._matrix(j, i) for i, s in enumerate(weights)))

    def _matrix(self, j: int, i: int) -> Matrix:
        """Return the i-th proxy's Hessian at the j-th point, in the coordinates of the end."""
        end, stop = self._stops[-1].survey, self._stops[j]
        if (stop.survey.basis is None and end.basis is None) or stop.survey is end:
            return stop.survey.P[i]
        if (j, i) not in self._seen:
            self._seen[j, i] = proxy_seen_from(end, self._proxies[i], stop.w)
        return self._seen[j, i]
