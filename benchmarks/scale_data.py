"""A table larger than memory, as Parquet, and passes over it in plain NumPy.

Run ``python benchmarks/scale_data.py FOLDER --gb 8``. File i is seeded by (seed, i): tables of all
sizes share their first files, files that exist are kept, and FOLDER/8gb holds links to them. Rows
are ``exp(r/2) z S Q`` with r and z normal, S² from 1 to 1/20,000 and Q orthogonal: every column is
correlated with every other one, scaling columns does not help, and labels are logistic with
coefficients of equal size on all columns.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS, CONDITION, LOGIT = 50, 2e4, 2.0
"""Columns, the ratio of their covariance's eigenvalues, and the labels' log-odds (their spread)."""

FILE_ROWS, GROUP_ROWS = 250_000, 62_500
"""A file is 50 MB with 50 columns, a row group a quarter of it."""

LABEL = "y"

BLOCK_ROWS = 8192
"""Rows of the blocks that passes in NumPy compute with: caches hold them."""


@dataclass(frozen=True)
class Model:
    """What all files share: the square root of the covariance and the coefficients."""

    root: Any
    w: Any

    @classmethod
    def draw(cls, seed: int, columns: int) -> Model:
        rng = np.random.default_rng([seed, columns])
        Q = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
        root = np.logspace(0, -math.log10(CONDITION) / 2, columns)[:, None] * Q
        w = rng.choice([-1.0, 1.0], columns)
        return cls(root, w * LOGIT / np.linalg.norm(root @ w))


def write_file(path: Path, seed: int, index: int, columns: int) -> None:
    """Write one file, row group by row group, and give it its name when it is whole."""
    model, rng = Model.draw(seed, columns), np.random.default_rng([seed, columns, index])
    names = [f"x{j:03d}" for j in range(columns)]
    schema = pa.schema([*((name, pa.float32()) for name in names), (LABEL, pa.int8())])
    part = path.with_suffix(f".part{os.getpid()}")
    with pq.ParquetWriter(part, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(FILE_ROWS // GROUP_ROWS):
            Z = rng.standard_normal((GROUP_ROWS, columns), dtype=np.float32)
            Z *= np.exp(rng.standard_normal((GROUP_ROWS, 1), dtype=np.float32) / 2)
            X = np.ascontiguousarray((Z @ model.root.astype(np.float32)).T)
            odds = model.w.astype(np.float32) @ X
            y = rng.random(GROUP_ROWS) < 1 / (1 + np.exp(-odds))
            writer.write_table(pa.table([*X, y.astype(np.int8)], schema=schema))
    part.rename(path)


def file_bytes(columns: int) -> int:
    """Return the bytes of a file's numbers."""
    return FILE_ROWS * columns * 4


def make_table(
    folder: Path, gb: float, *, seed: int = 0, columns: int = COLUMNS, processes: int = 2
) -> Path:
    """Return a folder of ``gb`` · 10⁹ bytes of numbers; write the files that are missing."""
    count = max(1, round(gb * 1e9 / file_bytes(columns)))
    pool = folder / f"files_{columns}_{seed}"
    pool.mkdir(parents=True, exist_ok=True)
    paths = [pool / f"part-{i:05d}.parquet" for i in range(count)]
    missing = [(path, seed, i, columns) for i, path in enumerate(paths) if not path.exists()]
    if missing:
        with multiprocessing.get_context("spawn").Pool(processes) as workers:
            workers.starmap(write_file, missing, chunksize=1)
    table = folder / f"{gb:g}gb_{columns}_{seed}"
    table.mkdir(exist_ok=True)
    for path in paths:
        link = table / path.name
        if not link.exists():
            os.link(path, link)
    return table


def row_groups(folder: Path) -> list[tuple[str, int]]:
    """Return every row group of the table: file and number."""
    found = []
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            found += [(str(path), group) for group in range(file.num_row_groups)]
    return found


def read_group(path: str, group: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    """Return a row group as a matrix, column by column, and its labels."""
    columns, y = _read_columns(path, group)
    X = np.empty((len(columns), len(y)), dtype=dtype)
    for j, column in enumerate(columns):
        X[j] = column
    return X.T, y.astype(dtype)


def _read_columns(path: str, group: int) -> tuple[list[Any], Any]:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        table = file.read_row_group(group, use_threads=False)
    *columns, y = (table.column(j).to_numpy() for j in range(table.num_columns))
    return columns, y


def add_loss(X: Any, y: Any, w: Any, hessian: bool) -> list[Any]:
    """Return the sums of the logistic losses, their gradients and, if wanted, their Hessians.

    X holds the columns as rows.
    """
    z = w @ X
    e = np.exp(-np.abs(z))
    mean = np.where(z >= 0, 1, e) / (1 + e)
    loss = np.log1p(e) + np.maximum(z, 0) - y * z
    sums = [float(loss.sum(dtype=np.float64)), (X @ (mean - y)).astype(np.float64)]
    if hessian:
        scaled = X * np.sqrt(mean * (1 - mean))
        sums.append((scaled @ scaled.T).astype(np.float64))
    return sums


def _pass_over(task: tuple[list[tuple[str, int]], Any, bool, str]) -> list[Any]:
    groups, w, hessian, dtype = task
    w, total = w.astype(dtype), []
    buffer = np.empty((len(w), BLOCK_ROWS), dtype=dtype)
    for path, group in groups:
        columns, y = _read_columns(path, group)
        for start in range(0, len(y), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            X = buffer[:, : len(y[rows])]
            for j, column in enumerate(columns):
                X[j] = column[rows]
            parts = add_loss(X, y[rows].astype(dtype), w, hessian)
            total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
    return total


class NumpyPasses:
    """Value, gradient and Hessian of the logistic loss, by processes that share out the row groups.

    What a pass must cost at least: nothing but reading, two products and the logistic function.
    """

    def __init__(
        self, folder: Path, *, l2: float, processes: int = 2, dtype: str = "float64"
    ) -> None:
        self.groups, self.l2, self.dtype = row_groups(folder), l2, dtype
        self.columns = len(pq.read_schema(self.groups[0][0])) - 1
        self.rows = count_rows(folder)
        self.passes = 0
        self._pool = multiprocessing.get_context("spawn").Pool(processes)

    def __enter__(self) -> NumpyPasses:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()
        self._pool.join()

    def value_and_gradient(self, w: Any) -> tuple[float, Any]:
        value, gradient = self._sums(w, hessian=False)
        return value, gradient

    def with_hessian(self, w: Any) -> tuple[float, Any, Any]:
        value, gradient, hessian = self._sums(w, hessian=True)
        return value, gradient, hessian + self.l2 * np.eye(self.columns)

    def _sums(self, w: Any, *, hessian: bool) -> list[Any]:
        self.passes += 1
        tasks = [(chunk, w, hessian, self.dtype) for chunk in chunks(self.groups, 8)]
        total = None
        for parts in self._pool.imap(_pass_over, tasks):
            total = parts if total is None else [a + b for a, b in zip(total, parts, strict=True)]
        assert total is not None
        value, gradient, *rest = (part / self.rows for part in total)
        return [value + self.l2 / 2 * float(w @ w), gradient + self.l2 * w, *rest]


def chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def count_rows(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gb", type=float, nargs="+", default=[0.2])
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    options = {"seed": given.seed, "columns": given.columns, "processes": given.processes}
    for gb in given.gb:
        begun = time.perf_counter()
        table = make_table(given.folder, gb, **options)
        print(f"{table}: {count_rows(table):,} rows, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
