"""One's own tables as a problem: settings in TOML, a target, a proxy, and what weights mean."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import sklearn.datasets
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

import proxyprox as pp
from proxyprox.problems import FAMILIES
from proxyprox_app.columns import Columns, plain_object, yes_or_no
from proxyprox_app.tables import (
    DataError,
    Finding,
    Kind,
    as_text,
    load_cells,
    no_column,
    to_numbers,
)

# -- settings -------------------------------------------------------------------------------------

Family = Literal["linear", "logistic", "softmax", "poisson", "gamma"]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]


class ConfigError(ValueError):
    """A configuration cannot be used; the message names the section, the key and the remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Model(_Section):
    """``[model]``: what is fitted. The strength applies to columns of unit variance."""

    family: Family
    l2: Annotated[float, Field(ge=0)] = 1e-3
    intercept: bool = True


class Target(_Section):
    """``[target]``: the rows whose labels are expensive."""

    file: Text
    label: Text | None = None
    features: list[Text] | None = None
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
    return (files("proxyprox_app") / "example.toml").read_text(encoding="utf-8")


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
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{path.name}: {_sentence(first, kind)}") from None


def _sentence(found: Any, kind: type[StudyConfig]) -> str:
    """Return the first error as the house writes them: place, what is allowed, what was given."""
    place, (section, *keys) = found["loc"], found["loc"]
    name = f"[{section}] {'.'.join(map(str, keys))}".strip()
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


# -- the problem ----------------------------------------------------------------------------------

# How the name of a set that ships with scikit-learn begins, in place of a file.
BUILT_IN = "sklearn:"
_LOADERS = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@dataclass(frozen=True, eq=False)
class Study:
    """The problem that a configuration describes.

    Attributes
    ----------
    target, other : GLM
        The loss on the target's rows and, if the proxy has rows of its own, on those.
    columns, findings : Columns and list of Finding
        What the table's columns became, and what was odd about them.
    classes : tuple
        The classes of the labels.
    """

    config: StudyConfig
    target: pp.GLM
    other: pp.GLM | None
    columns: Columns
    findings: Sequence[Finding]
    classes: tuple[str, ...]

    def problem(self, seed: int = 0) -> pp.Problem:
        """Return target and proxy of a run."""
        run, part = self.config.run, self.config.proxy
        proxy: Any = self.other or self.target.label_free()
        if part.fraction is not None:
            rows = max(1, round(part.fraction * self.target.design.rows))
            proxy = self.target.subsample(rows, rng=np.random.default_rng([run.seed, seed, 1]))
        size = None if run.batch_size == "all" else run.batch_size
        return pp.Problem(self.target.with_batch_size(size), proxy)


def read_study(config: StudyConfig, base: Path) -> Study:
    """Build the problem that a configuration describes from its files.

    Raises
    ------
    DataError
        For a file that cannot be used, or labels that do not suit the family.
    """
    import pandas as pd

    model, target, part = config.model, config.target, config.proxy
    frame, findings, decimal = _read(target.file, config, base)
    label, old = str(target.label), str(part.label or target.label)
    other = _read(part.file, config, base)[0] if part.file else None
    used = target.features or [name for name in frame if name not in {label, part.label}]
    needed = [(target.file, frame, [*used, label])]
    if other is not None:
        needed.append((str(part.file), other, [*used, *[old] * (part.kind == "labelled")]))
    for file, each, names in needed:
        if lacking := [name for name in names if name not in each]:
            raise DataError(f"{file}: {no_column(lacking[0], each)}")
    both = pd.concat([each[used] for _, each, _ in needed], ignore_index=True)
    try:
        columns = Columns(target.columns, decimal).fit(both)
    except DataError as error:
        raise DataError(f"{target.file}: {error}") from error
    y = _labels(frame[label], model.family, label)
    known = np.array([value is not None for value in y])
    if not known.any():
        raise DataError(f"{target.file}: no row has a label in {label!r}.")
    kind: Any = FAMILIES[model.family]
    classes = tuple(sorted(set(y[known]))) if kind.classifier else ()
    if kind.classifier and (len(classes) < 2 or (model.family == "logistic" and len(classes) > 2)):
        raise DataError(
            f"{target.file}: the labels are of {len(classes)} classes, {', '.join(classes[:5])}; "
            'logistic takes two: use family = "softmax" for three or more.'
        )

    def loss(rows: Any, y: Any) -> pp.GLM:
        family = kind(classes) if kind.classifier else kind()
        options: dict[str, Any] = {"l2": model.l2, "intercept": model.intercept}
        y = None if y is None else np.array(y.tolist())
        try:
            return pp.GLM(columns.transform(rows), y, family, **options)
        except (ValueError, TypeError) as error:
            raise DataError(f"label: {error}") from error

    whole, cheap = loss(frame[known], y[known]), None
    findings = [*findings, *columns.findings]
    if other is not None and part.kind == "labelled":
        then = _labels(other[old], model.family, label)
        there = np.array([value is not None for value in then])
        cheap = loss(other[there], then[there])
    elif other is not None:
        cheap = loss(other, None)
    elif not known.all():
        ours = part.kind == "label-free"
        cheap = loss(frame, None) if ours else None
        what = f"{int((~known).sum()):,} rows without a label are "
        findings.append(Finding(label, what + ("the proxy's." if ours else "left out.")))
    return Study(config, whole, cheap, columns, findings, classes)


def _read(file: str, config: StudyConfig, base: Path) -> Any:
    """Return a table, what was odd about it, and its decimal mark."""
    target = config.target
    if not file.startswith(BUILT_IN):
        if target.label is None:
            raise DataError(f"{file}: name the column of the label: [target] label.")
        path = base / Path(file).expanduser()
        return load_cells(path, target.encoding, target.separator, target.sheet).parse()
    name = file.removeprefix(BUILT_IN)
    if name not in _LOADERS:
        raise DataError(f"{file}: {BUILT_IN} is followed by one of {', '.join(_LOADERS)}.")
    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    classes = np.asarray(getattr(bunch, "target_names", [0]))
    y = classes[bunch.target] if classes.dtype.kind == "U" else bunch.target
    return bunch.data.assign(label=y), [], ""


def _labels(cells: Any, family: str, name: str) -> Any:
    """Return labels as numbers or text in an array of objects, None if there is none."""
    text = as_text(cells)
    if FAMILIES[family].classifier:
        return yes_or_no(text).astype(object).where(text.notna(), None).to_numpy()
    values = to_numbers(plain_object(cells))
    if len(bad := text[values.isna()].dropna()):
        raise DataError(f"label: {bad.iloc[0]!r} in {name!r} is not a number.")
    return values.astype(object).where(values.notna(), None).to_numpy()
