"""Model files: JSON that holds texts, numbers and lists of them, and nothing that could run.

A model is rebuilt by this package's own code from the numbers in its file. Nothing in a file names
a type, a module or a function. Every value is compared with :class:`ModelFile` before it is used. A
digest tells damage; it is no protection against somebody who writes a file on purpose.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from proxyprox._util.files import atomic_write_bytes
from proxyprox_app.study.tables import DataError

NAME = "model.json"
FORMAT = "proxyprox table model 3"
OLDER = "model.skops"

# Larger numbers make infinite ones when two of them are multiplied.
Number = Annotated[float, Field(ge=-1e150, le=1e150)]
Kind = Literal["number", "category", "text", "date", "drop"]
Mark = Literal["", ",", "."]


class _Exact(BaseModel):
    """Exactly these keys, and values of exactly these types."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _Column(_Exact):
    name: str
    kind: Kind
    why: str
    missing: Number
    values: Annotated[int, Field(ge=0, le=1 << 53)]
    date: str
    yes_no: bool
    text: bool


class _Nothing(_Exact):
    pass


class _Levels(_Exact):
    levels: list[str]


class _Date(_Exact):
    hours: bool


class _Text(_Exact):
    terms: list[str]
    idf: list[Number]
    directions: list[list[Number]]


class _Columns(_Exact):
    columns: list[_Column]
    learned: dict[str, _Nothing | _Levels | _Date | _Text]
    gaps: list[str]
    decimal: Mark
    medians: list[Number]
    centres: list[Number]
    scales: list[Number]
    kept: list[bool]


class _Estimator(_Exact):
    family: str
    classes: list[str | bool | Number]
    coef: list[list[Number]]
    intercept: list[Number]


class ModelFile(_Exact):
    """What a file holds; ``about`` is what a reader may want to know, no prediction needs it."""

    format: Literal["proxyprox table model 3"]
    target: str
    task: Literal["classification", "regression"]
    about: dict[str, Any]
    estimator: _Estimator
    columns: _Columns


class ModelFileError(DataError):
    """A file is no model of ``proxyprox run``; nothing in it was used."""


def write(path: Path, model: dict[str, Any]) -> None:
    """Write a model of the form :class:`ModelFile`, whole or not at all.

    Raises
    ------
    ModelFileError
        For what a file cannot hold.
    """
    try:
        text = seal(_checked({"format": FORMAT, **model}))
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path.name}: the model cannot be saved: {error}.") from error
    atomic_write_bytes(path, text.encode("ascii"))


def _digest(model: dict[str, Any]) -> str:
    text = json.dumps(model, allow_nan=False).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def seal(model: dict[str, Any]) -> str:
    """Return the text of a file: the model, and a digest of it by which damage is noticed."""
    return json.dumps({"digest": _digest(model), **model}, separators=(",", ":"))


def read(path: Path) -> dict[str, Any]:
    """Return what :func:`write` has written; no code of the file is run.

    Parameters
    ----------
    path : Path
        The file, or the folder that holds it.

    Raises
    ------
    ModelFileError
        For any other file; the message says what was found, what is allowed and what to do.
    """
    if path.is_dir():
        path /= OLDER if (path / OLDER).is_file() and not (path / NAME).exists() else NAME
    content = path.read_bytes()
    if content.startswith(b"PK"):
        reason = "it is a zip archive, as earlier versions and skops write them. Such a file names "
        raise refusal(path, f"{reason}types and functions that might run commands: it is not read")
    try:
        model = json.loads(content)
        if not isinstance(model, dict) or model.get("format") != FORMAT:
            got = model.get("format") if isinstance(model, dict) else model
            raise ValueError(f"its format is {str(got)[:40]!r}, not {FORMAT!r}")
        if model.pop("digest", None) != _digest(model):
            raise ValueError("it differs from its own digest, so it was damaged or changed")
        json.dumps(model, ensure_ascii=False).encode()  # no half of a character
        return _checked(model)
    except (ValueError, RecursionError) as error:
        reason = "not JSON" if isinstance(error, UnicodeDecodeError) else str(error)
        raise refusal(path, reason) from error


def _checked(model: dict[str, Any]) -> dict[str, Any]:
    try:
        ModelFile.model_validate(model)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place} is {str(first['input'])[:40]!r}: {first['msg']}") from None
    return model


def refusal(path: Path, reason: str) -> ModelFileError:
    """Return the error for a file that is no model."""
    return ModelFileError(
        f"{path.name}: not a model that proxyprox run has written: {reason[:500].rstrip('.')}. "
        f"Fit the model again: proxyprox run TABLE --target COLUMN writes {NAME}."
    )
