"""One look for every figure: colours, markers, dashes and the words on the axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["COSTS", "Style", "field_label", "in_order", "styles"]

# After Okabe and Ito, with the light colours darkened and black left out, so that each has a
# contrast of at least 3 with white paper and with a dark page.
_COLOURS = (
    "#737373",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#B8860B",
    "#3D9BD0",
    "#8C62C9",
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
_PLOTLY_MARKERS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "triangle-left",
    "triangle-right",
    "star",
    "pentagon",
)
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.6), (1.4, 1.4), (6, 1.5, 1.4, 1.5))

_LABELS = {
    "target_gradients": "target gradients (minibatches)",
    "target_samples": "target samples (rows)",
    "proxy_gradients": "proxy gradients",
    "proxy_hvps": "proxy Hessian-vector products",
    "seconds": "seconds",
    "suboptimality": "suboptimality L(w) − L*",
    "eta": "step size η",
    "batch_size": "batch size",
}

COSTS = ("target_gradients", "proxy_gradients", "seconds")
"""The x axes a figure is offered over, the first being the one that counts."""


@dataclass(frozen=True)
class Style:
    """How one method is drawn, in matplotlib's words and in plotly's."""

    colour: str
    marker: str
    plotly_marker: str
    dash: tuple[float, ...]

    @property
    def plotly_dash(self) -> str:
        """The dash pattern as plotly writes it."""
        return ",".join(f"{2 * length:g}px" for length in self.dash) or "solid"


def in_order(rows: Iterable[Mapping[str, Any]], field: str) -> list[str]:
    """Return the distinct values of `field`, as text, in order of first appearance."""
    return list(dict.fromkeys(str(row[field]) for row in rows))


def styles(rows: Iterable[Mapping[str, Any]]) -> dict[str, Style]:
    """Give each method a look of its own, the same in every panel.

    Parameters
    ----------
    rows : iterable of mappings
        Rows with a field ``"method"``.

    Examples
    --------
    >>> looks = styles([{"method": "SGD"}, {"method": "ProxyProx"}, {"method": "SGD"}])
    >>> list(looks), looks["ProxyProx"].colour
    (['SGD', 'ProxyProx'], '#0072B2')
    """
    looks = {}
    for i, method in enumerate(in_order(rows, "method")):
        # 8 colours and 11 markers repeat together only after 88 methods.
        looks[method] = Style(
            _COLOURS[i % len(_COLOURS)],
            _MARKERS[i % len(_MARKERS)],
            _PLOTLY_MARKERS[i % len(_PLOTLY_MARKERS)],
            _DASHES[i % len(_DASHES)],
        )
    return looks


def field_label(field: str, labels: Mapping[str, str] | None = None) -> str:
    """Return the words for a field: the caller's, the known ones, or the name itself.

    Examples
    --------
    >>> field_label("test_accuracy"), field_label("seconds", {"seconds": "wall-clock time (s)"})
    ('test accuracy', 'wall-clock time (s)')
    """
    known = {**_LABELS, **(labels or {})}
    return known.get(field, field.replace("_", " "))
