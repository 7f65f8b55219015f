"""FisherProxy against the exact Fisher information."""

import pytest
import torch

from proxyprox.torch import FisherProxy


def test_the_diagonal_is_that_of_the_exact_fisher_information():
    torch.manual_seed(0)
    old = torch.nn.Linear(2, 3)
    X = torch.randn(40, 2)
    proxy = FisherProxy(torch.nn.Linear(2, 3), old, X, draws=200, damping=1e-6)
    p = old(X).softmax(1).detach()
    # Of one weight: E[(1{y = c} − p_c)²] x_j² = p_c (1 − p_c) x_j².
    exact = torch.einsum("nc,nj->cj", p * (1 - p), X.square()) / len(X)
    torch.testing.assert_close(proxy.fisher["weight"], exact, rtol=0.1, atol=0.01)
    values = FisherProxy(
        torch.nn.Linear(2, 1), torch.nn.Linear(2, 1), X, task="regression", draws=200
    )
    exact = X.square().mean(0)[None]
    torch.testing.assert_close(values.fisher["weight"], exact, rtol=0.1, atol=0.01)


def test_the_loss_is_the_weighted_distance_and_new_layers_are_free():
    torch.manual_seed(0)
    old = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 5))
    proxy = FisherProxy(model, old, torch.randn(10, 2))
    assert set(proxy.fisher) == {"0.weight", "0.bias"}
    away = {
        n: dict(model.named_parameters())[n] - dict(old.named_parameters())[n] for n in proxy.fisher
    }
    expected = sum((proxy.fisher[n] * a.square()).sum() / 2 for n, a in away.items())
    torch.testing.assert_close(proxy.loss(None), expected.detach())
    wrong = {"old": (model, torch.nn.Linear(7, 1), []), "model": (3, old, [])}
    for name, arguments in {**wrong, "inputs": (model, old, [])}.items():
        with pytest.raises((TypeError, ValueError), match=name):
            FisherProxy(*arguments)
