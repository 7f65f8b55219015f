"""Tables from files: every format gives the same numbers, and mistakes are named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proxyprox._util.extras import MissingExtraError
from proxyprox.study.tables import DataError, read_table

GOOD = "age,income,w,bought\n31,2.5,1,yes\n45,1e1,0.5,no\n"


def _write(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8"))
    return path


class TestCsv:
    def test_roles(self, tmp_path: Path) -> None:
        table = read_table(_write(tmp_path, GOOD), label="bought", sample_weight="w")
        assert table.X.tolist() == [[31.0, 2.5], [45.0, 10.0]]
        assert table.X.dtype == np.float64
        assert table.y is not None
        assert table.y.tolist() == ["yes", "no"]
        assert table.sample_weight is not None
        assert table.sample_weight.tolist() == [1.0, 0.5]
        assert (table.feature_names, table.rows) == (("age", "income"), 2)

    def test_chosen_features_leave_text_columns_alone(self, tmp_path: Path) -> None:
        table = read_table(_write(tmp_path, GOOD), features=["income", "age"])
        assert table.X.tolist() == [[2.5, 31.0], [10.0, 45.0]]
        assert table.y is None

    @pytest.mark.parametrize(
        ("cells", "labels"),
        [
            (("1", "2"), [1.0, 2.0]),
            (("-1", "+1"), [-1.0, 1.0]),
            (("NA", "0"), ["NA", "0"]),
            (("True", "False"), ["True", "False"]),
            (("01", "1_0"), ["01", "1_0"]),
        ],
    )
    def test_labels(self, tmp_path: Path, cells: tuple[str, str], labels: list[Any]) -> None:
        path = _write(tmp_path, f"a,y\n1,{cells[0]}\n2,{cells[1]}\n")
        y = read_table(path, label="y").y
        assert y is not None
        assert y.tolist() == labels

    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            ("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n", [[1, 2], [3, 4]]),
            ("a;b\n1;2\n", [[1, 2]]),
            ("a\tb\n1\t2\n", [[1, 2]]),
            ('"a, x","b"\n"1"," 2"\n', [[1, 2]]),
            ("a\n0.1\n", [[0.1]]),
            (
                "a,b\n123456789012345678901234567890,0.30000000000000004\n",
                [[123456789012345678901234567890.0, 0.30000000000000004]],
            ),
        ],
    )
    def test_dialects(self, tmp_path: Path, text: str, rows: list[list[float]]) -> None:
        assert read_table(_write(tmp_path, text)).X.tolist() == rows

    def test_compressed(self, tmp_path: Path) -> None:
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress(GOOD.encode()))
        assert read_table(path, label="bought").rows == 2

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "the file is empty"),
            (" \n", "the file is empty"),
            ("a,b\n", "no rows"),
            ("1,2\n3,4\n", "must name every column"),
            ("a,a\n1,2\n", "column 'a' appears twice"),
            ("a,\n1,2\n", "must name every column"),
            ("a,b\n1,2\n3,red\n", r"row 2, column 'b': 'red' is not a number"),
            ("a,b\n1,2\n3,1_0\n", r"row 2, column 'b': '1_0' is not a number"),
            ("a,b\n1,True\n1,yes\n", r"column 'b': 'True' is not a number"),
            ("a,b\n1,\n", r"row 1, column 'b': 'an empty cell'"),
            ("a,b\n1,nan\n", r"column 'b': 'nan' is not a number"),
            ("a,b\n-inf,1\n", r"column 'a': '-inf' is not a number"),
            ("a,b\n1,2\n\n3\n", "row 2, column 'b': 'an empty cell'"),
            ("a,b\n1,2,3\n", "as many cells in every row"),
            ("a,b\n1,2\n1,2,3\n", "line 3, saw 3"),
            ("a,b\n1,2\0\n", "row 1, column 'b'"),
        ],
    )
    def test_mistakes(self, tmp_path: Path, text: str, words: str) -> None:
        with pytest.raises(DataError, match=words):
            read_table(_write(tmp_path, text))

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"label": "bougt"}, r"no column 'bougt'; .*'income'"),
            ({"features": ["age", "zip"]}, r"no column 'zip'"),
            ({"sample_weight": "v"}, r"no column 'v'"),
            ({"features": ["age", "age"]}, "appears twice"),
            ({"features": ["w"], "label": "w"}, "appears twice"),
            ({"features": ["age"], "label": "w", "sample_weight": "w"}, "appears twice"),
            ({"features": []}, "no feature column"),
            ({}, "'yes' is not a number"),
        ],
    )
    def test_wrong_arguments(self, tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
        with pytest.raises(DataError, match=words):
            read_table(_write(tmp_path, GOOD), **arguments)

    @pytest.mark.parametrize("cell", ["", " ", "nan"])
    def test_missing_label(self, tmp_path: Path, cell: str) -> None:
        with pytest.raises(DataError, match=r"row 2, column 'y': the label is missing"):
            read_table(_write(tmp_path, f"a,y\n1,1\n2,{cell}\n"), label="y")

    @pytest.mark.parametrize(
        ("cells", "words"), [(("1", "-1"), "negative"), (("0", "0"), "positive")]
    )
    def test_weights(self, tmp_path: Path, cells: tuple[str, str], words: str) -> None:
        path = _write(tmp_path, f"a,w\n1,{cells[0]}\n2,{cells[1]}\n")
        with pytest.raises(DataError, match=words):
            read_table(path, sample_weight="w")


def test_latin_1_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\n1,é\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        read_table(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [("absent.csv", "does not exist"), ("t.xlsx", "ending")],
)
def test_path_mistakes(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_table(tmp_path / name)


def test_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path, format="csv")


class TestSvmlight:
    def test_reads_and_selects(self, tmp_path: Path) -> None:
        path = tmp_path / "t.svm.gz"
        path.write_bytes(gzip.compress(b"+1 1:2 3:1\n-1 2:5\n"))
        table = read_table(path)
        assert table.X.toarray().tolist() == [[2, 0, 1], [0, 5, 0]]
        assert table.feature_names == ("x1", "x2", "x3")
        assert read_table(path, features=["x3", "x1"]).X.toarray().tolist() == [[1, 2], [0, 0]]

    @pytest.mark.parametrize(
        ("content", "arguments", "words"),
        [
            (b"red 1:1\n", {}, "not LIBSVM text"),
            (b"", {}, "empty"),
            (b"1 1:nan\n", {}, "not finite"),
            (b"1 1:1\n", {"sample_weight": "x1"}, "no weights"),
            (b"1 1:1\n", {"features": ["x9"]}, "no column 'x9'"),
        ],
    )
    def test_mistakes(
        self, tmp_path: Path, content: bytes, arguments: dict[str, Any], words: str
    ) -> None:
        (tmp_path / "t.svm").write_bytes(content)
        with pytest.raises(DataError, match=words):
            read_table(tmp_path / "t.svm", **arguments)


class TestNpz:
    def test_reads(self, tmp_path: Path) -> None:
        X = np.arange(6).reshape(3, 2)
        path = tmp_path / "t.npz"
        np.savez(path, X=X, y=np.array(["a", "b", "a"]), w=np.ones(3), feature_names=["p", "q"])
        table = read_table(path, sample_weight="w", features=["q"])
        assert table.X.tolist() == [[1.0], [3.0], [5.0]]
        assert table.y is not None
        assert table.y.tolist() == ["a", "b", "a"]
        assert table.feature_names == ("q",)

    @pytest.mark.parametrize(
        ("arrays", "arguments", "words"),
        [
            ({"A": np.eye(2)}, {}, "'X' must be.*arrays: A"),
            ({"X": np.eye(2)}, {"label": "t"}, r"no column 't'"),
            ({"X": np.ones(2)}, {}, r"shape \(2,\)"),
            ({"X": np.array([["a"]])}, {}, "table of numbers"),
            ({"X": np.array([[1, np.nan]])}, {}, "row 1, column 'x2': 'nan'"),
            ({"X": np.eye(2), "y": np.array([1, np.inf])}, {}, "row 2, column 'y'"),
            ({"X": np.array([[object()]], dtype=object)}, {}, "allow_pickle"),
            ({"X": np.eye(2), "feature_names": ["a"]}, {}, "1 feature_names for 2"),
        ],
    )
    def test_mistakes(
        self, tmp_path: Path, arrays: dict[str, Any], arguments: dict[str, Any], words: str
    ) -> None:
        np.savez(tmp_path / "t.npz", **arrays)
        with pytest.raises(DataError, match=words):
            read_table(tmp_path / "t.npz", **arguments)

    def test_not_an_archive(self, tmp_path: Path) -> None:
        (tmp_path / "t.npz").write_bytes(b"rubbish")
        with pytest.raises(DataError, match="zip file"):
            read_table(tmp_path / "t.npz")
        with (tmp_path / "u.npz").open("wb") as file:
            np.save(file, np.eye(2))
        with pytest.raises(DataError, match="zip file"):
            read_table(tmp_path / "u.npz")


class TestParquet:
    def test_reads(self, tmp_path: Path) -> None:
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        path = tmp_path / "t.parquet"
        frame = {"a": [1, 2], "b": [True, False], "w": [1.0, 2.0], "y": ["p", "q"]}
        pd.DataFrame(frame).to_parquet(path)
        table = read_table(path, label="y", sample_weight="w")
        assert table.X.tolist() == [[1.0, 1.0], [2.0, 0.0]]
        assert table.y is not None
        assert table.y.tolist() == ["p", "q"]

    @pytest.mark.parametrize(
        ("frame", "arguments", "words"),
        [
            ({"a": [1.0, None]}, {}, "row 2, column 'a'"),
            ({"a": ["1", "red"]}, {}, "row 2, column 'a': 'red' is not a number"),
            ({"a": [1], "y": [1]}, {"label": "z"}, "no column 'z'"),
            ({"a": [1, 2], "y": ["p", None]}, {"label": "y"}, "row 2, column 'y': the label"),
            ({"a": []}, {}, "no rows"),
            ({"a": [1.0, np.inf]}, {}, "row 2, column 'a': 'inf'"),
        ],
    )
    def test_mistakes(
        self, tmp_path: Path, frame: dict[str, Any], arguments: dict[str, Any], words: str
    ) -> None:
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pd.DataFrame(frame).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(DataError, match=words):
            read_table(tmp_path / "t.parquet", **arguments)

    def test_damaged(self, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        (tmp_path / "t.parquet").write_bytes(b"rubbish")
        with pytest.raises(DataError, match=r"t\.parquet"):
            read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("name", "module"), [("t.parquet", "pyarrow.parquet"), ("t.csv", "pandas")]
)
def test_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    path = _write(tmp_path, GOOD, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r'pip install "proxyprox\[data\]"'):
        read_table(path)


def test_svmlight_and_npz_need_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(2))
    for name in ("pandas", "pyarrow", "pooch"):
        monkeypatch.setitem(sys.modules, name, None)
    assert read_table(tmp_path / "t.npz").rows == 2
    assert read_table(_write(tmp_path, "1 1:2\n", "t.svm")).rows == 1


# -- compressed and damaged files ----------------------------------------------------------------


def _npy(shape: tuple[int, ...], dtype: str, data: bytes = b"") -> bytes:
    """Return an npy file whose header says whatever it is told to."""
    file = io.BytesIO()
    header = {"shape": shape, "fortran_order": False, "descr": dtype}
    np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]
    return file.getvalue() + data


def _npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize("name", ["t.csv.xz", "t.csv.bz2", "t.csv.gz", "t.svm.xz"])
def test_compressed_streams_that_follow_each_other_are_one_file(tmp_path: Path, name: str) -> None:
    packs = {".xz": lzma.compress, ".bz2": bz2.compress, ".gz": gzip.compress}
    pack = packs[Path(name).suffix]
    head, line = (b"a,b\n", b"1,2\n") if "csv" in name else (b"", b"1 1:2\n")
    path = tmp_path / name
    path.write_bytes(pack(head + line * 100) + pack(line * 10))
    assert read_table(path).rows == 110


def test_an_npz_takes_no_more_memory_than_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    for shape, dtype in (((1 << 40, 8), "<f8"), ((1 << 50,), "<U0"), ((10, 10), "<f8")):
        with pytest.raises(DataError, match=r"bomb\.npz"):
            read_table(_npz(path, X=_npy(shape, dtype, b"\0" * 80)))
    np.savez_compressed(path, X=np.zeros((20_000, 10)), other=np.array([None], dtype=object))
    assert read_table(path).rows == 20_000


def test_a_large_index_makes_no_table_of_any_width(tmp_path: Path) -> None:
    path = _write(tmp_path, "1 1:1\n0 2000000000:1\n", "wide.svm")
    with pytest.raises(DataError, match="2,000,000,000 columns"):
        read_table(path)


@pytest.mark.parametrize("name", ["t.csv.xz", "t.csv.bz2", "t.csv.gz", "t.npz"])
def test_cut_files_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, X=np.ones((3, 3)))
    else:
        packs = {".xz": lzma.compress, ".bz2": bz2.compress, ".gz": gzip.compress}
        pack = packs[path.suffix]
        path.write_bytes(pack(b"a,b\n1,2\n" * 100))
    content = path.read_bytes()
    for length in range(0, len(content), 11):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=f"^{name}"):
            read_table(path)


def test_names_that_act_on_a_terminal_are_written_as_escapes(tmp_path: Path) -> None:
    path = _write(tmp_path, "a\x1b[31m,b\n1,2\n3\n", "t\x1b[2J\u202e.csv")
    with pytest.raises(DataError) as caught:
        read_table(path)
    assert "t\\x1b[2J\\u202e.csv" in str(caught.value)
    assert "\x1b" not in str(caught.value)
