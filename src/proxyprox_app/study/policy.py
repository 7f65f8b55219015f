"""What tables are judged by: rules of thumb, each in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TablePolicy:
    """Thresholds at which a table is read in another way, or asked about.

    They were set by hand on the fixtures of ``tests/app/study``; no record stands behind them. Each
    one only decides what a note says, or what ``--as``, ``--task`` and ``--model`` overrule.

    Attributes
    ----------
    most_values, components : int
        Values of a text column up to which it is a category, and components of a text.
    enough : float
        Share of the cells that must be numbers (dates) for a column of text to be one of those.
    several : int
        Rows from which a column may be an identifier because no value occurs twice.
    pure : float
        Share of the labels' variation that the values of a column explain if it determines them.
    codes : float
        Share of codes among numbers from which a column is one of codes; fewer are slips.
    fewest, fewest_of_class : int
        Labels without which nothing is fitted; labels of a class without which it is left out.
    few_values, most_classes : int
        Whole numbers up to which a target is taken for classes; classes that are too many.
    folds, resamples : int
        Folds of the cross-validation, and resamples of the held-out losses.
    outlying : float
        Distance of a number from the median, in interquartile ranges, from which it is an outlier.
    perfect, perfect_squared : float
        Share of the base rate's log-loss, and squared error, below which a score is questioned.
    rare : float
        Share of the largest class from which accuracy says little.
    """

    most_values: int = 40
    components: int = 30
    enough: float = 0.9
    several: int = 10
    pure: float = 0.9
    codes: float = 0.01
    fewest: int = 10
    fewest_of_class: int = 3
    few_values: int = 10
    most_classes: int = 50
    folds: int = 5
    resamples: int = 1000
    outlying: float = 20.0
    perfect: float = 0.06
    perfect_squared: float = 0.001
    rare: float = 0.9


POLICY = TablePolicy()
