"""What the columns of a table become in a model: kinds, findings, numbers.

:class:`Columns` decides for every column whether it is a number, a category, text, a date or
nothing, says so, can be told otherwise, and turns tables into matrices without gaps. What it
learns is plain data: lists of values, words and numbers.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from proxyprox._util.text import list_names
from proxyprox_app.tables import (
    KINDS,
    POLICY,
    DataError,
    Finding,
    Kind,
    as_text,
    is_coded,
    is_list,
    no_column,
    to_numbers,
)

Frame = Any
Series = Any
Array = Any

MISSING = "(missing)"
# A smaller standard deviation is none: its square is lost in float64.
SMALLEST = 1e-150
YES = {"yes", "y", "true", "t", "ja", "j", "oui", "si", "sí", "on", "1"}
NO = {"no", "n", "false", "f", "nein", "non", "off", "0"}
# Why a column is dropped whose cells stand beside the predictions.
IDENTIFIES = "identifies the rows"
# Names of columns that may only identify the rows.
IDENTIFIER = re.compile(r"(.*[_ .-])?(id|uuid|guid|key|index|row|nr|no|number)", re.IGNORECASE)
# A name that pandas gives to an index it has saved.
_INDEX = re.compile(r"(unnamed: \d+|column 1|index)", re.IGNORECASE)


# Larger numbers make infinite ones when two of them are multiplied.
Number = Annotated[float, Field(ge=-1e150, le=1e150)]


class Exact(BaseModel):
    """Exactly these keys, and values of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Column(Exact):
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
    text : bool
        Whether the cells were read as text, so that a code such as 4E12 stays one in new files.
    """

    name: str
    kind: Kind
    why: str
    missing: Number
    values: Annotated[int, Field(ge=0, le=1 << 53)] = 0
    date: str = ""
    yes_no: bool = False
    text: bool = False

    def but(self, **changes: Any) -> Column:
        """Return a column that differs in some of this."""
        return self.model_copy(update=changes)


class Columns:
    """The columns of a table as a matrix without gaps.

    Parameters
    ----------
    kinds : mapping of str to str, optional
        What a column shall be, in place of what it seems to be: "number", "category", "text",
        "date" or "drop".
    decimal : {"", ",", "."}
        What decimals in text are behind if the cells of a column do not tell.

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
    added; in categories they are a value of their own. A category makes a column of 0 and 1 for
    every value; of two values, one column of −½ and ½. A value that the fit has not seen is 0 in
    all of them, which has no effect on a linear model. Numbers and dates are centred and divided by
    their standard deviation.

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

    def __init__(self, kinds: Mapping[str, str] | None = None, decimal: str = "") -> None:
        self.kinds = dict(kinds or {})
        self.decimal = decimal
        self.columns: list[Column] = []
        self.findings: list[Finding] = []
        self.feature_names: list[str] = []
        self.sources: list[str] = []
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
            What is to be predicted, to find columns that are copies of it or determine it.
        ignore : sequence of str
            Columns that are no business of this object, such as the label's.

        Returns
        -------
        self
        """
        names = [str(name) for name in frame if name not in ignore]
        lacking = (name for name in self.kinds if name not in names)
        self.columns = []
        self.findings = [Finding("", no_column(name, names), True) for name in lacking]
        seen: dict[int, str] = {}
        for name in names:
            forced = self.kinds.get(name)
            column = self._decide(name, frame[name], forced)
            if column.kind != "drop" and forced is None:
                column = self._without_copies(column, frame[name], labels, seen)
            self.columns.append(column)
        if all(column.kind == "drop" for column in self.columns):
            why = "; ".join(f"{column.name}: {column.why}" for column in self.columns[:5])
            self._find("", f"no column is left to predict from ({why}).", fatal=True)
        return self

    def _drop(self, made: Column, why: str, text: str = "", fatal: bool = False) -> Column:
        self._find(made.name, f"{text or why}: dropped.", fatal)
        return made.but(kind="drop", why=why)

    def _find(self, column: str, text: str, fatal: bool = False) -> None:
        self.findings.append(Finding(column, text, fatal))

    def _decide(self, name: str, cells: Series, forced: str | None) -> Column:
        """Return what a column becomes, and note what is odd about it."""
        import pandas as pd

        kind_of, plain = cells.dtype.kind, cells.dropna()
        texts = isinstance(cells.dtype, pd.StringDtype) or (
            kind_of == "O" and pd.api.types.infer_dtype(plain) == "string"
        )
        empty = float(cells.isna().mean())
        made = Column(name=name, kind="drop", why="told so", missing=empty, text=texts)
        if forced == "drop":
            return made
        lists = kind_of == "O" and not texts and any(map(is_list, plain))
        if lists or not len(plain):
            why = "holds lists or the like" if lists else "every cell is empty"
            return self._drop(made, why, fatal=forced is not None)
        made = made.but(values=int(plain.nunique()))
        if made.values == 1 and not made.missing and forced is None:
            return self._drop(made, f"the same in every row ({_shown(plain.iloc[0])})")
        if forced is not None:
            return self._obey(made, cells, forced)
        if kind_of not in "Mmiuf":
            return self._decide_text(made, cells)
        if kind_of in "iuf" and _identifies(name, plain, len(cells)):
            text = "another number in every row, as of an identifier"
            return self._drop(made, IDENTIFIES, text)
        if kind_of in "iuf" and (found := outliers_of(plain.astype(np.float64)))[0]:
            self._find(name, f"{found[0]} of {len(plain)} {found[1]} They stretch its scale.")
        why = {"M": "dates", "m": "durations, in seconds"}.get(kind_of, "numbers")
        return made.but(kind="date" if kind_of == "M" else "number", why=why)

    def _decide_text(self, made: Column, cells: Series) -> Column:
        """Return what a column of text, categories or truth values becomes."""
        name, plain = made.name, as_text(cells).dropna()
        values = set(plain.str.lower())
        if values <= YES | NO and values & YES and values & NO:
            written = _listed(sorted(set(plain)), 4)
            why = f"yes or no (written {written})"
            return made.but(kind="category", why=why, values=2, yes_no=True)
        category = str(cells.dtype) == "category"
        if not category:
            numbers = to_numbers(cells.dropna().astype(object), self.decimal)
            mixed = float(numbers.notna().mean())
            coded = is_coded(plain) if mixed else ""
            if mixed >= POLICY.enough and not coded:
                if len(bad := plain[numbers.isna()]):
                    what = f"numbers, but {_cells(bad)}: taken as missing (--as {name}=category?)."
                    self._find(name, what)
                return made.but(kind="number", why="numbers")
            date, share, doubt = date_format(plain)
            if share >= POLICY.enough:
                if doubt:
                    self._find(name, f"dates that may begin with day or month: read as {doubt}.")
                if share < 1:
                    bad = plain[parse_dates(plain, date).isna()]
                    self._find(name, f"dates, but {_cells(bad)}: taken as missing.")
                return made.but(kind="date", why=f"dates, {_readable(date)}", date=date)
            if coded:
                self._find(name, f"{coded}: not taken for numbers (--as {name}=number?).")
            elif mixed >= 0.3:
                self._find(name, f"{mixed:.0%} numbers and {_cells(plain[numbers.isna()])}: mixed.")
            words = plain.str.contains(r"\s").mean() > 0.5 and not IDENTIFIER.fullmatch(name)
            if made.values == len(plain) >= POLICY.several and not words:
                text = "another value in every row, as of an identifier"
                return self._drop(made, IDENTIFIES, text)
        if made.values <= POLICY.most_values or category:
            shown = f"{made.values} values: {_listed(plain.value_counts().index, 3)}"
            return made.but(kind="category", why=shown)
        return made.but(kind="text", why=f"text, {made.values:,} different")

    def _obey(self, made: Column, cells: Series, forced: str) -> Column:
        """Return a column of the kind that was asked for, if it can be."""
        name, made = made.name, made.but(kind=forced, why="told so")
        if forced == "number":
            values = to_numbers(plain_object(cells), self.decimal)
            bad, none = as_text(cells)[values.isna()].dropna(), bool(values.isna().all())
            if len(bad):
                what = f"no cell is a number, such as {_cells(bad)}"
                self._find(name, f"{what if none else f'{_cells(bad)} taken as missing'}.", none)
        elif forced == "date" and cells.dtype.kind != "M":
            text = as_text(cells).dropna()
            date, share, doubt = date_format(text)
            made = made.but(date=date)
            if share == 0:
                self._find(name, f"no cell is a date, such as {_shown(text.iloc[0])}.", fatal=True)
            elif doubt or share < 1:
                lost = f"; {1 - share:.0%} of the cells are none and are missing"
                self._find(name, f"read as {_readable(date)}{lost if share < 1 else ''}.")
        elif forced == "category" and made.values > 1000:
            self._find(name, f"{made.values:,} values make as many columns.")
        return made

    def _without_copies(
        self, column: Column, cells: Series, labels: Any, seen: dict[int, str]
    ) -> Column:
        """Drop a copy of another column or of the label; ask about one that determines it."""
        import pandas as pd

        name = column.name
        key = hash(pd.util.hash_pandas_object(cells, index=False).to_numpy().tobytes())
        first = seen.setdefault(key, name)
        if first != name:
            return self._drop(column, f"a copy of {first}")
        if labels is not None and is_copy(cells, labels):
            what = "tells the label in every row, as a copy of it would"
            what += f" (--as {name}={column.kind} to keep it)"
            return self._drop(column, "a copy of the label", what)
        if labels is not None and determines(cells, labels):
            text = f"its {column.values:,} values repeat, and rows of one value nearly always have "
            text += f"one label. If they belong together, such as one person's: --groups {name}; "
            self._find(name, text + "otherwise the scores of new values are too good.")
        return column

    @property
    def texts(self) -> list[str]:
        """Categories and texts whose cells were text, even if some of them look like numbers."""
        return [c.name for c in self.columns if c.text and c.kind in ("category", "text")]

    @property
    def identifiers(self) -> list[str]:
        """Columns that are dropped because they identify the rows."""
        return [column.name for column in self.columns if column.why == IDENTIFIES]

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
        table, _ = self._convert(frame)
        self.learned = {c.name: _learn(c.kind, table[c.name]) for c in self.used}
        self.gaps = [
            c.name for c in self.used if c.kind in ("number", "date") and table[c.name].isna().any()
        ]
        X = self._assemble(table)
        dense = np.array([kind in ("number", "date") for kind in self._layout()[2]], dtype=bool)
        self.medians = np.zeros(X.shape[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns without a number
            self.medians[dense] = np.nan_to_num(np.nanmedian(X[:, dense], axis=0))
        X = np.where(np.isnan(X), self.medians, X)
        spread = X.std(axis=0)
        largest = np.abs(X).max(axis=0, initial=1e-300)
        self.kept = spread > np.maximum(1e-9 * largest, SMALLEST)
        self.centres = np.where(dense, X.mean(axis=0), 0.0)
        self.scales = np.where(dense & self.kept, spread, 1.0)
        self._name_features()
        if not self.feature_names:
            raise DataError("no column varies over these rows: nothing to predict from.")
        return self

    def _name_features(self) -> None:
        names, sources, _ = self._layout()
        self.feature_names = [n for n, kept in zip(names, self.kept, strict=True) if kept]
        self.sources = [s for s, kept in zip(sources, self.kept, strict=True) if kept]

    def refit(self, frame: Frame) -> Columns:
        """Return an object of the same kinds that has learned from other rows only."""
        other = Columns(self.kinds, self.decimal)
        other.columns, other.findings = self.columns, self.findings
        return other.fit(frame)

    def transform(self, frame: Frame) -> Array:
        """Return a table with the columns of the fit as a matrix of float64 without gaps."""
        return self.transform_with_findings(frame)[0]

    def transform_with_findings(
        self, frame: Frame, absent: bool = False
    ) -> tuple[Array, list[Finding]]:
        """Return a table as a matrix, and what is odd about it; `absent` columns may be allowed."""
        frame, findings = self._same_names(frame, absent)
        table, more = self._convert(frame)
        X = self._assemble(table)
        X = (np.where(np.isnan(X), self.medians, X) - self.centres) / self.scales
        findings += [*more, *self._unseen(table)]
        return np.ascontiguousarray(X[:, self.kept]), findings

    def _same_names(self, frame: Frame, absent: bool) -> tuple[Frame, list[Finding]]:
        """Return a table in which every column has the name it had in the fit."""
        names = [column.name for column in self.used]
        spare = {str(name).strip().lower(): name for name in frame if name not in names}
        absentees = [name for name in names if name not in frame]
        renamed = {spare[n.lower()]: n for n in absentees if n.lower() in spare}
        findings = [Finding(name, f"called {old!r} here.") for old, name in renamed.items()]
        lacking = [name for name in absentees if name.lower() not in spare]
        if lacking and not absent:
            there = _listed(spare.values()) or "no others"
            text = f"the file lacks the columns {', '.join(map(repr, lacking))}; it has {there}"
            raise DataError(f"{text}. --allow-missing takes them as empty.")
        findings += [Finding(name, "not in the file: taken as empty.") for name in lacking]
        return frame.rename(columns=renamed).assign(**dict.fromkeys(lacking)), findings

    def _convert(self, frame: Frame) -> tuple[Frame, list[Finding]]:
        """Return the columns with the types of their kinds, and which cells were lost."""
        import pandas as pd

        made, findings = {}, []
        for column in self.used:
            cells, what = frame[column.name], ""
            if column.kind == "number":
                values, what = to_numbers(plain_object(cells), self.decimal), "number"
            elif column.kind == "date":
                form = f" ({_readable(column.date)})" if column.date else ""
                values, what = parse_dates(cells, column.date), f"date{form}"
            elif column.kind == "category":
                text = as_text(cells)
                text = yes_or_no(text, ("yes", "no")) if column.yes_no else text
                values = text.fillna(MISSING).astype(object)
            else:
                values = as_text(cells).fillna("").astype(object)
            if what and len(bad := as_text(cells)[values.isna()].dropna()):
                findings.append(Finding(column.name, f"{_cells(bad)}: no {what}, so missing."))
            made[column.name] = values
        return pd.DataFrame(made, index=frame.index), findings

    def _unseen(self, table: Frame) -> list[Finding]:
        """Return which categories hold values that the fit has not seen, and in how many rows."""
        findings, rows = list[Finding](), np.zeros(len(table), dtype=bool)
        for column in self.used:
            if column.kind != "category":
                continue
            new = ~table[column.name].isin(self.learned[column.name]["levels"]).to_numpy()
            if new.any():
                text = f"{_cells(table[column.name][new])}: not among the values learned"
                findings.append(Finding(column.name, f"{text}, so without effect."))
                rows |= new
        if len(findings) > 1:
            what = f"{rows.sum():,} of {len(rows):,} rows hold values that were not learned, in"
            findings.append(Finding("", f"{what} {', '.join(f.column for f in findings)}."))
        return findings

    def _layout(self) -> tuple[list[str], list[str], list[str]]:
        """Return the names of the matrix's columns, their sources and their kinds."""
        found = list[tuple[str, str, str]]()
        for column in self.used:
            name, learned = column.name, self.learned[column.name]
            found += [(name + end, name, column.kind) for end in _endings(column, learned)]
            if name in self.gaps:
                found.append((f"{name} {MISSING}", name, "category"))
        names, sources, kinds = zip(*found, strict=True) if found else ((), (), ())
        return list(names), list(sources), list(kinds)

    def _assemble(self, table: Frame) -> Array:
        """Return the matrix with gaps."""
        blocks = []
        for column in self.used:
            values = table[column.name]
            blocks.append(_block(column, self.learned[column.name], values))
            if column.name in self.gaps:
                blocks.append(values.isna().to_numpy()[:, None])
        return np.hstack(blocks).astype(np.float64, copy=False)

    # -- plain data ---------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what was learned as lists, texts and numbers."""
        return {
            "columns": [column.model_dump() for column in self.columns],
            "learned": {
                name: {key: np.asarray(value).tolist() for key, value in learned.items()}
                for name, learned in self.learned.items()
            },
            "gaps": self.gaps,
            "decimal": self.decimal,
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Columns:
        """Return a fitted object from what :meth:`state` returned, whose types were checked.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        made = cls(decimal=state["decimal"])
        made.columns = [Column(**column) for column in state["columns"]]
        made.used = [column for column in made.columns if column.kind != "drop"]
        if set(state["learned"]) != {column.name for column in made.used}:
            raise ValueError("'learned' must hold the columns that are used")
        made.learned = {c.name: _checked(c, state["learned"][c.name]) for c in made.used}
        made.gaps = [column.name for column in made.used if column.name in state["gaps"]]
        width = len(made._layout()[0])
        for name in _ARRAYS:
            array = np.array(state[name], dtype=bool if name == "kept" else np.float64)
            if array.shape != (width,):
                raise ValueError(f"{name!r} must hold {width} values")
            setattr(made, name, array)
        if not (made.scales >= SMALLEST).all():
            raise ValueError(f"'scales' must be {SMALLEST:g} or more")
        made._name_features()
        return made


# -- what is learned from a column ----------------------------------------------------------------

# One value for each column of the matrix before constant ones are left out.
_ARRAYS = ("medians", "centres", "scales", "kept")
# What pandas calls the part of a date.
_PANDAS = {"weekday": "day_of_week"}
# Groups of three or four letters within words.
_LETTERS: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (3, 4)}


def _learn(kind: str, values: Series) -> dict[str, Any]:
    """Return what the encoding of a column needs to know."""
    if kind == "category":
        return {"levels": sorted(set(values))}
    if kind == "date":
        return {"hours": bool((values.dropna() != values.dropna().dt.normalize()).any())}
    return _learn_text(values) if kind == "text" else {}


def _learn_text(values: Series) -> dict[str, Any]:
    """Return groups of letters, their inverse frequencies, and the main directions of both."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(**_LETTERS)
    if not values.str.strip().any():
        return {"terms": [], "idf": [], "directions": []}
    rows = words.fit_transform(values)
    svd = TruncatedSVD(min(POLICY.components, *rows.shape), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of equal rows the explained share is 0 / 0
        made = svd.fit_transform(rows)
    # The block has the variance of one standardised column.
    spread = float(np.sqrt(made.var(axis=0).sum()))
    return {
        "terms": words.get_feature_names_out().tolist(),
        "idf": words.idf_,
        # Seven decimals, so that a file is half as long.
        "directions": np.round(svd.components_ / (spread or 1.0), 7),
    }


def _endings(column: Column, learned: Mapping[str, Any]) -> list[str]:
    """Return what the names of a column's parts add to its own."""
    if column.kind == "category":
        levels = learned["levels"]
        return [f" = {level}" for level in (levels if len(levels) != 2 else levels[1:])]
    if column.kind == "date":
        return [f" {part}" for part in _date_parts(learned)]
    if column.kind == "text":
        return [f" #{number:02d}" for number in range(len(learned["directions"]))]
    return [""]


def _date_parts(learned: Mapping[str, Any]) -> list[str]:
    hours = ["hour"] if learned["hours"] else []
    return ["year", "month", "day", *hours, "time", "weekday"]


def _block(column: Column, learned: Mapping[str, Any], values: Series) -> Array:
    """Return a column's part of the matrix, with NaN in gaps of numbers and dates."""
    import pandas as pd

    if column.kind == "category":
        levels = learned["levels"]
        places = pd.Index(levels, dtype=object).get_indexer(values)
        if len(levels) == 2:
            # Half a step to either side: the difference between both is 1, unseen values are 0.
            return np.where(places < 0, 0.0, places - 0.5)[:, None]
        return places[:, None] == np.arange(len(levels))
    if column.kind == "date":
        # Microseconds reach the year 9999, by which people mean never.
        stamps = values.to_numpy(dtype="datetime64[us]")
        seconds = pd.Series(np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / 1e6))
        parts = [
            seconds if name == "time" else getattr(values.dt, _PANDAS.get(name, name))
            for name in _date_parts(learned)
        ]
        return np.column_stack([part.to_numpy(dtype=np.float64) for part in parts])
    if column.kind == "text":
        return _text_block(learned, values)
    return values.to_numpy(dtype=np.float64)[:, None]


def _text_block(learned: Mapping[str, Any], values: Series) -> Array:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    if not len(learned["terms"]):
        return np.empty((len(values), 0))
    counts = CountVectorizer(**_LETTERS, vocabulary=learned["terms"]).transform(values)
    weights = normalize(counts.multiply(np.asarray(learned["idf"])[None, :]).tocsr())
    return np.asarray(weights @ np.asarray(learned["directions"]).T)


def _checked(column: Column, learned: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was learned, if it can be a column's of this kind."""
    keys = {"category": ["levels"], "date": ["hours"], "text": ["terms", "idf", "directions"]}
    made, wrong = dict(learned), ""
    if list(learned) != keys.get(column.kind, []):
        wrong = f"is a {column.kind!r} that has learned {list(learned)}"
    elif column.kind == "date" and not _is_date_format(column.date):
        wrong = f"has dates of the form {column.date[:40]!r}"
    elif any(len(set(made.get(key, ()))) < len(made.get(key, ())) for key in ("levels", "terms")):
        wrong = "has a value or a group of letters twice"
    elif column.kind == "text":
        count, directions = len(made["terms"]), np.array(made["directions"], dtype=np.float64)
        made["directions"] = directions.reshape(len(directions), count)
        wrong = "" if len(made["idf"]) == count else "has groups of letters without a weight"
    if wrong:
        raise ValueError(f"{column.name!r} {wrong}")
    return made


# -- cells ----------------------------------------------------------------------------------------


def raise_fatal(findings: Sequence[Finding]) -> None:
    """Raise one error that names all fatal findings, if there are any."""
    fatal = [str(finding) for finding in findings if finding.fatal]
    if fatal:
        raise DataError(" ".join(fatal))


def plain_object(cells: Series) -> Series:
    """Return cells as numbers can be read from them: durations in seconds, dates as text."""
    kind = cells.dtype.kind
    if kind in "mM":
        return cells.dt.total_seconds() if kind == "m" else as_text(cells)
    return cells if kind in "biuf" else cells.astype(object)


def outliers_of(values: Series) -> tuple[int, str]:
    """Return how many numbers are far from all others, and a question about them."""
    low, middle, high = values.quantile([0.25, 0.5, 0.75]) if len(values) else (0, 0, 0)
    far = values[(values - middle).abs() > POLICY.outlying * (high - low)]
    if high <= low or not len(far):
        return 0, ""
    what = f"more than {POLICY.outlying:g} interquartile ranges from the median"
    return len(far), f"{what}, such as {far.iloc[0]:g} (median {middle:.4g}): slips?"


def yes_or_no(text: Series, words: Sequence[str] = ()) -> Series:
    """Return text in which yes and no have one spelling each, if there is nothing else.

    Parameters
    ----------
    text : pandas.Series
        Such as Ja, nein, "J" and gaps.
    words : sequence of str
        The spellings to use, whatever else there is; by default the most frequent ones.
    """
    lower = text.str.lower()
    found = set(lower.dropna())
    if not words and (not found <= YES | NO or found <= {"0", "1"}):
        return text
    made = text
    for spellings in (YES, NO):
        mine = lower.isin(spellings)
        own = [w for w in words if w.lower() in spellings] if words else text[mine].mode().tolist()
        if words and not own:
            return text
        made = made.mask(mine, own[0]) if own else made
    return made


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

    if cells.dtype.kind != "M":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = as_text(cells).astype(object)
            cells = pd.to_datetime(text, errors="coerce", utc=True, format=form or None)
    return cells.dt.tz_convert("UTC").dt.tz_localize(None) if cells.dt.tz is not None else cells


def _is_date_format(form: str) -> bool:
    """Tell whether a format is one that :func:`date_format` can choose."""
    parts = re.findall("%.", form)
    right = re.fullmatch(r"(?:%[aAbBdfHIjmMpSyYzZ]|[^%]){0,80}", form)
    return right is not None and len(set(parts)) == len(parts)


def _identifies(name: str, plain: Series, rows: int) -> bool:
    """Tell whether whole numbers only count the rows or name them."""
    own = bool(IDENTIFIER.fullmatch(name))
    named = own or bool(_INDEX.fullmatch(name))
    # Whole numbers of more digits than a float has are compared as they are.
    types = {"f": np.float64, "u": np.uint64, "i": np.int64}
    values = plain.to_numpy(dtype=types[plain.dtype.kind])
    enough = len(values) >= max(POLICY.several, POLICY.enough * rows if named else rows)
    if not enough or (values != np.round(values)).any() or not plain.is_unique:
        return False
    return own or bool((np.diff(np.sort(values) if named else values) == 1).all())


def is_copy(cells: Series, labels: Series) -> bool:
    """Tell whether a column and the labels, if there are any, determine each other."""
    known = labels.notna().to_numpy() & cells.notna().to_numpy()
    if known.sum() < max(POLICY.several, 0.9 * labels.notna().sum()):
        return False
    ours, theirs = cells[known], labels[known]
    if labels.dtype.kind == "f" and theirs.nunique() > 10:
        values = to_numbers(plain_object(ours)).to_numpy()
        if np.isnan(values).any() or not values.std():
            return False
        return bool(abs(np.corrcoef(values, theirs.to_numpy())[0, 1]) > 1 - 1e-9)
    pairs = set(zip(_codes(ours), _codes(theirs), strict=True))
    return bool(len(pairs) == ours.nunique() == theirs.nunique() > 1)


def determines(cells: Series, labels: Series) -> bool:
    """Tell whether a column's values repeat and nearly always go with one label.

    Such a column may name a person, a machine or a document with several rows: a model recognises
    it, and rows held out at random look easier than rows of somebody new.
    """
    known = labels.notna().to_numpy() & cells.notna().to_numpy()
    ours, theirs = cells[known], labels[known]
    values = ours.nunique()
    if not POLICY.several // 2 <= values <= len(ours) // 2:
        return False
    if cells.dtype.kind in "iufM":
        # Of a number that merely predicts well, neighbours are alike, too.
        order = np.unique(ours.to_numpy(), return_inverse=True)[1]
        return _is_pure(order, theirs) and not _is_pure(order // 2, theirs)
    return _is_pure(_codes(ours), theirs)


def _is_pure(groups: Array, labels: Series) -> bool:
    """Tell whether the labels hardly differ within groups."""
    import pandas as pd

    if labels.dtype.kind == "f":
        y = labels.to_numpy()
        within = y - (np.bincount(groups, y) / np.bincount(groups))[groups]
        return bool(within.var() <= (1 - POLICY.pure) * y.var())
    counts = pd.crosstab(groups, labels.to_numpy()).to_numpy()
    base, pure = counts.sum(axis=0).max(), counts.max(axis=1).sum()
    return bool(pure - base >= POLICY.pure * (len(labels) - base) > 0)


def _codes(cells: Series) -> Array:
    import pandas as pd

    return pd.factorize(cells.astype(object) if cells.dtype.kind == "O" else cells)[0]


def _readable(form: str) -> str:
    """Return a format of dates as people write them."""
    words = {"%Y": "year", "%y": "year", "%m": "month", "%d": "day", "%b": "month", "%B": "month"}
    text = re.sub(r"%[A-Za-z]", lambda found: words.get(found[0], ""), form)
    return "ISO 8601" if form == "ISO8601" else re.sub(r"[^a-z./ -]|[ :]+$", "", text).strip()


def _listed(names: Iterable[Any], most: int = 8) -> str:
    return list_names([str(name)[:30] for name in names], most)


def _shown(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 30 else f"{text[:29]}…")


def _cells(bad: Series) -> str:
    """Return how many cells are meant, with an example."""
    first, row = _shown(bad.iloc[0]), bad.index[0]
    if len(bad) > 1:
        return f"{len(bad):,} cells such as {first}"
    return f"{first} (row {row + 1 if isinstance(row, (int, np.integer)) else row})"
