"""Speed of the torch optimiser on a GPU: one outer step against its floor and an eager loop.

    PYTHONPATH=src:. python benchmarks/torch_gpu.py --json torch_gpu.json

In one run, on one device, for ResNet-18 with a CIFAR stem:

- *fast*: milliseconds of an outer step of ``ProxyProx`` with images on the device, channels last,
  bf16, compiled, gradients replayed from CUDA graphs;
- *floor*: the bare forward and backward passes of the same number of samples in the same batch
  shapes, each the best of compiled and not, replayed from a CUDA graph;
- *eager*: the same step written straightforwardly: eager bf16, the proxy in batches of the inner
  steps' size, parameters updated one by one.

The three are timed in turns, so that a disturbance meets them alike. Goals: fast ≤ 1.15 × floor,
and eager ≥ 3 × fast. ``--tiny`` runs all of it on a CPU, to see that it runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from experiments.cifar10.model import ResNet18, half_precision
from experiments.cuda_graphs import CapturedGradient, DeviceImages, GraphedProxy, Plans
from proxyprox.torch import EMA, ImplicitStep, ProxyProx
from proxyprox.torch.proxy import proxy_mode

GAMMA, ETA, DECAY = 0.01, 0.25, 0.1


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--inner", type=int, default=20)
    parser.add_argument("--proxy", type=int, default=2560)
    parser.add_argument("--anchor-batch", type=int, default=128)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a CPU")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.tiny:
        given.batch, given.inner, given.proxy, given.anchor_batch = 8, 2, 32, 16
        given.images, given.width, given.rounds, given.no_compile = 64, 4, 2, True
    return given


class Timer:
    """Milliseconds of work on the device."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"

    def __call__(self, work: Any) -> float:
        if not self.cuda:
            begun = time.perf_counter()
            work()
            return 1e3 * (time.perf_counter() - begun)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end))


class Bench:
    """The three things to time, on one set of images."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.device = torch.device(given.device)
        generator = torch.Generator().manual_seed(0)
        pixels = torch.randint(0, 256, (given.images, 32, 32, 3), generator=generator).byte()
        labels = torch.randint(0, 10, (given.images,), generator=generator)
        self.data = DeviceImages(pixels, labels, device=self.device)
        self.subset = torch.randperm(given.images, generator=generator)[: given.proxy]

    def model(self, *, channels_last: bool = True, compiled: bool = False) -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = ResNet18(self.given.width).to(self.device)
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
        compiled = compiled and not self.given.no_compile and self.device.type == "cuda"
        return model, torch.compile(model, dynamic=False) if compiled else model

    def loss_of(self, network: Any) -> Any:
        def loss(plan: Any) -> Any:
            x, y = self.data.batch(plan)
            with half_precision(self.device):
                scores = network(x)
            return cross_entropy(scores.float(), y)

        return loss

    def plans(self, indices: Any, seed: int) -> Plans:
        return Plans(self.data, indices, self.given.batch, augment=True, seed=seed)

    def fast(self) -> Any:
        given = self.given
        model, network = self.model(compiled=True)
        loss, graph = self.loss_of(network), not given.no_graphs
        params = list(model.parameters())
        everyone = torch.arange(given.images)
        batches, plans = self.plans(everyone, 1), self.plans(self.subset, 2)
        target = CapturedGradient(
            loss, params, batches.next(), graph=graph, buffers=list(model.buffers())
        )
        proxy = GraphedProxy(
            plans, loss, params, full_batch=given.anchor_batch, model=model, graph=graph
        )
        optimizer = ProxyProx(
            params, ETA, proxy=proxy, correction=EMA(DECAY), inner=ImplicitStep(GAMMA),
            stop=given.inner, model=model, probe=False,
        )  # fmt: skip

        def step() -> None:
            target.backward(batches.next())
            optimizer.step()

        return step

    def bare(self, size: int) -> dict[str, Any]:
        """Return forward + backward of one prepared batch, by how it is run."""
        variants = {}
        plan = self.data.plain_plan(torch.arange(size) % self.given.images)
        x, y = self.data.batch(plan)
        for compiled in (True, False):
            if compiled and (self.given.no_compile or self.device.type != "cuda"):
                continue
            model, network = self.model(compiled=compiled)

            def loss(x: Any, network: Any = network) -> Any:
                with half_precision(self.device):
                    scores = network(x)
                return cross_entropy(scores.float(), y)

            with proxy_mode(model, "frozen"):
                captured = CapturedGradient(
                    loss, list(model.parameters()), x, graph=not self.given.no_graphs
                )
            name = "compiled, graph" if compiled else "graph"
            # The lambda keeps what the graph reads alive; the graph itself does not.
            variants[name] = lambda c=captured: c._graph.replay() if c._graph else c(x)
        return variants

    def eager(self) -> Any:
        """The step as one writes it first: no layout, no compiler, no graph, no foreach."""
        given = self.given
        model, _ = self.model(channels_last=False)
        params = list(model.parameters())
        everyone = torch.arange(given.images)
        batches, plans = self.plans(everyone, 1), self.plans(self.subset, 2)
        estimate: list[Any] = []

        def gradient(plan: Any) -> list[Any]:
            model.zero_grad()
            x, y = self.data.batch(plan)
            with torch.autocast(
                self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
            ):
                loss = cross_entropy(model(x.contiguous()), y)
            loss.backward()
            return [p.grad for p in params]

        def step() -> None:
            g = [x.clone() for x in gradient(batches.next())]
            anchor = [torch.zeros_like(p) for p in params]
            chunks = plans.everything(given.batch)
            for plan in chunks:
                for a, x in zip(anchor, gradient(plan), strict=True):
                    a += x / len(chunks)
            with torch.no_grad():
                difference = [x - a for x, a in zip(g, anchor, strict=True)]
                if not estimate:
                    estimate.extend(difference)
                for m, d in zip(estimate, difference, strict=True):
                    m += DECAY * (d - m)
                centre = [p.clone() for p in params]
            for _ in range(given.inner):
                found = gradient(plans.next())
                with torch.no_grad():
                    for p, c, m, x in zip(params, centre, estimate, found, strict=True):
                        p.copy_((p / GAMMA + c / ETA - (x + m)) / (1 / GAMMA + 1 / ETA))

        return step


def main() -> None:
    given = options()
    if given.device == "cuda":
        torch.backends.cudnn.benchmark = True
    bench = Bench(given)
    timer = Timer(bench.device)
    shapes = {given.batch: 1 + given.inner}
    chunks = given.proxy // given.anchor_batch
    shapes[given.anchor_batch] = shapes.get(given.anchor_batch, 0) + chunks
    begun = time.perf_counter()
    fast = bench.fast()
    bare = {size: bench.bare(size) for size in shapes}
    eager = bench.eager()
    for work in (fast, fast, eager, *(v for some in bare.values() for v in some.values())):
        work()
    prepared = time.perf_counter() - begun
    repeat = 10 if bench.device.type == "cuda" else 1
    times: dict[str, list[float]] = {"fast": [], "eager": []}
    single: dict[int, dict[str, list[float]]] = {
        size: {name: [] for name in some} for size, some in bare.items()
    }
    for _ in range(given.rounds):
        times["fast"].append(timer(fast))
        for size, some in bare.items():
            for name, replay in some.items():
                work = lambda r=replay: [r() for _ in range(repeat)]  # noqa: E731
                single[size][name].append(timer(work) / repeat)
        if len(times["eager"]) < max(3, given.rounds // 3):
            times["eager"].append(timer(eager))
    medians = {
        size: {name: statistics.median(found) for name, found in some.items()}
        for size, some in single.items()
    }
    floor = sum(count * min(medians[size].values()) for size, count in shapes.items())
    step, slow = statistics.median(times["fast"]), statistics.median(times["eager"])
    result = {
        "device": torch.cuda.get_device_name() if bench.device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "batch": given.batch,
        "inner_steps": given.inner,
        "proxy_images": given.proxy,
        "anchor_batch": given.anchor_batch,
        "width": given.width,
        "samples_per_outer_step": given.batch * (1 + given.inner) + given.proxy,
        "fast_ms": step,
        "fast_ms_spread": [min(times["fast"]), max(times["fast"])],
        "floor_ms": floor,
        "eager_ms": slow,
        "fast_over_floor": step / floor,
        "eager_over_fast": slow / step,
        "bare_ms": {str(size): some for size, some in medians.items()},
        "evaluations": {str(size): count for size, count in shapes.items()},
        "preparation_s": prepared,
    }
    if bench.device.type == "cuda":
        result["peak_memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(f"{result['device']}, torch {result['torch']}, prepared in {prepared:.0f} s")
    for size, some in medians.items():
        print(f"  batch {size:5d} × {shapes[size]:3d}: " + ", ".join(
            f"{name} {value:.3f} ms" for name, value in some.items()))  # fmt: skip
    print(f"fast  {step:9.2f} ms an outer step")
    print(f"floor {floor:9.2f} ms   ratio {step / floor:.3f}   (goal ≤ 1.15)")
    print(f"eager {slow:9.2f} ms   ratio {slow / step:.2f}   (goal ≥ 3)")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
