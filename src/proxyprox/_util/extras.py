"""Packages that only some users install."""

from __future__ import annotations

import importlib
from types import ModuleType


class MissingExtraError(ImportError):
    """A feature needs a package of an optional extra that is not installed."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra brings it.

    Parameters
    ----------
    module : str
        Dotted name, e.g. ``"matplotlib.figure"``.
    extra : str
        Extra of the ``proxyprox`` distribution that installs it.
    purpose : str
        What the user was about to do, as the subject of "… needs": ``"drawing figures"``.

    Returns
    -------
    module : ModuleType
        The imported module.

    Raises
    ------
    MissingExtraError
        When the package is not installed.

    Examples
    --------
    >>> require("json", extra="plot", purpose="drawing figures").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed ({error}): "
            f'pip install "proxyprox[{extra}]".'
        ) from error
