"""The settings of a study, read from TOML and checked."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, get_type_hints

from proxyprox._util.validation import flag, fraction, message, nonnegative, one_of, positive, whole
from proxyprox.problems.families import FAMILIES
from proxyprox.stepsizes import as_step_size
from proxyprox_app.study.tables import KINDS

WITHOUT_PROXY = ("sgd", "momentum", "adam")
METHODS = ("proxyprox", *WITHOUT_PROXY, "auxmom", "auxmvr", "dane")
# Methods whose step size is that of their inner gradient descent.
INNER_DESCENT = ("auxmom", "auxmvr")

# Inner solvers, and the classes they are.
SOLVERS = {
    "auto": None,
    "newton": "Newton",
    "quasi-newton": "QuasiNewton",
    "newton-cg": "NewtonCG",
    "lbfgs": "LBFGS",
    "gradient-descent": "GradientDescent",
    "nesterov": "Nesterov",
    "proximal-gradient": "ProximalGradient",
}

# The keys of [proxy] that go with each kind.
_PROXY_KEYS: dict[str, set[str]] = {
    "label-free": {"file", "weight", "format"},
    "labelled": {"file", "label", "weight", "format"},
    "subsample": {"fraction", "rows"},
    "none": set(),
}


class ConfigError(ValueError):
    """A configuration cannot be used; the message names the section, the key and the remedy."""


# Returns a value of the file, checked, given where it stands.
Rule = Callable[[str, Any], Any]


def _key(rule: Rule, default: Any = MISSING) -> Any:
    """Return a field of a section: the rule its value must obey, and its default."""
    return field(default=default, metadata={"rule": rule})


def _one_of(*known: str) -> Rule:
    return lambda where, value: one_of(where, value, known)


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(message(where, value, "text in quotes"))
    return value


def _list_of(rule: Rule) -> Rule:
    """Return the rule for a list, or for one value in its place."""
    return lambda where, value: tuple(
        rule(where, item) for item in (value if isinstance(value, list) else [value])
    )


def _batch_size(where: str, value: Any) -> int | None:
    return None if value == "all" else whole(where, value, remedy='Write "all" for every row.')


def _step_sizes(where: str, value: Any) -> tuple[Any, ...]:
    with contextlib.suppress(ValueError, TypeError):
        if as_step_size(value).measures:
            return (value,)
    remedy = 'Leave it out to have nine tried, or write "auto", alone, to have it measured.'
    given = value if isinstance(value, list) and value else [value]
    return tuple(positive(where, eta, remedy) for eta in given)


def _refuse_keys(section: Any, unused: Iterable[str], name: str, choice: str) -> None:
    """Refuse keys that were given but have no effect."""
    for key in unused:
        if getattr(section, key) is not None:
            raise ConfigError(f"[{name}] {key} has no effect on {choice}: leave it out.")


_format = _one_of("csv", "parquet", "excel", "svmlight", "npz")


def _kinds(where: str, value: Any) -> tuple[tuple[str, str], ...]:
    """Return what columns shall be, as pairs: settings are compared and kept as keys."""
    if not isinstance(value, dict):
        raise ConfigError(message(where, value, 'a table such as {zip = "category"}'))
    return tuple((name, one_of(f"{where}.{name}", kind, KINDS)) for name, kind in value.items())


@dataclass(frozen=True)
class Model:
    """``[model]``: what is fitted. Strengths apply to the columns as scaled."""

    family: str = _key(_one_of(*FAMILIES))
    l2: float = _key(nonnegative, 1e-3)
    l1: float = _key(nonnegative, 0.0)
    intercept: bool = _key(flag, True)
    standardize: bool = _key(flag, True)
    classes: tuple[Any, ...] | None = _key(_list_of(lambda where, value: value), None)

    def __post_init__(self) -> None:
        """Check that the classes suit the family."""
        if self.classes is not None and not FAMILIES[self.family].classifier:
            raise ConfigError(f"[model] classes does not apply to family {self.family!r}.")


@dataclass(frozen=True)
class Target:
    """``[target]``: the rows whose labels are expensive."""

    file: str = _key(_text)
    label: str | None = _key(_text, None)
    features: tuple[str, ...] | None = _key(_list_of(_text), None)
    weight: str | None = _key(_text, None)
    format: str | None = _key(_format, None)
    columns: tuple[tuple[str, str], ...] | None = _key(_kinds, None)
    encoding: str | None = _key(_text, None)
    separator: str | None = _key(_text, None)
    sheet: str | None = _key(_text, None)


@dataclass(frozen=True)
class ProxyRows:
    """``[proxy]``: the rows that are cheap."""

    kind: str = _key(_one_of(*_PROXY_KEYS), "label-free")
    file: str | None = _key(_text, None)
    label: str | None = _key(_text, None)
    weight: str | None = _key(_text, None)
    format: str | None = _key(_format, None)
    fraction: float | None = _key(fraction, None)
    rows: int | None = _key(whole, None)

    def __post_init__(self) -> None:
        """Check that each key goes with the kind."""
        unused = {"file", "label", "weight", "format", "fraction", "rows"} - _PROXY_KEYS[self.kind]
        _refuse_keys(self, sorted(unused), "proxy", f"kind = {self.kind!r}")
        if self.file is None and (self.kind == "labelled" or self.weight or self.format):
            raise ConfigError("[proxy] file is missing: labelled rows, weight and format need it.")
        if self.kind == "subsample" and (self.fraction is None) == (self.rows is None):
            raise ConfigError('[proxy] kind = "subsample" needs one of fraction and rows.')


@dataclass(frozen=True)
class MethodSettings:
    """``[method]``: how it is minimised."""

    name: str = _key(_one_of(*METHODS), "proxyprox")
    eta: tuple[float, ...] | tuple[str] | None = _key(_step_sizes, None)
    correction: str | None = _key(_one_of("plain", "ema", "mean", "storm"), None)
    a: float | None = _key(fraction, None)
    batch_size: int | None = _key(_batch_size, 64)
    averaging: str = _key(_one_of("last", "uniform", "geometric"), "last")
    inner: str | None = _key(_one_of(*SOLVERS), None)
    inner_steps: int | None = _key(whole, None)
    inner_tolerance: float | None = _key(positive, None)

    def __post_init__(self) -> None:
        """Check that each key goes with the method."""
        no_solver = self.name in (*WITHOUT_PROXY, *INNER_DESCENT)
        unused = {
            "correction": self.name != "proxyprox",
            "a": self.name not in INNER_DESCENT and self.correction not in ("ema", "storm"),
            "inner": no_solver,
            "inner_steps": self.name in WITHOUT_PROXY,
            "inner_tolerance": no_solver,
        }
        kind = f" with correction = {self.correction!r}" if self.correction else ""
        _refuse_keys(self, (key for key in unused if unused[key]), "method", self.name + kind)
        if self.name == "adam" and self.measures_step_size:
            raise ConfigError('[method] eta of adam must be one or more numbers, got "auto".')

    @property
    def measures_step_size(self) -> bool:
        """Whether the step size is measured on the way."""
        return self.eta is not None and as_step_size(self.eta[0]).measures


@dataclass(frozen=True)
class RunSettings:
    """``[run]``: how much, how often, and against what."""

    target_gradients: int = _key(whole, 300)
    seconds: float | None = _key(positive, None)
    seeds: int = _key(whole, 3)
    seed: int = _key(lambda where, value: whole(where, value, 0), 0)
    tuning_gradients: int | None = _key(whole, None)
    compare: tuple[str, ...] = _key(_list_of(_one_of(*METHODS, "erm")), ("sgd", "erm"))
    weights: str = _key(_one_of("method", "lowest"), "method")

    @property
    def tuning_budget(self) -> int:
        """Target gradients of a run that tries a step size: by default a quarter."""
        return self.tuning_gradients or max(1, self.target_gradients // 4)


@dataclass(frozen=True)
class StudyConfig:
    """All settings, and what the data files held when they were read."""

    model: Model
    target: Target
    proxy: ProxyRows
    method: MethodSettings
    run: RunSettings
    data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what concerns two sections."""
        names = (self.method.name, *(rival for rival in self.run.compare if rival != "erm"))
        with_proxy = ", ".join(name for name in names if name not in WITHOUT_PROXY)
        if self.proxy.kind == "none" and with_proxy:
            allowed = f"{', '.join(WITHOUT_PROXY)} and erm"
            raise ConfigError(f'[proxy] kind = "none" goes with {allowed}, not {with_proxy}.')
        if self.model.l1 and not set(names).isdisjoint(INNER_DESCENT):
            raise ConfigError("[model] l1 cannot be used with auxmom or auxmvr: use proxyprox.")
        if self.method.averaging == "geometric" and not self.model.l2:
            raise ConfigError('[method] averaging = "geometric" needs l2 > 0: use "uniform".')


SECTIONS = {name: kind for name, kind in get_type_hints(StudyConfig).items() if name != "data"}


def example() -> str:
    """Return a commented configuration that works as it stands."""
    return (files("proxyprox_app.study") / "example.toml").read_text(encoding="utf-8")


def read_config(path: Path) -> StudyConfig:
    """Read and check a configuration file.

    Raises
    ------
    ConfigError
        For a file that is not there or not TOML, an unknown or missing key, or a wrong value.
    """
    try:
        return parse_config(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path.name}: not TOML ({error}); --example shows some.") from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path.name}: {error}") from error


def parse_config(tree: Mapping[str, Any]) -> StudyConfig:
    """Build the settings from nested mappings, as TOML gives them."""
    for name in tree:
        one_of("a section", name, SECTIONS)
    return StudyConfig(**{name: _section(name, kind, tree) for name, kind in SECTIONS.items()})


def _section(name: str, kind: type, tree: Mapping[str, Any]) -> Any:
    given = tree.get(name, {})
    if not isinstance(given, dict):
        raise ConfigError(f"{name} must be a section, [{name}], got {given!r}.")
    keys = {key.name: key for key in fields(kind)}
    for key in given:
        one_of(f"a key of [{name}]", key, keys)
    values = {}
    for key, known in keys.items():
        if given.get(key) is not None:
            values[key] = known.metadata["rule"](f"[{name}] {key}", given[key])
        elif known.default is MISSING:
            raise ConfigError(f"[{name}] {key} is missing: proxyprox run --example shows it.")
    return kind(**values)
