"""Checks of what a checkpoint holds, before any of it is put into a run."""

from __future__ import annotations

import math
from typing import Any

from array_api_compat import is_array_api_obj

from proxyprox._checks import require_finite


def described_differences(saved: Any, current: Any) -> list[str]:
    """Return in words each setting that differs, such as ``method.eta was 10.0, now 5.0``."""
    if not isinstance(saved, dict):
        return ["it holds no configuration"]
    return [text for name, now in current.items() for text in _compared(name, saved.get(name), now)]


def _compared(name: str, was: Any, now: Any) -> list[str]:
    if was == now:
        return []
    kinds = [item.get("class") if isinstance(item, dict) else None for item in (was, now)]
    if kinds[0] is not None and kinds[0] == kinds[1]:
        before, after = was["settings"], now["settings"]
        return [
            text
            for key in (*after, *(key for key in before if key not in after))
            for text in _compared(f"{name}.{key}", before.get(key), after.get(key))
        ]
    if _functions_of_one_name(was, now):
        # What either side does not know is not compared.
        known = [item.get("python") for item in (was, now)]
        if None in known or known[0] != known[1]:
            return []
        return [f"{name} was another function than now, though both are {_shown(now)}"]
    return [f"{name} was {_shown(was)}, now {_shown(now)}"]


def _functions_of_one_name(was: Any, now: Any) -> bool:
    both = isinstance(was, dict) and isinstance(now, dict) and "function" in now
    return both and was.get("function") == now["function"]


def _shown(item: Any) -> str:
    """Return an encoded setting as a user would write it."""
    if isinstance(item, list):
        return f"({', '.join(_shown(part) for part in item)})"
    if not isinstance(item, dict):
        return repr(item)
    if "class" in item:
        settings = ", ".join(f"{key}={_shown(value)}" for key, value in item["settings"].items())
        return f"{item['class']}({settings})"
    return str(item["function"]) if "function" in item else "an array of other values"


def require_like(
    name: str, item: Any, w0: Any, *, whole_number: bool = False, optional: bool = False
) -> None:
    """Refuse what is neither an array like w0 nor, where that is meant, a whole number."""
    if whole_number:
        require_count(name, item, int)
        return
    if item is None and optional:
        return
    if type(item) is not type(w0) or item.shape != w0.shape or item.dtype != w0.dtype:
        raise ValueError(f"{name} is not an array like w0")
    require_finite(name, item)


def require_count(name: str, value: Any, kind: type) -> None:
    """Refuse what is not a finite number of a kind, zero or more."""
    allowed = int if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r}, not a finite number ≥ 0")


def require_rule(rule: Any, template: Any, w0: Any) -> None:
    """Check a step-size rule's memory against that of a fresh run."""
    if (rule is None) != (template is None) or not isinstance(rule, (dict, type(None))):
        raise ValueError("the step-size rule's memory is not that of this method")
    if rule is None:
        return
    if not set(template) <= set(rule) <= {*template, "last"}:
        raise ValueError(f"the step-size rule remembers {sorted(rule)}")
    for name, item in rule.items():
        if isinstance(template.get(name, w0), float):
            if isinstance(item, bool) or not isinstance(item, float) or not math.isfinite(item):
                raise ValueError(f"rule[{name!r}] is {item!r}, not a finite number")
        else:
            require_like(f"rule[{name!r}]", item, w0)


def require_memory(memory: Any, w0: Any) -> None:
    """Refuse a solver's memory that holds anything but numbers and arrays."""
    if not isinstance(memory, dict):
        raise ValueError("the solver's memory is not a table")
    for name, item in memory.items():
        if is_array_api_obj(item):
            require_finite(f"memory[{name!r}]", item)
        elif isinstance(item, bool) or not isinstance(item, (int, float)) or math.isnan(item):
            raise ValueError(f"memory[{name!r}] is {item!r}, neither a number nor an array")
