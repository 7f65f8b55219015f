"""Learning-rate schedulers of torch drive η."""

from __future__ import annotations

import pytest
import torch
from torch.optim import lr_scheduler as schedulers

MAKERS = [
    lambda o: schedulers.LambdaLR(o, lambda k: 0.9**k),
    lambda o: schedulers.CyclicLR(o, 0.1, 0.5, step_size_up=2, cycle_momentum=False),
    lambda o: schedulers.OneCycleLR(o, 0.5, total_steps=8, cycle_momentum=False),
    lambda o: schedulers.ReduceLROnPlateau(o, patience=0, threshold=10.0),
    lambda o: schedulers.SequentialLR(
        o, [schedulers.ConstantLR(o, 0.1), schedulers.ExponentialLR(o, 0.9)], milestones=[2]
    ),
    lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=3),
]


@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
@pytest.mark.parametrize("make", MAKERS)
def test_scheduler(make, tensor, toy):
    optimizer = toy.optimizer(lr=torch.tensor(0.3) if tensor else 0.3)
    scheduler = make(optimizer)
    start, used = toy.loss().item(), []
    for k in range(7):
        toy.train(optimizer, 1, first=k)
        used.append(optimizer.record.eta)
        plateau = isinstance(scheduler, schedulers.ReduceLROnPlateau)
        scheduler.step(*((1.0,) if plateau else ()))
    assert len(set(used)) > 1, "the schedule must reach the steps"
    assert toy.loss().item() < start


def test_cosine_annealing_to_zero_ends_at_rest(toy):
    optimizer = toy.optimizer()
    scheduler = schedulers.CosineAnnealingLR(optimizer, T_max=4)
    for k in range(4):
        toy.train(optimizer, 1, first=k)
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0, abs=1e-12)
    before = toy.flat()
    torch.testing.assert_close(toy.train(optimizer, 1), before, rtol=0, atol=1e-12)
