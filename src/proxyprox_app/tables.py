"""Tables from files, as they come.

:func:`read_table` returns a pandas DataFrame of a CSV, Parquet or Excel file: separator, encoding,
header and decimal commas are found out. What its columns become in a model is the business of
:class:`proxyprox_app.columns.Columns`.
"""

from __future__ import annotations

import bz2
import csv
import difflib
import gzip
import io
import lzma
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from proxyprox._util.extras import require
from proxyprox._util.text import printable

COMPRESSIONS: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}

ENDINGS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet",
    ".xlsx": "excel", ".xlsm": "excel",
}  # fmt: skip

# What a column can be in a model.
Kind = Literal["number", "category", "text", "date", "drop"]
KINDS = get_args(Kind)
# What decimals are behind; "" if nothing tells.
Mark = Literal["", ",", "."]

# Lines looked at to find the separator, and the first of them that may hold a title.
LOOKED_AT, TITLES = 200, 20
# What stands for an empty cell, in lower case; "none" may be an answer, "None" is Python's.
EMPTY = {
    "", "na", "n/a", "#n/a", "<na>", "nan", "null", "nil", "nat", "-", "--", "?", ".",
    "#null!", "#div/0!", "#value!", "#ref!", "#num!", "#name?",
}  # fmt: skip
# Digits of a whole number up to which float64 tells it from the next.
EXACT = 15

Name = str | None
Frame = Any
Series = Any


@dataclass(frozen=True)
class TablePolicy:
    """Thresholds at which a table is read in another way, or asked about.

    They were set by hand on the fixtures of ``tests/app``; no record stands behind them. Each
    one only decides what a note says, or what ``--as``, ``--task`` and ``--model`` overrule.

    Attributes
    ----------
    most_values, components : int
        Values of a text column up to which it is a category, and components of a text.
    enough : float
        Share of the cells that must be numbers (dates) for a column of text to be one of those.
    several : int
        Rows from which a column may be an identifier because no value occurs twice.
    pure : float
        Share of the labels' variation that the values of a column explain if it determines them.
    codes : float
        Share of codes among numbers from which a column is one of codes; fewer are slips.
    fewest, fewest_of_class : int
        Labels without which nothing is fitted; labels of a class without which it is left out.
    few_values, most_classes : int
        Whole numbers up to which a target is taken for classes; classes that are too many.
    folds, resamples : int
        Folds of the cross-validation, and resamples of the held-out losses.
    outlying : float
        Distance of a number from the median, in interquartile ranges, from which it is an outlier.
    perfect, perfect_squared : float
        Share of the base rate's log-loss, and squared error, below which a score is questioned.
    rare : float
        Share of the largest class from which accuracy says little.
    """

    most_values: int = 40
    components: int = 30
    enough: float = 0.9
    several: int = 10
    pure: float = 0.9
    codes: float = 0.01
    fewest: int = 10
    fewest_of_class: int = 3
    few_values: int = 10
    most_classes: int = 50
    folds: int = 5
    resamples: int = 1000
    outlying: float = 20.0
    perfect: float = 0.06
    perfect_squared: float = 0.001
    rare: float = 0.9


POLICY = TablePolicy()


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
    """A table, what was odd about its file, and the mark of decimals ("" if nothing tells)."""

    frame: Frame
    findings: list[Finding]
    decimal: str


class Cells(NamedTuple):
    """The cells of a file as they stand there, what was odd about it, and its separator or ""."""

    frame: Frame
    findings: list[Finding]
    separator: str

    def parse(self, text: Collection[str] = (), decimal: str = "") -> Loaded:
        """Return the table that the cells make.

        Parameters
        ----------
        text : collection of str
            Columns that are not read as numbers.
        decimal : {"", ",", "."}
            What decimals are behind if the cells do not tell.
        """
        import pandas as pd

        findings = list(self.findings)
        names = {*text, *(name.lower() for name in text if name not in self.frame)}
        texts = {n: strip(self.frame[n]) for n in self.frame if _is_text(self.frame[n])}
        votes = {name: comma_votes(cells) for name, cells in texts.items()}
        total = sum(votes.values())
        usual = decimal or {"": "", ";": ","}.get(self.separator, ".")
        mark = "," if total > 0 else "." if total else usual
        columns = dict(self.frame.items()) | texts
        for name in (n for n in texts if not {n, n.lower()} & names):
            columns[name] = _typed(texts[name], mark, name, findings, votes[name])
        return Loaded(pd.DataFrame(columns, index=self.frame.index), findings, mark)

    def text(self, names: Sequence[str] | None = None) -> Frame:
        """Return cells as text, "" where empty; whole numbers and days are written as such."""
        import pandas as pd

        used = [name for name in self.frame if names is None or name in names]
        made = {name: as_text(self.frame[name]).fillna("").astype(object) for name in used}
        frame = pd.DataFrame(made, index=self.frame.index, dtype=object)
        return frame.replace(r"^\s+$", "", regex=True)


def read_table(
    path: str | Path, encoding: Name = None, separator: Name = None, sheet: str | int | None = None
) -> Frame:
    r"""Read a table as it comes.

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

    Returns
    -------
    frame : pandas.DataFrame
        Columns of numbers are float64: of text such as ``1.234,50``, ``1,234.50``, ``$ 3``, ``5 %``
        too. Text with leading zeros stays text. Other cells are stripped text, missing where empty;
        what Parquet and Excel call a date, a truth value or a category stays that. Titles above
        the header, empty rows and unnamed empty columns are left out. Names are stripped, and of
        equal ones the second gets the ending ``.2``.

    Raises
    ------
    DataError
        For a file that is no table; the message says why and what to do.
    MissingExtraError
        Without the ``app`` extra.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "prices.csv"
    ...     text = "Ort;Preis;Zip\nKöln;1.299,50 €;01067\n;n/a;50667"
    ...     _ = path.write_bytes(text.encode("cp1252"))
    ...     frame = read_table(path)
    >>> frame["Preis"].tolist(), frame["Ort"].tolist(), frame["Zip"].tolist()
    ([1299.5, nan], ['Köln', <NA>], ['01067', '50667'])
    """
    return load_cells(path, encoding, separator, sheet).parse().frame


def load_cells(
    path: str | Path, encoding: Name = None, separator: Name = None, sheet: str | int | None = None
) -> Cells:
    """Return the rows of :func:`read_table` before anything is made of their cells."""
    path = Path(path)
    kind = format_of(path)
    try:
        pd: Any = require("pandas", extra="app", purpose=f"reading {path.name}")
        findings: list[Finding] = []
        if sheet is not None and kind != "excel":
            raise ValueError(f"sheet {str(sheet)!r}: only Excel files have sheets; leave it out.")
        if kind == "csv":
            text = _decode(read_bytes(path), encoding, findings).replace("\x00", "")
            frame, separator = _read_text(pd, text, separator, findings)
        elif kind == "excel":
            frame = _with_header(_read_sheet(pd, path, sheet, findings), findings)
        else:
            frame = _read_parquet(path)
        frame.columns = distinct([str(name).strip() for name in frame], findings)
        frame = frame.reset_index(drop=True)
        if not len(frame):
            raise ValueError("the table has no rows, only the names of its columns.")
    except (ValueError, EOFError, MemoryError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path.name}: {str(error) or 'it cannot be read'}") from error
    return Cells(frame, findings, (separator or "") if kind == "csv" else "")


def format_of(file: Path) -> str:
    """Return the format that a file's ending tells."""
    if file.is_dir():
        raise DataError(f"{file} is a folder: name a file in it.")
    name = file.with_suffix("") if file.suffix.lower() in COMPRESSIONS else file
    if name.suffix.lower() not in ENDINGS:
        old = " Save an .xls file as .xlsx." if name.suffix.lower() == ".xls" else ""
        known = f"rename it to end in one of {', '.join(ENDINGS)}.{old}"
        raise DataError(f"{file.name}: the ending does not tell the format; {known}")
    if not file.is_file():
        raise DataError(f"the data file {str(file)!r} does not exist.")
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


# -- formats --------------------------------------------------------------------------------------


def _decode(content: bytes, encoding: Name, findings: list[Finding]) -> str:
    """Return text in the encoding named, or in the first that fits."""
    if encoding is not None:
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except (LookupError, UnicodeError) as error:
            remedy = "Name another encoding, or none, and it is found out."
            raise ValueError(f"it cannot be read as {encoding!r} ({error}). {remedy}") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16")
    if content[1:2000:2].count(0) > len(content[:2000]) // 4:  # UTF-16 without its mark
        return content.decode("utf-16-le")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "not UTF-8: read as Windows-1252 (--encoding to say otherwise)."
        findings.append(Finding("", text))
        return content.decode("cp1252", errors="replace")


def _rows_of_one_length(text: str, separator: str) -> tuple[int, int]:
    """Return how many of the first rows have as many cells as most, and how many cells, if two."""
    lines = [line for line in text[: 1 << 18].splitlines() if line.strip()][:LOOKED_AT]
    try:
        counts = Counter(len(row) for row in csv.reader(lines, delimiter=separator))
    except (csv.Error, TypeError):
        return 0, 0
    often, cells = max((often, cells) for cells, often in counts.items())
    return (often, cells) if cells > 1 else (0, 0)


def _read_text(pd: Any, text: str, named: Name, findings: list[Finding]) -> tuple[Frame, str]:
    """Return the table in a text, its cells as they stand there, and its separator."""
    if not text.strip():
        raise ValueError("the file is empty; it needs a header and data rows.")
    told = re.match(r"sep=(.)\s*\n", text)  # how Excel is told
    if told:
        text, named = text[told.end() :], named or told[1]
    looks = max(",;\t|", key=lambda each: _rows_of_one_length(text, each))
    separator = {"\\t": "\t", "tab": "\t"}.get(named or looks, named or looks)
    first = text[: 1 << 20].splitlines()[: TITLES + 1]
    # A blank before a quote is no part of the cell; elsewhere it is.
    padded = re.search(rf'(?:^|{re.escape(separator)}) +"', text, re.MULTILINE) is not None
    hint = f"--separator {separator!r} is given, but the cells look separated by {looks!r}."
    try:
        width = max(map(len, csv.reader(first, delimiter=separator)))
        best, ours = (_rows_of_one_length(text, each)[0] for each in (looks, separator))
        if best > 2 * ours:
            raise ValueError("not a table of several columns.")
        findings += [Finding("", hint)] * (best > ours)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text), header=None, names=range(width), dtype="string[pyarrow]",
                sep=separator, keep_default_na=False, na_values=[""], index_col=False,
                skipinitialspace=padded,
            )  # fmt: skip
        return _with_header(frame, findings), separator
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error, TypeError) as error:
        remedy = "every row needs as many cells, and text with the separator in it needs quotes"
        reason = str(error).replace("Error tokenizing data. C error: ", "").strip()
        cause = hint if separator != looks else f"The separator is {separator!r}."
        raise ValueError(f"not a table ({reason}); {remedy}. {cause}") from error
    except ValueError as error:
        if separator == looks:
            raise
        raise ValueError(f"{error} {hint}") from error


def _read_sheet(pd: Any, path: Path, sheet: Any, findings: list[Finding]) -> Frame:
    """Return the cells of a sheet, numbered columns."""
    require("openpyxl", extra="app", purpose=f"reading {path.name}")
    options = {"header": None, "dtype": object, "keep_default_na": False, "na_values": [""]}
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            names = list(book.sheet_names)
            asked = "" if sheet is None else str(sheet)
            if asked.isdigit() and asked not in names and 1 <= int(asked) <= len(names):
                asked = names[int(asked) - 1]
            if asked and asked not in names:
                known = ", ".join(map(repr, names))
                raise ValueError(f"no sheet {asked!r}; the sheets are {known}.")
            for name in [asked] if asked else names:
                frame = pd.read_excel(book, sheet_name=name, **options)
                if frame.size:
                    others = ", ".join(repr(other) for other in names if other != name)
                    if others and not asked:
                        text = f"the sheet {name!r} is read; there is also {others} (--sheet)."
                        findings.append(Finding("", text))
                    return frame
    except (KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"not an Excel file ({error}).") from error
    raise ValueError("every sheet is empty; a table needs a header and data rows.")


def _read_parquet(path: Path) -> Frame:
    parquet: Any = require("pyarrow.parquet", extra="app", purpose=f"reading {path.name}")
    # Whole numbers stay whole beside empty cells.
    frame = parquet.read_table(path).to_pandas(integer_object_nulls=True).rename(columns=str)
    named = frame.index.name is not None and frame.index.name not in frame
    return frame.reset_index() if named else frame


# -- header ---------------------------------------------------------------------------------------


def _with_header(cells: Frame, findings: list[Finding]) -> Frame:
    """Return the rows below the header, under its names; titles and empty rows are left out."""
    import pandas as pd

    cells = cells[cells.notna().any(axis=1)]
    top = cells.iloc[:LOOKED_AT].map(_stripped)
    empty = top.index[top.isna().all(axis=1)]
    cells, top = cells.drop(index=empty), top.drop(index=empty)
    if not len(cells):
        raise ValueError("the file is empty; it needs a header and data rows.")
    counts = top.iloc[: TITLES + 1].notna().sum(axis=1).to_numpy()
    # The header is the first row that names nearly as many columns as rows below it fill.
    header = int(np.argmax(counts >= max(0.6 * counts.max(), min(2, counts.max()))))
    names = ["" if pd.isna(cell) else str(cell) for cell in top.iloc[header]]
    if all(re.fullmatch(_POINT, name) for name in names if name):
        raise ValueError(f"the first line must name every column, but has {names[:4]}.")
    if header:
        what = f"{header} line{'s' * (header > 1)} above the header left out"
        title = " ".join(str(cell) for cell in top.iloc[0].dropna())
        title = title[:60] + ("…" if len(title) > 60 else "")
        findings.append(Finding("", f"{what}: {title!r}."))
    rows = cells.iloc[header + 1 :]
    last = max(place for place, name in enumerate(names) if name)
    for place, name in enumerate(names):
        filled = rows.iloc[:, place].notna()
        if not name and filled.any():
            if place > last and 2 * filled.sum() < len(filled):
                row = int(np.argmax(filled.to_numpy())) + 1
                raise ValueError(
                    f"not a table: row {row} has more cells than the header, {last + 1}; text "
                    "with the separator in it needs quotes."
                )
            names[place] = f"column {place + 1}"
            text = "has no name in the header; it is called so here."
            findings.append(Finding(names[place], text))
    rows = rows.loc[:, [bool(name) for name in names]]
    return rows.set_axis([name for name in names if name], axis=1)


def _stripped(cell: Any) -> Any:
    text = cell.strip() if isinstance(cell, str) else cell
    return None if isinstance(text, str) and not text else text


def distinct(names: list[str], findings: list[Finding]) -> list[str]:
    """Return names of which no two are equal."""
    found: list[str] = []
    for given in names:
        name, number = given, 1
        while name in found:
            number += 1
            name = f"{given}.{number}"
        if number > 1:
            text = f"a second column called {given!r}; it is called so here."
            findings.append(Finding(name, text))
        found.append(name)
    return found


# -- cells: gaps, numbers, codes ------------------------------------------------------------------

TEXT = "string[pyarrow]"
_SPACES = "\u00a0\u202f\u2009"
_MONEY = r"(?:[$€£¥₹₽]|EUR|USD|GBP|CHF|JPY)"
# A number with groups of three, with and without a decimal point; the comma's has them exchanged.
# Digits of other scripts are no numbers here, and neither is an exponent alone, such as E119.
_NUMBER = (
    r"[+-]?(?:(?:[0-9]{{1,3}}(?:[{group}][0-9]{{3}})+|[0-9]{{1,3}}(?:[ '][0-9]{{3}})+|[0-9]+)"
    r"(?:[{point}][0-9]*)?|[{point}][0-9]+)(?:[eE][+-]?[0-9]+)?"
)
_POINT, _COMMA = _NUMBER.format(group=",", point="."), _NUMBER.format(group=".", point=",")
_PLAIN = r"[+-]?[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?"
# What only codes look like: letters before digits (E119, K-12), or between them (4A12, 0x1F).
_CODE = r"[A-Za-zÀ-ÿ]+[-./]?[0-9][\w./-]*|[0-9]+[A-Za-zÀ-ÿ]+[0-9]\w*"
# A code, or a number in scientific notation: digits, E, digits, without a sign or a point.
_EITHER = r"[0-9]+[eE][0-9]+"


def _is_text(cells: Series) -> bool:
    import pandas as pd

    return isinstance(cells.dtype, pd.StringDtype) or cells.dtype == object


def strip(cells: Series) -> Series:
    """Return text without blanks around it, missing where empty; other objects as they are."""
    import pandas as pd

    if cells.dtype == object and pd.api.types.infer_dtype(cells, skipna=True) != "string":
        made = cells.map(_stripped).astype(object)
        known = made.map(lambda cell: not isinstance(cell, str) or not _is_empty(cell))
        return made.where(made.notna() & known.astype(bool), None)
    text = cells.astype(TEXT).str.strip()
    return text.mask(text.str.lower().isin(EMPTY) | (text == "None"))


def _is_empty(cell: str) -> bool:
    return cell.lower() in EMPTY or cell == "None"


def as_text(cells: Series) -> Series:
    """Return cells as text, missing where empty; 3.0 is "3", and midnight is a day."""
    import pandas as pd

    if isinstance(cells.dtype, pd.StringDtype):
        return cells.astype(TEXT)
    known = cells.dropna()
    if cells.dtype.kind in "iub" or (cells.dtype.kind == "f" and (known % 1 == 0).all()):
        return cells.astype("boolean" if cells.dtype.kind == "b" else "Int64").astype(TEXT)
    days = all(
        getattr(cell, "time", None) is None or cell.time() == cell.time().min for cell in known
    )

    def text(cell: Any) -> str:
        if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
            return f"{cell:.0f}"
        return str(cell.date()) if days and hasattr(cell, "time") else str(cell)

    return cells.astype(object).map(text, na_action="ignore").astype(TEXT)


def is_list(cell: Any) -> bool:
    """Tell whether a cell holds several things."""
    return isinstance(cell, (list, dict, set, tuple, np.ndarray))


def _typed(cells: Series, decimal: str, name: str, findings: list[Finding], votes: int) -> Series:
    """Return cells of text, or of Python objects as Excel has them, as one type, else as text."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(cells, skipna=True)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        # Whole numbers that float64 does not tell apart name something.
        long = cells.map(lambda cell: isinstance(cell, int) and abs(cell) >= 10**EXACT).any()
        return as_text(cells) if long else cells.astype(np.float64)
    if kind in ("datetime", "date", "datetime64"):
        return pd.to_datetime(cells, errors="coerce")
    if kind == "boolean":
        return cells.astype("boolean")
    if kind.startswith("mixed") and cells.map(is_list).any():
        return cells  # whoever uses the column says so
    numbers = to_numbers(cells, decimal, votes)
    text = as_text(cells)
    if 0 < numbers.notna().sum() == text.notna().sum() and not is_coded(text):
        either = text[_matches(text, _EITHER)]
        if len(either) and not text.str.contains(r"[.,]|[eE][+-]").any():
            what = f"{either.iloc[0]!r} and the like are read as numbers (--as {name}=category?)."
            findings.append(Finding(name, what))
        return numbers
    return text


def _bare(text: Series) -> tuple[Series, Any]:
    """Return text without signs of money and percent, and which cells had the latter."""
    none = np.zeros(len(text), dtype=bool)
    if _matches(text, _PLAIN)[text.notna().to_numpy()].all():
        return text, none
    text = text.str.replace(f"[{_SPACES}]", " ", regex=True).str.strip()
    text = text.str.replace("\u2212", "-", regex=False)
    text = text.str.replace(r"^\((.*\d.*)\)$", r"-\1", regex=True)  # (5) is −5 in accounts
    percent = text.str.endswith("%").fillna(False).to_numpy(dtype=bool)
    text = text.str.replace(rf"^([+-]?)\s*{_MONEY}\s*", r"\1", regex=True)
    text = text.str.replace(rf"\s*(?:{_MONEY}|%)$", "", regex=True)
    return text.str.replace(r"^([+-])\s+", r"\1", regex=True), percent


def _only_text(cells: Series) -> Series:
    """Return the cells that are text."""
    if cells.dtype == object:
        cells = cells[cells.map(lambda cell: isinstance(cell, str)).astype(bool)]
    return cells.astype(TEXT)


def comma_votes(cells: Series) -> int:
    """Return how many cells are numbers with a decimal comma only, less those with a point only."""
    text = _only_text(cells)
    text = text[text.str.contains("[.,]").fillna(False).to_numpy(dtype=bool)]
    if not len(text):
        return 0
    bare = _bare(text)[0]
    comma, point = _matches(bare, _COMMA), _matches(bare, _POINT)
    return int((comma & ~point).sum()) - int((point & ~comma).sum())


def to_numbers(cells: Series, decimal: str = "", votes: int | None = None) -> Series:
    """Return cells as numbers, NaN if there is none.

    Parameters
    ----------
    cells : pandas.Series
        Numbers, or text: groups of three, money and percent signs (5 % is 0.05) are understood.
    decimal : {"", ",", "."}
        What decimals of text are behind if as many cells are numbers with either mark.
    votes : int, optional
        What :func:`comma_votes` says of the cells.
    """
    import pandas as pd

    if not _is_text(cells):
        values: Any = pd.to_numeric(cells, errors="coerce")
        values = values.astype(np.float64)
        return values.where(np.isfinite(values))
    votes = comma_votes(cells) if votes is None else votes
    comma = votes > 0 or (votes == 0 and decimal == ",")
    text, percent = _bare(_only_text(cells))
    text = text.where(_matches(text, _COMMA if comma else _POINT))
    if comma:
        text = text.str.replace(r"[. ']", "", regex=True).str.replace(",", ".", regex=False)
    elif not text.empty:
        text = text.str.replace(r"[, ']", "", regex=True)
    values = text.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    found = pd.Series(np.nan, index=cells.index, dtype=np.float64)
    found[text.index] = values / np.where(percent, 100.0, 1.0)
    if cells.dtype == object:
        # Numbers beside text, as in Excel, have no mark.
        plain = cells.map(lambda cell: isinstance(cell, _NUMBERS) and not isinstance(cell, bool))
        plain = plain.to_numpy(dtype=bool, na_value=False)
        found[plain] = cells[plain].astype(np.float64)
    return found.where(np.isfinite(found))


_NUMBERS = (int, float, Decimal, np.integer, np.floating)


def _matches(text: Series, form: str) -> Any:
    """Tell which cells are wholly of a form; empty ones are not."""
    return text.str.fullmatch(form).fillna(False).to_numpy(dtype=bool)


def is_coded(text: Series) -> str:
    """Return why a column that looks like numbers holds codes, "" if it does not.

    Returns
    -------
    why : str
        Such as "codes such as '00123', with leading zeros".

    Examples
    --------
    >>> import pandas as pd
    >>> is_coded(pd.Series(["4E12", "E119", "1200"]))
    "codes such as 'E119'"
    >>> is_coded(pd.Series(["1.5E-3", "2E5", None]))
    ''
    """
    text = text.dropna().astype(TEXT)
    if not text.str.contains(rf"[A-Za-zÀ-ÿ]|^0[0-9]|^[0-9]{{{EXACT + 1}}}").any():
        return ""
    either, digits = _matches(text, _EITHER), _matches(text, "[0-9]+")
    codes = _matches(_bare(text)[0], _CODE) & ~either
    width = text.str.len()
    found = [
        (", with leading zeros", _matches(text, "0[0-9].*")),
        ("", codes & bool(either.any() or codes.sum() > max(1, POLICY.codes * len(text)))),
        (", all of one width", either & bool(digits.any() and width.nunique() == 1)),
        (", too long for a number", digits & bool(digits.all()) & (width > EXACT).to_numpy()),
    ]
    for why, which in found:
        if which.any():
            return f"codes such as {text[which].iloc[0][:30]!r}{why}"
    return ""
