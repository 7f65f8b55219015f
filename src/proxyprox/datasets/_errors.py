"""What can go wrong with data, as exceptions a program can tell apart."""

from __future__ import annotations

from proxyprox._text import printable

__all__ = ["DataError", "DatasetCorruptError", "DatasetError", "DatasetNotFoundError"]


class DataError(ValueError):
    """A user's table cannot be used; the message says where the trouble is and what to do."""

    def __init__(self, text: str = "") -> None:
        # Names of files and columns are a stranger's, and messages end up on a terminal.
        super().__init__(printable(text))


class DatasetError(OSError):
    """A public data set could not be provided."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """The set is in none of the places looked at and could not be downloaded."""


class DatasetCorruptError(DatasetError):
    """A file was found, but it is damaged or not the set it is named after."""
