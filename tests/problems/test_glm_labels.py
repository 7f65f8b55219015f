"""How the labels are written does not matter; the order of given classes does."""

import numpy as np
import pytest

from proxyprox import logistic_regression, softmax_regression


@pytest.mark.parametrize(
    "coding",
    [(0, 1), (-1, 1), (1, 2), (0.0, 1.0), ("no", "yes"), (False, True), (-7, 300)],
    ids=str,
)
def test_label_codings_are_one_loss(coding, textbook):
    rng = np.random.default_rng(0)
    X, positive = rng.normal(size=(14, 3)), rng.random(14) < 0.5
    y = np.where(positive, coding[1], coding[0])
    w = rng.normal(size=3)
    want = textbook("logistic", X, positive.astype(int), w)
    assert logistic_regression(X, y).value(w) == pytest.approx(want, rel=1e-12)
    assert logistic_regression(X, y.tolist()).value(w) == pytest.approx(want, rel=1e-12)
    assert logistic_regression(X, y, classes=coding).value(w) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("classes", [("yes", "no"), ("no", "yes")])
def test_the_second_of_given_classes_is_positive(classes):
    X = np.array([[1.0], [2.0]])
    loss = logistic_regression(X, [classes[1], classes[0]], classes=classes)
    # At w = 1 the positive row pulls up, the negative one down.
    want = (np.log1p(np.exp(-1.0)) + np.log1p(np.exp(2.0))) / 2
    assert loss.value(np.ones(1)) == pytest.approx(want, rel=1e-12)


def test_softmax_columns_follow_given_classes():
    X = np.eye(3)
    shuffled = softmax_regression(X, ["b", "c", "a"], classes=("b", "c", "a"))
    want = softmax_regression(X, [0, 1, 2])
    w = np.random.default_rng(0).normal(size=9)
    assert shuffled.value(w) == pytest.approx(want.value(w), rel=1e-12)


def test_string_classes_of_softmax_are_sorted(textbook):
    X = np.random.default_rng(0).normal(size=(4, 2))
    w = np.random.default_rng(1).normal(size=6)
    loss = softmax_regression(X, ["b", "a", "c", "a"])
    assert loss.value(w) == pytest.approx(textbook("softmax", X, [1, 0, 2, 0], w), rel=1e-12)
