"""The settings of a study, read from TOML and checked."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from proxyprox._util.validation import fraction, nonnegative, positive, whole
from proxyprox.problems.families import FAMILIES

METHODS = ("proxyprox", "sgd", "auxmom", "auxmvr", "dane")
INNER_DESCENT = ("auxmom", "auxmvr")
"""Methods whose step size is that of their inner gradient descent."""

AUTO = "auto"
SOLVERS = {
    AUTO: None,
    "newton": "Newton",
    "quasi-newton": "QuasiNewton",
    "newton-cg": "NewtonCG",
    "lbfgs": "LBFGS",
    "gradient-descent": "GradientDescent",
    "nesterov": "Nesterov",
    "proximal-gradient": "ProximalGradient",
}
"""Inner solvers, and the classes they are."""

_NO_ETA = 'Leave it out to have nine tried, or write "auto", alone, to have it measured on the way.'
_PROXY_KEYS: dict[str, tuple[str, ...]] = {
    "label-free": ("file", "weight", "format"),
    "labelled": ("file", "label", "weight", "format"),
    "subsample": ("fraction", "rows"),
    "none": (),
}
"""The keys of ``[proxy]`` that go with each kind."""


class ConfigError(ValueError):
    """A configuration cannot be used; the message names the section, the key and the remedy."""


Rule = Callable[[str, Any], Any]


def _must(where: str, got: Any, allowed: str, remedy: str = "") -> ConfigError:
    shown = list(got) if isinstance(got, tuple) else got
    return ConfigError(f"{where} must be {allowed}, got {shown!r}.{remedy}")


def _hint(given: Any, known: Iterable[str], form: str = "{!r}") -> str:
    near = difflib.get_close_matches(str(given).replace("unlabel", "label-fre"), known, n=1)
    return f" Did you mean {form.format(near[0])}?" if near else ""


def _each(is_right: Callable[[Any], bool], allowed: str, known: Sequence[str] = ()) -> Rule:
    """Return a rule for a value, or for every one of a list."""

    def check(where: str, value: Any) -> None:
        for item in value if isinstance(value, tuple) else (value,):
            if not is_right(item):
                raise _must(where, item, allowed, _hint(item, known))

    return check


def _one_of(*known: str) -> Rule:
    return _each(lambda item: item in known, "one of " + ", ".join(known), known)


def _step_sizes(where: str, value: Any) -> None:
    if value == ():
        raise ConfigError(f"{where} is empty. {_NO_ETA}")
    for eta in () if isinstance(value, str) else value:
        positive(where, eta, _NO_ETA)


def _key(rule: Rule, default: Any = MISSING) -> Any:
    """Return a field of a section: the rule its value must obey, and its default."""
    return field(default=default, metadata={"rule": rule})


def _refuse(cases: Mapping[str, Any]) -> None:
    """Raise the first message whose case applies."""
    for message, applies in cases.items():
        if applies:
            raise ConfigError(message)


_flag = _each(lambda item: isinstance(item, bool), "true or false")
_text = _each(lambda item: isinstance(item, str) and item != "", "text in quotes")
_format = _one_of("csv", "parquet", "svmlight", "npz")


class _Section:
    """A section of the file; its name is that of the class in ``SECTIONS``."""

    def __post_init__(self) -> None:
        """Check every value by its rule, then what concerns several of them."""
        name = next(name for name, kind in SECTIONS.items() if kind is type(self))
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if value is not None:
                one.metadata["rule"](f"[{name}] {one.name}", value)
        self.check()

    def check(self) -> None:
        """Check what concerns several values."""


@dataclass(frozen=True)
class Model(_Section):
    """``[model]``: what is fitted. Strengths apply to the columns as scaled."""

    family: str = _key(_one_of(*FAMILIES))
    l2: float = _key(nonnegative, 1e-3)
    l1: float = _key(nonnegative, 0.0)
    intercept: bool = _key(_flag, True)
    standardize: bool = _key(_flag, True)
    classes: tuple[Any, ...] | None = _key(lambda where, value: None, None)

    def check(self) -> None:
        """Check that the classes suit the family."""
        given = list(self.classes or (0, 1))
        few = len(given) < 2 or len(set(map(repr, given))) < len(given)
        wrong_kind = self.classes is not None and not FAMILIES[self.family].classifier
        _refuse(
            {
                f"[model] classes does not apply to family {self.family!r}.": wrong_kind,
                f"[model] classes must be two different labels or more, got {given}.": few,
                f"[model] classes must be two labels, negative then positive, got {given}. Use "
                'family = "softmax" for more.': self.family == "logistic" and len(given) > 2,
            }
        )


@dataclass(frozen=True)
class Target(_Section):
    """``[target]``: the rows whose labels are expensive."""

    file: str = _key(_text)
    label: str | None = _key(_text, None)
    features: tuple[str, ...] | None = _key(_text, None)
    weight: str | None = _key(_text, None)
    format: str | None = _key(_format, None)


@dataclass(frozen=True)
class ProxyRows(_Section):
    """``[proxy]``: the rows that are cheap."""

    kind: str = _key(_one_of(*_PROXY_KEYS), "label-free")
    file: str | None = _key(_text, None)
    label: str | None = _key(_text, None)
    weight: str | None = _key(_text, None)
    format: str | None = _key(_format, None)
    fraction: float | None = _key(fraction, None)
    rows: int | None = _key(whole, None)

    def check(self) -> None:
        """Check that each key goes with the kind."""
        used = _PROXY_KEYS[self.kind]
        keys = [one.name for one in fields(self) if one.name != "kind"]
        idle = [key for key in keys if getattr(self, key) is not None and key not in used]
        no_file, both = self.file is None, (self.fraction is None) == (self.rows is None)
        _refuse(
            {
                f"[proxy] {', '.join(idle)} does not apply to kind = {self.kind!r}, which takes "
                f"{', '.join(used) or 'no other key'}.": idle,
                '[proxy] file is missing: kind = "labelled" needs the old rows.': no_file
                and self.kind == "labelled",
                '[proxy] kind = "subsample" needs one of fraction and rows.': both
                and self.kind == "subsample",
                "[proxy] weight and format go with a file of its own: add file.": no_file
                and (self.weight or self.format),
            }
        )


@dataclass(frozen=True)
class MethodSettings(_Section):
    """``[method]``: how it is minimised."""

    name: str = _key(_one_of(*METHODS), "proxyprox")
    eta: tuple[float, ...] | Literal["auto"] | None = _key(_step_sizes, None)
    correction: str | None = _key(_one_of("plain", "ema", "mean", "storm"), None)
    a: float | None = _key(fraction, None)
    batch_size: int | None = _key(
        lambda where, value: whole(where, value, remedy='Write "all" for every row.'), 64
    )
    averaging: str = _key(_one_of("last", "uniform", "geometric"), "last")
    inner: str | None = _key(_one_of(*SOLVERS), None)
    inner_steps: int | None = _key(whole, None)
    inner_tolerance: float | None = _key(positive, None)

    def check(self) -> None:
        """Check that each key goes with the method."""
        no_solver = self.name in ("sgd", *INNER_DESCENT)
        unused = {
            "correction": self.name != "proxyprox",
            "a": self.name not in INNER_DESCENT and self.correction not in ("ema", "storm"),
            "inner": no_solver,
            "inner_steps": self.name == "sgd",
            "inner_tolerance": no_solver,
        }
        kind = f" with correction = {self.correction!r}" if self.correction else ""
        for name, idle in unused.items():
            text = f"[method] {name} has no effect on {self.name}{kind}: leave it out."
            _refuse({text: idle and getattr(self, name) is not None})


@dataclass(frozen=True)
class RunSettings(_Section):
    """``[run]``: how much, how often, and against what."""

    target_gradients: int = _key(whole, 300)
    seconds: float | None = _key(positive, None)
    seeds: int = _key(whole, 3)
    seed: int = _key(lambda where, value: whole(where, value, 0), 0)
    tuning_gradients: int | None = _key(whole, None)
    compare: tuple[str, ...] = _key(_one_of(*METHODS, "erm"), ("sgd", "erm"))
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
        family, inner = self.model.family, self.method.inner
        names = (self.method.name, *(rival for rival in self.run.compare if rival != "erm"))
        with_proxy = [name for name in names if name != "sgd"]
        descending = any(name in INNER_DESCENT for name in names)
        unbounded = math.isinf(FAMILIES[family].max_curvature)
        smooth_steps = isinstance(self.method.eta, str) and (
            descending or inner == "gradient-descent"
        )
        _refuse(
            {
                f'[proxy] kind = "none" leaves {", ".join(with_proxy)} nothing to lean on: choose '
                'a kind of proxy, or [method] name = "sgd" and [run] compare = '
                '["erm"].': self.proxy.kind == "none" and with_proxy,
                "[model] l1 cannot be used with auxmom or auxmvr, whose inner gradient steps do "
                "not know it: use proxyprox, or l1 = 0.": self.model.l1 and descending,
                '[method] eta = "auto" leaves the inner gradient steps of auxmom, auxmvr and '
                f'inner = "gradient-descent" to the smoothness, which {family} does not have: '
                "leave eta out, or use other methods.": unbounded and smooth_steps,
                '[method] averaging = "geometric" needs [model] l2 > 0: use "uniform".': (
                    self.method.averaging == "geometric" and not self.model.l2
                ),
            }
        )


SECTIONS: dict[str, type] = {
    "model": Model,
    "target": Target,
    "proxy": ProxyRows,
    "method": MethodSettings,
    "run": RunSettings,
}


def example() -> str:
    """Return a commented configuration that works as it stands."""
    return (files("proxyprox.study") / "example.toml").read_text(encoding="utf-8")


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
        reason = error.strerror or str(error)
        raise ConfigError(f"the configuration {str(path)!r} cannot be read: {reason}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path.name}: not TOML: {str(error).rstrip('.')}. A configuration is wanted, not the "
            "data itself: proxyprox run --example shows one."
        ) from error
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path.name}: {error}") from error


def parse_config(tree: Mapping[str, Any]) -> StudyConfig:
    """Build the settings from nested mappings, as TOML gives them."""
    for name in tree:
        if name not in SECTIONS:
            known = ", ".join(f"[{section}]" for section in SECTIONS)
            hint = _hint(name, SECTIONS, "[{}]")
            raise ConfigError(f"there is no section [{name}].{hint} There are: {known}.")
    return StudyConfig(**{name: _section(name, kind, tree) for name, kind in SECTIONS.items()})


def _section(name: str, kind: type, tree: Mapping[str, Any]) -> Any:
    given = tree.get(name, {})
    if not isinstance(given, dict):
        raise ConfigError(f"{name} must be a section, [{name}], got {given!r}.")
    keys = [f.name for f in fields(kind)]
    for key in given:
        if key not in keys:
            raise ConfigError(
                f"[{name}] has no key {key!r}.{_hint(key, keys)} There are: {', '.join(keys)}."
            )
    for one in fields(kind):
        if one.default is MISSING and one.name not in given:
            raise ConfigError(f"[{name}] {one.name} is missing: proxyprox run --example shows it.")
    return kind(**{key: _value(f"[{name}] {key}", key, value) for key, value in given.items()})


def _value(where: str, key: str, value: Any) -> Any:
    if key == "batch_size" and value == "all":
        return None
    if key == "eta" and not isinstance(value, list):
        return value if value == AUTO else (value,)
    if key in ("classes", "features", "eta", "compare"):
        if not isinstance(value, list):
            raise _must(where, value, "a list")
        return tuple(value)
    return value
