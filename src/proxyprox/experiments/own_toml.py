"""From a TOML file to the settings of a run on one's own data."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from proxyprox.experiments.own_config import (
    FAMILIES,
    Choice,
    Config,
    ConfigError,
    Limits,
    Model,
    ProxyRows,
    Target,
    must,
)

SECTIONS: dict[str, type] = {
    "model": Model,
    "target": Target,
    "proxy": ProxyRows,
    "method": Choice,
    "run": Limits,
}


def read_config(path: Path) -> Config:
    """Read and check a configuration file.

    Parameters
    ----------
    path : Path
        The TOML file.

    Raises
    ------
    ConfigError
        For a file that is not there or not TOML, an unknown or missing key, or a wrong value.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"the configuration {str(path)!r} cannot be read: {reason}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name}: not UTF-8 text (byte {error.start}).") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path.name}: not TOML: {str(error).rstrip('.')}. A configuration is wanted, not the "
            "data itself: proxyprox run --example shows one."
        ) from error
    try:
        return parse_config(tree)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path.name}: {error}") from error


def parse_config(tree: Mapping[str, Any]) -> Config:
    """Build the settings from nested mappings, as TOML gives them."""
    for name in tree:
        if name not in SECTIONS:
            raise ConfigError(f"there is no section [{name}].{_hint(name, SECTIONS, '[{}]')}")
    return Config(**{name: _section(name, kind, tree) for name, kind in SECTIONS.items()})


def _section(name: str, kind: type, tree: Mapping[str, Any]) -> Any:
    given = tree.get(name, {})
    if not isinstance(given, dict):
        raise ConfigError(f"{name} must be a section, [{name}], got {given!r}.")
    keys = {f.name: f for f in fields(kind)}
    for key in given:
        if key not in keys:
            raise ConfigError(f"[{name}] has no key {key!r}.{_hint(key, keys)}")
    required = {"family": FAMILIES, "file": ("a data file",)}
    for key, allowed in required.items():
        if key in keys and kind is not ProxyRows and key not in given:
            raise ConfigError(f"[{name}] {key} is missing: give {' or '.join(allowed)}.")
    return kind(**{key: _value(name, key, value) for key, value in given.items()})


def _value(section: str, key: str, value: Any) -> Any:
    where = f"[{section}] {key}"
    if key == "eta" and value == "auto":
        return value
    if key == "eta" and not isinstance(value, list):
        value = [value]
    if key == "batch_size" and value == "all":
        return None
    if key in ("classes", "features", "eta", "compare"):
        if not isinstance(value, list):
            raise ConfigError(must(where, value, "a list"))
        return tuple(value)
    return value


def _hint(given: str, known: Iterable[str], form: str = "{!r}") -> str:
    names = list(known)
    near = difflib.get_close_matches(given, names, n=1)
    meant = f" Did you mean {form.format(near[0])}?" if near else ""
    return f"{meant} There are: {', '.join(form.format(n).strip(chr(39)) for n in names)}."
