"""What the estimators judge by: how a fit is searched for, and when its intervals are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FittingPolicy:
    """How a fit to few labels is searched for.

    Set by docs/results/labels/report.md and docs/results/labels/teacher_tables.md, except where
    an entry says "no record: a judgement".

    Attributes
    ----------
    exact_size : int
        Columns, directions or rows up to which matrices are decomposed or compared exactly. No
        record: a judgement of time.
    rank : int
        Directions kept of a wider moment. No record: a judgement of time.
    growth : float
        Factor by which η grows from step to step.
    patience : int
        A path ends after this many steps without a lower held-out loss.
    tolerance : float
        Relative changes, gradients and shares below it count as nothing.
    few : int
        Labels up to which thirds are left out five times, and labels alone are preferred unless
        another way is better by a standard error: one split of few labels is a gamble.
    l2_grid : tuple of float
        L2 strengths tried with more than few labels, in units of the proxy's smoothness.
    l1_grid : tuple of float
        L1 strengths tried, in units of the one that sets all coefficients to zero.
    thetas : tuple of float
        Weights θ of the labels' loss that mixtures try.
    shrinks : tuple of float
        L2 strengths that labels alone try if they are few, in units of the mean square of the
        columns divided by their number. Set by benchmarks/labels_few.py --tuning.
    usual, spread : float
        What is expected of them before labels are seen: mean and deviation of the decimal
        logarithm. Set as those are.
    fold_steps : int
        Newton steps of folds at most. No record: a judgement.
    fold_pace : float
        A Hessian is formed anew if a step gains more than this share of what the last one did. No
        record: a judgement.
    fold_gap : float
        What a fold's fit may lie above its minimum, as a share of the loss: held-out losses differ
        by more. No record: a judgement.
    fewest : int
        Rows below which neither inputs are compared nor answers held out. No record: a judgement.
    apart : float
        Ratio of spreads, and distance in spreads, beyond which X_proxy does not look like X. No
        record: a judgement.
    """

    exact_size: int = 1500
    rank: int = 96
    growth: float = 1.1
    patience: int = 25
    tolerance: float = 1e-5
    few: int = 250
    l2_grid: tuple[float, ...] = tuple(np.geomspace(1e-1, 1e-6, 10).tolist())
    l1_grid: tuple[float, ...] = tuple(np.geomspace(1.0, 1e-3, 8).tolist())
    thetas: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
    shrinks: tuple[float, ...] = tuple(np.logspace(2.5, -2.0, 10).tolist())
    usual: float = 0.5
    spread: float = 0.75
    fold_steps: int = 12
    fold_pace: float = 0.2
    fold_gap: float = 1e-6
    fewest: int = 10
    apart: float = 3.0


@dataclass(frozen=True)
class InferencePolicy:
    """When a teacher is believed to be independent, and when standard errors are given.

    Attributes
    ----------
    student_ridges : tuple of float
        L2 strengths of a teacher's student, in units of the inputs' largest moment; the last one
        lets it exist. Set by docs/results/labels/teacher_tables.md.
    enough : int
        Rows for each parameter from which on the last strength is taken without a search. No
        record: a judgement.
    too_alike : float
        Chance of independent rows below which X_proxy and y_proxy count as made from the labels.
        Set by docs/results/other_data/report.md.
    wrong_answers : float
        Wrong answers on labelled rows that a classifier is assumed to give at least. Set by
        benchmarks/labels_mean.py.
    widest : int
        Parameters up to which standard errors are computed. No record: a judgement of time.
    """

    student_ridges: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-7)
    enough: int = 100
    too_alike: float = 0.01
    wrong_answers: float = 2.0
    widest: int = 400


FITTING = FittingPolicy()
INFERENCE = InferencePolicy()
