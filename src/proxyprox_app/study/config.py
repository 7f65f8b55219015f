"""The settings of an audit, read from TOML and checked."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from proxyprox_app.study.tables import KINDS

Family = Literal["linear", "logistic", "softmax", "poisson", "gamma"]
Kind = Literal[*KINDS]  # type: ignore[valid-type]
Text = Annotated[str, Field(min_length=1)]
Strength = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class ConfigError(ValueError):
    """A configuration cannot be used; the message names the section, the key and the remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Model(_Section):
    """``[model]``: what is fitted. Strengths apply to the columns as scaled."""

    family: Family
    l2: Strength = 1e-3
    l1: Strength = 0.0
    intercept: bool = True
    standardize: bool = True


class Target(_Section):
    """``[target]``: the rows whose labels are expensive."""

    file: Text
    label: Text | None = None
    features: list[Text] | None = None
    weight: Text | None = None
    columns: dict[str, Kind] = {}
    encoding: Text | None = None
    separator: Text | None = None
    sheet: Text | None = None


class ProxyRows(_Section):
    """``[proxy]``: the rows that are cheap."""

    kind: Literal["label-free", "labelled", "subsample"] = "label-free"
    file: Text | None = None
    label: Text | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _keys_go_with_the_kind(self) -> ProxyRows:
        """Check that each key goes with the kind."""
        if self.kind == "labelled" and self.file is None:
            raise ValueError('[proxy] file is missing: kind = "labelled" needs it.')
        if (self.kind == "subsample") != (self.fraction is not None):
            raise ValueError('[proxy] fraction goes with kind = "subsample", and that needs it.')
        if self.label is not None and self.kind != "labelled":
            raise ValueError(f"[proxy] label has no effect on kind = {self.kind!r}: leave it out.")
        if self.kind == "subsample" and self.file is not None:
            raise ValueError('[proxy] file has no effect on kind = "subsample": leave it out.')
        return self


class RunSettings(_Section):
    """``[run]``: how rows are drawn."""

    batch_size: Count | Literal["all"] = 64
    seed: Annotated[int, Field(ge=0)] = 0


class StudyConfig(_Section):
    """All settings."""

    model: Model
    target: Target
    proxy: ProxyRows = ProxyRows()
    run: RunSettings = RunSettings()


def example() -> str:
    """Return a commented configuration that works as it stands."""
    return (files("proxyprox_app.study") / "example.toml").read_text(encoding="utf-8")


def read_config(path: Path, kind: Any = StudyConfig) -> Any:
    """Read and check a configuration file.

    Raises
    ------
    ConfigError
        For a file that is not there or not TOML, an unknown or missing key, or a wrong value.
    """
    if path.suffix.lower() != ".toml":
        text = f"{path.name} is no configuration, which ends in .toml: proxyprox audit --example"
        raise ConfigError(f"{text} prints one. For a table: proxyprox run {path.name} --target …")
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path.name}: not TOML ({error}); --example shows some.") from error
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(
            f"{path.name}: {_sentence(error.errors(include_url=False)[0], kind)}"
        ) from None


def _sentence(found: Any, kind: type[StudyConfig]) -> str:
    """Return the first error as the house writes them: place, what is allowed, what was given."""
    place, (section, *keys) = found["loc"], found["loc"]
    name = (
        f"[{section}] {'.'.join(str(key) for key in keys if isinstance(key, (str, int)))}".strip()
    )
    match found["type"]:
        case "value_error":
            return str(found["ctx"]["error"])
        case "missing":
            return f"{name} is missing: proxyprox audit --example shows it."
        case "extra_forbidden":
            known = kind if len(place) == 1 else kind.model_fields[section].annotation
            what, names = "key" if keys else "section", ", ".join(known.model_fields)  # type: ignore[union-attr]
            return f"{name} is no known {what}; there are {names}."
    rule = str(found["msg"]).replace("Input should be", "must be")
    return f"{name} {rule}, got {found['input']!r}. proxyprox audit --example shows it."
