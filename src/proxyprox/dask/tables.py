"""Tables in partitions: Dask collections and Parquet folders, and passes over them.

A partition is read block by block. A pass merges the partitions' answers on the workers, in a tree
in the order of the partitions, so that the result does not depend on who computed what. The
scheduler repeats a task that failed and runs those of a lost worker elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import operator
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import dask.array
import distributed
import numpy as np
import scipy.sparse
from dask.delayed import Delayed
from pyarrow import dataset
from threadpoolctl import ThreadpoolController

from proxyprox._util import validation as check
from proxyprox._util.arrays import BLOCK
from proxyprox._util.text import list_names
from proxyprox._util.validation import Words, message

Array = Any

NUMBERS = ("int", "uint", "float", "double", "half", "bool", "Int", "UInt", "Float")


class Table(NamedTuple):
    """A table in partitions: what `read_parquet` returns.

    Attributes
    ----------
    parts : list
        A partition each: the keys of its inputs, labels and weights, or a function that returns
        these.
    graph : dict
        The tasks that make what has keys.
    names : list of str
        How errors call the partitions.
    columns : list of pairs
        Names and types of the inputs; the types are empty for arrays.
    rows : int or None
        How many there are, where that is known.
    transformer : scikit-learn transformer or None
        What makes numbers of the inputs.
    """

    parts: list[Any]
    graph: dict[Any, Any]
    names: list[str]
    columns: list[tuple[str, str]]
    rows: int | None
    transformer: Any


def open_partition(part: Any) -> tuple[Any, Any, Any]:
    """Return a partition's inputs, labels and weights, if there are any."""
    X, y, *weights = part() if callable(part) else part
    return X, y, weights[0] if weights else None


def read_blocks(
    X: Any, y: Any, weights: Any, transformer: Any = None
) -> Iterator[tuple[Any, Array, Array | None]]:
    """Yield inputs, labels and weights of a partition's rows in small blocks of float64."""
    y, weights = (None if part is None else np.asarray(part) for part in (y, weights))
    if transformer is not None and len(y):
        X = transformer.transform(as_frame(X))
    rows, width = X.shape
    X = X.tocsr() if scipy.sparse.issparse(X) else X
    step = max(1, BLOCK * rows // max(X.nnz if scipy.sparse.issparse(X) else rows * width, 1))
    for start in range(0, rows, step):
        some = slice(start, min(start + step, rows))
        yield _numbers(X, some), y[some], None if weights is None else weights[some]


def as_frame(X: Any) -> Any:
    """Return inputs as a DataFrame of texts as objects, with gaps as scikit-learn knows them."""
    frame = X.to_pandas() if hasattr(X, "to_pandas") else X
    texts = {name: frame[name] for name in frame.select_dtypes("string").columns}
    plain = {name: t.astype(object).where(t.notna(), np.nan) for name, t in texts.items()}
    return frame.assign(**plain)


def _columns(X: Any) -> Any:
    """Return names and types of a DataFrame's or an Arrow table's columns; None of an array."""
    schema = X if hasattr(X, "pandas_metadata") else getattr(X, "schema", None)
    if schema is not None:
        return [(field.name, str(field.type).removeprefix("large_")) for field in schema]
    kinds = getattr(X, "dtypes", None)
    return None if kinds is None else [(str(name), str(kind)) for name, kind in kinds.items()]


def _numbers(X: Any, some: slice) -> Any:
    """Return some rows in float64, those of tables by column; gaps are NaN."""
    if hasattr(X, "schema"):
        part = X.slice(some.start, some.stop - some.start)
        return np.array([column.to_numpy() for column in part.columns], dtype=np.float64).T
    if hasattr(X, "iloc"):
        return X.iloc[some].to_numpy(dtype=np.float64, na_value=np.nan)
    return (X if scipy.sparse.issparse(X) else np.asarray(X))[some].astype(np.float64, copy=False)


def column_fault(X: Any, y: Any, weights: Any, columns: list[tuple[str, str]]) -> str:
    """Return how a partition differs from what the table's are, if it does."""
    found = _columns(X)
    lengths = [part.shape[0] for part in (X, y, weights) if part is not None]
    if found is not None and found != columns:
        gone, new = ([c for c in a if c not in b] for a, b in ((columns, found), (found, columns)))
        return f"columns {new or 'in another order'} in place of {gone or 'the same'}"
    if found is None and columns and X.shape[1] != len(columns):
        return f"{X.shape[1]} columns in place of {len(columns)}"
    return "" if len(set(lengths)) == 1 else f"{lengths} rows of inputs, labels (and weights)"


def require_numbers(argument: str, columns: list[tuple[str, str]], transformer: Any) -> None:
    """Refuse columns that are no numbers, unless they are transformed."""
    text = [f"{name!r} ({kind})" for name, kind in columns if not kind.startswith(NUMBERS)]
    if transformer is not None and not hasattr(transformer, "transform"):
        raise TypeError(
            message("transformer", transformer, "a transformer of scikit-learn, or None")
        )
    if text and transformer is None:
        remedy = "Pass transformer=, which encodes them, or leave them out."
        raise ValueError(message(argument, Words(list_names(text)), "numbers", remedy))


def as_table(X: Any, y: Any, weights: Any, transformer: Any) -> Table:
    """Return Dask collections as a table; what `read_parquet` returned as it is."""
    if isinstance(X, Table):
        given = {"y": y, "sample_weight": weights, "transformer": transformer}
        for argument in [name for name, value in given.items() if value is not None]:
            raise TypeError(message(argument, given[argument], "left out: read_parquet takes it"))
        return X
    if not hasattr(X, "__dask_graph__"):
        allowed = "a Dask array, a Dask DataFrame or what read_parquet returns"
        raise TypeError(message("X", Words(f"a {type(X).__name__}"), allowed))
    columns, rows = _columns(X), None
    if columns is not None:
        require_numbers("X", columns, transformer)
    elif X.ndim != 2 or not X.shape[1] > 0 or X.dtype.kind not in "biuf" or transformer is not None:
        got = Words(f"shape {X.shape} of {X.dtype}{' and a transformer' * bool(transformer)}")
        raise ValueError(message("X", got, "a matrix of numbers, or a DataFrame to be transformed"))
    else:
        columns = [(str(j), "") for j in range(X.shape[1])]
        X = X.rechunk({1: -1})
        rows = None if np.isnan(X.shape[0]) else int(X.shape[0])
    given = {"y": y, "sample_weight": weights}
    others = [_matching(name, part, X, rows) for name, part in given.items() if part is not None]
    pieces = [_pieces(X), *others]
    # The pieces of a collection share one graph.
    graphs = {id(piece.dask): piece.dask for some in pieces for piece in some}
    graph = {key: task for each in graphs.values() for key, task in each.items()}
    parts = [[piece.key for piece in some] for some in zip(*pieces, strict=True)]
    return Table(parts, graph, list(map(str, range(len(parts)))), columns, rows, transformer)


def _pieces(collection: Any) -> list[Any]:
    return list(np.ravel(np.array(collection.to_delayed(), dtype=object)))


def _matching(argument: str, part: Any, X: Any, rows: int | None) -> list[Any]:
    """Return the pieces of labels or weights that belong to those of X."""
    if not hasattr(part, "__dask_graph__") and rows is not None:
        part = dask.array.from_array(np.asarray(part), chunks=-1)
    if not hasattr(part, "__dask_graph__") or part.ndim != 1:
        raise TypeError(message(argument, part, "a Dask array or Series, one entry for each row"))
    length = part.shape[0] if hasattr(part, "chunks") else math.nan
    if rows is not None and length == rows:
        part = part.rechunk((X.chunks[0],))
    pieces, count = _pieces(part), len(_pieces(X))
    known = [each.divisions for each in (part, X) if getattr(each, "known_divisions", False)]
    other_rows = rows is not None and not math.isnan(length) and length != rows
    if other_rows or len(pieces) != count or known[1:] not in ([], known[:1]):
        got = Words(f"{len(pieces)} partitions, {length} rows")
        remedy = "Take both from one DataFrame, or repartition them alike."
        allowed = f"divided as X is, into {count} partitions, {rows or 'unknown'} rows"
        raise ValueError(message(argument, got, allowed, remedy))
    return pieces


def read_parquet(
    path: Any,
    *,
    label: str,
    weight: str | None = None,
    columns: Any = None,
    transformer: Any = None,
) -> Table:
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

    Returns
    -------
    Table
        For `logistic_regression` and its like; a row group is a partition.

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
    # A file or a folder; names that begin with "_" or "." are skipped.
    try:
        data = dataset.dataset(os.fspath(path), format="parquet")
        files = [(each, each.count_rows()) for each in data.get_fragments()]
    except (OSError, ValueError) as error:
        allowed = f"a Parquet file or a folder of such files ({error})"
        raise ValueError(message("path", path, allowed)) from error
    # Files without rows may have other types: who wrote them could not know.
    files = [(each, rows) for each, rows in files if rows] or files[:1]
    if not files:
        raise ValueError(message("path", path, "a Parquet file or a folder of such files"))
    schemas = {each.path: dict(_columns(each.physical_schema)) for each, _ in files}
    special = [name for name in (label, weight) if name is not None]
    known = [*chain(*schemas.values())]
    chosen = [name for name in dict.fromkeys(known) if name not in special]
    if columns is not None:
        chosen = check.as_list("columns", columns, "a list of column names")
    for argument, names in (("label or weight", special), ("columns", chosen)):
        if unknown := [name for name in names if name not in known]:
            allowed = f"a column of the table: {list_names(list(dict.fromkeys(known)))}"
            raise ValueError(message(argument, unknown[0], allowed))
    usual = {c: next(s[c] for s in schemas.values() if c in s) for c in (*chosen, *special)}
    odd = [
        f"{column!r} is {schema.get(column, 'absent')} in {os.path.basename(name)}, not {kind}"
        for name, schema in schemas.items()
        for column, kind in usual.items()
        if schema.get(column) != kind
    ]
    if odd:
        remedy = "Write those files again, or choose columns= that all of them have."
        raise ValueError(f"path must hold files of the same columns: {list_names(odd)}. {remedy}")
    require_numbers("weight", [(n, usual[n]) for n in special if n == weight], None)
    kinds = [(name, usual[name]) for name in chosen]
    require_numbers("columns", kinds, transformer)
    groups = [group for each, _ in files for group in each.split_by_row_group()]
    parts = [partial(_read_group, group, chosen, label, weight) for group in groups]
    names = [f"{os.path.basename(group.path)}:{group.row_groups[0].id}" for group in groups]
    return Table(parts, {}, names, kinds, sum(rows for _, rows in files), transformer)


def _read_group(group: Any, columns: list[str], label: str, weight: str | None) -> tuple[Any, ...]:
    """Return the inputs of a row group as an Arrow table, its labels and its weights."""
    wanted = [*columns, label, *([] if weight is None else [weight])]
    # The engine's tasks are the threads.
    table = group.to_table(columns=wanted, use_threads=False)
    y = table.column(label)
    if hasattr(y.type, "index_type"):
        y = y.cast(y.type.value_type)
    rest = [table.column(name).to_numpy() for name in wanted[len(columns) + 1 :]]
    return table.select(columns), y.to_numpy(), *rest


# -- passes over the partitions ------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterPolicy:
    """How much is fetched from a cluster, and how its work is divided.

    Attributes
    ----------
    rows : int
        Rows that a transformer is fitted to, and distinct labels that are fetched, at most. No
        record: a judgement of memory.
    fan_in : int
        Results that one task adds up, and tasks for each thread. Set by
        docs/results/scale/report.md.
    reading : float
        Nanoseconds of reading one number from a file, about. Set by docs/results/scale/report.md.
    """

    rows: int = 100_000
    fan_in: int = 8
    reading: float = 3.0


CLUSTER = ClusterPolicy()


class Pass(NamedTuple):
    """One pass over all partitions, as it was timed."""

    purpose: str
    seconds: float


def run_bundle(
    task: Callable[..., Any], parts: Sequence[tuple[int, Any]], merge: Callable[[list[Any]], Any]
) -> Any:
    """Return a task's results for partitions, one after the other, merged."""
    total = [task(*parts[0])]
    for part in parts[1:]:
        total = [merge([*total, task(*part)])]
    return total[0]


class Engine:
    """Dask's scheduler: the client given, or current when this was made, or the local one."""

    def __init__(self, client: Any = None, retries: int = 2) -> None:
        named = dask.config.get("scheduler", None) or "distributed"
        if client is None and "distributed" in str(named):
            # There may be none.
            with contextlib.suppress(ValueError):
                client = distributed.default_client()
        if not (client is None or hasattr(client, "scheduler_info")):
            raise TypeError(message("client", client, "a distributed.Client", "Client(address)"))
        self.client, self.passes = client, list[Pass]()
        self.retries = check.whole("retries", retries, 0)
        self._threads = ThreadpoolController()
        threads = 0 if client is None else sum(client.nthreads().values())
        # More tasks than threads: a slow worker leaves some of its share to others.
        self._most_tasks = CLUSTER.fan_in * max(threads, CLUSTER.fan_in)

    def run(
        self, purpose: str, table: Table, task: Callable[..., Any], job: Any,
        merge: Callable[[list[Any]], Any],
    ) -> Any:  # fmt: skip
        """Return a task's results for all partitions, merged in their order."""
        begun, name = time.perf_counter(), f"proxyprox-{uuid.uuid4().hex}"
        parts = list(enumerate(table.parts))
        # A plain dictionary: calls of dask.delayed take ten times as long.
        tasks: dict[Any, Any] = {name: partial(task, job=job)}
        # What workers read themselves is read in bundles: the scheduler's work does not grow.
        reads = all(callable(part) for _, part in parts)
        each = math.ceil(len(parts) / self._most_tasks) if reads else 1
        level: list[Any] = [(f"part-{name}", i) for i in range(0, len(parts), each)]
        for key in level:
            bundle = parts[key[1] : key[1] + each]
            whole = partial(run_bundle, parts=bundle, merge=merge)
            tasks[key] = (whole, name) if each > 1 else (operator.call, name, *bundle[0])
        while len(level) > 1:
            size = CLUSTER.fan_in
            groups = [level[i : i + size] for i in range(0, len(level), size)]
            level = [(f"merge-{len(tasks)}-{name}", place) for place in range(len(groups))]
            tasks |= {k: (merge, group) for k, group in zip(level, groups, strict=True)}
        found = self._compute(Delayed(level[0], {**table.graph, **tasks}))
        self.passes.append(Pass(purpose, time.perf_counter() - begun))
        return found

    def _compute(self, value: Any) -> Any:
        if self.client is None:
            # The scheduler's tasks are the threads.
            with self._threads.limit(limits=1, user_api="blas"):
                return value.compute()
        remedy = "Open a Client and build the target anew; a run with a checkpoint resumes."
        closed = message("client", Words("one that is closed"), "open", remedy)
        if self.client.status != "running":
            raise RuntimeError(closed)
        future = self.client.compute(value, retries=self.retries)
        try:
            return future.result()
        except distributed.CancelledError as error:
            raise RuntimeError(closed) from error
        finally:
            future.release()
