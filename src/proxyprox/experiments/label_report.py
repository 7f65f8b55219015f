"""What the label experiment found: paired differences, sentences, figures and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from proxyprox.experiments.label_methods import BY_LOSS, OURS, OURS_TAUGHT, YARDSTICK
from proxyprox.experiments.plots import save_figures
from proxyprox.experiments.records import Point
from proxyprox.experiments.report import write_report
from proxyprox.experiments.summary import Row, summarise, write_summary

WORDS = {"labels": "labels bought", "test_loss": "test log-loss", "seconds": "seconds of a fit"}
AXES = ("labels", "seconds")
DIFFERENCES = (
    "Mean test log-loss of ours (with the teacher, where there is one) and of each other method, "
    "and the mean of their differences seed by seed with its 95 % interval."
)
NOTES = (
    "A third of the rows is the test set; of the others so many are labelled, the same for every "
    "method, and the rest is the proxy. Every class has two labels at least.",
    "Nothing is tuned on test rows: step sizes of the one-pass methods are chosen on a fifth of "
    "their labels, all other choices by cross-validation on the labels.",
    "LogisticRegressionCV chooses C by accuracy unless it is told to use the log-loss; both are "
    "shown. ppi_py does not regularise: with fewer than two labels a column, or with labels that "
    "a plane separates, it has no answer and no point here.",
)


def differences(records: Sequence[Point]) -> list[Row]:
    """Return paired differences of test losses, ours minus each yardstick's, with 95 % intervals.

    Parameters
    ----------
    records : sequence of points
        Points of all methods and seeds.
    """
    table: dict[tuple[str, int, str], dict[int, float]] = {}
    for point in records:
        key = (point["panel"], point["labels"], point["method"])
        table.setdefault(key, {})[point["seed"]] = point["test_loss"]
    rows: list[Row] = []
    for (panel, labels, method), theirs in table.items():
        ours = OURS_TAUGHT if (panel, labels, OURS_TAUGHT) in table else OURS
        if method == ours:
            continue
        mine = table[panel, labels, ours]
        seeds = sorted(mine.keys() & theirs.keys())
        gaps = np.array([mine[seed] - theirs[seed] for seed in seeds])
        half = _half_width(gaps)
        rows.append(
            {
                "panel": panel,
                "labels": labels,
                "method": method,
                "ours": float(np.mean([mine[seed] for seed in seeds])),
                "theirs": float(np.mean([theirs[seed] for seed in seeds])),
                "difference": float(gaps.mean()),
                "low": float(gaps.mean() - half),
                "high": float(gaps.mean() + half),
                "seeds": len(seeds),
            }
        )
    return rows


def sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, for each panel, where ours is lower, higher or not told apart from a yardstick."""
    said = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        against = (OURS, YARDSTICK) if "teacher" in panel else (YARDSTICK, BY_LOSS)
        for method in against:
            here = [row for row in rows if row["panel"] == panel and row["method"] == method]
            lower = [str(row["labels"]) for row in here if row["high"] < 0]
            higher = [str(row["labels"]) for row in here if row["low"] > 0]
            equal = [str(row["labels"]) for row in here if row["low"] <= 0 <= row["high"]]
            parts = [
                f"{word} at {', '.join(found)} labels"
                for word, found in (
                    ("lower", lower),
                    ("higher", higher),
                    ("not told apart", equal),
                )
                if found
            ]
            name = "labels alone" if method == OURS else method
            said.append(
                f"{panel}: mean test loss against {name}: {'; '.join(parts)} (95 % intervals)."
            )
    return said


def publish(
    folder: Path, records: Sequence[Point], *, command: str, config: Mapping[str, Any]
) -> tuple[list[Row], list[str]]:
    """Write ``summary.json``, figures and ``report.html``; return the differences and sentences.

    Parameters
    ----------
    folder : Path
        Where everything goes.
    records : sequence of points
        Points of all runs.
    command : str
        Command that makes it again.
    config : mapping
        Settings to show.
    """
    records = [point for point in records if point["test_loss"] is not None]
    rows = summarise(records, metric="test_loss", x="labels", costs=("seconds",))
    gaps = differences(records)
    said = sentences(gaps)
    extra = {"command": command, "config": dict(config), "differences": gaps, "findings": said}
    write_summary(folder / "summary.json", rows, **extra)
    save_figures(folder, rows, metric="test_loss", x_axes=AXES[:1], log_x=True, labels=WORDS)
    write_report(
        folder,
        title="Few labels, many inputs",
        lead=said,
        command=command,
        config=config,
        rows=rows,
        ledger_rows=gaps,
        notes=NOTES,
        metric="test_loss",
        x_axes=AXES,
        log_x=True,
        labels=WORDS,
        ledger_words=("Paired differences", DIFFERENCES),
    )
    return gaps, said


def _half_width(gaps: Any) -> float:
    if len(gaps) < 2:
        return float("inf")
    t = scipy.stats.t.ppf(0.975, len(gaps) - 1)
    return float(t * gaps.std(ddof=1) / np.sqrt(len(gaps)))
