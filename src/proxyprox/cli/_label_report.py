"""What bought labels say."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def summary(budget: Any, file: Path, exported: Path | None = None) -> dict[str, Any]:
    """Return what was bought and what it is worth.

    Parameters
    ----------
    budget : LabelBudget
        The labels.
    file : Path
        Where they are.
    exported : Path, optional
        A table of the labelled rows, if one was asked for.
    """
    counts: dict[str, int] = {}
    for label in budget.labels.values():
        counts[str(label)] = counts.get(str(label), 0) + 1
    shares = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    sentences = [f"{budget.spent} labels ({shares or 'none'}) are in {file}."]
    gain = float("inf")
    mean: dict[str, Any] | None = None
    if len(counts) > 1:
        model = budget.fit()
        gain = budget.expected_gain()
        found = model.mean_prediction(budget.X)
        if isinstance(found.estimate, float):
            mean = {"class": str(model.classes_[1]), "low": found.low, "high": found.high}
            mean["estimate"] = found.estimate
            sentences.append(
                f"Of all rows {found.estimate:.1%} are expected to be {mean['class']} "
                f"(95 % interval {found.low:.1%} to {found.high:.1%})."
            )
    if gain < float("inf"):
        sentences.append(
            f"Another {budget.ahead} labels are expected to lower the log-loss by {gain:.2g}."
        )
    sentences.append(budget.finished or "The same command goes on from here.")
    if budget.spent:
        sentences.append(
            f"The labelled rows are in {exported}."
            if exported is not None
            else "For a table of the labelled rows: the same command with --export labelled.csv."
        )
    return {
        "answers": str(file),
        "exported": None if exported is None or not budget.spent else str(exported),
        "labels": budget.spent,
        "classes": counts,
        "expected_gain": gain if gain < float("inf") else None,
        "mean": mean,
        "finished": budget.finished,
        "sentences": sentences,
    }
