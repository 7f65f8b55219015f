"""Texts: what a user wrote, shown and never obeyed, and what to write for a name not known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

# Characters that act on a terminal, or that make text look like other text: C0 without tab and
# newline, delete and C1, those that change the direction of writing, and tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return text with every character that acts on a terminal written as an escape.

    Newlines and tabs stay, and the line ends of Windows become newlines.

    Parameters
    ----------
    text : str
        Anything: a cell, the name of a file, a message.

    Examples
    --------
    >>> print(printable("\x1b[31mred"))
    \x1b[31mred
    """
    text = str(text).replace("\r\n", "\n")
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def list_names(names: Sequence[str], most: int = 10) -> str:
    """Return names separated by commas, and how many more there are.

    Examples
    --------
    >>> list_names(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def short(value: Any, most: int = 40) -> str:
    """Return what a value looks like, on one line and cut short."""
    # An object's address tells nothing.
    shown = re.sub(r" at 0x[0-9A-Fa-f]+", "", " ".join(repr(value).split()))
    return shown if len(shown) <= most else shown[: most - 3] + "..."


# -- names that are not there ----------------------------------------------------------------------

# What to write, and the names that SciPy, scikit-learn and others use for it.
INSTEAD = {
    "minimize(problem, steps=...)": "maxiter max_iter maxit iterations n_iter max_steps epochs",
    "minimize(problem, budget=Budget(target_calls=...))": "maxfun maxfev max_nfev max_evals",
    "minimize(problem, w0=...)": "x0 x w start init",
    "Problem(target, proxy): the target is first, as objective=": "fun func f loss target value",
    "Problem(target, proxy): the proxy is its second argument": "surrogate cheap proxy",
    "Problem((value, gradient), proxy), a pair of functions": "jac grad gradient fprime",
    "a proxy with a hessian or hvp; the target's is not asked for": "hess hessp hessian",
    "functions of w alone: Problem(lambda w: f(w, *args), proxy)": "args",
    "Problem(target, proxy, bounds=(lower, upper))": "bounds lower upper box",
    "bounds or a penalty, such as Problem(target, proxy, bounds=(lower, upper))": "constraints",
    "Problem(target, proxy, penalty=L1(...))": "penalty regularizer regularization reg l1",
    "the loss's own l2, as in logistic_regression(X, y, l2=...)": "l2 alpha weight_decay",
    "its entries as arguments: steps= for maxiter, tol= or atol= for gtol": "options",
    "tol= (a share of the first gradient's norm) or atol= (a norm) of minimize": (
        "ftol gtol xtol rtol eps tolerance"
    ),
    "minimize(problem, progress=True), or print(result)": "disp verbose",
    "rng=": "seed random_state",
    "method=ProxyProx(eta=...)": "lr learning_rate step_size stepsize eta",
    "the loss's own, as in logistic_regression(X, y, batch_size=...)": "batch_size",
    "Outputs(model, loss, workers=...), or ValueObjective(value, workers=...)": "n_jobs workers",
    "Outputs(model, loss, ...), which takes it": "timeout jacobian",
    "method=ProxyBFGS(memory=...)": "maxcor memory",
    "Problem(target, proxy, scales=...)": "scale",
    "it in minimize(problem, ...), not here": "w0 method steps budget tol atol inner safeguard",
}
# SciPy's methods and others', by what is nearest to them here.
METHODS = {
    "ProxyBFGS()": "lbfgsb lbfgs bfgs cg newtoncg trustncg tnc slsqp proxybfgs",
    'SGD(eta="auto")': "sgd gd gradientdescent",
    "Adam(0.01)": "adam adamw",
    'ProxyProx(eta="auto")': "proxyprox",
    'DANE(eta="auto")': "dane",
}


def _answer(name: str, table: dict[str, str]) -> str:
    return next((answer for answer, names in table.items() if name in names.split()), "")


def unknown_argument(called: str, name: str, value: object, known: Sequence[str]) -> TypeError:
    """Return the error for an argument that a function does not have: what to write instead."""
    close = difflib.get_close_matches(name, known, n=1)
    found = _answer(name, INSTEAD) or (f"{close[0]}=" if close else "")
    write = f"Write {found}." if found else f"It takes {', '.join(known)}."
    return TypeError(f"{called} takes no {name}=, got {short(value)}. {write}")


def method_named(name: str) -> str:
    """Return what to write for a method that is given by its name."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    found = _answer(plain, METHODS)
    instead = f"write method={found}, or " if found else ""
    advice = f"{instead}leave it out for what suits the problem."
    return f"{advice[0].upper()}{advice[1:]}"
