"""The best of several strengths by cross-validation, where labels are many.

Folds share their passes: one product with the rows serves all of them, and each takes Newton steps
with the Hessian of all rows, from which its own differs little.
"""

from __future__ import annotations

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
    trained, tested = np.zeros((2, loss.design.rows, len(folds)))
    for f, (train, test) in enumerate(folds):
        trained[train, f] = loss.sample_weight[train]
        tested[test, f] = loss.sample_weight[test]
    trained /= trained.sum(axis=0)
    curve, best, w = np.full(len(strengths), np.inf), (0, loss.zeros(), np.zeros(0)), None
    # From the strongest on, each from the minimiser before.
    for place in np.argsort(strengths)[::-1].tolist():
        strong = loss.with_l2(strengths[place])
        w = np.asarray(minimize(strong).w) if w is None else inference.minimise(strong, w)
        hessian = np.asarray(strong.hessian(w))
        factor = arrays.factor_positive(
            arrays.add_to_diagonal(hessian, FITTING.tolerance**2 * float(hessian.max()))
        )
        if factor is None:
            continue
        W = np.tile(w, (len(folds), 1))
        for _ in range(FITTING.fold_steps):
            slopes = fold_pass(loss, W, trained)[1] + np.array([strong.ridge(v) for v in W])
            moves = np.array([arrays.solve_factored(factor, slope) for slope in slopes])
            W = W - moves
            # What is left is less than what a step has gained.
            if float((slopes * moves).sum(axis=1).max()) <= FITTING.tolerance * strong.value(w):
                break
        curve[place] = fold_pass(loss, W, tested)[0].sum() / tested.sum()
        if curve[place] == curve.min():
            best = place, w, W
    place, w, W = best
    predicted = np.zeros((loss.design.rows, loss.family.outputs))
    for (_, test), own in zip(folds, W, strict=True):
        predicted[test] = inference.means(loss.design.take(test), loss.family, own)
    return w, place, curve, predicted


def fold_pass(loss: GLM, W: Array, weights: Array) -> tuple[Array, Array]:
    """Return, for parameters in the rows of W, weighted losses and gradients in one pass.

    ``weights`` has a column for each; the L2 term is left out.
    """
    design, family, (count, _) = loss.design, loss.family, W.shape
    outputs, totals = family.outputs, list[Array]()
    matrix = W.reshape(count, design.width, outputs).transpose(1, 0, 2).reshape(design.width, -1)

    def pull(rows: slice, part: Any) -> Array:
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
        scaled = weights[rows][:, :, None] * slopes.reshape(-1, count, outputs)
        return design.pull_part(part, scaled.reshape(len(scaled), -1))

    gradients = design.visit(pull, 0.0).reshape(design.width, count, outputs)
    return np.sum(totals, axis=0), gradients.transpose(1, 0, 2).reshape(count, -1)
