"""Every learning-rate scheduler of torch drives η."""

from __future__ import annotations

import pytest
import torch
from torch.optim import lr_scheduler as schedulers

from proxyprox.torch import EMA, ImplicitStep, ProxyProx

MAKERS = {
    "LambdaLR": lambda o: schedulers.LambdaLR(o, lambda k: 0.9**k),
    "MultiplicativeLR": lambda o: schedulers.MultiplicativeLR(o, lambda k: 0.9),
    "StepLR": lambda o: schedulers.StepLR(o, step_size=2),
    "MultiStepLR": lambda o: schedulers.MultiStepLR(o, milestones=[2, 4]),
    "ConstantLR": lambda o: schedulers.ConstantLR(o, factor=0.5, total_iters=3),
    "LinearLR": lambda o: schedulers.LinearLR(o, start_factor=0.2, total_iters=4),
    "ExponentialLR": lambda o: schedulers.ExponentialLR(o, gamma=0.8),
    "PolynomialLR": lambda o: schedulers.PolynomialLR(o, total_iters=5),
    "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, T_max=6),
    "CosineAnnealingWarmRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, T_0=3),
    "CyclicLR": lambda o: schedulers.CyclicLR(
        o, base_lr=0.1, max_lr=0.5, step_size_up=2, cycle_momentum=False
    ),
    "OneCycleLR": lambda o: schedulers.OneCycleLR(
        o, max_lr=0.5, total_steps=8, cycle_momentum=False
    ),
    "ReduceLROnPlateau": lambda o: schedulers.ReduceLROnPlateau(o, patience=0, threshold=10.0),
    "SequentialLR": lambda o: schedulers.SequentialLR(
        o, [schedulers.ConstantLR(o, 0.1), schedulers.ExponentialLR(o, 0.9)], milestones=[2]
    ),
    "ChainedScheduler": lambda o: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(o, 0.1, total_iters=2), schedulers.ExponentialLR(o, 0.9)]
    ),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=3),
}


def test_none_of_torchs_schedulers_is_missing():
    there = {
        name
        for name in schedulers.__all__
        if name not in ("LRScheduler", "_LRScheduler") and not name.startswith("_")
    }
    assert there <= set(MAKERS)


@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
@pytest.mark.parametrize("name", MAKERS)
def test_scheduler(name, tensor, make_toy):
    toy = make_toy()
    lr = torch.tensor(0.3) if tensor else 0.3
    optimizer = ProxyProx(
        toy.params, lr, proxy=toy.proxy, correction=EMA(0.2), inner=ImplicitStep(0.05), stop=3
    )
    scheduler = MAKERS[name](optimizer)
    start, used = toy.loss().item(), []
    for k in range(7):
        toy.train(optimizer, 1, first=k)
        used.append(optimizer.record.eta)
        scheduler.step(*((1.0,) if name == "ReduceLROnPlateau" else ()))
    assert len(set(used)) > 1, "the schedule must reach the steps"
    assert toy.loss().item() < start


def test_cosine_annealing_to_zero_ends_at_rest(make_toy):
    toy = make_toy()
    optimizer = ProxyProx(toy.params, 0.3, proxy=toy.proxy, inner=ImplicitStep(0.05), stop=3)
    scheduler = schedulers.CosineAnnealingLR(optimizer, T_max=4)
    for k in range(4):
        toy.train(optimizer, 1, first=k)
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0, abs=1e-12)
    before = toy.flat()
    torch.testing.assert_close(toy.train(optimizer, 1), before, rtol=0, atol=1e-12)
