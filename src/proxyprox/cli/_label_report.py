"""What bought labels say, and a table of the rows that have one."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxyprox.cli._errors import CommandError
from proxyprox.cli._label import Pool

TABLES = {".csv": ",", ".tsv": "\t"}
"""Files whose own columns are exported, and what separates them."""


def export(target: Path, source: Path, pool: Pool, labels: Mapping[int, Any]) -> None:
    """Write the labelled rows with their labels as a table.

    Parameters
    ----------
    target : Path
        The file to write, CSV or TSV.
    source : Path
        The data; of a CSV or TSV all columns are written, else the features.
    pool : Pool
        The rows.
    labels : mapping
        Labels by row number.
    """
    names, rows = _table(source, pool, sorted(labels))
    column = "label"
    while column in names:
        column += "_"
    try:
        with target.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=TABLES.get(target.suffix.lower(), ","))
            writer.writerow([*names, column])
            writer.writerows([*rows[row], labels[row]] for row in sorted(labels))
    except OSError as error:
        raise CommandError(f"--export cannot write {target}: {error.strerror}.") from error


def _table(source: Path, pool: Pool, wanted: list[int]) -> tuple[list[str], dict[int, list[Any]]]:
    """Return the columns' names and the wanted rows."""
    separator = TABLES.get(source.suffix.lower())
    if separator is not None:
        with source.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter=separator)
            names = list(reader.fieldnames or ())
            table = [[row[name] for name in names] for row in reader]
        # Where the features were read by other rules, the rows must still be the same.
        if names and len(table) == pool.X.shape[0]:
            return names, {row: table[row] for row in wanted}
    found = {}
    for row in wanted:
        values = pool.X[[row]]
        values = values.toarray() if hasattr(values, "toarray") else values
        found[row] = values.ravel().tolist()
    return list(pool.names), found


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
