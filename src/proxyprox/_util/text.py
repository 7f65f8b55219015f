"""Text of the user, shown and never obeyed."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence

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


def without_formula(cell: object) -> object:
    """Return a cell of a table so that no spreadsheet takes it for a formula.

    Text that begins like a formula gets an apostrophe in front; numbers stay what they are.

    Parameters
    ----------
    cell : object
        A cell or the name of a column.

    Examples
    --------
    >>> without_formula("=1+1"), without_formula("-1.5"), without_formula("a")
    ("'=1+1", '-1.5', 'a')
    """
    # Spreadsheets compute the wide forms of the signs, too.
    signs = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    if not isinstance(cell, str) or not cell.lstrip(" \xa0").startswith(signs):
        return cell
    with contextlib.suppress(ValueError):
        if "_" not in cell and math.isfinite(float(cell)):
            return cell
    return f"'{cell}"
