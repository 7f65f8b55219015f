"""The best of several strengths by cross-validation, where labels are many.

Folds share their passes: one product with the rows serves all of them, and each takes Newton steps
with the Hessian of all rows, from which its own differs little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from proxyprox import GLM, minimize
from proxyprox._util import arrays
from proxyprox.problems.families import CanonicalFamily
from proxyprox.sklearn import inference
from proxyprox.sklearn.policy import FITTING

Array = Any
Folds = Sequence[tuple[Array, Array]]


def best_strength(
    loss: GLM, strengths: Sequence[float], folds: Folds
) -> tuple[Array, int, Array, Array]:
    """Return the minimiser for the best strength, its place, all held-out losses, predictions.

    The predictions are those of the best strength for rows that its folds did not see.
    """
    rows, count = loss.design.rows, len(folds)
    # The first column is the fit to all rows.
    trained, tested = np.zeros((2, rows, count + 1))
    trained[:, 0] = loss.sample_weight
    for f, (train, test) in enumerate(folds, 1):
        trained[train, f] = loss.sample_weight[train]
        tested[test, f] = loss.sample_weight[test]
    trained /= trained.sum(axis=0)
    curve, best, W = np.full(len(strengths), np.inf), (0, np.zeros((count + 1, loss.dim))), None
    # From the strongest on, each from the minimisers before.
    for place in np.argsort(strengths)[::-1].tolist():
        strong = loss.with_l2(strengths[place])
        if W is None:
            W = np.tile(np.asarray(minimize(strong).w), (count + 1, 1))
        before = left = math.inf
        for step in range(FITTING.fold_steps):
            values, slopes = fold_pass(loss, W, trained)
            slopes += np.array([strong.ridge(v) for v in W])
            if step == 0 or left > FITTING.fold_pace * before:
                hessian = np.asarray(strong.hessian(W[0]))
                slack = FITTING.tolerance**2 * float(hessian.max())
                factor = arrays.factor_positive(arrays.add_to_diagonal(hessian, slack))
                if factor is None:
                    break
            moves = np.array([arrays.solve_factored(factor, slope) for slope in slopes])
            W = W - moves
            # The next step would gain about as small a share of this one's.
            before, left = left, float((slopes * moves).sum(axis=1).max())
            share = min(left / before, 1.0) if step else 1.0
            if left * share <= FITTING.fold_gap * float(values[0]):
                break
        curve[place] = fold_pass(loss, W, tested, pull=False)[0].sum() / tested.sum()
        if curve[place] == curve.min():
            best = place, W
    place, W = best
    predicted = np.zeros((rows, loss.family.outputs))
    for (_, test), own in zip(folds, W[1:], strict=True):
        predicted[test] = inference.means(loss.design.take(test), loss.family, own)
    w = np.asarray(minimize(loss.with_l2(strengths[place]), W[0]).w)
    return w, place, curve, predicted


def fold_pass(loss: GLM, W: Array, weights: Array, *, pull: bool = True) -> tuple[Array, Array]:
    """Return, for parameters in the rows of W, weighted losses and gradients in one pass.

    ``weights`` has a column for each; the L2 term is left out, and gradients unless ``pull``.
    """
    design, family, (count, _) = loss.design, loss.family, W.shape
    outputs, totals = family.outputs, list[Array]()
    matrix = W.reshape(count, design.width, outputs).transpose(1, 0, 2).reshape(design.width, -1)

    def visit(rows: slice, part: Any) -> Array:
        z = np.asarray(design.push(part, matrix)).reshape(-1, outputs)
        targets = np.repeat(loss.targets[rows], count)
        z = z if outputs > 1 else z[:, 0]
        if outputs > 1:
            targets = np.eye(outputs)[targets]
        if isinstance(family, CanonicalFamily):
            losses, mean = family.potential(z)
            product = targets * z
            losses = losses - (product.sum(axis=1) if outputs > 1 else product)
            losses, slopes = (
                losses + family.constant(targets[:, 0] if outputs > 1 else targets),
                mean - targets,
            )
        else:
            losses, slopes = family.loss(z, targets), family.slope(z, targets)
        totals.append((weights[rows] * losses.reshape(-1, count)).sum(axis=0))
        if not pull:
            return 0.0
        scaled = weights[rows][:, :, None] * slopes.reshape(-1, count, outputs)
        return design.pull_part(part, scaled.reshape(len(scaled), -1))

    gradients = np.asarray(design.visit(visit, 0.0))
    if pull:
        gradients = gradients.reshape(design.width, count, outputs)
        gradients = gradients.transpose(1, 0, 2).reshape(count, -1)
    return np.sum(totals, axis=0), gradients
