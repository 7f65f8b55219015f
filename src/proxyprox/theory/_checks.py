"""Argument checks that only the theory needs; the plain ones are the package's own."""

from __future__ import annotations

import operator

from proxyprox._checks import positive

# 1/(4δ) is computed in floating point by the caller and again here.
_ROUNDING = 1e-12
_MOST_STEPS = 10**300


def step_count(name: str, value: int) -> int:
    """Return ``value`` as an int of at least one that a float can hold.

    Parameters
    ----------
    name : str
        Name of the argument, used in the message.
    value : int
        Number of steps.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    ValueError
        If the value is not an integer in ``1, …, 10**300``.

    Examples
    --------
    >>> step_count("steps", 10)
    10
    """
    try:
        steps = operator.index(value)
    except TypeError:
        steps = 0
    if not 1 <= steps <= _MOST_STEPS:
        raise ValueError(
            f"{name} must be an integer from 1 to 10**300, got {value!r}: "
            f"pass the number of outer iterations as an int."
        )
    return steps


def step_size(eta: float, delta: float) -> float:
    """Return ``eta`` when it meets η ≤ 1/(4δ), the condition of every theorem.

    Parameters
    ----------
    eta : float
        Step size η.
    delta : float
        Similarity constant δ, already checked to be non-negative.

    Returns
    -------
    float
        The step size.

    Raises
    ------
    ValueError
        If ``eta`` is not positive or exceeds 1/(4δ) by more than rounding.

    Examples
    --------
    >>> step_size(0.25, 1.0)
    0.25
    """
    number = positive("eta", eta)
    if delta > 0 and number > (1 + _ROUNDING) / (4 * delta):
        raise ValueError(
            f"eta must be at most 1/(4*delta) = {1 / (4 * delta):.6g} for delta={delta!r}, "
            f"got {eta!r}: lower eta, or use a proxy with a smaller delta."
        )
    return number


def at_least(name: str, value: float, least: float, why: str) -> None:
    """Refuse ``value < least``.

    Parameters
    ----------
    name : str
        Name of the argument, used in the message.
    value : float
        Its value.
    least : float
        The smallest value allowed.
    why : str
        Where the limit comes from, as the end of a sentence.

    Raises
    ------
    ValueError
        If ``value`` is below ``least``.

    Examples
    --------
    >>> at_least("H", 2.0, 1.0, "no loss is less smooth than it is strongly convex")
    """
    if value < least:
        raise ValueError(f"{name} must be at least {least!r}, got {value!r}: {why}; raise {name}.")


def smoothness_and_convexity(H: float, mu: float) -> tuple[float, float]:
    """Return ``H`` and ``mu`` when they can belong to one loss, H ≥ μ > 0.

    Parameters
    ----------
    H : float
        Smoothness of the loss.
    mu : float
        Strong convexity of the same loss.

    Returns
    -------
    tuple of float
        The two constants.

    Raises
    ------
    ValueError
        If either is not positive, or ``H`` is below ``mu``.

    Examples
    --------
    >>> smoothness_and_convexity(2, 1)
    (2.0, 1.0)
    """
    H, mu = positive("H", H), positive("mu", mu)
    at_least("H", H, mu, "a loss's smoothness H is never below its strong convexity mu")
    return H, mu
