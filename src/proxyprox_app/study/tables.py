"""Tables from files, as they come.

:func:`read_table` returns a pandas DataFrame of a CSV, Parquet or Excel file: separator, encoding,
header and decimal commas are found out. What its columns become in a model is the business of
:class:`proxyprox_app.study.columns.Columns`. :func:`read_arrays` reads svmlight and npz files,
which hold numbers only and need no pandas.
"""

from __future__ import annotations

import bz2
import csv
import datetime
import difflib
import gzip
import io
import lzma
import math
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxyprox._util.extras import require
from proxyprox._util.text import printable

COMPRESSIONS: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}

ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
    ".npz": "npz",
}
# Formats that are read into a DataFrame.
FRAMES = ("csv", "parquet", "excel")

# What a column can be in a model.
KINDS = ("number", "category", "text", "date", "drop")

# More columns than these are an index that went wrong; their names alone would fill the memory.
MOST_COLUMNS = 10**7
# Lines looked at to find the separator, and the first of them that may hold a title.
LOOKED_AT, TITLES = 200, 20
# What stands for an empty cell, in lower case.
EMPTY = {
    "", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "nat", "-", "--", "?", ".",
    "#null!", "#div/0!", "#value!", "#ref!", "#num!", "#name?",
}  # fmt: skip
# Digits of a whole number up to which float64 tells it from the next.
EXACT = 15
_FILL_IN = "fill it in, or leave the column out of 'features'"

Name = str | None
Names = Sequence[str] | None


class DataError(ValueError):
    """A user's table cannot be used; the message says where the trouble is and what to do."""

    def __init__(self, text: str = "") -> None:
        # Names of files and columns are a stranger's, and messages end up on a terminal.
        super().__init__(printable(text))


class Finding(NamedTuple):
    """What is odd about a table: the column (or ""), what was found, and what is done about it.

    ``fatal`` findings stop whoever wanted to use the table; the others have been handled.
    """

    column: str
    text: str
    fatal: bool = False

    def __str__(self) -> str:
        return printable(f"{self.column}: {self.text}" if self.column else self.text)


class Loaded(NamedTuple):
    """A table, what was odd about its file, and the decimal marks of columns that were text."""

    frame: Any
    findings: list[Finding]
    decimals: dict[str, str]


class Cells(NamedTuple):
    """The cells of a file as they stand there, what was odd about it, and its separator or ""."""

    frame: Any
    findings: list[Finding]
    separator: str

    def parse(self, text: Sequence[str] = ()) -> Loaded:
        """Return the table that the cells make; the columns of `text` are not read as numbers."""
        findings, decimals = list(self.findings), dict[str, str]()
        frame = _parse_cells(self.frame, self.separator, findings, decimals, text)
        return Loaded(frame, findings, decimals)

    def text(self, names: Sequence[str] | None = None) -> Any:
        """Return cells as text, "" where empty; whole numbers and days are written as such."""
        import pandas as pd

        used = [name for name in self.frame if names is None or name in names]
        texts = {name: _written(self.frame[name]) for name in used}
        return pd.DataFrame(texts, index=self.frame.index, dtype=object)


def read_table(
    path: str | Path,
    encoding: Name = None,
    separator: Name = None,
    sheet: str | int | None = None,
    *,
    format: Name = None,
) -> Any:
    r"""Read a CSV, Parquet or Excel file as it comes.

    Parameters
    ----------
    path : path-like
        The file. Its ending tells the format: ``.csv``, ``.tsv``, ``.txt``, also with ``.gz``,
        ``.bz2`` or ``.xz`` behind it, ``.parquet``, ``.pq``, ``.xlsx``, ``.xlsm``.
    encoding : str, optional
        Of a text file. Default: UTF-8 or UTF-16 if it is that, else Windows-1252.
    separator : str, optional
        Of a text file. Default: whichever of comma, semicolon, tab and bar makes rows of one
        length.
    sheet : str or int, optional
        Of an Excel file, by name or counted from 1. Default: the first that is not empty.
    format : {"csv", "parquet", "excel"}, optional
        For a file whose ending says nothing.

    Returns
    -------
    frame : pandas.DataFrame
        Columns of numbers are float64: of text such as ``1.234,50``, ``1,234.50``, ``$ 3``, ``5 %``
        too. Text with leading zeros stays text. Other cells are stripped text, None if empty;
        what Parquet and Excel call a date, a truth value or a category stays that. Titles above
        the header, empty rows and unnamed empty columns are left out. Names are stripped, and of
        equal ones the second gets the ending ``.2``.

    Raises
    ------
    DataError
        For a file that is no table; the message says why and what to do.
    MissingExtraError
        Without the ``data`` extra.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "prices.csv"
    ...     text = "Ort;Preis;Zip\nKöln;1.299,50 €;01067\n;n/a;50667"
    ...     _ = path.write_bytes(text.encode("cp1252"))
    ...     frame = read_table(path)
    >>> frame["Preis"].tolist(), frame["Ort"].tolist(), frame["Zip"].tolist()
    ([1299.5, nan], ['Köln', None], ['01067', '50667'])
    """
    return load_table(path, encoding, separator, sheet, format=format).frame


def load_table(
    path: str | Path,
    encoding: Name = None,
    separator: Name = None,
    sheet: str | int | None = None,
    *,
    format: Name = None,
) -> Loaded:
    """Return a table as :func:`read_table` does, with what was odd about its file."""
    return load_cells(path, encoding, separator, sheet, format=format).parse()


def load_cells(
    path: str | Path,
    encoding: Name = None,
    separator: Name = None,
    sheet: str | int | None = None,
    *,
    format: Name = None,
) -> Cells:
    """Return the rows of :func:`read_table` before anything is made of their cells."""
    return _read_cells(Path(path), encoding, separator, sheet, format)


def read_cells(path: str | Path) -> Any:
    """Return the rows of :func:`read_table` as the text that stands in the file, "" where empty."""
    return load_cells(path).text()


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """Put the name of the file before what is wrong with it."""
    if not file.is_file():
        raise DataError(f"the data file {str(file)!r} does not exist or is a folder.")
    try:
        yield
    except (ValueError, EOFError, MemoryError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{file.name}: {str(error) or 'it cannot be read'}") from error


def format_of(file: Path) -> str:
    """Return the format that a file's ending tells."""
    name = file.with_suffix("") if file.suffix.lower() in COMPRESSIONS else file
    if name.suffix.lower() not in ENDINGS:
        old = " Save an .xls file as .xlsx." if name.suffix.lower() == ".xls" else ""
        known = f"use one of {', '.join(ENDINGS)}, or pass format=.{old}"
        raise DataError(f"{file.name}: the ending does not tell the format; {known}")
    return ENDINGS[name.suffix.lower()]


def no_column(name: str, columns: Any) -> str:
    """Return the message for a column that is not there."""
    names = [str(each) for each in columns]
    near = difflib.get_close_matches(name, names, 1, 0.6)
    shown = ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no column {name!r}; {hint}the columns are {shown}."


def read_bytes(path: Path, suffix: str | None = None) -> bytes:
    """Return a file's content, decompressed if its ending (or `suffix`) says so."""
    suffix = path.suffix.lower() if suffix is None else suffix
    if suffix not in COMPRESSIONS:
        return path.read_bytes()
    try:
        with COMPRESSIONS[suffix](path) as file:
            content: bytes = file.read()
    except (lzma.LZMAError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"not a whole {suffix[1:]} file ({error})") from error
    return content


# -- CSV, Parquet and Excel ---------------------------------------------------------------------


def _read_cells(path: Path, encoding: Name, separator: Name, sheet: Any, format: Name) -> Cells:
    """Return the cells under their names, what was odd, and the separator (or "")."""
    kind = format or format_of(path)
    with _errors_of(path):
        if kind not in FRAMES:
            raise ValueError(f"{kind} holds numbers without names; CSV, Parquet or Excel do.")
        purpose = f"reading {path.name} ({kind.upper() if kind == 'csv' else kind.capitalize()})"
        pd: Any = require("pandas", extra="app", purpose=purpose)
        findings: list[Finding] = []
        if kind == "parquet":
            parquet: Any = require("pyarrow.parquet", extra="app", purpose=purpose)
            # Whole numbers stay whole beside empty cells.
            frame = parquet.read_table(path).to_pandas(integer_object_nulls=True)
            frame = frame.rename(columns=str)
            if frame.index.name is not None and frame.index.name not in frame:
                frame = frame.reset_index()
            separator = ""
        elif kind == "excel":
            require("openpyxl", extra="app", purpose=purpose)
            frame, separator = _read_sheet(pd, path, sheet, findings), ""
        else:
            frame, separator = _read_text(pd, read_bytes(path), encoding, separator, findings)
        if kind != "parquet":
            frame = _with_header(frame, findings)
        frame.columns = distinct([str(name).strip() for name in frame], findings)
        frame = frame.reset_index(drop=True)
        if not len(frame):
            raise ValueError("the table has no rows, only the names of its columns.")
    return Cells(frame, findings, separator)


def _decode(content: bytes, encoding: Name, findings: list[Finding]) -> str:
    """Return text in the encoding named, or in the first that fits."""
    if encoding is not None:
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except (LookupError, UnicodeError) as error:
            raise ValueError(f"it cannot be read as {encoding!r} ({error}).") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16")
    sample = content[:2000]
    if sample.count(0) > len(sample) // 4:  # UTF-16 without its mark
        return content.decode(
            "utf-16-le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16-be"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
        findings.append(
            Finding("", "not UTF-8: read as Windows-1252 (--encoding to say otherwise).")
        )
        return text


def _separator_of(text: str) -> str:
    """Return the separator that makes the most rows of one length, of two cells or more."""
    lines = [line for line in text[: 1 << 18].splitlines() if line.strip()][:LOOKED_AT]
    best, found = (0.0, 0), ","
    for separator in ",;\t|":
        try:
            counts = Counter(len(row) for row in csv.reader(lines, delimiter=separator))
        except csv.Error:
            continue
        cells, often = max(counts.items(), key=lambda item: (item[1], item[0]))
        score = (often / len(lines), cells) if cells > 1 else (0.0, 0)
        if score > best:
            best, found = score, separator
    return found


def _read_text(
    pd: Any, content: bytes, encoding: Name, separator: Name, findings: list[Finding]
) -> tuple[Any, str]:
    """Return the cells of a text file, numbered columns, and its separator."""
    text = _decode(content, encoding, findings).replace("\x00", "")
    if not text.strip():
        raise ValueError("the file is empty; it needs a header and data rows.")
    told = re.match(r"sep=(.)\s*\n", text)  # how Excel is told
    if told:
        text, separator = text[told.end() :], separator or told[1]
    separator = {"\\t": "\t", "tab": "\t"}.get(separator or "", separator) or _separator_of(text)
    first = text[: 1 << 20].splitlines()[: TITLES + 1]
    # A blank before a quote is no part of the cell; elsewhere it is.
    padded = re.search(rf'(?:^|{re.escape(separator)}) +"', text, re.MULTILINE) is not None
    try:
        width = max(map(len, csv.reader(first, delimiter=separator)))
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text), header=None, names=range(width), dtype=str, sep=separator,
                keep_default_na=False, na_values=[""], index_col=False, skipinitialspace=padded,
            )  # fmt: skip
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error, TypeError) as error:
        remedy = "every row needs as many cells, and text with the separator in it needs quotes"
        reason = str(error).replace("Error tokenizing data. C error: ", "").strip()
        raise ValueError(
            f"not a table ({reason}); {remedy}. The separator is {separator!r}."
        ) from error
    return frame, separator


def _read_sheet(pd: Any, path: Path, sheet: Any, findings: list[Finding]) -> Any:
    """Return the cells of a sheet, numbered columns."""
    options = {"header": None, "dtype": object, "keep_default_na": False}
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            names = list(book.sheet_names)
            if sheet is not None:
                asked = str(sheet)
                if asked not in names and asked.isdigit() and 1 <= int(asked) <= len(names):
                    asked = names[int(asked) - 1]
                if asked not in names:
                    known = ", ".join(map(repr, names))
                    raise ValueError(f"no sheet {asked!r}; the sheets are {known}.")
                return pd.read_excel(book, sheet_name=asked, **options)
            for name in names:
                frame = pd.read_excel(book, sheet_name=name, **options)
                if frame.size:
                    if len(names) > 1:
                        text = f"the sheet {name!r} of {len(names)} is read (--sheet for another)."
                        findings.append(Finding("", text))
                    return frame
    except (KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"not an Excel file ({error}).") from error
    raise ValueError("every sheet is empty; a table needs a header and data rows.")


def _with_header(cells: Any, findings: list[Finding]) -> Any:
    """Return the rows below the header, under its names; titles and empty rows are left out."""
    full = cells.notna() & (cells.map(lambda cell: str(cell).strip()) != "")
    cells, full = cells.loc[full.any(axis=1)], full.loc[full.any(axis=1)]
    if not len(cells):
        raise ValueError("the file is empty; it needs a header and data rows.")
    counts = full.iloc[: TITLES + 1].sum(axis=1).to_numpy()
    # The header is the first row that names nearly as many columns as rows below it fill.
    header = int(np.argmax(counts >= max(0.6 * counts.max(), min(2, counts.max()))))
    names = [
        str(cell).strip() if there else ""
        for cell, there in zip(cells.iloc[header], full.iloc[header], strict=True)
    ]
    if all(math.isfinite(_to_number(name)) for name in names if name):
        raise ValueError(f"the first line must name every column, but has {names[:4]}.")
    if header:
        what = f"{header} line{'s' * (header > 1)} above the header left out"
        findings.append(Finding("", f"{what}: {_one_line(cells.iloc[0])!r}."))
    rows, used = cells.iloc[header + 1 :], full.iloc[header + 1 :].any(axis=0).to_numpy()
    last = max(place for place, name in enumerate(names) if name)
    for place, name in enumerate(names):
        if not name and used[place]:
            filled = full.iloc[header + 1 :, place]
            if place > last and 2 * filled.sum() < len(filled):
                row = int(np.argmax(filled.to_numpy())) + 1
                raise ValueError(
                    f"not a table: row {row} has more cells than the header, {last + 1}; text "
                    "with the separator in it needs quotes."
                )
            names[place] = f"column {place + 1}"
            findings.append(
                Finding(names[place], "has no name in the header; it is called so here.")
            )
    rows = rows.loc[:, [bool(name) for name in names]]
    return rows.set_axis([name for name in names if name], axis=1)


def _one_line(row: Any) -> str:
    text = " ".join(str(cell) for cell in row if _stripped(cell) is not None)
    return text[:60] + ("…" if len(text) > 60 else "")


def distinct(names: list[str], findings: list[Finding]) -> list[str]:
    """Return names of which no two are equal."""
    found: list[str] = []
    for given in names:
        name, number = given, 1
        while name in found:
            number += 1
            name = f"{given}.{number}"
        if number > 1:
            findings.append(
                Finding(name, f"a second column called {given!r}; it is called so here.")
            )
        found.append(name)
    return found


# -- cells: gaps, numbers ------------------------------------------------------------------------

_SPACES = "\u00a0\u202f\u2009"
_MONEY = r"(?:[$€£¥₹₽]|EUR|USD|GBP|CHF|JPY)"
# A number with groups of three, with and without a decimal point; the comma's has them exchanged.
# Digits of other scripts are no numbers here, and neither is an exponent alone, such as E119.
_NUMBER = (
    r"[+-]?(?:(?:[0-9]{{1,3}}(?:[{group}][0-9]{{3}})+|[0-9]{{1,3}}(?:[ '][0-9]{{3}})+|[0-9]+)"
    r"(?:[{point}][0-9]*)?|[{point}][0-9]+)(?:[eE][+-]?[0-9]+)?"
)
_POINT, _COMMA = _NUMBER.format(group=",", point="."), _NUMBER.format(group=".", point=",")
_NUMBERS = (int, float, Decimal, np.integer, np.floating)
# What only codes look like: letters before digits (E119, K-12), or between them (4A12, 0x1F).
_CODE = r"[^\W\d_]+[-./]?[0-9][\w./-]*|[0-9]+[^\W\d_]+[0-9]\w*"
# A code, or a number in scientific notation: digits, E, digits, without a sign or a point.
_EITHER = r"[0-9]+[eE][0-9]+"
# Codes among numbers make a column of codes from this share on, and two of them; fewer are slips.
CODES = 0.01


def _parse_cells(
    frame: Any,
    separator: str,
    findings: list[Finding],
    decimals: dict[str, str],
    as_text: Collection[str],
) -> Any:
    """Return columns of numbers as such, other text stripped, with None in empty cells."""
    import pandas as pd

    texts = {
        place: _strip(column)
        for place, column in enumerate(frame[name] for name in frame)
        if isinstance(column.dtype, pd.StringDtype) or column.dtype == object
    }
    # Names that differ in upper and lower case are matched later.
    as_text = {*as_text, *(name.lower() for name in as_text if name not in frame)}
    votes = sum((comma_votes(text) for text in texts.values()), 0)
    columns = {}
    for place, name in enumerate(frame):
        column = frame[name]
        if place in texts:
            column = texts[place]
            decimal = decimal_mark(column, votes, "," if separator == ";" else ".")
            decimals[str(name)] = decimal
            if name in as_text or str(name).lower() in as_text:
                pass
            elif all(isinstance(cell, (str, type(None))) for cell in column):
                numbers = to_numbers(column, decimal)
                if numbers.notna().sum() == column.notna().sum() > 0 and not is_coded(column):
                    if example := _scientific(column):
                        text = f"{example!r} and the like are read as numbers"
                        findings.append(Finding(str(name), f"{text} (--as {name}=category?)."))
                    column = numbers
            else:
                known = column.dropna()
                column = _one_kind(pd, column, known, decimal)
        columns[name] = column
    return pd.DataFrame(columns, index=frame.index)


def _one_kind(pd: Any, column: Any, known: Any, decimal: str) -> Any:
    """Return a column of Python objects, as Excel has them, as one type, else as text."""
    kinds = {
        "number"
        if isinstance(cell, (int, float)) and not isinstance(cell, bool)
        else type(cell).__name__
        for cell in known
    }
    if kinds == {"number"}:
        long = [cell for cell in known if isinstance(cell, int) and abs(cell) >= 10**EXACT]
        # Whole numbers that float64 does not tell apart name something.
        return column.astype(np.float64) if not long else column.map(str, na_action="ignore")
    if kinds <= {"datetime", "Timestamp", "date"}:
        return pd.to_datetime(column, errors="coerce")
    if kinds == {"bool"}:
        return column.astype("boolean")
    if kinds <= {"number", "str", "bool", "datetime", "Timestamp", "date", "time", "Decimal"}:
        text = column.map(
            lambda cell: (
                f"{cell:.0f}" if isinstance(cell, float) and cell.is_integer() else str(cell)
            ),
            na_action="ignore",
        )
        numbers = to_numbers(column, decimal)
        whole = numbers.notna().sum() == text.notna().sum() and not is_coded(text)
        return numbers if whole else text
    return column  # lists and the like: whoever uses the column says so


def _strip(column: Any) -> Any:
    """Return an object column with stripped text, and None in empty cells."""
    import pandas as pd

    return pd.Series([_stripped(cell) for cell in column], index=column.index, dtype=object)


def _written(column: Any) -> list[str]:
    """Return cells as text, "" where empty."""
    days = all(
        getattr(cell, "time", None) is None or cell.time() == datetime.time()
        for cell in column.dropna()
    )

    def text(cell: Any) -> str:
        if isinstance(cell, str):
            return cell if cell.strip() else ""
        if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
            return f"{cell:.0f}"
        return str(cell.date()) if days and hasattr(cell, "time") else str(cell)

    gaps = column.isna().to_numpy()
    return ["" if gap else text(cell) for cell, gap in zip(column, gaps, strict=True)]


def _stripped(cell: Any) -> Any:
    if isinstance(cell, str):
        cell = cell.strip()
        return None if cell.lower() in EMPTY else cell
    missing = cell is None or type(cell).__name__ in ("NAType", "NaTType")
    return None if missing or (isinstance(cell, float) and math.isnan(cell)) else cell


def _bare(column: Any) -> tuple[Any, Any]:
    """Return text without signs of money and percent, and which cells had the latter."""
    text = column.astype("string").str.replace(f"[{_SPACES}]", " ", regex=True).str.strip()
    text = text.str.replace("\u2212", "-", regex=False)
    text = text.str.replace(r"^\((.*\d.*)\)$", r"-\1", regex=True)  # (5) is −5 in accounts
    percent = text.str.endswith("%").fillna(False)
    text = text.str.replace(rf"^([+-]?)\s*{_MONEY}\s*|\s*(?:{_MONEY}|%)$", r"\1", regex=True)
    return text.str.replace(r"^([+-])\s+", r"\1", regex=True), percent


def comma_votes(column: Any) -> int:
    """Return how many cells are numbers with a decimal comma only, less those with a point only."""
    text = _bare(column[column.map(lambda cell: isinstance(cell, str)).astype(bool)])[0]
    comma, point = _matches(text, _COMMA), _matches(text, _POINT)
    return int((comma & ~point).sum()) - int((point & ~comma).sum())


def marked(column: Any) -> Any:
    """Return the cells of text that are numbers with a comma or a point in them."""
    cells = column[column.map(lambda cell: isinstance(cell, str)).astype(bool)]
    text = _bare(cells)[0]
    there = text.str.contains("[.,]").fillna(False).astype(bool)
    return cells[there & (_matches(text, _COMMA) | _matches(text, _POINT))]


def decimal_mark(column: Any, votes: int = 0, default: str = ".") -> str:
    """Return the mark that a column's decimals are behind, "" if it makes no difference.

    Parameters
    ----------
    column : pandas.Series
        Text, perhaps beside numbers.
    votes : int
        The table's :func:`comma_votes`, for a column whose cells do not tell.
    default : str
        For a table whose cells do not tell.
    """
    votes = comma_votes(column) or votes
    if votes:
        return "," if votes > 0 else "."
    return default if len(marked(column)) else ""


def to_numbers(column: Any, decimal: str = "") -> Any:
    """Return cells as numbers, NaN if there is none.

    Parameters
    ----------
    column : pandas.Series
        Numbers, or text: groups of three, money and percent signs (5 % is 0.05) are understood.
    decimal : {"", ",", "."}
        What decimals of text are behind; "" for the mark with which more of the cells are numbers.
    """
    import pandas as pd

    if column.dtype != object and not isinstance(column.dtype, pd.StringDtype):
        values = pd.to_numeric(column, errors="coerce").astype(np.float64)
        return values.where(np.isfinite(values))
    comma = (decimal or decimal_mark(column)) == ","
    plain = column.map(lambda cell: isinstance(cell, _NUMBERS) and not isinstance(cell, bool))
    plain = plain.to_numpy(dtype=bool, na_value=False)
    text, percent = _bare(column)
    text = text.where(_matches(text, _COMMA if comma else _POINT) & ~plain)
    if comma:
        text = text.str.replace(r"[. ']", "", regex=True).str.replace(",", ".", regex=False)
    else:
        text = text.str.replace(r"[, ']", "", regex=True)
    known = text.notna().to_numpy()
    values = np.full(len(text), np.nan)
    values[known] = text[known].to_numpy(dtype=object).astype(np.float64)
    values /= np.where(percent, 100.0, 1.0)
    # Numbers beside text, as in Excel, have no mark.
    values[plain] = column[plain].to_numpy(dtype=object).astype(np.float64)
    return pd.Series(np.where(np.isfinite(values), values, np.nan), index=column.index)


def _matches(text: Any, form: str) -> Any:
    """Tell which cells are wholly of a form; empty ones are not."""
    return text.str.fullmatch(form).fillna(False).astype(bool)


def is_coded(column: Any) -> str:
    """Return why a column that looks like numbers holds codes, "" if it does not.

    Parameters
    ----------
    column : pandas.Series
        Text, None if empty.

    Returns
    -------
    why : str
        Such as "codes such as '00123', with leading zeros".

    Examples
    --------
    >>> import pandas as pd
    >>> is_coded(pd.Series(["4E12", "E119", "1200"], dtype=object))
    "codes such as 'E119'"
    >>> is_coded(pd.Series(["1.5E-3", "2E5", None], dtype=object))
    ''
    """
    text = column.dropna().astype("string")
    if not text.str.contains(rf"[^\W\d_]|^0[0-9]|[0-9]{{{EXACT + 1}}}").any():
        return ""
    either, digits = _matches(text, _EITHER), _matches(text, "[0-9]+")
    codes = _matches(_bare(text)[0], _CODE) & ~either
    width = text.str.len()
    found = [
        (", with leading zeros", _matches(text, "0[0-9].*")),
        ("", codes & bool(either.any() or codes.sum() > max(1, CODES * len(text)))),
        (", all of one width", either & bool(digits.any() and width.nunique() == 1)),
        (", too long for a number", digits & bool(digits.all()) & (width > EXACT).astype(bool)),
    ]
    for why, which in found:
        if which.any():
            return f"codes such as {text[which].iloc[0][:30]!r}{why}"
    return ""


def _scientific(column: Any) -> str:
    """Return a cell such as 2E5 that may be a code, unless the column shows that it is none."""
    text = column.dropna().astype("string")
    either = text[_matches(text, _EITHER)] if text.str.contains("[eE]").any() else text[:0]
    sure = len(either) and text.str.contains(r"[.,]|[eE][+-]").any()
    return "" if sure or not len(either) else str(either.iloc[0])


# -- numbers without pandas ----------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows ready for a model.

    Parameters
    ----------
    X : array of float64 or csr matrix, shape (rows, features)
        Inputs; sparse for svmlight files.
    y : array or None
        Labels: float64 if every label is a number, otherwise text. None without a label column.
    feature_names : tuple of str
        One name for each column of `X`.
    rows : int
        Number of rows.
    sample_weight : array of float64 or None
        Weights, when a weight column was asked for.
    """

    X: Any
    y: NDArray[Any] | None
    feature_names: tuple[str, ...]
    rows: int
    sample_weight: NDArray[np.float64] | None = None


def read_arrays(
    path: Path,
    label: Name = None,
    features: Names = None,
    sample_weight: Name = None,
    format: Name = None,
) -> Table:
    r"""Read rows of numbers from an svmlight or npz file.

    Parameters
    ----------
    path : Path
        The file: ``.svm``, ``.svmlight``, ``.libsvm``, also with ``.xz``, ``.bz2`` or ``.gz``
        behind it, or ``.npz``. An svmlight index above 10 million is refused.
    label : str, optional
        Array of the labels; default ``y`` if an npz has one. Rows of svmlight begin with theirs.
    features : sequence of str, optional
        Columns to use, in this order; default all. Columns of svmlight, and of npz without
        ``feature_names``, are called ``x1``, ``x2``, …
    sample_weight : str, optional
        Array of weights.
    format : {"svmlight", "npz"}, optional
        For a file whose ending says nothing.

    Returns
    -------
    table : Table

    Raises
    ------
    DataError
        When the file cannot be used; the message names the row, counted from 1, the column and
        the value.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.svm"
    ...     _ = path.write_text("1 1:2.5 3:1\n-1 2:1\n")
    ...     table = read_arrays(path)
    >>> table.feature_names, table.y.tolist(), table.rows
    (('x1', 'x2', 'x3'), [1.0, -1.0], 2)
    """
    kind = format or format_of(path)
    with _errors_of(path):
        if kind == "svmlight":
            return _read_svmlight(path, features, sample_weight)
        columns, label = _read_npz(path, label, sample_weight)
        return from_columns(columns, label, features, sample_weight)


def from_columns(columns: Any, label: Name, features: Names, sample_weight: Name) -> Table:
    """Return a table from a DataFrame or a dict of arrays."""
    used = _choose_features(tuple(columns), features, label, sample_weight)
    if len(columns[used[0]]) == 0:
        raise ValueError("the table has no rows, only the names of its columns.")
    X = np.column_stack([numbers(columns[name], name) for name in used])
    y = None if label is None else _labels(columns[label], label)
    weights = None if sample_weight is None else numbers(columns[sample_weight], sample_weight)
    if weights is not None and ((weights < 0).any() or not weights.any()):
        raise ValueError(f"a weight in {sample_weight!r} is negative, or none is positive.")
    return Table(X, y, used, len(X), weights)


def numbers(column: Any, name: str, remedy: str = _FILL_IN) -> NDArray[np.float64]:
    """Return a column as numbers, or name the first cell that is none."""
    values = _floats(column)
    for row in np.flatnonzero(~np.isfinite(values)):
        shown = _text(np.asarray(column)[row])[:40] or "an empty cell"
        raise ValueError(f"row {row + 1}, column {name!r}: {shown!r} is not a number; {remedy}.")
    return values


def _labels(column: Any, name: str) -> NDArray[Any]:
    """Return labels as numbers if every one of them is a number, else as text."""
    cells, values = np.asarray(column), _floats(column)
    if np.isfinite(values).all():
        return values
    texts = np.array([_text(cell) for cell in cells], dtype=np.str_)
    missing = np.isin(np.char.lower(texts), ["", "nan", "inf", "-inf"])
    if missing.any():
        place = f"row {np.argmax(missing) + 1}, column {name!r}"
        raise ValueError(f"{place}: the label is missing; put such rows in a file of their own.")
    return texts


def _floats(column: Any) -> NDArray[np.float64]:
    """Return cells as numbers, NaN if there is none."""
    cells = np.asarray(column)
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    return np.array([_to_number(cell) for cell in cells], dtype=np.float64)


def _text(cell: Any) -> str:
    return "" if cell is None or type(cell).__name__ in ("NAType", "NaTType") else str(cell).strip()


def _to_number(cell: Any) -> float:
    """Return a cell as a number, NaN if it is none."""
    try:
        # Python's digit grouping is not a number in a data file.
        return math.nan if "_" in str(cell) else float(cell)
    except (TypeError, ValueError):
        return math.nan


def _choose_features(columns: Sequence[str], features: Names, *roles: Name) -> tuple[str, ...]:
    """Return the feature columns; refuse names that are absent or asked for twice."""
    _check_names(columns)
    asked = [name for name in (*roles, *(features or ())) if name is not None]
    for name in asked:
        if name not in columns:
            raise ValueError(no_column(name, columns))
    _check_names(asked)
    used = [name for name in columns if name not in asked] if features is None else features
    if not used:
        raise ValueError(f"no feature column is left of {', '.join(map(repr, columns[:20]))}.")
    return tuple(used)


def _check_names(names: Sequence[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(f"the column {name!r} appears twice; rename or drop one of them.")


# -- svmlight and npz -------------------------------------------------------------------------


def parse_svmlight(
    text: bytes, n_features: int | None = None, zero_based: bool | str = "auto"
) -> tuple[Any, NDArray[np.float64]]:
    """Return svmlight text as a CSR matrix and its labels."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=zero_based)
    except (ValueError, OverflowError, IndexError) as error:
        fault = f"not LIBSVM text, 'label index:value …' on each line ({error})"
        raise ValueError(fault) from error
    if 0 in X.shape:
        raise ValueError("it is empty: no row with a feature in it")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError("it holds a value that is not finite")
    return X, y


def _read_svmlight(path: Path, features: Names, sample_weight: Name) -> Table:
    if sample_weight is not None:
        raise ValueError(f"svmlight files hold no weights: leave {sample_weight!r} out.")
    X, y = parse_svmlight(read_bytes(path))
    if X.shape[1] > MOST_COLUMNS:
        raise ValueError(f"its indices make {X.shape[1]:,} columns, at most {MOST_COLUMNS:,}.")
    names = _numbered_names(X)
    used = _choose_features(names, features)
    X = X if features is None else X[:, [names.index(name) for name in used]]
    return Table(X, y, used, int(X.shape[0]))


def _read_npz(path: Path, label: Name, sample_weight: Name) -> tuple[dict[Any, Any], Name]:
    """Return the columns of an archive, and the name of its label."""
    if not zipfile.is_zipfile(path):
        raise ValueError("not a zip file, which an npz file is: np.savez writes one.")
    with np.load(path, allow_pickle=False) as found:
        wanted = {"X", "y", "feature_names", label, sample_weight}
        arrays = {name: found[name] for name in found.files if name in wanted}
        X = arrays.get("X", np.empty(0))
        if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
            got = f"shape {X.shape} and type {X.dtype}; arrays: {', '.join(found.files)}"
            raise ValueError(f"the array 'X' must be a table of numbers, got {got}.")
    names = tuple(map(str, arrays.get("feature_names", ()))) or _numbered_names(X)
    if len(names) != X.shape[1]:
        raise ValueError(f"{len(names)} feature_names for {X.shape[1]} columns of 'X'.")
    _check_names(names)
    columns: dict[Any, Any] = dict(zip(names, X.T, strict=True))
    label = "y" if label is None and "y" in arrays else label
    return columns | {name: arrays[name] for name in {label, sample_weight} & arrays.keys()}, label


def _numbered_names(X: Any) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(1, X.shape[1] + 1))
