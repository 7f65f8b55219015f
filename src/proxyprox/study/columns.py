"""What the columns of a table become in a model: kinds, findings, numbers.

:class:`Columns` decides for every column whether it is a number, a category, text, a date or
nothing, says so, can be told otherwise, and turns tables into matrices without gaps. skrub's
``TableVectorizer`` encodes categories, text and dates; numbers need no skrub.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from proxyprox._util.extras import require
from proxyprox.study.tables import KINDS, DataError, Finding, no_column, to_numbers

Frame = Any
Series = Any
Array = Any

# Values of a text column up to which it is a category, and components of a text.
MOST_VALUES, COMPONENTS = 40, 30
# Share of the cells that must be numbers (dates) for a column of text to be of numbers (dates).
ENOUGH = 0.9
# Rows from which a column may be an identifier because no value occurs twice.
SEVERAL = 10
MISSING = "(missing)"
YES = {"yes", "y", "true", "t", "ja", "j", "oui", "si", "sí", "on", "1"}
NO = {"no", "n", "false", "f", "nein", "non", "off", "0"}
# Names of columns that may only identify the rows.
IDENTIFIER = re.compile(r"(.*[_ .-])?(id|uuid|guid|key|index|row|nr|no|number)", re.IGNORECASE)
# A name that pandas gives to an index it has saved.
_INDEX = re.compile(r"(unnamed: \d+|column 1|index)", re.IGNORECASE)


@dataclass(frozen=True)
class Column:
    """What a column becomes.

    Attributes
    ----------
    name, kind : str
        The column, and "number", "category", "text", "date" or "drop".
    why : str
        What was seen, and what is done about gaps.
    missing : float
        Share of empty cells.
    values : int
        Different values.
    date : str
        Format of dates that are text.
    yes_no : bool
        Whether the values are yes and no in some spelling.
    """

    name: str
    kind: str
    why: str
    missing: float
    values: int
    date: str = ""
    yes_no: bool = False


class Columns:
    """The columns of a table as a matrix without gaps.

    Parameters
    ----------
    kinds : mapping of str to str, optional
        What a column shall be, in place of what it seems to be: "number", "category", "text",
        "date" or "drop".
    scale : bool
        Whether numbers and dates are centred and divided by their standard deviation.

    Attributes
    ----------
    columns : list of Column
        What every column becomes; after :meth:`plan` or :meth:`fit`.
    findings : list of Finding
        What is odd about the columns.
    feature_names : list of str
        Columns of the matrix: ``age``, ``age (missing)``, ``city = Rome``, ``when year``; after
        :meth:`fit`.
    sources : list of str
        The table's column that each of them comes from.

    Notes
    -----
    Gaps in numbers and dates are filled with the median, and a column that says where they were is
    added; in categories they are a value of their own. ``skops.io`` saves a fitted object.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": ["31", None, "45"], "city": ["Rome", "Bonn", "Rome"]})
    >>> columns = Columns().plan(frame)
    >>> [(column.name, column.kind) for column in columns.columns]
    [('age', 'number'), ('city', 'category')]
    >>> columns.fit(frame).transform(frame).shape, columns.feature_names
    ((3, 3), ['age', 'age (missing)', 'city = Rome'])
    """

    def __init__(self, kinds: Mapping[str, str] | None = None, scale: bool = True) -> None:
        self.kinds = dict(kinds or {})
        self.scale = scale
        self.columns: list[Column] = []
        self.findings: list[Finding] = []
        for name, kind in self.kinds.items():
            if kind not in KINDS:
                raise DataError(f"{name}: a column is one of {', '.join(KINDS)}, not {kind!r}.")

    # -- what they become -------------------------------------------------------------------

    def plan(self, frame: Frame, labels: Any = None, ignore: Sequence[str] = ()) -> Columns:
        """Decide what every column becomes; nothing is fitted.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table.
        labels : pandas.Series, optional
            What is to be predicted, to find columns that are copies of it.
        ignore : sequence of str
            Columns that are no business of this object, such as the label's.

        Returns
        -------
        self
        """
        self.columns, self.findings = [], []
        names = [str(name) for name in frame if name not in ignore]
        for name in self.kinds:
            if name not in names:
                self._find("", no_column(name, names), fatal=True)
        seen: dict[int, str] = {}
        for name in names:
            forced = self.kinds.get(name)
            column = self._decide(name, frame[name], forced)
            if column.kind != "drop" and forced is None:
                column = self._without_copies(column, frame[name], labels, seen)
            self.columns.append(column)
        if not any(column.kind != "drop" for column in self.columns):
            self._find("", "no column is left to predict from.", fatal=True)
        return self

    def _find(self, column: str, text: str, fatal: bool = False) -> None:
        self.findings.append(Finding(column, text, fatal))

    def _decide(self, name: str, cells: Series, forced: str | None) -> Column:
        """Return what a column becomes, and note what is odd about it."""
        kind_of = cells.dtype.kind if hasattr(cells.dtype, "kind") else "O"
        plain = cells.dropna()
        made = Column(name, "drop", "told so", float(cells.isna().mean()), 0)
        if forced == "drop":
            return made
        if kind_of == "O" and any(
            isinstance(cell, (list, dict, set, np.ndarray)) for cell in plain
        ):
            self._find(name, "holds lists or the like: dropped.", fatal=forced is not None)
            return replace(made, why="lists or the like")
        made = replace(made, values=int(plain.nunique()))
        if not len(plain):
            self._find(name, "every cell is empty: dropped.", fatal=forced is not None)
            return replace(made, why="every cell is empty")
        if made.values == 1 and not made.missing and forced is None:
            self._find(name, f"the same in every row ({_shown(plain.iloc[0])}): dropped.")
            return replace(made, why="the same in every row")
        if forced is not None:
            return self._obey(made, cells, forced)
        if kind_of == "M":
            return replace(made, kind="date", why="dates")
        if kind_of == "m":
            return replace(made, kind="number", why="durations, in seconds")
        if kind_of in "iuf":
            if self._identifies(name, plain, len(cells)):
                return replace(made, why="identifies the rows")
            return replace(made, kind="number", why="numbers")
        return self._decide_text(made, cells)

    def _decide_text(self, made: Column, cells: Series) -> Column:
        """Return what a column of text, categories or truth values becomes."""
        name, text = made.name, as_text(cells)
        plain = text.dropna()
        values = set(plain.str.lower())
        if values <= YES | NO and values & YES and values & NO:
            odd = sorted(set(plain) - {"yes", "no", "True", "False"})
            why = "yes or no" + (f" (also written {', '.join(odd[:4])})" if odd else "")
            return replace(made, kind="category", why=why, values=2, yes_no=True)
        if str(cells.dtype) != "category":
            numbers = to_numbers(plain)
            share = float(numbers.notna().mean())
            if share >= ENOUGH and not plain.str.match(r"0\d").any():
                bad = plain[numbers.isna()]
                if len(bad):
                    what = f"numbers, but {_cells(bad)}: taken as missing (--as {name}=category?)."
                    self._find(name, what)
                return replace(made, kind="number", why="numbers")
            date, share, doubt = date_format(plain)
            if share >= ENOUGH:
                if doubt:
                    self._find(name, f"dates that may begin with day or month: read as {doubt}.")
                if share < 1:
                    bad = plain[parse_dates(plain, date).isna()]
                    self._find(name, f"dates, but {_cells(bad)}: taken as missing.")
                return replace(made, kind="date", why=f"dates, {_readable(date)}", date=date)
            mixed = to_numbers(plain).notna().mean()
            if mixed >= 0.3 and not plain.str.match(r"0\d").any():
                self._find(name, f"{mixed:.0%} numbers and {_cells(plain[numbers.isna()])}: mixed.")
            unique = made.values == len(plain) >= SEVERAL
            if unique and (
                not plain.str.contains(r"\s").mean() > 0.5 or IDENTIFIER.fullmatch(name)
            ):
                self._find(name, "another value in every row, as of an identifier: dropped.")
                return replace(made, why="identifies the rows")
        if made.values <= MOST_VALUES or str(cells.dtype) == "category":
            shown = f"{made.values} values: {_first(plain.value_counts().index.tolist(), 3)}"
            return replace(made, kind="category", why=shown)
        return replace(made, kind="text", why=f"text, {made.values:,} different")

    def _identifies(self, name: str, plain: Series, rows: int) -> bool:
        """Tell whether whole numbers only count the rows or name them, and note it."""
        values = plain.to_numpy(dtype=np.float64)
        whole = len(values) == rows >= SEVERAL and (values == np.round(values)).all()
        if not whole or len(np.unique(values)) < rows:
            return False
        counts = (np.abs(np.diff(np.sort(values))) == 1).all() and (
            (np.diff(values) == 1).all() or IDENTIFIER.fullmatch(name) or _INDEX.fullmatch(name)
        )
        if counts or IDENTIFIER.fullmatch(name):
            self._find(name, "another number in every row, as of an identifier: dropped.")
            return True
        return False

    def _obey(self, made: Column, cells: Series, forced: str) -> Column:
        """Return a column of the kind that was asked for, if it can be."""
        name, made = made.name, replace(made, kind=forced, why="told so")
        if forced == "number":
            bad = as_text(cells)[to_numbers(_plain_object(cells)).isna() & cells.notna()].dropna()
            if len(bad) == cells.notna().sum():
                self._find(name, f"no cell is a number, such as {_cells(bad)}.", fatal=True)
            elif len(bad):
                self._find(name, f"{_cells(bad)} taken as missing.")
        elif forced == "date" and getattr(cells.dtype, "kind", "O") != "M":
            text = as_text(cells).dropna()
            date, share, doubt = date_format(text)
            made = replace(made, date=date)
            if share == 0:
                self._find(name, f"no cell is a date, such as {_shown(text.iloc[0])}.", fatal=True)
            elif doubt or share < 1:
                lost = (
                    f"; {1 - share:.0%} of the cells are none and are missing" if share < 1 else ""
                )
                self._find(name, f"dates, read as {_readable(date)}{lost}.")
        elif forced == "category" and made.values > 1000:
            self._find(name, f"{made.values:,} values make as many columns.")
        return made

    def _without_copies(
        self, column: Column, cells: Series, labels: Any, seen: dict[int, str]
    ) -> Column:
        """Drop a column that is another's copy, or the label's."""
        import pandas as pd

        text = as_text(cells)
        # Columns whose cells all differ have equal codes, whatever they hold.
        many = column.values > len(cells) // 2
        key = hash(tuple(text) if many else pd.factorize(text)[0].tobytes())
        if key in seen and column.values == next(
            c.values for c in self.columns if c.name == seen[key]
        ):
            self._find(column.name, f"a copy of {seen[key]}: dropped.")
            return replace(column, kind="drop", why=f"a copy of {seen[key]}")
        seen[key] = column.name
        if labels is not None and is_copy(cells, labels):
            self._find(
                column.name,
                f"tells the label in every row, as a copy of it would: dropped "
                f"(--as {column.name}={column.kind} to keep it).",
            )
            return replace(column, kind="drop", why="a copy of the label")
        return column

    def describe(self) -> list[dict[str, Any]]:
        """Return what every column becomes, as JSON values."""
        shown = []
        for column in self.columns:
            made = [n for n, s in zip(*self._fitted_names(), strict=True) if s == column.name]
            shown.append({**asdict(column), **({"becomes": made} if made else {})})
        return shown

    def _fitted_names(self) -> tuple[list[str], list[str]]:
        return getattr(self, "feature_names", []), getattr(self, "sources", [])

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, frame: Frame) -> Columns:
        """Learn medians, scales, values and words from a table.

        Parameters
        ----------
        frame : pandas.DataFrame
            Rows, labelled or not; planned if no table was yet.

        Returns
        -------
        self
        """
        if not self.columns:
            self.plan(frame)
        raise_fatal(self.findings)
        self.used = [column for column in self.columns if column.kind != "drop"]
        self.levels: dict[str, list[str]] = {}
        for column in self.used:
            if column.kind == "category":
                counts = _category(column, frame[column.name]).value_counts()
                # The most frequent first; gaps are a level where there are any.
                self.levels[column.name] = [*counts.index.tolist()]
        table, _ = self._convert(frame)
        self.coded = [c.name for c in self.used if c.kind != "number"]
        self.vectorizer = None
        if self.coded:
            self.vectorizer = self._make_vectorizer()
            with warnings.catch_warnings():
                # Of few different words there are fewer components.
                warnings.simplefilter("ignore")
                self.vectorizer.fit(table[self.coded])
        X, names, sources, kinds, self.gaps = self._assemble(table)
        dense = np.array([kind in ("number", "date") for kind in kinds])
        self.medians = np.zeros(X.shape[1])
        for j in np.flatnonzero(np.isnan(X).any(axis=0)):
            known = X[~np.isnan(X[:, j]), j]
            self.medians[j] = np.median(known) if len(known) else 0.0
        X = np.where(np.isnan(X), self.medians, X)
        spread, scaled = X.std(axis=0), dense & self.scale
        largest = np.abs(X).max(axis=0, initial=1e-300)
        self.kept = spread > 1e-9 * largest
        self.centres = np.where(scaled, X.mean(axis=0), 0.0)
        self.scales = np.where(scaled & self.kept, spread, 1.0)
        self.feature_names = [n for n, kept in zip(names, self.kept, strict=True) if kept]
        self.sources = [s for s, kept in zip(sources, self.kept, strict=True) if kept]
        if not self.feature_names:
            raise DataError("no column varies over these rows: nothing to predict from.")
        return self

    def refit(self, frame: Frame) -> Columns:
        """Return an object of the same kinds that has learned from other rows only."""
        other = Columns(self.kinds, self.scale)
        other.columns, other.findings = self.columns, self.findings
        return other.fit(frame)

    def transform(self, frame: Frame) -> Array:
        """Return a table as a matrix of float64 without gaps.

        Parameters
        ----------
        frame : pandas.DataFrame
            Rows with the columns of the fit, in any order, perhaps with others.
        """
        return self.transform_with_findings(frame)[0]

    def transform_with_findings(
        self, frame: Frame, absent: bool = False
    ) -> tuple[Array, list[Finding]]:
        """Return a table as a matrix, and what is odd about it; `absent` columns may be allowed."""
        findings = self._missing_columns(frame, absent)
        raise_fatal(findings)
        if findings:
            lacking = [finding.column for finding in findings]
            frame = frame.assign(**dict.fromkeys(lacking))
        table, more = self._convert(frame)
        X = self._assemble(table, self.gaps)[0]
        X = (np.where(np.isnan(X), self.medians, X) - self.centres) / self.scales
        return np.ascontiguousarray(X[:, self.kept]), findings + more

    def _missing_columns(self, frame: Frame, absent: bool) -> list[Finding]:
        findings, there = [], list(map(str, frame))
        known = {column.name for column in self.columns}
        extra = [name for name in there if name not in known]
        for column in self.used:
            if column.name not in there:
                near = difflib.get_close_matches(column.name, extra, 1, 0.6)
                text = "the file lacks this column"
                text += f"; did {near[0]!r} take its name?" if near else "."
                findings.append(Finding(column.name, text, not absent))
        return findings

    def _convert(self, frame: Frame) -> tuple[Frame, list[Finding]]:
        """Return the columns with the types of their kinds, and which cells were lost."""
        import pandas as pd

        made, findings = {}, []
        for column in self.used:
            cells = frame[column.name]
            if column.kind == "number":
                values = to_numbers(_plain_object(cells))
                bad = as_text(cells)[values.isna()].dropna()
                if len(bad):
                    findings.append(Finding(column.name, f"{_cells(bad)}: no number, so missing."))
            elif column.kind == "date":
                values = parse_dates(cells, column.date)
                bad = as_text(cells)[values.isna()].dropna()
                if len(bad):
                    form = f" ({_readable(column.date)})" if column.date else ""
                    text = f"{_cells(bad)}: no date{form}, so missing."
                    findings.append(Finding(column.name, text))
            elif column.kind == "category":
                values, levels = _category(column, cells), self.levels[column.name]
                new = ~values.isin(levels)
                if new.any():
                    instead = MISSING if MISSING in levels else levels[0]
                    odd = values[new & (values != MISSING)]
                    if len(odd):
                        text = f"{_cells(odd)}: not among the values learned, so {instead}."
                        findings.append(Finding(column.name, text))
                    values = values.where(~new, instead)
            else:
                values = as_text(cells).fillna("")
            made[column.name] = values
        return pd.DataFrame(made, index=frame.index), findings

    def _make_vectorizer(self) -> Any:
        skrub: Any = require("skrub", extra="data", purpose="columns of text, dates or categories")
        from sklearn.preprocessing import OneHotEncoder

        def named(kind: str) -> list[str]:
            return [column.name for column in self.used if column.kind == kind]

        parts: list[tuple[Any, list[str]]] = []
        if named("category"):
            one_hot = OneHotEncoder(drop="if_binary", dtype=np.float32, sparse_output=False)
            parts.append((one_hot, named("category")))
        dates = skrub.DatetimeEncoder(add_weekday=True)
        parts += [(dates, [name]) for name in named("date")]
        words = skrub.StringEncoder(n_components=COMPONENTS, random_state=0)
        parts += [(words, [name]) for name in named("text")]
        return skrub.TableVectorizer(specific_transformers=parts)

    def _assemble(
        self, table: Frame, gaps: Sequence[str] | None = None
    ) -> tuple[Array, list[str], list[str], list[str], list[str]]:
        """Return the matrix with gaps, its names, their sources and kinds, and who has gaps."""
        encoded: Any = None
        outputs: dict[str, list[str]] = {}
        if self.vectorizer is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                encoded = self.vectorizer.transform(table[self.coded])
            outputs = self.vectorizer.input_to_outputs_
        blocks, names, sources, kinds, found = [], list[str](), list[str](), list[str](), []
        for column in self.used:
            name, kind = column.name, column.kind
            if kind == "number":
                part, made = table[[name]].to_numpy(dtype=np.float64), [name]
            else:
                part = encoded[outputs[name]].to_numpy(dtype=np.float64)
                rest = [output[len(name) + 1 :] for output in outputs[name]]
                sign = {"category": " = ", "date": " ", "text": " #"}[kind]
                made = [f"{name}{sign}{each}" for each in rest]
                if kind == "category" and len(rest) == 1:
                    made = [f"{name} = {rest[0]}"]
            blocks.append(part)
            names += made
            sources += [name] * len(made)
            kinds += [kind] * len(made)
            empty = table[name].isna().to_numpy()
            if (name in gaps) if gaps is not None else (kind in ("number", "date") and empty.any()):
                found.append(name)
                blocks.append(empty[:, None].astype(np.float64))
                names.append(f"{name} {MISSING}")
                sources.append(name)
                kinds.append("category")
        return np.hstack(blocks), names, sources, kinds, found


# -- cells ----------------------------------------------------------------------------------------


def raise_fatal(findings: Sequence[Finding]) -> None:
    """Raise one error that names all fatal findings, if there are any."""
    fatal = [str(finding) for finding in findings if finding.fatal]
    if fatal:
        raise DataError("; ".join(text.rstrip(".") for text in fatal) + ".")


def as_text(cells: Series) -> Series:
    """Return cells as stripped text in an object column, None where empty; 3.0 is "3"."""
    import pandas as pd

    def text(cell: Any) -> Any:
        if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
            return f"{cell:.0f}"
        return str(cell).strip()

    empty = cells.isna().to_numpy()
    values = [None if gone else text(cell) for cell, gone in zip(cells, empty, strict=True)]
    return pd.Series(values, index=cells.index, dtype=object)


def _plain_object(cells: Series) -> Series:
    """Return cells as numbers can be read from them: durations in seconds, categories as text."""
    kind = getattr(cells.dtype, "kind", "O")
    if kind == "m":
        return cells.dt.total_seconds()
    if kind == "M":
        return as_text(cells)
    if kind in "biuf" and str(cells.dtype) != "category":
        return cells
    return as_text(cells)


def _category(column: Column, cells: Series) -> Series:
    """Return cells as values of a category, gaps as one, too."""
    text = as_text(cells)
    if column.yes_no:
        lower = text.str.lower()
        text = text.where(~lower.isin(YES), "yes").where(~lower.isin(NO), "no")
    return text.where(text.notna(), MISSING)


def yes_or_no(text: Series) -> Series:
    """Return text in which every spelling of yes and no is that word, if it has no other."""
    lower = text.dropna().str.lower()
    if not len(lower) or not set(lower) <= YES | NO or set(lower) <= {"0", "1"}:
        return text
    known = text.str.lower()
    return text.where(~known.isin(YES), "yes").where(~known.isin(NO), "no")


def date_format(text: Series) -> tuple[str, float, str]:
    """Return the format that fits most cells, the share it fits, and a doubt about day and month.

    Parameters
    ----------
    text : pandas.Series
        Text without gaps.
    """
    from pandas.tseries.api import guess_datetime_format

    sample = text.drop_duplicates().iloc[:200]
    sample = sample[sample.str.contains(r"\d") & (sample.str.len() >= 6) & (sample.str.len() < 40)]
    if not len(sample):
        return "", 0.0, ""
    formats = ["ISO8601"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in sample.iloc[:: max(1, len(sample) // 20)]:
            # Dots are written between numbers where days come first.
            for day_first in (("." in cell), ("." not in cell)):
                found = guess_datetime_format(cell, dayfirst=day_first)
                if found is not None and found not in formats:
                    formats.append(found)
        shares = {form: float(parse_dates(sample, form).notna().mean()) for form in formats}
    best = max(shares, key=lambda form: shares[form])
    other = best.replace("%d", "%%").replace("%m", "%d").replace("%%", "%m")
    doubt = _readable(best) if other != best and shares.get(other) == shares[best] else ""
    share = float(parse_dates(text, best).notna().mean()) if shares[best] >= 0.5 else 0.0
    return best, share, doubt


def parse_dates(cells: Series, form: str) -> Series:
    """Return cells as times without a zone, NaT where they are none."""
    import pandas as pd

    if getattr(cells.dtype, "kind", "O") != "M":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells = pd.to_datetime(as_text(cells), errors="coerce", utc=True, format=form or None)
    return cells.dt.tz_convert("UTC").dt.tz_localize(None) if cells.dt.tz is not None else cells


def is_copy(cells: Series, labels: Series) -> bool:
    """Tell whether a column and the labels, where there are any, determine each other."""
    import pandas as pd

    known = labels.notna().to_numpy() & cells.notna().to_numpy()
    if known.sum() < max(SEVERAL, 0.9 * labels.notna().sum()):
        return False
    ours, theirs = cells[known], labels[known]
    if labels.dtype.kind == "f" and theirs.nunique() > 10:
        values = to_numbers(_plain_object(ours)).to_numpy()
        if np.isnan(values).any() or not values.std():
            return False
        return bool(abs(np.corrcoef(values, theirs.to_numpy())[0, 1]) > 1 - 1e-9)
    pairs = set(zip(pd.factorize(as_text(ours))[0], pd.factorize(as_text(theirs))[0], strict=True))
    return bool(ours.nunique() == theirs.nunique() == len(pairs) > 1)


def _readable(form: str) -> str:
    """Return a format of dates as people write them."""
    words = {"%Y": "year", "%y": "year", "%m": "month", "%d": "day", "%b": "month", "%B": "month"}
    text = re.sub(r"%[A-Za-z]", lambda found: words.get(found[0], ""), form)
    return "ISO 8601" if form == "ISO8601" else re.sub(r"[^a-z./ -]|[ :]+$", "", text).strip()


def _shown(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 30 else f"{text[:29]}…")


def _cells(bad: Series) -> str:
    """Return how many cells are meant, with an example."""
    count = len(bad)
    first = _shown(bad.iloc[0])
    return (
        f"{first} (row {int(bad.index[0]) + 1})"
        if count == 1
        else f"{count:,} cells such as {first}"
    )


def _first(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(str(name)[:30] for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")
