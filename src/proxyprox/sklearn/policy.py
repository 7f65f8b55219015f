"""What the estimators judge by: how a fit is searched for, and when its intervals are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FittingPolicy:
    """How labels and a teacher's answers are weighed, and when standard errors are given.

    Set by benchmarks/labels_few.py --tuning, except where an entry says otherwise.

    Attributes
    ----------
    exact_size : int
        Parameters or rows up to which matrices are factorised. No record: a judgement of time.
    widest : int
        Columns, or parameters, up to which second moments and standard errors are computed. No
        record: a judgement of time.
    few : int
        Labels up to which a third is left out five times, and more than a fifth once; columns up to
        which mixtures are tried although they are more than the labels.
    tolerance : float
        Relative gradients, gains and shares below it count as nothing.
    strengths : tuple of float
        L2 strengths tried, in units of the mean square of the columns divided by the labels, for
        more columns p than labels n times the root of p/n.
    usual, spread : float
        Which of them is expected before labels of classes are seen: centre and width of Cauchy's
        law of the decimal logarithm, whose tails let a few labels that are easy to separate have
        it their way; of the pull towards a teacher's student the width is twice that.
    thetas : tuple of float
        Weights θ of the labels' loss that mixtures try.
    fold_steps : int
        Newton steps of folds at most, for each strength. No record: a judgement.
    fold_pace : float
        A Hessian is formed anew if a step gains more than this share of what the last one did. No
        record: a judgement.
    too_alike : float
        Chance of independent rows below which X_proxy and y_proxy count as made from the labels.
        Set by docs/results/other_data/report.md.
    wrong_answers : float
        Wrong answers, or events, on labelled rows that a model of classes, or of counts, is assumed
        to miss at least. Set by benchmarks/labels_mean.py.
    """

    exact_size: int = 1500
    widest: int = 400
    few: int = 250
    tolerance: float = 1e-6
    strengths: tuple[float, ...] = tuple(np.logspace(3.0, -4.0, 12).tolist())
    usual: float = 0.5
    spread: float = 0.75
    thetas: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)
    fold_steps: int = 12
    fold_pace: float = 0.2
    too_alike: float = 0.01
    wrong_answers: float = 2.0


FITTING = FittingPolicy()
