from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from proxyprox import Problem, ProxyProx, minimize  # noqa: E402
from proxyprox.torch import FlatLoss  # noqa: E402

INPUTS = torch.tensor(np.random.default_rng(0).standard_normal((30, 3)))
LABELS = torch.tensor(np.random.default_rng(1).standard_normal(30))
ZERO = {"w": torch.zeros((3, 1), dtype=torch.float64), "b": torch.zeros(1, dtype=torch.float64)}


def loss(params: Any, rows: Any) -> Any:
    return (INPUTS[rows] @ params["w"] + params["b"] - LABELS[rows, None]).square().mean() / 2


def model() -> FlatLoss:
    return FlatLoss(
        loss, ZERO, sample=lambda rng: torch.tensor(rng.integers(30, size=8)),
        full=torch.arange(30),
    )  # fmt: skip


def columns() -> np.ndarray:
    return np.hstack([INPUTS.numpy(), np.ones((30, 1))])


def test_gradients_and_products_are_those_of_least_squares() -> None:
    flat, X = model(), columns()
    w, v = (
        torch.tensor([0.3, -1.0, 2.0, 0.5]).double(),
        torch.tensor([1.0, 0.0, -1.0, 2.0]).double(),
    )
    expected = X.T @ (X @ w.numpy() - LABELS.numpy()) / 30
    np.testing.assert_allclose(flat.gradient(w).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(flat.hvp(w, v).numpy(), X.T @ X @ v.numpy() / 30, atol=1e-12)
    rows = torch.tensor([1, 4])
    part = X[[1, 4]]
    expected = part.T @ (part @ w.numpy() - LABELS.numpy()[[1, 4]]) / 2
    np.testing.assert_allclose(flat.gradient(w, rows).numpy(), expected, atol=1e-12)
    assert (flat.samples(rows), flat.samples(None)) == (2, 30)


def test_flat_and_named_are_the_same() -> None:
    flat = model()
    named = flat.unflatten(torch.arange(4.0).double())
    assert named["w"].shape == (3, 1)
    assert named["b"].tolist() == [3.0]
    single = FlatLoss(lambda w: (w @ w) / 2, torch.ones(3, dtype=torch.float64))
    assert single.value(single.start) == 1.5
    assert single.unflatten(single.start).shape == (3,)
    assert single.sample(np.random.default_rng(0)) is None


def test_without_everything_there_are_only_samples() -> None:
    sampled = FlatLoss(loss, ZERO, sample=lambda rng: torch.tensor([0]))
    assert sampled.hvp is None
    assert sampled.value is None
    assert sampled.everything is None
    with pytest.raises(ValueError, match="full="):
        sampled.gradient(sampled.start)


def test_a_run_begins_where_the_parameters_are() -> None:
    there = {"w": torch.full((3, 1), 2.0).double(), "b": torch.ones(1).double()}
    flat = FlatLoss(loss, there, full=torch.arange(30))
    result = minimize(Problem(flat, flat), method=ProxyProx(eta=1e6), steps=3)
    best = np.linalg.lstsq(columns(), LABELS.numpy(), rcond=None)[0]
    np.testing.assert_allclose(result.w.numpy(), best, atol=1e-4)
    assert result.values[0] == pytest.approx(float(loss(there, torch.arange(30))), rel=1e-12)
    assert torch.equal(flat.start, torch.tensor([2.0, 2.0, 2.0, 1.0]).double())
