"""Per-sample gradients of networks by torch.func, clipped, perturbed and put into ``.grad``."""

import runpy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples/private_rows_of_networks.py"
NetworkRows = runpy.run_path(str(EXAMPLE))["NetworkRows"]
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(30, 4, generator=GENERATOR)
Y = torch.arange(30) % 3


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Tanh(), nn.Linear(5, 3))


def one_by_one(model, rows):
    """Return the gradients of single rows by ordinary backward passes."""
    model.eval()
    found = []
    for i in rows:
        loss = cross_entropy(model(X[i : i + 1]), Y[i : i + 1])
        parts = torch.autograd.grad(loss, list(model.parameters()))
        found.append(torch.cat([part.reshape(-1) for part in parts]).double().numpy())
    model.train()
    return np.array(found)


@pytest.mark.parametrize(("block", "clip"), [(4, 0.3), (100, 1e6)])
def test_clipped_sums_are_those_of_single_rows(block, clip):
    model = network()
    rows = NetworkRows(model, cross_entropy, X, Y, classes=3, block=block)
    each = one_by_one(model, range(30))
    norms = np.linalg.norm(each, axis=1, keepdims=True)
    expected = (each * np.minimum(1, clip / norms)).sum(axis=0)
    found = rows.clipped_sum(rows.point(), clip=clip)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert all(module.training for module in model.modules())


def test_rows_that_cannot_be_used_count_as_absent():
    X_bad, Y_bad = X.clone(), Y.clone()
    X_bad[0, 0], X_bad[1, 1], Y_bad[2], Y_bad[3] = torch.nan, torch.inf, 7, -1
    model = network()
    bad = NetworkRows(model, cross_entropy, X_bad, Y_bad, classes=3)
    good = NetworkRows(model, cross_entropy, X[4:], Y[4:], classes=3)
    found, expected = (rows.clipped_sum(rows.point(), clip=0.5) for rows in (bad, good))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    huge = X.clone()
    huge[0] = 1e38
    rows = NetworkRows(model, cross_entropy, huge, Y, classes=3)
    few = NetworkRows(model, cross_entropy, X[1:], Y[1:], classes=3)
    others = few.clipped_sum(rows.point(), clip=0.5)
    assert np.linalg.norm(rows.clipped_sum(rows.point(), clip=0.5) - others) <= 0.5 * (1 + 1e-6)


def test_a_row_at_which_the_network_raises_counts_as_absent():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(4, 3))
    tokens = torch.arange(20).reshape(10, 2) % 5
    odd, labels, others = tokens.clone(), torch.arange(10) % 3, torch.arange(10) != 3
    odd[3, 0] = 99
    few, more = (
        NetworkRows(model, cross_entropy, *table, classes=3)
        for table in ((tokens[others], labels[others]), (odd, labels))
    )
    expected = few.clipped_sum(few.point(), clip=0.5)
    found = more.clipped_sum(few.point(), clip=0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
