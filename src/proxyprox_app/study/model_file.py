"""Model files: JSON that holds texts, numbers and lists of them, and nothing that could run.

A model is rebuilt by this package's own code from the numbers in its file. Nothing in a file names
a type, a module or a function. Every value is compared with :data:`FORM` before it is used. A
digest tells damage; it is no protection against somebody who writes a file on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from proxyprox._util.digests import text_digest
from proxyprox._util.files import atomic_write_bytes
from proxyprox_app.study.tables import DataError

NAME = "model.json"
FORMAT = "proxyprox table model 2"
# Larger numbers make infinite ones when two of them are multiplied.
LARGEST = 1e150
# The names of these types in messages.
_WORDS = {
    str: "text", bool: "true or false", float: "a number", list: "a list", dict: "an object",
    int: "a whole number", type(None): "null",
}  # fmt: skip


class Plain:
    """Any value of JSON: what a reader may want to know, which no prediction depends on."""


# What a file holds: a type, [form of every item], {key: form} or {str: form of every value}; of a
# tuple one must fit.
_COLUMN = {
    "name": str, "kind": str, "why": str, "missing": float, "values": int, "date": str,
    "yes_no": bool, "text": bool, "decimal": str,
}  # fmt: skip
_LEARNED: Any = (
    {},
    {"levels": [str]},
    {"hours": bool},
    {"terms": [str], "idf": [float], "directions": [[float]]},
)
FORM: Any = {
    "format": str,
    "target": str,
    "task": str,
    "decimal": str,
    "about": {str: Plain},
    "estimator": {
        "family": str, "classes": [(str, bool, float)], "coef": [[float]], "intercept": [float],
    },
    "columns": {
        "columns": [_COLUMN], "learned": {str: _LEARNED}, "gaps": [str], "medians": [float],
        "centres": [float], "scales": [float], "kept": [bool],
    },
}  # fmt: skip


class ModelFileError(DataError):
    """A file is no model of ``proxyprox run``; nothing in it was used."""


def write(path: Path, model: dict[str, Any]) -> None:
    """Write a model, whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    model : dict
        Of the form :data:`FORM`.

    Raises
    ------
    ModelFileError
        For what a file cannot hold.
    """
    try:
        conform(model, FORM, "")
        text = seal(model)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{path.name}: the model cannot be saved: {error}.") from error
    atomic_write_bytes(path, text.encode("ascii"))


def seal(model: dict[str, Any]) -> str:
    """Return the text of a file: the model, and a digest of it by which damage is noticed."""
    digest = text_digest(json.dumps(model, allow_nan=False))
    return json.dumps({"digest": digest, **model}, separators=(",", ":"))


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
        older = path / "model.skops"
        path = older if older.is_file() and not (path / NAME).exists() else path / NAME
    content = path.read_bytes()
    if content.startswith(b"PK"):
        raise refusal(
            path,
            "it is a zip archive, as earlier versions and skops write them. Such a file names "
            "types and functions that might run commands, so it is not read",
        )
    try:
        model = json.loads(content, parse_constant=_no_constant)
        if not isinstance(model, dict) or model.get("format") != FORMAT:
            found = model.get("format") if isinstance(model, dict) else model
            raise ValueError(f"its format is {_shown(found)}, not {FORMAT!r}")
        if model.pop("digest", None) != text_digest(json.dumps(model, allow_nan=False)):
            raise ValueError("it differs from its own digest, so it was damaged or changed")
        conform(model, FORM, "")
    except (ValueError, RecursionError) as error:
        reason = "not JSON" if isinstance(error, UnicodeDecodeError) else str(error)
        raise refusal(path, reason) from error
    return model


def refusal(path: Path, reason: str) -> ModelFileError:
    """Return the error for a file that is no model."""
    return ModelFileError(
        f"{path.name}: not a model that proxyprox run has written: {reason[:500].rstrip('.')}. "
        f"Fit the model again: proxyprox run TABLE --target COLUMN writes {NAME}."
    )


def conform(value: Any, form: Any, place: str) -> None:
    """Refuse a value that is not exactly of a form."""
    if isinstance(form, tuple):
        if any(_fits(value, one) for one in form):
            return
        raise ValueError(f"{place} is {_shown(value)}, which has no place there")
    if isinstance(form, type):
        if form is not Plain and not _is(value, form):
            raise ValueError(f"{place} is {_shown(value)}, not {_WORDS[form]}")
        if form is str and not _encodable(value):
            raise ValueError(f"{place} is {_shown(value)}, which is no text in Unicode")
        if form in (int, float) and not abs(value) <= LARGEST:
            raise ValueError(f"{place} is {_shown(value)}, beyond {LARGEST:g}")
        return
    kind = type(form)
    if type(value) is not kind:
        raise ValueError(f"{place or 'the file'} is {_shown(value)}, not {_WORDS[kind]}")
    if kind is list:
        if form[0] is float and all(
            type(number) is float and abs(number) <= LARGEST for number in value
        ):
            return  # long lists of numbers
        for number, item in enumerate(value):
            conform(item, form[0], f"{place}[{number}]")
        return
    if list(form) == [str]:
        form = dict.fromkeys(value, form[str])
    if value.keys() != form.keys():
        odd = sorted(value.keys() ^ form.keys())
        raise ValueError(f"{place or 'the file'} must hold {list(form)}, not {_shown(odd)}")
    for key in form:
        conform(value[key], form[key], f"{place}.{key}" if place else str(key))


def _fits(value: Any, form: Any) -> bool:
    try:
        conform(value, form, "")
    except ValueError:
        return False
    return True


def _is(value: Any, kind: type) -> bool:
    # Whole numbers are numbers; true and false are none.
    return type(value) is kind or (kind is float and type(value) is int)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a character
        return False
    return True


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _shown(value: Any) -> str:
    word = _WORDS.get(type(value), type(value).__name__)
    return f"{word} ({str(value)[:40]!r})"
