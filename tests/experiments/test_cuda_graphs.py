"""Images on the device and captured gradients; the graphs themselves need CUDA."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from experiments.cuda_graphs import (
    CapturedGradient,
    DeviceImages,
    GraphedProxy,
    Plans,
    image_layout,
)
from proxyprox.torch import EMA, ImplicitStep, Plain, Proxy, ProxyProx

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def pictures(count=24, device="cpu", **options):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 8, 8, 3), generator=generator).byte()
    labels = torch.arange(count) % 3
    return DeviceImages(pixels, labels, pad=2, device=device, **options), pixels, labels


def network(device="cpu"):
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
    )
    return layers.to(device=device, memory_format=image_layout(device))


def losses(data, model):
    def loss(plan):
        x, y = data.batch(plan)
        return cross_entropy(model(x), y)

    return loss


@pytest.mark.parametrize("device", DEVICES)
def test_a_captured_gradient_is_the_gradient_and_leaves_statistics(device):
    data, _, _ = pictures(device=device)
    model, reference = network(device), network(device)
    first, second = data.plain_plan(torch.arange(6)), data.plain_plan(torch.arange(6, 12))
    captured = CapturedGradient(
        losses(data, model), list(model.parameters()), first, buffers=list(model.buffers())
    )
    assert int(model[1].num_batches_tracked) == 0
    for plan in (first, second):
        value = captured(plan)
        expected = losses(data, reference)(plan)
        found = torch.autograd.grad(expected, list(reference.parameters()))
        torch.testing.assert_close(value, expected.detach())
        torch.testing.assert_close(captured.gradients, list(found))
    torch.testing.assert_close(model[1].running_mean, reference[1].running_mean)


class Drawn:
    """Batches that are drawn as they are asked for, pass after pass."""

    def __init__(self, draw):
        self.draw = draw

    def __iter__(self):
        return self.draw()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("correction", [Plain(), EMA(0.3)])
def test_the_graphed_proxy_takes_the_steps_of_an_ordinary_one(device, correction):
    ends = []
    for graphed in (True, False):
        data, _, _ = pictures(device=device)
        model = network(device)
        loss = losses(data, model)
        plans = Plans(data, torch.arange(12), 4, augment=False, seed=3)
        if graphed:
            proxy = GraphedProxy(plans, loss, model.parameters(), full_batch=6)
        else:
            inner = Drawn(lambda plans=plans: (plans.next() for _ in range(3)))
            whole = Drawn(lambda plans=plans: iter(plans.everything(6, shuffled=True)))
            proxy = Proxy(inner, loss, full=whole)
        optimizer = ProxyProx(
            model.parameters(), 0.2, proxy=proxy, correction=correction, stop=3,
            inner=ImplicitStep(0.02), measure_residual=True, probe=False,
        )  # fmt: skip
        optimizer.zero_grad()
        loss(data.plain_plan(torch.arange(24))).backward()
        optimizer.step()
        ends.append(([p.detach() for p in model.parameters()], optimizer.record.residual))
    torch.testing.assert_close(ends[0][0], ends[1][0], rtol=1e-4, atol=1e-6)
    assert ends[0][1] == pytest.approx(ends[1][1], rel=1e-3)
