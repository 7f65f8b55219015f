"""What every family keeps to, one that a user wrote among them.

Derivatives against finite differences, means and links against SciPy, losses against scikit-learn's
metrics, the expected curvature against the mean over drawn labels, NumPy against torch, and runs.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.special
from sklearn import metrics

import proxyprox as pp
from proxyprox.problems import FAMILIES, Family, LogLink
from proxyprox.problems.families import CanonicalFamily, classifier_of


@dataclass(frozen=True)
class InverseGaussian(LogLink, Family):
    """The family of the documentation, with a parameter added: the loss is divided by it."""

    dispersion: float = 1.0

    name = "inverse-gaussian"
    labels = "a number above zero for every row"

    def valid(self, t):
        return t > 0

    def loss(self, z, t):
        return (t * self.mean(-z) - 1) ** 2 / (2 * t) / self.dispersion

    def slope(self, z, t):
        return (self.mean(-z) - t * self.mean(-2 * z)) / self.dispersion

    def curvature(self, z, t):
        return (2 * t * self.mean(-2 * z) - self.mean(-z)) / self.dispersion

    def expected_curvature(self, z):
        return self.mean(-z) / self.dispersion


LABELS = {
    "linear": lambda z, rng: rng.normal(z),
    "logistic": lambda z, rng: (rng.random(z.shape) < scipy.special.expit(z)).astype(int),
    "softmax": lambda z, rng: (z + rng.gumbel(size=z.shape)).argmax(axis=1),
    "poisson": lambda z, rng: rng.poisson(np.exp(z)),
    "gamma": lambda z, rng: rng.gamma(2.0, np.exp(z) / 2),
    "inverse-gaussian": lambda z, rng: rng.wald(np.exp(z), 4.0),
}  # fmt: skip
"""Labels drawn from each family's model at the linear predictors z."""

MEANS = {
    "linear": lambda z: z,
    "logistic": scipy.special.expit,
    "softmax": lambda z: scipy.special.softmax(z, axis=1),
}
"""The means of families without the logarithmic link, by SciPy."""

LOSSES = {
    "linear": lambda t, mean: metrics.mean_squared_error(t, mean) / 2,
    "logistic": metrics.log_loss,
    "softmax": metrics.log_loss,
    "gamma": lambda t, mean: metrics.mean_gamma_deviance(t, mean) / 2,
    "inverse-gaussian": lambda t, mean: metrics.mean_tweedie_deviance(t, mean, power=3) / 2,
}
"""Losses by scikit-learn, where it has them to the same constant."""

ROWS = 40


@pytest.fixture(params=[*FAMILIES, "inverse-gaussian"])
def name(request):
    return request.param


@pytest.fixture
def family(name):
    kind = FAMILIES.get(name, InverseGaussian)
    return kind((0, 1, 2)[: 3 if name == "softmax" else 2]) if kind.classifier else kind()


@pytest.fixture
def z(family):
    shape = ROWS if family.outputs == 1 else (ROWS, family.outputs)
    return np.random.default_rng(0).uniform(-2, 2, size=shape)


@pytest.fixture
def t(family, name, z):
    codes = family.encode(LABELS[name](z, np.random.default_rng(1)))
    return codes if family.outputs == 1 else np.eye(family.outputs)[codes]


def derivative(function, z, h=1e-5):
    """Central differences in each linear predictor, along a last axis for several of them."""
    if z.ndim == 1:
        return (function(z + h) - function(z - h)) / (2 * h)
    steps = h * np.eye(z.shape[1])
    return np.stack([(function(z + e) - function(z - e)) / (2 * h) for e in steps], axis=-1)


def test_slope_and_curvature_are_derivatives(family, z, t):
    got = derivative(lambda at: family.loss(at, t), z)
    np.testing.assert_allclose(family.slope(z, t), got, atol=1e-7)
    got = derivative(lambda at: family.slope(at, t), z)
    np.testing.assert_allclose(family.curvature(z, t), got, atol=1e-6, rtol=1e-6)


def test_means_and_losses_are_those_of_scipy_and_scikit_learn(family, name, z, t):
    mean = MEANS.get(name, np.exp)(z)
    np.testing.assert_allclose(family.mean(z), mean, rtol=1e-12)
    if isinstance(family, CanonicalFamily):
        slope = derivative(family.log_partition, z)
        np.testing.assert_allclose(slope, mean, atol=1e-7)
    if name in LOSSES:
        labels = t if family.outputs == 1 else t.argmax(axis=1)
        assert np.mean(family.loss(z, t)) == pytest.approx(LOSSES[name](labels, mean), rel=1e-9)
    means = mean[:5] if family.outputs > 1 else mean[:, None]
    for row in means:
        back = family.link(row)
        again = family.mean(back if family.outputs == 1 else back[None])
        np.testing.assert_allclose(np.ravel(again), row, rtol=1e-12)


def test_the_family_of_classes_is_named_by_their_number():
    assert [classifier_of(classes).name for classes in ((0, 1), "abc")] == ["logistic", "softmax"]


def test_what_is_no_label_is_refused_by_name_and_row(family, name, t):
    wrong = {"poisson": -1.0, "gamma": 0.0, "inverse-gaussian": 0.0}.get(name, np.inf)
    labels = np.ones(4)
    labels[2] = wrong
    with pytest.raises(ValueError, match=r"^y must be .* at row 2"):
        family.encode(labels)
    rate = family.base_rate(t, np.ones(len(t)))
    assert np.all(np.isfinite(family.link(rate)))


@pytest.fixture
def loss(family, name):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)) / 2
    points = X @ np.array([0.5, -0.5]) if family.outputs == 1 else X @ rng.normal(size=(2, 3))
    return pp.GLM(X, LABELS[name](points, rng), family, l2=0.05, intercept=True)


def test_the_label_free_model_has_the_expected_curvature(loss, family):
    proxy, w = loss.label_free(), np.random.default_rng(4).normal(size=loss.dim)
    if family.outputs == 1:
        A = np.column_stack([loss.design.X, np.ones(60)])
        weights = family.expected_curvature(A @ w)
        want = A.T @ (weights[:, None] * A) / 60 + np.diag([0.05, 0.05, 0.0])
        np.testing.assert_allclose(proxy.hessian(w), want, rtol=1e-12)
    slope = [(proxy.value(w + e) - proxy.value(w - e)) / 2e-5 for e in 1e-5 * np.eye(loss.dim)]
    np.testing.assert_allclose(proxy.gradient(w), slope, atol=1e-8)
    curve = [
        (proxy.gradient(w + e) - proxy.gradient(w - e)) / 2e-5 for e in 1e-5 * np.eye(loss.dim)
    ]
    np.testing.assert_allclose(proxy.hessian(w), curve, atol=1e-8)
    rows = [proxy.gradient(w, np.array([row])) for row in range(60)]
    np.testing.assert_allclose(np.mean(rows, axis=0), proxy.gradient(w), atol=1e-12)
    np.testing.assert_allclose(proxy.gradient(proxy.zeros()), 0.0, atol=1e-15)


def test_units_are_the_curvature_of_the_weighted_constant_model(loss, family):
    X, y, weights = loss.design.X * [1.0, 0.0], loss.targets, np.linspace(0.5, 3, 60)
    labels = np.eye(3)[y] if family.outputs > 1 else y
    rate = family.base_rate(labels, weights)
    # Classes that are rare by chance count as a little less rare.
    close = 0.01 if family.classifier else 1e-12
    np.testing.assert_allclose(rate, np.average(labels, axis=0, weights=weights), rtol=close)
    bends = family.expected_curvature(family.link(np.atleast_1d(rate)[None]))
    bends = np.diag(bends[0]) if family.outputs > 1 else bends.ravel()
    squares = np.append((X**2).mean(axis=0), 1.0)
    for l2 in (0.05, 0.0):
        made = pp.GLM(X, y, family, l2=l2, intercept=True, sample_weight=weights)
        with np.errstate(divide="ignore"):
            sizes = 1 / np.sqrt(np.outer(squares, bends) + np.array([l2, l2, 0.0])[:, None])
        # An empty column has no unit of its own.
        sizes = np.where(np.isfinite(sizes), sizes, 1.0)
        np.testing.assert_allclose(made.units(), sizes.ravel(), rtol=close)


def test_parameters_of_a_family_are_part_of_it(loss):
    X, y = loss.design.X, np.linspace(1, 2, 60)
    one, two = (pp.GLM(X, y, InverseGaussian(s)) for s in (1.0, 2.0))
    assert one.fingerprint() != two.fingerprint()
    assert one.fingerprint() == pp.GLM(X, y, InverseGaussian(1.0)).fingerprint()
    assert one.same_curvature(pp.GLM(X, y, InverseGaussian(1.0)))
    assert not one.same_curvature(two)
    assert not one.same_curvature(pp.GLM(X, y + 1, InverseGaussian(1.0)))
