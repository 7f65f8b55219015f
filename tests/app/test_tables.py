"""Tables from files: every format gives the same numbers, and mistakes are named."""

import bz2
import datetime
import gzip
import lzma

import pytest

from proxyprox_app.tables import DataError, load_cells, read_table

pd = pytest.importorskip("pandas")
GOOD = "age,income,w,bought\n31,2.5,1,yes\n45,1e1,0.5,no\n"


def _write(tmp_path, text, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def _lists(frame):
    """Return the columns as lists, None in empty cells."""
    return [frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (GOOD, [[31, 45], [2.5, 10], [1, 0.5], ["yes", "no"]]),
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n", [[1, 3], [2, 4]]),
        ("a;b\n1;2\n", [[1], [2]]),
        ("a|b\n1|x,y\n", [[1], ["x,y"]]),
        ("a\tb\n1\t2\n", [[1], [2]]),
        ("sep=;\na;b\n1;2\n", [[1], [2]]),
        ('"a, x","b"\n"1"," 2"\n', [[1], [2]]),
        ("a\n0.1\n", [[0.1]]),
        # More digits than float64 has name something.
        ("a,b\n12345678901234567890,0.30000000000000004\n",
         [["12345678901234567890"], [0.30000000000000004]]),
        # Gaps in many words, and a short row.
        ("a,b\nn/a,x\n?,NULL\n3\n", [[None, None, 3], ["x", None, None]]),
        # A word that may be an answer, and how Python writes a gap.
        ("a,b\nnone,1\nmild,None\n", [["none", "mild"], [1, None]]),
        # Codes stay text.
        ("a,b\n007,1_0\n12,x\n", [["007", "12"], ["1_0", "x"]]),
        # Titles, and a line below them that is empty.
        ("Report of June\n\na,b,c\n1,2,3\n4,5,6\n", [[1, 4], [2, 5], [3, 6]]),
        # Decimal commas, groups of three, money and percent.
        ("a;b\n1,5;x\n2,25;y\n", [[1.5, 2.25], ["x", "y"]]),
        ("a;b\n1.234,50 €;12 %\n-3,00 €;5%\n", [[1234.5, -3], [0.12, 0.05]]),
        ('a,b\n"$1,234.50",(7)\n$2,"1,000"\n', [[1234.5, 2], [-7, 1000]]),
        ("a;b\n1 234,5;1'000\n0,5;2\n", [[1234.5, 0.5], [1000, 2]]),
        # Of a table with decimal commas 1.000 is a thousand.
        ("a;b\n0,5;1.000\n1,5;2.000\n", [[0.5, 1.5], [1000, 2000]]),
        ("a,b\n1.5,1.000\n2.5,2.000\n", [[1.5, 2.5], [1, 2]]),
        ("a,b\n-inf,1\n2,3\n", [["-inf", "2"], [1, 3]]),
    ],
)  # fmt: skip
def test_dialects(tmp_path, text, columns):
    assert _lists(read_table(_write(tmp_path, text))) == columns


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_encodings(tmp_path, encoding):
    path = _write(tmp_path, "Größe,Ort\n1,Köln\n2,Düsseldorf\n", encoding=encoding)
    frame = read_table(path)
    assert list(frame) == ["Größe", "Ort"]
    assert frame["Ort"].tolist() == ["Köln", "Düsseldorf"]
    assert list(read_table(path, encoding)) == ["Größe", "Ort"]


def test_what_was_done_is_told(tmp_path):
    path = _write(tmp_path, "Titel é\n,a,a,b\n1,2,3,4\n5,6,7,8\n", encoding="cp1252")
    frame, findings, _ = load_cells(path).parse()
    assert list(frame) == ["column 1", "a", "a.2", "b"]
    told = " ".join(map(str, findings))
    for words in ("Windows-1252", "'Titel é'", "column 1: has no name", "a.2: a second"):
        assert words in told


def test_cells_as_they_stand(tmp_path):
    cells = load_cells(_write(tmp_path, "a;b\n1,50 €;007\n;x\n")).text()
    assert cells["a"].tolist() == ["1,50 €", ""]
    assert cells["b"].tolist() == ["007", "x"]


def test_options(tmp_path):
    path = _write(tmp_path, "a:b\n1:2\n", "t.txt")
    assert list(read_table(path, separator=":")) == ["a", "b"]
    with pytest.raises(DataError, match="ending"):
        read_table(_write(tmp_path, GOOD, "t.data"))
    with pytest.raises(DataError, match="utf-99"):
        read_table(_write(tmp_path, GOOD), "utf-99")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("a,b\n", "no rows"),
        ("1,2\n3,4\n", "must name every column"),
        ("a,b\n1,2\n1,2\n1,2,3\n", "row 3 has more cells"),
        ("a,b\n" + "1,2\n" * 30 + "1,2,3\n", "not a table"),
    ],
)
def test_mistakes(tmp_path, text, words):
    with pytest.raises(DataError, match=words):
        read_table(_write(tmp_path, text))


def test_path_mistakes(tmp_path):
    for name, words in (("absent.csv", "does not exist"), ("t.xls", "as .xlsx"), ("", "a folder")):
        with pytest.raises(DataError, match=words):
            read_table(tmp_path / name)


def test_title_empty_rows_and_types(tmp_path):
    pytest.importorskip("openpyxl")
    day, path = datetime.datetime(2024, 1, 31), tmp_path / "t.xlsx"
    rows = [
        ["Monthly report", None, None, None], [None] * 4, ["x", "when", "paid", "mixed"],
        [1, day, True, 5], [2.5, None, False, "five"], [None] * 4, ["", day, None, 7],
    ]  # fmt: skip
    with pd.ExcelWriter(path) as book:
        pd.DataFrame().to_excel(book, sheet_name="empty")
        pd.DataFrame(rows).to_excel(book, sheet_name="data", header=False, index=False)
        pd.DataFrame({"z": [1]}).to_excel(book, sheet_name="more", index=False)
    frame, findings, _ = load_cells(path).parse()
    assert list(frame) == ["x", "when", "paid", "mixed"]
    assert len(frame) == 3
    assert [frame[name].dtype.kind for name in frame] == ["f", "M", "b", "O"]
    assert frame["mixed"].tolist() == ["5", "five", "7"]
    assert "'data'" in " ".join(map(str, findings))
    assert list(read_table(path, sheet="more")) == list(read_table(path, sheet=3)) == ["z"]
    with pytest.raises(DataError, match="no sheet 'July'"):
        read_table(path, sheet="July")


def test_types_stay(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    pd.DataFrame({
        "count": pd.array([1, None], dtype="Int64"), "group": pd.Categorical(["p", "q"]),
        "when": pd.to_datetime(["2024-01-31", None]), "text": [" 1,5 ", "NA"],
        "list": [[1], [2]],
    }).to_parquet(path)  # fmt: skip
    frame = read_table(path)
    assert [frame[name].dtype.kind for name in frame] == ["i", "O", "M", "f", "O"]
    assert frame["text"].tolist()[0] == 1.5


def test_damaged_and_empty_files_are_named(tmp_path):
    for name in ("t.xlsx", "t.parquet"):
        (tmp_path / name).write_bytes(b"rubbish")
        with pytest.raises(DataError, match=name):
            read_table(tmp_path / name)
    pd.DataFrame({"a": []}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="no rows"):
        read_table(tmp_path / "t.parquet")


def test_a_separator_that_is_not_there_is_named_as_the_cause(tmp_path):
    for text, named in (("a,b\n1,2\n", ";"), ("a;b\n1;2\n", "|")):
        with pytest.raises(DataError, match=r"--separator .* is given, but"):
            read_table(_write(tmp_path, text), separator=named)
    german = _write(tmp_path, "a;b\n1,5;2\n2,5;3\n")
    assert "--separator ',' is given, but" in str(load_cells(german, None, ",").findings[0])


# -- compressed and damaged files ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv.xz", "t.csv.bz2", "t.csv.gz"])
def test_cut_files_are_named(tmp_path, name):
    path = tmp_path / name
    packs = {".xz": lzma.compress, ".bz2": bz2.compress, ".gz": gzip.compress}
    path.write_bytes(packs[path.suffix](b"a,b\n1,2\n" * 100))
    content = path.read_bytes()
    for length in range(0, len(content), 11):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=f"^{name}"):
            read_table(path)


def test_an_encoding_that_does_not_fit_and_a_sheet_of_a_text_file(tmp_path):
    path = tmp_path / "clinic.csv"
    path.write_bytes("Größe;krank\n1,7;ja\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"'utf8' .* Name another encoding, or none"):
        read_table(path, encoding="utf8")
    with pytest.raises(DataError, match=r"sheet '1': only Excel files have sheets; leave it out"):
        read_table(path, sheet=1)
