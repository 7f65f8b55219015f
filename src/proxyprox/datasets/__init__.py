"""Data: public LIBSVM sets by name, and one's own tables from a file.

`load` finds a set in the folder named by ``PROXYPROX_DATA``, then in the user's cache, then at its
public home. `read_table` reads CSV, Parquet, svmlight and npz files with messages that name the
row and the column at fault.
"""

from proxyprox.datasets.library import (
    Dataset,
    DatasetCorruptError,
    DatasetError,
    DatasetNotFoundError,
    cache_folder,
    load,
    names,
)
from proxyprox.datasets.tables import DataError, Table, read_table

__all__ = [
    "DataError",
    "Dataset",
    "DatasetCorruptError",
    "DatasetError",
    "DatasetNotFoundError",
    "Table",
    "cache_folder",
    "load",
    "names",
    "read_table",
]
