"""An audit that meets NaN, or a target without a minimum, says so and gives no numbers."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics import audit, plan

A, B = np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(4)
TARGET = pp.FunctionObjective(lambda w: A @ w - B, value=lambda w: float(w @ A @ w / 2 - B @ w))
ROUND = (lambda w: float(w @ w) / 2, lambda w: w)


def holed(which: str, radius: float = 0.2) -> pp.FunctionProxy:
    def out(w: np.ndarray) -> bool:
        return bool(np.linalg.norm(w) >= radius)

    return pp.FunctionProxy(
        lambda w: np.nan if which == "value" and out(w) else float(w @ w) / 2,
        lambda w: np.full(4, np.nan) if which == "gradient" and out(w) else w,
        hessian=lambda w: np.eye(4),
    )


@pytest.mark.parametrize("which", ["value", "gradient"])
def test_a_proxy_that_is_nan_on_the_path_is_named(which: str) -> None:
    found = audit(pp.Problem(TARGET, holed(which)), np.zeros(4), rng=0)
    assert found.verdict is pp.diagnostics.Verdict.DO_NOT_USE
    assert f"the proxy's {which} is NaN or infinite at a distance of 1" in found.sentence
    assert "ε" not in str(found)
    assert str(found).splitlines()[0] == found.sentence


def test_nan_at_the_start_or_of_a_further_proxy_is_an_error() -> None:
    with pytest.raises(pp.NonFiniteError, match="the proxy's gradient is NaN or infinite at w0"):
        audit(pp.Problem(TARGET, holed("gradient", 0.0)), np.zeros(4), rng=0)
    with pytest.raises(pp.NonFiniteError, match=r"others\[0\]'s value is NaN"):
        audit(pp.Problem(TARGET, ROUND), np.zeros(4), others=[holed("value")], rng=0)


@pytest.mark.parametrize("curve", [-1.0, 0.0])
def test_a_target_that_curves_downwards_gets_no_numbers(curve: float) -> None:
    wrong = (lambda w: float(w @ A @ w / 2 + 1), lambda w: curve * (A @ w) + B)
    found = audit(pp.Problem(wrong, ROUND), np.ones(4), rng=0)
    assert found.sentence.startswith("No verdict: the target curves downwards, or not at all")
    assert "check_grad" in found.sentence
    assert "e+" not in str(found)
    assert isinstance(found.recommended.proxy, pp.Zero)
    with pytest.raises(ValueError, match=r"came to a verdict.*check_grad"):
        plan(found)


def test_a_target_whose_loss_runs_away_gets_no_numbers() -> None:
    # Curved upwards as it should be, but to another side than the value says.
    wrong = (lambda w: float((w + 9) @ (w + 9)), lambda w: w - 9)
    found = audit(pp.Problem(wrong, ROUND), np.ones(4), rng=0)
    assert "the target's loss runs away, from 400 to 1.2" in found.sentence
