"""The settings of a run on one's own data, read from TOML and checked."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from proxyprox._util.validation import fraction, nonnegative, positive, whole
from proxyprox.problems.families import FAMILIES

KINDS = ("label-free", "labelled", "subsample", "none")
_MEANT = {"unlabelled": "label-free", "unlabeled": "label-free"}
METHODS = ("proxyprox", "sgd", "auxmom", "auxmvr", "dane")
CORRECTIONS = ("plain", "ema", "mean", "storm")
AVERAGES = ("last", "uniform", "geometric")
SOLVERS = (
    "auto",
    "newton",
    "quasi-newton",
    "newton-cg",
    "lbfgs",
    "gradient-descent",
    "nesterov",
    "proximal-gradient",
)
FORMATS = ("csv", "parquet", "svmlight", "npz")
RIVALS = (*METHODS, "erm")
WEIGHTS = ("method", "lowest")
AUXILIARY = ("auxmom", "auxmvr")
"""Methods whose step size is that of their inner gradient descent."""

_NO_ETA = 'Leave it out to have nine tried, or write "auto", alone, to have it measured on the way.'


class ConfigError(ValueError):
    """A configuration file cannot be used; the message names the section, the key and the cure."""


@dataclass(frozen=True)
class Model:
    """``[model]``: what is fitted. Strengths apply to the columns as scaled."""

    family: str
    l2: float = 1e-3
    l1: float = 0.0
    intercept: bool = True
    standardize: bool = True
    classes: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        _one_of("[model] family", self.family, tuple(FAMILIES))
        for name in ("l2", "l1"):
            nonnegative(f"[model] {name}", getattr(self, name))
        for name in ("intercept", "standardize"):
            _flag(f"[model] {name}", getattr(self, name))
        if self.classes is not None:
            if not FAMILIES[self.family].classifier:
                raise ConfigError(f"[model] classes does not apply to family {self.family!r}.")
            if len(self.classes) < 2 or len(set(map(repr, self.classes))) < len(self.classes):
                raise ConfigError(must("[model] classes", self.classes, "two labels or more"))
            if self.family == "logistic" and len(self.classes) > 2:
                raise ConfigError(
                    must("[model] classes", self.classes, "two labels, negative then positive")
                    + ' Use family = "softmax" for more.'
                )


@dataclass(frozen=True)
class Target:
    """``[target]``: the rows whose labels are dear."""

    file: str
    label: str | None = None
    features: tuple[str, ...] | None = None
    weight: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        _texts("target", self, ("file", "label", "weight"))
        if self.features is not None and not all(isinstance(name, str) for name in self.features):
            raise ConfigError(must("[target] features", self.features, "a list of column names"))
        if self.format is not None:
            _one_of("[target] format", self.format, FORMATS)


@dataclass(frozen=True)
class ProxyRows:
    """``[proxy]``: the rows that are cheap."""

    kind: str = "label-free"
    file: str | None = None
    label: str | None = None
    weight: str | None = None
    format: str | None = None
    fraction: float | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        """Check every value, and that each goes with the kind."""
        _one_of("[proxy] kind", self.kind, KINDS)
        _texts("proxy", self, ("file", "label", "weight"))
        if self.format is not None:
            _one_of("[proxy] format", self.format, FORMATS)
        if self.fraction is not None:
            fraction("[proxy] fraction", self.fraction)
        if self.rows is not None:
            whole("[proxy] rows", self.rows)
        used = {
            "label-free": ("file", "weight", "format"),
            "labelled": ("file", "label", "weight", "format"),
            "subsample": ("fraction", "rows"),
            "none": (),
        }[self.kind]
        for name in ("file", "label", "weight", "format", "fraction", "rows"):
            if getattr(self, name) is not None and name not in used:
                keys = ", ".join(used) or "no other key"
                raise ConfigError(
                    f"[proxy] {name} does not apply to kind = {self.kind!r}, which takes {keys}."
                )
        if self.kind == "labelled" and self.file is None:
            raise ConfigError('[proxy] file is missing: kind = "labelled" needs the old rows.')
        if self.kind == "subsample" and (self.fraction is None) == (self.rows is None):
            raise ConfigError('[proxy] kind = "subsample" needs one of fraction and rows.')
        if self.file is None and (self.weight or self.format):
            raise ConfigError("[proxy] weight and format go with a file of its own: add file.")


@dataclass(frozen=True)
class Choice:
    """``[method]``: how it is minimised."""

    name: str = "proxyprox"
    eta: tuple[float, ...] | Literal["auto"] | None = None
    correction: str | None = None
    a: float | None = None
    batch_size: int | None = 64
    averaging: str = "last"
    inner: str | None = None
    inner_steps: int | None = None
    inner_tolerance: float | None = None

    def __post_init__(self) -> None:
        """Check every value, and that each goes with the method."""
        _one_of("[method] name", self.name, METHODS)
        for eta in () if self.eta in (None, "auto") else self.eta:
            positive("[method] eta", eta, _NO_ETA)
        if self.eta == ():
            raise ConfigError(f"[method] eta is empty. {_NO_ETA}")
        if self.correction is not None:
            _one_of("[method] correction", self.correction, CORRECTIONS)
        if self.a is not None:
            fraction("[method] a", self.a)
        if self.batch_size is not None:
            whole("[method] batch_size", self.batch_size, remedy='Write "all" for every row.')
        _one_of("[method] averaging", self.averaging, AVERAGES)
        if self.inner is not None:
            _one_of("[method] inner", self.inner, SOLVERS)
        if self.inner_steps is not None:
            whole("[method] inner_steps", self.inner_steps)
        if self.inner_tolerance is not None:
            positive("[method] inner_tolerance", self.inner_tolerance)
        weighted = self.name in AUXILIARY or self.correction in ("ema", "storm")
        unused = {
            "correction": self.name != "proxyprox",
            "a": not weighted,
            "inner": self.name == "sgd" or self.name in AUXILIARY,
            "inner_steps": self.name == "sgd",
            "inner_tolerance": self.name == "sgd" or self.name in AUXILIARY,
        }
        for name, idle in unused.items():
            if idle and getattr(self, name) is not None:
                with_it = f" with correction = {self.correction!r}" if self.correction else ""
                raise ConfigError(
                    f"[method] {name} has no effect on {self.name}{with_it}: leave it out."
                )


@dataclass(frozen=True)
class Limits:
    """``[run]``: how much, how often, and against what."""

    target_gradients: int = 300
    seconds: float | None = None
    seeds: int = 3
    seed: int = 0
    tuning_gradients: int | None = None
    compare: tuple[str, ...] = ("sgd", "erm")
    weights: str = "method"

    def __post_init__(self) -> None:
        """Check every value."""
        for name in ("target_gradients", "seeds"):
            whole(f"[run] {name}", getattr(self, name))
        whole("[run] seed", self.seed, 0)
        if self.seconds is not None:
            positive("[run] seconds", self.seconds)
        if self.tuning_gradients is not None:
            whole("[run] tuning_gradients", self.tuning_gradients)
        for rival in self.compare:
            _one_of("[run] compare", rival, RIVALS)
        _one_of("[run] weights", self.weights, WEIGHTS)

    @property
    def tuning_budget(self) -> int:
        """Target gradients of a run that tries a step size: by default a quarter."""
        return self.tuning_gradients or max(1, self.target_gradients // 4)


@dataclass(frozen=True)
class Config:
    """All settings, and what the data files held when they were read."""

    model: Model
    target: Target
    proxy: ProxyRows = field(default_factory=ProxyRows)
    method: Choice = field(default_factory=Choice)
    run: Limits = field(default_factory=Limits)
    data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what concerns two sections."""
        names = (self.method.name, *(rival for rival in self.run.compare if rival != "erm"))
        leaning = [name for name in names if name != "sgd"]
        if self.proxy.kind == "none" and leaning:
            raise ConfigError(
                f'[proxy] kind = "none" leaves {leaning[0]} nothing to lean on: choose a kind of '
                'proxy, or [method] name = "sgd" and [run] compare = ["erm"].'
            )
        if self.model.l1 and any(name in AUXILIARY for name in names):
            raise ConfigError(
                "[model] l1 cannot be used with auxmom or auxmvr, whose inner gradient steps do "
                "not know it: use proxyprox, or l1 = 0."
            )
        if self.model.l1 and self.method.inner not in (None, "auto", "proximal-gradient"):
            raise ConfigError(
                f"[method] inner = {self.method.inner!r} cannot handle [model] l1: use "
                '"proximal-gradient", or leave inner out.'
            )
        stepping = self.method.inner == "gradient-descent" or any(n in AUXILIARY for n in names)
        family = self.model.family
        unbounded = math.isinf(FAMILIES[family].max_curvature)
        if unbounded and self.method.eta == "auto" and stepping:
            raise ConfigError(
                '[method] eta = "auto" leaves the inner gradient steps of auxmom, auxmvr and '
                f'inner = "gradient-descent" to the smoothness, which {family} does not have: '
                "leave eta out, or use other methods."
            )
        if self.method.averaging == "geometric" and not self.model.l2:
            raise ConfigError(
                '[method] averaging = "geometric" needs [model] l2 > 0: use "uniform".'
            )


def must(where: str, got: Any, allowed: str) -> str:
    """Word the error for a value that is not allowed."""
    shown = list(got) if isinstance(got, tuple) else got
    return f"{where} must be {allowed}, got {shown!r}."


def _one_of(where: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        near = difflib.get_close_matches(_MEANT.get(str(value), str(value)), allowed, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigError(must(where, value, "one of " + ", ".join(allowed)) + meant)


def _flag(where: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(must(where, value, "true or false"))


def _texts(section: str, settings: Any, names: Iterable[str]) -> None:
    for name in names:
        value = getattr(settings, name)
        if value is not None and (not isinstance(value, str) or not value):
            raise ConfigError(must(f"[{section}] {name}", value, "text in quotes"))


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


EXAMPLE = f"""\
# A run of proxyprox on one's own data:  proxyprox run FILE.toml
# As it stands it runs on a table that ships with scikit-learn; to use your own, change the file
# names. Lines that begin with # are off. Paths are relative to this file.

[model]
family = "logistic"       # {" | ".join(FAMILIES)}
l2 = 1e-3                 # strength of l2/2 * |w|^2; the intercept is never penalised
# l1 = 1e-3               # strength of the L1 norm; with l2 an elastic net
intercept = true
standardize = true        # by the target rows' mean and scale; the weights apply to raw columns
# classes = ["no", "yes"] # negative, then positive; default: the labels that occur, sorted

[target]                  # the rows whose labels are dear
file = "sklearn:breast_cancer"
# file = "mine.csv"       # .csv .tsv .parquet .svm .npz; CSV and svmlight also .gz .bz2 .xz
# label = "bought"        # label column (svmlight: leave out; npz: array, default y)
# features = ["age", "income"]   # default: every column but label and weight
# weight = "count"        # column of row weights
# format = "csv"          # where the ending does not tell

[proxy]                   # the rows that are cheap
kind = "label-free"       # label-free | labelled | subsample | none
# label-free: the target's inputs, or a file of unlabelled rows with the same columns
# file = "unlabelled.csv"
# labelled: older or synthetic rows (file, label)
# subsample: part of the target's rows (fraction = 0.1 or rows = 500)

[method]
name = "proxyprox"        # proxyprox | sgd | auxmom | auxmvr | dane
correction = "mean"       # proxyprox: plain | ema | mean | storm
# a = 0.1                 # weight of the newest difference (ema, storm, auxmom, auxmvr)
# eta = "auto"            # measured on the way, here and by the methods compared: no run is spent
#                         # on tuning, some 10 % of a run's own target gradients are
# eta = 10.0              # or a step size, or a list to choose from; left out: nine are tried
batch_size = 64           # rows of a target gradient, drawn with replacement; "all" for every row
averaging = "last"        # last (with eta = "auto" an average of its own) | uniform | geometric
# inner = "auto"          # auto | newton | quasi-newton | newton-cg | lbfgs |
#                         # gradient-descent | nesterov | proximal-gradient
# inner_steps = 20        # stop an inner solve after so many steps ...
# inner_tolerance = 1e-8  # ... or at this gradient norm

[run]
target_gradients = 200    # budget of a run
# tuning_gradients = 50   # budget of a run that tries a step size; default: a quarter
# seconds = 60.0          # time limit of a run
seeds = 3                 # final runs; the weights are those of the first
weights = "method"        # whose are written: method (that of [method]) | lowest (of all compared)
seed = 0
compare = ["sgd", "erm"]  # other methods, and erm: fit the rows seen so far, without a proxy
"""
"""Text of the example."""
