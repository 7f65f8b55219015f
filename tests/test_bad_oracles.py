"""Oracles that answer with the wrong thing, at once or half-way: nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from tests.runs import SOLVERS

WRONG = {
    "short": (np.ones(1), ValueError, ["shape (1,)", "(2,)"]),
    "matrix": (np.ones((2, 2)), ValueError, ["shape (2, 2)", "(2,)"]),
    "float32": (np.ones(2, np.float32), TypeError, ["dtype float32", "float64"]),
    "integers": (np.ones(2, int), TypeError, ["dtype int64", "float64"]),
    "list": ([1.0, 1.0], TypeError, ["a list", "ndarray"]),
    "number": (1.0, TypeError, ["a float", "ndarray"]),
    "None": (None, TypeError, ["a NoneType", "ndarray"]),
}


class Late:
    """A well-behaved loss of which one answer changes from the n-th call on."""

    dim, repeatable = 2, True

    def __init__(self, which=None, after=0, answer=None):
        self.loss = pp.Quadratic(np.diag([1.0, 3.0]), b=np.array([1.0, -1.0]))
        self.which, self.left, self.answer = which, after, answer
        self.smoothness, self.strong_convexity = 3.0, 1.0
        self.sample, self.everything = self.loss.sample, self.loss.everything

    def _answer(self, name, *args):
        if name == self.which:
            self.left -= 1
            if self.left < 0:
                if isinstance(self.answer, BaseException):
                    raise self.answer
                return self.answer
        return getattr(self.loss, name)(*args)

    def value(self, w):
        return self._answer("value", w)

    def gradient(self, w, *batch):
        return self._answer("gradient", w, *batch)

    def hvp(self, w, v):
        return self._answer("hvp", w, v)

    def hessian(self, w):
        return self._answer("hessian", w)


PARTS = {"method": pp.ProxyProx(0.3), "stop": pp.stopping.Residual(1e-9), "rng": 0}


def call(objective, proxy, tmp_path, inner=None):
    return pp.minimize(
        pp.Problem(objective, proxy), np.ones(2), **PARTS, steps=8,
        inner=inner or pp.inner.Newton(), checkpoint=tmp_path / "run",
    )  # fmt: skip


def kept_steps(tmp_path, inner=None):
    given = {**PARTS, "inner": inner or pp.inner.Newton()}
    return pp.Run.load(tmp_path / "run", pp.Problem(Late(), Late()), np.ones(2), **given).steps


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("whose", ["target", "proxy"])
@pytest.mark.parametrize("after", [0, 4])
def test_a_gradient_of_the_wrong_kind(name, whose, after, tmp_path):
    answer, kind, words = WRONG[name]
    faulty = Late("gradient", after, answer)
    pair = (faulty, Late()) if whose == "target" else (Late(), faulty)
    with pytest.raises((kind, pp.OracleError)) as caught:
        call(*pair, tmp_path)
    error = caught.value
    text = str(error)
    for word in [f"the {whose}'s gradient", *words]:
        assert word in text
    assert isinstance(error, pp.OracleError) == (after > 0)
    if after:
        assert isinstance(error.__cause__, kind)
        assert error.result.steps > 0
        assert np.isfinite(error.result.w).all()
    assert kept_steps(tmp_path) == (error.result.steps if after else 0)


@pytest.mark.parametrize(
    ("which", "answer", "words"),
    [
        ("hessian", np.ones((2, 3)), ["proxy's hessian", "(2, 3)", "(2, 2)"]),
        ("hessian", "no", ["proxy's hessian", "a str", "(2, 2)"]),
        ("value", "no", ["proxy's value", "'no'", "a number"]),
        ("hvp", np.ones(3), ["proxy's hvp", "(3,)", "(2,)"]),
    ],
)
def test_other_answers_of_the_wrong_kind(which, answer, words, tmp_path):
    inner = {"hessian": pp.inner.Newton(), "hvp": pp.inner.NewtonCG(), "value": pp.LBFGS()}[which]
    with pytest.raises((ValueError, TypeError)) as caught:
        call(Late(), Late(which, 0, answer), tmp_path, inner)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("inner", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_proxy_gradient_that_is_not_finite(inner, after, bad, tmp_path):
    proxy = Late("gradient", after, np.full(2, bad))
    result = call(Late(), proxy, tmp_path, inner)
    assert result.status is pp.Status.DIVERGED
    assert not result.success
    assert "last good iterate" in result.message
    assert np.isfinite(result.w).all()
    assert kept_steps(tmp_path, inner) == result.steps < 8
    if result.steps == 0:
        assert result.w.tobytes() == np.ones(2).tobytes()


@pytest.mark.parametrize("after", [0, 6])
@pytest.mark.parametrize("error", [ZeroDivisionError("proxy"), RuntimeError("CUDA"), MemoryError()])
def test_a_proxy_that_raises(after, error, tmp_path):
    with pytest.raises(pp.OracleError) as caught:
        call(Late(), Late("gradient", after, error), tmp_path)
    assert caught.value.__cause__ is error
    assert type(error).__name__ in str(caught.value)
    assert caught.value.result.steps == kept_steps(tmp_path)
    assert (caught.value.result.steps > 0) == (after > 0)
