"""The rows of a run on one's own data: read, matched column by column, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.datasets

from proxyprox._digests import file_digest
from proxyprox.datasets import DataError, Table, read_table
from proxyprox.experiments.own_config import Config

BUILT_IN = "sklearn:"
"""How the name of a set that ships with scikit-learn begins, in place of a file."""

_LOADERS = ("breast_cancer", "diabetes", "digits", "iris", "wine")


def read_tables(config: Config, base: Path) -> tuple[Table, Table | None]:
    """Return the target's rows and, where the proxy has a file, its rows with the same columns.

    Parameters
    ----------
    config : Config
        The settings.
    base : Path
        Folder that file names are relative to.

    Raises
    ------
    DataError
        For a file that cannot be used, labels that do not suit the family, or other columns.
    """
    target = _target(config, base)
    proxy = _proxy(config, base)
    if proxy is None:
        return target, None
    if scipy.sparse.issparse(target.X) and scipy.sparse.issparse(proxy.X):
        # svmlight leaves zeros out: either file may end before the last column.
        names = max(target.feature_names, proxy.feature_names, key=len)
        target, proxy = _widened(target, names), _widened(proxy, names)
    where = str(config.proxy.file)
    proxy = _matched(proxy, target.feature_names, where, config.target.file)
    if config.proxy.kind == "labelled":
        if proxy.y is None:
            raise DataError(f"{where}: which column holds the label? Name it: [proxy] label.")
        check_labels(config, proxy.y, where, classes_of(config, target.y))
    return target, proxy


def _target(config: Config, base: Path) -> Table:
    part = config.target
    try:
        table = _read(part.file, base, part.label, part.features, part.weight, part.format)
    except DataError as error:
        if part.label is not None:
            raise
        hint = "No column was named as the label; if this is it, say so: [target] label."
        raise DataError(f"{error} {hint}") from error
    if table.y is None:
        raise DataError(
            f"{part.file}: which column holds the label? Name it: [target] label. The columns are "
            f"{', '.join(map(repr, table.feature_names[:20]))}."
        )
    check_labels(config, table.y, part.file)
    return table


def _proxy(config: Config, base: Path) -> Table | None:
    part = config.proxy
    if part.file is None:
        return None
    label = part.label or config.target.label if part.kind == "labelled" else None
    if _is_svmlight(part.file, part.format):
        label = None  # its labels have no name
    return _read(part.file, base, label, config.target.features, part.weight, part.format)


def digests(config: Config, base: Path) -> tuple[str, ...]:
    """Return a line for each data file that changes when the file does."""
    lines = []
    for name in (config.target.file, config.proxy.file):
        if name is None or name.startswith(BUILT_IN):
            continue
        try:
            found = file_digest(_place(name, base))
        except OSError:
            continue  # the reader of tables words it
        lines.append(f"{name}: sha256 {found}")
    return tuple(lines)


def classes_of(config: Config, y: Any) -> tuple[Any, ...]:
    """Return the classes of the labels: those of the configuration, or those that occur."""
    if config.model.classes is not None:
        return config.model.classes
    return tuple(value.item() for value in np.unique(y))


def check_labels(config: Config, y: Any, where: str, classes: Sequence[Any] | None = None) -> None:
    """Refuse labels that the family cannot have, naming the first row at fault."""
    family = config.model.family
    if family in ("linear", "poisson"):
        if y.dtype.kind not in "biuf":
            row, value = _first(y, lambda v: not _is_number(v))
            raise DataError(
                f"{where}: row {row}: the label {value!r} is not a number, which family = "
                f'{family!r} needs. For classes use "logistic" or "softmax".'
            )
        if family == "poisson" and (y < 0).any():
            row, value = _first(y, lambda v: v < 0)
            raise DataError(f"{where}: row {row}: the count {value!r} is negative.")
        return
    known = tuple(classes) if classes is not None else classes_of(config, y)
    allowed = set(known)
    if not all(value.item() in allowed for value in np.unique(y)):
        row, value = _first(y, lambda v: v not in allowed)
        quoted = any(isinstance(c, str) for c in known) != isinstance(value, str)
        hint = ' Mind the quotes: 1 is a number, "1" is text.' if quoted else ""
        raise DataError(
            f"{where}: row {row}: the label {value!r} is not one of the classes "
            f"{list(known)}.{hint}"
        )
    if classes is not None:
        return
    found = [value.item() for value in np.unique(y)]
    if len(found) == 1:
        raise DataError(
            f"{where}: every row has the label {found[0]!r}; {family} needs rows of two classes."
        )
    if family == "logistic" and len(found) > 2:
        shown = ", ".join(map(repr, found[:6])) + (", …" if len(found) > 6 else "")
        raise DataError(
            f"{where}: {len(found)} classes ({shown}); logistic takes two: mend the labels, or use "
            'family = "softmax".'
        )


def _read(
    name: str,
    base: Path,
    label: str | None,
    features: Sequence[str] | None,
    weight: str | None,
    format: str | None,
) -> Table:
    if name.startswith(BUILT_IN):
        return _built_in(name, features)
    try:
        return read_table(
            _place(name, base),
            label=label,
            features=features,
            sample_weight=weight,
            format=format,  # type: ignore[arg-type]
        )
    except DataError as error:
        # The reader speaks of its argument; here it is a key of the configuration.
        words = str(error).replace("'features'", "[target] features")
        if words != str(error) and features is None:
            words += " That is the list of columns to use; without it all are used."
        raise DataError(words) from error


def _place(name: str, base: Path) -> Path:
    return base / Path(name).expanduser()


def _is_svmlight(name: str, format: str | None) -> bool:
    if format is not None:
        return format == "svmlight"
    return bool({".svm", ".svmlight", ".libsvm"} & set(Path(name).suffixes))


def _built_in(name: str, features: Sequence[str] | None) -> Table:
    wanted = name.removeprefix(BUILT_IN)
    if wanted not in _LOADERS:
        raise DataError(f"{name!r} is not known: {BUILT_IN} goes with {', '.join(_LOADERS)}.")
    bunch = getattr(sklearn.datasets, f"load_{wanted}")()
    names = tuple(str(column) for column in bunch.feature_names)
    X = np.asarray(bunch.data, dtype=np.float64)
    y = np.asarray(bunch.target)
    y = np.asarray(bunch.target_names)[y].astype(np.str_) if _has_text(bunch) else y.astype(float)
    table = Table(X, y, names, len(X))
    return table if features is None else _matched(table, tuple(features), name, "features")


def _has_text(bunch: Any) -> bool:
    return bool(np.asarray(getattr(bunch, "target_names", [0])).dtype.kind == "U")


def _widened(table: Table, names: tuple[str, ...]) -> Table:
    X = table.X.copy()
    X.resize((table.rows, len(names)))
    return Table(X, table.y, names, table.rows, table.sample_weight)


def _matched(table: Table, wanted: tuple[str, ...], where: str, target: str) -> Table:
    """Put the columns in the wanted order; refuse another set of columns."""
    missing = [name for name in wanted if name not in table.feature_names]
    if missing:
        raise DataError(
            f"{where}: no column {', '.join(map(repr, missing[:5]))}, which {target} has; target "
            "and proxy need the same columns, in any order."
        )
    if target != "features" and (extra := [n for n in table.feature_names if n not in wanted]):
        raise DataError(
            f"{where}: the column {', '.join(map(repr, extra[:5]))} is not in {target}; drop it, "
            "or list the columns to use in [target] features."
        )
    place = {name: index for index, name in enumerate(table.feature_names)}
    order = [place[name] for name in wanted]
    return Table(table.X[:, order], table.y, wanted, table.rows, table.sample_weight)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _first(y: Any, wrong: Any) -> tuple[int, Any]:
    """Return the first label at fault and its row, counted from 1 as the readers do."""
    for row, value in enumerate(y, start=1):
        plain = value.item() if hasattr(value, "item") else value
        if wrong(plain):
            return row, plain
    raise AssertionError("no label is at fault")
