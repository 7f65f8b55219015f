"""The rows to be labelled: what is shown of them, and what is learned from."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxyprox.cli._errors import CommandError
from proxyprox.datasets import DataError, read_table

SHOWN = 12
"""Features shown of a row, the largest first."""

WORDS = 5000
"""Words that become features of rows that have only text."""

NAMED = 8
"""Columns named in a sentence."""

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Files that may hold text, and what separates their columns."""


@dataclass(frozen=True)
class Pool:
    """The rows to be labelled, and how each is shown to a person.

    Attributes
    ----------
    X : array or sparse matrix
        The features.
    names : tuple of str
        Their names.
    texts : list of str or None
        What is shown of each row; None for its features.
    told : str
        What is learned from, in words.
    """

    X: Any
    names: tuple[str, ...]
    texts: list[str] | None
    told: str

    def shown(self, row: int) -> str:
        """Return a row as text."""
        if self.texts is not None:
            return self.texts[row]
        values = self.X[[row]]
        values = (values.toarray() if hasattr(values, "toarray") else values).ravel()
        order = sorted(range(len(values)), key=lambda j: -abs(values[j]))[:SHOWN]
        return "  ".join(f"{self.names[j]} = {values[j]:g}" for j in sorted(order) if values[j])


def read_pool(path: Path, show: str | None) -> Pool:
    """Read the rows of a file.

    Parameters
    ----------
    path : Path
        The data.
    show : str or None
        Columns of a CSV that are shown to the person instead of being features. If no others are
        left, or only numbers of rows, the words that are shown are the features.
    """
    if str(path) == "-":
        raise CommandError(
            "label needs the rows in a file, because the answers come from standard input: name a "
            "CSV, Parquet, svmlight or npz file instead of '-'."
        )
    if show is None:
        table = _numbers(path, None)
        return Pool(table.X, table.feature_names, None, f"Features: {_some(table.feature_names)}.")
    wanted = [name.strip() for name in show.split(",")]
    columns, rows = _cells(path)
    absent = [name for name in wanted if name not in columns]
    if absent:
        raise CommandError(
            f"--show names the column {absent[0]!r}, but {path.name} has {', '.join(columns)}."
        )
    shown = [[row[name] or "" for name in wanted] for row in rows]
    texts = ["\n".join(map(": ".join, zip(wanted, row, strict=True))) for row in shown]
    features = [name for name in columns if name not in wanted]
    if all(_is_row_number([row[name] for row in rows]) for name in features):
        left = f"; left out: {_some(features)}, which only numbers the rows" if features else ""
        found = _words([" ".join(row) for row in shown])
        if found is not None:
            return Pool(*found, texts, f"Features: the words of {_some(wanted)}{left}.")
    if not features:
        raise CommandError(f"{path.name} has neither numbers nor words to learn from.")
    table = _numbers(path, features)
    return Pool(
        table.X,
        table.feature_names,
        texts,
        f"Features: {_some(table.feature_names)}. The words of {_some(wanted)} are shown but not "
        "used; with all columns in --show the words are the features.",
    )


def _cells(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of the columns, and the cells of each row by name."""
    separator = SEPARATORS.get(path.suffix.lower())
    if separator is None:
        raise CommandError(f"--show needs a CSV or TSV file, got {path.name}: leave it out.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter=separator)
            return list(reader.fieldnames or ()), list(reader)
    except (csv.Error, UnicodeDecodeError) as error:
        raise CommandError(
            f"{path.name} is not a table in UTF-8 text ({error}): save it as CSV in UTF-8."
        ) from error


def _numbers(path: Path, features: list[str] | None) -> Any:
    try:
        return read_table(path) if features is None else read_table(path, features=features)
    except DataError as error:
        # Python has arguments for the format and the features, the command line has not.
        text = str(error).replace(", or pass format=.", ".")
        text = text.replace(
            "leave the column out of 'features'",
            f"list the column in --show{'' if features is None else ', too'}: those are shown to "
            "you and are no features",
        )
        raise CommandError(text) from error


def _is_row_number(cells: Sequence[str | None]) -> bool:
    """Tell whether a column is a different whole number in every row: an id, no feature."""
    found = [(cell or "").strip() for cell in cells]
    return all(map(str.isdecimal, found)) and len(set(map(int, found))) == len(found)


def _some(names: Sequence[str]) -> str:
    """Return names, the first few of many."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _words(documents: list[str]) -> tuple[Any, tuple[str, ...]] | None:
    """Return how often words occur in texts, and the words; None if there are none."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(max_features=WORDS, sublinear_tf=True)
    try:
        X = vectorizer.fit_transform(documents)
    except ValueError:
        return None
    return X, tuple(vectorizer.get_feature_names_out())
