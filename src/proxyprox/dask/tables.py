"""Tables in partitions, which are read block by block: Dask collections and Parquet folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from proxyprox._util import validation as check
from proxyprox._util.extras import require
from proxyprox._util.validation import Words, message

Array = Any

# Entries of the blocks of rows that a partition is read in: 4 MiB of float64, which caches hold.
BLOCK_ELEMENTS = 1 << 19
# Names that one error lists of each kind.
LISTED = 20


class Block(NamedTuple):
    """Some rows of a partition in float64, valid until the next block is read."""

    X: Any
    y: Array
    weights: Array | None


class PartitionError(ValueError):
    """A partition cannot be read as the others are; the text says which and why."""


class RowGroup:
    """A row group of a Parquet file."""

    def __init__(self, table: ParquetTable, path: str, group: int, rows: int) -> None:
        self.filesystem, self.columns = table.filesystem, table.columns
        self.label, self.weight = table.label, table.weight
        self.path, self.group, self.rows = path, group, rows
        self.name = f"{os.path.basename(path)}:{group}"

    def frame(self) -> Any:
        """Return the inputs as a DataFrame."""
        return self._read(self.columns).to_pandas()

    def blocks(self, transformer: Any = None) -> Iterator[Block]:
        """Yield the rows."""
        extra = [name for name in (self.label, self.weight) if name is not None]
        table = self._read([*self.columns, *extra])
        y = _plain(table.column(self.label))
        weights = None if self.weight is None else _plain(table.column(self.weight))
        if transformer is not None:
            frame = table.select(self.columns).to_pandas()
            del table
            yield from cut(_transform(transformer, frame), y, weights)
            return
        columns = [_plain(table.column(name)) for name in self.columns]
        step = max(1, BLOCK_ELEMENTS // len(columns))
        # Straight into float64, a column after the other: there is no matrix of all rows.
        buffer = np.empty((len(columns), min(step, len(y))))
        for start in range(0, len(y), step):
            rows = slice(start, min(start + step, len(y)))
            part = buffer[:, : rows.stop - start]
            for row, column in zip(part, columns, strict=True):
                row[:] = column[rows]
            yield Block(part.T, y[rows], None if weights is None else weights[rows])

    def _read(self, columns: list[str]) -> Any:
        parquet = require("pyarrow.parquet", extra="dask", purpose="reading Parquet")
        with parquet.ParquetFile(self.path, filesystem=self.filesystem) as file:
            # The engine's tasks are the threads.
            return file.read_row_group(self.group, columns=columns, use_threads=False)


def _plain(column: Any) -> Array:
    """Return an Arrow column as a NumPy array; gaps among numbers are NaN, among others None."""
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):
        column = column.cast(column.type.value_type)
    return column.to_numpy()


class Chunk:
    """A partition of Dask collections; the engine hands over its arrays when it is read."""

    def __init__(self, name: str, columns: Sequence[tuple[str, str]] | None) -> None:
        self.name, self.columns = name, columns
        self.data: tuple[Any, ...] = ()

    def holding(self, *data: Any) -> Chunk:
        """Return the partition with its inputs, labels and weights."""
        chunk = Chunk(self.name, self.columns)
        chunk.data = data
        return chunk

    def frame(self) -> Any:
        """Return the inputs as they came."""
        return self.data[0]

    def blocks(self, transformer: Any = None) -> Iterator[Block]:
        """Yield the rows, after checking that the partition is like the others."""
        X, y, weights = self.data
        found = _columns_of(X)
        if self.columns is not None and found != self.columns:
            odd = [
                f"{name!r} ({kind})"
                for name, kind in found or ()
                if (name, kind) not in self.columns
            ]
            lacking = [
                f"{name!r} ({kind})"
                for name, kind in self.columns
                if (name, kind) not in (found or ())
            ]
            raise PartitionError(
                f"its columns differ: it has {', '.join(odd) or 'another order'} and lacks "
                f"{', '.join(lacking) or 'none'}"
            )
        lengths = [part.shape[0] for part in (X, y, weights) if part is not None]
        if len(set(lengths)) > 1:
            raise PartitionError(f"X, y and the weights have {lengths} rows")
        if transformer is not None:
            X = _transform(transformer, X)
        y, weights = (None if part is None else np.asarray(part) for part in (y, weights))
        yield from cut(X, y, weights)


def _columns_of(X: Any) -> list[tuple[str, str]] | None:
    """Return names and dtypes of a DataFrame's columns; None for an array."""
    dtypes = getattr(X, "dtypes", None)
    return None if dtypes is None else [(str(k), str(v)) for k, v in dtypes.items()]


def _transform(transformer: Any, X: Any) -> Any:
    """Return transformed rows; a partition without rows is left as it is."""
    return transformer.transform(X) if X.shape[0] else np.empty((0, 1))


def cut(X: Any, y: Array, weights: Array | None) -> Iterator[Block]:
    """Yield blocks of rows of a matrix, in float64."""
    sparse = scipy.sparse.issparse(X)
    X = X.tocsr() if sparse else np.asarray(X)
    rows = X.shape[0]
    entries = max(X.nnz if sparse else X.size, 1)
    step = max(1, BLOCK_ELEMENTS * rows // entries)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        inputs = X[part].astype(np.float64, copy=False)
        yield Block(inputs, y[part], None if weights is None else weights[part])


class ParquetTable:
    """A folder of Parquet files: row groups, and which columns are what; see `read_parquet`."""

    def __init__(
        self, path: Any, label: str, weight: str | None, columns: Any, transformer: Any
    ) -> None:
        parquet = require("pyarrow.parquet", extra="dask", purpose="reading Parquet")
        fs = require("pyarrow.fs", extra="dask", purpose="reading Parquet")
        self.path, self.label, self.weight, self.transformer = path, label, weight, transformer
        text = os.fspath(path)
        remote = "://" in text
        self.filesystem, root = fs.FileSystem.from_uri(text if remote else os.path.abspath(text))
        info = self.filesystem.get_file_info(root)
        paths = [root]
        if info.type == fs.FileType.Directory:
            found = self.filesystem.get_file_info(fs.FileSelector(root, recursive=True))
            paths = sorted(
                each.path
                for each in found
                if each.is_file and not each.base_name.startswith(("_", "."))
            )
        if info.type == fs.FileType.NotFound or not paths:
            raise ValueError(message("path", path, "a Parquet file or a folder of such"))
        metadata = [parquet.read_metadata(each, filesystem=self.filesystem) for each in paths]
        schemas = [each.schema.to_arrow_schema() for each in metadata]
        self.columns = self._choose(columns, schemas[0])
        self._require_alike(paths, schemas)
        self.rows = sum(each.num_rows for each in metadata)
        self.bytes = sum(
            each.row_group(g).total_byte_size
            for each in metadata
            for g in range(each.num_row_groups)
        )
        self.parts = [
            RowGroup(self, path, group, each.row_group(group).num_rows)
            for path, each in zip(paths, metadata, strict=True)
            for group in range(each.num_row_groups)
        ]
        self.delayed: list[tuple[Any, ...]] = [()] * len(self.parts)

    def _choose(self, columns: Any, schema: Any) -> list[str]:
        """Return the names of the inputs; columns that are no numbers need a transformer."""
        types = require("pyarrow", extra="dask", purpose="reading Parquet").types
        special = [name for name in (self.label, self.weight) if name is not None]
        if columns is None:
            chosen = [name for name in schema.names if name not in special]
        else:
            chosen = check.as_list("columns", columns, "a list of column names")
        for argument, names in (("columns", chosen), ("label", special)):
            for name in names:
                if name not in schema.names:
                    allowed = f"a column of the table: {', '.join(schema.names[:LISTED])}"
                    raise ValueError(message(argument, name, allowed))
        if not chosen:
            raise ValueError(message("columns", chosen, "one column at least"))
        numeric = types.is_integer, types.is_floating, types.is_boolean
        text = [name for name in chosen if not any(f(schema.field(name).type) for f in numeric)]
        if text and self.transformer is None:
            kinds = ", ".join(f"{name!r} ({schema.field(name).type})" for name in text[:LISTED])
            remedy = "Pass transformer=, which encodes them, or leave them out of columns."
            raise ValueError(message("columns", Words(kinds), "numbers", remedy))
        return chosen

    def _require_alike(self, paths: list[str], schemas: list[Any]) -> None:
        """Refuse files that lack a column or have it in another type; all are named."""
        used = [*self.columns, *(n for n in (self.label, self.weight) if n is not None)]
        odd = []
        for path, schema in zip(paths, schemas, strict=True):
            for name in used:
                wanted = schemas[0].field(name).type
                got = schema.field(name).type if name in schema.names else "absent"
                if got != wanted:
                    odd.append(f"{name!r} in {os.path.basename(path)} is {got}, not {wanted}")
        if odd:
            more = f" and {len(odd) - LISTED} more" if len(odd) > LISTED else ""
            allowed = f"files with the columns and types of {os.path.basename(paths[0])}"
            raise ValueError(f"path must be {allowed}, got {'; '.join(odd[:LISTED])}{more}.")

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return self.columns


class CollectionTable:
    """Dask arrays or DataFrames of inputs, labels and weights, partition by partition."""

    def __init__(self, X: Any, y: Any, weights: Any, transformer: Any) -> None:
        dask_array = require("dask.array", extra="dask", purpose="proxyprox.dask")
        if y is None:
            raise ValueError(message("y", None, "given: the labels, a Dask array or Series"))
        self.transformer = transformer
        columns = _columns_of(X)
        if columns is None:
            self.names = self._check_array(X)
            if X.numblocks[1] > 1:
                X = X.rechunk({1: -1})
            # Known lengths can be matched; of unknown ones the first pass sees whether they are.
            self.rows = None if np.isnan(X.shape[0]) else int(X.shape[0])
        else:
            self.names, self.rows = [name for name, _ in columns], None
            numbers = ("int", "uint", "float", "bool", "Int", "UInt", "Float")
            text = [f"{name!r} ({kind})" for name, kind in columns if not kind.startswith(numbers)]
            if text and transformer is None:
                got, remedy = (
                    Words(", ".join(text[:LISTED])),
                    "Pass transformer=, which encodes them.",
                )
                raise ValueError(message("X", got, "of columns that are numbers", remedy))
        self.bytes = None if columns is not None else X.nbytes
        pieces = [_pieces(X)]
        for argument, part in (("y", y), ("sample_weight", weights)):
            if part is None:
                pieces.append([None] * len(pieces[0]))
                continue
            if not hasattr(part, "__dask_graph__"):
                if self.rows is None:
                    allowed = "a Dask array or Series: the rows of X are not counted yet"
                    raise TypeError(message(argument, part, allowed))
                part = dask_array.from_array(np.asarray(part), chunks=-1)
            pieces.append(self._match(argument, part, X, len(pieces[0])))
        self.parts = [Chunk(f"{number}", columns) for number in range(len(pieces[0]))]
        self.delayed = list(zip(*pieces, strict=True))

    def _check_array(self, X: Any) -> list[str]:
        """Return the numbers of the columns of a Dask array, as names."""
        if X.ndim != 2 or np.isnan(X.shape[1]) or X.shape[1] == 0:
            got = Words(f"shape {X.shape}")
            raise ValueError(message("X", got, "two-dimensional, with a known number of columns"))
        if X.dtype.kind not in "biuf" and self.transformer is None:
            raise TypeError(message("X", Words(f"dtype {X.dtype}"), "numbers"))
        return [str(j) for j in range(X.shape[1])]

    def _match(self, argument: str, part: Any, X: Any, count: int) -> list[Any]:
        """Return the pieces of labels or weights that belong to those of X."""
        if part.ndim == 2 and 1 in part.shape[1:]:
            part = part[:, 0] if _columns_of(part) is None else part[part.columns[0]]
        if part.ndim != 1:
            got = Words(f"{part.ndim} dimensions")
            raise ValueError(message(argument, got, "one-dimensional, an entry for each row"))
        if hasattr(part, "chunks") and hasattr(X, "chunks"):
            known = not np.isnan([*part.chunks[0], *X.chunks[0]]).any()
            if known and part.shape[0] != X.shape[0]:
                allowed = f"one for each of the {X.shape[0]} rows of X"
                raise ValueError(message(argument, Words(f"{part.shape[0]} rows"), allowed))
            if known:
                part = part.rechunk((X.chunks[0],))
        pieces = _pieces(part)
        divisions = [
            each.divisions for each in (part, X) if getattr(each, "known_divisions", False)
        ]
        if len(pieces) != count or (len(divisions) == 2 and divisions[0] != divisions[1]):
            got = Words(f"{len(pieces)} partitions with divisions {check.short(divisions[:1])}")
            allowed = f"divided into the {count} partitions of X"
            remedy = (
                "Take both from one DataFrame, or repartition them alike; arrays of unknown chunk "
                "sizes are counted by compute_chunk_sizes()."
            )
            raise ValueError(message(argument, got, allowed, remedy))
        return pieces


def _pieces(collection: Any) -> list[Any]:
    return list(np.ravel(np.array(collection.to_delayed(), dtype=object)))


Table = ParquetTable | CollectionTable


def as_table(X: Any, y: Any, weights: Any, transformer: Any) -> Table:
    """Return a table of Dask collections; a Parquet table as it is."""
    if isinstance(X, ParquetTable):
        for argument, given in (("y", y), ("sample_weight", weights), ("transformer", transformer)):
            if given is not None:
                remedy = "Name the column in read_parquet."
                raise TypeError(message(argument, given, "left out with a Parquet table", remedy))
        return X
    if not hasattr(X, "__dask_graph__"):
        allowed = "a Dask array, a Dask DataFrame or what read_parquet returns"
        raise TypeError(message("X", Words(f"a {type(X).__name__}"), allowed))
    return CollectionTable(X, y, weights, transformer)


def read_parquet(
    path: Any,
    *,
    label: str,
    weight: str | None = None,
    columns: Any = None,
    transformer: Any = None,
) -> ParquetTable:
    """Return a table of Parquet files, of which only the footers are read now.

    Parameters
    ----------
    path : path or URI
        A file or a folder of files that every worker can read. All must have the same columns.
    label, weight : str
        The columns of the labels and of the rows' weights, if there are any.
    columns : list of str, optional
        The inputs; by default all other columns.
    transformer : scikit-learn transformer, optional
        What makes numbers of DataFrames of the inputs, such as a ``ColumnTransformer``. One that is
        not fitted is fitted on a sample of rows, once; every row group is transformed by itself.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile
    >>> from proxyprox.dask import logistic_regression, read_parquet
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pd.DataFrame({"x": [1.0, -1.0], "clicked": ["yes", "no"]})
    >>> table.to_parquet(f"{folder.name}/0.parquet")
    >>> loss = logistic_regression(read_parquet(folder.name, label="clicked"))
    >>> round(loss.value(np.zeros(1)), 6)
    0.693147
    >>> folder.cleanup()
    """
    return ParquetTable(path, label, weight, columns, transformer)
