"""The table of private networks, made from the record of ``examples/private_network.py``."""

from __future__ import annotations

import json
from pathlib import Path

RIVAL = "DP-SGD"
NAMES = {
    "public digits only": "public rows only",
    "DP-SGD": "Opacus' DP-SGD",
    "DP-Adam": "Opacus' DP-Adam",
    "ProxyProx": "`ProxyProx` in Opacus, mean correction",
    "ProxyAdamW": "`ProxyAdamW` in Opacus, `Way(weight=3)`",
    "the last layer, untuned": "last layer alone, `PrivateLogisticRegression`, untuned",
    "no privacy": "no privacy",
}


def page_table(path: Path) -> str:
    """Return the table: test log-loss, its gap to DP-SGD with the standard error, accuracy."""
    found = {(x["method"], x["epsilon"]): x for x in json.loads(path.read_text("utf-8"))["lines"]}
    lines = ["| | ε = 1 | ε = 3 |", "|---|---|---|"]
    for method, name in NAMES.items():
        cells = []
        for epsilon in (1.0, 3.0):
            row = found[method, epsilon]
            gap = "" if method == RIVAL else " ({:+.3f} ± {:.3f})".format(*row[f"against {RIVAL}"])
            cells.append(f"{row['loss']:.3f}{gap}, {row['accuracy']:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
